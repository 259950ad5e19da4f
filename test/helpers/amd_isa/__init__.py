"""AMD's assembly, run lane by lane; shares no module with the package, its judge apart."""
