"""Slices of one-dimensional vectors as shuffles: the same elements, on the machine.

Covers: lowering/rocdl/rocdl_code.py, facts/values/integer_ops.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.lowering.rocdl.rocdl_code import slices_to_shuffles

FUNCTION = """
func.func @f(%in : memref<8xf32>, %out : memref<8xf32>) {{
  %c0 = arith.constant 0 : index
  %v = vector.load %in[%c0] : memref<8xf32>, vector<8xf32>
  {slices}
  vector.store %r, %out[%c0] : memref<8xf32>, {kind}
  return
}}
"""
SLICES = [
    (
        "%r = vector.extract_strided_slice %v {offsets = [2], sizes = [3], strides = [1]} : vector<8xf32> to vector<3xf32>",
        "vector<3xf32>",
        [2, 3, 4],
    ),
    (
        "%p = vector.extract_strided_slice %v {offsets = [4], sizes = [2], strides = [1]} : vector<8xf32> to vector<2xf32>\n"
        "%r = vector.insert_strided_slice %p, %v {offsets = [1], strides = [1]} : vector<2xf32> into vector<8xf32>",
        "vector<8xf32>",
        [0, 4, 5, 3, 4, 5, 6, 7],
    ),
    (
        "%r = vector.insert_strided_slice %v, %v {offsets = [0], strides = [1]} : vector<8xf32> into vector<8xf32>",
        "vector<8xf32>",
        [0, 1, 2, 3, 4, 5, 6, 7],
    ),
]


@pytest.mark.parametrize(("slices", "kind", "expected"), SLICES)
def test_shuffles_give_the_elements_of_the_slices(slices, kind, expected):
    module = ir.Module.parse(FUNCTION.format(slices=slices, kind=kind), bindings.new_context())
    arguments = [np.arange(8, dtype=np.float32), np.zeros(8, np.float32)]
    before = machine.run(module, "f", arguments).arrays[1]
    slices_to_shuffles(module.operation)
    assert module.operation.verify()
    assert not [op for op in walk(module) if "strided_slice" in op.name]
    after = machine.run(module, "f", arguments).arrays[1]
    assert before.tolist() == after.tolist()
    assert after.tolist()[: len(expected)] == expected


def test_slices_of_matrices_stay():
    slices = """%m = vector.shape_cast %v : vector<8xf32> to vector<2x4xf32>
      %row = vector.extract_strided_slice %m {offsets = [1], sizes = [1], strides = [1]} : vector<2x4xf32> to vector<1x4xf32>
      %r = vector.shape_cast %row : vector<1x4xf32> to vector<4xf32>"""
    text = FUNCTION.format(slices=slices, kind="vector<4xf32>")
    module = ir.Module.parse(text, bindings.new_context())
    slices_to_shuffles(module.operation)
    assert [op.name for op in walk(module) if "strided_slice" in op.name] == [
        "vector.extract_strided_slice"
    ]
