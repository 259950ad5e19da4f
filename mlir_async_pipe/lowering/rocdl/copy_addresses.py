"""Global addresses of copies in loops as a scalar base and 32 bits of a lane.

    copy (%a + 8192 * %row + 2 * %k), …            %p = %a + 2 * %k        once an iteration, of the wave
    copy (%a + 8192 * %row + 131072 + 2 * %k), …   copy (%p + zext %low), …
                                              -->  copy (%p + zext %high), …   %high = 8192 * %row + 131072

An address of 64 bits a lane takes an addition for each copy and iteration. The instructions also add a scalar
register of 64 bits and a vector one of 32, without a sign (CDNA 3 ISA, section 9.4, SADDR): what all lanes
have in common moves in the scalar one, once for all copies that share it, and what a lane has of its own stays.

That must be proven to fit: the numbers of a lane are from 0 to 2^32 - 1 once the least of all copies is added to
the base. For rows of dynamic stride see `give_narrow_versions`.

The back end looks for a base and an extended number in the block of the copy, and LLVM would hoist what does not
change. So each number goes around the loop through an inline assembly without instructions, and the
base through another one, which also keeps loop-strength reduction from giving each copy a pointer of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    DYNAMIC,
    Block,
    Operation,
    Value,
    as_kind,
    before,
    create,
    has_body,
    integer_attribute,
    is_function,
    is_made_in,
    made_in,
    set_integer,
    terminator,
    walk,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import part_versions, yield_values
from mlir_async_pipe.chips.table import CHIPS, Chip
from mlir_async_pipe.facts.flow.region_flow import Varying
from mlir_async_pipe.facts.values.alignment import element_bytes, static_strides
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.linear import Arithmetic, Linear
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.facts.values.sums import Form, interval_of, of_symbol, subtract
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.lowering.rocdl.rocdl_copies import space_name
from mlir_async_pipe.lowering.split_addresses import (
    AddressedCopies,
    AddressParts,
    OrderOfValues,
    SplitAddress,
    Terms,
    forwarding,
    numbers_of,
    split_all,
    terms_by_depth,
    write_sum,
)
from mlir_async_pipe.vocabulary import Access, accesses, row_of
from mlir_async_pipe.vocabulary.control_flow import with_successor_operands
from mlir_async_pipe.vocabulary.launch_ids import block_size

_MOST = 2**32 - 1
# No assembly hands on a pointer to a buffer (`!llvm.ptr<7>`).
_POINTERS = ("!llvm.ptr", "!llvm.ptr<1>")
# Numbers in one vector: LLVM has registers of every length up to here.
_TOGETHER = 8
_TWICE = "#llvm.loop_annotation<unroll = #llvm.loop_unroll<count = 2 : i32>>"


class _Copy(NamedTuple):
    """A copy, its operand that holds the global address, and the address: what all lanes have in common, and what
    is a lane's own, with its constant."""

    op: Operation
    operand: int
    address: SplitAddress
    common: Terms
    own: Linear


def use_scalar_bases(function: Operation) -> None:
    """Rewrite the global addresses of asynchronous copies in the innermost loops of a function, where it is proven that 32
    bits hold what lanes have of their own."""
    varying = Varying(function.regions[0])
    ranges = Arithmetic(block_size(function))
    ready = []
    for copies in _by_base(function, varying).values():
        loop = _Loop(function, varying.nest(copies[0].op.block)[-1], varying)
        step = loop.step(copies[0].common)
        ends = [interval_of(copy.own, ranges.value_range) for copy in copies]
        lows = [low for low, _ in ends if low is not None]
        highs = [high for _, high in ends if high is not None]
        bounded = len(lows) == len(highs) == len(copies) and max(highs) - min(lows) <= _MOST
        if bounded and step is not None and len(loop.entries()) == 1:
            ready.append((copies, loop, min(lows), step))
    for copies, loop, low, step in ready:
        _rewrite(copies, loop, low, step)


