"""Addresses of tensor memory as columns after the value that they are made of.

%at = arith.addi %base, %lanes      lanes do not count
%from = arith.addi %at, 64          (%base, 64)
"""

from __future__ import annotations

from typing import TypeAlias

from mlir_async_pipe.bindings.raw_ops import Value, constant_value, defining_op
from mlir_async_pipe.vocabulary.memory_names import POINTER_OF_ADDRESS
from mlir_async_pipe.vocabulary.operator_table import is_operator
from mlir_async_pipe.vocabulary.tensor_memory import LANE, LANE_BITS

Columns: TypeAlias = "tuple[Value | None, int]"


def columns_after(address: Value, known: dict[Value, Columns] | None = None) -> Columns:
    """The value that an address is made of, and the columns added to it; None if it is made of more.
    `known` keeps what was found, for addresses that are counted one from the other."""
    known = {} if known is None else known
    path: list[tuple[Value, int]] = []
    while address not in known:
        below, more = _one_step(address)
        if below is None or below == address:
            known[address] = below, more
        else:
            path.append((address, more))
            address = below
    base, columns = known[address]
    for value, more in reversed(path):
        columns += more
        known[value] = base, columns
    return base, columns


def _one_step(address: Value) -> Columns:
    """What an address is made of, itself if of nothing else, and the columns added to that."""
    op = defining_op(address)
    if op is None:
        return address, 0
    if op.name == POINTER_OF_ADDRESS or is_operator(op.name, "cast"):
        return op.operands[0], 0
    if not is_operator(op.name, "add"):
        return address, 0
    numbers = [constant_value(operand) for operand in op.operands]
    columns = sum(number % LANE for number in numbers if number is not None)
    bases = [
        operand
        for operand, number in zip(op.operands, numbers, strict=True)
        if number is None and not _is_lane(operand)
    ]
    if len(bases) > 1:
        return None, 0
    return (bases[0] if bases else None), columns


def _is_lane(value: Value) -> bool:
    """Whether a number is whole lanes."""
    op = defining_op(value)
    factor = None if op is None or len(op.operands) != 2 else constant_value(op.operands[1])
    if op is None or factor is None:
        return False
    if is_operator(op.name, "shl"):
        return factor >= LANE_BITS
    return is_operator(op.name, "mul") and factor % LANE == 0
