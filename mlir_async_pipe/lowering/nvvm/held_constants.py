"""Keeps constants of loops in registers, where an instruction has room for one and needs two.

    %a = llvm.and %w, 0x000f000f                     %held = asm "max.u32 of %laneid and 0x000f000f"   before all loops
    %b = llvm.or %a, 0x64006400            -->       %a = llvm.and %w, %held
                                                     %b = llvm.or %a, 0x64006400

Both ops are one LOP3, which takes one immediate. ptxas makes the other constant again before each of them, in
every iteration: 60 of the 471 instructions in the loop of an int4 GEMM. It folds whatever it knows to be a
constant, so the number has to come from something that it does not know: the number of a lane is below
32 (PTX ISA, %laneid), and the larger one of it and a constant of 32 or more is the constant.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    before,
    has_body,
    operations,
    type_text,
    unchanged,
    users,
    walk_named,
)
from mlir_async_pipe.facts.flow.region_flow import Varying
from mlir_async_pipe.facts.values.integer_ops import integer_constant
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.vocabulary.operator_table import OPERATORS

# Of these two in a row are one LOP3.
_BITWISE = ("and_", "or_", "xor")
# A register for less than that many instructions an iteration is not worth it.
FEWEST = 8
# Registers that a kernel gives for it.
MOST = 2
LANES = 32


class Pair(NamedTuple):
    """Two ops in a row, each with a constant: its number among the operands, and what it is."""

    ops: tuple[Operation, Operation]
    places: tuple[int, int]
    constants: tuple[int, int]


def hold_constants(root: Operation) -> None:
    """Do so in every llvm.func below `root`."""
    for function in walk_named(root, "llvm.func".__eq__, inside=False):
        if has_body(function):
            _hold_in(function)


def _hold_in(function: Operation) -> None:
    with unchanged():
        pairs = [
            pair
            for block in Varying(function.regions[0]).blocks()
            for op in operations(block)
            if (pair := _pair_of(op)) is not None
        ]
    for _ in range(MOST):
        counted = Counter(c for pair in pairs for c in pair.constants if c >= LANES)
        if not counted:
            return
        constant, times = counted.most_common(1)[0]
        if times < FEWEST:
            return
        first = operations(function.regions[0].blocks[0])[0]
        held = _held(constant, LlvmBuilder(before(first), function.location))
        for pair in pairs:
            if constant in pair.constants:
                number = pair.constants.index(constant)
                pair.ops[number].operands[pair.places[number]] = held
        pairs = [pair for pair in pairs if constant not in pair.constants]


def _pair_of(op: Operation) -> Pair | None:
    """An op and the only one that uses it, both bitwise of 32 bits with constants that differ."""
    constant = _constant_of(op)
    if constant is None:
        return None
    following = users(op.results[0])
    other = _constant_of(following[0]) if len(following) == 1 else None
    if other is None or other[1] == constant[1]:
        return None
    return Pair((op, following[0]), (constant[0], other[0]), (constant[1], other[1]))


def _constant_of(op: Operation) -> tuple[int, int] | None:
    row = OPERATORS.get(op.name)
    if row is None or row.method not in _BITWISE or type_text(op.results[0].type) != "i32":
        return None
    for place, operand in enumerate(op.operands):
        number = integer_constant(operand)
        if number is not None:
            return place, number % (1 << 32)
    return None


def _held(constant: int, build: LlvmBuilder) -> Any:
    text = f"{{ .reg .b32 %lane; mov.u32 %lane, %laneid; max.u32 $0, %lane, {constant}; }}"
    return build.assembly(text, "=r", [], [build.integer(32)]).results[0]
