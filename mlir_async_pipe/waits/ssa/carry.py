"""Carries more values along the control flow of a function: SSA form for what an analysis adds.

    %r = scf.for … iter_args(%x = %t)       %r:2 = scf.for … iter_args(%x = %t, %k = %n)
    { … yield %u }                     -->  { … yield %u, %m }

Two kinds of values travel: *variables*, which ops of the function change in the order in which
they run (the groups committed so far; the youngest groups), and *companions* of SSA values that
are there already (the number of a token's group). Loops get them as iter_args and results,
branches as results, blocks as arguments. A variable that nothing in a region changes is seen
there as it is. Handles of ops with regions die, since they are made anew; blocks stay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    again,
    attributes_of,
    before,
    create,
    grow_group,
    terminator,
    walk,
)
from mlir_async_pipe.facts.flow.algorithms import post_order, reached
from mlir_async_pipe.facts.flow.region_flow import (
    OUT,
    forwarded,
    sources,
    starts,
    successors,
    taking,
    targets,
)
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CARRYING_OPS,
    LLVM_BRANCHES,
    REGION_ROWS,
    RegionRow,
    with_successor_operands,
)

Variables = list[Value]


class Carrier(ABC):
    """Walks one function in the order in which it runs and carries values of type `kind`."""

    def __init__(self, skeleton: Skeleton, kind: Any) -> None:
        self.skeleton = skeleton
        self.kind = kind
        self.companions: dict[Value, Value] = {}

    # -- what the walk is for -----------------------------------------------------------

    @abstractmethod
    def over(self, op: Operation, variables: Variables) -> Variables:
        """Look at an event, which may go; the variables after it."""

    def width_at(self, block: Block) -> int:
        """How many variables are forwarded to a block where paths meet."""
        return self.width

    def width_after(self, op: Operation) -> int:
        """How many variables an op with branches forwards."""
        return self.width

    def after_apart(self, op: Operation, variables: Variables) -> Variables:
        """The variables after an op whose regions do not simply follow it; in those there are none."""
        return variables

    def passed_on(self, variables: Variables, width: int) -> Variables:
        """The variables that are forwarded to a place that takes `width` of them."""
        return variables[:width]

    def accompanied(self, values: Sequence[Value]) -> list[int]:
        """Which of some values that meet others have a companion, by number."""
        return []

    def companion(self, value: Value, variables: Variables) -> Value:
        """The companion of a value that is forwarded where the variables are these."""
        return self.companions[value]

    def bind(self, value: Value, companion: Value) -> None:
        """From now on this is the companion of `value`."""
        self.companions[value] = companion

    # -- the walk -----------------------------------------------------------------------

    def run(self, variables: Variables) -> None:
        self.width = len(variables)
        for region in self.skeleton.root.regions:
            if len(list(region.blocks)):
                self._region(region, variables)

    def _block(self, block: Block, variables: Variables) -> Variables:
        for op in self.skeleton.of(block):
            if len(op.regions) == 0:
                variables = self.over(op, variables)
            elif op.name not in CARRYING_OPS:
                for region in op.regions:
                    if len(list(region.blocks)):
                        self._region(region, [])
                variables = self.after_apart(op, variables)
            else:
                variables = self._follow(op, REGION_ROWS[op.name], variables)
        return variables

    def _region(self, region: Any, variables: Variables) -> list[tuple[Block, Variables]]:
        """Follow the blocks of a region; those by which control leaves it."""
        blocks = list(region.blocks)
        if len(blocks) == 1:
            return [(blocks[0], self._block(blocks[0], variables))]
        changed = self.skeleton.changes(region)
        at_start = {blocks[0]: variables}
        taken: dict[Block, tuple[int, list[int]]] = {}
        edges = Counter(target for block in blocks for target in successors(block))
        # Where paths meet, and where control never comes to.
        meeting = {*_unreached(blocks), *(block for block in blocks if edges[block] != 1)}
        for block in blocks[1:]:
            old = list(block.arguments)
            numbers = self.accompanied(old)
            width = self.width_at(block) if changed and block in meeting else 0
            taken[block] = (width, numbers)
            added = _more_arguments(block, self.kind, width + len(numbers))
            self._bind(old, numbers, added[width:])
            if block in meeting or not changed:
                at_start[block] = added[:width] if changed else variables
        exits = []
        # In reverse post-order: a block after all that dominate it.
        reverse = reversed(post_order(blocks[:1], successors))
        for block in [*reverse, *_unreached(blocks)]:
            left = self._block(block, at_start[block])
            end = terminator(block)
            if not len(list(end.successors)):
                exits.append((block, left))
            for target in end.successors:
                at_start.setdefault(target, left)
            self._forward_to_successors(end, taken, left)
        return exits

    def _forward_to_successors(
        self, end: Operation, taken: dict[Block, tuple[int, list[int]]], left: Variables
    ) -> None:
        more, row = [], BRANCH_ROWS.get(end.name)
        for number, target in enumerate(end.successors):
            width, numbers = taken[target]
            given = () if row is None else row.operands(end)[number]
            passed = self._companions([end.operands[i] for i in given], numbers, left)
            more.append([*self.passed_on(left, width), *passed])
        if any(more):
            operands, attributes = with_successor_operands(end, more)
            blocks = list(end.successors)
            ip, loc = before(end), end.location
            create(end.name, operands, (), attributes, ip=ip, loc=loc, successors=blocks)
            end.erase()

    def _companions(
        self, values: Sequence[Value], numbers: list[int], variables: Variables
    ) -> list[Value]:
        return [self.companion(values[number], variables) for number in numbers]

    def _bind(self, values: Sequence[Value], numbers: list[int], companions: list[Value]) -> None:
        for number, companion in zip(numbers, companions, strict=True):
            self.bind(values[number], companion)

    def _follow(self, op: Operation, row: RegionRow, variables: Variables) -> Variables:
        """Carry through an op along its edges. What leaves one place is the same on all edges from it, so places
        that the same sources lead to, a loop's body and its results, take the same."""
        changed = any(map(self.skeleton.changes, op.regions))
        count, old = len(op.regions), len(op.results)
        # The regions of a branch see what stands before it.
        places = (*range(count), OUT) if row.flow in ("for", "while") else (OUT,)
        group = {place: tuple(sources(row, place, count)) for place in places}
        taken = {n: taking(op, row, op.regions[n].blocks[0]) for n in places if n != OUT}
        taken[OUT] = list(op.results)
        numbers: dict[tuple[int, ...], list[int]] = {}
        width = dict.fromkeys(group.values(), 0)
        for place, key in group.items():
            numbers[key] = sorted({*numbers.get(key, ()), *self.accompanied(taken[place])})
            if changed:
                block = None if place == OUT else op.regions[place].blocks[0]
                here = self.width_after(op) if block is None else self.width_at(block)
                width[key] = max(width[key], here)
        more: list[Value] = []
        if 0 in group:
            passed = self._companions(starts(op, row), numbers[group[0]], variables)
            more = [*self.passed_on(variables, width[group[0]]), *passed]
        out = group[OUT]
        leaving = width[out] + len(numbers[out])
        made = _made_again(op, more, [self.kind] * leaving) if more or leaving else op
        for place, region in enumerate(made.regions):
            if leaving and not len(list(region.blocks)):
                ends = (terminator(one.blocks[0]).name for one in made.regions if list(one.blocks))
                end = next(ends, "scf.yield")
                create(end, ip=ir.InsertionPoint(region.blocks.append()), loc=made.location)
            inside = variables
            if place in group:
                key = group[place]
                added = _more_arguments(region.blocks[0], self.kind, width[key] + len(numbers[key]))
                self._bind(taken[place], numbers[key], added[width[key] :])
                inside = added[: width[key]] if changed else variables
            key = group[targets(row, place, count)[0]]
            for block, left in self._region(region, inside) if len(list(region.blocks)) else ():
                end = terminator(block)
                passed = self._companions(forwarded(end), numbers[key], left)
                sent = [*self.passed_on(left, width[key]), *passed]
                if sent:
                    again(end, [*end.operands, *sent])
        self._bind(made.results, numbers[out], list(made.results)[old + width[out] :])
        return list(made.results)[old : old + width[out]] if changed else variables


