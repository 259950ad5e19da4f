"""Writes prologue, kernel and epilogue by cloning the kernel's units.

    for k = lb to ub step s:          for t in 0 .. S-2:   units of stage <= t, iteration t - stage
      units                    -->    for i = lb to lb + (trips - (S-1)) * s step s:
                                        all units, iteration i + S-1 - stage
                                      for e in 1 .. S-1:   units of stage >= e,
                                                           iteration trips - 1 + e - stage

Register r_n of the kernel holds a value of n steps ago (see `sources`). At the kernel's entry
that is what prologue step S-1-n made, or, where that would be an iteration before the first,
the loop's own initial value.

Slot indices repeat after V iterations, so a lag counts modulo V only: with copy in stage 0,
reader in stage 2 and V = 3 the copy's slot is the slot the reader had one step before, one
register instead of two.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, create
from mlir_async_pipe.expand.plan.empty_groups import empty_groups
from mlir_async_pipe.expand.plan.pipeline_plan import Plan
from mlir_async_pipe.expand.plan.sync_state import Wait
from mlir_async_pipe.expand.write.integers import Integers
from mlir_async_pipe.expand.write.kernel_units import Kernel
from mlir_async_pipe.expand.write.sources import Source, Sources
from mlir_async_pipe.expand.write.steps import StepWriter


class Emitter:
    """Emits one loop. `results` are the values that replace the results of the loop."""

    def __init__(
        self,
        plan: Plan,
        kernel: Kernel,
        integers: Integers,
        ip: Any,
    ) -> None:
        self.plan = plan
        self.kernel = kernel
        self.integers = integers
        self.steps = StepWriter(plan, kernel, integers, ip)
        self.loop = plan.loop
        self.block = plan.loop.regions[0].blocks[0]
        self.induction = self.block.arguments[0]
        self.location = plan.loop.location
        self.last_stage = plan.last_stage
        self.epilogue_steps = plan.peeled_epilogue
        self.sources = Sources(plan, kernel)
        self.carried_out: dict[tuple[Source, int], Value] = {}
        self.dummy_token: Value | None = None

    def _made(self, source: Source, user_stage: int, step: int) -> Value:
        """The value as it was made in a step of the prologue, the kernel or the epilogue."""
        return self.steps.values[
            (source.value, self.sources.stage_of_maker(source.value, user_stage), step)
        ]

    # -- the three parts --------------------------------------------------------------------

    def emit(self) -> tuple[list[Value], Operation]:
        """Write everything; returns the results of the loop and the kernel loop."""
        for t in range(self.last_stage):
            self._prologue_step(t)
        loop = self._kernel_loop()
        for e in range(1, self.epilogue_steps + 1):
            self._epilogue_step(e)
        self._drain()
        return self._results(), loop

    # -- prologue ---------------------------------------------------------------------------

    def _prologue_step(self, t: int) -> None:
        def look_up(value: Value, stage: int) -> Value:
            return self._in_prologue(value, stage, t)

        def token(wait: Wait) -> Value:
            return self._made(self.sources.token(wait), wait.stage, t - wait.lag)

        def condition(stage: int) -> Value | None:
            if self.plan.short_trip != "predicate":
                return None
            return self.integers.has_iteration(t - stage)

        step = self.plan.synchronisation.prologue[t]
        self.steps.write(step, lambda unit: unit.stage <= t, look_up, token, t, condition)
        self._empty_groups(t)

    def _in_prologue(self, value: Value, stage: int, t: int) -> Value:
        iteration = t - stage
        if value == self.induction:
            return self.integers.first_plus(iteration)
        source = self.sources.of(value)
        if source is None:
            return value
        if not isinstance(source, Source):
            return source.at_iteration(iteration, self.integers)
        if iteration < source.distance:
            return self.sources.initial[source.chain[iteration]]
        return self._made(source, stage, t - self.sources.lag(source, stage))

    def _empty_groups(self, t: int) -> None:
        """An empty group is complete but counted, so that the kernel's first steps look back
        at as many groups as its later ones."""
        for group in empty_groups(self.plan.groups, t):
            self.steps.empty_group(self.kernel.tokens[group.number])

    # -- kernel -----------------------------------------------------------------------------

    def _kernel_loop(self) -> Operation:
        entries: list[Value] = []
        places: dict[Source, int] = {}
        for source, count in self.sources.registers.items():
            if count > 0:
                places[source] = len(entries)
                entries += [self._entry(source, n) for n in range(1, count + 1)]
        bases: dict[Any, int] = {}
        for key, recurrence in self.sources.recurrences.items():
            bases[key] = len(entries)
            entries += recurrence.entries(self.last_stage, self.integers)
        ends = self._ends_of_stages()
        loop = self._create_loop(entries)
        block = loop.regions[0].blocks[0]
        arguments = list(block.arguments)
        carried = arguments[1:]
        outer, self.steps.ip = self.steps.ip, ir.InsertionPoint(block)
        self.integers.enter(self.steps.ip)
        now = self.last_stage
        for key, recurrence in self.sources.recurrences.items():
            recurrence.bind(carried[bases[key] : bases[key] + recurrence.width])

        def register(source: Source, n: int) -> Value:
            return carried[places[source.line] + n - 1]

        def look_up(value: Value, stage: int) -> Value:
            if value == self.induction:
                return self.integers.plus_steps(arguments[0], self.last_stage - stage)
            source = self.sources.of(value)
            if source is None:
                return value
            if not isinstance(source, Source):
                return source.in_step(stage)
            lag = self.sources.lag(source, stage)
            return self._made(source, stage, now) if lag == 0 else register(source, lag)

        def token(wait: Wait) -> Value:
            source = self.sources.token(wait)
            if wait.lag == 0:
                return self._made(source, wait.stage, now)
            return register(source, wait.lag)

        def condition(stage: int) -> Value | None:
            if self.plan.epilogue != "predicate" or stage == self.last_stage:
                return None
            return self.integers.is_before(arguments[0], ends[stage])

        step = self.plan.synchronisation.kernel
        self.steps.write(step, lambda unit: True, look_up, token, now, condition)
        following: list[Value] = []
        for source, count in self.sources.registers.items():
            if count > 0:
                following.append(self._made(source, 0, now))
                following += [register(source, n) for n in range(1, count)]
        for recurrence in self.sources.recurrences.values():
            following += recurrence.advanced(self.integers, self.sources.recurrences)
        create("scf.yield", following, ip=self.steps.ip, loc=self.location)
        self.steps.ip = outer
        self.integers.leave(self.steps.ip)
        results = list(loop.results)
        for source, start in places.items():
            for n in range(1, self.sources.registers[source] + 1):
                # r_n behind the loop is what the step n before epilogue step 1 made.
                self.carried_out[(source, 1 - n)] = results[start + n - 1]
        for key, recurrence in self.sources.recurrences.items():
            recurrence.bind(results[bases[key] : bases[key] + recurrence.width])
        return loop

    def _ends_of_stages(self) -> dict[int, Value]:
        """For a predicated kernel: where the induction variable of the kernel, which is that of
        the last stage, stands when an earlier stage has run its last iteration."""
        if self.plan.epilogue != "predicate":
            return {}
        stages = {unit.stage for unit in self.kernel.units if unit.stage != self.last_stage}
        return {s: self.integers.end_of_all_but(self.last_stage - s) for s in sorted(stages)}

    def _entry(self, source: Source, n: int) -> Value:
        """What register r_n holds when the kernel begins."""
        stage = self.sources.stage_of_maker(source.value, 0)
        iteration = self.last_stage - n - stage
        if iteration >= 0:
            return self._made(source, stage, self.last_stage - n)
        if source.chain and source.distance + iteration >= 0:
            return self.sources.initial[source.chain[source.distance + iteration]]
        return self._dummy(source)

    def _dummy(self, source: Source) -> Value:
        """What stands in for a group of an iteration before the first: one that is over."""
        if source.value not in self.kernel.tokens.values():
            return self.sources.initial[source.chain[0]]
        if self.dummy_token is None:
            self.dummy_token = self.steps.empty_group(source.value)
        return self.dummy_token

    def _create_loop(self, entries: list[Value]) -> Operation:
        upper = self.integers.kernel_upper_bound()
        attributes = {}
        if "unsignedCmp" in self.loop.attributes:
            attributes["unsignedCmp"] = self.loop.attributes["unsignedCmp"]
        loop = create(
            "scf.for",
            [self.integers.lower, upper, self.integers.step, *entries],
            [value.type for value in entries],
            attributes,
            regions=1,
            ip=self.steps.ip,
            loc=self.location,
        )
        types = [self.loop.operands[0].type, *(value.type for value in entries)]
        loop.regions[0].blocks.append(*types, arg_locs=[self.location] * len(types))
        return loop

    # -- epilogue ---------------------------------------------------------------------------

    def _behind(self, e: int) -> int:
        """The key of epilogue step e in `values`; the kernel's last step is e = 0."""
        return self.last_stage + 1 + e

    def _epilogue_step(self, e: int) -> None:
        def look_up(value: Value, stage: int) -> Value:
            return self._in_epilogue(value, stage, e)

        def token(wait: Wait) -> Value:
            return self._behind_kernel(self.sources.token(wait), wait.stage, e - wait.lag)

        step = self.plan.synchronisation.epilogue[e - 1]
        self.steps.write(
            step, lambda unit: unit.stage >= e, look_up, token, self._behind(e), lambda stage: None
        )
        live = [
            r for r in self.sources.recurrences.values() if e < self.epilogue_steps or r.has_results
        ]
        for recurrence in live:
            recurrence.prepare(self.integers, self.sources.recurrences)
        for recurrence in live:
            recurrence.commit()

    def _in_epilogue(self, value: Value, stage: int, e: int) -> Value:
        if value == self.induction:
            # iteration trips - 1 + e - stage, and the kernel ends at trips - last_stage
            return self.integers.end_plus(self.last_stage - 1 + e - stage)
        source = self.sources.of(value)
        if source is None:
            return value
        if not isinstance(source, Source):
            return source.in_step(stage)
        return self._behind_kernel(source, stage, e - self.sources.lag(source, stage))

    def _behind_kernel(self, source: Source, stage: int, e: int) -> Value:
        """The value of epilogue step e, or of the kernel's step e <= 0 through a register."""
        if e >= 1:
            return self._made(source, stage, self._behind(e))
        return self.carried_out[(source.line, e)]

    def _results(self) -> list[Value]:
        """The argument of one more iteration, as a user behind the epilogue sees it."""
        results = []
        arguments = list(self.block.arguments)[1:]
        for argument, result in zip(arguments, self.loop.results, strict=True):
            if list(result.uses):
                results.append(
                    self._in_epilogue(argument, self.last_stage, self.epilogue_steps + 1)
                )
            else:
                results.append(self.sources.initial[len(results)])
        return results

    def _drain(self) -> None:
        """Wait for what is still in flight behind the loop."""
        for group in self.plan.synchronisation.drains:
            token = self.sources.last_token(group)
            late = self.epilogue_steps + 1 - self.sources.lag(token, self.last_stage)
            self.steps.drain(token.value, self._behind_kernel(token, group.stage, late))
