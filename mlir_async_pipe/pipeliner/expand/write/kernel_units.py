"""Turns the body into the kernel's units, the first edits after everything is decided, and says where the values
of these come from.

    load %a[%i] {async}                           "async_pipe.scope"() ({
    addf                                            load, addf, store %b[%slot, 0]
    store %b[0] {async}                  -->      })
    barrier                                       %token = "async_pipe.commit_queue"()
    load %b[0]                                    load %b[%slot, 0]

Slot indices are placeholders (`async_pipe.slot`) that the emitter replaces by the slot of
the stage that asks. Waits and barriers of the input go, and the
emitter writes new ones; barriers that are kept belong to the unit after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    OpWriter,
    Value,
    after,
    before,
    create,
    erase,
    integer_attribute,
    is_used,
    operations,
    set_integer,
    terminator,
    users,
    walk,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.values.ring import Ring
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer, move_accesses
from mlir_async_pipe.pipeliner.plan.make_plan import Plan
from mlir_async_pipe.pipeliner.plan.sync_state import Group, PlannedWait
from mlir_async_pipe.pipeliner.plan.units import Unit, physical_copy
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.async_ops import TOKEN_TYPE
from mlir_async_pipe.vocabulary.control_flow import SCOPE
from mlir_async_pipe.vocabulary.memory_names import GLOBAL_ADDRESS_OPS

# On ops of an inner pipeline that came out of a grouping region; gone when it is labelled.
GROUPED = "async_pipe.grouped"


# An op is cloned once for each step of prologue, kernel and epilogue, and asking the bindings for an
# operand costs as much as the clone itself: what an op uses is read once.
#
#     "async_pipe.scope"() ({                       uses of %i (op 1, operand 1), %one (op 2, operand 1)
#       %a = memref.load %A[%i]                     and %A, %b: for each clone only these are looked up
#       %b1 = arith.addf %a, %one            -->    and set; what the region makes itself, clone has
#       memref.store %b1, %b[%slot, %c0]            already put in place
#     })


class TemplateUse(NamedTuple):
    """Operand `operand` of the op at `place` (pre-order, 0 is the op itself) is `value`, which
    is made outside of the op."""

    place: int
    operand: int
    value: Value


@dataclass(frozen=True)
class Template:
    """An op, what it uses from outside of itself, its results, and whether it adds integers: with constants that
    folds. The op must not change."""

    op: Operation
    uses: tuple[TemplateUse, ...]
    results: tuple[Value, ...]
    adds: bool

    @staticmethod
    def of(op: Operation) -> Template:
        ops = list(walk(op))
        uses = (
            TemplateUse(place, number, value)
            for place, inner in enumerate(ops)
            for number, value in enumerate(inner.operands)
        )
        inside = {result for inner in ops[1:] for result in inner.results}
        blocks = (b for inner in ops for region in inner.regions for b in region.blocks)
        inside.update(argument for block in blocks for argument in block.arguments)
        outer = tuple(use for use in uses if use.value not in inside)
        return Template(op, outer, tuple(op.results), op.name == "arith.addi")

    def clone(self, mapping: dict[Value, Value], ip: Any) -> Operation:
        """A copy at `ip` that uses `mapping[value]` wherever the op uses an outer `value`."""
        copy = self.op.clone(ip=ip).operation
        ops = list(walk(copy)) if len(copy.regions) else (copy,)
        last, operands = 0, copy.operands
        for place, operand, old in self.uses:
            value = mapping[old]
            if value == old:
                continue
            if place != last:
                last, operands = place, ops[place].operands
            operands[operand] = value
        return copy


@dataclass(frozen=True)
class KernelUnit:
    """One piece of the kernel, ready to be cloned.

    `ops` are cloned together, in this order; `position` is the unit's place in kernel order
    (None for a commit, which stands after the last unit of its group).
    """

    ops: tuple[Operation, ...]
    stage: int
    position: int | None

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        """The ops as they are cloned; read when the kernel is complete."""
        return tuple(Template.of(op) for op in self.ops)

    @cached_property
    def used(self) -> tuple[Value, ...]:
        inside = {result for template in self.templates for result in template.results}
        used = dict.fromkeys(use.value for template in self.templates for use in template.uses)
        return tuple(value for value in used if value not in inside)


@dataclass(frozen=True)
class KernelUnits:
    """All units in kernel order, the token of each group, and the slot placeholders by number of versions."""

    units: tuple[KernelUnit, ...]
    tokens: dict[int, Value]
    slots: dict[int, Value]


def build_kernel(plan: Plan, buffers: list[VersionedBuffer]) -> KernelUnits:
    """Edit the loop body into units. No handle of the plan's ops is used afterwards."""
    body = plan.units.body
    numbers = {op: number for number, op in enumerate(body.ops)}
    unit_numbers = [[numbers[op] for op in unit.ops] for unit in plan.units.units]
    slots: dict[int, Value] = {}
    for versions in dict.fromkeys(buffer.plan.versions for buffer in buffers):
        write = OpWriter(ir.InsertionPoint.at_block_begin(body.block), plan.loop.location)
        slots[versions] = write.make("async_pipe.slot", (), ir.IndexType.get(plan.loop.context))
    kept: dict[int, list[int]] = {}
    for barrier in plan.kept_barriers:
        kept.setdefault(barrier.unit.position, []).append(numbers[barrier.op])
    dropped = {numbers[op] for op in body.synchronisation} - {n for k in kept.values() for n in k}
    current = move_accesses(buffers, slots, list(body.ops))
    for op in (op for places in current for op in places):
        # The ops of a statement that is async by annotation get the attribute that makes them so.
        for inner in walk(op) if names.ASYNC in op.attributes else ():
            name = row_of(inner).async_attribute
            if name:
                inner.attributes[name] = ir.UnitAttr.get(op.context)
        names.remove(op, (names.STAGE, names.ORDER, names.ASYNC))
        names.keep_cycles(op)
    # Waits and groups use tokens of groups before them.
    erase(current[n][0] for n in sorted(dropped))
    commits = {group.members[-1].position: group for group in plan.groups}
    nested = bool(names.parts_of(plan.loop))
    units: list[KernelUnit] = []
    tokens: dict[int, Value] = {}
    copies: dict[int, list[Operation]] = {}
    for unit, chosen in zip(plan.units.units, unit_numbers, strict=True):
        ops = [
            inner for number in chosen for op in current[number] for inner in _ungrouped(op, nested)
        ]
        if unit.scoped:
            ops = [_scope(unit, ops)]
        barriers = [op for number in kept.get(unit.position, ()) for op in current[number]]
        units.append(KernelUnit((*barriers, *ops), unit.stage, unit.position))
        if unit.asynchronous:
            copies[unit.position] = ops
        group = commits.get(unit.position)
        if group is not None:
            members = [op for member in group.members for op in copies[member.position]]
            given = [op.results[0] for op in members if row_of(op).token and not group.abstract]
            commit = write_commit(group, given, after(ops[-1]), ops[-1].location)
            units.append(KernelUnit((commit,), group.stage, None))
            tokens[group.number] = commit.results[0]
    return KernelUnits(tuple(u for u in units if not _is_dead(u)), tokens, slots)


