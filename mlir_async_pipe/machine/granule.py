"""The granule of the race detector's shadow memory, in bytes: the smallest element in use."""

from __future__ import annotations

import re
from typing import Any

from mlir_async_pipe.bindings.raw_ops import walk

# Types of one byte and ops that see memory as bytes; any of them asks for granules of 1.
# A dimension may stand right before the type, as in 32xf16, so that no word begins there.
_BYTE_TYPES = re.compile(r"[x<](?:[us]?i(?:1|8)\b|f8E)")
_HALF_TYPES = re.compile(r"[x<](?:[us]?i16|b?f16)\b")


def granule_of(module: Any) -> int:
    """1, 2 or 4: the size of the smallest element that memory of this module holds."""
    found: set[str] = set()
    for op in walk(module):
        for value in (*op.operands, *op.results):
            found.add(str(value.type))
        for region in op.regions:
            for block in region.blocks:
                found.update(str(argument.type) for argument in block.arguments)
    memory = [text for text in found if text.startswith("memref<") or "llvm." in text]
    if any("llvm." in text or _BYTE_TYPES.search(text) for text in memory):
        return 1
    return 2 if any(_HALF_TYPES.search(text) for text in memory) else 4
