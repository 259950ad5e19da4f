"""Follows all paths through a kernel until no new abstract state appears.

Work is a list of (block, step, state). Where a condition is open the state splits; where
paths meet, a state that is covered by one seen before is dropped. A state that differs from
an earlier one only in its numbers (iteration, trip count) is widened: the numbers become an
interval with a common residue, so a loop is left after about V + depth iterations of V slots,
whatever its trip count.

What is easy to get wrong: two states are "the same" only with equal values, queues and bits;
residues of iteration numbers are part of that, as far as some `mod V` in the kernel needs
them. The needed modulus is found while running, and the run starts again with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from math import gcd, lcm
from typing import Any

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.arithmetic import UndecidedError, exact, settle
from mlir_async_pipe.checker.bounding import bound
from mlir_async_pipe.checker.counters import Counters
from mlir_async_pipe.checker.effects import Effects
from mlir_async_pipe.checker.forms import ANYTHING, Atom, Form, Known
from mlir_async_pipe.checker.graph import (
    AnyIteration,
    Block,
    Bracket,
    Branch,
    Copy,
    Edge,
    Flow,
    Goto,
    LoopTest,
    Run,
    Step,
    Stop,
    Switch,
)
from mlir_async_pipe.checker.graph_facts import live_values, needed_values
from mlir_async_pipe.checker.merging import covers, forget_facts, key_of, widened
from mlir_async_pipe.checker.paths import at_least, at_most, split
from mlir_async_pipe.checker.state import State, Value
from mlir_async_pipe.checker.values import Values

# Slots repeat after V <= 64 iterations in every ring that fits into workgroup memory.
LARGEST_PERIOD = 64
# States of one kind that are followed on their own before they are widened.
SEPARATE_STATES = 6


class BudgetError(Exception):
    """Too many states: the rest of the kernel stays unknown."""


class PeriodError(Exception):
    """A remainder needs iteration numbers of a loop modulo more than is tracked."""

    def __init__(self, loop: int, period: int) -> None:
        self.loop = loop
        self.period = period


@dataclass
class Explorer:
    """One run over one kernel. `budget` bounds the number of states followed."""

    flow: Flow
    values: Values
    effects: Effects
    budget: int = 20_000
    periods: dict[int, int] = field(default_factory=dict)
    states: int = 0

    def __post_init__(self) -> None:
        self.needed = needed_values(self.flow)
        self.live = live_values(self.flow, self.needed)
        self.plans: list[list[Callable[[State], None]]] = [[] for _ in self.flow.blocks]
        for block in self.flow.blocks:
            # Half of a kernel computes data, which no address depends on.
            steps = [s for s in block.steps if not (self._makes_data(s) or self._is_fixed(s))]
            self.plans[block.number] = [self._plan(step) for step in steps]
        self.headers = {
            edge.target
            for block in self.flow.blocks
            for edge in self.flow.edges(block)
            if any(kind == "back" for kind, _ in edge.loops)
        }

    def run(self) -> None:
        """Follow all paths. Raises BudgetError, PeriodError."""
        self.seen: dict[int, dict[Hashable, list[dict[Atom, Known]]]] = {}
        self.counters = Counters(self.values)
        start = State({}, {}, frozenset(), frozenset(), dict(self.values.base_facts()))
        self.work = [(0, 0, start)]
        while self.work:
            self.states += 1
            if self.states > self.budget:
                raise BudgetError
            number, step, state = self.work.pop()
            block = self.flow.blocks[number]
            if step == 0 and block.merges:
                arrived = self._arrive(block, state)
                if arrived is None:
                    continue
                state = arrived
            self._block(block, step, state)

    def _block(self, block: Block, first: int, state: State) -> None:
        plan = self.plans[block.number]
        for position in range(first, len(plan)):
            try:
                plan[position](state)
            except UndecidedError as open_condition:
                for side in split(open_condition.condition, state.facts):
                    half = state.copy()
                    half.facts = dict(side.facts)
                    half.tainted = half.tainted or not side.exact
                    self.work.append((block.number, position, half))
                return
        self._exit(block, state)

    def _plan(self, step: Step) -> Callable[[State], None]:
        """Read a step once; what it gives runs on a state."""
        match step:
            case Run() as run if run.makes_values:
                return self._plan_value(run.op, run.frame)
            case Run() as run:
                return self.effects.prepare(run.op, run.frame, run.maybe, run.variables)
            case Copy(assigns):
                return lambda state: self._assign(state, assigns)
            case AnyIteration(loop, variable):
                return partial(self._bind_any_iteration, loop, variable)
            case Bracket(kind, op, frame):
                return lambda state: self.effects.bracket(state, kind, op, frame)

    def _plan_value(self, op: Any, frame: int) -> Callable[[State], None]:
        evaluate = self.values.prepare(op, frame)

        def run(state: State) -> None:
            value = evaluate(state)
            if isinstance(value, Form) and any(atom.kind == "call" for atom, _ in value.terms):
                self._check_periods(state, value)

        return run

    def _makes_data(self, step: Any) -> bool:
        """Whether a step only makes values that nothing followed here depends on."""
        return isinstance(step, Run) and step.makes_values and self.needed.isdisjoint(step.results)

    def _is_fixed(self, step: Any) -> bool:
        """Whether a step is thread arithmetic: the same in every state, computed beforehand."""
        return isinstance(step, Run) and step.makes_values and self.values.fix(step.op, step.frame)

    def _check_periods(self, state: State, value: Form) -> None:
        """A remainder by V of an iteration number: track that number modulo V."""
        for loop, period in needed_periods(value):
            known = state.facts.get(Atom("iteration", loop), ANYTHING)
            wanted = lcm(self.periods.get(loop, 1), period)
            if known.modulus % period and known.exact is None and wanted <= LARGEST_PERIOD:
                raise PeriodError(loop, wanted)

    def _assign(self, state: State, assigns: tuple[tuple[int, int], ...]) -> None:
        new: list[tuple[int, Value | None]] = [
            (target, self.values.get(state, source))
            for target, source in assigns
            if target in self.needed
        ]
        for target, value in new:
            if value is None:
                state.env.pop(target, None)
            else:
                state.env[target] = value

    def _bind_any_iteration(self, number: int, variable: int, state: State) -> None:
        state.env[variable] = self._any_iteration(state, number, variable)

    def _any_iteration(self, state: State, number: int, variable: int) -> Form:
        loop = self.flow.loops[number]
        count: int | None = None
        lower = forms.ZERO
        step = 1
        if loop.lower is not None and loop.upper is not None and loop.step is not None:
            lower = self.values.form(state, loop.lower)
            upper = self.values.form(state, loop.upper)
            width = settle(self.values.form(state, loop.step), state.facts)
            _, high = forms.bounds(forms.subtract(upper, lower), state.facts)
            if not width.is_constant or width.constant <= 0:
                return forms.of_atom(Atom("any", (("variable", variable), ANYTHING)))
            step = width.constant
            count = None if high is None else -(-high // step)
        known = Known(0, None if count is None else max(count - 1, 0))
        atom = Atom("any", (("summary", variable), known))
        return forms.add(lower, forms.scale(forms.of_atom(atom), step))

    # The ways out of a block --------------------------------------------------------------

    def _exit(self, block: Block, state: State) -> None:
        match block.exit:
            case Goto(edge):
                self._follow(edge, state)
            case Branch(condition, then, otherwise):
                form = self.values.form(state, condition)
                self._split(state, form, {1: then, 0: otherwise}, block)
            case LoopTest(loop, body, out):
                self._test(loop, body, out, state)
            case Switch(value, cases, default):
                self._switch(value, cases, default, state)
            case Stop():
                self.effects.judge.end(state)

    def _split(self, state: State, form: Form, ways: dict[int, Edge], block: Block) -> None:
        for side in split(form, state.facts):
            half = state.copy()
            half.facts = dict(side.facts)
            half.tainted = half.tainted or not side.exact
            value = exact(settle(form, half.facts), half.facts)
            if value is None:
                self.work.append((block.number, len(self.plans[block.number]), half))
            elif value == side.truth or form.terms:
                self._follow(ways[1 if value else 0], half)

    def _test(self, number: int, body: Edge, out: Edge, state: State) -> None:
        """Another iteration runs iff upper - lower - step * k > 0."""
        loop = self.flow.loops[number]
        if loop.lower is None or loop.upper is None or loop.step is None:
            self._free_test(number, body, out, state)
            return
        lower = self.values.form(state, loop.lower)
        step = settle(self.values.form(state, loop.step), state.facts)
        k = forms.of_atom(Atom("iteration", number))
        if not step.is_constant or step.constant <= 0:
            self._free_test(number, body, out, state)
            return
        rest = forms.subtract(self.values.form(state, loop.upper), lower)
        self._at_least_as_before(state, number, rest, step.constant)
        rest = forms.subtract(rest, forms.scale(k, step.constant))
        more, more_exact = at_least(rest, 1, state.facts)
        if more is not None:
            again = state.copy()
            again.facts = dict(more)
            again.tainted = again.tainted or not more_exact
            if loop.variable is not None and loop.variable in self.needed:
                again.env[loop.variable] = forms.add(lower, forms.scale(k, step.constant))
            self._follow(body, again)
        ended, ended_exact = at_most(rest, 0, state.facts)
        if ended is not None:
            left = state.copy()
            left.facts = dict(ended)
            left.tainted = left.tainted or not ended_exact
            _learn_residue(left.facts, rest, Atom("iteration", number))
            _count_out(left, rest, Atom("iteration", number), step.constant)
            self._follow(out, left)

    def _at_least_as_before(self, state: State, number: int, total: Form, step: int) -> None:
        """Iteration k-1 ran, so total - step * k >= 1 - step, unless no iteration did."""
        atom = Atom("iteration", number)
        low, _ = forms.bounds(total, state.facts)
        known = state.facts.get(atom, ANYTHING)
        if (low is not None and low > -step) or (known.low is not None and known.low >= 1):
            rest = forms.subtract(total, forms.scale(forms.of_atom(atom), step))
            held, _ = at_least(rest, 1 - step, state.facts)
            if held is not None:
                state.facts = dict(held)

    def _free_test(self, number: int, body: Edge, out: Edge, state: State) -> None:
        loop = self.flow.loops[number]
        again = state.copy()
        if loop.variable is not None:
            _, ssa = self.flow.values[loop.variable]
            self.values.forget(again, loop.variable, ssa.type)
        self._follow(body, again)
        self._follow(out, state.copy())

    def _switch(
        self, value: int, cases: tuple[tuple[int, Edge], ...], default: Edge, state: State
    ) -> None:
        form = self.values.form(state, value)
        decided = exact(settle(form, state.facts), state.facts)
        if decided is not None:
            self._follow(next((e for v, e in cases if v == decided), default), state)
            return
        for number, edge in cases:
            low, low_exact = at_least(form, number, state.facts)
            both, both_exact = at_most(form, number, low) if low is not None else (None, False)
            if both is not None:
                side = state.copy()
                side.facts = dict(both)
                side.tainted = side.tainted or not (low_exact and both_exact)
                self._follow(edge, side)
        self._follow(default, state.copy())

    def _follow(self, edge: Edge, state: State) -> None:
        """Take an edge: assign, then move the iteration numbers of the loops it concerns."""
        self._assign(state, edge.assigns)
        for kind, number in edge.loops:
            if kind == "enter":
                self._enter(state, number, edge)
            elif kind == "back":
                self._repeat(state, number)
            else:
                self._leave(state, number)
        self.work.append((edge.target, 0, state))

    def _enter(self, state: State, number: int, edge: Edge) -> None:
        atom = Atom("iteration", number)
        state.facts[atom] = Known(0, 0)
        for target, growth in self.flow.loops[number].inductions.items():
            value = state.env.get(target)
            if isinstance(value, Form):
                state.env[target] = forms.add(value, forms.scale(forms.of_atom(atom), growth))

    def _repeat(self, state: State, number: int) -> None:
        """What was iteration k is now iteration k - 1."""
        atom = Atom("iteration", number)
        before = forms.add(forms.of_atom(atom), Form(-1))
        known = state.facts.get(atom, ANYTHING)
        state.rewrite({atom: before})
        modulus = known.modulus
        state.facts[atom] = Known(
            None if known.low is None else known.low + 1,
            None if known.high is None else known.high + 1,
            (known.residue + 1) % modulus,
            modulus,
        )
        bound(state, self.effects.sites.largest_wait)

    def _leave(self, state: State, number: int) -> None:
        """The iteration number becomes the trip count, or a symbol of its own."""
        atom = Atom("iteration", number)
        known = state.facts.get(atom, ANYTHING)
        if known.exact is not None:
            state.rewrite({atom: Form(known.low or 0)})
        else:
            ended = Atom("symbol", ("trips", number))
            past = forms.of_atom(Atom("any", (("past", ended.key), ANYTHING)))
            state.rewrite({ended: past})
            state.rewrite({atom: forms.of_atom(ended)})
            state.facts[ended] = known
        state.facts.pop(atom, None)

    def _arrive(self, block: Block, state: State) -> State | None:
        """The state to go on with, or None if it is covered already."""
        live = self.live[block.number]
        state.env = {n: v for n, v in state.env.items() if n in live}
        is_header = block.number in self.headers
        if is_header:
            self.counters.forget_endless(block.number, state)
        else:
            state.facts.update(self.values.base_facts())
        forget_facts(state, live)
        known = self.seen.setdefault(block.number, {}).setdefault(key_of(state, self.periods), [])
        if any(covers(facts, state.facts) for facts in known):
            return None
        if len(known) >= (1 if is_header else SEPARATE_STATES):
            state.facts = widened(known[-1], state.facts)
        known.append(dict(state.facts))
        return state


def _learn_residue(facts: dict[Atom, Known], rest: Form, iteration: Atom) -> None:
    """With rest = n - k - c = 0, the bound n has the residue of the iteration number k."""
    known = facts.get(iteration, ANYTHING)
    others = [term for term in rest.terms if term[0] != iteration]
    if known.modulus <= 1 or len(others) != 1 or forms.bounds(rest, facts) != (0, 0):
        return
    ((atom, coefficient),) = others
    without = Form(rest.constant, rest.terms - {(atom, coefficient)})
    inside = forms.residue(forms.scale(without, -coefficient), known.modulus, facts)
    if abs(coefficient) == 1 and inside is not None:
        old = facts.get(atom, ANYTHING)
        facts[atom] = Known(old.low, old.high, inside, known.modulus)


def _count_out(state: State, rest: Form, iteration: Atom, step: int) -> None:
    """With rest = n - step * k = 0, write the trip count n / step where k stands."""
    total = forms.add(rest, forms.scale(forms.of_atom(iteration), step))
    divides = all(c % step == 0 for c in (total.constant, *(c for _, c in total.terms)))
    if divides and total.terms and forms.bounds(rest, state.facts) == (0, 0):
        trips = frozenset((atom, c // step) for atom, c in total.terms)
        state.rewrite({iteration: Form(total.constant // step, trips)})


def needed_periods(form: Form, modulus: int = 0) -> list[tuple[int, int]]:
    """(loop, period): iteration numbers that stand under a remainder, and modulo what."""
    found = []
    for atom, coefficient in form.terms:
        if atom.kind == "iteration" and modulus:
            period = modulus // gcd(modulus, coefficient)
            if period > 1:
                found.append((int(atom.key), period))  # type: ignore[call-overload]
        elif atom.kind == "call":
            name, arguments = forms.operator_of(atom)
            if name == "mod":
                found += needed_periods(arguments[0], arguments[1].constant)
            elif name == "div" and modulus:
                found += needed_periods(arguments[0], arguments[1].constant * modulus)
    return found
