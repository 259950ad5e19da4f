"""Writes prologue, kernel and epilogue by cloning the kernel's units.

    for k = lb to ub step s:          for t in 0 .. S-2:   units of stage <= t, iteration t - stage
      units                    -->    for i = lb to lb + (trips - (S-1)) * s step s:
                                        all units, iteration i + S-1 - stage
                                      for e in 1 .. S-1:   units of stage >= e,
                                                           iteration trips - 1 + e - stage

Register r_n of the kernel holds a value of n steps ago (see `kernel_units`). At the kernel's entry
that is what prologue step S-1-n made, or, where that would be an iteration before the first,
the loop's own initial value.

Slot indices repeat after V iterations, so a lag counts modulo V only: with copy in stage 0,
reader in stage 2 and V = 3 the copy's slot is the slot the reader had one step before, one
register instead of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    ancestors,
    attributes_of,
    before,
    clone,
    constant_value,
    create,
    integer_attribute,
    is_used,
    made_in,
    operations,
    set_integer,
    users,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import (
    at_end_of,
    end_of,
    take_results,
    write_for,
    write_if,
    write_versions,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import (
    is_derived_again,
    is_statement,
    is_synchronisation,
)
from mlir_async_pipe.facts.loops.transactions import only_computes, operand_number
from mlir_async_pipe.facts.values.memory_roots import Space
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
from mlir_async_pipe.pipeliner.expand.write.kernel_units import (
    GROUPED,
    KernelUnit,
    Recurrence,
    Sources,
    Template,
    ValueSource,
    build_kernel,
    queue_attribute,
    write_commit,
)
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.plan.legality import SOURCE_ELEMENTS, zero_of
from mlir_async_pipe.pipeliner.plan.make_plan import Plan, Tiles
from mlir_async_pipe.pipeliner.plan.sync_state import ActiveStages, Group, PlannedWait, StepSync
from mlir_async_pipe.pipeliner.plan.units import is_physical
from mlir_async_pipe.vocabulary import groups_of, use_of
from mlir_async_pipe.vocabulary.barriers import write_fence
from mlir_async_pipe.vocabulary.operator_table import is_operator

# One step ----------------------------------------------------------------------------------------
#
# Writes one step of a pipeline: its units, and the waits, barriers and groups around them.
#
# wait %token                     before the first unit that needs the group
# barrier                         before the first unit that another thread must not meet
# copy A[%k + 64] -> %a[%slot]    the unit, cloned
# group                           after the last unit of the group
#
# Steps are numbered through: t = 0 … S-2 in the prologue, S-1 for the kernel, S-1+e for step e of
# the epilogue. A unit of stage s runs iteration `number - s`, and a value that is `lag` steps old
# is what step `number - lag` made. `Values` knows where that stands:
#
#     prologue            as written; before the first iteration the loop's own initial value
#     kernel, n steps ago the iter_arg r_n
#     epilogue            as written, and what the kernel made n steps before step 1: its result r_n


class Values:
    """What the steps made; `written`: (value of the body, stage of its unit, number of the step) -> value."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.integers = sources.integers
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
    """One step of the pipeline, and the stages that are active in it; `ends`: see `TileStep`."""

    ends = -1

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
        if (tiles := self._sources.tiles) is not None and value == tiles.tile:
            return self._tile(stage)
        if tiles is not None and value == tiles.ends:
            return self._integers.constant(int(self.ends == stage), value.type)
        inside = value == self._sources.induction
        return self._induction(self.number - stage) if inside else value

    def made(self, source: ValueSource, stage: int) -> Value:
        maker = self._sources.stage_of_maker(source.value, stage)
        lag = stage + source.distance - maker
        return self._values.made(source, maker, self.number - lag)

    def exists(self, stage: int) -> Value | None:
        """An i1: whether the loop has the iteration that `stage` runs; None if it certainly has."""
        return None

    def _of(self, recurrence: Recurrence, stage: int) -> Value:
        return recurrence.in_step(stage)

    def _tile(self, stage: int) -> Value:
        """The tile of a stage's iteration: until the kernel begins the first, with which the carried value begins."""
        return self._sources.initial[0]

    def _induction(self, iteration: int) -> Value:
        raise AssertionError("each part says this")


