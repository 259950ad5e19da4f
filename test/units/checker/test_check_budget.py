"""What the checker's budget of points does not decide is unknown, never safe; and how it lasts.

Covers: checker/budget.py, checker/explore.py, checker/phases/phase_paths.py
"""

from __future__ import annotations

import pytest

import mlir_async_pipe
from helpers.check_harness import check_module, check_text
from helpers.machine_programs import parse
from helpers.tensor_kernels import Ring
from mlir_async_pipe.checker import budget, kernel
from mlir_async_pipe.checker.phases import phase_paths

TARGET = "nvvm:sm_80"
KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: memref<64xf32> {{llvm.noalias}}, %F: memref<64xf32> {{llvm.noalias}}, %n: index)
      workgroup(%s: memref<64xf32, 3>) kernel
      attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c63 = arith.constant 63 : index
    %t = gpu.thread_id x
    %mirror = arith.subi %c63, %t : index
    %p = arith.cmpi ult, %t, %c1 : index
    {body}
    gpu.return
  }}
}}
"""
COPY = """%a = nvgpu.device_async_copy %A[%t], %s[%t], 1 : memref<64xf32> to memref<64xf32, 3>
    nvvm.cp.async.commit.group"""
READ = """%x = memref.load %s[%mirror] : memref<64xf32, 3>
    memref.store %x, %F[%t] : memref<64xf32>"""
RIGHT = f"{COPY}\nnvvm.cp.async.wait.group 0\ngpu.barrier\n{READ}"
LOOP = f"scf.for %i = %c0 to %n step %c1 {{\n{RIGHT}\ngpu.barrier\n}}"
RACING = {
    "no-wait": f"{COPY}\ngpu.barrier\n{READ}",
    "no-barrier": f"{COPY}\nnvvm.cp.async.wait.group 0\n{READ}",
    "loop": LOOP.replace("gpu.barrier\n}", "}"),
}


def _spend(monkeypatch, points: int) -> None:
    monkeypatch.setattr(kernel, "SYMBOLIC_POINTS", points)
    monkeypatch.setattr(kernel, "POINTS", points)
    monkeypatch.setattr(budget, "POINTS_OF_A_STEP", 0)


@pytest.mark.parametrize("points", [0, 1, 11, 50, 100, 200])
@pytest.mark.parametrize("body", RACING.values(), ids=RACING)
def test_racing_kernels_beyond_the_budget_are_not_safe(body, points, monkeypatch):
    _spend(monkeypatch, points)
    found = check_text(KERNEL.format(body=body), TARGET).report
    (summary,) = found.of("checks")
    assert summary.unsafe + summary.unknown > 0
    assert any(d.severity in ("error", "warning") for d in found.diagnostics)


def test_what_no_path_came_to_is_unknown_for_the_reason_budget(monkeypatch):
    _spend(monkeypatch, 0)
    found = check_text(KERNEL.format(body=RIGHT), TARGET).report
    (summary,) = found.of("checks")
    assert summary.unsafe == 0
    assert set(summary.reasons) == {"budget"}
    reported = [d for d in found.diagnostics if "too many paths" in d.message]
    assert len(reported) == summary.reasons["budget"]


GUARDED = f"""scf.for %i = %c0 to %n step %c1 {{
  %p0 = arith.cmpi ult, %t, %n : index
  scf.if %p0 {{
    {COPY}
  }}
  %p1 = arith.cmpi ult, %t, %n : index
  scf.if %p1 {{
    nvvm.cp.async.wait.group 0
  }}
  %p2 = arith.cmpi ult, %t, %n : index
  scf.if %p2 {{
    %x = memref.load %s[%t] : memref<64xf32, 3>
    memref.store %x, %F[%t] : memref<64xf32>
  }}
}}"""


def test_wherever_the_budget_ends_a_right_kernel_is_no_error(monkeypatch):
    """Of paths that decide one comparison twice unlike nothing is said before they were followed with what they had decided."""
    verdicts = set()
    for points in range(0, 9000, 225):
        _spend(monkeypatch, points)
        (summary,) = check_text(KERNEL.format(body=GUARDED), TARGET).report.of("checks")
        assert summary.unsafe == 0, points
        verdicts.add(summary.unknown > 0)
    assert verdicts == {True, False}


def test_the_budget_of_right_kernels_lasts():
    (summary,) = check_text(KERNEL.format(body=LOOP), TARGET).report.of("checks")
    assert (summary.unsafe, summary.unknown) == (0, 0)


def test_a_loop_of_barriers_on_one_side_of_a_thread_branch_has_few_states():
    """Barriers that only one side has order nothing: counting them would make every iteration a
    state of its own."""
    body = f"scf.if %p {{\n{LOOP}\n}} else {{\n{LOOP}\n}}"
    (summary,) = check_text(KERNEL.format(body=body), TARGET).report.of("checks")
    assert summary.unsafe + summary.unknown > 0
    assert "budget" not in summary.reasons
    assert summary.states < 100


def test_accesses_of_sides_with_loops_of_barriers_meet_in_any_iteration():
    """The store of the first side, after any number of barriers, meets the load of the other."""
    store = "%z = arith.constant 0.0 : f32\nmemref.store %z, %s[%t] : memref<64xf32, 3>"
    barriers = "scf.for %i = %c0 to %n step %c1 {\ngpu.barrier\n}"
    body = f"scf.if %p {{\n{barriers}\n{store}\n}} else {{\n{barriers}\ngpu.barrier\n{READ}\n}}"
    found = check_text(KERNEL.format(body=body), TARGET).report
    pairs = {(h.op, h.other_op) for h in found.of("hazards")}
    assert ("memref.load", "memref.store") in pairs or ("memref.store", "memref.load") in pairs


def guarded_copies(copies: int, waited: int) -> str:
    """Copies, each under a condition of its own, in groups that are always committed; `waited` is
    the count of the wait before the reads, whose conditions nobody knows."""
    rows = "\n".join(
        f"""%g{n} = arith.cmpi slt, %n, %m{n} : index
    scf.if %g{n} {{
      %a{n} = nvgpu.device_async_copy %A[%t], %s[%c{n}, %t], 1 : memref<64xf32> to memref<16x64xf32, 3>
    }}
    nvvm.cp.async.commit.group"""
        for n in range(copies)
    )
    constants = "\n".join(f"%c{n} = arith.constant {n} : index" for n in range(2, copies))
    reads = "\n".join(
        f"%x{n} = memref.load %s[%c{n}, %mirror] : memref<16x64xf32, 3>" for n in range(copies)
    )
    conditions = ", ".join(f"%m{n}: index" for n in range(copies))
    text = KERNEL.format(
        body=f"{constants}\n{rows}\nnvvm.cp.async.wait.group {waited}\ngpu.barrier\n{reads}"
    )
    text = text.replace("%s: memref<64xf32, 3>", "%s: memref<16x64xf32, 3>")
    return text.replace("%n: index)", f"%n: index, {conditions})")


def test_states_of_copies_under_open_conditions_grow_with_the_copies():
    """A state that remembers a part of what another one does is not followed: 2^12 would be."""
    states = {}
    for copies in (3, 6, 12):
        (summary,) = check_text(guarded_copies(copies, 0), TARGET).report.of("checks")
        assert (summary.unsafe, summary.unknown) == (0, 0)
        states[copies] = summary.states
    assert states[12] - states[6] <= 2.2 * (states[6] - states[3]), states


@pytest.mark.parametrize("copies", [2, 6])
def test_a_copy_that_only_some_paths_issue_races_there(copies):
    checked = check_text(guarded_copies(copies, 1), TARGET)
    (summary,) = checked.report.of("checks")
    assert summary.unsafe + summary.unknown == 1


MASKED = """
gpu.module @m {
  gpu.func @k(%A: memref<?xf32>, %F: memref<?xf32>, %n: index) workgroup(%s: memref<64xf32, 3>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %mirror = arith.subi %c63, %t : index
    %sum = scf.for %i = %c0 to %n step %c64 iter_args(%x = %zero) -> (f32) {
      %at = arith.addi %i, %t : index
      %in = arith.cmpi ult, %at, %n : index
      %v = scf.if %in -> (f32) {
        %a = memref.load %A[%at] : memref<?xf32>
        scf.yield %a : f32
      } else {
        scf.yield %zero : f32
      }
      memref.store %v, %s[%t] : memref<64xf32, 3>
      gpu.barrier
      %w = memref.load %s[%mirror] : memref<64xf32, 3>
      %y = arith.addf %x, %w : f32
      gpu.barrier
      scf.yield %y : f32
    } {async_pipe.num_stages = 3 : i64}
    memref.store %sum, %F[%t] : memref<?xf32>
    gpu.return
  }
}
"""


def test_a_mask_and_a_trip_count_of_one_number_take_few_states():
    """Which threads the mask left out of an iteration, as k < (n + 63) div 64 and tid + 64 k < n say together, is
    remembered for nobody: else each iteration would be a state of its own, and the budget spent."""
    module = parse(MASKED)
    (summary,) = mlir_async_pipe.pipeline(module, target=TARGET).of("checks")
    assert (summary.unsafe, summary.unknown) == (0, 0) and summary.states < 1000
    # One copy more in flight at the first wait in the loop, or no barrier after it.
    for old, new in (
        ("{count = 1 : i64", "{count = 2 : i64"),
        ("gpu.barrier memfence [#gpu.address_space<workgroup>]", ""),
    ):
        (summary,) = check_text(str(module).replace(old, new), TARGET).report.of("checks")
        assert summary.unsafe


@pytest.mark.parametrize(("each", "lasts"), [(0, False), (50, True)])
def test_the_budget_of_phases_grows_with_the_kernel(each, lasts, monkeypatch):
    """A longer loop takes more steps a state."""
    monkeypatch.setattr(phase_paths, "STEPS", 0)
    monkeypatch.setattr(phase_paths, "STEPS_OF_ONE", each)
    (summary,) = check_module(parse(Ring(tiles=3).text()), "nvvm:sm_90a").report.of("checks")
    assert summary.unsafe == 0
    assert (summary.unknown == 0) == lasts and set(summary.reasons) == (
        set() if lasts else {"budget"}
    )
