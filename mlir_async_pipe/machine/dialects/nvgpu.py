"""nvgpu: device_async_copy, ldmatrix, mma.sync."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.machine import access, fragments
from mlir_async_pipe.machine.access import ByteSpan
from mlir_async_pipe.machine.decode import Execute, Site, semantics
from mlir_async_pipe.machine.dialects.async_ops import byte_span, issue_copy
from mlir_async_pipe.machine.dialects.gpu import (
    fragment_product,
    matrix_parts,
    matrix_rows,
)
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import cut_tf32
from mlir_async_pipe.machine.lane_values import MemRef, Token, lanes_of
from mlir_async_pipe.machine.memory import memref_shape
from mlir_async_pipe.vocabulary import groups_of

Array = np.ndarray


@semantics("nvgpu.device_async_copy")
def async_copy(site: Site) -> Execute:
    """dstElements neighbours from global to workgroup memory; after srcElements, zeros.

    The token that it gives names the group that the next commit makes.
    """
    groups = groups_of(site.op)
    to_index, from_index = groups["destination_indices"], groups["source_indices"]
    source_at, limit_at = groups["source"][0], groups["source_elements"]
    count = site.integer("dstElements", 0) or 0
    queue = site.queue()

    def execute(unit: Unit, *operands: Any) -> Token:
        destination, source = operands[0], operands[source_at]
        limit = operands[limit_at[0]] if len(limit_at) else None
        target = access.locate(unit, site, destination, operands[slice_of(to_index)], (count,))
        origin = _source(unit, site, source, operands[slice_of(from_index)], count, limit)
        valid = None if limit is None else np.clip(limit, 0, count) * source.element_bytes
        issue_copy(unit, site, queue, as_bytes(unit, origin), as_bytes(unit, target), valid)
        return Token(queue.name, lanes_of(unit.marks(queue).count, unit.width).copy())

    return execute


def slice_of(numbers: range) -> slice:
    """Operand numbers as a slice."""
    return slice(numbers.start, numbers.stop)


def as_bytes(unit: Unit, where: ByteSpan) -> ByteSpan:
    """The bytes of a span of contiguous elements."""
    flat = where.addresses.reshape(len(where.addresses), -1)
    return byte_span(unit, flat[:, 0], flat.shape[1] * where.item_bytes, where.lanes)


def _source(
    unit: Unit, site: Site, source: MemRef, indices: Any, count: int, limit: Array | None
) -> ByteSpan:
    """Where a copy reads. With srcElements only that many elements need to be in bounds, none
    if it is 0, which is how copies are switched off."""
    if limit is None:
        return access.locate(unit, site, source, indices, (count,))
    reading = lanes_of(limit > 0, unit.width) & unit.active()
    last = np.clip(limit, 1, count) - 1
    checked = (*indices[:-1], indices[-1] + np.where(limit > 0, last, 0))
    good = access.locate(unit, site, source, checked, (), lanes=reading).lanes
    first = source.at(indices)
    assert good is not None
    # Lanes that read nothing stay in the copy: they write zeros.
    staying = good | (unit.active() & ~reading)
    first = np.where(reading, lanes_of(first, unit.width), 0)
    return access.span(
        unit,
        first[:, None] + np.arange(count) * source.element_bytes,
        source.element_bytes,
        staying,
    )


@semantics("nvgpu.ldmatrix")
def load_matrix(site: Site) -> Execute:
    """8x8 tiles of 16-bit elements: lane l names row l % 8 of tile l / 8 and receives, of each
    tile, elements 2 (l % 4) and the next of row l / 4 (of column l / 4 with transpose).

    Lanes from 8 numTiles on name nothing; 32-bit elements come as rows of 4 without transpose.
    """
    kind = site.result_kind()
    tiles = site.integer("numTiles") or 1
    transpose = "true" in site.text("transpose", "false")
    element = memref_shape(site.operand_type(0), site.op).element
    row_elements = 16 // element.item_bytes
    if transpose and element.item_bytes != 2:
        raise site.unsupported("transpose of elements that are not 16 bits wide")

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        warps, naming = matrix_rows(unit, site, tiles)
        where = access.locate(unit, site, memory, indices, (row_elements,), lanes=naming)
        rows = lanes_of(access.read(unit, site, where, element), unit.width)
        parts = matrix_parts(rows, warps, tiles, transpose)
        result = np.zeros_like(parts, shape=(unit.width, *kind.shape), dtype=kind.dtype)
        result[warps] = parts.reshape(len(warps), 32, *kind.shape)
        return result

    return execute


@semantics("nvgpu.mma.sync")
def mma_sync(site: Site) -> Execute:
    """D = A B + C on fragments; products summed in float32 (f64: float64, integers: int32, which saturate: MLIR makes
    them so, NVGPUToNVVM)."""
    m, n, k = site.integers("mmaShape")
    left_kind, kind = site.operand_kind(0), site.result_kind()
    layouts = fragments.nvidia(m, n, k, left_kind.item_bytes * 8)
    tf32 = site.has("tf32Enabled") or left_kind.name == "f32"
    wide: np.dtype[Any] = np.dtype(np.float64) if kind.name == "f64" else np.dtype(np.float32)
    if not kind.is_float:
        wide = np.dtype(np.int32)

    def change(values: Array) -> Array:
        return (cut_tf32(values) if tf32 else values).astype(wide)

    return lambda unit, *values: fragment_product(
        unit, site, layouts, values, kind, change, saturates=not kind.is_float
    )