class Prologue(Part):
    """Step t; `predicated`: the loop may have fewer iterations than the prologue starts, of which it has `certain`
    ones."""

    def __init__(self, t: int, values: Values, predicated: bool, certain: int) -> None:
        super().__init__(t, ActiveStages(0, t), values)
        self._predicated = predicated
        self._certain = max(certain, self._integers.trip_count or 0)

    def exists(self, stage: int) -> Value | None:
        iteration = self.number - stage
        if not self._predicated or self._certain > iteration:
            return None
        return self._integers.has_iteration(iteration)

    def _of(self, recurrence: Recurrence, stage: int) -> Value:
        return recurrence.at_iteration(self.number - stage)

    def _induction(self, iteration: int) -> Value:
        return self._integers.first_plus(iteration)


class Kernel(Part):
    """Any step of the kernel. `variable`, its induction variable, is that of a stage, the last one or so many
    before as are peeled; `ends` says of each stage that is over before where it then stands."""

    def __init__(
        self, values: Values, variable: Value, stage: int, ends: Mapping[int, Value | None]
    ) -> None:
        super().__init__(values.sources.last_stage, ActiveStages(0), values)
        self._variable = variable
        self._later = self.number - stage
        self._ends = ends

    def exists(self, stage: int) -> Value | None:
        """Compare the induction variable with the end of the stage, or what is left of the loop with
        what follows until then."""
        if stage not in self._ends:
            return None
        end = self._ends[stage]
        if end is None:
            return self._integers.goes_on_for(self._variable, self.number - stage - self._later)
        return self._integers.is_before(self._variable, end)

    def _induction(self, iteration: int) -> Value:
        return self._integers.plus_steps(self._variable, iteration - self._later)


class TileStep(Part):
    """A step of the kernel in a loop over tiles. Of the stage `ends`, -1 for none, it is the last step of `tile`: earlier
    stages are at the `following` tile, which is there if `more` holds, later ones end after it."""

    def __init__(
        self, values: Values, tile: Value, ends: int = -1, following: Value | None = None, more: Value | None = None
    ) -> None:  # fmt: skip
        super().__init__(values.sources.last_stage, ActiveStages(0), values)
        self.ends, self._more = ends, more
        self._tiles = (tile, following)

    def exists(self, stage: int) -> Value | None:
        return self._more if stage < self.ends else None

    def _tile(self, stage: int) -> Value:
        tile, following = self._tiles
        return following if following is not None and stage < self.ends else tile


class Epilogue(Part):
    """Step e = 1, 2, …; the one after the last sees what the loop leaves behind."""

    def __init__(self, e: int, values: Values) -> None:
        sources = values.sources
        over = sources.last_stage - sources.epilogue_steps + e
        super().__init__(sources.last_stage + e, ActiveStages(over), values)

    def _induction(self, iteration: int) -> Value:
        # The kernel's last step, number S-1, ran one step before the kernel's end.
        return self._integers.end_plus(iteration - 1)


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


def write_loop(plan: Plan, buffers: list[VersionedBuffer]) -> Operation:
    """Write one planned loop; returns its kernel."""
    loop = plan.loop
    parts = names.parts_of(loop)
    span = MarkedOps.around(loop) if parts else None
    integers = Integers(loop, plan.peeled_epilogue, plan.trip_count, before(loop))
    guard = _guard_short_trips(plan, integers)
    writer = LoopWriter(plan, buffers, integers)
    results = writer.write()
    kernel = writer.kernel_loop
    if guard is not None:
        results = take_results(guard, results)
    written = [] if span is None else span.close(loop)
    if written and plan.groups:
        results = place_as_one(parts, written, results)
    elif written:
        label_parts(parts, written, kernel if guard is None else guard)
    for old, new in zip(loop.results, results, strict=True):
        old.replace_all_uses_with(new)
    join_branches([kernel.block, kernel.regions[0].blocks[0]], writer.conditions)
    loop.erase()
    return kernel


def _guard_short_trips(plan: Plan, integers: Integers) -> Operation | None:
    """`scf.if trips >= S-1 { pipeline } else { the loop as it was }`, where it may be short.

    Both branches yield the initial values until the pipeline is written."""
    if not plan.may_be_short:
        return None
    loop = plan.loop
    long_enough = integers.compare("uge", integers.trips, plan.last_stage)
    guard, original = write_versions(long_enough, loop, before(loop))
    names.forget(original)
    integers.enter(at_end_of(guard.regions[0]))
    return guard