def _by_base(function: Operation, varying: Varying) -> dict[Any, list[_Copy]]:
    """The copies in loops whose address a lane knows before the loop but for what all have in common, by that."""
    parts, uniformity = AddressParts(), Uniformity()
    found: dict[Any, list[_Copy]] = defaultdict(list)
    for op in walk(function):
        nest = varying.nest(op.block) if row_of(op).asynchronous(op) else ()
        for access in accesses(op) if nest else ():
            # A descriptor is no address of a lane, and a buffer's has an offset of 32 bits anyway.
            if access.writes or access.named_by != op:
                continue
            address = parts.address(access.memory)
            if str(address.kind) not in _POINTERS:
                continue
            terms = address.offset.terms
            common = _common(address.offset, uniformity).terms
            own = Form(address.offset.constant, terms - common)
            stands = all(varying.depth(symbol, op.block) < len(nest) for symbol in own.symbols)
            if own.terms and stands and uniformity.difference(address.base) is None:
                key = (nest[-1], address.base, str(address.kind), common)
                same = tuple(term for term in terms if term in common)
                found[key].append(_Copy(op, access.memory_operand, address, same, own))
    return found


def _rewrite(copies: list[_Copy], loop: _Loop, low: int, step: int) -> None:
    """Give copies one base, which begins `low` bytes further on and advances by `step` bytes."""
    first = copies[0]
    base = loop.pointer(first.address, first.common, low, step)
    for begin in range(0, len(copies), _TOGETHER):
        some = copies[begin : begin + _TOGETHER]
        numbers = loop.numbers([copy.own for copy in some], low)
        for place, copy in enumerate(some):
            build = LlvmBuilder(before(copy.op), copy.op.location)
            operands = [numbers, build.number(place, 32)]
            own = build.make("llvm.extractelement", operands, build.integer(32))
            moved = build.at(base, build.cast("llvm.zext", own, build.integer(64)))
            copy.op.operands[copy.operand] = moved


