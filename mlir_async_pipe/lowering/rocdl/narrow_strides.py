"""Gives loops that copy rows of dynamic stride a version in which 32 bits hold what lanes have of their own.

    scf.for %k = … {                                       %narrow = arith.cmpi ult, %stride, 2^23
      amdgpu.gather_to_lds %A[%m + %t, %k + %c], …   -->   scf.if %narrow {
    }                                                        %B = memref.reinterpret_cast %A to
                                                               offset: [%m * %stride], strides: [%stride & (2^23 - 1), 1]
                                                             scf.for %k = … { amdgpu.gather_to_lds %B[%t, %k + %c], … }
                                                           } else { the loop as it was }

Nothing bounds the rows of a `memref<?x?xf16>`: the 128th one may begin more than 2^32 bytes after the first. One
comparison before the loop decides it, and the mask, which changes nothing there, is what `scalar_bases` proves its ranges by.
What all threads of a block have in common (`%m`) goes into the offset, as it has no bound of its own.

128 rows of f16 and strides below 2^23 elements: 128 * 2^23 * 2 bytes are 2^31. The other half of the 32 bits is for columns.

Only pipelined loops get versions, and chips whose lanes copy 4 bytes at once: a tile of 128x32 takes 8 copies a thread there, each with an
addition of 64 bits, and 2 where lanes copy 16 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    DYNAMIC,
    Operation,
    Value,
    ancestors,
    as_kind,
    before,
    is_function,
    made_in,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import part_versions
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.values.alignment import element_bytes, static_strides
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.linear import Arithmetic, Linear
from mlir_async_pipe.facts.values.sums import Form, interval_of
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.lowering.rocdl.rocdl_copies import space_name
from mlir_async_pipe.vocabulary import Access, accesses, row_of
from mlir_async_pipe.vocabulary.launch_ids import block_size

_HALF = 2**31
# Rows that are longer than this many elements have the loop as it was.
_FEWEST = 2**12


@dataclass(frozen=True)
class _Split:
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
            if not all(map(_can_be_written, forms.values())) or _is_inside(access.memory, loop):
                return []
            same = {d: _common(form, uniformity) for d, form in forms.items()}
            if any(_is_inside(symbol, loop) for form in same.values() for symbol in form.symbols):
                return []
            own = {d: Form(form.constant, form.terms - same[d].terms) for d, form in forms.items()}
            found += [_Split(access, same, own)] if rows else []
    return found


def _common(form: Linear, uniformity: Uniformity) -> Linear:
    same = (term for term in form.terms if uniformity.difference(term[0]) is None)
    return Form(0, frozenset(same))


def _can_be_written(form: Linear) -> bool:
    return all(str(symbol.type) == "index" for symbol in form.symbols)


def _is_inside(value: Value, loop: Operation) -> bool:
    op, block = made_in(value)
    inside = block.owner.operation if op is None else op
    return loop in (inside, *ancestors(inside))


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
