"""Writes one step of a pipeline: its units, and the waits, barriers and groups around them.

wait %token                     before the first unit that needs the group
barrier                         before the first unit that another thread must not meet
copy A[%k + 64] -> %a[%slot]    the unit, cloned
group                           after the last unit of the group
"""

from __future__ import annotations

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
from mlir_async_pipe.pipeliner.expand.write.kernel_units import (
    KernelUnit,
    KernelUnits,
    queue_attribute,
    write_commit,
)
from mlir_async_pipe.pipeliner.expand.write.parts import Kernel, Part, Prologue, Values
from mlir_async_pipe.pipeliner.expand.write.templates import Template
from mlir_async_pipe.pipeliner.plan.form_groups import Group
from mlir_async_pipe.pipeliner.plan.pipeline_plan import Plan
from mlir_async_pipe.pipeliner.plan.sync_state import PlannedWait, StepSync
from mlir_async_pipe.vocabulary.barriers import write_fence


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
            if not part.phase.active(unit.stage):
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
