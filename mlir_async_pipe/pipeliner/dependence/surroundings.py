"""What stands around the loops of a module, indexed once for all of them.

Each loop asks who touches its memory outside of it, what orders that, and how large its
launch is. Walking the function, or all accesses of a buffer, for each loop would make a module
of n loops cost n squared: here every function is walked once, and places are found by bisection.
Valid as long as nothing is edited, that is for the planning of one round.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    ancestors,
    defining_op,
    enclosing,
    integer_attribute,
    is_block_argument,
    operations,
    outermost,
    parent,
    type_text,
    users,
    walk,
)
from mlir_async_pipe.chips.target import Chip
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.flow.region_flow import OUT, repeated_in, runs_again, successors, targets
from mlir_async_pipe.facts.loops.annotations import PART_STAGES, STAGE, in_op_form
from mlir_async_pipe.facts.values.memory_roots import (
    Root,
    Space,
    may_alias,
    root_of,
    static_bytes,
    threads_may_meet,
)
from mlir_async_pipe.pipeliner.dependence.regions import is_opaque
from mlir_async_pipe.session.diagnostics import AsyncPipeError, PipelineError
from mlir_async_pipe.vocabulary import accesses, given_count, named_row, order_of, queue_of, row_of
from mlir_async_pipe.vocabulary.control_flow import (
    CALL_OPS,
    REGION_ROWS,
    SCOPE,
    UNKNOWN,
    scf_for_trips,
)
from mlir_async_pipe.vocabulary.launch_ids import (
    Launches,
    Size,
    enclosing_launch_size,
    launched_sizes,
    usual_lanes,
)
from mlir_async_pipe.vocabulary.rows import ALL_SPACES, Queue
from mlir_async_pipe.vocabulary.tensor_memory import is_tensor_pointer
from mlir_async_pipe.waits.count import TOKEN_TYPE


class RootAccess(NamedTuple):
    """One access of a function: its place in textual order, its op, and what it does."""

    place: int
    op: Operation
    reads: bool
    writes: bool


@dataclass
class QueuedAccess:
    """An access of a copy on a queue: at the place `over`, if there is one, a wait is for it and all that was issued before."""

    place: int
    queue: Queue
    root: Root
    writes: bool
    over: float = inf


# Places of a function, from the first one to before the second one.
Stretch = tuple[int, int]
BEFORE, AFTER = 0, 1


@dataclass
class _Touches:
    """The accesses of one root in textual order, and the places of all, of those that read, and of those that write."""

    all: list[RootAccess] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    root: Any = None
    _exposed: dict[Any, _Touches] = field(default_factory=dict)

    def add(self, touch: RootAccess) -> None:
        self.all.append(touch)
        self.places.append(touch.place)
        if touch.reads:
            self.reads.append(touch.place)
        if touch.writes:
            self.writes.append(touch.place)

    def outside(self, start: int, end: int) -> tuple[list[RootAccess], list[RootAccess]]:
        """Those before the place `start`, and those from `end` on."""
        before, after = bisect_left(self.places, start), bisect_left(self.places, end)
        return self.all[:before], self.all[after:]

    def exposed(self, block: Any, sees_own: Callable[[Operation], bool]) -> _Touches:
        """The reads but those that see only what their own block wrote; asked once for each
        size of `block`, which the proof goes by."""
        if block not in self._exposed:
            found = self._exposed[block] = _Touches()
            for touch in self.all:
                if touch.reads and not sees_own(touch.op):
                    found.add(touch)
        return self._exposed[block]

    def any_between(self, start: int, end: int, *, writing: bool) -> bool:
        """Whether one stands at a place from `start` on before `end`; `writing`: that writes."""
        return _any_between(self.writes if writing else self.places, start, end)

    def any_outside(self, start: int, end: int, size: int, *, writing: bool) -> bool:
        """Whether one stands before the place `start`, or from `end` on before `size`."""
        return self.any_between(0, start, writing=writing) or self.any_between(
            end, size, writing=writing
        )


def _any_between(places: list[int], start: int, end: int) -> bool:
    return bisect_left(places, start) < bisect_left(places, end)


@dataclass
class _Function:
    """The accesses of one function by root, where its ops with regions begin, and its barriers.

    `reachable` are the roots that others may point into: all but what the function allocates;
    `workgroup` has the static bytes of those in workgroup memory, `workgroup_bytes` all of them.
    `previous` has the loop before one, by its place, where only pure ops stand between.
    `barriers` are the places of barriers and the spaces that they order, by the block that they stand in, `orders` those of other
    ops that order memory for other threads; `calls` all calls;
    `queued` are the accesses of copies that are waited for by queues;
    `size` counts all ops, `lanes` are those of a wave where no chip is given.
    """

    touches: dict[Any, _Touches] = field(default_factory=lambda: defaultdict(_Touches))
    reachable: dict[Any, Root] = field(default_factory=dict)
    workgroup: dict[Any, int] = field(default_factory=dict)
    workgroup_bytes: int = 0
    holders: dict[Operation, int] = field(default_factory=dict)
    previous: dict[int, Operation] = field(default_factory=dict)
    barriers: dict[Any, list[tuple[int, frozenset[str]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    orders: list[int] = field(default_factory=list)
    queued: list[QueuedAccess] = field(default_factory=list)
    calls: list[Operation] = field(default_factory=list)
    size: int = 0
    lanes: int = 0


class Surroundings:
    """The functions and launches of a module, each read when first asked for.

    `chip` is where they are going, None where that is not decided."""

    def __init__(self, chip: Chip | None = None) -> None:
        self._chip = chip
        self._functions: dict[Operation, _Function] = {}
        self._spans: dict[Operation, tuple[_Function, int, int]] = {}
        self._stretches: dict[
            tuple[Operation, frozenset[str]], tuple[list[Stretch], list[Stretch]]
        ] = {}
        self._sizes: dict[Operation, Size | None] = {}
        self._asked: dict[Operation | None, bool] = {}
        self._launches: Launches | None = None

    def touches_outside(
        self, loop: Operation, identity: Any
    ) -> tuple[list[RootAccess], list[RootAccess]]:
        """The accesses of one root in the loop's function, before and after the loop."""
        found, start, end = self._span(loop)
        return found.touches.get(identity, _Touches()).outside(start, end)

    def writes_outside(self, loop: Operation, identity: Any) -> bool:
        """Whether something in the loop's function but outside of the loop writes the root."""
        found, start, end = self._span(loop)
        touches = found.touches.get(identity, _Touches())
        return touches.any_outside(start, end, found.size, writing=True)

    def readers_outside(
        self,
        loop: Operation,
        root: Root,
        block: Any,
        sees_own: Callable[[Operation], bool],
        sees_nothing: Callable[[Operation], bool],
    ) -> list[Operation]:
        """The ops outside of the loop that may see what it writes to the memory of `root`.

        Of those that name it the ones that neither `sees_own`, which see in launches of `block` threads nothing but
        what their own block wrote, nor `sees_nothing` of this loop. All that may read it without naming it: through a
        value that may be another buffer too, or in a function that they call."""
        found, start, end = self._span(loop)
        unnamed = [
            touch.op
            for identity, other in found.reachable.items()
            if identity != root.identity and may_alias(root, other)
            for side in found.touches[identity].outside(start, end)
            for touch in side
            if touch.reads
        ]
        callers = found.calls if root.kind in ("global", "dynamic") else []
        touches = found.touches.get(root.identity, _Touches())
        if not touches.any_outside(start, end, found.size, writing=False):
            return unnamed + callers
        exposed = touches.exposed(block, sees_own)
        reads = [touch.op for side in exposed.outside(start, end) for touch in side]
        return [op for op in reads if not sees_nothing(op)] + unnamed + callers

    def conflicts_outside(
        self, loop: Operation, root: Root | None, *, writes: bool, noalias_arguments: bool
    ) -> tuple[set[Space], set[Space]]:
        """The spaces of what may meet an access to `root`, or to any memory (None), before and after the loop, with no
        barrier of the loop's own block in between, in other rounds of what is around it, too. Of two reads neither meets
        the other."""
        found, _, _ = self._span(loop)
        near = [
            touches
            for identity, touches in found.touches.items()
            if root is None
            or identity == root.identity
            or (
                (other := found.reachable.get(identity)) is not None
                and may_alias(root, other, assume_noalias_arguments=noalias_arguments)
            )
        ]
        before, after = (
            {
                touches.root.space
                for touches in near
                for stretch in self._beside(loop, touches.root)[side]
                if touches.any_between(*stretch, writing=not writes)
            }
            for side in (BEFORE, AFTER)
        )
        return before, after

    def once(self, loop: Operation, ask: Callable[[], bool]) -> bool:
        """What `ask` says of all loops of this one's function, asked for the first of them."""
        function = enclosing(loop, FUNCTION_OPS)
        if function not in self._asked:
            self._asked[function] = ask()
        return self._asked[function]

    def conflicts_across(self, loop: Operation, *, noalias_arguments: bool) -> set[Space]:
        """The spaces of accesses outside of the loop that may meet each other where the loop alone stands in between: one
        before it and one after it, and any two in different rounds of what is around it; and of accesses that meet an
        op there which orders memory for other threads."""
        found, _, _ = self._span(loop)
        # Of what the function allocates nothing else names a part but what comes from anywhere.
        unknown = [key for key, root in found.reachable.items() if root.kind == "unknown"]
        spaces = set[Space]()
        for rounds in (1, 2) if runs_again(loop) else (1,):
            sides = [self._standing(loop, side, rounds) for side in (BEFORE, AFTER)]
            ordered = [
                any(_any_between(found.orders, *each) for each in side[:rounds])
                for side in self._beside(loop)
            ]
            for here, there in ((BEFORE, AFTER), (AFTER, BEFORE)):
                for identity, (root, reads, writes) in sides[here].items():
                    if ordered[there]:
                        spaces.add(root.space)
                    near = found.reachable if identity in found.reachable else unknown
                    for key in {identity, *near} & sides[there].keys():
                        other, other_reads, other_writes = sides[there][key]
                        conflict = (writes and (other_reads or other_writes)) or (
                            reads and other_writes
                        )
                        if not conflict or not threads_may_meet(root, other):
                            continue
                        if key == identity or may_alias(
                            root, other, assume_noalias_arguments=noalias_arguments
                        ):
                            spaces |= {root.space, other.space}
        return spaces

    def queued_before(self, loop: Operation, queue: Queue) -> list[QueuedAccess]:
        """The accesses of copies on a queue that may be in flight when the loop begins, so that its waits are for them, too: no
        barrier before the loop orders what they do."""
        found, start, end = self._span(loop)
        around = repeated_in(loop)
        stop = end if around is None else self._span(around)[2]
        return [
            each
            for each in found.queued
            if each.queue == queue
            and (each.place < start <= each.over or end <= each.place < stop <= each.over)
        ]

    def _standing(
        self, loop: Operation, side: int, rounds: int
    ) -> dict[Any, tuple[Root, bool, bool]]:
        """The roots that are touched on a side of the loop, in its round alone or in others, too, and whether they are
        read and written there."""
        found: dict[Any, tuple[Root, bool, bool]] = {}
        for identity, touches in self._span(loop)[0].touches.items():
            stretches = self._beside(loop, touches.root)[side][:rounds]
            reads, writes = (
                any(_any_between(places, *each) for each in stretches)
                for places in (touches.reads, touches.writes)
            )
            if reads or writes:
                found[identity] = touches.root, reads, writes
        return found

    def orders_outside(self, loop: Operation) -> tuple[bool, bool]:
        """Whether an op before and after the loop, up to the next barrier, orders memory for other threads."""
        orders = self._span(loop)[0].orders
        before, after = (
            any(_any_between(orders, *stretch) for stretch in side) for side in self._beside(loop)
        )
        return before, after

    def _beside(
        self, loop: Operation, root: Root | None = None
    ) -> tuple[list[Stretch], list[Stretch]]:
        """What may run before and after the loop with no barrier of its block in between that orders the memory of `root`,
        or all: in the same round of what is around it, and in others.

            for {
              a; barrier; b       before: b
              loop                after: c, and a of the next round
              c
            }"""
        spaces = ALL_SPACES if root is None else root.spaces
        known = self._stretches.get((loop, spaces))
        if known is not None:
            return known
        found, start, end = self._span(loop)
        shared = spaces - {"private"}
        ordered = [n for n, fenced in found.barriers.get(loop.block, ()) if shared <= fenced]
        number = bisect_left(ordered, start)
        earlier, later = ordered[:number], ordered[number:]
        before = [(earlier[-1] + 1 if earlier else 0, start)]
        after = [(end, later[0] if later else found.size)]
        around = repeated_in(loop)
        if around is not None:
            _, begin, stop = self._span(around)
            if not earlier:
                before.append((later[-1] + 1 if later else end, stop))
            if not later:
                after.append((begin, earlier[0] if earlier else start))
        self._stretches[loop, spaces] = before, after
        return before, after

    def workgroup_bytes_beside(self, loop: Operation, planned: Iterable[Any]) -> int:
        """The bytes of workgroup memory that the loop's function touches, without the roots
        `planned` (by identity); what has no static size counts as nothing."""
        found, _, _ = self._span(loop)
        return found.workgroup_bytes - sum(found.workgroup.get(each, 0) for each in planned)

    def loop_before(self, loop: Operation) -> Operation | None:
        """The scf.for with nothing but pure ops between it and the loop, if there is one."""
        found, start, _ = self._span(loop)
        return found.previous.get(start)

    def _span(self, loop: Operation) -> tuple[_Function, int, int]:
        """The function of a loop, or of what is around it, and the places of the op and of what follows it."""
        if loop not in self._spans:
            function = enclosing(loop, FUNCTION_OPS) or loop
            if function not in self._functions:
                self._functions[function] = _read(function)
            found = self._functions[function]
            start = found.holders[loop]
            self._spans[loop] = found, start, start + len(list(walk(loop)))
        return self._spans[loop]

    def launch_size(self, loop: Operation) -> Size | None:
        """Threads of a block in x, y, z that run the loop, None where nothing says so."""
        if self._launches is None:
            self._launches = launched_sizes(outermost(loop))
        if loop not in self._sizes:
            self._sizes[loop] = enclosing_launch_size(loop, self._launches)
        return self._sizes[loop]

    def lanes(self, loop: Operation) -> int:
        """Lanes of a wave that runs the loop."""
        return self._span(loop)[0].lanes if self._chip is None else self._chip.lanes


