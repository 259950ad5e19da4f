"""Writes one step of a pipeline: its units, and the waits, barriers and groups around them.

wait %token                     before the first unit that needs the group
barrier                         before the first unit that another thread must not meet
copy A[%k + 64] -> %a[%slot]    the unit, cloned
group                           after the last unit of the group

Steps are numbered through: t = 0 … S-2 in the prologue, S-1 for the kernel, S-1+e for step e of
the epilogue. A unit of stage s runs iteration `number - s`, and a value that is `lag` steps old
is what step `number - lag` made. `Values` knows where that stands:

    prologue            as written; before the first iteration the loop's own initial value
    kernel, n steps ago the iter_arg r_n
    epilogue            as written, and what the kernel made n steps before step 1: its result r_n
"""

from __future__ import annotations

from collections.abc import Mapping

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    constant_value,
    create,
)
from mlir_async_pipe.facts.loops.transactions import only_computes
from mlir_async_pipe.facts.values.memory_roots import Space
from mlir_async_pipe.pipeliner.expand.write.guards import guarded
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
from mlir_async_pipe.pipeliner.expand.write.kernel_units import (
    KernelUnit,
    KernelUnits,
    Template,
    queue_attribute,
    write_commit,
)
from mlir_async_pipe.pipeliner.expand.write.sources import Recurrence, Sources, ValueSource
from mlir_async_pipe.pipeliner.plan.form_groups import Group
from mlir_async_pipe.pipeliner.plan.pipeline_plan import Plan
from mlir_async_pipe.pipeliner.plan.sync_state import ActiveStages, PlannedWait, StepSync
from mlir_async_pipe.vocabulary.barriers import write_fence


class Values:
    """What the steps made; `written`: (value of the body, stage of its unit, number of the step)
    -> value."""

    def __init__(self, sources: Sources, integers: Integers) -> None:
        self.sources = sources
        self.integers = integers
        self.written: dict[tuple[Value, int, int], Value] = {}
        self._registers: Mapping[tuple[ValueSource, int], Value] = {}
        self._carried = 0

    def carry(self, registers: Mapping[tuple[ValueSource, int], Value], last: int) -> None:
        """From now on what the steps up to `last` made is seen through registers."""
        self._registers, self._carried = registers, last
        self.written.clear()

    def begin(self, part: Part) -> None:
        """A step begins: if iter_args carry the induction variable, it makes that too."""
        stage, induction = self.sources.carried_induction, self.sources.induction
        if stage is not None and part.stages.active(stage):
            self.written[induction, stage, part.number] = part.value(induction, stage)

    def made(self, source: ValueSource, stage: int, step: int) -> Value:
        """What a step made of a source, whose maker is in `stage`."""
        if self._registers and step <= self._carried:
            return self._registers[source.line, step]
        if step < stage:
            return self.sources.before_first(source, step - stage)
        return self.written[source.value, stage, step]


class Part:
    """One step of the pipeline, and the stages that are active in it."""

    def __init__(self, number: int, stages: ActiveStages, values: Values) -> None:
        self.number = number
        self.stages = stages
        self._values = values
        self._sources = values.sources
        self._integers = values.integers

    def value(self, value: Value, stage: int) -> Value:
        """A value of the body, or from outside of it, as a unit of `stage` sees it."""
        source = self._sources.of(value)
        if isinstance(source, ValueSource):
            return self.made(source, stage)
        if source is not None:
            return self._of(source, stage)
        inside = value == self._sources.induction
        return self._induction(self.number - stage) if inside else value

    def token(self, wait: PlannedWait) -> Value:
        return self.made(self._sources.token(wait), wait.stage)

    def made(self, source: ValueSource, stage: int) -> Value:
        """What was made of a source, for a user in `stage`."""
        maker = self._sources.stage_of_maker(source.value, stage)
        lag = stage + source.distance - maker
        return self._values.made(source, maker, self.number - lag)

    def exists(self, stage: int) -> Value | None:
        """An i1: whether the loop has the iteration that `stage` runs; None if it certainly has."""
        return None

    def _of(self, recurrence: Recurrence, stage: int) -> Value:
        return recurrence.in_step(stage, self._integers)

    def _induction(self, iteration: int) -> Value:
        raise AssertionError("each part says this")


class Prologue(Part):
    """Step t; `predicated`: the loop may have fewer iterations than the prologue starts."""

    def __init__(self, t: int, values: Values, predicated: bool) -> None:
        super().__init__(t, ActiveStages(0, t), values)
        self._predicated = predicated

    def exists(self, stage: int) -> Value | None:
        """Compare the number of the iteration with the trip count."""
        iteration = self.number - stage
        if not self._predicated or (self._integers.trip_count or 0) > iteration:
            return None
        return self._integers.has_iteration(iteration)

    def _of(self, recurrence: Recurrence, stage: int) -> Value:
        return recurrence.at_iteration(self.number - stage, self._integers)

    def _induction(self, iteration: int) -> Value:
        return self._integers.first_plus(iteration)


class Kernel(Part):
    """Any step of the kernel. `variable`, its induction variable, is that of the last stage;
    `ends` says of each stage that is over before where it then stands."""

    def __init__(self, values: Values, variable: Value, ends: Mapping[int, Value | None]) -> None:
        super().__init__(values.sources.last_stage, ActiveStages(0), values)
        self._variable = variable
        self._ends = ends

    def exists(self, stage: int) -> Value | None:
        """Compare the induction variable with the end of the stage, or what is left of the loop with
        what follows until then."""
        if stage not in self._ends:
            return None
        end = self._ends[stage]
        if end is None:
            return self._integers.goes_on_for(self._variable, self.number - stage)
        return self._integers.is_before(self._variable, end)

    def _induction(self, iteration: int) -> Value:
        return self._integers.plus_steps(self._variable, iteration)


