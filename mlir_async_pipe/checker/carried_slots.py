"""Slots that a loop carries round its back edge, as remainders of the iteration number.

    iter_args(%read = 0, %write = 2)        %read  = k mod 3
    %next = %read + 1 == 3 ? 0 : %read + 1  %write = (k + 2) mod 3
    yield %next, %read

The carried integers are run alone, from their starts until they return to them: that proves
the closed form for every iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from mlir_async_pipe.bindings.raw_ops import constant_value
from mlir_async_pipe.checker import arithmetic
from mlir_async_pipe.checker.forms import LARGEST_PERIOD, Form
from mlir_async_pipe.checker.state import CarriedSlot
from mlir_async_pipe.checker.step_graph import Flow, Run

# A slot's next value is an addition, a comparison and a selection after it.
DEEPEST = 16

Numbers = dict[int, int]


class CarriedNumbers:
    """What the loops of one kernel carry, as far as constants and carried numbers alone make it."""

    def __init__(self, flow: Flow) -> None:
        back: dict[int, list[Numbers]] = {}
        for loop, _, edge in flow.edges_of_loops("back"):
            back.setdefault(loop, []).append(dict(edge.assigns))
        # Several back edges of a loop need not carry the same.
        self.following = {loop: edges[0] for loop, edges in back.items() if len(edges) == 1}
        self._makers = {n: run for run in flow.runs() if run.makes_values for n in run.results}
        self._counters = [loop.inductions for loop in flow.loops]
        self._rings = cache(self._found_rings)

    def run(self, loop: int, starts: Numbers, most: int, end: int | None = None) -> list[Numbers]:
        """The numbers of a loop by iteration from `starts` on, up to one in which they are as they were before, or
        `most`. Those that depend on others are left out, and those that are not from 0 to `end`, if that is given."""
        following = self.following.get(loop, {})
        carried = {number: start for number, start in starts.items() if number in following}
        steps = [carried]
        while carried and steps[-1] not in steps[:-1] and len(steps) <= most:
            now: dict[int, int | None] = {**steps[-1]}
            after = {number: self._value(following[number], now) for number in carried}
            known = {
                number: made
                for number, made in after.items()
                if made is not None and (end is None or 0 <= made < end)
            }
            if len(known) < len(carried):
                carried = {number: carried[number] for number in known}
                steps = [carried]
            else:
                steps.append(known)
        return steps if carried else []

    def rings(self, loop: int, starts: Mapping[int, int]) -> tuple[CarriedSlot, ...]:
        """The rings of a loop that is entered with the constants `starts` by value number."""
        following, counters = self.following.get(loop, {}), self._counters[loop]
        carried = {n: start for n, start in starts.items() if n in following and n not in counters}
        return self._rings(loop, tuple(sorted(carried.items())))

    def _found_rings(
        self, loop: int, carried: tuple[tuple[int, int], ...]
    ) -> tuple[CarriedSlot, ...]:
        steps = self.run(loop, dict(carried), LARGEST_PERIOD, LARGEST_PERIOD)
        returned = steps if steps and steps[-1] == steps[0] and len(steps) > 1 else [{}]
        rings = (_ring(n, [step[n] for step in steps]) for n in returned[0])
        return tuple(ring for ring in rings if ring is not None)

    def _value(self, number: int, now: dict[int, int | None], depth: int = 0) -> int | None:
        """The value that constants and what is known `now` give, None if it depends on anything else."""
        if number not in now:
            run = self._makers.get(number)
            is_followed = run is not None and len(run.results) == 1 and depth <= DEEPEST
            now[number] = self._made(run, now, depth) if run is not None and is_followed else None
        return now[number]

    def _made(self, run: Run, now: dict[int, int | None], depth: int) -> int | None:
        constant = constant_value(run.op.results[0])
        if constant is not None or not arithmetic.has_rule(run.name):
            return constant
        operands = [self._value(operand, now, depth + 1) for operand in run.operands]
        known: list[Form] = [Form(operand) for operand in operands if operand is not None]
        rule = arithmetic.rule_of(run.op) if len(known) == len(operands) else None
        value = None if rule is None else rule(known, {})
        return value.constant if value is not None and value.is_constant else None


def _ring(number: int, sequence: list[int]) -> CarriedSlot | None:
    """The ring that a sequence, which ends where it starts, goes round (once or more)."""
    start, versions = sequence[0], max(sequence) + 1
    rotates = all(value == (start + k) % versions for k, value in enumerate(sequence))
    return CarriedSlot(number, start, versions) if rotates and versions > 1 else None
