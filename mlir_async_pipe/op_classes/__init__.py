"""Modules of op classes for the bindings, one a dialect; see `bindings`."""
