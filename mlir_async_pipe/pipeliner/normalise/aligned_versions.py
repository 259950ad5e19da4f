"""Gives a loop whose rows may begin anywhere a version for rows that begin at multiples of 16 bytes.

    scf.for … {                                   %a = address of %A[0, 0] or 2 * stride of %A
      %v = vector.load %A[%r, %k]                 scf.if %a mod 16 == 0 {
      vector.store %v, %tile[%r, %c]      -->       scf.for … { vector.load %A[%r, %k] {alignment = 16}; … }
    } {num_stages = 3}                            } else {
                                                    the loop as it was
                                                  }

The rows of a `memref<?x?xf16>` may begin at any multiple of 2 bytes, and what is not known to be aligned is
copied element by element: 64 loads of 2 bytes where 8 asynchronous copies of 16 would do. What decides it is
the same for the whole launch, the addresses of arrays and their strides, and for the whole loop: where it begins, if
that is no known multiple (the second half of a split k).

Only what subscripts leave open is tested. A loop is left alone whose copies are asynchronous anyway (of 4 bytes where
16 would do), or that asks for a way of staging. Whoever states `alignment` on the loads, or gives arrays static strides and `llvm.align`, gets the
first version alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    as_kind,
    before,
    defining_op,
    is_function,
    set_integer,
    type_text,
)
from mlir_async_pipe.bindings.structured_ops import part_versions
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.chips.target import ChipOptions, with_target
from mlir_async_pipe.facts.loops.annotations import counted_loops, read_loop
from mlir_async_pipe.facts.loops.statements import copies_of, read_body
from mlir_async_pipe.facts.values.alignment import element_bytes, static_strides
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import is_pointer
from mlir_async_pipe.facts.values.views import window_of
from mlir_async_pipe.lowering.scopes.scope_copies import copy_width
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Access, accesses

ALIGNMENT = "alignment"


@dataclass(frozen=True)
class Rows:
    """What one version may take for granted: `bytes_` divide the addresses and strides of `arrays`, and what the loop
    begins with times each of the `begin_bytes`, and then the addresses of the `loads`."""

    bytes_: int
    arrays: tuple[Value, ...]
    loads: tuple[Operation, ...]
    begin_bytes: tuple[int, ...] = ()


def unaligned_rows(loop: Operation, chip: Chip) -> Rows | None:
    """The loads of a loop that would be asynchronous copies if their arrays were aligned; None if anything else hinders."""
    arithmetic = Arithmetic()
    loads: dict[Operation, None] = {}
    arrays: dict[Value, None] = {}
    begin, begin_bytes = loop.operands[0], set()
    most = 0
    for load, store in copies_of(read_body(loop)).pairs:
        (source,), (target,) = accesses(load), accesses(store)
        if is_pointer(source.memory) or is_pointer(target.memory):
            return None
        if not isinstance(copy_width(source, target, chip, arithmetic), str):
            continue
        wanted, root = _aligned_width(source, target, chip, arithmetic), _argument_of(source.memory)
        if type_text(begin.type) == "index":
            element = element_bytes(source.memory)
            begun = _aligned_width(source, target, chip, arithmetic, (begin, element))
            if begun > wanted:
                wanted = begun
                begin_bytes.add(element)
        if not wanted or root is None:
            return None
        loads[load] = arrays[root] = None
        most = max(most, wanted)
    return Rows(most, tuple(arrays), tuple(loads), tuple(sorted(begin_bytes))) if loads else None


def _aligned_width(
    source: Access,
    target: Access,
    chip: Chip,
    arithmetic: Arithmetic,
    begin: tuple[Value, int] | None = None,
) -> int:
    """The bytes of the widest copies that there are if the source's array is aligned for them, and so is the
    loop's `begin` in elements of so many bytes; 0 if there are none."""
    for assumed in sorted(chip.copy_bytes, reverse=True):
        if begin is not None:
            arithmetic = Arithmetic(assumed={begin[0]: max(assumed // begin[1], 1)})
        width = copy_width(source, target, chip, arithmetic, assumed)
        if not isinstance(width, str) and width.piece_bytes == assumed:
            return assumed
    return 0


def _argument_of(memory: Value) -> Value | None:
    """The argument of the function from which a memref is taken by windows that keep its strides."""
    while (op := defining_op(memory)) is not None:
        if op.name != "memref.subview" or any(stride != 1 for stride in window_of(op).strides):
            return None
        unknown = [static_strides(one).count(None) for one in (memory, op.operands[0])]
        if unknown[0] > unknown[1]:
            return None
        memory = op.operands[0]
    is_given = is_function(ir.BlockArgument(memory).owner.owner.operation)
    return memory if is_given and as_kind(ir.MemRefType, memory.type) is not None else None


def write_aligned_version(loop: Operation, rows: Rows, session: Session) -> None:
    """Put the loop into a condition, beside a copy of it as it is."""
    outermost = [loop, *(above for above in ancestors(loop) if above.name == "scf.for")][-1]
    # Where the loop begins may be known there only.
    place = loop if rows.begin_bytes else outermost
    write = IntegerWriter(before(place), loop.location)
    begins = [write.multiply(loop.operands[0], size) for size in rows.begin_bytes]
    aligned = are_multiples(rows.bytes_, rows.arrays, write, begins)
    part_versions(aligned, loop)
    for load in rows.loads:
        set_integer(load, ALIGNMENT, rows.bytes_, 64)
    session.diagnostics.remark(
        f"this loop has two versions: one copies {rows.bytes_} bytes at once, where that divides the addresses and "
        f"strides of its arrays{' and where it begins' if rows.begin_bytes else ''}; the other is for all else",
        code="alignment-versions",
        at=loop,
        notes=(
            (f"state {{alignment = {rows.bytes_} : i64}} on its loads, as this one, to save the other version", rows.loads[0]),
        ),
    )  # fmt: skip


def are_multiples(
    bytes_: int, arrays: Iterable[Value], write: IntegerWriter, others: Iterable[Value] = ()
) -> Value:
    """Whether `bytes_` divide the address of the first element of each array, its strides in bytes, and `others`."""
    numbers = [*(number for array in arrays for number in _parts(array, write)), *others]
    both = reduce(partial(write.binary, "arith.ori"), numbers)
    return write.compare("eq", write.binary("arith.andi", both, bytes_ - 1), 0)


def _parts(array: Value, write: IntegerWriter) -> Iterable[Value]:
    """The address of an array's first element and its strides that are not static, in bytes."""
    size = element_bytes(array)
    offset, _, strides = write.layout(array)
    base = write.cast("memref.extract_aligned_pointer_as_index", array, write.index)
    yield write.add(base, write.multiply(offset, size))
    for static, stride in zip(static_strides(array), strides, strict=True):
        if static is None:
            yield write.multiply(stride, size)


@register(
    "async-pipe-normalise-alignment",
    "give loops whose rows may begin anywhere a version for rows that are aligned for wide copies",
    ChipOptions,
)
def run(module: Any, options: ChipOptions, session: Session) -> None:
    session = with_target(options, session)
    chip = None if session.target is None else session.target.chip
    if chip is None or chip.lowering != "nvvm" or not chip.copy_bytes:
        return
    for loop in counted_loops(module):
        asked = read_loop(loop)
        if (asked.num_stages or 0) < 2 or asked.stage_through != "auto":
            continue
        rows = unaligned_rows(loop, chip)
        if rows is not None:
            write_aligned_version(loop, rows, session)
