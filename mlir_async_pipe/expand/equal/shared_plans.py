"""Plans of the loops of a module, made once for loops of equal structure.

    loop 1, planned     -->    table 1, answers of its surroundings, recipe of its plan
    loop 2              -->    table 1, the same answers: the plan by the recipe

A plan is a function of the loop, of what the values are made of that it uses, of the block around it,
and of what the surroundings answer (`asked`): where all of these are the same, so is the plan. Nothing
is kept over an edit. A loop of which planning had something to say is planned on its own, and so is
one that was refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from functools import cached_property

from mlir_async_pipe.bindings.memo import unchanged
from mlir_async_pipe.bindings.raw_ops import Operation, walk
from mlir_async_pipe.dependence.surroundings import Surroundings
from mlir_async_pipe.expand.equal.asked import AskedSurroundings, Question
from mlir_async_pipe.expand.equal.loop_table import LoopTable, read_table
from mlir_async_pipe.expand.equal.moved_plan import NotMovableError, PlanRecipe
from mlir_async_pipe.expand.plan.pipeline_plan import Plan
from mlir_async_pipe.session.diagnostics import Diagnostics
from mlir_async_pipe.session.light_dataclass import dataclass

# Loops of one table differ by what stands around them: the first, the last, those between.
VARIANTS = 8

Planner = Callable[[Operation, Surroundings], Plan | None]


@dataclass
class _Kept:
    """A plan, its loop's table, and the answers for which it holds."""

    plan: Plan
    table: LoopTable
    answers: list[tuple[Question, object]]

    def fits(self, loop: Operation, table: LoopTable, around: Surroundings) -> bool:
        """Whether the surroundings of another loop answer the same."""
        return all(ask(around, loop, table.values) == answer for ask, answer in self.answers)

    @cached_property
    def recipe(self) -> PlanRecipe | None:
        """How to make the plan of an equal loop; None if that cannot be told."""
        try:
            return PlanRecipe(self.plan, self.table)
        except NotMovableError:
            return None


class SharedPlans:
    """The plans of `loops`, of which none is edited meanwhile; `plan` is how one is planned,
    `diagnostics` what that may tell. `compared` are those that are compared with others."""

    def __init__(
        self, loops: list[Operation], plan: Planner, around: Surroundings, diagnostics: Diagnostics
    ) -> None:
        self._plan = plan
        self._around = around
        self._diagnostics = diagnostics
        self._kept: dict[Hashable, list[_Kept]] = {}
        self._families: dict[int, int] = {}
        # A table costs a tenth of a plan: it is read of loops that may have an equal one.
        beside = Counter(loop.block for loop in loops)
        shapes = {loop: _shape(loop) for loop in loops if beside[loop.block] > 1}
        alike = Counter(shapes.values())
        self.compared = {loop for loop, shape in shapes.items() if alike[shape] > 1}

    def plan_of(self, loop: Operation) -> Plan | None:
        """The loop's plan, made for it or for one that is equal."""
        with unchanged():
            table = read_table(loop) if loop in self.compared else None
            if table is None:
                return self._plan(loop, self._around)
            variants = self._kept.setdefault(table.key, [])
            for kept in variants:
                if kept.fits(loop, table, self._around) and kept.recipe is not None:
                    made = kept.recipe.made(table)
                    self._families[id(made)] = id(kept)
                    return made
            return self._planned(loop, table, variants)

    def _planned(self, loop: Operation, table: LoopTable, variants: list[_Kept]) -> Plan | None:
        asked = AskedSurroundings(self._around, table)
        told = len(self._diagnostics.items)
        plan = self._plan(loop, asked)
        silent = len(self._diagnostics.items) == told
        if plan is not None and silent and asked.repeatable and len(variants) < VARIANTS:
            variants.append(_Kept(plan, table, asked.answers))
            self._families[id(plan)] = id(variants[-1])
        return plan

    def family_of(self, plan: Plan) -> int | None:
        """The same number for the plan of a loop and those that were made of it; None for a plan that
        no other one can be made of. The plans are to be alive."""
        return self._families.get(id(plan))


def _shape(loop: Operation) -> tuple[Hashable, ...]:
    return (loop.block, *(op.name for op in walk(loop)))
