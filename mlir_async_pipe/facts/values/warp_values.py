"""Values that several threads have: what a reduction by butterflies leaves in each of them.

    %1 = shfl.sync bfly %0, 16     %2 = fadd %0, %1        lanes l and l xor 16 have one %2
    %3 = shfl.sync bfly %2, 8      %4 = fadd %2, %3        … and l xor 8
    …                                                      after 4, 2, 1 all 32
    %6 = rocdl.readlane %5, 63                             all lanes of a wave, whatever %5 is

Of each bit of a value is known on which bits of the thread's number it may depend. A butterfly keeps that,
since l xor x xor k is l xor k xor x; adding up both ends of one does not depend on k, if it does not
matter which is added to which; what one lane hands to all depends on the wave; a load depends on its address; what a
loop carries, or a branch gives, depends on what may come, and on what decides which of these comes. Anything else
depends on all that it is made of: registers of floating-point numbers are one bit here.

    (tid and 120) shr 1       bits 2 and 3 are bits 3 and 4 of the lane: lanes 0 to 7 have the same
"""

from __future__ import annotations

from functools import reduce
from itertools import permutations
from operator import or_
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    constant_value,
    defining_op,
    made_in,
    passed_from,
    terminator,
    type_text,
)
from mlir_async_pipe.facts.flow.algorithms import post_dominators, post_order
from mlir_async_pipe.facts.flow.region_flow import origins
from mlir_async_pipe.facts.values.domains import Domain, Typed, typed
from mlir_async_pipe.facts.values.integer_ops import bits_of_text
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.facts.values.uniformity import Uniformity, conditions, is_made_of_operands
from mlir_async_pipe.vocabulary import accesses, is_pure, row_of, shuffles
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS
from mlir_async_pipe.vocabulary.launch_ids import IDS, is_block_number
from mlir_async_pipe.vocabulary.op_table import is_load
from mlir_async_pipe.vocabulary.operator_table import OPERATORS
from mlir_async_pipe.vocabulary.pure_ops import BIT_CASTS, COMMUTATIVE

# The bits of a thread's number in its block; the lowest five are those of its lane (PTX ISA, shfl.sync), of AMD's
# waves of 64 six.
THREAD_BITS = 10
ALL = (1 << THREAD_BITS) - 1

# For each bit of a value, from the lowest on, the bits of the thread on which it may depend; bits above the
# last are like it.
Bits = tuple[int, ...]


class _ThreadBits(Domain[Bits | int, None]):
    """Integers, bit by bit, and numbers."""

    def constant(self, number: int) -> int:
        return number

    def add(self, op: Typed, v: list[Bits | int], known: None) -> Bits:
        """A carry comes from all bits below."""
        found, below = [], 0
        for n in range(op.bits):
            below |= _bit(v[0], n) | _bit(v[1], n)
            found.append(below)
        return tuple(found)

    sub = mul = add

    def or_(self, op: Typed, v: list[Bits | int], known: None) -> Bits:
        return tuple(_bit(v[0], n) | _bit(v[1], n) for n in range(op.bits))

    xor = or_

    def and_(self, op: Typed, v: list[Bits | int], known: None) -> Bits:
        """What a constant masks out is 0."""
        kept = -1
        for mask in v:
            kept &= mask if isinstance(mask, int) else -1
        return tuple(_bit(v[0], n) | _bit(v[1], n) if kept >> n & 1 else 0 for n in range(op.bits))

    def shl(self, op: Typed, v: list[Bits | int], known: None) -> Bits | None:
        by = v[1]
        if not isinstance(by, int) or not 0 <= by < op.bits:
            return None
        return tuple(_bit(v[0], n - by) if n >= by else 0 for n in range(op.bits))

    def shr(self, op: Typed, v: list[Bits | int], known: None) -> Bits | None:
        by = v[1]
        return self._down(op, v[0], by) if isinstance(by, int) else None

    def div(self, op: Typed, v: list[Bits | int], known: None) -> Bits | None:
        """A quotient by a power of two that is rounded down is a shift."""
        by = _power(op, v)
        return None if by is None else self._down(op, v[0], by)

    def rem(self, op: Typed, v: list[Bits | int], known: None) -> Bits | None:
        by = _power(op, v)
        return None if by is None else tuple(_bit(v[0], n) if n < by else 0 for n in range(op.bits))

    def cast(self, op: Typed, v: list[Bits | int], known: None) -> Bits:
        return tuple(_bit(v[0], n) for n in range(op.bits))

    def _down(self, op: Typed, a: Bits | int, by: int) -> Bits:
        top = 0 if op.row.sign == "u" else _bit(a, op.bits - 1)
        return tuple(_bit(a, n + by) if n + by < op.bits else top for n in range(op.bits))


