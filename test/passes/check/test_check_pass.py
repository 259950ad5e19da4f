"""The pass around the checker: records, warnings, options, and what it must not do.

Covers: checker/check_pass.py, checker/selection.py, checker/hazards.py
"""

from __future__ import annotations

from helpers.check_harness import check_module, check_text
from mlir_async_pipe.bindings import ir, new_context

RACE = """
func.func @k(%A: memref<8xf32>, %B: memref<8xf32>, %x: f32, %p: i1) {
  %c0 = arith.constant 0 : index
  %s = memref.alloc() : memref<8xf32, 3>
  %a = nvgpu.device_async_copy %A[%c0], %s[%c0], 4 : memref<8xf32> to memref<8xf32, 3>
  nvvm.cp.async.commit.group
  WAIT
  %v = memref.load %s[%c0] : memref<8xf32, 3>
  return
}
"""


def test_a_safe_kernel_gives_no_diagnostics() -> None:
    checked = check_text(RACE.replace("WAIT", "nvvm.cp.async.wait.group 0"))
    assert checked.report.diagnostics == ()
    assert checked.report.of("hazards") == ()
    (summary,) = checked.report.of("checks")
    assert (summary.function, summary.accesses, summary.unsafe, summary.unknown) == ("k", 3, 0, 0)


def test_a_hazard_is_an_error_with_two_notes_and_the_count() -> None:
    checked = check_text(RACE.replace("WAIT", "nvvm.cp.async.wait.group 2"))
    (error,) = checked.report.diagnostics
    assert (error.severity, error.code, len(error.notes)) == ("error", "read-in-flight", 2)
    assert error.notes[1].message == "this wait lets 2 groups stay in flight; at most 0 would do"
    (hazard,) = checked.report.of("hazards")
    assert (hazard.verdict, hazard.count, hazard.queue) == ("unsafe", 0, "cp.async")


def test_what_is_undecided_is_a_warning_and_counted_with_its_reason() -> None:
    store = "memref.store %x, %B[%c0] : memref<8xf32>\nnvvm.cp.async.wait.group 0"
    checked = check_text(RACE.replace("WAIT", store))
    (warning,) = checked.report.diagnostics
    assert (warning.severity, warning.code) == ("warning", "unknown-hazard")
    (summary,) = checked.report.of("checks")
    assert (summary.unknown, summary.reasons) == (1, {"may-alias": 1})


def test_arguments_may_be_asserted_not_to_alias() -> None:
    store = "memref.store %x, %B[%c0] : memref<8xf32>\nnvvm.cp.async.wait.group 0"
    checked = check_text(RACE.replace("WAIT", store), assume_noalias_arguments=True)
    assert checked.report.diagnostics == ()


def test_one_condition_has_one_truth_value_on_a_path() -> None:
    both = "scf.if %p {{ nvvm.cp.async.wait.group 0 }}\nscf.if %p {{ {} }}"
    read = "%w = memref.load %s[%c0] : memref<8xf32, 3>"
    text = RACE.replace("WAIT", both.format(read)).replace(
        "%v = memref.load %s[%c0]", "%v = memref.load %B[%c0]"
    )
    text = text.replace(": memref<8xf32, 3>\n  return", ": memref<8xf32>\n  return")
    assert not check_text(text).unsafe
    negated = "%t = arith.constant true\n%q = arith.xori %p, %t : i1\n" + both.format(read)
    other = text.replace(both.format(read), negated.replace("scf.if %p { %w", "scf.if %q { %w"))
    assert {code for code, _ in check_text(other).unsafe} == {"read-in-flight"}


def test_checking_changes_nothing() -> None:
    with new_context():
        module = ir.Module.parse(RACE.replace("WAIT", ""))
        before = str(module)
        assert check_module(module).unsafe
        assert str(module) == before


def test_a_module_without_async_ops_has_nothing_to_check() -> None:
    checked = check_text("func.func @f(%x: f32) -> f32 { return %x : f32 }")
    assert checked.report.of("checks") == ()


def test_abstract_queues_share_the_fifo_of_the_chip() -> None:
    """Queue 0's group is the younger of two on cp.async, the only one on a queue of its own."""
    text = """
func.func @k(%A: memref<8xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %s = memref.alloc() : memref<8xf32, 3>
  "async_pipe.scope"() ({
    %a = memref.load %A[%c0] : memref<8xf32>
    memref.store %a, %s[%c0] : memref<8xf32, 3>
    "async_pipe.yield"() : () -> ()
  }) {queue = 0 : i64} : () -> ()
  %g = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
  %h = "async_pipe.commit_queue"() {queue = 1 : i64} : () -> !nvgpu.device.async.token
  "async_pipe.wait_queue"() {queue = 0 : i64, count = 1 : i64} : () -> ()
  %v = memref.load %s[%c0] : memref<8xf32, 3>
  return
}
"""
    assert check_text(text).unsafe
    assert not check_text(text, "nvvm:sm_80").unsafe


def test_an_op_that_nobody_knows_is_unknown_among_several_threads_too() -> None:
    """It is judged where it stands, also where the sides of a branch on threads are compared."""
    several = RACE.replace("WAIT", '"my.op"(%s) : (memref<8xf32, 3>) -> ()\ngpu.barrier')
    (warning, *_) = check_text(several).report.diagnostics
    assert (warning.severity, warning.code) == ("warning", "unknown-hazard")
    assert "'my.op'" in warning.message


FREED = """
gpu.module @m {{
  gpu.func @f(%A : memref<64xf32> {{llvm.noalias}}) kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %t = gpu.thread_id x
    %s = memref.alloc() : memref<64xf32, {space}>
    %copy = nvgpu.device_async_copy %A[%t], %s[%t], 1 : memref<64xf32> to memref<64xf32, {space}>
    %group = nvgpu.device_async_create_group %copy
    {behind}
    gpu.return
  }}
}}
"""
WORKGROUP = "#gpu.address_space<workgroup>"


def test_workgroup_memory_stays_after_its_dealloc() -> None:
    text = FREED.format(space=WORKGROUP, behind=f"memref.dealloc %s : memref<64xf32, {WORKGROUP}>")
    checked = check_text(text, "nvvm:sm_80")
    assert not checked.unsafe
    assert not checked.unknown


def test_an_unknown_op_of_several_threads_may_touch_what_is_in_flight() -> None:
    text = FREED.format(
        space=WORKGROUP, behind=f'"test.use"(%s) : (memref<64xf32, {WORKGROUP}>) -> ()'
    )
    checked = check_text(text, "nvvm:sm_80")
    assert not checked.unsafe
    # It may overwrite what its own copy writes, and what it does in another thread.
    assert {code for code, _ in checked.unknown} == {"overwrite-in-flight", "missing-barrier"}