class LoopWriter:
    """Writes the parts of one loop, in the order of its methods, where `integers` write."""

    def __init__(self, plan: Plan, buffers: list[VersionedBuffer], integers: Integers) -> None:
        self.plan = plan
        self.loop = plan.loop
        self.location = plan.loop.location
        self.last_stage = plan.last_stage
        self.integers = integers
        self.kernel = build_kernel(plan, buffers)
        self.sources = Sources(plan, self.kernel, integers)
        self.values = Values(self.sources)
        # The i1 of all branches.
        self.conditions: set[Value] = set()
        self.recurrences = list(self.sources.recurrences.values())
        registers = self.sources.registers.items()
        self._lines = [(source, n) for source, count in registers for n in range(1, count + 1)]
        self._begins_later = plan.peeled if plan.peeled and integers.may_begin_later() else 0

    def write(self) -> list[Value]:
        """Write everything; returns what replaces the results of the loop."""
        plan, steps = self.plan, self.plan.synchronisation
        self._write_barrier(plan.boundary.before)
        self.over = self._before_the_first()
        for t in range(self.last_stage):
            part = Prologue(t, self.values, plan.short_trip == "predicate", plan.peeled)
            self._write_step(part, steps.prologue[t])
        self.kernel_loop = self._kernel() if plan.tiles is None else self._kernel_of(plan.tiles)
        for e in range(1, plan.peeled_epilogue + 1):
            self._write_step(Epilogue(e, self.values), steps.epilogue[e - 1])
            # Those that are still asked for go to the next step.
            last = e == plan.peeled_epilogue
            live = [each for each in self.recurrences if each.has_results or not last]
            for recurrence in live:
                recurrence.prepare()
            for recurrence in live:
                recurrence.commit()
        after = Epilogue(plan.peeled_epilogue + 1, self.values)
        for wait in steps.drains:
            self._wait(wait, after, drains=True)
        # The argument of one more iteration, as a user after the epilogue sees it.
        sources = self.sources
        entries = zip(sources.arguments, self.loop.results, sources.initial, strict=True)
        results = [
            after.value(argument, self.last_stage) if is_used(result) else initial
            for argument, result, initial in entries
        ]
        for counter in plan.counters:
            for asked in (counter.slot, counter.phase):
                asked.replace_all_uses_with(after.value(asked, self.last_stage))
        self._write_barrier(plan.boundary.after)
        return results

    def _kernel(self) -> Operation:
        integers = self.integers
        entries = self._entries()
        ends = self._ends_of_stages()
        later = self._begins_later
        upper = integers.upper if later else integers.kernel_end
        bounds = [integers.first_plus(later), upper, integers.step]
        loop = write_for(bounds, entries, integers.ip, self.location, self._kept_attributes())
        outer, block = integers.ip, loop.regions[0].blocks[0]
        integers.enter(ir.InsertionPoint(block))
        variable, *carried = block.arguments
        kernel = Kernel(self.values, variable, self.last_stage - self._begins_later, ends)
        following = self._step(kernel, carried)
        create("scf.yield", following, ip=integers.ip, loc=self.location)
        integers.leave(outer)
        self._carry(list(loop.results), self.last_stage + 1)
        return loop

    def _kernel_of(self, tiles: Tiles) -> Operation:
        """The kernel as a loop in a loop over tiles; returns the inner one.

            scf.for %tile iter_args(entries) {
              scf.for … to steps - S { a step of the kernel, of one tile in all stages }
              for s in 0 .. S-1: a step that is the tile's last of stage s, the next tile's first of stage s - 1
            }

        The tail follows in the last of these."""
        integers, loc = self.integers, self.location
        around = integers.ip
        outer = write_for(tiles.bounds, self._entries(), around, loc, self._kept_attributes())
        block = outer.regions[0].blocks[0]
        integers.enter(ir.InsertionPoint(block))
        tile, *carried = block.arguments
        zero, one = (integers.constant(number, integers.index) for number in (0, 1))
        count = integers.subtract(tiles.steps, self.last_stage + 1)
        inner = write_for((zero, count, one), carried, integers.ip, loc)
        inside = integers.ip
        integers.enter(ir.InsertionPoint(inner.regions[0].blocks[0]))
        _, *carried = inner.regions[0].blocks[0].arguments
        following = self._step(TileStep(self.values, tile), carried)
        create("scf.yield", following, ip=integers.ip, loc=loc)
        integers.leave(inside)
        # What the tile decides alone is computed once: LLVM moves no division over a barrier. Each tile has a step.
        body = inner.regions[0].blocks[0]
        for op in operations(body):
            if only_computes(op) and all(made_in(value)[1] != body for value in op.operands):
                op.move_before(inner)
        _, upper, stride = tiles.bounds
        # A tile lies before the end, so that their distance is exact without a sign; the sum may overflow.
        more = integers.compare("ugt", integers.subtract(upper, tile), stride)
        next_tile = integers.add(tile, stride)
        carried = list(inner.results)
        for stage in range(self.last_stage + 1):
            part = TileStep(self.values, tile, stage, next_tile, more)
            carried = self._step(part, carried)
        create("scf.yield", carried, ip=integers.ip, loc=loc)
        integers.leave(around)
        self._carry(list(outer.results), self.last_stage + 1)
        return inner

    def _before_the_first(self) -> dict[Value, Value]:
        """The tokens of groups that never were: one empty group a queue, older than those of the prologue, which may stay in
        flight when the kernel's first steps wait for it."""
        empty: dict[str, Value] = {}
        for group in self.plan.synchronisation.over:
            if group.queue not in empty:
                empty[group.queue] = self._empty_group(group)
        return {
            self.kernel.tokens[group.number]: empty[group.queue]
            for group in self.plan.synchronisation.over
        }

    def _entries(self) -> list[Value]:
        """What all that is carried holds when the kernel begins."""
        entries = [self._entry(source, n) for source, n in self._lines]
        for recurrence in self.recurrences:
            entries += recurrence.entries(self.last_stage)
        return entries

    def _step(self, part: Part, carried: list[Value]) -> list[Value]:
        """Write a step of the kernel; returns what is carried to the next one."""
        now = self.last_stage
        self._carry(carried, now)
        self._write_step(part, self.plan.synchronisation.kernel)
        # In the next step r_n is what this one had as r_(n-1), or what it made.
        following = [
            self.values.made(source, self.sources.stage_of_maker(source.value, 0), now + 1 - n)
            for source, n in self._lines
        ]
        for recurrence in self.recurrences:
            following += recurrence.advanced()
        return following

    def _entry(self, source: ValueSource, n: int) -> Value:
        """What register r_n holds when the kernel begins. Before the first iteration a token is
        that of the step's empty group, or of one in `over`."""
        step, stage = self.last_stage - n, self.sources.stage_of_maker(source.value, 0)
        if source.chain or step >= stage:
            return self.values.made(source, stage, step)
        empty = self.values.written.get((source.value, stage, step))
        return self.over[source.value] if empty is None else empty

    def _ends_of_stages(self) -> dict[int, Value | None]:
        """For a predicated kernel: where the induction variable of the kernel, which is that of
        the last stage, or of one before, stands when an earlier stage has run its last iteration. None in a loop around,
        in all of which this would take a register: there what is left is compared in each iteration."""
        if self.plan.epilogue != "predicate":
            return {}
        integers, last = self.integers, self.last_stage - self._begins_later
        around = any(op.name == "scf.for" for op in ancestors(self.loop))
        compares = around and integers.value_of(integers.step) is not None
        of_units = sorted({unit.stage for unit in self.kernel.units})
        stages = [stage for stage in of_units if stage < self.last_stage - self.plan.peeled]
        return {s: None if compares else integers.end_of_all_but(last - s) for s in stages}

    def _kept_attributes(self) -> dict[str, Any]:
        given = attributes_of(self.loop).items()
        return {name: value for name, value in given if name not in names.LOOP_NAMES}

    def _carry(self, carried: list[Value], now: int) -> None:
        """`carried` holds r_n, what step `now - n` made, for all lines, then the recurrences."""
        made = ((source, now - n) for source, n in self._lines)
        self.values.carry(dict(zip(made, carried, strict=False)), now - 1)
        start = len(self._lines)
        for recurrence in self.recurrences:
            recurrence.bind(carried[start : start + recurrence.width])
            start += recurrence.width

    # -- one step ------------------------------------------------------------------------------

    def _write_step(self, part: Part, step: StepSync) -> None:
        """Clone the active units with the waits and barriers before them.

        Pure ops, commits, waits and barriers are never conditional: so the counts stay those
        of the steady state, and no barrier becomes divergent.
        """
        self.values.begin(part)
        self._synchronise(part, step, -1)
        active = [stage for stage in range(self.last_stage + 1) if part.stages.active(stage)]
        for unit in self.kernel.units:
            if unit.stage not in active:
                continue
            if unit.position is not None:
                self._synchronise(part, step, unit.position)
            self._clone(unit, part)
        for group in step.empty:
            token = self.kernel.tokens[group.number]
            self.values.written[token, group.stage, part.number] = self._empty_group(group)

    def _clone(self, unit: KernelUnit, part: Part) -> None:
        stage = unit.stage
        left_out = isinstance(part, Prologue) and unit.ops[0] in self.plan.kernel_only
        if left_out or self._repeats(unit, part):
            return
        condition = part.exists(stage)
        mapping = {value: part.value(value, stage) for value in unit.used}
        copies: list[Operation] = []
        made: list[Value] = []
        for template in unit.templates:
            folded = self._known(template, mapping, part, stage)
            if folded is not None:
                mapping[template.results[0]] = folded
                self.values.written[template.results[0], stage, part.number] = folded
                continue
            if self.plan.tiles and self.plan.tiles.tail and template.op == self.plan.tiles.tail:
                self._write_tail(template, mapping, part, stage)
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

    def _known(
        self, template: Template, mapping: dict[Value, Value], part: Part, stage: int
    ) -> Value | None:
        """What an op is that adds constants, the input's own index arithmetic for an iteration of the prologue; or as it
        is known whether this is a tile's last step: that, and what is chosen by it."""
        if template.adds:
            a, b = (mapping[use.value] for use in template.uses)
            if constant_value(a) is not None and constant_value(b) is not None:
                return self.integers.add(a, b)
        if self.plan.tiles is None:
            return None
        if self.plan.tiles.ends in template.results:
            return part.value(self.plan.tiles.ends, stage)
        chooses = is_operator(template.op.name, "select")
        if chooses and template.uses[0].value == self.plan.tiles.ends:
            return mapping[template.uses[1 if part.ends == stage else 2].value]
        return None

    def _write_tail(
        self, template: Template, mapping: dict[Value, Value], part: Part, stage: int
    ) -> None:
        """Clone what comes after a tile's last step, or after another one nothing."""
        *inside, end = operations(template.op.regions[0 if part.ends == stage else 1].blocks[0])
        for op in inside:
            clone(op, mapping, self.integers.ip)
        for result, value in zip(template.results, end.operands, strict=True):
            mapping[result] = mapping.get(value, value)
            self.values.written[result, stage, part.number] = mapping[result]

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

    def _synchronise(self, part: Part, step: StepSync, position: int) -> None:
        before = step.before.get(position)
        if before is None:
            return
        for wait in before.waits:
            self._wait(wait, part)
        if before.barrier:
            self._write_barrier(self.plan.fenced)

    def _wait(self, wait: PlannedWait, part: Part, *, drains: bool = False) -> None:
        """Wait for a group, as `part` sees it. Who `drains` is marked, so that a later pass may find it superfluous."""
        group, ip = wait.group, self.integers.ip
        attributes = queue_attribute(group, self.location.context)
        if drains:
            attributes[names.DRAIN] = ir.UnitAttr.get(self.location.context)
        token = part.made(self.values.sources.token(wait), wait.stage)
        create(group.ops.wait, [token], (), attributes, ip=ip, loc=self.location)

    def _write_barrier(self, spaces: frozenset[Space]) -> None:
        """Fence exactly the address spaces that the barrier orders; none: no barrier."""
        if spaces:
            write_fence(spaces, self.integers.ip, self.location)

    def _empty_group(self, group: Group) -> Value:
        """The token of a group without copies: it is complete but counted, so that the kernel's
        first steps look back at as many groups as its later ones."""
        return write_commit(group, [], self.integers.ip, self.location).results[0]


