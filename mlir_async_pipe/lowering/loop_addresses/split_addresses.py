"""The pass `async-pipe-split-addresses`: addresses in loops, by how often their parts change.

    p = base + 8192 * slot + 64 * row + 2048        -->  q = base + 64 * row     once
    p'= base + 8192 * slot + 64 * row + 3072             r = q + 8192 * slot     each iteration
                                                         p = r + 2048, p' = r + 3072: immediates

All accesses of a block that differ by a constant share one pointer. LLVM alone adds up slot, row
and constant first, as integers: it then hoists a base for each row and adds again for each access.

Slots are carried in 32 bits first (`narrow_counters`). What several pointers of asynchronous copies
add in each iteration is hidden from loop-strength reduction: that would advance each of them by
itself, which takes as many additions again and a move.

No range is asked for: addresses are numbers modulo 2^64, before and after.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    before,
    defining_op,
    has_body,
    made_in,
    operations,
    walk_named,
)
from mlir_async_pipe.facts.flow.ways import Varying
from mlir_async_pipe.facts.values.integer_ops import bits_of
from mlir_async_pipe.facts.values.pointers import is_pointer
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.lowering.loop_addresses.address_parts import Address, AddressParts
from mlir_async_pipe.lowering.loop_addresses.narrow_counters import narrow_counters
from mlir_async_pipe.lowering.scopes.llvm_builder import LlvmBuilder
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import row_of

_ARITHMETIC = ("llvm.getelementptr", "llvm.addrspacecast")
_SHARED = "!llvm.ptr<3>"
_LARGEST_INDEX = 2**31 - 1


@dataclass(frozen=True)
class Copies:
    """How a vendor's asynchronous copies take their global address.

    `register` is the class of inline asm in which an offset is hidden; with `scalar` it holds
    one number for a wave, so only what all threads agree on. `immediate`: a constant can stand in
    the instruction; AMD's is added to both addresses, which is for `lds_addresses` to use.
    """

    register: str
    scalar: bool
    immediate: bool


NVIDIA = Copies("l", scalar=False, immediate=True)

Terms = tuple[tuple[Value, int], ...]
"""Symbols and their coefficients."""


@dataclass(frozen=True)
class Access:
    """Operand `number` of `op`, taken apart: `parts` are the terms that vary in none, in the
    first, … of the loops around the op."""

    op: Operation
    number: int
    base: Value
    kind: Any
    parts: tuple[Terms, ...]
    constant: int


@passes.register(
    "async-pipe-split-addresses", "addresses in loops of LLVM code, by how often their parts change"
)
def run(module: Any, options: passes.NoOptions, session: Session) -> None:
    """Narrow the slots and split the addresses in the loops of every llvm.func of a module."""
    split_all(module.operation)


def split_all(root: Operation, copies: Copies = NVIDIA) -> None:
    """The same below `root`, a step of the lowering."""
    for op in walk_named(root, "llvm.func".__eq__, inside=False):
        if has_body(op):
            narrow_counters(op)
            split_addresses(op, copies)


def split_addresses(function: Operation, copies: Copies) -> None:
    """Rewrite the pointers that ops in the loops of a function take."""
    varying, parts = Varying(function.regions[0]), AddressParts()
    order = OrderOfValues(function)
    used = _uses_of_pointers(function)
    found = [
        access
        for block in varying.blocks()
        if block in used
        for access in _accesses(block, used[block], varying, parts, order)
    ]
    writers: dict[Block, _Writer] = {}
    replaced: list[Value] = []
    shared = _shared_parts(found, copies)
    for access in found:
        block = access.op.block
        if block not in writers:
            writers[block] = _Writer(shared, copies)
        replaced.append(access.op.operands[access.number])
        access.op.operands[access.number] = writers[block].pointer(access)
    _erase_unused(replaced)


class OrderOfValues:
    """The places of a function's values in its text, counted block by block as they are asked for."""

    def __init__(self, function: Operation) -> None:
        self._numbers = {block: n for n, block in enumerate(function.regions[0].blocks)}
        self._places: dict[Value, tuple[int, int]] = {}

    def __getitem__(self, value: Value) -> tuple[int, int]:
        if value not in self._places:
            _, block = made_in(value)
            number = self._numbers[block]
            made = (result for op in operations(block) for result in op.results)
            for place, each in enumerate((*block.arguments, *made)):
                self._places[each] = number, place
        return self._places[value]


def _uses_of_pointers(function: Operation) -> dict[Block, dict[Operation, list[int]]]:
    """By block, the ops that take pointers which were computed, and which operands these are."""
    found: dict[Block, dict[Operation, list[int]]] = {}
    for source in walk_named(function, _ARITHMETIC.__contains__):
        for use in source.results[0].uses:
            op = use.owner.operation
            if op.name not in _ARITHMETIC:
                found.setdefault(op.block, {}).setdefault(op, []).append(use.operand_number)
    return found


