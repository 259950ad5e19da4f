"""What threads touch, and whether two touches are one too many.

bytes 0 to 127 of %tile, by thread 0, in op 7
the same in global memory that tensor maps describe    root below 0, see `find_global_memory`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Literal, NamedTuple

from mlir_async_pipe.checker.phase_faults import FaultCode, PhaseFault
from mlir_async_pipe.checker.phases.byte_places import ByteRange, is_map, meet, must_meet
from mlir_async_pipe.checker.phases.mbarrier_state import CopyInFlight
from mlir_async_pipe.vocabulary.rows import CP_ASYNC

# More groups than any wait of products leaves in flight; older ones are one.
REMEMBERED_GROUPS = 16


class Touch(NamedTuple):
    """Bytes, touched by threads `by` (None: some of them) in the op `op`."""

    region: ByteRange
    op: int
    by: int | None


class Issued(NamedTuple):
    """What threads issued to a queue: in no group yet, and in groups, youngest first."""

    open: tuple[Touch, ...] = ()
    groups: tuple[tuple[Touch, ...], ...] = ()

    def with_open(self, touch: Touch) -> Issued:
        """Once is enough: without a commit or a wait a loop comes to the same state again."""
        return self if touch in self.open else Issued((*self.open, touch), self.groups)

    def committed(self) -> Issued:
        """What is in no group yet is the youngest one."""
        groups = (self.open, *self.groups)
        old = each_once(touch for group in groups[REMEMBERED_GROUPS:] for touch in group)
        groups = groups[:REMEMBERED_GROUPS] + ((old,) if old else ())
        while groups and not groups[-1]:
            groups = groups[:-1]
        return Issued((), groups)

    def of(self, threads: int) -> Issued:
        """The same, issued by these threads alone."""
        groups = tuple(_by(group, threads) for group in self.groups)
        return Issued(_by(self.open, threads), groups)

    def with_others(self, other: Issued) -> Issued:
        """What the same threads issued besides, group by group."""
        groups = zip_longest(self.groups, other.groups, fillvalue=())
        merged = tuple(each_once((*ours, *theirs)) for ours, theirs in groups)
        return Issued(each_once((*self.open, *other.open)), merged)


def _by(touches: tuple[Touch, ...], threads: int) -> tuple[Touch, ...]:
    return tuple(touch._replace(by=threads) for touch in touches)


def each_once(touches: Iterable[Touch]) -> tuple[Touch, ...]:
    """Touches without those that were there before."""
    return tuple(dict.fromkeys(touches))


def refuse(code: FaultCode, touch: Touch, earlier: Touch | CopyInFlight, why: str) -> None:
    """Raises PhaseFault if the bytes of two accesses may be the same."""
    if meet(earlier.region, touch.region):
        certain = must_meet(earlier.region, touch.region)
        raise PhaseFault(code, touch.op, earlier.op, why, certain)


def unwaited(copy: CopyInFlight) -> PhaseFault:
    """A copy may land when its block has ended."""
    note = "no thread waits for the phase of this copy"
    return PhaseFault("unwaited-copy", copy.op, copy.op, note)


# Copies that read or write global memory:
#
#     tma.async.load                 reads the tensor until a wait for its phase has passed
#     tma.async.store, committed     writes it until a wait for its group without `read`

# The queue of what bulk stores write; in `queues.BULK_STORE` is what they read.
GLOBAL_STORES = "bulk-store, written"

InFlight = Literal["reads", "stores", "copies"]
"""What ops of a queue do until their group is waited for: read workgroup memory, write global memory, or
write workgroup memory through the generic proxy, as `cp.async` does."""

_OTHERS: dict[str, InFlight] = {GLOBAL_STORES: "stores", CP_ASYNC.name: "copies"}
_UNTIL: dict[InFlight, str] = {
    "reads": "it reads until a wait with count {count} or less on queue {queue}",
    "stores": "it writes until a wait with count {count} or less, without `read`",
    "copies": "it writes until a wait with count {count} or less on queue {queue}",
}


def in_flight(
    queues: Mapping[tuple[str, int], Issued], what: InFlight
) -> Iterator[tuple[Touch, str]]:
    """What ops of some queues still do, and until when."""
    for (queue, _), issued in queues.items():
        if _OTHERS.get(queue, "reads") != what:
            continue
        for age, group in enumerate((issued.open, *issued.groups)):
            until = _UNTIL[what].format(queue=queue, count=age - 1)
            for touch in group:
                yield touch, until if age else "it is in no committed group there"


def is_global(region: ByteRange) -> bool:
    """Whether bytes are of global memory that a tensor copy may touch."""
    return region.root < 0


def space_of(region: ByteRange) -> str:
    """The memory space of bytes, "maps" for tensor maps."""
    return "maps" if is_map(region) else "global" if is_global(region) else "workgroup"
