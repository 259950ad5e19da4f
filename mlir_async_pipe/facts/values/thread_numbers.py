"""Integers and addresses of all threads of a block at once, as NumPy numbers.

    %row = arith.divui %tid, %c4                   [0, 0, 0, 0, 1, …, 31] of 128 threads
    nvgpu.ldmatrix %tile[%row, %c8]  of rows of 64 bytes      [16, 16, 16, 16, 80, …] bytes

What ids say is exact. `ThreadAddresses` puts a number of its own for every value that they do not
decide: its answers count registers, and prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple, Self

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    as_kind,
    constant_value,
    defining_op,
    parent,
)
from mlir_async_pipe.facts.values.numbers import evaluate
from mlir_async_pipe.facts.values.sums import Form
from mlir_async_pipe.facts.values.views import beginning
from mlir_async_pipe.vocabulary import VIEW_OPS, Access
from mlir_async_pipe.vocabulary.launch_ids import LaunchId, Size, launch_id
from mlir_async_pipe.vocabulary.memory_layout import (
    UnknownLayoutError,
    element_bytes,
    strides_and_offset,
)
from mlir_async_pipe.vocabulary.memory_names import POINTER_STEPS


def thread_ids(linear: np.ndarray, block: Size) -> dict[int, np.ndarray]:
    """The ids in x, y, z of linear thread numbers."""
    x, y, _ = block
    return {0: linear % x, 1: linear // x % y, 2: linear // (x * y)}


def linear_thread(threads: Mapping[int, np.ndarray], block: Size) -> np.ndarray:
    """The linear thread number, x fastest (CUDA C++ Programming Guide, thread hierarchy)."""
    return threads[0] + block[0] * (threads[1] + block[1] * threads[2])


def numbers_of_id(
    known: LaunchId, threads: Mapping[int, np.ndarray], block: Size, lanes: int
) -> np.ndarray | None:
    match known.kind:
        case "thread":
            return threads[known.axis]
        case "block_size":
            return np.asarray(block[known.axis])
        case "lane":
            return linear_thread(threads, block) % lanes
        case "subgroup":
            return linear_thread(threads, block) // lanes
    return None


# Enough for 1024 threads times 1024 inner iterations; a GEMM tile takes milliseconds.
LARGEST_ENUMERATION = 1 << 20


@dataclass
class Points:
    """All threads of a block and counters of inner loops, one axis each, threads first, broadcastable; and at which of these
    points an iteration `runs`, as a thread may run fewer than another. `known` has the numbers of counters, and of what was
    asked."""

    block: Size
    lanes: int
    threads: dict[int, np.ndarray]
    runs: np.ndarray
    known: dict[Value, np.ndarray | None]

    @classmethod
    def of_threads(cls, block: Size, lanes: int) -> Self:
        threads = thread_ids(np.arange(prod(block)), block)
        return cls(block, lanes, threads, np.ones(1, dtype=bool), {})

    @classmethod
    def of_loops(cls, op: Operation, top: Operation, block: Size, lanes: int) -> Self | None:
        """All executions of `op` in one of `top`, perhaps a counted loop itself; None if they are too many."""
        loops = _counted_loops(op, top, block, lanes)
        sizes = [max(int((-((lower - upper) // step)).max()), 0) for _, lower, upper, step in loops]
        if prod(block) * prod(sizes) > LARGEST_ENUMERATION:
            return None
        axes = len(loops) + 1

        def along(axis: int, numbers: np.ndarray) -> np.ndarray:
            return numbers.reshape([-1 if a == axis else 1 for a in range(axes)])

        known: dict[Value, np.ndarray | None] = {}
        runs = np.ones([1] * axes, dtype=bool)
        for axis, ((loop, lower, upper, step), size) in enumerate(
            zip(loops, sizes, strict=True), 1
        ):
            number = along(0, lower) + along(axis, step * np.arange(size))
            known[loop.regions[0].blocks[0].arguments[0]] = number
            runs = runs & (number < along(0, upper))
        return cls(block, lanes, thread_ids(along(0, np.arange(prod(block))), block), runs, known)

    def id(self, value: Value) -> np.ndarray | None:
        """What threads and the block's size say of a value."""
        known = launch_id(value)
        return None if known is None else numbers_of_id(known, self.threads, self.block, self.lanes)

    def evaluate(self, value: Value) -> np.ndarray | None:
        """A number at each point, None where constants, ids and counters do not say it."""
        return evaluate(value, self.known, self.id)

    def split(self, form: Form[Value]) -> tuple[np.ndarray, frozenset[tuple[Value, int]]]:
        """What constants, ids and counters say of a sum, a number at each point, and its terms of which they say nothing."""
        number, terms = np.asarray(form.constant, dtype=np.int64), []
        for symbol, factor in form.terms:
            decided = self.evaluate(symbol)
            if decided is None:
                terms.append((symbol, factor))
            else:
                number = number + factor * decided
        return number, frozenset(terms)


