"""Matrix products of a warpgroup (four warps, 128 threads), which read and add while they are in
flight: until the wait for their group.

`nvgpu.warpgroup.mma` reads both operands from workgroup memory, as TMA copies with the 128-byte
swizzle lay them down: A as rows of 64 16-bit elements, B (64 x N) as panels of 64 columns, so
that element (k, n) of B is element 64 (64 (n / 64) + k) + n % 64 of the memory, then swizzled.
This is what the op's descriptors mean when it is lowered; forms whose lowered descriptors
would read elsewhere are refused (docs/hopper.md has the list). `nvgpu.warpgroup.mma` is a group of its own, and waits until
`waitGroup` groups are left (its lowering: fence, products, commit, wait_group).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mlir_async_pipe.machine import access, fragments
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.async_ops import commit, wait_groups
from mlir_async_pipe.machine.dialects.async_ops import start as put_in_flight
from mlir_async_pipe.machine.dialects.gpu import whole_warps
from mlir_async_pipe.machine.dialects.tma import swizzled
from mlir_async_pipe.machine.fifos import AsyncOp, Footprint
from mlir_async_pipe.machine.fragments import ProductArithmetic
from mlir_async_pipe.machine.kinds import FACTOR_KINDS, Kind
from mlir_async_pipe.machine.lane_values import Array, MemRef, lanes_of, uniform
from mlir_async_pipe.machine.memory import memref_shape
from mlir_async_pipe.machine.terms import contiguous
from mlir_async_pipe.vocabulary import Queue
from mlir_async_pipe.vocabulary.memory_ops import shares_of_sums
from mlir_async_pipe.vocabulary.op_table import INLINE_ASSEMBLY
from mlir_async_pipe.vocabulary.products import (
    ADDRESS_BITS,
    K_BYTES,
    ProductForm,
    held_sizes,
    is_assembled,
    matrix_descriptor,
    product_form,
    shape_of_product,
)

WARPGROUP = 128
# The swizzle permutes the eight 16-byte chunks of a 128-byte line, with a period of eight lines.
_CHUNKS, _PERIOD_BYTES = 8, 1024
# 16-bit elements in a 128-byte line: the columns of a panel, and all of K.
_PANEL = 64


def warpgroups(unit: Unit, site: Site) -> Array:
    """The lanes that belong to complete warpgroups, as (warpgroups, 128).

    A warpgroup of which only some lanes are active is reported and left out.
    """
    if unit.warp * 4 != WARPGROUP:
        raise site.unsupported("a warpgroup has four warps of 32 threads")
    first = whole_warps(unit, site)[:, 0]
    groups = np.unique(first // WARPGROUP)
    counts = np.array([(first // WARPGROUP == group).sum() for group in groups], np.int64)
    if (counts < 4).any():
        unit.report("divergent-warp-op", site, int(groups[counts < 4][0]) * WARPGROUP)
    whole = groups[counts == 4]
    return whole[:, None] * WARPGROUP + np.arange(WARPGROUP)


@semantics("nvgpu.warpgroup.generate.descriptor")
def generate_descriptor(site: Site) -> Execute:
    """A view of workgroup memory that TMA copies filled."""
    shape = memref_shape(site.operand_type(0), site.op)
    text = str(site.operand_type(1))
    if "swizzle = swizzle_128b" not in text:
        raise site.unsupported("a tensor map without the 128-byte swizzle")
    if shape.element.name not in ("f16", "bf16"):
        raise site.unsupported(f"operands of {shape.element.name}; f16 and bf16 run")
    rows, columns = (*shape.sizes, None, None)[:2]
    if rows is None or columns is None or shape.strides != (columns, 1):
        raise site.unsupported("an operand that is not a contiguous static matrix")
    if columns > _PANEL and held_sizes(text) != (rows, _PANEL):
        raise site.unsupported(f"panels that are not boxes of {rows}x{_PANEL}")

    def execute(unit: Unit, tensor: MemRef, tensor_map: Any) -> MemRef:
        if (tensor.address % _PERIOD_BYTES).any():
            raise site.unsupported(
                f"an operand that does not start at a multiple of {_PERIOD_BYTES} bytes"
            )
        return tensor

    return execute


@semantics("nvgpu.warpgroup.mma.init.accumulator")
def init_accumulator(site: Site) -> Execute:
    """Zeros: each lane holds its registers of the accumulator."""
    m, n = _accumulator_shape(site, site.result_type())
    return lambda unit: np.zeros((1, m * n // WARPGROUP), np.float32)


@semantics("nvgpu.warpgroup.mma")
def warpgroup_mma(site: Site) -> Execute:
    """D = A B + C, products summed in float32."""
    if site.has("transposeA") or not site.has("transposeB"):
        raise site.unsupported("it runs with A by rows and with transposeB only")
    m, n = _accumulator_shape(site, site.result_type())
    sizes = [held_sizes(str(site.operand_type(number))) for number in (0, 1)]
    if sizes != [(m, _PANEL), (_PANEL, n)] or n % _PANEL:
        raise site.unsupported(f"A runs as Mx{_PANEL} and B as {_PANEL}xN in panels of {_PANEL}")
    layout = fragments.warpgroup(m, n)
    row, column = np.indices((m, _PANEL))
    a_places = _PANEL * row + column
    row, column = np.indices((_PANEL, n))
    b_places = _PANEL * (_PANEL * (column // _PANEL) + row) + column % _PANEL

    left_over = uniform(site.integer("waitGroup", 1))
    queue = site.queue()

    def execute(unit: Unit, left: MemRef, right: MemRef, start: Array) -> Array:
        matrices = (left, a_places), (right, b_places)
        ends: list[tuple[Array, ...]] = [
            (lanes, *(_addresses(unit, matrix, lanes, places) for matrix, places in matrices))
            for lanes in warpgroups(unit, site)
        ]
        result = unit.launch.memory.zeros((unit.width, start.shape[1]), np.float32)
        result[...] = np.nan
        if ends:
            arithmetic = ProductArithmetic((left.element, right.element), np.dtype(np.float32))
            sums = in_flight(unit, start), lambda: lanes_of(start, unit.width), result
            issue_product(unit, site, ends, arithmetic, layout, queue, *sums)
        if unit.registers is not None:
            unit.registers.fence(unit.active())
        commit(unit, site, queue)
        wait_groups(unit, site, queue, left_over)
        return result

    return execute


def issue_product(
    unit: Unit,
    site: Site,
    ends: list[tuple[Array, ...]],
    arithmetic: ProductArithmetic,
    layout: Any,
    queue: Queue,
    before: AsyncOp | None,
    start: Callable[[], Array],
    result: Array,
    left: Callable[[Array], Array] | None = None,
) -> None:
    """Put a product in flight that fills `result` from `start`, which a product `before` it may
    still fill; `ends` are the lanes of each warpgroup and the byte addresses of its operands, of B alone
    where A is what `left` gives of those lanes."""
    memory = unit.launch.memory
    kinds = arithmetic.kinds if left is None else arithmetic.kinds[1:]
    product = memory.zeros(result.shape, arithmetic.exact)
    reads = []
    for members, *addresses in ends:
        first = members[:: unit.warp]
        for at, kind in zip(addresses, kinds, strict=True):
            where = unit.launch.detector.granules(at[None], kind.item_bytes)
            where = np.broadcast_to(where, (len(first), where.shape[1]))
            reads.append(Footprint(first, unit.grid_threads(first), where))

    def sample(chosen: Array) -> None:
        for members, *addresses in ends:
            if chosen[members].any():
                held = [memory.load(at, kind) for at, kind in zip(addresses, kinds, strict=True)]
                a, b = held if left is None else (left(members), *held)
                mine = np.flatnonzero(chosen[members])
                made = arithmetic.multiply(a, b)[None]
                product[members[mine]] = layout.spread(made)[0][mine]

    def write(chosen: Array) -> None:
        # Products of one warp complete in order, so what this one adds to is complete.
        if before is not None:
            before.move(chosen)
        result[chosen] = arithmetic.add(start()[chosen], product[chosen])

    mask = unit.mask_of(np.concatenate([members for members, *_ in ends]))
    more = {"is_proxy": True, "registers": result}
    put_in_flight(unit, site, queue, mask, reads, [], sample, write, **more)


def in_flight(unit: Unit, registers: Array) -> AsyncOp | None:
    """The product that is going to fill these registers, None if none is in flight."""
    for operation in unit.queues.pending():
        filled = operation.registers
        if filled is not None and (filled is registers or filled is registers.base):
            return operation
    return None


@semantics("nvgpu.warpgroup.mma.store")
def store_accumulator(site: Site) -> Execute:
    """Each lane writes its elements, where the lowering finds their rows by the thread id x."""
    m, n = _accumulator_shape(site, site.operand_type(0))
    layout = fragments.warpgroup(m, n)
    shape = memref_shape(site.operand_type(1), site.op)
    shares = shares_of_sums(site.op)
    assert shares is not None

    def execute(unit: Unit, matrix: Array, target: MemRef) -> None:
        product = in_flight(unit, matrix)
        if product is not None:
            unit.report("read-in-flight", site, other=product.site)
        x = unit.threads % unit.launch.options.threads[0]
        row_of_thread, column_of_thread = (share.first(x) for share in shares)
        for number in range(layout.rows.shape[1]):
            # What the registers of lane 0 hold is as far from its first row and column in every lane.
            row, column = layout.rows[0, number], layout.columns[0, number]
            place = (row_of_thread + row, column_of_thread + column)
            where = access.locate(unit, site, target, place)
            access.write(unit, site, where, lanes_of(matrix, unit.width)[:, number], shape.element)

    return execute


def _addresses(unit: Unit, tensor: MemRef, lanes: Array, places: Array) -> Array:
    """The byte addresses of a matrix whose elements have these places in a descriptor's memory."""
    first = int(lanes_of(tensor.address, unit.width)[lanes[0]])
    addresses = swizzled(first + places * tensor.element_bytes, _CHUNKS)
    return access.within_memory(unit, addresses, tensor.element_bytes)


