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
from mlir_async_pipe.bindings.raw_ops import Value, plain_values
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_if
from mlir_async_pipe.builder.caller import caller, entry, here, kernel, misuse, threads_of, writer
from mlir_async_pipe.builder.pipeline import Protocol, Role, SlotUser
from mlir_async_pipe.builder.slot_memory import ROLES, SPACE, Slot, SlotMemory
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.loops.transactions import write_mbarrier_fences, write_mbarrier_wait
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.session.arguments import whole_number
from mlir_async_pipe.session.called_from import called_by_users

# The producer has a warp of its own.
WARP = 32
# What a copy by tensor map needs of its destination, in bytes.
ALIGNMENT = 128


class RolePipeline(SlotUser):
    """A ring of `depth` slots between a thread that produces and `consumers` that consume.

    `depth`: slots, 2 or more. `consumers`: threads, whole warps of them; the block has one warp more, and
    no more than a chip runs (1024). Tiles are multiples of 128 bytes.
    For NVIDIA chips from sm_90 on; the lowering for others refuses the copies.

    Raises UsageError (bad-argument)."""

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
        super().__init__(Protocol(depth, apart=True))
        self._role: Role | None = None

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
        (tile-missing) where a tile was not."""
        self._protocol.produce()
        slots, number = self._take("produce")
        write = writer()
        size = write.constant(sum(buffer.bytes for buffer in self._buffers))
        write.op("nvgpu.mbarrier.arrive.expect_tx", [self._full, size, number])
        with self._holding(slots) as given:
            yield given
        if not all(slot.filled for slot in slots):
            why = "a tile of the slot is not copied, so that its consumers would wait forever"
            notes = (("the slot was taken here", slots[0].place),)
            raise misuse(why, code="tile-missing", notes=notes)

    @contextmanager
    def consume(self) -> Iterator[Any]:
        """Wait for the oldest slot, then give it back. Raises UsageError (role-missing) outside of `consumer`."""
        self._protocol.consume()
        slots, number = self._take("consume")
        with self._holding(slots) as given:
            yield given
        token = ir.Type.parse("!nvgpu.mbarrier.token")
        writer().op("nvgpu.mbarrier.arrive", [self._empty, number], [token])

    def tail(self) -> None:
        """Wait, as the producer, until all slots have been given back; nothing is produced any more. Raises
        UsageError (role-missing) outside of `producer`, (pipeline-closed) after another `tail`."""
        self._in_role("produce")
        self._protocol.tail()
        for _ in range(self.depth):
            self._next("produce")

    def copy_box(self, source: Value, slot: Slot, at: Sequence[Any]) -> None:
        """Copy the box of a tensor map that begins at these subscripts into a tile, as `copy_tile` does."""
        write = writer()
        places = [write.constant(place) if isinstance(place, int) else place for place in at]
        # A tensor map counts its fastest dimension first (PTX ISA, tensor coordinates).
        operands = [slot, self._full, source, *reversed(places), self._number]
        sizes = ir.DenseI32ArrayAttr.get([1, 1, 1, len(places), 1, 0, 0])
        write.op("nvgpu.tma.async.load", operands, (), {"operandSegmentSizes": sizes})
        slot.filled = True

    @contextmanager
    def _as(self, role: Role, predicate: str) -> Iterator[None]:
        if self._role is not None:
            raise misuse("a role inside of a role", code="role-missing")
        self._begin()
        build = writer()
        mine = build.compare(predicate, self._thread, self.consumers)
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
        self._number = number
        return self._slots(self._ring.tiles(number)), number

    def _next(self, role: Role) -> Value:
        """Wait for the slot that comes next; its number."""
        assert self._ring is not None
        slot, phase = self._ring.advance(role, self._phases[role])
        assert phase is not None
        barriers = self._empty if role == "produce" else self._full
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
        self._write_mbarriers(IntegerWriter(entry(op), here()), sizes)

    def _write_mbarriers(self, write: IntegerWriter, sizes: tuple[int, ...]) -> None:
        """`full` and `empty`, one of each for each slot, and the number of the thread that runs."""
        group = f"memorySpace = {SPACE}, num_barriers = {self.depth}"
        kind = ir.Type.parse(f"!nvgpu.mbarrier.group<{group}>")
        self._full, self._empty = (write.make("nvgpu.mbarrier.create", (), kind) for _ in range(2))
        number = write.thread_number(sizes)
        assert not isinstance(number, int)
        self._thread = number
        first = write.compare("eq", number, 0)
        for barrier, arrivals in ((self._full, 1), (self._empty, self.consumers)):
            for slot in range(self.depth):
                operands = [barrier, write.constant(arrivals), write.constant(slot), first]
                write.op("nvgpu.mbarrier.init", operands)
        write_mbarrier_fences(write)
        write.op("gpu.barrier")
