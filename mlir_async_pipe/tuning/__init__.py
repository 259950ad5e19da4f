"""Tuning: many versions of one kernel, compiled beside each other, reported in order.

Public: `mlir_async_pipe.tune` (here `tune.tune`) and what it gives (`tune.Tuning`, `tune.Outcome`). Imports the calls
(api), the machine and the costs.
"""
