"""Slots that a loop carries round its back edge, as remainders of the iteration number.

    iter_args(%read = 0, %write = 2)        %read  = k mod 3
    %next = %read + 1 == 3 ? 0 : %read + 1  %write = (k + 2) mod 3
    yield %next, %read

The carried integers are run alone, from their starts until they return to them: that proves
the closed form for every iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlir_async_pipe.bindings.raw_ops import constant_value
from mlir_async_pipe.checker import arithmetic
from mlir_async_pipe.checker.forms import Form
from mlir_async_pipe.checker.residues import LARGEST_PERIOD
from mlir_async_pipe.checker.state import CarriedSlot
from mlir_async_pipe.checker.step_graph import Flow, Run

# A slot's next value is an addition, a comparison and a selection after it.
DEEPEST = 8

Numbers = dict[int, int]


@dataclass
class CarriedSlots:
    """The rings of the loops of one kernel, by the starts of what they carry."""

    flow: Flow
    _next: dict[int, dict[int, int]] = field(default_factory=dict)
    _makers: dict[int, Run] = field(default_factory=dict)
    _known: dict[tuple[int, tuple[tuple[int, int], ...]], tuple[CarriedSlot, ...]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        back: dict[int, list[tuple[tuple[int, int], ...]]] = {}
        for block in self.flow.blocks:
            for step in block.steps:
                if isinstance(step, Run) and step.makes_values:
                    self._makers.update(dict.fromkeys(step.results, step))
            for edge in self.flow.edges(block):
                for kind, loop in edge.loops:
                    if kind == "back":
                        back.setdefault(loop, []).append(edge.assigns)
        # Several back edges of a loop need not carry the same.
        self._next = {loop: dict(edges[0]) for loop, edges in back.items() if len(edges) == 1}

    def rings(self, loop: int, starts: Mapping[int, int]) -> tuple[CarriedSlot, ...]:
        """The rings of a loop that is entered with the constants `starts` by value number."""
        following = self._next.get(loop, {})
        counters = self.flow.loops[loop].inductions
        carried = {n: start for n, start in starts.items() if n in following and n not in counters}
        key = (loop, tuple(sorted(carried.items())))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._find(following, carried)
        return found

    def _find(self, following: Mapping[int, int], carried: Numbers) -> tuple[CarriedSlot, ...]:
        steps = [carried]
        while carried and len(steps) <= LARGEST_PERIOD:
            after = {n: self._value(following[n], steps[-1]) for n in carried}
            slots = {n: v for n, v in after.items() if v is not None and 0 <= v < LARGEST_PERIOD}
            if len(slots) < len(carried):
                # What depends on more than carried slots is no ring, nor is what uses it.
                carried = {n: start for n, start in carried.items() if n in slots}
                steps = [carried]
                continue
            steps.append(slots)
            if slots == carried:
                rings = (_ring(n, [step[n] for step in steps]) for n in carried)
                return tuple(ring for ring in rings if ring is not None)
        return ()

    def _value(self, number: int, carried: Numbers, depth: int = 0) -> int | None:
        """The value that constants alone give, None if it depends on anything else."""
        if number in carried:
            return carried[number]
        run = self._makers.get(number)
        if run is None or len(run.results) != 1 or depth > DEEPEST:
            return None
        constant = constant_value(run.op.results[0])
        if constant is not None:
            return constant
        if not arithmetic.has_rule(run.name):
            return None
        operands = [self._value(operand, carried, depth + 1) for operand in run.operands]
        known: list[Form] = [Form(operand) for operand in operands if operand is not None]
        rule = arithmetic.rule_of(run.op) if len(known) == len(operands) else None
        value = rule(known, {}) if rule is not None else None
        return value.constant if value is not None and value.is_constant else None


def _ring(number: int, sequence: list[int]) -> CarriedSlot | None:
    """The ring that a sequence, which ends where it starts, goes round (once or more)."""
    start, versions = sequence[0], max(sequence) + 1
    rotates = all(value == (start + k) % versions for k, value in enumerate(sequence))
    return CarriedSlot(number, start, versions) if rotates and versions > 1 else None
