"""Divisions by constants, which compilers write as products: written as divisions again.

    %w = llvm.zext %x : i32 to i64
    %m = llvm.mul %w, 2863311531              %q = llvm.udiv %x, 3
    %q = llvm.lshr %m, 33                -->  %q = llvm.zext %q : i32 to i64

floor(m x / 2^s) = floor(x / d) for each x below 2^w if e = m d - 2^s is 0 or more and e (2^w - 1) < 2^s
(Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994, theorem 4.2). The shift may
come in two parts, with the upper half of the product between them.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    constant_value,
    defining_op,
    erase,
    functions,
    users,
    walk_named,
)
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder


def write_divisions(root: Any) -> None:
    """Rewrite the divisions of all functions."""
    for function in functions(root):
        for op in walk_named(function, "llvm.lshr".__eq__):
            found = _division(op)
            if found is not None:
                _write(op, *found)


def _division(op: Operation) -> tuple[Value, int] | None:
    """What a shift to the right divides, and by which number."""
    shift = constant_value(op.operands[1])
    product = defining_op(op.operands[0])
    if shift is None or product is None:
        return None
    if product.name == "llvm.trunc":
        # mul.hi, and a shift of the upper half.
        upper = defining_op(product.operands[0])
        if upper is None or upper.name != "llvm.lshr":
            return None
        first = constant_value(upper.operands[1])
        product = defining_op(upper.operands[0])
        if first is None or product is None or first != _bits(op.results[0]):
            return None
        shift += first
    if product.name != "llvm.mul":
        return None
    a, b = product.operands
    for one, other in ((a, b), (b, a)):
        divided, factor = _extended(one), constant_value(other)
        if divided is not None and factor is not None:
            factor %= 1 << _bits(product.results[0])
            by = divisor(factor, shift, _bits(divided))
            return None if by is None else (divided, by)
    return None


def divisor(factor: int, shift: int, bits: int) -> int | None:
    """The d with floor(factor x / 2^shift) = floor(x / d) for all x of so many bits; None if there is none."""
    by = -(-(1 << shift) // factor) if factor else 0
    if by < 2 or (factor * by - (1 << shift)) * ((1 << bits) - 1) >= 1 << shift:
        return None
    return by


def _bits(value: Value) -> int:
    return int(ir.IntegerType(value.type).width)


def _extended(value: Value) -> Value | None:
    """The narrower number that a value is, with zeros above it."""
    op = defining_op(value)
    return op.operands[0] if op is not None and op.name == "llvm.zext" else None


def _write(op: Operation, divided: Value, by: int) -> None:
    write, kind = LlvmBuilder.before(op), divided.type
    quotient = write.binary("llvm.udiv", divided, by)
    result, wanted = quotient, op.results[0].type
    for user in users(op.results[0]):
        if user.name == "llvm.trunc" and user.results[0].type == kind:
            user.results[0].replace_all_uses_with(quotient)
            erase([user])
    if wanted != kind:
        name = "llvm.zext" if _bits(quotient) < _bits(op.results[0]) else "llvm.trunc"
        result = write.cast(name, quotient, wanted)
    op.results[0].replace_all_uses_with(result)
    erase([op])
    for product in users(quotient):
        if product.name == "llvm.mul":
            _write_remainders(product, divided, by)


def _write_remainders(product: Operation, divided: Value, by: int) -> None:
    """x - 3 (x / 3), or x + -3 (x / 3), is a remainder."""
    factor = next((n for n in map(constant_value, product.operands) if n is not None), 0)
    for user in users(product.results[0]):
        a, b = user.operands if len(user.operands) == 2 else (None, None)
        subtracts = user.name == "llvm.sub" and factor == by and a == divided
        adds = user.name == "llvm.add" and factor == -by and divided in (a, b)
        if subtracts or adds:
            rest = LlvmBuilder.before(user).binary("llvm.urem", divided, by)
            user.results[0].replace_all_uses_with(rest)
            erase([user])
