"""Builds a kernel's flat graph, whatever mix of scf, cf and calls it is written in.

    scf.for        header (loop test) -> body -> header …  and header -> after it
    scf.if         two edges and a join;  cf.br, cf.cond_br: edges
    call of a known function: its body stands in place, with names of its own (a *frame*)

How ops with regions, branches and calls move control stands in the vocabulary. An op of which
it does not is *lost*: the graph says so where it stands, and `unfollowed` reports it.

Loops without commits, waits and barriers become straight *summary* code: the body once, its
induction variable "any value of the range". Ops that only compute data (a GEMM's arithmetic
on fragments) are left out: no address depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import has_body, operations, terminator
from mlir_async_pipe.checker import jumps, structured
from mlir_async_pipe.checker.called_functions import Callees, callee_of
from mlir_async_pipe.checker.loop_facts import (
    find_inductions,
    find_merges,
    is_value_op,
    needs_iterations,
)
from mlir_async_pipe.checker.step_graph import (
    Block,
    Bracket,
    Copy,
    Edge,
    Flow,
    Goto,
    Loop,
    Lost,
    Run,
)
from mlir_async_pipe.checker.unfollowed import is_quiet
from mlir_async_pipe.flow.algorithms import natural_loops
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CALL_OPS,
    DEAD_ENDS,
    EXIT_OPS,
    REGION_ROWS,
    leaves_region,
)

# Calls deeper than this (recursion, above all) are lost.
DEEPEST_CALL = 8

Leave = Callable[[Block, Any], None]


def build(kernel: Any, callees: Callees) -> Flow:
    """The graph of a function-like op or gpu.launch; `callees`: functions that it may call."""
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
    callees: Callees
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
        """Put a region after `entry`; `leave(block, terminator)` ends the ways out of it."""
        blocks = list(region.blocks)
        mapped = {blocks[0]: entry}
        for extra in blocks[1:]:
            mapped[extra] = self.block()
        loops = natural_loops(blocks[0], _successors) if len(blocks) > 1 else {}
        headers = {header: self.loop(place=header.owner.operation) for header in loops}
        places = jumps.Places(mapped, loops, headers)
        for source in blocks:
            current = mapped[source]
            ops = operations(source)
            last = ops[-1] if ops else None
            for op in ops[:-1]:
                current = self.op(op, frame, current)
            row = None if last is None else BRANCH_ROWS.get(last.name)
            if row is not None:
                current.exit = jumps.exit_of(self, last, row, frame, source, places)
            elif last is not None:
                self.end(last, frame, current)
                if len(list(last.successors)) == 0 and last.name not in DEAD_ENDS:
                    leave(current, last)

    def end(self, last: Any, frame: int, current: Block) -> None:
        """What a terminator without a row of branches does itself: nothing, if it is known."""
        if not leaves_region(last):
            self._lose(last, frame, current)
        elif len(last.regions) and not is_quiet(last):
            current.steps.append(Lost(last, frame))

    def op(self, op: Any, frame: int, current: Block) -> Block:
        """Append one op; gives the block in which control goes on."""
        row = REGION_ROWS.get(op.name)
        match None if row is None else row.flow:
            case "for" if structured.loop_bounds(op) is not None:
                if not needs_iterations(op):
                    return structured.summary(self, op, frame, current)
                return structured.for_loop(self, op, frame, current)
            case "for" | "parallel":
                # A mapping gives each iteration to another thread or block.
                if not needs_iterations(op):
                    return structured.summary(self, op, frame, current)
                if "mapping" in op.attributes:
                    return structured.one_iteration(self, op, frame, current)
                return structured.any_order(self, op, frame, current)
            case "while":
                return structured.while_loop(self, op, frame, current)
            case "branch":
                return structured.branch(self, op, frame, current)
            case "once":
                return self._once(op, frame, current)
        if op.name in CALL_OPS:
            return self._call(op, frame, current)
        if row is None and (len(op.regions) or len(list(op.successors))):
            self._lose(op, frame, current)
            return current
        self._append(op, frame, current)
        return current

    def _lose(self, op: Any, frame: int, current: Block) -> None:
        """An op that moves control in a way of its own, unless nothing can come of that."""
        if len(list(op.successors)) or not is_quiet(op):
            current.steps.append(Lost(op, frame))
        self._append(op, frame, current)

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

    def inline(self, region: Any, frame: int, current: Block) -> Block:
        """A region that runs once, in place."""
        return self._inline(region, frame, frame, current, [])

    def _inline(
        self, region: Any, frame: int, outer: int, current: Block, results: list[Any]
    ) -> Block:
        """A region that runs once, in place; its terminator's operands become `results`."""
        blocks = list(region.blocks)
        if len(blocks) == 1:
            *body, last = operations(blocks[0])
            if last.name in EXIT_OPS and not len(last.regions):
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

    def _once(self, op: Any, frame: int, current: Block) -> Block:
        """A region that runs in place; that of a scope is asynchronous."""
        results = list(op.results)
        if REGION_ROWS[op.name].masked:
            outer, self.maybe = self.maybe, True
            after = self._inline(op.regions[0], frame, frame, current, results)
            self.maybe = outer
            return after
        if row_of(op) is None:
            return self._inline(op.regions[0], frame, frame, current, results)
        current.steps.append(Bracket("scope", op, frame))
        after = self._inline(op.regions[0], frame, frame, current, [])
        after.steps.append(Bracket("end scope", op, frame))
        return after

    def _call(self, op: Any, frame: int, current: Block) -> Block:
        callee = callee_of(op, self.callees)
        if callee is None or not has_body(callee):
            # A function of another module does what an op that nobody knows does.
            if callee is None:
                current.steps.append(Lost(op, frame))
            self._append(op, frame, current)
            return current
        if self.depth >= DEEPEST_CALL:
            self._lose(op, frame, current)
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


def _successors(block: Any) -> list[Any]:
    return list(terminator(block).successors) if operations(block) else []
