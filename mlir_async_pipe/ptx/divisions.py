"""Divisions by constants, which compilers write as products: written as divisions again.

    %w = llvm.zext %x : i32 to i64
    %m = llvm.mul %w, 2863311531              %q = llvm.udiv %x, 3
    %q = llvm.lshr %m, 33                -->  %q = llvm.zext %q : i32 to i64

floor(m x / 2^s) = floor(x / d) for each x below 2^w if e = m d - 2^s is 0 or more and e (2^w - 1) < 2^s
(Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994, theorem 4.2). The shift may
come in two parts, with the upper half of the product between them.

    if ((x | y) >> 32 == 0)  zext (trunc x / trunc y)  else  x / y      -->      x / y

LLVM divides 64 bits so, since 32 are faster: both ways give one number.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    before,
    constant,
    constant_value,
    defining_op,
    erase,
    functions,
    integer_attribute,
    operations,
    terminator,
    users,
    walk_named,
)
from mlir_async_pipe.facts.values.integer_ops import PREDICATES
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.vocabulary.control_flow import truth


def write_divisions(root: Any) -> None:
    """Rewrite the divisions of all functions."""
    for function in functions(root):
        for op in walk_named(function, _BRANCH.__eq__):
            slow = _slow_division(op)
            if slow is not None:
                _always(op, slow)
        for op in walk_named(function, "llvm.lshr".__eq__):
            found = _division(op)
            if found is not None:
                _write(op, *found)
        # The products of divisions, which nothing else needs.
        for op in reversed(list(walk_named(function, _PRODUCT.__contains__))):
            if not any(map(users, op.results)):
                erase([op])


_HALVES = "arith.mului_extended"
_PRODUCT = ("llvm.lshr", "llvm.trunc", "llvm.mul", _HALVES, "llvm.zext", "llvm.mlir.constant")
_BRANCH = "llvm.cond_br"


def _slow_division(branch: Operation) -> Block | None:
    """The one of two blocks that divides 64 bits, if the other one divides the same two numbers where they have 32."""
    if len(branch.successors) != 2 or len(branch.operands) != 1:
        return None
    blocks = list(branch.successors)
    for slow, fast in (blocks, reversed(blocks)):
        *made, end = operations(slow)
        *narrow, other = operations(fast)
        ends = {end.name, other.name} == {"llvm.br"} and end.successors[0] == other.successors[0]
        alone = all(_has_one_predecessor(block) for block in (slow, fast))
        if not (ends and alone and len(made) == 1 and made[0].name in ("llvm.udiv", "llvm.urem")):
            continue
        if [op.name for op in narrow] != ["llvm.trunc", "llvm.trunc", made[0].name, "llvm.zext"]:
            continue
        given = {op.results[0]: op.operands[0] for op in narrow[:2]}
        same = [given.get(value) for value in narrow[2].operands] == list(made[0].operands)
        handed = [list(one.operands) for one in (end, other)]
        last = handed == [[made[0].results[0]], [narrow[3].results[0]]]
        bits = [_bits(op.results[0]) for op in (made[0], narrow[2])] == [64, 32]
        if same and last and bits and narrow[3].operands[0] == narrow[2].results[0]:
            return slow if _are_narrow(branch.operands[0], made[0], fast == blocks[0]) else None
    return None


def _has_one_predecessor(block: Block) -> bool:
    return sum(block in op.successors for op in map(terminator, block.region.blocks)) == 1


def _are_narrow(condition: Value, division: Operation, holds: bool) -> bool:
    """Whether a condition that holds, or does not, says that the upper halves of both operands are 0."""
    found = truth(condition)
    if isinstance(found, bool):
        return False
    asked, plain = found
    made = defining_op(asked)
    if made is None or made.name != "llvm.icmp" or constant_value(made.operands[1]) != 0:
        return False
    masked = defining_op(made.operands[0])
    if masked is None or masked.name != "llvm.and":
        return False
    both = defining_op(masked.operands[0])
    if both is None or both.name != "llvm.or" or constant_value(masked.operands[1]) != -(1 << 32):
        return False
    equal = PREDICATES[integer_attribute(made, "predicate") or 0]
    same = set(both.operands) == set(division.operands)
    return same and equal == ("eq" if holds == plain else "ne")


def _always(branch: Operation, slow: Block) -> None:
    """Divide 64 bits before the branch, which is decided: nobody reads what its blocks make."""
    division, jump = operations(slow)
    write = LlvmBuilder.before(branch)
    result = write.binary(division.name, *division.operands)
    jump.successors[0].arguments[0].replace_all_uses_with(result)
    branch.operands[0] = constant(
        int(branch.successors[0] == slow),
        ir.IntegerType.get_signless(1, branch.context),
        before(branch),
        branch.location,
    )


def _division(op: Operation) -> tuple[Value, int] | None:
    """What a shift to the right divides, and by which number."""
    shift = constant_value(op.operands[1])
    product = defining_op(op.operands[0])
    if shift is None or product is None:
        return None
    halves = product.name == _HALVES
    if halves:
        # mul.hi of 64 bits, and a shift of the upper half; of fewer bits below.
        if op.operands[0] != product.results[1]:
            return None
        shift += _bits(op.results[0])
    elif product.name == "llvm.trunc":
        upper = defining_op(product.operands[0])
        if upper is None or upper.name != "llvm.lshr":
            return None
        first = constant_value(upper.operands[1])
        product = defining_op(upper.operands[0])
        if first is None or product is None or first != _bits(op.results[0]):
            return None
        shift += first
    if not halves and product.name != "llvm.mul":
        return None
    a, b = product.operands
    for one, other in ((a, b), (b, a)):
        divided, factor = one if halves else _extended(one), constant_value(other)
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
