"""How far an address is known to be aligned, in bytes.

    %row = arith.muli %tid, %c8          access_alignment(%tile, [%row], 16) = 16
    memref.load %tile[%row]              for an f16 tile whose allocation is 16-aligned

The answer is a power of two that divides the address in every execution, proven from the
allocation, `llvm.align`, `memref.assume_alignment`, strides and subscripts; never less than
what the element type has anyway. Nothing is taken for granted about dynamic strides: the rows
of a `memref<?x?xf16>` may begin at any multiple of 2 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    as_kind,
    defining_op,
    integer_attribute,
)
from mlir_async_pipe.facts.values.domains import Domain, Typed
from mlir_async_pipe.facts.values.integer_ops import bits_of, is_induction_variable
from mlir_async_pipe.facts.values.linear import RANGES, Arithmetic, fits, stored
from mlir_async_pipe.facts.values.sums import Interval
from mlir_async_pipe.facts.values.views import ViewStep, beginning, reached
from mlir_async_pipe.vocabulary import ALLOCATION_OPS, VIEW_OPS, memory_layout
from mlir_async_pipe.vocabulary.memory_layout import (
    element_layout,
    if_known,
    offset_bytes,
    strides_and_offset,
)
from mlir_async_pipe.vocabulary.memory_names import ADDRESS_OPS, declaration_of, said_of

# What gpu.dynamic_shared_memory begins at (convert-gpu-to-nvvm emits a 16-aligned global).
DYNAMIC_SHARED_BYTES = 16
# What a workgroup allocation gets when it becomes a global for the target.
WORKGROUP_ALLOCATION_BYTES = 16


def access_alignment(
    memory: Value, indices: Sequence[Value], arithmetic: Arithmetic | None = None, assumed: int = 1
) -> int:
    """Bytes that divide the address of `memory[indices]`; a power of two up to 4096.

    `assumed` bytes, a power of two, are taken to divide the addresses of the first elements of arguments,
    and all strides that are not static."""
    numbers = arithmetic or Arithmetic()
    element = element_bytes(memory)
    if element == 0:
        return 1
    begin = value_alignment(memory, numbers, assumed)
    known = gcd(begin, _offset(memory, indices, element, numbers, assumed))
    return power_of_two(gcd(known, LARGEST_BYTES) if known else LARGEST_BYTES)


def element_bytes(memory: Value) -> int:
    """Bytes from one element to the next; 0 where that is not known."""
    return if_known(memory_layout.element_bytes, memory.type) or 0


def value_alignment(memory: Value, numbers: Arithmetic, assumed: int = 1) -> int:
    """Bytes that divide the address of a memref's first element, or of a global; `assumed` as in `access_alignment`."""
    op = defining_op(memory)
    if as_kind(ir.MemRefType, memory.type) is None:
        return global_alignment(op) if op is not None and op.name == "llvm.mlir.addressof" else 1
    # What every element is aligned to by its type.
    layout = if_known(element_layout, memory.type)
    natural = 1 if layout is None else layout.alignment
    if op is None:
        return lcm(natural, assumed, _from_base(memory, argument_alignment(memory)))
    if op.name == "memref.assume_alignment":
        asserted = integer_attribute(op, "alignment") or 1
        return lcm(asserted, value_alignment(op.operands[0], numbers, assumed))
    if op.name in VIEW_OPS:
        return lcm(natural, _view_alignment(op, numbers, assumed))
    if op.name in ALLOCATION_OPS:
        given = integer_attribute(op, "alignment") or 1
        workgroup = "workgroup" in str(ir.MemRefType(memory.type).memory_space or "")
        begin = lcm(given, WORKGROUP_ALLOCATION_BYTES if workgroup else 1)
        return lcm(natural, _from_base(memory, begin))
    if op.name == "memref.get_global":
        return lcm(natural, _from_base(memory, global_alignment(op)))
    if op.name == "gpu.dynamic_shared_memory":
        return DYNAMIC_SHARED_BYTES
    return natural


def _view_alignment(op: Operation, numbers: Arithmetic, assumed: int) -> int:
    """What divides the address of the source, and each step from there to the view."""
    source = op.operands[0]
    begin = if_known(beginning, op)
    if begin is None or (begin.of_aligned and offset_bytes(ir.MemRefType(source.type)) != 0):
        return 1

    def of(step: ViewStep) -> int:
        size = step.size * (
            _unknown_stride(step.size, assumed) if step.stride is None else step.stride
        )
        amount = step.amount
        return size * (
            amount if isinstance(amount, int) else divisor(op.operands[amount.position], numbers)
        )

    return reached(value_alignment(source, numbers, assumed), begin.steps, of, gcd) or 1


