"""`RolePipeline`: one thread copies by tensor maps, others consume, and they meet at mbarriers.

    pipe = RolePipeline(3, consumers=64)      a block of 96: threads 0 … 63 consume, 64 produces
    with pipe.producer():                     scf.if %thread == 64
        with pipe.produce() as slot:              try_wait %empty[s], phase; expect %full[s], bytes
            copy_tile(tensor_map, slot, at=…)     nvgpu.tma.async.load … %full[s]
    with pipe.consumer():                     scf.if %thread < 64
        with pipe.consume() as slot:              try_wait %full[s], phase
            use(slot)                             use; nvgpu.mbarrier.arrive %empty[s]

A phase is over when the slots begin anew, so it flips there (docs/phases.md). The producer's first
wait is for parity 1, which an mbarrier in its first phase lets pass: all slots are free.

    %full, %empty = nvgpu.mbarrier.create       at the kernel's entry, initialised by thread 0:
    nvgpu.mbarrier.init %full[%s], 1            one arrival a tile, and the bytes of its copies
    nvgpu.mbarrier.init %empty[%s], 64          one of each consumer
    fence; gpu.barrier                          before anybody uses them
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, plain_values
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_if
from mlir_async_pipe.builder.caller import caller, here, located, misuse
from mlir_async_pipe.builder.participants import entry, kernel, threads_of, writer
from mlir_async_pipe.builder.pipeline import Protocol, Role, no_try_wait
from mlir_async_pipe.builder.slot_memory import (
    ROLES,
    SPACE,
    Slot,
    SlotBuffer,
    SlotMemory,
    as_given,
    buffer_of,
)
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.loops.transactions import write_mbarrier_fences, write_mbarrier_wait
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.session.arguments import whole_number
from mlir_async_pipe.session.called_from import called_by_users

# The producer has a warp of its own.
WARP = 32
# What a copy by tensor map needs of its destination, in bytes.
ALIGNMENT = 128


class RolePipeline:
    """A ring of `depth` slots between a thread that produces and `consumers` that consume.

    `depth`: slots, 2 or more. `consumers`: threads, whole warps of them; the block has one warp more, and
    no more than a chip runs (1024).
    For NVIDIA chips from sm_90 on; the lowering for others refuses the copies.

    Raises UsageError (bad-argument).
    """

    @called_by_users
    def __init__(self, depth: int, consumers: int) -> None:
        self.depth = whole_number("depth", depth, 2, at=caller())
        self.consumers = whole_number("consumers", consumers, WARP, at=caller())
        if consumers % WARP:
            why = f"{consumers} consumers, expected whole warps of {WARP} threads"
            raise misuse(why, code="bad-argument")
        if consumers + WARP > Chip.threads:
            raise misuse(
                f"{consumers} consumers and a warp that produces, of at most {Chip.threads} threads of a block",
                code="bad-argument",
            )
        self._buffers: list[SlotBuffer] = []
        self._protocol = Protocol(depth, apart=True)
        self._role: Role | None = None
        self._ring: SlotMemory | None = None

    def buffer(self, shape: tuple[int, ...] | int, dtype: Any) -> None:
        """Have a tile of this shape in each slot, a multiple of 128 bytes.

        Raises UsageError (bad-argument), (buffer-too-late) after the first slot was taken.
        """
        self._protocol.may_have_buffer()
        self._buffers.append(buffer_of(shape, dtype))

    @contextmanager
    def producer(self) -> Iterator[None]:
        """What the producing thread does. Raises UsageError (role-missing) inside of a role."""
        with self._as("produce", "eq"):
            yield

    @contextmanager
    def consumer(self) -> Iterator[None]:
        """What the consuming threads do. Raises UsageError (role-missing) inside of a role."""
        with self._as("consume", "ult"):
            yield

    @contextmanager
    def produce(self) -> Iterator[Any]:
        """Wait for a free slot; each of its tiles is to be copied by `copy_tile(tensor_map, slot, at=…)`.

        Raises UsageError (role-missing) outside of `producer`, (pipeline-closed) after its `tail`,
        (tile-missing) where a tile was not.
        """
        self._protocol.produce()
        slots, number = self._take("produce")
        self._mbarriers.expect(number, self._bytes)
        try:
            with located():
                yield as_given(slots)
        finally:
            self._protocol.leave(slots)
        if not all(slot.filled for slot in slots):
            raise misuse(
                "a tile of the slot is not copied, so that its consumers would wait forever",
                code="tile-missing",
                notes=(("the slot was taken here", slots[0].place),),
            )

    @contextmanager
    def consume(self) -> Iterator[Any]:
        """Wait for the oldest slot, then give it back.

        Raises UsageError (role-missing) outside of `consumer`.
        """
        self._protocol.consume()
        slots, number = self._take("consume")
        try:
            with located():
                yield as_given(slots)
        finally:
            self._protocol.leave(slots)
        self._mbarriers.give_back(number)

    def tail(self) -> None:
        """Wait, as the producer, until all slots have been given back; nothing is produced any more.

        Raises UsageError (role-missing) outside of `producer`, (pipeline-closed) after another `tail`.
        """
        self._in_role("produce")
        self._protocol.tail()
        for _ in range(self.depth):
            self._next("produce")

    def try_wait(self) -> Value:
        """Refused (no-try-wait): the ops of nvgpu wait for a phase, or ask by an arrival's token."""
        raise no_try_wait()

    def copy_box(self, source: Value, slot: Slot, at: Sequence[Any]) -> None:
        """Copy the box of a tensor map into a tile, as `copy_tile` does."""
        self._mbarriers.copy(source, slot, at, self._number)
        slot.filled = True

    @property
    def _bytes(self) -> int:
        return sum(buffer.bytes for buffer in self._buffers)

    @contextmanager
    def _as(self, role: Role, predicate: str) -> Iterator[None]:
        if self._role is not None:
            raise misuse("a role inside of a role", code="role-missing")
        self._begin()
        build = writer()
        mine = build.compare(predicate, self._mbarriers.number, self.consumers)
        branch = write_if(mine, (), None, build.ip, build.location)
        self._role = role
        try:
            with at_end_of(branch.regions[0]):
                yield
        finally:
            self._role = None

    def _in_role(self, role: Role) -> None:
        if self._role != role:
            why = f"'{role}' outside of its role"
            raise misuse(why, code="role-missing", advice=f"with pipe.{role}r(): …")

    def _take(self, role: Role) -> tuple[tuple[Slot, ...], Value]:
        self._in_role(role)
        number = self._next(role)
        assert self._ring is not None
        place = self._protocol.held_at
        self._number = number
        return tuple(Slot(view, self, place) for view in self._ring.tiles(number)), number

    def _next(self, role: Role) -> Value:
        """Wait for the slot that comes next; its number."""
        assert self._ring is not None
        slot, phase = self._ring.advance(role, self._phases[role])
        assert phase is not None
        barriers = self._mbarriers.empty if role == "produce" else self._mbarriers.full
        write_mbarrier_wait(writer(), barriers, slot, phase)
        return slot

    @plain_values()
    def _begin(self) -> None:
        """The ring and its mbarriers, once."""
        if self._ring is not None:
            return
        if not self._buffers:
            raise misuse("a pipeline with roles has buffers", code="bad-argument")
        if any(buffer.bytes % ALIGNMENT for buffer in self._buffers):
            raise misuse(f"tiles that are no multiples of {ALIGNMENT} bytes", code="bad-argument")
        op = kernel()
        sizes = threads_of(op, self.consumers + WARP)
        self._ring = SlotMemory(self._buffers, op, self.depth, alignment=ALIGNMENT)
        starts = zip(ROLES, (1, 0), strict=True)
        self._phases = {role: self._ring.cell("i1", start) for role, start in starts}
        self._mbarriers = RoleMbarriers(op, self.depth, self.consumers, sizes)


