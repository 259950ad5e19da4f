"""Builds a kernel's flat graph, whatever mix of scf, cf and calls it is written in.

    scf.for        header (loop test) -> body -> header …  and header -> after it
    scf.if         two edges and a join;  cf.br, cf.cond_br: edges
    other ops with regions: along the edges of their row (`flow.region_flow`)
    call of a known function: its body stands in place, with names of its own (a *frame*)

How ops with regions, branches and calls move control stands in the vocabulary. An op of which
it does not is *lost*: the graph says so where it stands, and `unfollowed` reports it.

Loops without commits, waits and barriers become straight *summary* code: the body once, its
induction variable "any value of the range". Ops that only compute data (a GEMM's arithmetic
on fragments) are left out: no address depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    ancestors,
    attributes_of,
    constant_value,
    defining_op,
    has_body,
    operations,
    terminator,
    walk,
)
from mlir_async_pipe.checker.selection import Callees, callee_of
from mlir_async_pipe.checker.step_graph import (
    AnyIteration,
    Assign,
    Block,
    Bracket,
    Branch,
    Constant,
    ControlEdge,
    Exit,
    Flow,
    Goto,
    Loop,
    LoopBounds,
    LoopTest,
    Lost,
    Run,
    Switch,
    is_bit,
    is_data,
    is_memory,
    loop_bodies,
)
from mlir_async_pipe.checker.unfollowed import is_quiet
from mlir_async_pipe.facts.flow.algorithms import natural_loops
from mlir_async_pipe.facts.flow.flow_graph import (
    Frame,
    Item,
    Node,
    connect,
    forwarded_along,
    item_with_frames,
)
from mlir_async_pipe.facts.flow.region_flow import (
    OUT,
    first_taken,
    forwarded,
    leaves,
    starts,
    taking,
    targets,
)
from mlir_async_pipe.facts.values.integer_ops import bits_of
from mlir_async_pipe.facts.values.uniformity import conditions
from mlir_async_pipe.vocabulary import Row, row_of
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CALL_OPS,
    COUNTED_LOOPS,
    EXIT_OPS,
    REGION_ROWS,
    BranchRow,
    affine_for_bounds,
    leaves_region,
)
from mlir_async_pipe.vocabulary.launch_ids import launch_id
from mlir_async_pipe.vocabulary.memory_names import MEMBER_TAKEN, POINTER_STEPS, taken_member
from mlir_async_pipe.vocabulary.operator_table import FLOAT_COMPARISONS, OPERATORS, is_operator
from mlir_async_pipe.vocabulary.tensor_memory import is_loaded

# Calls deeper than this (recursion, above all) are lost.
DEEPEST_CALL = 8

Leave = Callable[[Block, Any], None]


def build(kernel: Any, callees: Callees, has_assembly: bool) -> Flow:
    """The graph of a function-like op or gpu.launch; `callees`: functions that it may call."""
    builder = Builder(Flow(has_assembly), callees)
    builder.region(item_with_frames(kernel).frames[0], builder.block(), lambda block, op: None)
    find_merges(builder.flow)
    find_inductions(builder.flow)
    return builder.flow


@dataclass(frozen=True)
class Builder:
    """A place in a graph that is being built: the frame, how deep it is in calls, and which summary loops are around."""

    flow: Flow
    callees: Callees
    frame: int = 0
    depth: int = 0
    variables: tuple[int, ...] = ()
    maybe: bool = False
    # The first comparison of each two floats in a frame.
    compared: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def block(self) -> Block:
        made = Block(len(self.flow.blocks))
        self.flow.blocks.append(made)
        return made

    def loop(self, place: Any) -> Loop:
        made = Loop(len(self.flow.loops), place=place)
        self.flow.loops.append(made)
        return made

    def number(self, value: Any) -> int:
        return self.flow.number(self.frame, value)

    def pairs(
        self, targets: Iterable[Any], sources: Iterable[Any], given_by: Builder | None = None
    ) -> tuple[tuple[int, int], ...]:
        """What an edge assigns: numbers of (target, source), data left out; sources of the frame of `given_by`."""
        number = (given_by or self).number
        return tuple(
            (self.number(t), number(s))
            for t, s in zip(targets, sources, strict=False)
            if not self.flow.is_data(t)
        )

    def region(self, region: Frame, entry: Block, leave: Leave) -> None:
        """Put a region after `entry`; `leave(block, terminator)` ends the paths out of it."""
        mapped = {
            node: self.block() if number else entry for number, node in enumerate(region.nodes)
        }
        if len(mapped) > 1:
            nodes = {node.block: node for node in mapped}
            connect(region, nodes, lambda node: terminator(node.block))
        loops = natural_loops(region.entry, attrgetter("successors")) if len(mapped) > 1 else {}
        headers = {header: self.loop(place=region.item.op) for header in loops}
        for node, current in mapped.items():
            ops = operations(node.block)
            last = ops[-1] if ops else None
            for op in ops[:-1]:
                current = self.op(op, current)
            if last is None:
                continue
            self._forward(last, current)
            row = BRANCH_ROWS.get(last.name)
            if row is not None:
                edges = []
                for target, given in forwarded_along(node, last):
                    pairs = self.pairs(target.block.arguments, given)
                    moves = _moves(node, target, loops, headers)
                    edges.append(ControlEdge(mapped[target].number, pairs, moves))
                current.exit = self._jump(last, row, edges)
            else:
                self.end(last, current)
                if leaves(last):
                    leave(current, last)

    def _jump(self, end: Any, row: BranchRow, edges: list[ControlEdge]) -> Exit:
        """The exit of a block that ends in a branch of the vocabulary (cf or llvm)."""
        if row.condition:
            return Branch(self.number(end.operands[0]), *edges)
        if row.cases is None:
            return Goto(*edges)
        default, *chosen = edges
        cases = tuple(zip(row.cases(end), chosen, strict=True))
        return Switch(self.number(end.operands[0]), cases, default)

    def end(self, last: Any, current: Block) -> None:
        """What a terminator without a row of branches does itself: nothing, if it is known."""
        if not leaves_region(last):
            self._lose(last, current)
        elif len(last.regions) and not is_quiet(last):
            current.steps.append(Lost(last, self.frame))

    def op(self, op: Any, current: Block) -> Block:
        """Append one op; gives the block in which control goes on."""
        name = op.name
        row = REGION_ROWS.get(name)
        if row is None or row.flow == "isolated":
            return self._plain(op, name, current)
        item = item_with_frames(op)
        if row.flow == "once":
            return self._once(item, current)
        if row.flow in ("while", "branch"):
            return self._follow(item, current)
        if not needs_iterations(op):
            # The queues cannot distinguish the iterations: the body once.
            return self._any_iteration(item, current)._straight(op.regions[0], current)
        if row.flow == "parallel" and "mapping" in op.attributes:
            # A mapping gives each iteration to another thread or block: any one of them, once.
            return self._any_iteration(item, current).inline(item.frames[0], current, [])
        return self._iterate(item, current)

    def _plain(self, op: Any, name: str, current: Block) -> Block:
        """An op without regions, or one whose regions are followed by nobody."""
        if name in CALL_OPS and row_of(op).does == "unknown":
            return self._call(op, current)
        if name not in REGION_ROWS and (len(op.regions) or len(op.successors)):
            self._lose(op, current)
        else:
            self._append(op, current)
        return current

    def _lose(self, op: Any, current: Block) -> None:
        """An op that moves control in a way of its own, unless nothing can come of that."""
        if len(list(op.successors)) or not is_quiet(op):
            current.steps.append(Lost(op, self.frame))
        self._append(op, current)

    def _append(self, op: Any, current: Block) -> None:
        row = row_of(op)
        makes_values = row.pure and not len(op.regions)
        member = taken_member(op) if op.name == MEMBER_TAKEN else None
        same = self._compared_before(op) if op.name in FLOAT_COMPARISONS else member
        if same is not None:
            current.steps.append(Assign(self.pairs(op.results, [same])))
        elif not (makes_values and self.flow.is_only_data(op)):
            self._run(op, row, current, makes_values)

    def _compared_before(self, op: Any) -> Any:
        """What the same comparison gave before in this block or one around it; None for the first one. Of data no form says
        that two are one."""
        attributes = attributes_of(op)
        if "predicate" not in attributes:
            return None
        key = (self.frame, op.name, tuple(attributes.items()), *op.operands)
        found = self.compared.setdefault(key, op)
        around = (above.block for above in (op, *ancestors(op)))
        return found.results[0] if found != op and found.block in around else None

    def _run(self, op: Any, row: Row, current: Block, makes_values: bool) -> None:
        numbers = self.flow.numbers_of(self.frame, (*op.operands, *op.results))
        made = len(numbers) - len(op.results)
        where = (numbers[:made], numbers[made:], makes_values, self.maybe, self.variables)
        current.steps.append(Run(op, op.name, row, self.frame, *where))

    def _forward(self, last: Any, current: Block) -> None:
        """A terminator reads the registers that it passes on, which a load may still be filling."""
        if any(map(is_loaded, last.operands)):
            self._run(last, row_of(last), current, makes_values=True)

    def inline(
        self, region: Frame, current: Block, results: Sequence[Any], outer: Builder | None = None
    ) -> Block:
        """A region that runs once, in place; its terminator's operands become `results`, in the frame of `outer`."""
        outer = outer or self
        if len(region.nodes) == 1:
            *body, last = operations(region.entry.block)
            if last.name in EXIT_OPS and not len(last.regions):
                for op in body:
                    current = self.op(op, current)
                self._forward(last, current)
                current.steps.append(Assign(outer.pairs(results, last.operands, self)))
                return current
        inner, after = self.block(), self.block()
        current.exit = Goto(ControlEdge(inner.number))

        def leave(block: Block, last: Any) -> None:
            assigns = outer.pairs(results, last.operands, self)
            block.exit = Goto(ControlEdge(after.number, assigns))

        self.region(region, inner, leave)
        return after

    def _once(self, item: Item, current: Block) -> Block:
        """A region that runs in place; that of a scope is asynchronous."""
        op, (region,) = item.op, item.frames
        if not row_of(op).described or item.row.masked:
            return self.inline(region, current, op.results)
        current.steps.append(Bracket("scope", op, self.frame))
        after = self.inline(region, current, ())
        after.steps.append(Bracket("end scope", op, self.frame))
        return after

    def _call(self, op: Any, current: Block) -> Block:
        callee = callee_of(op, self.callees)
        if callee is None or not has_body(callee):
            # What a function of another module does with its own memory lies outside of this one.
            if callee is None or any(is_memory(operand.type) for operand in op.operands):
                current.steps.append(Lost(op, self.frame))
            self._append(op, current)
            return current
        if self.depth >= DEEPEST_CALL:
            self._lose(op, current)
            return current
        inner = replace(self, frame=self.flow.frames, depth=self.depth + 1)
        self.flow.frames += 1
        (region,) = item_with_frames(callee).frames
        arguments = region.entry.block.arguments
        for argument, operand in zip(arguments, op.operands, strict=True):
            self.flow.passed_in[inner.frame, argument] = self.frame, operand
        current.steps.append(Assign(inner.pairs(arguments, op.operands, self)))
        current.steps.append(Bracket("call", op, self.frame))
        after = inner.inline(region, current, op.results, self)
        after.steps.append(Bracket("end call", op, self.frame))
        return after

    # Ops with regions: each is appended to a block, and gives the block in which control goes on ------

    def _follow(self, item: Item, current: Block) -> Block:
        """A branch or a loop that runs while it says so itself."""
        op, row = item.op, item.row
        loop = self.loop(op) if row.flow == "while" else None
        paths = _Paths(self, item, loop, [self.block() for _ in item.frames], self.block())
        edges = paths.edges(OUT, starts(op, row))
        current.exit = self._choice(item, edges) if loop is None else Goto(*edges)
        for inner, head in zip(item.frames, paths.heads, strict=True):
            if inner.nodes:
                self.region(inner, head, paths.leave(inner.number))
            else:
                head.exit = Goto(paths.edge(inner.number, OUT, ()))
        return paths.after

    def _choice(self, item: Item, edges: list[ControlEdge]) -> Exit:
        """The edge into one of several regions; an affine.if is taken or not, by a bit of its own."""
        op, row = item.op, item.row
        condition = op if row.condition is None else op.operands[row.condition]
        if row.condition is None or is_bit(condition.type):
            return Branch(self.number(condition), *edges)
        cases = row.cases(op)
        (rest,) = (edge for place, edge in enumerate(edges) if place not in cases.values())
        chosen = tuple((value, edges[place]) for value, place in cases.items())
        return Switch(self.number(condition), chosen, rest)

    def _iterate(self, item: Item, current: Block) -> Block:
        """A loop whose iterations run one after the other, as often as its bounds say. Without such
        bounds they run in any order and number: the same ones in all threads whose bounds are the
        same, since one code, made of the bounds, orders them."""
        op = item.op
        loop = self.loop(op)
        arguments = list(item.frames[0].entry.block.arguments)
        carried = taking(op, item.row, item.frames[0].entry.block)
        variables = arguments[: len(arguments) - len(carried)]
        header, body, after = self.block(), self.block(), self.block()
        if self._bind_bounds(loop, op):
            loop.variable = self.number(variables[0])
        else:
            loop.decided_by = tuple(map(self.number, conditions(op)))
            for dimension, argument in enumerate(variables):
                bounds = self._range_of(op, dimension)
                bounds.decided_by = loop.decided_by
                body.steps.append(AnyIteration(bounds.number, self.number(argument)))
        paths = _Paths(self, item, loop, [header], after)
        current.exit = Goto(paths.edge(OUT, 0, starts(op, item.row)))
        header.exit = LoopTest(loop.number, ControlEdge(body.number), paths.edge(0, OUT, carried))

        def repeat(block: Block, last: Any) -> None:
            block.exit = Goto(paths.edge(0, 0, forwarded(last)))

        self.region(item.frames[0], body, repeat)
        return after

    def _bind_bounds(self, loop: Loop, op: Any) -> bool:
        """Tell a loop the bounds of a counted one; False if they are no values."""
        bounds = _loop_bounds(op) if op.name in COUNTED_LOOPS else None
        if bounds is None:
            return False
        loop.bounds = LoopBounds(*map(self.number, bounds))
        loop.unsigned = "unsignedCmp" in op.attributes
        loop.bits = bits_of(op.regions[0].blocks[0].arguments[0].type)
        return True

    def _range_of(self, op: Any, dimension: int) -> Loop:
        """The bounds of one induction variable of an scf.parallel; others have none here."""
        made = self.loop(op)
        if op.name == "scf.parallel":
            count = len(op.regions[0].blocks[0].arguments)
            bounds = [op.operands[dimension + count * kind] for kind in range(3)]
            made.bounds = LoopBounds(*map(self.number, bounds))
        return made

    def _any_iteration(self, item: Item, current: Block) -> Builder:
        """Inside of a loop, in any of its iterations; without known bounds, in none."""
        loop = self.loop(item.op)
        block = item.frames[0].entry.block
        bounded = self._bind_bounds(loop, item.op)
        variables = list(block.arguments)[: first_taken(item.op, item.row, block)]
        numbers = [self.number(variable) for variable in variables]
        current.steps.extend(AnyIteration(loop.number, number) for number in numbers)
        around = (*self.variables, *numbers[:1])
        return replace(self, maybe=self.maybe or not bounded, variables=around)

    def _straight(self, region: Any, current: Block) -> Block:
        """A region of a summary loop: what its branches hold may happen or not."""
        *body, end = operations(region.blocks[0])
        for op in body:
            row = REGION_ROWS.get(op.name)
            if row is not None and row.flow == "branch":
                for inner in op.regions:
                    if len(list(inner.blocks)):
                        current = replace(self, maybe=True)._straight(inner, current)
            else:
                current = self.op(op, current)
        self.end(end, current)
        return current


