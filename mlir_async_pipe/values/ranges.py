"""Intervals of integer values: what a remainder, a mask or a thread id can be.

    %lane = arith.remui %tid, %c32      [0, 31]
    %row = arith.divui %tid, %c4        [0, 31] with 128 threads

An unbounded end is None. Integers are held as signed numbers: what does not provably fit its type
has the whole range of it; of 64 bits that are only numbers whose ends are known to be too large.
i1 has no range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, constant_value, defining_op
from mlir_async_pipe.values.index_splitting import (
    JOIN,
    SPLIT,
    parts_of,
    weights_of,
)
from mlir_async_pipe.values.integer_ops import (
    ADD,
    CASTS,
    DIVISIONS,
    FOLLOWED,
    INDEX_BITS,
    MUL,
    REMAINDERS,
    SUB,
    UNSIGNED,
    ZERO_EXTENDING,
    bits_of,
    does_not_wrap,
    is_induction_variable,
    is_size,
)
from mlir_async_pipe.values.launch_ids import LaunchId, launch_id

Interval = tuple[int | None, int | None]
ANYTHING: Interval = (None, None)


def scale_range(interval: Interval, factor: int) -> Interval:
    """The interval of `factor * x` for x in `interval`."""
    low, high = interval
    a = None if low is None else low * factor
    b = None if high is None else high * factor
    return (a, b) if factor >= 0 else (b, a)


def range_step(
    value: Value,
    get: Callable[[Value], Interval],
    block_size: tuple[int, int, int] | None,
) -> Interval:
    """The interval of one value; `get` gives those of others, its operands above all."""
    bits = bits_of(value.type)
    if bits == 1:
        return ANYTHING
    exact = _exact_range(value, get, block_size)
    return exact if fits(exact, bits) else _type_range(bits)


def fits(interval: Interval, bits: int) -> bool:
    """Whether all numbers of an interval are signed numbers of a type: for 64 bits those are
    that nothing bounds, sizes and what is made of them."""
    low, high = interval
    half = 1 << (bits - 1)
    if bits < INDEX_BITS and (low is None or high is None):
        return False
    return (low is None or low >= -half) and (high is None or high < half)


def _type_range(bits: int) -> Interval:
    half = 1 << (bits - 1)
    return -half, half - 1


def is_exact(op: Any, get: Callable[[Value], Interval]) -> bool:
    """Whether the result of an op with one is the number that it computes, and not only the same
    modulo 2^bits; `get` gives the intervals of its operands."""
    bits = bits_of(op.results[0].type)
    if bits == 1 or any(bits_of(operand.type) == 1 for operand in op.operands):
        return False
    if op.name in ZERO_EXTENDING and bits > bits_of(op.operands[0].type):
        low, _ = get(op.operands[0])
        return low is not None and low >= 0
    if does_not_wrap(op):
        return True
    return fits(_operator_range(op, op.name, [get(operand) for operand in op.operands]), bits)


def _exact_range(
    value: Value, get: Callable[[Value], Interval], block_size: tuple[int, int, int] | None
) -> Interval:
    constant = constant_value(value)
    if constant is not None:
        return constant, constant
    known = launch_id(value)
    if known is not None:
        return _launch_range(known, block_size)
    op = defining_op(value)
    if op is None:
        return (0, None) if is_size(value) else _induction_range(value, get)
    name = op.name
    if name == "memref.dim":
        return 0, None
    if name not in FOLLOWED:
        return ANYTHING
    ranges = [get(operand) for operand in op.operands]
    if name == SPLIT:
        return _part_range(value, op, ranges[0])
    if name == JOIN:
        return _joined_range(op, ranges)
    return _operator_range(op, name, ranges)


def _launch_range(
    known: LaunchId, block_size: tuple[int, int, int] | None
) -> tuple[int, int | None]:
    if known.kind == "lane":
        return 0, 63
    if block_size is None or known.kind not in ("thread", "block_size"):
        return 0, None
    size = block_size[known.axis]
    return (0, size - 1) if known.kind == "thread" else (size, size)


def _part_range(
    value: Value, op: Any, whole: tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    parts = parts_of(op)
    if parts is None:
        return None, None
    part = parts[ir.OpResult(value).result_number]
    highs = [] if part.bound is None else [part.bound - 1]
    if whole[0] is not None and whole[0] >= 0 and whole[1] is not None:
        highs.append(whole[1] // part.stride)
    if part.modulus is None and (whole[0] is None or whole[0] < 0) and part.bound is None:
        return None, None
    return 0, min(highs, default=None)


def _joined_range(
    op: Any, ranges: list[tuple[int | None, int | None]]
) -> tuple[int | None, int | None]:
    weights = weights_of(op)
    if weights is None:
        return None, None
    scaled = [scale_range(r, w) for r, w in zip(ranges, weights, strict=False)]
    lows, highs = zip(*scaled, strict=True)
    return (
        None if None in lows else sum(low or 0 for low in lows),
        None if None in highs else sum(high or 0 for high in highs),
    )


def _operator_range(op: Any, name: str, ranges: list[Interval]) -> Interval:
    """The interval of the number that an op computes, before it is fitted into a type."""
    given = bits_of(op.operands[0].type)
    if name in CASTS:
        return _as_unsigned(ranges[0], given) if name in ZERO_EXTENDING else ranges[0]
    if name == "arith.select":
        return _joint(ranges[1], ranges[2])
    if len(ranges) != 2:
        return ANYTHING
    if name in UNSIGNED:
        ranges = [_as_unsigned(interval, given) for interval in ranges]
    (a, b), (c, d) = ranges
    if name in ADD:
        return (
            None if a is None or c is None else a + c,
            None if b is None or d is None else b + d,
        )
    if name in SUB:
        return (
            None if a is None or d is None else a - d,
            None if b is None or c is None else b - c,
        )
    if name in REMAINDERS and c is not None and c == d and c > 0 and a is not None and a >= 0:
        return 0, c - 1 if b is None else min(b, c - 1)
    if name == "arith.andi":
        masks = [high for low, high in ranges if low is not None and low >= 0 and high is not None]
        return (0, min(masks)) if masks else ANYTHING
    if name in ("arith.minui", "arith.minsi") and a is not None and c is not None:
        highs = [h for h in (b, d) if h is not None]
        return min(a, c), (min(highs) if highs else None)
    if name == "arith.shli" and (c is None or d is None or c < 0 or d >= given):
        return ANYTHING
    if a is None or b is None or c is None or d is None:
        return ANYTHING
    if name in MUL:
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)
    if name == "arith.shli":
        return min(a << c, a << d), max(b << c, b << d)
    if a < 0 or c < 0:
        return ANYTHING
    if name in DIVISIONS and c > 0:
        return a // d, b // c
    if name == "arith.shrui":
        return a >> d, b >> c
    if name in ("arith.ori", "arith.xori"):
        return 0, (1 << max(b.bit_length(), d.bit_length())) - 1
    if name in ("arith.maxui", "arith.maxsi"):
        return max(a, c), max(b, d)
    return ANYTHING


def _joint(first: Interval, second: Interval) -> Interval:
    (a, b), (c, d) = first, second
    return (
        None if a is None or c is None else min(a, c),
        None if b is None or d is None else max(b, d),
    )


def _as_unsigned(interval: Interval, bits: int) -> Interval:
    """What unsigned ops read of signed numbers in an interval."""
    low, high = interval
    if low is not None and low >= 0:
        return interval
    turn = 1 << bits
    if low is not None and high is not None and high < 0:
        return low + turn, high + turn
    return 0, turn - 1


def _induction_range(value: Value, get: Callable[[Value], Interval]) -> Interval:
    """The range of an scf.for induction variable, by the ranges of its bounds."""
    if not is_induction_variable(value):
        return ANYTHING
    loop = ir.BlockArgument(value).owner.owner.operation
    lower, upper = get(loop.operands[0]), get(loop.operands[1])
    if "unsignedCmp" in loop.attributes:
        bits = bits_of(value.type)
        lower, upper = _as_unsigned(lower, bits), _as_unsigned(upper, bits)
    return lower[0], (None if upper[1] is None else upper[1] - 1)
