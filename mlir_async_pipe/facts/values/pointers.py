"""Accesses by LLVM pointers as subscripts in bytes of the memory that they start from.

    %s = llvm.mlir.addressof @s                               @s, byte 4 %i + 512, 16 bytes
    %p = llvm.getelementptr %s[512] : …, i8             -->
    %q = llvm.getelementptr %p[%i] : …, f32
    llvm.store %v, %q : vector<4xf32>, !llvm.ptr<3>

Steps lead into structs and arrays of arrays too; one through a type of unknown layout leaves the place
unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    defining_op,
    remembered,
    type_text,
)
from mlir_async_pipe.facts.values.linear import Arithmetic, Linear
from mlir_async_pipe.facts.values.memory_roots import Root, memref_behind
from mlir_async_pipe.facts.values.sums import ZERO, Form, S, add, scale
from mlir_async_pipe.facts.values.views import beginning
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, element_bytes, layout_of
from mlir_async_pipe.vocabulary.memory_names import POINTER_STEPS, declaration_of, global_name


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
        if op.name not in POINTER_STEPS:
            break
        step = step_bytes(op, arithmetic.linear)
        if step is None:
            return None
        offset = add(offset, step)
        pointer = op.operands[0]
    return pointer, offset


def constant_bytes(pointer: Value, arithmetic: Arithmetic) -> int | None:
    """The bytes from the beginning of the memory that a pointer leads to, None if they are not one
    number."""
    found = from_the_start(pointer, arithmetic)
    if found is None or not found[1].is_constant:
        return None
    start = found[0]
    made = None if isinstance(start, str) else defining_op(start)
    known = isinstance(start, str) or (made is not None and memref_behind(made) is not None)
    return found[1].constant if known else None


def step_bytes(op: Operation, linear: Callable[[Value], Form[S]]) -> Form[S] | None:
    """The bytes that an op of POINTER_STEPS adds, by the forms of its indices; None if they are not
    known, or if it makes many pointers."""
    if not is_pointer(op.results[0]):
        return None
    try:
        steps = beginning(op).steps
    except UnknownLayoutError:
        return None
    total: Form[S] = ZERO
    for step in steps:
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
    try:
        layout = layout_of(ir.TypeAttr(declared.attributes["global_type"]).value)
    except UnknownLayoutError:
        return None
    return layout.stride_bytes or None


def static_bytes(root: Root) -> int:
    """The bytes of a root, 0 where they are not static; windows of dynamic shared memory may lie
    over each other, and count as nothing."""
    if root.kind == "dynamic":
        return 0
    if is_pointer(root.value):
        return bytes_of_global(root.value) or 0
    kind = ir.MemRefType(root.value.type)
    try:
        return prod(kind.shape) * element_bytes(kind) if kind.has_static_shape else 0
    except UnknownLayoutError:
        return 0
