"""Which barriers of the input are kept as they are instead of derived again.

    func.call @produce()             statement 0
    gpu.barrier                      kept, before statement 1 and in its stage
    func.call @consume()             statement 1

What such calls touch is not known, so neither is what the barrier between them is for: it
keeps its op, and stays between the same instances of them. A schedule that runs it at another
time than the two sides is refused (`opaque-barrier`).
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.pipeliner.dependence.regions import Region
from mlir_async_pipe.pipeliner.plan.units import Unit, Units
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import row_of


@dataclass(frozen=True)
class KeptBarrier:
    """A barrier of the input and the unit before which it stands; `spaces` it fences."""

    op: Operation
    unit: Unit
    spaces: frozenset[str]


def kept_barriers(units: Units, regions: list[Region]) -> tuple[KeptBarrier, ...]:
    """The barriers between accesses that cannot be analysed, in textual order.

    Raises PipelineError (opaque-barrier).
    """
    opaque = [region.top for region in regions if region.opaque]
    if len(set(opaque)) < 2:
        return ()
    textual = {op: number for number, op in enumerate(units.body.ops)}
    kept = []
    for op in units.body.synchronisation:
        row = row_of(op)
        if row.barrier is None:
            continue
        in_front = [top for top in opaque if textual[top] < textual[op]]
        behind = [top for top in opaque if textual[top] > textual[op]]
        if in_front and behind:
            following = next(s.op for s in units.body.statements if textual[s.op] > textual[op])
            barrier = KeptBarrier(op, units.unit_of(following), row.barrier(op))
            _check_sides(barrier, in_front, behind, units)
            kept.append(barrier)
    return tuple(kept)


def _check_sides(
    barrier: KeptBarrier, in_front: list[Operation], behind: list[Operation], units: Units
) -> None:
    """T(a, k) < T(barrier, k) < T(a, k + 1) for a before it, and
    T(barrier, k) <= T(b, k) < T(barrier, k + 1) for b after."""
    time, following = _times(barrier.unit)
    for top in in_front:
        own, following_own = _times(units.unit_of(top))
        if not own < time < following_own:
            raise _separated(barrier, top, "before")
    for top in behind:
        own, _ = _times(units.unit_of(top))
        if not time <= own < following:
            raise _separated(barrier, top, "after")


def _times(unit: Unit) -> tuple[tuple[int, int], tuple[int, int]]:
    """T(unit, k) - k, and the same for the next iteration."""
    return (unit.stage, unit.position), (unit.stage + 1, unit.position)


def _separated(barrier: KeptBarrier, top: Operation, side: str) -> PipelineError:
    return PipelineError(
        f"cannot pipeline: '{barrier.op.name}' stands between accesses that cannot be analysed, "
        f"and the schedule moves '{top.name}', which is {side} it, away from it",
        code="opaque-barrier",
        at=barrier.op,
        notes=(
            (f"nothing is known of the memory that this '{top.name}' touches", top),
            ("the barrier runs before this statement and in its stage", barrier.unit.ops[0]),
            ("give both sides of the barrier, and what stands between them, one stage", barrier.op),
        ),
    )
