"""Loops of several products, and one that dequantises, by `async_pipe.schedule = "optimal"`: what they compute is
what NumPy does, and the schedule keeps what the plain loop computes, for all data.

Covers: examples/generate_backward.py, examples/dequant_tiles.py, examples/attention_tiles.py
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from helpers.gemm_kernels import gemm_text
from helpers.heads_by_numpy import numbers_of
from helpers.paths import ROOT
from mlir_async_pipe import api, machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.machine.validation import Data, validate

sys.path.insert(0, str(ROOT / "examples"))
from dequant_tiles import ORDER

POSITIONS = 256
NVIDIA = "nvvm:sm_80"
# Rows of a block of the loops of several products.
ROWS = {NVIDIA: 64, "rocdl:gfx942": 128, "rocdl:gfx950": 128}


def optimal(text: str) -> str:
    return text.replace("async_pipe.num_stages = 3 : i64", 'async_pipe.schedule = "optimal"')


def products(kernel: str, target: str) -> str:
    generator = ROOT / "examples" / "generate_backward.py"
    chip = [] if target == NVIDIA else [f"--chip={target.split(':')[1]}"]
    command = [sys.executable, str(generator), f"--kernel={kernel}", *chip]
    return optimal(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def run(text: str, name: str, arguments: list, target: str = NVIDIA, **launch) -> list:
    """The arguments as the pipelined kernel leaves them; nothing may race."""
    with new_context():
        module = ir.Module.parse(text)
        report = api.pipeline(module, target=target)
        (record,) = report.of("schedules")
        (checks,) = report.of("checks")
        assert record.proven and record.stages > 1
        assert (checks.unsafe, checks.unknown) == (0, 0)
        result = machine.run(
            module, name, arguments, completion="late", target=Target.parse(target), **launch
        )
    assert result.races == ()
    return list(result.arrays)


@pytest.mark.parametrize("target", ROWS)
def test_a_gemm_dequantises_in_its_loop(target):
    draw = np.random.default_rng(0)
    a = draw.integers(-4, 5, (128, 128)).astype(np.float16)
    b = draw.integers(-8, 8, (128, 128)).astype(np.int8)
    options = ["--weights=i8", "--tile-k=64"]
    stored = b
    if target == NVIDIA:
        stored = b.reshape(128, 8, 16)[:, :, ORDER].reshape(128, 128).copy()
    else:
        options.append(f"--chip={target.split(':')[1]}")
    c = np.full((128, 128), -7, np.float32)
    text = optimal(gemm_text(*options))
    wanted = a.astype(np.float64) @ b.T.astype(np.float64)
    assert np.array_equal(run(text, "gemm", [a, stored, c], target)[2], wanted)
    if target == NVIDIA:
        # Weights that nobody packed are others.
        assert not np.array_equal(run(text, "gemm", [a, b, c], target)[2], wanted)


@pytest.mark.parametrize("target", ROWS)
@pytest.mark.parametrize("kernel", ["chain", "backward"])
def test_a_loop_of_several_products_gives_numpys_numbers(kernel, target):
    numbers = numbers_of(kernel, POSITIONS)
    grid = (POSITIONS // ROWS[target], 1)
    found = run(products(kernel, target), kernel, numbers.arguments, target, grid=grid)
    assert numbers.is_right(found[numbers.result], POSITIONS)


@pytest.mark.parametrize("target", [NVIDIA, "rocdl:gfx950"])
@pytest.mark.parametrize("kernel", ["chain", "backward"])
def test_the_schedule_keeps_what_the_plain_loop_computes(kernel, target):
    half, single = np.dtype(np.float16), np.dtype(np.float32)
    of_heads = Data((1, POSITIONS, 64), half)
    arguments = [of_heads] * (3 + (kernel == "backward")) + [Data((1, POSITIONS, 64), single)]
    arguments += [Data((1, POSITIONS), single)] * (2 * (kernel == "backward"))
    with new_context():
        before, after = (ir.Module.parse(products(kernel, target)) for _ in range(2))
        api.pipeline(after, target=target)
        launch = {"target": Target.parse(target)}
        assert validate(before, after, kernel, arguments, **launch).is_equal
        # Sums that begin with 1 are others.
        zeros = "arith.constant dense<0.000000e+00>"
        assert zeros in str(after)
        wrong = ir.Module.parse(str(after).replace(zeros, zeros.replace("0.0", "1.0")))
        assert not validate(before, wrong, kernel, arguments, **launch).is_equal


def test_weights_of_8_bits_are_not_written_for_guarded_tiles():
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        gemm_text("--weights=i8", "--tile-k=64", "--edges")
    assert "weights of 8 bits are written for f16, whole tiles and one loop" in refusal.value.stderr
