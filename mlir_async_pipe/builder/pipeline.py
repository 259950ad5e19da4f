"""`Pipeline`: rings of slots, written through the bindings without tokens, counts or slot numbers.

    pipe = Pipeline(depth=2, threads=128)
    pipe.buffer((64, 32), "f16")
    with pipe.produce() as slot:    "async_pipe.producer_acquire"() {depth = 2, queue = 0}
        copy_tile(view, slot) -->   "async_pipe.scope"() ({ copies; "async_pipe.yield"() }) {queue = 0}
                                    %t = "async_pipe.commit_queue"() {queue = 0}
    with pipe.consume() as slot:    "async_pipe.consumer_wait"() {queue = 0}
        use(slot)                   use
                                    "async_pipe.consumer_release"() {queue = 0}

Ops go to the current insertion point. Each wait takes the oldest group that none took before;
`async-pipe-count-waits` finds how many younger ones may stay in flight, and checks on all paths
that acquired minus released slots stay within `depth`: with depth 2, acquiring a third slot
before one is released is an error. `loop` writes the whole loop instead, as it would run one iteration after the other, to be expanded.

    pipe.loop(0, n, 32, load, use, zero)  -->  %r = scf.for %i = %c0 to %n step %c32 iter_args(%x = %zero) {
                                                 load(%i, slot)
                                                 gpu.barrier
                                                 %y = use(%i, slot, %x)
                                                 gpu.barrier
                                                 scf.yield %y
                                               } {async_pipe.num_stages = 3}

The barriers make it right as it stands; the expander keeps those that the pipeline needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, create, plain_values, source_op
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_for, write_if
from mlir_async_pipe.builder.caller import (
    Participants,
    Threads,
    caller,
    entry,
    here,
    kernel,
    located,
    misuse,
    threads_of,
    writer,
)
from mlir_async_pipe.builder.slot_memory import Slot, SlotBuffer, SlotMemory, buffer_of
from mlir_async_pipe.facts.loops.annotations import BARRIERS, annotate
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.session.arguments import whole_number
from mlir_async_pipe.session.called_from import called_by_users
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.vocabulary import ALLOCATION_OPS
from mlir_async_pipe.vocabulary.async_ops import TOKEN_TYPE
from mlir_async_pipe.vocabulary.barriers import write_fence

Scope = Literal["block", "warp", "thread"]
Slots = Slot | tuple[Slot, ...] | None


class SlotUser:
    """What pipelines have in common: their buffers, and slots that a `with` holds."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._buffers: list[SlotBuffer] = []
        self._ring: SlotMemory | None = None

    def buffer(self, shape: tuple[int, ...] | int, dtype: Any) -> None:
        """Have a tile of this shape in each slot; `dtype` is an MLIR type or its text.

        Slots are memrefs in workgroup memory; with several buffers a slot is a tuple of them.
        Raises UsageError (bad-argument), (buffer-too-late) after the first slot was taken."""
        self._protocol.may_have_buffer()
        self._buffers.append(buffer_of(shape, dtype))

    def try_wait(self) -> Value:
        """Whether the oldest group has arrived: refused (no-try-wait), for no chip can ask that of
        a group of copies without waiting for it, and the ops of nvgpu wait for a phase of an mbarrier."""
        why = "copies can be waited for, and not asked whether they have arrived"
        advice = "consume() waits; with more depth it finds them there"
        raise misuse(why, code="no-try-wait", advice=advice)

    def _slots(self, views: Iterable[Value]) -> tuple[Slot, ...]:
        return tuple(Slot(view, self, self._protocol.held_at) for view in views)

    @contextmanager
    def _holding(self, slots: tuple[Slot, ...]) -> Iterator[Slots]:
        """The slots as a `with` is given them: one memref as itself, several as a tuple."""
        try:
            with located():
                yield slots if len(slots) > 1 else slots[0] if slots else None
        finally:
            self._protocol.leave(slots)


