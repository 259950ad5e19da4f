"""Values that several threads have: what a reduction by butterflies leaves in each of them.

    %1 = shfl.sync bfly %0, 16     %2 = fadd %0, %1        lanes l and l xor 16 have one %2
    %3 = shfl.sync bfly %2, 8      %4 = fadd %2, %3        … and l xor 8
    …                                                      after 4, 2, 1 all 32

Of each bit of a value is known on which bits of the thread's number it may depend. A butterfly keeps that,
since l xor x xor k is l xor k xor x; adding up both ends of one does not depend on k, if it does not
matter which is added to which; a load depends on its address. Anything else depends on all that it is made of:
registers of floating-point numbers are one bit here.

    (tid and 120) shr 1       bits 2 and 3 are bits 3 and 4 of the lane: lanes 0 to 7 have the same
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    Operation,
    Value,
    constant_value,
    defining_op,
    enclosing,
    type_text,
)
from mlir_async_pipe.facts.flow.algorithms import computed
from mlir_async_pipe.facts.values.domains import Domain, Typed, typed
from mlir_async_pipe.facts.values.integer_ops import bits_of_text
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.facts.values.uniformity import Uniformity, is_made_of_operands
from mlir_async_pipe.vocabulary import accesses, is_pure, order_of
from mlir_async_pipe.vocabulary.launch_ids import (
    ALL_LANES,
    SHUFFLES,
    LaunchId,
    block_size,
    launch_id,
)
from mlir_async_pipe.vocabulary.operator_table import OPERATORS
from mlir_async_pipe.vocabulary.pure_ops import BIT_CASTS, COMMUTATIVE

# The bits of a thread's number in its block; the lowest five are those of its lane (PTX ISA, shfl.sync).
THREAD_BITS = 10
ALL = (1 << THREAD_BITS) - 1
LAST_LANE = 31

# For each bit of a value, from the lowest on, the bits of the thread on which it may depend; bits above the
# last are like it.
Bits = tuple[int, ...]


class _ThreadBits(Domain[Bits, None]):
    """Integers, bit by bit."""

    def constant(self, number: int) -> Bits:
        return (0,)

    def add(self, op: Typed, v: list[Bits], known: None) -> Bits:
        """A carry comes from all bits below."""
        found, below = [], 0
        for n in range(op.bits):
            below |= _bit(v[0], n) | _bit(v[1], n)
            found.append(below)
        return tuple(found)

    sub = mul = add

    def or_(self, op: Typed, v: list[Bits], known: None) -> Bits:
        return tuple(_bit(v[0], n) | _bit(v[1], n) for n in range(op.bits))

    xor = or_

    def and_(self, op: Typed, v: list[Bits], known: None) -> Bits:
        """What a constant masks out is 0."""
        kept = -1
        for mask in map(constant_value, op.op.operands):
            kept &= -1 if mask is None else mask
        return tuple(_bit(v[0], n) | _bit(v[1], n) if kept >> n & 1 else 0 for n in range(op.bits))

    def shl(self, op: Typed, v: list[Bits], known: None) -> Bits | None:
        by = constant_value(op.op.operands[1])
        if by is None or not 0 <= by < op.bits:
            return None
        return tuple(_bit(v[0], n - by) if n >= by else 0 for n in range(op.bits))

    def shr(self, op: Typed, v: list[Bits], known: None) -> Bits | None:
        by = constant_value(op.op.operands[1])
        return None if by is None else self._down(op, v[0], by)

    def div(self, op: Typed, v: list[Bits], known: None) -> Bits | None:
        """An unsigned quotient by a power of two is a shift."""
        by = _power(op)
        return None if by is None else self._down(op, v[0], by)

    def rem(self, op: Typed, v: list[Bits], known: None) -> Bits | None:
        by = _power(op)
        return None if by is None else tuple(_bit(v[0], n) if n < by else 0 for n in range(op.bits))

    def cast(self, op: Typed, v: list[Bits], known: None) -> Bits:
        return tuple(_bit(v[0], n) for n in range(op.bits))

    def _down(self, op: Typed, a: Bits, by: int) -> Bits:
        top = 0 if op.row.sign == "u" else _bit(a, op.bits - 1)
        return tuple(_bit(a, n + by) if n + by < op.bits else top for n in range(op.bits))


def _bit(value: Bits, n: int) -> int:
    return value[min(n, len(value) - 1)]


def _power(op: Typed) -> int | None:
    """The exponent of a power of two by which an op divides without a sign."""
    by = constant_value(op.op.operands[1])
    whole = by is not None and by > 0 and by & (by - 1) == 0 and op.row.sign == "u"
    return by.bit_length() - 1 if whole and by is not None else None


_DOMAIN = _ThreadBits()


class WarpValues:
    """Answers for the values of one kernel."""

    def __init__(self) -> None:
        self._uniformity = Uniformity()
        self._known: dict[Value, Bits] = {}
        self._alike: dict[Value, int] = {}

    def alike(self, value: Value) -> int:
        """The bits of a thread's number on which a value does not depend that threads were handed; 0 of one
        that is the same in all of them anyway."""
        if value not in self._alike:
            same = self._uniformity.difference(value) is None
            self._alike[value] = 0 if same else ALL & ~_any(self._bits(value))
        return self._alike[value]

    def is_of_warp(self, value: Value, lanes: int) -> bool:
        """Whether the lanes of each warp of so many, a power of two, have one value."""
        same = self._uniformity.difference(value) is None
        return same or not _any(self._bits(value)) & (lanes - 1)

    def _bits(self, value: Value) -> Bits:
        return computed(value, self._known, _read, self._find)

    def _find(self, value: Value) -> Bits:
        op = defining_op(value)
        if self._uniformity.difference(value) is None:
            return (0,)
        if launch_id(value) == LaunchId("thread", 0) and _is_number(op):
            return (*(1 << n for n in range(THREAD_BITS)), 0)
        reads = _read(value)
        if op is None or not reads:
            return (ALL,)
        if op.name in SHUFFLES:
            return self._known[reads[0]] if _butterfly(op) else (ALL,)
        bits = [self._known[operand] for operand in reads]
        if op.name in OPERATORS and bits_of_text(type_text(op.results[0].type)) is not None:
            found = _DOMAIN.evaluate(typed(op), bits, None)
            if found is not None:
                return found
        whole = 0
        for one in bits:
            whole |= _any(one)
        if op.name in COMMUTATIVE:
            one, other = op.operands
            for given, given_by in ((one, other), (other, one)):
                shuffle = defining_op(_plain(given_by))
                if shuffle is None or shuffle.name not in SHUFFLES:
                    continue
                if _plain(shuffle.operands[SHUFFLES[shuffle.name].operand]) == _plain(given):
                    whole &= ~_butterfly(shuffle)
        return (whole,)


def _any(bits: Bits) -> int:
    found = 0
    for one in bits:
        found |= one
    return found


def _read(value: Value) -> list[Value]:
    """The values on which one depends, as far as this is followed."""
    op = defining_op(value)
    if op is None:
        return []
    if op.name in SHUFFLES:
        return [op.operands[SHUFFLES[op.name].operand]]
    if len(op.regions):
        return []
    if is_pure(op) and is_made_of_operands(op.name):
        return list(op.operands)
    found = accesses(op)
    # Lanes that read one place together read one value, or what they read races with a store; but a thread's
    # own memory is another one in each of them.
    plain = len(found) == 1 and found[0].kind == "read" and not order_of(op).strong
    if plain and not found[0].asynchronous and _is_shared(found[0].memory):
        return [found[0].memory, *found[0].indices]
    return []


def _is_shared(memory: Value) -> bool:
    """Whether memory is certainly that of all threads, or of all of a block."""
    root = root_of(memory)
    return root.kind != "unknown" and "private" not in root.spaces


def _is_number(op: Operation | None) -> bool:
    """Whether a thread's id along x is its number in the block."""
    around = None if op is None else enclosing(op, KERNEL_OPS)
    size = None if around is None else block_size(around)
    return size is not None and size[1:] == (1, 1)


def _butterfly(op: Operation) -> int:
    """By which power of two the lanes differ that hand their numbers to each other; 0 of other shuffles."""
    if op.name == "gpu.shuffle":
        step, lanes = (constant_value(op.operands[n]) for n in (1, 2))
        known = "xor" in str(op.attributes["mode"]) and lanes == LAST_LANE + 1
    elif op.name != "nvvm.shfl.sync":
        return 0
    else:
        mask, step, last = (constant_value(op.operands[n]) for n in (0, 2, 3))
        everybody = mask is not None and mask & ALL_LANES == ALL_LANES
        known = "bfly" in str(op.attributes["kind"]) and everybody and last == LAST_LANE
    return step if known and step in (1, 2, 4, 8, 16) else 0


def _plain(value: Value) -> Value:
    """What a value is before casts that keep its bits."""
    op = defining_op(value)
    while op is not None and op.name in BIT_CASTS:
        value = op.operands[0]
        op = defining_op(value)
    return value
