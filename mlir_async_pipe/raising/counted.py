"""How often a loop of blocks runs, and which of its values are sums of that.

    ^h(%n, %i): %more = cmpi sgt, %n, 0          CountDown(%n): max(%n, 0) times
        … cf.br ^h(subi %n, 1, addi %i, %s)      %i: start + k * %s in iteration k
    ^h(%i): %more = cmpi slt, %i, %end           CountUp(%i, %end, 4)
        … cf.br ^h(addi %i, 4)

Front ends ask for the next element before they know whether there is one, and keep the old state
where there is none: `select(%more, next, old)` on the way back is `next`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Value,
    constant_value,
    defining_op,
    is_block_argument,
)
from mlir_async_pipe.raising.loop_shapes import Loop, refusal
from mlir_async_pipe.vocabulary.control_flow import SELECT_OPS

# Predicates of arith.cmpi, and what they are with sides swapped or turned round.
_SLT, _SLE, _SGT, _SGE = 2, 3, 4, 5
_SWAPPED = {_SLT: _SGT, _SGT: _SLT, _SLE: _SGE, _SGE: _SLE}
_LESS_BY_ONE = {("arith.subi", 1), ("arith.addi", -1)}
_NEGATED = {_SLT: _SGE, _SGE: _SLT, _SGT: _SLE, _SLE: _SGT}


@dataclass(frozen=True)
class CountDown:
    """Argument number `left` counts the iterations that are left; none where it is not above 0."""

    left: int


@dataclass(frozen=True)
class CountUp:
    """Argument number `index` grows by `step` while it is below `end`."""

    index: int
    end: Value
    step: int


@dataclass(frozen=True)
class Counted:
    """`sums` are the arguments that grow by the same in every iteration, with what they grow by."""

    by: CountDown | CountUp
    sums: dict[int, Value]


def count(loop: Loop) -> Counted:
    """How often the loop runs. Raises PipelineError (loop-not-counted)."""
    steps = {number: _step(loop, number) for number in range(len(loop.header.arguments))}
    sums = {number: step for number, step in steps.items() if step is not None}
    for left, predicate, right in _tests(loop):
        number = _argument(loop.header, left)
        if number is None or number not in steps:
            continue
        if predicate == _SGT and constant_value(right) == 0 and _falls_by_one(loop, number):
            return Counted(CountDown(number), sums)
        grows = sums.get(number)
        by = None if grows is None else constant_value(grows)
        if predicate == _SLT and by is not None and by > 0 and is_outside(loop, right):
            return Counted(CountUp(number, right, by), sums)
    message = "how often it runs is not counted up to an end or down to 0"
    raise refusal(message, loop.test, code="loop-not-counted")


def is_outside(loop: Loop, value: Value) -> bool:
    """Whether a value that the loop's blocks can use is made before it."""
    owner: Any = value.owner
    block = owner if isinstance(owner, ir.Block) else owner.operation.block
    return block not in loop.members


def _tests(loop: Loop) -> list[tuple[Value, int, Value]]:
    """The comparison that holds while the loop goes on, from both sides."""
    compare = defining_op(loop.test.operands[0])
    if compare is None or compare.name != "arith.cmpi":
        return []
    predicate = int(ir.IntegerAttr(compare.attributes["predicate"]).value)
    if loop.on == 1:
        predicate = _NEGATED.get(predicate, predicate)
    if predicate not in _SWAPPED:
        return []
    left, right = compare.operands
    return [(left, predicate, right), (right, _SWAPPED[predicate], left)]


def _argument(block: Block, value: Value) -> int | None:
    if not is_block_argument(value) or value.owner != block:
        return None
    return int(ir.BlockArgument(value).arg_number)


def _next(loop: Loop, number: int) -> Value | None:
    """What an argument becomes in every iteration, None where ways differ."""
    found = {_where_it_goes_on(loop, edge.operands[number]) for edge in loop.backs}
    return found.pop() if len(found) == 1 else None


def _where_it_goes_on(loop: Loop, value: Value) -> Value:
    op = defining_op(value)
    if op is None or op.name not in SELECT_OPS or op.operands[0] != loop.test.operands[0]:
        return value
    return op.operands[1 + loop.on]


def _step(loop: Loop, number: int) -> Value | None:
    """What is added to an argument in every iteration, made before the loop."""
    argument = loop.header.arguments[number]
    after = _next(loop, number)
    op = None if after is None else defining_op(after)
    if op is None or op.name != "arith.addi":
        return None
    for value, step in (tuple(op.operands), tuple(op.operands)[::-1]):
        if value == argument and is_outside(loop, step):
            return step
    return None


def _falls_by_one(loop: Loop, number: int) -> bool:
    argument = loop.header.arguments[number]
    after = _next(loop, number)
    op = None if after is None else defining_op(after)
    if op is None or len(op.operands) != 2 or op.operands[0] != argument:
        return False
    by = constant_value(op.operands[1])
    return by is not None and (op.name, by) in _LESS_BY_ONE