def _read(function: Operation) -> _Function:
    found = _Function()
    last: dict[Any, Operation | None] = {}
    committed: dict[Any, int] = {}
    in_flight: dict[Queue | None, deque[QueuedAccess]] = defaultdict(deque)
    drained = 0
    named = [(op.name, op) for op in walk(function)]
    found.size = len(named)
    names = {name for name, _ in named}
    found.lanes = usual_lanes(names)
    plain = {name for name in names if named_row(name).pure}
    for place, (name, op) in enumerate(named):
        if name in plain and len(op.regions) == 0:
            continue
        row = row_of(op)
        if len(op.regions):
            found.holders[op] = place
        if name == "scf.for":
            before = last.get(op.block)
            if before is not None:
                found.previous[place] = before
            if _will_be_drained(op):
                drained = place + len(list(walk(op)))
        if row.barrier is not None:
            found.barriers[op.block].append((place, row.barrier(op)))
        elif order_of(op).orders:
            found.orders.append(place)
        if row.commits is not None:
            committed[op] = place
        if row.wait is not None and not given_count(op):
            up_to = committed.get(defining_op(op.operands[0]), -1) if op.operands else place
            waiting = in_flight[queue_of(op)]
            while waiting and waiting[0].place <= up_to:
                first = waiting.popleft()
                first.over = min(first.over, place)
        queue = queue_of(op)
        for access in accesses(op):
            if access.asynchronous and queue is not None:
                over = drained - 1 if place < drained else inf
                each = QueuedAccess(place, queue, root_of(access.memory), access.writes, over)
                found.queued.append(each)
                in_flight[queue].append(each)
        touches = _touches(op, place)
        if touches or row.known or len(op.regions):
            last[op.block] = op if name == "scf.for" else None
        for root, touch in touches:
            identity = root.identity
            found.touches[identity].add(touch)
            found.touches[identity].root = root
            if root.kind not in ("allocation", "attribution"):
                found.reachable[identity] = root
            if root.space == "workgroup" and identity not in found.workgroup:
                found.workgroup[identity] = static_bytes(root)
        if name in CALL_OPS:
            found.calls.append(op)
    found.workgroup_bytes = sum(found.workgroup.values())
    return found


