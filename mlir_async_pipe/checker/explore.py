"""Follows all paths through a kernel until no new abstract state appears.

Work is a heap of (block, step, state), the first block in reverse post-order next: what comes after a loop, or after
the sides of a branch, is followed when all states have come there, the one that remembers most first. Where a condition
is open the state splits; where paths meet, a state that is covered by one seen before is dropped. A state that differs
from an earlier one only in its numbers (iteration, trip count) is widened: the numbers become an interval with a common
residue, so a loop is left after about V + depth iterations of V slots, whatever its trip count.

    if %p { copy a }      the state with the copy in flight covers the one without it: four
    if %q { copy b }      open conditions before a wait are one state there, not 16

What is easy to get wrong: two states are "the same" only with equal values, queues and bits; residues of iteration
numbers are part of that, as far as some `mod V` in the kernel needs them (see `periods`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from math import lcm
from typing import Any, NamedTuple

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.arithmetic import exact, settle
from mlir_async_pipe.checker.budget import Budget
from mlir_async_pipe.checker.carried_slots import CarriedNumbers
from mlir_async_pipe.checker.conflicts import Findings
from mlir_async_pipe.checker.effects import (
    Effects,
    NearAccesses,
    OutsideAccesses,
    another_thread,
    own,
    thread_ranges,
)
from mlir_async_pipe.checker.forms import (
    ANYTHING,
    LARGEST_PERIOD,
    Atom,
    AtomRange,
    Facts,
    Form,
    Knowns,
    needed_periods,
)
from mlir_async_pipe.checker.iterations import LARGEST_RING, Iterations
from mlir_async_pipe.checker.kernel_flow import is_short
from mlir_async_pipe.checker.partings import Partings, ending, is_barrier, join, part
from mlir_async_pipe.checker.path_values import PathValues
from mlir_async_pipe.checker.paths import (
    SplitSide,
    at_least,
    between,
    by_truth,
    each_at_least,
    hull,
    without_ends,
)
from mlir_async_pipe.checker.precision import OpenError, Precision, RefineError, Rung
from mlir_async_pipe.checker.state import Parting, State, Value
from mlir_async_pipe.checker.step_graph import (
    ARRIVED,
    AnyIteration,
    Assign,
    Block,
    Bracket,
    Branch,
    ControlEdge,
    Flow,
    Goto,
    LoopTest,
    Lost,
    Run,
    Step,
    Stop,
    Switch,
    is_integer,
    live_values,
    loop_bodies,
    moving_values,
    needed_values,
)
from mlir_async_pipe.checker.thread_grid import is_thread_condition, is_thread_number
from mlir_async_pipe.facts.flow.algorithms import post_order
from mlir_async_pipe.facts.values.views import View

# What stands side by side is looked at as one.
SIDE_BY_SIDE = (NearAccesses, OutsideAccesses)
# States of one kind that are followed on their own before they are widened.
SEPARATE_STATES = 6
# Times that states are widened with what both say of the ends of loops: where it holds, it does so at once.
WIDENINGS = 4
# Iterations that are each followed by themselves where those of widened states need not exist: more than
# rings have slots and groups in flight.
PATIENCE = 24


Plan = Callable[[State], object]


class OneSided(NamedTuple):
    """The block that runs where a branch is `truth`, of copies or of one `barrier`, and the edge to where paths meet."""

    truth: int
    block: int
    onwards: ControlEdge
    barrier: Run | None = None


@dataclass
class Explorer:
    """One run over one kernel. `budget` bounds the work.

    On the rung of symbols slots are remainders of iteration numbers: a ring's states repeat after one iteration more
    than it has groups in flight. What is then safe is safe; what is not must be looked at again with iteration numbers
    modulo those of the `precision`, slot by slot. `enough`: of what was found, whether to stop. `lost` are the ops on
    the paths that move control in a way that nobody knows; `decided` are the iteration numbers by which paths part in a
    loop. `forgotten`: what must be remembered for a path that decides one comparison twice, as fields of a precision.
    """

    flow: Flow
    values: PathValues
    effects: Effects
    budget: Budget
    precision: Precision
    rung: Rung
    enough: Callable[[Findings], bool] = lambda found: False
    states: int = 0
    tainted: str = ""
    lost: dict[Lost, None] = field(default_factory=dict)
    decided: set[Atom] = field(default_factory=set)
    forgotten: dict[str, set[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sites = self.effects.sites
        self.counted = sites.copies_counted
        self.needed = needed_values(self.flow, sites.values_read, self._loads_constant)
        self.moving = moving_values(self.flow)
        self.live = live_values(self.flow, self.needed, self.precision.until)
        slots = CarriedNumbers(self.flow) if self.rung is Rung.SYMBOLS else None
        self.iterations = Iterations(self.flow, self.values, self.needed, sites.largest_wait, slots)
        self.partings = Partings(self.flow, self.values.threads.several)
        self.plans: list[list[Plan]] = [[] for _ in self.flow.blocks]
        self.barriers: list[set[int]] = [set() for _ in self.flow.blocks]
        for block, plans, barriers in zip(self.flow.blocks, self.plans, self.barriers, strict=True):
            for step in block.steps:
                plan = self._plan(step)
                last = plans[-1] if plans else None
                if plan is not None and is_barrier(step):
                    barriers.add(len(plans))
                if isinstance(plan, SIDE_BY_SIDE) and type(plan) is type(last):
                    last.ops += plan.ops
                elif plan is not None:
                    plans.append(plan)
        subjects = (form for one in self.precision.conditions for form in _subject(one))
        self.kept = self.precision.conditions.union(map(forms.sum_atom, subjects))
        self.ends = {n for loop in self.flow.loops for n in loop.bounds or loop.ends}
        bodies = loop_bodies(self.flow)
        self.headers = {
            header: (loop, self._sites_in(body)) for header, (loop, body) in bodies.items()
        }
        found = ((block.number, self._one_sided(block)) for block in self.flow.blocks)
        self.one_sided = {number: side for number, side in found if side is not None}
        # Loops that certainly have few iterations: these are not taken for each other.
        short = (loop.number for loop in self.flow.loops if loop.bounds and is_short(loop.place))
        self.short = frozenset(() if self.rung is Rung.SYMBOLS else short)
        left: dict[int, set[int]] = {}
        for loop, block, _ in self.flow.edges_of_loops("leave"):
            left.setdefault(loop, set()).add(block.number)
        # The blocks at which loops are left that are left at one place: their tests.
        self.tested = {min(blocks): loop for loop, blocks in left.items() if len(blocks) == 1}
        # Loops around others, that carry nothing that a path looks at.
        self.around = {
            header
            for header, (loop, body) in bodies.items()
            if any(other in body for other in bodies if other != header) and not self._carries(loop)
        }
        # By loop the accesses in it that conflict like those before it.
        alike = sites.alike if self.rung is Rung.SYMBOLS else []
        self.twins = {
            loop: {alike[site]: site for site in inside}
            for loop, inside in (self.headers.values() if alike else ())
        }

    def _carries(self, loop: int) -> bool:
        return any(
            target in self.needed
            for repeated, _, edge in self.flow.edges_of_loops("back")
            if repeated == loop
            for target, _ in edge.assigns
        )

    def _sites_in(self, blocks: frozenset[int]) -> frozenset[int]:
        of = self.effects.sites.of
        return frozenset(
            site
            for number in blocks
            for step in self.flow.blocks[number].steps
            if isinstance(step, Run) and not step.makes_values
            for site in of(step.op, step.frame)
        )

    def _twin_of(self, loop: int) -> Callable[[int], int | None]:
        """The access in a loop that conflicts like one before it."""
        twins, alike = self.twins.get(loop, {}), self.effects.sites.alike
        return lambda site: twins.get(alike[site])

    # Steps: each is read once, and what it gives runs on the states that come to it -----------------
    #
    #     %x = addi %a, %b     state.env[x] = form of a + form of b
    #     load, copy, wait     asks the judge, then joins the state (see `effects`)
    #
    # A value that no effect needs gives nothing to run.

    def _plan(self, step: Step) -> Plan | None:
        """Read a step once; what it gives runs on a state. None: it need not run."""
        match step:
            case Run() as run if run.makes_values:
                return self._plan_value(run)
            case Run() as run:
                return self._plan_effect(run)
            case Assign(assigns):
                if self.needed.isdisjoint(target for target, _ in assigns):
                    return None
                return lambda state: self._assign(state, assigns)
            case AnyIteration(loop, variable):
                value = self.iterations.any_iteration
                return lambda state: state.env.update({variable: value(state, loop, variable)})
            case Bracket(kind, op, _):
                bracket = partial(self.effects.groups.bracket, kind=kind, op=op)
                # Calls move queues, which are the first thread's; scopes hold every thread.
                return bracket if kind in ("scope", "end scope") else own(bracket)
            case Lost():
                return lambda state: self.lost.setdefault(step)

    def _plan_value(self, run: Run) -> Plan | None:
        # Half of a kernel computes data, or the same in every state.
        if self.needed.isdisjoint(run.results) or self.values.fix(run):
            return None
        evaluate = self.values.prepare(run)
        if self.rung is Rung.SYMBOLS:
            return evaluate

        def execute(state: State) -> None:
            value = evaluate(state)
            if isinstance(value, Form) and any(atom.kind == "call" for atom, _ in value.terms):
                check_periods(value, state.facts, self.precision.periods)

        return execute

    def _plan_effect(self, run: Run) -> Plan | None:
        """What an op loads, or what a call gives, is another value each time that it runs, but for what nobody writes."""
        effect = self.effects.prepare(run)
        made = [
            (number, result.type)
            for number, result in zip(run.results, run.op.results, strict=True)
            if number in self.needed and is_integer(result.type)
        ]
        if not made:
            return effect

        sites = self.effects.sites
        place = sites.sites[sites.of(run.op, run.frame)[0]] if self._loads_constant(run) else None

        def execute(state: State) -> None:
            for number, kind in made:
                loaded = None if place is None else self.values.loaded(state, place, kind)
                self.values.forget(state, number, kind)
                if loaded is not None:
                    state.env[number] = loaded
            if effect is not None:
                effect(state)

        return execute

    def _loads_constant(self, run: Run) -> bool:
        return self.effects.sites.loads_constant(run.op, run.frame)

    def _assign(self, state: State, assigns: tuple[tuple[int, int], ...]) -> None:
        """Assign, all at once, what an edge or a copy gives."""
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

    # Paths --------------------------------------------------------------------------------

    def run(self) -> None:
        """Follow all paths. Raises BudgetError, RefineError."""
        self.seen: dict[int, dict[Hashable, Seen]] = {}
        self.counters: dict[tuple[int, int], set[Form | View]] = {}
        # The body of a loop comes before its exit: post-order follows that one first.
        order = post_order([0], lambda number: self.flow.after(number)[::-1])
        self.rank = {number: -place for place, number in enumerate(order)}
        self.work: list[tuple[int, int, int, int, int, State]] = []
        self.pushed = 0
        self._push(0, 0, State({}, {}, frozenset(), frozenset(), dict(self.values.base_facts)))
        while self.work and not self.enough(self.effects.judge.findings):
            self.budget.state()
            self.states += 1
            *_, number, step, state = heappop(self.work)
            block = self.flow.blocks[number]
            if step or not block.merges:
                self._block(block, step, state)
                continue
            for together, meets in self._met(block, state):
                if self._arrive(block, together, meets=meets):
                    self._block(block, 0, together)

    def _push(self, number: int, step: int, state: State) -> None:
        """Follow a state later: of those that wait at one block the one that remembers most comes
        first, and the last one of several."""
        self.pushed += 1
        size = state.size() if self.flow.blocks[number].merges else 0
        heappush(self.work, (self.rank[number], -size, -self.pushed, number, step, state))

    def _block(self, block: Block, first: int, state: State) -> None:
        plan, barriers = self.plans[block.number], self.barriers[block.number]
        for position in range(max(first, 0), len(plan)):
            barrier = position in barriers
            if barrier and state.other:
                # What one thread has done up to here is known on its own path.
                return
            try:
                plan[position](state)
            except OpenError as found:
                sides = self._sides(found.args[0], state, block)
                chosen_by = (n for n, value in state.env.items() if value == found.args[0])
                self._note_asked(state, sides, next(chosen_by, None))
                parting = self.partings.at_choice([side.facts for side in sides], state)
                for side in sides:
                    half = state.under(side.facts, side.exact)
                    part(half, parting, side.truth)
                    self._push(block.number, position or ARRIVED, half)
                return
            if barrier:
                self.effects.still_in_flight(state)
                self._another_thread(block.number, position + 1, state)
        self._exit(block, state)

    def _met(self, block: Block, state: State) -> list[tuple[State, bool]]:
        """The states that wait where paths meet, `state` and others, and whether threads that parted do: states that differ
        in what they remember alone are one that remembers all of it. Each access of that is one of a path on which the
        same is known; what only threads of one side have in flight says which these are."""
        found: dict[Hashable, tuple[State, bool]] = {}
        waiting, later = [state], []
        while block.number not in self.headers and self.work and self.work[0][3] == block.number:
            entry = heappop(self.work)
            if entry[4]:
                later.append(entry)
            else:
                waiting.append(entry[5])
                self.budget.state()
                self.states += 1
        for entry in later:
            heappush(self.work, entry)
        shared = frozenset.intersection(*(one.in_place() for one in waiting))
        for one in waiting:
            came = thread_ranges(one, self.values.base_facts)
            ended = self._forget(block, one)
            if ended and len(waiting) > 1:
                one.issued_by(came, shared)
            meets = any(parting.meets for parting in ended)
            key = self._key_of(one)
            same = (key, meets, one.barrier, frozenset(one.facts.items()))
            found[same] = (found[same][0].with_all(one) if same in found else one, meets)
        return list(found.values())

    def _forget(self, block: Block, state: State) -> list[Parting]:
        """Forget what nothing reads from a block on, and what is known of threads whose partings end there; gives these."""
        live = self.live[block.number]
        state.env = {n: v for n, v in state.env.items() if n in live}
        is_header = block.number in self.headers
        ended = ending(state, block.number)
        if not is_header or ended:
            # Of a loop that others have left only those who stay come to its next iteration.
            alone = is_header and not any(parting.meets for parting in ended)
            join(state, block.number, self.values.base_facts, alone=alone)
        if ended:
            self.values.forget_chosen(state, block.number)
        if is_header:
            self._forget_endless(block.number, state)
            if self.rung is Rung.SYMBOLS:
                self._generalise(block, state)
        self._forget_facts(state, live)
        return ended

    # Numbers that a loop counts as only running it would show.
    #
    #     %tile' = select %last, %tile + 1, %tile        0, 0, 1, 1, 2, 2, …
    #     %p' = select %more, %p + 64, %p                a pointer that goes on where that is needed
    #
    # Each new number would be a new state, for ever. After as many as no ring has slots, the number
    # is forgotten: from then on it may be anything.

    def _forget_endless(self, header: int, state: State) -> None:
        """Forget each variable that had more values at a loop's header than a ring has slots."""
        for number, value in list(state.env.items()):
            if not isinstance(value, Form | View) or (
                isinstance(value, View) and value.start is None
            ):
                continue
            seen = self.counters.setdefault((header, number), set())
            if len(seen) <= LARGEST_RING:
                seen.add(value)
            if len(seen) <= LARGEST_RING:
                continue
            if isinstance(value, View):
                # Some place in the same memory.
                state.env[number] = value._replace(start=None, aligned=None)
            else:
                self.values.forget(state, number, self.flow.values[number][1].type)

    def _forget_facts(self, state: State, live: set[int]) -> None:
        """Drop facts about atoms that nothing mentions any more, but for what is known before the first op, and of the ends of
        loops: what they are about may still come; and for those that are kept."""
        if all(atom.kind in ("tid", "iteration") for atom in state.facts):
            return
        together = {event.mentions for event in state.events()}
        for value in state.env.values():
            if isinstance(value, Form):
                together.add(forms.atoms_of(value))
            elif isinstance(value, View):
                together |= set(map(forms.atoms_of, value.forms))
        alive = frozenset().union(*together)
        in_products = forms.in_products(alive)

        def is_alive(atom: Atom) -> bool:
            if atom in alive:
                return True
            # A condition that is decided when it is asked about again, a size to which a loop runs.
            number = _value_number(atom) if atom.kind == "symbol" else None
            left = number in live and number not in state.env
            return left and (number in self.ends or _is_bit(atom))

        def keep(atom: Atom) -> bool:
            if atom.kind in ("tid", "iteration") or is_alive(atom) or atom in self.kept:
                return True
            if state.sides and is_thread_condition(atom):
                return True
            if atom.kind == "sum":
                inner = {inner for inner, _ in forms.terms_of(atom) if inner.kind != "iteration"}
                if any(known.kind == "tid" for known in inner) and len(inner) > 1:
                    # Which threads took a branch, for nobody who needs both: k < n by tid + 128 k < n. Rows of n need it.
                    sizes = {a for a in inner if a.kind != "tid" and not forms.is_of_summary(a)}
                    return sizes <= in_products or any(inner <= known for known in together)
                return all(map(is_alive, inner))
            # The trip count of a loop that was left no op reads again.
            if atom.kind != "symbol" or _is_bit(atom) or atom.tag == "trips":
                return False
            number = _value_number(atom)
            asked = number is None or number in live or bool(state.sides)
            return asked or atom in self.values.base_facts

        state.facts = {atom: known for atom, known in state.facts.items() if keep(atom)}

    def _arrive(self, block: Block, state: State, *, meets: bool) -> bool:
        """Whether no state that came to a block covers this one, which may be widened."""
        key = self._key_of(state)
        seen = self.seen.setdefault(block.number, {}).setdefault(key, Seen())
        before = state.facts
        patience = PATIENCE if self.rung is Rung.FIRST else 1
        separate = patience if block.number in self.headers else SEPARATE_STATES
        if not seen.adds(state, separate, self._widen):
            return False
        if state.facts is not before:
            state.loose |= {
                a for a in before if a.kind == "iteration" and before[a] != state.facts.get(a)
            }
        if meets:
            self._another_thread(block.number, 0, state)
        return True

    def _key_of(self, state: State) -> Hashable:
        """What must be equal for one of two states to cover the other. Of some queues waits count the copies; so does what a
        scope issues. Iterations of short loops are distinguished."""
        facts = state.facts
        bits = frozenset(
            (atom, known)
            for atom, known in facts.items()
            if _is_bit(atom) or (atom.kind == "call" and known.exact is not None)
        )
        symbols = frozenset(
            (atom, known.residue, known.modulus)
            for atom, known in facts.items()
            if atom.kind == "symbol" and known.modulus > 1
        )
        residues = tuple(
            (loop, forms.residue(forms.of_atom(Atom("iteration", loop)), period, facts))
            for loop, period in sorted(self.precision.periods.items())
        )
        queues = frozenset(
            (
                name,
                one if state.scopes or name in self.counted else one._replace(open=(), groups=()),
            )
            for name, one in state.queues.items()
        )
        return (
            *(frozenset(state.env.items()), queues, state.callers, state.scopes, state.sides),
            *(state.tainted, state.other, state.uneven, state.unordered, state.turns),
            *(bits, symbols, residues),
            tuple(facts.get(Atom("iteration", loop), ANYTHING).exact for loop in self.short),
        )

    def _widen(self, state: State, old: Facts, before: int) -> None:
        """Make a state hold for an older one, too: bounds that move are given up, but for what both say of how far
        loops are from their ends. Where that was done so often `before` that it does not settle, for that, too."""
        both = old, state.facts
        state.facts = widened(*both)
        if before < WIDENINGS:
            state.facts = holding(self.iterations.left_to_run(state), *both, state.facts)

    def _another_thread(self, block: int, step: int, state: State) -> None:
        """Go on as another thread too, which need not have taken the same path."""
        if self.partings.several and not state.other:
            found = another_thread(state, self.values.divergence, self.values.base_facts)
            if found is not None:
                self._push(block, step, found)

    def _generalise(self, header: Block, state: State) -> None:
        """Let a loop's state stand for all later iterations as soon as nothing is remembered
        from before the loop: slots then differ by the iteration number alone. A loop around others to
        which nothing is given does so at once: what is in it is not followed for each iteration."""
        loop, inside = self.headers[header.number]
        atom = Atom("iteration", loop)
        number = state.facts.get(atom, ANYTHING).low
        if number == 0 and header.number in self.around:
            empty = next(iter(state.events()), None) is None
            if empty and self.iterations.runs(loop, state):
                state.facts[atom] = AtomRange(0, None)
        if number and all(event.site in inside for event in state.events()):
            before, state.facts = state.facts, {**state.facts, atom: AtomRange(number, None)}
            # After 2 iterations of which each saw two more, n - k >= 2: so it is in each later one.
            state.facts = holding(self.iterations.left_to_run(state), before, before, state.facts)

    # The edges out of a block --------------------------------------------------------------

    def _exit(self, block: Block, state: State) -> None:
        match block.exit:
            case Goto(edge):
                self._follow(edge, state)
            case Branch(condition, then, otherwise):
                form = self.values.form(state, condition)
                if not (
                    self._copy_under(form, state, block) or self._pass_alone(form, state, block)
                ):
                    self._split(state, form, {1: then, 0: otherwise}, block)
            case LoopTest(loop, body, out):
                again, left = self.iterations.test(loop, state)
                if again is not None and left is not None:
                    apart = self.iterations.left_apart(block.number, loop, state)
                    again.uneven |= apart
                    left.uneven |= apart
                if left is not None:
                    self._follow(out, left)
                if again is not None:
                    self._follow(body, again)
            case Switch(value, cases, default):
                self._switch(block, value, cases, default, state)
            case Stop():
                if state.turns is not None:
                    self.effects.judge.divergent(state.turns.site, state, may_be_met_elsewhere=True)
                if not state.other:
                    self.tainted = self.tainted or state.tainted
                    self.effects.judge.end(state)

    def _one_sided(self, block: Block) -> OneSided | None:
        """The copies of waves, or the barrier that counts these, on one side of a branch, if they are all that it decides."""
        if not isinstance(block.exit, Branch):
            return None
        edges = {1: block.exit.then, 0: block.exit.otherwise}
        for truth, edge in edges.items():
            steps = self._alone_until_join(edge)
            other = self._alone_until_join(edges[1 - truth])
            if steps is None or other is None or other[0] or steps[1].target != other[1].target:
                continue
            effects = [s for s in steps[0] if isinstance(s, Run) and not s.makes_values]
            barriers = [step for step in effects if step.row.counts_waves]
            if len(barriers) == len(self.plans[edge.target]) == 1:
                return OneSided(truth, edge.target, steps[1], barriers[0])
            if effects and all(step.row.by_wave for step in effects):
                return OneSided(truth, edge.target, steps[1])
        return None

    def _alone_until_join(self, edge: ControlEdge) -> tuple[list[Step], ControlEdge] | None:
        """What runs on a side of a branch, and the edge to where paths meet; None if it does more than to run ops."""
        block = self.flow.blocks[edge.target]
        if edge.loops or not self.needed.isdisjoint(target for target, _ in edge.assigns):
            return None
        if block.merges:
            return [], edge
        if not all(isinstance(step, Run) for step in block.steps):
            return None
        if not isinstance(block.exit, Goto):
            return None
        onwards = block.exit.edge
        if onwards.loops or not self.needed.isdisjoint(target for target, _ in onwards.assigns):
            return None
        return block.steps, onwards

    def _copy_under(self, form: Form, state: State, block: Block) -> bool:
        """Issue the copies of those waves that meet the condition at the end of a block, without a path of
        its own: a wave that waits for its N youngest copies has issued all of them or none."""
        copies = self.one_sided.get(block.number)
        if copies is None or copies.barrier is not None or not self.counted:
            return False
        sides = self._sides_of_threads(form, state, block)
        if sides is None:
            return False
        issued = state.under(sides[copies.truth].facts, True)
        try:
            for plan in self.plans[copies.block]:
                plan(issued)
        except OpenError:
            return False
        issued.facts = dict(state.facts)
        self._follow(copies.onwards, issued)
        return True

    def _pass_alone(self, form: Form, state: State, block: Block) -> bool:
        """Let the waves that meet the condition at the end of a block pass a barrier that the others do not, without a
        path of their own, where that begins or ends turns (see `commit_groups`)."""
        alone = self.one_sided.get(block.number)
        if alone is None or alone.barrier is None:
            return False
        sides = self._sides_of_threads(form, state, block)
        if sides is None:
            return False
        groups = [
            thread_ranges(state.under(sides[truth].facts, True), self.values.base_facts)
            for truth in (alone.truth, 1 - alone.truth)
        ]
        if not self.effects.groups.pass_alone(state, alone.barrier, *groups):
            return False
        self._follow(alone.onwards, state)
        return True

    def _sides_of_threads(
        self, form: Form, state: State, block: Block
    ) -> dict[int, SplitSide] | None:
        """The sides on which a condition is 1 and 0, if the numbers of threads alone decide who takes which."""
        sides = self._sides(form, state, block)
        decided = {a for s in sides for a, k in s.facts.items() if state.facts.get(a) != k}
        return by_truth(form, sides) if all(map(is_thread_condition, decided)) else None

    def _split(self, state: State, form: Form, edges: dict[int, ControlEdge], block: Block) -> None:
        sides = self._sides(form, state, block)
        self._note_asked(state, sides, *self.flow.decided_by(block))
        parting = self.partings.at_exit(block, [side.facts for side in sides], state)
        for side in sides:
            half = state.under(side.facts, side.exact)
            part(half, parting, side.truth)
            if parting is not None:
                half.uneven |= self.partings.left_apart(block, state)
            if self._was_elsewhere(half):
                half.taint()
            value = exact(settle(form, half.facts), half.facts)
            if value is None:
                self._push(block.number, len(self.plans[block.number]) or ARRIVED, half)
            elif value == side.truth or form.terms:
                self._follow(edges[1 if value else 0], half)

    def _note_asked(self, state: State, sides: list[SplitSide], value: int | None) -> None:
        """Note which comparisons a path decides by a value, and what it should have remembered to decide one of them as before."""
        if value is None or len(sides) == 1:
            return
        decided = sides[0].facts.keys() - state.facts.keys()
        kinds = ("cmp", forms.LOADED)
        comparisons = {a for a in decided if forms.operator_of(a)[0].startswith(kinds)}
        subjects = set(map(_subject, comparisons))
        for atom, before in state.asked if comparisons else ():
            if before not in (None, value) and _subject(atom) in subjects:
                if self.values.is_fixed(before):
                    self.forgotten.setdefault("conditions", set()).add(atom)
                else:
                    self.forgotten.setdefault("until", set()).add((before, value))
            elif atom in comparisons and value not in self.moving:
                self.forgotten.setdefault("conditions", set()).add(atom)
        state.asked |= {(atom, value) for atom in comparisons}

    def _was_elsewhere(self, state: State) -> bool:
        """Whether waits count copies that a thread with what is known of this one cannot have issued:
        those of its own may be others."""
        return any(
            state.facts[atom].is_apart(known)
            for name in self.counted & state.queues.keys()
            for group in state.queues[name].all_groups
            for issue in group
            for atom, known in issue[0].threads
            if atom in state.facts
        )

    def _sides(self, condition: Form, state: State, block: Block) -> list[SplitSide]:
        """Both sides of a condition. Iteration numbers that decide are kept, but for that of a loop
        whose test this is."""
        sides = self.values.split(condition, state.facts)
        if len(sides) > 1:
            tested = self.tested.get(block.number)
            numbers = {a for a in forms.atoms_of(condition) if a.kind == "iteration"}
            self.decided |= {a for a in numbers if a.key != tested}
        return sides

    def _switch(
        self,
        block: Block,
        value: int,
        cases: tuple[tuple[int, ControlEdge], ...],
        default: ControlEdge,
        state: State,
    ) -> None:
        form = self.values.form(state, value)
        decided = exact(settle(form, state.facts), state.facts)
        if decided is not None:
            self._follow(next((e for v, e in cases if v == decided), default), state)
            return
        sides = []
        for number, edge in cases:
            chosen, exactly = between(form, number, number, state.facts)
            if chosen is not None:
                sides.append((edge, state.under(chosen, exactly or is_thread_number(form))))
        rest, complete = without_ends(form, {number for number, _ in cases}, state.facts)
        if rest is not None:
            sides.append((default, state.under(rest, complete or not is_thread_number(form))))
        parting = self.partings.at_exit(block, [side.facts for _, side in sides], state)
        for position, (edge, side) in enumerate(sides):
            part(side, parting, position)
            if parting is not None:
                side.uneven |= self.partings.left_apart(block, state)
            self._follow(edge, side)

    def _follow(self, edge: ControlEdge, state: State) -> None:
        """Take an edge: assign, then move the iteration numbers of the loops it concerns."""
        self._assign(state, edge.assigns)
        apart = any(kind == "leave" and number in state.uneven for kind, number in edge.loops)
        for kind, number in edge.loops:
            if kind == "enter":
                self.iterations.enter(state, number, self._twin_of(number))
            elif kind == "back":
                self.iterations.repeat(state, number)
                state.asked = frozenset((atom, None) for atom, _ in state.asked)
            elif not self.iterations.leave(state, number):
                return
            else:
                state.uneven -= {number}
        if apart:
            self.values.forget_chosen(state, None)
            self._another_thread(edge.target, 0, state)
        self._push(edge.target, 0, state)


