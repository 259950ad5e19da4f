"""Unrolls loops that hand a loaded value from one register to the next in every iteration.

    iter_args(%newer = %b, %older = %a)            two iterations in one:
      store %older                                   store %older
      %c = load                              -->     %c = load        in the register of %older
      yield %c, %newer                               store %newer
                                                     %d = load        in that of %newer
                                                     yield %d, %c

A move waits for the load that it moves: LLVM puts `s_waitcnt vmcnt(0)` at the top of such a loop, and
loads that run three iterations ahead have one to arrive. After n + 1 iterations (n values behind each
other) everything is back in its place. What is left over runs in a loop of its own, which MLIR's unrolling
writes.

Values that are there at once (slots, sums, what was read from LDS) are moved without a wait: loops that hand on
only such stay as they are.
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir, passmanager
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    defining_op,
    terminator,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.loops.statements import reads_global

_MARK = "async_pipe.unroll_by_"
_SEQUENCES = "transform.with_named_sequence"
_TEXT = """
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%module: !transform.any_op) {{
    {steps}
    transform.yield
  }}
}}
"""
_STEP = """
    %l{n} = transform.structured.match ops{{["scf.for"]}} attributes {{{mark}{n}}} in %module
      : (!transform.any_op) -> !transform.any_op
    transform.loop.unroll %l{n} {{factor = {n} : i64}} : !transform.any_op
"""


def unroll_shifts(root: Operation) -> int:
    """Unroll the loops of a module that shift loaded values; how many there were."""
    factors = []
    for loop in walk_named(root, "scf.for".__eq__):
        length = _longest_shift(loop)
        if length:
            loop.attributes[f"{_MARK}{length + 1}"] = ir.UnitAttr.get(loop.context)
            factors.append(length + 1)
    if factors:
        steps = "".join(_STEP.format(n=n, mark=_MARK) for n in sorted(set(factors)))
        _transform(root, _TEXT.format(steps=steps))
    return len(factors)


def _longest_shift(loop: Operation) -> int:
    """How many carried values stand behind each other before one that an iteration loads."""
    body = loop.regions[0].blocks[0]
    carried = list(body.arguments)[1:]
    yielded = list(terminator(body).operands)
    return max((_length(number, carried, yielded) for number in range(len(carried))), default=0)


def _length(number: int, carried: list[Value], yielded: list[Value]) -> int:
    """Steps until a value that an iteration loads; 0 where a value stays, goes round, or is another one."""
    seen = [number]
    while yielded[number] in carried:
        number = carried.index(yielded[number])
        if number in seen:
            return 0
        seen.append(number)
    return len(seen) - 1 if _is_loaded(yielded[number]) else 0


def _is_loaded(value: Value) -> bool:
    """Whether a value comes from global memory, also under a condition."""
    made = defining_op(value)
    return made is not None and any(map(reads_global, walk(made)))


def _transform(op: Operation, text: str) -> None:
    """Run a transform sequence on a module, which has it only for that long."""
    block = op.regions[0].blocks[0]
    script = ir.Module.parse(text, op.context)
    script.body.operations[0].operation.clone(ip=ir.InsertionPoint.at_block_begin(block))
    op.attributes[_SEQUENCES] = ir.UnitAttr.get(op.context)
    passmanager.PassManager.parse(
        "builtin.module(transform-interpreter,canonicalize,cse)", op.context
    ).run(op)
    (found,) = walk_named(op, "transform.named_sequence".__eq__)
    found.erase()
    del op.attributes[_SEQUENCES]
