"""The integer arithmetic of an expanded loop: bounds, trip count, iteration numbers.

    trips = lb < ub ? (ub - lb - 1) divui step + 1 : 0     in the loop's own signedness
    the kernel ends at lb + (trips - (S-1)) * step

The single ops are those of `IntegerWriter`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter, bits_of


class Integers(IntegerWriter):
    """Writes integer ops for one loop at a movable insertion point."""

    def __init__(self, loop: Operation, peeled: int, trip_count: int | None, ip: Any) -> None:
        super().__init__(ip, loop.location)
        self.lower, self.upper, self.step = list(loop.operands)[:3]
        self.kind = self.lower.type
        self.peeled = peeled
        self.trip_count = trip_count
        self.unsigned = "unsignedCmp" in loop.attributes
        self.use_constants((self.lower, self.upper, self.step))

    # -- iteration numbers as values of the induction variable --------------------------------

    def first_plus(self, iterations: int) -> Value:
        """lb + iterations * step."""
        return self.plus_steps(self.lower, iterations)

    def end_plus(self, iterations: int) -> Value:
        """kernel end + iterations * step, of a kernel that begins with the loop."""
        return self.plus_steps(self.kernel_end, iterations)

    def may_begin_later(self) -> bool:
        """Whether a kernel of a loop that has the peeled iterations may begin at lb + peeled * step instead, and end
        where the loop does: that is no other number, and needs no trip count."""
        lower, step = self.value_of(self.lower), self.value_of(self.step)
        if lower is None or step is None:
            return False
        largest = 1 << min(bits_of(self.kind), 32) - 1
        return (0 if self.unsigned else -largest) <= lower < largest - self.peeled * step

    def plus_steps(self, start: Value, steps: int) -> Value:
        """start + steps * step."""
        if steps == 0:
            return start
        return self.add(start, self.multiply(self.step, self.constant(steps, self.kind)))

    @cached_property
    def kernel_end(self) -> Value:
        """lb + (trips - peeled) * step, where `peeled` steps are left to the epilogue; written where it is first asked
        for."""
        if self.trip_count is not None:
            return self.first_plus(self.trip_count - self.peeled)
        if self.peeled == 0:
            return self.upper
        count = self.subtract(self.trips, self.constant(self.peeled, self.kind))
        return self.add(self.lower, self.multiply(count, self.step))

    @cached_property
    def trips(self) -> Value:
        """How often the loop runs; written where it is first asked for."""
        count = self.subtract(self.upper, self.lower)
        if self.value_of(self.step) != 1:
            one = self.constant(1, self.kind)
            span = self.binary("arith.divui", self.subtract(count, one), self.step)
            count = self.add(span, one)
        return self.select(self.begins, count, self.constant(0, self.kind))

    def last(self, trips: Value) -> Value:
        """lb + (trips - 1) * step, for `trips` of 1 or more given as an index."""
        count = trips
        if str(self.kind) != "index":
            known = self.value_of(trips)
            count = (
                self.constant(known, self.kind)
                if known is not None
                else self.cast("arith.index_castui", trips, self.kind)
            )
        return self.add(
            self.lower, self.multiply(self.subtract(count, self.constant(1, self.kind)), self.step)
        )

    @property
    def begins(self) -> Value:
        """lb < ub in the loop's signedness, as an i1."""
        return self.is_before(self.lower, self.upper)

    def has_iteration(self, number: int) -> Value:
        """number < trips, as an i1. (lb + number * step < ub would not do: the sum may
        overflow, so that an unsigned loop from -3 to -1 would have an iteration 3, at 0.)"""
        begins = self.begins
        if number == 0:
            return begins
        if self.value_of(self.step) is not None:
            return self.binary("arith.andi", begins, self.goes_on_for(self.lower, number))
        return self.compare("ult", self.constant(number, self.kind), self.trips)

    def end_of_all_but(self, last: int) -> Value:
        """Of a loop that has iterations: an induction variable below this has `last` more after it.

        ub - last * step, or lb where that would lie before it and could be another number."""
        step, lower = self.value_of(self.step), self.value_of(self.lower)
        if self.trip_count is not None:
            return self.first_plus(max(self.trip_count - last, 0))
        if step is None:
            enough = self.has_iteration(last)
            count = self.subtract(self.trips, self.constant(last, self.kind))
            end = self.add(self.lower, self.multiply(count, self.step))
            return self.select(enough, end, self.lower)
        end = self.plus_steps(self.upper, -last)
        smallest = 0 if self.unsigned else -(1 << min(bits_of(self.kind), 32) - 1)
        if lower is not None and lower - last * step >= smallest:
            return end
        return self.select(self.goes_on_for(self.lower, last), end, self.lower)

    def goes_on_for(self, variable: Value, iterations: int) -> Value:
        """Of an iteration of the loop, whether it has `iterations` more after it, as an i1.

        ub - variable > iterations * step: unsigned the distance is exact in loops of either
        signedness, since variable < ub. No distance is as large as 2^bits."""
        step = self.value_of(self.step)
        if step is None:
            return self.is_before(variable, self.end_of_all_but(iterations))
        distance = self.subtract(self.upper, variable)
        return self._compare_distance("ugt", distance, iterations * step)

    def has_come_for(self, variable: Value, iterations: int) -> Value:
        """Of an iteration of the loop, whether it has `iterations` before it, as an i1.

        variable - lb >= iterations * step, unsigned as in `goes_on_for`."""
        step = self.value_of(self.step)
        distance = self.subtract(variable, self.lower)
        if iterations == 1:
            return self.compare("ne", distance, self.constant(0, self.kind))
        if step is None:
            count = self.binary("arith.divui", distance, self.step)
            return self.compare("uge", count, self.constant(iterations, self.kind))
        return self._compare_distance("uge", distance, iterations * step)

    def _compare_distance(self, predicate: str, distance: Value, least: int) -> Value:
        """Compare an unsigned distance, of which none is as large as 2^bits."""
        if least >= 1 << bits_of(self.kind):
            return self.constant(0, ir.IntegerType.get_signless(1, self.context))
        return self.compare(predicate, distance, self.constant(least, self.kind))

    def is_before(self, value: Value, end: Value) -> Value:
        """value < end in the loop's signedness, as an i1."""
        return self.compare("ult" if self.unsigned else "slt", value, end)

    def trips_as_index(self) -> Value:
        """How often the loop runs, which is never negative."""
        if self.trip_count is not None:
            return self.constant(self.trip_count, self.index)
        trips = self.trips
        if str(trips.type) == "index":
            return trips
        return self.cast("arith.index_castui", trips, self.index)
