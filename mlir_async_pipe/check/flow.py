"""A kernel as one flat graph of blocks, whatever mix of scf, cf and calls it is written in.

    scf.for        header (loop test) -> body -> header …  and header -> behind it
    scf.if         two edges and a join;  cf.br, cf.cond_br: edges
    call of a known function: its body stands in place, with names of its own (a *frame*)

Edges carry assignments (block arguments, iter_args, results) and say which loops they enter,
repeat or leave. Loops without commits, waits and barriers become straight *summary* code: the
body once, its induction variable "any value of the range".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.ir_helpers import (
    constant_value,
    defining_op,
    has_body,
    is_function,
    operations,
    symbol_name,
    walk,
)
from mlir_async_pipe.vocabulary import row_of

# Calls deeper than this (recursion, above all) are opaque.
DEEPEST_CALL = 8


@dataclass(frozen=True)
class Edge:
    """Where control goes, what it assigns on the way (destination, source), which loops it
    enters, repeats ("back") or leaves."""

    target: int
    assigns: tuple[tuple[int, int], ...] = ()
    loops: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Run:
    """Execute one op. `maybe`: it stands under a condition inside summary code."""

    op: Any
    frame: int
    maybe: bool = False


@dataclass(frozen=True)
class Copy:
    """Assign values in straight code."""

    assigns: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class AnyIteration:
    """Bind the induction variable of a summary loop to any value of its range."""

    loop: int
    variable: int


@dataclass(frozen=True)
class Bracket:
    """The begin or end of a scope or of a call in place."""

    kind: str
    op: Any
    frame: int


Step = Run | Copy | AnyIteration | Bracket


@dataclass(frozen=True)
class Goto:
    """One way on."""

    edge: Edge


@dataclass(frozen=True)
class Branch:
    """Two ways, by an i1."""

    condition: int
    then: Edge
    otherwise: Edge


@dataclass(frozen=True)
class LoopTest:
    """Into the body if another iteration runs, else out."""

    loop: int
    body: Edge
    out: Edge


@dataclass(frozen=True)
class Switch:
    """One of several ways, by an integer."""

    value: int
    cases: tuple[tuple[int, Edge], ...]
    default: Edge


@dataclass(frozen=True)
class Stop:
    """The end of the kernel."""


Exit = Goto | Branch | LoopTest | Switch | Stop


@dataclass
class Block:
    """Straight code and the ways out of it."""

    number: int
    steps: list[Step] = field(default_factory=list)
    exit: Exit = field(default_factory=Stop)
    merges: bool = False


@dataclass
class Loop:
    """A loop: bounds as value numbers (scf.for), its variable, and values that grow steadily.

    `inductions` maps a header argument to what each iteration adds to it.
    """

    number: int
    lower: int | None = None
    upper: int | None = None
    step: int | None = None
    variable: int | None = None
    place: Any = None
    inductions: dict[int, int] = field(default_factory=dict)


@dataclass
class Flow:
    """The graph of one kernel. `values[i]` is (frame, IR value) of value number i."""

    blocks: list[Block] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    values: list[tuple[int, Any]] = field(default_factory=list)
    numbers: dict[tuple[int, Any], int] = field(default_factory=dict)
    frames: int = 1

    def number(self, frame: int, value: Any) -> int:
        """The number of a value in a frame."""
        key = (frame, value)
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.values)
            self.values.append(key)
        return found

    def edges(self, block: Block) -> Iterator[Edge]:
        """All edges out of a block."""
        match block.exit:
            case Goto(edge):
                yield edge
            case Branch(_, then, otherwise):
                yield then
                yield otherwise
            case LoopTest(_, body, out):
                yield body
                yield out
            case Switch(_, cases, default):
                yield from (edge for _, edge in cases)
                yield default
            case Stop():
                return


def build(kernel: Any, callees: dict[str, Any]) -> Flow:
    """The graph of a function-like op or gpu.launch; `callees` are functions by name."""
    flow = Flow()
    builder = _Builder(flow, callees)
    first = builder.block()
    builder.region(kernel.regions[0], 0, first, lambda block, op: None)
    _find_merges(flow)
    _find_inductions(flow)
    return flow


Leave = Callable[[Block, Any], None]


@dataclass
class _Builder:
    flow: Flow
    callees: dict[str, Any]
    depth: int = 0
    summary: int = 0
    maybe: bool = False

    def block(self) -> Block:
        made = Block(len(self.flow.blocks))
        self.flow.blocks.append(made)
        return made

    def region(self, region: Any, frame: int, entry: Block, leave: Leave) -> None:
        """Put a region behind `entry`; `leave(block, terminator)` ends the ways out of it."""
        blocks = list(region.blocks)
        mapped = {blocks[0]: entry}
        for extra in blocks[1:]:
            mapped[extra] = self.block()
        back, loops = _natural_loops(blocks) if len(blocks) > 1 else ({}, {})
        header_loop: dict[Any, Loop] = {}
        for header in loops:
            header_loop[header] = self.loop(place=header.owner.operation)
        for source in blocks:
            current = mapped[source]
            *body, last = operations(source) or [None]
            if last is None:
                continue
            if not _ends_block(last):
                body.append(last)
            for op in body:
                current = self.op(op, frame, current)
            if last.name in ("cf.br", "cf.cond_br", "cf.switch", "llvm.br", "llvm.cond_br"):
                self._jump(last, frame, source, current, mapped, loops, header_loop, back)
            elif _ends_block(last):
                leave(current, last)

    def loop(self, place: Any) -> Loop:
        made = Loop(len(self.flow.loops), place=place)
        self.flow.loops.append(made)
        return made

    def op(self, op: Any, frame: int, current: Block) -> Block:
        """Append one op; gives the block in which control goes on."""
        match op.name:
            case "scf.for":
                if not needs_iterations(op):
                    return self._summary(op, frame, current)
                return self._for(op, frame, current)
            case "scf.parallel" | "scf.forall" | "affine.for" | "affine.parallel":
                return self._summary(op, frame, current)
            case "scf.while":
                return self._while(op, frame, current)
            case "scf.if" | "affine.if":
                return self._if(op, frame, current)
            case "scf.index_switch":
                return self._switch(op, frame, current)
            case "scf.execute_region" | "memref.alloca_scope":
                return self._inline(op, op.regions[0], frame, frame, current, list(op.results))
            case "async_pipe.scope":
                current.steps.append(Bracket("scope", op, frame))
                after = self._inline(op, op.regions[0], frame, frame, current, [])
                after.steps.append(Bracket("end scope", op, frame))
                return after
            case "func.call" | "call" | "llvm.call":
                return self._call(op, frame, current)
        current.steps.append(Run(op, frame, self.maybe))
        return current

    def _pairs(self, targets: Any, t_frame: int, sources: Any, s_frame: int) -> Any:
        number = self.flow.number
        return tuple(
            (number(t_frame, t), number(s_frame, s))
            for t, s in zip(list(targets), list(sources), strict=False)
        )

    def _for(self, op: Any, frame: int, current: Block) -> Block:
        flow = self.flow
        loop = self.loop(op)
        loop.lower, loop.upper, loop.step = (flow.number(frame, op.operands[i]) for i in range(3))
        body_block = op.regions[0].blocks[0]
        arguments = list(body_block.arguments)
        loop.variable = flow.number(frame, arguments[0])
        header, body, after = self.block(), self.block(), self.block()
        current.exit = Goto(
            Edge(
                header.number,
                self._pairs(arguments[1:], frame, list(op.operands)[3:], frame),
                (("enter", loop.number),),
            )
        )
        header.exit = LoopTest(
            loop.number,
            Edge(body.number),
            Edge(
                after.number,
                self._pairs(op.results, frame, arguments[1:], frame),
                (("leave", loop.number),),
            ),
        )

        def repeat(block: Block, last: Any) -> None:
            pairs = self._pairs(arguments[1:], frame, last.operands, frame)
            block.exit = Goto(Edge(header.number, pairs, (("back", loop.number),)))

        self.region(op.regions[0], frame, body, repeat)
        return after

    def _summary(self, op: Any, frame: int, current: Block) -> Block:
        """A loop whose iterations cannot be told apart by the queues: its body once."""
        loop = self.loop(op)
        number = self.flow.number
        block = op.regions[0].blocks[0]
        if op.name == "scf.for":
            loop.lower, loop.upper, loop.step = (number(frame, op.operands[i]) for i in range(3))
        variables = 1 if op.name in ("scf.for", "affine.for") else len(list(block.arguments))
        for argument in list(block.arguments)[:variables]:
            current.steps.append(AnyIteration(loop.number, number(frame, argument)))
        outer = self.maybe
        self.maybe = outer or op.name != "scf.for"
        self.summary += 1
        last = self._straight(op.regions[0], frame, current)
        self.summary -= 1
        self.maybe = outer
        return last

    def _straight(self, region: Any, frame: int, current: Block) -> Block:
        for op in operations(region.blocks[0]):
            if op.name in ("scf.if", "affine.if"):
                outer, self.maybe = self.maybe, True
                for inner in op.regions:
                    if len(list(inner.blocks)):
                        current = self._straight(inner, frame, current)
                self.maybe = outer
            elif not _ends_block(op):
                current = self.op(op, frame, current)
        return current

    def _if(self, op: Any, frame: int, current: Block) -> Block:
        after = self.block()
        edges = []

        def leave(block: Block, last: Any) -> None:
            block.exit = Goto(
                Edge(after.number, self._pairs(op.results, frame, last.operands, frame))
            )

        for region in op.regions:
            inner = self.block()
            edges.append(Edge(inner.number))
            if len(list(region.blocks)):
                self.region(region, frame, inner, leave)
            else:
                inner.exit = Goto(Edge(after.number))
        condition = op.operands[0] if op.name == "scf.if" else None
        number = self.flow.number(frame, condition if condition is not None else op)
        current.exit = Branch(number, edges[0], edges[1])
        return after

    def _switch(self, op: Any, frame: int, current: Block) -> Block:
        after = self.block()
        edges = []

        def leave(block: Block, last: Any) -> None:
            block.exit = Goto(
                Edge(after.number, self._pairs(op.results, frame, last.operands, frame))
            )

        for region in op.regions:
            inner = self.block()
            edges.append(Edge(inner.number))
            self.region(region, frame, inner, leave)
        cases = list(ir.DenseI64ArrayAttr(op.attributes["cases"]))
        current.exit = Switch(
            self.flow.number(frame, op.operands[0]),
            tuple((int(case), edge) for case, edge in zip(cases, edges[1:], strict=True)),
            edges[0],
        )
        return after

    def _while(self, op: Any, frame: int, current: Block) -> Block:
        loop = self.loop(op)
        head, body, after = self.block(), self.block(), self.block()
        before_block = op.regions[0].blocks[0]
        after_block = op.regions[1].blocks[0]
        current.exit = Goto(
            Edge(
                head.number,
                self._pairs(before_block.arguments, frame, op.operands, frame),
                (("enter", loop.number),),
            )
        )

        def test(block: Block, last: Any) -> None:
            passed = list(last.operands)[1:]
            block.exit = Branch(
                self.flow.number(frame, last.operands[0]),
                Edge(body.number, self._pairs(after_block.arguments, frame, passed, frame)),
                Edge(
                    after.number,
                    self._pairs(op.results, frame, passed, frame),
                    (("leave", loop.number),),
                ),
            )

        def repeat(block: Block, last: Any) -> None:
            pairs = self._pairs(before_block.arguments, frame, last.operands, frame)
            block.exit = Goto(Edge(head.number, pairs, (("back", loop.number),)))

        self.region(op.regions[0], frame, head, test)
        self.region(op.regions[1], frame, body, repeat)
        return after

    def _inline(
        self, op: Any, region: Any, frame: int, outer: int, current: Block, results: list[Any]
    ) -> Block:
        """A region that runs once, in place; its terminator's operands become `results`."""
        inner, after = self.block(), self.block()
        current.exit = Goto(Edge(inner.number))

        def leave(block: Block, last: Any) -> None:
            block.exit = Goto(Edge(after.number, self._pairs(results, outer, last.operands, frame)))

        self.region(region, frame, inner, leave)
        return after

    def _call(self, op: Any, frame: int, current: Block) -> Block:
        callee = None
        if "callee" in op.attributes:
            callee = self.callees.get(str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value))
        if callee is None or not has_body(callee) or self.depth >= DEEPEST_CALL:
            current.steps.append(Run(op, frame, self.maybe))
            return current
        inner_frame = self.flow.frames
        self.flow.frames += 1
        arguments = callee.regions[0].blocks[0].arguments
        current.steps.append(Copy(self._pairs(arguments, inner_frame, op.operands, frame)))
        current.steps.append(Bracket("call", op, frame))
        self.depth += 1
        after = self._inline(op, callee.regions[0], inner_frame, frame, current, list(op.results))
        self.depth -= 1
        after.steps.append(Bracket("end call", op, frame))
        return after

    def _jump(
        self,
        op: Any,
        frame: int,
        source: Any,
        current: Block,
        mapped: dict[Any, Block],
        loops: dict[Any, set[Any]],
        header_loop: dict[Any, Loop],
        back: dict[Any, set[Any]],
    ) -> None:
        successors = list(op.successors)

        def edge(target: Any, operands: list[Any]) -> Edge:
            moves: list[tuple[str, int]] = []
            for header, body in loops.items():
                if source in body and target not in body:
                    moves.append(("leave", header_loop[header].number))
            for header, body in loops.items():
                if target == header:
                    kind = "back" if source in body else "enter"
                    moves.append((kind, header_loop[header].number))
            pairs = self._pairs(target.arguments, frame, operands, frame)
            return Edge(mapped[target].number, pairs, tuple(moves))

        operands = list(op.operands)
        if op.name in ("cf.br", "llvm.br"):
            current.exit = Goto(edge(successors[0], operands))
            return
        segments = list(
            ir.DenseI32ArrayAttr(
                op.attributes[
                    "operandSegmentSizes" if op.name != "cf.switch" else "case_operand_segments"
                ]
            )
        )
        if op.name == "cf.switch":
            self._cf_switch(op, frame, current, successors, segments, edge)
            return
        middle = 1 + segments[1]
        current.exit = Branch(
            self.flow.number(frame, operands[0]),
            edge(successors[0], operands[1:middle]),
            edge(successors[1], operands[middle:]),
        )

    def _cf_switch(
        self,
        op: Any,
        frame: int,
        current: Block,
        successors: list[Any],
        segments: list[int],
        edge: Callable[[Any, list[Any]], Edge],
    ) -> None:
        operands = list(op.operands)
        rest = len(operands) - 1 - sum(segments)
        position = 1 + rest
        default = edge(successors[0], operands[1:position])
        cases = []
        values = [int(v) for v in ir.DenseIntElementsAttr(op.attributes["case_values"])]
        for value, target, count in zip(values, successors[1:], segments, strict=True):
            cases.append((value, edge(target, operands[position : position + count])))
            position += count
        current.exit = Switch(self.flow.number(frame, operands[0]), tuple(cases), default)


