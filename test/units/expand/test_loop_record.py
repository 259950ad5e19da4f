"""What the report holds of a planned loop names the right ops.

Covers: pipeliner/expand/expand_pass.py, pipeliner/plan/make_plan.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import operations, unchanged
from mlir_async_pipe.facts.loops.annotations import scheduled_loops
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.expand.expand_pass import record_of
from mlir_async_pipe.pipeliner.plan.make_plan import Limits, Plan, make_plan
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import Diagnostics, Place
from mlir_async_pipe.session.report import Session

WORKGROUP = "memref<64xf32, #gpu.address_space<workgroup>>"


def kernel(loops: int) -> str:
    """Loops with a buffer each, which all threads read and write."""
    buffers = "\n".join(f"  %S{n} = memref.alloc() : {WORKGROUP}" for n in range(loops))
    body = "".join(
        f"""
  scf.for %i = %c0 to %c1024 step %c64 {{
    %at = arith.addi %i, %x : index
    %v = memref.load %A[%at] : memref<4096xf32>
    memref.store %v, %S{n}[%x] : {WORKGROUP}
    gpu.barrier
    %w = memref.load %S{n}[%y] : {WORKGROUP}
    memref.store %w, %C[%at] : memref<4096xf32>
    gpu.barrier
  }} {{async_pipe.num_stages = 3 : i64}}"""
        for n in range(loops)
    )
    return f"""
func.func @f(%A: memref<4096xf32> {{llvm.noalias}}, %C: memref<4096xf32> {{llvm.noalias}})
    attributes {{gpu.kernel, known_block_size = array<i32: 64, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c1024 = arith.constant 1024 : index
  %x = gpu.thread_id x
  %last = arith.constant 63 : index
  %y = arith.subi %last, %x : index
{buffers}
{body}
  return
}}"""


@pytest.fixture
def plan() -> Iterator[Plan]:
    """The plan of a loop between others."""
    with new_context():
        module = ir.Module.parse(kernel(3))
        schedule = passes.find("async-pipe-schedule")
        schedule.run(module.operation, schedule.options(), Session())
        with unchanged():
            made = make_plan(scheduled_loops(module)[1], Limits(), Diagnostics(), Surroundings())
            assert made is not None
            yield made


def test_a_record_names_who_touches_a_buffer_and_what_barriers_part(plan: Plan) -> None:
    record = record_of(plan, ir.AsmState(plan.loop))
    places = {Place.of(op): op.name for op in operations(plan.loop.regions[0].blocks[0])}
    (buffer,) = record.buffers
    ends = places[buffer.write_place], places[buffer.last_place]
    assert ends == ("memref.store", "memref.load")
    assert buffer.write_stage < buffer.last_stage
    assert record.barriers
    for parted in record.barriers:
        assert places[parted.first_place] == parted.first
        assert places[parted.second_place] == parted.second
    assert sum(parted.pairs for parted in record.barriers) == len(plan.barriers)
