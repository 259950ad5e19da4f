"""amdgpu: matrix cores, and the loads from LDS that lay out their operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.machine import access, fragments
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.gpu import fragment_product, whole_warps
from mlir_async_pipe.machine.fragments import Fragment, ProductArithmetic
from mlir_async_pipe.machine.kinds import Kind
from mlir_async_pipe.machine.lane_values import Array, MemRef, lanes_of
from mlir_async_pipe.machine.memory import memref_shape


@semantics("amdgpu.mfma")
def mfma(site: Site) -> Execute:
    """D = A B + C on 64 lanes, one block."""
    m, n, k = (site.integer(name) or 0 for name in ("m", "n", "k"))
    if (site.integer("blocks", 1) or 1) != 1 or (m, n) not in ((16, 16), (32, 32)):
        raise site.unsupported(f"shape {m}x{n}x{k} with several blocks")
    if site.operand_kind(0).name == "f64":
        raise site.unsupported("f64 operands")
    for name in ("abid", "cbsz"):
        if site.integer(name, 0):
            raise site.unsupported(f"{name} broadcasts")
    if "none" not in site.text("blgp", "none"):
        raise site.unsupported("blgp permutations")
    return _product(site, fragments.cdna(m, n, k), 64)


@semantics("amdgpu.wmma")
def wmma(site: Site) -> Execute:
    """D = A B + C on 32 lanes, in the layout of gfx11 (a lane holds all of k) or gfx12."""
    m, n, k = (site.integer(name, 16) or 16 for name in ("m", "n", "k"))
    if (m, n) != (16, 16):
        raise site.unsupported(f"shape {m}x{n}x{k}")
    held = int(np.prod(site.operand_kind(0).shape, dtype=np.int64))
    whole = held == k
    if whole and len(site.result_kind().shape) and site.result_kind().shape[0] != 8:
        raise site.unsupported("16-bit accumulators in half a register")
    return _product(site, fragments.rdna(11 if whole else 12, k), 32)


def _product(site: Site, layouts: tuple[Fragment, Fragment, Fragment], lanes: int) -> Execute:
    kind, arithmetic = site.result_kind(), _arithmetic(site)

    def execute(unit: Unit, *values: Array) -> Array:
        if unit.warp != lanes:
            raise site.unsupported(f"it runs on waves of {lanes}, the machine has {unit.warp}")
        return fragment_product(unit, site, layouts, values, kind, arithmetic)

    return execute


def _arithmetic(site: Site) -> ProductArithmetic:
    kinds = site.operand_kind(0), site.operand_kind(1)
    return ProductArithmetic(kinds, site.result_kind().dtype)


@semantics("amdgpu.transpose_load")
def transpose_load(site: Site) -> Execute:
    """ds_read_tr of gfx950: 16 lanes read n rows of 16 elements, n each, and lane l receives
    column l.

    Lane i reads n neighbours of row i / (16 / n) from column n (i mod (16 / n)) on; of row j,
    column l was read by lane (16 / n) j + l / n, as its element l mod n.
    """
    kind = site.result_kind()
    count = int(np.prod(kind.shape, dtype=np.int64))
    if 16 % count:
        raise site.unsupported(f"{count} elements a lane")
    element = memref_shape(site.operand_type(0), site.op).element
    lane, row = np.arange(16)[:, None], np.arange(count)[None, :]
    reader, place = 16 // count * row + lane // count, lane % count

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        where = access.locate(unit, site, memory, indices, (count,))
        rows = lanes_of(access.read(unit, site, where, element), unit.width)
        groups = whole_warps(unit, site).reshape(-1, 16)
        held = rows[groups].reshape(len(groups), 16, count)
        result = np.zeros_like(held, shape=(unit.width, *kind.shape))
        result[groups] = held[:, reader, place].reshape(len(groups), 16, *kind.shape)
        return result

    return execute


# gpu.subgroup_mma: matrices of a whole wave, of which each lane holds all elements here.
#
# Which lane has which element is not to be seen by a program, so a load is one that every lane makes,
# and a store is made by lane 0. Products are summed in float32, integers in int32.


@semantics("gpu.subgroup_mma_load_matrix")
def load_matrix(site: Site) -> Execute:
    """Rows, or with `transpose` columns, `leadDimension` elements apart."""
    kind = site.result_kind()
    place = _places(site, kind)

    def execute(unit: Unit, memory: MemRef, *indices: Array) -> Array:
        whole_warps(unit, site)
        where = access.span(unit, place(memory, indices), memory.element_bytes, unit.mask)
        return access.read(unit, site, where, kind.element)

    return execute


@semantics("gpu.subgroup_mma_store_matrix")
def store_matrix(site: Site) -> Execute:
    """The same places, written by the first lane of each wave."""
    kind = site.operand_kind()
    place = _places(site, kind)

    def execute(unit: Unit, value: Array, memory: MemRef, *indices: Array) -> None:
        first = unit.mask_of(whole_warps(unit, site)[:, 0])
        addresses = lanes_of(place(memory, indices), unit.width)
        where = access.span(unit, addresses, memory.element_bytes, first)
        access.write(unit, site, where, value, kind.element)

    return execute


def _places(site: Site, kind: Kind) -> Any:
    """A function that gives the byte address of each element of the matrix."""
    lead = site.integer("leadDimension") or 0
    rows, columns = (np.arange(size) for size in kind.shape)
    steps = rows[:, None] * lead + columns
    if site.has("transpose"):
        steps = columns * lead + rows[:, None]

    def place(memory: MemRef, indices: tuple[Array, ...]) -> Array:
        return memory.at(indices)[:, None, None] + steps * memory.element_bytes

    return place


@semantics("gpu.subgroup_mma_constant_matrix")
def constant_matrix(site: Site) -> Execute:
    """One number in every place."""
    kind = site.result_kind()
    return lambda unit, value: np.broadcast_to(value[:, None, None], (len(value), *kind.shape))


@semantics("gpu.subgroup_mma_compute")
def compute(site: Site) -> Execute:
    """A B + C."""
    if site.has("a_transpose") or site.has("b_transpose"):
        raise site.unsupported("of transposed operands")
    kind, arithmetic = site.result_kind(), _arithmetic(site)

    def execute(unit: Unit, left: Array, right: Array, start: Array) -> Array:
        whole_warps(unit, site)
        return kind.settle(arithmetic.add(start, arithmetic.multiply(left, right)))

    return execute
