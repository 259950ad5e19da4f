"""Proves where the lanes of a wave write, for copies that know one address a wave.

On gfx9 and gfx10 the LDS DMA takes one destination for the whole wave, and lane i writes at
base + i * bytes. A copy written for one thread, with a destination of its own in each, fits
if in every wave the destinations are those addresses, in lane order or in another:

    row = tid / 4, chunk = tid % 4                       lane i at 16 i          in order
    row = tid / 4, chunk = (tid % 4) xor (row / 2) % 4   a swizzle: lanes swap places

Swapped lanes are served if the order is its own inverse, as every xor swizzle is: lane i then
does the copy of the lane that writes at place i. The proof enumerates all threads of the
block, and the static inner loops around the copy where their counters do not come out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    DYNAMIC,
    FUNCTION_OPS,
    Operation,
    Value,
    clone,
    defining_op,
    enclosing,
    source_op,
)
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.sums import Form
from mlir_async_pipe.facts.values.thread_numbers import Points
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.facts.values.views import beginning
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.vocabulary import VIEW_OPS, is_pure
from mlir_async_pipe.vocabulary.launch_ids import Size, thread_dimension
from mlir_async_pipe.vocabulary.memory_layout import if_known


@dataclass(frozen=True)
class WaveLayout:
    """The destinations of a copy in a wave, the same in every wave of the block.

    `places[i]` is the place at which lane i writes, counted in copies from the lowest address
    of the wave. The order is its own inverse: lane `places[i]` writes at place i.
    """

    places: tuple[int, ...]

    @property
    def swapped(self) -> bool:
        """Whether some lane does not write at its own place."""
        return any(place != lane for lane, place in enumerate(self.places))


@dataclass(frozen=True)
class WaveBlock:
    """The threads of a block: their number in x, y, z, and lanes in a wave."""

    size: Size
    lanes: int

    @property
    def threads(self) -> int:
        return prod(self.size)


def prove(
    copy: Operation,
    memory: Value,
    indices: list[Value],
    elements: int,
    block: WaveBlock,
    uniformity: Uniformity,
) -> WaveLayout:
    """The layout of the destination `memory[indices]` of a copy of `elements` a lane.

    Raises LoweringError (wave-layout, dynamic-stride) at the copy if it does not fit.
    """
    check_views(copy, memory, block, uniformity)
    strides, _ = ir.MemRefType(memory.type).get_strides_and_offset()
    places = _sums(copy, list(zip(indices, strides, strict=True)), block, uniformity)
    order: np.ndarray | None = None
    for start in range(0, block.threads, block.lanes):
        part = places[:, start : start + block.lanes]
        position, rest = np.divmod(part - part.min(axis=1, keepdims=True), elements)
        order = position[0] if order is None else order
        here = order[: part.shape[1]]
        lane = np.arange(part.shape[1])
        is_order = not rest.any() and (np.sort(here) == lane).all() and (here[here] == lane).all()
        if not is_order or not (position == here).all():
            raise _refused(copy, part[0], elements, start // block.lanes)
    assert order is not None
    return WaveLayout(tuple(int(place) for place in order))


def _refused(copy: Operation, places: np.ndarray, elements: int, wave: int) -> LoweringError:
    shown = ", ".join(str(int(place) - int(places.min())) for place in places[:8])
    return LoweringError(
        f"the lanes of wave {wave} do not write {elements} neighbouring elements each: "
        f"their destinations begin at elements {shown}, …",
        code="wave-layout",
        at=copy,
        advice="this chip copies to one LDS address a wave and puts lane i at base + i * size; "
        "let the destination be that, or a xor swizzle of it",
    )


def check_views(copy: Operation, memory: Value, block: WaveBlock, uniformity: Uniformity) -> None:
    """Raise LoweringError (wave-layout, dynamic-stride) unless all lanes of a wave name one memory: the subscripts of
    other lanes are taken in the view of the running one, and one address in LDS is that of its first lane."""
    while uniformity.difference(memory) is not None:
        op = defining_op(memory)
        begins = None
        if op is not None and op.name in VIEW_OPS and (view := if_known(beginning, op)) is not None:
            steps = {
                step.amount.position: DYNAMIC if step.stride is None else step.stride
                for step in view.steps
                if not isinstance(step.amount, int)
            }
            others = (value for n, value in enumerate(op.operands) if n and n not in steps)
            if all(uniformity.difference(value) is None for value in others):
                terms = [(op.operands[n], stride) for n, stride in steps.items()]
                begins = _sums(copy, terms, block, uniformity)
        if begins is None or any(
            (part != part[:, :1]).any()
            for start in range(0, block.threads, block.lanes)
            for part in (begins[:, start : start + block.lanes],)
        ):
            raise LoweringError(
                "the lanes of a wave copy to, or from, views of their own: which lane copies what is then not known",
                code="wave-layout",
                at=copy,
                notes=(("the view that differs", op or uniformity.difference(memory)),),
                advice="copy by subscripts of the memory that the views are of",
            )
        assert op is not None
        memory = op.operands[0]


def _sums(
    copy: Operation, terms: list[tuple[Value, int]], block: WaveBlock, uniformity: Uniformity
) -> np.ndarray:
    """Sums of numbers times strides, less what all threads share: [points, threads]."""
    arithmetic = Arithmetic(block.size)
    around = enclosing(copy, FUNCTION_OPS) or copy
    points = Points.of_loops(copy, around, block.size, block.lanes)
    if points is None or not points.runs.size:
        points = Points.of_threads(block.size, block.lanes)
    total = np.zeros_like(points.threads[0])
    for index, stride in terms:
        form = arithmetic.linear(index)
        differing = [term for term in form.terms if uniformity.difference(term[0]) is not None]
        if differing and stride == DYNAMIC:
            why = "the destination differs between threads in a dimension of dynamic stride"
            raise LoweringError(why, code="dynamic-stride", at=copy)
        numbers, unknown = points.split(Form(0, frozenset(differing)))
        for symbol, _ in unknown:
            raise LoweringError(
                "cannot tell where the lanes of a wave write: a destination index differs "
                "between threads and is not made of thread ids and constants",
                code="wave-layout",
                at=copy,
                notes=(("the value that differs", uniformity.difference(symbol)),),
            )
        total = total + numbers * stride
    return total.reshape(block.threads, -1).T


# What an index is in another thread of the wave ------------------------------------------------
#
#     %row = arith.divui %tid, %c4        in thread %t:  %row' = arith.divui %t, %c4
#
# The arithmetic behind a value is cloned with the ids of the thread replaced. Values that all
# threads share stay as they are.

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
    """The wave of the running thread."""

    def __init__(self, function: Operation, block: WaveBlock, uniformity: Uniformity) -> None:
        self.block = block
        self._uniformity = uniformity
        first = function.regions[0].blocks[0].operations[0].operation
        self._builder = IntegerWriter(ir.InsertionPoint(first), function.location)

    @property
    def first(self) -> Value:
        """The linear number of the wave's first thread; the same scalar in all its lanes."""
        return self._numbers[0]

    @property
    def lane(self) -> Value:
        return self._numbers[1]

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
        else:
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

    @cached_property
    def _numbers(self) -> tuple[Value, Value]:
        """The wave's first thread and the lane, at the top of the function.

        rocdl.readfirstlane says that the lanes agree, so that addresses made of it are scalar.
        """
        build, lanes = self._builder, self.block.lanes
        x, y, z = self.block.size
        thread = build.thread_id("x")
        if y * z > 1:
            rows = build.thread_id("y")
            if z > 1:
                rows = build.add(rows, build.multiply(build.thread_id("z"), y))
            thread = build.add(thread, build.multiply(rows, x))
        lane = build.remainder(thread, lanes)
        if self.block.threads <= lanes:
            return build.constant(0), lane
        i32 = ir.IntegerType.get_signless(32, build.location.context)
        narrow = build.cast("arith.index_cast", build.divide(thread, lanes), i32)
        scalar = build.cast("rocdl.readfirstlane", narrow, i32)
        return build.multiply(build.cast("arith.index_cast", scalar, thread.type), lanes), lane
