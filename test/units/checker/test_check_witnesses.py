"""A kernel is called unsafe by its phases only with numbers with which it is.

Covers: checker/phases/followed_kernel.py
"""

from __future__ import annotations

from itertools import islice

import pytest

from helpers.check_harness import check_module
from helpers.check_harness import verdict as verdict_of
from helpers.machine_programs import parse
from helpers.tensor_loops import Box, TensorLoop
from mlir_async_pipe import pipeline
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phases.block_memory import BlockMemory
from mlir_async_pipe.checker.phases.followed_kernel import witnesses
from mlir_async_pipe.checker.phases.op_effects import OpEffects
from mlir_async_pipe.checker.phases.path_numbers import PathNumbers
from mlir_async_pipe.checker.phases.path_state import PathState
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge
from mlir_async_pipe.checker.step_graph import Flow

GROUP = "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 1>"
ALL_ARRIVE = f"%tok = nvgpu.mbarrier.arrive %b[%c0] : {GROUP} -> !nvgpu.mbarrier.token"
HANGS = f"nvgpu.mbarrier.try_wait.parity %b[%c0], %false, %c64 : {GROUP}"


def verdict(body: str, more: str = "") -> str:
    """What the checker says of a kernel whose mbarrier counts its 64 threads."""
    text = f"""
func.func @f(%n: index, %m: index, %k: index, %a: memref<?x?xf32>{more})
    attributes {{gpu.known_block_size = array<i32: 64, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c64 = arith.constant 64 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %b = nvgpu.mbarrier.create -> {GROUP}
  nvgpu.mbarrier.init %b[%c0], %c64, predicate = %leader : {GROUP}
  nvvm.fence.mbarrier.init
  gpu.barrier
  {body}
  return
}}"""
    return verdict_of(check_module(parse(text)).report)


def loop(result: str, bound: str) -> str:
    """A loop that flips a bit in each iteration."""
    return f"""{result} = scf.for %i = %c0 to {bound} step %c1 iter_args(%one = %false) -> (i1) {{
    %flip = arith.xori %one, %true : i1
    scf.yield %flip : i1
  }}
  """


def under(*conditions: str) -> str:
    """A wait that hangs, where comparisons hold."""
    lines = []
    for number, condition in enumerate(conditions):
        lines += [f"%if{number} = arith.cmpi {condition} : index", f"scf.if %if{number} {{"]
    return "\n".join([*lines, HANGS, *("}" for _ in conditions)])


@pytest.mark.parametrize(("bound", "says"), [("%n", "unknown"), ("%m", "unsafe")])
def test_two_loops_with_one_bound_run_equally_often(bound: str, says: str) -> None:
    """They differ in their parity only if the bounds do."""
    body = loop("%p", "%n") + loop("%q", bound) + "%odd = arith.xori %p, %q : i1\n"
    assert verdict(f"{body} scf.if %odd {{ {HANGS} }}") == says


@pytest.mark.parametrize(("last", "says"), [("slt, %k, %n", "unknown"), ("slt, %n, %k", "unsafe")])
def test_conditions_in_a_circle_hold_for_no_numbers(last: str, says: str) -> None:
    assert verdict(under("slt, %n, %m", "slt, %m, %k", last)) == says


def test_numbers_that_no_choice_fits_are_not_looked_for_without_end() -> None:
    """Beside a circle each unknown more took twice as long and more: twenty of them, for ever."""
    sizes = "".join(f"%x{n} = memref.dim %a{n}, %c0 : memref<?xf32>\n" for n in range(20))
    asked = [f"sgt, %x{n}, %c3" for n in range(20)]
    more = "".join(f", %a{n}: memref<?xf32>" for n in range(20))
    body = sizes + under(*asked, "slt, %n, %m", "slt, %m, %k", "slt, %k, %n")
    assert verdict(body, more) == "unknown"
    assert verdict(body.replace("slt, %k, %n", "slt, %n, %k"), more) == "unsafe"


@pytest.mark.parametrize(("axis", "says"), [("%c0", "safe"), ("%c1", "unsafe")])
def test_a_size_is_the_same_whoever_asks_for_it(axis: str, says: str) -> None:
    dims = (
        f"%x = memref.dim %a, %c0 : memref<?x?xf32>\n%y = memref.dim %a, {axis} : memref<?x?xf32>\n"
    )
    assert verdict(dims + under("slt, %x, %y")) == says


@pytest.mark.parametrize(
    ("conditions", "says"),
    [(("sge, %q, %c3", "slt, %n, %c3"), "unknown"), (("sge, %q, %c3", "sgt, %n, %c64"), "unsafe")],
)
def test_a_quotient_of_unknowns_is_not_above_what_it_is_of(conditions, says: str) -> None:
    assert verdict("%q = arith.divui %n, %m : index\n" + under(*conditions)) == says


@pytest.mark.parametrize(
    ("condition", "says"), [("sge, %q, %c3", "unsafe"), ("slt, %q, %c0", "safe")]
)
def test_numbers_are_found_for_a_quotient_by_a_constant(condition: str, says: str) -> None:
    assert verdict("%q = arith.divui %n, %c64 : index\n" + under(condition)) == says


def test_the_end_of_a_loop_of_unknown_step_is_its_beginning_and_so_many_steps() -> None:
    """n = 1 + q s for q from 3 on and s from 2 on."""
    n, s = Atom("size", 0), Atom("size", "s")
    q = Atom("ratio", (Form(-1, frozenset({(n, 1)})), forms.of_atom(s)))
    ranges = {frozenset({(q, 1)}): (3, None), frozenset({(s, 1)}): (2, None)}
    state = PathState(lambda number: None, 1, memory=BlockMemory(1), known=Knowledge(ranges, {}))
    assert next(witnesses(state, kernel(n))) == {n: 7}


def test_a_pipeline_with_unknown_step_is_not_accused() -> None:
    right = TensorLoop((Box(2, 32),)).text()
    right = right.replace("%upper: index)", "%upper: index, %by: index)")
    module = parse(right.replace("to %upper step %i1", "to %upper step %by"))
    pipeline(module, check="none")
    assert verdict_of(check_module(module).report) == "safe"


def kernel(atom: Atom) -> PathNumbers:
    """A kernel with one unknown, and without ops."""
    flow = Flow([], [], [])
    return PathNumbers(flow, OpEffects(None, set()), (1, 1, 1), unknowns={0: atom})


def test_numbers_are_those_of_ranges_and_residues() -> None:
    """n - 64 k from 1 to 64 and k = 1 mod 6: n from 65 on."""
    n, k = Atom("size", 0), Atom("loop", 0)
    known = Knowledge({frozenset({(n, 1), (k, -64)}): (1, 64)}, {k: (1, 6)})
    state = PathState(lambda number: forms.of_atom(n), 1, memory=BlockMemory(1), known=known)
    found = [numbers[n] for numbers in islice(witnesses(state, kernel(n)), 5)]
    assert found == [65, 66, 449, 67, 450]


def test_an_argument_taken_apart_is_put_together() -> None:
    """n = 64 q + r - 3 with q from 2 on."""
    n, q, r = Atom("size", 0), Atom("quotient", 1), Atom("remainder", (Atom("size", 0), 64))
    known = Knowledge({frozenset({(q, 1)}): (2, None)})
    state = PathState(lambda number: None, 1, memory=BlockMemory(1), known=known)
    state.env[0] = Form(-3, frozenset({(q, 64), (r, 1)}))
    assert next(witnesses(state, kernel(n))) == {n: 125}
