"""The flat graph of a kernel: blocks of steps, edges that assign, loops with their bounds.

Edges carry assignments (block arguments, iter_args, results) and say which loops they enter,
repeat or leave; `kernel_flow` builds the graph from IR. Which of its values matter, and which of them live at the
start of each block, is found here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from mlir_async_pipe.bindings.raw_ops import type_text
from mlir_async_pipe.facts.flow.algorithms import by_loops, loop_body, predecessors, reached
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS, bits_of_text
from mlir_async_pipe.vocabulary import Row
from mlir_async_pipe.vocabulary.products import SUMS, is_given_alone, may_be_in_flight


class ControlEdge(NamedTuple):
    """Where control goes, what it assigns on the edge (destination, source), which loops it
    enters, repeats ("back") or leaves."""

    target: int
    assigns: tuple[tuple[int, int], ...] = ()
    loops: tuple[tuple[str, int], ...] = ()


class Run(NamedTuple):
    """Execute one op, called `name` and with that `row` of the vocabulary, whose `operands` and `results` are given by value number.

    `makes_values`: it touches no memory and no queue. `maybe`: it stands under a condition
    inside summary code; `variables` are the induction variables of the summary loops around.
    """

    op: Any
    name: str
    row: Row
    frame: int
    operands: tuple[int, ...]
    results: tuple[int, ...]
    makes_values: bool
    maybe: bool = False
    variables: tuple[int, ...] = ()


class Assign(NamedTuple):
    """Assign values in straight code."""

    assigns: tuple[tuple[int, int], ...]


class AnyIteration(NamedTuple):
    """Bind the induction variable of a summary loop to any value of its range."""

    loop: int
    variable: int


class Bracket(NamedTuple):
    """The begin or end of a scope or of a call in place."""

    kind: str
    op: Any
    frame: int


class Lost(NamedTuple):
    """An op that moves control, or runs code, in a way that nobody knows."""

    op: Any
    frame: int


Step = Run | Assign | AnyIteration | Bracket | Lost


class Goto(NamedTuple):
    """One edge."""

    edge: ControlEdge


class Branch(NamedTuple):
    """Two edges, by an i1."""

    condition: int
    then: ControlEdge
    otherwise: ControlEdge


class LoopTest(NamedTuple):
    """Into the body if another iteration runs, else out."""

    loop: int
    body: ControlEdge
    out: ControlEdge


class Switch(NamedTuple):
    """One of several edges, by an integer."""

    value: int
    cases: tuple[tuple[int, ControlEdge], ...]
    default: ControlEdge


class Stop(NamedTuple):
    """The end of the kernel."""


Exit = Goto | Branch | LoopTest | Switch | Stop

# The first step of a block that a state has arrived at before.
ARRIVED = -1


@dataclass
class Block:
    """Straight code and the edges out of it."""

    number: int
    steps: list[Step] = field(default_factory=list)
    exit: Exit = field(default_factory=Stop)
    merges: bool = False


@dataclass(frozen=True)
class Constant:
    """A number that no value of the IR stands for: the bound of an affine.for."""

    value: int


class LoopBounds(NamedTuple):
    """Lower bound, upper bound and step of a counted loop, as value numbers."""

    lower: int
    upper: int
    step: int


@dataclass
class Loop:
    """A loop: its bounds (None: those of no counted loop), its variable, and values that grow steadily.

    `inductions` maps a header argument to the constant that each iteration adds to it, `advances` another one, or a
    pointer, to the op that moves it on and to the operand of that which is moved. Of a loop without bounds `counted` maps
    these, and what is made of them, to what each iteration adds (None: no constant), `compared` are they and what their
    sums are compared with, and `tested` those of them of which sums are compared. `unsigned`: the bounds are read as
    unsigned numbers, of `bits` bits. `decided_by`: of a loop without bounds of which every thread runs all iterations,
    the values that decide how many these are.
    """

    number: int
    bounds: LoopBounds | None = None
    variable: int | None = None
    place: Any = None
    decided_by: tuple[int, ...] | None = None
    unsigned: bool = False
    bits: int = INDEX_BITS
    inductions: dict[int, int] = field(default_factory=dict)
    advances: dict[int, tuple[Run, int]] = field(default_factory=dict)
    counted: dict[int, int | None] = field(default_factory=dict)
    compared: set[int] = field(default_factory=set)
    tested: set[int] = field(default_factory=set)

    @property
    def ends(self) -> set[int]:
        """What the counters of a loop without bounds are compared with."""
        return self.compared - self.counted.keys()


@dataclass
class Flow:
    """The graph of one kernel. `values[i]` is (frame, IR value) of value number i; `passed_in` says of
    each argument of a callee, as (frame, argument), which value of which frame it is given. `has_assembly`: products in
    assembly may name registers."""

    has_assembly: bool
    blocks: list[Block] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    values: list[tuple[int, Any]] = field(default_factory=list)
    numbers: dict[tuple[int, Any], int] = field(default_factory=dict)
    frames: int = 1
    passed_in: dict[tuple[int, Any], tuple[int, Any]] = field(default_factory=dict)

    def number(self, frame: int, value: Any) -> int:
        key = (frame, value)
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.values)
            self.values.append(key)
        return found

    def numbers_of(self, frame: int, values: Iterable[Any]) -> tuple[int, ...]:
        return tuple([self.number(frame, value) for value in values])

    def is_data(self, value: Any) -> bool:
        """Whether an SSA value is a float or a vector, which no address depends on, and no register of products."""
        return is_data(value.type) and not (self.has_assembly and is_given_alone(value))

    def is_only_data(self, op: Any) -> bool:
        """Whether an op makes data, of nothing that products or loads in flight still write."""
        return all(map(self.is_data, op.results)) and not any(
            type_text(value.type).startswith(SUMS) or may_be_in_flight(value)
            for value in op.operands
        )

    def edges(self, block: Block) -> list[ControlEdge]:
        match block.exit:
            case Goto(edge):
                return [edge]
            case Branch(_, first, second) | LoopTest(_, first, second):
                return [first, second]
            case Switch(_, cases, default):
                return [*(edge for _, edge in cases), default]
            case Stop():
                return []

    def after(self, number: int) -> list[int]:
        """The numbers of the blocks that may run after a block."""
        return [edge.target for edge in self.edges(self.blocks[number])]

    @cached_property
    def ranks(self) -> dict[int, int]:
        """The blocks that can run, each numbered after all that lead to it but for edges back, a loop's blocks together."""
        return {block: number for number, block in enumerate(by_loops([0], self.after))}

    def before(self) -> dict[int, list[int]]:
        """By block the numbers of those that may run before it."""
        return predecessors(range(len(self.blocks)), self.after)

    def steps(self) -> list[Step]:
        return [step for block in self.blocks for step in block.steps]

    def runs(self) -> list[Run]:
        return [step for step in self.steps() if isinstance(step, Run)]

    def all_edges(self) -> Iterator[tuple[Block, ControlEdge]]:
        """The edges of the graph, each with the block that it leaves."""
        return ((block, edge) for block in self.blocks for edge in self.edges(block))

    def assigns(self) -> list[tuple[int, int]]:
        """What edges and straight code assign (destination, source)."""
        steps = (step.assigns for step in self.steps() if isinstance(step, Assign))
        return [
            pair for each in (*steps, *(e.assigns for _, e in self.all_edges())) for pair in each
        ]

    def edges_of_loops(self, *kinds: str) -> Iterator[tuple[int, Block, ControlEdge]]:
        """The edges that "enter", repeat ("back") or "leave" a loop, with its number and the block that they leave."""
        for block, edge in self.all_edges():
            for kind, loop in edge.loops:
                if kind in kinds:
                    yield loop, block, edge

    def decided_by(self, block: Block) -> tuple[int, ...]:
        """The values that say which edge out of a block is taken."""
        match block.exit:
            case Branch(value, _, _) | Switch(value, _, _):
                return (value,)
            case LoopTest(loop, _, _):
                return self.loops[loop].bounds or ()
        return ()


