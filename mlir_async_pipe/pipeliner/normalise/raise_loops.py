"""The pass `async-pipe-raise-loops`: loops between blocks become `scf.for`, or stay as they are.

    iterator in memory, branches --promote--> block arguments --read, count, write--> scf.for

Front ends keep loop variables and iterators in small private arrays; MLIR's `sroa` and `mem2reg` make values of
them first. Each loop is read whole before anything of it is written: one that branches in a way that `scf` has no
form for, or whose iterations nobody counts, stays with a remark that says why, and so do the loops around it; those
inside it are tried by themselves. A function without a raised loop stays as it was.

Writes a loop that was read from blocks as `scf.for`, with `scf.if` inside.

    ^h(%n, %i, %sum):                       %r = scf.for %k = 0 to %n step 1 iter_args(%sum) {
      cf.cond_br (%n > 0), ^a, ^out(%sum)     %i = %start + %k * %s
    ^a: …                             -->     …
      cf.br ^h(%n - 1, %i + %s, %sum1)        scf.yield %sum1 }
                                            cf.br ^out(%r)

The loop is written first, then the blocks are removed. What the header computes is written in the body,
where its condition holds, and after the loop, where it does not, if it is needed there. A sum that
is needed after the loop is carried through it; all others are computed from `%k`.

    %n = select(%d > 0, (%d + 127) / 128, 0), %d = %end - %start      %i = %start + %k * 128 overflow<nsw>

A sum that the count stops before its end does not wrap, and says so: all of them are less than `%end`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir, passmanager
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    before,
    clone,
    constant,
    constant_value,
    create,
    defining_op,
    erase,
    functions,
    is_block_argument,
    made_in,
    operations,
    remap,
    source_op,
    symbol_name,
    terminator,
    users,
)
from mlir_async_pipe.bindings.run_on_copy import become
from mlir_async_pipe.bindings.structured_ops import write_for
from mlir_async_pipe.facts.flow.algorithms import natural_loops, post_dominators, predecessors
from mlir_async_pipe.facts.loops.statements import needed_values
from mlir_async_pipe.facts.values.domains import is_sum_or_product, set_no_wrap
from mlir_async_pipe.facts.values.integer_ops import PREDICATES, IntegerWriter, integer_constant
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.session.diagnostics import PipelineError, Place
from mlir_async_pipe.session.passes import NoOptions, register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import is_pure
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS, SELECT_OPS

# Reading loops of blocks -------------------------------------------------------------------------
#
# Reads the blocks of a loop as straight lines, ifs and loops, or says where that fails.
#
#     ^h(%n): … cf.cond_br %more, ^a, ^out          Loop(^h, on=0, body=[
#     ^a: … cf.cond_br %c, ^b, ^m                       Straight(^a),
#     ^b: … cf.br ^m                          -->       If(^a, ([Straight(^b)], []), join=^m),
#     ^m: … cf.br ^h(%n1)                               Straight(^m)])
#
# Two paths from a branch meet again at its join, the nearest block that all of them come to. A loop
# is left from its first block only; that one runs once more than the rest, so it may only compute.
#
# How often a loop of blocks runs, and which of its values are sums of that.
#
#     ^h(%n, %i): %more = cmpi sgt, %n, 0          %n down to 0: max(%n, 0) times
#         … cf.br ^h(subi %n, 1, addi %i, %s)      %i: start + k * %s in iteration k
#     ^h(%i): %more = cmpi slt, %i, %end           %i up to %end in steps of 4
#         … cf.br ^h(addi %i, 4)
#
# Front ends ask for the next element before they know whether there is one, and keep the old state
# where there is none: `select(%more, next, old)` on the back edge is `next`.


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
        nearest = post_dominators(after, end)
        self.join = {self.blocks[b]: self.blocks[t] for b, t in nearest.items() if t != end}


def _edges(last: Operation, own: dict[Block, Block]) -> list[BlockEdge]:
    row, operands = BRANCH_ROWS.get(last.name), list(last.operands)
    targets = [own[target] for target in last.successors]
    given = [range(0)] * len(targets) if row is None else row.operands(last)
    return [
        BlockEdge(target, tuple(operands[each.start : each.stop]))
        for target, each in zip(targets, given, strict=True)
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
    return PipelineError(f"the loop stays as branches: {why}", code=code, at=at)


# How often a loop runs -----------------------------------------------------------------------

# Predicates of arith.cmpi with sides swapped, and turned round.
_SWAPPED = {"slt": "sgt", "sgt": "slt", "sle": "sge", "sge": "sle"}
_NEGATED = {"slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt"}
_LESS_BY_ONE = {("arith.subi", 1), ("arith.addi", -1)}


@dataclass(frozen=True)
class CountedLoop:
    """Argument number `index` grows by `step` while it is below `end`, or (None) counts the iterations that are left
    down to 0. `sums` are the arguments that grow by the same in every iteration, with what they grow by."""

    index: int
    end: Value | None
    step: int
    sums: dict[int, Value]


def count(loop: BranchLoop) -> CountedLoop:
    """How often the loop runs. Raises PipelineError (loop-not-counted)."""
    steps = {number: _step(loop, number) for number in range(len(loop.header.arguments))}
    sums = {number: step for number, step in steps.items() if step is not None}
    for left, predicate, right in _tests(loop):
        number = _argument(loop.header, left)
        if number is None:
            continue
        if predicate == "sgt" and constant_value(right) == 0 and _falls_by_one(loop, number):
            return CountedLoop(number, None, -1, sums)
        by = constant_value(sums[number]) if number in sums else None
        if predicate == "slt" and by is not None and by > 0 and is_outside(loop, right):
            return CountedLoop(number, right, by, sums)
    message = "how often it runs is not counted up to an end or down to 0"
    raise refusal(message, loop.test, code="loop-not-counted")


def is_outside(loop: BranchLoop, value: Value) -> bool:
    """Whether a value that the loop's blocks can use is made before it."""
    return made_in(value)[1] not in loop.members


