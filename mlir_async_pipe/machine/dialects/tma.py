"""Tensor copies of nvgpu and nvvm: loads complete on an mbarrier, stores in a bulk group.

Coordinates name the fastest dimension first (PTX ISA, tensor coordinates), boxes and memrefs the
slowest. A load moves a whole box: what is outside the tensor is zeros, and counts as bytes. The
nvvm forms name tensor map and tile by pointers: what the map describes is what the type that it was
cast from says, or the `TensorMap` that was passed.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.arith import reduction
from mlir_async_pipe.machine.dialects.async_ops import ElementCopy, copy_of_lane, refuse_in_scope
from mlir_async_pipe.machine.dialects.gpu import each_target, mask_of
from mlir_async_pipe.machine.dialects.mbarriers import MbarrierOperands, check_ready
from mlir_async_pipe.machine.fifos import AsyncOp
from mlir_async_pipe.machine.kinds import Kind, kind_of, stored_kind
from mlir_async_pipe.machine.lane_values import (
    Array,
    Corners,
    LaneTensor,
    MemRef,
    TensorMap,
    lanes_of,
    uniform,
)
from mlir_async_pipe.machine.memory import MemRefShape
from mlir_async_pipe.machine.terms import is_symbolic
from mlir_async_pipe.vocabulary import groups_of
from mlir_async_pipe.vocabulary.mbarrier_ops import TENSOR_LOADS
from mlir_async_pipe.vocabulary.tensor_boxes import BOX_IN_TYPE, FOUR_ROWS, copy_mode

# A swizzle of W bytes xors the 16-byte chunk number with the number of the 128-byte line it is
# in, modulo W / 16 (PTX ISA, swizzling modes).
TENSOR_MAP = "!nvgpu.tensormap.descriptor<"
_SWIZZLE_CHUNKS = {"none": 1, "swizzle_32b": 2, "swizzle_64b": 4, "swizzle_128b": 8}


@semantics("nvgpu.tma.create.descriptor")
def create_descriptor(site: Site) -> Execute:
    """The tensor in global memory, and the box that one copy moves."""
    _, swizzle = box_and_swizzle(str(site.result_type()))
    chunks = _SWIZZLE_CHUNKS[swizzle]

    def execute(unit: Unit, memory: MemRef, *box: Array) -> LaneTensor:
        return LaneTensor(memory, tuple(int(size[0]) for size in box), chunks)

    return execute


def passed_tensor(site: Site) -> Execute:
    """A cast from a pointer to a tensor map: it describes the array that was passed as that
    pointer; its box is the tensor of the map's type."""
    text = str(site.result_type())
    box, swizzle = box_and_swizzle(text)
    tensor = BOX_IN_TYPE.search(text)
    if tensor is None:
        raise site.unsupported("a tensor map of an unknown box")
    kind = kind_of(ir.Type.parse(tensor[2], site.op.context), site.op)
    chunks = _SWIZZLE_CHUNKS[swizzle]

    def execute(unit: Unit, pointer: Array) -> LaneTensor:
        given = unit.launch.tensors.get(int(pointer[0]))
        array = given.array if isinstance(given, TensorMap) else given
        if array is None or array.dtype.itemsize != kind.item_bytes or len(array.shape) != len(box):
            raise site.unsupported(
                f"the pointer is no argument that was passed as an array of {len(box)} dimensions "
                f"and {kind.name}"
            )
        return _described(pointer, array, kind, box, chunks)

    return execute


def _described(
    pointer: Array,
    array: Any,
    kind: Kind,
    box: tuple[int, ...],
    chunks: int,
    corners: Corners | None = None,
) -> LaneTensor:
    """The tensor map of an array that lies where a pointer says."""
    sizes = [size if is_symbolic(size) else uniform(size) for size in array.shape]
    any_size = (None,) * len(sizes)
    memory = MemRefShape(any_size, any_size, 0, kind, None).over(pointer, sizes)
    return LaneTensor(memory, box, chunks, corners)