def _accumulator_shape(site: Site, mlir_type: Any) -> tuple[int, int]:
    """The rows and columns of a float32 accumulator."""
    sizes = held_sizes(str(mlir_type))
    if "xf32>" not in str(mlir_type) or len(sizes) != 2 or sizes[0] % 64 or sizes[1] % 8:
        raise site.unsupported("only accumulators of f32, in 64 rows and 8 columns at a time")
    return sizes[0], sizes[1]


# nvvm.wgmma.mma_async: products whose operands stand in 64-bit descriptors.
#
# `vocabulary.matrix_descriptors` says where their elements lie. Which memory the 18 bits of an address
# name must be found by the block's own buffers.
#
# | operands             | sums | registers of sums                           |
# |----------------------|------|---------------------------------------------|
# | f16                  | f16  | i32 or vector<2xf16>, two elements in each  |
# | f16, bf16, tf32      | f32  | f32                                         |
# | e4m3, e5m2, mixed    | both | as above                                    |
# | s8, u8, mixed        | s32  | i32                                         |
#
# Floats are multiplied and added up in float32 (where the hardware keeps fewer bits of 8-bit operands,
# PTX ISA leaves open how many), tf32 operands lose 13 bits, and f16 sums are rounded after each product.


_SUMS = {"f16": np.float16, "f32": np.float32, "s32": np.int32}
_REGISTER_BYTES = 4