def _will_be_drained(loop: Operation) -> bool:
    """Whether the loop becomes a pipeline, after which its copies are waited for: it has stages, and is not too short for them."""
    if not in_op_form(loop):
        return False
    body, trips = operations(loop.regions[0].blocks[0]), scf_for_trips(loop)
    return trips is None or (
        all(PART_STAGES not in op.attributes for op in body)
        and trips >= max(integer_attribute(op, STAGE) or 0 for op in body)
    )


def _touches(op: Operation, place: int) -> list[tuple[Root, RootAccess]]:
    """What one op does to memory; an op of which nothing is known (a call, a return) does
    everything to what it is given. Tensor memory has waits and fences of its own."""
    known = accesses(op)
    if known or not is_opaque(op):
        return [
            (root_of(a.memory), RootAccess(place, op, a.kind != "write", a.writes)) for a in known
        ]
    return [
        (root_of(operand), RootAccess(place, op, True, True))
        for operand in op.operands
        if type_text(operand.type).startswith(("memref<", "!llvm.ptr"))
        and not is_tensor_pointer(operand)
    ]


# Pipelines of the input --------------------------------------------------------------------------
#
# Loops with a pipeline of their own: they go on with what is issued before them.
#
#     copy A[0] -> %b[0]; %g = group                 the prologue's copy
#     scf.for … iter_args(%t = %g) {
#       wait %t                                      of the iteration before, or of the prologue
#       copy A[i + 1] -> %b[(i + 1) mod 2]; group    of the next iteration
#       use %b[i mod 2]                              what the iteration before copied
#
# Pipelining such a loop once more would delay copies that are early already; where they cannot be
# proven to fit, the error says that rather than which two accesses stand in each other's way.


