"""Global addresses of copies in loops as a scalar base and 32 bits of a lane.

    copy (%a + 8192 * %row + 2 * %k), …            %p = %a + 2 * %k        once an iteration, of the wave
    copy (%a + 8192 * %row + 131072 + 2 * %k), …   copy (%p + zext %low), …
                                              -->  copy (%p + zext %high), …   %high = 8192 * %row + 131072

An address of 64 bits a lane takes an addition for each copy and iteration. The instructions also add a scalar
register of 64 bits and a vector one of 32, without a sign (CDNA 3 ISA, section 9.4, SADDR): what all lanes
have in common moves in the scalar one, once for all copies that share it, and what a lane has of its own stays.

That must be proven to fit: the numbers of a lane are from 0 to 2^32 - 1 once the least of all copies is added to
the base. For rows of dynamic stride see `narrow_strides`.

The back end looks for a base and an extended number in the block of the copy, and LLVM would hoist what does not
change. So each number goes around the loop through an inline assembly without instructions, and the
base through another one, which also keeps loop-strength reduction from giving each copy a pointer of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    before,
    create,
    made_in,
    terminator,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import yield_values
from mlir_async_pipe.facts.flow.region_flow import Varying
from mlir_async_pipe.facts.values.linear import Arithmetic, Linear
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.facts.values.sums import Form, interval_of, of_symbol, subtract
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.lowering.split_addresses import (
    AddressParts,
    OrderOfValues,
    SplitAddress,
    Terms,
    forwarding,
    numbers_of,
    write_sum,
)
from mlir_async_pipe.vocabulary import accesses, row_of
from mlir_async_pipe.vocabulary.control_flow import with_successor_operands
from mlir_async_pipe.vocabulary.launch_ids import block_size

_MOST = 2**32 - 1
# No assembly hands on a pointer to a buffer (`!llvm.ptr<7>`).
_POINTERS = ("!llvm.ptr", "!llvm.ptr<1>")
# Numbers in one vector: LLVM has registers of every length up to here.
_TOGETHER = 8
_TWICE = "#llvm.loop_annotation<unroll = #llvm.loop_unroll<count = 2 : i32>>"


@dataclass(frozen=True)
class _Copy:
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
            terms = {term: uniformity.difference(term[0]) is None for term in address.offset.terms}
            common = tuple(term for term, same in terms.items() if same)
            own = frozenset(term for term, same in terms.items() if not same)
            stands = all(varying.depth(symbol, op.block) < len(nest) for symbol, _ in own)
            if own and stands and uniformity.difference(address.base) is None:
                key = (nest[-1], address.base, str(address.kind), frozenset(common))
                form = Form(address.offset.constant, own)
                found[key].append(_Copy(op, access.memory_operand, address, common, form))
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
        base = self._hoisted(address.base)
        if base.type != address.kind:
            base = build.cast("llvm.addrspacecast", base, address.kind)
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
        return [
            end
            for end in map(terminator, self._header.region.blocks)
            if self._header in list(end.successors)
        ]

    def _holds(self, block: Block) -> bool:
        return self._header in self._varying.nest(block)

    def _stands(self, value: Value) -> bool:
        _, block = made_in(value)
        depth = self._varying.nest(self._header).index(self._header)
        return not self._holds(block) or self._varying.depth(value, block) <= depth

    def _forwarding(self, value: Value) -> list[tuple[Operation, int]]:
        op, block = made_in(value)
        return forwarding(value) if op is None and block == self._header else []
