"""Loops that write down each induction variable which their stages see, as Python functions."""

from __future__ import annotations

from helpers.ir_to_python import Buffer, compile_function, unsigned, wrap
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

LONGEST = 64


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

    Raises OverflowError for more than LONGEST iterations, and where the value after the last
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
    bounds: tuple[int | None, int | None, int | None] = (None, None, None),
):
    """The expanded loop as a Python function; those of `bounds` that are numbers make lb, ub and step
    constants."""
    given = dict(zip(("lb", "ub", "step"), bounds, strict=True))
    names = [f"%{name}" if value is None else f"%c{name}" for name, value in given.items()]
    constants = "\n  ".join(
        f"%c{name} = arith.constant {value} : {kind}"
        for name, value in given.items()
        if value is not None
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
    context = new_context()
    module = ir.Module.parse(text, context)
    session = Session()
    for name in ("async-pipe-normalise", "async-pipe-schedule", "async-pipe-expand"):
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