# What a schedule is refused with where it does not fit the accesses.
_MISFITS = frozenset(
    "dependence-violated unproven-independence not-privatisable escapes no-consumers no-copies "
    "wait-before-commit".split()
)


@dataclass(frozen=True)
class OwnPipeline:
    """What makes a loop a pipeline: `prologue` is issued before it, `goes_on` in it."""

    prologue: Operation
    goes_on: Operation


def own_pipeline(loop: Operation, around: Surroundings) -> OwnPipeline | None:
    """The pipeline that a loop is already, None if every iteration stands for itself."""
    return _by_tokens(loop) or _by_copies(loop, around)


def _by_tokens(loop: Operation) -> OwnPipeline | None:
    """A wait of the loop on a group of the iteration before, or of the prologue."""
    arguments = list(loop.regions[0].blocks[0].arguments)[1:]
    for argument, initial in zip(arguments, list(loop.operands)[3:], strict=True):
        if type_text(argument.type) != TOKEN_TYPE:
            continue
        waits = [user for user in users(argument) if row_of(user).wait is not None]
        group = defining_op(initial)
        if group is not None and (waits or not users(argument)):
            return OwnPipeline(group, waits[0] if waits else loop)
    return None


def _by_copies(loop: Operation, around: Surroundings) -> OwnPipeline | None:
    """A copy whose control goes on to the loop, to a buffer that the loop copies to and reads from."""
    touching = [(op, access) for op in walk(loop) for access in accesses(op)]
    read = {r.identity for _, a in touching if not a.writes for r in _roots(a.memory, loop)}
    for op, access in touching:
        if not access.writes or not _in_flight(op, access.asynchronous):
            continue
        for root in _roots(access.memory, loop):
            if root.space == "global" or root.identity not in read:
                continue
            before, _ = around.touches_outside(loop, root.identity)
            copies = [t for t in before if t.writes and _in_flight(t.op, _is_async(t.op))]
            reading = _loops_that_read(before, loop) if copies else set()
            ahead = (
                touch
                for touch in copies
                if not _is_of(touch, reading, loop) and _may_precede(touch.op, loop)
            )
            prologue = next(ahead, None)
            if prologue is not None:
                return OwnPipeline(prologue.op, op)
    return None


