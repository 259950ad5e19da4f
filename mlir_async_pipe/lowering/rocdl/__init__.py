"""AMD: ISA and hsaco, waves and copies to LDS, and reading counts back."""
