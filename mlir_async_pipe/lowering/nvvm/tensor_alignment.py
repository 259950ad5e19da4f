"""How far the workgroup memory must be aligned that tensor copies fill, read or multiply from.

    tensor map: swizzle_128b     1024 bytes        none       128 bytes
                swizzle_64b       512              unknown   1024
                swizzle_32b       256

A swizzle permutes 16-byte chunks by bits of the *address*, with a period of 8 lines; the
descriptors of wgmma say that a tile begins where such a period does (PTX ISA, swizzling modes,
and matrix descriptor: base offset 0). A tile that begins elsewhere is laid down rotated, and
nothing in the program says so.
"""

from __future__ import annotations

import re
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, remembered, symbol_name, walk
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.vocabulary import groups_of, row_of
from mlir_async_pipe.vocabulary.control_flow import callee_name
from mlir_async_pipe.vocabulary.mbarrier_ops import tensor_map_type

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
    name), DYNAMIC shared memory, or ANY buffer. Callees ask it of what they are handed."""
    asked: dict[Any, int] = {}
    calls = [op for op in walk(root) if callee_name(op) is not None]
    waiting = [pair for op in walk(root) if (pair := _asked_by(op)) is not None]
    for memory, least in waiting:
        found = root_of(memory)
        if found.space != "workgroup":
            continue
        if found.kind == "argument":
            handed = _handed(found.value, calls)
            waiting += [(value, least) for value in handed if (value, least) not in waiting]
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


def _handed(argument: Value, calls: list[Operation]) -> list[Value]:
    """What the calls of a function hand to one of its arguments."""
    function = ir.BlockArgument(argument).owner.owner.operation
    number = ir.BlockArgument(argument).arg_number
    name = symbol_name(function)
    return [call.operands[number] for call in calls if callee_name(call) == name]