# An inner loop in the loop that is expanded next ---------------------------------------------
#
# prologue, kernel, epilogue     -->     one statement each, or one scf.execute_region for all


@dataclass(frozen=True)
class MarkedOps:
    """The ops between two markers around an inner loop: later, all that took its place.

    Markers, because ops cannot be remembered by hash: it changes with their operands."""

    first: Operation
    last: Operation

    @staticmethod
    def around(loop: Operation) -> MarkedOps:
        first = create("async_pipe.marker", ip=before(loop), loc=loop.location)
        return MarkedOps(first, create("async_pipe.marker", ip=after(loop), loc=loop.location))

    def close(self, loop: Operation) -> list[Operation]:
        """The ops in between but for the loop itself; the markers go."""
        siblings = operations(self.first.block)
        inside = siblings[siblings.index(self.first) + 1 : siblings.index(self.last)]
        inside.remove(loop)
        self.first.erase()
        self.last.erase()
        return inside


def place_as_one(
    parts: tuple[tuple[int, int], ...], ops: list[Operation], results: list[Value]
) -> list[Value]:
    """Make one statement of `ops`, which replaced an inner loop with async statements: its waits
    stay its own, and at its end nothing of it is in flight. Returns what stands for `results`."""
    first, kinds = ops[0], [result.type for result in results]
    kept = {"no_inline": ir.UnitAttr.get(first.context)}
    at = {"ip": before(first), "loc": first.location}
    region = create(names.GROUPING_OP, (), kinds, kept, regions=1, **at)
    inside = ir.InsertionPoint(region.regions[0].blocks.append())
    end = create("scf.yield", results, ip=inside, loc=first.location)
    for op in ops:
        op.move_before(end)
    for op in walk(region):
        names.remove(op, (GROUPED,))
    _place(region, parts[0])
    return list(region.results)


