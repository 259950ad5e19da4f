"""Lets workgroup buffers begin at multiples of 16 bytes, so that copies into them may be wide.

    workgroup(%a : memref<512xf32, …>)        -->  workgroup(%a : memref<512xf32, …> {llvm.align = 16})
    memref.global "private" @a : memref<…>    -->  memref.global "private" @a : memref<…> {alignment = 16}

Where a buffer begins is the compiler's to choose; a larger `llvm.align` of the author stays, and
buffers of tensor copies begin where their swizzle does (`tensor_alignment`).
"""

from __future__ import annotations

import re
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    integer_attribute,
    remembered,
    set_integer,
    symbol_name,
    walk,
)
from mlir_async_pipe.facts.values.alignment import (
    access_alignment,
    argument_alignment,
    element_bytes,
)
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import root_of, space_of_type
from mlir_async_pipe.lowering.nvvm.shared_memory import ALIGNMENT_BYTES, attributed
from mlir_async_pipe.vocabulary import ALLOCATION_OPS, accesses, groups_of, row_of
from mlir_async_pipe.vocabulary.control_flow import callee_name
from mlir_async_pipe.vocabulary.memory_layout import element_layout
from mlir_async_pipe.vocabulary.tensor_boxes import tensor_map_type

_ATTRIBUTES = "workgroup_attrib_attrs"


def align_workgroup_buffers(root: Operation) -> None:
    """Raise the alignment of every attribution and global in workgroup memory below `root`."""
    asked = tensor_alignments(root)
    for op in walk(root):
        if op.name == "memref.global":
            kind = ir.TypeAttr(op.attributes["type"]).value
            natural = element_layout(kind).alignment
            _raise(op, kind, max(ALIGNMENT_BYTES, natural, asked_of(symbol_name(op), asked)))
        elif op.name in ALLOCATION_OPS:
            _raise(op, op.results[0].type, asked_of(op.results[0], asked))
        elif attributed(op):
            _align_attributions(op, asked)


def _raise(op: Operation, kind: Any, least: int) -> None:
    known = integer_attribute(op, "alignment") or 1
    if space_of_type(kind) == "workgroup" and known < least:
        set_integer(op, "alignment", least, 64)


def _align_attributions(function: Operation, asked: dict[Any, int]) -> None:
    context = function.context
    i64 = ir.IntegerType.get_signless(64, context)
    arguments = attributed(function)
    entries: list[dict[str, ir.Attribute]] = [{} for _ in arguments]
    if _ATTRIBUTES in function.attributes:
        given = ir.ArrayAttr(function.attributes[_ATTRIBUTES])
        entries = [{item.name: item.attr for item in ir.DictAttr(entry)} for entry in given]
    for entry, argument in zip(entries, arguments, strict=True):
        natural = element_layout(argument.type).alignment
        known = argument_alignment(argument)
        least = max(known, ALIGNMENT_BYTES, natural, asked_of(argument, asked))
        entry["llvm.align"] = ir.IntegerAttr.get(i64, least)
    function.attributes[_ATTRIBUTES] = ir.ArrayAttr.get(
        [ir.DictAttr.get(entry, context) for entry in entries], context
    )


# Puts the proven alignment on vector loads and stores.
#
#     vector.load %tile[%r, %c] : …, vector<8xf16>
#       -->  vector.load %tile[%r, %c] {alignment = 16 : i64} : …, vector<8xf16>
#
# Without it a vector access is taken to be aligned like one element, and the back end splits it:
# eight loads of 2 bytes instead of one of 16.

VECTOR_OPS = ("vector.load", "vector.store", "vector.maskedload")


def annotate_alignment(root: Any) -> None:
    """Set `alignment` on each vector load and store that has none and is aligned better."""
    arithmetic = Arithmetic()
    for op in walk(root):
        if op.name not in VECTOR_OPS or "alignment" in op.attributes:
            continue
        (access,) = accesses(op)
        element = element_bytes(access.memory)
        total = element
        for size in access.extent or ():
            total *= size
        useful = 1 << max(total - 1, 0).bit_length()
        known = min(access_alignment(access.memory, access.indices, arithmetic), useful)
        if known > element > 0:
            set_integer(op, "alignment", known, 64)


# How far the workgroup memory must be aligned that tensor copies fill, read or multiply from.
#
#     tensor map: swizzle_128b     1024 bytes        none       128 bytes
#                 swizzle_64b       512              unknown   1024
#                 swizzle_32b       256
#
# A swizzle permutes 16-byte chunks by bits of the *address*, with a period of 8 lines; the
# descriptors of wgmma say that a tile begins where such a period does (PTX ISA, swizzling modes,
# and matrix descriptor: base offset 0). A tile that begins elsewhere is laid down rotated, and
# nothing in the program says so.

# The destination of a tensor copy must be aligned to 128 bytes (PTX ISA, cp.async.bulk.tensor).
TENSOR_COPY_BYTES = 128
_PERIOD_BYTES = {"swizzle_32b": 256, "swizzle_64b": 512, "swizzle_128b": 1024}
_SWIZZLE = re.compile(r"tensormap\.descriptor<.*\bswizzle = (\w+)")

# The key of memory whose root is not known: it may be any buffer.
ANY = "any"
DYNAMIC = "dynamic"


@remembered
def tensor_alignments(root: Operation) -> dict[Any, int]:
    """Bytes by what they are asked of: an attribution or allocation (its value), a global (its
    name), DYNAMIC shared memory, or ANY buffer. Callees ask it of what they are given."""
    asked: dict[Any, int] = {}
    calls = [op for op in walk(root) if callee_name(op) is not None]
    waiting = [pair for op in walk(root) if (pair := _asked_by(op)) is not None]
    for memory, least in waiting:
        found = root_of(memory)
        if found.space != "workgroup":
            continue
        if found.kind == "argument":
            passed = _passed(found.value, calls)
            waiting += [(value, least) for value in passed if (value, least) not in waiting]
            continue
        key = ANY if found.kind == "unknown" else found.key
        asked[key] = max(asked.get(key, 1), least)
    return asked


def asked_of(key: Any, asked: dict[Any, int]) -> int:
    """The bytes asked of one buffer, 1 if nobody asks for any."""
    return max(asked.get(key, 1), asked.get(ANY, 1))


def _asked_by(op: Operation) -> tuple[Value, int] | None:
    """The workgroup memory of a tensor copy or matrix descriptor, and its alignment."""
    row = row_of(op)
    if not row.swizzled:
        return None
    groups = groups_of(op)
    memory = op.operands[groups[row.swizzled][0]]
    maps = [op.operands[n] for n in groups.get("tensor_map", ())]
    return memory, max(TENSOR_COPY_BYTES, *(_period(tensor_map_type(value)) for value in maps))


def _period(map_type: str) -> int:
    """The period of a map's swizzle, the longest where nothing says which it has."""
    found = _SWIZZLE.search(map_type)
    return _PERIOD_BYTES.get(found[1], 1) if found else max(_PERIOD_BYTES.values())


def _passed(argument: Value, calls: list[Operation]) -> list[Value]:
    """What the calls of a function hand to one of its arguments."""
    function = ir.BlockArgument(argument).owner.owner.operation
    number = ir.BlockArgument(argument).arg_number
    name = symbol_name(function)
    return [call.operands[number] for call in calls if callee_name(call) == name]