class _Loop:
    """An innermost loop, what does not change in it written before it, and what goes around it."""

    def __init__(self, function: Operation, header: Block, varying: Varying) -> None:
        # As the region has it: a block that is a branch's successor takes the branch for its owner.
        self._header = next(block for block in function.regions[0].blocks if block == header)
        header = self._header
        self._varying = varying
        self._order = OrderOfValues(function)
        self._arithmetic = Arithmetic()
        self._outside: dict[Value, Value] = {}
        slots = numbers_of([value for value in header.arguments if str(value.type) == "i64"])
        self._alternates = any(len(numbers) == 2 for numbers in slots.values())

    def entries(self) -> list[Operation]:
        """The branches into the loop from outside of it."""
        return [end for end in self._ends() if not self._holds(end.block)]

    def step(self, terms: Terms) -> int | None:
        """By how much a sum grows in an iteration; None if that is not one constant."""
        total = 0
        for symbol, factor in terms:
            if self._stands(symbol):
                continue
            grown = {
                subtract(self._arithmetic.wrapped(end.operands[place]), of_symbol(symbol))
                for end, place in self._forwarding(symbol)
                if self._holds(end.block)
            }
            if len(grown) != 1 or not (one := grown.pop()).is_constant:
                return None
            total += factor * one.constant
        return total

    def pointer(self, address: SplitAddress, common: Terms, low: int, step: int) -> Value:
        """The pointer of the lowest copy in this iteration."""
        build = self._before()
        base = address.start(build, self._hoisted(address.base))
        terms = tuple((self._at_entry(symbol), factor) for symbol, factor in self._sorted(common))
        start = build.at(base, write_sum(build, terms, constant=low))
        return self._carried(start, "s", step)

    def numbers(self, forms: list[Linear], low: int) -> Value:
        """The forms less `low`, in 32 bits each, as a vector."""
        build = self._before()
        # LLVM forgets what an assembly does to a vector of one element.
        kind = ir.Type.parse(f"vector<{max(len(forms), 2)}xi32>", build.location.context)
        all_ = build.make("llvm.mlir.poison", [], kind)
        for place, form in enumerate(forms):
            own = self._sorted(form.terms)
            terms = tuple((self._hoisted(symbol), factor) for symbol, factor in own)
            total = write_sum(build, terms, constant=form.constant - low)
            operands = [
                all_,
                build.cast("llvm.trunc", total, build.integer(32)),
                build.number(place, 32),
            ]
            all_ = build.make("llvm.insertelement", operands, kind)
        return self._carried(all_, "v")

    def _sorted(self, terms: Iterable[tuple[Value, int]]) -> Terms:
        """As the function has their values, so that it becomes the same code in each process."""
        return tuple(sorted(terms, key=lambda term: self._order[term[0]]))

    def _carried(self, start: Value, register: str, step: int = 0) -> Value:
        """An argument of the header: first `start`, then itself, or as a pointer `step` bytes further on, through
        an assembly."""
        carried = self._header.add_argument(start.type, self._before().location)
        for end in self._ends():
            value = start
            if self._holds(end.block):
                build = LlvmBuilder(before(end), end.location)
                moved = build.at(carried, step) if step else carried
                value = build.assembly("", f"={register},0", [moved], [moved.type]).results[0]
            successors = list(end.successors)
            more = [[value] if successor == self._header else [] for successor in successors]
            operands, attributes = with_successor_operands(end, more)
            if self._alternates and value != start:
                attributes["loop_annotation"] = ir.Attribute.parse(_TWICE, end.context)
            create(
                end.name,
                operands,
                (),
                attributes,
                ip=before(end),
                loc=end.location,
                successors=successors,
            )
            end.erase()
        return carried

    def _at_entry(self, value: Value) -> Value:
        """The value in the first iteration."""
        if self._stands(value):
            return self._hoisted(value)
        (entry,) = (found for found in self._forwarding(value) if not self._holds(found[0].block))
        return entry[0].operands[entry[1]]

    def _hoisted(self, value: Value) -> Value:
        """The value, made once more where its op stands in the loop: an op without effects."""
        op, block = made_in(value)
        if op is None or not self._holds(block):
            return value
        if value not in self._outside:
            operands = [self._hoisted(operand) for operand in op.operands]
            copy = op.clone(ip=self._before().ip).operation
            yield_values(copy, operands)
            self._outside.update(zip(op.results, copy.results, strict=True))
        return self._outside[value]

    def _before(self) -> LlvmBuilder:
        (entry,) = self.entries()
        return LlvmBuilder(before(entry), entry.location)

    def _ends(self) -> list[Operation]:
        return _branches_to(self._header)

    def _holds(self, block: Block) -> bool:
        return self._header in self._varying.nest(block)

    def _stands(self, value: Value) -> bool:
        _, block = made_in(value)
        depth = self._varying.nest(self._header).index(self._header)
        return not self._holds(block) or self._varying.depth(value, block) <= depth

    def _forwarding(self, value: Value) -> list[tuple[Operation, int]]:
        op, block = made_in(value)
        return forwarding(value) if op is None and block == self._header else []


# Gives loops that copy rows of dynamic stride a version in which 32 bits hold what lanes have of their own.
#
#     scf.for %k = … {                                       %narrow = arith.cmpi ult, %stride, 2^23
#       amdgpu.gather_to_lds %A[%m + %t, %k + %c], …   -->   scf.if %narrow {
#     }                                                        %B = memref.reinterpret_cast %A to
#                                                                offset: [%m * %stride], strides: [%stride & (2^23 - 1), 1]
#                                                              scf.for %k = … { amdgpu.gather_to_lds %B[%t, %k + %c], … }
#                                                            } else { the loop as it was }
#
# Nothing bounds the rows of a `memref<?x?xf16>`: the 128th one may begin more than 2^32 bytes after the first. One
# comparison before the loop decides it, and the mask, which changes nothing there, is what `use_scalar_bases` proves its ranges by.
# What all threads of a block have in common (`%m`) goes into the offset, as it has no bound of its own.
#
# 128 rows of f16 and strides below 2^23 elements: 128 * 2^23 * 2 bytes are 2^31. The other half of the 32 bits is for columns.
#
# Only pipelined loops get versions, and chips whose lanes copy 4 bytes at once: a tile of 128x32 takes 8 copies a thread there, each with an
# addition of 64 bits, and 2 where lanes copy 16 bytes.


