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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from mlir_async_pipe.bindings.raw_ops import has_body, operations, terminator
from mlir_async_pipe.checker import structured
from mlir_async_pipe.checker.called_functions import Callees, callee_of
from mlir_async_pipe.checker.loop_facts import (
    find_inductions,
    find_merges,
    needs_iterations,
)
from mlir_async_pipe.checker.step_graph import (
    Block,
    Bracket,
    Branch,
    Copy,
    Edge,
    Exit,
    Flow,
    Goto,
    Loop,
    Lost,
    Run,
    Switch,
)
from mlir_async_pipe.checker.type_kinds import is_memory
from mlir_async_pipe.checker.unfollowed import is_quiet
from mlir_async_pipe.flow.algorithms import natural_loops
from mlir_async_pipe.flow.frames import connect, handed_along, item_with_frames
from mlir_async_pipe.flow.items import Frame, Item, Node
from mlir_async_pipe.flow.ways import leaves
from mlir_async_pipe.vocabulary import is_pure, row_of
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CALL_OPS,
    EXIT_OPS,
    REGION_ROWS,
    BranchRow,
    leaves_region,
)
from mlir_async_pipe.vocabulary.memory_names import taken_member

# Calls deeper than this (recursion, above all) are lost.
DEEPEST_CALL = 8

Leave = Callable[[Block, Any], None]