def label_parts(
    parts: tuple[tuple[int, int], ...], ops: list[Operation], kernel: Operation
) -> None:
    """Give `ops`, which replaced the inner loop, their places in the outer one. `kernel` is
    the kernel loop or the branch around it; what stands before it is the prologue."""
    part = 0
    for op in ops:
        if op == kernel:
            part = 1
        if GROUPED in op.attributes or (is_statement(op) and not is_derived_again(op)):
            _place(op, parts[part])
        if op == kernel:
            part = 2
    for op in (inner for top in ops for inner in walk(top)):
        names.remove(op, (GROUPED,))


def place_unexpanded(loop: Operation) -> None:
    """An inner loop that stayed as it is: one statement, where its kernel would have been."""
    parts = names.parts_of(loop)
    if parts:
        _place(loop, parts[1])


def _place(op: Operation, place: tuple[int, int]) -> None:
    stage, order = place
    set_integer(op, names.STAGE, stage, 64)
    set_integer(op, names.ORDER, order, 64)


# Makes what a step runs conditional: its iteration may lie after the loop's end.
#
#     copy A -> %b[%slot], 8            copy A -> %b[%slot], 8, select(%exists, 8, 0)
#     tensor copy, predicate = %p       tensor copy, predicate = %exists and %p
#     memref.store …             -->    scf.if %exists { memref.store … }
#     %x = memref.load …                %x = scf.if %exists { load } else { 0 }
#
# A copy keeps its place outside of any branch: with no source elements it fills a free slot
# with zeros and reads nothing (PTX ISA, cp.async, src-size). Pure ops run anyway, unless they
# are part of a statement: all of its ops stand in one branch.
#
# Neighbouring branches of one condition, as the statements of a step leave them, are joined:
#
#     scf.if %exists { statement 0 }               scf.if %exists {
#     scf.if %exists { statement 1 }      -->        statement 0
#                                                    statement 1
#                                                  }