def _accesses(
    block: Block,
    used: dict[Operation, list[int]],
    varying: Varying,
    parts: AddressParts,
    order: OrderOfValues,
) -> list[Access]:
    """The pointers that ops of a block take and that are worth splitting."""
    found = []
    for op in operations(block)[:-1]:
        for number in sorted(used.get(op, ())):
            operand = op.operands[number]
            if not is_pointer(operand):
                continue
            address = parts.address(operand)
            split = terms_by_depth(address, block, varying, order)
            constant = address.offset.constant
            if address.steps > 1 or sum(map(bool, split)) + bool(constant) > 1:
                found.append(Access(op, number, address.base, address.kind, split, constant))
    return found


def terms_by_depth(
    address: Address, block: Block, varying: Varying, order: OrderOfValues
) -> tuple[Terms, ...]:
    """The terms of an address by the number of loops around the block that they vary in, each in
    the `order` of the function's values."""
    split: list[list[tuple[Value, int]]] = [[] for _ in range(len(varying.nest(block)) + 1)]
    terms = address.offset.terms
    several = len(terms) > 1
    for symbol, factor in sorted(terms, key=lambda t: order[t[0]]) if several else terms:
        split[varying.depth(symbol, block)].append((symbol, factor))
    return tuple(tuple(terms) for terms in split)


def _shared_parts(found: list[Access], copies: Copies) -> set[tuple[Block, Terms]]:
    """What varies in the innermost loop and is added to several pointers of copies, by block."""
    uniformity = Uniformity()
    pointers: dict[tuple[Block, Terms], set[Any]] = defaultdict(set)
    for access in found:
        row = row_of(access.op)
        if row is None or not row.asynchronous(access.op) or str(access.kind) == _SHARED:
            continue
        if access.parts[-1]:
            key = (access.op.block, access.parts[-1])
            pointers[key].add((access.base, access.parts[:-1]))

    def fits(terms: Terms) -> bool:
        return not copies.scalar or all(uniformity.difference(s) is None for s, _ in terms)

    return {key for key, several in pointers.items() if len(several) > 1 and fits(key[1])}


class _Writer:
    """Writes the pointers of one block, each part once, before its first use."""

    def __init__(self, shared: set[tuple[Block, Terms]], copies: Copies) -> None:
        self._shared = shared
        self._copies = copies
        self._known: dict[Any, Value] = {}

    def pointer(self, access: Access) -> Value:
        """The pointer of an access: base, then one part after the other, then the constant."""
        build = LlvmBuilder(before(access.op), access.op.location)
        key: Any = (access.base, str(access.kind))
        made = self._once(key, lambda: self._base(build, access))
        *parts, last = access.parts
        hides = (access.op.block, last) in self._shared and str(access.kind) != _SHARED
        register = self._copies.register if hides else ""
        early = access.constant if hides and not self._copies.immediate else 0
        for part in (*parts, early, last):
            if not part:
                continue
            key = (key, part)
            if isinstance(part, int):
                made = self._once(key, lambda p=made: _advanced(build, p, early))
                continue
            hidden = register if part is last else ""
            bytes_ = self._once(
                ("bytes", part, hidden), lambda t=part, r=hidden: write_sum(build, t, r)
            )
            made = self._once(key, lambda p=made, b=bytes_: build.at(p, b))
        return made if early or not access.constant else _advanced(build, made, access.constant)

    def _base(self, build: LlvmBuilder, access: Access) -> Value:
        if access.base.type == access.kind:
            return access.base
        return build.cast("llvm.addrspacecast", access.base, access.kind)

    def _once(self, key: Any, make: Any) -> Value:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


def _advanced(build: LlvmBuilder, pointer: Value, constant: int) -> Value:
    fits = abs(constant) <= _LARGEST_INDEX
    return build.at(pointer, constant if fits else build.number(constant))


def write_sum(build: LlvmBuilder, terms: Terms, register: str = "", constant: int = 0) -> Value:
    """A sum of symbols times coefficients; with a `register` LLVM does not know of what."""
    total = build.number(constant) if constant or not terms else None
    for symbol, factor in terms:
        number = symbol
        if bits_of(symbol.type) < 64:
            number = build.cast("llvm.sext", symbol, build.integer(64))
        # Before it is scaled: then it is the loop's own counter that is hidden, not another one.
        if register and len(terms) == 1:
            number = build.hidden(number, register)
        if factor != 1:
            number = build.binary("llvm.mul", number, build.number(factor))
        total = number if total is None else build.binary("llvm.add", total, number)
    assert total is not None
    return build.hidden(total, register) if register and len(terms) > 1 else total


def _erase_unused(pointers: list[Value]) -> None:
    """Erase the arithmetic of pointers that nobody uses any more, users before what they use."""
    found: dict[Operation, None] = {}
    for pointer in pointers:
        chain: list[Operation] = []
        op = defining_op(pointer)
        while op is not None and op.name in _ARITHMETIC and op not in found:
            chain.append(op)
            op = defining_op(op.operands[0])
        # Each of the chain uses the next one; what is known already comes before all its users.
        found.update(dict.fromkeys(reversed(chain)))
    for op in reversed(found):
        if next(iter(op.results[0].uses), None) is None:
            op.erase()