def _tests(loop: BranchLoop) -> list[tuple[Value, str, Value]]:
    """The comparison that holds while the loop goes on, from both sides."""
    compare = defining_op(loop.test.operands[0])
    if compare is None or compare.name != "arith.cmpi":
        return []
    predicate = _predicate(compare)
    if loop.on == 1:
        predicate = _NEGATED.get(predicate, predicate)
    if predicate not in _SWAPPED:
        return []
    left, right = compare.operands
    return [(left, predicate, right), (right, _SWAPPED[predicate], left)]


def _predicate(compare: Operation) -> str:
    return PREDICATES[ir.IntegerAttr(compare.attributes["predicate"]).value]


def _argument(block: Block, value: Value) -> int | None:
    if not is_block_argument(value) or value.owner != block:
        return None
    return int(ir.BlockArgument(value).arg_number)


def _next(loop: BranchLoop, number: int) -> Operation | None:
    """The op that makes what an argument becomes in every iteration, None where paths differ."""

    def where_it_goes_on(value: Value) -> Value:
        op = defining_op(value)
        if op is None or op.name not in SELECT_OPS or op.operands[0] != loop.test.operands[0]:
            return value
        return op.operands[1 + loop.on]

    found = {where_it_goes_on(edge.operands[number]) for edge in loop.backs}
    return defining_op(found.pop()) if len(found) == 1 else None


def _step(loop: BranchLoop, number: int) -> Value | None:
    """What is added to an argument in every iteration, made before the loop."""
    op = _next(loop, number)
    if op is None or op.name != "arith.addi":
        return None
    for value, step in (tuple(op.operands), tuple(op.operands)[::-1]):
        if value == loop.header.arguments[number] and is_outside(loop, step):
            return step
    return None


