"""An expanded inner loop inside a loop that is to be expanded too.

    scf.for %k {                               scf.for %k {
      copies      {stage = 0}                    copies               {stage = 0}
      scf.for %j {…} {part_stages = [2,3,3]}     inner prologue       {stage = 2, order = 3}
                                          -->    scf.for, its kernel  {stage = 3, order = 2}
                                                 inner epilogue       {stage = 3, order = 4}
    }                                          }

The prologue, kernel and epilogue of the inner loop are one statement each of the outer one:
here the next tile's first fragments are loaded before this tile's last ones are used.
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
from mlir_async_pipe.expand.plan.pipeline_plan import Plan
from mlir_async_pipe.expand.write.kernel_units import GROUPED
from mlir_async_pipe.loops import annotations as names
from mlir_async_pipe.loops.statements import is_statement, is_synchronisation
from mlir_async_pipe.session.diagnostics import PipelineError


def check_nested(plan: Plan) -> None:
    """Raise PipelineError for an inner pipeline that an outer one cannot carry on:
    nested-async (its waits would have to be derived anew) and inner-loop-versioned."""
    parts = names.parts_of(plan.loop)
    if not parts:
        return
    if plan.groups and not _stay_together(plan.loop, parts):
        raise PipelineError(
            "cannot pipeline: the prologue, kernel and epilogue of an inner pipelined loop with "
            "async statements of its own have to follow each other in one stage of the outer loop",
            code="nested-async",
            at=plan.loop,
            notes=(("one of its async ops", plan.groups[0].members[0].ops[0]),),
        )
    versioned = plan.trip_count is None and plan.short_trip == "version" and plan.last_stage > 0
    if versioned and len(set(parts)) > 1 and len({stage for stage, _ in parts}) > 1:
        raise PipelineError(
            "cannot pipeline: the inner loop's trip count is not known, so it needs a version for "
            "short trips, and its parts cannot stand in different stages",
            code="inner-loop-versioned",
            at=plan.loop,
            advice='give the inner loop async_pipe.short_trip = "predicate", or "assume" if it '
            "always runs long enough",
        )


def _stay_together(loop: Operation, parts: tuple[tuple[int, int], ...]) -> bool:
    """Whether the parts of an inner loop are in one stage, with nothing between them."""
    stages, orders = {stage for stage, _ in parts}, [order for _, order in parts]
    others = [
        names.order_of(op) for op in operations(loop.block) if op != loop and is_statement(op)
    ]
    between = [o for o in others if o is not None and orders[0] <= o <= orders[-1]]
    return len(stages) == 1 and orders == sorted(orders) and not between


@dataclass(frozen=True)
class Span:
    """The ops between two markers around an inner loop: later, all that took its place.

    Markers, because ops cannot be remembered by hash: it changes with their operands."""

    first: Operation
    last: Operation

    @staticmethod
    def around(loop: Operation) -> Span:
        """Put the markers down."""
        first = create("async_pipe.marker", ip=before(loop), loc=loop.location)
        last = create("async_pipe.marker", ip=after(loop), loc=loop.location)
        return Span(first, last)

    def close(self, loop: Operation) -> list[Operation]:
        """The ops in between but for the loop itself; the markers go."""
        siblings = operations(self.first.block)
        inside = siblings[siblings.index(self.first) + 1 : siblings.index(self.last)]
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
        if GROUPED in op.attributes or (is_statement(op) and not is_synchronisation(op)):
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
