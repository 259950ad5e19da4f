"""What loops do to a state: iteration numbers on the edges in, back and out.

enter     k = 0, steady counters become start + step * k
repeat    what was iteration k is now iteration k - 1
leave     k becomes the trip count, where that is known, else a symbol of its own
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import constant_value
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.arithmetic import settle, stored, unsigned
from mlir_async_pipe.checker.carried_slots import CarriedNumbers
from mlir_async_pipe.checker.forms import ANYTHING, Atom, AtomRange, Facts, Form, Knowns, product
from mlir_async_pipe.checker.grid_blocks import is_own_of_block, own_number
from mlir_async_pipe.checker.path_values import PathValues
from mlir_async_pipe.checker.paths import at_least, at_most, sum_at_least
from mlir_async_pipe.checker.state import Event, Group, State, Substitution, moved, rewrite, stale
from mlir_async_pipe.checker.step_graph import Flow, Loop, Run
from mlir_async_pipe.checker.thread_grid import is_about_threads
from mlir_async_pipe.facts.values import sums
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS
from mlir_async_pipe.facts.values.views import (
    BYTES,
    Piece,
    Region,
    as_bytes,
    pointer_view,
    whole_root,
)


@dataclass
class Iterations:
    """The loops of one kernel. `largest_wait` bounds what states remember (see `bound`),
    `needed` are the values that matter. With `slots`, iteration numbers stay unknowns where
    remainders of them are taken; without, those fold to numbers."""

    flow: Flow
    values: PathValues
    needed: set[int]
    largest_wait: int
    slots: CarriedNumbers | None

    def enter(self, state: State, number: int, twin: Callable[[int], int | None]) -> None:
        """The first iteration begins of a loop that has a `twin` of some accesses before it."""
        atom = Atom("iteration", number)
        state.facts[atom] = AtomRange(0, 0)
        if self.slots is not None:
            state.rings = {**state.rings, number: self.slots.rings(number, _constants(state))}
            self._bind_rings(state, number)
            self._rotate_slots(state, number, twin)
        for target, growth in self.flow.loops[number].inductions.items():
            value = state.env.get(target)
            if isinstance(value, Form):
                state.env[target] = forms.add(value, forms.scale(forms.of_atom(atom), growth))
        for target, (run, operand) in self.flow.loops[number].advances.items():
            if target in self.needed:
                self._advance(state, atom, target, run, operand)
        self._say_left(state, self.flow.loops[number])

    def _advance(self, state: State, iteration: Atom, target: int, run: Run, operand: int) -> None:
        """What each iteration moves on by as much, a number or a pointer, is start + iteration * travel."""
        k, number = forms.of_atom(iteration), state.env.get(target)
        if isinstance(number, Form):
            (travel,) = (self.values.form(state, n) for n in run.operands if n != operand)
            state.env[target] = forms.add(number, product(k, travel))
            return
        start = self.values.view(state, target)
        if start is None or start.frame != BYTES or start.start is None:
            return
        entered = state.copy()
        entered.env[operand] = start
        further = self.values.memory_value(entered, run.op, run.operands)
        if further is None or further.start is None:
            return
        travel = forms.subtract(further.start[0], start.start[0])
        at = forms.add(start.start[0], product(k, travel))
        state.env[target] = pointer_view(start.root, at)

    def repeat(self, state: State, number: int) -> None:
        """What was iteration k is now iteration k - 1."""
        atom = Atom("iteration", number)
        before = forms.add(forms.of_atom(atom), Form(-1))
        known = state.facts.get(atom, ANYTHING)
        state.facts[atom] = known.moved(1)
        rewrite(state, {atom: before}, fold_iterations=self.slots is None)
        if self._may_travel(number):
            self._travel_on(state, number)
        if self.slots is not None and known.exact == 0:
            self._late_rings(state, number, self.slots)
        self._bind_rings(state, number)
        bound(state, self.largest_wait)
        self._say_left(state, self.flow.loops[number])

    def _late_rings(self, state: State, number: int, slots: CarriedNumbers) -> None:
        """Slots that rotate from iteration 1 on: one that is counted up before its use begins at -1."""
        rotating = {ring.value for ring in state.rings.get(number, ())}
        starts = {n: start for n, start in _constants(state).items() if n not in rotating}
        late = slots.rings(number, starts)
        if late:
            found = (ring._replace(start=(ring.start - 1) % ring.versions) for ring in late)
            state.rings = {**state.rings, number: (*state.rings.get(number, ()), *found)}

    def _rotate_slots(self, state: State, number: int, twin: Callable[[int], int | None]) -> None:
        """Copies of the prologue into slots of a ring become those of the loop: slot 2 is (k + 2) mod V
        in the first iteration. So the state after one iteration is that before it."""
        sizes = {ring.versions for ring in state.rings[number]}
        k = forms.of_atom(Atom("iteration", number))

        def rotated(piece: Piece | None, size: int | None) -> Piece | None:
            if piece is None or size not in sizes or piece.start.terms or piece[1:] != ((), 1):
                return piece
            if not 0 <= piece.start.constant < size:
                return piece
            slot = forms.add(k, piece.start)
            return piece._replace(start=forms.call("mod", slot, Form(size)))

        def of_ring(event: Event) -> Event:
            site, region = twin(event.site), event.region
            pieces = tuple(map(rotated, region.pieces, region.frame.shape))
            if site is None or pieces == region.pieces:
                return event
            return moved(event, region._replace(pieces=pieces))._replace(site=site)

        for name, pending in state.queues.items() if sizes else ():
            state.queues[name] = pending.changed(of_ring)._replace(open=pending.open)

    def _bind_rings(self, state: State, number: int) -> None:
        k = forms.of_atom(Atom("iteration", number))
        for value, start, versions in state.rings.get(number, ()):
            if value in self.needed:
                state.env[value] = forms.call("mod", forms.add(k, Form(start)), Form(versions))

    def leave(self, state: State, number: int) -> bool:
        """The iteration number becomes the trip count, or a symbol of its own. False if no run leaves the loop with what is known
        of it then."""
        atom = Atom("iteration", number)
        known = state.facts.get(atom, ANYTHING)
        if self._may_travel(number):
            travelled, _ = _travelled(number)
            ends = self._ends(number, state)
            if ends is None:
                stale(state, travelled)
            else:
                # By how much an iteration was before the end is 1 or more, as the travel between two is.
                rewrite(state, {travelled: forms.subtract(ends[1], ends[0])}, unsure=True)
        if self.flow.loops[number].bounds is None and not _count_known(state, atom):
            return False
        # The next run of the loop has earlier iterations of its own.
        before, left = forms.earlier(atom)
        least = state.facts.pop(left, ANYTHING).low
        most = None if known.high is None or least is None else known.high - least
        gone = forms.of_atom(Atom("any", (("left", number), AtomRange(0, most))))
        if known.exact is not None:
            rewrite(state, {atom: Form(known.low or 0), before: gone})
        else:
            ended = Atom("symbol", ("trips", number))
            past = forms.of_atom(Atom("any", (("past", ended.key), ANYTHING)))
            rewrite(state, {ended: past})
            state.facts[ended] = known
            rewrite(state, {atom: forms.of_atom(ended), before: gone})
        state.facts.pop(atom, None)
        state.rings = {loop: rings for loop, rings in state.rings.items() if loop != number}
        return True

    def _may_travel(self, number: int) -> bool:
        """Whether the step of a loop is no constant."""
        bounds = self.flow.loops[number].bounds
        value = None if bounds is None else self.flow.values[bounds.step][1]
        return value is not None and not (hasattr(value, "type") and constant_value(value))

    def _travel_on(self, state: State, number: int) -> None:
        """What was in this iteration of a loop of unknown step is 1 or more behind, and so
        is what was further behind before. Values of what was then are not followed."""
        travelled, past = _travelled(number)
        for value, form in list(state.env.items()):
            if isinstance(form, Form) and travelled in forms.atoms_of(form):
                self.values.forget(state, value, self.flow.values[value][1].type)
        _forget(state.facts, travelled)
        travel = forms.subtract(forms.of_atom(travelled), forms.of_atom(past))
        rewrite(state, {travelled: travel, past: forms.ZERO}, unsure=True)

    def test(self, number: int, state: State) -> tuple[State | None, State | None]:
        """The states in which another iteration runs, and in which none does.

        Another one runs iff upper - lower - step * k > 0.
        """
        bounds = self._bounds(number, state)
        if bounds is None:
            again = self._free_test(number, state)
            return again, state.copy()
        lower, upper, step = bounds
        loop = self.flow.loops[number]
        k = forms.of_atom(Atom("iteration", number))
        rest = forms.subtract(upper, lower)
        self._at_least_as_before(state, number, rest, step)
        rest = forms.subtract(rest, forms.scale(k, step))
        more, more_exact = at_least(rest, 1, state.facts)
        again = None if more is None else state.under(more, more_exact)
        if again is not None and loop.variable is not None and loop.variable in self.needed:
            value = forms.add(lower, forms.scale(k, step))
            _, last = forms.bounds(upper, state.facts)
            if last is not None and loop.bits < INDEX_BITS:
                again.facts = dict(at_most(value, last - 1, again.facts)[0] or again.facts)
            again.env[loop.variable] = stored(value, loop.bits, again.facts)
        ended, ended_exact = at_most(rest, 0, state.facts)
        left = None if ended is None else state.under(ended, ended_exact)
        if left is not None:
            _learn_residue(left.facts, rest, Atom("iteration", number))
            _count_out(left, rest, Atom("iteration", number), step)
        return again, left

    def runs(self, number: int, state: State) -> bool:
        """Whether a loop certainly has an iteration, or none because its bounds are equal."""
        bounds = self._bounds(number, state)
        if bounds is None:
            return False
        low, _ = forms.bounds(forms.subtract(bounds[1], bounds[0]), state.facts)
        return low is not None and low >= 0

    def left_to_run(self, state: State) -> list[tuple[Form, int]]:
        """For each loop around, upper - lower - step * k: what its test compares with 0. Of a loop without bounds
        each counter's distance from what counters are compared with. Only sums: a counter has a range of its own.
        With each the step, by which it may have become less since the test let an iteration run."""
        left = []
        for atom in list(state.facts):
            if atom.kind != "iteration":
                continue
            loop = self.flow.loops[int(atom.key)]  # type: ignore[call-overload]
            bounds = self._bounds(loop.number, state)
            if bounds is not None:
                lower, upper, step = bounds
                done = forms.add(lower, forms.scale(forms.of_atom(atom), step))
                left.append((forms.subtract(upper, done), step))
            left += self._left_to_end(state, loop)
        return [(form, step) for form, step in left if len(form.terms) > 1]

    def _left_to_end(self, state: State, loop: Loop) -> Iterator[tuple[Form, int]]:
        """How far each counter of a loop without bounds is from what counters are compared with, and its step."""
        ends = self.values.forms(state, loop.ends)
        for number, step in self._steps(state, loop) if ends else ():
            counter = self.values.form(state, number)
            yield from ((forms.subtract(end, counter), step) for end in ends)

    def _say_left(self, state: State, loop: Loop) -> None:
        """Say of the numbers of an iteration by itself what then holds for later ones: n - k >= 3 where k = 2 and n >= 5. Only of
        what is a length of rows, r * n: it would tell states apart of which nobody needs it."""
        if not loop.ends or state.facts[Atom("iteration", loop.number)].exact is None:
            return
        values = (value for value in state.env.values() if isinstance(value, Form))
        lengths = forms.in_products({atom for value in values for atom in value.symbols})
        for form, step in list(self._left_to_end(state, loop)):
            left = forms.scale(form, 1 if step > 0 else -1)
            if not any(a.kind == "symbol" and a in lengths for a in forms.atoms_of(left)):
                continue
            least, _ = forms.bounds(settle(left, state.facts), state.facts)
            if least is not None and len(left.terms) > 1:
                state.facts = sum_at_least(left, least, state.facts)[0]

    def _steps(self, state: State, loop: Loop) -> Iterator[tuple[int, int]]:
        """The counters of a loop, and by what each iteration moves them."""
        yield from loop.inductions.items()
        for target, (run, operand) in loop.advances.items():
            others = [
                settle(self.values.form(state, n), state.facts)
                for n in run.operands
                if n != operand
            ]
            if (
                isinstance(state.env.get(target), Form)
                and len(others) == 1
                and others[0].is_constant
            ):
                yield target, others[0].constant

    def _bounds(self, number: int, state: State) -> tuple[Form, Form, int] | None:
        return bounds_of(self.values, self.flow.loops[number], state)

    def left_apart(self, test: int, number: int, state: State) -> frozenset[int]:
        """The loop, if threads may leave it in different iterations; `test` is its header."""
        parts = self.values.threads.several and test in self.values.divergence.exits
        return frozenset({number} if parts and not self._alike(number, state) else ())

    def _alike(self, number: int, state: State) -> bool:
        """Whether all threads certainly run a loop equally often: its bounds are forms of what
        they share, or any two of them give the same number of iterations."""
        bounds = self.flow.loops[number].bounds
        if bounds is None:
            return False
        lower, upper, step = self.values.forms(state, bounds)
        total, step = forms.subtract(upper, lower), settle(step, state.facts)
        atoms = {atom for atom, _ in (*total.terms, *step.terms)}
        if not any(is_about_threads(atom) for atom in atoms):
            return self.values.divergence.chosen.isdisjoint(bounds)
        low, high = forms.bounds(total, self.values.base_facts)
        if not step.is_constant or step.constant <= 0 or low is None or high is None:
            return False
        return -(-low // step.constant) == -(-high // step.constant)

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

    def _ends(self, number: int, state: State) -> tuple[Form, Form, Form] | None:
        """Lower and upper bound and the step of a loop whose step is no known number, where all
        threads have the same ones."""
        loop = self.flow.loops[number]
        if loop.bounds is None or loop.unsigned:
            return None
        lower, upper, step = self.values.forms(state, loop.bounds)
        alike = not any(is_about_threads(a) for f in (lower, upper, step) for a, _ in f.terms)
        alike = alike and self.values.divergence.chosen.isdisjoint(loop.bounds)
        known = settle(step, state.facts).is_constant or loop.bits < INDEX_BITS
        return (lower, upper, step) if alike and not known else None

    def _free_test(self, number: int, state: State) -> State | None:
        """The body with any induction variable: the bounds or the step are not known. If it is the step alone, the
        variable is some number of 0 or more after the lower bound, before the upper one."""
        loop = self.flow.loops[number]
        variable = loop.variable
        ends = self._ends(number, state)
        own = None if variable is None else self._own_number(state, loop, ("symbol", number))
        if variable is not None and ends is not None and own is None:
            lower, upper, step = ends
            # A loop has a step of 1 or more.
            state.facts = dict(at_least(step, 1, state.facts)[0] or state.facts)
            travelled, _ = _travelled(number)
            travel = forms.of_atom(travelled)
            facts = {**state.facts, travelled: AtomRange(0, None)}
            held, _ = at_least(forms.subtract(forms.subtract(upper, lower), travel), 1, facts)
            again = None if held is None else state.under(held, True)
            if again is not None:
                again.env[variable] = forms.add(lower, travel)
            return again
        again = state.copy()
        if variable is not None:
            self.values.forget(again, variable, self.flow.values[variable][1].type)
            if own is not None:
                for atom in forms.atoms_of(own):
                    if is_own_of_block(atom):
                        stale(again, atom)
                again.env[variable] = own
        return again

    def _own_number(self, state: State, loop: Loop, named: tuple[str, object]) -> Form | None:
        """The variable of a loop in which each block of the grid has numbers of its own."""
        if loop.bounds is None:
            return None
        lower, _, step = self.values.forms(state, loop.bounds)
        return own_number(lower, step, named)

    def any_iteration(self, state: State, number: int, variable: int) -> Form:
        """Any value of the range of the induction variable of a summary loop."""
        bounds = self._bounds(number, state)
        if bounds is None:
            own = self._own_number(state, self.flow.loops[number], ("any", variable))
            return own or forms.of_atom(Atom("any", (("variable", variable), ANYTHING)))
        lower, upper, step = bounds
        _, high = forms.bounds(forms.subtract(upper, lower), state.facts)
        count = None if high is None else -(-high // step)
        known = AtomRange(0, None if count is None else max(count - 1, 0))
        atom = summary_atom(variable, known)
        limits, length = self.values.limits, forms.subtract(upper, lower)
        trips = forms.floor_divide(forms.add(length, Form(step - 1)), step, state.facts)
        limits[atom] = trips if limits.get(atom, trips) == trips else None
        value = forms.add(lower, forms.scale(forms.of_atom(atom), step))
        left = forms.subtract(upper, value)
        # Of a size, and what each thread begins with: n - tid - 256 k >= 1. What was so of others before is of the past.
        about = {is_about_threads(part) for part, _ in left.terms if part != atom}
        if about == {True, False}:
            others = {a: k for a, k in state.facts.items() if atom not in forms.atoms_under(a)}
            state.facts = sum_at_least(left, 1, others)[0]
        return stored(value, self.flow.loops[number].bits, state.facts)


def summary_atom(variable: int, known: AtomRange) -> Atom:
    """The number of some iteration of a summary loop, by its induction variable."""
    return Atom("any", (("summary", variable), known))


def bounds_of(values: PathValues, loop: Loop, state: State) -> tuple[Form, Form, int] | None:
    """Lower and upper bound in the loop's own signedness, and its step; None where one is
    not known, or the step is no number above 0."""
    if loop.bounds is None:
        return None
    lower, upper, step = values.forms(state, loop.bounds)
    step = settle(step, state.facts)
    # Of two numbers below 0, which are large ones without a sign, the smaller one is the same.
    below = ((forms.bounds(form, state.facts)[1] or 0) < 0 for form in (lower, upper))
    if loop.unsigned and not all(below):
        if lower.is_constant and upper.is_constant:
            lower, upper = (Form(form.constant % (1 << loop.bits)) for form in (lower, upper))
        first, end, width = (
            unsigned(form, loop.bits, state.facts) for form in (lower, upper, step)
        )
        if first is None or end is None or width is None:
            return None
        lower, upper, step = first, end, width
    return (lower, upper, step.constant) if step.is_constant and step.constant > 0 else None


def _travelled(loop: int) -> tuple[Atom, Atom]:
    """How far the variable of a loop of unknown step is after its first number, and how far an
    earlier iteration is behind it."""
    key = ("travelled", loop)
    return Atom("symbol", key), Atom("any", (("earlier", key), AtomRange(1, None)))


def _forget(facts: Knowns, atom: Atom) -> None:
    """Nothing is known of an unknown any more, nor of what it is in."""
    for known in list(facts):
        if atom in forms.atoms_under(known):
            del facts[known]


def _learn_residue(facts: Knowns, rest: Form, iteration: Atom) -> None:
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
        facts[atom] = AtomRange(old.low, old.high, inside, known.modulus)


def _count_out(state: State, rest: Form, iteration: Atom, step: int) -> None:
    """With rest = n - step * k = 0, write the trip count n / step where k stands."""
    total = forms.add(rest, forms.scale(forms.of_atom(iteration), step))
    divides = all(c % step == 0 for c in (total.constant, *(c for _, c in total.terms)))
    if divides and total.terms and forms.bounds(rest, state.facts) == (0, 0):
        trips = frozenset((atom, c // step) for atom, c in total.terms)
        rewrite(state, {iteration: Form(total.constant // step, trips)})


def _count_known(state: State, iteration: Atom) -> bool:
    """With n div 2 - k = 0, write n div 2 where the iteration number k stands. False if that cannot be: of an iteration that saw
    n - 2 k >= 3, n - 2 (n div 2) is 0 or 1."""
    for atom in [atom for atom in state.facts if atom.kind == "sum"]:
        terms, known = dict(forms.terms_of(atom)), state.facts[atom].exact
        sign = terms.pop(iteration, 0)
        if known is not None and abs(sign) == 1 and not any(map(is_about_threads, terms)):
            others = Form(-known, frozenset(terms.items()))
            rewrite(state, {iteration: forms.scale(others, -sign)})
            return all(_may_be(other, state.facts) for other in state.facts)
    return True


def _may_be(atom: Atom, facts: Facts) -> bool:
    """Whether what is known of a sum, or of what an operator gives, agrees with what is known of its parts."""
    if atom.kind not in ("sum", "call"):
        return True
    others = {other: known for other, known in facts.items() if other != atom}
    low, high = sums.both(forms.bounds(forms.form_under(atom), others), facts[atom].ends)
    return low is None or high is None or low <= high


# Keeps states finite: many instances of one access become a few that cover them.
#
#     copy to row k-1, k-2, …, k-7      -->   copy to row k - 1 - q for some q >= 0
#
# Where instances differ by the iteration number alone, the youngest with "some earlier
# iteration" stands for all; where they do not, what differs becomes "the whole dimension". Such
# an access may be one that never was, so a conflict with it is never certain.
#
#     if (k < n): store row k      -->   row k - 16 - q
#
# What has not run for as many iterations as no ring has slots is one of some earlier iteration, too: it would be at
# another distance, and make another state, for each iteration that comes.

# Instances of one access that a set remembers one by one.
LARGEST_SET = 6
# Tiles of 16 KiB fill the 228 KiB of an H100 with 14 slots. What two counters count together makes
# the square of it in states: with 64 a kernel over tiles of unknown number takes more than 20000.
LARGEST_RING = 16
# A copy that is in flight goes where iterations of so long ago did if its slot, 256 k - 768 (k div 3), was made of a number for
# the quotient: 256 k - 49920 in iteration 196, at another distance in each.
LONG_AGO = 64


def bound(state: State, largest_wait: int) -> None:
    """Merge instances where a set, an open group or the oldest group holds too many."""
    facts = state.facts
    state.log = frozenset(_bounded([_not_long_ago(event, facts) for event in state.log], facts))
    state.done = frozenset((_not_long_ago(event, facts), wait) for event, wait in state.done)
    state.behind = frozenset((_not_long_ago(event, facts), wait) for event, wait in state.behind)
    if len(state.done) > LARGEST_SET:
        waits = state.last_waits()
        latest = max(waits.values())
        state.done = frozenset((e, waits.get(e, latest)) for e in _bounded(list(waits), facts))
    for name, pending in state.queues.items():
        pending = pending.changed(lambda event: _not_long_ago(event, facts, LONG_AGO))
        groups = pending.groups
        if len(groups) > largest_wait and groups:
            groups = (*groups[:-1], _bounded_group(groups[-1], facts))
        opened = _bounded_group(pending.open, facts)
        state.queues[name] = pending._replace(open=opened, groups=groups)


def _not_long_ago(event: Event, facts: Knowns, most: int = LARGEST_RING) -> Event:
    """The event, or one of some earlier iteration if it is of one long ago."""
    counter, ago = next(filter(None, (p and _ago(p.start) for p in event.region.pieces)), (None, 0))
    if counter is None or ago <= most:
        return event
    # Of k - 40 becomes of k - 16 - q, which is of k - 40 for q = 24: q <= k - 16 if k >= 40.
    skipped = ago - LARGEST_RING
    before, _ = forms.earlier(counter)
    mapping = {counter: forms.add(forms.of_atom(counter), Form(skipped)), before: Form(0)}
    later = Substitution(mapping, {}).region(event.region)
    low = facts.get(counter, ANYTHING).low
    return _or_earlier(
        moved(event, later), [counter], facts, None if low is None else low - skipped
    )


def _ago(form: Form) -> tuple[Atom, int] | None:
    """An iteration number in a form, which may be the operand of an operator, and how many iterations before it
    stands: 4096 k - 8192 is of two before k."""
    for atom, step in form.terms:
        if atom.kind == "iteration":
            return atom, -form.constant // step
    inner = (_ago(operand) for atom, _ in form.terms for operand in forms.operator_of(atom)[1])
    return next(filter(None, inner), None)


def _bounded_group(group: Group, facts: Knowns) -> Group:
    events = [event for issue in group for event in issue]
    kept = _bounded(events, facts)
    return group if kept is events else tuple((event,) for event in kept)


def _constants(state: State) -> dict[int, int]:
    return {
        n: value.constant
        for n, value in state.env.items()
        if isinstance(value, Form) and value.is_constant
    }


def _bounded(events: list[Event], facts: Knowns) -> list[Event]:
    """The events, or a few that cover those of one op in one memory, where these are too many."""
    alike: dict[tuple[int, int, bool], list[Event]] = {}
    for event in events:
        alike.setdefault((event.site, event.region.root, event.met), []).append(event)
    if not any(map(_are_many, alike.values())):
        return events
    parts = (_merged(s, facts) if _are_many(s) else s for s in alike.values())
    return [event for part in parts for event in part]


def _are_many(events: list[Event]) -> bool:
    """Whether there are more instances than are remembered one by one: once they were, each that comes is one of them, or there
    were another state for each number from 1 to as many."""
    return len(events) > LARGEST_SET or (
        len(events) > 1 and any(forms.is_earlier(a) for event in events for a in event.mentions)
    )


def _merged(events: list[Event], facts: Knowns) -> list[Event]:
    """A few events that cover the given ones of one op."""
    if len({event.region.frame for event in events}) > 1:
        # Accesses by views that begin at several places are compared by bytes.
        regions = ((event, as_bytes(event.region)) for event in events)
        events = [moved(e, whole_root(e.region.root) if r is None else r) for e, r in regions]
    clusters: list[list[Event]] = []
    for event in sorted(events, key=_age):
        for cluster in clusters:
            if _is_earlier(event, cluster[0]):
                cluster.append(event)
                break
        else:
            clusters.append([event])
    merged = [_youngest_or_earlier(c, facts) if len(c) > 1 else c[0] for c in clusters]
    if len(merged) <= LARGEST_SET:
        return merged
    alike: dict[Hashable, list[Event]] = {}
    for event in merged:
        alike.setdefault(_without_ranges(event) or event, []).append(event)
    joined = [_joined(same) if len(same) > 1 else same[0] for same in alike.values()]
    return joined if len(joined) <= LARGEST_SET else [_joined(joined)]


def _without_ranges(event: Event) -> Hashable:
    """An access up to constants and what has a range of its own; None if it moves with an iteration, so
    that a range would grow with each."""
    pieces = [piece for piece in event.region.pieces if piece is not None]
    starts = [_parted(piece.start)[0] for piece in pieces]
    if any(atom.kind in ("iteration", "symbol") for start in starts for atom, _ in start.terms):
        return None
    return tuple(
        piece and (_parted(piece.start)[0].terms, piece.steps, piece.length)
        for piece in event.region.pieces
    )


def _parted(form: Form) -> tuple[Form, Form]:
    """A form as unknowns of now and the rest, which is between two numbers."""
    ranges = frozenset(term for term in form.terms if term[0].kind == "any")
    return Form(0, form.terms - ranges), Form(form.constant, ranges)


def _age(event: Event) -> tuple[int, str]:
    """Events of later iterations first: the subscript's distance from the iteration number."""
    starts = (piece.start for piece in event.region.pieces if piece is not None)
    found = ((s.constant, c) for s in starts for atom, c in s.terms if atom.kind == "iteration")
    constant, coefficient = next(found, (0, 1))
    return -constant if coefficient > 0 else constant, repr(event.region.pieces)


