"""Which loops of a module are to be pipelined, and which others could be."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.plain_values import plain_values
from mlir_async_pipe.bindings.raw_ops import Operation, walk, walk_named
from mlir_async_pipe.facts.loops.annotations import NUM_STAGES, is_inside_pipeline, is_requested
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.vocabulary import accesses


@plain_values()
def find_loops(module: Any, *, annotated: bool = True) -> list[Operation]:
    """All scf.for that are to be pipelined, outer before inner, in textual order.

    With `annotated` False the innermost ones that read global memory and that nobody annotated:
    those that `num_stages` may help. A loop inside that reads none belongs to the computation.
    """
    loops = walk_named(module, "scf.for".__eq__)
    if annotated:
        return [loop for loop in loops if is_requested(loop)]
    return [
        loop
        for loop in loops
        if not is_requested(loop)
        and not is_inside_pipeline(loop)
        and not any(
            inner.name == "scf.for" and reads_global_memory(inner)
            for inner in walk(loop)
            if inner != loop
        )
        and reads_global_memory(loop)
    ]


def counted_loops(module: Any) -> list[Operation]:
    """Those that are to be pipelined in a number of stages."""
    return [loop for loop in find_loops(module) if NUM_STAGES in loop.attributes]


def reads_global_memory(loop: Operation) -> bool:
    """Whether anything in a loop reads global memory."""
    return any(
        not access.writes and root_of(access.memory).space == "global"
        for op in walk(loop)
        for access in accesses(op)
    )
