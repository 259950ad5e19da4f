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

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, create, plain_values
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_for, write_if
from mlir_async_pipe.builder.caller import caller, here, located, misuse
from mlir_async_pipe.builder.participants import (
    Participants,
    Threads,
    entry,
    kernel,
    thread_number,
    threads_of,
    writer,
)
from mlir_async_pipe.builder.protocol import Protocol, no_try_wait
from mlir_async_pipe.builder.slot_memory import Slot, SlotBuffer, SlotMemory, as_given, buffer_of
from mlir_async_pipe.facts.loops.annotations import BARRIERS, annotate
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.session.arguments import whole_number
from mlir_async_pipe.session.called_from import called_by_users
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.vocabulary.async_ops import TOKEN_TYPE
from mlir_async_pipe.vocabulary.barriers import write_fence

Scope = Literal["block", "warp", "thread"]
Slots = Slot | tuple[Slot, ...] | None


class Pipeline:
    """One queue of groups with `depth` slots.

    `depth`: slots of the ring, so at most as many groups are produced and not yet released.
    `queue`: the number of an abstract queue, from 0, which tells pipelines of a function apart.
    `scope`: who shares a slot: all threads of the block, those of a warp, or none ("thread").
    Buffers have that shape for each of them.
    `threads`: threads of a block in x, y and z, where the kernel does not say.
    `lanes`: threads of a warp: 32, or 64 on gfx9.
    `barriers`: `async-pipe` inserts those that the kernel lacks; without it they are yours.

    Raises UsageError (bad-argument) for numbers below 1, or a queue below 0.
    """

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
            raise misuse(
                f"scope={scope!r}, expected 'block', 'warp' or 'thread'", code="bad-argument"
            )
        self.depth = whole_number("depth", depth, 1, at=caller())
        self.queue = whole_number("queue", queue, 0, at=caller())
        self.scope = scope
        self.lanes = whole_number("lanes", lanes, 1, at=caller())
        self.barriers = barriers
        self._threads = threads
        self._buffers: list[SlotBuffer] = []
        self._protocol = Protocol(self.depth)
        self._ring: SlotMemory | None = None

    def buffer(self, shape: tuple[int, ...] | int, dtype: Any) -> None:
        """Have a tile of this shape in each slot; `dtype` is an MLIR type or its text.

        Slots are memrefs in workgroup memory; with several buffers a slot is a tuple of them.
        Raises UsageError (bad-argument), (buffer-too-late) after the first produce.
        """
        self._protocol.may_have_buffer()
        self._buffers.append(buffer_of(shape, dtype))

    @contextmanager
    def produce(self, when: Value | None = None) -> Iterator[Slots]:
        """Acquire a slot, issue what the block emits asynchronously, commit it as one group.

        `with pipe.produce() as slot:` emits at the current insertion point, as do all methods.
        `when`: an i1; where it is false nothing is issued, and the group is empty. Counts stay
        exact that way, which they do not where a whole `produce` stands under a condition.

        Raises UsageError (slot-open, depth-exceeded, slot-closed, pipeline-closed, forms-mixed).
        """
        self._protocol.produce()
        self.producer_acquire()
        slots = self._take("produce")
        try:
            with self.issue(), located(), _under(when):
                yield as_given(slots)
        finally:
            self._protocol.leave(slots)
        self.commit()

    @contextmanager
    def consume(self) -> Iterator[Slots]:
        """Wait for the oldest group not taken yet, emit the block, release the slot.

        Raises UsageError (consume-without-produce, slot-open, slot-closed, pipeline-closed).
        """
        self._protocol.consume()
        self.consumer_wait()
        slots = self._take("consume")
        try:
            with located():
                yield as_given(slots)
        finally:
            self._protocol.leave(slots)
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

        Raises UsageError (loop-results, slot-open, pipeline-closed, forms-mixed).
        """
        self._protocol.loop()
        slots = self._take("loop")
        written = LoopContext((lower, upper, step), load, use, init, options)
        try:
            results = written.write(as_given(slots), self.depth, self._shares_by_barrier)
            if all(slot.filled for slot in slots) and self._ring is not None:
                self._ring.overwritten()
            return results
        finally:
            self._protocol.leave(slots)

    def tail(self) -> None:
        """Wait for all that is in flight, and end the pipeline."""
        self._protocol.tail()
        wide = ir.IntegerType.get_signless(64)
        self._emit("wait_queue").attributes["count"] = ir.IntegerAttr.get(wide, 0)

    def try_wait(self) -> Value:
        """Whether the oldest group has arrived: refused (no-try-wait), for no chip can ask that of
        a group of copies without waiting for it."""
        raise no_try_wait()

    def participants(self) -> Participants:
        """Those who share a slot, and the number of the one that runs."""
        sizes, write = self._sizes(), writer()
        if self.scope == "thread":
            return Participants(1, 0)
        number = thread_number(sizes, write)
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
        token = ir.Type.parse(TOKEN_TYPE)
        return self._emit("commit_queue", results=[token]).results[0]

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
        place = self._protocol.held_at
        return tuple(Slot(view, self, place) for view in self._ring.views(role))

    @plain_values()
    def _new_ring(self, slots: int) -> SlotMemory:
        op = kernel()
        group = None
        if self.scope != "block" and self._buffers:
            sizes = self._sizes()
            write = IntegerWriter(entry(op), here())
            number = thread_number(sizes, write)
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


@dataclass(frozen=True)
class LoopContext:
    bounds: tuple[Value | int, ...]
    load: Callable[..., Any]
    use: Callable[..., Any]
    init: Value | Sequence[Value]
    options: dict[str, Any]

    def write(self, slots: Any, depth: int, barriers: bool) -> Any:
        """Write it at the current insertion point; what it carries at its end."""
        build = writer()
        bounds = [build.constant(at) if isinstance(at, int) else at for at in self.bounds]
        init: Any = self.init
        single = isinstance(init, ir.Value)
        initial = [init] if single else list(init)
        loop = write_for(bounds, initial, build.ip, here())
        body = loop.regions[0].blocks[0]
        number, *carried = list(body.arguments)
        with _whole_or_gone(loop), ir.InsertionPoint(body) as ip, located():
            self.load(number, slots)
            if barriers:
                write_fence(("workgroup",), ip, here())
            following = self._following(self.use(number, slots, *carried), initial)
            if barriers:
                write_fence(("workgroup",), ip, here())
            create("scf.yield", following, ip=ip, loc=here())
        annotate(loop, num_stages=depth, **self.options)
        results = tuple(loop.results)
        return results[0] if single else results

    def _following(self, given: Any, initial: list[Value]) -> list[Value]:
        """What `use` returned, as the values that the next iteration is given."""
        values = _values(given)
        expected = [value.type for value in initial]
        if [value.type for value in values] != expected:
            code = self.use.__code__ if hasattr(self.use, "__code__") else None
            at = Place(code.co_filename, code.co_firstlineno, 1) if code else None
            raise misuse(
                f"'use' returns {_listed(values)}, and the loop carries "
                f"({', '.join(map(str, expected))})",
                code="loop-results",
                at=at,
            )
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


def _listed(values: list[Any]) -> str:
    return f"({', '.join(str(value.type) for value in values)})"
