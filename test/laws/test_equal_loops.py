"""Law: a module in which loops of equal structure are planned once becomes what it becomes when each
is planned, on random programs whose loops are there several times: text with places, report, and
what is told.

The copies of a loop stand after it; every other one has buffers of its own where the first one's are
allocated beside it.

Covers: expand/equal/shared_plans.py, expand/equal/loop_table.py, expand/equal/moved_plan.py,
expand/equal/asked.py
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.random_pipelines import FEATURES, program
from helpers.repeated_parts import expanded
from mlir_async_pipe.bindings.raw_ops import Operation, after, captured, clone, defining_op
from mlir_async_pipe.expand.equal.shared_plans import SharedPlans
from mlir_async_pipe.loops.find_loops import find_loops

pytestmark = pytest.mark.slow

MODULES = 500
COPIES = 6


def repeat_loops(module: Any) -> None:
    """Put copies of every outermost annotated loop after it."""
    loops = find_loops(module)
    for loop in [each for each in loops if each.parent.operation not in loops]:
        place = loop
        for number in range(COPIES):
            mapping: dict[Any, Any] = {}
            if number % 2:
                place = own_buffers(loop, place, mapping)
            place = clone(loop, mapping, after(place))


def own_buffers(loop: Operation, place: Operation, mapping: dict[Any, Any]) -> Operation:
    """Allocate the loop's buffers once more after `place`; returns the last op."""
    for value in captured(loop):
        op = defining_op(value)
        if op is not None and op.name == "memref.alloc" and op.block == loop.block:
            place = clone(op, mapping, after(place))
    return place


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_shared_plans_are_the_plans(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Operation] = []
    asked: list[Operation] = []
    alone, shared = SharedPlans._planned, SharedPlans.plan_of

    def count_plan(self: SharedPlans, loop: Operation, *rest: Any) -> Any:
        planned.append(loop)
        return alone(self, loop, *rest)

    def count_all(self: SharedPlans, loop: Operation) -> Any:
        asked.append(loop)
        return shared(self, loop)

    monkeypatch.setattr(SharedPlans, "_planned", count_plan)
    monkeypatch.setattr(SharedPlans, "plan_of", count_all)
    for seed in range(-(-MODULES // len(FEATURES))):
        text = program(seed, feature).text
        assert expanded(text, repeat_loops, share=True) == expanded(
            text, repeat_loops, share=False
        ), (feature, seed)
    assert len(planned) < len(asked), "no loop has the plan of another"
