"""At which iteration distances two accesses of a loop can touch the same location.

Access a in iteration k and access b in iteration k + d (d >= 0) meet in one dimension iff

    a(k) + [0, extent_a - 1]  and  b(k + d) + [0, extent_b - 1]  overlap.

With a = A k + r_a and b = A k + A d + r_b (subscripts linear in the iteration number k with
the same factor A = coefficient * step) that is A d in [lo, hi], where

    lo = min(r_a - r_b) - (extent_b - 1),   hi = max(r_a - r_b) + (extent_a - 1).

Example: store C[i], load C[i - 2]: A = 1, r_a - r_b = 2, so exactly d = 2.
Values that differ between the two ends (thread ids, inner induction variables, anything
computed from a load) enter with their ranges, once for each end; values that are the same
at both ends cancel. What has no bound leaves every distance possible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    constant_value,
    defining_op,
    is_block_argument,
    is_function,
    source_op,
)
from mlir_async_pipe.facts.values.linear import Arithmetic, Linear
from mlir_async_pipe.facts.values.memory_roots import may_alias
from mlir_async_pipe.facts.values.sums import scaled, subtract, without
from mlir_async_pipe.pipeliner.dependence.footprint import OutOfBounds, footprint, static_shape
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion
from mlir_async_pipe.vocabulary import VIEW_OPS, row_of
from mlir_async_pipe.vocabulary.launch_ids import launch_id


class Distances(NamedTuple):
    """The distances d in [low, high] at which two accesses may meet; high None: no end.

    Of those only d = residue modulo `modulus` count: a slot index `i mod 2` written by hand
    meets itself at even distances. `proven` is True if the distances come from the
    subscripts, False if nothing could be said and every distance has to be assumed.
    """

    low: int
    high: int | None
    proven: bool
    modulus: int = 1
    residue: int = 0

    def smallest(self, least: int) -> int | None:
        """The smallest distance that is at least `least`, None if there is none."""
        start = max(least, self.low)
        found = start + (self.residue - start) % self.modulus
        return None if self.high is not None and found > self.high else found


EVERY = Distances(0, None, False)
# The subscripts are the same at every distance: C[0] meets C[0] in each iteration.
ALWAYS = Distances(0, None, True)


class LoopIndex:
    """What is the same at both ends of a dependence, and what moves with the iteration."""

    def __init__(self, loop: Operation, arithmetic: Arithmetic) -> None:
        self.loop = loop
        self.arithmetic = arithmetic
        self.induction = loop.regions[0].blocks[0].arguments[0]
        self.step = constant_value(loop.operands[2])
        self._varies: dict[Value, bool] = {}
        self._distances: dict[tuple[int, int, bool, bool], Distances | None] = {}

    def distances(
        self,
        a: CoveredRegion,
        b: CoveredRegion,
        *,
        same_thread: bool,
        assume_noalias_arguments: bool = False,
    ) -> Distances | None:
        """The distances at which `b`, d iterations after `a`, may meet it; None for never.

        Dependences, versions and barriers all ask, so each question is answered once."""
        key = (a.position, b.position, same_thread, assume_noalias_arguments)
        if key not in self._distances:
            self._distances[key] = self._find_distances(a, b, same_thread, assume_noalias_arguments)
        return self._distances[key]

    def _find_distances(
        self, a: CoveredRegion, b: CoveredRegion, same_thread: bool, assume_noalias_arguments: bool
    ) -> Distances | None:
        if a.root is None or b.root is None:
            return EVERY
        if not may_alias(a.root, b.root, assume_noalias_arguments=assume_noalias_arguments):
            return None
        if a.subscripts is None or b.subscripts is None or a.base != b.base:
            return EVERY
        if not self._stays(a.base, same_thread):
            return EVERY
        assert a.extent is not None and b.extent is not None
        low, high, narrowed, unknown, modulus, residue = 0, None, False, False, 1, 0
        for sa, sb, ea, eb in zip(a.subscripts, b.subscripts, a.extent, b.extent, strict=True):
            found = self._dimension(sa, sb, ea, eb, same_thread)
            if found is None:
                return None
            if found == EVERY:
                unknown = True
            elif found != ALWAYS:
                narrowed = True
                if found.modulus > modulus:
                    modulus, residue = found.modulus, found.residue
                low = max(low, found.low)
                if found.high is not None:
                    high = found.high if high is None else min(high, found.high)
        # One dimension that narrows the distances is enough; without one all must be known.
        distances = Distances(low, high, narrowed or not unknown, modulus, residue)
        if distances.smallest(0) is None or (unknown and self._apart(a, b)):
            return None
        return distances

    def _stays(self, base: Value | str, same_thread: bool) -> bool:
        """Whether both ends count from one place: a base that is a view lies where its numbers say."""
        while not isinstance(base, str):
            op = defining_op(base)
            if op is None or op.name not in VIEW_OPS:
                return True
            if not all(self._same(number, same_thread) for number in list(op.operands)[1:]):
                return False
            base = op.operands[0]
        return True

    def _same(self, value: Value, same_thread: bool) -> bool:
        """Whether a value is the same at both ends."""
        return not self.varies(value) or (same_thread and self.is_outside(value))

    def _apart(self, a: CoveredRegion, b: CoveredRegion) -> bool:
        """Whether the elements that all threads touch by the one access are none of the other's:
        wave w copies 512 elements to 2048 w, and 512 to 2048 w + 512."""
        first, second = self._footprint(a), self._footprint(b)
        return first is not None and second is not None and not (first & second).any()

    def _footprint(self, region: CoveredRegion) -> np.ndarray | None:
        """The elements of an access that are the same in every iteration, None if not known."""
        size, shape = self.arithmetic.block_size, static_shape(region)
        if size is None or region.root is None or region.root.space != "workgroup":
            return None
        try:
            return None if shape is None else footprint(region, shape, size)
        except OutOfBounds:
            return None

    def _dimension(
        self, a: Linear, b: Linear, extent_a: int, extent_b: int, same_thread: bool
    ) -> Distances | None:
        rotating = self._rotating(a, b, extent_a, extent_b)
        if rotating is not None:
            return rotating
        factor = a.coefficient(self.induction)
        if factor != b.coefficient(self.induction):
            return EVERY
        low, high = self._difference(
            without(a, self.induction), without(b, self.induction), same_thread
        )
        if factor == 0 and low == high == 0:
            return ALWAYS
        low = None if low is None else low - (extent_b - 1)
        high = None if high is None else high + (extent_a - 1)
        if factor == 0:
            # The iteration number does not occur: either never, or at every distance.
            if (low is not None and low > 0) or (high is not None and high < 0):
                return None
            return EVERY
        if factor < 0:
            factor, low, high = (
                -factor,
                None if high is None else -high,
                None if low is None else -low,
            )
        if high is not None and high < 0:
            return None
        # An unknown positive step is at least 1, so d is at most hi / coefficient.
        stride = factor * (self.step if self.step is not None else 1)
        last = None if high is None else high // stride
        first = 0
        if low is not None and low > 0:
            if self.step is None:
                first = 1
            else:
                first = -(-low // stride)
        if last is not None and first > last:
            return None
        if last is None and first == 0:
            return EVERY
        return Distances(first, last, True)

    def _rotating(self, a: Linear, b: Linear, extent_a: int, extent_b: int) -> Distances | None:
        """Both subscripts are a slot number f mod V with f linear in the iteration:

        A k + r_a = A (k + d) + r_b (mod V)  iff  A d = r_a - r_b (mod V)

        None if they do not have this form, or if V - 1 distances of V are possible anyway.
        """
        if self.step is None or (extent_a, extent_b) != (1, 1):
            return None
        first, second = self._slot_form(a), self._slot_form(b)
        if first is None or second is None or first[1] != second[1]:
            return None
        versions = first[1]
        difference = subtract(first[0], second[0])
        factor = first[0].coefficient(self.induction) * self.step
        if difference.terms or versions < 2:
            return None
        found = [d for d in range(versions) if (factor * d - difference.constant) % versions == 0]
        if len(found) != 1:
            return None
        return Distances(0, None, True, versions, found[0])

    def _slot_form(self, form: Linear) -> tuple[Linear, int] | None:
        """(f, V) if the form is the single symbol f mod V."""
        if form.constant or len(form.terms) != 1:
            return None
        ((symbol, factor),) = form.terms
        return self.arithmetic.remainder(symbol) if factor == 1 else None

    def _difference(self, a: Linear, b: Linear, same_thread: bool) -> tuple[int | None, int | None]:
        """The range of a - b, where symbols that are the same at both ends cancel."""
        low: int | None = a.constant - b.constant
        high: int | None = a.constant - b.constant
        ours, theirs = dict(a.terms), dict(b.terms)
        for symbol in ours | theirs:
            ca, cb = ours.get(symbol, 0), theirs.get(symbol, 0)
            factors = (ca - cb,) if self._same(symbol, same_thread) else (ca, -cb)
            if not any(factors):
                continue
            interval = self.arithmetic.value_range(symbol)
            for part_low, part_high in (scaled(interval, factor) for factor in factors):
                low = None if low is None or part_low is None else low + part_low
                high = None if high is None or part_high is None else high + part_high
        return low, high

    def is_outside(self, value: Value) -> bool:
        """Whether a value is defined outside the loop (the same in every iteration)."""
        op = source_op(value)
        if op == self.loop and is_block_argument(value):
            return False
        return self.loop not in list(ancestors(op))

    def varies(self, value: Value) -> bool:
        """Whether a value may differ between threads or between iterations of the loop.

        Block ids, function arguments and pure functions of them are the same; thread ids,
        loaded values, loop-carried values and everything computed from them are not.
        """
        pending = [value]
        while pending:
            current = pending[-1]
            if current in self._varies:
                pending.pop()
                continue
            op = defining_op(current)
            known = launch_id(current)
            if known is not None:
                self._varies[current] = known.differs
            elif op is None:
                self._varies[current] = self._argument_varies(current)
            elif not (row := row_of(op)).pure or row.agree == "differs" or len(op.regions):
                self._varies[current] = True
            else:
                missing = [o for o in op.operands if o not in self._varies]
                if missing:
                    pending.extend(missing)
                    continue
                self._varies[current] = any(self._varies[o] for o in op.operands)
            pending.pop()
        return self._varies[value]

    def _argument_varies(self, argument: Value) -> bool:
        block = ir.BlockArgument(argument).owner
        holder = block.owner.operation
        if holder == self.loop:
            return True
        if is_function(holder):
            return block != holder.regions[0].blocks[0]
        # The induction variable of a loop around ours is the same at both ends.
        around = holder in list(ancestors(self.loop))
        is_index = holder.name == "scf.for" and ir.BlockArgument(argument).arg_number == 0
        return not (around and is_index)


def subscripts_equal(a: CoveredRegion, b: CoveredRegion) -> bool:
    """Whether both accesses of one thread and one iteration cover the same elements."""
    if a.subscripts is None or b.subscripts is None or a.base != b.base:
        return False
    if a.extent != b.extent:
        return False
    return all(x == y for x, y in zip(a.subscripts, b.subscripts, strict=True))