def _tensor(unit: Unit, site: Site, given: LaneTensor | Array) -> LaneTensor:
    """What a tensor map describes: a pointer to one must have been passed as `TensorMap`."""
    if isinstance(given, LaneTensor):
        return given
    passed = unit.launch.tensors.get(int(given[0]))
    if not isinstance(passed, TensorMap):
        raise site.unsupported(
            "nothing in the module says what its tensor map describes; pass machine.TensorMap"
        )
    kind = stored_kind(passed.array.dtype, passed.array.dtype.name)
    chunks = _SWIZZLE_CHUNKS[passed.swizzle]
    return _described(given, passed.array, kind, passed.box, chunks, passed.corners)


@semantics(*TENSOR_LOADS)
def load(site: Site) -> Execute:
    """A box of the tensor into workgroup memory, once for each lane that issues it."""
    operands = MbarrierOperands(site)
    groups = groups_of(site.op)
    at, map_at = groups["coordinates"], groups["tensor_map"][0]
    offsets = groups.get("im2col", ())
    mode = copy_mode(site.op)

    def execute(unit: Unit, *given: Any) -> None:
        refuse_in_scope(unit, site)
        target, tensor = given[0], _tensor(unit, site, given[map_at])
        kind = tensor.memory.element
        addresses = operands.addresses(unit, given)
        for lane in map(int, np.flatnonzero(operands.lanes(unit, given))):
            start, moved = ([given[number] for number in part] for part in (at, offsets))
            source, inside = _box(unit, site, mode, tensor, lane, start, moved)
            place = _places(unit, target, source.size, lane, tensor)
            mask = mask_of(unit, given, groups["multicast"], lane)
            for barrier, there in each_target(unit, site, mask, lane, int(addresses[lane]), place):
                copy = copy_of_lane(unit, lane, kind, source, there, inside)
                complete_on(copy, site, barrier)

    return execute


def complete_on(copy: ElementCopy, site: Site, address: int, values: Array | None = None) -> None:
    """A lane copies elements, and the mbarrier at `address` counts their bytes; or it stores `values` instead."""
    unit, lane = copy.unit, int(copy.lanes[0])
    barrier = check_ready(unit, site, address, lane)
    if barrier is None:
        return
    if values is not None:
        copy.held[...] = values
    # Mbarriers count copies of single lanes, which are lane 0 of their own.
    reads, writes = (
        [one._replace(lanes=one.lanes * 0) for one in ends] for ends in copy.footprints()
    )
    operation = AsyncOp(
        site.number,
        None,
        np.ones(1, np.bool_),
        reads,
        writes,
        lambda chosen: copy.sample([0]),
        lambda chosen: copy.write([0]),
        size=copy.target.size * copy.kind.item_bytes,
        is_proxy=values is None,
        is_remote=barrier.rank != unit.rank,
    )
    unit.launch.mbarriers.issue(operation, barrier)
    if unit.launch.policy.poisons and not operation.moved.all():
        copy.poison([0])
    if lane == 0:
        unit.note("issue", site, queue="mbarrier", bytes=operation.size, cost=site.cost)


@semantics(
    "nvgpu.tma.async.store",
    "nvvm.cp.async.bulk.tensor.global.shared.cta",
    "nvvm.cp.async.bulk.tensor.reduce",
)
def store(site: Site) -> Execute:
    """A box from workgroup memory into the tensor, in the bulk group that the lane commits next, or combined with what is
    there; what is outside is left out."""
    groups = groups_of(site.op)
    at, map_at, source_at = groups["coordinates"], groups["tensor_map"][0], groups["source"][0]
    predicate_at = groups.get("predicate", range(0))
    queue, combined = site.queue(), site.word("redKind")
    mode = copy_mode(site.op)

    def execute(unit: Unit, *given: Any) -> None:
        refuse_in_scope(unit, site)
        source, tensor = given[source_at], _tensor(unit, site, given[map_at])
        lanes = unit.active()
        if len(predicate_at):
            lanes = lanes & lanes_of(given[predicate_at[0]], unit.width)
        for lane in map(int, np.flatnonzero(lanes)):
            start = [given[number] for number in at]
            target, inside = _box(unit, site, mode, tensor, lane, start, [])
            place, kind = _places(unit, source, target.size, lane, tensor), tensor.memory.element
            combine = reduction(site, combined, kind) if combined else None
            copy = copy_of_lane(unit, lane, kind, place[inside], target[inside], combine=combine)
            copy.issue(site, queue, is_proxy=True)

    return execute


