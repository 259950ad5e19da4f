"""The pass `async-pipe-raise-loops`: loops between blocks become `scf.for`, or stay as they are.

    iterator in memory, branches --promote--> block arguments --read, count, write--> scf.for

Front ends keep loop variables and iterators in small private arrays; MLIR's `sroa` and `mem2reg`
make values of them first. Each loop is read whole before anything of it is written: one that
branches in a way that `scf` has no form for, or whose iterations nobody counts, stays with a remark
that says why, and so do the loops around it; those inside it are tried by themselves. A function
without a raised loop stays as it was.

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

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir, passmanager
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    clone,
    constant,
    create,
    defining_op,
    erase,
    functions,
    operations,
    remap,
    source_op,
    symbol_name,
    terminator,
    users,
)
from mlir_async_pipe.bindings.run_on_copy import become
from mlir_async_pipe.bindings.structured_ops import write_for
from mlir_async_pipe.facts.loops.statements import needed_values
from mlir_async_pipe.facts.values.domains import is_sum_or_product, set_no_wrap
from mlir_async_pipe.facts.values.integer_ops import PREDICATES, integer_constant
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.pipeliner.normalise.loop_shapes import (
    BlockPath,
    BranchGraph,
    BranchLoop,
    CountDown,
    CountedLoop,
    If,
    Straight,
    count,
    read_loop,
)
from mlir_async_pipe.session.diagnostics import PipelineError, Place
from mlir_async_pipe.session.passes import NoOptions, register
from mlir_async_pipe.session.report import Session

_PROMOTE = "canonicalize,sroa,mem2reg,canonicalize,cse"
_CLEAN_UP = "canonicalize,cse"


@dataclass(frozen=True)
class RaisedLoop:
    """A loop of blocks that became an `scf.for`, by the place of its test."""

    function: str
    place: Place


@register("async-pipe-raise-loops", "make scf.for of loops between blocks", NoOptions)
def run(module: Any, options: NoOptions, session: Session) -> None:
    """Raise the loops of every function that has some."""
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
            if error.diagnostic not in said:
                _report(error, session)
            said.add(error.diagnostic)
            continue
        name, place = symbol_name(function), Place.of(loop.test)
        replace_loop(loop, counts)
        session.record("raised", RaisedLoop(name, place))
        raised = True


def _handed_at_first(graph: BranchGraph, header: Block) -> tuple[Value, ...]:
    """What a loop is given by the one path that enters it; its own arguments if there are more."""
    edges = [
        edge
        for block in graph.before[header]
        if block not in graph.loops[header]
        for edge in graph.edges[block]
        if edge.target == header
    ]
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


def _report(error: PipelineError, session: Session) -> None:
    found = error.diagnostic
    session.diagnostics.remark(found.message, code=found.code, at=found.place)


# The written loop ----------------------------------------------------------------------------

Values = dict[Value, Value]


def replace_loop(loop: BranchLoop, counts: dict[Block, CountedLoop]) -> Operation:
    """Write the loop in its first block and erase the others; `counts` by the loops' headers.

    Returns the `scf.for`. Nothing here fails."""
    header, old = loop.header, operations(loop.header)
    made: Values = dict(zip(header.arguments, loop.entry, strict=True))
    for_op = _write_loop(loop, counts, made, ir.InsertionPoint(old[0]))
    for value in (*header.arguments, *(result for op in old for result in op.results)):
        for user in set(users(value)):
            if _block_of(user, header.owner.operation) not in loop.members:
                remap(user, {value: made[value]})
    create(
        "cf.br",
        [made.get(value, value) for value in loop.leave.operands],
        successors=[loop.leave.target],
        ip=ir.InsertionPoint(old[-1]),
        loc=old[-1].location,
    )
    _drop_blocks([block for block in loop.members if block != header], old)
    return for_op


def _write_path(
    path: BlockPath, counts: dict[Block, CountedLoop], made: Values, ip: Any
) -> list[Value]:
    """Write what runs on a path at `ip`; the values that its end is given."""
    for item in path.items:
        if isinstance(item, Straight):
            _write_straight(item.block, item.passed, made)
            for op in operations(item.block)[:-1]:
                clone(op, made, ip)
        elif isinstance(item, If):
            _write_if(item, counts, made, ip)
        else:
            _write_straight(item.header, item.entry, made)
            _write_loop(item, counts, made, ip)
    return [made.get(value, value) for value in path.end]


def _write_straight(block: Block, passed: tuple[Value, ...], made: Values) -> None:
    given = [made.get(value, value) for value in passed]
    made.update(zip(block.arguments, given, strict=True))


def _write_if(item: If, counts: dict[Block, CountedLoop], made: Values, ip: Any) -> None:
    test = terminator(item.block)
    condition = test.operands[0]
    types = [argument.type for argument in item.join.arguments]
    branch = create(
        "scf.if", [made.get(condition, condition)], types, regions=2, ip=ip, loc=test.location
    )
    for region, path in zip(branch.regions, item.arms, strict=True):
        if not types and not path.items and region == branch.regions[1]:
            continue
        inside = ir.InsertionPoint(region.blocks.append())
        end = _write_path(path, counts, dict(made), inside)
        create("scf.yield", end, ip=inside, loc=test.location)
    made.update(zip(item.join.arguments, branch.results, strict=True))


@dataclass(frozen=True)
class _Form:
    """`scf.for %iv = lower to upper step step`; `sums` are those computed from `%iv`."""

    lower: Value
    upper: Value
    step: Value
    sums: frozenset[int]


def _write_loop(
    loop: BranchLoop, counts: dict[Block, CountedLoop], made: Values, ip: Any
) -> Operation:
    """Write a loop at `ip`; afterwards `made` has what its header's values are after it."""
    header, counted, loc = loop.header, counts[loop.header], loop.test.location
    starts = [made[argument] for argument in header.arguments]
    form = _form(loop, counted, starts, made, ip)
    needed, ops = _needed_after(loop)
    carried = [
        number
        for number, argument in enumerate(header.arguments)
        if number not in form.sums or argument in needed
    ]
    initial = [starts[number] for number in carried]
    for_op = write_for([form.lower, form.upper, form.step], initial, ip, loc)
    body = for_op.regions[0].blocks[0]
    inside = ir.InsertionPoint(body)
    index, *others = body.arguments
    inner = dict(made)
    for number, value in zip(carried, others, strict=True):
        inner[header.arguments[number]] = value
    for number in form.sums:
        value = _in_iteration(counted, number, starts, index, inner, inside, loc)
        inner[header.arguments[number]] = value
    _write_header(loop, operations(header)[:-1], loop.on == 0, inner, inside)
    end = _write_path(loop.body, counts, inner, inside)
    create("scf.yield", [end[number] for number in carried], ip=inside, loc=loc)
    for number, value in zip(carried, for_op.results, strict=True):
        made[header.arguments[number]] = value
    _write_header(loop, ops, loop.on == 1, made, ip)
    return for_op


