"""What an index is in another thread of the wave.

    %row = arith.divui %tid, %c4        in thread %t:  %row' = arith.divui %t, %c4

The arithmetic behind a value is cloned with the ids of the thread replaced. Values that all
threads share stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, clone, defining_op, source_op
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.lowering.rocdl.wave_layout import WaveBlock
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.vocabulary import is_pure
from mlir_async_pipe.vocabulary.launch_ids import thread_dimension

_IDS = ("gpu.thread_id", "gpu.lane_id", "gpu.subgroup_id")


def check_follows(copy: Operation, values: list[Value], uniformity: Uniformity) -> None:
    """Raise LoweringError (wave-layout) unless `in_thread` can answer for all `values`."""

    def that_differ(among: Iterable[Value]) -> list[Value]:
        return [value for value in among if uniformity.difference(value) is not None]

    for value in walked(that_differ(values), lambda v: that_differ(source_op(v).operands)):
        op = defining_op(value)
        if op is None or len(op.regions) or not (op.name in _IDS or is_pure(op)):
            raise LoweringError(
                "the copy cannot move to another lane: an index of it differs between threads "
                "and is not made of thread ids and constants",
                code="wave-layout",
                at=copy,
                notes=(("the value that differs", uniformity.difference(value)),),
            )


class Wave:
    """The wave of the running thread: its first thread and the thread's lane in it."""

    def __init__(self, function: Operation, block: WaveBlock, uniformity: Uniformity) -> None:
        self.block = block
        self._uniformity = uniformity
        entry = function.regions[0].blocks[0]
        first = entry.operations[0].operation
        self._builder = IntegerWriter(ir.InsertionPoint(first), function.location)
        self._first: Value | None = None
        self._lane: Value | None = None

    def first(self) -> Value:
        """The linear number of the wave's first thread; the same scalar in all its lanes."""
        if self._first is None:
            self._make()
        assert self._first is not None
        return self._first

    def lane(self) -> Value:
        if self._lane is None:
            self._make()
        assert self._lane is not None
        return self._lane

    def in_thread(
        self, value: Value, thread: Value, build: IntegerWriter, known: dict[Value, Value]
    ) -> Value:
        """`value` as the thread of linear number `thread` computes it, at `build`'s place.

        `known` holds what was already made for that thread at that place.
        """
        if value in known:
            return known[value]
        if self._uniformity.difference(value) is None:
            return value
        op = defining_op(value)
        assert op is not None
        if op.name in _IDS:
            known[value] = self._id(op, thread, build)
            return known[value]
        for operand in op.operands:
            self.in_thread(operand, thread, build, known)
        clone(op, known, build.ip)
        return known[value]

    def _id(self, op: Operation, thread: Value, build: IntegerWriter) -> Value:
        if op.name == "gpu.lane_id":
            return build.remainder(thread, self.block.lanes)
        if op.name == "gpu.subgroup_id":
            return build.divide(thread, self.block.lanes)
        x, y, z = self.block.size
        dimension = thread_dimension(op)
        if dimension == 0:
            return thread if y * z == 1 else build.remainder(thread, x)
        if dimension == 1:
            row = build.divide(thread, x)
            return row if z == 1 else build.remainder(row, y)
        return build.divide(thread, x * y)

    def _make(self) -> None:
        """Linear thread, lane, and the wave's first thread, at the top of the function.

        rocdl.readfirstlane says that the lanes agree, so that addresses made of it are scalar.
        """
        build = self._builder
        x, y, z = self.block.size
        thread = build.thread_id("x")
        if y * z > 1:
            rows = build.thread_id("y")
            if z > 1:
                rows = build.add(rows, build.multiply(build.thread_id("z"), y))
            thread = build.add(thread, build.multiply(rows, x))
        self._lane = build.remainder(thread, self.block.lanes)
        if self.block.threads <= self.block.lanes:
            self._first = build.constant(0)
            return
        i32 = ir.IntegerType.get_signless(32, build.location.context)
        index = ir.IndexType.get(build.location.context)
        wave = build.divide(thread, self.block.lanes)
        narrow = build.cast("arith.index_cast", wave, i32)
        scalar = build.cast("rocdl.readfirstlane", narrow, i32)
        self._first = build.multiply(
            build.cast("arith.index_cast", scalar, index), self.block.lanes
        )
