"""From a tensor map to the global memory that it describes.

    %map = nvgpu.tma.create.descriptor %x …     the root of %x, and how %x lies there
    %map : an argument of the kernel            memory that the kernel is given, by no name of its own

Whose memory an argument describes is not to be seen: an `llvm.noalias` on the pointer to it is said
of the map, not of that memory.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, as_kind, defining_op, remembered
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import (
    Root,
    from_the_start,
    is_pointer,
    parameter_of,
    root_of,
)
from mlir_async_pipe.facts.values.sums import ZERO
from mlir_async_pipe.vocabulary.control_flow import CAST_OPS
from mlir_async_pipe.vocabulary.mbarrier_ops import MAKES_TENSOR_MAP

# What stands beside the map in the key of memory of which nothing else is known.
OPAQUE = "behind a map"


def is_given_map(root: Root) -> bool:
    """Whether a root is what a map describes that is an argument."""
    return root.kind == "argument" and isinstance(root.key, tuple) and root.key[0] == OPAQUE


@remembered
def described_root(tensor_map: Value) -> Root:
    """The root of the memory that a tensor map describes."""
    made, value = _maker(tensor_map)
    if made is not None and made.name == MAKES_TENSOR_MAP:
        return root_of(made.operands[0])
    place = given_place(tensor_map)
    return Root(
        *("unknown" if place is None else "argument", (OPAQUE, place or value), value, "global")
    )


def given_place(tensor_map: Value) -> tuple[Value, int] | None:
    """The parameter of a function that a tensor map is, or in whose bytes it lies, and the first of these bytes; None
    for other maps."""
    _, value = _maker(tensor_map)
    start: Any = value, ZERO
    if is_pointer(value):
        start = from_the_start(value, Arithmetic()) or start
    parameter, offset = start
    if isinstance(parameter, str) or defining_op(parameter) is not None or not offset.is_constant:
        return None
    return (parameter, offset.constant) if parameter_of(root_of(parameter)) else None


def map_root(tensor_map: Value) -> Root | None:
    """The root of the bytes of a tensor map itself, None where it is no pointer."""
    _, value = _maker(tensor_map)
    return root_of(value) if is_pointer(value) else None


@remembered
def described_memref(tensor_map: Value) -> Any:
    """The memref type that a tensor map is made of, which is all of its root; None where it is not
    known."""
    made, _ = _maker(tensor_map)
    if made is None or made.name != MAKES_TENSOR_MAP:
        return None
    root = root_of(made.operands[0])
    kind = as_kind(ir.MemRefType, root.value.type)
    viewed = defining_op(made.operands[0])
    whole = made.operands[0] == root.value or (
        viewed is not None and viewed.name == "memref.cast" and viewed.operands[0] == root.value
    )
    return kind if whole else None


def _maker(tensor_map: Value) -> tuple[Any, Value]:
    """The op that makes a map, if it is no cast, and the map before all casts."""
    value, made = tensor_map, defining_op(tensor_map)
    while made is not None and made.name in CAST_OPS and len(made.operands) == 1:
        value = made.operands[0]
        made = defining_op(value)
    return made, value
