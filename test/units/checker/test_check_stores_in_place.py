"""Loops that store into the memory that they copy from, tiles before or after what is in flight.

Covers: checker/arithmetic.py, checker/explore.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe
from helpers.machine_programs import context
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir

LOOP = """
gpu.module @kernels {{
  gpu.func @k(%A: memref<2048xf32> {{llvm.noalias}}, %n: index)
      workgroup(%s: memref<64xf32, 3>) kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %first = arith.constant {first} : index
    %c1 = arith.constant 1 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %distance = arith.constant {distance} : index
    %t = gpu.thread_id x
    %m = arith.subi %c63, %t : index
    scf.for %i = %first to %n step %c1 {{
      %o = arith.muli %i, %c64 : index
      %x = arith.addi %o, %t : index
      %v = memref.load %A[%x] : memref<2048xf32>
      memref.store %v, %s[%t] : memref<64xf32, 3>
      gpu.barrier
      %w = memref.load %s[%m] : memref<64xf32, 3>
      %to = arith.{op} %x, %distance : index
      memref.store %w, %A[%to] : memref<2048xf32>
      gpu.barrier
    }} {{async_pipe.num_stages = {stages} : i64}}
    gpu.return
  }}
}}
"""


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(
    ("first", "op", "distance"), [(3, "subi", 64), (3, "subi", 192), (0, "addi", 192)]
)
def test_tiles_apart_from_those_in_flight_are_proven_at_once(
    first: int, op: str, distance: int, stages: int
) -> None:
    """The copy of iteration 1 stays one of iteration k: as a fixed place in A it met the store of a
    later one, and following the iterations one by one took minutes, to no end."""
    text = LOOP.format(first=first, op=op, distance=distance, stages=stages)
    array = np.arange(2048, dtype=np.float32)
    module = ir.Module.parse(text, context())
    expected = machine.run(module, "k", [array, 9]).arrays[0]
    report = mlir_async_pipe.pipeline(module, "nvvm:sm_80")
    (found,) = report.of("checks")
    assert (found.unsafe, found.unknown) == (0, 0)
    assert found.states < 60
    for completion in ("late", "eager"):
        done = machine.run(module, "k", [array, 9], completion=completion)
        assert done.races == ()
        np.testing.assert_array_equal(done.arrays[0], expected)


def test_a_store_to_a_tile_in_flight_is_named() -> None:
    """The tile of the iteration after the next is in flight, and is stored to."""
    module = ir.Module.parse(LOOP.format(first=0, op="addi", distance=192, stages=3), context())
    mlir_async_pipe.pipeline(module, "nvvm:sm_80")
    wrong = str(module).replace("arith.constant 192", "arith.constant 128")
    module = ir.Module.parse(wrong, context())
    found = {entry.code for entry in mlir_async_pipe.check(module, "nvvm:sm_80").diagnostics}
    assert "source-overwritten" in found