def _ungrouped(op: Operation, inside_pipeline: bool) -> list[Operation]:
    """The ops of an scf.execute_region that only held a statement together, moved out of it;
    any other op is itself. Those of an inner pipeline carry a mark: pure ones among them have to
    keep the place of their statement in the outer one."""
    if op.name != names.GROUPING_OP or len(list(op.regions[0].blocks)) != 1:
        return [op]
    *inner, end = operations(op.regions[0].blocks[0])
    _yield_cycles(op, inner)
    for member in inner:
        member.move_before(op)
        if inside_pipeline:
            member.attributes[GROUPED] = ir.UnitAttr.get(op.context)
    for result, value in zip(op.results, end.operands, strict=True):
        result.replace_all_uses_with(value)
    op.erase()
    return inner


def _yield_cycles(group: Operation, members: list[Operation]) -> None:
    """Cycles of a dissolved region: each copy takes them as its latency; where there is none,
    the last op takes them, and the others are free."""
    cycles = integer_attribute(group, names.CYCLES)
    if cycles is None or not members:
        return
    copies = [op for op in members if physical_copy(op) is not None]
    for op in copies or members:
        own = cycles if copies or op == members[-1] else 0
        set_integer(op, names.CYCLES, own, 64)


def _scope(unit: Unit, ops: list[Operation]) -> Operation:
    """Move the ops of an async unit into an async_pipe.scope before the last one; a
    scope of the input goes to the queue of its stage as it is."""
    last = ops[-1]
    if len(ops) == 1 and last.name == SCOPE:
        set_integer(last, "queue", unit.stage, 64)
        return last
    scope = create(SCOPE, regions=1, ip=before(last), loc=ops[0].location)
    set_integer(scope, "queue", unit.stage, 64)
    given = [integer_attribute(op, names.CYCLES) for op in ops]
    if any(cycles is not None for cycles in given):
        # One after the other: a load, then the store of its value.
        set_integer(scope, names.CYCLES, sum(cycles or 0 for cycles in given), 64)
    block = scope.regions[0].blocks.append()
    end = create("async_pipe.yield", ip=ir.InsertionPoint(block), loc=last.location)
    for op in ops:
        op.move_before(end)
    # From inside an unregistered op MLIR finds no symbol.
    for op in [op for op in walk(scope) if op.name in GLOBAL_ADDRESS_OPS]:
        op.move_before(scope)
    return scope


