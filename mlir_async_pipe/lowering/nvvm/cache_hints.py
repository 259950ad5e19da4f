"""What caches should do with asynchronous copies, where it follows from the copies themselves.

    nvgpu.device_async_copy … of 16 bytes           -->  … {bypassL1}: cp.async.cg
    cp.async.cg.shared.global [a], [b], 16;         -->  cp.async.cg.shared.global.L2::128B …

A tile of 32 f16 in a row takes half a line of the second-level cache from each row of its matrix,
and the next iteration takes the other half: asked for 128 bytes, the cache fetches the line once.
MLIR's op has no such operand, so the text of the PTX is changed. PTX does not say which line came
from which op; copies of one size and cache operator are asked for alike, all or none of a module.
"""

from __future__ import annotations

import re
from collections import defaultdict
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, ancestors, constant_value, walk_named
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.lowering.nvvm.nvidia_ops import BYPASS_BYTES
from mlir_async_pipe.vocabulary import Access, accesses
from mlir_async_pipe.vocabulary.memory_layout import element_bytes

# Names the kinds of copies of a gpu.module, as `cg 16`, whose lines are fetched whole.
WHOLE_LINES = "async_pipe.l2_whole_lines"
LINE_BYTES = 128

_COPY = "nvgpu.device_async_copy"
_BYPASS = "bypassL1"
_PTX_COPY = re.compile(
    r"(?P<name>cp\.async\.(?P<cache>c[ag])\.shared\.global)(?P<rest>\s+\[[^]]*\],\s*\[[^]]*\],\s*(?P<bytes>\d+))"
)


def bypass_first_level(gpu_module: Operation) -> None:
    """Let all 16-byte copies bypass the first-level cache; no others can."""
    for op in walk_named(gpu_module, _COPY.__eq__):
        if _BYPASS not in op.attributes and _bytes(op) == BYPASS_BYTES:
            op.attributes[_BYPASS] = ir.UnitAttr.get(op.context)


def note_whole_lines(gpu_module: Operation) -> None:
    """Name the kinds of copies all of which read a part of a line, and the next part in the next
    iteration of their loop."""
    arithmetic = Arithmetic()
    kinds: dict[str, list[tuple[Any, bool]]] = defaultdict(list)
    for op in walk_named(gpu_module, _COPY.__eq__):
        source = next(access for access in accesses(op) if not access.writes)
        cache = "cg" if _BYPASS in op.attributes else "ca"
        buffers = tuple(root_of(access.memory).identity for access in accesses(op))
        kinds[f"{cache} {_bytes(op)}"].append((buffers, _goes_on(source, arithmetic)))
    found = [kind for kind, copies in kinds.items() if _all_go_on(copies)]
    if found:
        names = [ir.StringAttr.get(kind, gpu_module.context) for kind in sorted(found)]
        gpu_module.attributes[WHOLE_LINES] = ir.ArrayAttr.get(names, gpu_module.context)


def _all_go_on(copies: list[tuple[Any, bool]]) -> bool:
    """A prologue's copies stand in no loop: they are as those of the same buffers that do."""
    going = {buffers for buffers, goes_on in copies if goes_on}
    return all(buffers in going for buffers, _ in copies)


def _goes_on(source: Access, arithmetic: Arithmetic) -> bool:
    """Whether the next iteration of a loop around a copy reads on in the same row, less than a
    line further."""
    column = arithmetic.linear(source.indices[-1]) if source.indices else None
    if column is None:
        return False
    for loop in ancestors(source.op):
        if loop.name == "scf.for":
            step = constant_value(loop.operands[2])
            factor = dict(column.terms).get(_counter(loop), 0)
            if factor and step is not None:
                bytes_ = abs(factor * step) * element_bytes(source.memory.type)
                return bytes_ < LINE_BYTES
    return False


def _counter(loop: Operation) -> Value:
    return loop.regions[0].blocks[0].arguments[0]


def _bytes(op: Operation) -> int:
    target = next(access for access in accesses(op) if access.writes)
    return prod(target.extent or (0,)) * element_bytes(target.memory.type)


def with_whole_lines(ptx: str, gpu_module: Operation) -> str:
    """The PTX of a module whose copies ask for whole lines, where `note_whole_lines` said so."""
    if WHOLE_LINES not in gpu_module.attributes:
        return ptx
    kinds = {
        str(ir.StringAttr(kind).value) for kind in ir.ArrayAttr(gpu_module.attributes[WHOLE_LINES])
    }

    def hinted(match: re.Match[str]) -> str:
        level = f".L2::{LINE_BYTES}B" if f"{match['cache']} {match['bytes']}" in kinds else ""
        return f"{match['name']}{level}{match['rest']}"

    return _PTX_COPY.sub(hinted, ptx)
