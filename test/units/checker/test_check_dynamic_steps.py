"""Loops of tensor copies whose step is not known: pipelines are proven, wrong ones are named, and the
machine makes each of these fail.

Covers: checker/phases/ranges_of_sums.py, checker/phases/amounts.py, checker/phases/loop_iterations.py,
checker/phases/followed_kernel.py
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from math import prod

import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.machine_programs import parse
from helpers.tensor_loops import Box, TensorLoop
from mlir_async_pipe import pipeline
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form, factors, multiplied
from mlir_async_pipe.checker.kernel_flow import build
from mlir_async_pipe.checker.phases.loop_iterations import LoopIterations
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge, exact_quotient, moved
from mlir_async_pipe.checker.precision import Precision, Rung
from mlir_async_pipe.checker.selection import Callees

LOADS = TensorLoop((Box(8, 16),), trips=7)
PRODUCTS = TensorLoop((Box(64, 64, "swizzle_128b"),) * 2, reader="products", trips=5)


def of_unknown_step(loop: TensorLoop) -> str:
    """The pipeline of a loop from %low to %upper by %by."""
    text = loop.text().replace("%upper: index)", "%upper: index, %by: index, %low: index)")
    text = text.replace("%x = %i0 to %upper step %i1", "%x = %low to %upper step %by")
    text = text.replace("arith.subi %x, %i0", "arith.subi %x, %low")
    module = parse(text.replace("arith.divui %from, %i1", "arith.divui %from, %by"))
    pipeline(module, check="none")
    return str(module)


RIGHT = {
    "loads": LOADS,
    "two stages": replace(LOADS, stages=2),
    "five stages": replace(LOADS, stages=5),
    "copies first": replace(LOADS, issue="first"),
    "in an outer loop": replace(LOADS, executions=2),
    "in every second one": replace(LOADS, executions=3, executed="odd"),
    "with skipped tiles": replace(LOADS, skip=2),
    "products": PRODUCTS,
    "two in flight": replace(PRODUCTS, stages=4, in_flight=2),
    "roles": replace(LOADS, roles="specialised"),
    "roles of products": replace(PRODUCTS, stages=4, in_flight=2, roles="specialised"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_pipeline_is_proven_whatever_the_step(name: str) -> None:
    assert verdict(check_module(parse(of_unknown_step(RIGHT[name]))).report) == "safe"


GUARD = r"arith\.subi (%\d+), %c2_\d+ : index"
TRIPS = r"arith\.divui %\d+, (%arg\d) : index\n( *%\d+ = arith.addi)"
SPAN = r"(%\d+) = arith\.subi (%\d+), %c1_\d+ : index\n( *%\d+ = arith\.divui) \1"
WRONG = {
    "no barrier": (r"\n *gpu\.barrier\n(?= *%\d+ = arith.addi)", "\n", {"phase-overtaken"}),
    "no wait": (r"nvgpu\.mbarrier\.try_wait[^\n]*", "", {"read-in-flight"}),
    "a tile too many": (GUARD, r"arith.subi \1, %c1 : index", {"unwaited-copy"}),
    "a tile too few": (GUARD, r"arith.subi \1, %c3 : index", {"deadlock"}),
    "an iteration too many": (SPAN, r"\1 = arith.subi \2, %c0 : index\n\3 \1", {"unwaited-copy"}),
}


def of_typed_step(loop: TensorLoop, type: str) -> str:
    """The pipeline of a loop from %low to %upper by %by, numbers of that type."""
    text = loop.text().replace("%upper: index)", "%upper: T, %by: T, %low: T)")
    head, _, rest = text.partition("scf.for %x = %i0 to %upper step %i1")
    before, line, start = head.rpartition("\n")
    inside, brace, rest = rest.partition("{")
    cast = "%{0} = arith.index_cast %{1} : T to index\n"
    text = before + line + cast.format("from_low", "low") + cast.format("by_one", "by") + start
    text += (
        f"scf.for %y = %low to %upper step %by{inside} : T {brace}\n{cast.format('x', 'y')}{rest}"
    )
    text = text.replace("arith.subi %x, %i0", "arith.subi %x, %from_low").replace(
        ": T", f": {type}"
    )
    module = parse(text.replace("arith.divui %from, %i1", "arith.divui %from, %by_one"))
    pipeline(module, check="none")
    return str(module)


@pytest.mark.parametrize("type", ["i32", "i64"])
@pytest.mark.parametrize("name", ["loads", "copies first", "products", "roles"])
def test_a_pipeline_of_i32_or_i64_is_proven_whatever_the_step(name: str, type: str) -> None:
    """The kernel comes to the loop, so the step is 1 or more before it, too."""
    assert verdict(check_module(parse(of_typed_step(RIGHT[name], type))).report) == "safe"


@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        (r"nvgpu\.mbarrier\.try_wait[^\n]*", "read-in-flight"),
        (r"gpu\.barrier", "init-not-visible"),
        (r"nvgpu\.mbarrier\.arrive\.expect_tx[^\n]*", "deadlock"),
    ],
)
def test_a_wrong_one_of_i32_is_named(left_out: str, expected: str) -> None:
    text = of_typed_step(LOADS, "i32")
    assert expected in codes(check_module(parse(re.sub(left_out, "", text, count=1))).report)


@pytest.mark.parametrize(("inside", "least"), [("", 1), ("scf.if %run {", None)])
def test_of_a_loop_that_may_be_left_out_no_step_is_supposed(inside: str, least: int | None) -> None:
    end = "}" if inside else ""
    module = parse(f"""
