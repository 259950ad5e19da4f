"""Says where the input itself lets threads meet without a barrier.

    memref.store %v, %tile[%tid]
    memref.load %tile[127 - %tid]          no barrier in between: remark `input-race`

The pipeline keeps every barrier of the input, and invents none: what the input leaves to
chance inside one iteration stays as it is. Only what is proven is reported: a known block size,
subscripts that can be enumerated, accesses that always happen.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.facts.values.memory_roots import threads_may_meet
from mlir_async_pipe.pipeliner.dependence.between_threads import meeting_threads
from mlir_async_pipe.pipeliner.dependence.distance import LoopIndex
from mlir_async_pipe.pipeliner.dependence.regions import Region
from mlir_async_pipe.session.diagnostics import Diagnostics
from mlir_async_pipe.vocabulary import row_of


def remark_input_races(
    body: Body, regions: list[Region], index: LoopIndex, diagnostics: Diagnostics
) -> None:
    """One remark (input-race) for each statement that meets an earlier one of its barrier
    interval in another thread."""
    block = index.arithmetic.block_size
    if block is None or block == (1, 1, 1):
        return
    for interval in _intervals(body, regions):
        for number, later in enumerate(interval):
            for earlier in interval[:number]:
                if _may_race(earlier, later, index):
                    met = meeting_threads(earlier, later, index.induction, block)
                    if met is not None:
                        _remark(earlier, later, met, diagnostics)
                        break


def _intervals(body: Body, regions: list[Region]) -> list[list[Region]]:
    """The accesses of one iteration, cut at its barriers and at statements that hold one."""
    interval_of = {}
    number = 0
    for op in body.ops:
        held = [row for inner in walk(op) if (row := row_of(inner)) and row.barrier is not None]
        number += bool(held)
        interval_of[op] = number
        number += bool(held)
    intervals: dict[int, list[Region]] = {}
    for region in regions:
        intervals.setdefault(interval_of[region.top], []).append(region)
    return list(intervals.values())


def _may_race(earlier: Region, later: Region, index: LoopIndex) -> bool:
    if earlier.top == later.top or not (earlier.writes or later.writes):
        return False
    if earlier.root is None or later.root is None:
        return False
    if not threads_may_meet(earlier.root, later.root):
        return False
    if all(r.access is not None and r.access.kind == "atomic" for r in (earlier, later)):
        return False
    distances = index.distances(earlier, later, same_thread=False)
    return distances is not None and distances.smallest(0) == 0


def _remark(
    earlier: Region, later: Region, threads: tuple[int, int], diagnostics: Diagnostics
) -> None:
    first, second = threads
    did = "writes" if earlier.writes else "reads"
    does = "writes" if later.writes else "reads"
    diagnostics.remark(
        f"thread {second} {does} what thread {first} {did} in the same iteration, and the input "
        "has no barrier between them; the pipeline has none either",
        code="input-race",
        at=later.op,
        notes=((f"thread {first} {did} it here", earlier.op),),
    )
