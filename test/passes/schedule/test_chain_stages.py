"""Loads whose addresses are loaded: each has the same share of the iterations ahead.

Covers: pipeliner/schedule/by_count.py
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, operations, walk
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

INDEX = """
    %{new}_i = memref.load %rows[%{at}] : memref<64xi32>
    %{new} = arith.index_cast %{new}_i : i32 to index
"""


def kernel(indices: int, stages: int, more: str = "") -> str:
    """A loop that copies the element to which `indices` loads lead, one after the other."""
    names = ["i", *(f"x{n}" for n in range(indices))]
    chain = "".join(INDEX.format(new=new, at=at) for at, new in pairwise(names))
    return f"""
#wg = #gpu.address_space<workgroup>
gpu.module @m {{
gpu.func @k(%A : memref<64xf32> {{llvm.noalias}}, %rows : memref<64xi32> {{llvm.noalias}},
            %C : memref<1xf32> {{llvm.noalias}}, %n : index)
    workgroup(%tile : memref<1xf32, #wg>, %other : memref<1xf32, #wg>)
    kernel attributes {{known_block_size = array<i32: 1, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {{
    {chain}
    %copy = nvgpu.device_async_copy %A[%{names[-1]}], %tile[%c0], 1 : memref<64xf32> to memref<1xf32, #wg>
    {more}
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    gpu.barrier
    %x = memref.load %tile[%c0] : memref<1xf32, #wg>
    %next = arith.addf %s, %x : f32
    gpu.barrier
    scf.yield %next : f32
  }} {{async_pipe.num_stages = {stages} : i64}}
  memref.store %sum, %C[%c0] : memref<1xf32>
  gpu.return
}}
}}"""


def stages_of(text: str) -> list[int]:
    with new_context():
        module, session = ir.Module.parse(text), Session()
        schedule = passes.find("async-pipe-schedule")
        schedule.run(module.operation, schedule.options(), session)
        loop = next(op for op in walk(module) if op.name == "scf.for")
        found = [
            integer_attribute(op, "async_pipe.stage")
            for op in operations(loop.regions[0].blocks[0])
        ]
    return [stage for stage in found if stage is not None]


@pytest.mark.parametrize(
    ("indices", "stages", "expected"),
    [
        (0, 4, [0, 3]),
        (1, 2, [0, 0, 1]),
        (1, 3, [0, 1, 2]),
        (1, 4, [0, 1, 3]),
        (1, 5, [0, 2, 4]),
        (1, 6, [0, 2, 5]),
        (2, 4, [0, 1, 2, 3]),
        (2, 7, [0, 2, 4, 6]),
        # Fewer iterations than loads: two of them share one.
        (2, 3, [0, 0, 1, 2]),
        (3, 3, [0, 0, 1, 1, 2]),
    ],
)
def test_a_chain_shares_out_the_iterations_evenly(indices, stages, expected) -> None:
    assert stages_of(kernel(indices, stages)) == expected


def test_a_copy_that_needs_no_index_runs_as_far_ahead_as_it_can() -> None:
    more = (
        "%b = nvgpu.device_async_copy %A[%i], %other[%c0], 1 : memref<64xf32> to memref<1xf32, #wg>"
    )
    assert stages_of(kernel(1, 5, more)) == [0, 2, 0, 4]


@pytest.mark.parametrize(("indices", "stages"), [(1, 3), (1, 5), (2, 4), (2, 3), (3, 6)])
@pytest.mark.parametrize("completion", ["eager", "late"])
@pytest.mark.parametrize("trips", [0, 1, 2, 9])
def test_the_result_is_right(indices: int, stages: int, completion: str, trips: int) -> None:
    random = np.random.default_rng(indices)
    rows = random.integers(0, 64, 64).astype(np.int32)
    data = random.integers(0, 9, 64).astype(np.float32)
    with new_context():
        module = ir.Module.parse(kernel(indices, stages))
        report = mlir_async_pipe.pipeline(module)
        assert [(c.unsafe, c.unknown) for c in report.of("checks")] == [(0, 0)]
        arguments = [data, rows, np.zeros(1, np.float32), trips]
        result = machine.run(module, "k", arguments, threads=1, completion=completion)
    at = np.arange(trips)
    for _ in range(indices):
        at = rows[at]
    assert not result.races
    np.testing.assert_array_equal(result.arrays[2], [data[at].sum()])
