"""PTX that ptxas is not asked about does not spill, so that nothing of it would have been made again.

GEMMs on both sides of what a thread may have, and values that all live through a loop, of which no
order of the instructions needs less. ASYNC_PIPE_SAMPLES sets the number of those, for random sizes.

Covers: lowering/nvvm/lower_nvvm.py
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from helpers.gemm_kernels import gemm_text
from mlir_async_pipe.api import lower, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.lowering.nvvm import lower_nvvm, ptxas
from mlir_async_pipe.lowering.nvvm.lower_nvvm import needs_ptxas
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed"),
]

SAMPLES = int(os.environ.get("ASYNC_PIPE_SAMPLES", "10"))


@pytest.mark.parametrize(
    ("options", "asks", "spills"),
    [
        ([], False, False),
        (["--tile-m=64", "--tile-n=64", "--tile-k=64"], False, False),
        # More than 239 of 255 between blocks, and yet they fit.
        (["--types=bf16"], True, False),
        (["--edges"], True, False),
        # A warp has tiles of 96x64: 192 accumulators a thread, and fragments.
        (["--tile-m=192"], True, True),
    ],
)
def test_a_gemm_that_is_not_asked_about_does_not_spill(
    options: list[str], asks: bool, spills: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def needs(*given: Any) -> bool:
        asked.append(needs_ptxas(*given))
        return asked[-1]

    monkeypatch.setattr(lower_nvvm, "needs_ptxas", needs)
    with new_context():
        module = ir.Module.parse(gemm_text(*options))
        pipeline(module, target="nvvm:sm_80", check="none")
        (kernel,) = lower(module, target="nvvm:sm_80", cache=False).kernels
    assert asked == [asks]
    assert (kernel.resources.spill_store_bytes > 0) == spills


def through_a_loop(values: int, chip: str, threads: int, minimum: str = "") -> str:
    """All values are loaded, changed in a loop by each other, and stored."""
    numbers = range(values)
    loads = "".join(f"ld.volatile.global.f32 \t%f{i}, [%rd1+{4 * i}];\n" for i in numbers)
    work = "".join(
        f"fma.rn.f32 \t%f{i}, %f{i}, %f{(7 * i + 1) % values}, %f{(3 * i + 2) % values};\n"
        for i in numbers
    )
    stores = "".join(f"st.volatile.global.f32 \t[%rd1+{4 * i}], %f{i};\n" for i in numbers)
    return f"""
.version {"8.6" if chip == "sm_100a" else "8.0"}
.target {chip}
.address_size 64
.visible .entry k(
\t.param .u64 k_param_0
)
.reqntid {threads}, 1, 1
{minimum}{{
.reg .f32 %f<{values}>;
.reg .b32 %r<2>;
.reg .b64 %rd<2>;
.reg .pred %p<2>;
ld.param.u64 \t%rd1, [k_param_0];
{loads}mov.u32 \t%r1, 0;
$L1:
{work}add.u32 \t%r1, %r1, 1;
setp.lt.u32 \t%p1, %r1, 100;
@%p1 bra \t$L1;
{stores}ret;
}}
"""


@pytest.mark.parametrize("sample", range(SAMPLES))
def test_values_that_are_not_asked_about_do_not_spill(sample: int) -> None:
    """At the most that is not asked about, and somewhere below."""
    random = Random(sample)
    chip = CHIPS[random.choice(("sm_80", "sm_86", "sm_90a", "sm_100a"))]
    threads = random.choice((32, 128, 256, 384, 512, 1024))
    have = chip.registers_of_thread(threads)
    most = max(
        values
        for values in range(have // 2, have)
        if not needs_ptxas(through_a_loop(values, chip.name, threads), chip)
    )
    for values in (most, random.randint(have // 2, most)):
        made = ptxas.assemble(through_a_loop(values, chip.name, threads), chip, kept=False)
        assert made.resources["k"].spill_store_bytes == 0


@pytest.mark.parametrize(("values", "threads"), [(331, 128), (255, 512)])
def test_where_ptxas_gives_up_registers_it_is_asked(values: int, threads: int) -> None:
    """It uses 32 registers, and with one block a multiprocessor all that there are."""
    chip = CHIPS["sm_80"]
    alone, helped = (through_a_loop(values, "sm_80", threads, more) for more in ("", ONE_BLOCK))
    assert needs_ptxas(alone, chip)
    few, all_of_them = (
        ptxas.assemble(text, chip, kept=False).resources["k"] for text in (alone, helped)
    )
    assert few.registers < all_of_them.registers == chip.registers_of_thread(threads)
    assert few.spill_store_bytes > 2 * all_of_them.spill_store_bytes


ONE_BLOCK = ".minnctapersm 1\n"