def _moves(
    source: Node, target: Node, loops: dict[Node, set[Node]], headers: dict[Node, Loop]
) -> tuple[tuple[str, int], ...]:
    """Which loops the edge from one block to another leaves, enters or repeats."""
    left = [
        ("leave", headers[header].number)
        for header, body in loops.items()
        if source in body and target not in body
    ]
    if target not in loops:
        return tuple(left)
    kind = "back" if source in loops[target] else "enter"
    return (*left, (kind, headers[target].number))


@dataclass(frozen=True)
class _Paths:
    """The edges between the regions of one op: `heads` are the blocks in which they begin,
    `after` is the one after the op, `loop` the loop that they make up."""

    builder: Builder
    item: Item
    loop: Loop | None
    heads: list[Block]
    after: Block

    def edges(self, source: int, values: Sequence[Any]) -> list[ControlEdge]:
        """The edges from a place, which forward these values."""
        places = targets(self.item.row, source, len(self.heads))
        return [self.edge(source, place, values) for place in places]

    def edge(self, source: int, target: int, values: Sequence[Any]) -> ControlEdge:
        block, taken = self.after, self.item.op.results
        if target != OUT:
            block, nodes = self.heads[target], self.item.frames[target].nodes
            taken = taking(self.item.op, self.item.row, nodes[0].block) if nodes else []
        assigns = self.builder.pairs(taken, values)
        return ControlEdge(block.number, assigns, self._moves(source, target))

    def _moves(self, source: int, target: int) -> tuple[tuple[str, int], ...]:
        if self.loop is None or OUT != source < target:
            return ()
        kind = "leave" if target == OUT else "enter" if source == OUT else "back"
        return ((kind, self.loop.number),)

    def leave(self, source: int) -> Leave:
        """What ends the paths out of a region: an i1 decides between two of them."""

        def end(block: Block, last: Any) -> None:
            first, *others = self.edges(source, forwarded(last))
            block.exit = Goto(first)
            if others:
                block.exit = Branch(self.builder.number(last.operands[0]), first, *others)

        return end