def write_commit(group: Group, copies: list[Value], ip: Any, loc: Any) -> Operation:
    """The op that commits `copies`, and what else was issued, as one group of a queue."""
    token = ir.Type.parse(TOKEN_TYPE, loc.context)
    attributes = queue_attribute(group, loc.context)
    if not copies and not attributes:
        # Without any attribute a group of no copies prints as text that does not parse again.
        attributes = {names.EMPTY: ir.UnitAttr.get(loc.context)}
    return create(group.ops.commit, copies, [token], attributes, ip=ip, loc=loc)


def queue_attribute(group: Group, context: Any) -> dict[str, Any]:
    """How the ops of a group name its queue: abstract ones by a number, which is the stage."""
    i64 = ir.IntegerType.get_signless(64, context)
    return {"queue": ir.IntegerAttr.get(i64, group.stage)} if group.abstract else {}


def _is_dead(unit: KernelUnit) -> bool:
    """A pure op that lost its last user (a get_global whose accesses moved to the slots)."""
    return (
        unit.position is not None
        and all(op.name == "memref.get_global" for op in unit.ops)
        and not any(users(result) for op in unit.ops for result in op.results)
    )


# Where the values of the kernel come from --------------------------------------------------------
#
# A value that is used `lag` steps after it was made travels in a shift register: `lag` iter_args
# r_1 … r_lag of the kernel, of which r_n is the value of n steps ago. Slot counters and iter_args
# that never meet a value of the body are recurrences, with registers of their own.


@dataclass(frozen=True)
class ValueSource:
    """Where a used value comes from: made by a unit of the body, or the induction variable, `distance` iterations
    earlier, through the iter_args `chain` (empty for a token that is waited for later)."""

    value: Value
    chain: tuple[int, ...]
    distance: int

    @property
    def line(self) -> ValueSource:
        """The shift register that holds it: one for all distances, unless the iter_args on
        between have initial values of their own."""
        return self if self.chain or self.distance == 0 else ValueSource(self.value, (), 0)