def _counted_loops(
    op: Operation, top: Operation, block: Size, lanes: int
) -> list[tuple[Operation, np.ndarray, np.ndarray, int]]:
    """The loops between an access and the body that are counted. The induction variables of the others
    have no numbers, nor has what is computed from them."""
    loops = [(above, _bounds(above, block, lanes)) for _, above in _around(op, top, "scf.for")]
    return [(loop, *bounds) for loop, bounds in loops if bounds is not None]


def _around(op: Operation, top: Operation, name: str) -> Iterator[tuple[Operation, Operation]]:
    """The ops called `name` around an op, up to one that may be it, each with the one in it that is or holds the op."""
    while op != top:
        above = parent(op)
        assert above is not None
        if above.name == name:
            yield op, above
        op = above


def is_counted(op: Operation) -> bool:
    """Whether an op is a loop whose iterations are enumerated for each thread."""
    return op.name == "scf.for" and _bounds(op, (1, 1, 1), 1) is not None


def guards_of(op: Operation, top: Operation) -> list[tuple[Value, int]]:
    """The conditions of each `scf.if` between an op and the loop body, with the number of the branch."""
    return [
        (
            above.operands[0],
            next(n for n, r in enumerate(above.regions) if below.block in list(r.blocks)),
        )
        for below, above in _around(op, top, "scf.if")
    ]


def is_decided_by_thread(condition: Value) -> bool:
    """Whether constants and the ids of a thread say whether it meets a condition."""
    return Points.of_threads((1, 1, 1), 1).evaluate(condition) is not None


def _bounds(loop: Operation, block: Size, lanes: int) -> tuple[np.ndarray, np.ndarray, int] | None:
    """A loop's bounds, one number or one a thread, and its step, if constants and thread ids say them all."""
    step = constant_value(loop.operands[2])
    lower, upper = map(Points.of_threads(block, lanes).evaluate, list(loop.operands)[:2])
    if step is None or step < 1 or lower is None or upper is None:
        return None
    if lower.ndim + upper.ndim and "unsignedCmp" in loop.attributes:
        return None
    return np.atleast_1d(lower), np.atleast_1d(upper), step


class ByteStep(NamedTuple):
    """`amount` times `stride` elements (None: not known) of `size` bytes; `key` names the stride."""

    amount: Value | int
    stride: int | None
    size: int
    key: object


class Steps(NamedTuple):
    """What an access is reached from by views, and the steps; not `whole` where a layout is not known."""

    memory: Value
    steps: list[ByteStep]
    whole: bool


def steps_of_access(access: Access) -> Steps:
    """Where an access begins, as a sum that no number is known of yet."""
    memory = access.memory
    steps: list[ByteStep] = []
    try:
        if as_kind(ir.MemRefType, memory.type) is not None:
            strides, _ = strides_and_offset(ir.MemRefType(memory.type))
            size = element_bytes(memory.type)
            for axis, (index, stride) in enumerate(zip(access.indices, strides, strict=True)):
                steps.append(ByteStep(index, stride, size, (memory, axis)))
        elif access.indices:
            return Steps(memory, steps, False)
        while (op := defining_op(memory)) is not None and (
            op.name in VIEW_OPS or op.name in POINTER_STEPS
        ):
            begin = beginning(op)
            # What it names is counted from the allocation, wherever the view that it is given begins.
            below = defining_op(op.operands[0])
            if (
                begin.of_aligned
                and below is not None
                and VIEW_OPS.get(below.name, "same") != "same"
            ):
                return Steps(memory, steps, False)
            for number, step in enumerate(begin.steps):
                amount = step.amount
                at = amount if isinstance(amount, int) else op.operands[amount.position]
                steps.append(ByteStep(at, step.stride, step.size, (op.operands[0], number)))
            memory = op.operands[0]
    except UnknownLayoutError:
        return Steps(memory, steps, False)
    return Steps(memory, steps, True)


# Stands for a number that nothing says, each time another multiple of it.
_LARGE_PRIME = 1_000_003


class ThreadAddresses:
    """Where the accesses of each thread of a block begin, with some number for each value that ids
    do not decide, the same in all threads."""

    def __init__(self, block: Size, lanes: int) -> None:
        self._points = Points.of_threads(block, lanes)
        self._unknown: dict[object, int] = {}

    def of(self, access: Access) -> tuple[Value, np.ndarray]:
        """The memory from which an access is reached by views, and the bytes from there for each thread, or for all."""
        found = steps_of_access(access)
        zero = np.zeros(1, dtype=np.int64)
        return found.memory, sum((self._step(step) for step in found.steps), zero)

    def _step(self, step: ByteStep) -> np.ndarray:
        stride = self._some(step.key) if step.stride is None else step.stride
        amount = step.amount if isinstance(step.amount, int) else self._number(step.amount)
        return np.asarray(step.size * stride * amount)

    def _number(self, value: Value) -> np.ndarray:
        number = evaluate(value, self._points.known, self._leaf)
        return np.asarray(self._some(value)) if number is None else number

    def _leaf(self, value: Value) -> np.ndarray:
        number = self._points.id(value)
        return np.asarray(self._some(value)) if number is None else number

    def _some(self, key: object) -> int:
        return _LARGE_PRIME * self._unknown.setdefault(key, len(self._unknown) + 1)
