"""Pointers as bytes from where they start, and what that tells about loops.

Covers: facts/values/memory_roots.py, pipeliner/dependence/distance.py, pipeliner/dependence/regions.py
"""

from __future__ import annotations

from typing import Any

import pytest

from mlir_async_pipe import pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import bytes_of_global, from_the_start
from mlir_async_pipe.session.diagnostics import PipelineError

STEPS = """
llvm.mlir.global internal @s() {addr_space = 3 : i32} : !llvm.array<128 x f32>
llvm.mlir.global external @any() {addr_space = 3 : i32} : !llvm.array<0 x i8>
func.func @f(%a: !llvm.ptr, %i: i64) {
  %s = llvm.mlir.addressof @NAME : !llvm.ptr<3>
  STEPS
  "test.probe"(%p) : (PTR) -> ()
  return
}"""
GEP = "llvm.getelementptr"


def probed(steps: str, kind: str = "!llvm.ptr<3>", name: str = "s") -> tuple[Any, Any, Any]:
    """Where %p starts, with its offset, the value %p, and the module that has to outlive it."""
    text = STEPS.replace("STEPS", steps).replace("PTR", kind).replace("NAME", name)
    module = ir.Module.parse(text)
    (probe,) = [op for op in walk(module) if op.name == "test.probe"]
    return from_the_start(probe.operands[0], Arithmetic()), probe.operands[0], module


@pytest.mark.parametrize(
    "steps, constant, factors",
    [
        (f"%p = {GEP} %s[3] : (!llvm.ptr<3>) -> !llvm.ptr<3>, f32", 12, []),
        (f"%p = {GEP} %s[0, 0] : (!llvm.ptr<3>) -> !llvm.ptr<3>, !llvm.array<4 x f32>", 0, []),
        (f"%p = {GEP} %s[0, 1] : (!llvm.ptr<3>) -> !llvm.ptr<3>, !llvm.array<4 x f32>", 4, []),
        (f"%p = {GEP} %s[0, 1] : (!llvm.ptr<3>) -> !llvm.ptr<3>, !llvm.struct<(f16, f32)>", 4, []),
        (f"%p = {GEP} %s[%i] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, vector<4xf32>", 0, [16]),
        (
            f"%q = {GEP} %s[64] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8\n"
            f"%p = {GEP} %q[%i] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, f16",
            64,
            [2],
        ),
    ],
)
def test_steps_add_up_to_bytes(steps, constant, factors):
    with new_context():
        found, _, _module = probed(steps)
    base, offset = found
    assert base == "s"
    assert offset.constant == constant
    assert [factor for _, factor in offset.terms] == factors


def test_a_step_through_a_type_of_unknown_layout_is_not_followed():
    step = f'%p = {GEP} %s[1] : (!llvm.ptr<3>) -> !llvm.ptr<3>, !llvm.target<"spirv.Image">'
    with new_context():
        assert probed(step)[0] is None


def test_the_size_of_a_global_is_known_where_it_has_one():
    step = f"%p = {GEP} %s[0] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8"
    with new_context():
        for name, size in (("s", 512), ("any", None)):
            _, value, _module = probed(step, name=name)
            assert bytes_of_global(value.owner.operands[0]) == size


LOOP = """
func.func @f(%A: !llvm.ptr<1> {llvm.noalias}, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %at = arith.index_cast %i : index to i64
    %from = llvm.getelementptr %A[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v = llvm.load %from : !llvm.ptr<1> -> f32
    %w = arith.addf %v, %v : f32
    %end = llvm.getelementptr %A[DISTANCE] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
    %to = llvm.getelementptr %end[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %w, %to : f32, !llvm.ptr<1>
  } {async_pipe.stage = [0, 2]}
  return
}"""


def test_what_is_stored_three_elements_on_is_read_three_iterations_later():
    """The load runs two iterations ahead: that is in time for a value of three iterations before."""
    with new_context():
        assert pipeline(ir.Module.parse(LOOP.replace("DISTANCE", "3"))).of("loops")
        assert pipeline(ir.Module.parse(LOOP.replace("DISTANCE", "-1"))).of("loops")


@pytest.mark.parametrize("distance", ["1", "2"])
def test_what_is_stored_nearer_is_read_too_early(distance):
    with new_context(), pytest.raises(PipelineError) as error:
        pipeline(ir.Module.parse(LOOP.replace("DISTANCE", distance)))
    assert error.value.code == "dependence-violated"
