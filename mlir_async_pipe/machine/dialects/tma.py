"""nvgpu tensor-map copies and mbarriers, executed synchronously.

A tensor-map copy happens when it is issued, and an mbarrier wait that the whole block reaches
orders workgroup memory like a barrier; both say so in a remark. Coordinates name the fastest
dimension first (PTX ISA, tensor coordinates), boxes and memrefs the slowest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.nvvm import told_synchronous
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import BOOL, INDEX, Kind
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
    box = _box_copy(site)
    shape = memref_shape(site.operand_type(0), site.op)

    def execute(unit: Unit, *operands: Any) -> None:
        tensor, shared, lanes, inside, kind = box(unit, operands)
        move_elements(unit, site, tensor, shared, lanes, inside, (kind, shape.element))

    return execute


@semantics("nvgpu.tma.async.store")
def store(site: Site) -> Execute:
    """A box from workgroup memory into the tensor; what is outside is left out."""
    box = _box_copy(site)

    def execute(unit: Unit, *operands: Any) -> None:
        tensor, shared, lanes, inside, kind = box(unit, operands)
        chosen = lanes[:, None] & inside
        move_elements(unit, site, shared, tensor, chosen, inside, (kind, kind))

    return execute


def _box_copy(site: Site) -> Callable[[Unit, tuple[Any, ...]], Any]:
    """A function that gives, for a copy's operands: the addresses of the box's elements in the
    tensor and in workgroup memory, the lanes that copy, what is in the tensor, and its kind."""
    assert site.row is not None
    groups = operand_groups(site.op, site.row)
    at, map_at = groups["coordinates"], groups["tensor_map"][0]
    predicate_at = groups["predicate"]
    swizzle = _swizzle(str(site.operand_type(map_at)))

    def box(unit: Unit, operands: tuple[Any, ...]) -> Any:
        told_synchronous(unit, site)
        shared, tensor = operands[0], operands[map_at]
        lanes = _issuers(unit, operands[predicate_at[0]] if len(predicate_at) else None)
        addresses, inside = _box(unit, tensor, [operands[number] for number in at])
        steps = swizzled(np.arange(addresses.shape[1]) * shared.element_bytes, swizzle)
        return addresses, shared.address[:, None] + steps, lanes, inside, tensor.memory.element

    return box


def move_elements(
    unit: Unit,
    site: Site,
    source: Array,
    target: Array,
    lanes: Array,
    inside: Array,
    kinds: tuple[Kind, Kind],
) -> None:
    """Copy elements one by one, in the `lanes` of each; what is not `inside` becomes zeros.

    Addresses are (lanes or 1, elements); `kinds` are those that are read and written."""
    source, target, inside = (lanes_of(a, unit.width) for a in (source, target, inside))
    lanes = np.broadcast_to(lanes.reshape(unit.width, -1), inside.shape)
    for number in range(inside.shape[1]):
        writing, held = lanes[:, number], inside[:, number]
        where = access.span(unit, source[:, number], kinds[0].item_bytes, writing & held)
        value = np.where(held, access.read(unit, site, where, kinds[0]), 0)
        place = access.span(unit, target[:, number], kinds[0].item_bytes, writing)
        access.write(unit, site, place, value, kinds[1])


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
