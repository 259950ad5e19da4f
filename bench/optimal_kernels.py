"""Kernels that `async_pipe.schedule = "optimal"` schedules from the plain loop: the rows of docs/latency.md."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from mlir_async_pipe import api
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.costs.cost_model import SPECIAL
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.rocdl.isa import IsaKernel
from mlir_async_pipe.machine.validation import Data, validate

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from generate_attention import Attention  # noqa: E402
from generate_backward import Backward, Chain  # noqa: E402
from generate_blackwell_attention import BITS, FLOATS, BlackwellAttention  # noqa: E402
from generate_blackwell_gemm import BlackwellGemm  # noqa: E402
from generate_gemm import Gemm  # noqa: E402
from generate_hopper_attention import HopperAttention  # noqa: E402
from generate_hopper_gemm import HopperGemm  # noqa: E402
from mlir_text import Writer  # noqa: E402

CHIPS = {
    **{f"sm_{number}": f"nvvm:sm_{number}" for number in (80, 90, 100)},
    **{f"gfx{number}": f"rocdl:gfx{number}" for number in (942, 950)},
}
# Tensor copies and products of warpgroups or in tensor memory.
TENSOR_CHIPS = {f"sm_{number}a": f"nvvm:sm_{number}a" for number in (90, 100)}
HALF, SINGLE, BYTE = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.int8)
POSITIONS = 256


@dataclass(frozen=True)
class Row:
    """A kernel for a chip, and data of any value for it, of enough iterations to fill the pipeline."""

    kernel: str
    chip: str
    made: Any
    data: tuple[Any, ...]
    grid: tuple[int, int, int] | None = None


def rows(kernel: str = "", chip: str = "") -> Iterator[Row]:
    """All rows, or those of a kernel, or of a chip."""
    for row in _rows():
        if kernel in ("", row.kernel) and chip in ("", row.chip):
            yield row


def _rows() -> Iterator[Row]:
    for weights, kernel in (("", "GEMM"), ("i8", "dequantising GEMM")):
        for chip in CHIPS:
            amd = chip if chip.startswith("gfx") else ""
            depth = 64 if amd or weights else 32
            made = Gemm(tile_k=depth, chip=amd, weights=weights)
            k = 8 * depth
            of_b = Data((128, k), BYTE if weights else HALF)
            data = (Data((128, k), HALF), of_b, Data((128, 128), SINGLE))
            yield Row(kernel, chip, made, data)
    kinds = {"attention": Attention, "backward": Backward, "chain": Chain}
    for kernel, kind in kinds.items():
        for chip in CHIPS:
            made = kind(chip=chip if chip.startswith("gfx") else "")
            heads = [Data((1, POSITIONS, 64), HALF)] * (len(made.operands) - 1)
            of_rows = [Data((1, POSITIONS), SINGLE)] * len(made.of_rows)
            out = Data((1, POSITIONS, 64), SINGLE)
            yield Row(kernel, chip, made, (*heads, out, *of_rows))
    yield from _tensor_rows()


def _tensor_rows() -> Iterator[Row]:
    """Those of tensor copies: of each iteration 64 k, or 64 keys or more."""
    grid, depth = (1, 1, 1), 8 * 64
    for size, groups in (((128, 128), 1), ((128, 256), 2)):
        made = HopperGemm(tile_m=size[0], tile_n=size[1], warpgroups=groups)
        yield Row(f"GEMM {size[0]}x{size[1]}", "sm_90a", made, _of_gemm(size, depth), grid)
    for size in ((128, 128), (128, 256)):
        made = BlackwellGemm(tile_m=size[0], tile_n=size[1])
        yield Row(f"GEMM {size[0]}x{size[1]}", "sm_100a", made, _of_gemm(size, depth), grid)
    sizes = ((64, 64, 1), (64, 128, 2), (128, 128, 2))
    for plain, (features, keys, groups) in product((False, True), sizes):
        made = HopperAttention(features=features, keys=keys, warpgroups=groups, plain=plain)
        positions = 8 * keys
        halves = (features // 64, positions, 64)
        of_rows = Data((positions, features) if features == 64 else halves, HALF)
        out = Data((1, positions, features), SINGLE)
        data = (of_rows, of_rows, Data(halves, HALF), out, positions)
        kernel = f"attention {made.rows}x{keys}, {features}{', plain' if plain else ''}"
        yield Row(kernel, "sm_90a", made, data, grid)

    for (features, keys), groups in product(((64, 64), (64, 128), (128, 128)), (1, 2)):
        made = BlackwellAttention(
            features=features, keys=keys, groups=groups, plain=True, overlaid=groups > 1
        )
        positions = 4 * keys
        halves = (features // 64, positions, 64)
        of_rows = Data((positions, features) if features == 64 else halves, HALF)
        out = Data((1, positions, features), SINGLE)
        data = (of_rows, of_rows, Data(halves, HALF), out, positions)
        yield Row(f"attention {made.rows}x{keys}, {features}, plain", "sm_100a", made, data, grid)


def _of_gemm(size: tuple[int, int], depth: int) -> tuple[Any, ...]:
    return (*(Data((rows, depth), HALF) for rows in size), Data(size, SINGLE), depth)


class Uncorrected(BlackwellAttention):
    """O is loaded and stored as it is: a part of its own, which needs nothing of softmax and takes no time."""

    def _times(self, w: Writer, group: int, factor: str, first: int) -> str:
        bits = self._load(w, group, "o", first)
        self._loaded(w, "o")
        return w.value("o", f"vector.bitcast {bits} : {BITS} to {FLOATS}")


def correction() -> Iterator[str]:
    """What a group for the correction could gain at most: the intervals of plain attention, and, unless special functions are
    never idle, those of the rest alone."""
    yield "| kernel | interval | what binds | without the correction |\n|---|---:|---|---:|"
    for row in rows(chip="sm_100a"):
        if isinstance(row.made, BlackwellAttention):
            found = rest = _schedule(row.made)
            if SPECIAL not in found.bound_by:
                rest = _schedule(Uncorrected(**vars(row.made)))
            yield f"| {row.kernel} | {found.interval:g} | {found.bound_by} | {rest.interval:g} |"


def _schedule(made: Any) -> Any:
    with new_context():
        module = ir.Module.parse(_optimal(made))
        report = api.pipeline(module, target="nvvm:sm_100a", check="none", cache=False)
    (found,) = report.of("schedules")
    assert found.proven
    return found


def _optimal(made: Any) -> str:
    annotation = f"async_pipe.num_stages = {made.stages} : i64"
    return str(made.module().replace(annotation, 'async_pipe.schedule = "optimal"'))


def measured(row: Row) -> str:
    """A line of the table."""
    target = Target.parse((CHIPS | TENSOR_CHIPS)[row.chip])
    text = _optimal(row.made)
    begin = time.process_time()
    with new_context():
        before, module = (ir.Module.parse(text) for _ in range(2))
        report = api.pipeline(module, target=target, cache=False)
        seconds = time.process_time() - begin
        (found,) = report.of("schedules")
        (checks,) = report.of("checks")
        launch = {"grid": row.grid} if row.grid else {}
        same = validate(before, module, row.made.name, row.data, target=target, **launch).verdict
        passmanager.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        emit = "cubin" if target.lowering == "nvvm" else "isa"
        (kernel,) = lower(module, target=target, emit=emit).kernels
    proven = "yes" if found.proven else f"at least {found.lower_bound:g}"
    safe = "proven" if not checks.unsafe + checks.unknown else "not proven"
    parted = [said.split(" on ")[0] for said in found.partitions if "refused" not in said]
    groups = ", ".join(sorted(parted, key=lambda said: not said.startswith(found.roles))) or "1"
    return (
        f"| {row.kernel} | {row.chip} | {found.interval:g} | {found.bound_by} | {proven} | "
        f"{found.stages} | {groups} | {_registers(kernel)} | {safe}, {same} | {seconds:.1f} |"
    )


def _registers(kernel: Any) -> str:
    if isinstance(kernel, IsaKernel):
        return f"{kernel.vector_registers}, {kernel.scratch_bytes or 'none'}"
    needs = kernel.resources
    return f"{needs.registers}, {needs.spill_store_bytes or 'none'}"


HEAD = (
    "| kernel | chip | interval | what binds | proven | stages | groups | registers, spills | races, plain loop "
    "| seconds |\n|---|---|---:|---|---|---:|---:|---|---|---:|"
)
