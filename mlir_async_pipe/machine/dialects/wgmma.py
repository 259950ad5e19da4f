"""nvvm.wgmma.mma_async: products whose operands stand in 64-bit descriptors.

    bits 0-13   first byte of the operand in shared memory / 16 (18 bits of an address)
    bits 16-29  leading byte offset / 16: MN-major, from 16 S bytes along M or N to the next
    bits 32-45  stride byte offset / 16: from 8 rows, or 8 k, to the next
    bits 62-63  swizzle: 1 is 128 bytes, 2 is 64, 3 is 32

(PTX ISA, wgmma: matrix descriptor and canonical layouts.) S chunks of 16 bytes make a swizzled
line. K-major operands have a line of k for each row of M or N, MN-major ones a line of M or N for
each k. Which memory the 18 bits name must be told by the block's own buffers.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine import access, fragments
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.tma import swizzled
from mlir_async_pipe.machine.dialects.warpgroup import in_flight, issue_product, warpgroups
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import kind_of
from mlir_async_pipe.machine.lane_values import lanes_of
from mlir_async_pipe.machine.memory import WORKGROUP
from mlir_async_pipe.machine.registry import Execute, semantics

Array = np.ndarray

_CHUNKS = {1: 8, 2: 4, 3: 2}
_ADDRESS_BITS = 18
_ITEM_BYTES = 2


@semantics("nvvm.wgmma.mma_async")
def mma_async(site: Site) -> Execute:
    """D = A B + D, or A B with scale-d zero; summed in float32, in registers that are filled when
    the product lands."""
    m, n, k = (int(size) for size in re.findall(r"[mnk] = (\d+)", site.text("shape")))
    names = {name: _inner(site.text(name)) for name in ("typeA", "typeB", "typeD", "scaleD")}
    scales = {_inner(site.text(name)) for name in ("scaleA", "scaleB")}
    types = {names["typeA"], names["typeB"]}
    if names["typeD"] != "f32" or len(types) > 1 or types - {"f16", "bf16"} or scales != {"one"}:
        raise site.unsupported("it runs on f16 or bf16 with scale one, into f32")
    kind = kind_of(ir.Type.parse(names["typeA"], site.op.context), site.op)
    a_by_k = _inner(site.text("layoutA")) == "row"
    b_by_k = _inner(site.text("layoutB")) == "col"
    layout, queue = fragments.warpgroup(m, n), site.queue()
    adds = names["scaleD"] == "one"

    def execute(unit: Unit, inouts: tuple[Array, ...], left: Array, right: Array) -> Any:
        ends = []
        for lanes in warpgroups(unit, site):
            a, b = (int(lanes_of(given, unit.width)[lanes[0]]) for given in (left, right))
            rows = _addresses(unit, site, a, (m, k), a_by_k)
            ends.append((lanes, rows, _addresses(unit, site, b, (n, k), b_by_k).T))
        result = np.full((unit.width, m * n // 128), np.nan, np.float32)

        def start() -> Array:
            columns = [lanes_of(given, unit.width) for given in inouts]
            return np.stack(columns, axis=1) if adds else np.zeros(result.shape, np.float32)

        if ends:
            before = in_flight(unit, inouts[0])
            issue_product(unit, site, ends, (kind, kind), layout, queue, before, start, result)
        return tuple(result[:, number] for number in range(result.shape[1]))

    return execute


def _inner(attribute: str) -> str:
    """`f16` of `#nvvm.wgmma_type<f16>`."""
    found = re.search(r"<(\w+)>", attribute)
    return found[1] if found else ""


def _addresses(
    unit: Unit, site: Site, descriptor: int, shape: tuple[int, int], by_k: bool
) -> Array:
    """The byte address of each element of an operand, as (M or N, K)."""
    layout = (descriptor >> 62) & 3
    if layout not in _CHUNKS or (descriptor >> 49) & 7:
        raise site.unsupported("a descriptor without a swizzle, or with a base offset")
    chunks = _CHUNKS[layout]
    leading, stride = (16 * ((descriptor >> bit) & 0x3FFF) for bit in (16, 32))
    row, k = np.indices(shape)
    line = 16 * chunks
    if by_k:
        offset = (row % 8) * line + row // 8 * stride + k * _ITEM_BYTES
    else:
        wide = line // _ITEM_BYTES
        offset = row % wide * _ITEM_BYTES + row // wide * leading
        offset = offset + k % 8 * line + k // 8 * stride
    first = _first_byte(unit, site, 16 * (descriptor & 0x3FFF))
    return access.within_memory(unit, np.asarray(swizzled(first + offset, chunks)), _ITEM_BYTES)


def _first_byte(unit: Unit, site: Site, low: int) -> int:
    """The address in the block's workgroup memory that ends in these 18 bits."""
    memory, size = unit.launch.memory, 1 << _ADDRESS_BITS
    found = []
    for buffer in memory.buffers:
        if buffer.space == WORKGROUP and memory.live[buffer.base]:
            first = buffer.base + (low - buffer.base) % size
            found += list(range(first, buffer.base + buffer.size, size))
    if len(found) != 1:
        raise site.unsupported(f"a descriptor that names {len(found)} places in workgroup memory")
    return found[0]