def build(kernel: Any, callees: Callees) -> Flow:
    """The graph of a function-like op or gpu.launch; `callees`: functions that it may call."""
    flow = Flow()
    builder = Builder(flow, callees)
    first = builder.block()
    builder.region(item_with_frames(kernel).frames[0], 0, first, lambda block, op: None)
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

    def region(self, region: Frame, frame: int, entry: Block, leave: Leave) -> None:
        """Put a region after `entry`; `leave(block, terminator)` ends the ways out of it."""
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
                current = self.op(op, frame, current)
            if last is None:
                continue
            row = BRANCH_ROWS.get(last.name)
            if row is not None:
                edges = []
                for target, given in handed_along(node, last):
                    pairs = self.pairs(target.block.arguments, frame, given, frame)
                    moves = _moves(node, target, loops, headers)
                    edges.append(Edge(mapped[target].number, pairs, moves))
                current.exit = self._jump(last, row, frame, edges)
            else:
                self.end(last, frame, current)
                if leaves(last):
                    leave(current, last)

    def _jump(self, end: Any, row: BranchRow, frame: int, edges: list[Edge]) -> Exit:
        """The exit of a block that ends in a branch of the vocabulary (cf or llvm)."""
        if row.condition:
            return Branch(self.flow.number(frame, end.operands[0]), *edges)
        if row.cases is None:
            return Goto(*edges)
        default, *chosen = edges
        cases = tuple(zip(row.cases(end), chosen, strict=True))
        return Switch(self.flow.number(frame, end.operands[0]), cases, default)

    def end(self, last: Any, frame: int, current: Block) -> None:
        """What a terminator without a row of branches does itself: nothing, if it is known."""
        if not leaves_region(last):
            self._lose(last, frame, current)
        elif len(last.regions) and not is_quiet(last):
            current.steps.append(Lost(last, frame))

    def op(self, op: Any, frame: int, current: Block) -> Block:
        """Append one op; gives the block in which control goes on."""
        name = op.name
        row = REGION_ROWS.get(name)
        if row is None or row.flow == "isolated":
            return self._plain(op, name, frame, current)
        item = item_with_frames(op)
        if row.flow == "once":
            return self._once(item, frame, current)
        if row.flow in ("while", "branch"):
            return structured.follow(self, item, frame, current)
        if not needs_iterations(op):
            return structured.summary(self, item, frame, current)
        # A mapping gives each iteration to another thread or block.
        if row.flow == "parallel" and "mapping" in op.attributes:
            return structured.one_iteration(self, item, frame, current)
        return structured.iterate(self, item, frame, current)

    def _plain(self, op: Any, name: str, frame: int, current: Block) -> Block:
        """An op without regions, or one whose regions are followed by nobody."""
        if name in CALL_OPS and row_of(op) is None and not is_pure(op):
            return self._call(op, frame, current)
        if name not in REGION_ROWS and (len(op.regions) or len(op.successors)):
            self._lose(op, frame, current)
        else:
            self._append(op, frame, current)
        return current

    def _lose(self, op: Any, frame: int, current: Block) -> None:
        """An op that moves control in a way of its own, unless nothing can come of that."""
        if len(list(op.successors)) or not is_quiet(op):
            current.steps.append(Lost(op, frame))
        self._append(op, frame, current)

    def _append(self, op: Any, frame: int, current: Block) -> None:
        name, row, member = op.name, row_of(op), taken_member(op)
        if member is not None:
            current.steps.append(Copy(self.pairs(op.results, frame, [member], frame)))
            return
        makes_values = row is None and is_pure(op) and not len(op.regions)
        results, operands = list(op.results), list(op.operands)
        flow = self.flow
        is_data = makes_values and all(map(flow.is_data, results))
        if is_data and not any(map(flow.is_accumulator, operands)):
            return
        number = flow.number
        current.steps.append(
            Run(
                op,
                name,
                row,
                frame,
                tuple([number(frame, operand) for operand in operands]),
                tuple([number(frame, result) for result in results]),
                makes_values,
                self.maybe,
                self.variables,
            )
        )

    def inline(
        self, region: Frame, frame: int, outer: int, current: Block, results: Sequence[Any]
    ) -> Block:
        """A region that runs once, in place; its terminator's operands become `results`."""
        if len(region.nodes) == 1:
            *body, last = operations(region.entry.block)
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

    def _once(self, item: Item, frame: int, current: Block) -> Block:
        """A region that runs in place; that of a scope is asynchronous."""
        op, (region,) = item.op, item.frames
        outer, self.maybe = self.maybe, self.maybe or item.row.masked
        scope = row_of(op) is not None and not item.row.masked
        if scope:
            current.steps.append(Bracket("scope", op, frame))
        after = self.inline(region, frame, frame, current, () if scope else op.results)
        if scope:
            after.steps.append(Bracket("end scope", op, frame))
        self.maybe = outer
        return after

    def _call(self, op: Any, frame: int, current: Block) -> Block:
        callee = callee_of(op, self.callees)
        if callee is None or not has_body(callee):
            # What a function of another module does with its own memory lies outside of this one.
            if callee is None or any(is_memory(operand.type) for operand in op.operands):
                current.steps.append(Lost(op, frame))
            self._append(op, frame, current)
            return current
        if self.depth >= DEEPEST_CALL:
            self._lose(op, frame, current)
            return current
        inner_frame = self.flow.frames
        self.flow.frames += 1
        (region,) = item_with_frames(callee).frames
        arguments = region.entry.block.arguments
        for argument, operand in zip(arguments, op.operands, strict=True):
            self.flow.handed[inner_frame, argument] = frame, operand
        current.steps.append(Copy(self.pairs(arguments, inner_frame, op.operands, frame)))
        current.steps.append(Bracket("call", op, frame))
        self.depth += 1
        after = self.inline(region, inner_frame, frame, current, op.results)
        self.depth -= 1
        after.steps.append(Bracket("end call", op, frame))
        return after


def _moves(
    source: Node, target: Node, loops: dict[Node, set[Node]], headers: dict[Node, Loop]
) -> tuple[tuple[str, int], ...]:
    """Which loops the way from one block to another leaves, enters or repeats."""
    left = [
        ("leave", headers[header].number)
        for header, body in loops.items()
        if source in body and target not in body
    ]
    if target not in loops:
        return tuple(left)
    kind = "back" if source in loops[target] else "enter"
    return (*left, (kind, headers[target].number))
