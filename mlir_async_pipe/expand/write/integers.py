"""The integer arithmetic of an expanded loop: bounds, trip count, iteration numbers.

    trips = lb < ub ? (ub - lb - 1) divui step + 1 : 0     in the loop's own signedness
    the kernel ends at lb + (trips - (S-1)) * step

Constants are folded while writing, equal values are written once in each block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    constant_value,
    create,
)
from mlir_async_pipe.values.integer_ops import as_signed, bits_of

# arith.cmpi predicates: LLVM LangRef, icmp (order of the enumeration in MLIR's arith).
EQUAL, SIGNED_LESS, UNSIGNED_LESS, UNSIGNED_AT_LEAST = 0, 2, 6, 9


class Integers:
    """Writes integer ops for one loop at a movable insertion point."""

    def __init__(
        self, loop: Operation, last_stage: int, peeled: int, trip_count: int | None, ip: Any
    ) -> None:
        self.loop = loop
        self.location = loop.location
        self.context = loop.context
        self.lower, self.upper, self.step = list(loop.operands)[:3]
        self.kind = self.lower.type
        self.index = ir.IndexType.get(loop.context)
        self.last_stage = last_stage
        self.peeled = peeled
        self.trip_count = trip_count
        self.unsigned = "unsignedCmp" in loop.attributes
        self.ip = ip
        self._values: dict[Value, int | None] = {}
        self._known: list[dict[Any, Value]] = [self._constants_of_bounds()]
        self._trips: Value | None = None
        self._kernel_end: Value | None = None

    def _value_of(self, value: Value) -> int | None:
        """The number that a value is known to be; each value is asked once."""
        if value not in self._values:
            self._values[value] = constant_value(value)
        return self._values[value]

    def _constants_of_bounds(self) -> dict[Any, Value]:
        """Constants that the loop's bounds are already."""
        found: dict[Any, Value] = {}
        for bound in (self.lower, self.upper, self.step):
            value = self._value_of(bound)
            if value is not None:
                found[("constant", value, bound.type)] = bound
        return found

    def enter(self, ip: Any) -> None:
        """Write into a nested block from now on; what was written outside stays visible."""
        self.ip = ip
        self._known.append({})

    def leave(self, ip: Any) -> None:
        """Back to the block outside; what was written inside is forgotten."""
        self.ip = ip
        self._known.pop()

    # -- iteration numbers as values of the induction variable --------------------------------

    def first_plus(self, iterations: int) -> Value:
        """lb + iterations * step."""
        return self.plus_steps(self.lower, iterations)

    def end_plus(self, iterations: int) -> Value:
        """kernel end + iterations * step."""
        assert self._kernel_end is not None
        return self.plus_steps(self._kernel_end, iterations)

    def plus_steps(self, start: Value, steps: int) -> Value:
        """start + steps * step."""
        if steps == 0:
            return start
        return self.add(start, self.multiply(self.step, self.constant(steps, self.kind)))

    def kernel_upper_bound(self) -> Value:
        """lb + (trips - peeled) * step, where `peeled` steps are left to the epilogue."""
        if self.trip_count is not None:
            steps = self.trip_count - self.peeled
            if steps == 0:
                self._kernel_end = self.lower
            else:
                self._kernel_end = self.plus_steps(self.lower, steps)
        elif self.peeled == 0:
            self._kernel_end = self.upper
        else:
            count = self.subtract(self.trips(), self.constant(self.peeled, self.kind))
            self._kernel_end = self.add(self.lower, self.multiply(count, self.step))
        return self._kernel_end

    def trips(self) -> Value:
        """The trip count as a value."""
        if self._trips is None:
            count = self.subtract(self.upper, self.lower)
            if self._value_of(self.step) != 1:
                one = self.constant(1, self.kind)
                span = self._binary("arith.divui", self.subtract(count, one), self.step)
                count = self.add(span, one)
            self._trips = self.select(
                self.before_end(self.lower), count, self.constant(0, self.kind)
            )
        return self._trips

    def last(self, trips: Value) -> Value:
        """lb + (trips - 1) * step, for `trips` of 1 or more given as an index."""
        count = trips
        if str(self.kind) != "index":
            known = self._value_of(trips)
            count = (
                self.constant(known, self.kind)
                if known is not None
                else self._once(("back", trips), "arith.index_castui", (trips,), self.kind)
            )
        return self.add(
            self.lower, self.multiply(self.subtract(count, self.constant(1, self.kind)), self.step)
        )

    def before_end(self, value: Value) -> Value:
        """value < ub in the loop's signedness, as an i1."""
        return self.is_before(value, self.upper)

    def has_iteration(self, number: int) -> Value:
        """number < trips, as an i1. (lb + number * step < ub would not do: the sum may
        overflow, so that an unsigned loop from -3 to -1 would have an iteration 3, at 0.)"""
        if number == 0:
            return self.before_end(self.lower)
        return self.compare(UNSIGNED_LESS, self.constant(number, self.kind), self.trips())

    def end_of_all_but(self, last: int) -> Value:
        """lb + max(trips - last, 0) * step: an induction variable below it has `last` more
        iterations behind it."""
        enough = self.has_iteration(last)
        count = self.subtract(self.trips(), self.constant(last, self.kind))
        end = self.add(self.lower, self.multiply(count, self.step))
        return self.select(enough, end, self.lower)

    def is_before(self, value: Value, end: Value) -> Value:
        """value < end in the loop's signedness, as an i1."""
        return self.compare(UNSIGNED_LESS if self.unsigned else SIGNED_LESS, value, end)

    def long_enough(self) -> Value:
        """trips >= S-1, as an i1."""
        return self.compare(
            UNSIGNED_AT_LEAST, self.trips(), self.constant(self.last_stage, self.kind)
        )

    # -- slots --------------------------------------------------------------------------------

    def slot(self, number: int) -> Value:
        """A constant slot index."""
        return self.constant(number, self.index)

    def next_slot(self, slot: Value, versions: int) -> Value:
        """slot + 1, back to 0 behind the last version; powers of two mask instead."""
        following = self.add(slot, self.slot(1))
        if versions & (versions - 1) == 0:
            return self._binary("arith.andi", following, self.slot(versions - 1))
        wraps = self.compare(EQUAL, following, self.slot(versions))
        return self.select(wraps, self.slot(0), following)

    def slot_before_end(self, iteration: int, versions: int) -> Value:
        """(iteration + 1 - trips) mod V: counted so, the last iteration has slot 0."""
        if self.trip_count is not None:
            return self.slot((iteration + 1 - self.trip_count) % versions)
        trips = self.as_index(self.trips())
        if versions & (versions - 1) == 0:
            distance = self.subtract(self.slot(iteration + 1), trips)
            return self._binary("arith.andi", distance, self.slot(versions - 1))
        rest = self._binary("arith.remui", trips, self.slot(versions))
        # The number is in (0, 2 V): iteration + 1 <= V, and rest < V.
        start = self.subtract(self.slot(iteration + 1 + versions), rest)
        return self._binary("arith.remui", start, self.slot(versions))

    def as_index(self, value: Value) -> Value:
        """A trip count as an index; it is never negative."""
        if str(value.type) == "index":
            return value
        return self._once(("index", value), "arith.index_castui", (value,), self.index)

    # -- single ops ---------------------------------------------------------------------------

    def constant(self, value: int, kind: Any) -> Value:
        """An arith.constant of an integer or index type, modulo 2^bits: 120 + 3 * 50 as i8 is
        14, what the ops that are folded here would compute."""
        value = as_signed(value, bits_of(kind))
        made = self._once(
            ("constant", value, kind),
            "arith.constant",
            (),
            kind,
            lambda: {"value": ir.IntegerAttr.get(kind, value)},
        )
        self._values[made] = value
        return made

    def zero(self, kind: Any, value: Any) -> Value:
        """An arith.constant of any type, given its zero as an attribute."""
        key = ("zero", str(kind))
        return self._once(key, "arith.constant", (), kind, lambda: {"value": value})

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        x, y = self._value_of(a), self._value_of(b)
        if x is not None and y is not None:
            return self.constant(x + y, a.type)
        if x == 0:
            return b
        if y == 0:
            return a
        return self._binary("arith.addi", a, b)

    def subtract(self, a: Value, b: Value) -> Value:
        """a - b."""
        x, y = self._value_of(a), self._value_of(b)
        if x is not None and y is not None:
            return self.constant(x - y, a.type)
        if y == 0:
            return a
        return self._binary("arith.subi", a, b)

    def multiply(self, a: Value, b: Value) -> Value:
        """a * b."""
        x, y = self._value_of(a), self._value_of(b)
        if x is not None and y is not None:
            return self.constant(x * y, a.type)
        if y == 1:
            return a
        return b if x == 1 else self._binary("arith.muli", a, b)

    def compare(self, predicate: int, a: Value, b: Value) -> Value:
        """arith.cmpi with a predicate number."""
        i64 = ir.IntegerType.get_signless(64, self.context)
        return self._once(
            ("arith.cmpi", predicate, a, b),
            "arith.cmpi",
            (a, b),
            ir.IntegerType.get_signless(1, self.context),
            lambda: {"predicate": ir.IntegerAttr.get(i64, predicate)},
        )

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """condition ? a : b."""
        return self._once(
            ("arith.select", condition, a, b), "arith.select", (condition, a, b), a.type
        )

    def _binary(self, name: str, a: Value, b: Value) -> Value:
        return self._once((name, a, b), name, (a, b), a.type)

    def _once(
        self,
        key: Any,
        name: str,
        operands: tuple[Value, ...],
        kind: Any,
        attributes: Callable[[], dict[str, Any]] = dict[str, Any],
    ) -> Value:
        for known in self._known:
            if key in known:
                return known[key]
        made = create(name, operands, [kind], attributes(), ip=self.ip, loc=self.location).results[
            0
        ]
        self._known[-1][key] = made
        return made
