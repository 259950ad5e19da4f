"""Accesses through AMD's buffer resources, as accesses to the bytes that they name.

    %r = rocdl.make.buffer.rsrc %p, 0, 2147483646, …
    %o = llvm.select %mask, %n, -2147483648
    rocdl.raw.ptr.buffer.store %v, %r, %o, 0, …      -->      rocdl.raw.ptr.buffer.store %v, %p[%n], %o, 0, …

An offset is a number of bytes without a sign, and what lies beyond the range of the resource is neither read nor written
(AMD, MI300 ISA, 9.1.5 "Buffer addressing"). A range below 2^31 bytes holds no offset that is negative as a signed
number, so that the select above is a mask: at most the bytes at %n are touched. Of other resources (rows of a stride, a range
that is not known) the place is not followed: any byte behind their pointer.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    OpWriter,
    Value,
    attribute,
    constant_value,
    defining_op,
    walk_named,
)
from mlir_async_pipe.vocabulary.memory_names import MAKES_RESOURCE, RESOURCE_ACCESSES
from mlir_async_pipe.vocabulary.op_table import groups_of

# Bytes that an offset without a sign reaches as one with a sign does.
RANGE = 1 << 31
# ADD_TID_ENABLE of the fourth word: each lane adds its number (MI300 ISA, 9.1.8 "Buffer resource descriptor").
OF_LANES = 1 << 23


def replace(root: Operation) -> int:
    """Put the place that it touches for the resource of each access below `root` that is followed; how often."""
    return sum(map(_name_place, walk_named(root, lambda name: name.startswith(RESOURCE_ACCESSES))))


def _name_place(op: Operation) -> int:
    groups = groups_of(op)
    if not {"offset", "scalar_offset"} <= groups.keys():
        return 0
    named = "memory" if "memory" in groups else "source"
    memory, offset, scalar = (groups[name].start for name in (named, "offset", "scalar_offset"))
    pointer = _pointer_of(op.operands[memory])
    if pointer is None or constant_value(op.operands[scalar]) != 0:
        return 0
    bytes_after = {
        "elem_type": attribute("i8", op.context),
        "rawConstantIndices": attribute("array<i32: -2147483648>", op.context),
    }
    operands = [pointer, _unmasked(op.operands[offset])]
    op.operands[memory] = OpWriter.before(op).make(
        "llvm.getelementptr", operands, pointer.type, bytes_after
    )
    return 1


def _pointer_of(resource: Value) -> Value | None:
    """What a resource points to, if an offset from there is a number of bytes."""
    made = defining_op(resource)
    if made is None or made.name != MAKES_RESOURCE:
        return None
    stride, size, flags = map(constant_value, list(made.operands)[1:])
    if stride != 0 or size is None or not 0 <= size <= RANGE or flags is None or flags & OF_LANES:
        return None
    return made.operands[0]


def _unmasked(offset: Value) -> Value:
    """An offset where it is in range: the one of two that may be."""
    chosen = defining_op(offset)
    if chosen is None or chosen.name != "llvm.select":
        return offset
    _, one, other = chosen.operands
    for kept, left in ((one, other), (other, one)):
        number = constant_value(left)
        if number is not None and number < 0:
            return kept
    return offset