def _roots(memory: Value, loop: Operation) -> list[Root]:
    """What an access of the loop may touch; of buffers that it carries each that comes in."""
    root = root_of(memory)
    if root.kind != "unknown" or not is_block_argument(root.value):
        return [root]
    if ir.BlockArgument(root.value).owner.owner.operation != loop:
        return [root]
    return [root_of(v) for v in list(loop.operands)[3:] if type_text(v.type).startswith("memref<")]


def _is_async(op: Operation) -> bool:
    return any(access.asynchronous for access in accesses(op))


def _loops_that_read(before: list[RootAccess], loop: Operation) -> set[Operation]:
    return {
        each
        for touch in before
        if touch.reads
        for each in ancestors(touch.op)
        if each.name == loop.name
    }


def _is_of(copy: RootAccess, reading: set[Operation], loop: Operation) -> bool:
    """Whether another loop copies and reads: what it copies is its own, and no prologue of this one, for
    which a loop of copies alone may stand."""
    around = [loop, *ancestors(loop)]
    others = [each for each in ancestors(copy.op) if each.name == loop.name and each not in around]
    return bool(others) and others[-1] in reading


def _may_precede(op: Operation, loop: Operation) -> bool:
    """Whether control may go on from `op`, which stands before the loop, to the loop: from a branch it
    does not go to another one."""
    path = {parent(each): each for each in (loop, *ancestors(loop))}
    for first in (op, *ancestors(op)):
        holder = parent(first)
        if holder not in path or holder is None:
            continue
        second = path[holder]
        if first.block == second.block:
            return True
        start, end = (_region_number(holder, each) for each in (first, second))
        if start == end:
            return second.block in reached([first.block], successors)
        return end in reached([start], _regions_after(holder))
    return False


