"""Rewrites of annotated loops before anything is decided about them, each a registered pass.

`normalise_pass` runs them in order; `raise_loops` (`async-pipe-raise-loops`) makes loops of blocks `scf.for`, for
front ends that leave branches. Imports loops, values, dependence, plan and lowering's scopes.
"""
