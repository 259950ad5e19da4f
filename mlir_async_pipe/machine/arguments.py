"""Arguments into the machine's memory, and arrays and results out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlir_async_pipe.machine.decode import Function
from mlir_async_pipe.machine.kinds import Kind, kind_of
from mlir_async_pipe.machine.lane_values import MemRef, TensorMap, uniform
from mlir_async_pipe.machine.launch import Launch
from mlir_async_pipe.machine.memory import GLOBAL, PRIVATE, WORKGROUP, Memory
from mlir_async_pipe.machine.memref_types import MemRefShape, memref_shape
from mlir_async_pipe.session.diagnostics import MachineError, UsageError

Array = np.ndarray


@dataclass(frozen=True)
class Passed:
    """Arguments as values of the machine, and how to read arrays back."""

    values: tuple[Any, ...]
    arrays: tuple[tuple[Any, Array] | None, ...]

    def arrays_after(self, memory: Memory) -> tuple[Array | None, ...]:
        """The arrays as memory holds them now."""
        return tuple(None if entry is None else _read_back(memory, *entry) for entry in self.arrays)


def pass_arguments(launch: Launch, function: Function, arguments: Sequence[Any]) -> Passed:
    """Put arguments into memory; raises UsageError (bad-argument)."""
    expected = len(function.argument_types)
    if len(arguments) != expected:
        raise UsageError(
            f"'{function.name}' takes {expected} arguments, {len(arguments)} given",
            code="bad-argument",
        )
    values: list[Any] = []
    arrays: list[tuple[Any, Array] | None] = []
    for number, (given, kind) in enumerate(zip(arguments, function.argument_types, strict=True)):
        text, at = str(kind), function.site.place
        if text.startswith("memref<"):
            shape = memref_shape(kind, at)
            array = np.asarray(given)
            value = _pass_array(launch, f"argument {number}", array, shape)
            values.append(value)
            arrays.append((value, array.astype(_dtype_back(array, shape.element), copy=False)))
        elif text.startswith("!llvm.ptr"):
            array = np.ascontiguousarray(given.array if isinstance(given, TensorMap) else given)
            buffer = launch.memory.allocate(
                array.nbytes,
                GLOBAL,
                f"argument {number}",
                contents=array.reshape(-1).view(np.uint8),
            )
            values.append(uniform(buffer.base))
            passed = replace(given, array=array) if isinstance(given, TensorMap) else array
            launch.tensors[buffer.base] = passed
            arrays.append((buffer.base, array))
        elif "tensormap" in text:
            raise MachineError(
                f"'{function.name}' cannot be handed a tensor map as {text}",
                code="unsupported-type",
                at=at,
                advice="take !llvm.ptr, and make it one by builtin.unrealized_conversion_cast",
            )
        else:
            scalar = kind_of(kind, at)
            values.append(scalar.settle(np.asarray(given).reshape((1, *scalar.shape))))
            arrays.append(None)
    return Passed(tuple(values), tuple(arrays))


def _pass_array(launch: Launch, name: str, array: Array, shape: MemRefShape) -> MemRef:
    """Copy an array into memory, contiguous, and describe it by the memref type's strides."""
    element = shape.element
    wanted = len(shape.sizes) + len(element.shape)
    fits = array.ndim == wanted and all(
        size is None or size == given for size, given in zip(shape.sizes, array.shape, strict=False)
    )
    if not fits or array.shape[len(shape.sizes) :] != element.shape:
        raise UsageError(
            f"{name} has shape {array.shape}, expected {shape.sizes + element.shape}",
            code="bad-argument",
        )
    stored = _stored(name, array, element)
    sizes = [uniform(size) for size in array.shape[: len(shape.sizes)]]
    identity = replace(shape, sizes=(None,) * len(sizes), strides=shape.strides)
    view = identity.over(uniform(0), sizes)
    total = max(int(shape.extent_bytes(view)[0]), 0)
    space = shape.space if shape.space in (WORKGROUP, PRIVATE) else GLOBAL
    buffer = launch.memory.allocate(total, space, name)
    view = replace(view, base=uniform(buffer.base))
    _element_view(launch.memory, view, stored)[...] = stored
    launch.memory.initialised[buffer.base : buffer.base + total] = True
    return view


def _stored(name: str, array: Array, element: Kind) -> Array:
    """An argument in its memory form: bit patterns stay, numbers are converted if it is exact
    to do so by kind (floats to floats, integers to integers)."""
    if array.dtype == element.stored:
        return array
    if element.stored.kind == "f" and array.dtype.kind == "f":
        return array.astype(element.stored)
    if element.stored.kind in "iu" and array.dtype.kind in "iub" and element.dtype.kind != "f":
        return array.astype(element.stored)
    if element.dtype.kind == "f" and array.dtype.kind == "f":
        return element.encode(element.settle(array))
    raise UsageError(f"{name} holds {array.dtype}, expected {element.name}", code="bad-argument")


def _element_view(memory: Memory, view: MemRef, like: Array) -> Array:
    """A writable NumPy view of a uniform memref in memory."""
    item = view.element.item_bytes
    data = memory.data.view(view.element.stored)
    start = int(view.address[0]) // item
    strides = [int(stride[0]) * view.element_bytes for stride in view.strides]
    return np.lib.stride_tricks.as_strided(
        data[start:], like.shape, (*strides, *view.element.byte_strides)
    )


def _dtype_back(array: Array, element: Kind) -> np.dtype:
    """Arrays come back in the type of memory, which for bf16 and 8-bit floats is bits."""
    return element.stored if array.dtype != element.stored else array.dtype


def _read_back(memory: Memory, where: Any, like: Array) -> Array:
    """An argument as memory holds it: `where` is its memref, or its address."""
    if isinstance(where, MemRef):
        return _element_view(memory, where, like).copy()
    return memory.data[where : where + like.nbytes].copy().view(like.dtype).reshape(like.shape)


def plain(value: Any, memory: Memory) -> Any:
    """A result as a Python number or an array."""
    if isinstance(value, np.ndarray):
        return value[0].item() if value.ndim == 1 else value[0]
    if isinstance(value, MemRef):
        sizes = tuple(int(size[0]) for size in value.sizes)
        like = np.zeros((*sizes, *value.element.shape), value.element.stored)
        return _element_view(memory, value, like).copy()
    return value
