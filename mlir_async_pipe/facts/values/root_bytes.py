"""How many bytes a root of static size has."""

from __future__ import annotations

from math import prod

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.facts.values.memory_roots import Root
from mlir_async_pipe.facts.values.pointers import bytes_of_global, is_pointer
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, element_bytes


def static_bytes(root: Root) -> int:
    """The bytes of a root, 0 where they are not static; windows of dynamic shared memory may lie
    over each other, and count as nothing."""
    if root.kind == "dynamic":
        return 0
    if is_pointer(root.value):
        return bytes_of_global(root.value) or 0
    kind = ir.MemRefType(root.value.type)
    try:
        return prod(kind.shape) * element_bytes(kind) if kind.has_static_shape else 0
    except UnknownLayoutError:
        return 0
