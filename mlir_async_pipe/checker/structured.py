"""The graph of structured control flow: scf.for, scf.while, scf.if, switches, parallel and
summary loops.

Each function appends one op to a block and gives the block in which control goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlir_async_pipe.bindings.raw_ops import operations
from mlir_async_pipe.checker.loop_facts import carried_into
from mlir_async_pipe.checker.step_graph import (
    AnyIteration,
    Block,
    Branch,
    Constant,
    Edge,
    Goto,
    Loop,
    LoopTest,
    Switch,
)
from mlir_async_pipe.checker.type_kinds import is_bit
from mlir_async_pipe.values.integer_ops import bits_of
from mlir_async_pipe.values.uniformity import conditions
from mlir_async_pipe.vocabulary.control_flow import (
    COUNTED_LOOPS,
    REGION_ROWS,
    branch_regions,
)
from mlir_async_pipe.vocabulary.loop_bounds import affine_for_bounds

if TYPE_CHECKING:
    from mlir_async_pipe.checker.kernel_flow import Builder


def for_loop(builder: Builder, op: Any, frame: int, current: Block) -> Block:
    """A counted loop whose iterations are followed."""
    number, pairs = builder.flow.number, builder.pairs
    loop = builder.loop(op)
    _bind_bounds(builder, loop, op, frame)
    variable, *arguments = op.regions[0].blocks[0].arguments
    loop.variable = number(frame, variable)
    header, body, after = builder.block(), builder.block(), builder.block()
    current.exit = Goto(
        Edge(
            header.number,
            pairs(arguments, frame, carried_into(op), frame),
            (("enter", loop.number),),
        )
    )
    header.exit = LoopTest(
        loop.number,
        Edge(body.number),
        Edge(
            after.number,
            pairs(op.results, frame, arguments, frame),
            (("leave", loop.number),),
        ),
    )

    def repeat(block: Block, last: Any) -> None:
        assigns = pairs(arguments, frame, last.operands, frame)
        block.exit = Goto(Edge(header.number, assigns, (("back", loop.number),)))

    builder.region(op.regions[0], frame, body, repeat)
    return after


def _bind_bounds(builder: Builder, loop: Loop, op: Any, frame: int) -> bool:
    """Tell a loop the bounds of a counted one; False if they are no values."""
    bounds = loop_bounds(op) if op.name in COUNTED_LOOPS else None
    if bounds is None:
        return False
    loop.lower, loop.upper, loop.step = (builder.flow.number(frame, bound) for bound in bounds)
    loop.unsigned = "unsignedCmp" in op.attributes
    loop.bits = bits_of(op.regions[0].blocks[0].arguments[0].type)
    return True


def loop_bounds(op: Any) -> tuple[Any, Any, Any] | None:
    """Lower bound, upper bound and step of a counted loop, values or `Constant`s; None where a
    bound is neither."""
    if op.name == "scf.for":
        lower, upper, step = list(op.operands)[:3]
        return lower, upper, step
    found = affine_for_bounds(op)
    if found is None:
        return None
    lower, upper, step = (Constant(b) if isinstance(b, int) else b for b in found)
    return lower, upper, step


def any_order(builder: Builder, op: Any, frame: int, current: Block) -> Block:
    """A loop whose iterations run one after the other, in any order and number: the same ones in
    all threads whose bounds are the same, since one code, made of the bounds, orders them."""
    loop = builder.loop(op)
    number, pairs = builder.flow.number, builder.pairs
    loop.decided_by = tuple(number(frame, value) for value in conditions(op))
    arguments = list(op.regions[0].blocks[0].arguments)
    entry = list(op.operands)[REGION_ROWS[op.name].entry(op).start :]
    carried = arguments[len(arguments) - len(entry) :] if op.name == "affine.for" else []
    header, body, after = builder.block(), builder.block(), builder.block()
    enter = pairs(carried, frame, entry, frame) if carried else ()
    current.exit = Goto(Edge(header.number, enter, (("enter", loop.number),)))
    leave = pairs(op.results, frame, carried, frame) if carried else ()
    header.exit = LoopTest(
        loop.number,
        Edge(body.number),
        Edge(after.number, leave, (("leave", loop.number),)),
    )
    variables = arguments[: len(arguments) - len(carried)]
    for dimension, argument in enumerate(variables):
        bounds = _range_of(builder, op, dimension, frame)
        bounds.decided_by = loop.decided_by
        body.steps.append(AnyIteration(bounds.number, number(frame, argument)))

    def repeat(block: Block, last: Any) -> None:
        assigns = pairs(carried, frame, last.operands, frame) if carried else ()
        block.exit = Goto(Edge(header.number, assigns, (("back", loop.number),)))

    builder.region(op.regions[0], frame, body, repeat)
    return after


def _range_of(builder: Builder, op: Any, dimension: int, frame: int) -> Loop:
    """The bounds of one induction variable of an scf.parallel; others have none here."""
    made = builder.loop(op)
    if op.name == "scf.parallel":
        count = len(op.regions[0].blocks[0].arguments)
        bounds = [op.operands[dimension + count * kind] for kind in range(3)]
        made.lower, made.upper, made.step = (builder.flow.number(frame, b) for b in bounds)
    return made


def while_loop(builder: Builder, op: Any, frame: int, current: Block) -> Block:
    """An scf.while: its first region is the header, its second the body."""
    pairs = builder.pairs
    loop = builder.loop(op)
    head, body, after = builder.block(), builder.block(), builder.block()
    before_block = op.regions[0].blocks[0]
    after_block = op.regions[1].blocks[0]
    current.exit = Goto(
        Edge(
            head.number,
            pairs(before_block.arguments, frame, op.operands, frame),
            (("enter", loop.number),),
        )
    )

    def test(block: Block, last: Any) -> None:
        passed = list(last.operands)[1:]
        block.exit = Branch(
            builder.flow.number(frame, last.operands[0]),
            Edge(body.number, pairs(after_block.arguments, frame, passed, frame)),
            Edge(
                after.number,
                pairs(op.results, frame, passed, frame),
                (("leave", loop.number),),
            ),
        )

    def repeat(block: Block, last: Any) -> None:
        assigns = pairs(before_block.arguments, frame, last.operands, frame)
        block.exit = Goto(Edge(head.number, assigns, (("back", loop.number),)))

    builder.region(op.regions[0], frame, head, test)
    builder.region(op.regions[1], frame, body, repeat)
    return after


def branch(builder: Builder, op: Any, frame: int, current: Block) -> Block:
    """One of several regions; an affine.if is taken or not, by a bit of its own."""
    row = REGION_ROWS[op.name]
    after = builder.block()
    sides = _sides(builder, op, frame, after)
    number = builder.flow.number
    if row.condition is None:
        current.exit = Branch(number(frame, op), *sides)
        return after
    condition = op.operands[row.condition]
    if is_bit(condition.type):
        current.exit = Branch(number(frame, condition), *sides)
        return after
    cases = row.cases(op)
    (rest,) = (side for place, side in enumerate(sides) if place not in cases.values())
    chosen = tuple((value, sides[place]) for value, place in cases.items())
    current.exit = Switch(number(frame, condition), chosen, rest)
    return after


def _sides(builder: Builder, op: Any, frame: int, after: Block) -> list[Edge]:
    """An edge into each region of a branch; each yields to `after`, a missing one goes there
    at once."""

    def leave(block: Block, last: Any) -> None:
        block.exit = Goto(
            Edge(after.number, builder.pairs(op.results, frame, last.operands, frame))
        )

    edges = []
    for region in branch_regions(op):
        inner = builder.block()
        edges.append(Edge(inner.number))
        if region is not None:
            builder.region(region, frame, inner, leave)
        else:
            inner.exit = Goto(Edge(after.number))
    return edges


def summary(builder: Builder, op: Any, frame: int, current: Block) -> Block:
    """A loop whose iterations cannot be told apart by the queues: its body once."""
    loop = builder.loop(op)
    number = builder.flow.number
    arguments = list(op.regions[0].blocks[0].arguments)
    bounded = _bind_bounds(builder, loop, op, frame)
    variables = 1 if op.name in COUNTED_LOOPS else len(arguments)
    for argument in arguments[:variables]:
        current.steps.append(AnyIteration(loop.number, number(frame, argument)))
    outer, around = builder.maybe, builder.variables
    builder.maybe = outer or not bounded
    builder.variables = (*around, number(frame, arguments[0]))
    last = _straight(builder, op.regions[0], frame, current)
    builder.maybe, builder.variables = outer, around
    return last


def one_iteration(builder: Builder, op: Any, frame: int, current: Block) -> Block:
    """A loop whose iterations other threads run: any one of them, once."""
    loop = builder.loop(op)
    number = builder.flow.number
    arguments = list(op.regions[0].blocks[0].arguments)
    for argument in arguments:
        current.steps.append(AnyIteration(loop.number, number(frame, argument)))
    outer, around = builder.maybe, builder.variables
    builder.maybe, builder.variables = True, (*around, number(frame, arguments[0]))
    after = builder.inline(op.regions[0], frame, current)
    builder.maybe, builder.variables = outer, around
    return after


def _straight(builder: Builder, region: Any, frame: int, current: Block) -> Block:
    """A region of a summary loop: what its branches hold may happen or not."""
    block = region.blocks[0]
    *body, end = operations(block)
    for op in body:
        row = REGION_ROWS.get(op.name)
        if row is not None and row.flow == "branch":
            outer, builder.maybe = builder.maybe, True
            for inner in op.regions:
                if len(list(inner.blocks)):
                    current = _straight(builder, inner, frame, current)
            builder.maybe = outer
        else:
            current = builder.op(op, frame, current)
    builder.end(end, frame, current)
    return current
