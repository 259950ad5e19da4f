"""The Python calls work on anybody's module and tell what they did in a report.

Covers: api.py, session/report.py
"""

from __future__ import annotations

import json

import pytest

from helpers.paths import ROOT
from mlir_async_pipe import api
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError

# One group is committed between the one that the wait needs and the wait.
TWO_GROUPS = """
gpu.module @kernels {
  gpu.func @two_groups(%from: memref<256xf32> {llvm.noalias}, %to: memref<256xf32> {llvm.noalias})
      workgroup(%a: memref<128xf32, #gpu.address_space<workgroup>>,
                %b: memref<128xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c4 = arith.constant 4 : index
    %lane = gpu.thread_id x
    %i = arith.muli %lane, %c4 : index
    %copy0 = nvgpu.device_async_copy %from[%i], %a[%i], 4 : memref<256xf32> to memref<128xf32, #gpu.address_space<workgroup>>
    %group0 = nvgpu.device_async_create_group %copy0
    %copy1 = nvgpu.device_async_copy %from[%i], %b[%i], 4 : memref<256xf32> to memref<128xf32, #gpu.address_space<workgroup>>
    %group1 = nvgpu.device_async_create_group %copy1
    nvgpu.device_async_wait %group0 {numGroups = GIVEN : i32}
    %v = memref.load %a[%i] : memref<128xf32, #gpu.address_space<workgroup>>
    memref.store %v, %to[%i] : memref<256xf32>
    gpu.return
  }
}
"""


@pytest.fixture(autouse=True)
def context():
    with new_context() as entered:
        yield entered


def two_groups(given: int) -> ir.Module:
    return ir.Module.parse(TWO_GROUPS.replace("GIVEN", str(given)))


@pytest.mark.parametrize("given", [1, 5])
def test_waits_get_the_count_of_younger_groups(given):
    module = two_groups(given)
    report = api.count_waits(module)
    assert "{numGroups = 1 : i32}" in str(module)
    (wait,) = report.of("waits")
    assert (wait.count, wait.given, wait.exact) == (1, given, 1)


def test_a_given_count_that_may_be_for_a_group_that_no_wait_names_stays():
    module = two_groups(0)
    (wait,) = api.count_waits(module).of("waits")
    assert "{numGroups = 0 : i32}" in str(module)
    assert (wait.count, wait.given, wait.exact) == (0, 0, 1)


def test_a_given_count_is_raised_where_a_wait_names_the_younger_group():
    end = "nvgpu.device_async_wait %group1 {numGroups = 0 : i32}\n    gpu.return"
    module = ir.Module.parse(TWO_GROUPS.replace("GIVEN", "0").replace("gpu.return", end))
    assert [wait.count for wait in api.count_waits(module).of("waits")] == [1, 0]


def test_options_of_the_pass_are_options_of_the_call():
    module = two_groups(0)
    api.count_waits(module, keep_given=True)
    assert "numGroups = 0" in str(module)


def test_an_option_that_the_pass_does_not_have_is_refused():
    with pytest.raises(TypeError, match="no_such_option"):
        api.count_waits(two_groups(0), no_such_option=1)


def test_a_correct_module_has_no_hazards():
    report = api.check(two_groups(1))
    assert report.diagnostics == ()


def test_a_hazard_is_an_error_in_the_report_and_changes_nothing():
    module = two_groups(2)
    before = str(module)
    report = api.check(module)
    (found,) = report.diagnostics
    assert (found.severity, found.code) == ("error", "read-in-flight")
    assert str(module) == before


def test_a_target_is_given_by_name_or_as_object():
    from mlir_async_pipe.chips.target import Target

    for target in ("nvvm:sm_80", Target.parse("nvvm:sm_80")):
        assert api.count_waits(two_groups(0), target=target).of("waits")


def test_an_unknown_target_is_refused_before_anything_happens():
    module = two_groups(0)
    before = str(module)
    with pytest.raises(AsyncPipeError, match="unknown-target"):
        api.pipeline(module, target="nvvm:sm_1")
    assert str(module) == before


def test_a_report_is_json():
    report = api.count_waits(two_groups(5))
    assert json.loads(json.dumps(report.to_json()))["waits"][0]["count"] == 1


def test_a_module_op_serves_as_well_as_a_module():
    module = two_groups(5)
    api.count_waits(module.operation)
    assert "numGroups = 1" in str(module)


ADD_ONE = (ROOT / "examples" / "add_one.mlir").read_text()


def test_pipelining_reports_loops_waits_and_the_check():
    module = ir.Module.parse(ADD_ONE)
    report = api.pipeline(module, target="nvvm:sm_80")
    assert [loop.stages for loop in report.of("loops")] == [3]
    assert [wait.count for wait in report.of("waits")] == [1, 1, 0]
    assert [check.unsafe for check in report.of("checks")] == [0]
    assert str(module).count("nvgpu.device_async_wait") == 3


def test_pipelining_twice_changes_nothing_more():
    module = ir.Module.parse(ADD_ONE)
    api.pipeline(module)
    once = str(module)
    api.pipeline(module)
    assert str(module) == once


def test_stages_can_be_chosen_in_the_call():
    module = ir.Module.parse(ADD_ONE)
    report = api.pipeline(module, num_stages=4)
    assert [wait.count for wait in report.of("waits")] == [2, 2, 1, 0]


def test_a_workgroup_memory_limit_is_kept():
    module = ir.Module.parse(ADD_ONE)
    before = str(module)
    with pytest.raises(AsyncPipeError, match="smem"):
        api.pipeline(module, target="nvvm:sm_80", smem_limit=4096)
    assert str(module) == before


@pytest.mark.parametrize("call", ["pipeline", "count_waits", "check", "lower"])
def test_calls_are_not_hidden_by_subpackages_of_the_same_name(call):
    import mlir_async_pipe
    from mlir_async_pipe.checker.check_pass import CheckOptions

    assert CheckOptions().chip == ""
    assert getattr(mlir_async_pipe, call) is getattr(api, call)


@pytest.mark.parametrize(
    "call",
    [
        lambda module: api.pipeline(module, "nvvm:sm_80"),
        lambda module: api.count_waits(module, "nvvm:sm_80"),
        lambda module: api.check(module, "nvvm:sm_80"),
        lambda module: api.lower(module, target="nvvm:sm_80", emit="ptx", cache=False),
        lambda module: api.run_pass("async-pipe-suggest", module, "nvvm:sm_80"),
    ],
    ids=["pipeline", "count_waits", "check", "lower", "suggest"],
)
def test_an_insertion_point_of_the_user_stays_as_it_is(call):
    """Copies that a call works on are no ops of the user's kernel."""
    text = (ROOT / "examples" / "add_one.mlir").read_text()
    with new_context():
        expected, module = (ir.Module.parse(text) for _ in range(2))
        call(expected)
        kernels = next(op for op in module.body.operations if op.operation.name == "gpu.module")
        kernel = kernels.operation.regions[0].blocks[0].operations[0]
        with ir.Location.unknown(), ir.InsertionPoint(kernel.regions[0].blocks[0].operations[0]):
            call(module)
        assert str(module) == str(expected)
