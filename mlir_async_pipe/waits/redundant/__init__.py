"""The pass `async-pipe-simplify-waits`: waits, commits and marks that change nothing."""
