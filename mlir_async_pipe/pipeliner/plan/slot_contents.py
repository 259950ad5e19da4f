"""Which writes of an iteration each of its reads may see.

    copy A -> %tile; use %tile; copy B -> %tile; use %tile

The second use sees the second copy only, if that fills all that is read: then the two values
may take turns in one slot, whatever the stages of their copies are. Proving it enumerates
threads, which is worth it only where it saves a version; so the answer comes in two
approximations, every earlier write and the last one, and exactly.
"""

from __future__ import annotations

from mlir_async_pipe.pipeliner.dependence.distance import LoopIndex, subscripts_equal
from mlir_async_pipe.pipeliner.dependence.privatise import covered_by
from mlir_async_pipe.pipeliner.dependence.regions import Region

Pairs = frozenset[tuple[int, int]]
"""(read, write), numbers of accesses in textual order."""


def earlier_writes(regions: tuple[Region, ...], index: LoopIndex) -> Pairs:
    """Every write before a read that may touch its elements in the same iteration: no
    read sees more than these."""
    return frozenset(
        (i, j)
        for i, read in enumerate(regions)
        if _reads(read)
        for j, write in enumerate(regions[:i])
        if write.writes and _meet_in_one_iteration(write, read, index)
    )


def last_writes(earlier: Pairs) -> Pairs:
    """Of those, the last one for each read, which it sees at least."""
    last: dict[int, int] = {}
    for read, write in earlier:
        last[read] = max(write, last.get(read, write))
    return frozenset(last.items())


def seen_writes(regions: tuple[Region, ...], earlier: Pairs, index: LoopIndex) -> Pairs:
    """From the last one backwards, until those that are certain fill all that is read."""
    seen: set[tuple[int, int]] = set()
    for number, read in enumerate(regions):
        behind: list[Region] = []
        for write in sorted((j for i, j in earlier if i == number), reverse=True):
            seen.add((number, write))
            behind.append(regions[write])
            if covered_by(read, behind, index.arithmetic.block_size):
                break
    return frozenset(seen)


def remaining_writes(regions: tuple[Region, ...]) -> frozenset[int]:
    """The writes whose elements no later write of the iteration surely overwrites."""
    return frozenset(
        i
        for i, write in enumerate(regions)
        if write.writes
        and not any(
            later.writes and not later.conditional and subscripts_equal(write, later)
            for later in regions[i + 1 :]
        )
    )


def _reads(region: Region) -> bool:
    return region.access is None or region.access.kind != "write"


def _meet_in_one_iteration(write: Region, read: Region, index: LoopIndex) -> bool:
    per_thread = write.root is not None and write.root.space == "private"
    distances = index.distances(write, read, same_thread=per_thread)
    return distances is not None and distances.smallest(0) == 0
