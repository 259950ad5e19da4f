"""Schedules a loop by the latencies of its statements.

    copy  {latency = 500}                   copy  {stage = 0, order = 0, async}
    load                            -->     load  {stage = 2, order = 1}
    compute {latency = 300}                 compute {stage = 2, order = 2}

A thread runs one statement after the other, and a copy on a queue of its own arrives later. So the
thread is a unit that runs all tasks in order, and a copy is one that holds it for the issue alone.

    waits before their consumers    t_consumer >= t_copy + its cycles
    waits at the top of a step      the order is fixed: barrier, copies and what they need, the others;
                                    that keeps one barrier enough. Only stages are left to find

It says so in a record for the report, and a remark:

    gemm.mlir:35:16: remark: 300 cycles between iterations, bound by the thread, in 3 stages
        [latency-schedule]
    gemm.mlir:41:17: note: statement 0 'nvgpu.device_async_copy' in stage 0, order 0, async, 500 cycles
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, combinations, product
from math import ceil
from typing import Any

from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import Body, is_synchronisation
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.schedule.by_count import Decision
from mlir_async_pipe.pipeliner.schedule.modulo.read import LoopNumbers, ScheduledNode
from mlir_async_pipe.pipeliner.schedule.modulo.schedule_loop import (
    Explained,
    Formulation,
    Found,
    KernelSchedule,
    Scheduling,
    SearchOptions,
    schedule_loop,
)
from mlir_async_pipe.pipeliner.schedule.modulo.solve import (
    LiveRange,
    ModuloProblem,
    Precedence,
    Task,
    bounds_of,
)
from mlir_async_pipe.session.diagnostics import InputError
from mlir_async_pipe.session.report import Session

THREAD = "the thread"
# Above, the order of the thread is what the delays alone give.
LARGEST_ORDERED = 24


def schedule_by_latency(
    body: Body, options: SearchOptions, session: Session, around: Surroundings
) -> Decision | None:
    """The best schedule of a loop; None (with a warning) if nothing can overlap.

    Raises InputError for latencies that make no sense, PipelineError if no schedule is legal.
    """
    check_latencies(body)
    return schedule_loop(ByLatency, body, options, session, around)


def check_latencies(body: Body) -> None:
    """Latencies stand on statements and are 0 or more; raises InputError."""
    statements = {s.op for s in body.statements}
    for op in body.ops:
        if names.LATENCY not in op.attributes:
            continue
        cycles = names.latency_of(op)
        if cycles is not None and cycles < 0:
            raise InputError(
                f"'{names.LATENCY}' is {cycles}, expected 0 or more cycles",
                code="negative-latency",
                at=op,
            )
        if op not in statements:
            kind = "synchronisation" if is_synchronisation(op) else "a pure op"
            raise InputError(
                f"'{names.LATENCY}' stands on '{op.name}', which is no statement but {kind}",
                code="latency-without-statement",
                at=op,
                advice=f"'{names.CYCLES}' says what an op costs; an '{names.GROUPING_OP}' around "
                "pure ops makes them a statement",
            )


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
        at = tuple(self._cycles_of(node) for node in nodes)
        return Explained(
            f"{best.interval:g} cycles between iterations, bound by {phrase}; {stages} "
            f"stage{'' if stages == 1 else 's'}{shared}{proven}",
            phrase,
            least,
            at,
            at + self._places(found),
        )

    def _cycles_of(self, node: int) -> tuple[str, Any]:
        op = self.reading.op_of(node)
        return (f"'{op.name}' takes {self.nodes[node].delay:g} cycles", op)

    def _places(self, found: Found) -> tuple[tuple[str, Any], ...]:
        """A note for each statement: where it runs, and what it takes."""
        kernel = found.kernel.schedule
        notes = []
        for number, node in enumerate(self.nodes):
            op = self.reading.op_of(number)
            kind = f"async, {node.delay:g} cycles" if node.asynchronous else f"{node.held:g} cycles"
            place = kernel.order.index(number)
            notes.append(
                (f"'{op.name}' in stage {kernel.stages[number]}, order {place}, {kind}", op)
            )
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


def _ranges(loop: LoopNumbers) -> tuple[LiveRange, ...]:
    return tuple(
        LiveRange(
            buffer.bytes,
            tuple((w, x, 0) for x, w in buffer.pairs),
            "workgroup" if buffer.shared else "private",
        )
        for buffer in loop.buffers
    )


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
        _ranges(loop),
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
        if loop.nodes[source].asynchronous:
            # The top of the target's step comes after the arrival of what was issued until then.
            for other, distance in arrivals[source]:
                delay = other - offset[source] + offset[target]
                precedences.append(Precedence(source, target, delay, edge.distance + distance))
        else:
            later = order.index(source) > order.index(target)
            apart = offset[target] - offset[source]
            precedences.append(Precedence(source, target, apart, edge.distance - later))
    placed = [replace(task, offset=offset[n]) for n, task in enumerate(tasks[: len(loop.nodes)])]
    placed += [replace(task, offset=0) for task in tasks[len(loop.nodes) :]]
    placed += [_on_queue(node, scale) for node in loop.nodes if node.occupancy]
    return ModuloProblem(
        tuple(placed), tuple(precedences), _ranges(loop), loop.largest_stages, in_order=THREAD
    )


def _arrivals(
    loop: LoopNumbers, order: tuple[int, ...], offset: dict[int, int], scale: int, together: bool
) -> dict[int, list[tuple[int, int]]]:
    """For each copy when it, and all that its queue was given before, has arrived: cycles from the top
    of its step, and steps before that. Copies of one group are waited for together."""
    moments: dict[int, int] = {}
    free: dict[str, int] = {}
    copies = [n for n in order if loop.nodes[n].asynchronous]
    for n in copies:
        node = loop.nodes[n]
        free[node.queue] = max(offset[n], free.get(node.queue, 0)) + _scaled(node.occupancy, scale)
        moments[n] = free[node.queue] + _scaled(node.latency, scale)
    found: dict[int, list[tuple[int, int]]] = {}
    for place, n in enumerate(copies):
        mine = loop.nodes[n]
        for other_place, other in enumerate(copies):
            if loop.nodes[other].queue == mine.queue:
                with_it = together and loop.nodes[other].group == mine.group
                before = other_place <= place or with_it
                found.setdefault(n, []).append((moments[other], 0 if before else 1))
    return found


def copies_first(loop: LoopNumbers) -> tuple[int, ...]:
    """The copies and what they need in an iteration, then all others; last those of them that need what
    the iteration before makes of what they copied."""
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
