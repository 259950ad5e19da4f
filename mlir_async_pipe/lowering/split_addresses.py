"""The pass `async-pipe-split-addresses`: addresses in loops, by how often their parts change.

    p = base + 8192 * slot + 64 * row + 2048        -->  q = base + 64 * row     once
    p'= base + 8192 * slot + 64 * row + 3072             r = q + 8192 * slot     each iteration
                                                         p = r + 2048, p' = r + 3072: immediates

All accesses of a block that differ by a constant share one pointer. LLVM alone adds up slot, row
and constant first, as integers: it then hoists a base for each row and adds again for each access.

Slots are carried in 32 bits first (`narrow_counters`), and multiplied in 32 bits where fragments are
loaded. A number that several pointers of asynchronous copies add in each iteration is hidden from
loop-strength reduction, which would advance each of them by itself, with as many additions again
and a move.

No range has to be known: addresses are numbers modulo 2^64, before and after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    attributes_of,
    before,
    defining_op,
    has_body,
    made_in,
    operations,
    terminator,
    unchanged,
    walk_named,
)
from mlir_async_pipe.facts.flow.region_flow import Origins, Varying, origins
from mlir_async_pipe.facts.values.integer_ops import bits_of, integer_constant
from mlir_async_pipe.facts.values.linear import Arithmetic, Linear, modulo_index
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.facts.values.memory_roots import is_pointer, step_bytes
from mlir_async_pipe.facts.values.numbers import evaluate
from mlir_async_pipe.facts.values.sums import ZERO, add
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS
from mlir_async_pipe.vocabulary.memory_ops import LDMATRIX
from mlir_async_pipe.vocabulary.operator_table import OPERATORS

_GEP, _CAST = "llvm.getelementptr", "llvm.addrspacecast"
_ARITHMETIC = (_GEP, _CAST)
_SHARED = "!llvm.ptr<3>"
_LARGEST_INDEX = 2**31 - 1


@dataclass(frozen=True)
class AddressedCopies:
    """How a vendor's asynchronous copies take their global address.

    `register` is the class of inline asm in which an offset is hidden; with `scalar` it holds
    one number for a wave, so only what all threads agree on. `immediate`: a constant can stand in
    the instruction; AMD's is added to both addresses, which is for `lds_addresses` to use.
    """

    register: str
    scalar: bool
    immediate: bool


NVIDIA = AddressedCopies("l", scalar=False, immediate=True)

Terms = tuple[tuple[Value, int], ...]
"""Symbols and their coefficients."""

Slots = Mapping[Value, tuple[Value, int]]
"""By values of 64 bits the one of 32 bits that each extends, and the largest number that it takes."""


class SplitAccess(NamedTuple):
    """Operand `number` of `op`, taken apart: `parts` are the terms that vary in none, in the
    first, … of the loops around the op."""

    op: Operation
    number: int
    address: SplitAddress
    parts: tuple[Terms, ...]


@passes.register(
    "async-pipe-split-addresses", "addresses in loops of LLVM code, by how often their parts change"
)
def run(module: Any, options: passes.NoOptions, session: Session) -> None:
    """Narrow the slots and split the addresses in the loops of every llvm.func of a module."""
    split_all(module.operation)


def split_all(root: Operation, copies: AddressedCopies = NVIDIA) -> None:
    """The same below `root`, a step of the lowering."""
    for op in walk_named(root, "llvm.func".__eq__, inside=False):
        if has_body(op):
            split_addresses(op, copies, narrow_counters(op))


def split_addresses(function: Operation, copies: AddressedCopies, slots: Slots) -> None:
    """Rewrite the pointers that ops in the loops of a function take."""
    with unchanged():
        varying, parts = Varying(function.regions[0]), AddressParts()
        order = OrderOfValues(function)
        used = _uses_of_pointers(function)
        found = [
            access
            for block in varying.blocks()
            if block in used
            for access in _accesses(block, used[block], varying, parts, order)
        ]
        shared = _shared_parts(found, copies)
        # Descriptors of products and mbarriers are numbers of 64 bits: there a slot of 32 is an instruction more.
        fragments = {access.op.block for access in found if access.op.name == LDMATRIX}
    writers: dict[Block, _Writer] = {}
    replaced: list[Value] = []
    for access in found:
        block = access.op.block
        if block not in writers:
            writers[block] = _Writer(shared, copies, slots if block in fragments else {})
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
) -> list[SplitAccess]:
    """The pointers that ops of a block take and that are worth splitting."""
    found = []
    for op in operations(block)[:-1]:
        for number in sorted(used.get(op, ())):
            operand = op.operands[number]
            if not is_pointer(operand):
                continue
            address = parts.address(operand)
            split = terms_by_depth(address, block, varying, order)
            if address.steps > 1 or sum(map(bool, (*split, address.offset.constant))) > 1:
                found.append(SplitAccess(op, number, address, split))
    return found


def terms_by_depth(
    address: SplitAddress, block: Block, varying: Varying, order: OrderOfValues
) -> tuple[Terms, ...]:
    """The terms of an address by the number of loops around the block that they vary in, each in
    the `order` of the function's values."""
    split: list[list[tuple[Value, int]]] = [[] for _ in range(len(varying.nest(block)) + 1)]
    terms = address.offset.terms
    several = len(terms) > 1
    for symbol, factor in sorted(terms, key=lambda t: order[t[0]]) if several else terms:
        split[varying.depth(symbol, block)].append((symbol, factor))
    return tuple(tuple(terms) for terms in split)


