"""`async-pipe-opt --run`: arguments, results, races, timelines.

Covers: tool/execution.py
"""

import numpy as np
import pytest

from helpers.driver_process import opt
from helpers.machine_programs import WORKGROUP, two_slots
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.tool.execution import argument

pytestmark = pytest.mark.slow

PROGRAM = two_slots().replace("WG", WORKGROUP).replace("TOK", "!nvgpu.device.async.token")
ARGUMENTS = ("--run=f", "--arg=16x8xf32:1", "--arg=zeros:16x8xf32", "--threads=8")


def test_run_prints_results_and_writes_arrays(tmp_path):
    np.save(tmp_path / "in.npy", np.arange(128, dtype=np.float32).reshape(16, 8))
    ended = opt(
        "--run=f", "--arg=in.npy", "--arg=zeros:16x8xf32", "--threads=8", "--completion=late",
        "--run-output=out", stdin=PROGRAM, folder=tmp_path,
    )  # fmt: skip
    assert (ended.code, ended.err) == (0, "")
    assert "races: 0" in ended.out and "argument 1: 16x8xfloat32" in ended.out
    written = np.load(tmp_path / "out" / "argument1.npy")
    np.testing.assert_array_equal(written, np.arange(128).reshape(16, 8)[:, ::-1])


def test_races_are_errors_with_both_ends():
    ended = opt(*ARGUMENTS, "--completion=random:7", stdin=PROGRAM.replace("gpu.barrier", ""))
    assert ended.code == 1
    assert "[not-visible]" in ended.err and "note: the other access" in ended.err


@pytest.mark.parametrize("name, start", [("t.svg", "<svg"), ("t.json", "{")])
def test_timeline_is_written(tmp_path, name, start):
    ended = opt(
        *ARGUMENTS, f"--timeline={name}", "--cost=latency=90", stdin=PROGRAM, folder=tmp_path
    )
    assert ended.code == 0 and "timeline: " in ended.out
    assert (tmp_path / name).read_text().startswith(start)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--timeline=t.svg"], "'--timeline' needs '--run' or '--validate'"),
        (["--completion=late"], "'--completion' needs '--run'"),
        (["--arg=3"], "'--arg' needs '--run' or '--validate'"),
        (["--run=g"], "no function 'g'"),
        (["--run=f"], "takes 2 arguments, 0 given"),
        ([*ARGUMENTS, "--completion=soon"], "unknown completion 'soon'"),
        ([*ARGUMENTS, "--schedule=fair"], "unknown thread schedule 'fair'"),
        ([*ARGUMENTS[:3], "--threads=many"], "expected sizes"),
        ([*ARGUMENTS[:3], "--threads=0"], "positive sizes"),
        ([*ARGUMENTS, "--timeline=t.png"], "must end in .svg or .json"),
        ([*ARGUMENTS, "--cost=x"], "bad cost"),
        (["--run=f", "--arg=lost.npy", "--arg=1"], "cannot read 'lost.npy'"),
    ],
)
def test_bad_use_is_an_error_without_traceback(arguments, message):
    ended = opt(*arguments, stdin=PROGRAM)
    assert ended.code == 1 and message in ended.err and "Traceback" not in ended.err


def test_arguments_are_shapes_seeds_and_numbers():
    assert argument("3", 0) == 3 and argument("-2.5", 0) == -2.5
    first, again, other = argument("4x4xf16:1", 0), argument("4x4xf16:1", 5), argument("4x4xf16", 5)
    assert first.dtype == np.float16
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert argument("zeros:3xi32", 0).tolist() == [0, 0, 0]
    assert argument("f32", 0).shape == ()


def test_unreadable_arguments_are_refused():
    with pytest.raises(UsageError, match="bad-argument"):
        argument("4x4xwide", 0)