def _falls_by_one(loop: BranchLoop, number: int) -> bool:
    op = _next(loop, number)
    if op is None or len(op.operands) != 2 or op.operands[0] != loop.header.arguments[number]:
        return False
    return (op.name, constant_value(op.operands[1])) in _LESS_BY_ONE


_PROMOTE = "canonicalize,sroa,mem2reg,canonicalize,cse"
_CLEAN_UP = "canonicalize,cse"


@dataclass(frozen=True)
class RaisedLoop:
    """A loop of blocks that became an `scf.for`, by the place of its test."""

    function: str
    place: Place


@register("async-pipe-raise-loops", "make scf.for of loops between blocks", NoOptions)
def run(module: Any, options: NoOptions, session: Session) -> None:
    root = module.operation
    if not any(_has_loops(function) for function in functions(root)):
        return
    copy = root.clone(ip=False).operation
    _run_passes(copy, _PROMOTE)
    # By number: the passes drop no function with a body.
    pairs = list(zip(functions(root), functions(copy), strict=True))
    changed = [_raise_all(promoted, session) for _, promoted in pairs]
    if not any(changed):
        return
    _run_passes(copy, _CLEAN_UP)
    for (old, _), new, raised in zip(pairs, functions(copy), changed, strict=True):
        if raised:
            become(old, new)


def _has_loops(function: Operation) -> bool:
    region = function.regions[0]
    return len(list(region.blocks)) > 1 and bool(BranchGraph(region).loops)


def _run_passes(root: Operation, names: str) -> None:
    with root.context:
        passmanager.PassManager.parse(f"any({names})").run(root)


def _raise_all(function: Operation, session: Session) -> bool:
    """Raise what can be raised, outer loops with all that is in them first."""
    tried: set[Block] = set()
    said: set[Any] = set()
    raised = False
    while True:
        graph = BranchGraph(function.regions[0])
        header = next((block for block in graph.loops if block not in tried), None)
        if header is None:
            return raised
        tried.add(header)
        try:
            loop = read_loop(graph, header, _handed_at_first(graph, header))
            counts = {inner.header: count(inner) for inner in _loops(loop)}
        except PipelineError as error:
            found = error.diagnostic
            if found not in said:
                session.diagnostics.remark(found.message, code=found.code, at=found.place)
            said.add(found)
            continue
        name, place = symbol_name(function), Place.of(loop.test)
        replace_loop(loop, counts)
        session.record("raised", RaisedLoop(name, place))
        raised = True


def _handed_at_first(graph: BranchGraph, header: Block) -> tuple[Value, ...]:
    """What a loop is given by the one path that enters it; its own arguments if there are more."""
    outside = (block for block in graph.before[header] if block not in graph.loops[header])
    edges = [edge for block in outside for edge in graph.edges[block] if edge.target == header]
    return edges[0].operands if len(edges) == 1 else tuple(header.arguments)


def _loops(loop: BranchLoop) -> list[BranchLoop]:
    """A loop and those inside it."""
    return [loop, *_loops_of(loop.body)]


def _loops_of(path: BlockPath) -> list[BranchLoop]:
    found: list[BranchLoop] = []
    for item in path.items:
        if isinstance(item, BranchLoop):
            found += _loops(item)
        elif isinstance(item, If):
            found += [loop for arm in item.arms for loop in _loops_of(arm)]
    return found


# The written loop ----------------------------------------------------------------------------

Values = dict[Value, Value]


def replace_loop(loop: BranchLoop, counts: dict[Block, CountedLoop]) -> None:
    """Write the loop in its first block and erase the others; `counts` by the loops' headers. Nothing here fails."""
    header, old = loop.header, operations(loop.header)
    made: Values = dict(zip(header.arguments, loop.entry, strict=True))
    _write_loop(loop, counts, made, ir.InsertionPoint(old[0]))
    for value in (*header.arguments, *(result for op in old for result in op.results)):
        for user in set(users(value)):
            if _block_of(user, header.owner.operation) not in loop.members:
                remap(user, {value: made[value]})
    given, ip, loc = _mapped(loop.leave.operands, made), before(old[-1]), old[-1].location
    create("cf.br", given, successors=[loop.leave.target], ip=ip, loc=loc)
    _drop_blocks([block for block in loop.members if block != header], old)


