"""What kinds of SSA types there are for the checker: memory, integers, and data."""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import type_text
from mlir_async_pipe.facts.values.integer_ops import bits_of_text


def is_memory(kind: object) -> bool:
    """Whether a type is a memref or a pointer."""
    return type_text(kind).startswith(("memref<", "!llvm.ptr"))


def is_integer(kind: object) -> bool:
    """Whether a type is index or an integer."""
    return bits_of_text(type_text(kind)) is not None


def is_data(kind: object) -> bool:
    """Whether a type is a float or a vector, which no address depends on directly."""
    text = type_text(kind)
    return text.startswith(("f16", "f32", "f64", "bf16", "vector<", "f8", "tf32"))


# Accumulators of products of warpgroups, which products in flight fill.
REGISTERS = ("!nvgpu.warpgroup.accumulator", "!llvm.struct<")


def is_bit(kind: object) -> bool:
    """Whether a type is a truth value."""
    return type_text(kind) == "i1"
