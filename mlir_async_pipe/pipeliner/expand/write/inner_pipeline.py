"""Puts what an inner loop became into its places in the outer one, which is expanded next.

prologue, kernel, epilogue     -->     one statement each, or one scf.execute_region for all
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    before,
    create,
    operations,
    set_integer,
    walk,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import is_derived_again, is_statement
from mlir_async_pipe.pipeliner.expand.write.kernel_units import GROUPED


@dataclass(frozen=True)
class MarkedOps:
    """The ops between two markers around an inner loop: later, all that took its place.

    Markers, because ops cannot be remembered by hash: it changes with their operands."""

    first: Operation
    last: Operation

    @staticmethod
    def around(loop: Operation) -> MarkedOps:
        """Put the markers down."""
        first = create("async_pipe.marker", ip=before(loop), loc=loop.location)
        last = create("async_pipe.marker", ip=after(loop), loc=loop.location)
        return MarkedOps(first, last)

    def close(self, loop: Operation | None = None) -> list[Operation]:
        """The ops in between but for the loop itself, if it is there; the markers go."""
        siblings = operations(self.first.block)
        inside = siblings[siblings.index(self.first) + 1 : siblings.index(self.last)]
        if loop is not None:
            inside.remove(loop)
        self.first.erase()
        self.last.erase()
        return inside


def place_as_one(
    parts: tuple[tuple[int, int], ...], ops: list[Operation], results: list[Value]
) -> list[Value]:
    """Make one statement of `ops`, which replaced an inner loop with async statements: its waits
    stay its own, and at its end nothing of it is in flight. Returns what stands for `results`."""
    first = ops[0]
    region = create(
        names.GROUPING_OP,
        (),
        [result.type for result in results],
        {"no_inline": ir.UnitAttr.get(first.context)},
        regions=1,
        ip=before(first),
        loc=first.location,
    )
    inside = ir.InsertionPoint(region.regions[0].blocks.append())
    end = create("scf.yield", results, ip=inside, loc=first.location)
    for op in ops:
        op.move_before(end)
    for op in walk(region):
        names.remove(op, (GROUPED,))
    _place(region, parts[0])
    return list(region.results)


def label_parts(
    parts: tuple[tuple[int, int], ...], ops: list[Operation], kernel: Operation
) -> None:
    """Give `ops`, which replaced the inner loop, their places in the outer one. `kernel` is
    the kernel loop or the branch around it; what stands before it is the prologue."""
    part = 0
    for op in ops:
        if op == kernel:
            part = 1
        if GROUPED in op.attributes or (is_statement(op) and not is_derived_again(op)):
            _place(op, parts[part])
        if op == kernel:
            part = 2
    for op in (inner for top in ops for inner in walk(top)):
        names.remove(op, (GROUPED,))


def place_unexpanded(loop: Operation) -> None:
    """An inner loop that stayed as it is: one statement, where its kernel would have been."""
    parts = names.parts_of(loop)
    if parts:
        _place(loop, parts[1])


def _place(op: Operation, place: tuple[int, int]) -> None:
    stage, order = place
    set_integer(op, names.STAGE, stage, 64)
    set_integer(op, names.ORDER, order, 64)
