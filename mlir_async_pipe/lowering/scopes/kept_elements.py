"""The number of elements that a masked copy reads, as an index value.

    Leading(%n), piece of 4 from element 8   -->  min(max(%n - 8, 0), 4)
    UntilEnd(%A, %i), piece of 4 from 0      -->  min(max(dim(%A) - %i, 0), 4)
    AllIf(%c, True), piece of 4              -->  select %c, 4, 0

The clamp matters: cp.async with src-size above its size is undefined (PTX ISA, cp.async).
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, create
from mlir_async_pipe.lowering.scopes.masked_loads import (
    AllIf,
    Leading,
    Part,
    UntilEnd,
)
from mlir_async_pipe.values.integer_writer import IntegerWriter


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
            behind = build.subtract(_length(part, build), first)
            kept = build.smallest(build.largest(behind, 0), kept)
    return [kept]


def _length(part: Leading | UntilEnd, build: IntegerWriter) -> Value:
    """The number of elements from the load's first one on, not clamped."""
    if isinstance(part, Leading):
        return build.constant(part.count) if isinstance(part.count, int) else part.count
    kind = ir.MemRefType(part.memory.type)
    axis = kind.rank - 1
    if not kind.is_dynamic_dim(axis):
        return build.subtract(build.constant(kind.shape[axis]), part.index)
    dimension = create(
        "memref.dim",
        (part.memory, build.constant(axis)),
        (ir.IndexType.get(build.location.context),),
        ip=build.ip,
        loc=build.location,
    )
    return build.subtract(dimension.results[0], part.index)
