"""nvgpu tensor-map copies and mbarriers, executed synchronously.

A tensor-map copy happens when it is issued, and an mbarrier wait that the whole block reaches
orders workgroup memory like a barrier; both say so in a remark. Coordinates name the fastest
dimension first (PTX ISA, tensor coordinates), boxes and memrefs the slowest.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.nvvm import told_synchronous
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import BOOL, INDEX
from mlir_async_pipe.machine.lane_values import (
    MemRef,
    Tensor,
    lanes_of,
    uniform,
)
from mlir_async_pipe.machine.memory import WORKGROUP
from mlir_async_pipe.machine.memref_types import memref_shape
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.vocabulary import operand_groups

Array = np.ndarray

# A swizzle of W bytes xors the 16-byte chunk number with the number of the 128-byte line it is
# in, modulo W / 16 (PTX ISA, swizzling modes).
_SWIZZLE_CHUNKS = {"none": 1, "swizzle_32b": 2, "swizzle_64b": 4, "swizzle_128b": 8}


@semantics("nvgpu.tma.create.descriptor")
def create_descriptor(site: Site) -> Execute:
    """The tensor in global memory, and the box that one copy moves."""

    def execute(unit: Unit, memory: MemRef, *box: Array) -> Tensor:
        return Tensor(memory, tuple(int(size[0]) for size in box))

    return execute


@semantics("nvgpu.tma.prefetch.descriptor", "nvgpu.tma.fence.descriptor")
def prefetch(site: Site) -> Execute:
    """No effect on memory."""
    return lambda unit, *operands: None


@semantics("nvgpu.tma.async.load")
def load(site: Site) -> Execute:
    """A box of the tensor into workgroup memory; what is outside the tensor is zeros."""
    assert site.row is not None
    groups = operand_groups(site.op, site.row)
    at, map_at = groups["coordinates"], groups["tensor_map"][0]
    predicate_at = groups["predicate"]
    swizzle = _swizzle(str(site.operand_type(map_at)))
    shape = memref_shape(site.operand_type(0), site.op)

    def execute(unit: Unit, *operands: Any) -> None:
        told_synchronous(unit, site)
        target, tensor = operands[0], operands[map_at]
        lanes = _issuers(unit, operands[predicate_at[0]] if len(predicate_at) else None)
        from_bytes, inside = _box(unit, tensor, [operands[number] for number in at])
        kind = tensor.memory.element
        for number in range(from_bytes.shape[1]):
            source = access.span(
                unit, from_bytes[:, number], kind.item_bytes, lanes & inside[:, number]
            )
            value = access.read(unit, site, source, kind)
            place = access.span(unit, _place(target, number, swizzle), kind.item_bytes, lanes)
            access.write(unit, site, place, np.where(inside[:, number], value, 0), shape.element)

    return execute


@semantics("nvgpu.tma.async.store")
def store(site: Site) -> Execute:
    """A box from workgroup memory into the tensor; what is outside is left out."""
    assert site.row is not None
    groups = operand_groups(site.op, site.row)
    at, map_at = groups["coordinates"], groups["tensor_map"][0]
    predicate_at = groups["predicate"]
    swizzle = _swizzle(str(site.operand_type(map_at)))

    def execute(unit: Unit, *operands: Any) -> None:
        told_synchronous(unit, site)
        source, tensor = operands[0], operands[map_at]
        lanes = _issuers(unit, operands[predicate_at[0]] if len(predicate_at) else None)
        to_bytes, inside = _box(unit, tensor, [operands[number] for number in at])
        kind = tensor.memory.element
        for number in range(to_bytes.shape[1]):
            chosen = lanes & inside[:, number]
            place = access.span(unit, _place(source, number, swizzle), kind.item_bytes, chosen)
            value = access.read(unit, site, place, kind)
            target = access.span(unit, to_bytes[:, number], kind.item_bytes, chosen)
            access.write(unit, site, target, value, kind)

    return execute


def _issuers(unit: Unit, predicate: Array | None) -> Array:
    active = unit.active()
    return active if predicate is None else active & lanes_of(predicate, unit.width)


def _swizzle(text: str) -> int:
    match = re.search(r"swizzle = (\w+)", text)
    return _SWIZZLE_CHUNKS[match[1] if match else "none"]


def _box(unit: Unit, tensor: Tensor, coordinates: list[Array]) -> tuple[Array, Array]:
    """Byte addresses of the box's elements in row-major order, and which lie in the tensor."""
    memory = tensor.memory
    numbers = np.indices(tensor.box).reshape(len(tensor.box), -1)
    linear: Any = memory.offset[:, None]
    inside: Any = np.ones((1, 1), np.bool_)
    for axis, steps in enumerate(numbers):
        position = coordinates[-1 - axis][:, None] + steps
        linear = linear + position * memory.strides[axis][:, None]
        inside = inside & (position >= 0) & (position < memory.sizes[axis][:, None])
    addresses = memory.base[:, None] + linear * memory.element_bytes
    shape = (unit.width, numbers.shape[1])
    return np.broadcast_to(np.where(inside, addresses, 0), shape), np.broadcast_to(inside, shape)


def _place(shared: MemRef, number: int, chunks: int) -> Array:
    """Where element `number` of a box lies in workgroup memory."""
    return shared.address + swizzled(number * shared.element_bytes, chunks)


def swizzled(offset: Any, chunks: int) -> Any:
    """Where byte `offset` of a box lies, counted from the box's first byte; `chunks` of 16
    bytes make a swizzle."""
    return offset ^ ((offset // 128) % chunks) * 16


# mbarriers ------------------------------------------------------------------------------


@semantics("nvgpu.mbarrier.create", "nvgpu.mbarrier.get")
def create(site: Site) -> Execute:
    """An opaque handle."""
    return lambda unit, *operands: uniform(0)


@semantics(
    "nvgpu.mbarrier.init",
    "nvgpu.mbarrier.arrive.expect_tx",
    "nvgpu.mbarrier.arrive.nocomplete",
    "nvgpu.mbarrier.arrive",
)
def arrive(site: Site) -> Execute:
    """Arrivals are not counted, for the copies that they announce are over when issued."""
    if len(site.op.results):
        return lambda unit, *operands: np.zeros(1, INDEX.dtype)
    return lambda unit, *operands: None


@semantics("nvgpu.mbarrier.try_wait.parity", "nvgpu.mbarrier.test.wait")
def wait(site: Site) -> Execute:
    """A wait of the whole block orders workgroup memory; one of fewer threads does nothing."""
    gives = len(site.op.results) > 0

    def execute(unit: Unit, *operands: Any) -> Any:
        told_synchronous(unit, site)
        if unit.mask is None or unit.mask.all():
            unit.launch.scheduler.barrier(unit, site, (WORKGROUP,))
        return np.ones(1, BOOL.dtype) if gives else None

    return execute


@semantics("nvvm.cp.async.bulk.tensor.global.shared.cta")
def opaque_map(site: Site) -> Execute:
    """Refused: nothing in the module says what the map describes."""
    raise site.unsupported("its tensor map is made by the driver and opaque; the nvgpu form runs")
