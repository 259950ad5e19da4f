"""Accesses by LLVM pointers as subscripts in bytes of the memory that they start from.

    %s = llvm.mlir.addressof @s                               @s, byte 4 %i + 512, 16 bytes
    %p = llvm.getelementptr %s[512] : …, i8             -->
    %q = llvm.getelementptr %p[%i] : …, f32
    llvm.store %v, %q : vector<4xf32>, !llvm.ptr<3>

Steps lead into structs and arrays of arrays too; one through a type of unknown layout leaves the place
unknown.

An address of tensor memory is columns after the value that it is made of:

    %at = arith.addi %base, %lanes      lanes do not count
    %from = arith.addi %at, 64          (%base, 64)
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    constant_value,
    defining_op,
    remembered,
    type_text,
)
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS, bits_of
from mlir_async_pipe.facts.values.linear import Arithmetic, Linear
from mlir_async_pipe.facts.values.memory_roots import Root, viewed_memref
from mlir_async_pipe.facts.values.sums import ZERO, Form, S, add, scale
from mlir_async_pipe.facts.values.views import beginning
from mlir_async_pipe.vocabulary.memory_layout import (
    element_bytes,
    if_known,
    layout_of,
)
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OPS,
    POINTER_OF_ADDRESS,
    POINTER_STEPS,
    declaration_of,
    global_name,
)
from mlir_async_pipe.vocabulary.operator_table import is_operator
from mlir_async_pipe.vocabulary.tensor_memory import LANE, LANE_BITS


@remembered
def is_pointer(value: Value) -> bool:
    """Whether a value is one LLVM pointer, of any space."""
    return type_text(value.type).startswith("!llvm.ptr")


def from_the_start(pointer: Value, arithmetic: Arithmetic) -> tuple[Any, Linear] | None:
    """What a pointer starts from (a value, or the name of a global) and the bytes to it; None if
    they are not known."""
    offset: Linear = ZERO
    while (op := defining_op(pointer)) is not None:
        name = global_name(op)
        if name is not None:
            return name, offset
        if op.name in POINTER_STEPS:
            step = step_bytes(op, arithmetic.linear)
            if step is None:
                return None
            pointer = op.operands[0]
        else:
            counted = _counted_address(op, arithmetic)
            if counted is None:
                break
            pointer, step = counted
        offset = add(offset, step)
    return pointer, offset


def _counted_address(op: Operation, arithmetic: Arithmetic) -> tuple[Value, Linear] | None:
    """The pointer from whose address another one is counted, and the constant bytes between."""
    if op.name != POINTER_OF_ADDRESS or bits_of(op.operands[0].type) != INDEX_BITS:
        return None
    form = arithmetic.wrapped(op.operands[0])
    ((symbol, factor),) = form.terms if len(form.terms) == 1 else ((None, 0),)
    made = None if factor != 1 else defining_op(symbol)
    if made is None or ADDRESS_OPS.get(made.name) != "same":
        return None
    return made.operands[0], Form(form.constant)


def constant_bytes(pointer: Value, arithmetic: Arithmetic) -> int | None:
    """The bytes from the beginning of the memory that a pointer leads to, None if they are not one
    number."""
    found = from_the_start(pointer, arithmetic)
    if found is None or not found[1].is_constant:
        return None
    start = found[0]
    made = None if isinstance(start, str) else defining_op(start)
    known = isinstance(start, str) or (made is not None and viewed_memref(made) is not None)
    return found[1].constant if known else None


def step_bytes(op: Operation, linear: Callable[[Value], Form[S]]) -> Form[S] | None:
    """The bytes that an op of POINTER_STEPS adds, by the forms of its indices; None if they are not
    known, or if it makes many pointers."""
    if not is_pointer(op.results[0]):
        return None
    begin = if_known(beginning, op)
    if begin is None:
        return None
    total: Form[S] = ZERO
    for step in begin.steps:
        amount = step.amount
        one = Form(amount) if isinstance(amount, int) else linear(op.operands[amount.position])
        total = add(total, scale(one, step.size))
    return total


@remembered
def bytes_of_global(pointer: Value) -> int | None:
    """The bytes of the llvm.mlir.global whose address a value is; None if they are not known, as of
    an external one, whose size the launch decides."""
    op = defining_op(pointer)
    declared = None if op is None else declaration_of(op)
    if declared is None or "global_type" not in declared.attributes:
        return None
    layout = if_known(layout_of, ir.TypeAttr(declared.attributes["global_type"]).value)
    return None if layout is None else layout.stride_bytes or None


def static_bytes(root: Root) -> int:
    """The bytes of a root, 0 where they are not static; windows of dynamic shared memory may lie
    over each other, and count as nothing."""
    if root.kind == "dynamic":
        return 0
    if is_pointer(root.value):
        return bytes_of_global(root.value) or 0
    kind = ir.MemRefType(root.value.type)
    return prod(kind.shape) * (if_known(element_bytes, kind) or 0) if kind.has_static_shape else 0


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
    return any(is_operator(op.name, name) for name in ("mul", "and_")) and factor % LANE == 0