@semantics("nvvm.wgmma.mma_async", INLINE_ASSEMBLY)
def mma_async(site: Site) -> Execute:
    """D = A B + D, or A B with scale-d zero; in registers that are filled when the product lands. A stands in
    registers, too, where the product is assembly."""
    in_registers = site.name == INLINE_ASSEMBLY
    if in_registers and not is_assembled(site.op):
        raise site.unsupported("of inline assembly instructions with rows run")
    form = product_form(site.op)
    if form is None or not set(form.types) <= set(FACTOR_KINDS) or form.sums not in _SUMS:
        raise site.unsupported("it runs on operands of 8, 16 and 32 bits, not of single bits")
    arithmetic = _arithmetic(site, form)
    layout, queue = fragments.warpgroup(form.m, form.n), site.queue()
    sums = np.dtype(_SUMS[form.sums])
    packed = _REGISTER_BYTES // sums.itemsize
    registers = form.m * form.n // 128 // packed
    shape = shape_of_product(site.op)

    described = (1,) if in_registers else (0, 1)

    def execute(unit: Unit, *given: Any) -> Any:
        inouts = given[:registers] if in_registers else given[0]
        ends: list[tuple[Array, ...]] = []
        for lanes in warpgroups(unit, site):
            addresses = []
            for side in described:
                bits = int(lanes_of(given[side - 2], unit.width)[lanes[0]])
                rows = form.n if side else form.m
                size = arithmetic.kinds[side].item_bytes
                addresses.append(
                    operand_addresses(unit, site, bits, (rows, form.k), form.by_k[side], size)
                )
            ends.append((lanes, *addresses[:-1], addresses[-1].T))
        left = None
        if in_registers:
            left = partial(_left_factor, given[registers:-1], arithmetic.kinds[0], unit.width)
        result = unit.launch.memory.zeros((unit.width, registers * packed), sums)
        result[...] = arithmetic.poison
        fenced = unit.registers.multiply(unit, site, given[:-1] if in_registers else inouts, shape)
        stale = not fenced and unit.launch.options.completion != "eager"

        def start() -> Array:
            if not form.adds:
                return np.zeros(result.shape, sums)
            if stale:
                return np.full(result.shape, arithmetic.poison, sums)
            columns = [lanes_of(given, unit.width) for given in inouts]
            return np.stack(columns, axis=1).view(sums).reshape(result.shape)

        if ends:
            before = in_flight(unit, inouts[0])
            issue_product(unit, site, ends, arithmetic, layout, queue, before, start, result, left)
        kinds = [given.dtype for given in inouts]
        made = tuple(
            _register(result, number * packed, packed, kind) for number, kind in enumerate(kinds)
        )
        unit.registers.touch(unit, site, made, shape)
        return made

    return execute


