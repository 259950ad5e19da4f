"""The graph of ops with regions: loops, branches, parallel and summary loops.

    scf.for     before -> test -> body -> test …        and test -> after
    others      along the ways of their row (`flow.ways`)

Each function appends one op to a block and gives the block in which control goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlir_async_pipe.bindings.raw_ops import operations
from mlir_async_pipe.checker.step_graph import (
    AnyIteration,
    Block,
    Branch,
    Constant,
    Edge,
    Exit,
    Goto,
    Loop,
    LoopTest,
    Switch,
)
from mlir_async_pipe.checker.type_kinds import is_bit
from mlir_async_pipe.flow.items import Item
from mlir_async_pipe.flow.ways import OUT, first_taken, handed_on, starts, taking, targets
from mlir_async_pipe.values.integer_ops import bits_of
from mlir_async_pipe.values.uniformity import conditions
from mlir_async_pipe.vocabulary.control_flow import COUNTED_LOOPS, REGION_ROWS
from mlir_async_pipe.vocabulary.loop_bounds import affine_for_bounds

if TYPE_CHECKING:
    from mlir_async_pipe.checker.kernel_flow import Builder


@dataclass(frozen=True)
class _Paths:
    """The edges between the regions of one op: `heads` are the blocks in which they begin,
    `after` is the one after the op, `loop` the loop that they make up."""

    builder: Builder
    item: Item
    frame: int
    loop: Loop | None
    heads: list[Block]
    after: Block

    def edges(self, source: int, handed: Sequence[Any]) -> list[Edge]:
        """The ways on from a place, on which these values are handed on."""
        places = targets(self.item.row, source, len(self.heads))
        return [self.edge(source, place, handed) for place in places]

    def edge(self, source: int, target: int, handed: Sequence[Any]) -> Edge:
        """The way from one place to another."""
        block, taken = self.after, self.item.op.results
        if target != OUT:
            block, nodes = self.heads[target], self.item.frames[target].nodes
            taken = taking(self.item.op, self.item.row, nodes[0].block) if nodes else []
        assigns = self.builder.pairs(taken, self.frame, handed, self.frame)
        return Edge(block.number, assigns, self._moves(source, target))

    def _moves(self, source: int, target: int) -> tuple[tuple[str, int], ...]:
        if self.loop is None or OUT != source < target:
            return ()
        kind = "leave" if target == OUT else "enter" if source == OUT else "back"
        return ((kind, self.loop.number),)

    def leave(self, source: int) -> Callable[[Block, Any], None]:
        """What ends the ways out of a region: an i1 decides between two of them."""

        def end(block: Block, last: Any) -> None:
            first, *others = self.edges(source, handed_on(last))
            block.exit = Goto(first)
            if others:
                condition = self.builder.flow.number(self.frame, last.operands[0])
                block.exit = Branch(condition, first, *others)

        return end


def follow(builder: Builder, item: Item, frame: int, current: Block) -> Block:
    """A branch or a loop that runs while it says so itself."""
    op, row = item.op, item.row
    loop = builder.loop(op) if row.flow == "while" else None
    heads = [builder.block() for _ in item.frames]
    paths = _Paths(builder, item, frame, loop, heads, builder.block())
    ways = paths.edges(OUT, starts(op, row))
    current.exit = _choice(builder, item, frame, ways) if loop is None else Goto(*ways)
    for inner, head in zip(item.frames, heads, strict=True):
        if inner.nodes:
            builder.region(inner, frame, head, paths.leave(inner.number))
        else:
            head.exit = Goto(paths.edge(inner.number, OUT, ()))
    return paths.after


def _choice(builder: Builder, item: Item, frame: int, ways: list[Edge]) -> Exit:
    """The way into one of several regions; an affine.if is taken or not, by a bit of its own."""
    op, row, number = item.op, item.row, builder.flow.number
    if row.condition is None:
        return Branch(number(frame, op), *ways)
    condition = op.operands[row.condition]
    if is_bit(condition.type):
        return Branch(number(frame, condition), *ways)
    cases = row.cases(op)
    (rest,) = (way for place, way in enumerate(ways) if place not in cases.values())
    chosen = tuple((value, ways[place]) for value, place in cases.items())
    return Switch(number(frame, condition), chosen, rest)


def iterate(builder: Builder, item: Item, frame: int, current: Block) -> Block:
    """A loop whose iterations run one after the other, as often as its bounds say. Without such
    bounds they run in any order and number: the same ones in all threads whose bounds are the
    same, since one code, made of the bounds, orders them."""
    op, number = item.op, builder.flow.number
    loop = builder.loop(op)
    arguments = list(item.frames[0].entry.block.arguments)
    carried = taking(op, item.row, item.frames[0].entry.block)
    variables = arguments[: len(arguments) - len(carried)]
    header, body, after = builder.block(), builder.block(), builder.block()
    if _bind_bounds(builder, loop, op, frame):
        loop.variable = number(frame, variables[0])
    else:
        loop.decided_by = tuple(number(frame, value) for value in conditions(op))
        for dimension, argument in enumerate(variables):
            bounds = _range_of(builder, op, dimension, frame)
            bounds.decided_by = loop.decided_by
            body.steps.append(AnyIteration(bounds.number, number(frame, argument)))
    paths = _Paths(builder, item, frame, loop, [header], after)
    current.exit = Goto(paths.edge(OUT, 0, starts(op, item.row)))
    header.exit = LoopTest(loop.number, Edge(body.number), paths.edge(0, OUT, carried))

    def repeat(block: Block, last: Any) -> None:
        block.exit = Goto(paths.edge(0, 0, handed_on(last)))

    builder.region(item.frames[0], frame, body, repeat)
    return after


def _bind_bounds(builder: Builder, loop: Loop, op: Any, frame: int) -> bool:
    """Tell a loop the bounds of a counted one; False if they are no values."""
    bounds = _loop_bounds(op) if op.name in COUNTED_LOOPS else None
    if bounds is None:
        return False
    loop.lower, loop.upper, loop.step = (builder.flow.number(frame, bound) for bound in bounds)
    loop.unsigned = "unsignedCmp" in op.attributes
    loop.bits = bits_of(op.regions[0].blocks[0].arguments[0].type)
    return True


def _loop_bounds(op: Any) -> tuple[Any, Any, Any] | None:
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


def _range_of(builder: Builder, op: Any, dimension: int, frame: int) -> Loop:
    """The bounds of one induction variable of an scf.parallel; others have none here."""
    made = builder.loop(op)
    if op.name == "scf.parallel":
        count = len(op.regions[0].blocks[0].arguments)
        bounds = [op.operands[dimension + count * kind] for kind in range(3)]
        made.lower, made.upper, made.step = (builder.flow.number(frame, b) for b in bounds)
    return made


def summary(builder: Builder, item: Item, frame: int, current: Block) -> Block:
    """A loop whose iterations cannot be told apart by the queues: its body once."""
    with _any_iteration(builder, item, frame, current):
        return _straight(builder, item.op.regions[0], frame, current)


def one_iteration(builder: Builder, item: Item, frame: int, current: Block) -> Block:
    """A loop whose iterations other threads run: any one of them, once."""
    with _any_iteration(builder, item, frame, current):
        return builder.inline(item.frames[0], frame, frame, current, [])


@contextmanager
def _any_iteration(builder: Builder, item: Item, frame: int, current: Block) -> Iterator[None]:
    """What is built inside may be any iteration of a loop; without known bounds, none."""
    loop = builder.loop(item.op)
    block = item.frames[0].entry.block
    bounded = _bind_bounds(builder, loop, item.op, frame)
    variables = list(block.arguments)[: first_taken(item.op, item.row, block)]
    numbers = [builder.flow.number(frame, variable) for variable in variables]
    current.steps.extend(AnyIteration(loop.number, number) for number in numbers)
    outer, around = builder.maybe, builder.variables
    builder.maybe, builder.variables = outer or not bounded, (*around, *numbers[:1])
    yield
    builder.maybe, builder.variables = outer, around


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