class RoleMbarriers:
    """`full` and `empty`, one of each for each slot; `number` is that of the thread that runs."""

    def __init__(self, op: Operation, slots: int, consumers: int, sizes: tuple[int, ...]) -> None:
        write = IntegerWriter(entry(op), here())
        kind = ir.Type.parse(
            f"!nvgpu.mbarrier.group<memorySpace = {SPACE}, num_barriers = {slots}>"
        )
        self.full, self.empty = (write.make("nvgpu.mbarrier.create", (), kind) for _ in range(2))
        number = write.thread_number(sizes)
        assert not isinstance(number, int)
        self.number = number
        first = write.compare("eq", number, 0)
        for barrier, arrivals in ((self.full, 1), (self.empty, consumers)):
            for slot in range(slots):
                operands = [barrier, write.constant(arrivals), write.constant(slot), first]
                write.op("nvgpu.mbarrier.init", operands)
        write_mbarrier_fences(write)
        write.op("gpu.barrier")

    def expect(self, slot: Value, size: int) -> None:
        """Announce the bytes of the slot's copies."""
        write = writer()
        write.op("nvgpu.mbarrier.arrive.expect_tx", [self.full, write.constant(size), slot])

    def give_back(self, slot: Value) -> None:
        """This thread is done with the slot."""
        write, token = writer(), ir.Type.parse("!nvgpu.mbarrier.token")
        operands = [self.empty, slot]
        write.op("nvgpu.mbarrier.arrive", operands, [token])

    def copy(self, source: Value, target: Value, at: Sequence[Any], slot: Value) -> None:
        """Copy the box of a tensor map that begins at these subscripts."""
        write = writer()
        places = [write.constant(place) if isinstance(place, int) else place for place in at]
        # A tensor map counts its fastest dimension first (PTX ISA, tensor coordinates).
        operands = [target, self.full, source, *reversed(places), slot]
        sizes = ir.DenseI32ArrayAttr.get([1, 1, 1, len(places), 1, 0, 0])
        write.op("nvgpu.tma.async.load", operands, (), {"operandSegmentSizes": sizes})
