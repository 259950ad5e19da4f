"""Functions that expanding tells apart by nothing: one is expanded, the others become what it became.

    func @f(%A : memref<16xf32>) { alloca … scf.for … }      planned and written
    func @g(%A : memref<17xf32>) { alloca … scf.for … }      a copy of @f's new body, with the
                                                             arguments and places of @g

Equal functions print the same, but for their names, and are run by blocks of one size. The first size of
memory that a function is handed may differ too where nothing but subscripts uses the memory, and nobody
asked for its size (`shape_of`) while the first function was planned. Places may differ where those of
the first function do. What names symbols, and what planning had to tell of, is like no other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.located import can_be_placed, located, put
from mlir_async_pipe.bindings.memo import asked
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    attributes_of,
    before,
    enclosing,
    is_function,
    parent,
    symbol_name,
)
from mlir_async_pipe.bindings.run_on_copy import take_body
from mlir_async_pipe.bindings.type_classes import type_text
from mlir_async_pipe.dependence.footprint import shape_of
from mlir_async_pipe.dependence.surroundings import Surroundings
from mlir_async_pipe.expand.equal.shared_plans import VARIANTS
from mlir_async_pipe.expand.loop_record import LoopRecord
from mlir_async_pipe.expand.plan.pipeline_plan import Plan
from mlir_async_pipe.session.diagnostics import Diagnostics, Place
from mlir_async_pipe.vocabulary import accesses

_FIRST_SIZE = re.compile(r"(?<=memref<)\d+(?=x)")


class Function:
    """A function, and those of its loops that are planned."""

    def __init__(self, op: Operation, loops: list[Operation]) -> None:
        self.op = op
        self.loops = loops
        self.name = symbol_name(op)

    def key(self, around: Surroundings) -> Hashable | None:
        """What equal functions have in common; None for one that is like no other."""
        text = self.op.get_asm(use_local_scope=True, assume_verified=True)
        rest = _FIRST_SIZE.sub("", text.replace(f"@{self.name}", "", 1))
        return None if "@" in rest else (parent(self.op), around.launch_size(self.loops[0]), rest)

    @cached_property
    def located(self) -> list[Any]:
        """What has a location: the function, its arguments, all that is in it."""
        return located(self.op)

    @cached_property
    def places(self) -> list[Any]:
        """The unknown location, which views of slots have, and those of all that has one."""
        return [ir.Location.unknown(self.op.context), *(each.location for each in self.located)]

    @cached_property
    def arguments(self) -> list[Value]:
        """What the function is handed."""
        return list(self.op.regions[0].blocks[0].arguments)


class First(Function):
    """A function that others are like. `number` is that of its first plan."""

    def __init__(self, function: Function, number: int) -> None:
        super().__init__(function.op, function.loops)
        self.number = number
        self.kinds = [value.type for value in function.arguments]
        self._attributes = attributes_of(function.op)

    def fits(self, other: Function) -> bool:
        """Whether a function of the same key is equal."""
        return (
            all(
                kind == its.type or may_differ
                for kind, its, may_differ in zip(
                    self.kinds, other.arguments, self._unsized, strict=True
                )
            )
            and self._memory is not None
            and all(other.located[n].results[m].type == kind for n, m, kind in self._memory)
            and all(other.places[a] == other.places[b] for a, b in self._same_places)
            and all(
                Place.at(other.places[a]) == Place.at(other.places[b])
                for a, b in self._places_told_alike
            )
        )

    @cached_property
    def _unsized(self) -> list[bool]:
        """Of which arguments the first size is not looked at."""
        sized = asked(shape_of)
        return [value not in sized and _is_subscripted(value) for value in self.arguments]

    @cached_property
    def _memory(self) -> list[tuple[int, int, Any]] | None:
        """The memory that the function makes: number of the op, of its result, and its type. None
        if something else names types of memory."""
        found = []
        for n, each in enumerate(self.located):
            if not isinstance(each, ir.Operation):
                if n > len(self.arguments) and _is_memory(each.type):
                    return None
                continue
            for m, result in enumerate(each.results):
                if _is_memory(result.type):
                    found.append((n, m, result.type))
            for name, attribute in attributes_of(each).items():
                if not (n == 0 and name == "function_type") and "memref<" in str(attribute):
                    return None
        return found

    @cached_property
    def numbers(self) -> dict[Any, int]:
        """By location where in `places` it stands first: by its attribute, it has no hash itself."""
        found: dict[Any, int] = {}
        for number, place in enumerate(self.places):
            found.setdefault(place.attr, number)
        return found

    @cached_property
    def _same_places(self) -> list[tuple[int, int]]:
        firsts = ((self.numbers[place.attr], n) for n, place in enumerate(self.places))
        return [(first, number) for first, number in firsts if first < number]

    @cached_property
    def _places_told_alike(self) -> list[tuple[int, int]]:
        """Pairs of other locations that are one place in records."""
        told = ((self.places_of_records[Place.at(place)], n) for n, place in enumerate(self.places))
        return [(a, b) for a, b in told if self.places[a] != self.places[b]]

    @cached_property
    def places_of_records(self) -> dict[Place, int]:
        """Where in `places` stands what a record tells as a place."""
        found: dict[Place, int] = {}
        for number, place in enumerate(self.places):
            found.setdefault(Place.at(place), number)
        return found

    @cached_property
    def places_after(self) -> list[int | None]:
        """The numbers of the locations in what the function became; None for one of no op."""
        return [self.numbers.get(each.location.attr) for each in located(self.op)[1:]]

    @cached_property
    def attributes_after(self) -> dict[str, Any]:
        """What the function has been given beside a body."""
        given = attributes_of(self.op)
        return {name: given[name] for name in given if given[name] != self._attributes.get(name)}


class EqualFunctions:
    """The functions of the loops to be planned, in the order of the text; without `share` each is
    like no other. `diagnostics` is what planning may tell."""

    def __init__(
        self, loops: list[Operation], share: bool, around: Surroundings, diagnostics: Diagnostics
    ) -> None:
        self._around = around
        self._diagnostics = diagnostics
        self._functions = [
            Function(op, list(own))
            for op, own in groupby(loops, lambda loop: enclosing(loop, FUNCTION_OPS) or loop)
        ]
        # A text costs a thirtieth of a plan.
        alike = Counter(len(each.loops) for each in self._functions if is_function(each.op))
        self._may_be_equal = {
            n for n, count in alike.items() if count > 1 and share and can_be_placed()
        }
        self._firsts: dict[Hashable, list[First]] = {}
        self._copies: list[Copy] = []
        # Of each loop that is pipelined the number of the plan, and the copy that it is in.
        self._entries: list[tuple[int, Copy | None]] = []

    def plans(
        self, plan_of: Callable[[Operation], Plan | None]
    ) -> list[tuple[Operation, Plan | None]]:
        """The loops of all functions that are no copies, each with its plan."""
        found: list[tuple[Operation, Plan | None]] = []
        made = 0
        for function in self._functions:
            key = self._key(function)
            firsts = self._firsts.setdefault(key, [])
            first = next((each for each in firsts if each.fits(function)), None)
            if first is not None:
                self._copies.append(Copy(first, function))
                numbers = range(first.number, first.number + len(first.loops))
                self._entries += [(number, self._copies[-1]) for number in numbers]
                continue
            told, start = len(self._diagnostics.items), made
            for loop in function.loops:
                found.append((loop, plan_of(loop)))
                if found[-1][1] is not None:
                    self._entries.append((made, None))
                    made += 1
            whole = made - start == len(function.loops)
            silent = len(self._diagnostics.items) == told
            if key is not None and whole and silent and len(firsts) < VARIANTS:
                firsts.append(First(function, start))
        return found

    def _key(self, function: Function) -> Hashable | None:
        if not is_function(function.op) or len(function.loops) not in self._may_be_equal:
            return None
        return function.key(self._around)

    def records(self, of_plans: list[LoopRecord]) -> list[tuple[int, LoopRecord]]:
        """The record of each loop that is pipelined, and the number of its plan."""
        return [
            (number, of_plans[number] if copy is None else copy.record(of_plans[number]))
            for number, copy in self._entries
        ]

    def write(self) -> None:
        """When all plans are written: write the copies."""
        for copy in self._copies:
            copy.write()


class Copy:
    """A function that becomes what the first one becomes; made before the first edit."""

    def __init__(self, first: First, function: Function) -> None:
        self.first = first
        self._function = function
        self._kinds = [value.type for value in function.arguments]

    def record(self, of_first: Any) -> Any:
        """A record of the first function as one of this; a place is that of an op."""
        if isinstance(of_first, Place):
            return Place.at(self._function.places[self.first.places_of_records[of_first]])
        if type(of_first) is tuple:
            return tuple(map(self.record, of_first))
        if not hasattr(of_first, "__dataclass_fields__"):
            return of_first
        moved = {
            name: self.record(getattr(of_first, name)) for name in of_first.__dataclass_fields__
        }
        if "function" in moved:
            moved["function"] = self._function.name
        return replace(of_first, **moved)

    def write(self) -> None:
        """Give the function the body of what the first one became."""
        first, function = self.first, self._function
        made = first.op.clone(ip=before(function.op)).operation
        for each, number in zip(located(made)[1:], first.places_after, strict=True):
            if number is not None:
                put(each, function.places[number])
        arguments = made.regions[0].blocks[0].arguments
        for n, kind in enumerate(self._kinds):
            if kind != first.kinds[n]:
                arguments[n].set_type(kind)
        take_body(function.op, made)
        made.erase()
        for name, value in first.attributes_after.items():
            function.op.attributes[name] = value


def _is_subscripted(memory: Value) -> bool:
    """Whether nothing but accesses with subscripts uses it."""
    return all(
        any(
            access.memory_operand == use.operand_number
            and access.indices
            and access.extent is not None
            for access in accesses(use.owner.operation)
        )
        for use in memory.uses
    )


def _is_memory(kind: Any) -> bool:
    return "memref<" in type_text(kind)