def _region_number(holder: Operation, op: Operation) -> int:
    return next(n for n, region in enumerate(holder.regions) if op.block in list(region.blocks))


def _regions_after(holder: Operation) -> Callable[[int], list[int]]:
    row, count = REGION_ROWS.get(holder.name, UNKNOWN), len(holder.regions)
    return lambda place: [to for to in targets(row, place, count) if to != OUT]


def _in_flight(op: Operation, asynchronous: bool) -> bool:
    """Whether an access is part of an async copy: by itself, or inside a scope."""
    return asynchronous or any(above.name == SCOPE for above in ancestors(op))


def refusal(error: AsyncPipeError, loop: Operation, around: Surroundings) -> AsyncPipeError:
    """What to raise where a loop cannot be scheduled: `error`, or what lies behind it."""
    found = own_pipeline(loop, around) if error.code in _MISFITS else None
    if found is None:
        return error
    return PipelineError(
        f"cannot pipeline: the loop goes on with '{found.prologue.name}' before it, so it "
        "is pipelined already",
        code="already-pipelined",
        at=loop,
        notes=(
            ("the prologue that it has", found.prologue),
            ("what goes on with it", found.goes_on),
            (f"taken as a loop of its own: {error.diagnostic.message}", error.diagnostic.place),
        ),
        advice="take the annotation away and make its waits exact (async-pipe-tokens{relax}, "
        "async-pipe-count-waits), or take its prologue away and copy in each iteration what "
        "that iteration uses",
    )
