"""Makes NVIDIA's asynchronous copy ops (cp.async): copies, groups and waits; and says what caches should
do with the copies, where it follows from the copies themselves.

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
from collections.abc import Sequence
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    constant_value,
    create,
    erase,
    operations,
    walk_named,
)
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.facts.values.memory_roots import is_pointer, root_of
from mlir_async_pipe.lowering.scopes.masked_loads import AllIf, Leading, Part, UntilEnd
from mlir_async_pipe.lowering.scopes.scope_copies import CopyPair
from mlir_async_pipe.vocabulary import Access, accesses
from mlir_async_pipe.vocabulary.async_ops import DEVICE_COPY, TOKEN_TYPE
from mlir_async_pipe.vocabulary.memory_layout import element_bytes

# PTX ISA, cp.async.cg: only 16-byte copies can bypass the first-level cache.
BYPASS_BYTES = 16


def create_copies(pair: CopyPair) -> None:
    """load; store  -->  nvgpu.device_async_copy, one for each piece of the pair.

    The copies stand where the store stood; the load and the store are erased. A masked pair
    gives the number of elements that each copy reads; it writes zeros after them. By pointers it
    is nvvm.cp.async.shared.global.
    """
    _hoist_load(pair)
    if is_pointer(accesses(pair.store)[0].memory):
        _copy_between_pointers(pair)
    else:
        _copy_between_memrefs(pair)
    erase([pair.loaded.load, *reversed(pair.loaded.through), pair.store])


def _copy_between_memrefs(pair: CopyPair) -> None:
    (source,), (target,) = accesses(pair.loaded.load), accesses(pair.store)
    context, kept = pair.store.context, pair.loaded.kept
    elements = pair.width.piece_elements
    attributes: dict[str, Any] = {
        "dstElements": ir.IntegerAttr.get(ir.IndexType.get(context), elements),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(
            [1, len(target.indices), 1, len(source.indices), 1 if kept else 0], context
        ),
    }
    if pair.width.piece_bytes == BYPASS_BYTES:
        attributes["bypassL1"] = ir.UnitAttr.get(context)
    build = IntegerWriter.before(pair.store)
    for first in range(0, pair.width.elements, elements):
        operands = [
            target.memory,
            *build.advanced(target.indices, first),
            source.memory,
            *build.advanced(source.indices, first),
            *kept_elements(kept, first, elements, build),
        ]
        token = ir.Type.parse(TOKEN_TYPE, context)
        build.make(DEVICE_COPY, operands, token, attributes)


def _copy_between_pointers(pair: CopyPair) -> None:
    (source,), (target,) = accesses(pair.loaded.load), accesses(pair.store)
    context, width = pair.store.context, pair.width
    llvm, build = LlvmBuilder.before(pair.store), IntegerWriter.before(pair.store)
    i32 = ir.IntegerType.get_signless(32, context)
    cache = "cg" if width.piece_bytes == BYPASS_BYTES else "ca"
    attributes = {
        "size": ir.IntegerAttr.get(i32, width.piece_bytes),
        "modifier": ir.Attribute.parse(f"#nvvm<load_cache_modifier {cache}>", context),
    }
    for first in range(0, width.elements, width.piece_elements):
        kept = kept_elements(pair.loaded.kept, first, width.piece_elements, build)
        read = [
            build.cast("arith.index_cast", build.multiply(count, width.element_bytes), i32)
            for count in kept
        ]
        ends = [
            llvm.at(_in_space(access.memory, space, llvm), first * width.element_bytes)
            for access, space in ((target, 3), (source, 1))
        ]
        llvm.op("nvvm.cp.async.shared.global", [*ends, *read], attributes=attributes)


def _in_space(pointer: Value, space: int, llvm: LlvmBuilder) -> Value:
    """The pointer with the space that it is known to point into in its type."""
    kind = ir.Type.parse(f"!llvm.ptr<{space}>", pointer.context)
    return pointer if pointer.type == kind else llvm.cast("llvm.addrspacecast", pointer, kind)


def _hoist_load(pair: CopyPair) -> None:
    """scf.if { pure ops; load }  -->  pure ops; load; scf.if: its subscripts reach the store."""
    for op in pair.loaded.through:
        if op.name == "scf.if":
            for inner in operations(op.regions[0].blocks[0])[:-1]:
                inner.move_before(op)


def create_group(ip: Any, loc: Any) -> Operation:
    """Commit everything that was issued since the last commit as one group."""
    token = ir.Type.parse(TOKEN_TYPE, loc.context)
    return create("nvgpu.device_async_create_group", results=[token], ip=ip, loc=loc)


def create_wait(count: int | None, token: Value | None, ip: Any, loc: Any) -> None:
    """Wait until at most `count` groups are in flight (None, like 0: until none is)."""
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32, loc.context), count or 0)
    if token is None:
        create("nvvm.cp.async.wait.group", attributes={"n": number}, ip=ip, loc=loc)
    else:
        create("nvgpu.device_async_wait", [token], attributes={"numGroups": number}, ip=ip, loc=loc)


# Elements that a copy keeps ------------------------------------------------------------------
#
# The number of elements that a masked copy reads, as an index value.
#
#     Leading(%n), piece of 4 from element 8   -->  min(max(%n - 8, 0), 4)
#     UntilEnd(%A, %i), piece of 4 from 0      -->  min(max(dim(%A) - %i, 0), 4)
#     AllIf(%c, True), piece of 4              -->  select %c, 4, 0
#
# The clamp matters: cp.async with src-size above its size is undefined (PTX ISA, cp.async).


def kept_elements(
    parts: Sequence[Part], first: int, elements: int, build: IntegerWriter
) -> list[Value]:
    """How many of `elements` elements, counted from element `first` of the load, all parts keep.

    One value from 0 to `elements`; [] if there are no parts.
    """
    if not parts:
        return []
    kept = build.constant(elements)
    # Conditions last: AMD's copies read zeros where they keep a constant number or none.
    for part in sorted(parts, key=lambda part: isinstance(part, AllIf)):
        if isinstance(part, AllIf):
            none = build.constant(0)
            chosen = (kept, none) if part.holds else (none, kept)
            kept = build.select(part.condition, *chosen)
        else:
            left = build.subtract(_length(part, build), first)
            kept = build.smallest(build.largest(left, 0), kept)
    return [kept]


def _length(part: Leading | UntilEnd, build: IntegerWriter) -> Value:
    """The number of elements from the load's first one on, not clamped."""
    if isinstance(part, Leading):
        return build.constant(part.count) if isinstance(part.count, int) else part.count
    kind = ir.MemRefType(part.memory.type)
    axis = kind.rank - 1
    if not kind.is_dynamic_dim(axis):
        return build.subtract(build.constant(kind.shape[axis]), part.index)
    index = ir.IndexType.get(build.location.context)
    dimension = build.make("memref.dim", (part.memory, build.constant(axis)), index)
    return build.subtract(dimension, part.index)


