"""Iterations of loops on a path of phases.

    for %k = 0 to 12 step 4     k is 0, 4, 8
    for %k = 0 to %n            k is an unknown: n - k in a range, k with its residue

An unknown k always means *now*: after an iteration all that was made of it is made of k - step. Of
a constant number of very many iterations what is left is the unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phases.amounts import form_of, normal
from mlir_async_pipe.checker.phases.path_state import PathState, Turn
from mlir_async_pipe.checker.phases.ranges_of_sums import mentions
from mlir_async_pipe.checker.step_graph import Flow

# Loops of more iterations are followed as if their number were not known.
LONG_LOOP = 96
# Numbers that a loop of unknown length carries are told apart up to here.
LARGEST_CARRIED = 16


@dataclass
class LoopTurns:
    """The loops of one kernel, whose numbers are known modulo `modulus`; those of many iterations
    are followed one by one if `exact`, else there are `some_long`."""

    flow: Flow
    modulus: int
    exact: bool
    some_long: bool = False

    def enter(self, state: PathState, number: int) -> None:
        """The first iteration begins."""
        bounds = self._bounds(state, number)
        if bounds is None:
            state.turns[number] = Turn(self._any(state, number))
            return
        lower, upper, step = bounds
        total = forms.subtract(upper, lower)
        if not total.terms and (self.exact or total.constant <= LONG_LOOP * step):
            state.turns[number] = Turn(normal(lower), step)
            return
        if not total.terms:
            self._enter_long(state, number, upper, total.constant, step)
            return
        atom = Atom("loop", number)
        low, high = state.known.bounds(state.known.coarse(total))
        state.forget(atom)
        state.known.residues[atom] = 0, self.modulus
        done = forms.scale(forms.of_atom(atom), step)
        state.known.learn(state.known.coarse(forms.subtract(total, done)), low, high)
        state.turns[number] = Turn(forms.add(lower, done), step, atom)

    def _enter_long(
        self, state: PathState, number: int, upper: Form, total: int, step: int
    ) -> None:
        """A loop of many iterations: what is left of them is an unknown, many or more."""
        atom = Atom("rest", (number, total))
        state.forget(atom)
        state.known.residues[atom] = total % self.modulus, self.modulus
        state.known.learn(forms.of_atom(atom), LONG_LOOP * step, None)
        state.doubtful = self.some_long = True
        state.turns[number] = Turn(forms.subtract(upper, forms.of_atom(atom)), step, atom)

    def _any(self, state: PathState, number: int) -> Form | None:
        """Any number, the same in all threads if they share the loop's bounds."""
        loop = self.flow.loops[number]
        bounds = [state.get(n) for n in (loop.lower, loop.upper, loop.step) if n is not None]
        if len(bounds) < 3 or not all(isinstance(bound, int | Form) for bound in bounds):
            return None
        atom = Atom("unknown", ("turn", number))
        state.forget(atom)
        return forms.of_atom(atom)

    def _bounds(self, state: PathState, number: int) -> tuple[Form, Form, int] | None:
        loop = self.flow.loops[number]
        if loop.lower is None or loop.upper is None or loop.step is None:
            return None
        lower, upper, step = (state.get(n) for n in (loop.lower, loop.upper, loop.step))
        if not isinstance(lower, int | Form) or not isinstance(upper, int | Form):
            return None
        if not isinstance(step, int) or step <= 0:
            return None
        return form_of(lower), form_of(upper), step

    def rest(self, state: PathState, number: int) -> tuple[int | Form | None, Form | None]:
        """The number of this iteration (None: one of its own in each thread), and upper bound minus
        that (None: another iteration may come or not)."""
        value, bounds = state.turns[number].value, self._bounds(state, number)
        if value is None or bounds is None:
            return value, None
        return value, forms.subtract(bounds[1], form_of(value))

    def repeat(self, state: PathState, number: int, carried: Iterable[int]) -> None:
        """The next iteration begins; the values `carried` are assigned."""
        turn = state.turns.get(number, Turn(None))
        if turn.unknown is not None:
            by = -turn.step if turn.unknown.kind == "rest" else 1
            _advance(state, turn.unknown, by)
        elif not turn.step:
            state.turns[number] = Turn(self._any(state, number))
        elif turn.value is not None:
            following = normal(forms.add(form_of(turn.value), Form(turn.step)))
            state.turns[number] = turn._replace(value=following)
        if any(isinstance(turn.value, Form | None) for turn in state.turns.values()):
            for target in carried:
                self._bound_carried(state, target)

    def _bound_carried(self, state: PathState, target: int) -> None:
        """A number that grows with each iteration of a loop of unknown length is kept as its
        residue."""
        value, atom = state.env.get(target), Atom("carried", target)
        residue: int | None
        if isinstance(value, int) and value >= LARGEST_CARRIED:
            residue = value % self.modulus
        elif isinstance(value, Form) and mentions(value, atom):
            low, _ = state.known.bounds(value)
            if low is None or low < 0:
                state.env[target] = None
                return
            residue = state.known.residue(value, self.modulus)
        else:
            return
        state.forget(atom)
        if residue is not None:
            state.known.residues[atom] = residue, self.modulus
        state.env[target] = forms.of_atom(atom)


def _advance(state: PathState, atom: Atom, step: int) -> None:
    state.known.advance(atom, step)
    for number, value in state.env.items():
        if isinstance(value, Form):
            by = step * dict(value.terms).get(atom, 0)
            if by:
                state.env[number] = forms.add(value, Form(-by))
            elif mentions(value, atom):
                state.env[number] = None
