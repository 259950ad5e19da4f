"""Reads the blocks of a loop as straight lines, ifs and loops, or says where that fails.

    ^h(%n): … cf.cond_br %more, ^a, ^out          Loop(^h, on=0, body=[
    ^a: … cf.cond_br %c, ^b, ^m                       Straight(^a),
    ^b: … cf.br ^m                          -->       If(^a, ([Straight(^b)], []), join=^m),
    ^m: … cf.br ^h(%n1)                               Straight(^m)])

Two paths from a branch meet again at its join, the nearest block that all of them come to. A loop
is left from its first block only; that one runs once more than the rest, so it may only compute.

How often a loop of blocks runs, and which of its values are sums of that.

    ^h(%n, %i): %more = cmpi sgt, %n, 0          CountDown(%n): max(%n, 0) times
        … cf.br ^h(subi %n, 1, addi %i, %s)      %i: start + k * %s in iteration k
    ^h(%i): %more = cmpi slt, %i, %end           CountUp(%i, %end, 4)
        … cf.br ^h(addi %i, 4)

Front ends ask for the next element before they know whether there is one, and keep the old state
where there is none: `select(%more, next, old)` on the back edge is `next`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    constant_value,
    defining_op,
    is_block_argument,
    operations,
    terminator,
)
from mlir_async_pipe.facts.flow.algorithms import natural_loops, post_dominators, predecessors
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import is_pure
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS, SELECT_OPS


@dataclass(frozen=True)
class BlockEdge:
    """A path to a block, and what it forwards."""

    target: Block
    operands: tuple[Value, ...]


@dataclass(frozen=True)
class Straight:
    """What a block is given, and all its ops but the last."""

    block: Block
    passed: tuple[Value, ...]


@dataclass(frozen=True)
class BlockPath:
    """What runs from one block to another, and what that one is given at the end."""

    items: tuple[Straight | If | BranchLoop, ...]
    end: tuple[Value, ...]


@dataclass(frozen=True)
class If:
    """The last op of `block` picks an arm; both lead to `join`."""

    block: Block
    arms: tuple[BlockPath, BlockPath]
    join: Block


@dataclass(frozen=True)
class BranchLoop:
    """`header` is given `entry` at first, and goes on to `body` by its successor `on`."""

    header: Block
    entry: tuple[Value, ...]
    on: int
    body: BlockPath
    leave: BlockEdge
    backs: tuple[BlockEdge, ...]
    members: frozenset[Block]

    @property
    def test(self) -> Operation:
        """The op that goes on or leaves."""
        return terminator(self.header)


class BranchGraph:
    """The blocks of one region, the loops among them, and where paths meet again."""

    def __init__(self, region: Any) -> None:
        self.blocks: list[Block] = list(region.blocks)
        # A block that is asked of a branch says that the branch is its owner.
        own = {block: block for block in self.blocks}
        self.edges = {block: _edges(terminator(block), own) for block in self.blocks}
        targets = {block: [edge.target for edge in self.edges[block]] for block in self.blocks}
        self.before = predecessors(self.blocks, targets.__getitem__)
        self.loops = natural_loops(self.blocks[0], targets.__getitem__)
        # By number: what comes after the region has one too.
        number = {block: place for place, block in enumerate(self.blocks)}
        end = len(self.blocks)
        after = {number[b]: [number[t] for t in targets[b]] or [end] for b in self.blocks}
        self.join = {
            self.blocks[place]: self.blocks[nearest]
            for place, nearest in post_dominators(after, end).items()
            if nearest != end
        }


def _edges(last: Operation, own: dict[Block, Block]) -> list[BlockEdge]:
    row = BRANCH_ROWS.get(last.name)
    if row is None:
        return [BlockEdge(own[target], ()) for target in last.successors]
    operands = list(last.operands)
    return [
        BlockEdge(own[target], tuple(operands[given.start : given.stop]))
        for target, given in zip(last.successors, row.operands(last), strict=True)
    ]


def _picks(last: Operation) -> bool:
    """Whether an i1 decides which of two blocks is next."""
    return last.name in BRANCH_ROWS and BRANCH_ROWS[last.name].condition


def read_loop(graph: BranchGraph, header: Block, entry: tuple[Value, ...]) -> BranchLoop:
    """The loop that starts in a block. Raises PipelineError (loop-…)."""
    members = graph.loops[header]
    test, edges = terminator(header), graph.edges[header]
    inside = [number for number, edge in enumerate(edges) if edge.target in members]
    if not _picks(test) or len(inside) != 1:
        raise refusal(
            "its first block does not decide whether it goes on", test, code="loop-not-counted"
        )
    for block in graph.blocks:
        if block not in members or block == header:
            continue
        if any(edge.target not in members for edge in graph.edges[block]):
            raise refusal("it is left from here, too", terminator(block), code="loop-early-exit")
        before = graph.before[block]
        if not before or any(source not in members for source in before):
            raise refusal("it is entered at two places", test, code="loop-not-structured")
    for op in operations(header)[:-1]:
        if not is_pure(op) or len(op.regions):
            message = f"'{op.name}' runs once more than the rest of it"
            raise refusal(message, op, code="loop-header-effects")
    body = _read(graph, edges[inside[0]], header, {header})
    backs = tuple(edge for block in members for edge in graph.edges[block] if edge.target == header)
    leave = edges[1 - inside[0]]
    return BranchLoop(header, entry, inside[0], body, leave, backs, frozenset(members))


def _read(graph: BranchGraph, start: BlockEdge, stop: Block, seen: set[Block]) -> BlockPath:
    """What runs from an edge until control comes to `stop`."""
    items: list[Straight | If | BranchLoop] = []
    block, passed = start.target, start.operands
    while block != stop:
        if block in seen:
            raise refusal("ways meet here", operations(block)[0], code="loop-not-structured")
        seen.add(block)
        if block in graph.loops:
            loop = read_loop(graph, block, passed)
            items.append(loop)
            seen |= loop.members
            block, passed = loop.leave.target, loop.leave.operands
            continue
        items.append(Straight(block, passed))
        last, edges, join = terminator(block), graph.edges[block], graph.join.get(block)
        if last.name in BRANCH_ROWS and len(edges) == 1:
            block, passed = edges[0].target, edges[0].operands
        elif _picks(last) and join is not None:
            yes, no = (_read(graph, edge, join, seen) for edge in edges)
            items.append(If(block, (yes, no), join))
            # The arguments of the join stand for the results of the `if`.
            block, passed = join, tuple(join.arguments)
        else:
            raise refusal(f"where '{last.name}' leads is open", last, code="loop-not-structured")
    return BlockPath(tuple(items), passed)


def refusal(why: str, at: Operation, *, code: str) -> PipelineError:
    """Why a loop stays as it is."""
    return PipelineError(f"the loop stays as branches: {why}", code=code, at=at)


# How often a loop runs -----------------------------------------------------------------------

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
class CountedLoop:
    """`sums` are the arguments that grow by the same in every iteration, with what they grow by."""

    by: CountDown | CountUp
    sums: dict[int, Value]


def count(loop: BranchLoop) -> CountedLoop:
    """How often the loop runs. Raises PipelineError (loop-not-counted)."""
    steps = {number: _step(loop, number) for number in range(len(loop.header.arguments))}
    sums = {number: step for number, step in steps.items() if step is not None}
    for left, predicate, right in _tests(loop):
        number = _argument(loop.header, left)
        if number is None or number not in steps:
            continue
        if predicate == _SGT and constant_value(right) == 0 and _falls_by_one(loop, number):
            return CountedLoop(CountDown(number), sums)
        grows = sums.get(number)
        by = None if grows is None else constant_value(grows)
        if predicate == _SLT and by is not None and by > 0 and is_outside(loop, right):
            return CountedLoop(CountUp(number, right, by), sums)
    message = "how often it runs is not counted up to an end or down to 0"
    raise refusal(message, loop.test, code="loop-not-counted")


def is_outside(loop: BranchLoop, value: Value) -> bool:
    """Whether a value that the loop's blocks can use is made before it."""
    owner: Any = value.owner
    block = owner if isinstance(owner, ir.Block) else owner.operation.block
    return block not in loop.members


def _tests(loop: BranchLoop) -> list[tuple[Value, int, Value]]:
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


def _next(loop: BranchLoop, number: int) -> Value | None:
    """What an argument becomes in every iteration, None where paths differ."""
    found = {_where_it_goes_on(loop, edge.operands[number]) for edge in loop.backs}
    return found.pop() if len(found) == 1 else None


def _where_it_goes_on(loop: BranchLoop, value: Value) -> Value:
    op = defining_op(value)
    if op is None or op.name not in SELECT_OPS or op.operands[0] != loop.test.operands[0]:
        return value
    return op.operands[1 + loop.on]


def _step(loop: BranchLoop, number: int) -> Value | None:
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


def _falls_by_one(loop: BranchLoop, number: int) -> bool:
    argument = loop.header.arguments[number]
    after = _next(loop, number)
    op = None if after is None else defining_op(after)
    if op is None or len(op.operands) != 2 or op.operands[0] != argument:
        return False
    by = constant_value(op.operands[1])
    return by is not None and (op.name, by) in _LESS_BY_ONE
