"""Passes and patterns of this package among those of others, and ops and passes that others add.

Covers: hooks/composition.py, session/plugins.py, test/helpers/demo_dialect
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest

import mlir_async_pipe
from helpers.paths import ROOT
from mlir_async_pipe.bindings import ir, new_context, passmanager, rewrite

ADD_ONE = (ROOT / "examples" / "add_one.mlir").read_text()
TARGET = "nvvm:sm_80"
GLOBAL = """
memref.global "private" @tile : memref<32xf32, #gpu.address_space<workgroup>>
func.func @f(%A : memref<512xf32> {llvm.noalias}, %C : memref<512xf32> {llvm.noalias})
    attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c31 = arith.constant 31 : index
  %c32 = arith.constant 32 : index
  %tile = memref.get_global @tile : memref<32xf32, #gpu.address_space<workgroup>>
  %t = gpu.thread_id x
  scf.for %i = %c0 to %c16 step %c1 {
    %o = arith.muli %i, %c32 : index
    %x = arith.addi %o, %t : index
    %v = memref.load %A[%x] : memref<512xf32>
    memref.store %v, %tile[%t] : memref<32xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %m = arith.subi %c31, %t : index
    %w = memref.load %tile[%m] : memref<32xf32, #gpu.address_space<workgroup>>
    memref.store %w, %C[%x] : memref<512xf32>
    gpu.barrier
  } {async_pipe.num_stages = 3 : i64}
  return
}
"""


def refused(text: str) -> str:
    return text.replace("num_stages = 3", "num_stages = 0")


def test_a_pass_stands_between_those_of_others() -> None:
    with new_context():
        module = ir.Module.parse(ADD_ONE)
        pipeline = mlir_async_pipe.as_pass("async-pipe", TARGET, num_stages=4)
        check = mlir_async_pipe.as_pass("async-pipe-check", TARGET)
        manager = passmanager.PassManager("builtin.module")
        manager.add("canonicalize")
        manager.add(pipeline, name=pipeline.__name__)
        manager.add("canonicalize,cse")
        manager.add(check, name=check.__name__)
        manager.run(module.operation)
        (report,) = pipeline.reports
        assert [entry.count for entry in report.of("waits")] == [2, 2, 1, 0]
        (kernel,) = check.reports[0].of("checks")
        assert (kernel.unsafe, kernel.unknown) == (0, 0)


def test_a_pass_runs_on_a_function_where_the_manager_is_anchored_there() -> None:
    text = ADD_ONE.replace("async_pipe.num_stages = 3", "mine = 3")
    with new_context():
        module = ir.Module.parse(text)
        (kernels,) = module.body.operations
        (kernel,) = kernels.operation.regions[0].blocks[0].operations
        count = mlir_async_pipe.as_pass("async-pipe-count-waits", TARGET)
        manager = passmanager.PassManager("gpu.func")
        manager.add(count, name=count.__name__)
        manager.run(kernel.operation)
        assert [entry.count for entry in count.reports[0].of("waits")] == [0]


def test_an_error_fails_the_manager_and_leaves_the_module() -> None:
    with new_context():
        module = ir.Module.parse(refused(ADD_ONE))
        before = str(module)
        pipeline = mlir_async_pipe.as_pass("async-pipe", TARGET)
        manager = passmanager.PassManager("builtin.module")
        manager.add(pipeline, name=pipeline.__name__)
        with pytest.raises(ir.MLIRError, match=r"12:5.*num-stages-too-small"):
            manager.run(module.operation)
        assert pipeline.reports == []
        assert str(module) == before


@pytest.mark.parametrize("text", [ADD_ONE, GLOBAL], ids=["gpu.func", "global"])
def test_the_pattern_pipelines_functions_among_patterns_of_others(text: str) -> None:
    with new_context():
        module, alone = ir.Module.parse(text), ir.Module.parse(text)
        seen = []
        mixed = rewrite.RewritePatternSet()
        mixed.add("scf.for", lambda op, rewriter: seen.append(op.name) or True)
        assert mlir_async_pipe.patterns(mixed, TARGET, check="error") is mixed
        rewrite.apply_patterns_and_fold_greedily(module, mixed.freeze())
        assert module.operation.verify()
        assert seen
        mlir_async_pipe.pipeline(alone, TARGET)
        rewrite.apply_patterns_and_fold_greedily(alone, rewrite.RewritePatternSet().freeze())
        assert str(module) == str(alone)
        assert "num_stages" not in str(module)


def test_the_pattern_matches_no_function_that_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    good, bad = GLOBAL, refused(GLOBAL.replace("@f", "@g").replace("@tile", "@other"))
    with new_context():
        module = ir.Module.parse(good + bad)
        rewrite.apply_patterns_and_fold_greedily(
            module, mlir_async_pipe.patterns(target=TARGET).freeze()
        )
        first, second = str(module).split("func.func @g")
        assert "memref<3x32xf32" in first
        assert "num_stages = 0" in second
    assert capfd.readouterr().err.count("num-stages-too-small") == 1


DEMO = ROOT / "test" / "helpers" / "demo_dialect"
ENTRY_POINTS = """
[mlir_async_pipe.passes]
demo-lower = demo_dialect.lower
[mlir_async_pipe.vocabulary]
demo = demo_dialect.rows:ROWS
[mlir_async_pipe.machine]
demo = demo_dialect.semantics
"""
COPY = (
    "nvgpu.device_async_copy %from[%at], %tile[%mine], 4 : memref<8192xf32> to"
    " memref<512xf32, #gpu.address_space<workgroup>>"
)
DEMO_COPY = (
    '"demo.copy"(%tile, %mine, %from, %at) {elements = 4 : i64} : '
    "(memref<512xf32, #gpu.address_space<workgroup>>, index, memref<8192xf32>, index)"
    " -> !nvgpu.device.async.token"
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process in which the package is installed."""
    folder = tmp_path_factory.mktemp("demo")
    wheel = folder / "demo_dialect-0.1-py3-none-any.whl"
    about = "demo_dialect-0.1.dist-info"
    with zipfile.ZipFile(wheel, "w") as made:
        for file in DEMO.glob("*.py"):
            made.write(file, f"demo_dialect/{file.name}")
        made.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: demo-dialect\nVersion: 0.1\n"
        )
        made.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{about}/entry_points.txt", ENTRY_POINTS)
        made.writestr(f"{about}/RECORD", "")
    target = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True, timeout=120)
    path = os.pathsep.join([str(target), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path}


def driver(environment: dict[str, str], *arguments: str, text: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mlir_async_pipe.tool", "-", *arguments],
        input=text, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_another_package_adds_an_op_and_its_loop_is_pipelined(environment: dict[str, str]) -> None:
    text = ADD_ONE.replace(COPY, DEMO_COPY)
    assert "demo.copy" in text
    made = driver(environment, "--async-pipe", f"--target={TARGET}", text=text)
    assert made.count('"demo.copy"') == 3
    assert [part.split("}")[0] for part in made.split("numGroups = ")[1:]] == [
        "1 : i32", "1 : i32", "0 : i32",
    ]  # fmt: skip
    assert "memref<3x512xf32" in made
    ptx = driver(environment, "--demo-lower", f"--target={TARGET}", "--emit=ptx", text=made)
    assert "cp.async" in ptx
    assert "demo-lower" in driver(environment, "--list-passes")


def test_another_package_adds_a_queue_with_its_copies_commits_and_waits(
    environment: dict[str, str],
) -> None:
    token = "!nvgpu.device.async.token"
    wait = "nvgpu.device_async_wait %group"
    text = ADD_ONE.replace(COPY, DEMO_COPY.replace("demo.copy", "demo.dma_copy"))
    text = text.replace(
        "nvgpu.device_async_create_group %copy", f'"demo.dma_commit"(%copy) : ({token}) -> {token}'
    ).replace(wait, f'"demo.dma_wait"(%group) : ({token}) -> ()')
    made = driver(environment, "--async-pipe", text=text)
    waits = [line for line in made.splitlines() if '"demo.dma_wait"' in line]
    assert [line.split("numGroups = ")[1].split()[0] for line in waits] == ["1", "1", "0"]
    assert made.count('"demo.dma_commit"') == 3
    assert "nvgpu.device_async" not in made
    checked = [made, made.replace("numGroups = 1", "numGroups = 2")]
    assert [_is_right(environment, kernel) for kernel in checked] == [True, False]


def _is_right(environment: dict[str, str], text: str) -> bool:
    """Whether checker and machine find nothing wrong; they agree."""
    check = [sys.executable, "-m", "mlir_async_pipe.tool", "-"]
    run = ["--run=add_one", "--arg=zeros:8192xf32", "--arg=zeros:8192xf32", "--completion=late"]
    codes = [
        subprocess.run(
            [*check, *given], input=text, capture_output=True, text=True, env=environment,
            cwd=ROOT, timeout=120,
        ).returncode
        for given in (["--check-only"], run)
    ]  # fmt: skip
    assert codes[0] == codes[1]
    return codes[0] == 0


def test_the_machine_runs_the_op_of_another_package(environment: dict[str, str]) -> None:
    program = f"""
import numpy as np, mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
with new_context():
    module = ir.Module.parse({ADD_ONE.replace(COPY, DEMO_COPY)!r})
    mlir_async_pipe.pipeline(module, target="{TARGET}")
    x = np.arange(8192, dtype=np.float32)
    for completion in machine.COMPLETIONS:
        run = machine.run(module, None, [x, np.zeros_like(x)], completion=completion)
        assert run.races == () and np.array_equal(run.arrays[1], x + 1)
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=120)


def test_without_such_a_package_nothing_is_looked_up() -> None:
    program = """
import sys
from mlir_async_pipe.session import plugins
assert plugins.entries("passes") == plugins.entries("vocabulary") == {}
assert "importlib.metadata" not in sys.modules
"""
    subprocess.run([sys.executable, "-S", "-c", program], check=True, cwd=ROOT, timeout=60)