class Epilogue(Part):
    """Step e = 1, 2, …; the one after the last sees what the loop leaves behind."""

    def __init__(self, e: int, values: Values) -> None:
        super().__init__(values.sources.last_stage + e, ActiveStages(e), values)

    def _induction(self, iteration: int) -> Value:
        # The kernel's last step, number S-1, ran one step before the kernel's end.
        return self._integers.end_plus(iteration - 1)


class StepWriter:
    """Writes where `integers` write; `conditions` are the i1 of all branches."""

    def __init__(self, plan: Plan, kernel: KernelUnits, values: Values) -> None:
        self.kernel = kernel
        self.values = values
        self.integers = values.integers
        self.context = plan.loop.context
        self.location = plan.loop.location
        self.conditions: set[Value] = set()
        self._fenced = plan.fenced
        self._kernel_only = plan.kernel_only

    def write(self, part: Part, step: StepSync) -> None:
        """Clone the active units with the waits and barriers before them.

        Pure ops, commits, waits and barriers are never conditional: so the counts stay those
        of the steady state, and no barrier becomes divergent.
        """
        self.values.begin(part)
        self._synchronise(part, step, -1)
        for unit in self.kernel.units:
            if not part.stages.active(unit.stage):
                continue
            if unit.position is not None:
                self._synchronise(part, step, unit.position)
            self._clone(unit, part)
        for group in step.empty:
            token = self.kernel.tokens[group.number]
            self.values.written[token, group.stage, part.number] = self.empty_group(group)

    def _clone(self, unit: KernelUnit, part: Part) -> None:
        stage = unit.stage
        left_out = isinstance(part, Prologue) and unit.ops[0] in self._kernel_only
        if left_out or self._repeats(unit, part):
            return
        condition = part.exists(stage)
        mapping = {value: part.value(value, stage) for value in unit.used}
        copies: list[Operation] = []
        made: list[Value] = []
        for number, template in enumerate(unit.templates):
            folded = self._sum(template, mapping) if number in unit.additions else None
            if folded is not None:
                mapping[template.results[0]] = folded
                self.values.written[template.results[0], stage, part.number] = folded
                continue
            copy = template.clone(mapping, self.integers.ip)
            copies.append(copy)
            made += template.results
            mapping.update(zip(template.results, copy.results, strict=True))
        results = [mapping[value] for value in made]
        if condition is not None and copies:
            self.conditions.add(condition)
            wanted = [_used_outside(value, unit) for value in made]
            results = guarded(copies, wanted, condition, self.integers)
        for old, new in zip(made, results, strict=True):
            self.values.written[old, stage, part.number] = new

    def _repeats(self, unit: KernelUnit, part: Part) -> bool:
        """Whether the unit would make what it made one step before, as `elect.sync` does: it depends on
        no iteration. Then that stands for both. The kernel has its own."""
        if isinstance(part, Kernel) or unit.used or not all(map(only_computes, unit.ops)):
            return False
        written, now = self.values.written, part.number
        made = [(value, unit.stage) for template in unit.templates for value in template.results]
        if not all((*value, now - 1) in written for value in made):
            return False
        written.update({(*value, now): written[*value, now - 1] for value in made})
        return True

    def _sum(self, addition: Template, mapping: dict[Value, Value]) -> Value | None:
        """The constant that an addition is where its operands are: the input's own index
        arithmetic, for an iteration of the prologue."""
        a, b = (mapping[use.value] for use in addition.uses)
        if constant_value(a) is None or constant_value(b) is None:
            return None
        return self.integers.add(a, b)

    def _synchronise(self, part: Part, step: StepSync, position: int) -> None:
        before = step.before.get(position)
        if before is None:
            return
        for wait in before.waits:
            self.wait(wait, part)
        if before.barrier:
            self.write_barrier(self._fenced)

    def wait(self, wait: PlannedWait, part: Part, marks: tuple[str, ...] = ()) -> None:
        """Wait for a group, as `part` sees it; `marks` are attributes without a value."""
        group, ip = wait.group, self.integers.ip
        given = dict.fromkeys(marks, ir.UnitAttr.get(self.context))
        attributes = queue_attribute(group, self.context) | given
        create(group.ops.wait, [part.token(wait)], (), attributes, ip=ip, loc=self.location)

    def write_barrier(self, spaces: frozenset[Space]) -> None:
        """Fence exactly the address spaces that the barrier orders; none: no barrier."""
        if spaces:
            write_fence(spaces, self.integers.ip, self.location)

    def empty_group(self, group: Group) -> Value:
        """The token of a group without copies: it is complete but counted, so that the kernel's
        first steps look back at as many groups as its later ones."""
        return write_commit(group, [], self.integers.ip, self.location).results[0]


def _used_outside(value: Value, unit: KernelUnit) -> bool:
    """Whether an op that is not of the unit uses a value that the unit makes."""
    block = unit.ops[0].block
    for use in value.uses:
        user = use.owner.operation
        while user.block != block:
            user = user.parent.operation
        if user not in unit.ops:
            return True
    return False