# Modulo what the iteration numbers of a kernel's loops must be known.
#
#     slot = (k + 2) mod 3                 k is needed modulo 3
#     parity = (k div 2) mod 2             k is needed modulo 4
#
# The moduli are found while running, and the run starts again with them.


def check_periods(value: Form, facts: Facts, tracked: Mapping[int, int]) -> None:
    """Raise RefineError where `value` needs an iteration number modulo more than is `tracked`."""
    for atom, period in needed_periods(value):
        if atom.kind != "iteration" or period <= 1:
            continue
        loop = int(atom.key)  # type: ignore[call-overload]
        known = facts.get(atom, ANYTHING)
        wanted = lcm(tracked.get(loop, 1), period)
        if known.modulus % period and known.exact is None and wanted <= LARGEST_PERIOD:
            raise RefineError(periods={loop: wanted})


# When one abstract state covers another, and what holds for both if they differ in numbers.
#
# Equal values, queues, sets and decided conditions make the same state; so do residues of
# iteration numbers, as far as some `mod V` of the kernel needs them. Intervals are not part of
# that: a state whose intervals another one covers is dropped, else both are widened into one.
#
#     in flight: [copy a, copy b], [copy c]    covers    in flight: [copy b], [copy c]
#
# A state that remembers a part of what another one does is dropped too: whatever races with the part
# races on the path of the other. Groups count for waits, so each copy must be of the same age; where
# waits count copies, no copy may be missing.


