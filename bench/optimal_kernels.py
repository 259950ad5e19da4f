"""Kernels that `async_pipe.schedule = "optimal"` schedules from the plain loop: the rows of docs/latency.md."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlir_async_pipe import api
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.rocdl.isa import IsaKernel
from mlir_async_pipe.machine.validation import Data, validate

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from generate_attention import Attention  # noqa: E402
from generate_backward import Backward, Chain  # noqa: E402
from generate_gemm import Gemm  # noqa: E402

CHIPS = {
    **{f"sm_{number}": f"nvvm:sm_{number}" for number in (80, 90, 100)},
    **{f"gfx{number}": f"rocdl:gfx{number}" for number in (942, 950)},
}
HALF, SINGLE, BYTE = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.int8)
POSITIONS = 256


@dataclass(frozen=True)
class Row:
    """A kernel for a chip, and data of any value for it, of enough iterations to fill the pipeline."""

    kernel: str
    chip: str
    made: Any
    data: tuple[Data, ...]


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
            if chip.startswith("sm_"):
                made = kind()
                heads = [Data((1, POSITIONS, 64), HALF)] * (len(made.operands) - 1)
                of_rows = [Data((1, POSITIONS), SINGLE)] * len(made.of_rows)
                out = Data((1, POSITIONS, 64), SINGLE)
                yield Row(kernel, chip, made, (*heads, out, *of_rows))


def measured(row: Row) -> str:
    """A line of the table."""
    target = Target.parse(CHIPS[row.chip])
    annotation = f"async_pipe.num_stages = {row.made.stages} : i64"
    text = row.made.module().replace(annotation, 'async_pipe.schedule = "optimal"')
    begin = time.process_time()
    with new_context():
        before, module = (ir.Module.parse(text) for _ in range(2))
        report = api.pipeline(module, target=target, cache=False)
        seconds = time.process_time() - begin
        (found,) = report.of("schedules")
        (checks,) = report.of("checks")
        same = validate(before, module, row.made.name, row.data, target=target).verdict
        passmanager.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        emit = "cubin" if target.lowering == "nvvm" else "isa"
        (kernel,) = lower(module, target=target, emit=emit).kernels
    proven = "yes" if found.proven else f"at least {found.lower_bound:g}"
    safe = "proven" if not checks.unsafe + checks.unknown else "not proven"
    return (
        f"| {row.kernel} | {row.chip} | {found.interval:g} | {found.bound_by} | {proven} | "
        f"{found.stages} | 1 | {_registers(kernel)} | {safe}, {same} | {seconds:.1f} |"
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