def _write_path(
    path: BlockPath, counts: dict[Block, CountedLoop], made: Values, ip: Any
) -> list[Value]:
    """Write what runs on a path at `ip`; the values that its end is given."""
    for item in path.items:
        if isinstance(item, Straight):
            made.update(zip(item.block.arguments, _mapped(item.passed, made), strict=True))
            for op in operations(item.block)[:-1]:
                clone(op, made, ip)
        elif isinstance(item, If):
            _write_if(item, counts, made, ip)
        else:
            made.update(zip(item.header.arguments, _mapped(item.entry, made), strict=True))
            _write_loop(item, counts, made, ip)
    return _mapped(path.end, made)


def _mapped(values: Sequence[Value], made: Values) -> list[Value]:
    return [made.get(value, value) for value in values]


def _write_if(item: If, counts: dict[Block, CountedLoop], made: Values, ip: Any) -> None:
    test = terminator(item.block)
    condition, loc = _mapped(test.operands[:1], made), test.location
    types = [argument.type for argument in item.join.arguments]
    branch = create("scf.if", condition, types, regions=2, ip=ip, loc=loc)
    for region, path in zip(branch.regions, item.arms, strict=True):
        if not types and not path.items and region == branch.regions[1]:
            continue
        inside = ir.InsertionPoint(region.blocks.append())
        end = _write_path(path, counts, dict(made), inside)
        create("scf.yield", end, ip=inside, loc=loc)
    made.update(zip(item.join.arguments, branch.results, strict=True))


def _write_loop(loop: BranchLoop, counts: dict[Block, CountedLoop], made: Values, ip: Any) -> None:
    """Write a loop at `ip`; afterwards `made` has what its header's values are after it."""
    header, counted, loc = loop.header, counts[loop.header], loop.test.location
    starts = [made[argument] for argument in header.arguments]
    bounds, sums = _bounds(loop, counted, starts, made, ip)
    needed, ops = _needed_after(loop)
    carried = [n for n, one in enumerate(header.arguments) if n not in sums or one in needed]
    for_op = write_for(bounds, [starts[number] for number in carried], ip, loc)
    body = for_op.regions[0].blocks[0]
    inside = ir.InsertionPoint(body)
    index, *others = body.arguments
    inner = dict(made)
    for number, value in zip(carried, others, strict=True):
        inner[header.arguments[number]] = value
    for number in sums:
        value = _in_iteration(counted, number, starts, index, inner, inside, loc)
        inner[header.arguments[number]] = value
    _write_header(loop, operations(header)[:-1], loop.on == 0, inner, inside)
    end = _write_path(loop.body, counts, inner, inside)
    create("scf.yield", [end[number] for number in carried], ip=inside, loc=loc)
    for number, value in zip(carried, for_op.results, strict=True):
        made[header.arguments[number]] = value
    _write_header(loop, ops, loop.on == 1, made, ip)


def _write_header(
    loop: BranchLoop, ops: list[Operation], holds: bool, made: Values, ip: Any
) -> None:
    """Write ops of the header where it is known whether the condition holds."""
    condition = loop.test.operands[0]
    for op in ops:
        clone(op, made, ip)
        if len(op.results) and op.results[0] == condition:
            made[condition] = constant(holds, condition.type, ip, op.location)