def _loop_bounds(op: Any) -> tuple[Any, Any, Any] | None:
    """Lower bound, upper bound and step of a counted loop, values or `Constant`s; None where a bound is neither."""
    if op.name == "scf.for":
        lower, upper, step = list(op.operands)[:3]
        return lower, upper, step
    found = affine_for_bounds(op)
    if found is None:
        return None
    lower, upper, step = (Constant(b) if isinstance(b, int) else b for b in found)
    return lower, upper, step


# A prologue written as a loop has as many iterations as a ring has slots.
SHORT_LOOP = 16


def needs_iterations(loop: Any) -> bool:
    """Whether a loop must be followed iteration by iteration.

    It need not if all it does is to read and write memory, or to issue copies, in straight code, and it carries nothing
    but data: then its body once, with any value of the induction variable, says it all.
    """
    has_async = has_sync = conditions = False
    for op in walk(loop):
        flow = REGION_ROWS.get(op.name)
        if flow is not None and any(not is_data(value.type) for value in starts(op, flow)):
            return True
        if op.name in CALL_OPS:
            return True
        if len(op.regions) and op != loop and op.name not in (*COUNTED_LOOPS, "scf.if"):
            return True
        conditions = conditions or op.name == "scf.if"
        row = row_of(op)
        if row.phase is not None or row.tensor is not None or row.swizzled or row.descriptors:
            return True
        if row.commits or row.wait or row.barrier is not None or row.meeting is not None:
            return True
        has_async = has_async or row.asynchronous(op)
        has_sync = has_sync or (bool(row.accesses) and not row.asynchronous(op))
    return has_async and (has_sync or (conditions and is_short(loop)))


