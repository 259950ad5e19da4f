"""Executes ops with effects: accesses are checked against the state, then join it.

load, store     checked; other threads' accesses up to the next barrier are checked against it
copy            checked, then it joins the open group of its queue
commit, wait, barrier     see `commit_groups`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

from mlir_async_pipe.bindings.raw_ops import constant_value
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.arithmetic import settle
from mlir_async_pipe.checker.commit_groups import Groups, orders_of
from mlir_async_pipe.checker.conflicts import Judge, Origin
from mlir_async_pipe.checker.forms import Atom, AtomRange, Form
from mlir_async_pipe.checker.grid_blocks import block_axis, firsts_of
from mlir_async_pipe.checker.iterations import bounds_of, summary_atom
from mlir_async_pipe.checker.owners import Owners
from mlir_async_pipe.checker.partings import joins_again, others
from mlir_async_pipe.checker.path_values import PathValues
from mlir_async_pipe.checker.paths import at_least, by_truth
from mlir_async_pipe.checker.precision import OpenError
from mlir_async_pipe.checker.sites import Sites
from mlir_async_pipe.checker.state import (
    Choice,
    Event,
    Passed,
    Pending,
    State,
    Substitution,
    event_of,
    moved,
)
from mlir_async_pipe.checker.step_graph import AnyIteration, Loop, Run
from mlir_async_pipe.checker.thread_divergence import Divergence
from mlir_async_pipe.checker.thread_grid import (
    ThreadRange,
    are_whole_warps,
    has_numbers,
    is_about_threads,
    is_common,
    is_of_thread,
    is_thread_condition,
    is_thread_number,
)
from mlir_async_pipe.checker.unfollowed import REASON
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.loops.statements import is_synchronisation
from mlir_async_pipe.facts.values import sums
from mlir_async_pipe.facts.values import views as memory
from mlir_async_pipe.facts.values.views import Piece, Region, View
from mlir_async_pipe.vocabulary import Row, meets_whole_warp
from mlir_async_pipe.vocabulary.rows import ASYNC_LDS

# As many events of one access are distinguished as a ring has slots, usually.
REMEMBERED_EVENTS = 8


class _Accessed(NamedTuple):
    """The accesses of one op that matter; `queue` is where they are issued, None if they are
    synchronous, and `own_group` if each op is a group. `near`: what a path remembers may
    conflict with them. `fixed`: no path changes which memory they touch. `variables` are those of the summary loops around."""

    sites: tuple[int, ...]
    queue: str | None
    own_group: bool
    maybe: bool
    near: bool
    fixed: bool
    variables: tuple[int, ...]


@dataclass
class NearAccesses:
    """Ops side by side whose accesses may conflict with what a path remembers."""

    effects: Effects
    ops: list[_Accessed]

    def __call__(self, state: State) -> None:
        """Judge the accesses in order; each joins what the path remembers."""
        threads = thread_ranges(state, self.effects.judge.base_facts)
        for op in self.ops:
            self.effects.access(op, threads, state)


@dataclass
class OutsideAccesses:
    """Ops side by side whose accesses only other blocks, or threads that meet nowhere else, may conflict with.

    Where all states give the same event, one of them is enough.
    """

    effects: Effects
    ops: list[_Accessed]

    def __call__(self, state: State) -> None:
        """Tell the owners of the accesses on one path."""
        if self.ops:
            events, owners = self.effects.events_of, self.effects.owners
            threads = thread_ranges(state, self.effects.judge.base_facts)
            found: list[tuple[Event, ...]] = []
            here: list[Event] = []
            for op in self.ops:
                made, inside = events(state, op, threads)
                found.append(made)
                if inside is state:
                    here += made
                else:
                    owners.meet(made, inside)
            owners.meet(here, state)
            self.ops = [
                op
                for op, made in zip(self.ops, found, strict=True)
                if not (op.fixed and all(map(owners.adds_nothing, made)))
            ]


@dataclass
class Effects:
    """Executes ops with effects on states, and asks the judge about every access."""

    values: PathValues
    sites: Sites
    judge: Judge
    groups: Groups
    owners: Owners
    relied: ReliedBarriers
    _made: dict[int, list[tuple[Any, Event]]] = field(default_factory=dict)
    _fixed: dict[tuple[int, ThreadRange, tuple[Choice, ...]], Event] = field(default_factory=dict)
    _apart: dict[Atom, tuple[tuple[Form, Form], ...]] = field(default_factory=dict)

    @cached_property
    def _makers(self) -> dict[int, tuple[int, Run]]:
        """By value the op that makes it, and where that stands among all."""
        runs = [run for run in self.sites.flow.runs() if run.makes_values]
        return {n: (place, run) for place, run in enumerate(runs) for n in run.results}

    def prepare(self, run: Run) -> Callable[[State], None] | None:
        """Read one op once; what it gives runs on a state. None: it has no effect here."""
        op = run.op
        row = run.row
        if row.meeting is not None:
            # Some threads wait for some others: what races after it is never certain.
            return self._warp_meets if meets_whole_warp(op) else State.taint
        if not row.known:
            if row.opaque is not None and row.opaque.ends_copies:
                return _taint_copies
            return None if self.sites.is_harmless(op) else partial(self._opaque, run)
        queue = self.sites.queue_name(op, row)
        parts: list[Callable[[State], None]] = []
        if row.accesses and self.sites.of(op, run.frame):
            accessed = self._accessed(run, row)
            if accessed.queue is None and accessed.sites and not accessed.near:
                parts.append(OutsideAccesses(self, [accessed]))
            elif accessed.sites or accessed.queue is not None:
                parts.append(NearAccesses(self, [accessed]))
            if row.asynchronous(op):
                parts += [own(partial(self._against_itself, accessed, v)) for v in run.variables]
        if row.commits == "group":
            parts.append(
                own(partial(self.groups.commit, run.results, queue, self.sites.own_queue(op)))
            )
        if row.wait is not None:
            parts.append(own(self.groups.wait_of(run, row, queue)))
        if row.barrier is not None:
            if self.judge.comparer.threads.several:
                parts.append(partial(self._divergent, run))
            number, spaces = self.sites.op_number(op), row.barrier(op)
            barrier = partial(self.groups.barrier, number, spaces)
            parts.append(self.relied.passing(number, spaces, barrier))
        if is_synchronisation(op):
            parts.append(partial(self._outside_of_scopes, self.sites.op_number(op)))
        if len(parts) <= 1:
            return parts[0] if parts else None

        def execute(state: State) -> None:
            for part in parts:
                part(state)

        return execute

    def _warp_meets(self, state: State) -> None:
        """All lanes of a warp meet; where threads part by more than the numbers of their warps, nobody knows whether they do."""
        by_ids = all(side.parting.by_ids for side in state.sides)
        ranges = thread_ranges(state, self.judge.base_facts) if state.sides else ()
        if state.uneven or not by_ids or not are_whole_warps(ranges, self.judge.comparer.threads):
            state.taint()
            return
        state.log = frozenset(event._replace(met=True) for event in state.log)
        state.done = frozenset((event._replace(met=True), wait) for event, wait in state.done)

    def _divergent(self, run: Run, state: State) -> None:
        """A barrier, which all threads of the block must reach."""
        # Sides without a join are choices of values, or paths that have ended.
        turns, row = state.turns, run.row
        in_order = turns is None or (row.counts_waves and orders_of(run) == turns.spaces)
        if state.uneven or not in_order or any(joins_again(side) for side in state.sides):
            ranges = thread_ranges(state, self.judge.base_facts)
            elsewhere = run.row.counts_waves and are_whole_warps(
                ranges, self.judge.comparer.threads
            )
            site = self.sites.opaque(run.op, run.frame)
            self.judge.divergent(site, state, may_be_met_elsewhere=elsewhere)

    # Accesses -----------------------------------------------------------------------------

    def _accessed(self, run: Run, row: Row) -> _Accessed:
        numbers = self.sites.of(run.op, run.frame)
        sites = {n: self.judge.sites[n] for n in numbers}
        mattering = {number: site for number, site in sites.items() if site.matters}
        near = any(site.near for site in mattering.values())
        fixed = all(
            all(map(self.values.is_fixed, (site.memory, *site.indices)))
            for site in mattering.values()
        )
        queue = sites[numbers[0]].queue
        own_group = row.commits == "self"
        return _Accessed(tuple(mattering), queue, own_group, run.maybe, near, fixed, run.variables)

    def access(self, accessed: _Accessed, threads: ThreadRange, state: State) -> None:
        """Judge the accesses of one op on a path of such threads; then the path has them."""
        queue = accessed.queue
        events, inside = self.events_of(state, accessed, threads)
        skip = 0
        if state.scopes and queue is not None:
            skip = len(state.queues.get(queue, Pending()).open) - state.scopes[-1]
        for event in events:
            self.judge.access(event, inside, skip, partial(self._origins, event, inside))
            if state.passed:
                self.relied.access(event, state)
            if state.other:
                continue
            for other, certain in others(event, state) if state.sides else ():
                self.judge.parted(event, other, state, certain=certain)
            if self.judge.sites[event.site].outside:
                self.owners.meet((event,), inside)
        if state.other:
            return
        if accessed.sites and not events:
            # A loop around has no iteration.
            return
        if queue is not None:
            self.groups.issue(state, queue, events, own_group=accessed.own_group)
        elif self.judge.comparer.threads.several:
            logged = [event for event in events if self.judge.sites[event.site].logged]
            if logged:
                state.log = state.log.union(logged)

    def _origins(self, written: Event, state: State) -> list[Origin] | None:
        """What decides which bytes an async copy brings to a place: how far from there it reads them; where it begins if zeros
        follow them; the operands that say how many.

            copy A[%i + 4 * %t] -> s[4 * %t], 16, %n      4 * %i, 4 * %t, and %n, for elements of one byte

        None of a store of a value that threads do not have alike.
        """
        site = self.judge.sites[written.site]
        others = list(self.sites.flow.numbers_of(site.frame, site.op.operands))
        if not any(map(self.values.differs, others)):
            return []
        if all(self.judge.sites[n].writes for n in self.sites.of(site.op, site.frame)):
            return None
        place = _one_stretch(written.region)
        state = state.copy()
        found: list[Origin] = []
        for number in self.sites.of(site.op, site.frame):
            named = self.judge.sites[number]
            values = (named.memory, *named.indices)
            for value in set(values).intersection(others):
                others.remove(value)
            if named.writes:
                continue
            known = self._compute(state, values)
            view, indices = self.values.view(state, values[0]), values[1:]
            read = _one_stretch(self._region(number, view, self.values.forms(state, indices)))
            if not known or read is None or place is None:
                return [Origin(None, False)]
            whole = named.access.certain and read.length == place.length
            found.append(Origin(forms.subtract(read.start, place.start), named.access.certain))
            found += [] if whole else [Origin(place.start, named.access.certain)]
        for value in others:
            form = self.values.form(state, value) if self._compute(state, [value]) else None
            found.append(Origin(form, True))
        return found

    def _compute(self, state: State, numbers: Iterable[int]) -> bool:
        """Evaluate values that paths do not remember, from those that they do; False where a path would split."""

        def makers(number: int) -> tuple[tuple[int, Run], ...]:
            known = number in state.env or number not in self._makers
            return () if known else (self._makers[number],)

        def operands(number: int) -> tuple[int, ...]:
            return tuple(n for _, run in makers(number) for n in run.operands)

        needed = dict(found for n in reached(numbers, operands) for found in makers(n))
        try:
            for place in sorted(needed):
                self.values.prepare(needed[place])(state)
        except OpenError:
            return False
        return True

    def still_in_flight(self, state: State) -> None:
        """After a barrier inside a side: what this thread has in flight meets what threads on
        other sides do after the same barrier."""
        for event in state.in_flight() if state.sides else ():
            for other, certain in others(event, state):
                self.judge.parted(other, event, state, certain=certain)

    def _against_itself(self, accessed: _Accessed, variable: int, state: State) -> None:
        """A copy in a summary loop against the copies of that loop's earlier iterations."""
        form = state.env.get(variable)
        atoms = forms.atoms_of(form) if isinstance(form, Form) else frozenset()
        own = [a for a in atoms if a.kind == "any"]
        if len(own) != 1:
            return
        high = forms.range_of(own[0]).high
        if high == 0:
            return
        one = forms.of_atom(Atom("symbol", ("iteration of", variable)))
        rest = AtomRange(0, None if high is None else high - 1)
        gap = forms.of_atom(Atom("any", (("gap", variable), rest)))
        later = forms.add(forms.add(one, gap), Form(1))
        threads = thread_ranges(state, self.judge.base_facts)
        for number in accessed.sites:
            if self.judge.sites[number].writes:
                event = self.event_of(state, accessed, number, threads)
                self.judge.pair(
                    moved(event, Substitution({own[0]: later}, {}).region(event.region)),
                    moved(event, Substitution({own[0]: one}, {}).region(event.region)),
                    state,
                )

    def events_of(
        self, state: State, accessed: _Accessed, threads: ThreadRange
    ) -> tuple[tuple[Event, ...], State]:
        """The events of an op here, and the state with what is known where it runs."""
        events = [self.event_of(state, accessed, number, threads) for number in accessed.sites]
        inside = state
        for variable in accessed.variables:
            if variable in self._summaries:
                uneven = self._unevenly(inside, variable)
                if uneven is not None:
                    inside, iterations = uneven
                    events = [found for event in events for found in iterations(event)]
        return tuple(events), inside

    @cached_property
    def _summaries(self) -> dict[int, Loop]:
        """The summary loops whose bounds are known, by their induction variables."""
        steps = (step for step in self.sites.flow.steps() if isinstance(step, AnyIteration))
        loops = {step.variable: self.sites.flow.loops[step.loop] for step in steps}
        return {variable: loop for variable, loop in loops.items() if loop.bounds is not None}

    def _unevenly(
        self, state: State, variable: int
    ) -> tuple[State, Callable[[Event], list[Event]]] | None:
        """Of a loop that not all threads, blocks, or iterations around, run equally often: what is known where it runs, and
        what becomes of an event: what it touches in the iterations that all have who run it, and what it may touch in all.

            for %i = 1 to %t { load s[%i] }      threads 2, 3, … touch s[1], and some of them s[2], …
        """
        bounds = bounds_of(self.values, self._summaries[variable], state)
        if bounds is None:
            return None
        lower, upper, step = bounds
        total = settle(forms.subtract(upper, lower), state.facts)
        low, high = forms.bounds(total, state.facts)
        if high is not None and high <= 0:
            return state, lambda event: []
        of_block = [atom for atom, _ in total.terms if block_axis(atom) is not None]
        others = [atom for atom, _ in total.terms if atom not in of_block]
        varies = of_block or any(not is_common(atom, same_thread=False) for atom in others)
        numbers = all(has_numbers(forms.of_atom(atom)) for atom in others)
        if not (varies and numbers) or high is None:
            # As long as a number that the kernel is given lets it.
            return None
        least, most = (0 if end is None else max(0, -(-end // step)) for end in (low, high))
        runs, exact = at_least(total, 1, state.facts)
        if least == most or runs is None:
            return None
        # What is known of one number of a thread says exactly which threads these are.
        sure = exact or (len(total.terms) == 1 and is_thread_number(total))
        changed = {atom for atom, known in runs.items() if state.facts.get(atom) != known}
        sure = sure and all(is_thread_condition(a) or block_axis(a) is not None for a in changed)
        inside = state.under(runs, exact=True)
        before, threads = (thread_ranges(s, self.judge.base_facts) for s in (state, inside))
        whole = summary_atom(variable, AtomRange(0, most - 1))
        common = forms.of_atom(summary_atom(variable, AtomRange(0, least - 1)))
        fewer = Substitution({whole: common if least > 1 else Form(0)}, {})

        def events(event: Event) -> list[Event]:
            # Which of these threads need what they read is not known.
            if not sure or event.threads != before:
                return [event._replace(maybe=True)]
            event = event._replace(threads=threads)
            if whole not in event.mentions:
                return [event]
            return [moved(event, fewer.region(event.region)), event._replace(maybe=True)]

        return inside, events

    def event_of(
        self, state: State, accessed: _Accessed, number: int, threads: ThreadRange
    ) -> Event:
        """The event of an access here; the same object where it was made before."""
        site, chosen = self.judge.sites[number], self._choices(state)
        if site.needed is not None:
            threads = self._in_need(state, *site.needed) or threads
        if accessed.fixed:
            event = self._fixed.get((number, threads, chosen))
            if event is not None:
                return event
        view = self.values.view(state, site.memory)
        indices = self.values.forms(state, site.indices)
        made = self._made.setdefault(number, [])
        for key, event in made:
            if key == (view, indices, threads, chosen):
                return event
        region = self._region(number, view, indices)
        event = event_of(number, region, threads, accessed.maybe)._replace(chosen=chosen)
        if accessed.fixed:
            self._fixed[number, threads, chosen] = event
            return event
        made.append(((view, indices, threads, chosen), event))
        del made[:-REMEMBERED_EVENTS]
        return event

    def _choices(self, state: State) -> tuple[Choice, ...]:
        """What is known here of a number of the thread beside what all threads of the block have all the time."""
        found = []
        for atom in state.facts:
            for parts in self._parts(atom) if atom.kind == "sum" else ():
                low, high = forms.bounds(forms.form_under(atom), state.facts)
                if low is not None and high is not None:
                    found.append(Choice(*parts, low, high))
        return tuple(sorted(found, key=repr))

    def _parts(self, atom: Atom) -> tuple[tuple[Form, Form], ...]:
        """A sum as a number of the thread and what its block has and keeps, if that is all."""
        if atom not in self._apart:
            own, rest = _own_part(atom)
            kept = own.terms and rest.terms and all(map(self.owners.is_kept, rest.symbols))
            self._apart[atom] = ((own, rest),) if kept else ()
        return self._apart[atom]

    def _in_need(self, state: State, condition: int, holds: bool) -> ThreadRange | None:
        """The threads of a path in which a condition holds, or does not; None if one test does not tell them."""
        form = self.values.form(state, condition)
        sides = by_truth(form, self.values.split(form, state.facts))
        if sides is None:
            return None
        inside = state.under(sides[int(holds)].facts, exact=True)
        return thread_ranges(inside, self.judge.base_facts)

    def _region(self, number: int, view: View | None, indices: list[Form]) -> Region:
        site = self.judge.sites[number]
        access = site.access
        if view is None:
            return memory.whole_root(site.root)
        if access.shares is not None:
            indices = firsts_of(access.shares, self.judge.comparer.threads)
        region = memory.region_of(
            view,
            indices,
            access.extent,
            certain=access.certain,
            lanes=access.active_lanes,
            shares=access.shares,
            contiguous=access.contiguous,
        )
        if access.over_lanes:
            # The first lane that is active says where the wave's stretch begins.
            named = all(self._is_of_warp(v, site.frame) for v in (access.memory, *access.indices))
            return _spread_over_lanes(region) if named else memory.whole_root(site.root)
        return region

    def _is_of_warp(self, value: Any, frame: int) -> bool:
        """Whether all lanes of a warp have one value; of what a callee computes that is not known."""
        while (frame, value) in self.sites.roots.passed_in:
            frame, value = self.sites.roots.passed_in[frame, value]
        return (not frame and self.judge.is_of_warp(value)) or constant_value(value) is not None

    def _outside_of_scopes(self, number: int, state: State) -> None:
        """A scope runs some time after its issue, where nothing can wait or meet."""
        if state.scopes:
            self.judge.in_scope.add(number)

    def _opaque(self, run: Run, state: State) -> None:
        """An op that is not in the vocabulary may touch the memory that it can reach, and may be a barrier."""
        views = (self.values.view(state, number) for number in self.sites.values_read(run))
        given = {view.root for view in views if view is not None}
        unknown = self.sites.is_unknown(run)
        for root in self.sites.reachable(run.op, given):
            shared = self.sites.roots.roots[root].space == "workgroup"
            space = "workgroup" if shared else "global"
            number = self.sites.opaque(run.op, run.frame, space)
            event = event_of(number, memory.whole_root(root), (), True)
            if unknown:
                self.owners.meet_unknown(root, number, given=root in given)
            self.relied.access(event, state)
            self.judge.access(event, state)
            if self.judge.comparer.threads.several and self.judge.sites[number].logged:
                state.log = state.log | {event}
        # What nobody has looked at may be anything.
        if run.row.opaque is None or run.row.opaque.meets:
            state.taint(REASON)


def _taint_copies(state: State) -> None:
    """The copies of AMD's queues that are in flight may be over, or may not."""
    if ASYNC_LDS.name in state.queues:
        state.taint()


def thread_ranges(state: State, base: Mapping[Atom, Any]) -> ThreadRange:
    """The conditions on thread ids that hold on this path, beyond the block's size."""
    facts = state.facts
    ids = tuple(
        [
            (atom, facts[atom])
            for atom, usual in base.items()
            if atom[0] == "tid" and facts.get(atom, usual) != usual
        ]
    )
    made = [
        entry
        for entry in facts.items()
        if entry[0][0] in ("call", "sum") and is_thread_condition(entry[0])
    ]
    for atom in (atom for atom in facts if atom.kind == "sum"):
        own, rest = _own_part(atom)
        if own.terms and rest.terms and all(part.kind == "iteration" for part in rest.symbols):
            # Of tid + 4 k < 5 in iteration 1: tid < 1.
            held, other = (forms.bounds(form, facts) for form in (forms.form_under(atom), rest))
            usual = forms.bounds(own, facts)
            here = sums.both(usual, sums.difference(held, other))
            if here != usual:
                made.append((forms.sum_atom(own), AtomRange(*here)))
    return (*ids, *sorted(made, key=repr)) if made else ids


@lru_cache(maxsize=1 << 12)
def _own_part(atom: Atom) -> tuple[Form, Form]:
    """The number of the thread in a sum, and the rest of it."""
    terms = forms.terms_of(atom)
    own = frozenset(term for term in terms if is_of_thread(term[0]))
    return Form(0, own), Form(0, terms - own)


def _one_stretch(region: Region) -> Piece | None:
    """The bytes of a region without holes."""
    whole = memory.as_bytes(region)
    piece = None if whole is None else whole.pieces[0]
    return None if piece is None or piece.steps else piece


def _spread_over_lanes(region: Region) -> Region:
    """The part of a wave's stretch that one lane writes: its length times the lane further on."""
    flat = memory.as_bytes(region)
    piece = None if flat is None else flat.pieces[0]
    if flat is None or piece is None or piece.steps:
        return memory.whole_root(region.root)
    after = forms.scale(forms.of_atom(forms.Atom("tid", "lane")), piece.length)
    return flat._replace(pieces=(Piece(forms.add(piece.start, after), (), piece.length),))


# Which barriers of a kernel order two accesses that would race without them.
#
#     store %t[%tid]
#     barrier          relied on: the load of another thread would meet the store
#     load %t[%other]
#     barrier          not relied on, if nobody stores to %t after it
#
# A path remembers what its last barrier emptied out of `done` and `log`, until the next barrier; an access that would
# race with any of it relies on that barrier. What is asked is whether this barrier *alone* can go. States are the same
# whatever they remember of this, so of two paths that meet one is followed: a barrier that nobody was seen to rely on
# may be needed nevertheless. It can go only if the kernel is proven without it.


@dataclass
class ReliedBarriers:
    """Collects the numbers of the barriers that accesses rely on. `judge` has a comparer and a
    budget of its own, so that what is asked here changes nothing of what is found."""

    judge: Judge
    numbers: set[int] = field(default_factory=set)

    def passing(
        self, number: int, spaces: frozenset[str], barrier: Callable[[State], None]
    ) -> Callable[[State], None]:
        """The effect of a barrier, with what it orders remembered."""

        def run(state: State) -> None:
            done, log = state.done, state.log
            barrier(state)
            passed = [p for p in state.passed if not self._is_in(p.event, spaces)]
            if number not in self.numbers:
                passed += [Passed(event, number, True) for event, _ in done - state.done]
                passed += [Passed(event, number, False) for event in log - state.log]
            state.passed = tuple(sorted(passed, key=lambda p: p.event.site))

        return run

    def _is_in(self, event: Event, spaces: frozenset[str]) -> bool:
        return self.judge.roots.spaces(event.region.root) <= spaces

    def access(self, later: Event, state: State) -> None:
        """Remember the barriers that keep this access from what is before them; without points left, all of them."""
        budget = self.judge.comparer.budget
        for p in state.passed:
            if p.barrier not in self.numbers and (
                budget.left <= 0
                or self.judge.needs_a_barrier(later, p.event, state, waited=p.waited)
            ):
                self.numbers.add(p.barrier)


# From one thread to another one: what is known of the first does not hold for the second.
#
#     if %p { wait }            %p differs between threads: true here, false in a thread whose copy
#     barrier                   is still in flight
#     if %p { load … }          the load of a thread with %p true meets that copy
#
# A path follows one thread, which knows its own conditions. Where threads meet again (where sides
# join, after a barrier, after a loop that they leave apart) the path goes on a second time as
# another thread: with what the first one did, and with nothing that is the first one's own. That
# path ends at the next barrier, up to which the first thread's own path tells what it did.


def another_thread(
    state: State, divergence: Divergence, base: Mapping[Atom, AtomRange]
) -> State | None:
    """The state as another thread goes on from it; None if that is the same, or if nothing is
    remembered that it could meet."""
    side = state.sides[-1] if state.sides else None
    shared = {**base, **(side.parting.threads[side.number] if side is not None else {})}
    own_facts = {
        atom
        for atom, known in state.facts.items()
        if is_about_threads(atom) and shared.get(atom) != known
    }
    own_values = divergence.chosen.intersection(state.env)
    if not (own_facts or own_values) or next(iter(state.events()), None) is None:
        return None
    found = state.copy()
    found.other = True
    found.facts = {a: known for a, known in state.facts.items() if a not in own_facts}
    found.facts.update((a, shared[a]) for a in own_facts if a in shared)
    found.env = {number: v for number, v in state.env.items() if number not in own_values}
    return found


def own(effect: Callable[[State], None]) -> Callable[[State], None]:
    """What an op does to the queues, for the thread whose queues a state has."""

    def run(state: State) -> None:
        if not state.other:
            effect(state)

    return run