def box_and_swizzle(text: str) -> tuple[tuple[int, ...], str]:
    """What the type of a tensor map says of it; a box that it does not say is ()."""
    tensor, swizzle = BOX_IN_TYPE.search(text), re.search(r"swizzle = (\w+)", text)
    box = tuple(int(size) for size in tensor[1].split("x")[:-1]) if tensor else ()
    return box, swizzle[1] if swizzle else "none"


def _box(
    unit: Unit,
    site: Site,
    mode: str,
    tensor: LaneTensor,
    lane: int,
    coordinates: list[Array],
    offsets: list[Array],
) -> tuple[Array, Array]:
    """Byte addresses of the box's elements in row-major order, and which lie in the tensor."""

    def here(value: Array) -> Array:
        return lanes_of(value, unit.width)[lane : lane + 1]

    memory, size = tensor.memory, tensor.memory.element_bytes
    if (mode == "im2col") != (tensor.corners is not None):
        raise site.unsupported(f"mode '{mode}' by a tensor map for another one")
    if mode == "tile":
        address: Any = here(memory.base) + here(memory.offset) * size
        inside: Any = np.ones(1, np.bool_)
        for axis, extent in enumerate(tensor.box):
            position = here(coordinates[-1 - axis]) + np.arange(extent)
            is_inside = (position >= 0) & (position < here(memory.sizes[axis]))
            address = address[..., None] + position * (here(memory.strides[axis]) * size)
            inside = inside[..., None] & np.asarray(is_inside)
        return address.reshape(-1), inside.reshape(-1)
    given = (memory.sizes, memory.strides, coordinates[::-1], offsets[::-1])
    if any(is_symbolic(here(one)) for some in given for one in some):
        raise site.unsupported(f"mode '{mode}' at places that are no numbers")
    sizes, strides, first, moved = ([int(here(one)[0]) for one in some] for some in given)
    if mode == "im2col":
        positions = _pixels(site, tensor, sizes, first, moved)
    elif mode in FOUR_ROWS and len(tensor.box) == 2 and tensor.box[0] == 1:
        *rows, column = first
        columns = column + np.arange(tensor.box[1])
        # The last coordinate comes first here, and names the last row.
        positions = np.stack([np.repeat(rows[::-1], tensor.box[1]), np.tile(columns, len(rows))])
    else:
        raise site.unsupported(f"mode '{mode}' with a box of {tensor.box}")
    inside = np.all((positions >= 0) & (positions < np.array(sizes)[:, None]), axis=0)
    linear = here(memory.offset) + np.array(strides) @ positions
    return here(memory.base) + linear * size, inside


def _pixels(
    site: Site, tensor: LaneTensor, sizes: list[int], first: list[int], moved: list[int]
) -> Array:
    """Where the channels of pixels lie: from the first pixel on, along a row, to the next row and image, between the corners;
    `moved` from there, as a filter is (PTX ISA, tensor im2col mode). Images come first, and channels last."""
    assert tensor.corners is not None
    (pixels, channels), (image, *place, channel) = tensor.box, first
    lower, upper = map(np.array, tensor.corners)
    extent, begin = np.array(sizes[1:-1]) + upper - lower, place - lower
    if ((begin < 0) | (begin >= extent)).any():
        raise site.unsupported("a first pixel that is not between the corners")
    steps = np.ravel_multi_index(tuple(begin), tuple(extent)) + np.arange(pixels)
    inner = np.array(np.unravel_index(steps % extent.prod(), tuple(extent)))
    inner = inner + (lower + (moved or 0 * lower))[:, None]
    each = np.concatenate([(image + steps // extent.prod())[None], inner])
    columns = np.tile(channel + np.arange(channels), pixels)
    return np.concatenate([np.repeat(each, channels, axis=1), columns[None]])


def _places(unit: Unit, shared: MemRef | Array, count: int, lane: int, tensor: LaneTensor) -> Array:
    """Where the elements of a box lie in workgroup memory."""
    address = shared.address if isinstance(shared, MemRef) else shared
    first = int(lanes_of(address, unit.width)[lane])
    width = tensor.memory.element_bytes
    return np.asarray(swizzled(first + np.arange(count) * width, tensor.chunks))


def swizzled(address: Any, chunks: int) -> Any:
    """Where the byte of an unswizzled address lies; `chunks` of 16 bytes make a swizzle."""
    return address ^ ((address // 128) % chunks) * 16