def is_short(loop: Any) -> bool:
    """Whether a loop certainly has few iterations: those are followed, conditions and all."""
    trips = REGION_ROWS[loop.name].trips(loop)
    return trips is not None and trips <= SHORT_LOOP


def find_merges(flow: Flow) -> None:
    """Mark the blocks in which paths meet: those of all iterations after a loop, too."""
    seen: set[int] = set()
    for _, edge in flow.all_edges():
        if edge.target in seen or any(kind != "enter" for kind, _ in edge.loops):
            flow.blocks[edge.target].merges = True
        seen.add(edge.target)


def find_inductions(flow: Flow) -> None:
    """Header arguments that every back edge sets to themselves plus one constant, or moves on by what does not change in
    the loop."""
    added: dict[tuple[int, int], set[int | None]] = {}
    moved: dict[tuple[int, int], set[int]] = {}
    sources = _sources(flow)
    for loop, _, edge in flow.edges_of_loops("back"):
        for target, source in edge.assigns:
            step = _step_between(flow, target, source, sources)
            added.setdefault((loop, target), set()).add(step)
            if step is None:
                origin = _origin(source, sources, target)
                moved.setdefault((loop, target), set()).add(origin)
    for (loop, target), (step, *others) in added.items():
        if step is not None and not others:
            flow.loops[loop].inductions[target] = step
    if moved:
        _find_advances(flow, moved, sources)
    counting = [
        one for one in flow.loops if one.bounds is None and (one.inductions or _by_block(one, flow))
    ]
    bodies = dict(loop_bodies(flow).values()) if counting else {}
    for one in counting:
        blocks = [flow.blocks[number] for number in sorted(bodies.get(one.number, ()))]
        _find_counted(flow, one, blocks)


