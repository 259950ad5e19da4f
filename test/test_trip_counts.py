"""Every iteration's work happens exactly once and in order, whatever the loop's bounds are.

The loop writes down each induction variable that its first, middle and last stage see. What
it should write down is counted here, by stepping from lb to ub; the printed result of the
expander is run by `ir_to_python`, which shares no code with the package.
"""

from __future__ import annotations

import pytest
from ir_to_python import Buffer, compile_function, unsigned, wrap

from mlir_async_pipe import bindings
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

ir = bindings.ir
LONGEST = 64
BOUNDS = range(-3, 10)
STEPS = range(1, 5)
WIDTHS = {"index": 64, "i32": 32, "i64": 64}

LOOP = """
func.func @f(%lb : {type}, %ub : {type}, %step : {type}, %seen0 : memref<{longest}x{type}>
               {{llvm.noalias}}, %seen1 : memref<{longest}x{type}> {{llvm.noalias}},
             %seen2 : memref<{longest}x{type}> {{llvm.noalias}},
             %counts : memref<3xindex> {{llvm.noalias}}) -> ({type}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0 : {type}
  %near = memref.alloca() : memref<1x{type}>
  {constants}
  %sum = scf.for {unsigned} %i = {lb} to {ub} step {step}
      iter_args(%total = %zero) -> ({type}) {unsigned_type} {{
    scf.execute_region no_inline {{
      %n = memref.load %counts[%c0] : memref<3xindex>
      memref.store %i, %seen0[%n] : memref<{longest}x{type}>
      memref.store %i, %near[%c0] : memref<1x{type}>
      %m = arith.addi %n, %c1 : index
      memref.store %m, %counts[%c0] : memref<3xindex>
      scf.yield
    }}
    scf.execute_region no_inline {{
      %n = memref.load %counts[%c1] : memref<3xindex>
      %x = memref.load %near[%c0] : memref<1x{type}>
      memref.store %x, %seen1[%n] : memref<{longest}x{type}>
      %m = arith.addi %n, %c1 : index
      memref.store %m, %counts[%c1] : memref<3xindex>
      scf.yield
    }}
    %x = memref.load %near[%c0] : memref<1x{type}>
    %next = arith.addi %total, %x : {type}
    scf.execute_region no_inline {{
      %n = memref.load %counts[%c2] : memref<3xindex>
      memref.store %i, %seen2[%n] : memref<{longest}x{type}>
      %m = arith.addi %n, %c1 : index
      memref.store %m, %counts[%c2] : memref<3xindex>
      scf.yield
    }}
    scf.yield %next : {type}
  }} {{async_pipe.stage = array<i64: 0, {middle}, {last}, {last}>{options}}}
  return %sum : {type}
}}
"""


def iterations(lower: int, upper: int, step: int, width: int, is_unsigned: bool) -> list[int]:
    """The induction variable of every iteration.

    Raises OverflowError for more than LONGEST iterations, and where the value behind the last
    one does not fit the type: then the input itself does not end at `upper`.
    """

    def key(value: int) -> int:
        return unsigned(value, width) if is_unsigned else value

    seen: list[int] = []
    value = lower
    while key(value) < key(upper):
        seen.append(value)
        if len(seen) > LONGEST:
            raise OverflowError
        if key(value) + step >= (1 << width if is_unsigned else 1 << (width - 1)):
            raise OverflowError
        value = wrap(value + step, width)
    return seen


def pipelined(
    kind: str,
    stages: int,
    is_unsigned: bool = False,
    options: str = "",
    bounds: tuple[int, int, int] | None = None,
):
    """The expanded loop as a Python function; `bounds` makes lb, ub and step constants."""
    names = ("%lb", "%ub", "%step")
    constants = ""
    if bounds is not None:
        names = ("%clb", "%cub", "%cstep")
        constants = "\n  ".join(
            f"{name} = arith.constant {value} : {kind}"
            for name, value in zip(names, bounds, strict=True)
        )
    text = LOOP.format(
        type=kind,
        longest=LONGEST,
        unsigned="unsigned" if is_unsigned else "",
        unsigned_type="" if kind == "index" else f": {kind}",
        constants=constants,
        lb=names[0],
        ub=names[1],
        step=names[2],
        middle=(stages - 1) // 2,
        last=stages - 1,
        options=options,
    )
    context = bindings.new_context()
    module = ir.Module.parse(text, context)
    session = Session()
    for name in ("async-pipe-schedule", "async-pipe-expand"):
        found = passes.find(name)
        found.run(module.operation, found.options(), session)
    assert module.operation.verify()
    printed = ir.Module.parse(str(module), context)
    return compile_function(ir, printed, "f"), session, str(module)


