"""The steps of a pipeline as their units see them: which value, which token, and whether at all.

Steps are numbered through: t = 0 … S-2 in the prologue, S-1 for the kernel, S-1+e for step e of
the epilogue. A unit of stage s runs iteration `number - s`, and a value that is `lag` steps old
is what step `number - lag` made. `Values` knows where that stands:

    prologue            as written; before the first iteration the loop's own initial value
    kernel, n steps ago the iter_arg r_n
    epilogue            as written, and what the kernel made n steps before step 1: its result r_n
"""

from __future__ import annotations

from collections.abc import Mapping

from mlir_async_pipe.bindings.raw_ops import Value
from mlir_async_pipe.pipeliner.expand.write.integers import Integers
from mlir_async_pipe.pipeliner.expand.write.recurrences import Recurrence
from mlir_async_pipe.pipeliner.expand.write.sources import Sources, ValueSource
from mlir_async_pipe.pipeliner.plan.sync_state import Draining, Filled, PlannedWait, StepPhase


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
        if stage is not None and part.phase.active(stage):
            self.written[induction, stage, part.number] = part.value(induction, stage)

    def made(self, source: ValueSource, stage: int, step: int) -> Value:
        """What a step made of a source, whose maker is in `stage`."""
        if self._registers and step <= self._carried:
            return self._registers[source.line, step]
        if step < stage:
            return self.sources.before_first(source, step - stage)
        return self.written[source.value, stage, step]


class Part:
    """One step of the pipeline. `phase` says which stages are active in it."""

    def __init__(self, number: int, phase: StepPhase, values: Values) -> None:
        self.number = number
        self.phase = phase
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
        super().__init__(t, Filled(t), values)
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
        super().__init__(values.sources.last_stage, Draining(0), values)
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
        super().__init__(values.sources.last_stage + e, Draining(e), values)

    def _induction(self, iteration: int) -> Value:
        # The kernel's last step, number S-1, ran one step before the kernel's end.
        return self._integers.end_plus(iteration - 1)