_HALF = 2**31
# Rows that are longer than this many elements have the loop as it was.
_FEWEST = 2**12


class _Split(NamedTuple):
    """What a copy reads, and its subscripts in dimensions of dynamic stride: what all threads have in common, and
    what each has of its own."""

    access: Access
    common: dict[int, Linear]
    own: dict[int, Linear]


def give_narrow_versions(root: Operation, chip: Chip) -> None:
    """Write the versions for all loops below `root` that can have them."""
    if chip.copy_form is None or max(chip.copy_bytes) > 4:
        return
    for function in [op for op in walk(root) if is_function(op)]:
        arithmetic, uniformity = Arithmetic(block_size(function)), Uniformity()
        for loop in [op for op in walk(function) if op.name == "scf.for" and _carries_slots(op)]:
            splits = _splits(loop, arithmetic, uniformity)
            limit = _limit(splits, arithmetic)
            if splits and limit >= _FEWEST:
                _write_version(loop, splits, limit)


def _carries_slots(loop: Operation) -> bool:
    """Whether it may be a pipelined loop, and not the one beside it for few iterations."""
    return any(str(value.type) == "index" for value in list(loop.operands)[3:])


def _splits(loop: Operation, arithmetic: Arithmetic, uniformity: Uniformity) -> list[_Split]:
    """The copies of an innermost loop from arrays of dynamic strides; none if one cannot be split."""
    found = []
    for op in walk(loop):
        if op != loop and op.name == "scf.for":
            return []
        for access in accesses(op) if row_of(op).asynchronous(op) else ():
            if access.writes or as_kind(ir.MemRefType, access.memory.type) is None:
                continue
            if space_name(access.memory) not in ("", "global"):
                return []
            rows = [d for d, stride in enumerate(static_strides(access.memory)) if stride is None]
            forms = {d: arithmetic.linear(access.indices[d]) for d in rows}
            if not all(map(_can_be_written, forms.values())) or is_made_in(access.memory, loop):
                return []
            same = {d: _common(form, uniformity) for d, form in forms.items()}
            if any(is_made_in(symbol, loop) for form in same.values() for symbol in form.symbols):
                return []
            own = {d: Form(form.constant, form.terms - same[d].terms) for d, form in forms.items()}
            found += [_Split(access, same, own)] if rows else []
    return found


def _common(form: Linear, uniformity: Uniformity) -> Linear:
    same = (term for term in form.terms if uniformity.difference(term[0]) is None)
    return Form(0, frozenset(same))


def _can_be_written(form: Linear) -> bool:
    return all(str(symbol.type) == "index" for symbol in form.symbols)


