"""`async_pipe.schedule = "optimal"`: the intervals of GEMM and attention, right on the machine, and what
is refused.

Covers: pipeliner/schedule/modulo/problems.py
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from helpers.gemm_kernels import gemm_text, run_gemm
from helpers.paths import ROOT
from mlir_async_pipe import api, machine
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.machine.validation import validate
from mlir_async_pipe.pipeliner.schedule.modulo.problems import ByUnits, gantt
from mlir_async_pipe.pipeliner.schedule.modulo.schedule_loop import Scheduling
from mlir_async_pipe.pipeliner.schedule.modulo.solve import ModuloProblem, Precedence, Task, solve
from mlir_async_pipe.pipeliner.schedule.schedule_pass import ScheduleOptions
from mlir_async_pipe.pipeliner.schedule.schedule_pass import run as schedule
from mlir_async_pipe.session.diagnostics import InputError, PipelineError
from mlir_async_pipe.session.report import Session

OPTIMAL = 'async_pipe.schedule = "optimal"'


def attention_text() -> str:
    """What the generator prints for three stages, K and V waited for together."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "generate_attention.py"), "--stages=3"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def asked(text: str) -> str:
    assert text.count("async_pipe.num_stages = 3 : i64") == 1
    return text.replace("async_pipe.num_stages = 3 : i64", OPTIMAL)


def test_products_of_a_gemm_are_never_idle():
    with new_context():
        module = ir.Module.parse(asked(gemm_text("--stages=3")))
        report = api.pipeline(module, target="nvvm:sm_80")
        result, right = run_gemm(module, (128, 128, 256))
    assert right and result.races == ()
    (record,) = report.of("schedules")
    # 64 products of 8 cycles; two versions of two tiles of 8 KiB.
    assert (record.interval, record.lower_bound, record.proven) == (512, 512, True)
    assert record.bound_by == "the unit 'tensor', which is never idle"
    assert (record.stages, record.shared_bytes, record.barriers) == (2, 4 * 8192, 1)