# Names the kinds of copies of a gpu.module, as `cg 16`, whose lines are fetched whole.
WHOLE_LINES = "async_pipe.l2_whole_lines"
LINE_BYTES = 128

_BYPASS = "bypassL1"
_PTX_COPY = re.compile(
    r"(?P<name>cp\.async\.(?P<cache>c[ag])\.shared\.global)(?P<rest>\s+\[[^]]*\],\s*\[[^]]*\],\s*(?P<bytes>\d+))"
)


def bypass_first_level(gpu_module: Operation) -> None:
    """Let all 16-byte copies bypass the first-level cache; no others can."""
    for op in walk_named(gpu_module, DEVICE_COPY.__eq__):
        if _BYPASS not in op.attributes and _bytes(op) == BYPASS_BYTES:
            op.attributes[_BYPASS] = ir.UnitAttr.get(op.context)


def note_whole_lines(gpu_module: Operation) -> None:
    """Name the kinds of copies all of which read a part of a line, and the next part in the next
    iteration of their loop."""
    arithmetic = Arithmetic()
    kinds: dict[str, list[tuple[Any, bool]]] = defaultdict(list)
    for op in walk_named(gpu_module, DEVICE_COPY.__eq__):
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
    column = arithmetic.wrapped(source.indices[-1]) if source.indices else None
    if column is None:
        return False
    for loop in ancestors(source.op):
        if loop.name == "scf.for":
            step = constant_value(loop.operands[2])
            counter = loop.regions[0].blocks[0].arguments[0]
            factor = dict(column.terms).get(counter, 0)
            if factor and step is not None:
                return abs(factor * step) * element_bytes(source.memory.type) < LINE_BYTES
    return False


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