def is_memory(kind: object) -> bool:
    """Whether a type is a memref or a pointer."""
    return type_text(kind).startswith(("memref<", "!llvm.ptr"))


def is_integer(kind: object) -> bool:
    """Whether a type is index or an integer."""
    return bits_of_text(type_text(kind)) is not None


def is_data(kind: object) -> bool:
    """Whether a type is a float or a vector, which no address depends on directly."""
    text = type_text(kind)
    return text.startswith(("f16", "f32", "f64", "bf16", "vector<", "f8", "tf32"))


def is_bit(kind: object) -> bool:
    return type_text(kind) == "i1"


# Which values matter: a subscript, a condition, a bound or a token depends on them. A GEMM's arithmetic on fragments
# does not, and is never looked at.


def needed_values(
    flow: Flow,
    read_by: Callable[[Run], Iterable[int]],
    loads: Callable[[Run], bool] = lambda run: False,
) -> set[int]:
    """The numbers of all values that matter; `read_by` gives those that an op with effects
    looks at. What an op `loads` is a function of the place.
    """
    sources: dict[int, set[int]] = {}
    pending: list[int] = []
    for step in flow.steps():
        if isinstance(step, Run) and not step.makes_values:
            pending.extend(read_by(step))
        if isinstance(step, Run) and (step.makes_values or loads(step)):
            for result in step.results:
                sources.setdefault(result, set()).update(step.operands)
    for target, source in flow.assigns():
        sources.setdefault(target, set()).add(source)
    for block in flow.blocks:
        pending.extend(flow.decided_by(block))
    for loop in flow.loops:
        pending.extend(loop.bounds or ())
    return reached(pending, lambda number: sources.get(number, ()))