def _bounds(
    loop: BranchLoop, counted: CountedLoop, starts: list[Value], made: Values, ip: Any
) -> tuple[tuple[Value, Value, Value], frozenset[int]]:
    """Lower and upper bound and step of the `scf.for`, and which sums are computed from its counter."""
    loc = loop.test.location
    own = starts[counted.index]
    if counted.end is not None:
        step, (end,) = constant(counted.step, own.type, ip, loc), _mapped([counted.end], made)
        return (own, end, step), frozenset({counted.index})
    same = {n for n in counted.sums if starts[n].type == own.type} | {counted.index}
    zero, one = (constant(number, own.type, ip, loc) for number in (0, 1))
    return (zero, own, one), frozenset(same)


def _in_iteration(
    counted: CountedLoop,
    number: int,
    starts: list[Value],
    index: Value,
    made: Values,
    ip: Any,
    loc: Any,
) -> Value:
    """The value of a sum in the iteration that `index` numbers."""
    if counted.end is not None:
        return index

    write, start = IntegerWriter(ip, loc), starts[number]
    if number == counted.index:
        return write.subtract(start, index)
    step = made.get(counted.sums[number], counted.sums[number])
    value = write.add(start, write.multiply(index, step))
    if _stays_below_an_end(starts[counted.index], start, step):
        for op in write.made:
            if is_sum_or_product(op.name):
                set_no_wrap(op)
    return value


def _stays_below_an_end(count: Value, start: Value, step: Value) -> bool:
    """Whether a count is that of the steps from `start` up to an end: start + step * (count - 1) is less than that end,
    and neither product nor sum wraps.

        %d = subi %end, %start;  select(%d > 0, divui(addi %d, %step - 1, %step), 0)

    Where %end is not negative, a positive %d did not wrap."""
    by = integer_constant(step)
    chosen = _made_by("arith.select", count)
    test = None if chosen is None else _made_by("arith.cmpi", chosen[0])
    if by is None or by < 1 or chosen is None or test is None or integer_constant(chosen[2]) != 0:
        return False
    if _predicate(source_op(chosen[0])) != "sgt" or integer_constant(test[1]) != 0:
        return False
    rounded = chosen[1]
    if by > 1:
        divided = _made_by("arith.divui", chosen[1])
        up = None if divided is None else _made_by("arith.addi", divided[0])
        if divided is None or up is None or divided[1] != step or integer_constant(up[1]) != by - 1:
            return False
        rounded = up[0]
    difference = _made_by("arith.subi", rounded)
    if rounded != test[0]:
        return False
    if integer_constant(start) == 0:
        return True
    least = None if difference is None else Arithmetic().value_range(difference[0])[0]
    return difference is not None and difference[1] == start and least is not None and least >= 0


def _made_by(name: str, value: Value) -> list[Value] | None:
    """The operands of the op called `name` that makes a value."""
    op = defining_op(value)
    return None if op is None or op.name != name else list(op.operands)


def _needed_after(loop: BranchLoop) -> tuple[set[Value], list[Operation]]:
    """What of the header is used after the loop: its values, and its ops that make them."""
    header = loop.header
    function = header.owner.operation
    ops = operations(header)[:-1]

    def is_used_outside(value: Value) -> bool:
        return any(_block_of(user, function) not in loop.members for user in users(value))

    made = (*header.arguments, *(result for op in ops for result in op.results))
    needed = needed_values([*loop.leave.operands, *filter(is_used_outside, made)], set(ops))
    return needed, [op for op in ops if not needed.isdisjoint(op.results)]


def _block_of(op: Operation, function: Operation) -> Block:
    """The block of the function's own region that holds an op."""
    while op.parent.operation != function:
        op = op.parent.operation
    return op.block


def _drop_blocks(blocks: list[Block], header_ops: list[Operation]) -> None:
    """Erase ops of a header, and whole blocks."""
    last = header_ops[-1]
    grave = create("scf.execute_region", regions=1, ip=ir.InsertionPoint(last), loc=last.location)
    last.erase()
    for block in blocks:
        block.append_to(grave.regions[0])
    # What is erased with an op may use each other in any order.
    grave.erase()
    erase(header_ops[:-1])