def _find_counted(flow: Flow, loop: Loop, blocks: list[Block]) -> None:
    """What an iteration of a loop adds to the numbers that it counts and to what is made of them, by value number:

    %k = phi, %next = %k + 64, %at = %next - 1      64
    %slot = %k mod 3, %i = phi, %i + %size          None: no constant
    %more = %next < %n                              left out: a condition
    """
    found: dict[int, int | None] = {**dict.fromkeys(_by_block(loop, flow)), **loop.inductions}
    made_of = {counter: {counter} for counter in loop.inductions}
    parts = [_runs_and_assigns(flow, block) for block in blocks]
    before = -1
    while before != len(found):
        before = len(found)
        for runs, assigns in parts:
            for run in runs:
                if not found.keys().isdisjoint(run.operands):
                    steps = [found[n] for n in run.operands if n in found]
                    counters = set[int]().union(*(made_of.get(n, ()) for n in run.operands))
                    for result in run.results:
                        if not is_bit(flow.values[result][1].type):
                            found.setdefault(result, _step_of_result(run, steps))
                            made_of.setdefault(result, counters)
            for target, source in assigns:
                if source in found and not is_bit(flow.values[target][1].type):
                    found.setdefault(target, None)
    loop.counted, loop.compared = found, set(loop.inductions)
    for run in (run for runs, _ in parts for run in runs):
        if is_operator(run.name, "cmp") and not found.keys().isdisjoint(run.operands):
            loop.compared.update(run.operands)
            loop.tested.update(*(made_of.get(n, ()) for n in run.operands))