def test_attention_multiplies_for_the_next_iteration_beside_its_exponentials():
    """Scores of an iteration stand in the stage before its softmax and second product, as in
    FlashAttention-3; shared memory binds: 32 loads of 4 tiles, 8 copies, 4 shuffles."""
    with new_context():
        module = ir.Module.parse(asked(attention_text()))
        report = api.pipeline(module, target="nvvm:sm_80")
        (record,) = report.of("schedules")
        (checks,) = report.of("checks")
        assert (checks.unsafe, checks.unknown) == (0, 0)
        assert record.interval == 32 * 16 + 8 * 16 + 4 * 4
        assert (record.proven, record.stages) == (True, 3)
        for positions, completion in ((64, "late"), (256, "late"), (320, "random:1")):
            draw = np.random.default_rng(positions)
            shape = (1, positions, 64)
            q, k, v = (draw.normal(size=shape).astype(np.float16) for _ in range(3))
            arguments = [q, k, v, np.full(shape, np.nan, np.float32)]
            result = machine.run(
                module, "attention", arguments, grid=(positions // 64, 1), completion=completion
            )
            assert result.races == ()
            scores = q.astype(float) @ k.astype(float).swapaxes(1, 2) / 8
            weights = np.exp(scores - scores.max(axis=2, keepdims=True))
            wanted = weights / weights.sum(axis=2, keepdims=True) @ v.astype(float)
            found = result.arrays[3]
            assert found is not None
            # Weights of at most 1 are rounded to f16, 2^-11; elements of V are below 5.
            assert np.abs(found - wanted).max() < 5 * 2**-11


# 64 registers of sums, 24 of a step's fragments, and 128 a thread in a block of 16 warps.
OF_16_WARPS = ("--stages=3", "--tile-m=256", "--tile-n=128", "--warps-m=4", "--warps-n=4")


NEEDS_PTXAS = pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")


@NEEDS_PTXAS
@pytest.mark.parametrize("limited", [False, True])
def test_attention_keeps_its_interval_with_the_registers_that_a_kernel_says(limited, monkeypatch):
    if not limited:
        monkeypatch.setattr(ByUnits, "capacities", Scheduling.capacities)
    few = "kernel attributes {nvvm.maxnreg = 168 : i32, "
    text = asked(attention_text()).replace("kernel attributes {", few)
    with new_context():
        module = ir.Module.parse(text)
        report = api.pipeline(module, target="nvvm:sm_80", cache=False)
        passmanager.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        (kernel,) = api.lower(module, target="nvvm:sm_80", emit="cubin").kernels
    (record,) = report.of("schedules")
    (checks,) = report.of("checks")
    assert (record.interval, record.proven) == (656, True)
    assert (checks.unsafe, checks.unknown) == (0, 0)
    assert (kernel.resources.spill_store_bytes == 0) == limited


@NEEDS_PTXAS
@pytest.mark.parametrize("limited", [False, True])
def test_a_schedule_within_the_registers_of_a_thread_has_no_spills(limited, monkeypatch):
    """The same interval; without the limit the fragments of both steps are loaded before the products of either."""
    if not limited:
        monkeypatch.setattr(ByUnits, "capacities", Scheduling.capacities)
    with new_context():
        module = ir.Module.parse(asked(gemm_text(*OF_16_WARPS)))
        report = api.pipeline(module, target="nvvm:sm_80", cache=False)
        result, right = run_gemm(module, (256, 128, 128), threads=512)
        passmanager.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        (kernel,) = api.lower(module, target="nvvm:sm_80", emit="cubin").kernels
    assert right and result.races == ()
    (record,) = report.of("schedules")
    assert (record.interval, record.proven) == (256, True)
    reduced = [d.message for d in report.diagnostics if d.code == "stages-reduced"]
    assert [("138 registers of a thread, the limit is 128" in said) for said in reduced] == (
        [True] if limited else []
    )
    assert (kernel.resources.spill_store_bytes == 0) == limited


def test_registers_that_a_kernel_cannot_have_are_refused_at_the_loop():
    text = asked(gemm_text("--stages=3"))
    for most, refused in ((96, True), (168, False)):
        said = text.replace(
            "kernel attributes {", f"kernel attributes {{nvvm.maxnreg = {most} : i32, "
        )
        if not refused:
            codes = [(d.code, d.message) for d in scheduled(said).diagnostics.items]
            # 128 of sums, 32 of fragments, 20 of addresses.
            (message,) = [message for code, message in codes if code == "registers-over-budget"]
            assert (
                "an iteration by itself takes 180 registers of a thread, which has 168" in message
            )
            continue
        with pytest.raises(PipelineError) as refusal:
            scheduled(said)
        assert refusal.value.code == "register-limit"
        assert "its iter_args take 128 registers of a thread, which has 96" in str(refusal.value)
        loop = next(n for n, line in enumerate(text.splitlines(), 1) if "scf.for" in line)
        assert refusal.value.diagnostic.place.line == loop


def scheduled(text: str, cost: str = "") -> Session:
    """The pass alone, with what it explains."""
    with new_context():
        module = ir.Module.parse(text)
        session = Session(target=Target.parse("nvvm:sm_80"), explain=True)
        schedule(module, ScheduleOptions(cost=cost), session)
    return session


LOOP = """
func.func @f(%A : memref<64xf32> {{llvm.noalias}}, %C : memref<64xf32> {{llvm.noalias}}) {{
  %tile = memref.alloc() {{async_pipe.private}} : memref<16xf32, #gpu.address_space<workgroup>>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c64 step %c1 {{
    %copy = nvgpu.device_async_copy %A[%i], %tile[%c0], 1 : memref<64xf32> to memref<16xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    %v = memref.load %tile[%c0] : memref<16xf32, #gpu.address_space<workgroup>>
    {work}
    memref.store %e, %C[%i] : memref<64xf32>
  }} {{{attributes}}}
  return
}}
"""
EXP = "%e = math.exp %v : f32"


def test_costs_of_units_set_the_interval():
    session = scheduled(LOOP.format(work=EXP, attributes=OPTIMAL), "unit.math=300")
    (record,) = session.records["schedules"]
    # 500 cycles of the copy are two intervals at the top of a step.
    assert (record.interval, record.stages) == (300, 3)
    assert record.bound_by == "the unit 'special function', which is never idle"
    (remark,) = [d for d in session.diagnostics.items if d.code == "unit-schedule"]
    assert "300 cycles between iterations; no smaller interval" in remark.message


@pytest.mark.parametrize(
    ("work", "attributes", "code"),
    [
        (EXP, f"{OPTIMAL}, async_pipe.num_stages = 3 : i64", "conflicting-annotations"),
        (EXP, f"{OPTIMAL}, async_pipe.order = [0, 1, 2]", "conflicting-annotations"),
        (EXP, 'async_pipe.schedule = "best"', "bad-annotation"),
        (
            EXP + " \n %l = math.exp %v {async_pipe.latency = 5 : i64} : f32",
            OPTIMAL,
            "conflicting-annotations",
        ),
    ],
)
def test_what_excludes_an_optimal_schedule_is_an_error(work, attributes, code):
    with pytest.raises(InputError) as refusal:
        scheduled(LOOP.format(work=work, attributes=attributes))
    assert refusal.value.code == code


MASK = "%m = arith.cmpf ogt, %v, %v : f32 \n"
OF_MASK = (
    "%e = scf.if %m -> f32 {{ %x = math.exp %v : f32 \n {inside} scf.yield %x : f32 }} "
    "else {{ %y = math.exp %v : f32 \n scf.yield %y : f32 }}"
)
INNER = "%e = scf.for %j = %c0 to {end} step %c1 iter_args(%s = %v) -> f32 {{ {EXP} \n scf.yield %n : f32 }}"


@pytest.mark.parametrize(
    ("work", "interval"),
    [
        # The dearer side of a branch: one exponential or two.
        (MASK + OF_MASK.format(inside=""), 300),
        (MASK + OF_MASK.format(inside="%z = math.exp %x : f32 \n"), 600),
        ("%e = scf.execute_region -> f32 { %x = math.exp %v : f32 \n scf.yield %x : f32 }", 300),
        # All trips of a loop.
        (INNER.format(end="%c1", EXP="%n = math.exp %s : f32"), 300),
        (INNER.format(end="%c3", EXP="%n = math.exp %s : f32"), 900),
    ],
)
def test_what_is_in_regions_holds_units_as_one_task(work, interval):
    text = LOOP.format(work=work, attributes=OPTIMAL).replace(
        "%c64 =", "%c3 = arith.constant 3 : index \n %c64 ="
    )
    (record,) = scheduled(text, "unit.math=300").records["schedules"]
    assert (record.interval, record.proven) == (interval, True)
    assert record.bound_by == "the unit 'special function', which is never idle"
    with new_context():
        before, after = (ir.Module.parse(text) for _ in range(2))
        api.pipeline(after, target="nvvm:sm_80", cost="unit.math=300")
        assert "async_pipe.schedule" not in str(after)
        assert validate(before, after, "f", threads=1).is_equal


@pytest.mark.parametrize(
    "work",
    [
        "%e = scf.for %j = %c0 to %n step %c1 iter_args(%s = %v) -> f32 { %x = math.exp %s : f32 \n"
        " scf.yield %x : f32 }",
        "%e = scf.while (%s = %v) : (f32) -> f32 { %m = arith.cmpf ogt, %s, %v : f32 \n"
        " scf.condition(%m) %s : f32 } do { ^bb0(%s : f32): %x = math.exp %s : f32 \n"
        " scf.yield %x : f32 }",
        MASK + OF_MASK.format(inside="gpu.barrier \n"),
    ],
)
def test_regions_of_unknown_length_are_refused_with_what_to_do(work):
    text = LOOP.format(work=work, attributes=OPTIMAL).replace("@f(", "@f(%n : index, ")
    with pytest.raises(PipelineError) as refusal:
        scheduled(text)
    assert refusal.value.code == "regions-in-schedule"
    assert "async_pipe.num_stages" in str(refusal.value)


def test_the_chart_marks_the_unit_that_binds_and_the_critical_cycle():
    tasks = (Task((("tensor", 32),)), Task((("special", 40),)), Task((("tensor", 32),)))
    inside = (Precedence(0, 1, 32, 0), Precedence(1, 2, 40, 0))
    problem = ModuloProblem(tasks, inside)
    found = solve(problem)
    assert found is not None
    assert gantt(problem, found, ["S", "E", "P"], 8) == [
        "tensor           * AAAACCCC",
        "special            B...BBBB",
        "A: S, from cycle 0",
        "B: E, from cycle 32",
        "C: P, from cycle 96",
    ]
    around = ModuloProblem(tasks, (*inside, Precedence(2, 0, 32, 1)))
    found = solve(around)
    assert found is not None
    assert gantt(around, found, ["S", "E", "P"])[-1].startswith("critical cycle: ")