def _left_factor(registers: tuple[Array, ...], kind: Kind, width: int, lanes: Array) -> Array:
    """A, of which each lane has what it has of A of mma.sync: 16 rows a warp (PTX ISA, wgmma register fragments)."""
    held = np.stack([lanes_of(given, width)[lanes] for given in registers], axis=1)
    each = kind.decode(contiguous(held).view(kind.stored))
    layout, _, _ = fragments.nvidia(16, 8, K_BYTES // kind.item_bytes, 8 * kind.item_bytes)
    return layout.gather(each.reshape(4, WARPGROUP // 4, -1)).reshape(WARPGROUP // 2, -1)


@semantics("nvvm.wgmma.fence.aligned")
def fence(site: Site) -> Execute:
    """What the active lanes did to registers comes before products."""

    def execute(unit: Unit) -> None:
        if unit.registers is not None:
            unit.registers.fence(unit.active())

    return execute


def _arithmetic(site: Site, form: ProductForm) -> ProductArithmetic:
    left, right = (FACTOR_KINDS[name] for name in form.types)
    sign = -1 if form.negated[0] != form.negated[1] else 1
    # 32 products of 8-bit integers have 21 bits, so that nothing is lost.
    return ProductArithmetic(
        (left, right), np.dtype(_SUMS[form.sums]), sign, form.saturates, integers=np.float64
    )


def _register(result: Array, first: int, packed: int, kind: Any) -> Array:
    """One register of the sums, as a view: one element, or two in a vector or an i32."""
    if packed == 1:
        return result[:, first]
    pair = result[:, first : first + packed]
    return pair.view(kind)[:, 0] if kind.itemsize == _REGISTER_BYTES else pair


def operand_addresses(
    unit: Unit, site: Site, bits: int, shape: tuple[int, int], by_k: bool, item_bytes: int
) -> Array:
    """The byte address of each element of an operand, as (M or N, K)."""
    descriptor = matrix_descriptor(bits)
    if descriptor is None:
        raise site.unsupported("a descriptor with a base offset, or a swizzle of 32 bytes at once")
    row, k = np.indices(shape)
    along, across = (k, row) if by_k else (row, k)
    offset = descriptor.place(along * item_bytes, across, by_k)
    first = _first_byte(unit, site, descriptor.first)
    where = np.asarray(swizzled(first + offset, descriptor.chunks))
    return access.within_memory(unit, where, item_bytes)


def _first_byte(unit: Unit, site: Site, low: int) -> int:
    """The address in the block's workgroup memory that ends in these 18 bits."""
    found, size = [], 1 << ADDRESS_BITS
    for buffer in unit.launch.workgroup_memory(unit):
        first = buffer.base + (low - buffer.base) % size
        found += list(range(first, buffer.base + buffer.size, size))
    if len(found) != 1:
        raise site.unsupported(f"a descriptor that names {len(found)} places in workgroup memory")
    return found[0]
