"""The pass `async-pipe-split-addresses`: addresses in loops, by how often their parts change.

    p = base + 8192 * slot + 64 * row + 2048        -->  q = base + 64 * row     once
    p'= base + 8192 * slot + 64 * row + 3072             r = q + 8192 * slot     each iteration
                                                         p = r + 2048, p' = r + 3072: immediates

All accesses of a block that differ by a constant share one pointer. LLVM alone adds up slot, row
and constant first, as integers: it then hoists a base for each row and adds again for each access.

Slots are carried in 32 bits first (`narrow_counters`). The part of asynchronous copies that varies is hidden from loop-strength reduction, where several
pointers have it: that would advance each of them by itself, and ptxas moves each one.

No range is asked for: addresses are numbers modulo 2^64, before and after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    before,
    defining_op,
    has_body,
    operations,
    terminator,
    walk,
)
from mlir_async_pipe.flow.varying import Varying
from mlir_async_pipe.lowering.nvvm.address_parts import Address, AddressParts
from mlir_async_pipe.lowering.nvvm.narrow_counters import narrow_counters
from mlir_async_pipe.lowering.scopes.llvm_builder import LlvmBuilder
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.values.integer_ops import bits_of
from mlir_async_pipe.values.pointers import is_pointer
from mlir_async_pipe.vocabulary import row_of

_ARITHMETIC = ("llvm.getelementptr", "llvm.addrspacecast")
_GLOBAL = "!llvm.ptr<1>"
_LARGEST_INDEX = 2**31 - 1

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


def split_all(root: Operation) -> None:
    """The same below `root`, a step of the lowering."""
    for op in walk(root):
        if op.name == "llvm.func" and has_body(op):
            narrow_counters(op)
            split_addresses(op)


def split_addresses(function: Operation) -> None:
    """Rewrite the pointers that ops in the loops of a function take."""
    varying, parts = Varying(function.regions[0]), AddressParts()
    order = {value: number for number, value in enumerate(_values(function))}
    found = [
        access for block in varying.blocks() for access in _accesses(block, varying, parts, order)
    ]
    writers: dict[Block, _Writer] = {}
    shared = _shared_parts(found)
    for access in found:
        block = access.op.block
        if block not in writers:
            writers[block] = _Writer(shared)
        access.op.operands[access.number] = writers[block].pointer(access)
    _erase_unused(function)


def _values(function: Operation) -> Iterator[Value]:
    for block in function.regions[0].blocks:
        yield from block.arguments
        for op in operations(block):
            yield from op.results


def _accesses(
    block: Block, varying: Varying, parts: AddressParts, order: dict[Value, int]
) -> list[Access]:
    """The pointers that ops of a block take and that are worth splitting."""
    found = []
    last = terminator(block)
    for op in operations(block):
        if op.name in _ARITHMETIC or op == last:
            continue
        for number, operand in enumerate(op.operands):
            source = defining_op(operand)
            if source is None or source.name not in _ARITHMETIC or not is_pointer(operand):
                continue
            address = parts.address(operand)
            split = _by_depth(address, block, varying, order)
            constant = address.offset.constant
            if address.steps > 1 or sum(map(bool, split)) + bool(constant) > 1:
                found.append(Access(op, number, address.base, address.kind, split, constant))
    return found


def _by_depth(
    address: Address, block: Block, varying: Varying, order: dict[Value, int]
) -> tuple[Terms, ...]:
    """The terms of an address by the number of loops around the block that they vary in, each in
    the `order` of the function's values."""
    split: list[list[tuple[Value, int]]] = [[] for _ in range(len(varying.nest(block)) + 1)]
    for symbol, factor in sorted(address.offset.terms, key=lambda term: order[term[0]]):
        split[varying.depth(symbol, block)].append((symbol, factor))
    return tuple(tuple(terms) for terms in split)


def _shared_parts(found: list[Access]) -> set[tuple[Block, Terms]]:
    """What varies in the innermost loop and is added to several pointers of copies, by block."""
    pointers: dict[tuple[Block, Terms], set[Any]] = defaultdict(set)
    for access in found:
        row = row_of(access.op)
        copies = row is not None and row.asynchronous(access.op)
        if copies and str(access.kind) == _GLOBAL and access.parts[-1]:
            key = (access.op.block, access.parts[-1])
            pointers[key].add((access.base, access.parts[:-1]))
    return {key for key, different in pointers.items() if len(different) > 1}


class _Writer:
    """Writes the pointers of one block, each part once, before its first use."""

    def __init__(self, shared: set[tuple[Block, Terms]]) -> None:
        self._shared = shared
        self._known: dict[Any, Value] = {}

    def pointer(self, access: Access) -> Value:
        """The pointer of an access: base, then one part after the other, then the constant."""
        build = LlvmBuilder(before(access.op), access.op.location)
        key: Any = (access.base, str(access.kind))
        made = self._once(key, lambda: self._base(build, access))
        for level, terms in enumerate(access.parts):
            if not terms:
                continue
            innermost = level == len(access.parts) - 1
            hide = innermost and (access.op.block, terms) in self._shared
            hide = hide and str(access.kind) == _GLOBAL
            bytes_ = self._once(("bytes", terms, hide), lambda t=terms, h=hide: _sum(build, t, h))
            key = (key, terms)
            made = self._once(key, lambda p=made, b=bytes_: build.at(p, b))
        if not access.constant:
            return made
        fits = abs(access.constant) <= _LARGEST_INDEX
        return build.at(made, access.constant if fits else build.number(access.constant))

    def _base(self, build: LlvmBuilder, access: Access) -> Value:
        if access.base.type == access.kind:
            return access.base
        return build.cast("llvm.addrspacecast", access.base, access.kind)

    def _once(self, key: Any, make: Any) -> Value:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


def _sum(build: LlvmBuilder, terms: Terms, hide: bool) -> Value:
    """A sum of symbols times coefficients."""
    total: Value | None = None
    for symbol, factor in terms:
        number = symbol
        if bits_of(symbol.type) < 64:
            number = build.cast("llvm.sext", symbol, build.integer(64))
        if factor != 1:
            number = build.binary("llvm.mul", number, build.number(factor))
        total = number if total is None else build.binary("llvm.add", total, number)
    assert total is not None
    return build.hidden(total) if hide else total


def _erase_unused(function: Operation) -> None:
    """Erase pointer arithmetic that nobody uses any more."""
    for op in reversed(list(walk(function))):
        if op.name in _ARITHMETIC and next(iter(op.results[0].uses), None) is None:
            op.erase()