class Sources:
    """The makers of all values of one loop, its recurrences, and how many registers each value
    needs (`registers`: lag by shift register)."""

    def __init__(self, plan: Plan, kernel: KernelUnits, integers: Integers) -> None:
        self.plan, self.kernel, self.integers = plan, kernel, integers
        self.ending_in_zero = {b.versions for b in plan.buffers if b.ends_in_slot_zero}
        self.last_stage, self.epilogue_steps = plan.last_stage, plan.peeled_epilogue
        self.loop, self.tiles = plan.loop, plan.tiles
        block = plan.loop.regions[0].blocks[0]
        self.induction, *self.arguments = block.arguments
        self._numbers = {argument: number for number, argument in enumerate(self.arguments)}
        self.initial = list(self.loop.operands)[3:]
        self.yielded = list(terminator(block).operands)
        # Those whose results are used: arguments of one more iteration, read after the epilogue.
        carried = zip(self.arguments, self.loop.results, strict=True)
        self._asked_after = [argument for argument, result in carried if is_used(result)]
        # The units that make each value of the body, by stage: several only of rematerialised ops.
        self.makers: dict[Value, dict[int, KernelUnit]] = {}
        for unit in kernel.units:
            for template in unit.templates:
                for result in template.results:
                    self.makers.setdefault(result, {})[unit.stage] = unit
        # Each used value with the stage of its user.
        self.uses = [(value, unit.stage) for unit in kernel.units for value in unit.used]
        self.recurrences: dict[Value, Recurrence] = {}
        self.registers: dict[ValueSource, int] = {}
        # Where a used value comes from; None for the induction variable and the outside.
        self.of = cache(self._find)
        self._collect_recurrences()
        # Until now an iter_arg could still become a recurrence.
        self.of.cache_clear()
        self.carried_induction = self._stage_of_carried_induction()
        self._collect_registers()

    def stage_of_maker(self, value: Value, user_stage: int) -> int:
        """The stage of the unit that makes `value` for a user in `user_stage`; the stage that
        carries the induction variable, which is there without a unit."""
        if value == self.induction:
            assert self.carried_induction is not None
            return self.carried_induction
        stages = self.makers[value]
        return user_stage if user_stage in stages else next(iter(stages))

    def is_known(self, value: Value) -> bool:
        """Whether a value is the tile of a step, or says if that is the tile's last one: each step of a loop over tiles
        knows it."""
        return self.tiles is not None and value in (self.tiles.tile, self.tiles.ends)

    def _find(self, value: Value) -> ValueSource | Recurrence | None:
        if self.is_known(value):
            return None
        if value in self.makers:
            return ValueSource(value, (), 0)
        if value in self.recurrences:
            return self.recurrences[value]
        chain: list[int] = []
        current = value
        while current in self._numbers:
            number = self._numbers[current]
            if number in chain:
                return None
            chain.append(number)
            current = self.yielded[number]
        if not chain:
            return None
        made = current in self.makers or current == self.induction
        return ValueSource(current, tuple(chain), len(chain)) if made else None

    def before_first(self, source: ValueSource, iteration: int) -> Value:
        """What stands for an iteration below 0: an initial value of the loop's own. A register
        may reach further back than anybody looks."""
        return self.initial[source.chain[max(source.distance + iteration, 0)]]

    def lag(self, source: ValueSource, user_stage: int) -> int:
        """How many kernel steps lie between the making of a value and its user."""
        return user_stage + source.distance - self.stage_of_maker(source.value, user_stage)

    def _collect_recurrences(self) -> None:
        """Slot counters, and iter_args that never meet a value of the body."""
        uses = self.uses
        for versions, placeholder in self.kernel.slots.items():
            stages = {stage for value, stage in uses if value == placeholder}
            if stages:
                in_zero = versions in self.ending_in_zero
                slots = SlotRecurrence.over(versions, stages, self.integers, in_zero)
                self.recurrences[placeholder] = slots
        for counter in self.plan.counters:
            # Who looks after the loop asks in the last stage.
            stages = {stage for value, stage in uses if value == counter.slot} | {self.last_stage}
            first_slot, first_phase = counter.start
            slots = SlotRecurrence.over(counter.versions, stages, self.integers, start=first_slot)
            self.recurrences[counter.slot] = slots
            waiting = {stage for value, stage in uses if value == counter.phase}
            phase = PhaseRecurrence(max(waiting, default=self.last_stage), slots, first_phase)
            self.recurrences[counter.phase] = phase
            # After steps that stand behind the kernel others ask for those of the next tile.
            slots.has_results = phase.has_results = self.epilogue_steps > 0
            if any(value == counter.earlier for value, _ in uses):
                held = 0 if self.last_stage else counter.tiles
                earlier = EarlierSlot(slots, counter.tiles, held, counter.from_start)
                self.recurrences[counter.earlier] = earlier
        used = {value for value, _ in uses}
        used.update(self._asked_after)
        open_ = [a for a in self.arguments if a in used and not self.is_known(a)]
        pending = [argument for argument in open_ if self.of(argument) is None]
        own: dict[Value, None] = {}
        while pending:
            argument = pending.pop()
            following = self.yielded[self._numbers[argument]]
            if argument not in own and following in self._numbers:
                pending.append(following)
            own[argument] = None
        # Arguments that feed each other advance together, in the earliest of their stages.
        stage = min((s for v, s in uses if v in own), default=self.last_stage)
        for argument in own:
            number = self._numbers[argument]
            self.recurrences[argument] = ArgumentRecurrence(stage, number, self)

    def _stage_of_carried_induction(self) -> int | None:
        """The earliest stage with a user of what iter_args make of the induction variable."""
        users = self.uses + [(argument, self.last_stage) for argument in self._asked_after]
        sources = [(self.of(value), stage) for value, stage in users if value in self._numbers]
        return min(
            (s for f, s in sources if isinstance(f, ValueSource) and f.value == self.induction),
            default=None,
        )

    def _collect_registers(self) -> None:
        for value, stage in self.uses:
            self._need_register(self.of(value), stage, 0)
        for wait, late in self.plan.synchronisation.after_prologue():
            self._need_register(self.token(wait), wait.stage, late)
        for argument in self._asked_after:
            self._need_register(self.of(argument), self.last_stage, self.epilogue_steps)

    def _need_register(self, source: Any, stage: int, late: int) -> None:
        """`late`: how many steps after the kernel's end the earliest use stands."""
        if isinstance(source, ValueSource):
            lag = self.lag(source, stage) - late
            self.registers[source.line] = max(self.registers.get(source.line, 0), lag)
        elif source is not None:
            source.need(source.lag(stage) - late)

    def token(self, wait: PlannedWait) -> ValueSource:
        return ValueSource(self.kernel.tokens[wait.group.number], (), wait.distance)


