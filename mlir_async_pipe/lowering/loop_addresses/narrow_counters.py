"""Keeps in 32 bits what loops carry in 64 and what is proven to be small: slots.

    ^loop(%slot: i64):                         -->  ^loop(%narrow: i32):
      %next = select(%slot + 1 == 3, 0, …)            %slot = llvm.zext %narrow
      llvm.br ^loop(%next)                            llvm.br ^loop(the same of %narrow)

Registers of a GPU have 32 bits: each sum, comparison and choice of 64 takes two instructions. LLVM
does not see that a slot stays below the number of versions. Here its numbers are counted up: from
those that the loop begins with, each in turn gives the next one, until no new one comes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    attributes_of,
    before,
    defining_op,
    terminator,
)
from mlir_async_pipe.facts.flow.ways import Origins, origins
from mlir_async_pipe.facts.values.integer_ops import integer_constant
from mlir_async_pipe.facts.values.numbers import evaluate
from mlir_async_pipe.lowering.scopes.llvm_builder import LlvmBuilder
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS
from mlir_async_pipe.vocabulary.operator_table import OPERATORS

_LARGEST = 2**31 - 1
# More than there are slots of any buffer; a loop counter has more, and gives up soon.
_MOST_NUMBERS = 64
# Ops from one slot to the next that are made again; a sum, a comparison and a choice are three.
_MOST_STEPS = 16

Numbers = dict[Value, set[int]]
"""All numbers that block arguments take."""


def narrow_counters(function: Operation) -> None:
    """Narrow the block arguments of a function whose numbers are few and small."""
    region = function.regions[0]
    arguments = [
        argument
        for block in list(region.blocks)[1:]
        for argument in block.arguments
        if str(argument.type) == "i64"
    ]
    found = numbers_of(arguments)
    for argument in found:
        _retype(argument)
    for argument in found:
        for end, place in _handed_on(argument):
            end.operands[place] = _Narrower(found, end).narrow(end.operands[place])


def numbers_of(arguments: list[Value]) -> Numbers:
    """The numbers of those arguments that take few, none below 0 and none above 2^31 - 1."""
    handed = {argument: origins(argument) for argument in arguments}
    found: Numbers = {argument: set() for argument, known in handed.items() if known.complete}
    changed = True
    while changed:
        changed = False
        for argument in list(found):
            numbers = _handed_numbers(handed[argument], found)
            if (
                numbers is None
                or len(numbers) > _MOST_NUMBERS
                or not _are_small(numbers)
                or (len(numbers) == 2 and _counts_on(argument, handed[argument], numbers))
            ):
                # What is made of it is looked at again, without it.
                del found[argument]
            elif numbers != found[argument]:
                found[argument] = numbers
            else:
                continue
            changed = True
    return found


def _counts_on(argument: Value, handed: Origins, numbers: set[int]) -> bool:
    """Whether what is handed on goes on as two numbers begin, for more than the most that an argument
    may take: a loop's counter, asked once instead of number by number."""
    first, second = sorted(numbers)
    row = first + (second - first) * np.arange(_MOST_NUMBERS + 1, dtype=np.int64)
    each = [evaluate(value, {argument: row}, lambda leaf: None) for value in handed.values]
    return any(
        made is not None and made.shape == row.shape and bool((made[:-1] == row[1:]).all())
        for made in each
    )


def _handed_numbers(handed: Origins, found: Numbers) -> set[int] | None:
    """The numbers of all that is handed on; None if one cannot be told."""
    each = [_numbers_of(value, found) for value in handed.values]
    known = [numbers for numbers in each if numbers is not None]
    return set().union(*known) if len(known) == len(each) else None


def _numbers_of(value: Value, found: Numbers) -> set[int] | None:
    """The numbers of a value, by those of the argument that it is made of; None if it is made of
    several, or of anything else."""
    leaves: list[Value] = [value] if value in found else []
    if not leaves:
        constant = evaluate(value, {}, leaves.append)
        if constant is not None:
            return {int(constant)}
    if len(leaves) != 1 or leaves[0] not in found:
        return None
    numbers = np.array(sorted(found[leaves[0]]), dtype=np.int64)
    made = evaluate(value, {leaves[0]: numbers}, leaves.append)
    return None if made is None else {int(number) for number in np.ravel(made)}


def _are_small(numbers: Iterable[int]) -> bool:
    return all(0 <= number <= _LARGEST for number in numbers)


def _retype(argument: Value) -> None:
    """Make an argument one of 32 bits, extended where its block begins."""
    block = ir.BlockArgument(argument).owner
    uses = [(use.owner.operation, use.operand_number) for use in argument.uses]
    wide = argument.type
    begin = ir.InsertionPoint.at_block_begin(block)
    build = LlvmBuilder(begin, block.owner.operation.location)
    ir.BlockArgument(argument).set_type(build.integer(32))
    extended = build.cast("llvm.zext", argument, wide)
    for user, place in uses:
        user.operands[place] = extended


def _handed_on(argument: Value) -> list[tuple[Operation, int]]:
    """The branches that hand on a block argument, and which operand it is."""
    block, number = ir.BlockArgument(argument).owner, ir.BlockArgument(argument).arg_number
    found = []
    for end in map(terminator, block.region.blocks):
        row = BRANCH_ROWS.get(end.name)
        for place, successor in enumerate(end.successors):
            if successor == block:
                assert row is not None, "origins knows it"
                found.append((end, row.operands(end)[place][number]))
    return found


class _Narrower:
    """Makes 32-bit values of 64-bit ones, whose numbers are small, for one branch."""

    def __init__(self, found: Numbers, end: Operation) -> None:
        self._found = found
        self._build = LlvmBuilder(before(end), end.location)
        self._made: dict[Value, Value] = {}

    def narrow(self, value: Value, steps: int = _MOST_STEPS) -> Value:
        """The value in 32 bits: its op on narrow operands, if their numbers are small too."""
        if value not in self._made:
            self._made[value] = self._narrow(value, steps)
        return self._made[value]

    def _narrow(self, value: Value, steps: int) -> Value:
        is_bit, op = str(value.type) == "i1", defining_op(value)
        constant = None if is_bit else integer_constant(value)
        if constant is not None:
            return self._build.number(constant, 32)
        if op is not None and op.name == "llvm.zext" and op.operands[0] in self._found:
            return op.operands[0]
        kind = self._build.integer(1 if is_bit else 32)
        if op is not None and steps and self._stays_small(op):
            operands = [self.narrow(operand, steps - 1) for operand in op.operands]
            attributes = attributes_of(op)
            attributes.pop("overflowFlags", None)
            return self._build.make(op.name, operands, kind, attributes)
        return value if is_bit else self._build.cast("llvm.trunc", value, kind)

    def _stays_small(self, op: Operation) -> bool:
        row = OPERATORS.get(op.name)
        if row is None or row.method == "cast":
            return False
        each = [_numbers_of(value, self._found) for value in (*op.operands, op.results[0])]
        return all(numbers is not None and _are_small(numbers) for numbers in each)