def _shared_parts(found: list[SplitAccess], copies: AddressedCopies) -> set[tuple[Block, Terms]]:
    """What varies in the innermost loop and is added to several pointers of copies, by block."""
    uniformity = Uniformity()
    pointers: dict[tuple[Block, Terms], set[Any]] = defaultdict(set)
    for op, _, address, parts in found:
        if row_of(op).asynchronous(op) and not address.in_shared and parts[-1]:
            pointers[op.block, parts[-1]].add((address.base, parts[:-1]))

    def fits(terms: Terms) -> bool:
        return not copies.scalar or all(uniformity.difference(s) is None for s, _ in terms)

    return {key for key, several in pointers.items() if len(several) > 1 and fits(key[1])}


class _Writer:
    """Writes the pointers of one block, each part once, before its first use."""

    def __init__(
        self, shared: set[tuple[Block, Terms]], copies: AddressedCopies, slots: Slots
    ) -> None:
        self._shared = shared
        self._copies = copies
        self._slots = slots
        self._known: dict[Any, Value] = {}

    def pointer(self, access: SplitAccess) -> Value:
        """The pointer of an access: base, then one part after the other, then the constant."""
        address, constant = access.address, access.address.offset.constant
        build = LlvmBuilder(before(access.op), access.op.location)
        key: Any = (address.base, str(address.kind))
        made = self._once(key, lambda: address.start(build))
        *parts, last = access.parts
        hides = (access.op.block, last) in self._shared and not address.in_shared
        register = self._copies.register if hides else ""
        early = constant if hides and not self._copies.immediate else 0
        for part in (*parts, early, last):
            if not part:
                continue
            key = (key, part)
            if isinstance(part, int):
                made = self._once(key, lambda p=made: _advanced(build, p, early))
                continue
            hidden = register if part is last else ""
            bytes_ = self._once(
                ("bytes", part, hidden),
                lambda t=part, r=hidden: write_sum(build, t, r, self._slots),
            )
            made = self._once(key, lambda p=made, b=bytes_: build.at(p, b))
        return made if early or not constant else _advanced(build, made, constant)

    def _once(self, key: Any, make: Any) -> Value:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


def _advanced(build: LlvmBuilder, pointer: Value, constant: int) -> Value:
    fits = abs(constant) <= _LARGEST_INDEX
    return build.at(pointer, constant if fits else build.number(constant))


def write_sum(
    build: LlvmBuilder,
    terms: Terms,
    register: str = "",
    slots: Slots = MappingProxyType({}),
    constant: int = 0,
) -> Value:
    """A sum of symbols times coefficients; with a `register` LLVM does not know of what. `slots` are multiplied in 32
    bits: of the 64 ptxas makes the upper ones in every iteration, although nobody reads them."""
    total = build.number(constant) if constant or not terms else None
    for symbol, factor in terms:
        number = symbol
        narrow, largest = slots.get(symbol, (symbol, _LARGEST + 1))
        if factor > 0 and largest * factor <= _LARGEST:
            product = build.binary("llvm.mul", narrow, build.number(factor, 32))
            number, factor = build.cast("llvm.zext", product, build.integer(64)), 1
        elif bits_of(symbol.type) < 64:
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


# Keeps in 32 bits what loops carry in 64 and what is proven to be small: slots.
#
#     ^loop(%slot: i64):                         -->  ^loop(%narrow: i32):
#       %next = select(%slot + 1 == 3, 0, …)            %slot = llvm.zext %narrow
#       llvm.br ^loop(%next)                            llvm.br ^loop(the same of %narrow)
#
# Registers of a GPU have 32 bits: each sum, comparison and choice of 64 takes two instructions. LLVM
# does not see that a slot stays below the number of versions. Here its numbers are counted up: from
# those that the loop begins with, each in turn gives the next one, until no new one comes.

_LARGEST = 2**31 - 1
# More than there are slots of any buffer; a loop counter has more, and gives up soon.
_MOST_NUMBERS = 64
# Ops from one slot to the next that are made again; a sum, a comparison and a choice are three.
_MOST_STEPS = 16

Numbers = dict[Value, set[int]]
"""All numbers that block arguments take."""


