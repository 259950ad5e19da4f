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

from collections.abc import Callable, Hashable, Iterable, Set
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from mlir_async_pipe.checker import step_graph
from mlir_async_pipe.checker.forms import Form, atoms_of
from mlir_async_pipe.checker.partings import is_barrier, join_of
from mlir_async_pipe.checker.phase_faults import Forgiven, FoundFault, NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.amounts import EachThread, chosen, of_array
from mlir_async_pipe.checker.phases.block_memory import BlockMemory
from mlir_async_pipe.checker.phases.byte_places import (
    Asked,
    BytePlace,
    EachRotation,
    Value,
    gathered,
)
from mlir_async_pipe.checker.phases.loop_iterations import LoopIterations
from mlir_async_pipe.checker.phases.mbarrier_state import BlockedError, RoleLog, lacks
from mlir_async_pipe.checker.phases.mending import forgiving, forgiving_registers
from mlir_async_pipe.checker.phases.op_effects import (
    NeverAnsweredError,
    counts_arrivals,
    is_asked,
    may_wait,
)
from mlir_async_pipe.checker.phases.path_numbers import PathNumbers
from mlir_async_pipe.checker.phases.path_state import Parted, PathState, Spot, Strand, fresh, loaded
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge
from mlir_async_pipe.checker.phases.registers_in_flight import Registers
from mlir_async_pipe.checker.phases.role_unions import Done, history, shape_and_done, unite
from mlir_async_pipe.checker.phases.rotations import Rotations
from mlir_async_pipe.checker.phases.warp_clocks import WarpClasses, WarpClocks, warps_of
from mlir_async_pipe.checker.precision import MERGED, OpenError, RefineError, Rung
from mlir_async_pipe.checker.step_graph import ARRIVED, Block, ControlEdge, Run
from mlir_async_pipe.facts.flow.algorithms import reached

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
# This part of it for what else is wrong, after a fault; and for a fault that is met at once.
SEARCHED, AT_ONCE = 8, 50
# So many times that where threads take one path, or one state stands for many; and where there is a path
# for each remainder of a number.
TOGETHER_FACTOR, BY_RESIDUES = 2, 2

Plan = Callable[[PathState, Spot], None]


