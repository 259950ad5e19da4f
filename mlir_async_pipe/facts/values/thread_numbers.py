"""Integers and addresses of all threads of a block at once, as NumPy numbers.

    %row = arith.divui %tid, %c4                   [0, 0, 0, 0, 1, …, 31] of 128 threads
    nvgpu.ldmatrix %tile[%row, %c8]  of rows of 64 bytes      [16, 16, 16, 16, 80, …] bytes

What ids say is exact. `ThreadAddresses` puts a number of its own for every value that they do not
decide: its answers count registers and bank conflicts, and prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, as_kind, defining_op
from mlir_async_pipe.facts.values.integer_ops import product
from mlir_async_pipe.facts.values.numbers import evaluate_more
from mlir_async_pipe.facts.values.views import ViewStep, beginning
from mlir_async_pipe.vocabulary import VIEW_OPS, Access
from mlir_async_pipe.vocabulary.launch_ids import Size, launch_id
from mlir_async_pipe.vocabulary.memory_layout import (
    UnknownLayoutError,
    element_bytes,
    strides_and_offset,
)


def thread_ids(linear: np.ndarray, block: Size) -> dict[int, np.ndarray]:
    """The ids in x, y, z of linear thread numbers."""
    x, y, _ = block
    return {0: linear % x, 1: linear // x % y, 2: linear // (x * y)}


def linear_thread(threads: Mapping[int, np.ndarray], block: Size) -> np.ndarray:
    """The linear thread number, x fastest (CUDA C++ Programming Guide, thread hierarchy)."""
    return threads[0] + block[0] * (threads[1] + block[1] * threads[2])


def ids_of(
    threads: Mapping[int, np.ndarray], block: Size, lanes: int
) -> Callable[[Value], np.ndarray | None]:
    """Numbers of what threads and the block's size say, None for other values."""

    def leaf(value: Value) -> np.ndarray | None:
        known = launch_id(value)
        if known is None:
            return None
        if known.kind == "thread":
            return threads[known.axis]
        if known.kind == "block_size":
            return np.asarray(block[known.axis])
        if known.kind == "lane":
            return linear_thread(threads, block) % lanes
        return None

    return leaf


# Stands for a number that nothing says, each time another multiple of it.
_LARGE_PRIME = 1_000_003


class ThreadAddresses:
    """Where the accesses of each thread of a block begin, with some number for each value that ids
    do not decide, the same in all threads."""

    def __init__(self, block: Size, lanes: int) -> None:
        threads = thread_ids(np.arange(product(block)), block)
        self._ids = ids_of(threads, block, lanes)
        self._known: dict[Value, np.ndarray | None] = {}
        self._unknown: dict[object, int] = {}

    def of(self, access: Access) -> tuple[Value, np.ndarray]:
        """The memory or pointer from which an access is reached by views, and the bytes from there for
        each thread (one number where all have the same)."""
        memory, total = access.memory, np.zeros(1, dtype=np.int64)
        if as_kind(ir.MemRefType, memory.type) is None:
            return memory, total
        try:
            strides, _ = strides_and_offset(ir.MemRefType(memory.type))
            size = element_bytes(memory.type)
        except UnknownLayoutError:
            return memory, total
        for axis, (index, stride) in enumerate(zip(access.indices, strides, strict=True)):
            step = self._some((memory, axis)) if stride is None else stride
            total = total + size * step * self._number(index)
        while (op := defining_op(memory)) is not None and op.name in VIEW_OPS:
            try:
                steps = beginning(op).steps
            except UnknownLayoutError:
                break
            total = sum((self._step(op.operands, step) for step in steps), total)
            memory = op.operands[0]
        return memory, total

    def _step(self, operands: list[Value], step: ViewStep) -> np.ndarray:
        amount = step.amount
        number = amount if isinstance(amount, int) else self._number(operands[amount.position])
        stride = self._some((operands[0], step.size)) if step.stride is None else step.stride
        return np.asarray(step.size * stride * number)

    def _number(self, value: Value) -> np.ndarray:
        number = evaluate_more(value, self._known, self._leaf)
        return np.asarray(self._some(value)) if number is None else number

    def _leaf(self, value: Value) -> np.ndarray:
        number = self._ids(value)
        return np.asarray(self._some(value)) if number is None else number

    def _some(self, key: object) -> int:
        return _LARGE_PRIME * self._unknown.setdefault(key, len(self._unknown) + 1)