func.func @f(%run: i1, %upper: i32, %by: i32) {{
  %low = arith.constant 0 : i32
  {inside}
  scf.for %x = %low to %upper step %by : i32 {{}}
  {end}
  return
}}""")
    flow = build(module.body.operations[0].operation, Callees(), has_assembly=False)
    (loop,) = flow.loops
    known, step = Knowledge(), forms.of_atom(Atom("unknown", loop.bounds.step))
    loops = LoopIterations(flow, Precision(), Rung.TOGETHER)
    loops.suppose_steps(known, lambda number: step)
    assert known.bounds(step)[0] == least


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_one_is_named_and_the_machine_finds_it(name: str) -> None:
    """The last is wrong only where the step divides the distance of the bounds."""
    pattern, change, expected = WRONG[name]
    text = of_unknown_step(LOADS)
    wrong, changes = re.subn(pattern, change, text)
    assert changes == 1
    assert codes(check_module(parse(wrong)).report) == expected
    arguments = [*LOADS.arguments()[:-1], 5 + 3 * 7, 3, 5]
    found = [
        LOADS.right(parse(wrong), completion, schedule=schedule, arguments=arguments)
        for completion, schedule in itertools.product(("late", "eager"), ("forward", "random"))
    ]
    assert any(found)


S, K, Q = Atom("size", "s"), Atom("loop", 0), Atom("ratio", (Form(), Form()))
NUMBERS = [dict(zip((S, K, Q), n, strict=True)) for n in itertools.product(range(1, 5), repeat=3)]
SUMS = [
    Form(constant, frozenset((atom, c) for atom, c in zip((S, K, Q), cs, strict=True) if c))
    for constant in (0, 1, -2)
    for cs in ((0, 0, 0), (1, 0, 0), (0, -1, 2), (3, 1, 0))
]


def value(form: Form, at: dict[Atom, int]) -> int:
    """A sum of products at some numbers."""
    return form.constant + sum(c * prod(at[a] for a in factors(atom)) for atom, c in form.terms)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(SUMS, SUMS)))
def test_a_product_is_that_of_the_numbers(a: Form, b: Form) -> None:
    """Laws: of products; of exact quotients of them; an iteration later; without common factors."""
    made, known = multiplied(a, b), Knowledge()
    known.suppose(Form(0, frozenset({(S, 1)})))
    later, quotient = moved(made, K, 1), exact_quotient(made, b)
    assert later is not None
    left = known.without_factors(made)
    for at in NUMBERS:
        assert value(made, at) == value(a, at) * value(b, at)
        assert value(later, {**at, K: at[K] + 1}) == value(made, at)
        assert (value(left, at) >= 1) == (value(made, at) >= 1)
        if quotient is not None:
            assert value(quotient, at) * value(b, at) == value(made, at)
    if b == Form(0, frozenset({(S, 1)})):
        assert quotient == a
