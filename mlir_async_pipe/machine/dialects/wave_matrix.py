"""gpu.subgroup_mma: matrices of a whole wave, of which each lane holds all elements here.

Which lane has which element is not to be seen by a program, so a load is one that every lane makes,
and a store is made by lane 0. Products are summed in float32, integers in int32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.gpu import whole_warps
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import Kind
from mlir_async_pipe.machine.lane_values import MemRef, lanes_of
from mlir_async_pipe.machine.registry import Execute, semantics

Array = np.ndarray


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
        first = np.zeros(unit.width, np.bool_)
        first[whole_warps(unit, site)[:, 0]] = True
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
    kind = site.result_kind()
    wide = np.dtype(np.float32) if kind.is_float else np.dtype(np.int32)

    def execute(unit: Unit, left: Array, right: Array, start: Array) -> Array:
        whole_warps(unit, site)
        return kind.settle(np.matmul(left.astype(wide), right.astype(wide)) + start.astype(wide))

    return execute
