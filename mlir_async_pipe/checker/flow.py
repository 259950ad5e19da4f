"""Builds a kernel's flat graph, whatever mix of scf, cf and calls it is written in.

    scf.for        header (loop test) -> body -> header …  and header -> behind it
    scf.if         two edges and a join;  cf.br, cf.cond_br: edges
    call of a known function: its body stands in place, with names of its own (a *frame*)

Loops without commits, waits and barriers become straight *summary* code: the body once, its
induction variable "any value of the range". Ops that only compute data (a GEMM's arithmetic
on fragments) are left out: no address depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.checker import jumps, structured
from mlir_async_pipe.checker.graph import Block, Bracket, Copy, Edge, Flow, Goto, Loop, Run
from mlir_async_pipe.checker.loops import (
    find_inductions,
    find_merges,
    is_value_op,
    natural_loops,
    needs_iterations,
)
from mlir_async_pipe.ir_helpers import has_body, is_function, operations, symbol_name

# Calls deeper than this (recursion, above all) are opaque.
DEEPEST_CALL = 8

Leave = Callable[[Block, Any], None]


def build(kernel: Any, callees: dict[str, Any]) -> Flow:
    """The graph of a function-like op or gpu.launch; `callees` are functions by name."""
    flow = Flow()
    builder = Builder(flow, callees)
    first = builder.block()
    builder.region(kernel.regions[0], 0, first, lambda block, op: None)
    find_merges(flow)
    find_inductions(flow)
    return flow


@dataclass
class Builder:
    """A graph that is being built: where calls are, and which summary loops are around."""

    flow: Flow
    callees: dict[str, Any]
    depth: int = 0
    variables: tuple[int, ...] = ()
    maybe: bool = False

    def block(self) -> Block:
        """A new block, without steps."""
        made = Block(len(self.flow.blocks))
        self.flow.blocks.append(made)
        return made

    def loop(self, place: Any) -> Loop:
        """A new loop, without bounds."""
        made = Loop(len(self.flow.loops), place=place)
        self.flow.loops.append(made)
        return made

    def pairs(
        self, targets: Iterable[Any], t_frame: int, sources: Iterable[Any], s_frame: int
    ) -> tuple[tuple[int, int], ...]:
        """What an edge assigns: numbers of (target, source), data left out."""
        number, flow = self.flow.number, self.flow
        return tuple(
            (number(t_frame, t), number(s_frame, s))
            for t, s in zip(targets, sources, strict=False)
            if not flow.is_data(t)
        )

    def region(self, region: Any, frame: int, entry: Block, leave: Leave) -> None:
        """Put a region behind `entry`; `leave(block, terminator)` ends the ways out of it."""
        blocks = list(region.blocks)
        mapped = {blocks[0]: entry}
        for extra in blocks[1:]:
            mapped[extra] = self.block()
        loops = natural_loops(blocks) if len(blocks) > 1 else {}
        headers = {header: self.loop(place=header.owner.operation) for header in loops}
        places = jumps.Places(mapped, loops, headers)
        for source in blocks:
            current = mapped[source]
            *body, last = operations(source) or [None]
            if last is None:
                continue
            if not ends_block(last):
                body.append(last)
            for op in body:
                current = self.op(op, frame, current)
            if last.name in jumps.JUMPS:
                current.exit = jumps.exit_of(self, last, frame, source, places)
            elif ends_block(last):
                leave(current, last)

    def op(self, op: Any, frame: int, current: Block) -> Block:
        """Append one op; gives the block in which control goes on."""
        match op.name:
            case "scf.for" | "affine.for" if structured.loop_bounds(op) is not None:
                if not needs_iterations(op):
                    return structured.summary(self, op, frame, current)
                return structured.for_loop(self, op, frame, current)
            case "scf.parallel" | "scf.forall" | "affine.for" | "affine.parallel":
                # A mapping gives each iteration to another thread or block.
                if needs_iterations(op) and "mapping" not in op.attributes:
                    return structured.any_order(self, op, frame, current)
                return structured.summary(self, op, frame, current)
            case "scf.while":
                return structured.while_loop(self, op, frame, current)
            case "scf.if" | "affine.if":
                return structured.branch(self, op, frame, current)
            case "scf.index_switch":
                return structured.switch(self, op, frame, current)
            case "scf.execute_region" | "memref.alloca_scope":
                return self._inline(op.regions[0], frame, frame, current, list(op.results))
            case "async_pipe.scope":
                current.steps.append(Bracket("scope", op, frame))
                after = self._inline(op.regions[0], frame, frame, current, [])
                after.steps.append(Bracket("end scope", op, frame))
                return after
            case "func.call" | "call" | "llvm.call":
                return self._call(op, frame, current)
        self._append(op, frame, current)
        return current

    def _append(self, op: Any, frame: int, current: Block) -> None:
        makes_values = is_value_op(op)
        results = list(op.results)
        flow = self.flow
        if makes_values and all(flow.is_data(result) for result in results):
            return
        number = flow.number
        current.steps.append(
            Run(
                op,
                frame,
                tuple(number(frame, operand) for operand in op.operands),
                tuple(number(frame, result) for result in results),
                makes_values,
                self.maybe,
                self.variables,
            )
        )

    def _inline(
        self, region: Any, frame: int, outer: int, current: Block, results: list[Any]
    ) -> Block:
        """A region that runs once, in place; its terminator's operands become `results`."""
        blocks = list(region.blocks)
        if len(blocks) == 1:
            *body, last = operations(blocks[0])
            for op in body:
                current = self.op(op, frame, current)
            current.steps.append(Copy(self.pairs(results, outer, last.operands, frame)))
            return current
        inner, after = self.block(), self.block()
        current.exit = Goto(Edge(inner.number))

        def leave(block: Block, last: Any) -> None:
            block.exit = Goto(Edge(after.number, self.pairs(results, outer, last.operands, frame)))

        self.region(region, frame, inner, leave)
        return after

    def _call(self, op: Any, frame: int, current: Block) -> Block:
        callee = None
        if "callee" in op.attributes:
            callee = self.callees.get(str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value))
        if callee is None or not has_body(callee) or self.depth >= DEEPEST_CALL:
            self._append(op, frame, current)
            return current
        inner_frame = self.flow.frames
        self.flow.frames += 1
        arguments = callee.regions[0].blocks[0].arguments
        current.steps.append(Copy(self.pairs(arguments, inner_frame, op.operands, frame)))
        current.steps.append(Bracket("call", op, frame))
        self.depth += 1
        after = self._inline(callee.regions[0], inner_frame, frame, current, list(op.results))
        self.depth -= 1
        after.steps.append(Bracket("end call", op, frame))
        return after


_TERMINATORS = frozenset(
    "scf.yield scf.condition scf.reduce scf.forall.in_parallel affine.yield func.return "
    "gpu.return llvm.return gpu.terminator async_pipe.yield memref.alloca_scope.return cf.br "
    "cf.cond_br cf.switch llvm.br llvm.cond_br llvm.unreachable".split()
)


def ends_block(op: Any) -> bool:
    """Whether an op is a terminator."""
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
