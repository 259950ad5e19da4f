"""Which values all threads of a block share, and which control they reach together.

Covers: facts/values/uniformity.py, facts/flow/region_flow.py
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.rocdl_kernels import parse
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.values.uniformity import Uniformity


def probes(
    body: str, arguments: str = "%n : index, %m : memref<?xindex>", kernel: bool = True
) -> Any:
    """The ops `"test.probe"` of a function with this body."""
    text = f"""
gpu.module @kernels {{
  gpu.func @f({arguments}) {"kernel" if kernel else ""} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = gpu.thread_id x
{body}
    gpu.return
  }}
}}"""
    module = parse(text)
    return module, [op for op in walk(module) if op.name == "test.probe"]


SAME = {
    "argument-of-a-kernel": '"test.probe"(%n) : (index) -> ()',
    "block-id": '%b = gpu.block_id x\n"test.probe"(%b) : (index) -> ()',
    "loop-counter": 'scf.for %i = %c0 to %n step %c1 { "test.probe"(%i) : (index) -> () }',
    "carried-slot": """
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0) -> (index) {
      "test.probe"(%slot) : (index) -> ()
      %next = arith.addi %slot, %c1 : index
      scf.yield %next : index
    }""",
    "chosen-by-a-shared-condition": """
    %c = arith.cmpi eq, %n, %c0 : index
    %r = scf.if %c -> (index) { scf.yield %c0 : index } else { scf.yield %n : index }
    "test.probe"(%r) : (index) -> ()""",
    "carried-by-an-affine-loop": """
    %r = affine.for %i = 0 to %n iter_args(%slot = %c0) -> (index) {
      %next = arith.addi %slot, %i : index
      affine.yield %next : index
    }
    "test.probe"(%r) : (index) -> ()""",
    "carried-by-a-while": """
    %r = scf.while (%x = %c0) : (index) -> (index) {
      %more = arith.cmpi ult, %x, %n : index
      scf.condition(%more) %x : index
    } do {
    ^bb0(%y : index):
      %next = arith.addi %y, %c1 : index
      scf.yield %next : index
    }
    "test.probe"(%r) : (index) -> ()""",
    "by-blocks-of-an-inner-region": """
    %c = arith.cmpi eq, %n, %c0 : index
    %r = scf.execute_region -> index {
      cf.cond_br %c, ^a, ^b(%c0 : index)
    ^a:
      cf.br ^b(%c1 : index)
    ^b(%x : index):
      scf.yield %x : index
    }
    "test.probe"(%r) : (index) -> ()""",
    "nvvm-block-id": '%b = nvvm.read.ptx.sreg.ctaid.x : i32\n"test.probe"(%b) : (i32) -> ()',
    "first-lane-of-what-all-have": """
    %i = arith.index_cast %n : index to i32
    %f = rocdl.readfirstlane %i : i32
    "test.probe"(%f) : (i32) -> ()""",
}
DIFFERENT = {
    "thread-id": '%x = arith.muli %t, %n : index\n"test.probe"(%x) : (index) -> ()',
    "nvvm-thread-id": '%b = nvvm.read.ptx.sreg.tid.y : i32\n"test.probe"(%b) : (i32) -> ()',
    "clock": '%b = nvvm.read.ptx.sreg.clock : i32\n"test.probe"(%b) : (i32) -> ()',
    "first-lane-of-each-wave": """
    %i = arith.index_cast %t : index to i32
    %f = rocdl.readfirstlane %i : i32
    "test.probe"(%f) : (i32) -> ()""",
    "other-lane-of-the-wave": """
    %i = arith.index_cast %t : index to i32
    %f = amdgpu.dpp %i %i row_mirror : i32
    "test.probe"(%f) : (i32) -> ()""",
    "lane": '%l = gpu.lane_id\n"test.probe"(%l) : (index) -> ()',
    "loaded": '%v = memref.load %m[%c0] : memref<?xindex>\n"test.probe"(%v) : (index) -> ()',
    "carried-from-a-thread-id": """
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %t) -> (index) {
      scf.yield %c0 : index
    }
    "test.probe"(%r) : (index) -> ()""",
    "next-value-from-a-thread-id": """
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %c0) -> (index) {
      "test.probe"(%x) : (index) -> ()
      scf.yield %t : index
    }""",
    "counter-of-a-divergent-loop": """
    scf.for %i = %c0 to %t step %c1 { "test.probe"(%i) : (index) -> () }""",
    "chosen-by-a-thread-id": """
    %c = arith.cmpi eq, %t, %c0 : index
    %r = scf.if %c -> (index) { scf.yield %c0 : index } else { scf.yield %n : index }
    "test.probe"(%r) : (index) -> ()""",
    "block-argument-after-a-divergent-branch": """
    %c = arith.cmpi eq, %t, %c0 : index
    cf.cond_br %c, ^a, ^b
  ^a:
    cf.br ^end(%c0 : index)
  ^b:
    cf.br ^end(%c1 : index)
  ^end(%x : index):
    "test.probe"(%x) : (index) -> ()""",
    "carried-by-an-affine-loop-of-a-thread": """
    %r = affine.for %i = 0 to %t iter_args(%slot = %c0) -> (index) {
      %next = arith.addi %slot, %c1 : index
      affine.yield %next : index
    }
    "test.probe"(%r) : (index) -> ()""",
    "carried-by-a-while-of-a-thread": """
    %r = scf.while (%x = %c0) : (index) -> (index) {
      %more = arith.cmpi ult, %x, %t : index
      scf.condition(%more) %c1 : index
    } do {
    ^bb0(%y : index):
      scf.yield %y : index
    }
    "test.probe"(%r) : (index) -> ()""",
    "by-divergent-blocks-of-an-inner-region": """
    %c = arith.cmpi eq, %t, %c0 : index
    %r = scf.execute_region -> index {
      cf.cond_br %c, ^a, ^b(%c0 : index)
    ^a:
      cf.br ^b(%c1 : index)
    ^b(%x : index):
      scf.yield %x : index
    }
    "test.probe"(%r) : (index) -> ()""",
    "masked-out-lanes": """
    %z = arith.constant dense<0> : vector<4xindex>
    %b = arith.cmpi ult, %t, %n : index
    %mask = vector.broadcast %b : i1 to vector<4xi1>
    %x = vector.mask %mask {
      vector.reduction <add>, %z : vector<4xindex> into index
    } : vector<4xi1> -> index
    "test.probe"(%x) : (index) -> ()""",
    "unknown-op": '%x = "test.other"() : () -> index\n"test.probe"(%x) : (index) -> ()',
}


@pytest.mark.parametrize("case", SAME)
def test_a_value_that_all_threads_share_has_no_difference(case):
    module, (probe,) = probes(SAME[case])
    assert Uniformity().difference(probe.operands[0]) is None
    assert module is not None


@pytest.mark.parametrize("case", DIFFERENT)
def test_a_value_that_may_differ_names_what_makes_it_differ(case):
    module, (probe,) = probes(DIFFERENT[case])
    assert Uniformity().difference(probe.operands[0]) is not None
    assert module is not None


def test_arguments_of_other_functions_may_differ():
    module, (probe,) = probes('"test.probe"(%n) : (index) -> ()', "%n : index", kernel=False)
    assert Uniformity().difference(probe.operands[0]) is not None
    assert module is not None


@pytest.mark.parametrize(
    ("body", "together"),
    [
        ('scf.for %i = %c0 to %n step %c1 { "test.probe"() : () -> () }', True),
        ('scf.for %i = %t to %n step %c1 { "test.probe"() : () -> () }', False),
        ('%c = arith.cmpi eq, %n, %c0 : index\nscf.if %c { "test.probe"() : () -> () }', True),
        ('%c = arith.cmpi eq, %t, %c0 : index\nscf.if %c { "test.probe"() : () -> () }', False),
        (
            "%c = arith.cmpi eq, %t, %c0 : index\ncf.cond_br %c, ^a, ^b\n^a:\n"
            '"test.probe"() : () -> ()\ncf.br ^b\n^b:',
            False,
        ),
        (
            "%c = arith.cmpi eq, %n, %c0 : index\ncf.cond_br %c, ^a, ^b\n^a:\n"
            '"test.probe"() : () -> ()\ncf.br ^b\n^b:',
            True,
        ),
        ('affine.for %i = 0 to %n { "test.probe"() : () -> () }', True),
        ('affine.for %i = 0 to %t { "test.probe"() : () -> () }', False),
        ('affine.if affine_set<(d0) : (d0 - 4 >= 0)>(%n) { "test.probe"() : () -> () }', True),
        ('affine.if affine_set<(d0) : (d0 - 4 >= 0)>(%t) { "test.probe"() : () -> () }', False),
        ('scf.parallel (%i) = (%c0) to (%n) step (%c1) { "test.probe"() : () -> () }', False),
        ('scf.execute_region { "test.probe"() : () -> ()\n scf.yield }', True),
        (
            "%c = arith.cmpi eq, %t, %c0 : index\nscf.execute_region {\n"
            'cf.cond_br %c, ^a, ^b\n^a:\n"test.probe"() : () -> ()\ncf.br ^b\n^b:\nscf.yield\n}',
            False,
        ),
        ('"test.unknown"() ({ "test.probe"() : () -> () }) : () -> ()', False),
    ],
)
def test_control_is_divergent_where_a_condition_may_differ(body, together):
    module, (probe,) = probes(body)
    assert (Uniformity().divergent_control(probe) is None) == together
    assert module is not None