def observe(function, lower: int, upper: int, step: int) -> tuple[list[list[int]], int]:
    """What the three stages saw, and the result of the loop."""
    seen = [Buffer((LONGEST,)) for _ in range(3)]
    counts = Buffer((3,), {0: 0, 1: 0, 2: 0})
    (total,) = function(lower, upper, step, *seen, counts)
    return [[b.data[n] for n in range(len(b.data))] for b in seen], total


def check_grid(function, kind: str, is_unsigned: bool, least: int = 0) -> int:
    """Compare every grid point that has at least `least` iterations; returns how many."""
    width, checked = WIDTHS[kind], 0
    for lower in BOUNDS:
        for upper in BOUNDS:
            for step in STEPS:
                try:
                    expected = iterations(lower, upper, step, width, is_unsigned)
                except OverflowError:
                    continue
                if len(expected) < least:
                    continue
                seen, total = observe(function, lower, upper, step)
                assert seen == [expected] * 3, (lower, upper, step)
                assert total == wrap(sum(expected), width), (lower, upper, step)
                checked += 1
    return checked


@pytest.mark.parametrize("stages", range(2, 6))
@pytest.mark.parametrize("is_unsigned", [False, True], ids=["signed", "unsigned"])
@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize(
    "options",
    [
        "",
        ', async_pipe.epilogue = "predicate"',
        ', async_pipe.short_trip = "predicate"',
    ],
    ids=["version", "predicated-epilogue", "predicated-short-trip"],
)
def test_dynamic_bounds_run_every_iteration_once_and_in_order(kind, is_unsigned, stages, options):
    function, _, _ = pipelined(kind, stages, is_unsigned, options)
    # 13 * 13 * 4 = 676 points. Unsigned, 10 * 3 * 4 of them (lb >= 0 > ub) would run for 2^32
    # turns and more, and 7 of those with lb < ub < 0 step over the end of the type.
    assert check_grid(function, kind, is_unsigned) == (676 - 120 - 7 if is_unsigned else 676)


@pytest.mark.parametrize("stages", range(2, 6))
def test_assume_leaves_out_the_short_loop_and_is_right_from_s_minus_1_on(stages):
    function, _, text = pipelined("index", stages, options=', async_pipe.short_trip = "assume"')
    assert "scf.if" not in text
    assert text.count("scf.for") == 1
    assert check_grid(function, "index", False, least=stages - 1) > 50


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
@pytest.mark.parametrize("bounds", [(0, 0, 1), (5, 2, 1), (0, 1, 3), (-3, 9, 4), (2, 9, 1)])
def test_static_bounds_need_no_test_of_the_trip_count(stages, bounds):
    function, session, text = pipelined("index", stages, bounds=bounds)
    expected = iterations(*bounds, 64, False)
    seen, total = observe(function, 0, 0, 0)
    assert seen == [expected] * 3
    assert total == sum(expected)
    assert "scf.if" not in text
    short = len(expected) < stages - 1
    assert [d.code for d in session.diagnostics.items] == ["short-trip"] * short
    # A loop that stays as it is has no versions.
    assert ("memref<1xindex>" in text) == short


@pytest.mark.parametrize("bounds", [(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 7, 2)])
@pytest.mark.parametrize("option", ["epilogue", "short_trip"])
def test_static_bounds_with_predicates(bounds, option):
    function, _, _ = pipelined(
        "index", 4, options=f', async_pipe.{option} = "predicate"', bounds=bounds
    )
    expected = iterations(*bounds, 64, False)
    seen, _ = observe(function, 0, 0, 0)
    assert seen == [expected] * 3


@pytest.mark.parametrize("options", ["", ', async_pipe.epilogue = "predicate"'])
@pytest.mark.parametrize("is_unsigned", [False, True], ids=["signed", "unsigned"])
@pytest.mark.parametrize("step", [1, 3, 4])
def test_bounds_at_the_end_of_the_type_do_not_overflow(is_unsigned, options, step):
    function, _, _ = pipelined("i32", 4, is_unsigned, options)
    upper = -1 if is_unsigned else (1 << 31) - 1
    for distance in range(step, 24, step):
        lower = upper - distance
        expected = iterations(lower, upper, step, 32, is_unsigned)
        seen, _ = observe(function, lower, upper, step)
        assert seen == [expected] * 3, (lower, upper, step)
