"""Schedules a loop over the functional units of its chip: `async_pipe.schedule = "optimal"`.

    copy K; wait; scores = Q K; softmax; O += P V        one iteration after the other: 1090 cycles
      -->  wait; scores of i + 1, softmax of i + 1 while O += P V of i        tensor cores: 512

The ops of an iteration are gathered in *tasks*: neighbours in the text that copy, load, multiply or
compute. What a task takes of each unit, how long its values take, and what it keeps alive is a
`ModuloProblem`; its best schedule says stage and order of each task, and so of its statements.

A warp issues in order, but the back end interleaves what is independent between two barriers. So a
task holds its unit and issue slots, not the thread: that is what the interval promises, and no more. Copies
are awaited at the top of a step by a task of its own: a copy that begins at t has arrived in the
first step whose top is at t + latency or later.
"""

from __future__ import annotations

from collections import defaultdict
from math import ceil
from string import ascii_letters

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, captured, defining_op
from mlir_async_pipe.facts.costs.cost_model import (
    ISSUE,
    TENSOR,
    CostModel,
    kind_of_op,
    work_of,
)
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import Body, read_body
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.schedule.by_count import Decision
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
    CONSTRAINTS,
    LiveRange,
    ModuloProblem,
    ModuloSchedule,
    Precedence,
    Task,
)
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.memory_layout import registers_of_type

# More tasks are joined: neighbours that load with those that multiply, then all neighbours.
LARGEST_TASKS = 24
REGISTER_BYTES = 4