class Pipeline(SlotUser):
    """One queue of groups with `depth` slots.

    `depth`: slots of the ring, so at most as many groups are produced and not yet released.
    `queue`: the number of an abstract queue, from 0, which tells pipelines of a function apart.
    `scope`: who shares a slot: all threads of the block, those of a warp, or none ("thread").
    Buffers have that shape for each of them.
    `threads`: threads of a block in x, y and z, where the kernel does not say.
    `lanes`: threads of a warp: 32, or 64 on gfx9.
    `barriers`: `async-pipe` inserts those that the kernel lacks; without it they are yours.

    Raises UsageError (bad-argument) for numbers below 1, or a queue below 0."""

    @called_by_users
    def __init__(
        self,
        depth: int,
        queue: int = 0,
        *,
        scope: Scope = "block",
        threads: Threads | None = None,
        lanes: int = 32,
        barriers: bool = True,
    ) -> None:
        if scope not in ("block", "warp", "thread"):
            why = f"scope={scope!r}, expected 'block', 'warp' or 'thread'"
            raise misuse(why, code="bad-argument")
        self.depth = whole_number("depth", depth, 1, at=caller())
        self.queue = whole_number("queue", queue, 0, at=caller())
        self.scope = scope
        self.lanes = whole_number("lanes", lanes, 1, at=caller())
        self.barriers = barriers
        self._threads = threads
        super().__init__(Protocol(self.depth))

    @contextmanager
    def produce(self, when: Value | None = None) -> Iterator[Slots]:
        """Acquire a slot, issue what the block emits asynchronously, commit it as one group.

        `with pipe.produce() as slot:` emits at the current insertion point, as do all methods.
        `when`: an i1; where it is false nothing is issued, and the group is empty. Counts stay
        exact that way, which they do not where a whole `produce` stands under a condition.

        Raises UsageError (slot-open, depth-exceeded, slot-closed, pipeline-closed, forms-mixed)."""
        self._protocol.produce()
        self.producer_acquire()
        slots = self._take("produce")
        with self.issue(), self._holding(slots) as given, _under(when):
            yield given
        self.commit()

    @contextmanager
    def consume(self) -> Iterator[Slots]:
        """Wait for the oldest group not taken yet, emit the block, release the slot. Raises UsageError
        (consume-without-produce, slot-open, slot-closed, pipeline-closed)."""
        self._protocol.consume()
        self.consumer_wait()
        with self._holding(self._take("consume")) as given:
            yield given
        self.consumer_release()

    def loop(
        self,
        lower: Value | int,
        upper: Value | int,
        step: Value | int,
        load: Callable[..., Any],
        use: Callable[..., Any],
        init: Value | Sequence[Value] = (),
        **options: Any,
    ) -> Any:
        """A loop that copies `depth - 1` iterations ahead: `async-pipe` writes its prologue, kernel
        and epilogue.

        `load(i, slot)` writes what iteration i produces, `use(i, slot, …)` what it does with it: it
        is given what is carried, beginning with `init`, and returns that for the next iteration.
        Gives what is carried after the last one: a value or a tuple, as `init` is.
        `options`: those of `annotate`, such as `stage_through="registers"`.

        Raises UsageError (loop-results, slot-open, pipeline-closed, forms-mixed)."""
        self._protocol.loop()
        slots = self._take("loop")
        with self._holding(slots) as given:
            results = self._write_loop((lower, upper, step), load, use, init, given, options)
        if all(slot.filled for slot in slots) and self._ring is not None:
            self._ring.overwritten()
        return results

    def _write_loop(
        self,
        limits: tuple[Value | int, ...],
        load: Callable[..., Any],
        use: Callable[..., Any],
        init: Any,
        slots: Slots,
        options: dict[str, Any],
    ) -> Any:
        build = writer()
        bounds = [build.constant(at) if isinstance(at, int) else at for at in limits]
        single = isinstance(init, ir.Value)
        initial = [init] if single else list(init)
        loop = write_for(bounds, initial, build.ip, here())
        body = loop.regions[0].blocks[0]
        number, *carried = list(body.arguments)
        with _whole_or_gone(loop), ir.InsertionPoint(body) as ip, located():
            load(number, slots)
            if self._shares_by_barrier:
                write_fence(("workgroup",), ip, here())
            following = _following(use, use(number, slots, *carried), initial)
            if self._shares_by_barrier:
                write_fence(("workgroup",), ip, here())
            create("scf.yield", following, ip=ip, loc=here())
        annotate(loop, num_stages=self.depth, **options)
        results = tuple(loop.results)
        return results[0] if single else results

    def tail(self) -> None:
        """Wait for all that is in flight, and end the pipeline."""
        self._protocol.tail()
        wide = ir.IntegerType.get_signless(64)
        self._emit("wait_queue").attributes["count"] = ir.IntegerAttr.get(wide, 0)

    def participants(self) -> Participants:
        """Those who share a slot, and the number of the one that runs."""
        sizes, write = self._sizes(), writer()
        if self.scope == "thread":
            return Participants(1, 0)
        number = write.thread_number(sizes)
        if self.scope == "block" or isinstance(number, int):
            return Participants(prod(sizes), number)
        return Participants(self.lanes, write.remainder(number, self.lanes))

    def producer_acquire(self) -> None:
        self._emit("producer_acquire", depth=self.depth)

    @contextmanager
    def issue(self) -> Iterator[None]:
        """What the block emits runs asynchronously, in any order until it is waited for."""
        scope = self._emit("scope", regions=1)
        block = scope.regions[0].blocks.append()
        with ir.InsertionPoint(block):
            yield
            create("async_pipe.yield", ip=ir.InsertionPoint.current, loc=scope.location)

    def commit(self) -> Value:
        """Commit all that was issued since the last commit as one group; returns its token."""
        return self._emit("commit_queue", results=[ir.Type.parse(TOKEN_TYPE)]).results[0]

    def consumer_wait(self) -> None:
        """Wait for the oldest group that no consumer_wait took before."""
        self._emit("consumer_wait")

    def wait(self, *tokens: Value) -> None:
        """Wait for the groups of these tokens, which `commit` returned."""
        self._emit("wait_queue", operands=tokens)

    def consumer_release(self) -> None:
        """Give the oldest slot taken back to the producer."""
        self._emit("consumer_release")

    @property
    def _shares_by_barrier(self) -> bool:
        return self.barriers and self.scope != "thread"

    def _take(self, role: str) -> tuple[Slot, ...]:
        """The tiles of the slot that comes next."""
        if self._ring is None:
            self._ring = self._new_ring(1 if role == "loop" else self.depth)
        return self._slots(self._ring.views(role))

    @plain_values()
    def _new_ring(self, slots: int) -> SlotMemory:
        op = kernel()
        group = None
        if self.scope != "block" and self._buffers:
            sizes = self._sizes()
            write = IntegerWriter(entry(op), here())
            number = write.thread_number(sizes)
            members = self.lanes if self.scope == "warp" else 1
            if prod(sizes) > members and not isinstance(number, int):
                group = write.divide(number, members), -(-prod(sizes) // members)
        if self._buffers and self._shares_by_barrier and op.name != "gpu.launch":
            op.attributes[BARRIERS] = ir.UnitAttr.get()
        return SlotMemory(self._buffers, op, slots, group)

    def _sizes(self) -> tuple[int, ...]:
        return threads_of(kernel(), self._threads)

    def _emit(
        self,
        name: str,
        operands: tuple[Value, ...] = (),
        results: list[Any] | None = None,
        regions: int = 0,
        **numbers: int,
    ) -> Operation:
        wide = ir.IntegerType.get_signless(64)
        attributes = {
            key: ir.IntegerAttr.get(wide, value)
            for key, value in (("queue", self.queue), *numbers.items())
        }
        return create(
            f"async_pipe.{name}",
            operands,
            results or [],
            attributes,
            regions=regions,
            ip=ir.InsertionPoint.current,
            loc=here(),
        )


@contextmanager
def _under(condition: Value | None) -> Iterator[None]:
    """Writes into an scf.if, where there is a condition."""
    if condition is None:
        yield
        return
    branch = write_if(condition, (), None, ir.InsertionPoint.current, here())
    with at_end_of(branch.regions[0]):
        yield


def _following(use: Callable[..., Any], given: Any, initial: list[Value]) -> list[Value]:
    """What `use` returned, as the values that the next iteration is given."""
    values = _values(given)
    expected = [value.type for value in initial]
    if [value.type for value in values] != expected:
        code = use.__code__ if hasattr(use, "__code__") else None
        at = Place(code.co_filename, code.co_firstlineno, 1) if code else None
        found = ", ".join(str(value.type) for value in values)
        why = f"'use' returns ({found}), and the loop carries ({', '.join(map(str, expected))})"
        raise misuse(why, code="loop-results", at=at)
    return values


@contextmanager
def _whole_or_gone(op: Operation) -> Iterator[None]:
    """An op that is not finished because of an error is erased."""
    try:
        yield
    except BaseException:
        op.erase()
        raise


def _values(given: Any) -> list[Any]:
    """The values of what a function returned: nothing, values, ops (a store has none), or several."""
    if given is None:
        return []
    if isinstance(given, ir.Value):
        return [given]
    if hasattr(given, "operation"):
        return list(given.operation.results)
    return [value for one in given for value in _values(one)]


# In which order a pipeline may be asked, and what is said at the user's line where it is not.
#
#     with pipe.consume(): …                 kernel.py:12: nothing was produced  [consume-without-produce]
#     with pipe.produce() as a:
#         with pipe.produce() as b: …        kernel.py:15: the slot of line 14 is not committed  [slot-open]
#
# Only what is sure from the text is looked at here: steps of one block follow each other, and what
# happens on the paths of loops and conditions is the count pass's to say.


Role = Literal["produce", "consume", "loop"]


class Protocol:
    """What was asked of one pipeline so far."""

    def __init__(self, depth: int, apart: bool = False) -> None:
        """`apart`: others produce than consume, in any order of the text."""
        self._depth = depth
        self._apart = apart
        self._form: Literal["", "slots", "loop"] = ""
        self._begun: Place | None = None
        self._ended: Place | None = None
        # The `with` that stand open, and the slots of those that ended.
        self._open: list[tuple[Role, Place]] = []
        self._closed: list[Slot] = []
        self._produced = 0
        # Slots taken less slots released since the steps came to stand in this block.
        self._block: Any = None
        self._taken = 0
        self._produced_here = 0
        self._consumed = 0

    def may_have_buffer(self) -> None:
        """Raises UsageError (buffer-too-late) once the memory of the slots is made."""
        if self._begun is not None:
            why = "a buffer after the first slot was taken"
            notes = (("it was taken here", self._begun),)
            advice = "ask for all buffers first"
            raise misuse(why, code="buffer-too-late", notes=notes, advice=advice)

    def produce(self) -> None:
        """A slot is to be filled."""
        self._begin("slots", "produce")
        self._nothing_open("another slot is produced", "produce")
        self._come_to_block()
        if self._taken == self._depth and not self._apart:
            raise misuse(
                f"{self._depth + 1} slots of a pipeline of depth {self._depth} are taken before "
                "one is released",
                code="depth-exceeded",
                advice="consume one first, or take more depth",
            )
        self._produced += 1
        self._produced_here += 1
        self._taken += 1
        self._open.append(("produce", caller()))

    def consume(self) -> None:
        """The oldest slot is to be read."""
        self._begin("slots", "consume")
        self._nothing_open("a slot is consumed", "produce")
        self._come_to_block()
        self._consumed += 1
        # Each execution of this block produces as many as stand in it, if none stands elsewhere.
        elsewhere = self._produced - self._produced_here
        if self._consumed > self._produced_here and not elsewhere and not self._apart:
            many = self._produced_here
            raise misuse(
                "a slot is consumed, and none was produced before"
                if not many
                else f"slot number {many + 1} is consumed, and only {many} "
                + ("was" if many == 1 else "were")
                + " produced before",
                code="consume-without-produce",
                advice="with pipe.produce() as slot: … comes first, in the order of the text",
            )
        self._taken -= 1
        self._open.append(("consume", caller()))

    def loop(self) -> None:
        """A whole loop is to be written."""
        self._begin("loop", "loop")
        self._nothing_open("a loop is written")
        self._open.append(("loop", caller()))

    def tail(self) -> None:
        """The pipeline is to end."""
        self._begin(self._form or "slots", "produce")
        self._nothing_open("the pipeline ends")
        self._ended = caller()

    @property
    def held_at(self) -> Place:
        """Where the slot was taken that is held now."""
        return self._open[-1][1]

    def leave(self, slots: tuple[Slot, ...]) -> None:
        self._open.pop()
        for slot in slots:
            slot.close()
        self._closed += slots

    def _nothing_open(self, what: str, role: Role | None = None) -> None:
        """Raises UsageError (slot-open) where a `with` stands open, of this role if one is named."""
        places = [place for of, place in self._open if role in (None, of)]
        if places:
            why = f"{what} while a slot is still held"
            notes = (("it was taken here", places[-1]),)
            advice = "end its 'with' first, which commits it"
            raise misuse(why, code="slot-open", notes=notes, advice=advice)

    def _begin(self, form: Literal["", "slots", "loop"], role: Role) -> None:
        # Who consumes may be written below the producer and its tail.
        if self._ended is not None and not (self._apart and role == "consume"):
            notes = (("its tail stands here", self._ended),)
            raise misuse("the pipeline has ended", code="pipeline-closed", notes=notes)
        if self._form not in ("", form):
            assert self._begun is not None
            why = "a pipeline is either a loop or written slot by slot"
            notes = (("it began here", self._begun),)
            advice = "two pipelines, with queues of their own"
            raise misuse(why, code="forms-mixed", notes=notes, advice=advice)
        self._look_for_late_uses()
        self._form = form
        self._begun = self._begun or caller()

    @plain_values()
    def _look_for_late_uses(self) -> None:
        """Raises UsageError (slot-closed) if an op came to use a slot after its `with`."""
        for slot in self._closed:
            if source_op(slot).name in ALLOCATION_OPS:
                # One slot is the memory itself, which later slots use too.
                continue
            uses = list(slot.uses)
            if len(uses) > slot.uses_inside:
                late = Place.of(uses[0].owner.operation)
                why = "a slot was used after its 'with' had ended, when it may hold another tile"
                notes = (("the slot was taken here", slot.place),)
                raise misuse(why, code="slot-closed", notes=notes, at=late if late.line else None)

    @plain_values()
    def _come_to_block(self) -> None:
        block = ir.InsertionPoint.current.block
        if self._block is None or self._block != block:
            self._block, self._taken = block, 0
            self._produced_here = self._consumed = 0
        self._taken = max(self._taken, 0)
