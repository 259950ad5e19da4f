"""Flash attention of the generator, for both vendors: right on the machine, its counts exact, proven and in the code.

Covers: pipeliner/async_pipe_pass.py, machine/dialects/nvvm.py, machine/dialects/amd.py, examples/generate_attention.py,
examples/attention_tiles.py
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

from helpers.paths import ROOT
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, operations, set_integer, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.lowering.rocdl.isa import IsaKernel
from mlir_async_pipe.machine.run_kernel import RunResult
from mlir_async_pipe.session.diagnostics import PipelineError

pytestmark = pytest.mark.slow

NVIDIA = "nvvm:sm_80"
WAIT, BARRIER = "nvgpu.device_async_wait", "gpu.barrier"
HEADS = 2
GENERATOR = ROOT / "examples" / "generate_attention.py"
KERNELS = {
    "64": ("--features=64",),
    "64 causal": ("--features=64", "--causal"),
    "64 apart": ("--features=64", "--schedule=apart"),
    "64 causal apart": ("--features=64", "--causal", "--schedule=apart"),
    "128": ("--features=128",),
    "128 causal apart": ("--features=128", "--causal", "--schedule=apart"),
    "64 gfx942": ("--features=64", "--chip=gfx942"),
    "64 causal apart gfx942": ("--features=64", "--causal", "--schedule=apart", "--chip=gfx942"),
    "64 gfx950": ("--features=64", "--chip=gfx950"),
    "64 causal gfx950": ("--features=64", "--causal", "--chip=gfx950"),
    "128 causal apart gfx950": ("--features=128", "--causal", "--schedule=apart", "--chip=gfx950"),
    "64 causal gfx1250": ("--features=64", "--causal", "--chip=gfx1250"),
}
OF_NVIDIA = [name for name in KERNELS if "gfx" not in name]
OF_AMD = [name for name in KERNELS if "gfx" in name]
# In the kernel loop. Stages: the groups of one later iteration, K and V. Apart: younger than K(i) are
# V(i), K(i + 1), V(i + 1) and K(i + 2), younger than V(i) are the last three.
COUNTS = {"stages": (2,), "apart": (4, 3)}


def generated(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, str(GENERATOR), *options], capture_output=True, text=True, check=True
    )
    return done.stdout


@cache
def pipelined_text(name: str) -> str:
    module = ir.Module.parse(generated(*KERNELS[name]))
    (checks,) = pipeline(module, target=target_of(name)).of("checks")
    assert (checks.unsafe, checks.unknown) == (0, 0)
    return str(module)


def target_of(name: str) -> str:
    return f"rocdl:{name.split()[-1]}" if "gfx" in name else NVIDIA


def rows_of(name: str) -> int:
    """Rows of a block: four waves have 32 each where matrix instructions have."""
    return 128 if "gfx9" in name else 64


def schedule_of(name: str) -> str:
    return "apart" if "apart" in name else "stages"


def numpy_attention(q: Any, k: Any, v: Any, causal: bool) -> np.ndarray:
    """In double precision, [heads, positions, features]."""
    scores = q.astype(float) @ k.astype(float).swapaxes(1, 2) / np.sqrt(q.shape[2])
    if causal:
        scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return weights / weights.sum(axis=2, keepdims=True) @ v.astype(float)


def run(
    module: Any, name: str, positions: int, completion: str, heads: int = HEADS
) -> tuple[RunResult, float]:
    """The run of the kernel, and how far from NumPy it is at most."""
    features = int(name.split()[0])
    draw = np.random.default_rng(positions)
    shape = (heads, positions, features)
    q, k, v = (draw.normal(size=shape).astype(np.float16) for _ in range(3))
    arguments = [q, k, v, np.full(shape, np.nan, np.float32)]
    result = machine.run(
        module,
        "attention",
        arguments,
        grid=(positions // rows_of(name), heads),
        completion=completion,
        target=Target.parse(target_of(name)),
    )
    found, wanted = result.arrays[3], numpy_attention(q, k, v, "causal" in name)
    assert found is not None
    return result, float(np.abs(found - wanted).max())


def counts(ops: Any) -> tuple[int | None, ...]:
    return tuple(integer_attribute(op, "numGroups") for op in ops if op.name == WAIT)


@pytest.fixture(autouse=True)
def _context() -> Any:
    with new_context():
        yield


@pytest.mark.parametrize("completion", ["eager", "late", "random:1"])
@pytest.mark.parametrize("name", KERNELS)
def test_it_gives_numpys_numbers_under_all_completions(name: str, completion: str) -> None:
    module = ir.Module.parse(pipelined_text(name))
    for positions in (rows_of(name), 256):
        result, distance = run(module, name, positions, completion)
        assert result.races == ()
        # Weights of at most 1 are rounded to f16, 2^-11; elements of V are below 5.
        assert distance < 5 * 2**-11


@pytest.mark.parametrize("name", ["64 causal", "64 causal gfx950"])
def test_before_it_is_pipelined_it_gives_the_same_numbers(name: str) -> None:
    module = ir.Module.parse(generated(*KERNELS[name]))
    result, distance = run(module, name, 128, "late")
    assert result.races == () and distance < 5 * 2**-11


def test_lanes_that_do_not_agree_on_the_largest_score_give_other_numbers() -> None:
    """Each half of a wave has half of the keys of its rows."""
    text = pipelined_text("64 gfx950")
    assert "arith.constant 32 : i32" in text
    module = ir.Module.parse(text.replace("arith.constant 32 : i32", "arith.constant 1 : i32"))
    _, distance = run(module, "64 gfx950", 128, "late")
    assert distance > 0.1


@pytest.mark.parametrize("name", KERNELS)
def test_its_kernel_loop_has_the_counts_and_barriers_of_its_schedule(name: str) -> None:
    module = ir.Module.parse(pipelined_text(name))
    loop = next(op for op in walk(module) if op.name == "scf.for")
    ops = operations(loop.regions[0].blocks[0])
    assert counts(ops) == COUNTS[schedule_of(name)]
    # Two waits need a barrier each; apart, V's copies overwrite what was just read.
    barriers = sum(op.name == BARRIER for op in ops)
    assert barriers == {"stages": 1, "apart": 3}[schedule_of(name)]


@pytest.mark.parametrize("name", ["64", "64 causal apart", "64 gfx950"])
def test_one_group_more_in_flight_is_a_race_at_each_wait(name: str) -> None:
    text = pipelined_text(name)
    module = ir.Module.parse(text)
    waits = len(counts(walk(module)))
    assert waits > 4
    # The last one is that of the loop for less than two tiles of 64 keys, which 128 rows always have.
    waits -= rows_of(name) == 128
    # At least one block has one iteration, three, and six, which reach each count.
    for number in range(waits):
        module = ir.Module.parse(text)
        wait = [op for op in walk(module) if op.name == WAIT][number]
        set_integer(wait, "numGroups", integer_attribute(wait, "numGroups") + 1, 32)
        lengths = (64, 256, 448) if rows_of(name) == 64 else (128, 256, 512)
        # A block knows no other head: one shows what each would.
        runs = (run(module, name, n, "late", heads=1)[0] for n in lengths)
        assert any(result.races for result in runs), f"wait {number}"


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("name", OF_NVIDIA)
def test_its_counts_are_in_the_machine_code_and_nothing_spills(name: str) -> None:
    module = ir.Module.parse(pipelined_text(name))
    wanted = counts(walk(module))
    (kernel,) = lower(module, target=Target.parse(NVIDIA), emit="cubin").kernels
    assert kernel.resources is not None and kernel.machine is not None
    assert kernel.resources.spill_store_bytes == 0
    loops = [loop.waits for loop in kernel.machine.pipelined_loops]
    assert COUNTS[schedule_of(name)] in loops
    # The back end moves the loop for short trips, but no count changes.
    assert kernel.ptx is not None and sorted(kernel.ptx.waits) == sorted(wanted)


@pytest.mark.skipif(
    importlib.util.find_spec("flydsl") is None, reason="no AMDGPU back end: pip install flydsl"
)
@pytest.mark.parametrize("name", OF_AMD)
def test_its_counts_are_in_the_code_for_amd_and_nothing_spills(name: str) -> None:
    module = ir.Module.parse(pipelined_text(name))
    wanted = counts(walk(module))
    code = lower(module, target=Target.parse(target_of(name)), emit="isa")
    (kernel,) = code.kernels
    assert isinstance(kernel, IsaKernel) and kernel.scratch_bytes == 0
    # P stays in registers: nothing is written to LDS but by copies.
    assert "ds_write" not in code.text and "ds_store" not in code.text
    assert ("ds_read_b64_tr_b16" in code.text) == ("gfx950" in name)
    assert [read.wait.count for read in code.waits] == list(wanted)
    # Where blocks have 128 rows, the loop for less than two tiles of 64 keys never runs.
    never = {"none"} if rows_of(name) == 128 else set()
    assert {read.verdict for read in code.waits} - never == {"kept"}


@pytest.mark.parametrize("name", [name for name in KERNELS if "gfx1250" not in name])
def test_no_lane_meets_a_bank_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    passes = importlib.import_module("banks").passes_of
    module = ir.Module.parse(pipelined_text(name))
    found = passes(module, Target.parse(target_of(name)))
    reads = {"gfx950": {"load", "transpose_load"}, "gfx942": {"load"}}
    assert set(found) == reads.get(name.split()[-1], {"ldmatrix"}) | {"device_async_copy"}
    assert set(found.values()) == {1}


def test_64_kib_have_no_room_for_two_versions_beside_128_features_of_128_queries() -> None:
    module = ir.Module.parse(generated("--features=128", "--chip=gfx942"))
    with pytest.raises(PipelineError) as refused:
        pipeline(module, target="rocdl:gfx942")
    assert refused.value.code == "smem-limit"


def test_other_numbers_of_features_are_refused() -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        generated("--features=96")
    assert "invalid choice: 96" in refused.value.stderr