_TERMINATORS = frozenset(
    "scf.yield scf.condition scf.reduce scf.forall.in_parallel affine.yield func.return "
    "gpu.return llvm.return gpu.terminator async_pipe.yield memref.alloca_scope.return cf.br "
    "cf.cond_br cf.switch llvm.br llvm.cond_br llvm.unreachable".split()
)


def _ends_block(op: Any) -> bool:
    return op.name in _TERMINATORS


def needs_iterations(loop: Any) -> bool:
    """Whether a loop must be followed iteration by iteration.

    It need not if its body has no commit, wait, barrier, call or control flow that the
    summary cannot hold, and does not mix async ops with other accesses or conditions.
    """
    has_async = has_sync = False
    for op in walk(loop):
        if op == loop:
            continue
        row = row_of(op)
        if op.name in ("scf.while", "scf.index_switch", "async_pipe.scope") or "call" in op.name:
            return True
        if len(op.regions) and op.name not in ("scf.for", "scf.if"):
            return True
        has_sync = has_sync or op.name == "scf.if"
        if row is None:
            continue
        if row.commits or row.wait or row.barrier is not None:
            return True
        has_async = has_async or row.asynchronous(op)
        has_sync = has_sync or (bool(row.accesses) and not row.asynchronous(op))
    return has_async and has_sync


