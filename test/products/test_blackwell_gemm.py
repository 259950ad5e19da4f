"""The GEMM by tensor copies and tensor memory: NumPy's product on the machine, waits in the cubin, and
chips that have no tensor memory.

Covers: examples/generate_blackwell_gemm.py, examples/tensor_gemm.py, lowering/nvvm/to_nvvm.py, lowering/nvvm/cubin.py,
pipeliner/expand/write/write_ring.py
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from helpers.machine_programs import parse
from helpers.paths import ROOT
from helpers.tensor_memory_kernels import BlackwellGemm, run_gemm
from mlir_async_pipe import lower, machine, pipeline
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.session.diagnostics import LoweringError

SMALL = BlackwellGemm(tile_n=64)
SHAPES = {
    "k": SMALL,
    "n": replace(SMALL, b="n", tile_n=128),
    "bf16": replace(SMALL, types="bf16", stages=4),
    "tf32": replace(SMALL, types="tf32", tile_n=32),
    "8 bits": replace(SMALL, types="e4m3", tile_n=32),
    "two parts": replace(SMALL, tile_m=256, stages=2),
    "two in flight": replace(SMALL, in_flight=2, stages=2),
    "none in flight": replace(SMALL, in_flight=0),
    "persistent": replace(SMALL, persistent=True),
    "64 bytes": replace(SMALL, swizzle=64),
    "32 bytes by n": replace(SMALL, swizzle=32, b="n", types="bf16"),
    "roles": replace(SMALL, roles="specialised", tile_m=256),
    "persistent roles": replace(SMALL, roles="specialised", persistent=True, stages=2),
}
LARGE = {
    "128x128": BlackwellGemm(),
    "128x256, bf16 by n": BlackwellGemm(tile_n=256, types="bf16", b="n", stages=4),
    "256x256": BlackwellGemm(tile_m=256, tile_n=256),
    "256x128, e5m2": BlackwellGemm(tile_m=256, types="e5m2", stages=4),
    "128x128, tf32": BlackwellGemm(types="tf32", in_flight=2),
    "persistent": BlackwellGemm(persistent=True),
}
NEEDS_PTXAS = pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")


@pytest.mark.parametrize("completion", machine.COMPLETIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_product_is_numpy_s(shape, completion):
    gemm = SHAPES[shape]
    module = parse(gemm.module())
    # An error where the checker proves that something is wrong, or cannot tell.
    report = pipeline(module, target="nvvm:sm_100a", check="error")
    assert [found.unknown for found in report.of("checks")] == [0]
    tiles, grid = ((3, 2), 2) if gemm.persistent else ((1, 1), None)
    k = 3 * gemm.line + 8
    right, result = run_gemm(module, gemm, k, tiles=tiles, grid=grid, completion=completion)
    assert right
    assert result.races == ()


@NEEDS_PTXAS
@pytest.mark.parametrize("shape", LARGE)
def test_the_machine_code_has_each_product_once_and_one_commit(shape):
    gemm = LARGE[shape]
    module = parse(gemm.module())
    pipeline(module, target="nvvm:sm_100a", check="none")
    (kernel,) = lower(module, target="nvvm:sm_100a", emit="cubin").kernels
    (loop,) = [found for found in kernel.machine.loops if found.multiplications]
    assert (loop.multiplications, loop.commits) == (4 * gemm.parts, 1)
    assert (loop.tensor_copies, loop.expects, loop.barriers) == (2, 1, 1)
    assert loop.phase_waits == 2
    assert loop.instructions < 100 + 8 * (gemm.parts - 1)
    assert kernel.resources.spill_store_bytes == 0


@NEEDS_PTXAS
@pytest.mark.parametrize(
    "gemm",
    [
        BlackwellGemm(tile_m=256, tile_n=256),
        BlackwellGemm(persistent=True),
        BlackwellGemm(tile_n=256, types="bf16", b="n", stages=4, persistent=True),
    ],
    ids=repr,
)
def test_warps_of_their_own_copy_and_multiply(gemm):
    module = parse(replace(gemm, roles="specialised").module())
    pipeline(module, target="nvvm:sm_100a", check="none")
    (kernel,) = lower(module, target="nvvm:sm_100a", emit="cubin").kernels
    loops = kernel.machine.loops
    (copies,) = [found for found in loops if found.tensor_copies]
    (products,) = [found for found in loops if found.multiplications]
    assert (copies.tensor_copies, copies.expects, copies.phase_waits, copies.commits) == (
        2,
        1,
        1,
        0,
    )
    assert (products.multiplications, products.commits) == (4 * gemm.parts, 1)
    assert (products.phase_waits, products.barriers, products.arrivals) == (1, 0, 0)
    assert copies.instructions < 30
    assert products.instructions < 52 + 12 * (gemm.parts - 1)
    assert kernel.resources.spill_store_bytes == 0
    if gemm.persistent:
        (loads,) = [found for found in loops if found.arrivals]
        assert (loads.phase_waits, loads.arrivals, loads.commits) == (1, 1, 0)


@NEEDS_PTXAS
@pytest.mark.parametrize("chip", ["sm_103a", "sm_110a"])
def test_kin_of_sm_100a_have_the_same(chip):
    module = parse(SMALL.module())
    pipeline(module, target=f"nvvm:{chip}", check="none")
    (kernel,) = lower(module, target=f"nvvm:{chip}", emit="cubin").kernels
    (loop,) = [found for found in kernel.machine.loops if found.multiplications]
    assert loop.commits == 1


@pytest.mark.parametrize(
    ("chip", "instead"),
    [("sm_90a", "wgmma"), ("sm_100", "mma.sync"), ("sm_120a", "mma.sync"), ("sm_121a", "mma.sync")],
)
def test_chips_without_tensor_memory_say_what_to_use(chip, instead):
    with pytest.raises(LoweringError, match=instead) as raised:
        lower(parse(SMALL.module()), target=f"nvvm:{chip}", emit="ptx")
    assert raised.value.code == "no-tensor-memory"
    assert raised.value.diagnostic.place.line > 0


def test_products_of_warpgroups_are_sm_90a_s():
    text = """gpu.module @kernels {
      gpu.func @f() kernel { nvvm.wgmma.wait.group.sync.aligned 0 gpu.return } }"""
    with pytest.raises(LoweringError, match=r"tcgen05") as raised:
        lower(parse(text), target="nvvm:sm_100a", emit="ptx")
    assert raised.value.code == "no-warpgroup-products"


@pytest.mark.parametrize(
    "wrong", ["--tile=64,64", "--tile=128,40", "--b=n --types=tf32", "--stages=0"]
)
def test_the_generator_refuses_what_it_cannot_write(wrong):
    command = [sys.executable, str(ROOT / "examples/generate_blackwell_gemm.py"), *wrong.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "error" in done.stderr
