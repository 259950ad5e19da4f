"""Bad input: one located error with its reason code, exit code 1, nothing written, IR as it was.

Covers: tool/inputs.py, tool/__main__.py, tool/isolate.py, tool/command_line.py, tool/reproducer.py, tool/mlir_diagnostics.py, session/diagnostics.py
"""

from __future__ import annotations

import re
import sys

import pytest

import mlir_async_pipe
from helpers.driver_process import Ended, opt
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError

pytestmark = pytest.mark.slow

# One load and one store in the loop: two statements.
LOOP = """func.func @copy(%from: memref<8xf32> {{llvm.noalias}}, %to: memref<8xf32> {{llvm.noalias}}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {{
    %v = memref.load %from[%i] : memref<8xf32>
    memref.store %v, %to[%i] : memref<8xf32>
  }} {{{annotations}}}
  return
}}
"""

# The second statement of an iteration reads what the first of the next one writes.
BROKEN_DEPENDENCE = """func.func @running_sum(%m: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  scf.for %i = %c0 to %c7 step %c1 {
    %v = memref.load %m[%i] : memref<8xf32>
    %next = arith.addi %i, %c1 : index
    memref.store %v, %m[%next] : memref<8xf32>
  } {async_pipe.stage = array<i64: 0, 2>, async_pipe.order = array<i64: 0, 1>}
  return
}
"""
UNKNOWN_ACCESS = """func.func private @anything()
func.func @calls(%m: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %v = memref.load %m[%i] : memref<8xf32>
    func.call @anything() : () -> ()
    memref.store %v, %m[%i] : memref<8xf32>
  } {async_pipe.stage = array<i64: 0, 1, 1>, async_pipe.order = array<i64: 0, 1, 2>}
  return
}
"""


def loop(annotations: str) -> str:
    return LOOP.format(annotations=annotations)


BAD_ANNOTATIONS = {
    "stage array too short": "async_pipe.stage = array<i64: 0>",
    "stage array too long": "async_pipe.stage = array<i64: 0, 0, 1>",
    "order array of another length": (
        "async_pipe.stage = array<i64: 0, 1>, async_pipe.order = array<i64: 0>"
    ),
    "negative stage": "async_pipe.stage = array<i64: -1, 0>",
    "order is no permutation": (
        "async_pipe.stage = array<i64: 0, 1>, async_pipe.order = array<i64: 1, 1>"
    ),
    "async stage without statement": (
        "async_pipe.stage = array<i64: 0, 1>, async_pipe.async_stages = array<i64: 5>"
    ),
    "unknown attribute": "async_pipe.stage = array<i64: 0, 1>, async_pipe.stages = 3 : i64",
    "no stage at all": "async_pipe.num_stages = 0 : i64",
    "array of the wrong kind": 'async_pipe.stage = "0, 1"',
}
BAD_LOOPS = {name: loop(annotations) for name, annotations in BAD_ANNOTATIONS.items()} | {
    "dependence that the schedule breaks": BROKEN_DEPENDENCE,
    "access that cannot be analysed": UNKNOWN_ACCESS,
}
CODES = {
    "stage array too short": "annotation-length",
    "stage array too long": "annotation-length",
    "order array of another length": "annotation-length",
    "negative stage": "negative-stage",
    "order is no permutation": "order-not-permutation",
    "async stage without statement": "async-stage-unknown",
    "unknown attribute": "unknown-annotation",
    "no stage at all": "num-stages-too-small",
    "array of the wrong kind": "bad-annotation",
    "dependence that the schedule breaks": "dependence-violated",
    "access that cannot be analysed": "unproven-independence",
}


def assert_one_error(ended: Ended, place: str, code: str) -> None:
    """Exit code 1, no output, and the first and only error at `place`, a pattern, with `code`."""
    assert ended.code == 1
    assert ended.out == ""
    assert "Traceback" not in ended.err
    heads = [line for line in ended.err.splitlines() if re.search(r": error: ", line)]
    assert len(heads) == 1, ended.err
    assert ended.err.startswith(heads[0])
    assert re.fullmatch(rf"{place}: error: .*\S \[{code}\]", heads[0]), heads[0]


@pytest.mark.parametrize("name", BAD_LOOPS)
def test_a_loop_that_cannot_be_pipelined_is_one_located_error(name, tmp_path):
    ended = opt("--async-pipe", "-o", tmp_path / "out", stdin=BAD_LOOPS[name])
    assert_one_error(ended, r"<stdin>:[1-9]\d*:[1-9]\d*", CODES[name])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", BAD_LOOPS)
