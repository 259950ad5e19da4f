"""nvvm: cp.async on pointers, bulk copies, warp ops of lowered kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.async_ops import (
    BYTE_KIND,
    byte_span,
    copier,
    copy_now,
    pointed_bytes,
)
from mlir_async_pipe.machine.dialects.gpu import matrix_parts, matrix_rows
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.lane_values import lanes_of
from mlir_async_pipe.machine.registry import Execute, semantics

Array = np.ndarray


@semantics("nvvm.cp.async.shared.global")
def pointer_copy(site: Site) -> Execute:
    """`size` bytes a lane; with a third operand only that many are read, the rest is zeros."""
    size = site.integer("size") or 0
    copy = copier(site)

    def execute(unit: Unit, target: Array, source: Array, *limit: Array) -> None:
        valid = np.clip(limit[0].astype(np.int64), 0, size) if limit else None
        copy(unit, source, target, size, valid)

    return execute


@semantics("nvvm.cp.async.bulk.global.shared.cta", "nvvm.cp.async.bulk.shared.cluster.global")
def bulk_copy(site: Site) -> Execute:
    """A bulk copy by each active lane, executed at once."""
    size_at = 2 if site.name == "nvvm.cp.async.bulk.global.shared.cta" else 3

    def execute(unit: Unit, target: Array, source: Array, *rest: Array) -> None:
        told_synchronous(unit, site)
        size = int(rest[size_at - 2].max())
        origin, place = pointed_bytes(unit, source, size), pointed_bytes(unit, target, size)
        copy_now(unit, site, origin, place, None)

    return execute


def told_synchronous(unit: Unit, site: Site) -> None:
    """Say once for each op kind that its asynchrony is not modelled."""
    unit.launch.remark_once(
        "executed-synchronously",
        f"'{site.name}' is executed synchronously: races with it in flight are not seen",
        site.place,
    )


@semantics("nvvm.ldmatrix")
def load_matrix(site: Site) -> Execute:
    """The pointer form of nvgpu.ldmatrix: 8x8 tiles of 16-bit elements, a register a tile."""
    tiles = site.integer("num") or 1
    transpose = "col" in site.text("layout")
    if "b16" not in site.text("eltType", "b16"):
        raise site.unsupported("elements that are not 16 bits wide")
    single = tiles == 1

    def execute(unit: Unit, pointer: Array) -> Any:
        warps, naming = matrix_rows(unit, site, tiles)
        first = access.within_memory(unit, pointer, 16)
        rows = access.read(unit, site, byte_span(unit, first, 16, naming), BYTE_KIND)
        halves = np.ascontiguousarray(lanes_of(rows, unit.width)).view(np.uint16)
        parts = np.ascontiguousarray(matrix_parts(halves, warps, tiles, transpose)).view(np.int32)
        registers = np.zeros((tiles, unit.width), np.int32)
        registers[:, warps] = np.moveaxis(parts[..., 0], 2, 0)
        return registers[0] if single else tuple(registers)

    return execute
