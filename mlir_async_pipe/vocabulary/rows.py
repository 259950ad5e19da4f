"""What a row of the vocabulary says, as frozen dataclasses.

A row describes one op kind completely: what it reads and writes and how much, whether that
happens asynchronously, on which queue, whether it commits a group, what it waits for, and
which barrier it is. The rows themselves stand in `async_ops` and `memory_ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from mlir_async_pipe.vocabulary.memory_order import MemoryOrder, unordered
from mlir_async_pipe.vocabulary.queues import Queue

AccessKind = Literal["read", "write", "atomic"]

Extent = Callable[[Any], tuple[int, ...] | None]
"""How many elements an access covers from its subscripts on, one number for each of the
trailing dimensions; None where the op does not say, which stands for the whole buffer."""


class Share(NamedTuple):
    """What one thread has of a dimension that the threads of a warpgroup share out: `length` elements
    from the sum of factor * (x / divisor mod modulus) over `digits` on, for the thread id x, and as many
    again at each sum of `steps` (distance, count) after it."""

    digits: tuple[tuple[int, int, int], ...]
    steps: tuple[tuple[int, int], ...]
    length: int

    def first(self, x: Any) -> Any:
        """The first element of thread x; arrays do too."""
        return sum(factor * (x // divisor % modulus) for factor, divisor, modulus in self.digits)

    def offsets(self) -> list[int]:
        """How far its elements are from the first one."""
        found = list(range(self.length))
        for distance, count in self.steps:
            found = [at + distance * n for n in range(count) for at in found]
        return found


Shares = Callable[[Any], tuple[Share, ...] | None]


@dataclass(frozen=True)
class AccessRule:
    """One read or write of an op, by the names of its operand groups.

    `memory` names the group that holds the memref or pointer, `indices` the subscripts (""
    if it has none). `certain` is False if the op may leave elements out (masks), given as a
    function of the op. `active_lanes` bounds the lanes of a warp whose address counts
    (ldmatrix uses the addresses of lanes below 8 * numTiles only).
    """

    kind: AccessKind
    memory: str
    indices: str
    extent: Extent
    certain: Callable[[Any], bool] = lambda op: True
    active_lanes: Callable[[Any], int | None] = lambda op: None
    # LDS copies of gfx9 and gfx10 name one address a wave; lane l writes l extents after it.
    over_lanes: bool = False
    # How threads share out the memory, one for each of its dimensions; None: each has all of it.
    shares: Shares = lambda op: None
    # The leading slot index of a versioned buffer can be put before these subscripts.
    takes_slot_index: bool = True


@dataclass(frozen=True)
class WaitRule:
    """How an op waits.

    `form`: "token" (operands name groups; a count attribute may override them), "count" (the
    attribute alone) or "next" (the oldest group that was not consumed yet).
    `count` is the name of the attribute that holds N and `count_bits` its width; a token
    wait without that attribute means N = 0.
    `completes`: "full", or "read" where only the source is known to be reusable.
    """

    form: Literal["token", "count", "next"]
    count: str
    count_bits: int
    completes: Callable[[Any], Literal["full", "read"]] = lambda op: "full"
    # The operand that holds N, in calls of intrinsics; None: the attribute does.
    operand: int | None = None


@dataclass(frozen=True)
class Row:
    """One op kind. `operands` names its ODS operand groups in order, with the marks that
    `operand_groups` reads.

    `queue` is the physical queue, or "attribute" where the op's `queue` attribute names an
    abstract one. `asynchronous` says whether this very op completes later.
    `commits`: "group" (all that was issued since the last commit becomes one group), "self"
    (each op is a group of its own) or None; `token` says that result 0 denotes the group.
    `completion`: what retires the op: "group", "counter" or "mbarrier" (the latter is not
    counted). `barrier`: address spaces ordered between the threads of a block, None if the
    op is no barrier.
    """

    op: str
    operands: tuple[str, ...] = ()
    accesses: tuple[AccessRule, ...] = ()
    queue: Queue | Literal["attribute"] | None = None
    asynchronous: Callable[[Any], bool] = lambda op: False
    commits: Literal["group", "self"] | None = None
    token: bool = False
    wait: WaitRule | None = None
    completion: Literal["group", "counter", "mbarrier"] = "group"
    barrier: Callable[[Any], frozenset[str]] | None = None
    # What the op orders for other threads, beside being a barrier.
    order: Callable[[Any], MemoryOrder] = unordered
    # Whether all threads of the block meet at this very op; one at which they may not has no
    # row, so that nobody counts on it. None: they always do.
    whole: Callable[[Any], bool] | None = None
    # Slots of its queue that the op acquires; below 0, that it releases.
    slots: int = 0
    # The operand group of workgroup memory that lies there as a tensor map says.
    swizzled: str = ""
    # The operand groups of descriptors whose memory it reads while it is in flight.
    descriptors: tuple[str, ...] = ()
    # The unit attribute that makes an op of this kind asynchronous, "" if there is none.
    async_attribute: str = ""
    # Orders what its threads did to registers of sums before products that add up there.
    fences_sums: bool = False
    # Stores the value of operand 0 element by element: a copy can, if that was loaded.
    stores: bool = False

    @property
    def by_proxy(self) -> bool:
        """Whether the op's accesses are those of a tensor copy, or complete on an mbarrier: its
        phases say when they happen."""
        return self.completion == "mbarrier" or bool(self.swizzled)
