"""What is proven for all trip counts holds for each: pipelines are proven, and what goes wrong late is not.

Covers: machine/induction.py, machine/counted_terms.py, machine/long_arrays.py
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import mlir_async_pipe
from helpers.hopper_gemms import HopperGemm
from helpers.machine_programs import parse
from helpers.value_mutants import COPIES
from mlir_async_pipe import Target
from mlir_async_pipe.lowering.lower import Lowered, lower
from mlir_async_pipe.machine import Data, From

pytestmark = pytest.mark.slow

TARGET = "nvvm:sm_80"
# The sums of `value_mutants`, of arrays of any size.
SUMS = COPIES.replace("memref<38xf32>", "memref<?xf32>").replace("memref<40xf32>", "memref<?xf32>")
SUMS = SUMS.replace("arith.constant 38 : index", "memref.dim %from, %c0 : memref<?xf32>")
ANY_SIZE = [Data((From(4, 4),))] * 2
# More iterations than are asked about one by one.
MANY = [Data((840,))] * 2


@cache
def pipelined() -> str:
    module = parse(SUMS)
    mlir_async_pipe.pipeline(module, target=TARGET)
    return str(module)


def validated(after: str, arguments: list[Any]) -> Any:
    return mlir_async_pipe.validate(parse(SUMS), parse(after), None, arguments, target=TARGET)


def test_a_pipeline_is_proven_for_all_sizes():
    found = validated(pipelined(), ANY_SIZE)
    assert found.is_equal and not found.not_for_all, found.message
    assert found.up_to is not None and found.up_to > 1 << 40
    assert "by induction for size 0 of argument 0 = 4 to " in found.message


@cache
def lowered() -> Lowered:
    return lower(parse(pipelined()), target=Target.parse(TARGET), emit="ptx")


def test_the_ptx_of_a_pipeline_is_proven_for_all_sizes():
    """LLVM tests loops at their end, counts bytes and what is left, and keeps sums in registers without a type."""
    found = mlir_async_pipe.validate(parse(SUMS), lowered(), None, ANY_SIZE, target=TARGET)
    assert found.is_equal and not found.not_for_all, found.message
    assert found.up_to is not None and found.up_to > 1 << 40


# In the PTX, after iteration 30 of the loop: a text, and what stands after it, or in its place.
LATE_PTX = {
    "a slot": ("selp.b32 \t%r1, 0, %r22, %p6;", "setp.gt.s64 \t%p6, %rd32, 120;\n\tselp.b32 \t%r1, 0, %r1, %p6;"),
    "a place": ("add.s64 \t%rd31, %rd31, 16;", "setp.gt.s64 \t%p6, %rd32, 120;\n\tselp.b64 \t%rd31, %rd35, %rd31, %p6;"),
    "a sum": ("add.s64 \t%rd30, %rd30, -4;", "setp.gt.s64 \t%p6, %rd32, 120;\n\tselp.b32 \t%r41, %r42, %r41, %p6;"),
    "the end": ("setp.lt.s64 \t%p7, %rd32, %rd3;", "min.s64 \t%rd3, %rd3, 120;\n\tsetp.lt.s64 \t%p7, %rd32, %rd3;"),
}  # fmt: skip


@pytest.mark.parametrize("name", LATE_PTX)
def test_what_goes_wrong_late_in_the_ptx_is_not_proven_for_all(name: str) -> None:
    code = lowered()
    old, new = LATE_PTX[name]
    assert code.text.count(old) == 1
    broken = replace(
        code, text=code.text.replace(old, new if name == "the end" else f"{old}\n\t{new}")
    )
    found = mlir_async_pipe.validate(parse(SUMS), broken, None, ANY_SIZE, target=TARGET)
    assert found.is_equal and found.up_to is None
    assert found.not_for_all in ("iteration-dependent", "not-periodic", "terms-differ")
    many = mlir_async_pipe.validate(parse(SUMS), broken, None, MANY, target=TARGET)
    assert many.verdict == "different"


# What goes wrong in late iterations alone: old, new.
LATE = {
    "a slot": (
        "%31 = vector.load %arg2[%arg7,",
        "%q = arith.constant 112 : index\n%p = arith.cmpi slt, %arg3, %q : index\n"
        "%s = arith.select %p, %arg7, %c0 : index\n%31 = vector.load %arg2[%s,",
    ),
    "the smaller of a source and a number": (
        "device_async_copy %arg0[%26]",
        "%q = arith.constant 160 : index\n%s = arith.minsi %26, %q : index",
    ),
    "a source by a counter of 8 bits": (
        "device_async_copy %arg0[%26]",
        "%q = arith.index_cast %26 : index to i8\n%s = arith.index_castui %q : i8 to index",
    ),
    "a factor": (
        "%32 = arith.addf %arg4, %31",
        "%q = arith.constant 160 : index\n%p = arith.cmpi slt, %arg3, %q : index\n"
        "%two = arith.addf %31, %31 : vector<4xf32>\n"
        "%s = arith.select %p, %31, %two : vector<4xf32>\n%32 = arith.addf %arg4, %s",
    ),
    "the end of the loop": (
        "%17:5 = scf.for %arg3 = %c0 to %16 ",
        "%q = arith.constant 400 : index\n%s = arith.minsi %16, %q : index\n"
        "%17:5 = scf.for %arg3 = %c0 to %s ",
    ),
    "a place modulo 400": (
        "vector.store %32, %arg1[%arg3]",
        "%q = arith.constant 400 : index\n%s = arith.remui %arg3, %q : index\n"
        "vector.store %32, %arg1[%s]",
    ),
    "a place of the epilogue": (
        "vector.store %24, %arg1[%25]",
        "%q = arith.constant 400 : index\n%s = arith.minsi %25, %q : index\n"
        "vector.store %24, %arg1[%s]",
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_what_goes_wrong_late_is_not_proven_for_all(name: str) -> None:
    """The first eight trip counts are equal, a late one is not: the answer is for the first ones, with a reason."""
    old, new = LATE[name]
    if old.startswith("device"):
        line = next(line for line in pipelined().splitlines() if old in line)
        new = f"{new}\n{line.replace('%arg0[%26]', '%arg0[%s]')}"
        old = line
    assert old in pipelined()
    broken = pipelined().replace(old, new)
    found = validated(broken, ANY_SIZE)
    assert found.is_equal and found.up_to is None
    reasons = ("iteration-dependent", "integer-wraps", "not-periodic")
    assert found.not_for_all in reasons, found.message
    assert "for all of 8 launches" in found.message and "not proven for all" in found.message
    assert validated(broken, MANY).verdict == "different"


PLAIN = """func.func @f(%a: memref<?xf32>, %b: memref<?xf32>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {{
    %x = memref.load %a[%i] : memref<?xf32>
    {body}
    memref.store %x, %b[%j] : memref<?xf32>
  }}
  return
}}"""


def of_bodies(before: str, after: str) -> Any:
    arguments = [Data((From(1),)), Data((From(1),)), From(0)]
    modules = (parse(PLAIN.format(body=body)) for body in (before, after))
    return mlir_async_pipe.validate(*modules, None, arguments)


SAME = "%j = arith.addi %i, %c0 : index"


def test_a_counter_of_32_bits_is_proven_up_to_where_it_wraps():
    narrow = "%k = arith.index_cast %i : index to i32\n%j = arith.index_cast %k : i32 to index"
    # i is n - 1 at most, and the size n + 1, of which the answer speaks.
    assert of_bodies(SAME, narrow).up_to == (1 << 31) + 1
    assert of_bodies(SAME, SAME).up_to > 1 << 40


REFUSED = {
    "integer-wraps": "%k = arith.index_cast %i : index to i16\n%j = arith.index_cast %k : i16 to index",
    "reads-what-it-writes": f"{SAME}\n%y = memref.load %b[%i] : memref<?xf32>",
    "several-loops": f"{SAME}\nscf.for %z = %c0 to %n step %c1 {{}}",
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_is_not_followed_says_why(code: str) -> None:
    found = of_bodies(SAME, REFUSED[code])
    assert found.is_equal and found.not_for_all == code, found.message


BODY = """{body}
    %x = memref.load %a[%i] : memref<?xf32>
    memref.store %x, %b[%j] : memref<?xf32>"""
HEAD = """func.func @f(%a: memref<?xf32>, %b: memref<?xf32>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
"""
# The loop of `PLAIN` in other forms.
FORMS = {
    "tested before": HEAD
    + """  cf.br ^head(%c0 : index)
^head(%i: index):
  %go = arith.cmpi slt, %i, %n : index
  cf.cond_br %go, ^body, ^end
^body:
  """
    + BODY
    + """
  %next = arith.addi %i, %c1 : index
  cf.br ^head(%next : index)
^end:
  return
}}""",
    "tested after": HEAD
    + """  %any = arith.cmpi sgt, %n, %c0 : index
  cf.cond_br %any, ^head(%c0 : index), ^end
