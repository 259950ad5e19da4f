"""nvvm.tcgen05: products into tensor memory, which one thread issues and a commit completes.

`vocabulary.tensor_memory` has their rows, `machine.tensor_cells` the cells and who may touch them. D of
128 rows has row i in lane i; D of 64 rows has 16 rows in the first half of each warp's lanes (PTX ISA,
data path layouts D and F). A in tensor memory lies as D, its elements packed into columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine.barrier_phases import Commit
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.async_ops import refuse_in_scope
from mlir_async_pipe.machine.dialects.mbarriers import Operands, check_ready
from mlir_async_pipe.machine.dialects.warpgroup import Arithmetic
from mlir_async_pipe.machine.dialects.wgmma import KINDS, operand_addresses
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.fifos import AsyncOp
from mlir_async_pipe.machine.kinds import kind_of
from mlir_async_pipe.machine.lane_values import lanes_of
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.machine.tensor_cells import TensorAccess, TensorMemory
from mlir_async_pipe.vocabulary import groups_of
from mlir_async_pipe.vocabulary.tensor_memory import (
    CELL_BYTES,
    COLUMNS,
    LANES,
    LANES_OF_WARP,
    ProductShape,
    product_kind,
    product_shape,
)

Array = np.ndarray

_HALF = 16


def one_block(site: Site) -> None:
    """Refuse what two blocks of a cluster do together."""
    if "cta_2" in site.text("group") + site.text("ctaGroup"):
        raise site.unsupported("it runs in one block, not in two of a cluster")


@semantics("nvvm.tcgen05.mma")
def product(site: Site) -> Execute:
    """D = A B + D, or A B, once for each lane that issues it; over when a commit says so."""
    one_block(site)
    groups = groups_of(site.op)
    if site.has("aShift") or any(len(groups[name]) for name in ("scale", "disabled_lanes")):
        raise site.unsupported("it runs without shifted A, scaled D and lanes that are left out")
    kind = product_kind(site.op)
    in_tensor = "ptr" in str(site.operand_type(1))
    kinds = {
        name: kind_of(ir.Type.parse(text, site.op.context), site.op) for name, text in KINDS.items()
    }

    def execute(unit: Unit, *given: Array) -> None:
        refuse_in_scope(unit, site)
        for lane in map(int, np.flatnonzero(unit.active())):
            d, a, b, instruction, adds = (int(lanes_of(v, unit.width)[lane]) for v in given[:5])
            shape = product_shape(kind, instruction)
            if shape is None or shape.sparse or shape.sums != "f32":
                raise site.unsupported(f"it runs into f32, not '{kind}' with {instruction:#x}")
            if shape.m not in (64, LANES) or not 8 <= shape.n <= 256 or shape.n % 8:
                raise site.unsupported(f"{shape.m} rows and {shape.n} columns are no product")
            if not set(shape.types) <= kinds.keys():
                raise site.unsupported(f"operands of {shape.types}")
            sign = -1 if shape.negated[0] != shape.negated[1] else 1
            types = kinds[shape.types[0]], kinds[shape.types[1]]
            _Product(unit, site, lane, shape, Arithmetic(types, np.dtype(np.float32), sign)).issue(
                d, a, b, bool(adds), in_tensor
            )

    return execute


class _Product:
    """One product that one lane issues."""

    def __init__(
        self, unit: Unit, site: Site, lane: int, shape: ProductShape, arithmetic: Arithmetic
    ) -> None:
        self.unit, self.site, self.shape, self.arithmetic = unit, site, shape, arithmetic
        self.tensor: TensorMemory = unit.launch.tensor_memory
        self.warp = int(unit.threads[lane]) // unit.launch.options.warp
        self.thread = int(unit.launch.grid_threads(unit.threads[[lane]])[0])
        self.core = self.tensor.core_of(self.thread, self.warp)

    def issue(self, d: int, a: int, b: int, adds: bool, in_tensor: bool) -> None:
        """Put it in flight: D and perhaps A are cells, the rest is workgroup memory."""
        m, n, k = self.shape.m, self.shape.n, self.shape.k
        accumulator = (d, m, n, self.shape.types, self.shape.sums)
        row = np.arange(m)
        lanes = (d >> 16) + (row if m == LANES else row // _HALF * LANES_OF_WARP + row % _HALF)
        target = self._touch(lanes, d % 65536 + np.arange(n), adds, True, accumulator)
        touched = [target]
        sources: list[Array] = []
        cells = None
        if in_tensor:
            per_cell = CELL_BYTES // self.arithmetic.kinds[0].item_bytes
            columns = a % 65536 + np.arange(k // per_cell)
            touched.append(self._touch(lanes, columns, True, False, accumulator))
            cells = touched[-1].cells
        else:
            sources.append(self._place(a, 0))
        sources.append(self._place(b, 1))
        granules = self.unit.launch.detector.granules
        sizes = [kind.item_bytes for kind in self.arithmetic.kinds][-len(sources) :]
        threads = np.array([self.thread])
        reads = [
            (threads, granules(at[None], size)) for at, size in zip(sources, sizes, strict=True)
        ]
        one = np.ones(1, np.bool_)
        nothing: Any = None
        operation = AsyncOp(
            self.site.number,
            nothing,
            one,
            np.zeros(1, np.int64),
            reads,
            [],
            {"reads": [np.array([0])] * len(reads), "writes": []},
            nothing,
            nothing,
            ~one,
            ~one,
            ~one,
            agent=self.core.agent,
            tick=self.core.tick,
            is_proxy=True,
            by_core=True,
        )
        result = np.zeros((m, n), np.float32)
        memory, data = self.unit.launch.memory, self.tensor.data

        def sample(chosen: Array) -> None:
            left = (
                memory.load(sources[0], self.arithmetic.kinds[0])
                if cells is None
                else self._unpacked(data[cells])
            )
            right = memory.load(sources[-1], self.arithmetic.kinds[1])
            result[:] = self.arithmetic.multiply(left, right.T)

        def write(chosen: Array) -> None:
            # Products of one thread are executed in order.
            for earlier in self.core.operations:
                if earlier is operation:
                    break
                if not earlier.moved.all():
                    earlier.move(earlier.lanes)
            before = data[target.cells].view(np.float32) if adds else np.float32(0)
            data[target.cells] = np.asarray(before + result, np.float32).view(np.uint32)

        def over() -> None:
            for each in touched:
                self.tensor.complete(each)

        operation.sample, operation.write, operation.over = sample, write, over
        operations = self.core.operations
        self.core.operations = [op for op in operations if not op.covered.all()] + [operation]
        self.unit.launch.mbarriers.issue_product(operation)

    def _touch(
        self, lanes: Array, columns: Array, reads: bool, writes: bool, accumulator: Any
    ) -> TensorAccess:
        if lanes.max() >= LANES or columns.max() >= COLUMNS:
            raise self.site.unsupported("a product outside of tensor memory")
        core = self.core
        made = TensorAccess(
            self.site.number,
            self.thread,
            self.warp,
            core.agent,
            core.tick,
            lanes,
            columns,
            reads,
            writes,
            True,
            accumulator,
        )
        self.tensor.issue(made)
        return made

    def _place(self, descriptor: int, side: int) -> Array:
        """The byte address of each element of A or B, as (M or N, K)."""
        if descriptor >> 61 & 1:
            raise self.site.unsupported("a swizzle of 32 bytes at once")
        rows = self.shape.n if side else self.shape.m
        size = self.arithmetic.kinds[side].item_bytes
        by_k = self.shape.by_k[side]
        return operand_addresses(self.unit, self.site, descriptor, (rows, self.shape.k), by_k, size)

    def _unpacked(self, cells: Array) -> Array:
        """The elements of A that cells hold."""
        kind = self.arithmetic.kinds[0]
        return kind.decode(np.ascontiguousarray(cells).view(kind.stored))


@semantics("nvvm.tcgen05.commit")
def commit(site: Site) -> Execute:
    """One arrival for each lane, when all that the lane's thread has issued is over."""
    one_block(site)
    operands = Operands(site)
    if len(site.op.operands) > 1:
        raise site.unsupported("arrivals in the blocks of a cluster")

    def execute(unit: Unit, *given: Array) -> None:
        refuse_in_scope(unit, site)
        launch = unit.launch
        addresses = operands.addresses(unit, given)
        for lane in map(int, np.flatnonzero(unit.active())):
            barrier = check_ready(unit, site, int(addresses[lane]), lane)
            if barrier is None:
                continue
            thread = int(launch.grid_threads(unit.threads[[lane]])[0])
            warp = int(unit.threads[lane]) // launch.options.warp
            core = launch.tensor_memory.core_of(thread, warp)
            covered = [op for op in core.operations if not op.covered.all()]
            told = launch.tensor_memory.tell(core)
            launch.mbarriers.commit(Commit(barrier, covered, told, site.number, thread))

    return execute


@semantics(
    "nvvm.tcgen05.mma.sp",
    "nvvm.tcgen05.mma.ws",
    "nvvm.tcgen05.mma.ws.sp",
    "nvvm.tcgen05.mma.block_scale",
    "nvvm.tcgen05.mma.sp.block_scale",
    "nvvm.tcgen05.cp",
    "nvvm.tcgen05.shift",
    "nvvm.tcgen05.ld.red",
)
def refused(site: Site) -> Execute:
    """Refused: sparse, scaled and weight-stationary products, and copies, which serve scales."""
    raise site.unsupported(
        f"of tensor memory it runs dense products, loads and stores, no {site.name}"
    )