def _limit(splits: Sequence[_Split], arithmetic: Arithmetic) -> int:
    """The power of two below which strides may be, in elements; 0 if there is none."""
    most = 1
    for split in splits:
        ends = [interval_of(form, arithmetic.value_range) for form in split.own.values()]
        if any(low is None or low < 0 or high is None for low, high in ends):
            return 0
        rows = sum(high or 0 for _, high in ends)
        most = max(most, (rows + 1) * element_bytes(split.access.memory))
    return 1 << (_HALF // most).bit_length() - 1


def _write_version(loop: Operation, splits: Sequence[_Split], limit: int) -> None:
    write = IntegerWriter(before(loop), loop.location)
    arrays = list(dict.fromkeys(split.access.memory for split in splits))
    layouts = {array: write.layout(array) for array in arrays}
    narrow: Value | None = None
    for array, (_, _, strides) in layouts.items():
        for static, stride in zip(static_strides(array), strides, strict=True):
            if static is None:
                one = write.compare("ult", stride, limit)
                narrow = one if narrow is None else write.binary("arith.andi", narrow, one)
    assert narrow is not None
    part_versions(narrow, loop)
    views: dict[Any, Value] = {}
    for split in splits:
        array = split.access.memory
        key = (array, tuple(split.common.items()))
        if key not in views:
            inside = IntegerWriter(before(loop), loop.location)
            views[key] = _view(array, layouts[array], split.common, limit, inside)
        op = split.access.op
        op.operands[split.access.memory_operand] = views[key]
        inside = IntegerWriter(before(op), op.location)
        for dimension, form in split.own.items():
            number = split.access.index_operands[dimension]
            op.operands[number] = _written(form, inside)


def _view(
    array: Value, layout: Any, common: dict[int, Linear], limit: int, write: IntegerWriter
) -> Value:
    """The array from a row on, its dynamic strides below the limit."""
    offset, sizes, strides = layout
    masked = {
        d: write.binary("arith.andi", strides[d], limit - 1)
        for d, static in enumerate(static_strides(array))
        if static is None
    }
    for dimension, form in common.items():
        offset = write.add(offset, write.multiply(_written(form, write), strides[dimension]))
    kind = ir.MemRefType(array.type)
    known = [stride if stride is not None else DYNAMIC for stride in static_strides(array)]
    context = array.type.context
    strided = ir.StridedLayoutAttr.get(DYNAMIC, known, context=context)
    result = ir.MemRefType.get(
        [DYNAMIC] * kind.rank, kind.element_type, strided, kind.memory_space, loc=write.location
    )
    segments = [1, 1, kind.rank, len(masked)]
    attributes = {
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments, context),
        "static_offsets": ir.DenseI64ArrayAttr.get([DYNAMIC], context),
        "static_sizes": ir.DenseI64ArrayAttr.get([DYNAMIC] * kind.rank, context),
        "static_strides": ir.DenseI64ArrayAttr.get(known, context),
    }
    operands = [array, offset, *sizes, *masked.values()]
    return write.make("memref.reinterpret_cast", operands, result, attributes)


def _written(form: Linear, write: IntegerWriter) -> Value:
    total = write.constant(form.constant)
    for symbol, factor in sorted(form.terms, key=lambda term: term[1]):
        total = write.add(total, write.multiply(symbol, factor))
    return total


# Addresses in LDS ----------------------------------------------------------------------------
#
# Copies to LDS take few addresses there, each from a scalar register of its own.
#
#     copy %p, %tile + %row + 8192 * %slot               %at = %tile + %row              before the loop
#     copy %q, %tile + %row + 8192 * %slot + 1024   -->  copy %p, %at + 8192 * %slot
#                                                        copy %q - 1024, the same {offset = 1024}
#
# The address in LDS is one number for a wave and stands in M0: each copy with an address of its own
# takes an instruction that writes M0, and often another one that waits for it. The constant of the
# instruction is added to both addresses, so the global one begins as much earlier, which
# `split_addresses` adds once before a loop. How large such a constant may be stands in `chips`.
#
# What stands still of an address is hidden from LLVM, which would make all of them out of one
# register: two additions and a move for each, where one addition that writes M0 is enough.

AMD = AddressedCopies("s", scalar=True, immediate=False)
# The constant that is added to both addresses.
_CONSTANT = "offset"


class _NativeCopy(NamedTuple):
    """A wave's copy, what it writes in LDS, and where that is."""

    op: Operation
    written: Access
    address: SplitAddress

    @property
    def constant(self) -> int:
        """The constant bytes of the address."""
        return self.address.offset.constant