^head(%i: index):
  """
    + BODY
    + """
  %next = arith.addi %i, %c1 : index
  %go = arith.cmpi ne, %next, %n : index
  cf.cond_br %go, ^head(%next : index), ^end
^end:
  return
}}""",
    "counts down": HEAD
    + """  %any = arith.cmpi sgt, %n, %c0 : index
  cf.cond_br %any, ^head(%c0, %n : index, index), ^end
^head(%i: index, %left: index):
  """
    + BODY
    + """
  %next = arith.addi %i, %c1 : index
  %fewer = arith.subi %left, %c1 : index
  %over = arith.cmpi eq, %fewer, %c0 : index
  cf.cond_br %over, ^end, ^head(%next, %fewer : index, index)
^end:
  return
}}""",
    "two at once, one left": HEAD
    + """  %half = arith.divui %n, %c2 : index
  %even = arith.muli %half, %c2 : index
  scf.for %i = %c0 to %even step %c2 {{
  """
    + BODY
    + """
    %i1 = arith.addi %i, %c1 : index
    %j1 = arith.addi %j, %c1 : index
    %x1 = memref.load %a[%i1] : memref<?xf32>
    memref.store %x1, %b[%j1] : memref<?xf32>
  }}
  cf.br ^head(%even : index)
^head(%i: index):
  %go = arith.cmpi slt, %i, %n : index
  cf.cond_br %go, ^body, ^end
