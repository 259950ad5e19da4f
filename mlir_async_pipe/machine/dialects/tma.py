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
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.async_ops import refuse_in_scope, start
from mlir_async_pipe.machine.dialects.gpu import each_target, mask_of
from mlir_async_pipe.machine.dialects.mbarriers import MbarrierOperands, check_ready
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.fifos import AsyncOp
from mlir_async_pipe.machine.kinds import POISON_BYTE, Kind, kind_of
from mlir_async_pipe.machine.lane_values import LaneTensor, MemRef, TensorMap, lanes_of, uniform
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.machine.trace import TraceEntry
from mlir_async_pipe.vocabulary import groups_of
from mlir_async_pipe.vocabulary.mbarrier_ops import TENSOR_LOADS
from mlir_async_pipe.vocabulary.tensor_boxes import BOX_IN_TYPE, is_im2col

Array = np.ndarray

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
        if array is None or array.itemsize != kind.item_bytes or array.ndim != len(box):
            raise site.unsupported(
                f"the pointer is no argument that was passed as an array of {len(box)} dimensions "
                f"and {kind.name}"
            )
        return _described(pointer, array, kind, box, chunks)

    return execute


def _described(
    pointer: Array, array: Array, kind: Kind, box: tuple[int, ...], chunks: int
) -> LaneTensor:
    """The tensor map of an array that lies where a pointer says."""
    strides = tuple(uniform(step // array.itemsize) for step in array.strides)
    sizes = tuple(uniform(size) for size in array.shape)
    return LaneTensor(MemRef(pointer, uniform(0), sizes, strides, kind), box, chunks)


def _tensor(unit: Unit, site: Site, given: LaneTensor | Array) -> LaneTensor:
    """What a tensor map describes: a pointer to one must have been passed as `TensorMap`."""
    if isinstance(given, LaneTensor):
        return given
    passed = unit.launch.tensors.get(int(given[0]))
    if not isinstance(passed, TensorMap):
        raise site.unsupported(
            "nothing in the module says what its tensor map describes; pass machine.TensorMap"
        )
    dtype = passed.array.dtype
    kind = Kind(dtype.name, dtype, dtype)
    return _described(given, passed.array, kind, passed.box, _SWIZZLE_CHUNKS[passed.swizzle])


@semantics("nvgpu.tma.prefetch.descriptor", "nvgpu.tma.fence.descriptor")
def prefetch(site: Site) -> Execute:
    """No effect on memory."""
    return lambda unit, *operands: None


@semantics(*TENSOR_LOADS)
def load(site: Site) -> Execute:
    """A box of the tensor into workgroup memory, once for each lane that issues it."""
    operands = MbarrierOperands(site)
    groups = groups_of(site.op)
    at, map_at = groups["coordinates"], groups["tensor_map"][0]
    if len(groups.get("im2col", ())) or is_im2col(site.op):
        raise site.unsupported("boxes in im2col mode")

    def execute(unit: Unit, *given: Any) -> None:
        refuse_in_scope(unit, site)
        target, tensor = given[0], _tensor(unit, site, given[map_at])
        kind = tensor.memory.element
        plain = _without(given, 0, map_at)
        addresses = operands.addresses(unit, plain)
        for lane in map(int, np.flatnonzero(operands.lanes(unit, plain))):
            source, inside = _box(unit, tensor, [given[number] for number in at], lane)
            place = _places(unit, target, source.size, lane, tensor)
            mask = mask_of(unit, given, groups["multicast"], lane)
            for barrier, there in each_target(unit, site, mask, lane, int(addresses[lane]), place):
                complete_on(unit, site, lane, barrier, source, inside, there, kind)

    return execute


def complete_on(
    unit: Unit,
    site: Site,
    lane: int,
    address: int,
    source: Array,
    inside: Array,
    place: Array,
    kind: Kind,
) -> None:
    """A lane copies elements of `kind` from the addresses `source`, zeros where they are not
    `inside`, to `place`, and the mbarrier at `address` counts their bytes."""
    barrier = check_ready(unit, site, address, lane)
    if barrier is None:
        return
    operation = _operation(unit, site, lane, source[inside], place, kind)
    operation.is_remote = barrier.rank != unit.rank
    memory = unit.launch.memory
    held = memory.zeros(place.shape, kind.dtype)

    def sample(chosen: Array) -> None:
        held[inside] = memory.load(source[inside], kind)

    def write(chosen: Array) -> None:
        memory.store(place, held, kind)

    operation.sample, operation.write = sample, write
    unit.launch.mbarriers.issue(barrier, operation)
    if unit.launch.policy.poisons and not operation.moved.all():
        memory.data[place[:, None] + np.arange(kind.item_bytes)] = POISON_BYTE
    trace = unit.launch.trace_of(unit)
    if trace is not None and lane == 0:
        trace.add(
            TraceEntry("issue", site.name, site.place, "mbarrier", operation.size, cost=site.cost)
        )


def _operation(
    unit: Unit, site: Site, lane: int, source: Array, place: Array, kind: Kind
) -> AsyncOp:
    """The copy of one lane, with one row of granules at each end."""
    thread = unit.launch.grid_threads(unit.threads[[lane]])
    granules = unit.launch.detector.granules
    reads = [(thread, granules(source[None], kind.item_bytes))] if source.size else []
    writes = [(thread, granules(place[None], kind.item_bytes))]
    one, none = np.ones(1, np.bool_), np.zeros(1, np.bool_)
    nothing: Any = None
    return AsyncOp(
        site.number,
        nothing,
        one,
        none.astype(np.int64),
        reads,
        writes,
        {"reads": [np.array([0])] * len(reads), "writes": [np.array([0])]},
        nothing,
        nothing,
        none.copy(),
        none.copy(),
        none.copy(),
        size=place.size * kind.item_bytes,
        is_proxy=True,
    )


@semantics("nvgpu.tma.async.store", "nvvm.cp.async.bulk.tensor.global.shared.cta")
def store(site: Site) -> Execute:
    """A box from workgroup memory into the tensor, in the bulk group that the lane commits next;
    what is outside is left out."""
    groups = groups_of(site.op)
    at, map_at, source_at = groups["coordinates"], groups["tensor_map"][0], groups["source"][0]
    predicate_at = groups["predicate"]
    queue = site.queue()

    def execute(unit: Unit, *given: Any) -> None:
        refuse_in_scope(unit, site)
        source, tensor = given[source_at], _tensor(unit, site, given[map_at])
        lanes = unit.active()
        if len(predicate_at):
            lanes = lanes & lanes_of(given[predicate_at[0]], unit.width)
        for lane in map(int, np.flatnonzero(lanes)):
            target, inside = _box(unit, tensor, [given[number] for number in at], lane)
            place = _places(unit, source, target.size, lane, tensor)[inside]
            store_by(unit, site, queue, lane, place, target[inside], tensor.memory.element)

    return execute


def store_by(
    unit: Unit, site: Site, queue: Any, lane: int, place: Array, target: Array, kind: Kind
) -> None:
    """One lane copies elements from `place` to `target` until its wait for the bulk group."""
    memory, detector = unit.launch.memory, unit.launch.detector
    held = memory.zeros(place.shape, kind.dtype)

    def sample(chosen: Array) -> None:
        held[:] = memory.load(place, kind)

    def write(chosen: Array) -> None:
        memory.store(target, held, kind)

    lanes = np.zeros(unit.width, np.bool_)
    lanes[lane] = True
    thread, row = unit.launch.grid_threads(unit.threads[[lane]]), [np.array([lane])]
    start(
        unit,
        site,
        queue,
        lanes,
        [(thread, detector.granules(place[None], kind.item_bytes))],
        row,
        [(thread, detector.granules(target[None], kind.item_bytes))],
        row,
        sample,
        write,
        is_proxy=True,
    )


def _without(given: tuple[Any, ...], *numbers: int) -> tuple[Any, ...]:
    """The operands with those that are no arrays replaced."""
    return tuple(None if number in numbers else value for number, value in enumerate(given))


def box_and_swizzle(text: str) -> tuple[tuple[int, ...], str]:
    """What the type of a tensor map says of it; a box that it does not say is ()."""
    tensor, swizzle = BOX_IN_TYPE.search(text), re.search(r"swizzle = (\w+)", text)
    box = tuple(int(size) for size in tensor[1].split("x")[:-1]) if tensor else ()
    return box, swizzle[1] if swizzle else "none"


def _box(
    unit: Unit, tensor: LaneTensor, coordinates: list[Array], lane: int
) -> tuple[Array, Array]:
    """Byte addresses of the box's elements in row-major order, and which lie in the tensor."""

    def here(value: Array) -> int:
        return int(lanes_of(value, unit.width)[lane])

    memory = tensor.memory
    numbers = np.indices(tensor.box).reshape(len(tensor.box), -1)
    linear = np.full(numbers.shape[1], here(memory.offset))
    inside = np.ones(numbers.shape[1], np.bool_)
    for axis, steps in enumerate(numbers):
        position = here(coordinates[-1 - axis]) + steps
        linear = linear + position * here(memory.strides[axis])
        inside &= (position >= 0) & (position < here(memory.sizes[axis]))
    return here(memory.base) + linear * memory.element_bytes, inside


def _places(unit: Unit, shared: MemRef | Array, count: int, lane: int, tensor: LaneTensor) -> Array:
    """Where the elements of a box lie in workgroup memory."""
    address = shared.address if isinstance(shared, MemRef) else shared
    first = int(lanes_of(address, unit.width)[lane])
    width = tensor.memory.element_bytes
    return np.asarray(swizzled(first + np.arange(count) * width, tensor.chunks))


def swizzled(address: Any, chunks: int) -> Any:
    """Where the byte of an unswizzled address lies; `chunks` of 16 bytes make a swizzle."""
    return address ^ ((address // 128) % chunks) * 16
