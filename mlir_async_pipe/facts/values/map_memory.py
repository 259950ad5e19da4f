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
from mlir_async_pipe.facts.values.memory_roots import Root, root_of
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
    given = made is None and root_of(value).kind == "argument"
    return Root("argument" if given else "unknown", (OPAQUE, value), value, "global")


def map_root(tensor_map: Value) -> Root | None:
    """The root of the bytes of a tensor map itself, None where it is no pointer."""
    made, value = _maker(tensor_map)
    return root_of(value) if made is None and str(value.type).startswith("!llvm.ptr") else None


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
