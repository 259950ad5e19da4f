"""Which values of a flow graph matter, and which of them live at the start of each block.

A value matters if a subscript, a condition, a bound or a token depends on it: a GEMM's
arithmetic on fragments does not, and is never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mlir_async_pipe.checker.step_graph import (
    AnyIteration,
    Assign,
    Block,
    Branch,
    Flow,
    LoopTest,
    Run,
    Step,
    Switch,
)
from mlir_async_pipe.facts.flow.algorithms import loop_body, predecessors, reached


def needed_values(flow: Flow, read_by: Callable[[Run], Iterable[int]]) -> set[int]:
    """The numbers of all values that matter; `read_by` gives those that an op with effects
    looks at.
    """
    sources: dict[int, set[int]] = {}
    pending: list[int] = []
    for block in flow.blocks:
        for step in block.steps:
            if isinstance(step, Assign):
                for target, source in step.assigns:
                    sources.setdefault(target, set()).add(source)
            elif isinstance(step, Run):
                if step.makes_values:
                    for result in step.results:
                        sources.setdefault(result, set()).update(step.operands)
                else:
                    pending.extend(read_by(step))
        for edge in flow.edges(block):
            for target, source in edge.assigns:
                sources.setdefault(target, set()).add(source)
        if isinstance(block.exit, Branch):
            pending.append(block.exit.condition)
        elif isinstance(block.exit, Switch):
            pending.append(block.exit.value)
    for loop in flow.loops:
        pending.extend(n for n in (loop.lower, loop.upper, loop.step) if n is not None)
    return reached(pending, lambda number: sources.get(number, ()))


def loop_bodies(flow: Flow) -> dict[int, tuple[int, frozenset[int]]]:
    """For each block that a back edge reaches: its loop, and the blocks of the loop's body."""
    ends: dict[int, tuple[int, set[int]]] = {}
    for block in flow.blocks:
        for edge in flow.edges(block):
            for kind, loop in edge.loops:
                if kind == "back":
                    ends.setdefault(edge.target, (loop, set()))[1].add(block.number)
    before = predecessors(range(len(flow.blocks)), flow.after)
    return {
        header: (loop, frozenset(loop_body(header, sources, before.__getitem__)))
        for header, (loop, sources) in ends.items()
    }


def live_values(flow: Flow, needed: set[int]) -> list[set[int]]:
    """For each block the values that it or a later block reads before they are made anew."""
    uses, makes = [], []
    for block in flow.blocks:
        used: set[int] = set()
        made: set[int] = set()
        for step in block.steps:
            used |= (_step_uses(flow, step) & needed) - made
            made |= _step_makes(step)
        used |= (_exit_uses(flow, block) & needed) - made
        uses.append(used)
        makes.append(made)
    live = [set(used) for used in uses]
    before = predecessors(range(len(flow.blocks)), flow.after)
    pending = list(range(len(flow.blocks)))
    while pending:
        number = pending.pop()
        block = flow.blocks[number]
        after: set[int] = set()
        for edge in flow.edges(block):
            targets = {target for target, _ in edge.assigns}
            reads = {s for t, s in edge.assigns if t in needed and t in live[edge.target]}
            after |= (live[edge.target] - targets) | reads
        if isinstance(block.exit, LoopTest):
            # The test binds the induction variable on the edge into the body.
            variable = flow.loops[block.exit.loop].variable
            after -= {variable} if variable is not None else set()
        grown = uses[number] | (after - makes[number])
        if grown != live[number]:
            live[number] = grown
            pending.extend(before[number])
    return live


def _step_uses(flow: Flow, step: Step) -> set[int]:
    if isinstance(step, Assign):
        return {source for _, source in step.assigns}
    if isinstance(step, Run):
        return set(step.operands)
    if isinstance(step, AnyIteration):
        loop = flow.loops[step.loop]
        return {n for n in (loop.lower, loop.upper, loop.step) if n is not None}
    return set()


def _step_makes(step: Step) -> set[int]:
    if isinstance(step, Assign):
        return {target for target, _ in step.assigns}
    if isinstance(step, Run):
        return set(step.results)
    if isinstance(step, AnyIteration):
        return {step.variable}
    return set()


def _exit_uses(flow: Flow, block: Block) -> set[int]:
    match block.exit:
        case Branch(condition, _, _):
            return {condition}
        case Switch(value, _, _):
            return {value}
        case LoopTest(number, _, _):
            loop = flow.loops[number]
            return {n for n in (loop.lower, loop.upper, loop.step) if n is not None}
    return set()