def can_carry(function: Operation) -> bool:
    """Whether more values can be forwarded everywhere in a function."""
    return not any(op.name in LLVM_BRANCHES for op in walk(function))


def _unreached(blocks: list[Block]) -> list[Block]:
    found = reached(blocks[:1], successors)
    return [block for block in blocks if block not in found]


def _more_arguments(block: Block, kind: Any, count: int) -> list[Value]:
    return [block.add_argument(kind, block.owner.operation.location) for _ in range(count)]


def _made_again(op: Operation, operands: Sequence[Value], results: Sequence[Any]) -> Operation:
    """The op with more operands and results after its own; its blocks move there."""
    attributes = attributes_of(op)
    # affine.for: the operands of both bounds, and what is carried.
    grow_group(attributes, -1, len(operands))
    kinds = [*(result.type for result in op.results), *results]
    return again(op, [*op.operands, *operands], kinds, attributes)


# The ops of one function that matter to an analysis, block by block, with the ops around them.
#
# Blocks hash by identity also where their op is made anew, so what is known about a block stays
# known over rewriting; the handles of ops are kept in lists only.


class Skeleton:
    """`events` are the ops that matter, and the ops with regions around them, of each block. An op that `changes`
    something makes every region around it one that does."""

    def __init__(
        self,
        root: Operation,
        matters: Callable[[Operation], bool],
        changes: Callable[[Operation], bool],
    ) -> None:
        self.root = root
        self.events: dict[Block, list[Operation]] = {}
        self._changing: set[Block] = set()
        for op in walk(root):
            if op != root and matters(op):
                self._place(op, changes(op))

    def _place(self, op: Operation, changing: bool) -> None:
        # In pre-order an op that holds events is met before whatever stands after it.
        while op != self.root:
            block = op.block
            here = self.events.setdefault(block, [])
            if not here or here[-1] != op:
                here.append(op)
            if changing:
                self._changing.add(block)
            op = op.parent.operation

    def of(self, block: Block) -> list[Operation]:
        return self.events.get(block, [])

    def changes(self, region: object) -> bool:
        """Whether some op in a region changes something."""
        return any(block in self._changing for block in region.blocks)  # type: ignore[attr-defined]