def _write_header(
    loop: BranchLoop, ops: list[Operation], holds: bool, made: Values, ip: Any
) -> None:
    """Write ops of the header where it is known whether the condition holds."""
    condition = loop.test.operands[0]
    for op in ops:
        clone(op, made, ip)
        if len(op.results) and op.results[0] == condition:
            made[condition] = constant(holds, condition.type, ip, op.location)


def _form(
    loop: BranchLoop, counted: CountedLoop, starts: list[Value], made: Values, ip: Any
) -> _Form:
    loc = loop.test.location
    if not isinstance(counted.by, CountDown):
        number = counted.by.index
        kind = starts[number].type
        end = made.get(counted.by.end, counted.by.end)
        step = constant(counted.by.step, kind, ip, loc)
        return _Form(starts[number], end, step, frozenset({number}))
    left = starts[counted.by.left]
    same = {n for n in counted.sums if starts[n].type == left.type} | {counted.by.left}
    zero, one = (constant(number, left.type, ip, loc) for number in (0, 1))
    return _Form(zero, left, one, frozenset(same))


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
    if not isinstance(counted.by, CountDown):
        return index

    write, start = IntegerWriter(ip, loc), starts[number]
    if number == counted.by.left:
        return write.subtract(start, index)
    step = made.get(counted.sums[number], counted.sums[number])
    value = write.add(start, write.multiply(index, step))
    if _stays_below_an_end(starts[counted.by.left], start, step):
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
    predicate = int(ir.IntegerAttr(source_op(chosen[0]).attributes["predicate"]).value)
    if PREDICATES[predicate] != "sgt" or integer_constant(test[1]) != 0:
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
    needed = set(loop.leave.operands)
    ops = operations(header)[:-1]
    for value in (*header.arguments, *(result for op in ops for result in op.results)):
        if any(_block_of(user, function) not in loop.members for user in users(value)):
            needed.add(value)
    needed = needed_values(needed, set(ops))
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