def _unknown_stride(element: int, assumed: int) -> int:
    """What divides a stride that is not known, in elements."""
    return max(assumed // element, 1)


def _from_base(memory: Value, base: int) -> int:
    """Bytes that divide the address of the first element where the buffer's own address, which is
    what `llvm.align` and `alignment` are about, is a multiple of `base`.

    memref<?xf16, strided<[1], offset: 6>>, 16   -->   gcd(16, 12) = 4
    """
    offset = offset_bytes(ir.MemRefType(memory.type))
    return 1 if offset is None else gcd(base, offset)


def _offset(
    memory: Value, indices: Sequence[Value], element: int, numbers: Arithmetic, assumed: int
) -> int:
    """What divides the byte distance of `indices` from the first element."""
    strides, unknown = static_strides(memory), _unknown_stride(element, assumed)
    parts = [
        divisor(index, numbers) * (unknown if stride is None else stride)
        for index, stride in zip(indices, strides, strict=True)
    ]
    return element * gcd(*parts) if parts else 0


def static_strides(memory: Value) -> list[int | None]:
    """The strides of a memref in elements, None for each that is not static."""
    kind = ir.MemRefType(memory.type)
    known = if_known(strides_and_offset, kind)
    return [None] * kind.rank if known is None else known[0]


def argument_alignment(argument: Value) -> int:
    """`llvm.align` on a function argument or a workgroup attribution, 1 if there is none."""
    given = said_of(argument)
    return int(ir.IntegerAttr(given["llvm.align"]).value) or 1 if "llvm.align" in given else 1


# What divides an integer in every execution.
#
#     %row = arith.muli %tid, %c8          8
#     %at = arith.xori %row, %c16          8: low bits that are 0 in both stay 0
#
# 0 is what is always 0. Of a linear form it is the common divisor of its parts; what is no sum is
# looked at op by op, beside its range: a result that may not fit keeps factors of 2 only.


# Nothing is aligned to more, what is always 0 included.
LARGEST_BYTES = 4096


def divisor(value: Value, numbers: Arithmetic) -> int:
    """A number that divides the integer `value` in every execution; 0 if it is always 0."""
    form = numbers.linear(value)
    found = gcd(form.constant, *(c * _symbol_divisor(s, numbers) for s, c in form.terms))
    return lcm(found, numbers.assumed.get(value, 1))


def _symbol_divisor(symbol: Value, numbers: Arithmetic) -> int:
    """What divides a value that is no sum: bit operations, choices, induction variables."""
    if is_induction_variable(symbol):
        loop = ir.BlockArgument(symbol).owner.owner.operation
        found = gcd(divisor(loop.operands[0], numbers), divisor(loop.operands[2], numbers))
        # An unsigned counter may be held as a negative number.
        return gcd(found, 1 << bits_of(symbol.type)) if "unsignedCmp" in loop.attributes else found
    op = defining_op(symbol)
    if op is not None and ADDRESS_OPS.get(op.name) == "same":
        pointer = defining_op(op.operands[0])
        return 1 if pointer is None else global_alignment(pointer)
    made = DIVISORS.of(
        symbol, lambda o: Multiple(divisor(o, numbers), numbers.value_range(o)), None
    )
    return 1 if made is None else made.divisor


def global_alignment(op: Any) -> int:
    """What the address of the global that an op names is a multiple of; 1 for other ops."""
    declared = declaration_of(op)
    return 1 if declared is None else integer_attribute(declared, "alignment") or 1


def power_of_two(number: int) -> int:
    """The largest power of two that divides `number`; 0 (always zero) stands for any."""
    return LARGEST_BYTES if number == 0 else number & -number


class Multiple(NamedTuple):
    """Numbers of an interval that `divisor` divides."""

    divisor: int
    interval: Interval


class Divisors(Domain[Multiple, None]):
    """Divisors, beside the intervals that say whether a result fits."""

    def constant(self, number: int) -> Multiple:
        return Multiple(abs(number), (number, number))

    def evaluate(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        """What is only the same modulo 2^bits keeps the factors of 2 of those bits."""
        found = super().evaluate(op, v, known)
        interval = RANGES.exact(op, [operand.interval for operand in v])
        factor = 1 if found is None else found.divisor
        believed = op.nsw and op.bits > 1
        if op.row.method not in _CHOICES and not believed and not fits(interval, op.bits):
            factor = gcd(factor, 1 << op.bits)
        return Multiple(factor, stored(interval, op.bits))

    def add(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        return _of(gcd(v[0].divisor, v[1].divisor))

    sub = add

    def mul(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        return _of(v[0].divisor * v[1].divisor)

    def div(self, op: Typed, v: list[Multiple], known: None) -> Multiple | None:
        """A constant that divides leaves the rest."""
        number, rest = v[1].interval[0], _read(op, v[0])
        if number is None or number <= 0 or v[1].interval[1] != number or rest % number:
            return None
        return _of(rest // number)

    def rem(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        """a mod b = a - qb."""
        return _of(gcd(*(_read(op, operand) for operand in v)))

    def and_(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        """Low bits that are 0 in one are 0."""
        return _of(max(power_of_two(operand.divisor) for operand in v))

    def or_(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        """Low bits that are 0 in both stay 0; an odd factor does not survive."""
        return _of(min(power_of_two(operand.divisor) for operand in v))

    xor = or_

    def shl(self, op: Typed, v: list[Multiple], known: None) -> Multiple | None:
        least, most = v[1].interval
        if least is None or most is None or least < 0 or most >= op.given:
            return None
        return _of(v[0].divisor << least)

    def shr(self, op: Typed, v: list[Multiple], known: None) -> Multiple | None:
        """A quotient by a power of two, of what has it as a factor."""
        least, most = v[1].interval
        rest = _read(op, v[0])
        if least is None or least != most or not 0 <= least < op.given or rest % (1 << least):
            return None
        return _of(rest >> least)

    def min(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        return self.add(op, v, known)

    max = min

    def select(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        return self.add(op, v[1:], known)

    def cast(self, op: Typed, v: list[Multiple], known: None) -> Multiple:
        return _of(_read(op, v[0]) if op.bits > op.given else v[0].divisor)


DIVISORS = Divisors()
# The result is an operand, bit for bit.
_CHOICES = frozenset({"min", "max", "select"})


def _of(factor: int) -> Multiple:
    return Multiple(factor, (None, None))


def _read(op: Typed, operand: Multiple) -> int:
    """What divides the number that an op reads: of a negative one without a sign, 2^bits more."""
    low = operand.interval[0]
    if op.row.sign != "u" or (low is not None and low >= 0):
        return operand.divisor
    return gcd(operand.divisor, 1 << op.given)
