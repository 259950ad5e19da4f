"""The blocks of a cluster as threads of one that holds them all, each with memory of its own.

2 blocks of 64 threads     threads 0-63 are of block 0, 64-127 of block 1
%ring, in block 1          root 5 + 2 * 2^24; what is of no block has root 5
mapa %ring, 0              root 5 + 1 * 2^24
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import defining_op, remembered
from mlir_async_pipe.checker.phase_faults import NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.amounts import EachThread
from mlir_async_pipe.checker.phases.byte_places import BytePlace, ByteRange, OfRanks, Value
from mlir_async_pipe.checker.phases.warp_clocks import WARP
from mlir_async_pipe.checker.step_graph import Flow, Run
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.vocabulary import groups_of, meets_cluster
from mlir_async_pipe.vocabulary.launch_ids import MAPA, Size

# More blocks than any chip has in a cluster (PTX ISA: 8, or 16 where that is asked for).
LARGEST_CLUSTER = 16
# Roots of one block, those of mbarrier groups among them.
_ROOTS = 1 << 24


@dataclass(frozen=True)
class ClusterBlocks:
    """A cluster of `size` blocks in x, y, z, each of `threads` threads; of no threads where the
    blocks of a kernel have nothing to do with each other, so that one is all."""

    size: Size = (1, 1, 1)
    threads: int = 0

    @property
    def count(self) -> int:
        return self.size[0] * self.size[1] * self.size[2]

    def index(self, rank: int) -> Size:
        """Where in the cluster a block is, x fastest."""
        x, y, _ = self.size
        return rank % x, rank // x % y, rank // (x * y)

    def members(self, rank: int) -> int:
        return ((1 << self.threads) - 1) << rank * self.threads

    def rank_of(self, mask: int | None) -> int:
        """The block of some threads, which are all of one."""
        if not self.threads or not mask:
            return 0
        return ((mask & -mask).bit_length() - 1) // self.threads

    def own(self, root: int, rank: int) -> int:
        """A piece of workgroup memory in the block `rank`, whichever block's it was named as."""
        return root if not self.threads else root % _ROOTS + (rank + 1) * _ROOTS

    def anywhere(self, roots: Iterable[int], mask: int | None) -> list[ByteRange]:
        """All of some workgroup memory in the block of some threads."""
        return [ByteRange(self.own(root, self.rank_of(mask))) for root in sorted(roots)]

    def named(self, place: Value, rank: Value, op: int) -> Value:
        """What an address is in another block, which the op with this number names: perhaps another one for each thread.
        Threads that name none do not use it."""
        if isinstance(place, BytePlace) and isinstance(rank, EachThread):
            everybody = rank.groups((1 << len(rank.numbers)) - 1)
            own = ((n, mask) for n, mask in everybody.items() if 0 <= n < self.count)
            return OfRanks(
                tuple((mask, place._replace(root=self.own(place.root, n))) for n, mask in own)
            )
        if not isinstance(place, BytePlace) or not isinstance(rank, int):
            return None
        self._check(rank, op)
        return place._replace(root=self.own(place.root, rank))

    def targets(self, mask: int, op: int) -> list[int]:
        found = [rank for rank in range(LARGEST_CLUSTER) if mask >> rank & 1]
        for rank in found:
            self._check(rank, op)
        return found

    def _check(self, rank: int, op: int) -> None:
        if not 0 <= rank < self.count:
            detail = f"it names block {rank} of a cluster of {self.count}"
            raise PhaseFault("out-of-bounds", op, op, detail)


def named_root(root: int) -> int:
    """A piece of memory as it is named, in whichever block it is."""
    return root % _ROOTS


def block_of(root: int) -> int:
    """The block of a piece of memory; -1 of what is of no block."""
    return root // _ROOTS - 1


def landings(
    blocks: ClusterBlocks, mask: int | None, key: tuple[int, int], region: ByteRange, op: int
) -> Iterator[tuple[tuple[int, int], ByteRange]]:
    """Where a copy lands, and its mbarrier: at the same offsets in each block of its mask, or where they say."""
    if mask is None:
        if block_of(key[0]) != block_of(region.root):
            raise NotFollowedError("other-block")
        yield key, region
        return
    for rank in blocks.targets(mask, op):
        there = region._replace(root=blocks.own(region.root, rank))
        yield (blocks.own(key[0], rank), key[1]), there


@remembered
def is_of_cluster(memory: Any) -> bool:
    """Whether a pointer leads to what may be the memory of another block."""
    root = root_of(memory).value
    made = defining_op(root)
    return (made is not None and made.name == MAPA) or str(root.type) == "!llvm.ptr<7>"


def reaches_blocks(run: Run) -> bool:
    op, row = run.op, run.row
    if op.name == MAPA or meets_cluster(op):
        return True
    if row.phase is None:
        return False
    return len(groups_of(op).get("multicast", ())) > 0


def blocks_of(flow: Flow, block: Size, cluster: Size | None) -> ClusterBlocks:
    """The blocks that a kernel is followed with. Raises NotFollowedError."""
    if not any(map(reaches_blocks, flow.runs())):
        return ClusterBlocks()
    threads = block[0] * block[1] * block[2]
    found = ClusterBlocks(cluster or (1, 1, 1), threads)
    if cluster is None or found.count > LARGEST_CLUSTER or threads % WARP:
        raise NotFollowedError("cluster-size")
    return found
