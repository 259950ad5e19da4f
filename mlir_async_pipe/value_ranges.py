"""Intervals of integer values: what a remainder, a mask or a thread id can be.

    %lane = arith.remui %tid, %c32      [0, 31]
    %row = arith.divui %tid, %c4        [0, 31] with 128 threads

An unbounded end is None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.index_splitting import JOIN, SPLIT, parts_of, weights_of
from mlir_async_pipe.integer_ops import (
    ADD,
    CASTS,
    DIVISIONS,
    FOLLOWED,
    MUL,
    REMAINDERS,
    SUB,
)
from mlir_async_pipe.ir_helpers import Value, constant_value, defining_op
from mlir_async_pipe.launch_ids import LaunchId, launch_id


def scale_range(
    interval: tuple[int | None, int | None], factor: int
) -> tuple[int | None, int | None]:
    """The interval of `factor * x` for x in `interval`."""
    low, high = interval
    a = None if low is None else low * factor
    b = None if high is None else high * factor
    return (a, b) if factor >= 0 else (b, a)


def range_step(
    value: Value,
    get: Callable[[Value], tuple[int | None, int | None]],
    block_size: tuple[int, int, int] | None,
) -> tuple[int | None, int | None]:
    """The interval of one value; `get` gives those of its operands."""
    constant = constant_value(value)
    if constant is not None:
        return constant, constant
    known = launch_id(value)
    if known is not None:
        return _launch_range(known, block_size)
    op = defining_op(value)
    if op is None:
        return _induction_range(value)
    name = op.name
    if name == "memref.dim":
        return 0, None
    if name not in FOLLOWED:
        return None, None
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


def _operator_range(
    op: Any, name: str, ranges: list[tuple[int | None, int | None]]
) -> tuple[int | None, int | None]:
    if name in CASTS:
        return ranges[0]
    if name == "arith.select":
        (a, b), (c, d) = ranges[1], ranges[2]
        return (
            None if a is None or c is None else min(a, c),
            None if b is None or d is None else max(b, d),
        )
    if len(ranges) != 2:
        return None, None
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
        return (0, min(masks)) if masks else (None, None)
    if name in ("arith.minui", "arith.minsi") and a is not None and c is not None:
        highs = [h for h in (b, d) if h is not None]
        return min(a, c), (min(highs) if highs else None)
    if a is None or b is None or c is None or d is None or a < 0 or c < 0:
        return None, None
    if name in MUL:
        return a * c, b * d
    if name in DIVISIONS and c > 0:
        return a // d, b // c
    if name == "arith.shli" and d < 63:
        return a << c, b << d
    if name == "arith.shrui":
        return a >> d, b >> c
    if name in ("arith.ori", "arith.xori"):
        return 0, (1 << max(b.bit_length(), d.bit_length())) - 1
    if name in ("arith.maxui", "arith.maxsi"):
        return max(a, c), max(b, d)
    return None, None


def _induction_range(value: Value) -> tuple[int | None, int | None]:
    """The range of an scf.for induction variable with constant bounds."""
    block = ir.BlockArgument(value).owner
    loop = block.owner.operation
    if loop.name != "scf.for" or ir.BlockArgument(value).arg_number != 0:
        return None, None
    lower, upper = constant_value(loop.operands[0]), constant_value(loop.operands[1])
    return lower, (None if upper is None else upper - 1)
