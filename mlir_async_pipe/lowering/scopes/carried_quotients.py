"""Counts the quotients and remainders of a loop's counter, instead of dividing in each iteration.

    scf.for %k = %c0 to %n step %c32 {            scf.for %k = … iter_args(%h = 0, %w = 0) {
      %tap = arith.divui %k, %c32         -->       … %h, %w …
      %h = arith.divui %tap, %c3                    %more = %w + 1, %over = %more >= 3
      %w = arith.remui %tap, %c3                    yield %h + %over, %over ? %more - 3 : %more
      … %h, %w …                                  }
    }

A division of 64 bits by a constant is 10 instructions and more, and a convolution by taps (kh, kw) needs two: 36 of its 125
on gfx942, 21 of 108 on sm_80. What begins with f and advances by s = a d + b has r + b or r + b - d as its next remainder, and
the quotient advances by a or a + 1. Powers of two are shifts, and counters of 32 bits divide in 4 instructions: both stay.

The counter may be advanced by a constant, as that of copies that run ahead is, and divided by what divides its step.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    again,
    before,
    constant,
    constant_value,
    terminator,
    type_text,
    walk_named,
)
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter

_UNSIGNED = {"arith.divui": True, "arith.remui": False}
_SIGNED = {"arith.divsi": True, "arith.floordivsi": True, "arith.remsi": False}
_IS_QUOTIENT = _UNSIGNED | _SIGNED
# A counter stays below 2^63, and so does one of these more as an unsigned number below 2^64.
_LARGEST_ADVANCE = 2**31


@dataclass(frozen=True)
class Counted:
    """A value that is `first` in the first iteration and `step` more in each one after it; both at least 0. A
    `small` one stays below 2^63."""

    first: int
    step: int
    small: bool


def carry_quotients(gpu_module: Operation) -> None:
    """Rewrite the divisions in all loops whose counters have 64 bits and begin with constants."""
    for loop in walk_named(gpu_module, "scf.for".__eq__):
        counter = loop.regions[0].blocks[0].arguments[0]
        low, step = (constant_value(loop.operands[place]) for place in (0, 2))
        if type_text(counter.type) != "index" or "unsignedCmp" in loop.attributes:
            continue
        if low is not None and step is not None and low >= 0 and step > 0:
            found = _divisions(counter, Counted(low, step, True))
            if found:
                _carry(loop, found)


Divisions = dict[tuple[int, int, int], list[Operation]]
"""By first number, step and divisor, the ops that divide."""


def _divisions(counter: Value, counted: Counted) -> Divisions:
    """The divisions of a counter, and of what is counted with it, that are worth carrying."""
    found: Divisions = defaultdict(list)
    known = [(counter, counted)]
    while known:
        value, has = known.pop()
        for use in value.uses:
            op, place = use.owner.operation, use.operand_number
            if op.name == "arith.addi":
                more = constant_value(op.operands[1 - place])
                if more is not None and 0 <= more < _LARGEST_ADVANCE and has.small:
                    known.append((op.results[0], Counted(has.first + more, has.step, more == 0)))
                continue
            divisor = (
                constant_value(op.operands[1]) if place == 0 and op.name in _IS_QUOTIENT else None
            )
            if divisor is None or divisor < 1 or not (has.small or op.name in _UNSIGNED):
                continue
            if has.step % divisor == 0:
                if _IS_QUOTIENT[op.name]:
                    small = has.small or divisor > 1
                    divided = Counted(has.first // divisor, has.step // divisor, small)
                    known.append((op.results[0], divided))
            elif divisor & (divisor - 1):
                found[has.first, has.step, divisor].append(op)
    return found


def _carry(loop: Operation, divisions: Divisions) -> None:
    """Let a loop carry a quotient and a remainder for each of the divisions."""
    block, index = loop.regions[0].blocks[0], loop.operands[0].type
    begins = [
        constant(number, index, before(loop), loop.location)
        for first, _, divisor in divisions
        for number in divmod(first, divisor)
    ]
    end = terminator(block)
    write, nexts = IntegerWriter(before(end), loop.location), list[Value]()
    for (_, step, divisor), ops in divisions.items():
        quotient, remainder = (block.add_argument(index, loop.location) for _ in range(2))
        for op in ops:
            op.results[0].replace_all_uses_with(quotient if _IS_QUOTIENT[op.name] else remainder)
            op.erase()
        whole, rest = divmod(step, divisor)
        more = write.add(remainder, rest)
        over = write.compare("uge", more, divisor)
        less = write.binary("arith.subi", more, divisor)
        nexts.append(
            write.add(write.add(quotient, whole), write.cast("arith.index_castui", over, index))
        )
        nexts.append(write.select(over, less, more))
    again(end, [*end.operands, *nexts])
    kinds = [*(result.type for result in loop.results), *(value.type for value in begins)]
    again(loop, [*loop.operands, *begins], kinds)
