"""Follows all paths of a kernel, with the phases of mbarriers; roles alternate on a path.

    scf.if %leader { expect; copy }     the leader's threads go there, then all go on
    scf.if %n > 2 { … }                 the path splits
    scf.for %k = 0 to %n                k is an unknown with n - k in a range and a residue

All numbers that choose slots, parities and threads are known on a path, so mbarriers are
distinguished exactly. A loop of unknown length is left after about 2V iterations, when the states repeat.
Where two sides of a branch on threads both do something to them, the kernel is followed anew with
clocks of warps (`followed_kernel`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mlir_async_pipe.checker.forms import Form
from mlir_async_pipe.checker.partings import is_barrier
from mlir_async_pipe.checker.phase_faults import Forgiven, FoundFault, NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.amounts import EachThread, of_array
from mlir_async_pipe.checker.phases.block_memory import BlockMemory
from mlir_async_pipe.checker.phases.byte_places import Asked, BytePlace, EachRotation, Value
from mlir_async_pipe.checker.phases.cluster_memory import ClusterMemory
from mlir_async_pipe.checker.phases.loop_iterations import LoopIterations
from mlir_async_pipe.checker.phases.mbarrier_state import BlockedError, RoleLog
from mlir_async_pipe.checker.phases.mending import forgiving, forgiving_registers
from mlir_async_pipe.checker.phases.op_effects import (
    NeverAnsweredError,
    OpEffects,
    counts_arrivals,
    is_asked,
    may_wait,
)
from mlir_async_pipe.checker.phases.path_numbers import PathNumbers
from mlir_async_pipe.checker.phases.path_state import PathState, Spot, Strand, fresh, loaded
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge, atoms_within
from mlir_async_pipe.checker.phases.registers_in_flight import Registers
from mlir_async_pipe.checker.phases.role_strands import (
    NextRoleError,
    PartedSides,
    act,
    begin_blocks,
    deadlock,
    resume,
    split_role,
    suspend,
)
from mlir_async_pipe.checker.phases.role_unions import Done, history, shape_and_done, unite
from mlir_async_pipe.checker.phases.rotations import Rotations
from mlir_async_pipe.checker.phases.warp_clocks import WarpClasses, WarpClocks
from mlir_async_pipe.checker.precision import MERGED, OpenError, RefineError, Rung
from mlir_async_pipe.checker.step_graph import (
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
    live_values,
    loop_bodies,
    needed_values,
)

# The states that came where paths meet, each followed once; of those of roles, one for all of a shape.
#
#     slot 1, tile 4, producer knows of the reads of slots 0 and 1          followed
#     slot 1, tile 8, producer knows of the read of slot 0                  followed: it stands for both
#     slot 1, tile 9, producer knows of the reads of slots 0 and 1          the same
#
# A merged state waits until no other one goes on, so that most of its shape are in it by then.


@dataclass
class StatesSeen:
    """States by block and shape, with what was done in all that a rung merges, and the memory of that; `waiting`: to
    go on from. `heads` are blocks with which iterations begin."""

    rung: Rung
    rings: Rotations | None = None
    done: dict[Hashable, Done] = field(default_factory=dict)
    memories: dict[Hashable, BlockMemory] = field(default_factory=dict)
    waiting: dict[Hashable, tuple[int, PathState]] = field(default_factory=dict)
    heads: set[int] = field(default_factory=set)

    def goes_on(self, block: int, state: PathState) -> bool:
        """Whether a state is new, or not asked, and goes on at once."""
        if not state.is_asked(block in self.heads):
            return True
        if self.rings is not None:
            self.rings.rotate(state, block)
        memory = state.memory
        shape, done = shape_and_done(memory)
        if self.rung not in (Rung.ROTATED, Rung.UNITED):
            shape = shape, history(memory), done.all
        key: Hashable = (block, state.shape_with(shape))
        if self.rung not in MERGED:
            before = len(self.done)
            self.done[key, done.known] = done
            return len(self.done) > before
        known = self.done.get(key)
        if known is not None:
            united = known.with_those_of(done)
            if united == known:
                return False
            unite(memory, united, self.memories[key])
            done = united
        self.done[key], self.memories[key] = done, memory.copy()
        self.waiting.pop(key, None)
        self.waiting[key] = block, state
        return False

    def next(self) -> tuple[int, PathState]:
        """The block and state that has waited longest; of rotated rings, which soon come round again, the last."""
        waiting = iter(self.waiting) if self.rings is None else reversed(self.waiting)
        return self.waiting.pop(next(waiting))


# Steps that are run on all paths together, three seconds or so, and so many more for each step of a kernel: a state of
# a longer loop takes more of them.
STEPS, STEPS_OF_ONE = 200_000, 50
# This part of it for what else is wrong, after a fault.
SEARCHED = 8
# So many times that where threads take one path, or one state stands for many; and where there is a path
# for each remainder of a number.
TOGETHER_FACTOR, BY_RESIDUES = 2, 2
# The first step of a block that a state has arrived at before.
ARRIVED = -1

Plan = Callable[[PathState, Spot], None]


@dataclass
class PhasePaths:
    """The paths of one kernel, as a rung follows them. One that splits although numbers are put in is recorded with
    what is no number of the kernel. Merged states are followed as one, in which everybody knows the least, up to the
    first fault. `taken`: states in which certain faults were met."""

    flow: Flow
    effects: OpEffects
    numbers: PathNumbers
    rung: Rung
    rings: Rotations | None = None

    def __post_init__(self) -> None:
        flow, effects = self.flow, self.effects
        read = needed_values(flow, effects.reads, self.numbers.loads_one)
        self.needed = read | Registers.kept(flow)
        self.live = live_values(flow, self.needed)
        self.plans = [self._plans(block) for block in flow.blocks]
        self.made = [
            {n for step in block.steps if isinstance(step, Run) for n in step.results}
            | {t for step in block.steps if isinstance(step, Assign) for t, _ in step.assigns}
            for block in flow.blocks
        ]
        inside = {n for _, body in loop_bodies(flow).values() for n in body}
        again = {
            (step.op, step.frame)
            for number in inside
            for step in flow.blocks[number].steps
            if isinstance(step, Run)
        }
        groups = self.numbers.groups.items()
        # Groups of mbarriers that no loop around makes anew.
        self.once = frozenset(group for made, group in groups if made not in again)
        self.given: dict[int, list[Value]] = {}
        runs = {b.number: [s for s in b.steps if isinstance(s, Run)] for b in flow.blocks}
        acts = {number: list(filter(effects.prepare, steps)) for number, steps in runs.items()}
        acting = {number: steps for number, steps in acts.items() if steps}
        beside = {n for n in acting if not all(map(counts_arrivals, acts[n]))}
        waiting = {number for number, steps in runs.items() if any(map(may_wait, steps))}
        self.sides = PartedSides(flow, acting, beside, waiting, self.needed)

    # Paths --------------------------------------------------------------------------------

    def run(self, loops: LoopIterations, classes: WarpClasses) -> None:
        """Follow all paths, with so many distinctions of loops and of `classes` of warps. Raises
        NotFollowedError."""
        self.loops, self.classes, self.effects.mixed = loops, classes, False
        self.seen = StatesSeen(self.rung, rings=self.rings)
        self.log: RoleLog = {}
        self.faults: dict[FoundFault, None] = {}
        self.taken: dict[FoundFault, list[PathState]] = {}
        everybody = (1 << self.numbers.threads) - 1
        blocks, together = self.numbers.blocks, classes.together
        kind = ClusterMemory if blocks.threads else BlockMemory
        memory = kind(
            everybody,
            clocks=WarpClocks.started(classes),
            log=self.log,
            blocks=blocks,
            by_threads=self.effects.by_threads,
            exact=self.rung is Rung.NUMBERS,
            forgiven=Forgiven() if together else self.effects.forgiven,
        )
        known = Knowledge(beside_roles=not together)
        self.loops.suppose_steps(known, self.numbers.given)
        start = PathState(self.numbers.given, everybody, memory=memory, known=known)
        if self.numbers.blocks.threads:
            begin_blocks(start, self.numbers)
        self.work: list[tuple[int, int, PathState]] = [(0, 0, start)]
        alone = together or self.rung in MERGED
        self.steps, steps = STEPS + STEPS_OF_ONE * sum(map(len, self.plans)), 0
        self.steps *= TOGETHER_FACTOR if alone else 1
        if self.effects.forgiven:
            self.steps //= SEARCHED
        while self.work or self.seen.waiting:
            if not self.work:
                number, state = self.seen.next()
                self.work.append((number, ARRIVED, state))
            number, position, state = self.work.pop()
            steps += len(self.plans[number]) - max(position, 0) + 4
            if steps > self.steps:
                raise NotFollowedError("budget")
            block = self.flow.blocks[number]
            if position or not block.merges or self._arrive(block, state):
                self._block(block, position, state)
        if self.effects.mixed:
            raise NotFollowedError("asks-for-a-phase")

    def _arrive(self, block: Block, state: PathState) -> bool:
        """Whether a state where paths meet is new, and goes on at once; a merged one waits."""
        live = self.live[block.number]
        state.env = {n: value for n, value in state.env.items() if n in live}
        self._forget(state, block.number)
        return self.seen.goes_on(block.number, state)

    def _forget(self, state: PathState, block: int) -> None:
        """Forget, where all threads of one block take one path, what no later step can ask for: else loops in a row
        multiply states.

            loop on %full0        6 states after it: its mbarriers in slots and phases
            loop on %full1        %full0 is named by no value that is read any more: 6 again, not 36

        An mbarrier is forgotten after all of its copies are over, and what is known of unknowns that nothing
        is made of any more; `past` keeps what led here, for numbers to be found with which it is taken."""
        if not state.memory.together or state.mask != state.memory.everybody:
            return
        if block not in self.given:
            self.given[block] = [self.numbers.given(number) for number in self.live[block]]
        values = {*self.given[block], *state.env.values()}
        values |= {iteration.value for iteration in state.iterations.values()}
        terms = {atom for value in values if isinstance(value, Form) for atom, _ in value.terms}
        atoms = {inner for atom in terms for inner in atoms_within(atom)}
        roots = {value.root for value in values if isinstance(value, BytePlace)}
        roots |= {int(str(atom.key)) for atom in atoms if atom.kind in ("address", "units")}
        state.memory.forget(self.once - roots)
        state.known.keep(atoms)

    def _block(self, block: Block, first: int, state: PathState) -> None:
        spot, plans = state.spot(), self.plans[block.number]
        position = first = max(first, 0)
        try:
            for position in range(first, len(plans)):
                plans[position](state, spot)
            position = len(plans)
            state.meeting = None
            self._exit(block, state)
        except OpenError as found:
            self._split(found.args, state, block.number, position)
        except BlockedError as waiting:
            state.meeting = spot.meeting
            role = self._suspended(state, block.number, position)
            role.blocked = waiting.blocked, state.memory.progress
            self._next_role(state, role)
        except NextRoleError:
            self._next_role(state, None)
        except NeverAnsweredError:
            return
        except PhaseFault as fault:
            self._found(fault, state)

    def _split(self, what: tuple[Any, ...], state: PathState, block: int, position: int) -> None:
        """Follow each path on which what is open is decided, from where that was asked."""
        paths: list[Knowledge] = []
        match what:
            case (Form() as form,):
                self.loops.check_open(state, form)
                state.doubtful |= self.rung is Rung.NUMBERS and not is_asked(form)
                paths = state.known.halves(form)
            case (atom, by):
                if self.loops.precision.modulus % by:
                    raise RefineError(modulus=by)
                self.steps = max(self.steps, BY_RESIDUES * STEPS)
                paths = state.known.with_residues(atom, self.loops.precision.modulus)
            case (atom, form, quotient):
                state.take_apart(atom, form, quotient)
                self.work.append((block, position, state))
            case (EachThread() as value,):
                if not self.loops.roles:
                    raise NotFollowedError("unknown-number")
                split_role(state, value, block, position)
                self.work.append((block, position, state))
        for known in paths:
            self.work.append((block, position or ARRIVED, state.copy(known)))

    # Roles --------------------------------------------------------------------------------

    def _suspended(self, state: PathState, block: int, position: int) -> Strand:
        """The role that runs, as it goes on later, with the values that it may still ask for."""
        made = self.made[block] if position else set()
        role = suspend(state, block, position)
        live = self.live[block]
        role.env = {n: value for n, value in role.env.items() if n in live or n in made}
        return role

    def _next_role(self, state: PathState, suspended: Strand | None) -> None:
        """Another role goes on, if one can; else all that wait hang."""
        if suspended is not None:
            state.others += (suspended,)
        elif state.others and state.others[-1].at_join is not None:
            last = state.others[-1]
            last.env = {n: v for n, v in last.env.items() if n in self.live[last.block]}
        try:
            role = resume(state)
            if role is None:
                waiting = {one.blocked[0].op for one in state.others if one.blocked is not None}
                if not self.loops.precision.apart.isdisjoint(waiting):
                    return
                raise deadlock(state)
            if role.edge is not None:
                self._take(role.edge, state)
            else:
                self.work.append((role.block, role.position, state))
        except PhaseFault as fault:
            self._found(fault, state)
        except NextRoleError:
            self._next_role(state, None)

    def _found(self, fault: PhaseFault, state: PathState) -> None:
        if self.rung in MERGED:
            raise NotFollowedError("merged")
        early = fault.found.code in ("phase-overtaken", "too-many-arrivals")
        if early and self.classes.together and not self.classes.aligned:
            raise RefineError(aligned=True)
        fault = state.memory.explained(fault)
        doubt = state.doubtful or state.mask is None or state.memory.some_met
        certain = fault.found.certain and not doubt
        found = replace(fault.found, certain=certain, by=state.mask or 0)
        self.faults[found] = None
        if found.certain:
            self.taken.setdefault(found, []).append(state)

    # Steps --------------------------------------------------------------------------------

    def _plans(self, block: Block) -> list[Plan]:
        found = (self._plan(step) for step in block.steps)
        return [plan for plan in found if plan is not None]

    def _plan(self, step: Step) -> Plan | None:
        match step:
            case Run():
                return self._plan_run(step)
            case Assign(assigns):
                return lambda state, spot: self._assign(state, assigns)
            case AnyIteration(_, variable):
                return lambda state, spot: state.env.update({variable: None})
            case Lost() | Bracket("scope"):
                return _lost
        return None

    def _plan_run(self, run: Run) -> Plan | None:
        effect = self.effects.prepare(run)
        registers = Registers.plan(run, self.effects.number)
        if registers is not None and self.effects.forgiven:
            registers = forgiving_registers(registers, self.effects.forgiven)
        rules = self.numbers.parts(run) or [self.numbers.prepare(run)]
        if self.rings is not None:
            rules = [rule and self.rings.rule(run, rule) for rule in rules]
            effect = effect and self.rings.effect(run, effect)
        made = dict(zip(run.results, rules, strict=False))
        wanted = [n for n in run.results if n in self.needed and self.numbers.given(n) is None]
        if effect is None and registers is None and not wanted:
            return None

        meets, waits = is_barrier(run), run.row.phase == "wait"
        without_rule = fresh
        if self.numbers.loads_one(run):
            without_rule = partial(loaded, by_root=self.numbers.loads_by_root(run))

        def execute(state: PathState, spot: Spot) -> None:
            if registers is not None:
                registers(state.registers, state.mask)
            if effect is not None:
                if state.others and not meets:
                    act(state)
                effect(spot)
                asked = state.sides[-1].condition if waits and state.sides else None
                if isinstance(asked, Asked):
                    self.effects.check_awaited(run, spot, asked)
                    state.sides = (*state.sides[:-1], state.sides[-1]._replace(condition=None))
            for number in wanted:
                rule = made.get(number)
                if rule is not None:
                    state.env[number] = rule(spot)
                else:
                    state.env[number] = without_rule(run, state, number)

        return execute

    def _assign(self, state: PathState, assigns: Iterable[tuple[int, int]]) -> None:
        wanted = [(target, source) for target, source in assigns if target in self.needed]
        state.env.update([(target, state.get(source)) for target, source in wanted])
        state.registers.assign(wanted)

    # The edges out of a block --------------------------------------------------------------

    def _exit(self, block: Block, state: PathState) -> None:
        match block.exit:
            case Goto(edge):
                self._take(edge, state)
            case Branch(condition, then, otherwise):
                value = state.get_here(condition)
                if isinstance(value, EachRotation):
                    raise NotFollowedError("rings")
                if isinstance(value, Form):
                    value = int(state.known.at_least_one(value))
                if isinstance(value, int):
                    self._take(then if value & 1 else otherwise, state)
                else:
                    self._take(self.sides.part(block.number, state, value, then, otherwise), state)
            case LoopTest(loop, body, out):
                self._test(loop, body, out, state)
            case Switch(value, cases, default):
                chosen = state.get_here(value)
                if isinstance(chosen, EachThread) and len(cases) == 1:
                    ((number, edge),) = cases
                    here = of_array(chosen.numbers == number)
                    self._take(self.sides.part(block.number, state, here, edge, default), state)
                    return
                if not isinstance(chosen, int):
                    raise NotFollowedError("unknown-number")
                self._take(next((e for v, e in cases if v == chosen), default), state)
            case Stop():
                state.memory.leave(state.mask or 0)
                if state.others:
                    raise NextRoleError
                forgiving(_end, -1, self.effects.forgiven)(state.spot())

    def _test(self, number: int, body: ControlEdge, out: ControlEdge, state: PathState) -> None:
        (value, rest), variable = self.loops.rest(state, number), self.flow.loops[number].variable
        if value is None and self.sides.acts(body.target, out.target):
            raise NotFollowedError("unknown-loop")
        if rest is None:
            state.doubtful |= self.rung is Rung.NUMBERS or (self.loops.roles and state.is_role)
            self._take(out, state.copy(state.known.copy()))
        elif not state.known.at_least_one(rest):
            if self.loops.may_end(state, rest):
                state.known.learn_residue(rest, self.loops.precision.modulus)
                self._take(out, state)
            return
        if variable is not None:
            state.env[variable] = self.loops.variable(state, number)
        self._take(body, state)

    def _take(self, edge: ControlEdge, state: PathState) -> None:
        for kind, number in edge.loops:
            if kind == "enter":
                self.loops.check_bounds(state, number)
        joined = self.sides.joined(edge, state)
        before = {target: state.env.get(target) for target, _ in joined.assigns if joined.loops}
        self._assign(state, joined.assigns)
        if self.rings is not None:
            self.rings.begin(state, joined)
        again = False
        for kind, number in joined.loops:
            if kind == "enter":
                self.loops.enter(state, number)
            elif kind == "back":
                self.loops.repeat(state, number, before)
                again = True
                self.seen.heads.add(joined.target)
            else:
                self.loops.leave(state, number)
        if again and state.others:
            # Roles go on in step, so that few iterations lie between them.
            self._next_role(state, self._suspended(state, joined.target, 0))
            return
        self.work.append((joined.target, 0, state))


def _end(spot: Spot) -> None:
    spot.memory.check_end()


def _lost(state: PathState, spot: Spot) -> None:
    raise NotFollowedError("unfollowed")
