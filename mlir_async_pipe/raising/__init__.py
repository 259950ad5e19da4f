"""Loops that front ends left as branches between blocks become `scf.for`.

`loop_shapes` reads blocks as loops, ifs and straight lines; `counted` says how often a loop runs;
`write_loops` writes it; `raise_loops` is the pass `async-pipe-raise-loops`. Imports bindings,
session and vocabulary. Public: the pass.
"""
