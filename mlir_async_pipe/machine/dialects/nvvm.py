"""nvvm: cp.async on pointers, bulk copies, warp ops of lowered kernels."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from mlir_async_pipe.machine import access, fragments
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.arith import elementwise
from mlir_async_pipe.machine.dialects.async_ops import BYTE_KIND, byte_span, copier
from mlir_async_pipe.machine.dialects.clusters import each_target, mask_of
from mlir_async_pipe.machine.dialects.gpu import fragment_product, matrix_parts, matrix_rows
from mlir_async_pipe.machine.dialects.mbarriers import Operands
from mlir_async_pipe.machine.dialects.tma import complete_on, store_by
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import kind_of
from mlir_async_pipe.machine.lane_values import lanes_of
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.vocabulary import groups_of

Array = np.ndarray


@semantics("nvvm.mma.sync")
def mma_sync(site: Site) -> Execute:
    """The product of f16, with sums of f32: a register of sums is an operand, and a member of the
    result."""
    sizes = [int(size) for size in re.findall(r"[mnk] = (\d+)", site.text("shape", ""))]
    counts, (m, n, k) = site.segments(), sizes
    last = site.operand_type(sum(counts) - 1)
    if str(site.operand_type(0)) != "vector<2xf16>" or str(last) != "f32":
        raise site.unsupported("only products of f16 that are summed in f32")
    layouts = fragments.nvidia(m, n, k, 16)
    kind = kind_of(last).with_shape((counts[2],))

    def execute(unit: Unit, *values: Array) -> tuple[Array, ...]:
        parts = [
            list(values[: counts[0]]),
            list(values[counts[0] : -counts[2]]),
            list(values[-counts[2] :]),
        ]
        joined = tuple(
            np.stack([lanes_of(value, unit.width) for value in part], axis=1) for part in parts
        )
        sums = fragment_product(unit, site, layouts, joined, kind, lambda a: a.astype(np.float32))
        return tuple(sums[:, number] for number in range(counts[2]))

    return execute


@semantics("nvvm.cp.async.shared.global")
def pointer_copy(site: Site) -> Execute:
    """`size` bytes a lane; with a third operand only that many are read, the rest is zeros."""
    return sized_copy(site, site.integer("size") or 0)


def sized_copy(site: Site, size: int) -> Execute:
    """The same of an op that names the size."""
    copy = copier(site)

    def execute(unit: Unit, target: Array, source: Array, *limit: Array) -> None:
        valid = np.clip(limit[0].astype(np.int64), 0, size) if limit else None
        copy(unit, source, target, size, valid)

    return execute


@semantics("nvvm.cp.async.bulk.shared.cluster.global")
def bulk_load(site: Site) -> Execute:
    """Bytes into workgroup memory, once for each active lane; they complete on an mbarrier."""
    operands = Operands(site)
    blocks = groups_of(site.op)["multicast"]

    def execute(unit: Unit, target: Array, source: Array, *rest: Array) -> None:
        given = (target, source, *rest)
        addresses = operands.addresses(unit, given)
        sizes = operands.of(unit, given, "bytes")
        for lane in map(int, np.flatnonzero(unit.active())):
            from_bytes, to_bytes = _bytes(unit, source, target, lane, int(sizes[lane]))
            inside = np.ones(from_bytes.shape, np.bool_)
            mask = mask_of(unit, given, blocks, lane)
            at = int(addresses[lane])
            for barrier, place in each_target(unit, site, mask, lane, at, to_bytes):
                complete_on(unit, site, lane, barrier, from_bytes, inside, place, BYTE_KIND)

    return execute


@semantics("nvvm.cp.async.bulk.global.shared.cta")
def bulk_store(site: Site) -> Execute:
    """Bytes out of workgroup memory, in the bulk group that each active lane commits next."""
    queue = site.queue()

    def execute(unit: Unit, target: Array, source: Array, size: Array, *rest: Array) -> None:
        sizes = lanes_of(size, unit.width)
        for lane in map(int, np.flatnonzero(unit.active())):
            from_bytes, to_bytes = _bytes(unit, source, target, lane, int(sizes[lane]))
            store_by(unit, site, queue, lane, from_bytes, to_bytes, BYTE_KIND)

    return execute


def _bytes(unit: Unit, source: Array, target: Array, lane: int, size: int) -> tuple[Array, Array]:
    """The addresses of the bytes that a lane copies, at both ends."""
    ends = (access.within_memory(unit, pointer, size) for pointer in (source, target))
    first, second = (int(lanes_of(end, unit.width)[lane]) for end in ends)
    return first + np.arange(size), second + np.arange(size)


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


semantics("nvvm.ex2")(elementwise(np.exp2))
