"""The control-flow rows: how each op with regions or successors moves control and values.

A row says in which order the regions of an op run, which operands enter them, how often a
loop iterates if that is constant, and which operands each successor of a branch receives.
Ops with regions that have no row may run their regions any number of times, in any thread.

    affine.for %i = 0 to 10 step 3            4 iterations
    scf.for unsigned %i = %c0 to %c-1_i8 …    255: bounds are read in the loop's own signedness

    func.call @f(%x)                   "f", the @f of the symbol table around the caller
    func.call_indirect %f(%x)          None
    llvm.call @__nv_expf(%x)           a function of the vendors' libraries of mathematics: pure
    llvm.call @__ockl_get_num_groups(%axis)      what ROCm's says of the launch: as pure
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    CONSTANT_OPS,
    SYMBOL_TABLES,
    Operation,
    as_kind,
    attributes_of,
    constant_value,
    defining_op,
    enclosing,
    grow_group,
    has_body,
    is_function,
    operations,
    symbol_name,
    type_text,
)
from mlir_async_pipe.session.diagnostics import AsyncPipeError

# The ops inside are one asynchronous copy together.
SCOPE = "async_pipe.scope"


def trip_count(lower: int, upper: int, step: int) -> int | None:
    """How often `for (i = lower; i < upper; i += step)` iterates; None for a step below 1."""
    if step < 1:
        return None
    return (upper - lower - 1) // step + 1 if lower < upper else 0


def scf_for_trips(op: Any) -> int | None:
    """The constant trip count of an scf.for, in its own signedness, else None."""
    # The upper bound first: it is the one that is seldom constant.
    upper = constant_value(op.operands[1])
    lower, step = (
        (None, None) if upper is None else (constant_value(op.operands[n]) for n in (0, 2))
    )
    if upper is None or lower is None or step is None:
        return None
    if "unsignedCmp" in op.attributes:
        bits = _index_bits(op.operands[0].type)
        lower, upper, step = (bound % (1 << bits) for bound in (lower, upper, step))
    return trip_count(lower, upper, step)


def affine_for_trips(op: Any) -> int | None:
    """The constant trip count of an affine.for with constant bounds, else None."""
    lower, upper = (_constant_map(op.attributes[f"{end}BoundMap"]) for end in ("lower", "upper"))
    if lower is None or upper is None:
        return None
    return trip_count(lower, upper, int(ir.IntegerAttr(op.attributes["step"]).value))


def affine_for_bounds(op: Any) -> tuple[Any, Any, int] | None:
    """Lower bound, upper bound and step of an affine.for, each an operand or a number; None
    where a bound is more than that (a sum, the least of several)."""
    first, second, *_ = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
    operands = list(op.operands)
    lower = _simple_bound(op.attributes["lowerBoundMap"], operands[:first])
    upper = _simple_bound(op.attributes["upperBoundMap"], operands[first : first + second])
    if lower is None or upper is None:
        return None
    return lower, upper, int(ir.IntegerAttr(op.attributes["step"]).value)


def _simple_bound(attribute: Any, operands: list[Any]) -> Any:
    constant = _constant_map(attribute)
    identity = constant is None and _IDENTITY_MAP.fullmatch(str(attribute))
    return operands[0] if identity else constant


def _index_bits(kind: Any) -> int:
    integer = as_kind(ir.IntegerType, kind)
    return 64 if integer is None else int(integer.width)


def _constant_map(attribute: Any) -> int | None:
    match = _CONSTANT_MAP.fullmatch(str(attribute))
    return None if match is None else int(match.group(1))


# affine_map<() -> (10)>
_CONSTANT_MAP = re.compile(r"affine_map<\(\) -> \((-?\d+)\)>")
# affine_map<(d0) -> (d0)> or affine_map<()[s0] -> (s0)>
_IDENTITY_MAP = re.compile(r"affine_map<(\(d0\)|\(\)\[s0\]) -> \((d0|s0)\)>")


Flow = Literal["for", "branch", "while", "once", "parallel", "isolated", "unknown"]


def true_first(op: Any) -> dict[int, int]:
    """An i1 picks region 0 where it is true, region 1 where it is not."""
    return {0: 1}


@dataclass(frozen=True)
class RegionRow:
    """One op kind with regions.

    `flow`: "for" (region 0 runs `trips` times), "branch" (one of `regions_of`, or none
    where that is empty), "while" (region 0, and while it says so region 1 and again),
    "once" (region 0 in place), "parallel" (each thread runs some part of region 0),
    "isolated" (another thread or function; values do not pass) or "unknown".
    `entry` numbers the operands that become the last arguments of region 0 and, for loops,
    are carried. `trips` is the static trip count, None if it is dynamic.
    `condition` is the operand that selects the region, None if no operand does; `cases` are the
    places in `regions_of` of what it selects, by its values: every value that is not in it
    stands for the place that is left. `may_skip`: it may also run none of them. `carries`: its
    regions can be given more values on the way in, round and out. `masked`: what is accessed in
    it may leave elements out. `in_scope`: may stand around copies that are made asynchronous.
    """

    op: str
    flow: Flow
    entry: Callable[[Any], range] = lambda op: range(0)
    trips: Callable[[Any], int | None] = lambda op: None
    condition: int | None = None
    cases: Callable[[Any], dict[int, int]] = true_first
    may_skip: bool = False
    carries: bool = False
    masked: bool = False
    in_scope: bool = False

    @property
    def is_if(self) -> bool:
        """Whether an i1 decides which of two regions runs."""
        return self.condition is not None and self.cases is true_first


# An op that no row describes: its regions run in any thread, in any order, any number of times.
UNKNOWN = RegionRow("", "unknown")


def _from(start: int) -> Callable[[Any], range]:
    return lambda op: range(start, len(op.operands))


def _last_segment(op: Any) -> range:
    sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    return range(len(op.operands) - sizes[-1], len(op.operands))


def _switch_cases(op: Any) -> dict[int, int]:
    cases = ir.DenseI64ArrayAttr(op.attributes["cases"])
    return {int(value): place for place, value in enumerate(cases, 1)}


_ISOLATED = (
    *("gpu.launch", "gpu.all_reduce", "func.func", "gpu.func", "llvm.func", "cuda.kernel"),
    *("gpu.module", "builtin.module"),
)
REGION_ROWS = {
    row.op: row
    for row in (
        RegionRow("scf.for", "for", _from(3), scf_for_trips, carries=True, in_scope=True),
        RegionRow("affine.for", "for", _last_segment, affine_for_trips, carries=True),
        RegionRow("scf.if", "branch", condition=0, carries=True, in_scope=True),
        RegionRow("affine.if", "branch", carries=True),
        RegionRow(
            *("scf.index_switch", "branch"),
            condition=0,
            cases=_switch_cases,
            carries=True,
            in_scope=True,
        ),
        RegionRow(
            *("gpu.warp_execute_on_lane_0", "branch"),
            condition=0,
            cases=lambda op: {0: 0},
            may_skip=True,
        ),
        RegionRow("scf.while", "while", _from(0), carries=True),
        RegionRow("scf.execute_region", "once", carries=True, in_scope=True),
        RegionRow("memref.alloca_scope", "once", carries=True),
        RegionRow(SCOPE, "once"),
        RegionRow("vector.mask", "once", masked=True),
        *(RegionRow(op, "parallel") for op in ("scf.forall", "scf.parallel", "affine.parallel")),
        *(RegionRow(op, "isolated") for op in _ISOLATED),
    )
}

CARRYING_OPS = tuple(row.op for row in REGION_ROWS.values() if row.carries)
LOOP_OPS = tuple(row.op for row in REGION_ROWS.values() if row.flow in ("for", "while", "parallel"))
WHILE_OPS = tuple(row.op for row in REGION_ROWS.values() if row.flow == "while")
COUNTED_LOOPS = tuple(row.op for row in REGION_ROWS.values() if row.flow == "for")


def regions_of(op: Any, row: RegionRow) -> Sequence[Any | None]:
    """The regions that may run, of which a "branch" op runs one; None stands for running none."""
    if row.flow != "branch":
        return op.regions
    regions = [region if len(list(region.blocks)) else None for region in op.regions]
    return [*regions, None] if row.may_skip else regions


def runs_once(op: Any) -> bool:
    """Whether an op runs its region exactly once, all of it."""
    row = REGION_ROWS.get(op.name)
    return row is not None and row.flow == "once" and not row.masked


def selected_region(op: Any, row: RegionRow, value: int) -> int:
    """The place in `regions_of` that runs if the condition has this constant value."""
    cases = row.cases(op)
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
    start = 1 + ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[1]
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
        why = f"'{op.name}' cannot hand on values: how it moves control is not known"
        raise AsyncPipeError(why, code="unfollowed-control-flow", at=op)
    ranges, operands = row.operands(op), list(op.operands)
    made = operands[: ranges[0].start]
    for old, added in zip(ranges, more, strict=True):
        made += [*operands[old.start : old.stop], *added]
    attributes = attributes_of(op)
    grow_group(attributes, 1, len(more[0]))
    grow_group(attributes, 2, sum(map(len, more[1:])))
    if "case_operand_segments" in attributes:
        cases = ir.DenseI32ArrayAttr(attributes["case_operand_segments"])
        grown = [size + len(added) for size, added in zip(cases, more[1:], strict=True)]
        attributes["case_operand_segments"] = ir.DenseI32ArrayAttr.get(grown, op.context)
    return made, attributes


BRANCH_ROWS = {
    row.op: row
    for dialect in ("cf", "llvm")
    for row in (
        BranchRow(f"{dialect}.br", _all_to_one),
        BranchRow(f"{dialect}.cond_br", _true_and_false, condition=True),
        BranchRow(f"{dialect}.switch", _default_and_cases, cases=_case_values),
    )
}

# Branches that forward values of LLVM types only: no tokens and no index values.
LLVM_BRANCHES = tuple(name for name in BRANCH_ROWS if name.startswith("llvm."))


def in_scope(op: Any) -> bool:
    """Whether an op may stand around, or jump between, copies that are made asynchronous."""
    row = REGION_ROWS.get(op.name)
    jumps = op.name in BRANCH_ROWS and op.name not in LLVM_BRANCHES
    return jumps if row is None else row.in_scope


# Terminators that end a region and hand operands (from this number on) to what follows.
EXIT_OPS = dict.fromkeys(
    "scf.yield affine.yield async_pipe.yield memref.alloca_scope.return func.return gpu.return cuda.return "
    "llvm.return gpu.terminator gpu.yield scf.reduce scf.reduce.return scf.forall.in_parallel linalg.yield "
    "memref.atomic_yield tensor.yield vector.yield".split(),
    0,
) | {"scf.condition": 1}

# Terminators that control never comes to.
DEAD_ENDS = ("llvm.unreachable", "ub.unreachable")


def leaves_region(op: Any) -> bool:
    """Whether the last op of a block certainly ends its region, and how is known."""
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


def callee_name(call: Any) -> str | None:
    """The symbol that a call names; None for an indirect call, and for what is no call."""
    attribute = CALL_OPS.get(call.name, "")
    if not attribute or attribute not in call.attributes:
        return None
    symbol = as_kind(ir.FlatSymbolRefAttr, call.attributes[attribute])
    return None if symbol is None else str(symbol.value)


# Marks a function that stands for one piece of inline assembly: it is followed where it is called only.
ASSEMBLY = "async_pipe.assembly"


def followed_callee(call: Any) -> Operation | None:
    """The function with a body that a call names; None if it is called by a value, or stands in
    another module."""
    name, table = callee_name(call), enclosing(call, SYMBOL_TABLES)
    for op in operations(table.regions[0].blocks[0]) if name and table else ():
        if is_function(op) and symbol_name(op) == name:
            return op if has_body(op) else None
    return None


def calls_mathematics(call: Any) -> bool:
    """Whether an op calls a function of CUDA's or ROCm's libraries that is given numbers alone, and makes one of them
    that is the same in all threads which give the same."""
    return (callee_name(call) or "").startswith(_MATHEMATICS) and not any(
        type_text(operand.type).startswith(("!llvm.ptr", "memref<")) for operand in call.operands
    )


_SIZES_OF_LAUNCH = ("__ockl_get_num_groups", "__ockl_get_local_size", "__ockl_get_global_size")
_MATHEMATICS = ("__nv_", "__ocml_", *_SIZES_OF_LAUNCH)