def loop_bodies(flow: Flow) -> dict[int, tuple[int, frozenset[int]]]:
    """For each block that a back edge reaches: its loop, and the blocks of the loop's body."""
    ends: dict[int, tuple[int, set[int]]] = {}
    for loop, block, edge in flow.edges_of_loops("back"):
        ends.setdefault(edge.target, (loop, set()))[1].add(block.number)
    before = flow.before()
    return {
        header: (loop, frozenset(loop_body(header, sources, before.__getitem__)))
        for header, (loop, sources) in ends.items()
    }


def moving_values(flow: Flow) -> set[int]:
    """The values that are, or are made of, what the iterations of a loop have each for itself."""
    made: dict[int, list[int]] = {}
    for step in flow.runs():
        for operand in step.operands:
            made.setdefault(operand, []).extend(step.results)
    for target, source in flow.assigns():
        made.setdefault(source, []).append(target)
    carried = [t for *_, edge in flow.edges_of_loops("back") for t, _ in edge.assigns]
    variables = [loop.variable for loop in flow.loops if loop.variable is not None]
    return reached([*carried, *variables], lambda number: made.get(number, ()))


def live_values(
    flow: Flow, needed: set[int], until: Iterable[tuple[int, int]] = ()
) -> list[set[int]]:
    """For each block the values that it or a later block reads before they are made anew. A value is read, too, where the
    other one of a pair in `until` decides a branch or is read."""
    uses, makes = [], []
    read_with: dict[int, set[int]] = {}
    for value, other in until:
        read_with.setdefault(other, set()).add(value)

    def with_pairs(values: Iterable[int]) -> set[int]:
        found = needed.intersection(values)
        return found.union(*(read_with.get(value, ()) for value in found)) if read_with else found

    for block in flow.blocks:
        used: set[int] = set()
        made: set[int] = set()
        for step in block.steps:
            reads, writes = _reads_and_writes(flow, step)
            used |= with_pairs(reads) - made
            made |= writes
        used |= with_pairs(flow.decided_by(block)) - made
        uses.append(used)
        makes.append(made)
    live = [set(used) for used in uses]
    before = flow.before()
    pending = list(range(len(flow.blocks)))
    while pending:
        number = pending.pop()
        block = flow.blocks[number]
        after: set[int] = set()
        for edge in flow.edges(block):
            targets = {target for target, _ in edge.assigns}
            given = {s for t, s in edge.assigns if t in needed and t in live[edge.target]}
            after |= (live[edge.target] - targets) | given
        if isinstance(block.exit, LoopTest):
            # The test binds the induction variable on the edge into the body.
            variable = flow.loops[block.exit.loop].variable
            after -= {variable} if variable is not None else set()
        grown = uses[number] | (after - makes[number])
        if grown != live[number]:
            live[number] = grown
            pending.extend(before[number])
    return live


def _reads_and_writes(flow: Flow, step: Step) -> tuple[set[int], set[int]]:
    match step:
        case Assign(assigns):
            return {source for _, source in assigns}, {target for target, _ in assigns}
        case Run():
            return set(step.operands), set(step.results)
        case AnyIteration(loop, variable):
            return set(flow.loops[loop].bounds or ()), {variable}
    return set(), set()
