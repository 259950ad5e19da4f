"""Addresses of tensor memory as columns after the value that they are made of.

%at = arith.addi %base, %lanes      lanes do not count
%from = arith.addi %at, 64          (%base, 64)
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import Value, constant_value, defining_op
from mlir_async_pipe.vocabulary.memory_names import POINTER_OF_ADDRESS
from mlir_async_pipe.vocabulary.operator_table import is_operator
from mlir_async_pipe.vocabulary.tensor_memory import LANE, LANE_BITS


def columns_after(address: Value) -> tuple[Value | None, int]:
    """The value that an address is made of, and the columns added to it; None if it is made of more."""
    op = defining_op(address)
    while op is not None and (op.name == POINTER_OF_ADDRESS or is_operator(op.name, "cast")):
        address = op.operands[0]
        op = defining_op(address)
    if op is None or not is_operator(op.name, "add"):
        return address, 0
    base, columns = None, 0
    for operand in op.operands:
        number = constant_value(operand)
        if number is not None:
            columns += number % LANE
        elif not _is_lane(operand):
            if base is not None:
                return None, 0
            base, more = columns_after(operand)
            columns += more
    return base, columns


def _is_lane(value: Value) -> bool:
    """Whether a number is whole lanes."""
    op = defining_op(value)
    factor = None if op is None or len(op.operands) != 2 else constant_value(op.operands[1])
    if op is None or factor is None:
        return False
    if is_operator(op.name, "shl"):
        return factor >= LANE_BITS
    return is_operator(op.name, "mul") and factor % LANE == 0
