"""Reads each step of a kernel once: what it gives runs on the states that come to it.

    %x = addi %a, %b     state.env[x] = form of a + form of b
    load, copy, wait     asks the judge, then joins the state (see `effects`)

A value that no effect needs gives nothing to run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mlir_async_pipe.checker.effects import Effects
from mlir_async_pipe.checker.forms import Form
from mlir_async_pipe.checker.iterations import Iterations
from mlir_async_pipe.checker.other_threads import own
from mlir_async_pipe.checker.path_values import Values
from mlir_async_pipe.checker.periods import check_periods
from mlir_async_pipe.checker.state import State, Value
from mlir_async_pipe.checker.step_graph import (
    AnyIteration,
    Bracket,
    Copy,
    Lost,
    Run,
    Step,
)
from mlir_async_pipe.checker.type_kinds import is_integer

Plan = Callable[[State], object]


@dataclass
class Planner:
    """Plans for the steps of one kernel. `needed` are the values that matter, `periods` what
    iteration numbers are known modulo (None: slots are symbols); what moves control in a way
    that nobody knows is kept in `lost`."""

    values: Values
    effects: Effects
    iterations: Iterations
    needed: set[int]
    periods: dict[int, int] | None
    lost: dict[Lost, None]

    def plan(self, step: Step) -> Plan | None:
        """Read a step once; what it gives runs on a state. None: it need not run."""
        match step:
            case Run() as run if run.makes_values:
                return self._plan_value(run)
            case Run() as run:
                return self._plan_effect(run)
            case Copy(assigns):
                if self.needed.isdisjoint(target for target, _ in assigns):
                    return None
                return lambda state: self.assign(state, assigns)
            case AnyIteration(loop, variable):
                return partial(self.iterations.any_iteration, loop, variable)
            case Bracket(kind, op, _):
                bracket = partial(self.effects.groups.bracket, kind=kind, op=op)
                # Calls move queues, which are the first thread's; scopes hold every thread.
                return bracket if kind in ("scope", "end scope") else own(bracket)
            case Lost():
                return lambda state: self.lost.setdefault(step)

    def _plan_value(self, run: Run) -> Plan | None:
        # Half of a kernel computes data, or the same in every state.
        if self.needed.isdisjoint(run.results) or self.values.fix(run):
            return None
        evaluate = self.values.prepare(run)
        periods = self.periods
        if periods is None:
            return evaluate

        def execute(state: State) -> None:
            value = evaluate(state)
            if isinstance(value, Form) and any(atom.kind == "call" for atom, _ in value.terms):
                check_periods(value, state.facts, periods)

        return execute

    def _plan_effect(self, run: Run) -> Plan | None:
        """What an op loads, or what a call gives, is another value each time that it runs."""
        effect = self.effects.prepare(run)
        made = [
            (number, result.type)
            for number, result in zip(run.results, run.op.results, strict=True)
            if number in self.needed and is_integer(result.type)
        ]
        if not made:
            return effect

        def execute(state: State) -> None:
            for number, kind in made:
                self.values.forget(state, number, kind)
            if effect is not None:
                effect(state)

        return execute

    def assign(self, state: State, assigns: tuple[tuple[int, int], ...]) -> None:
        """Assign, all at once, what an edge or a copy gives."""
        new: list[tuple[int, Value | None]] = [
            (target, self.values.get(state, source))
            for target, source in assigns
            if target in self.needed
        ]
        for target, value in new:
            if value is None:
                state.env.pop(target, None)
            else:
                state.env[target] = value