def _by_block(loop: Loop, flow: Flow) -> list[int]:
    """The numbers that a loop moves on by constants and sizes of the block, which may be known."""
    found = []
    for target, (run, moved) in loop.advances.items():
        steps = [flow.values[number][1] for number in run.operands if number != moved]
        if is_operator(run.name, "add") and all(map(_is_of_sizes, steps)):
            found.append(target)
    return found


def _is_of_sizes(value: Any) -> bool:
    if not hasattr(value, "type"):
        return False
    of, op = launch_id(value), defining_op(value)
    if of is not None or constant_value(value) is not None:
        return of is None or of.kind == "block_size"
    return op is not None and op.name in OPERATORS and all(map(_is_of_sizes, op.operands))


def _runs_and_assigns(flow: Flow, block: Block) -> tuple[list[Run], list[tuple[int, int]]]:
    """The ops of a block, and what is assigned in it and on the edges out of it."""
    assigns = [pair for edge in flow.edges(block) for pair in edge.assigns]
    assigns += [pair for step in block.steps if isinstance(step, Assign) for pair in step.assigns]
    return [step for step in block.steps if isinstance(step, Run)], assigns


def _step_of_result(run: Run, steps: list[int | None]) -> int | None:
    """What is added to a sum, or difference, of a counted number and a constant."""
    is_sum = is_operator(run.name, "add") or (
        is_operator(run.name, "sub") and constant_value(run.op.operands[1]) is not None
    )
    constants = [constant_value(operand) is not None for operand in run.op.operands]
    return steps[0] if is_sum and len(steps) == 1 and any(constants) else None


def _find_advances(
    flow: Flow, moved: dict[tuple[int, int], set[int]], sources: dict[int, int]
) -> None:
    """Of what loops carry, pointers and numbers that one op moves on by what is from before the loop:
    getelementptr %p[%n], %i + %n."""
    bodies = dict(loop_bodies(flow).values())
    for (loop, target), origins in moved.items():
        parts = [_runs_and_assigns(flow, flow.blocks[n]) for n in bodies.get(loop, ())]
        runs = {n: run for part, _ in parts for run in part for n in run.results}
        made = {*runs, *(target for _, assigns in parts for target, _ in assigns)}
        step = runs.get(min(origins)) if len(origins) == 1 else None
        if step is None or not (
            POINTER_STEPS.get(step.name) == "window" or is_operator(step.name, "add")
        ):
            continue
        mine = [n for n in step.operands if _origin(n, sources, target) == target]
        if len(mine) == 1 and made.isdisjoint(set(step.operands) - set(mine)):
            flow.loops[loop].advances[target] = (step, mine[0])


def _sources(flow: Flow) -> dict[int, int]:
    """The block arguments that are given one value only, and which: an scf.while hands the
    values of its condition region to its body."""
    given: dict[int, set[int]] = {}
    for _, edge in flow.all_edges():
        for target, source in edge.assigns:
            given.setdefault(target, set()).add(source)
    return {target: next(iter(s)) for target, s in given.items() if len(s) == 1}


def _step_between(flow: Flow, target: int, source: int, sources: dict[int, int]) -> int | None:
    """c if source = target + c, else None."""
    frame, value = flow.values[_origin(source, sources, target)]
    op = defining_op(value)
    if op is None or not is_operator(op.name, "add"):
        return None
    for argument, other in (op.operands, reversed(list(op.operands))):
        if _origin(flow.number(frame, argument), sources, target) == target:
            return constant_value(other)
    return None


def _origin(number: int, sources: dict[int, int], target: int) -> int:
    """What a value is before block arguments hand it on, as far back as `target`."""
    seen = set()
    while number != target and number in sources and number not in seen:
        seen.add(number)
        number = sources[number]
    return number
