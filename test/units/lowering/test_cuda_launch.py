"""Launches, as the driver is asked for them: a driver that writes down what it is told stands for it.

Covers: lowering/nvvm/cuda_launch.py, lowering/lower.py
"""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.page_blocks import blocks_of
from helpers.paths import ROOT
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering.lower import Lowered
from mlir_async_pipe.session.diagnostics import UsageError

KERNEL = """
gpu.module @m {
  gpu.func @k(%a: memref<?x4xf32>, %n: index) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    gpu.return
  }
  gpu.func @other(%n: i32) kernel { gpu.return }
}"""


@pytest.fixture(scope="module")
def code() -> Lowered:
    with new_context():
        return mlir_async_pipe.lower(ir.Module.parse(KERNEL), target="nvvm:sm_80", emit="ptx")


class Driver:
    """Writes its calls down; `fails` is the call that the GPU refuses."""

    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="most")

    def __init__(self, fails: str = "", context: int = 7) -> None:
        self.fails, self.context = fails, context
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, arguments))
            return int(name == self.fails), self.context if name == "cuCtxGetCurrent" else name

        return called

    def asked(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for called, arguments in self.calls if called == name]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    def stands(**how: Any) -> Driver:
        made = Driver(**how)
        monkeypatch.setitem(sys.modules, "cuda.bindings.driver", made)  # type: ignore[arg-type]
        return made

    return stands


def refused(*asked: Any, **how: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        asked[0](*asked[1:], **how)
    return caught.value


def test_the_driver_gets_the_values_of_the_parameters_and_the_sizes(code: Lowered, driver) -> None:
    made, array = driver(), np.zeros((8, 4), np.float32)
    seen: list[int] = []

    def launch(*arguments: Any) -> tuple[int]:
        kinds = [type(value) for value in code.arguments("k", [array, 5])]
        pointers = (ctypes.c_void_p * len(kinds)).from_address(arguments[9])
        seen.extend(kind.from_address(at).value for kind, at in zip(kinds, pointers, strict=True))
        made.calls.append(("launch", arguments))
        return (0,)

    made.cuLaunchKernel = launch
    code.load("k")(array, 5, grid=(3, 2), stream=11)
    # A descriptor: pointer, pointer, offset, sizes, strides; then n.
    assert seen == [array.ctypes.data, array.ctypes.data, 0, 8, 4, 4, 1, 5]
    ((function, *sizes, shared, stream, _, extra),) = made.asked("launch")
    assert function == "cuModuleGetFunction"
    assert (sizes, shared, stream, extra) == ([3, 2, 1, 64, 1, 1], 0, 11, 0)
    assert made.asked("cuModuleGetFunction") == [("cuModuleLoadData", b"k")]
    assert made.asked("cuModuleLoadData")[0][0].endswith(b"\0")
    assert made.asked("cuFuncSetAttribute") == [("cuModuleGetFunction", "most", 0)]


@pytest.mark.parametrize(("context", "retained"), [(7, 0), (0, 1)])
def test_the_context_of_others_is_kept(code: Lowered, driver, context: int, retained: int) -> None:
    made = driver(context=context)
    code.load("k")
    assert len(made.asked("cuDevicePrimaryCtxRetain")) == retained
    assert len(made.asked("cuCtxSetCurrent")) == retained


def test_without_a_gpu_one_sentence_says_so(code: Lowered, driver, monkeypatch) -> None:
    driver(fails="cuInit")
    error = refused(code.load, "k")
    assert (error.code, "\n" in error.diagnostic.message) == ("no-gpu", False)
    # Nothing but that sentence: it names the line of the call, and no error of the driver comes before it.
    assert (error.diagnostic.place.file, error.__suppress_context__) == (__file__, True)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    assert refused(code.load, "k").code == "no-gpu"


@pytest.mark.parametrize(
    ("kernel", "sentence"), [("", "which kernel is not said"), ("x", "there is no kernel 'x'")]
)
def test_a_kernel_that_is_not_there_is_refused_by_name(code: Lowered, kernel, sentence) -> None:
    error = refused(code.load, kernel)
    assert (error.code, error.diagnostic.message) == ("launch-argument", sentence)


def test_code_of_another_vendor_is_refused() -> None:
    code = Lowered("rocdl:gfx942", "isa", "", b"", ())
    assert refused(code.load).code == "launch-argument"


def test_a_block_size_that_nobody_gives_is_refused(code: Lowered, driver) -> None:
    made = driver()
    kernel = code.load("other")
    assert refused(kernel, 3, grid=(1,)).code == "launch-argument"
    kernel(3, grid=(1,), threads=(32,))
    assert made.asked("cuLaunchKernel")[0][1:7] == (1, 1, 1, 32, 1, 1)


def test_what_the_driver_refuses_is_reported(code: Lowered, driver) -> None:
    driver(fails="cuLaunchKernel")
    kernel = code.load("k")
    array = np.zeros((8, 4), np.float32)
    assert refused(kernel, array, 5, grid=(1,)).code == "launch-failed"


def test_the_ten_lines_of_the_page_launch_the_gemm(driver, monkeypatch) -> None:
    """With arrays of NumPy in PyTorch's place."""
    torch = SimpleNamespace(
        half=np.float16,
        rand=lambda *shape, dtype, device: np.zeros(shape, dtype),
        zeros=lambda *shape, device: np.zeros(shape, np.float32),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.chdir(ROOT)
    made = driver()
    first = blocks_of(ROOT / "docs" / "launch.md")[0]
    assert "import torch" in first.text
    exec(compile(first.text, "launch.md", "exec"), {})
    assert made.asked("cuModuleLoadData")[0][0].startswith(b"\x7fELF")
    assert made.asked("cuModuleGetFunction") == [("cuModuleLoadData", b"gemm")]
    assert made.asked("cuLaunchKernel")[0][1:7] == (8, 8, 1, 128, 1, 1)


def test_the_lines_for_cuda_core_launch_with_values_that_it_takes(monkeypatch) -> None:
    """`launch` of cuda.core 1.2 takes numbers of ctypes, and no `c_void_p`."""
    done: list[Any] = []
    stream = SimpleNamespace(sync=lambda: done.append("sync"))
    core = SimpleNamespace(
        Device=lambda: SimpleNamespace(set_current=lambda: None, create_stream=lambda: stream),
        LaunchConfig=lambda *, grid, block, shmem_size: (grid, block, shmem_size),
        ObjectCode=SimpleNamespace(
            from_cubin=lambda binary: SimpleNamespace(get_kernel=lambda name: (binary[:4], name))
        ),
        launch=lambda *given: done.extend(given),
    )
    monkeypatch.setitem(sys.modules, "cuda.core", core)
    three = KERNEL.replace("%n: index", "%b: memref<?x4xf32>, %c: memref<?x4xf32>")
    with new_context():
        code = mlir_async_pipe.lower(ir.Module.parse(three), target="nvvm:sm_80", emit="cubin")
    (block,) = (one for one in blocks_of(ROOT / "docs" / "launch.md") if "cuda.core" in one.text)
    a, kernel = np.zeros((8, 4), np.float32), code.kernels[0]
    names = {"code": code, "kernel": kernel, "m": 256, "n": 384, "a": a, "b": a, "c": a}
    exec(compile(block.text, "launch.md", "exec"), names)
    on, config, loaded, *values, last = done
    assert (on, config, loaded) == (stream, ((2, 3), (64, 1, 1), 0), (b"\x7fELF", "k"))
    assert (len(values), last) == (3 * 7, "sync")
    assert {type(value) for value in values} <= {ctypes.c_int64, ctypes.c_uint64}