@dataclass
class PhasePaths:
    """The paths of one kernel, as a rung follows them. One that splits although numbers are put in is recorded with
    what is no number of the kernel. Merged states are followed as one, in which everybody knows the least, up to the
    first fault. `taken`: states in which certain faults were met. `at_once`: only what is met on the first steps."""

    numbers: PathNumbers
    rung: Rung
    rings: Rotations | None = None
    at_once: bool = False

    def __post_init__(self) -> None:
        self.flow, self.effects = flow, effects = self.numbers.flow, self.numbers.effects
        read = step_graph.needed_values(flow, effects.reads, self.numbers.loads_one)
        self.needed = read | Registers.kept(flow)
        self.live = step_graph.live_values(flow, self.needed)
        self.plans = [self._plans(block) for block in flow.blocks]
        runs = {b.number: [s for s in b.steps if isinstance(s, Run)] for b in flow.blocks}
        assigns = {
            b.number: [s for s in b.steps if isinstance(s, step_graph.Assign)] for b in flow.blocks
        }
        self.made = [
            {n for run in runs[b.number] for n in run.results}
            | {target for step in assigns[b.number] for target, _ in step.assigns}
            for b in flow.blocks
        ]
        inside = {n for _, body in step_graph.loop_bodies(flow).values() for n in body}
        again = {(run.op, run.frame) for number in inside for run in runs[number]}
        groups = self.numbers.groups.items()
        # Groups of mbarriers that no loop around makes anew.
        self.once = frozenset(group for made, group in groups if made not in again)
        self.given: dict[int, list[Value]] = {}
        # Steps that do something to what is followed, by blocks; those that do more than to arrive and to copy, or may stop.
        acts = {number: list(filter(effects.prepare, steps)) for number, steps in runs.items()}
        self.acting = {number: steps for number, steps in acts.items() if steps}
        self.beside = {n for n in self.acting if not all(map(counts_arrivals, acts[n]))}
        self.waiting = {number for number, steps in runs.items() if any(map(may_wait, steps))}
        self._join_of = cache(partial(join_of, flow))

    # Paths --------------------------------------------------------------------------------

    def run(self, loops: LoopIterations, classes: WarpClasses) -> None:
        """Follow all paths, with these distinctions of loops and of `classes` of warps. Raises NotFollowedError."""
        self.loops, self.classes, self.effects.mixed = loops, classes, False
        self.seen = StatesSeen(self.rung, rings=self.rings)
        self.log: RoleLog = {}
        self.faults: dict[FoundFault, None] = {}
        self.taken: dict[FoundFault, list[PathState]] = {}
        everybody = (1 << self.numbers.threads) - 1
        blocks, together = self.numbers.blocks, classes.together
        memory = BlockMemory(
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
        if self.at_once:
            self.steps //= AT_ONCE
        while self.work or self.seen.waiting:
            if self.faults and self.effects.until_found:
                return
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
        atoms = {a for value in values if isinstance(value, Form) for a in atoms_of(value)}
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
                self.work.append((block, position or ARRIVED, state))
            case (EachThread() as value,):
                if not self.loops.roles:
                    raise NotFollowedError("unknown-number")
                split_role(state, value, block, position)
                self.work.append((block, position or ARRIVED, state))
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
                if self.rung in MERGED and not self.loops.precision.abreast:
                    # A role that began a loop after others had been left open may seem to be iterations ahead.
                    raise RefineError(abreast=True)
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

    def _plan(self, step: step_graph.Step) -> Plan | None:
        match step:
            case Run():
                return self._plan_run(step)
            case step_graph.Assign(assigns):
                return lambda state, spot: self._assign(state, assigns)
            case step_graph.AnyIteration(_, variable):
                return lambda state, spot: state.env.update({variable: None})
            case step_graph.Lost() | step_graph.Bracket("scope"):
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
            case step_graph.Goto(edge):
                self._take(edge, state)
            case step_graph.Branch(condition, then, otherwise):
                value = state.get_here(condition)
                if isinstance(value, EachRotation):
                    raise NotFollowedError("rings")
                if isinstance(value, Form):
                    value = int(state.known.at_least_one(value))
                if isinstance(value, int):
                    self._take(then if value & 1 else otherwise, state)
                else:
                    self._take(self._part(block.number, state, value, then, otherwise), state)
            case step_graph.LoopTest(loop, body, out):
                self._test(loop, body, out, state)
            case step_graph.Switch(value, cases, default):
                chosen = state.get_here(value)
                if isinstance(chosen, EachThread) and len(cases) == 1:
                    ((number, edge),) = cases
                    here = of_array(chosen.numbers == number)
                    self._take(self._part(block.number, state, here, edge, default), state)
                    return
                if not isinstance(chosen, int):
                    raise NotFollowedError("unknown-number")
                self._take(next((e for v, e in cases if v == chosen), default), state)
            case step_graph.Stop():
                state.memory.leave(state.mask or 0)
                if state.others:
                    raise NextRoleError
                forgiving(_end, -1, self.effects.forgiven)(state.spot())

    def _test(self, number: int, body: ControlEdge, out: ControlEdge, state: PathState) -> None:
        (value, rest), variable = self.loops.rest(state, number), self.flow.loops[number].variable
        if value is None and self._acts(body.target, out.target):
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
        joined = self._joined(edge, state)
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

    # Branches on threads: both sides run, one after the other or beside each other ---------------
    #
    #     scf.if %leader { expect; copy }     first the leader's side, then that of the others
    #     scf.if %consumes { wait full; product; arrive } else { wait empty; copy }      two roles
    #
    # Where only one side does anything to mbarriers or the memory of copies, the sides are followed one
    # after the other with the threads of each; values that they forward differ between threads. So are
    # sides that only arrive and copy, as long as there are no roles: a phase needs the arrivals of both.
    # Else, and where threads may have to wait on a side, each is a role.

    def _part(
        self, number: int, state: PathState, value: Value, then: ControlEdge, otherwise: ControlEdge
    ) -> ControlEdge:
        """Threads part at the end of a block; gives the edge to follow first."""
        join = self._join_of(number)
        if isinstance(value, Asked):
            return self._ask(join, state, value, *(then, otherwise))
        masks: list[int | None] = [None, None]
        if isinstance(value, EachThread) and state.mask is not None:
            masks = [state.mask & value.mask, state.mask & ~value.mask]
        sides = [(e, m) for e, m in zip((then, otherwise), masks, strict=True) if m != 0]
        if len(sides) == 1:
            return sides[0][0]
        condition = value if isinstance(value, EachThread) else None
        (first, mask), rest = sides
        if self._are_roles(join, state, sides):
            edge, other = rest
            if mask is None or other is None:
                raise NotFollowedError("unknown-threads")
            part_roles(state, number, join, other, edge, mask)
            return first
        state.sides = (*state.sides, Parted(join, state.mask, rest, (), condition))
        state.mask = mask
        return first

    def _ask(
        self,
        join: int | None,
        state: PathState,
        asked: Asked,
        then: ControlEdge,
        otherwise: ControlEdge,
    ) -> ControlEdge:
        """Threads go on where a phase is over, and wait for it else: all of them wait, which those that need not
        do not notice. Gives the edge to the wait. Raises RefineError where that is not all."""
        no, yes = (then if answer & 1 else otherwise for answer in asked.values)
        while yes.target != join and not (yes.assigns or yes.loops):
            after = self.flow.blocks[yes.target]
            if after.steps or not isinstance(after.exit, step_graph.Goto):
                break
            yes = after.exit.edge
        steps = [step for n in self._between(no.target, join) for step in self.acting.get(n, ())]
        if yes.target != join or yes.loops or [step.row.phase for step in steps] != ["wait"]:
            raise RefineError(apart=frozenset({asked.test}))
        at_join = tuple((t, state.get(s)) for t, s in yes.assigns if t in self.needed)
        state.sides = (*state.sides, Parted(join, state.mask, None, at_join, asked))
        return no

    def _are_roles(
        self, join: int | None, state: PathState, sides: list[tuple[ControlEdge, int | None]]
    ) -> bool:
        """Whether the sides run beside each other: both do something, or one may have to wait."""
        if join is None or all(self._acts(edge.target, join) for edge, _ in sides):
            only_arrive = not any(
                self._comes_to(self.beside, edge.target, join) for edge, _ in sides
            )
            if join is not None and only_arrive and state.memory.together:
                return False
            if state.memory.together:
                raise NotFollowedError("specialised")
            return True
        return not state.memory.together and any(
            self._comes_to(self.waiting, edge.target, join) for edge, _ in sides
        )

    def _acts(self, first: int, join: int | None) -> bool:
        """Whether anything is done on paths from one block to another."""
        return self._comes_to(self.acting.keys(), first, join)

    def _comes_to(self, blocks: Set[int], first: int, join: int | None) -> bool:
        return not blocks.isdisjoint(self._between(first, join))

    def _between(self, first: int, join: int | None) -> Set[int]:
        """The blocks on paths from one up to another one."""
        inside = reached([first], lambda n: self.flow.after(n) if n != join else ())
        return inside - {join}

    def _joined(self, edge: ControlEdge, state: PathState) -> ControlEdge:
        """The edge to follow: the other side's where one ends a side, or on from where all join. Raises NextRoleError."""
        while state.sides and edge.target == state.sides[-1].join:
            if edge.loops:
                raise NotFollowedError("specialised")
            parted = state.sides[-1]
            if isinstance(parted.condition, Asked):
                raise RefineError(apart=frozenset({parted.condition.test}))
            at_join = tuple((t, state.get(s)) for t, s in edge.assigns if t in self.needed)
            if parted.roles:
                end_role(state, parted, at_join, edge.target)
            elif parted.rest is None:
                self._join(parted, at_join, state)
            else:
                edge, mask = parted.rest
                state.sides = (*state.sides[:-1], parted._replace(rest=None, at_join=at_join))
                state.mask = mask
                continue
            # Assigned already: to what is around, the values are those of the targets.
            edge = ControlEdge(edge.target, tuple((target, target) for target, _ in at_join))
        return edge

    def _join(
        self, parted: Parted, at_join: tuple[tuple[int, Value], ...], state: PathState
    ) -> None:
        state.sides = state.sides[:-1]
        state.mask = parted.whole
        before = dict(parted.at_join)
        condition = parted.condition if isinstance(parted.condition, EachThread) else None
        for target, value in at_join:
            state.env[target] = chosen(condition, before.get(target), value)


def _end(spot: Spot) -> None:
    spot.memory.check_end()


def _lost(state: PathState, spot: Spot) -> None:
    raise NotFollowedError("unfollowed")


# Roles that alternate on a path: the one that runs stops where it waits, and another goes on.
#
#     producer: wait empty[0]      passes; expect, copy; iteration 0 is over
#     consumer: wait full[0]       passes; product; it waits for its second tile
#     producer: …
#
# A role that comes to the end of its side waits for the others as long as somebody goes on, and
# runs together with them from there if they come; threads do not meet there, so else it goes on
# alone. Where nobody can go on all that wait hang, in this order of the roles and in every other.


# More roles of one kind than any kernel has.
LARGEST_SPLIT = 8
# Iterations of a loop around that a role begins before others have.
MOST_AHEAD = 1


class NextRoleError(Exception):
    """The role that runs is at an end, of its side or of the kernel, and others are not."""


def suspend(state: PathState, block: int, position: int) -> Strand:
    """The role that runs, as it goes on later."""
    return Strand(**state.own(), block=block, position=position)


def resume(state: PathState) -> Strand | None:
    """The first role that may go on is the one that runs; None if there is none."""
    memory = state.memory
    ready = [
        number
        for number, role in enumerate(state.others)
        if role.at_join is None and (role.blocked is None or role.blocked[1] != memory.progress)
    ]
    ready = [number for number in ready if not _is_ahead(number, ready, state)] + [
        number for number, role in enumerate(state.others) if role.at_join is not None
    ]
    if not ready:
        return None
    number = ready[0]
    role = state.others[number]
    state.others = (*state.others[:number], *state.others[number + 1 :])
    vars(state).update(role.own())
    if role.at_join is not None:
        state.env.update(role.at_join)
        state.sides = state.sides[:-1]
        role.edge = ControlEdge(role.block, tuple((target, target) for target, _ in role.at_join))
    return role


def _is_ahead(number: int, ready: list[int], state: PathState) -> bool:
    """Whether a role is iterations of an outermost loop ahead of one that may go on: else more and more lie between."""
    mine = _outermost(state.others[number])
    theirs = (_outermost(state.others[other]) for other in ready)
    return mine is not None and any(
        one is not None and mine[0] == one[0] and mine[1] - one[1] > MOST_AHEAD for one in theirs
    )


def _outermost(role: Strand) -> tuple[Hashable, int] | None:
    """What the outermost loop's iteration is made of, if its number is not known, and how many are over beside that."""
    iteration = next(iter(role.iterations.values()), None)
    if iteration is None:
        return None
    if iteration.over >= 0:
        return None, iteration.over
    if not isinstance(iteration.value, Form) or not iteration.step:
        return None
    return (iteration.value.terms, iteration.step), iteration.value.constant // iteration.step


def begin_blocks(state: PathState, numbers: PathNumbers) -> None:
    """Each block of a cluster begins as a role of its own."""
    blocks = numbers.blocks
    for rank in range(1, blocks.count):
        role = suspend(state.copy(), 0, 0)
        role.mask, role.given = blocks.members(rank), partial(numbers.given, rank=rank)
        state.others += (role,)
    state.mask = blocks.members(0)


def part_roles(
    state: PathState, block: int, join: int | None, other: int, edge: ControlEdge, mask: int
) -> None:
    """The threads `other` take `edge` as a role of their own; the state goes on with `mask`."""
    _begin_anew(state)
    state.sides = (*state.sides, Parted(join, state.mask, None, roles=True))
    state.mask = mask
    role = suspend(state.copy(), block, 0)
    role.mask, role.edge = other, edge
    role.acted &= other
    state.acted &= mask
    state.others += (role,)


def end_role(
    state: PathState, parted: Parted, at_join: tuple[tuple[int, Value], ...], join: int
) -> None:
    """A role has come to the join: all run together if the others are there. Raises NextRoleError."""
    assert parted.whole is not None and state.mask is not None
    there = [
        role for role in state.others if role.at_join is not None and role.sides == state.sides
    ]
    masks = [state.mask, *(role.mask or 0 for role in there)]
    if sum(masks) != parted.whole:
        role = suspend(state, join, 0)
        role.at_join = at_join
        state.others += (role,)
        raise NextRoleError
    state.others = tuple(role for role in state.others if role not in there)
    ends = [dict(at_join), *(dict(role.at_join or ()) for role in there)]
    for role in there:
        state.env = {**role.env, **state.env}
        state.registers.join(role.registers)
        state.acted |= role.acted
    for target, _ in at_join:
        values = [(mask, end.get(target)) for mask, end in zip(masks, ends, strict=True)]
        state.env[target] = gathered(values, parted.whole)
    state.sides = state.sides[:-1]
    state.mask = parted.whole


def split_role(state: PathState, value: EachThread, block: int, position: int) -> None:
    """Threads of a role that do the same to different mbarriers are roles of their own; the first goes on."""
    assert state.mask is not None
    _begin_anew(state)
    first, *rest = value.split(state.mask)
    if len(rest) >= LARGEST_SPLIT:
        raise NotFollowedError("lanes-apart")
    state.mask = first
    for mask in rest:
        role = suspend(state.copy(), block, position)
        role.mask = mask
        state.others += (role,)


def _begin_anew(state: PathState) -> None:
    """What a role did before its threads part was before what any of them does."""
    mine = warps_of(state.mask or 0)
    if not any(warps_of(role.mask or 0) & mine for role in state.others):
        state.acted = 0


def act(state: PathState) -> None:
    """The role does something: the lanes of a warp are one to the clocks, so only one role of them may."""
    mask = state.mask or 0
    state.acted |= mask
    mine = warps_of(mask)
    if any(warps_of(role.acted) & mine for role in state.others):
        raise NotFollowedError("lanes-apart")


def deadlock(state: PathState) -> PhaseFault:
    """Nobody can go on: what one waits for, and where another one does."""
    memory = state.memory
    at = {barrier.column: barrier for barrier in memory.mbarriers.values()}
    waiting = sorted(role.blocked[0] for role in state.others if role.blocked is not None)
    for one in waiting:
        running = at[one.column].running
        if running.arrived >= at[one.column].needs:
            note = f"{lacks(at[one.column])}: the wait never passes"
            return PhaseFault("wrong-bytes", running.op, one.op, note)
    first, *rest = waiting
    barrier = at[first.column]
    if not rest:
        last = barrier.running.op if barrier.running.arrived else barrier.init
        return PhaseFault("deadlock", first.op, last, f"{lacks(barrier)}, and nobody else goes on")
    note = f"{lacks(barrier)}, and who may bring the rest waits here: {lacks(at[rest[0].column])} of that"
    return PhaseFault("deadlock", first.op, rest[0].op, note)