def _bit(value: Bits | int, n: int) -> int:
    return 0 if isinstance(value, int) else value[min(n, len(value) - 1)]


def _power(op: Typed, v: list[Bits | int]) -> int | None:
    """The exponent of a power of two by which an op divides and rounds down, with a sign or without."""
    by = v[1]
    if not isinstance(by, int) or by <= 0 or by & (by - 1) or op.row.rounding != "down":
        return None
    return by.bit_length() - 1


_DOMAIN = _ThreadBits()


class WarpValues:
    """Answers for the values of one kernel, whose warps have at least so many lanes, a power of two."""

    def __init__(self, lanes: int = shuffles.LAST_LANE + 1) -> None:
        self._last_lane = lanes - 1
        self._uniformity = Uniformity()
        self._carried = _Carried()
        self._known: dict[Value, Bits] = {}
        self._alike: dict[Value, int] = {}

    def alike(self, value: Value) -> int:
        """The bits of a thread's number on which a value does not depend that threads were handed, or made together;
        0 of one that is the same in all of them anyway."""
        if value not in self._alike:
            if self._uniformity.difference(value) is not None:
                self._alike[value] = ALL & ~_any(self._bits(value))
            else:
                self._alike[value] = ALL if _is_of_block(value) else 0
        return self._alike[value]

    def is_of_warp(self, value: Value, lanes: int) -> bool:
        """Whether the lanes of each warp of so many, a power of two, have one value."""
        same = self._uniformity.difference(value) is None
        return same or not _any(self._bits(value)) & (lanes - 1)

    def may_agree(self, value: Value) -> bool:
        """Whether a value is made of what lanes are handed by other lanes in a way that is not followed (a product of
        matrices, a permutation), so that threads may have one value for all that is known of it. A matrix of a whole
        warp is no value of its lanes: warps that store one race."""
        pending, seen = [value], {value}
        while pending:
            op = defining_op(pending.pop())
            if op is None or not is_pure(op) or op.name.startswith(shuffles.OF_WARPS):
                continue
            if (
                row_of(op).agree == "differs"
                and op.name not in IDS
                and op.name not in shuffles.SHUFFLES
            ):
                return True
            pending += set(op.operands) - seen
            seen.update(op.operands)
        return False

    def _handed_by_one(self, op: Operation, given: int) -> int:
        """What a shuffle depends on that hands one lane's value, which depends on `given`, to all lanes of a wave."""
        how = shuffles.SHUFFLES[op.name]
        if how.of == "first":
            # The first lane that is active may be another one in each wave.
            return ALL & ~self._last_lane if given & self._last_lane else given
        lane = shuffles.lane_named(op)
        if lane is None:
            return ALL
        lanes = self._last_lane if how.of == "named" else shuffles.LAST_LANE
        by = _any(self._known[lane])
        return ALL if by & lanes else given & ~lanes | by

    def _bits(self, value: Value) -> Bits:
        """The least that a value may depend on: nothing at first, then what its parts turn out to, until nothing is added."""
        if value not in self._known:
            found = [one for one in post_order([value], self._parts) if one not in self._known]
            self._known |= dict.fromkeys(found, (0,))
            changed = True
            while changed:
                changed = False
                for one in found:
                    bits = self._find(one)
                    changed |= bits != self._known[one]
                    self._known[one] = bits
        return self._known[value]

    def _parts(self, value: Value) -> list[Value]:
        return [] if value in self._known else self._read(value)

    def _read(self, value: Value) -> list[Value]:
        """The values on which one depends, as far as this is followed."""
        op = defining_op(value)
        carried = op is None or len(op.regions)
        return self._carried.sources(value) if carried else _read(value)

    def _find(self, value: Value) -> Bits:
        op = defining_op(value)
        if self._uniformity.difference(value) is None:
            return (0,)
        if is_block_number(value):
            return (*(1 << n for n in range(THREAD_BITS)), 0)
        reads = self._read(value)
        if not reads:
            return (ALL,)
        if op is not None and shuffles.handed(op) is not None:
            given = self._known[reads[0]]
            return given if shuffles.swapped_by(op) else (self._handed_by_one(op, _any(given)),)
        if op is not None and (lanes := shuffles.made_together_by(op)):
            # What depends on which lanes of a wave are active depends on the wave, whatever each lane gives.
            return (ALL & ~(self._last_lane if lanes == shuffles.OF_WAVE else lanes),)
        if op is not None and shuffles.halves_of(op):
            return (_any(self._known[reads[0]]) & ~shuffles.halves_of(op),)
        bits = [self._known[operand] for operand in reads]
        made = None
        if op is not None and op.name in OPERATORS and bits_of_text(type_text(op.results[0].type)):
            numbers = map(constant_value, reads)
            operands = [a if n is None else n for a, n in zip(bits, numbers, strict=True)]
            made = _DOMAIN.result(value, typed(op), operands, None)
        if isinstance(made, int):
            return (0,)
        found = (reduce(or_, map(_any, bits)),) if made is None else made
        both_ends = 0 if op is None else self._of_both_ends(op)
        return tuple(one & ~both_ends for one in found)

    def _of_both_ends(self, op: Operation) -> int:
        """The bit in which the lanes differ whose numbers an op combines, whichever comes first. Lanes may differ in
        more bits of which these numbers do not depend on all but one: a row's mirror, lane xor 15, is one step of 8
        where 8 lanes have the same."""
        if op.name not in COMMUTATIVE:
            return 0
        step = 0
        for given, given_by in permutations(op.operands):
            shuffle = defining_op(_plain(given_by))
            source = None if shuffle is None else shuffles.handed(shuffle)
            if shuffle is not None and source is not None and _plain(source) == _plain(given):
                bits = shuffles.swapped_by(shuffle) & _any(self._known[source])
                step |= bits if bits.bit_count() == 1 else 0
        return step


