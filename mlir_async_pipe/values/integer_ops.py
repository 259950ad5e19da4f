"""The integer ops that address arithmetic is made of, and how chains of them are followed.

CASTS, ADD, SUB, MUL, DIVISIONS, REMAINDERS      op names by what they compute
FOLLOWED                                          all ops that the analyses look through
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Value,
    defining_op,
    is_block_argument,
    is_function,
)

ZERO_EXTENDING = ("arith.index_castui", "index.castu")
CASTS = ("arith.index_cast", "index.casts", *ZERO_EXTENDING)
ADD = ("arith.addi", "index.add")
SUB = ("arith.subi", "index.sub")
MUL = ("arith.muli", "index.mul")
DIVISIONS = ("arith.divui", "arith.divsi", "arith.floordivsi", "index.divu", "index.divs")
REMAINDERS = ("arith.remui", "arith.remsi", "index.remu", "index.rems")
SHIFTS = ("arith.shli", "arith.shrui")
# They read the bits of their operands as numbers that are not negative.
UNSIGNED = frozenset(
    "arith.divui arith.remui arith.shrui arith.minui arith.maxui index.divu index.remu".split()
)
FOLLOWED = frozenset(
    (
        *ADD,
        *SUB,
        *MUL,
        *CASTS,
        *DIVISIONS,
        *REMAINDERS,
        "affine.apply",
        "affine.delinearize_index",
        "affine.linearize_index",
        "arith.shli",
        "arith.shrui",
        "arith.andi",
        "arith.ori",
        "arith.xori",
        "arith.select",
        "arith.minui",
        "arith.minsi",
        "arith.maxui",
        "arith.maxsi",
    )
)


# In the order of the numbers that arith.cmpi and llvm.icmp have for them (arith::CmpIPredicate).
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def memoised(value: Value, known: dict[Value, Any], step: Callable[..., Any]) -> Any:
    """Compute `step` bottom-up without Python recursion: chains may be 10^5 ops long."""
    if value in known:
        return known[value]
    pending = [value]
    while pending:
        current = pending[-1]
        if current in known:
            pending.pop()
            continue
        op = defining_op(current)
        missing = (
            [o for o in op.operands if o not in known]
            if op is not None and op.name in FOLLOWED
            else []
        )
        if missing:
            pending.extend(missing)
            continue
        known[current] = step(current, known.__getitem__)
        pending.pop()
    return known[value]


def thread_dimension(op: Any) -> int:
    """0, 1, 2 for the dimension x, y, z of a gpu id op."""
    # #gpu<dim x>, in younger stacks #gpu<dim<x>>.
    text = str(op.attributes["dimension"]).rstrip(">")
    return "xyz".index(text[-1])


def product(sizes: Any) -> int:
    """The product of a sequence of integers."""
    return reduce(lambda a, b: a * b, sizes, 1)


INDEX_BITS = 64


def bits_of(kind: Any) -> int:
    """Bits of an integer type; index has 64."""
    text = str(kind)
    return int(text[1:]) if text[0] == "i" and text[1:].isdigit() else INDEX_BITS


def as_signed(number: int, bits: int) -> int:
    """The signed number that the lowest bits of `number` stand for; i1 is 0 or 1."""
    if bits == 1:
        return number & 1
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def does_not_wrap(op: Any) -> bool:
    """Whether an op says that its result fits into its type as a signed number."""
    return "overflowFlags" in op.attributes and "nsw" in str(op.attributes["overflowFlags"])


def is_size(value: Value) -> bool:
    """Whether a value is an argument of type index of a function or launch: taken to be 0 or
    more. What loops carry, and what branches hand on, may be anything."""
    if not is_block_argument(value) or str(value.type) != "index":
        return False
    block = ir.BlockArgument(value).owner
    holder = block.owner.operation
    if not is_function(holder) and holder.name != "gpu.launch":
        return False
    return bool(block == holder.regions[0].blocks[0])


def is_induction_variable(value: Value) -> bool:
    """Whether the value is the induction variable of an scf.for."""
    if not is_block_argument(value):
        return False
    argument = ir.BlockArgument(value)
    return argument.arg_number == 0 and argument.owner.owner.operation.name == "scf.for"
