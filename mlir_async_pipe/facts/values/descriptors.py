"""Fields of the descriptor that a memref of shared memory is lowered to, as pointers and numbers.

    %all = gpu.dynamic_shared_memory
    %v = memref.view %all[%c1024][] : … to memref<4x64xf16, …>
    %w = memref.subview %v[%k, 0] [1, 64] [1, 1]
    %s = unrealized_conversion_cast %w : … to !llvm.struct<(ptr<3>, ptr<3>, i64, …)>
    llvm.extractvalue %s[1]     the pointer to byte 1024 of %all, where %v has its aligned pointer
    llvm.extractvalue %s[2]     64 %k, the elements from there to the first one of %w

A memref.view has its own aligned pointer, all other views that of their source (MLIR, memref to LLVM: descriptors).
"""

from __future__ import annotations

from typing import NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, as_kind, defining_op
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.facts.values.views import Operand, beginning
from mlir_async_pipe.vocabulary.control_flow import CAST_OPS
from mlir_async_pipe.vocabulary.memory_layout import if_known
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OF_MEMREF,
    POINTER_OF_ADDRESS,
    VIEW_OPS,
    is_dynamic_memory,
    position_of,
)

# Numbers of a memref: its buffer without strides, the offset of its first element, sizes, strides.
METADATA, OFFSET_IN_METADATA = "memref.extract_strided_metadata", 1
# Fields of a descriptor.
_POINTERS, _OFFSET = (0, 1), 2
# A sum of numbers, each times a constant; None stands for 1.
Sum = tuple[tuple["Value | None", int], ...]


class Descriptor(NamedTuple):
    """Bytes from the begin of `base` to the aligned pointer, and elements from there to the first element."""

    base: Value
    aligned: Sum = ()
    offset: Sum = ()


def field_of_descriptor(op: Operation) -> Value | None:
    """The pointer or number that an op takes out of the descriptor of a memref of dynamic shared memory, made before
    the op; None for all others."""
    cast, position = defining_op(op.operands[0]), position_of(op)
    if cast is None or cast.name not in CAST_OPS or len(cast.operands) != 1 or len(position) != 1:
        return None
    found = descriptor_of(cast.operands[0])
    if found is None or not (position[0] in _POINTERS or position[0] == _OFFSET):
        return None
    write = LlvmBuilder.before(op)
    if position[0] == _OFFSET:
        return _sum(write, found.offset)
    i64 = write.integer(64)
    address = write.make(ADDRESS_OF_MEMREF, [found.base], ir.IndexType.get(op.context))
    number = write.cast("arith.index_cast", address, i64)
    pointer = write.cast(POINTER_OF_ADDRESS, number, op.results[0].type)
    return write.at(pointer, _sum(write, found.aligned)) if found.aligned else pointer


def offset_of_metadata(op: Operation) -> Value | None:
    """The offset that an op takes of a memref of dynamic shared memory, made before the op; None for all others."""
    found = descriptor_of(op.operands[0])
    if found is None:
        return None
    write = LlvmBuilder.before(op)
    return write.cast("arith.index_cast", _sum(write, found.offset), ir.IndexType.get(op.context))


def descriptor_of(memory: Value) -> Descriptor | None:
    """The descriptor of a memref of dynamic shared memory, None for all others."""
    made = defining_op(memory)
    if made is None or as_kind(ir.MemRefType, memory.type) is None:
        return None
    if is_dynamic_memory(made):
        return Descriptor(memory)
    if made.name in CAST_OPS and len(made.operands) == 1:
        # Both types stand for one descriptor.
        return descriptor_of(made.operands[0])
    if made.name not in VIEW_OPS:
        return None
    source = descriptor_of(made.operands[0])
    begin = None if source is None else if_known(beginning, made)
    if source is None or begin is None or any(step.stride is None for step in begin.steps):
        return None
    amounts = [
        (made.operands[step.amount.position], step.stride or 0)
        if isinstance(step.amount, Operand)
        else (None, step.amount * (step.stride or 0))
        for step in begin.steps
    ]
    steps: Sum = tuple((amount, factor) for amount, factor in amounts if factor)
    if VIEW_OPS[made.name] == "bytes":
        return None if source.offset else source._replace(aligned=(*source.aligned, *steps))
    before = () if begin.of_aligned else source.offset
    return source._replace(offset=(*before, *steps))


def _sum(write: LlvmBuilder, terms: Sum) -> Value:
    """A sum in 64 bits."""
    total = write.number(sum(factor for amount, factor in terms if amount is None))
    for amount, factor in terms:
        if amount is not None:
            one = write.cast("arith.index_cast", amount, write.integer(64))
            total = write.binary("llvm.add", total, write.binary("llvm.mul", one, factor))
    return total
