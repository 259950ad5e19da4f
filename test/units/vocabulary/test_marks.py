"""Attributes that say something by being there, and numbers that are too wide.

Covers: vocabulary/memory_names.py, facts/loops/annotations.py, machine/run_kernel.py
"""

from __future__ import annotations

import pytest

import mlir_async_pipe
from helpers.machine_programs import context
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import walk_named
from mlir_async_pipe.facts.loops.annotations import forget
from mlir_async_pipe.session.diagnostics import AsyncPipeError

# What %A and %C are is not known: only an assertion lets the loads run ahead of the stores.
LOOP = """
func.func @f(%A: memref<1024xf32>{argument}, %C: memref<1024xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {{
    %v = memref.load %A[%i] : memref<1024xf32>
    %w = arith.addf %v, %v : f32
    memref.store %w, %C[%i] : memref<1024xf32>
  }} {{async_pipe.num_stages = {stages}{loop}}}
  return
}}
"""


def pipelined(stages: str = "3", **marks: str) -> str:
    """The code that a loop with these marks is refused with, "" if it is pipelined."""
    text = LOOP.format(**{"argument": "", "loop": "", "stages": stages, **marks})
    try:
        mlir_async_pipe.pipeline(ir.Module.parse(text, context()), "nvvm:sm_80")
    except AsyncPipeError as error:
        return error.code
    return ""


@pytest.mark.parametrize(
    ("value", "code"), [("", ""), (" = true", ""), (" = false", "unproven-independence")]
)
def test_independence_is_asserted_unless_it_is_false(value: str, code: str) -> None:
    assert pipelined(loop=f", async_pipe.independent{value}") == code


def test_an_argument_that_is_not_independent_asserts_nothing() -> None:
    assert pipelined(argument=" {async_pipe.independent = false}") == "unproven-independence"


@pytest.mark.parametrize("stages", [2**127 - 1, -(2**100)])
def test_a_number_of_more_than_64_bits_is_refused(stages: int) -> None:
    assert pipelined(stages=f"{stages} : i128") == "bad-annotation"
    marks = f", async_pipe.in_flight = {stages} : i128"
    assert pipelined(loop=marks) == "bad-annotation"


@pytest.mark.parametrize("stages", [2**63, 2**70, -(2**70)])
def test_annotate_and_the_option_refuse_it_too(stages: int) -> None:
    code = "bad-annotation" if stages > 0 else "num-stages-too-small"
    module = ir.Module.parse(LOOP.format(argument="", loop="", stages=3), context())
    (loop,) = mlir_async_pipe.find_loops(module)
    with pytest.raises(AsyncPipeError) as raised:
        mlir_async_pipe.annotate(loop, num_stages=stages)
    assert raised.value.code == code
    if stages > 0:
        with pytest.raises(AsyncPipeError) as raised:
            mlir_async_pipe.pipeline(module, "nvvm:sm_80", num_stages=stages)
        assert raised.value.code == code


@pytest.mark.parametrize("sizes", [{"threads": 10**20}, {"grid": (1, 2**31)}])
def test_the_machine_refuses_sizes_that_no_launch_has(sizes: dict[str, object]) -> None:
    module = ir.Module.parse("func.func @f() { return }", context())
    with pytest.raises(AsyncPipeError) as raised:
        mlir_async_pipe.machine.run(module, "f", **sizes)
    assert raised.value.code == "bad-argument"


NEST = """
func.func @f(%n: index, %x: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %y = arith.addf %x, %x {async_pipe.stage = 0 : i64, async_pipe.order = 0 : i64} : f32
    scf.for %j = %c0 to %n step %c1 {
      %z = math.exp %x : f32
      %w = math.exp %z : f32
    } {INNER}
  } {OUTER}
  return
}
"""
PLACE = "async_pipe.stage = 1 : i64, async_pipe.order = 1 : i64"
ARRAYS = "async_pipe.stage = [0, 1], async_pipe.order = [0, 1]"
WISHES = 'async_pipe.issue = "first", async_pipe.num_stages = 3 : i64'


@pytest.mark.parametrize(
    ("outer", "inner", "forgotten", "left"),
    [
        (ARRAYS, "", 0, ""),
        (WISHES, "", 0, ""),
        # Its place in the loop around it is no annotation of its own, but one of that loop.
        ("", f"{PLACE}, {WISHES}", 1, PLACE),
        ("", PLACE, 0, ""),
        # Loops inside are asked for by themselves.
        (WISHES, ARRAYS, 0, ARRAYS),
        (WISHES, WISHES, 0, WISHES),
        (WISHES, ARRAYS, 1, ""),
    ],
)
def test_a_loop_is_forgotten_with_its_statements(outer, inner, forgotten, left):
    text = NEST.replace("INNER", inner).replace("OUTER", outer)
    module = ir.Module.parse(text, context())
    loops = walk_named(module, "scf.for".__eq__)
    forget(loops[forgotten])
    kept = NEST.replace("INNER", left).replace("OUTER", "" if forgotten == 0 else outer)
    if forgotten == 0:
        kept = kept.replace(" {async_pipe.stage = 0 : i64, async_pipe.order = 0 : i64}", "")
    assert str(module) == str(ir.Module.parse(kept, context()))
