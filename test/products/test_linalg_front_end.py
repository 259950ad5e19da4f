"""Kernels of linalg that MLIR's own passes tile: `num_stages` alone, pipelined, proven, and the same as NumPy.

Covers: examples/embedding/linalg_front_end.py
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.paths import ROOT
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.bindings.raw_ops import (
    attribute_names,
    constant_value,
    defining_op,
    functions,
    walk,
)

sys.path.insert(0, str(ROOT / "examples" / "embedding"))
example = importlib.import_module("linalg_front_end")
Array = np.ndarray


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).random(shape, np.float32)


WHICH = np.random.default_rng(0).integers(0, 50, 40, dtype=np.int64)
# The arguments of each kernel, and what NumPy makes of them.
INPUTS: dict[str, tuple[list[Array], Any]] = {
    "matmul": ([numbers(64, 256), numbers(256, 64)], lambda a, b: a @ b),
    "batched": ([numbers(3, 32, 64), numbers(3, 64, 32)], lambda a, b: a @ b),
    "stencil": ([numbers(40, 258)], lambda x: x[:, :-2] + x[:, 1:-1] + x[:, 2:]),
    "reduction": ([numbers(256, 96)], lambda x: x.sum(1)),
    "softmax": ([numbers(64, 96)], lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "gather": ([numbers(50, 256), WHICH], lambda x, which: x[which]),
}


def given(value: Any, arguments: list[Array], result: Array) -> Any:
    """What a launch hands to its kernel: an array, a part of one, the result, a number."""
    op = defining_op(value)
    if op is None:
        return arguments[ir.BlockArgument(value).arg_number]
    if op.name == "memref.alloc":
        return result
    if op.name == "memref.subview":
        offsets, sizes = (
            list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"]))
            for name in ("offsets", "sizes")
        )
        whole = given(op.operands[0], arguments, result)
        return whole[tuple(slice(at, at + n) for at, n in zip(offsets, sizes, strict=True))]
    number = constant_value(value)
    return ir.FloatAttr(op.attributes["value"]).value if number is None else number


@pytest.mark.parametrize("name", INPUTS)
def test_a_kernel_of_a_front_end_is_pipelined_and_proven(name: str) -> None:
    with new_context():
        module = example.launched(example.KERNELS[name])
        loops = len(mlir_async_pipe.find_loops(module, annotated=False))
        _, report = example.pipelined(name)
        assert len(report.of("loops")) == loops > 0
        assert all(entry.stages == 3 for entry in report.of("loops"))
        assert report.of("hazards") == ()


@pytest.mark.parametrize("name", INPUTS)
def test_it_computes_what_numpy_does(name: str) -> None:
    arguments, reference = INPUTS[name]
    expected = reference(*arguments)
    with new_context():
        module, _ = example.pipelined(name)
        passmanager.PassManager.parse("builtin.module(gpu-kernel-outlining)").run(module.operation)
        (launch,) = (op for op in walk(module) if op.name == "gpu.launch_func")
        result = np.zeros_like(expected)
        count = len(
            next(f for f in functions(module) if f.name == "gpu.func")
            .regions[0]
            .blocks[0]
            .arguments
        )
        values = [given(v, arguments, result) for v in list(launch.operands)[-count:]]
        place = next(n for n, value in enumerate(values) if value is result)
        kernel = example.KERNELS[name]
        run = machine.run(
            module, f"{name}_kernel", values, threads=kernel.block, grid=kernel.grid,
            completion="late", target="nvvm:sm_80",
        )  # fmt: skip
    assert run.races == ()
    assert np.allclose(run.arrays[place], expected, rtol=1e-4)


@pytest.mark.parametrize("name", INPUTS)
def test_nothing_is_said_of_a_kernel_but_its_stages(name: str) -> None:
    with new_context():
        module = example.launched(example.KERNELS[name])
        names = {word for op in walk(module) for word in attribute_names(op)}
    assert not [word for word in names if "async_pipe" in word or "noalias" in word]
    assert "noalias" not in str(module)
