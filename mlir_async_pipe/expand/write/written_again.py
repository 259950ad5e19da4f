"""Writes a loop whose plan was made of another one's by copying what that one became.

    loop 1, written    -->    its ops, which of them use what from outside, and where each comes from
    loop 2             -->    the same ops with loop 2's values in place of loop 1's, and its locations

A plan says all that the writer does, but for what it finds in the loop: which values are the same,
which results are used, which locations the ops have. Loops in which these differ are written on their
own, and so is all that uses what neither loop nor buffers name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.located import can_be_placed, located, put
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    captured,
    clone,
    create,
    is_used,
    parent,
    walk,
)
from mlir_async_pipe.expand.plan.pipeline_plan import Plan
from mlir_async_pipe.expand.write.inner_pipeline import Span
from mlir_async_pipe.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.expand.write.write_loop import Written, write_loop
from mlir_async_pipe.loops import annotations as names
from mlir_async_pipe.session.light_dataclass import dataclass


@dataclass(frozen=True)
class _Loop:
    """A loop before it is written: its operands by number, `values`, the locations of its ops, and
    what has to be equal for another one to become the same."""

    values: list[Value]
    places: list[Any]
    key: Hashable

    @staticmethod
    def read(plan: Plan, buffers: list[VersionedBuffer]) -> _Loop:
        """Read the loop of a plan, whose buffers are made."""
        numbers: dict[Value, int] = {}
        pattern: list[int] = []
        places: list[Any] = []
        for op in walk(plan.loop):
            places.append(op.location)
            pattern += [numbers.setdefault(value, len(numbers)) for value in op.operands]
        for buffer in buffers:
            pattern.append(numbers.setdefault(buffer.value, len(numbers)))
        rooms = tuple((buffer.value.type, buffer.shape) for buffer in buffers)
        used = tuple(map(is_used, plan.loop.results))
        return _Loop(list(numbers), places, (tuple(pattern), rooms, used, plan.boundary))


@dataclass(frozen=True)
class _Recipe:
    """What a loop became: `held` holds these ops, so that they are cloned together. Of what has a
    location in it, `places` are the numbers of the locations and `tops` which are ops of the loop's own
    block; `uses` has each value from outside with its number and its operands (op, operand), `results` what
    replaced the results: a result (op, number), or a value from outside. `same` pairs equal locations."""

    key: Hashable
    held: Operation
    places: list[int]
    tops: list[int]
    uses: list[tuple[Value, int, list[tuple[int, int]]]]
    results: list[tuple[int | None, int]]
    same: list[tuple[int, int]]
    registers: int

    def again(self, loop: Operation, read: _Loop) -> Written | None:
        """Write another loop; None if its locations are equal elsewhere."""
        if any(read.places[a] != read.places[b] for a, b in self.same):
            return None
        copy = self.held.clone(ip=before(loop)).operation
        _, *made = located(copy)
        for each, number in zip(made, self.places, strict=True):
            put(each, read.places[number])
        for old, number, operands in self.uses:
            value = read.values[number]
            if value != old:
                for place, operand in operands:
                    made[place].operands[operand] = value
        results = [
            read.values[number] if place is None else made[place].results[number]
            for place, number in self.results
        ]
        for place in self.tops:
            made[place].move_before(copy)
        copy.erase()
        for old, new in zip(loop.results, results, strict=True):
            old.replace_all_uses_with(new)
        loop.erase()
        return Written(self.registers, results)


class WrittenLoops:
    """Writes loops one by one; those of one `family`, whose plans were made of one, alike."""

    def __init__(self, families: Sequence[Hashable]) -> None:
        self._more = Counter(families)
        self._recipes: dict[Hashable, list[_Recipe]] = {}

    def write(self, plan: Plan, buffers: list[VersionedBuffer], family: Hashable) -> Written:
        """Write the loop of a plan."""
        alone = family is None or self._more[family] == 1 or not can_be_placed()
        if alone or names.parts_of(plan.loop):
            return write_loop(plan, buffers)
        read = _Loop.read(plan, buffers)
        recipes = self._recipes.setdefault(family, [])
        for recipe in recipes:
            written = recipe.again(plan.loop, read) if recipe.key == read.key else None
            if written is not None:
                return written
        if len(recipes) > 1:
            return write_loop(plan, buffers)
        outside = {*captured(plan.loop), *(buffer.value for buffer in buffers)}
        span = Span.around(plan.loop)
        written = write_loop(plan, buffers)
        found = _recipe(read, outside, span.close(), written)
        if found is not None:
            recipes.append(found)
        return written

    def close(self) -> None:
        """When all loops are written: what is held uses what it was made of no longer."""
        for recipes in self._recipes.values():
            for recipe in recipes:
                recipe.held.erase()


def _recipe(
    read: _Loop, outside: set[Value], ops: list[Operation], written: Written
) -> _Recipe | None:
    """How to write a loop again that became `ops`; None if not all of it comes from the loop."""
    held = create("async_pipe.held", regions=1, ip=False, loc=read.places[0])
    ip = ir.InsertionPoint(held.regions[0].blocks.append())
    copied: dict[Value, Value] = {}
    for op in ops:
        clone(op, copied, ip)
    _, *made = located(held)
    numbers = {value: n for n, value in enumerate(read.values) if value in outside}
    uses: dict[Value, list[tuple[int, int]]] = {}
    makers: dict[Value, tuple[int, int]] = {}
    for place, each in enumerate(made):
        if not isinstance(each, ir.Operation):
            makers[each] = place, 0
            continue
        for operand, value in enumerate(each.operands):
            uses.setdefault(value, []).append((place, operand))
        makers.update((result, (place, number)) for number, result in enumerate(each.results))
    replaced = [copied.get(value, value) for value in written.results]
    needed = {*uses, *replaced} - makers.keys()
    # A location has no hash of its own; its attribute has.
    first: dict[Any, int] = {}
    firsts = [first.setdefault(place.attr, n) for n, place in enumerate(read.places)]
    found = [first.get(each.location.attr) for each in made]
    places = [number for number in found if number is not None]
    if not needed <= numbers.keys() or len(places) < len(found):
        held.erase()
        return None
    chosen = set(places)
    tops = [
        n for n, each in enumerate(made) if isinstance(each, ir.Operation) and parent(each) == held
    ]
    return _Recipe(
        read.key,
        held,
        places,
        tops,
        [(value, numbers[value], uses[value]) for value in needed if value in uses],
        [makers.get(value) or (None, numbers[value]) for value in replaced],
        [(a, b) for b, a in enumerate(firsts) if a < b and a in chosen],
        written.registers,
    )
