"""Iterations of loops on a path of phases.

    for %k = 0 to 12 step 4     k is 0, 4, 8
    for %k = 0 to %n            k is an unknown: n - k in a range, k with its residue

An unknown k always means *now*: after an iteration all that was made of it is made of k - step. Of
a constant number of very many iterations what is left is the unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from itertools import product as product_of
from math import gcd

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form, multiplied
from mlir_async_pipe.checker.phases.amounts import (
    AMOUNTS,
    EachThread,
    form_of,
    is_within,
    normal,
    trip_count,
)
from mlir_async_pipe.checker.phases.byte_places import Value, is_made_of, with_indices
from mlir_async_pipe.checker.phases.path_state import TRIP, Iteration, PathState, RoleState, Strand
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge, mentions, moved
from mlir_async_pipe.checker.precision import OpenError, Precision, RefineError, Rung
from mlir_async_pipe.checker.step_graph import Flow, Loop, Run
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.values.domains import typed
from mlir_async_pipe.vocabulary.operator_table import OPERATORS

# Loops of more iterations are followed as if their number were not known.
LONG_LOOP = 96
# Numbers that a loop of unknown length carries are distinguished up to here.
LARGEST_CARRIED = 16
# Iterations beside other roles are counted up to here, if one of these is in a loop like it; so
# many more if none is.
COUNTED, MORE_ALONE = 3, 9


_OF_ONE_ROLE = ("unknown", "made"), ("unknown", "iteration")


@dataclass
class LoopIterations:
    """The loops of one kernel, for all threads or `roles`; `some_long` have too many iterations to follow each."""

    flow: Flow
    precision: Precision
    rung: Rung
    roles: bool = False
    some_long: bool = False
    _later_loops: dict[int, list[int]] = field(default_factory=dict)

    def suppose_steps(self, known: Knowledge, given: Callable[[int], Value]) -> None:
        """The step that a kernel gets for a loop of its first block is 1 or more, for else nobody says
        what happens: before the loop too, where a pipeline of it begins."""
        for loop in self.flow.loops:
            if loop.bounds is None or loop.unsigned:
                continue
            step, (_, value) = given(loop.bounds.step), self.flow.values[loop.bounds.step]
            if isinstance(step, Form) and loop.place.block == value.owner:
                known.suppose(step)

    def check_bounds(self, state: PathState, number: int) -> None:
        """Raises OpenError where threads of a role have bounds of their own, and where it is open whether a loop runs."""
        bounds = self.flow.loops[number].bounds
        for bound in bounds if self.roles and bounds else ():
            value = state.get_here(bound)
            if isinstance(value, EachThread):
                raise OpenError(value)
        self._bounds(state, number)

    def enter(self, state: PathState, number: int) -> None:
        bounds = self._bounds(state, number)
        if bounds is None:
            counted = self._first_counted(state, number) if self.roles else None
            state.iterations[number] = counted or Iteration(self._any(state, number))
            return
        lower, upper, step = bounds
        total = forms.subtract(upper, lower)
        if not total.terms and (
            self.rung in (Rung.EXACT, Rung.NUMBERS) or total.constant <= LONG_LOOP * step
        ):
            state.iterations[number] = Iteration(normal(lower), step)
            return
        if self.roles:
            self.some_long |= not total.terms
            state.iterations[number] = Iteration(normal(lower), step, None, 0)
            return
        if not total.terms:
            self._enter_long(state, number, upper, total.constant, step)
            return
        atom = Atom("loop", number)
        low, high = state.known.bounds(state.known.coarse(total))
        done = forms.scale(self._unknown(state, atom, 0), step)
        state.known.learn(state.known.coarse(forms.subtract(total, done)), low, high)
        state.iterations[number] = Iteration(forms.add(lower, done), step, atom)

    def _enter_long(
        self, state: PathState, number: int, upper: Form, total: int, step: int
    ) -> None:
        """A loop of many iterations: what is left of them is an unknown, many or more."""
        atom = Atom("rest", (number, total))
        left = self._unknown(state, atom, total)
        state.known.learn(left, LONG_LOOP * step, None)
        state.doubtful = self.some_long = True
        state.iterations[number] = Iteration(forms.subtract(upper, left), step, atom)

    def _unknown(self, state: PathState, atom: Atom, residue: int | None) -> Form:
        """An unknown that is another number from now on, with a residue if that is known."""
        state.forget(atom)
        if residue is not None:
            modulus = self.precision.modulus
            state.known.residues[atom] = residue % modulus, modulus
        return forms.of_atom(atom)

    def _any(self, state: PathState, number: int) -> Form | None:
        """Any number, the same in all threads if they share the loop's bounds."""
        bounds = [state.get_here(bound) for bound in self.flow.loops[number].bounds or ()]
        if not bounds or not all(isinstance(bound, int | Form) for bound in bounds):
            return None
        return self._unknown(state, Atom("unknown", ("iteration", number)), None)

    def _bounds(
        self, state: PathState, number: int, get: Callable[[int], Value] | None = None
    ) -> tuple[Form, Form, int] | None:
        loop = self.flow.loops[number]
        if loop.bounds is None:
            return None
        lower, upper, step = map(get or state.get_here, loop.bounds)
        if not isinstance(lower, int | Form) or not isinstance(upper, int | Form):
            return None
        if loop.unsigned and not all(
            is_within(form_of(end), 0, loop.bits, state.known) for end in (lower, upper)
        ):
            # What is below 0 is a large number there.
            return None
        if isinstance(step, Form):
            # So many iterations, the same for all roles whose loops have these bounds.
            return Form(0), trip_count(form_of(lower), form_of(upper), step, state.known), 1
        if not isinstance(step, int) or step <= 0:
            return None
        return form_of(lower), form_of(upper), step

    def variable(self, state: PathState, number: int) -> Value:
        """What a loop's own variable is in this iteration, whose number is known."""
        bounds, value = self.flow.loops[number].bounds, state.iterations[number].value
        if bounds is None or value is None:
            return value
        lower, _, step = map(state.get_here, bounds)
        if not isinstance(step, Form) or not isinstance(lower, int | Form):
            return value
        return normal(forms.add(form_of(lower), multiplied(form_of(value), step)))

    def rest(self, state: PathState, number: int) -> tuple[int | Form | None, Form | None]:
        """This iteration's number (None: it differs between threads), and upper bound less that (None: not known)."""
        value, bounds = state.iterations[number].value, self._bounds(state, number)
        if value is None or bounds is None:
            return value, None
        return value, forms.subtract(bounds[1], form_of(value))

    def check_open(self, state: PathState, form: Form) -> None:
        """A condition is open. One that compares an unknown number of iterations with a number near
        the first ones asks to count these; one on what another role may know by another name need
        not hold there as well. Raises RefineError."""
        if not self.roles:
            return
        atoms = forms.atoms_of(form)
        # Another role that comes to the same number has another name for it.
        own = (a.kind == "carried" or (a.kind, a.tag) in _OF_ONE_ROLE for a in atoms)
        state.doubtful |= state.is_role and any(own)
        if len(form.terms) != 1:
            return
        ((atom, factor),) = form.terms
        at = abs(form.constant // factor) + 1
        if atom.kind == TRIP and at <= LONG_LOOP // 2:
            loops = {
                number
                for strand in state.strands()
                for number, iteration in strand.iterations.items()
                if is_made_of(iteration.value, atom)
            }
            most = at + max(map(self._most_counted, loops))
            raise RefineError(counted=dict.fromkeys(loops, most))
        state.doubtful |= atom.kind == TRIP and atom.key[1] is None

    def _most_counted(self, number: int) -> int:
        return self.precision.counted.get(number, COUNTED)

    def may_end(self, state: PathState, rest: Form) -> bool:
        """Whether a loop may end here by the residues of its numbers."""
        low, high = state.known.bounds(rest)
        if not self.roles or low is None or low != high:
            return True
        modulus = self.precision.modulus
        return state.known.residue(rest, modulus) in (None, low % modulus)

    def repeat(self, state: PathState, number: int, carried: Mapping[int, Value]) -> None:
        """The next iteration begins; values are assigned that were others before, as `carried` says."""
        iteration = state.iterations.get(number, Iteration(None))
        if iteration.unknown is not None:
            by = -iteration.step if iteration.unknown.kind == "rest" else 1
            _advance(state, iteration.unknown, by)
        elif not iteration.step:
            state.iterations[number] = Iteration(self._any(state, number))
        elif iteration.value is not None:
            following = normal(forms.add(form_of(iteration.value), Form(iteration.step)))
            state.iterations[number] = iteration._replace(value=following)
            if iteration.over >= 0:
                self._count(state, number)
        if any(isinstance(iteration.value, Form | None) for iteration in state.iterations.values()):
            for target, before in carried.items():
                if not self._counts(state, number, target):
                    self._bound_carried(state, target, before)

    def leave(self, state: PathState, number: int) -> None:
        """The loop is over; nothing is known any more of an unknown that nobody counts by."""
        iteration = state.iterations.pop(number, None)
        if iteration is None or not self.roles or not isinstance(iteration.value, Form):
            return
        left = [t.value for strand in state.strands() for t in strand.iterations.values()]
        for atom, _ in iteration.value.terms:
            if atom.kind == TRIP and not any(is_made_of(value, atom) for value in left):
                state.forget(atom)

    def _count(self, state: PathState, number: int) -> None:
        """One more iteration beside other roles: those in a loop like it stay a known number of iterations apart."""
        iteration = state.iterations[number]
        over, counted = iteration.over + 1, self._most_counted(number)
        state.iterations[number] = iteration._replace(over=over)
        begun = self._begun(state, number, state)
        if begun is None or over < counted:
            return
        alike = [
            (strand, other, since)
            for strand in state.others
            for other, theirs in strand.iterations.items()
            if theirs.over >= 0
            and (since := _later_begun(begun, self._begun(state, other, strand))) is not None
        ]
        later_ones = self.precision.abreast and self._some_begin_later(state, begun)
        if (later_ones or not alike) and over < counted + MORE_ALONE:
            return
        if not alike and state.others:
            state.doubtful = True
        lower, upper, step = begun
        total = None if upper is None else forms.subtract(upper, lower)
        trips = None if total is None or total.terms else -(-total.constant // step)
        atom = _unused(state, trips)
        trip = self._unknown(state, atom, over)
        done = forms.scale(trip, step)
        if total is None:
            learn_later(state, trip, {step}, over, self._compared(state, number))
            _learn(state, trip, over, None)
        elif total.terms:
            rest = forms.subtract(total, Form(step * over))
            low, high = state.known.bounds(state.known.coarse(rest))
            _learn(state, state.known.coarse(forms.subtract(total, done)), low, high)
            _learn(state, trip, over, None)
        else:
            _learn(state, trip, over, -(-total.constant // step))
        own = forms.add(lower, done)
        state.count_from(atom, over, state.known.beside(atom))
        state.iterations[number] = Iteration(own, step, atom)
        later = forms.subtract(trip, Form(over))
        self._count_on(state, state, number, later)
        for strand, other, since in alike:
            distance = since + step * (strand.iterations[other].over - over)
            strand.iterations[other] = Iteration(forms.add(own, Form(distance)), step)
            self._count_on(state, strand, other, later)

    def _some_begin_later(self, state: PathState, begun: tuple[Form, Form | None, int]) -> bool:
        """Whether a role is in no loop like one that has begun, and comes to one: when it begins it is a known number of
        iterations behind only as long as these are counted."""

        def alike(strand: Strand, loop: int) -> bool:
            return _later_begun(begun, self._begun(state, loop, strand)) is not None

        return any(
            not any(alike(strand, loop) for loop in strand.iterations)
            and any(alike(strand, loop) for loop in self._entered_after(strand.block))
            for strand in state.others
        )

    def _entered_after(self, block: int) -> list[int]:
        """The loops with bounds that may be entered from a block on."""
        if block not in self._later_loops:
            later = reached([block], self.flow.after)
            self._later_loops[block] = [
                loop
                for loop, holder, _ in self.flow.edges_of_loops("enter")
                if holder.number in later and self.flow.loops[loop].bounds is not None
            ]
        return self._later_loops[block]

    def _counts(self, state: PathState, number: int, target: int) -> bool:
        """Whether a loop without bounds counts by a number that it carries: from where that is large, how often it
        was counted since is an unknown, of which all numbers are made that the loop counts.

        %k = 0, 64: n - 64 is 1 or more, the loop goes on     %k = 64 + 64 i, and n - 64 i - 64 is 1 or more at i = 0
        """
        loop, atom = self.flow.loops[number], Atom("loop", number)
        value = state.env.get(target)
        if is_made_of(value, state.iterations[number].unknown or atom):
            return True
        if loop.bounds is not None or target not in loop.inductions:
            return False
        if self.rung is Rung.NUMBERS and isinstance(value, int):
            return value < LONG_LOOP * loop.inductions[target]
        if self.roles:
            return False
        is_small = isinstance(value, int) and value < LARGEST_CARRIED
        if is_small or not isinstance(value, int | Form):
            return False
        count = self._unknown(state, atom, 0)
        for counter, step in loop.inductions.items():
            now = state.env.get(counter)
            if isinstance(now, int | Form):
                state.env[counter] = forms.add(form_of(now), forms.scale(count, step))
        steps = {step for step in loop.inductions.values() if step}
        learn_later(state, count, steps, 0, self._compared(state, number))
        state.iterations[number] = Iteration(count, 1, atom)
        return True

    def _first_counted(self, state: PathState, number: int) -> Iteration | None:
        """The first iteration of a loop without bounds, by the compared number, if any, that it counts in the largest steps."""
        loop = self.flow.loops[number]
        starts = [
            (step, value)
            for counter, step in loop.inductions.items()
            if step > 0
            and (counter in loop.tested or not loop.tested)
            and isinstance(value := state.env.get(counter), int | Form)
        ]
        step, value = max(starts, key=lambda start: start[0], default=(0, 0))
        return Iteration(value, step, None, 0) if step else None

    def _begun(
        self, state: PathState, number: int, strand: RoleState
    ) -> tuple[Form, Form | None, int] | None:
        """Where a loop of a role began, and where it ends, if it has bounds, and its step."""
        if self.flow.loops[number].bounds is not None:
            try:
                return self._bounds(state, number, strand.get)
            except OpenError:  # It is open again whether there are iterations.
                return None
        now = strand.iterations[number]
        if not isinstance(now.value, int | Form) or now.over < 0:
            return None
        return forms.subtract(form_of(now.value), Form(now.step * now.over)), None, now.step

    def _count_on(self, state: PathState, strand: RoleState, number: int, later: Form) -> None:
        """Of a loop without bounds, the numbers that it counts, so many iterations later, and what is made of them in this
        iteration, as far as that is known again. Conditions were decided."""
        loop, again = self.flow.loops[number], []
        if loop.bounds is not None:
            return
        for made, value in list(strand.env.items()):
            counted = loop.counted.get(made, 0)
            if counted is None:
                strand.env[made] = None
                again += [made] if isinstance(value, int | Form | EachThread) else []
            elif counted and isinstance(value, int | Form):
                strand.env[made] = forms.add(form_of(value), forms.scale(later, counted))
        for made in sorted(again):
            strand.env[made] = self._made_again(strand, made, state.known)

    def _made_again(self, strand: RoleState, made: int, known: Knowledge) -> Value:
        """What an integer operator gives of its operands now, None if that is open."""
        run = self._makers.get(made)
        operands = [] if run is None else [strand.get(number) for number in run.operands]
        values = [value for value in operands if isinstance(value, int | Form | EachThread)]
        if run is not None and len(values) == len(operands):
            with suppress(OpenError):
                return AMOUNTS.evaluate(typed(run.op), [*values], known)
        return None

    @cached_property
    def _makers(self) -> dict[int, Run]:
        """The integer operators that make values, by the numbers of these."""
        runs = (run for run in self.flow.runs() if run.name in OPERATORS and len(run.results) == 1)
        return {run.results[0]: run for run in runs if typed(run.op).scalar}

    def _compared(self, state: PathState, number: int) -> set[Atom]:
        """The unknowns of which numbers are made that a loop counts, or compares with these."""
        values = [state.get_here(compared) for compared in self.flow.loops[number].compared]
        return {atom for value in values if isinstance(value, Form) for atom, _ in value.terms}

    def _bound_carried(self, state: PathState, target: int, before: Value) -> None:
        """A number that grows with each iteration of a loop of unknown length is kept as its residue, if it has one
        that is known: that of a tile in steps of the grid is not."""
        value, atom = state.env.get(target), Atom("carried", target)
        residue: int | None
        if isinstance(value, int) and value >= LARGEST_CARRIED:
            residue = value % self.precision.modulus
        elif isinstance(value, Form) and (mentions(value, atom) or _strides(value, before)):
            low, _ = state.known.bounds(value)
            if low is None or low < 0:
                state.env[target] = None
                return
            residue = state.known.residue(value, self.precision.modulus)
        else:
            return
        state.env[target] = self._unknown(state, atom, residue)


def _strides(value: Form, before: Value) -> bool:
    """Whether a number has grown by one that is not known, as the size of the grid is."""
    if not isinstance(before, int | Form):
        return False
    more = forms.subtract(value, form_of(before))
    return bool(more.terms) and all(atom.kind == "size" for atom, _ in more.terms)


def iteration_of(loop: Loop, strand: RoleState) -> int | None:
    """The number of the iteration, from 1 on, that a role is in, if it is known."""
    now = strand.iterations[loop.number]
    if loop.bounds is None:
        return None
    lower, _, step = map(strand.get, loop.bounds)
    if not isinstance(now.value, int) or not isinstance(lower, int) or not isinstance(step, int):
        return None
    return (now.value - lower) // step + 1


def _later_begun(
    one: tuple[Form, Form | None, int], other: tuple[Form, Form | None, int] | None
) -> int | None:
    """How much later than one loop another one begins that ends where it does, by whole steps; None where it is none
    such. A pipeline that peels iterations begins so much later."""
    if other is None or one[1:] != other[1:]:
        return None
    later = forms.subtract(other[0], one[0])
    whole = not later.terms and not later.constant % one[2]
    return later.constant if whole and (one[1] is not None or not later.constant) else None


def _unused(state: PathState, trips: int | None) -> Atom:
    """An unknown that no loop is counted by."""
    used = {
        atom
        for strand in state.strands()
        for iteration in strand.iterations.values()
        if isinstance(iteration.value, Form)
        for atom, _ in iteration.value.terms
    }
    return next(atom for n in count() if (atom := Atom(TRIP, (n, trips))) not in used)


def _learn(state: PathState, form: Form, low: int | None, high: int | None) -> None:
    if gcd(*(factor for _, factor in form.terms)) == 1:
        state.known.learn(form, low, high)


def learn_later(
    state: PathState, count: Form, steps: set[int], now: int, compared: set[Atom]
) -> None:
    """What is known of sums of what a loop compares is known of them less what the iterations, which are `now` so many,
    add. Of others no condition says that it still holds: their ends would be new ones in each iteration."""
    for direction, ends in list(state.known.ranges.items()):
        if not all(atom in compared for atom, _ in direction):
            continue
        # The end that iterations come nearer to: n is 129 or more, so n - 64 k is 129 - 64 k or more.
        for step, (sign, end) in product_of(
            {abs(step) for step in steps}, zip((1, -1), ends, strict=True)
        ):
            if end is not None:
                later = forms.subtract(Form(0, direction), forms.scale(count, sign * step))
                at_now = end - sign * step * now
                state.known.learn(later, *((at_now, None) if sign == 1 else (None, at_now)))


def _advance(state: PathState, atom: Atom, step: int) -> None:
    state.known.advance(atom, step)

    def later(value: Value) -> Value:
        if isinstance(value, Form):
            return moved(value, atom, step) if mentions(value, atom) else value
        return with_indices(value, lambda index: moved(index, atom, step))

    state.rewrite(later)
    for other in state.others:
        for number, here in other.iterations.items():
            if isinstance(here.value, Form) and mentions(here.value, atom):
                other.iterations[number] = here._replace(value=moved(here.value, atom, step))
