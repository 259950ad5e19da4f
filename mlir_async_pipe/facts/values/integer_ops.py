"""Widths and roots of integers, and how chains of the ops in `operator_table` are followed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Value,
    constant_value,
    defining_op,
    is_block_argument,
    is_function,
    type_text,
)
from mlir_async_pipe.facts.flow.algorithms import computed
from mlir_async_pipe.vocabulary.operator_table import OPERATORS

# In the order of the numbers that arith.cmpi and llvm.icmp have for them (arith::CmpIPredicate).
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def memoised(value: Value, known: dict[Value, Any], step: Callable[..., Any]) -> Any:
    """Compute `step` of what operators make, operands first."""

    def operands(current: Value) -> Iterable[Value]:
        op = defining_op(current)
        return op.operands if op is not None and op.name in OPERATORS else ()

    return computed(value, known, operands, lambda current: step(current, known.__getitem__))


INDEX_BITS = 64


@cache
def bits_of_text(kind: str) -> int | None:
    """Bits of a type as it is printed, None if it is neither an integer type nor index."""
    if kind == "index":
        return INDEX_BITS
    return int(kind[1:]) if kind[0] == "i" and kind[1:].isdigit() else None


def bits_of(kind: Any) -> int:
    """Bits of an integer type; index has 64."""
    return bits_of_text(type_text(kind)) or INDEX_BITS


def integer_constant(value: Value) -> int | None:
    """The number of a constant; of an i1 0 or 1."""
    number = constant_value(value)
    return 1 if number == -1 and type_text(value.type) == "i1" else number


def as_signed(number: int, bits: int) -> int:
    """The signed number that the lowest bits of `number` stand for; i1 is 0 or 1."""
    if bits == 1:
        return number & 1
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def is_size(value: Value) -> bool:
    """Whether a value is an argument of type index of a function or launch: taken to be 0 or
    more. What loops carry, and what branches forward, may be anything."""
    if not is_block_argument(value) or type_text(value.type) != "index":
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