def _is_earlier(event: Event, young: Event) -> bool:
    """Whether `event` is `young` with an earlier iteration number."""
    if event == young:
        return True
    distances = set()
    for old, new in zip(event.region.pieces, young.region.pieces, strict=True):
        if old is None or new is None or old[1:] != new[1:]:
            if old != new:
                return False
            continue
        counter = _counter(new.start)
        step = 0 if counter is None else new.start.coefficient(counter)
        plain = frozenset(term for term in old.start.terms if not forms.is_earlier(term[0]))
        difference = forms.subtract(new.start, Form(old.start.constant, plain))
        if difference.terms or (difference.constant and not step):
            return False
        if step:
            if difference.constant % step or difference.constant // step < 0:
                return False
            distances.add(difference.constant // step)
    return len(distances) <= 1


def _counter(form: Form) -> Atom | None:
    """The only iteration number in a form, beside those in operators."""
    found = [atom for atom, _ in form.terms if atom.kind == "iteration"]
    return found[0] if len(found) == 1 else None


def _youngest_or_earlier(events: list[Event], facts: Knowns) -> Event:
    """The youngest event, which comes first, or one of an earlier iteration of the loop whose number tells them apart."""
    event = _by_any_thread(events)
    counters = (_counter(piece.start) for piece in event.region.pieces if piece is not None)
    # The youngest is of iteration k - 1 at most, and the oldest of 0 at least: q <= k - 1.
    return _or_earlier(event, dict.fromkeys(c for c in counters if c is not None), facts, 1)


def _or_earlier(event: Event, counters: Iterable[Atom], facts: Knowns, least: int | None) -> Event:
    """An event, or the same of an earlier iteration, q before, of the loops that have these numbers: k - q is `least` or more,
    if that is known."""
    mapping: dict[Atom, Form] = {}
    for counter in counters:
        before, left = forms.earlier(counter)
        mapping[counter] = forms.subtract(forms.of_atom(counter), forms.of_atom(before))
        known = facts.get(left, AtomRange(least)).low
        facts[left] = AtomRange(None if known is None or least is None else min(known, least))
    region: Region = Substitution(mapping, {}).region(event.region)
    return moved(event, region._replace(certain=False))


def _by_any_thread(events: list[Event]) -> Event:
    """The first event, by threads of which nothing is known if the others were by other threads."""
    event = events[0]
    alike = all((e.threads, e.maybe) == (event.threads, event.maybe) for e in events)
    return event if alike else event._replace(threads=(), maybe=True)


def _joined(events: list[Event]) -> Event:
    """One event that covers all: pieces that differ in numbers begin somewhere between the least and
    the largest, others become whole."""
    first = _by_any_thread(events)
    columns = zip(*(event.region.pieces for event in events), strict=True)
    pieces = tuple(_hull(column, n) for n, column in enumerate(columns))
    region = first.region._replace(pieces=pieces, certain=False)
    return moved(first, region)


def _hull(pieces: tuple[Piece | None, ...], dimension: int) -> Piece | None:
    """A piece that covers all; the whole dimension, where one that covered others already does not: it
    would grow with each iteration."""
    first = pieces[0]
    if first is None or all(piece == first for piece in pieces):
        return first
    shared, ends = _parted(first.start)[0], {}
    if any(atom.kind in ("iteration", "symbol") for atom, _ in shared.terms):
        return None
    for piece in pieces:
        if piece is None or piece[1:] != first[1:] or _parted(piece.start)[0] != shared:
            return None
        low, high = forms.bounds(_parted(piece.start)[1], {})
        if low is None or high is None:
            return None
        ends[piece] = low, high
    low, high = min(low for low, _ in ends.values()), max(high for _, high in ends.values())
    for piece in ends:
        if any(a.kind == "any" and a.key[0][0] == "joined" for a in piece.start.symbols):
            return piece if ends[piece] == (low, high) else None
    begin = forms.of_atom(Atom("any", (("joined", dimension), AtomRange(0, high - low))))
    return first._replace(start=forms.add(forms.add(shared, Form(low)), begin))
