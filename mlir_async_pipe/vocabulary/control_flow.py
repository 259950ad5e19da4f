"""The control-flow rows: how each op with regions or successors moves control and values.

A row says in which order the regions of an op run, which operands enter them, how often a
loop iterates if that is constant, and which operands each successor of a branch receives.
Ops with regions that have no row may run their regions any number of times, in any thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    CONSTANT_OPS,
    attributes_of,
    constant_value,
    defining_op,
)
from mlir_async_pipe.session.diagnostics import AsyncPipeError

Flow = Literal["for", "branch", "while", "once", "parallel", "isolated", "unknown"]


@dataclass(frozen=True)
class RegionRow:
    """One op kind with regions.

    `flow`: "for" (region 0 runs `trips` times), "branch" (one of `branch_regions`, or none
    where that is empty), "while" (region 0, and while it says so region 1 and again),
    "once" (region 0 in place), "parallel" (each thread runs some part of region 0),
    "isolated" (another thread or function; values do not pass) or "unknown".
    `entry` numbers the operands that become the last arguments of region 0 and, for loops,
    are carried. `trips` is the static trip count, None if it is dynamic.
    `condition` is the operand that selects the region, None if no operand does. `masked`: what
    is accessed in it may leave elements out.
    """

    op: str
    flow: Flow
    entry: Callable[[Any], range] = lambda op: range(0)
    trips: Callable[[Any], int | None] = lambda op: None
    condition: int | None = None
    masked: bool = False


# An op that no row describes: its regions run in any thread, in any order, any number of times.
UNKNOWN = RegionRow("", "unknown")


def trip_count(lower: int, upper: int, step: int) -> int | None:
    """How often `for (i = lower; i < upper; i += step)` iterates; None for a step below 1."""
    if step < 1:
        return None
    return (upper - lower - 1) // step + 1 if lower < upper else 0


def scf_for_trips(op: Any) -> int | None:
    """The constant trip count of an scf.for, in its own signedness, else None."""
    bounds = []
    # The upper bound first: it is the one that is seldom constant.
    for number in (1, 0, 2):
        bound = constant_value(op.operands[number])
        if bound is None:
            return None
        bounds.append(bound)
    upper, lower, step = bounds
    if "unsignedCmp" in op.attributes:
        bits = _index_bits(op.operands[0].type)
        lower, upper, step = (bound % (1 << bits) for bound in (lower, upper, step))
    return trip_count(lower, upper, step)


def affine_for_trips(op: Any) -> int | None:
    """The constant trip count of an affine.for with constant bounds, else None."""
    lower = _constant_map(op.attributes["lowerBoundMap"])
    upper = _constant_map(op.attributes["upperBoundMap"])
    if lower is None or upper is None:
        return None
    return trip_count(lower, upper, int(ir.IntegerAttr(op.attributes["step"]).value))


def affine_for_bounds(op: Any) -> tuple[Any, Any, int] | None:
    """Lower bound, upper bound and step of an affine.for, each an operand or a number; None
    where a bound is more than that (a sum, the least of several)."""
    sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    operands = list(op.operands)
    lower = _simple_bound(op.attributes["lowerBoundMap"], operands[: sizes[0]])
    upper = _simple_bound(op.attributes["upperBoundMap"], operands[sizes[0] : sizes[0] + sizes[1]])
    if lower is None or upper is None:
        return None
    return lower, upper, int(ir.IntegerAttr(op.attributes["step"]).value)


def _simple_bound(attribute: Any, operands: list[Any]) -> Any:
    constant = _constant_map(attribute)
    if constant is not None:
        return constant
    return operands[0] if _IDENTITY_MAP.fullmatch(str(attribute)) else None


def _index_bits(kind: Any) -> int:
    try:
        return int(ir.IntegerType(kind).width)
    except ValueError:
        return 64


def _constant_map(attribute: Any) -> int | None:
    match = _CONSTANT_MAP.fullmatch(str(attribute))
    return None if match is None else int(match.group(1))


# affine_map<() -> (10)>
_CONSTANT_MAP = re.compile(r"affine_map<\(\) -> \((-?\d+)\)>")
# affine_map<(d0) -> (d0)> or affine_map<()[s0] -> (s0)>
_IDENTITY_MAP = re.compile(r"affine_map<(\(d0\)|\(\)\[s0\]) -> \((d0|s0)\)>")


def _from(start: int) -> Callable[[Any], range]:
    return lambda op: range(start, len(op.operands))


def _last_segment(op: Any) -> range:
    sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    return range(len(op.operands) - sizes[-1], len(op.operands))


REGION_ROWS = {
    row.op: row
    for row in (
        RegionRow("scf.for", "for", _from(3), scf_for_trips),
        RegionRow("affine.for", "for", _last_segment, affine_for_trips),
        RegionRow("scf.if", "branch", condition=0),
        RegionRow("affine.if", "branch"),
        RegionRow("scf.index_switch", "branch", condition=0),
        RegionRow("gpu.warp_execute_on_lane_0", "branch", condition=0),
        RegionRow("scf.while", "while", _from(0)),
        RegionRow("scf.execute_region", "once"),
        RegionRow("memref.alloca_scope", "once"),
        RegionRow("async_pipe.scope", "once"),
        RegionRow("vector.mask", "once", masked=True),
        RegionRow("scf.forall", "parallel"),
        RegionRow("scf.parallel", "parallel"),
        RegionRow("affine.parallel", "parallel"),
        RegionRow("gpu.launch", "isolated"),
        RegionRow("func.func", "isolated"),
        RegionRow("gpu.func", "isolated"),
        RegionRow("llvm.func", "isolated"),
        RegionRow("gpu.module", "isolated"),
        RegionRow("builtin.module", "isolated"),
    )
}

# Ops whose regions can be given more values on the way in, round and out.
CARRYING_OPS = (
    "scf.for",
    "affine.for",
    "scf.if",
    "affine.if",
    "scf.index_switch",
    "scf.while",
    "scf.execute_region",
    "memref.alloca_scope",
)


def branch_regions(op: Any) -> list[Any | None]:
    """The regions of which a "branch" op runs one; None stands for running none."""
    regions = [region if len(list(region.blocks)) else None for region in op.regions]
    return [*regions, None] if op.name == "gpu.warp_execute_on_lane_0" else regions


def region_cases(op: Any) -> dict[int, int]:
    """The place in `branch_regions` of what a "branch" op runs, by the values of its condition;
    every value that is not in it stands for the place that is left."""
    if op.name == "scf.index_switch":
        cases = list(ir.DenseI64ArrayAttr(op.attributes["cases"]))
        return {int(value): place for place, value in enumerate(cases, 1)}
    # Lane 0 of a warp runs the region, an i1 that is not 0 the first one.
    return {0: 0} if op.name == "gpu.warp_execute_on_lane_0" else {0: 1}


def selected_region(op: Any, row: RegionRow, value: int) -> int:
    """The place in `branch_regions` that runs if the condition has this constant value."""
    cases = region_cases(op)
    rest = next(n for n in range(len(cases) + 1) if n not in cases.values())
    return cases.get(value, rest)


@dataclass(frozen=True)
class BranchRow:
    """A terminator with successors. `operands` are the numbers of those that each successor
    is given. `condition`: operand 0 is an i1 that picks successor 0 (true) or 1 (false);
    `cases`: the values of operand 0 that pick successors 1, 2, …, any other one picks 0."""

    op: str
    operands: Callable[[Any], list[range]]
    condition: bool = False
    cases: Callable[[Any], list[int]] | None = None


def _all_to_one(op: Any) -> list[range]:
    return [range(len(op.operands))]


def _true_and_false(op: Any) -> list[range]:
    segments = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
    # By index, not unpacked: that would make an iterator of the bindings (docs/speed.md).
    yes, no = segments[1], segments[2]
    return [range(1, 1 + yes), range(1 + yes, 1 + yes + no)]


def _default_and_cases(op: Any) -> list[range]:
    segments = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
    start = 1 + segments[1]
    found = [range(1, start)]
    if "case_operand_segments" in op.attributes:
        for size in ir.DenseI32ArrayAttr(op.attributes["case_operand_segments"]):
            found.append(range(start, start + size))
            start += size
    return found


def _case_values(op: Any) -> list[int]:
    if "case_values" not in op.attributes:
        return []
    return [int(value) for value in ir.DenseIntElementsAttr(op.attributes["case_values"])]


def with_successor_operands(
    op: Any, more: Sequence[Sequence[Any]]
) -> tuple[list[Any], dict[str, Any]]:
    """Operands and attributes of a branch that hands `more[i]` on to successor i as well.

    Raises AsyncPipeError if no row says what its successors are given.
    """
    row = BRANCH_ROWS.get(op.name)
    if row is None:
        raise AsyncPipeError(
            f"'{op.name}' cannot hand on values: how it moves control is not known",
            code="unfollowed-control-flow",
            at=op,
        )
    ranges = row.operands(op)
    operands = list(op.operands)
    made = operands[: ranges[0].start]
    for old, added in zip(ranges, more, strict=True):
        made += [*operands[old.start : old.stop], *added]
    attributes = attributes_of(op)
    if "operandSegmentSizes" in attributes:
        sizes = list(ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"]))
        sizes[1] += len(more[0])
        sizes[2] += sum(len(added) for added in more[1:])
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, op.context)
    if "case_operand_segments" in attributes:
        cases = ir.DenseI32ArrayAttr(attributes["case_operand_segments"])
        grown = [size + len(added) for size, added in zip(cases, more[1:], strict=True)]
        attributes["case_operand_segments"] = ir.DenseI32ArrayAttr.get(grown, op.context)
    return made, attributes


BRANCH_ROWS = {
    row.op: row
    for row in (
        BranchRow("cf.br", _all_to_one),
        BranchRow("cf.cond_br", _true_and_false, condition=True),
        BranchRow("cf.switch", _default_and_cases, cases=_case_values),
        BranchRow("llvm.br", _all_to_one),
        BranchRow("llvm.cond_br", _true_and_false, condition=True),
        BranchRow("llvm.switch", _default_and_cases, cases=_case_values),
    )
}

# Branches that hand on values of LLVM types only: no tokens and no index values.
LLVM_BRANCHES = ("llvm.br", "llvm.cond_br", "llvm.switch")

# Terminators that end a region and hand operands (from this number on) to what follows.
EXIT_OPS = {
    "scf.yield": 0,
    "scf.condition": 1,
    "affine.yield": 0,
    "async_pipe.yield": 0,
    "memref.alloca_scope.return": 0,
    "func.return": 0,
    "gpu.return": 0,
    "llvm.return": 0,
    "gpu.terminator": 0,
    "gpu.yield": 0,
    "scf.reduce": 0,
    "scf.reduce.return": 0,
    "scf.forall.in_parallel": 0,
    "linalg.yield": 0,
    "memref.atomic_yield": 0,
    "tensor.yield": 0,
    "vector.yield": 0,
}

# Terminators that control never comes to.
DEAD_ENDS = ("llvm.unreachable", "ub.unreachable")


def leaves_region(op: Any) -> bool:
    """Whether the last op of a block surely ends its region, and how is known."""
    return op.name in EXIT_OPS or op.name in DEAD_ENDS


# Calls, and the attribute that names the callee (absent: an indirect call).
CALL_OPS = {
    "func.call": "callee",
    "llvm.call": "callee",
    "gpu.call": "callee",
    "func.call_indirect": "",
}

# `%r = select %c, %a, %b`: operand numbers of condition, true and false value.
SELECT_OPS = ("arith.select", "llvm.select")

# Ops whose result 0 is their operand 0 under another type.
CAST_OPS = ("builtin.unrealized_conversion_cast",)

# `%n = xor %c, true` is the negation of an i1.
XOR_OPS = ("arith.xori", "llvm.xor")


def truth(value: Any) -> tuple[Any, bool] | bool:
    """What decides an i1: a constant, or (the value behind all negations, its polarity)."""
    polarity = True
    while True:
        op = defining_op(value)
        if op is None:
            return value, polarity
        name = op.name
        if name in CONSTANT_OPS:
            constant = constant_value(value)
            return (value, polarity) if constant is None else bool(constant) == polarity
        if name not in XOR_OPS:
            return value, polarity
        left, right = op.operands
        for flag, other in ((left, right), (right, left)):
            known = constant_value(flag)
            if known is not None:
                polarity, value = polarity != bool(known), other
                break
        else:
            return value, polarity
