"""The plan of one loop as a recipe, from which that of an equal loop is made.

    Unit(ops=(%copy,), stage=0, …)  -->  ops 3; tuple of [ops 3]; Unit with ops = that, stage = 0, …

Every object of a plan that leads to a handle of the loop is made again with the other loop's handles,
in the order of the recipe; all others are shared. An object is made without running its `__init__`:
what that would find out holds already.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import FunctionType
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.expand.equal.loop_table import LoopTable
from mlir_async_pipe.expand.plan.pipeline_plan import Plan

_PLAIN = (int, float, str, bytes, bool, type(None), Enum, range, FunctionType, type)
_COLLECTIONS: dict[type, Callable[[Any], Any]] = {
    tuple: tuple,
    list: list,
    set: set,
    frozenset: frozenset,
}


class NotMovableError(Exception):
    """A plan holds something that its loop's table does not."""


# What all loops are asked for; the rest, two thirds of a plan, is for those that are written on their own.
_EARLY = (
    "loop",
    "buffers",
    "boundary",
    "summary",
    "wait_at",
    "epilogue",
    "short_trip",
    "trip_count",
    "last_stage",
)


class MovedPlan(Plan):
    """The plan of an equal loop: what is not in `_EARLY` is made when it is asked for first."""

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        whole = fields.pop("_whole", None) if not name.startswith("__") else None
        if whole is None:
            raise AttributeError(name)
        for each, value in vars(whole()).items():
            fields.setdefault(each, value)
        return getattr(self, name)


class PlanRecipe:
    """How to make the plans of equal loops; raises NotMovableError."""

    def __init__(self, plan: Plan, table: LoopTable) -> None:
        self._early = Recipe({name: getattr(plan, name) for name in _EARLY}, table)
        self._whole = Recipe(plan, table)

    def made(self, table: LoopTable) -> Plan:
        """The plan of the loop that `table` describes."""
        plan = object.__new__(MovedPlan)
        plan.__dict__.update(self._early.made(table), _whole=lambda: self._whole.made(table))
        return plan


class Recipe:
    """How to make a plan of an equal loop's table; raises NotMovableError."""

    def __init__(self, plan: Any, table: LoopTable) -> None:
        # Where each handle stands in a table's ops, values and blocks, one list after the other.
        handles = [*table.ops, *table.values, *table.blocks]
        self._places: dict[Any, int] = {handle: n for n, handle in enumerate(handles)}
        self._count = len(handles)
        self._steps: list[tuple[Callable[[list[Any]], Any], tuple[int, ...]]] = []
        self._constants: list[Any] = []
        self._known: dict[int, tuple[Any, int | None]] = {}
        self._last = self._place(plan)
        del self._places, self._known

    def made(self, table: LoopTable) -> Any:
        """The plan of the loop that `table` describes."""
        made = [*table.ops, *table.values, *table.blocks]
        for make, parts in self._steps:
            made.append(make([made[part] for part in parts]))
        return made[self._last]

    def _place(self, item: Any) -> int:
        """Where the item of another loop stands among what `made` makes."""
        found = self._moved(item)
        return self._step(lambda _: item, ()) if found is None else found

    def _moved(self, item: Any) -> int | None:
        """The same, None for an item that all loops share."""
        if isinstance(item, _PLAIN):
            return None
        if isinstance(item, (ir.Operation, ir.Value, ir.Block)):
            if item not in self._places:
                raise NotMovableError
            return self._places[item]
        if isinstance(item, (ir.Type, ir.Attribute, ir.Location)):
            return None
        if id(item) not in self._known:
            # The item is kept, so that its id stays its own.
            self._known[id(item)] = (item, self._compound(item))
        return self._known[id(item)][1]

    def _compound(self, item: Any) -> int | None:
        kind = type(item)
        if kind is dict:
            return self._of([*item, *item.values()], _dictionary)
        if kind in _COLLECTIONS:
            return self._of(list(item), _COLLECTIONS[kind])
        if isinstance(item, tuple):
            return self._of(list(item), lambda parts: tuple.__new__(kind, parts))
        fields = getattr(item, "__dict__", None)
        if fields is None or callable(item) or isinstance(item, Exception):
            raise NotMovableError
        names = tuple(fields)

        def build(parts: list[Any]) -> Any:
            made = object.__new__(kind)
            made.__dict__.update(zip(names, parts, strict=True))
            return made

        return self._of(list(fields.values()), build)

    def _of(self, parts: list[Any], make: Callable[[list[Any]], Any]) -> int | None:
        found = [self._moved(part) for part in parts]
        if all(place is None for place in found):
            return None
        places = [
            self._place(part) if place is None else place
            for part, place in zip(parts, found, strict=True)
        ]
        return self._step(make, tuple(places))

    def _step(self, make: Callable[[list[Any]], Any], parts: tuple[int, ...]) -> int:
        self._steps.append((make, parts))
        return self._count + len(self._steps) - 1


def _dictionary(parts: list[Any]) -> dict[Any, Any]:
    half = len(parts) // 2
    return dict(zip(parts[:half], parts[half:], strict=True))