def split_for_rocdl(root: Operation, chip: str) -> None:
    """Take the addresses of the LLVM dialect below `root` apart, for the AMD chip of that name."""
    form = CHIPS[chip].copy_form
    for op in list(walk_named(root, "llvm.func".__eq__, inside=False)):
        if form is not None and has_body(op):
            share_lds_addresses(op, form.largest_constant)
            use_scalar_bases(op)
    split_all(root, AMD)


def share_lds_addresses(function: Operation, largest: int) -> None:
    """Give the copies of each block of a function as few addresses in LDS as constants of 0 to
    `largest` allow."""
    varying, order = Varying(function.regions[0]), OrderOfValues(function)
    windows = [window for copies in _by_address(function) for window in _windows(copies, largest)]
    for window in windows:
        first, block = window[0], window[0].op.block
        parts = terms_by_depth(first.address, block, varying, order)
        still = tuple(term for part in parts[:-1] for term in part)
        for copy in window:
            _advance(copy, copy.constant - first.constant)
        entry = _entry(first, still, varying) if varying.nest(block) and parts[-1] else None
        if entry is not None:
            made = _standing(first, still, entry)
            for copy in window:
                build = LlvmBuilder(before(copy.op), copy.op.location)
                moved = build.at(made, write_sum(build, parts[-1]))
                copy.op.operands[copy.written.memory_operand] = moved


def _by_address(function: Operation) -> list[list[_NativeCopy]]:
    """The copies of a block whose addresses in LDS differ by constants."""
    parts = AddressParts()
    found: dict[Any, list[_NativeCopy]] = defaultdict(list)
    for op in walk(function):
        for written in accesses(op):
            # What has used its constant stays as it is.
            if written.over_lanes and integer_attribute(op, _CONSTANT) == 0:
                address = parts.address(written.memory)
                key = (op.block, address.base, str(address.kind), address.offset.terms)
                found[key].append(_NativeCopy(op, written, address))
    return list(found.values())


def _windows(copies: list[_NativeCopy], largest: int) -> list[list[_NativeCopy]]:
    """The copies that can share an address, each group with the lowest one first."""
    found: list[list[_NativeCopy]] = []
    for copy in sorted(copies, key=lambda copy: copy.constant):
        if not found or copy.constant - found[-1][0].constant > largest:
            found.append([])
        found[-1].append(copy)
    return found


def _entry(copy: _NativeCopy, still: Terms, varying: Varying) -> Operation | None:
    """The branch into the innermost loop around a copy, if there is one only and all that stands
    still of the address is known there."""
    loop = varying.nest(copy.op.block)[-1]
    values = [copy.address.base, *(symbol for symbol, _ in still)]
    if any(loop in varying.nest(made_in(value)[1]) for value in values):
        return None
    ends = [end for end in _branches_to(loop) if loop not in varying.nest(end.block)]
    return ends[0] if len(ends) == 1 else None


def _branches_to(block: Block) -> list[Operation]:
    ends = map(terminator, block.region.blocks)
    return [end for end in ends if block in list(end.successors)]


def _advance(copy: _NativeCopy, constant: int) -> None:
    """Let the instruction add a constant, and both addresses begin that much earlier."""
    if not constant:
        return
    build = LlvmBuilder(before(copy.op), copy.op.location)
    for access in accesses(copy.op):
        copy.op.operands[access.memory_operand] = build.at(access.memory, -constant)
    set_integer(copy.op, _CONSTANT, constant, 32)


def _standing(copy: _NativeCopy, still: Terms, entry: Operation) -> Value:
    """What stands still of a copy's address in LDS, in a scalar register."""
    build = LlvmBuilder(before(entry), copy.op.location)
    base = copy.address.start(build)
    total = write_sum(build, still, constant=copy.constant)
    offset = build.cast("llvm.trunc", total, build.integer(32))
    return build.at(base, build.hidden(offset, AMD.register))
