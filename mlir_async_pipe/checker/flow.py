"""Builds a kernel's flat graph, whatever mix of scf, cf and calls it is written in.

    scf.for        header (loop test) -> body -> header …  and header -> behind it
    scf.if         two edges and a join;  cf.br, cf.cond_br: edges
    call of a known function: its body stands in place, with names of its own (a *frame*)

Loops without commits, waits and barriers become straight *summary* code: the body once, its
induction variable "any value of the range".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.checker.graph import (
    AnyIteration,
    Block,
    Bracket,
    Branch,
    Copy,
    Edge,
    Flow,
    Goto,
    Loop,
    LoopTest,
    Run,
    Switch,
)
from mlir_async_pipe.checker.loops import (
    find_inductions,
    find_merges,
    is_value_op,
    natural_loops,
    needs_iterations,
)
from mlir_async_pipe.ir_helpers import has_body, is_function, operations, symbol_name
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS

# Calls deeper than this (recursion, above all) are opaque.
DEEPEST_CALL = 8


def build(kernel: Any, callees: dict[str, Any]) -> Flow:
    """The graph of a function-like op or gpu.launch; `callees` are functions by name."""
    flow = Flow()
    builder = _Builder(flow, callees)
    first = builder.block()
    builder.region(kernel.regions[0], 0, first, lambda block, op: None)
    find_merges(flow)
    find_inductions(flow)
    return flow


Leave = Callable[[Block, Any], None]


@dataclass
class _Builder:
    flow: Flow
    callees: dict[str, Any]
    depth: int = 0
    variables: tuple[int, ...] = ()
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
        back, loops = natural_loops(blocks) if len(blocks) > 1 else ({}, {})
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
                # A mapping gives each iteration to another thread or block.
                if needs_iterations(op) and "mapping" not in op.attributes:
                    return self._any_order(op, frame, current)
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
        current.steps.append(self._run(op, frame))
        return current

    def _run(self, op: Any, frame: int) -> Run:
        number = self.flow.number
        return Run(
            op,
            frame,
            tuple(number(frame, operand) for operand in op.operands),
            tuple(number(frame, result) for result in op.results),
            is_value_op(op),
            self.maybe,
            self.variables,
        )

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

    def _any_order(self, op: Any, frame: int, current: Block) -> Block:
        """A loop whose iterations run one after the other, in any order and number."""
        loop = self.loop(op)
        number = self.flow.number
        arguments = list(op.regions[0].blocks[0].arguments)
        entry = list(op.operands)[REGION_ROWS[op.name].entry(op).start :]
        carried = arguments[len(arguments) - len(entry) :] if op.name == "affine.for" else []
        header, body, after = self.block(), self.block(), self.block()
        enter = self._pairs(carried, frame, entry, frame) if carried else ()
        current.exit = Goto(Edge(header.number, enter, (("enter", loop.number),)))
        leave = self._pairs(op.results, frame, carried, frame) if carried else ()
        header.exit = LoopTest(
            loop.number,
            Edge(body.number),
            Edge(after.number, leave, (("leave", loop.number),)),
        )
        variables = arguments[: len(arguments) - len(carried)]
        for dimension, argument in enumerate(variables):
            body.steps.append(
                AnyIteration(self._range_of(op, dimension, frame).number, number(frame, argument))
            )

        def repeat(block: Block, last: Any) -> None:
            pairs = self._pairs(carried, frame, last.operands, frame) if carried else ()
            block.exit = Goto(Edge(header.number, pairs, (("back", loop.number),)))

        self.region(op.regions[0], frame, body, repeat)
        return after

    def _range_of(self, op: Any, dimension: int, frame: int) -> Loop:
        """The bounds of one induction variable of an scf.parallel; others have none here."""
        made = self.loop(op)
        if op.name == "scf.parallel":
            count = len(op.regions[0].blocks[0].arguments)
            bounds = [op.operands[dimension + count * kind] for kind in range(3)]
            made.lower, made.upper, made.step = (self.flow.number(frame, b) for b in bounds)
        return made

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
        around = self.variables
        self.variables = (*around, number(frame, block.arguments[0]))
        last = self._straight(op.regions[0], frame, current)
        self.variables = around
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

    def _sides(self, op: Any, frame: int, after: Block) -> list[Edge]:
        """An edge into each region of a branch; each yields to `after`, a missing one goes
        there at once."""

        def leave(block: Block, last: Any) -> None:
            block.exit = Goto(
                Edge(after.number, self._pairs(op.results, frame, last.operands, frame))
            )

        edges = []
        for region in op.regions:
            inner = self.block()
            edges.append(Edge(inner.number))
            if len(list(region.blocks)):
                self.region(region, frame, inner, leave)
            else:
                inner.exit = Goto(Edge(after.number))
        return edges

    def _if(self, op: Any, frame: int, current: Block) -> Block:
        after = self.block()
        then, otherwise = self._sides(op, frame, after)
        number = self.flow.number(frame, op.operands[0] if op.name == "scf.if" else op)
        current.exit = Branch(number, then, otherwise)
        return after

    def _switch(self, op: Any, frame: int, current: Block) -> Block:
        after = self.block()
        default, *chosen = self._sides(op, frame, after)
        cases = list(ir.DenseI64ArrayAttr(op.attributes["cases"]))
        current.exit = Switch(
            self.flow.number(frame, op.operands[0]),
            tuple((int(case), edge) for case, edge in zip(cases, chosen, strict=True)),
            default,
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
            current.steps.append(self._run(op, frame))
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


def callable_functions(module: Any) -> dict[str, Any]:
    """The functions of a module by name."""
    if is_function(module):
        return {symbol_name(module): module}
    if module.name not in ("builtin.module", "gpu.module"):
        return {}
    found: dict[str, Any] = {}
    for region in module.regions:
        for block in region.blocks:
            for op in operations(block):
                found |= callable_functions(op)
    return found