def _natural_loops(blocks: list[Any]) -> tuple[dict[Any, set[Any]], dict[Any, set[Any]]]:
    """Back edges by header, and the blocks of each header's loop, of one region."""
    successors = {b: list(operations(b)[-1].successors) if operations(b) else [] for b in blocks}
    predecessors: dict[Any, list[Any]] = {b: [] for b in blocks}
    for source, targets in successors.items():
        for target in targets:
            predecessors[target].append(source)
    back: dict[Any, set[Any]] = {}
    on_path: dict[Any, bool] = {}
    stack = [(blocks[0], iter(successors[blocks[0]]))]
    on_path[blocks[0]] = True
    while stack:
        current, ways = stack[-1]
        target = next(ways, None)
        if target is None:
            on_path[current] = False
            stack.pop()
        elif target not in on_path:
            on_path[target] = True
            stack.append((target, iter(successors[target])))
        elif on_path[target]:
            back.setdefault(target, set()).add(current)
    loops: dict[Any, set[Any]] = {}
    for header, sources in back.items():
        body = {header}
        pending = list(sources)
        while pending:
            block = pending.pop()
            if block not in body:
                body.add(block)
                pending.extend(predecessors[block])
        loops[header] = body
    return back, loops


def _find_merges(flow: Flow) -> None:
    seen: set[int] = set()
    for block in flow.blocks:
        for edge in flow.edges(block):
            if edge.target in seen or any(kind == "back" for kind, _ in edge.loops):
                flow.blocks[edge.target].merges = True
            seen.add(edge.target)


def _find_inductions(flow: Flow) -> None:
    """Header arguments that every back edge sets to themselves plus one constant."""
    added: dict[tuple[int, int], set[int | None]] = {}
    for block in flow.blocks:
        for edge in flow.edges(block):
            for kind, loop in edge.loops:
                if kind == "back":
                    for target, source in edge.assigns:
                        step = _step_between(flow, target, source)
                        added.setdefault((loop, target), set()).add(step)
    for (loop, target), steps in added.items():
        if len(steps) == 1:
            (step,) = steps
            if step is not None:
                flow.loops[loop].inductions[target] = step


def _step_between(flow: Flow, target: int, source: int) -> int | None:
    """c if source = target + c, else None."""
    _, value = flow.values[source]
    _, argument = flow.values[target]
    op = defining_op(value)
    if op is None or op.name not in ("arith.addi", "index.add", "llvm.add"):
        return None
    a, b = op.operands[0], op.operands[1]
    if b == argument:
        a, b = b, a
    return constant_value(b) if a == argument else None


def callable_functions(module: Any) -> dict[str, Any]:
    """The functions of a module by name."""
    return {symbol_name(op): op for op in walk(module) if is_function(op)}
