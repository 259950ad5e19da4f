"""Tuning: many versions of one kernel, compiled beside each other, reported in order.

Public: `mlir_async_pipe.tune` (here `tune.tune`) and what it gives (`tune.Tuning`, `tune.Outcome`).
One candidate's way is `evaluate`, what was found before is in a `store`, how many blocks fit is
`occupancy`. Imports the calls (api), the machine and the costs; only the command imports it.
"""
