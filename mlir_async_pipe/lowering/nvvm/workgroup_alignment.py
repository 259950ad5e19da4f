"""Lets workgroup buffers begin at multiples of 16 bytes, so that copies into them may be wide.

    workgroup(%a : memref<512xf32, …>)        -->  workgroup(%a : memref<512xf32, …> {llvm.align = 16})
    memref.global "private" @a : memref<…>    -->  memref.global "private" @a : memref<…> {alignment = 16}

Where a buffer begins is the compiler's to choose; a larger `llvm.align` of the author stays, and
buffers of tensor copies begin where their swizzle does (`tensor_alignment`).
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    integer_attribute,
    set_integer,
    symbol_name,
    walk,
)
from mlir_async_pipe.facts.values.memory_roots import space_of_type
from mlir_async_pipe.lowering.nvvm.shared_memory import ALIGNMENT_BYTES, attributed, given_alignment
from mlir_async_pipe.lowering.nvvm.tensor_alignment import asked_of, tensor_alignments
from mlir_async_pipe.vocabulary import ALLOCATION_OPS
from mlir_async_pipe.vocabulary.memory_layout import element_layout

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
        least = max(given_alignment(entry), ALIGNMENT_BYTES, natural, asked_of(argument, asked))
        entry["llvm.align"] = ir.IntegerAttr.get(i64, least)
    function.attributes[_ATTRIBUTES] = ir.ArrayAttr.get(
        [ir.DictAttr.get(entry, context) for entry in entries], context
    )