# Recurrences ---------------------------------------------------------------------------------
#
# Values of the kernel that follow from their own last value: slot counters, and iter_args
# that only swap places or take a value from outside.
#
# Each belongs to a stage: in a step it stands for that stage's iteration. Users in a later
# stage see older values through registers, which are iter_args of the kernel too:
#
#     (current, r_1, r_2) --> (next(current), current, r_1)


class Recurrence:
    """A current value and `width - 1` older ones, bound anew in each part of the pipeline.

    `has_results`: a result of the loop may ask for the value after the last step.
    """

    has_results = True

    def __init__(self, stage: int) -> None:
        self.stage = stage
        self.registers = 0
        self._held: list[Any] = []
        self._following: list[Any] = []

    @property
    def width(self) -> int:
        return 1 + self.registers

    def lag(self, stage: int) -> int:
        """How many steps old the value is that a user in `stage` wants."""
        return stage - self.stage

    def need(self, lag: int) -> None:
        self.registers = max(self.registers, lag)

    def at_iteration(self, iteration: int) -> Value:
        """The value in an iteration whose number is known, for a user of that iteration."""
        raise AssertionError("each kind of recurrence says this")

    def following(self) -> Value:
        raise AssertionError("each kind of recurrence says this")

    def entries(self, last_stage: int) -> list[Value]:
        """The values at the kernel's entry, step `last_stage`."""
        now = last_stage - self.stage
        return [self.at_iteration(now - n) for n in range(self.width)]

    def bind(self, values: Sequence[Any]) -> None:
        """Take over block arguments of the kernel, its results, or prepared values."""
        self._held = list(values)

    @property
    def current(self) -> Value:
        return self._held[0]

    def in_step(self, stage: int) -> Value:
        return self._held[self.lag(stage)]

    def advanced(self) -> list[Value]:
        """What the kernel yields: everything one step older."""
        return [self.following(), *self._held[:-1]]

    def prepare(self) -> None:
        """Compute the next step's values without binding them (others may still ask).

        After the kernel nothing is carried, so older values are kept, too: a result of the loop
        asks in the last stage for what an early stage held before the epilogue."""
        self._following = [self.following(), *self._held]

    def commit(self) -> None:
        self.bind(self._following)