# States at one place that others are compared with: those that remember most come first.
COMPARED_STATES = 64


def _subject(comparison: Atom) -> frozenset[Form]:
    """What a comparison is about, as others of it are, too: tid - m, for tid < m, tid <= m and m < tid + 1."""
    name, arguments = forms.operator_of(comparison)
    form = Form(0, arguments[0].terms) if name.startswith("cmp") else forms.of_atom(comparison)
    return frozenset((form, forms.scale(form, -1)))


@dataclass
class Seen:
    """The states of one key that came to one block: what is known of the numbers of each, and all that
    it remembers, by queues and sets."""

    _facts: dict[Hashable, list[Knowns]] = field(default_factory=dict)
    _whole: dict[Hashable, frozenset[Hashable]] = field(default_factory=dict)

    def adds(self, state: State, separate: int, widen: Callable[[State, Facts, int], None]) -> bool:
        """Whether no state before covers this one. It is then kept; if there are `separate` ones that
        differ from it in numbers alone, it is made to hold for one of them, too."""
        memory = (tuple(sorted(state.queues.items())), state.done, state.log, state.behind)
        known = self._facts.get(memory, [])
        if any(covers(facts, state.facts) for facts in known):
            return False
        if not known:
            part = state.remembered()
            for other, whole in self._whole.items():
                if part <= whole and any(covers(f, state.facts) for f in self._facts[other]):
                    return False
            self._facts[memory] = known
            if len(self._whole) < COMPARED_STATES:
                self._whole[memory] = part
        if len(known) >= separate:
            widen(state, known[-1], len(known) - separate)
        known.append(dict(state.facts))
        return True


