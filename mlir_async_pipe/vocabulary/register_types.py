"""Registers of 32 bits that a value takes in each thread.

vector<2x2xf32>                                                      4
!llvm.struct<(f32, f32, vector<2xf16>)>                              3
!nvgpu.warpgroup.accumulator<fragmented = vector<64x128xf32>>        64: those of 128 threads
"""

from __future__ import annotations

import re
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.type_classes import type_text
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, layout_of

REGISTER_BITS, WARPGROUP = 32, 128
_STRUCT = re.compile(r"!llvm\.struct<\((.*)\)>$")
_ACCUMULATOR = re.compile(r"!nvgpu\.warpgroup\.accumulator<fragmented = vector<(\d+)x(\d+)xf32>>")


def registers_of_type(kind: Any) -> int:
    """0 for what takes none or is not known: tokens, memory."""
    text = type_text(kind)
    if text not in _KNOWN:
        _KNOWN[text] = _registers(kind, text)
    return _KNOWN[text]


# A type's text says all about it, in every context.
_KNOWN: dict[str, int] = {}


def _registers(kind: Any, text: str) -> int:
    accumulator = _ACCUMULATOR.match(text)
    if accumulator is not None:
        return prod(map(int, accumulator.groups())) // WARPGROUP
    struct = _STRUCT.match(text)
    if struct is not None:
        parts = (ir.Type.parse(part, kind.context) for part in struct[1].split(", "))
        return sum(registers_of_type(part) for part in parts)
    try:
        return -(-layout_of(kind).bits // REGISTER_BITS)
    except UnknownLayoutError:
        return 0
