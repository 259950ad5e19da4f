"""Sinks `num_stages` from a loop that loads nothing itself into the loops inside of it that do.

    scf.for %tile {                               scf.for %tile {
      %sum = scf.for %k { copy; add }      -->      %sum = scf.for %k { copy; add } {num_stages = 3}
      store %sum                                    store %sum
    } {num_stages = 3}                            }

The number stands on the outer loop where others have one for a whole kernel, or for a persistent one.
A loop over the rows of a tile that is a copy as a whole is no such loop inside: that loop's own
iterations are what is to be pipelined.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, operations, walk_named
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import reads_global_memory, requested_loops
from mlir_async_pipe.facts.loops.statements import computes, copies_of, only_reads, read_body
from mlir_async_pipe.session.passes import NoOptions, register
from mlir_async_pipe.session.report import Session

# What moves; what is said of a loop's own iterations (`independent`) stays.
_SUNK = (
    names.NUM_STAGES,
    names.STAGE_THROUGH,
    names.ISSUE,
    names.FRAGMENTS,
    names.SWIZZLE,
    names.STORE_THROUGH,
    names.RESIDUALS,
    names.WAIT_AT,
    names.EPILOGUE,
    names.SHORT_TRIP,
)


@register(
    "async-pipe-normalise-nests",
    "sink num_stages into the loops inside that load, where only they do",
)
def run(module: Any, options: NoOptions, session: Session) -> None:
    asked = requested_loops(module)
    for loop in asked:
        inside = [op for op in walk_named(loop, "scf.for".__eq__) if op != loop]
        if names.NUM_STAGES in loop.attributes and not any(inner in asked for inner in inside):
            _sink(loop, session)


def _sink(loop: Operation, session: Session) -> None:
    inside = list(_loops_in(loop))
    if not inside or loads_itself(loop) or not all(map(computes, inside)):
        return
    given = [(name, loop.attributes[name]) for name in _SUNK if name in loop.attributes]
    names.remove(loop, [name for name, _ in given])
    session.diagnostics.remark(
        f"this loop loads nothing itself, so its '{names.NUM_STAGES}' is that of the loop inside; "
        "with overlap-outer the copies of the next iteration of this one start early too",
        code="inner-loop-pipelined",
        at=loop,
        notes=tuple(("this loop is pipelined", inner) for inner in inside),
    )
    for inner in inside:
        for name, value in given:
            inner.attributes[name] = value
        _sink(inner, session)


def loads_itself(loop: Operation) -> bool:
    """Whether there is something in the loop's own iterations to run ahead."""
    body = read_body(loop)
    return bool(copies_of(body).statements) or any(only_reads(s, "global") for s in body.statements)


def _loops_in(loop: Operation) -> Iterator[Operation]:
    """The outermost scf.for inside of an op that read global memory."""
    for region in loop.regions:
        for block in region.blocks:
            for op in operations(block):
                if op.name != "scf.for":
                    yield from _loops_in(op)
                elif reads_global_memory(op):
                    yield op