_BITS = ("bit", "thread bit")


def _is_bit(atom: Atom) -> bool:
    return atom.kind == "symbol" and atom.tag in _BITS


def _value_number(atom: Atom) -> int | None:
    """The number of the value that a symbol stands for; None for ids and sizes of the launch."""
    key = atom.key
    if isinstance(key, tuple):
        key = key[1] if atom.tag in ("thread", *_BITS) else None
    return key if isinstance(key, int) else None


def covers(general: Knowns, special: Knowns) -> bool:
    """Whether every valuation that `special` allows is allowed by `general`."""
    return all(known.contains(_known(atom, special)) for atom, known in general.items())


def widened(old: Facts, new: Facts) -> Knowns:
    """Facts that hold for both, bounds that move given up."""
    return {atom: hull(old[atom], known) for atom, known in new.items() if atom in old}


def holding(sums: Iterable[tuple[Form, int]], old: Facts, new: Facts, facts: Knowns) -> Knowns:
    """The facts with what an old state says of the sums, if that holds in the new one: n - k >= 3 where k = 2 and n >= 5,
    and where k = 3 and n >= 6. If it does not, with what a test said of each that holds in both: sum > 0 or sum >= 0,
    before a step or after it."""
    for form, step in sums:
        for one in (form, forms.scale(form, -1)):
            before, now = (forms.bounds(settle(one, known), known)[0] for known in (old, new))
            if before is None or now is None:
                continue
            back = abs(step) if (one == form) == (step > 0) else None
            tested = () if back is None else (1, 0, 1 - back, -back)
            held = next((least for least in (before, *tested) if least <= min(before, now)), None)
            if held is not None:
                facts = dict(at_least(one, held, facts)[0] or facts)
                # The sum bounds its parts, too: with an i32 as n, k <= 2^31 - 4.
                facts = each_at_least(Form(0, one.terms), held - one.constant, facts)
    return facts


def _known(atom: Atom, facts: Knowns) -> AtomRange:
    """What facts say of an atom, and of a sum by what they say of its parts: n - k >= 3 where k = 2 and n >= 5."""
    known = facts.get(atom, ANYTHING)
    if atom.kind == "sum" and known == ANYTHING:
        known = AtomRange(*forms.bounds(settle(forms.form_under(atom), facts), facts))
    return known