class _Carried:
    """What blocks, regions and results of ops with regions are handed, and what decides which edge hands it to them."""

    def __init__(self) -> None:
        # None: by a jump of which nothing is known.
        self._deciding: dict[Block, list[Value | None]] = {}

    def sources(self, value: Value) -> list[Value]:
        """What an argument of a block, or a result of an op with regions, may be, and what decides which; nothing where
        that is not known."""
        found = origins(value)
        if not found.complete:
            return []
        op, block = made_in(value)
        region = block.region
        if op is not None or block == region.blocks[0]:
            return [*found.values, *conditions(op or block.owner.operation)]
        if block not in self._deciding:
            self._read(region)
        deciding = [one for one in self._deciding[block] if one is not None]
        complete = len(deciding) == len(self._deciding[block])
        return [*found.values, *deciding] if complete else []

    def _read(self, region: Any) -> None:
        """A jump decides for the blocks up to the one where all of its ways have met again, and for that one.

        bb1: cond_br %c, bb2, bb3    bb2: br bb3(%x)    bb3(%y): …      %c decides what %y is
        """
        blocks = list(region.blocks)
        numbers = {block: number for number, block in enumerate(blocks)}
        ends = [terminator(block) for block in blocks]
        after = {n: [numbers[one] for one in end.successors] for n, end in enumerate(ends)}
        end = len(blocks)
        meet = post_dominators({n: found or [end] for n, found in after.items()}, end)
        self._deciding |= {block: [] for block in blocks}
        for n, found in after.items():
            if len(found) > 1:
                last = meet.get(n)
                until = {m: [] if m == last else later for m, later in after.items()}
                known = ends[n].name in BRANCH_ROWS
                for one in post_order(found, until.__getitem__):
                    self._deciding[blocks[one]].append(ends[n].operands[0] if known else None)


def _is_of_block(value: Value) -> bool:
    """Whether a value is made of what all threads of the block made together."""
    for one in post_order([value], _read):
        op = defining_op(one)
        if op is not None and shuffles.made_together_by(op) == shuffles.OF_BLOCK:
            return True
    return False


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
    source = shuffles.handed(op)
    if source is not None:
        lane = shuffles.lane_named(op)
        return [source] if lane is None else [source, lane]
    if shuffles.made_together_by(op) or shuffles.halves_of(op):
        return list(op.operands)
    if len(op.regions):
        return []
    if is_pure(op) and is_made_of_operands(op.name):
        return list(op.operands)
    found = accesses(op)
    # Lanes that read one place together read one value, or what they read races with a store; but a thread's
    # own memory is another one in each of them.
    if is_load(op) and _is_shared(found[0].memory):
        return [found[0].memory, *found[0].indices]
    return []


def _is_shared(memory: Value) -> bool:
    """Whether memory is certainly that of all threads, or of all of a block."""
    root = root_of(memory)
    return root.kind != "unknown" and root.space != "private"


def _plain(value: Value) -> Value:
    """What a value is before casts that keep its bits."""
    return passed_from(value, lambda op: op.name in BIT_CASTS)
