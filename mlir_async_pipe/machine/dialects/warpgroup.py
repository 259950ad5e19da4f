"""Matrix products of a warpgroup (four warps, 128 threads), executed synchronously.

`nvgpu.warpgroup.mma` reads both operands from workgroup memory, as TMA copies with the 128-byte
swizzle lay them down: A as rows of 64 16-bit elements, B (64 x N) as panels of 64 columns, so
that element (k, n) of B is element 64 (64 (n / 64) + k) + n % 64 of the memory, then swizzled.
This is what the op's descriptors mean when it is lowered; forms whose lowered descriptors
would read elsewhere are refused.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from mlir_async_pipe.machine import access, fragments
from mlir_async_pipe.machine.access import Span
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.gpu import whole_warps
from mlir_async_pipe.machine.dialects.nvvm import told_synchronous
from mlir_async_pipe.machine.dialects.tma import swizzled
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import Kind
from mlir_async_pipe.machine.lane_values import MemRef, lanes_of
from mlir_async_pipe.machine.memref_types import memref_shape
from mlir_async_pipe.machine.registry import Execute, semantics

Array = np.ndarray

WARPGROUP = 128
# The swizzle permutes the eight 16-byte chunks of a 128-byte line, with a period of eight lines.
_CHUNKS, _PERIOD_BYTES = 8, 1024
# 16-bit elements in a 128-byte line: the columns of a panel, and all of K.
_PANEL = 64


def warpgroups(unit: Unit, site: Site) -> Array:
    """The lanes that belong to complete warpgroups, as (warpgroups, 128).

    A warpgroup of which only some lanes are active is reported and left out.
    """
    if unit.launch.options.warp * 4 != WARPGROUP:
        raise site.unsupported("a warpgroup has four warps of 32 threads")
    if unit.width != unit.launch.block_size:
        raise site.unsupported("it needs the schedule 'lockstep'")
    first = whole_warps(unit, site)[:, 0]
    groups = np.unique(first // WARPGROUP)
    counts = np.array([(first // WARPGROUP == group).sum() for group in groups], np.int64)
    if (counts < 4).any():
        lane = int(groups[counts < 4][0]) * WARPGROUP
        thread = int(unit.launch.grid_threads(unit.threads[[lane]])[0])
        unit.launch.detector.report("divergent-warp-op", site.number, thread=thread)
    whole = groups[counts == 4]
    return whole[:, None] * WARPGROUP + np.arange(WARPGROUP)


def read_matrix(unit: Unit, site: Site, addresses: Array, lanes: Array, kind: Kind) -> Array:
    """A matrix in workgroup memory that `lanes` read together, from its byte addresses."""
    reading = np.zeros(unit.width, np.bool_)
    reading[lanes] = True
    within = access.within_memory(unit, addresses, kind.item_bytes)
    return access.read(unit, site, Span(within[None], reading, kind.item_bytes), kind)[0]


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
    if columns > _PANEL and _sizes(text) != (rows, _PANEL):
        raise site.unsupported(f"panels that are not boxes of {rows}x{_PANEL}")

    def execute(unit: Unit, tensor: MemRef, tensor_map: Any) -> MemRef:
        buffer = unit.launch.memory.buffer_at(int(tensor.address[0]))
        if buffer is not None and ((tensor.address - buffer.base) % _PERIOD_BYTES).any():
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
    sizes = [_sizes(str(site.operand_type(number))) for number in (0, 1)]
    if sizes != [(m, _PANEL), (_PANEL, n)] or n % _PANEL:
        raise site.unsupported(f"A runs as Mx{_PANEL} and B as {_PANEL}xN in panels of {_PANEL}")
    layout = fragments.warpgroup(m, n)
    row, column = np.indices((m, _PANEL))
    a_places = _PANEL * row + column
    row, column = np.indices((_PANEL, n))
    b_places = _PANEL * (_PANEL * (column // _PANEL) + row) + column % _PANEL

    def execute(unit: Unit, left: MemRef, right: MemRef, start: Array) -> Array:
        told_synchronous(unit, site)
        result = np.array(lanes_of(start, unit.width))
        for lanes in warpgroups(unit, site):
            a = _operand(unit, site, left, lanes, a_places)
            b = _operand(unit, site, right, lanes, b_places)
            product = a.astype(np.float32) @ b.astype(np.float32)
            result[lanes] += layout.spread(product[None])[0]
        return result

    return execute


@semantics("nvgpu.warpgroup.mma.store")
def store_accumulator(site: Site) -> Execute:
    """Each lane writes its elements; the rows belong to the first 128 threads of the block."""
    m, n = _accumulator_shape(site, site.operand_type(0))
    layout = fragments.warpgroup(m, n)
    shape = memref_shape(site.operand_type(1), site.op)

    def execute(unit: Unit, matrix: Array, target: MemRef) -> None:
        groups = warpgroups(unit, site)
        if len(groups) and groups[-1][0]:
            raise site.unsupported("a store by a warpgroup that is not the first of its block")
        if not len(groups):
            return
        storing = np.zeros(unit.width, np.bool_)
        storing[groups[0]] = True
        for number in range(layout.rows.shape[1]):
            row, column = np.zeros((2, unit.width), np.int64)
            row[groups[0]], column[groups[0]] = layout.rows[:, number], layout.columns[:, number]
            where = access.locate(unit, site, target, (row, column), (), lanes=storing)
            access.write(unit, site, where, lanes_of(matrix, unit.width)[:, number], shape.element)

    return execute


@semantics("nvvm.wgmma.mma_async")
def lowered_mma(site: Site) -> Execute:
    """Refused: its descriptors hold 18 bits of an address, and memory here has more."""
    raise site.unsupported("operands in 64-bit descriptors; nvgpu.warpgroup.mma runs")


def _operand(unit: Unit, site: Site, tensor: MemRef, lanes: Array, places: Array) -> Array:
    """The matrix whose elements have these places in the memory of a descriptor."""
    first = lanes_of(tensor.address, unit.width)[lanes[0]]
    addresses = first + swizzled(places * tensor.element_bytes, _CHUNKS)
    return read_matrix(unit, site, addresses, lanes, tensor.element)


def _accumulator_shape(site: Site, mlir_type: Any) -> tuple[int, int]:
    """The rows and columns of a float32 accumulator."""
    sizes = _sizes(str(mlir_type))
    if "xf32>" not in str(mlir_type) or len(sizes) != 2 or sizes[0] % 64 or sizes[1] % 8:
        raise site.unsupported("only accumulators of f32, in 64 rows and 8 columns at a time")
    return sizes[0], sizes[1]


def _sizes(text: str) -> tuple[int, ...]:
    """The sizes in a type such as `…<fragmented = vector<64x128xf32>>`."""
    found = re.search(r"= (?:memref|vector)<((?:\d+x)+)", text)
    return () if found is None else tuple(int(size) for size in found[1].split("x")[:-1])