@dataclass(frozen=True)
class NextSlot:
    """The slot after another one, written where it is first used: the last epilogue steps
    use fewer and fewer of them."""

    before: Value | NextSlot
    ring: Ring
    integers: Integers

    @cached_property
    def value(self) -> Value:
        return self.ring.next(_slot_value(self.before), self.integers)


def _slot_value(slot: Value | NextSlot) -> Value:
    return slot.value if isinstance(slot, NextSlot) else slot


class SlotRecurrence(Recurrence):
    """slot(k) = k mod V. It repeats, so lags count modulo V and may reach forward.

    `ends_in_zero`: slot(k) = (k + 1 - trips) mod V instead, so that the last iteration has
    slot 0, where readers outside of the loop look. `start`: that of the first iteration, if not 0."""

    has_results = False

    def __init__(
        self, stage: int, ring: Ring, integers: Integers, ends_in_zero: bool, start: Value | None
    ) -> None:
        super().__init__(stage)
        self.ring, self.integers = ring, integers
        self.ends_in_zero, self.start = ends_in_zero, start

    @staticmethod
    def over(
        versions: int,
        stages: set[int],
        integers: Integers,
        ends_in_zero: bool = False,
        start: Value | None = None,
    ) -> SlotRecurrence:
        """The counter whose stage needs the fewest registers for users in `stages`.

        V = 3, stages 0 and 2: counting for stage 2, stage 0 wants (0 - 2) mod 3 = 1 step
        ago: one register. Counting for stage 0 would take two."""
        needed = {stage: max((user - stage) % versions for user in stages) for stage in stages}
        best = min(sorted(stages), key=needed.__getitem__)
        made = SlotRecurrence(best, Ring(versions), integers, ends_in_zero, start)
        made.registers = needed[best]
        return made

    def lag(self, stage: int) -> int:
        return (stage - self.stage) % self.ring.slots

    def need(self, lag: int) -> None:
        """The registers were chosen with the stage."""

    def at_iteration(self, iteration: int) -> Value:
        """The slot of an iteration: a constant, unless it depends on the trip count."""
        integers, tile = self.integers, iteration % self.ring.slots
        if self.start is not None:
            slot = self.start
            for _ in range(tile):
                slot = self.ring.next(slot, integers)
            return slot
        if not self.ends_in_zero:
            return integers.constant(tile)
        if integers.trip_count is not None:
            return integers.constant((tile + 1 - integers.trip_count) % self.ring.slots)
        return self.ring.before_last(tile, integers.trips_as_index(), integers)

    def in_step(self, stage: int) -> Value:
        """The slot of the iteration that `stage` runs in this step, where none has it made of others."""
        lag = self.lag(stage)
        if lag < self.width:
            return _slot_value(self._held[lag])
        return self.ring.at(-lag, {-n: slot for n, slot in enumerate(self._held)}, self.integers)

    def following(self) -> Value:
        return self.ring.next(self.current, self.integers)

    def prepare(self) -> None:
        """As for any recurrence, but nothing is written before somebody asks for it."""
        following = NextSlot(self.current, self.ring, self.integers)
        self._following = [following, *self._held[:-1]]


