"""Which values of a flow graph may differ between the threads of a block, and why.

    %p = cmpi ult, %tid, %n                      differs: it comes from a thread id
    %x = scf.if %p { yield 1 } else { yield 2 }  differs, and was *chosen*: both sides are constants
    for k = 0 to %t { … }  ->  %r                chosen: threads leave in different iterations

A value is the same in all threads only if nothing that can reach it differs: what it is made
of, and the branches that choose it. What is chosen has, on one path, a number that says nothing
of other threads; what merely differs has a form of thread ids or a symbol of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from mlir_async_pipe.bindings.raw_ops import Operation, constant_value
from mlir_async_pipe.checker.arithmetic import chooses_numbers
from mlir_async_pipe.checker.grid_blocks import differs
from mlir_async_pipe.checker.step_graph import (
    AnyIteration,
    Block,
    Constant,
    ControlEdge,
    Flow,
    Loop,
    LoopTest,
    Run,
)
from mlir_async_pipe.facts.flow.algorithms import post_dominators, reached
from mlir_async_pipe.facts.values.uniformity import is_made_of_operands, sources
from mlir_async_pipe.vocabulary.control_flow import SELECT_OPS
from mlir_async_pipe.vocabulary.launch_ids import ELECT, IDS


class Divergence:
    """What is reached from where values of one kernel begin to differ. Value numbers: `differing` may differ between
    threads, `chosen` do so because threads took different paths. `exits` are the blocks whose edge out may differ,
    `chosen_at` what is chosen at the begin of each block.

    Results are made of what `made_of` says, else of the operands of their ops."""

    def __init__(self, flow: Flow, made_of: Mapping[int, Iterable[int]]) -> None:
        self.flow = flow
        self.differing: set[int] = set()
        self.chosen: set[int] = set()
        self.exits: set[int] = set()
        self.chosen_at: dict[int, set[int]] = {}
        # Variables of loops of which nothing says how often they run.
        self.unbounded: set[int] = set()
        self._users: dict[int, list[int]] = {}
        self._deciding: dict[int, list[Block]] = {}
        self._selections: dict[int, list[int]] = {}
        self._into: list[list[ControlEdge]] = [[] for _ in flow.blocks]
        self._pending: list[tuple[int, bool]] = []
        self._made: set[int] = set()
        end = len(flow.blocks)
        successors = {number: flow.after(number) or [end] for number in range(end)}
        self._after = post_dominators(successors, end)
        self._read(made_of)
        read = self._users.keys() | self._deciding.keys()
        # What the graph makes or reads, and what it only reads.
        self.known, self.free = self._made | read, read - self._made

    def follow(self, begins: Iterable[int]) -> Divergence:
        """Mark all that is reached from values that differ."""
        self._pending += [(number, False) for number in begins]
        while self._pending:
            self._mark(*self._pending.pop())
        return self

    @cached_property
    def parted(self) -> frozenset[int]:
        """The blocks to which not all threads come, as often, if one does: they stand on a path between a place where
        threads part and that where they meet again."""
        found: set[int] = set()
        for number in self.exits:
            last = self._after.get(number)
            for edge in self.flow.edges(self.flow.blocks[number]):
                found |= self._region(edge.target, last) - {last}
        return frozenset(found)

    # Reading the graph --------------------------------------------------------------------

    def _read(self, made_of: Mapping[int, Iterable[int]]) -> None:
        for step in self.flow.steps():
            if isinstance(step, Run):
                for result in step.results:
                    self._makes(result, made_of.get(result, step.operands))
                if step.name in SELECT_OPS and not chooses_numbers(step.op):
                    self._selections.setdefault(step.operands[0], []).extend(step.results)
            elif isinstance(step, AnyIteration):
                self._bind(self.flow.loops[step.loop], step.variable)
        for target, source in self.flow.assigns():
            self._makes(target, [source])
        for _, edge in self.flow.all_edges():
            self._into[edge.target].append(edge)
        for block in self.flow.blocks:
            decided_by = self.flow.decided_by(block)
            if isinstance(block.exit, LoopTest):
                loop = self.flow.loops[block.exit.loop]
                decided_by += loop.decided_by or ()
                if loop.variable is not None:
                    self._bind(loop, loop.variable)
            for number in decided_by:
                self._deciding.setdefault(number, []).append(block)

    def _makes(self, made: int, read: Iterable[int]) -> None:
        """What is made of what is read differs if that does."""
        self._made.add(made)
        for number in read:
            self._users.setdefault(number, []).append(made)

    def _bind(self, loop: Loop, variable: int) -> None:
        if loop.bounds is None and loop.decided_by is None:
            self.unbounded.add(variable)
        # What decides how often a loop runs, and which numbers its iterations have.
        self._makes(variable, (*(loop.bounds or ()), *(loop.decided_by or ())))

    # Following it -------------------------------------------------------------------------

    def _mark(self, number: int, chosen: bool) -> None:
        """A value differs, and with it all that it reaches and decides."""
        if number in self.differing and (not chosen or number in self.chosen):
            return
        if chosen:
            self.chosen.add(number)
        self._pending += [(user, chosen) for user in self._users.get(number, ())]
        if number in self.differing:
            return
        self.differing.add(number)
        self._pending += [(result, True) for result in self._selections.get(number, ())]
        for block in self._deciding.get(number, ()):
            self._part(block)

    def _part(self, block: Block) -> None:
        """Threads leave a block on different edges: what is assigned where these meet again is
        chosen, and what a loop carries that they leave in different iterations."""
        if block.number in self.exits:
            return
        self.exits.add(block.number)
        # None: a path ends before, or never.
        last, sides = self._after.get(block.number), []
        for edge in self.flow.edges(block):
            sides.append(self._region(edge.target, last))
            for kind, loop in edge.loops:
                if kind == "leave":
                    self._choose_carried(loop)
        for number in {n for side in sides for n in side}:
            if sum(number in side for side in sides) > 1:
                self._choose(number, self._into[number])

    def _region(self, first: int, last: int | None) -> set[int]:
        """The blocks from `first` up to `last`, both included."""
        return reached([first], lambda n: [] if n == last else self.flow.after(n))

    def _choose_carried(self, loop: int) -> None:
        edges = self.flow.edges_of_loops("enter", "back", "leave")
        targets = {target for one, _, edge in edges if one == loop for target, _ in edge.assigns}
        variable = self.flow.loops[loop].variable
        self._pending += [(n, True) for n in targets]
        if variable is not None:
            self._pending.append((variable, True))

    def _choose(self, block: int, edges: list[ControlEdge]) -> None:
        """Mark what several edges into one block assign, unless they all assign the same."""
        given: dict[int, set[int]] = {}
        for edge in edges:
            for target, source in edge.assigns:
                given.setdefault(target, set()).add(source)
        chosen = {target for target, from_ in given.items() if len(from_) > 1}
        self.chosen_at.setdefault(block, set()).update(chosen)
        self._pending += [(target, True) for target in chosen]


# Where values begin to differ ------------------------------------------------------------------


def by_thread(flow: Flow, loads_alike: Callable[[Operation, int], bool]) -> Divergence:
    """What may differ between threads. `loads_alike` tells whether threads that load one place at once get one value, by
    an op of a frame."""
    made_of: dict[int, Iterable[int]] = {}
    begins: set[int] = set()
    for run in flow.runs():
        if run.makes_values and is_made_of_operands(run.name):
            continue
        for result, value in zip(run.results, run.op.results, strict=True):
            read, different = sources(value)
            if different is not None and loads_alike(run.op, run.frame):
                # All threads that name one place get one value.
                read, different = run.op.operands, None
            if different is not None:
                begins.add(result)
            made_of[result] = flow.numbers_of(run.frame, read)
    found = Divergence(flow, made_of)
    free = {number for number in found.free if _begins_different(flow, number)}
    return found.follow(begins | found.unbounded | free)


def _begins_different(flow: Flow, number: int) -> bool:
    frame, value = flow.values[number]
    if isinstance(value, Constant):
        return False
    if not hasattr(value, "type"):
        # An op that decides by its operands (an affine.if), wherever these are made.
        return any(differs(operand, frame) for operand in value.operands)
    return constant_value(value) is None and differs(value, frame)


def by_what_is_handed_on(
    flow: Flow, loads_constant: Callable[[Operation, int], bool]
) -> Divergence:
    """What values decide that threads hand each other, by atomics, votes, shuffles or memory that the kernel writes. How
    many threads come where such a value decides is not free: `atomicAdd(&n, 1) == 0` lets one of all pass, where by what
    is loaded from memory that nobody writes (`loads_constant`) any two may."""
    begins: set[int] = set()
    for run in flow.runs():
        pure = run.makes_values and (run.row.agree != "differs" or run.name in IDS)
        if not (pure or run.name == ELECT or loads_constant(run.op, run.frame)):
            begins.update(run.results)
    return Divergence(flow, {}).follow(begins)
