"""Loops of constant bounds count in 32 bits, others in 64; they count the same numbers.

Covers: lowering/nvvm/to_nvvm.py
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.ptx_machine import Array, Program, launch, parse
from helpers.ptx_of import ptx_of
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import operations, walk
from mlir_async_pipe.lowering.nvvm.to_nvvm import narrow_loops

TEXT = """
gpu.module @kernels {{
  gpu.func @count(%to : memref<64xi64> {{llvm.noalias}}, %n : index) kernel
      attributes {{known_block_size = array<i32: 1, 1, 1>}} {{
    %low = arith.constant {low} : index
    %high = {high}
    %step = arith.constant {step} : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %last = scf.for %i = %low to %high step %step iter_args(%k = %c0) -> (index) {{
      %number = arith.index_cast %i : index to i64
      memref.store %number, %to[%k] : memref<64xi64>
      %next = arith.addi %k, %c1 : index
      scf.yield %next : index
    }}
    gpu.return
  }}
}}
"""
LARGEST = 2**31 - 1
NARROW = [(0, 7, 1), (3, 40, 5), (5, 5, 1), (9, 2, 1), (0, LARGEST - 2**28, 2**28)]
WIDE = [(0, LARGEST, 1), (0, LARGEST - 2**28 + 1, 2**28), (-4, 3, 1), (2**33, 2**33 + 2, 1)]


def text(low: int, high: int | str, step: int) -> str:
    if isinstance(high, int):
        high = f"arith.constant {high} : index"
    return TEXT.format(low=low, high=high, step=step)


def kind_of_counter(source: str) -> str:
    with new_context():
        module = ir.Module.parse(source)
        for gpu_module in operations(module.body):
            narrow_loops(gpu_module)
        assert module.operation.verify()
        (loop,) = [op for op in walk(module) if op.name == "scf.for"]
        return str(loop.regions[0].blocks[0].arguments[0].type)


@pytest.mark.parametrize("bounds", NARROW)
def test_small_constant_bounds(bounds: tuple[int, int, int]) -> None:
    assert kind_of_counter(text(*bounds)) == "i32"


@pytest.mark.parametrize("bounds", WIDE)
def test_large_or_negative_bounds(bounds: tuple[int, int, int]) -> None:
    assert kind_of_counter(text(*bounds)) == "index"


def test_a_bound_that_nobody_knows() -> None:
    assert kind_of_counter(text(0, "arith.addi %n, %n : index", 1)) == "index"


def test_a_counter_that_is_narrow_already() -> None:
    source = re.sub(r": index\n", ": i32\n", text(0, 7, 1), count=3)
    source = source.replace("arith.index_cast %i : index to", "arith.extsi %i : i32 to")
    source = source.replace("-> (index) {", "-> (index) : i32 {")
    assert kind_of_counter(source) == "i32"


@pytest.mark.parametrize("bounds", [*NARROW, *WIDE[2:]])
def test_the_same_numbers_are_counted(bounds: tuple[int, int, int]) -> None:
    numbers = list(range(*bounds))
    to = Array(np.full(64, -1, np.int64), 16)
    module = parse(ptx_of(text(*bounds), pipelined=False).text)
    launch(
        module, "count", [to, to, 0, 64, 1, 3], block=(1, 1, 1), program=Program(module, "count")
    )
    assert to.data[: len(numbers)].tolist() == numbers
    assert (to.data[len(numbers) :] == -1).all()
