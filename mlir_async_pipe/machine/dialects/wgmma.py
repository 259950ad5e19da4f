"""nvvm.wgmma.mma_async: products whose operands stand in 64-bit descriptors.

`vocabulary.matrix_descriptors` says where their elements lie. Which memory the 18 bits of an address
name must be told by the block's own buffers.

| operands             | sums | registers of sums                           |
|----------------------|------|---------------------------------------------|
| f16                  | f16  | i32 or vector<2xf16>, two elements in each  |
| f16, bf16, tf32      | f32  | f32                                         |
| e4m3, e5m2, mixed    | both | as above                                    |
| s8, u8, mixed        | s32  | i32                                         |

Floats are multiplied and added up in float32 (where the hardware keeps fewer bits of 8-bit operands,
PTX ISA leaves open how many), tf32 operands lose 13 bits, and f16 sums are rounded after each product.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine import access, fragments
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.tma import swizzled
from mlir_async_pipe.machine.dialects.warpgroup import (
    Arithmetic,
    in_flight,
    issue_product,
    warpgroups,
)
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import kind_of
from mlir_async_pipe.machine.lane_values import lanes_of
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.vocabulary.products import (
    ADDRESS_BITS,
    ProductForm,
    matrix_descriptor,
    product_form,
    shape_of_product,
)

Array = np.ndarray

KINDS = {
    **{name: name for name in ("f16", "bf16", "tf32")},
    **{"e4m3": "f8E4M3FN", "e5m2": "f8E5M2", "s8": "i8", "u8": "ui8"},
}
_SUMS = {"f16": np.float16, "f32": np.float32, "s32": np.int32}
_REGISTER_BYTES = 4


@semantics("nvvm.wgmma.mma_async")
def mma_async(site: Site) -> Execute:
    """D = A B + D, or A B with scale-d zero; in registers that are filled when the product lands."""
    form = product_form(site.op)
    if form is None or not set(form.types) <= set(KINDS) or form.sums not in _SUMS:
        raise site.unsupported("it runs on operands of 8, 16 and 32 bits, not of single bits")
    arithmetic = _arithmetic(site, form)
    layout, queue = fragments.warpgroup(form.m, form.n), site.queue()
    sums = np.dtype(_SUMS[form.sums])
    packed = _REGISTER_BYTES // sums.itemsize
    registers = form.m * form.n // 128 // packed
    shape = shape_of_product(site.op)

    def execute(unit: Unit, inouts: tuple[Array, ...], left: Array, right: Array) -> Any:
        ends = []
        for lanes in warpgroups(unit, site):
            addresses = []
            for side, given in enumerate((left, right)):
                bits = int(lanes_of(given, unit.width)[lanes[0]])
                rows = form.n if side else form.m
                size = arithmetic.kinds[side].item_bytes
                addresses.append(
                    operand_addresses(unit, site, bits, (rows, form.k), form.by_k[side], size)
                )
            ends.append((lanes, addresses[0], addresses[1].T))
        result = np.full((unit.width, registers * packed), arithmetic.poison, sums)
        fenced = unit.registers.multiply(unit, site, inouts, shape)
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
            issue_product(unit, site, ends, arithmetic, layout, queue, before, start, result)
        kinds = [given.dtype for given in inouts]
        made = tuple(
            _register(result, number * packed, packed, kind) for number, kind in enumerate(kinds)
        )
        unit.registers.touch(unit, site, made, shape)
        return made

    return execute


@semantics("nvvm.wgmma.fence.aligned")
def fence(site: Site) -> Execute:
    """What the active lanes did to registers comes before products."""

    def execute(unit: Unit) -> None:
        if unit.registers is not None:
            unit.registers.fence(unit.active())

    return execute


def _arithmetic(site: Site, form: ProductForm) -> Arithmetic:
    left, right = (
        kind_of(ir.Type.parse(KINDS[name], site.op.context), site.op) for name in form.types
    )
    sign = -1 if form.negated[0] != form.negated[1] else 1
    return Arithmetic((left, right), np.dtype(_SUMS[form.sums]), sign, form.saturates)


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
        raise site.unsupported("a descriptor with a base offset")
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
