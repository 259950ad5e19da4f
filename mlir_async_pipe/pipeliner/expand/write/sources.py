"""Where the values of the kernel come from, and which of them must be carried.

A value that is used `lag` steps after it was made travels in a shift register: `lag`
iter_args r_1 … r_lag of the kernel, of which r_n is the value of n steps ago. Slot counters
and iter_args that never meet a value of the body are recurrences, with registers of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Value, is_used
from mlir_async_pipe.pipeliner.expand.write.kernel_units import KernelUnit, KernelUnits
from mlir_async_pipe.pipeliner.expand.write.recurrences import (
    ArgumentRecurrence,
    EarlierSlot,
    PhaseRecurrence,
    Recurrence,
    SlotRecurrence,
)
from mlir_async_pipe.pipeliner.plan.pipeline_plan import Plan
from mlir_async_pipe.pipeliner.plan.sync_state import PlannedWait


@dataclass(frozen=True)
class ValueSource:
    """Where a used value comes from: made by a unit of the body, or the induction variable,
    `distance` iterations earlier, through the iter_args `chain` (empty for a token that is
    waited for later)."""

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

    def __init__(self, plan: Plan, kernel: KernelUnits) -> None:
        self.kernel = kernel
        self.ending_in_zero = {b.versions for b in plan.buffers if b.ends_in_slot_zero}
        self.synchronisation = plan.synchronisation
        self.counters = plan.counters
        self.loop = plan.loop
        self.block = plan.loop.regions[0].blocks[0]
        self.induction, *self.arguments = self.block.arguments
        self._numbers = {argument: number for number, argument in enumerate(self.arguments)}
        self.last_stage = plan.last_stage
        self.epilogue_steps = plan.peeled_epilogue
        self.initial = list(self.loop.operands)[3:]
        *_, end = self.block.operations
        self.yielded = list(end.operation.operands)
        self.makers = self._makers()
        self.recurrences: dict[Any, Recurrence] = {}
        self.registers: dict[ValueSource, int] = {}
        self._known: dict[Value, ValueSource | Recurrence | None] = {}
        self._collect_recurrences()
        # Until now an iter_arg could still become a recurrence.
        self._known.clear()
        self.carried_induction = self._stage_of_carried_induction()
        self._collect_registers()

    def _makers(self) -> dict[Value, dict[int, KernelUnit]]:
        """For each value of the body the units that make it, by stage (several stages only
        for rematerialised ops)."""
        makers: dict[Value, dict[int, KernelUnit]] = {}
        for unit in self.kernel.units:
            for template in unit.templates:
                for result in template.results:
                    makers.setdefault(result, {})[unit.stage] = unit
        return makers

    def stage_of_maker(self, value: Value, user_stage: int) -> int:
        """The stage of the unit that makes `value` for a user in `user_stage`; the stage that
        carries the induction variable, which is there without a unit."""
        if value == self.induction:
            assert self.carried_induction is not None
            return self.carried_induction
        stages = self.makers[value]
        return user_stage if user_stage in stages else next(iter(stages))

    def of(self, value: Value) -> ValueSource | Recurrence | None:
        """Where a used value comes from; None for the induction variable and the outside."""
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: Value) -> ValueSource | Recurrence | None:
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

    def _uses(self) -> list[tuple[Value, int]]:
        """Every (value, stage of the user) of the kernel's units."""
        return [(value, unit.stage) for unit in self.kernel.units for value in unit.used]

    def _collect_recurrences(self) -> None:
        """Slot counters, and iter_args that never meet a value of the body."""
        uses = self._uses()
        for versions, placeholder in self.kernel.slots.items():
            stages = {stage for value, stage in uses if value == placeholder}
            if stages:
                self.recurrences[placeholder] = SlotRecurrence.over(
                    versions, stages, versions in self.ending_in_zero
                )
        for counter in self.counters:
            # Who looks after the loop asks in the last stage.
            stages = {stage for value, stage in uses if value == counter.slot} | {self.last_stage}
            first_slot, first_phase = counter.start
            slots = SlotRecurrence.over(counter.versions, stages, False, first_slot)
            self.recurrences[counter.slot] = slots
            self.recurrences[counter.phase] = PhaseRecurrence(self.last_stage, slots, first_phase)
            if any(value == counter.earlier for value, _ in uses):
                earlier = EarlierSlot(slots, counter.tiles, held=not self.last_stage)
                self.recurrences[counter.earlier] = earlier
        arguments = self.arguments
        used = {value for value, _ in uses}
        pending = [
            argument
            for argument, result in zip(arguments, self.loop.results, strict=True)
            if (argument in used or is_used(result)) and self.of(argument) is None
        ]
        while pending:
            argument = pending.pop()
            if argument in self.recurrences:
                continue
            number = self._numbers[argument]
            following = self.yielded[number]
            stage = min((s for v, s in uses if v == argument), default=self.last_stage)
            self.recurrences[argument] = ArgumentRecurrence(
                stage, number, arguments, self.initial, self.yielded
            )
            if following in self._numbers:
                pending.append(following)
        self._align_argument_recurrences()

    def _align_argument_recurrences(self) -> None:
        """Arguments that feed each other advance together, in the earliest of their stages."""
        own = [r for r in self.recurrences.values() if isinstance(r, ArgumentRecurrence)]
        stage = min((r.stage for r in own), default=0)
        for recurrence in own:
            recurrence.stage = stage

    def _stage_of_carried_induction(self) -> int | None:
        """The earliest stage with a user of what iter_args make of the induction variable."""
        users = self._uses() + [
            (argument, self.last_stage)
            for argument, result in zip(self.arguments, self.loop.results, strict=True)
            if is_used(result)
        ]
        sources = [(self.of(value), stage) for value, stage in users if value in self._numbers]
        return min(
            (s for f, s in sources if isinstance(f, ValueSource) and f.value == self.induction),
            default=None,
        )

    def _collect_registers(self) -> None:
        for value, stage in self._uses():
            self._need_register(self.of(value), stage, 0)
        for wait, late in self.synchronisation.after_prologue():
            self._need_register(self.token(wait), wait.stage, late)
        for argument, result in zip(self.arguments, self.loop.results, strict=True):
            if is_used(result):
                # The result is the argument of one more iteration, read after the epilogue.
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