def narrow_counters(function: Operation) -> Slots:
    """Narrow the block arguments of a function whose numbers are few and small; those that are best multiplied
    in 32 bits, too."""
    region = function.regions[0]
    arguments = [
        argument
        for block in list(region.blocks)[1:]
        for argument in block.arguments
        if str(argument.type) == "i64"
    ]
    with unchanged():
        found = numbers_of(arguments)
    extended = {argument: _retype(argument) for argument in found}
    for argument in found:
        for end, place in forwarding(argument):
            end.operands[place] = _Narrower(found, end).narrow(end.operands[place])
    # A counter of 2^n numbers is masked: LLVM knows from that how large it is, and multiplies in 64 bits again.
    counted = ((a, numbers) for a, numbers in found.items() if len(numbers).bit_count() > 1)
    return {extended[argument]: (argument, max(numbers)) for argument, numbers in counted}


def numbers_of(arguments: list[Value]) -> Numbers:
    """The numbers of those arguments that take few, none below 0 and none above 2^31 - 1."""
    incoming = {argument: origins(argument) for argument in arguments}
    found: Numbers = {argument: set() for argument, known in incoming.items() if known.complete}
    changed = True
    while changed:
        changed = False
        for argument in list(found):
            numbers = _incoming_numbers(incoming[argument], found)
            if (
                numbers is None
                or len(numbers) > _MOST_NUMBERS
                or not _are_small(numbers)
                or (len(numbers) == 2 and _counts_on(argument, incoming[argument], numbers))
            ):
                # What is made of it is looked at again, without it.
                del found[argument]
            elif numbers != found[argument]:
                found[argument] = numbers
            else:
                continue
            changed = True
    return found


def _counts_on(argument: Value, incoming: Origins, numbers: set[int]) -> bool:
    """Whether what is forwarded goes on as two numbers begin, for more than the most that an argument
    may take: a loop's counter, asked once instead of number by number."""
    first, second = sorted(numbers)
    row = first + (second - first) * np.arange(_MOST_NUMBERS + 1, dtype=np.int64)
    each = [evaluate(value, {argument: row}, lambda leaf: None) for value in incoming.values]
    return any(
        made is not None and made.shape == row.shape and bool((made[:-1] == row[1:]).all())
        for made in each
    )


def _incoming_numbers(incoming: Origins, found: Numbers) -> set[int] | None:
    """The numbers of all that is forwarded; None if one is not known."""
    each = [_numbers_of(value, found) for value in incoming.values]
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


def _retype(argument: Value) -> Value:
    """Make an argument one of 32 bits, extended where its block begins: the value of 64 bits."""
    block = ir.BlockArgument(argument).owner
    uses = [(use.owner.operation, use.operand_number) for use in argument.uses]
    wide = argument.type
    begin = ir.InsertionPoint.at_block_begin(block)
    build = LlvmBuilder(begin, block.owner.operation.location)
    ir.BlockArgument(argument).set_type(build.integer(32))
    extended = build.cast("llvm.zext", argument, wide)
    for user, place in uses:
        user.operands[place] = extended
    return extended


def forwarding(argument: Value) -> list[tuple[Operation, int]]:
    """The branches that forward a block argument, and which operand it is."""
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


# A pointer as the pointer that it starts from and bytes after it: a sum, exact modulo 2^64.
#
#     %at = add (mul %slot, 4096), (mul %row, 32)
#     %p = llvm.getelementptr %tile[%at] : f16        %tile + 8192 * %slot + 64 * %row
#
# Pointers and 64-bit integers wrap at 2^64, where sums and products with constants may be taken
# apart without asking whether they overflow. A narrower sum may be taken apart only where its
# numbers are proven to fit: `values.linear` does that.


@dataclass(frozen=True)
class SplitAddress:
    """`base`, as a pointer of type `kind`, and `offset` bytes after it. Whoever made the address
    has added `steps` times."""

    base: Value
    kind: Any
    offset: Linear
    steps: int

    @property
    def in_shared(self) -> bool:
        return str(self.kind) == _SHARED

    def start(self, build: LlvmBuilder, base: Value | None = None) -> Value:
        """The base, or a value in its place, as a pointer of the kind."""
        base = self.base if base is None else base
        same = base.type == self.kind
        return base if same else build.cast("llvm.addrspacecast", base, self.kind)


class AddressParts:
    """Takes pointers apart; remembers the integers that it has seen."""

    def __init__(self) -> None:
        self._numbers = Arithmetic()

    def address(self, pointer: Value) -> SplitAddress:
        """A pointer of any space, followed through pointer arithmetic."""
        kind, steps = pointer.type, 0
        offset: Linear = ZERO
        while (op := defining_op(pointer)) is not None and op.name in _ARITHMETIC:
            if op.name == _GEP:
                step = step_bytes(op, self._index)
                if step is None:
                    break
                offset, steps = add(offset, step), steps + 1
            pointer = op.operands[0]
        return SplitAddress(pointer, kind, modulo_index(offset), steps)

    def _index(self, index: Value) -> Linear:
        # A narrower index is extended by its sign: it counts as the signed number that it is.
        return self._numbers.wrapped(index)
