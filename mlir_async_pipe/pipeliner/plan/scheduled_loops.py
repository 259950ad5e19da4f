"""The loops of a module that are to be expanded."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, ancestors, walk_named
from mlir_async_pipe.facts.loops import annotations as names


def scheduled_loops(module: Any) -> list[Operation]:
    """All loops whose ops carry stages, outer before inner, in textual order."""
    return [op for op in walk_named(module, "scf.for".__eq__) if names.in_op_form(op)]


def innermost(loops: list[Operation]) -> list[Operation]:
    """The loops that hold no other of them, in textual order."""
    holders = {above for loop in loops for above in ancestors(loop)}
    return [loop for loop in loops if loop not in holders]