^body:
  """
    + BODY
    + """
  %next = arith.addi %i, %c1 : index
  cf.br ^head(%next : index)
^end:
  return
}}""",
    "a while loop": HEAD
    + """  %end = scf.while (%i = %c0) : (index) -> index {{
    %go = arith.cmpi slt, %i, %n : index
    scf.condition(%go) %i : index
  }} do {{
  ^bb0(%i: index):
    """
    + BODY
    + """
    %next = arith.addi %i, %c1 : index
    scf.yield %next : index
  }}
  return
}}""",
}


def of_forms(text: str, body: str) -> Any:
    arguments = [Data((From(1),)), Data((From(1),)), From(0)]
    modules = parse(PLAIN.format(body=SAME)), parse(text.format(body=body))
    return mlir_async_pipe.validate(*modules, None, arguments)


@pytest.mark.parametrize("form", FORMS)
def test_a_loop_is_followed_in_each_form(form: str) -> None:
    found = of_forms(FORMS[form], SAME)
    assert found.is_equal and found.up_to is not None, found.message
    assert found.up_to > 1 << 40


@pytest.mark.parametrize("form", FORMS)
def test_what_goes_wrong_late_is_proven_in_no_form(form: str) -> None:
    late = "%l = arith.constant 100 : index\n%j = arith.minui %i, %l : index"
    found = of_forms(FORMS[form], late)
    assert found.is_equal and found.not_for_all == "iteration-dependent", found.message


def test_a_loop_whose_end_is_data_is_refused():
    old = "%go = arith.cmpi slt, %i, %n : index"
    new = """%in = arith.cmpi slt, %i, %n : index
  %d = memref.load %a[%c0] : memref<?xf32>
  %e = arith.cmpf oeq, %d, %d : f32
  %go = arith.andi %in, %e : i1"""
    text = FORMS["tested before"].replace(old, new)
    assert of_forms(text, SAME).code == "data-dependent"


@pytest.mark.parametrize("form", ["tested before", "a while loop"])
def test_a_loop_of_which_threads_have_other_iterations_is_refused(form: str) -> None:
    text = FORMS[form].replace("%i = %c0", "%i = %t").replace("^head(%c0", "^head(%t")
    text = text.replace("addi %i, %c1", "addi %i, %c2").format(body=SAME)
    module = parse(text.replace("%c0 =", "%t = gpu.thread_id x\n  %c0 =", 1))
    arguments = [Data((From(2, 2),)), Data((From(2, 2),)), From(2, 2)]
    found = mlir_async_pipe.validate(module, module, None, arguments, threads=2)
    assert found.is_equal and found.not_for_all == "iteration-dependent", found.message


def test_a_first_launch_that_differs_is_a_difference():
    found = of_bodies(SAME, "%j = arith.subi %i, %i : index")
    assert found.verdict == "different" and found.message.startswith("with argument 0 of shape")


# Loops that wait for mbarriers: a phase is a bit that alternates, so that a period has an even number of them for each slot.
BOXES = """
!map = !nvgpu.tensormap.descriptor<tensor = memref<2x32xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
!bars = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>
!tile = memref<2x32xf32, #gpu.address_space<workgroup>>
gpu.module @k {
gpu.func @sums(%map: !llvm.ptr, %to: memref<64xf32> {llvm.noalias}, %n: index)
    workgroup(%tile: !tile {llvm.align = 128 : i64}) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %bytes = arith.constant 256 : index
  %ticks = arith.constant 1000 : index
  %zero = arith.constant 0.0 : f32
  %false = arith.constant false
  %true = arith.constant true
  %from = builtin.unrealized_conversion_cast %map : !llvm.ptr to !map
  %t = gpu.thread_id x
  %row = arith.divui %t, %c32 : index
  %column = arith.remui %t, %c32 : index
  %first = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  %total:2 = scf.for %i = %c0 to %n step %c32 iter_args(%sum = %zero, %phase = %false) -> (f32, i1) {
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bars
    nvgpu.tma.async.load %from[%i, %c0], %full[%c0] to %tile, predicate = %first : !map, !bars -> !tile
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %ticks : !bars
    %x = memref.load %tile[%row, %column] : !tile
    %added = arith.addf %sum, %x : f32
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %added, %flip : f32, i1
  } {async_pipe.num_stages = 3 : i64}
  memref.store %total#0, %to[%t] : memref<64xf32>
  gpu.return
}
}
"""
HOPPER = "nvvm:sm_90a"


@cache
def boxes_pipelined() -> str:
    module = parse(BOXES)
    mlir_async_pipe.pipeline(module, target=HOPPER)
    return str(module)


def of_boxes(after: Any, size: Any, before: str = BOXES) -> Any:
    module = parse(after) if isinstance(after, str) else after
    arguments = [Data((2, size), "float32"), None, size]
    return mlir_async_pipe.validate(parse(before), module, None, arguments, target=HOPPER)


def test_tensor_copies_are_proven_for_all_sizes():
    """Of any size: of the last box a part lies outside of the tensor, and is zeros."""
    found = of_boxes(boxes_pipelined(), From(8, 32))
    assert found.is_equal and not found.not_for_all, found.message
    assert found.up_to is not None and found.up_to > 1 << 40


def test_the_ptx_of_tensor_copies_is_proven_for_all_sizes():
    code = lower(parse(boxes_pipelined()), target=Target.parse(HOPPER), emit="ptx")
    found = of_boxes(code, From(8, 32))
    assert found.is_equal and not found.not_for_all, found.message


def test_products_of_warpgroups_are_proven_for_all_depths():
    """The sums of a product that is in flight when an iteration ends are followed, too."""
    before, after = (parse(HopperGemm(tile_m=64, tile_n=64).module()) for _ in range(2))
    mlir_async_pipe.pipeline(after, target=HOPPER, check="none")
    depth = From(0, 64)
    arguments = [Data((64, depth), "float16"), Data((64, depth), "float16"), Data((64, 64))]
    found = mlir_async_pipe.validate(before, after, None, [*arguments, depth], target=HOPPER)
    assert found.is_equal and not found.not_for_all, found.message
    assert found.up_to is not None and found.up_to > 1 << 28


_WAIT = "nvgpu.mbarrier.try_wait.parity %4[%arg6], %arg8,"
# From iteration 31 on.
_LATE = "%q = arith.constant 992 : index\n%p = arith.cmpi sge, %arg4, %q : index\n"
# In the loop: the beginning of a line, and what stands in its place.
LATE_PHASES = {
    "a parity": (_WAIT, f"{_LATE}%s = arith.xori %arg8, %p : i1\n{_WAIT.replace('%arg8', '%s')}"),
    "a slot that is waited for": (
        _WAIT,
        f"{_LATE}%s = arith.select %p, %arg7, %arg6 : index\n{_WAIT.replace('%arg6', '%s')}",
    ),
    "a slot that is read": (
        "%subview_9 = memref.subview %arg3[%arg6, 0, 0]",
        f"{_LATE}%s = arith.select %p, %arg7, %arg6 : index\n%subview_9 = memref.subview %arg3[%s, 0, 0]",
    ),
    "bytes": (
        "nvgpu.mbarrier.arrive.expect_tx %4[%arg7], %c256",
        f"{_LATE}%b = arith.constant 252 : index\n%s = arith.select %p, %b, %c256 : index\n"
        "nvgpu.mbarrier.arrive.expect_tx %4[%arg7], %s",
    ),
    "a coordinate": (
        "nvgpu.tma.async.load %0[%25, %c0]",
        "%q = arith.constant 992 : index\n%s = arith.minsi %25, %q : index\nnvgpu.tma.async.load %0[%s, %c0]",
    ),
    "a barrier": (
        "gpu.barrier\n        %21 =",
        f"{_LATE}scf.if %p {{}} else {{ gpu.barrier }}\n%21 =",
    ),
}


@pytest.mark.parametrize("name", LATE_PHASES)
def test_what_goes_wrong_late_with_mbarriers_is_not_proven_for_all(name: str) -> None:
    old, new = LATE_PHASES[name]
    assert boxes_pipelined().count(old) == 1
    broken = boxes_pipelined().replace(old, new)
    found = of_boxes(broken, From(32, 32))
    assert found.is_equal and found.up_to is None, found.message
    assert found.not_for_all in ("iteration-dependent", "not-periodic"), found.message
    many = of_boxes(broken, 40 * 32)
    assert many.verdict == "different", many.message


# The same in the PTX: a line, and what stands in its place; p12 is free there.
LATE_PTX_PHASES = {
    "a parity": (
        "selp.b32 \t%r11, 1, 0, %p18;",
        "setp.ge.s64 \t%p12, %rd24, 992;\n\txor.pred \t%p12, %p12, %p18;\n\tselp.b32 \t%r11, 1, 0, %p12;",
    ),
    "bytes": (
        "mov.b32 \t%r14, 256;",
        "setp.ge.s64 \t%p12, %rd24, 992;\n\tselp.b32 \t%r14, 252, 256, %p12;",
    ),
}


@pytest.mark.parametrize("name", LATE_PTX_PHASES)
def test_what_goes_wrong_late_in_the_ptx_with_mbarriers_is_not_proven_for_all(name: str) -> None:
    old, new = LATE_PTX_PHASES[name]
    code = lower(parse(boxes_pipelined()), target=Target.parse(HOPPER), emit="ptx")
    assert code.text.count(old) == 1
    broken = replace(code, text=code.text.replace(old, new))
    found = of_boxes(broken, From(32, 32))
    assert found.is_equal and found.not_for_all == "iteration-dependent", found.message
    assert of_boxes(broken, 40 * 32).verdict == "different"


def counting(count: int, arrive: str, after: str) -> str:
    """The sums, of which each iteration arrives 64 times at another mbarrier, whose phases have `count` arrivals."""
    head = f"""  %count = arith.constant {count} : index
  %more = nvgpu.mbarrier.create -> !bars
  nvgpu.mbarrier.init %more[%c0], %count, predicate = %first : !bars
  nvvm.fence.mbarrier.init
  gpu.barrier
  %total"""
    text = BOXES.replace("  nvvm.fence.mbarrier.init\n  gpu.barrier\n  %total", head)
    text = text.replace("    %flip", f"    {arrive}\n    %flip")
    return text.replace("  memref.store", f"  {after}\n  memref.store")


ARRIVE = "%token = nvgpu.mbarrier.arrive %more[%c0] : !bars -> !nvgpu.mbarrier.token"


def test_what_an_mbarrier_counts_over_all_iterations_is_not_proven_for_all():
    """After 41 iterations its phase is over, and who then waits for the one before waits for ever."""
    wait = "nvgpu.mbarrier.try_wait.parity %more[%c0], %true, %ticks : !bars"
    before, after = (counting(41 * 64, arrive, wait) for arrive in ("", ARRIVE))
    found = of_boxes(after, From(32, 32), before)
    assert found.is_equal and found.not_for_all == "not-periodic", found.message
    assert of_boxes(after, 41 * 32, before).verdict == "different"


@pytest.mark.parametrize("asks", [False, True])
def test_the_number_of_a_phase_is_refused(asks: bool) -> None:
    """An arrival gives the phase in which it came, which is another one in each iteration."""
    test = "\n%over = nvgpu.mbarrier.test.wait %more[%c0], %token : !bars, !nvgpu.mbarrier.token"
    text = counting(64, ARRIVE + test * asks, "")
    found = of_boxes(text, From(32, 32), text)
    assert found.is_equal and found.not_for_all == "iteration-dependent" * asks, found.message


@pytest.mark.parametrize("waits", [True, False])
def test_a_slot_that_threads_give_back_by_arriving(waits: bool) -> None:
    """No barrier orders the copy after their reads: what thread 0 knows of them by the arrivals is the same after each period."""
    text = counting(64, ARRIVE, "").replace("    gpu.barrier\n", "")
    wait = """%before = arith.xori %phase, %true : i1
    scf.if %first {
      nvgpu.mbarrier.try_wait.parity %more[%c0], %before, %ticks : !bars
    }
"""
    text = text.replace("nvgpu.mbarrier.arrive.exp", wait * waits + "    nvgpu.mbarrier.arrive.exp")
    found = of_boxes(text, From(32, 32))
    assert (found.up_to is not None) == waits, found.message
    assert waits or found.code == "missing-barrier"


def test_roles_are_refused():
    """Each has a loop of its own, and they are at other iterations of it."""
    text = BOXES.replace(
        "num_stages = 3 : i64", 'num_stages = 3 : i64, async_pipe.roles = "specialised"'
    )
    module = parse(text)
    mlir_async_pipe.pipeline(module, target=HOPPER)
    found = of_boxes(module, From(32, 32))
    assert found.is_equal and found.not_for_all == "not-followed", found.message