class EarlierSlot(Recurrence):
    """The slot of so many tiles before an iteration's. Where nothing runs ahead, iter_args hold it, which begin with any
    slot if nobody asks before there are as many tiles, that is not `from_start`. Else those of the ring say it."""

    has_results = False

    def __init__(self, slots: SlotRecurrence, tiles: int, held: int, from_start: bool) -> None:
        super().__init__(slots.stage)
        self.slots, self.tiles, self.held, self.from_start = slots, tiles, held, from_start

    @property
    def width(self) -> int:
        return self.held

    def entries(self, last_stage: int) -> list[Value]:
        if not self.from_start:
            return [self.slots.at_iteration(0)] * self.held
        return [self._before(0, n + 1) for n in range(self.held)]

    def at_iteration(self, iteration: int) -> Value:
        return self._before(iteration, self.tiles)

    def _before(self, iteration: int, tiles: int) -> Value:
        slot = self.slots.at_iteration(iteration)
        return self.slots.ring.before(slot, tiles, self.slots.integers)

    def in_step(self, stage: int) -> Value:
        return self._held[-1] if self.held else self.slots.in_step(stage + self.tiles)

    def advanced(self) -> list[Value]:
        return [self.slots.current, *self._held][: self.held]


class PhaseRecurrence(Recurrence):
    """The phase of an iteration's tile in a stage, which goes with the slot of a ring; in others it follows from both
    slots."""

    has_results = False

    def __init__(self, stage: int, slots: SlotRecurrence, start: Value) -> None:
        super().__init__(stage)
        self.slots = slots
        self.start = start

    def at_iteration(self, iteration: int) -> Value:
        """As many iterations after the first."""
        phase = self.start
        for earlier in range(iteration):
            slot = self.slots.at_iteration(earlier)
            _, phase = self.slots.ring.advance(slot, phase, self.slots.integers)
        return phase

    def in_step(self, stage: int) -> Value:
        if stage == self.stage:
            return self.current
        slot, other = (self.slots.in_step(s) for s in (self.stage, stage))
        ring = self.slots.ring
        write = ring.later_phase if stage < self.stage else ring.earlier_phase
        return write(self.current, slot, other, self.slots.integers)

    def following(self) -> Value:
        """The next phase, the other one where the slots begin anew."""
        following = self.slots.in_step(self.stage - 1)
        return self.slots.ring.next_phase(self.current, following, self.slots.integers)


class ArgumentRecurrence(Recurrence):
    """An iter_arg whose yields never lead to a value made in the body."""

    def __init__(self, stage: int, number: int, sources: Sources) -> None:
        super().__init__(stage)
        self.number, self.sources = number, sources

    def at_iteration(self, iteration: int) -> Value:
        """Follow the yields from the initial values; a value from outside stays."""
        sources, number = self.sources, self.number
        for _ in range(iteration):
            following = sources.yielded[number]
            if following not in sources.arguments:
                return following
            number = sources.arguments.index(following)
        return sources.initial[number]

    def following(self) -> Value:
        """What the yield forwards: another such argument's value, or one from outside."""
        value = self.sources.yielded[self.number]
        known = value in self.sources.arguments
        return self.sources.recurrences[value].current if known else value