def guarded(
    copies: list[Operation], wanted: list[bool], condition: Value, integers: Integers
) -> list[Value]:
    """Let the ops of a unit, just cloned to where `integers` writes, happen only if `condition`
    holds. Returns what stands for each of their results; `wanted` says which others use."""
    if len(copies) == 1 and use_of(copies[0]) in ("expect", "copy"):
        (op,), here = copies, integers.ip
        number, integers.ip = operand_number(op, "predicate"), before(op)
        op.operands[number] = integers.binary("arith.andi", condition, op.operands[number])
        integers.ip = here
        return _results(copies)
    if not any(is_physical(op) or is_synchronisation(op) for op in copies):
        guard = any(is_statement(op) and not only_computes(op) for op in copies)
        return _in_branch(copies, wanted, condition, integers) if guard else _results(copies)
    found: list[Value] = []
    for op in copies:
        used = wanted[len(found) : len(found) + len(op.results)]
        if is_synchronisation(op) or not (is_physical(op) or is_statement(op)):
            found += op.results
        elif is_physical(op):
            found += _without_source(op, condition, integers).results
        else:
            found += _in_branch([op], used, condition, integers)
    return found


def _results(ops: list[Operation]) -> list[Value]:
    return [result for op in ops for result in op.results]


def _without_source(op: Operation, condition: Value, integers: Integers) -> Operation:
    groups = groups_of(op)
    operands = list(op.operands)
    context = op.context
    given = groups[SOURCE_ELEMENTS]
    size = (
        operands.pop(given.start)
        if len(given)
        else integers.constant(integer_attribute(op, "dstElements") or 0, integers.index)
    )
    chosen = integers.select(condition, size, integers.constant(0, integers.index))
    operands.insert(given.start, chosen)
    attributes = attributes_of(op)
    sizes = [1 if name == SOURCE_ELEMENTS else len(group) for name, group in groups.items()]
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, context)
    types = [result.type for result in op.results]
    made = create(op.name, operands, types, attributes, ip=integers.ip, loc=op.location)
    op.erase()
    return made