def schedule_by_units(
    body: Body, options: SearchOptions, session: Session, around: Surroundings
) -> Decision | None:
    """The best schedule of a loop over the units of its chip; None, with a warning, if nothing can overlap.

    Raises PipelineError (regions-in-schedule, dependence-violated, or what the planner refuses).
    """
    nested = next((s.op for s in body.statements if len(s.op.regions)), None)
    if nested is not None:
        raise PipelineError(
            f"cannot pipeline: '{nested.name}' has regions, whose ops hold units that no "
            "schedule knows",
            code="regions-in-schedule",
            at=nested,
            advice=f"unroll it, or give '{names.NUM_STAGES}'",
        )
    body = read_body(body.loop, _computing(body, options.model))
    return schedule_loop(ByUnits, body, options, session, around)


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
        """The task that waits for each copy. One does for all, but for copies whose addresses are
        copied: these are awaited at an earlier top."""
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
        if self.options.model.unit_of(op.name, kind_of_op(op)).unit == TENSOR:
            return "multiply"
        found = accesses(op)
        return "load" if found and not any(access.writes for access in found) else "compute"

    def _tasks(self) -> list[int]:
        """The task of each node."""
        joined: list[dict[str, str]] = [
            {},
            {"load": "multiply"},
            {"load": "multiply", "compute": "multiply"},
        ]
        for same in joined:
            found = self._runs(
                [same.get(kind, kind) for kind in map(self._kind, range(len(self.nodes)))]
            )
            if max(found) + 1 < LARGEST_TASKS:
                break
        return found

    def _runs(self, kinds: list[str]) -> list[int]:
        """Runs of nodes of one kind in the text; those that compute are parted by the iter_args that
        they depend on, so that a sum that is scaled does not hold up what it is scaled by."""
        carried = self._carried_types()
        keys, run, last = [], 0, ("", -1)
        for node, kind in enumerate(kinds):
            now = kind, self.nodes[node].group
            run += now != last
            last = now
            keys.append((run, tuple(sorted(carried[node])) if kind == "compute" else ()))
        order = sorted(set(keys), key=lambda key: (key[0], len(key[1]), key[1]))
        return [order.index(key) for key in keys]

    def _carried_types(self) -> list[set[str]]:
        """For each node the types of iter_args that it depends on inside an iteration."""
        found: list[set[str]] = [set() for _ in self.nodes]
        arguments = list(self.body.block.arguments)[1:]
        for node in range(len(self.nodes)):
            values = [value for op in self._ops(node) for value in captured(op)]
            seen: set[Value] = set()
            while values:
                value = values.pop()
                if value in seen:
                    continue
                seen.add(value)
                if value in arguments:
                    found[node].add(str(value.type))
                producer = defining_op(value)
                if producer is not None and producer in self.reading.node_of:
                    found[node] |= found[self.reading.node_of[producer]]
                elif producer is not None and producer.block == self.body.block:
                    values += captured(producer)
        return found

    # The problem -----------------------------------------------------------------------------

    def problem(self) -> ModuloProblem:
        tasks = [self._task(number) for number in range(self.count)]
        moments = self._moments()
        longest: dict[tuple[int, int, int], int] = {}

        def order(source: int, target: int, delay: int, distance: int) -> None:
            if source != target or distance:
                key = source, target, distance
                longest[key] = max(longest.get(key, 0), delay)

        for edge in self.reading.loop.edges:
            source, target = self.task_of[edge.source], self.task_of[edge.target]
            if edge.source in self.waits:
                wait = self.waits[edge.source]
                order(source, wait, ceil(self.nodes[edge.source].latency), 0)
                order(wait, target, 0, edge.distance)
            else:
                delay = moments[edge.source][1] - moments[edge.target][0]
                order(source, target, max(0, delay), edge.distance)
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
            tuple(self._ranges()),
            self.largest_stages,
            frozenset({ISSUE}),
        )

    def _members(self, task: int) -> list[Operation]:
        return [op for node, of in enumerate(self.task_of) if of == task for op in self._ops(node)]

    def _task(self, number: int) -> Task:
        uses: dict[str, float] = defaultdict(float)
        for op in self._members(number):
            for unit, cycles in self.options.model.uses(op).items():
                uses[unit] += cycles
        return Task(
            tuple((unit, max(1, ceil(cycles))) for unit, cycles in sorted(uses.items()) if cycles)
        )

    def _moments(self) -> list[tuple[int, int]]:
        """For each node, in cycles from the begin of its task: when it begins at the earliest, after
        those before it on its unit, and when its value may be used, after what it needs in the task.

        So tasks overlap that are chains side by side: 32 sums of products, 8 cycles apart, are used
        by 32 more from cycle 25 on, not from 32 * 8 + 17 on."""
        found: list[tuple[int, int]] = []
        free: dict[tuple[int, str], float] = defaultdict(float)
        ready: dict[Operation, float] = {}
        for node, task in enumerate(self.task_of):
            begins, ends = [], [0.0]
            for op in self._ops(node):
                cost = self.options.model.unit_of(op.name, kind_of_op(op))
                cycles = cost.cycles * work_of(op)
                begins.append(free[task, cost.unit])
                needed = [ready.get(made, 0.0) for made in self._producers(op, task)]
                begin = max(begins[-1], *needed, 0.0)
                free[task, cost.unit] += cycles
                ready[op] = begin + cycles + cost.latency
                ends.append(ready[op])
            found.append((int(min(begins)), ceil(max(ends))))
        return found

    def _producers(self, op: Operation, task: int) -> list[Operation]:
        """The ops of the same task whose values an op uses, directly or through ops that are free."""

        def makers(op: Operation) -> list[Operation]:
            made = map(defining_op, captured(op))
            return [one for one in made if one is not None and one.block == self.body.block]

        nodes = self.reading.node_of
        found = walked(makers(op), lambda made: () if made in nodes else makers(made))
        return [made for made in found if made in nodes and self.task_of[nodes[made]] == task]

    def _ranges(self) -> list[LiveRange]:
        """Buffers that may have versions, and values in registers of all threads from task to task."""
        found = []
        for buffer in self.reading.loop.buffers:
            pairs = {(self.task_of[w], self.task_of[x]) for x, w in buffer.pairs}
            uses = tuple((w, x, 0) for w, x in sorted(pairs) if w != x)
            if uses:
                found.append(LiveRange(buffer.bytes, uses))
        threads = 128
        kept: dict[tuple[tuple[int, int, int], ...], int] = defaultdict(int)
        users_of: dict[int, set[tuple[int, int, int]]] = defaultdict(set)
        for edge in self.reading.loop.edges:
            source, target = self.task_of[edge.source], self.task_of[edge.target]
            if source != target and not self.nodes[edge.source].asynchronous:
                users_of[edge.source].add((source, target, edge.distance))
        for node, uses_of_node in users_of.items():
            registers = sum(registers_of_type(v.type) for op in self._ops(node) for v in op.results)
            if registers:
                kept[tuple(sorted(uses_of_node))] += registers
        found += [
            LiveRange(number * REGISTER_BYTES * threads, uses, "registers")
            for uses, number in kept.items()
        ]
        return found

    # The answer ------------------------------------------------------------------------------

    def explained(self, found: Found, held_down_by: str | None) -> Explained:
        schedule, kernel = found.schedule, found.kernel
        bound, stages = schedule.bound, kernel.schedule.stage_count
        lines = gantt(found.formulation.problem, schedule, self._names(kernel.schedule))
        binding = [task for task in (bound.tasks if bound else ()) if task < self.count]
        return Explained(
            f"{schedule.interval} cycles between iterations; {schedule.certificate()}; "
            f"{stages} stage{'' if stages == 1 else 's'}, {kernel.shared_bytes} bytes of workgroup memory",
            str(bound) if bound else held_down_by or "the orders of its units",
            found.least,
            tuple((f"'{op.name}' binds", op) for op in (self._members(t)[0] for t in binding)),
            tuple((line, self.body.loop) for line in lines),
        )

    def _names(self, schedule: KernelSchedule) -> list[str]:
        found = []
        for task in range(self.count):
            ops = self._members(task)
            counts: dict[str, int] = defaultdict(int)
            for op in ops:
                counts[str(op.name)] += 1
            name = max(counts, key=lambda n: counts[n])
            stage = schedule.stages[self.task_of.index(task)]
            found.append(f"{len(ops)} ops, most '{name}', in stage {stage}")
        return found + ["the wait at the top of a step"] * len(set(self.waits.values()))


def gantt(
    problem: ModuloProblem, found: ModuloSchedule, tasks: list[str], width: int = 64
) -> list[str]:
    """One step of the steady state, a line a unit; what binds is marked with a star, and a critical
    cycle follows in letters.

        tensor           * AAAACCCC
        special function   BBBB....
    """
    letters = (ascii_letters[26:] + ascii_letters[:26])[: len(problem.tasks)]
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


def _computing(body: Body, model: CostModel) -> list[Operation]:
    """Pure ops that hold a unit for what is loaded, or carried in an iter_arg that is no index: all
    others are addresses and names of registers, and go with their users."""
    known: set[Value] = {
        value
        for value in list(body.block.arguments)[1:]
        if not isinstance(value.type, (ir.IndexType, ir.IntegerType))
    }
    statements = {s.op for s in body.statements}
    found = []
    for op in body.ops:
        if op in statements:
            known.update(op.results)
        elif op in body.pure and not known.isdisjoint(captured(op)):
            known.update(op.results)
            if model.unit_of(op.name, kind_of_op(op)).cycles:
                found.append(op)
    return found
