"""Carries the author's `async_pipe.independent` from a loop to its accesses.

    scf.for { memref.load; memref.store } {async_pipe.independent}
      -->  … memref.load {async_pipe.independent = 1 : i64} …     (one number a loop)

The loop goes when it is expanded, its accesses stand in prologue, kernel and epilogue; the loop
around is written once for each role. The
number on them is what the checker goes by: where it cannot tell whether two accesses of one
loop conflict, the author has said that they do not. A proven conflict stays one.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    ancestors,
    integer_attribute,
    set_integer,
    walk,
)
from mlir_async_pipe.loops.annotations import INDEPENDENT
from mlir_async_pipe.vocabulary import accesses, use_of


def mark_independent(loops: list[Operation], module: Any) -> None:
    """Number the accesses of each loop of which it is asserted, outer loops before inner ones in
    `loops`, and of those around, which are written once more where warps have roles."""
    around = (above for loop in loops for above in (*reversed(list(ancestors(loop))), loop))
    loops = [above for above in dict.fromkeys(around) if _is_asserted(above)]
    if not loops:
        return
    taken = max(integer_attribute(op, INDEPENDENT) or 0 for op in walk(module))
    # Inner loops first: what an outer loop asserts holds for all that stands in it.
    for number, loop in enumerate(reversed(loops), taken + 1):
        for op in list(walk(loop)):
            if op != loop and (accesses(op) or use_of(op) == "copy"):
                set_integer(op, INDEPENDENT, number, 64)


def _is_asserted(op: Operation) -> bool:
    return op.name == "scf.for" and INDEPENDENT in op.attributes
