"""Latencies in the pass: what its steady state is on the time line, costs of ops, nests, code.

Covers: pipeliner/schedule/modulo/problems.py, pipeliner/schedule/modulo/read.py,
facts/costs/cost_model.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.latency_loops import (
    COPY_COMPUTE,
    ONE_THREAD,
    RECURRENT,
    TWO_LATENCIES,
    LatencyLoop,
    gemm_with_latency,
)
from mlir_async_pipe import api, machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.costs.cost_model import (
    CostModel,
    costs_of,
    kind_of_op,
    own_cycles,
    work_of,
)
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.machine.timeline import lay_out
from mlir_async_pipe.session.diagnostics import UsageError

THROUGHPUT = LatencyLoop((100, 100), ((0, 5), (1, 5)), (((0, 1), 50),))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loop", "cost"),
    [
        (COPY_COMPUTE, "barrier=20"),
        (COPY_COMPUTE, "nvgpu.device_async_copy=40,barrier=20"),
        (TWO_LATENCIES, "barrier=7"),
        (RECURRENT, "barrier=20"),
        (ONE_THREAD, "latency=1"),
        # Two copies of 4 bytes are a turn of 100 cycles each: the queue sets the interval.
        (THROUGHPUT, "throughput.cp.async=0.04"),
    ],
)
@pytest.mark.parametrize("stages", [1, 2, 3, 8])
def test_the_interval_is_what_a_step_of_the_kernel_takes_on_the_time_line(loop, cost, stages):
    """Over the last half of the kernel's iterations, in which nothing is filled any more; a
    period is at most 8 steps long."""
    with new_context():
        module = ir.Module.parse(loop.text("latency"))
        report = api.pipeline(module, cost=cost, max_stages=stages)
        result = machine.run(module, "f", loop.arguments(), threads=loop.threads)
    (record,) = report.of("schedules")
    assert record.stages <= stages
    if record.stages == 1:
        return
    starts = lay_out(result.trace, CostModel.parse(cost)).iteration_starts
    periods = [
        (starts[-1] - starts[-1 - period]) / period for period in range(1, min(9, len(starts) // 2))
    ]
    assert any(found == pytest.approx(record.interval, rel=1e-3) for found in periods)


def test_throughput_bounds_the_interval():
    with new_context():
        module = ir.Module.parse(THROUGHPUT.text("latency"))
        report = api.pipeline(module, cost="throughput.cp.async=0.04")
    (record,) = report.of("schedules")
    assert record.interval == 200
    assert "queue 'cp.async'" in record.bound_by


OPS = """
func.func @f(%A : memref<4xf32>, %S : memref<4xf32, #gpu.address_space<workgroup>>, %x : f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = memref.load %A[%c0] : memref<4xf32>
  memref.store %a, %A[%c1] : memref<4xf32>
  %s = memref.load %S[%c0] {async_pipe.cycles = 7 : i64} : memref<4xf32, #gpu.address_space<workgroup>>
  %e = math.exp %s : f32
  scf.execute_region {
    %copy = nvgpu.device_async_copy %A[%c0], %S[%c0], 1 : memref<4xf32> to memref<4xf32, #gpu.address_space<workgroup>>
    %g = math.sin %e : f32
    scf.yield
  } {async_pipe.latency = 600 : i64}
  scf.execute_region {
    %h = math.cos %e : f32
    scf.yield
  } {async_pipe.latency = 50 : i64}
  "async_pipe.scope"() ({
    %t = math.tan %e : f32
    "async_pipe.yield"() : () -> ()
  }) {queue = 0 : i64} : () -> ()
  return
}
"""


def ops() -> dict[str, list[Any]]:
    """The ops of the program above by name."""
    with new_context():
        module = ir.Module.parse(OPS)
    found: dict[str, list[Any]] = {"module": [module]}
    for op in walk(module):
        found.setdefault(op.name, []).append(op)
    return found


def test_kinds_are_what_an_op_does_to_which_memory():
    found = ops()
    loads = [kind_of_op(op) for op in found["memref.load"]]
    assert loads == ["read.global", "read.workgroup"]
    assert kind_of_op(found["memref.store"][0]) == "write.global"
    assert kind_of_op(found["math.exp"][0]) == "math"
    assert kind_of_op(found["nvgpu.device_async_copy"][0]) == "read.global"


def test_cycles_on_a_region_stand_for_all_of_it():
    found = ops()
    copies, work = found["scf.execute_region"]
    # The copy takes them as its latency; then the region holds the thread for nothing.
    assert (own_cycles(found["nvgpu.device_async_copy"][0]), own_cycles(copies)) == (600, 0)
    assert own_cycles(found["math.sin"][0]) == 0
    assert (own_cycles(work), own_cycles(found["math.cos"][0])) == (50, 0)
    # Work in a scope is part of the copy.
    assert own_cycles(found["math.tan"][0]) == 0
    assert own_cycles(found["memref.load"][1]) == 7
    assert own_cycles(found["math.exp"][0]) is None


def test_the_name_of_an_op_comes_before_its_kind():
    model = CostModel(ops={"memref.load": 3, "read.global": 500})
    assert model.held("memref.load", "read.global", None) == 3
    assert model.held("vector.load", "read.global", None) == 500
    assert model.held("vector.load", "read.global", 11) == 11
    assert model.held("arith.addf", "arith", None) == 0


def test_costs_are_the_chips_without_text_and_free_with():
    amd = Target.parse("rocdl:gfx950")
    assert CostModel.parse("", amd) == costs_of(amd)
    assert CostModel.parse("latency=400").ops == {}
    model = CostModel.parse("chip,latency=400", amd)
    assert (model.default_latency, model.ops) == (400, costs_of(amd).ops)


def test_a_number_of_stages_below_one_is_refused():
    with new_context(), pytest.raises(UsageError) as refusal:
        module = ir.Module.parse(COPY_COMPUTE.text("latency"))
        api.pipeline(module, max_stages=0)
    assert refusal.value.code == "bad-option-value"


NEST = """
#wg = #gpu.address_space<workgroup>
func.func @f(%A: memref<64x8xf32> {llvm.noalias}, %C: memref<64x8xf32> {llvm.noalias}) {
  %buf = memref.alloc() : memref<8xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %n = arith.constant 40 : index
  scf.for %i = %c0 to %n step %c1 {
    %x = nvgpu.device_async_copy %A[%i, %c0], %buf[%c0], 4 {async_pipe.latency = 500 : i64} : memref<64x8xf32> to memref<8xf32, #wg>
    %y = nvgpu.device_async_copy %A[%i, %c4], %buf[%c4], 4 {async_pipe.latency = 500 : i64} : memref<64x8xf32> to memref<8xf32, #wg>
    %g = nvgpu.device_async_create_group %x, %y
    nvgpu.device_async_wait %g
    scf.for %k = %c0 to %c8 step %c1 {
      %v = memref.load %buf[%k] LATENCY : memref<8xf32, #wg>
      memref.store %v, %C[%i, %k] : memref<64x8xf32>
    } ANNOTATION
  }
  return
}
"""


@pytest.mark.parametrize(
    ("latency", "annotation", "stages"),
    [
        # 8 times 4 + 4 cycles inside: 500 / 64 would take more than the 8 stages allowed.
        ("", "", 8),
        ("", "{async_pipe.stage = [0, 1]}", 8),
        ("", "{async_pipe.num_stages = 2 : i64}", 8),
        # 8 times 30 + 4 cycles: 500 / 272 is two steps.
        ("{async_pipe.latency = 30 : i64}", "", 3),
    ],
    ids=["loop", "arrays inside", "num_stages inside", "latency inside"],
)
def test_loops_around_loops_are_scheduled_by_latency(latency, annotation, stages):
    text = NEST.replace("LATENCY", latency).replace("ANNOTATION", annotation)
    rows = np.random.default_rng(3).standard_normal((64, 8)).astype(np.float32)
    with new_context():
        module = ir.Module.parse(text)
        report = api.pipeline(module)
        result = machine.run(module, "f", [rows, np.zeros_like(rows)], completion="late")
    assert report.of("schedules")[0].stages == stages
    assert result.races == ()
    found = result.arrays[1]
    assert found is not None and np.array_equal(found[:40], rows[:40])


@pytest.mark.slow
@pytest.mark.skipif(
    find_tool("ptxas") is None or find_tool("nvdisasm") is None, reason="no CUDA tools"
)
def test_the_gemm_by_latency_is_the_one_of_three_stages_in_machine_code():
    with new_context():
        module = ir.Module.parse(gemm_with_latency(500))
        api.pipeline(module, target="nvvm:sm_80", cost="nvgpu.mma.sync=4.6875")
        (kernel,) = mlir_async_pipe.lower(module, target="nvvm:sm_80", emit="cubin").kernels
    assert kernel.ptx.waits == (1, 0, 1, 0)
    assert kernel.machine.loops[0].waits == (1,)
    assert (kernel.machine.loops[0].copies, kernel.machine.loops[0].barriers) == (8, 1)
    resources = kernel.resources
    assert (resources.stack_frame_bytes, resources.spill_store_bytes) == (0, 0)
    assert resources.static_shared_bytes == 3 * 2 * 8192


# Functional units ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chip", "product", "special", "arithmetic"),
    [
        # 2048 multiply and adds of a quarter that does 256, 512 or 1024 a cycle; 32 lanes of
        # special functions on 4; of sums on 16 or 32.
        ("nvvm:sm_80", 8, 8, 2),
        ("nvvm:sm_90a", 4, 8, 1),
        ("nvvm:sm_100a", 2, 8, 1),
        ("nvvm:sm_89", 8, 8, 2),
        ("rocdl:gfx90a", 16, 16, 4),
        ("rocdl:gfx942", 8, 16, 4),
        ("rocdl:gfx950", 4, 16, 4),
    ],
)
def test_units_are_those_of_the_chip(chip, product, special, arithmetic):
    model = costs_of(Target.parse(chip))
    name = "nvgpu.mma.sync" if chip.startswith("nvvm") else "amdgpu.mfma"
    assert (model.unit_of(name, name).unit, model.unit_of(name, name).cycles) == ("tensor", product)
    own = "nvvm.ex2" if chip.startswith("nvvm") else "rocdl.exp2"
    assert model.unit_of("math.exp2", "math").cycles == special
    assert model.unit_of(own, own).cycles == special
    assert model.unit_of("arith.addf", "arith").cycles == arithmetic
    # Nobody knows the op: it takes an issue slot alone.
    assert model.unit_of("x.y", "x").unit == "issue"
    # The time line of one thread knows the same ops and no units.
    assert model.ops == {n: cost.held for n, cost in model.units.items() if cost.held}


def test_costs_of_units_can_be_given():
    target = Target.parse("nvvm:sm_80")
    model = CostModel.parse("unit.nvgpu.mma.sync=4,latency.math=30,unit.x.y=7", target)
    assert model.unit_of("nvgpu.mma.sync", "nvgpu").cycles == 4
    assert model.unit_of("math.exp2", "math").latency == 30
    assert (model.unit_of("x.y", "x").unit, model.unit_of("x.y", "x").cycles) == ("arithmetic", 7)
    assert model.unit_of("arith.addf", "arith") == costs_of(target).unit_of("arith.addf", "arith")
    with pytest.raises(UsageError) as refusal:
        CostModel.parse("unit.nvgpu.mma.sync=tensor", target)
    assert refusal.value.code == "bad-cost"


WORK = """
func.func @f(%a : vector<4x2xf16>, %b : vector<2x2xf16>, %c : vector<2x2xf32>, %A : memref<64xf16>,
             %S : memref<64x64xf16, #gpu.address_space<workgroup>>, %x : f32) {
  %c0 = arith.constant 0 : index
  %m = nvgpu.mma.sync(%a, %b, %c) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
  %l = nvgpu.ldmatrix %S[%c0, %c0] {numTiles = 4 : i32, transpose = false} : memref<64x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
  %k = nvgpu.device_async_copy %A[%c0], %S[%c0, %c0], 8 : memref<64xf16> to memref<64x64xf16, #gpu.address_space<workgroup>>
  %s = arith.addf %m, %c : vector<2x2xf32>
  %e = math.exp2 %x : f32
  return
}
"""


def test_work_is_counted_in_pieces():
    with new_context():
        module = ir.Module.parse(WORK)
        found = {
            op.name: work_of(op) for op in walk(module) if len(op.results) and len(op.operands)
        }
    assert found == {
        "nvgpu.mma.sync": 1,
        "nvgpu.ldmatrix": 1,
        "nvgpu.device_async_copy": 1,
        "arith.addf": 4,
        "math.exp2": 1,
    }