def test_a_module_that_cannot_be_pipelined_stays_as_it_was(name):
    with new_context():
        module = ir.Module.parse(BAD_LOOPS[name])
        before = str(module)
        with pytest.raises(AsyncPipeError):
            mlir_async_pipe.pipeline(module)
        assert str(module) == before


def test_a_bad_loop_after_a_good_one_leaves_both_as_they_were():
    good = loop("async_pipe.stage = array<i64: 0, 1>").replace("@copy", "@good")
    with new_context():
        module = ir.Module.parse(good + BAD_LOOPS["negative stage"])
        before = str(module)
        with pytest.raises(AsyncPipeError):
            mlir_async_pipe.pipeline(module)
        assert str(module) == before


def test_a_syntax_error_is_located():
    assert_one_error(opt(stdin="module {\n  func.func @f( {\n}\n"), r"<stdin>:2:\d+", "parse-error")


def test_text_that_is_no_mlir_is_located():
    assert_one_error(opt(stdin="int main() {}\n"), r"<stdin>:1:1", "parse-error")


def test_a_missing_file_is_named(tmp_path):
    name = tmp_path / "missing.mlir"
    assert_one_error(opt(name), re.escape(str(name)), "cannot-read")


def test_a_folder_as_input_is_refused(tmp_path):
    assert_one_error(opt(tmp_path), re.escape(str(tmp_path)), "cannot-read")


def test_an_output_folder_that_does_not_exist_is_named(tmp_path):
    name = tmp_path / "no" / "out.mlir"
    ended = opt("-o", name, stdin="module {}\n")
    assert_one_error(ended, re.escape(str(name)), "cannot-write")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_error():
    assert_one_error(opt("-o", "/dev/full", stdin="module {}\n"), "/dev/full", "cannot-write")


def test_an_older_output_survives_an_error(tmp_path):
    name = tmp_path / "out.mlir"
    name.write_text("precious")
    assert opt("-o", name, stdin="syntax error").code == 1
    assert name.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [name]


@pytest.mark.parametrize("target", ["nvvm:sm_1", "nvvm", "sm_80", "rocdl:sm_80", ""])
def test_an_unknown_target_is_named(target):
    assert_one_error(
        opt(f"--target={target}", stdin="module {}"), "async-pipe-opt", "unknown-target"
    )


@pytest.mark.parametrize("name", ["no-such-pass", "async-pipe-no-such-pass"])
def test_an_unknown_pass_is_named(name):
    assert_one_error(opt(f"--{name}", stdin="module {}"), "async-pipe-opt", "unknown-pass")
    ended = opt(f"--pass-pipeline=builtin.module({name})", stdin="module {}")
    assert_one_error(ended, "--pass-pipeline:1:16", "unknown-pass")


def test_emitting_code_needs_a_target():
    ended = opt("--emit=ptx", stdin="module {}")
    assert_one_error(ended, "async-pipe-opt", "missing-target")
    assert "--target" in ended.err


def test_unknown_bindings_are_named():
    assert_one_error(
        opt("--bindings=nothing", stdin="module {}"), "async-pipe-opt", "bindings-unknown"
    )


def test_unknown_bindings_in_the_environment_are_named():
    ended = opt(stdin="module {}", environment={"MLIR_ASYNC_PIPE_BINDINGS": "nothing"})
    assert_one_error(ended, "async-pipe-opt", "bindings-unknown")


def test_without_any_bindings_the_error_gives_the_command():
    """`-S` leaves the site-packages out, and with them every stack."""
    import subprocess
    from pathlib import Path

    root = Path(mlir_async_pipe.__file__).parents[1]
    script = (
        f"import sys; sys.path.insert(0, {str(root)!r});"
        "from mlir_async_pipe.tool.__main__ import main; sys.exit(main(['-']))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], input=b"module {}", capture_output=True, check=False
    )
    ended = Ended(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert_one_error(ended, "async-pipe-opt", "bindings-missing")
    assert "pip install" in ended.err


def test_a_pass_on_an_op_that_it_does_not_run_on_is_refused():
    ended = opt("--pass-pipeline=func.func(cse)", stdin="module {}")
    assert_one_error(ended, r"\S+", "pass-failed")


def test_our_pass_on_an_op_that_is_not_the_root_is_refused():
    ended = opt("--pass-pipeline=func.func(async-pipe-schedule)", stdin="module {}")
    assert_one_error(ended, r"\S+", "bad-pipeline")
