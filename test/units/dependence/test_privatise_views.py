"""Writes through another view of a buffer are not where the same subscripts of the buffer are.

Covers: pipeliner/dependence/privatise.py, pipeliner/dependence/regions.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import PipelineError

WG = "#gpu.address_space<workgroup>"


def copied_through(write: str, read: str, *, outside: str = "", inside: str = "") -> str:
    """A loop that stores each row by `write` and loads it by `read`; %V is a view of %B."""
    return f"""
    func.func @f(%A: memref<8xf32> {{llvm.noalias}}, %C: memref<8xf32> {{llvm.noalias}}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c8 = arith.constant 8 : index
      %B = memref.alloc() : memref<4xf32, {WG}>
      {outside}
      scf.for %i = %c0 to %c8 step %c1 {{
        {inside}
        %x = memref.load %A[%i] : memref<8xf32>
        memref.store %x, {write}
        %y = memref.load {read}
        memref.store %y, %C[%i] : memref<8xf32>
      }} {{async_pipe.stage = [0, 0, 1, 1], async_pipe.order = [0, 1, 2, 3],
          async_pipe.async_stages = [0]}}
      return
    }}"""


def assert_copies(module: ir.Module) -> None:
    """The loop copies what it is given, on the machine."""
    arrays = [np.arange(8, dtype=np.float32), np.zeros(8, np.float32)]
    result = machine.run(module, "f", arrays, completion="late")
    np.testing.assert_array_equal(result.arrays[1], arrays[0])


@pytest.mark.parametrize(
    ("view", "kind", "at"),
    [
        (
            f"memref.expand_shape %B [[0, 1]] output_shape [1, 4] : memref<4xf32, {WG}> "
            f"into memref<1x4xf32, {WG}>",
            f"memref<1x4xf32, {WG}>",
            "%c0, %c1",
        ),
        (
            f"memref.reinterpret_cast %B to offset: [2], sizes: [2], strides: [1] : "
            f"memref<4xf32, {WG}> to memref<2xf32, strided<[1], offset: 2>, {WG}>",
            f"memref<2xf32, strided<[1], offset: 2>, {WG}>",
            "%c0",
        ),
    ],
    ids=["other rank", "other offset"],
)
def test_a_loop_that_writes_through_a_view_is_refused_or_right(view, kind, at):
    read = f"%B[{'%c1' if ',' in at else '%c2'}] : memref<4xf32, {WG}>"
    with new_context():
        module = ir.Module.parse(copied_through(f"%V[{at}] : {kind}", read, outside=f"%V = {view}"))
        try:
            mlir_async_pipe.pipeline(module)
        except PipelineError as error:
            assert error.code in ("not-privatisable", "escapes")
        assert_copies(module)


@pytest.mark.parametrize(
    ("made", "write", "read"),
    [
        (
            f"memref.expand_shape %B [[0, 1]] output_shape [2, 2] : memref<4xf32, {WG}> "
            f"into memref<2x2xf32, {WG}>",
            f"%V[%c1, %c0] : memref<2x2xf32, {WG}>",
            f"%B[%c2] : memref<4xf32, {WG}>",
        ),
        (
            f"memref.reinterpret_cast %B to offset: [0], sizes: [4], strides: [1] : "
            f"memref<4xf32, {WG}> to memref<4xf32, strided<[1]>, {WG}>",
            f"%V[%c2] : memref<4xf32, strided<[1]>, {WG}>",
            f"%B[%c2] : memref<4xf32, {WG}>",
        ),
    ],
    ids=["expanded", "reinterpreted"],
)
def test_a_write_through_a_view_that_regroups_is_seen(made, write, read):
    with new_context():
        module = ir.Module.parse(copied_through(write, read, inside=f"%V = {made}"))
        report = mlir_async_pipe.pipeline(module)
        assert [loop.stages for loop in report.of("loops")] == [2]
        assert_copies(module)


def in_a_loop(at: str) -> str:
    """An inner loop that writes element `at` and reads the one after j, four times."""
    return f"""
    func.func @f(%A: memref<8xf32> {{llvm.noalias}}, %C: memref<8x4xf32> {{llvm.noalias}},
        %D: memref<8xf32> {{llvm.noalias}}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %zero = arith.constant 0.0 : f32
      %B = memref.alloc() : memref<4xf32, {WG}>
      scf.for %j = %c0 to %c4 step %c1 {{
        memref.store %zero, %B[%j] : memref<4xf32, {WG}>
      }}
      scf.for %i = %c0 to %c8 step %c1 {{
        %x = memref.load %A[%i] : memref<8xf32>
        scf.for %j = %c0 to %c4 step %c1 {{
          memref.store %x, %B[{at}] : memref<4xf32, {WG}>
          %j1 = arith.addi %j, %c1 : index
          %after = arith.remui %j1, %c4 : index
          %y = memref.load %B[{"%after" if at == "%j" else at}] : memref<4xf32, {WG}>
          memref.store %y, %C[%i, %j] : memref<8x4xf32>
        }}
        %z = memref.load %B[{"%c0" if at == "%j" else at}] : memref<4xf32, {WG}>
        memref.store %z, %D[%i] : memref<8xf32>
      }} {{async_pipe.stage = [0, 0, 1, 1], async_pipe.order = [0, 1, 2, 3],
          async_pipe.async_stages = [0]}}
      return
    }}"""


@pytest.mark.parametrize("at", ["%j", "%c2"])
def test_what_a_later_iteration_of_an_inner_loop_writes_is_not_there_yet(at):
    """Read before it is written, an element is that of the iteration before."""
    with new_context():
        given = ir.Module.parse(in_a_loop(at))
        arrays = [
            np.arange(8, dtype=np.float32),
            np.zeros((8, 4), np.float32),
            np.zeros(8, np.float32),
        ]
        expected = machine.run(given, "f", arrays).arrays
        module = ir.Module.parse(in_a_loop(at))
        if at == "%j":
            with pytest.raises(PipelineError) as refused:
                mlir_async_pipe.pipeline(module, check="none")
            assert refused.value.code == "not-privatisable"
            return
        mlir_async_pipe.pipeline(module, check="none")
        assert f"memref<2x4xf32, {WG}>" in str(module)
        result = machine.run(module, "f", arrays, completion="late")
    for ours, theirs in zip(result.arrays, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