def _in_branch(
    ops: list[Operation], wanted: list[bool], condition: Value, integers: Integers
) -> list[Value]:
    """Move ops that stand together into an scf.if; results that others want are 0 otherwise."""
    loc = ops[0].location
    results = _results(ops)
    yielded = [result for result, used in zip(results, wanted, strict=True) if used]
    zeros = [integers.zero(value.type, zero_of(value.type)) for value in yielded]
    branch = write_if(condition, yielded, zeros or None, integers.ip, loc)
    for op in ops:
        op.move_before(end_of(branch.regions[0]))
    outside = iter(branch.results)
    return [next(outside) if used else old for old, used in zip(results, wanted, strict=True)]


def join_branches(blocks: list[ir.Block], conditions: set[Value]) -> None:
    """Join the scf.if of `blocks` that stand side by side and have the same one of `conditions`.

    Both regions of these have one block, the second none where there are no results.
    """
    blocks_of_users = [user.block for condition in conditions for user in users(condition)]
    numbers = {condition: number for number, condition in enumerate(conditions, 1)}
    for block in blocks:
        # Looking through a block of n loops once a loop would make n loops cost n squared.
        if sum(other == block for other in blocks_of_users) < 2:
            continue
        runs = groupby(
            operations(block), lambda op: op.name == "scf.if" and numbers.get(op.operands[0])
        )
        for members in [list(run) for number, run in runs if number]:
            if len(members) > 1:
                _join(members)


def _join(members: list[Operation]) -> None:
    yielded = []
    for member in members:
        *_, end = operations(member.regions[0].blocks[0])
        yielded += list(end.operands)
    results = _results(members)
    for result, value in zip(results, yielded, strict=True):
        _use_inside(members, result, value)
    kept = [n for n, result in enumerate(results) if is_used(result)]
    first, *_ = members
    giving = [member for member in members if len(member.results)]
    zeros = [value for member in giving for value in end_of(member.regions[1]).operands]
    then, otherwise = ([values[n] for n in kept] for values in (yielded, zeros))
    joined = write_if(first.operands[0], then, otherwise or None, before(first), first.location)
    for n, result in zip(kept, joined.results, strict=True):
        results[n].replace_all_uses_with(result)
    for member in members:
        *inner, _ = operations(member.regions[0].blocks[0])
        for op in inner:
            op.move_before(end_of(joined.regions[0]))
    for member in members:
        member.erase()


def _use_inside(members: list[Operation], result: Value, value: Value) -> None:
    """Let the other members use `value`, which a branch of its own condition sees directly."""
    for use in list(result.uses):
        user = use.owner.operation
        holder = user
        while holder.block != members[0].block:
            holder = holder.parent.operation
        if holder in members:
            user.operands[use.operand_number] = value
