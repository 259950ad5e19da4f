"""Schedules a loop by the latencies of its statements.

    copy  {latency = 500}                   copy  {stage = 0, order = 0, async}
    load                            -->     load  {stage = 2, order = 1}
    compute {latency = 300}                 compute {stage = 2, order = 2}

A thread runs one statement after the other, and a copy on a queue of its own arrives later. So the
thread is a unit that runs all tasks in order, and a copy is one that holds it for the issue alone.

    waits before their consumers    t_consumer >= t_copy + its cycles
    waits at the top of a step      the order is fixed: barrier, copies and what they need, the others;
                                    that keeps one barrier enough. Only stages are left to find
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, combinations, groupby, product
from math import ceil, prod
from string import ascii_letters
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    captured,
    defining_op,
    unchanged,
    walk,
)
from mlir_async_pipe.facts.costs.cost_model import ISSUE, TENSOR, CostModel, kind_of_op
from mlir_async_pipe.facts.flow.algorithms import reached, walked
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import static_trip_count
from mlir_async_pipe.facts.loops.statements import Body, is_synchronisation, made_from, read_body
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.memory_limit import register_budget, registers_of
from mlir_async_pipe.pipeliner.plan.units import is_async
from mlir_async_pipe.pipeliner.schedule.by_count import Decision
from mlir_async_pipe.pipeliner.schedule.issue_order import registers_beside
from mlir_async_pipe.pipeliner.schedule.modulo.read import (
    LoopNumbers,
    ScheduledNode,
    producers_of,
    uses_of,
)
from mlir_async_pipe.pipeliner.schedule.modulo.schedule_loop import (
    Capacity,
    Explained,
    Formulation,
    Found,
    KernelSchedule,
    Scheduling,
    SearchOptions,
)
from mlir_async_pipe.pipeliner.schedule.modulo.solve import (
    CONSTRAINTS,
    REGISTERS,
    LiveRange,
    ModuloProblem,
    ModuloSchedule,
    Precedence,
    Task,
    bounds_of,
    taken,
)
from mlir_async_pipe.session.diagnostics import InputError, PipelineError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS
from mlir_async_pipe.vocabulary.launch_ids import enclosing_launch_size
from mlir_async_pipe.vocabulary.memory_layout import registers_of_type

THREAD = "the thread"
# Above, the order of the thread is what the delays alone give.
LARGEST_ORDERED = 24


@unchanged()
def schedule_by_latency(
    body: Body, options: SearchOptions, session: Session, around: Surroundings
) -> Decision | None:
    """The best schedule of a loop; None (with a warning) if nothing can overlap. Raises InputError for latencies
    that make no sense, PipelineError if no schedule is legal."""
    check_latencies(body)
    return ByLatency(body, options, session, around).run()


def check_latencies(body: Body) -> None:
    """Latencies stand on statements and are 0 or more; raises InputError."""
    statements = {s.op for s in body.statements}
    for op in body.ops:
        if names.LATENCY not in op.attributes:
            continue
        cycles = names.latency_of(op)
        if cycles is not None and cycles < 0:
            why = f"'{names.LATENCY}' is {cycles}, expected 0 or more cycles"
            raise InputError(why, code="negative-latency", at=op)
        if op not in statements:
            kind = "synchronisation" if is_synchronisation(op) else "a pure op"
            why = f"'{names.LATENCY}' stands on '{op.name}', which is no statement but {kind}"
            around = f"an '{names.GROUPING_OP}' around pure ops makes them a statement"
            advice = f"'{names.CYCLES}' says what an op costs; {around}"
            raise InputError(why, code="latency-without-statement", at=op, advice=advice)


class ByLatency(Scheduling):
    """Nodes as tasks of a thread."""

    code = "latency-schedule"
    timed = True
    constraints = 6_000

    def formulations(self) -> list[Formulation]:
        return formulations(self.reading.loop)

    def usual_kernels(self, largest: int) -> list[KernelSchedule]:
        """What `num_stages` gives: copies and what they need in stage 0, all others in the last one."""
        loop = self.reading.loop
        ahead = needed_by_copies(loop)
        order = tuple(sorted(range(len(loop.nodes)), key=lambda n: (n not in ahead, n)))
        return [
            KernelSchedule(tuple(0 if n in ahead else last for n in sorted(order)), order, at_top)
            for last in range(1, largest)
            for at_top in loop.wait_modes
        ]

    def explained(self, found: Found, held_down_by: str | None) -> Explained:
        best, loop = found.kernel, self.reading.loop
        scale = found.formulation.scale
        problem, queued = _before_consumers(loop, scale, together=False)
        copy_of = {moment: n for n, moments in queued.items() for moment in moments}

        def nodes_of(tasks: tuple[int, ...]) -> list[int]:
            found = dict.fromkeys(copy_of.get(task, task) for task in tasks)
            return [n for n in found if n < len(self.nodes)]

        bound = next(b for b in bounds_of(problem) if not b.by_stages)
        least = bound.cycles / scale
        stages = best.schedule.stage_count
        barriers = (best.barriers - (1 if loop.barrier else 0)) * loop.barrier
        if best.interval <= 1.001 * least + max(0, barriers):
            phrase, nodes = str(bound), nodes_of(bound.tasks)
        else:
            # Whatever holds the thread, this path has to fit into the stages.
            free = tuple(Task(tuple((u, 0) for u, _ in task.uses)) for task in problem.tasks)
            path = bounds_of(replace(problem, tasks=free, largest_stages=stages))[0].tasks
            nodes = [n for n in nodes_of(path) if self.nodes[n].asynchronous]
            copies = ", ".join(f"'{self.reading.op_of(n).name}'" for n in nodes)
            what = f"the latency of {copies}" if copies else "waits"
            why = held_down_by or "the order that the dependences leave"
            phrase = f"{what}, which {why} cannot hide"
        shared = f", {best.shared_bytes} bytes of workgroup memory" if best.shared_bytes else ""
        proven = "" if found.proven else "; not proven to be the best"
        ops = [(self.reading.op_of(node), self.nodes[node].delay) for node in nodes]
        at = tuple((f"'{op.name}' takes {delay:g} cycles", op) for op, delay in ops)
        return Explained(
            f"{best.interval:g} cycles between iterations, bound by {phrase}; {stages} "
            f"stage{'' if stages == 1 else 's'}{shared}{proven}",
            phrase,
            least,
            at,
            at + self._places(best.schedule),
        )

    def _places(self, kernel: KernelSchedule) -> tuple[tuple[str, Any], ...]:
        """A note for each statement: where it runs, and what it takes."""
        notes = []
        for number, node in enumerate(self.nodes):
            op, stage = self.reading.op_of(number), kernel.stages[number]
            kind = f"async, {node.delay:g} cycles" if node.asynchronous else f"{node.held:g} cycles"
            place = f"in stage {stage}, order {kernel.order.index(number)}"
            notes.append((f"'{op.name}' {place}, {kind}", op))
        return tuple(notes)


# The problems --------------------------------------------------------------------------------


def formulations(loop: LoopNumbers) -> list[Formulation]:
    """A problem for each place where waits may stand."""
    costs = [loop.barrier]
    costs += [c for node in loop.nodes for c in (node.held, node.occupancy, node.latency)]
    # All cycles of a problem are whole: 4.6875 are 75 sixteenths.
    whole = (s for s in (1, 2, 4, 8, 16, 32) if all(float(cost * s).is_integer() for cost in costs))
    scale = next(whole, 64)
    textual = tuple(range(len(loop.nodes)))
    order = copies_first(loop)
    ranks = tuple(order.index(node) for node in textual)
    delays = {(node.group, node.delay) for node in loop.nodes if node.asynchronous}
    found = []
    modes = loop.wait_modes if len(loop.nodes) <= LARGEST_ORDERED else loop.wait_modes[:1]
    for at_top, together in product(modes, (False, True)):
        if together and len(delays) == len({group for group, _ in delays}):
            # All of a group arrives together anyway.
            continue
        # In one stage nothing is in flight at the top.
        if at_top and loop.largest_stages > 1:
            problem = _at_top(loop, order, scale, together)
            found.append(Formulation(problem, textual, ranks, at_top, scale))
        else:
            problem, queued = _before_consumers(loop, scale, together)
            found.append(Formulation(problem, textual, textual, at_top, scale, queued))
    return found


def _scaled(cycles: float, scale: int) -> int:
    return ceil(cycles * scale - 1e-9)


def _tasks(loop: LoopNumbers, scale: int) -> list[Task]:
    tasks = [Task(((THREAD, _scaled(node.held, scale)),)) for node in loop.nodes]
    if loop.barrier:
        tasks.append(Task(((THREAD, _scaled(loop.barrier, scale)),)))
    return tasks


def _on_queue(node: ScheduledNode, scale: int) -> Task:
    """The time for which a copy holds its queue, after that of the copies before it."""
    return Task(((f"the queue '{node.queue}'", _scaled(node.occupancy, scale)),))


def _ranges(loop: LoopNumbers, task_of: Sequence[int]) -> tuple[LiveRange, ...]:
    """Buffers that may have versions, from task to task."""

    def between(buffer: LiveRange) -> LiveRange:
        uses = {(task_of[w], task_of[x], 0) for w, x, _ in buffer.uses if task_of[w] != task_of[x]}
        return replace(buffer, uses=tuple(sorted(uses)))

    return tuple(map(between, loop.buffers))


def _before_consumers(
    loop: LoopNumbers, scale: int, together: bool
) -> tuple[ModuloProblem, dict[int, tuple[int, ...]]]:
    """Copies arrive at moments of their own; what was issued before has arrived before. If groups are
    waited for `together`, theirs is one, and their copies are issued one after the other."""
    tasks = _tasks(loop, scale)
    arrivals: dict[int, int] = {}
    starts: dict[int, int] = {}
    moment_of: dict[tuple[str, int], int] = {}
    precedences = []
    copies = [n for n, node in enumerate(loop.nodes) if node.asynchronous]
    for n in copies:
        node = loop.nodes[n]
        key = node.queue, node.group if together else n
        if key in moment_of:
            # Right after the last one of its group.
            last = max(c for c, moment in arrivals.items() if moment == moment_of[key])
            apart = tasks[last].cycles(THREAD)
            precedences += [Precedence(last, n, apart, 0), Precedence(n, last, -apart, 0)]
        else:
            moment_of[key] = len(tasks)
            tasks.append(Task(()))
        arrivals[n] = moment_of[key]
        starts[n] = n
        if node.occupancy:
            starts[n] = len(tasks)
            tasks.append(_on_queue(node, scale))
            precedences.append(Precedence(n, starts[n], 0, 0))
        precedences.append(Precedence(starts[n], arrivals[n], _scaled(node.delay, scale), 0))
    for e in loop.edges:
        source, delay = e.source, _scaled(loop.nodes[e.source].delay, scale)
        if source in arrivals:
            source, delay = arrivals[source], 0
        precedences.append(Precedence(source, e.target, delay, e.distance))
    linked = []
    for a, b in combinations(copies, 2):
        first, second = loop.nodes[a], loop.nodes[b]
        if first.queue == second.queue and (first.occupancy or first.delay != second.delay):
            linked += [(a, b, starts[a], starts[b])] if starts[a] != a else []
            linked += [(a, b, arrivals[a], arrivals[b])] if arrivals[a] != arrivals[b] else []
    problem = ModuloProblem(
        tuple(tasks),
        tuple(precedences),
        _ranges(loop, range(len(loop.nodes))),
        loop.largest_stages,
        frozenset() if len(loop.nodes) <= LARGEST_ORDERED else frozenset({THREAD}),
        THREAD,
        linked=tuple(linked),
    )
    return problem, {n: (starts[n], arrivals[n]) for n in copies}


def _at_top(loop: LoopNumbers, order: tuple[int, ...], scale: int, together: bool) -> ModuloProblem:
    """Offsets in the given order after the barrier. A copy that b's consumer waits for may be followed
    by others that it waits for as well: what its queue was given before arrives before it."""
    tasks = _tasks(loop, scale)
    held = [tasks[node].cycles(THREAD) for node in order]
    begins = accumulate(held, initial=_scaled(loop.barrier, scale))
    offset = dict(zip(order, begins, strict=False))
    arrivals = _arrivals(loop, order, offset, scale, together)
    precedences = []
    for edge in loop.edges:
        source, target = edge.source, edge.target
        apart = offset[target] - offset[source]
        if loop.nodes[source].asynchronous:
            # The top of the target's step comes after the arrival of what was issued until then.
            for other, distance in arrivals[source]:
                late = edge.distance + distance
                precedences.append(Precedence(source, target, other + apart, late))
        else:
            later = order.index(source) > order.index(target)
            precedences.append(Precedence(source, target, apart, edge.distance - later))
    placed = [replace(task, offset=offset[n]) for n, task in enumerate(tasks[: len(loop.nodes)])]
    placed += [replace(task, offset=0) for task in tasks[len(loop.nodes) :]]
    placed += [_on_queue(node, scale) for node in loop.nodes if node.occupancy]
    return ModuloProblem(
        tuple(placed),
        tuple(precedences),
        _ranges(loop, range(len(loop.nodes))),
        loop.largest_stages,
        in_order=THREAD,
    )


def _arrivals(
    loop: LoopNumbers, order: tuple[int, ...], offset: dict[int, int], scale: int, together: bool
) -> dict[int, list[tuple[int, int]]]:
    """When each copy, and those before it on its queue, have arrived: cycles from the top of a step, steps earlier."""
    moments: dict[int, int] = {}
    free: dict[str, int] = {}
    copies = [n for n in order if loop.nodes[n].asynchronous]
    for n in copies:
        node = loop.nodes[n]
        free[node.queue] = max(offset[n], free.get(node.queue, 0)) + _scaled(node.occupancy, scale)
        moments[n] = free[node.queue] + _scaled(node.latency, scale)
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, n in enumerate(copies):
        mine = loop.nodes[n]
        for other_place, other in enumerate(copies):
            if loop.nodes[other].queue == mine.queue:
                with_it = together and loop.nodes[other].group == mine.group
                found[n].append((moments[other], int(other_place > place and not with_it)))
    return found


def copies_first(loop: LoopNumbers) -> tuple[int, ...]:
    """The copies and what they need, then all others; last of the first what needs the iteration before."""
    ahead = needed_by_copies(loop)

    def after(node: int) -> list[int]:
        return [e.target for e in loop.edges if e.source == node]

    def place(node: int) -> tuple[int, int]:
        if node not in ahead:
            return 1, node
        return 2 * (node in reached(after(node), after)), node

    return tuple(sorted(range(len(loop.nodes)), key=place))


def needed_by_copies(loop: LoopNumbers) -> set[int]:
    """The copies, and all that they depend on inside an iteration."""

    def before(node: int) -> list[int]:
        return [e.source for e in loop.edges if e.target == node and e.distance == 0]

    return reached((n for n, node in enumerate(loop.nodes) if node.asynchronous), before)


# Schedules a loop over the functional units of its chip: `async_pipe.schedule = "optimal"`.
#
#     copy K; wait; scores = Q K; softmax; O += P V        one iteration after the other: 1090 cycles
#       -->  wait; scores of i + 1, softmax of i + 1 while O += P V of i        tensor cores: 512
#
# The ops of an iteration are gathered in *tasks*: neighbours in the text that copy, load, multiply or
# compute. What a task takes of each unit, how long its values take, and what it keeps alive is a
# `ModuloProblem`; its best schedule says stage and order of each task, and so of its statements.
#
# A warp issues in order, but the back end interleaves what is independent between two barriers. So a
# task holds its unit and issue slots, not the thread: that is what the interval promises, and no more. Copies
# are awaited at the top of a step by a task of its own: a copy that begins at t has arrived in the
# first step whose top is at t + latency or later.


# More tasks are joined: neighbours that load with those that multiply, then all neighbours.
LARGEST_TASKS = 24
REGISTER_BYTES = 4
# Counters, and what the back end moves values with: ptxas spills where a GEMM 256x128x32 of 16 warps leaves 6 of
# 128 registers, and does not where one of 128x256x32 leaves 30.
RESERVE = 16


@unchanged()
def schedule_by_units(
    body: Body, options: SearchOptions, session: Session, around: Surroundings
) -> Decision | None:
    """The best schedule of a loop over the units of its chip; None, with a warning, if nothing can overlap. Raises
    PipelineError (regions-in-schedule, register-limit, dependence-violated, or what the planner refuses)."""
    check_regions(s.op for s in body.statements if s.part or is_open(s.op))
    chip = options.limits.chip
    carried = registers_of((value.type for value in body.loop.results), ())
    if chip is not None and carried > (have := register_budget(body.loop, chip)):
        why = (
            f"cannot pipeline: its iter_args take {carried} registers of a thread, which has {have}"
        )
        advice = "take smaller tiles, more or fewer threads a block, or a larger 'nvvm.maxnreg'"
        raise PipelineError(why, code="register-limit", at=body.loop, advice=advice)
    body = read_body(body.loop, computing(body, options.model))
    return ByUnits(body, options, session, around).run()


def check_regions(found: Iterable[Operation]) -> None:
    """Raises PipelineError (regions-in-schedule) at the first of ops that `is_open`."""
    for nested in found:
        raise PipelineError(
            f"cannot pipeline: '{nested.name}' has regions that copy, wait or hold loops of unknown length: for how "
            "long they hold which unit no schedule knows",
            code="regions-in-schedule",
            at=nested,
            advice=f"unroll it, or give '{names.NUM_STAGES}'",
        )


def is_open(op: Operation) -> bool:
    """Whether what the regions of an op take of each unit is not known."""

    def is_unknown(each: Operation) -> bool:
        if each.name == "scf.for":
            return static_trip_count(each) is None
        row = REGION_ROWS.get(each.name)
        return len(each.regions) > 0 and (row is None or row.flow not in ("branch", "once"))

    return len(op.regions) > 0 and any(
        is_async(each) or is_synchronisation(each) or is_unknown(each) for each in walk(op)
    )


class ByUnits(Scheduling):
    """Neighbours as tasks of units."""

    code = "unit-schedule"
    timed = False
    constraints = CONSTRAINTS

    def formulations(self) -> list[Formulation]:
        self.task_of = self._tasks()
        self.count = 1 + max(self.task_of)
        self.waits = self._waits()
        order = sorted(range(len(self.nodes)), key=lambda n: (self.task_of[n], n))
        ranks = tuple(order.index(node) for node in range(len(self.nodes)))
        return [Formulation(self.problem(), tuple(self.task_of), ranks, True)]

    def _waits(self) -> dict[int, int]:
        """The task that waits for each copy: one, but an earlier one for copies of addresses of copies."""
        level: dict[int, int] = {}
        for node in range(len(self.nodes)):
            needed = [
                level.get(e.source, 0) + self.nodes[e.source].asynchronous
                for e in self.reading.loop.edges
                if e.target == node and e.distance == 0 and e.source < node
            ]
            level[node] = max(needed, default=0)
        return {
            n: self.count + level[n] for n, found in enumerate(self.nodes) if found.asynchronous
        }

    # Tasks -----------------------------------------------------------------------------------

    def _ops(self, node: int) -> list[Operation]:
        return [self.body.statements[number].op for number in self.nodes[node].statements]

    def _kind(self, node: int) -> str:
        if self.nodes[node].asynchronous:
            return "copy"
        op = self.reading.op_of(node)
        if TENSOR in uses_of(op, self.options.model):
            return "multiply"
        found = accesses(op)
        return "load" if found and not any(access.writes for access in found) else "compute"

    def _tasks(self) -> list[int]:
        """The task of each node: of too many, loads go with those that multiply, then all that is no copy."""
        kinds = [self._kind(node) for node in range(len(self.nodes))]
        for joined in ((), ("load",), ("load", "compute")):
            found = self._runs(["multiply" if kind in joined else kind for kind in kinds])
            if max(found) + 1 < LARGEST_TASKS:
                break
        return found

    def _runs(self, kinds: list[str]) -> list[int]:
        """Runs of nodes of one kind in the text; those that compute are parted by the iter_args that
        they depend on, so that a sum that is scaled does not hold up what it is scaled by."""
        carried = self._carried_types()
        alike = groupby(range(len(kinds)), lambda node: (kinds[node], self.nodes[node].group))
        keys = [
            (run, tuple(sorted(carried[node])) if kind == "compute" else ())
            for run, ((kind, _), nodes) in enumerate(alike)
            for node in nodes
        ]
        order = sorted(set(keys), key=lambda key: (key[0], len(key[1]), key[1]))
        return [order.index(key) for key in keys]

    def _carried_types(self) -> list[set[str]]:
        """For each node the types of iter_args that it depends on inside an iteration."""
        found: list[set[str]] = [set() for _ in self.nodes]
        arguments, node_of = list(self.body.block.arguments)[1:], self.reading.node_of

        def before(value: Value) -> list[Value]:
            made = defining_op(value)
            free = made is not None and made not in node_of and made.block == self.body.block
            return captured(made) if made is not None and free else []

        for node, types in enumerate(found):
            used = (value for op in self._ops(node) for value in captured(op))
            for value in walked(used, before):
                made = defining_op(value)
                if value in arguments:
                    types.add(str(value.type))
                elif made is not None and made in node_of:
                    types |= found[node_of[made]]
        return found

    # The problem -----------------------------------------------------------------------------

    def problem(self) -> ModuloProblem:
        tasks = [self._task(number) for number in range(self.count)]
        moments = self._moments()
        longest: dict[tuple[int, int, int], int] = defaultdict(int)

        def order(source: int, target: int, delay: int, distance: int) -> None:
            if source != target or distance:
                key = source, target, distance
                longest[key] = max(longest[key], delay)

        for edge in self.reading.loop.edges:
            source, target = self.task_of[edge.source], self.task_of[edge.target]
            if edge.source in self.waits:
                wait = self.waits[edge.source]
                order(source, wait, ceil(self.nodes[edge.source].latency), 0)
                order(wait, target, 0, edge.distance)
            else:
                order(
                    source, target, moments[edge.source][1] - moments[edge.target][0], edge.distance
                )
        # The waits stand at the top of a step; the first has the barrier.
        cycles = max(1, int(self.options.model.barrier))
        for number in sorted(set(self.waits.values())):
            tasks.append(Task(((ISSUE, cycles if number == self.count else 1),), offset=0))
        precedences = tuple(
            Precedence(*key[:2], delay, key[2]) for key, delay in sorted(longest.items())
        )
        return ModuloProblem(
            tuple(tasks),
            precedences,
            _ranges(self.reading.loop, self.task_of) + self._in_registers(),
            self.largest_stages,
            frozenset({ISSUE}),
        )

    def _members(self, task: int) -> list[Operation]:
        return [op for node, of in enumerate(self.task_of) if of == task for op in self._ops(node)]

    def _task(self, number: int) -> Task:
        uses = uses_of_all(self._members(number), self.options.model)
        return Task(
            tuple((unit, max(1, ceil(cycles))) for unit, cycles in sorted(uses.items()) if cycles)
        )

    def _moments(self) -> list[tuple[int, int]]:
        """For each node, in cycles from the begin of its task: when it begins at the earliest, after those before
        it on its unit, and when its value may be used, after what it needs in the task. So tasks overlap that are
        chains side by side: 32 sums of products, 8 cycles apart, are used by 32 more from cycle 25 on, not from 32
        * 8 + 17 on."""
        found: list[tuple[int, int]] = []
        free: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        ready: dict[Operation, float] = {}
        nodes = self.reading.node_of
        for node, task in enumerate(self.task_of):
            begins, ends = [], [0.0]
            for op in self._ops(node):
                made_of = counted_makers(op, nodes)
                needed = [ready.get(m, 0.0) for m in made_of if self.task_of[nodes[m]] == task]
                begin, ready[op] = when_used(op, needed, free[task], self.options.model)
                begins.append(begin)
                ends.append(ready[op])
            found.append((int(min(begins)), ceil(max(ends))))
        return found

    def _in_registers(self) -> tuple[LiveRange, ...]:
        """Values from task to task, in registers of all threads."""
        kept: dict[tuple[tuple[int, int, int], ...], int] = defaultdict(int)
        users_of: dict[int, set[tuple[int, int, int]]] = defaultdict(set)
        for op, node in self.reading.node_of.items():
            for source, distance in producers_of(op, self.body, self.reading.node_of):
                made, used = self.task_of[source], self.task_of[node]
                if made != used or distance:
                    users_of[source].add((made, used, distance))
        for node, uses_of_node in users_of.items():
            registers = sum(registers_of_type(v.type) for op in self._ops(node) for v in op.results)
            if registers:
                kept[tuple(sorted(uses_of_node))] += registers
        return tuple(
            LiveRange(number * self.register_bytes, uses, REGISTERS)
            for uses, number in kept.items()
        )

    @cached_property
    def register_bytes(self) -> int:
        """Bytes of one register of all threads."""
        return REGISTER_BYTES * prod(enclosing_launch_size(self.body.loop) or (128,))

    @cached_property
    def capacities(self) -> list[Capacity]:
        """Also the registers that addresses and values from outside leave, or as many as the order of the text takes."""
        target = self.options.target
        if target is None:
            return super().capacities
        copies = {n for node in self.nodes if node.asynchronous for n in node.statements}
        beside = registers_beside(self.body, copies, target) + RESERVE
        have = register_budget(self.body.loop, target.chip)
        problem = self.formulations()[0].problem
        count = len(problem.tasks)
        alone = taken(problem, range(count), count, REGISTERS)
        needed = alone // self.register_bytes + beside
        if needed - RESERVE > have:
            much = f"{needed - RESERVE} registers of a thread, which has {have}"
            said = f"an iteration by itself takes {much}: the rest may be spilled, and no schedule takes more"
            loop = self.body.loop
            self.session.diagnostics.remark(said, code="registers-over-budget", at=loop)
        most = max((have - beside) * self.register_bytes, alone)
        what = "registers of a thread"
        return [*super().capacities, Capacity(REGISTERS, most, what, self.register_bytes, beside)]

    # The answer ------------------------------------------------------------------------------

    def explained(self, found: Found, held_down_by: str | None) -> Explained:
        schedule, kernel = found.schedule, found.kernel
        bound, stages = schedule.bound, kernel.schedule.stage_count
        lines = gantt(found.formulation.problem, schedule, self._names(kernel.schedule))
        binding = [task for task in (bound.tasks if bound else ()) if task < self.count]
        within = f" in {held_down_by}" if held_down_by else ""
        much = [f"{each.number(found.taken(each.memory))} {each.what}" for each in self.capacities]
        return Explained(
            f"{schedule.interval} cycles between iterations; {schedule.certificate(within)}; "
            f"{', '.join([f'{stages} stage' + 's' * (stages > 1), *much])}",
            str(bound) if bound else held_down_by or "the orders of its units",
            found.least,
            tuple((f"'{op.name}' binds", op) for op in (self._members(t)[0] for t in binding)),
            tuple((line, self.body.loop) for line in lines),
        )

    def _names(self, schedule: KernelSchedule) -> list[str]:
        found = []
        for task in range(self.count):
            ops = self._members(task)
            ((name, _),) = Counter(op.name for op in ops).most_common(1)
            stage = schedule.stages[self.task_of.index(task)]
            found.append(f"{len(ops)} ops, most '{name}', in stage {stage}")
        return found + ["the wait at the top of a step"] * len(set(self.waits.values()))


def uses_of_all(ops: Iterable[Operation], model: CostModel) -> dict[str, float]:
    """The cycles for which ops hold each unit, one after the other."""
    found: dict[str, float] = defaultdict(float)
    for op in ops:
        for unit, cycles in uses_of(op, model).items():
            found[unit] += cycles
    return found


def counted_makers(op: Operation, counted: Collection[Operation]) -> list[Operation]:
    """Those of `counted` in the block of an op whose values it uses, directly or through ops that are free."""

    def makers(user: Operation) -> list[Operation]:
        made = map(defining_op, captured(user))
        return [one for one in made if one is not None and one.block == op.block]

    found = walked(makers(op), lambda made: () if made in counted else makers(made))
    return [made for made in found if made in counted]


def when_used(
    op: Operation, needed: Sequence[float], free: dict[str, float], model: CostModel, warps: int = 1
) -> tuple[float, float]:
    """When an op of a task begins at the earliest, on units that are held until `free`, and when its value may be
    used, which is made of what is ready at `needed`; so many `warps` run it in phase."""
    held = {unit: warps * c for unit, c in uses_of(op, model).items() if unit != ISSUE}
    begin = max((free[unit] for unit in held), default=0.0)
    for unit, cycles in held.items():
        free[unit] += cycles
    # What is in regions runs one after the other.
    latency = max(model.unit_of(inner.name, kind_of_op(inner)).latency for inner in walk(op))
    return begin, max(begin, *needed, 0.0) + sum(held.values()) + latency


def gantt(
    problem: ModuloProblem, found: ModuloSchedule, tasks: list[str], width: int = 64
) -> list[str]:
    """One step of the steady state, a line a unit; what binds is marked with a star, and a critical
    cycle follows in letters.

        tensor           * AAAACCCC
        special function   BBBB....
    """
    # Of more tasks than there are letters some share one.
    letters = (ascii_letters[26:] + ascii_letters[:26]) * (1 + len(problem.tasks) // 52)
    bound = found.bound
    lines = []
    for unit in problem.units:
        row = ["."] * width
        for n, task in enumerate(problem.tasks):
            held = task.cycles(unit)
            for cell in range(width):
                middle = (cell + 0.5) * found.interval / width
                if (middle - found.begins[n]) % found.interval < held:
                    row[cell] = letters[n]
        mark = "*" if bound is not None and bound.unit == unit else " "
        lines.append(f"{unit:16} {mark} {''.join(row)}")
    for n, name in enumerate(tasks):
        lines.append(f"{letters[n]}: {name}, from cycle {found.begins[n]}")
    if bound is not None and not bound.unit:
        path = [*bound.tasks, bound.tasks[0]]
        lines.append("critical cycle: " + " -> ".join(letters[n] for n in path))
    return lines


def computing(body: Body, model: CostModel) -> list[Operation]:
    """Pure ops that hold a unit for what is loaded, or carried in an iter_arg that is no index: all
    others are addresses and names of registers, and go with their users."""
    numbers = (ir.IndexType, ir.IntegerType)
    carried = [v for v in list(body.block.arguments)[1:] if not isinstance(v.type, numbers)]
    loaded = [result for s in body.statements for result in s.op.results]
    used = made_from([*carried, *loaded], body.pure)
    return [op for op in used if model.unit_of(op.name, kind_of_op(op)).cycles]
