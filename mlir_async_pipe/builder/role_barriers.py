"""The mbarriers of a ring, and copies by tensor maps that complete on them.

%full, %empty = nvgpu.mbarrier.create       at the kernel's entry, initialised by thread 0:
nvgpu.mbarrier.init %full[%s], 1            one arrival a tile, and the bytes of its copies
nvgpu.mbarrier.init %empty[%s], 64          one of each consumer
fence; gpu.barrier                          before anybody uses them
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, attribute, create
from mlir_async_pipe.builder.caller import here
from mlir_async_pipe.builder.participants import entry, thread_number
from mlir_async_pipe.builder.slot_memory import SPACE
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter

# How long a try_wait sleeps at most before it looks again, in ticks.
TICKS = 10_000_000


class Mbarriers:
    """`full` and `empty`, one of each for each slot; `number` is that of the thread that runs."""

    def __init__(self, op: Operation, slots: int, consumers: int, sizes: tuple[int, ...]) -> None:
        ip, loc = entry(op), here()
        write = IntegerWriter(ip, loc)
        kind = ir.Type.parse(
            f"!nvgpu.mbarrier.group<memorySpace = {SPACE}, num_barriers = {slots}>"
        )
        self.full, self.empty = (
            create("nvgpu.mbarrier.create", (), [kind], ip=ip, loc=loc).results[0] for _ in range(2)
        )
        number = thread_number(sizes, write)
        assert not isinstance(number, int)
        self.number = number
        first = write.compare("eq", number, 0)
        for barrier, arrivals in ((self.full, 1), (self.empty, consumers)):
            for slot in range(slots):
                operands = [barrier, write.constant(arrivals), write.constant(slot), first]
                create("nvgpu.mbarrier.init", operands, ip=ip, loc=loc)
        create("nvvm.fence.mbarrier.init", ip=ip, loc=loc)
        proxy = {
            "kind": attribute("#nvvm.proxy_kind<async.shared>", op.context),
            "space": attribute("#nvvm.shared_space<cta>", op.context),
        }
        create("nvvm.fence.proxy", (), (), proxy, ip=ip, loc=loc)
        create("gpu.barrier", ip=ip, loc=loc)

    def wait(self, barriers: Value, slot: Value, phase: Value) -> None:
        """Stop until the phase of this parity is over."""
        write = _writer()
        operands = [barriers, phase, write.constant(TICKS), slot]
        create("nvgpu.mbarrier.try_wait.parity", operands, ip=write.ip, loc=write.location)

    def expect(self, slot: Value, size: int) -> None:
        """Announce the bytes of the slot's copies."""
        write = _writer()
        operands = [self.full, write.constant(size), slot]
        create("nvgpu.mbarrier.arrive.expect_tx", operands, ip=write.ip, loc=write.location)

    def give_back(self, slot: Value) -> None:
        """This thread is done with the slot."""
        write, token = _writer(), ir.Type.parse("!nvgpu.mbarrier.token")
        operands = [self.empty, slot]
        create("nvgpu.mbarrier.arrive", operands, [token], ip=write.ip, loc=write.location)

    def copy(self, source: Value, target: Value, at: Sequence[Any], slot: Value) -> None:
        """Copy the box of a tensor map that begins at these subscripts."""
        write = _writer()
        places = [write.constant(place) if isinstance(place, int) else place for place in at]
        # A tensor map counts its fastest dimension first (PTX ISA, tensor coordinates).
        operands = [target, self.full, source, *reversed(places), slot]
        sizes = ir.DenseI32ArrayAttr.get([1, 1, 1, len(places), 1, 0, 0])
        segments = {"operandSegmentSizes": sizes}
        create("nvgpu.tma.async.load", operands, (), segments, ip=write.ip, loc=write.location)


def _writer() -> IntegerWriter:
    return IntegerWriter(ir.InsertionPoint.current, here())
