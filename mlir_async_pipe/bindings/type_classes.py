"""What kind of type or attribute something is, without asking in vain.

    as_kind(ir.MemRefType, %a.type)     the memref type, or None
    type_text(%a.type)                    "memref<16xf32>", printed once while the IR is `unchanged`

The bindings say no by an exception, which takes 5 microseconds, and print a type in 2 to 6 of them
(docs/speed.md). But they hand out types and attributes as objects of the class that they have for
them: what one of a class is not, none of that class is.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.memo import remembered

_refused: set[tuple[type, type]] = set()


def as_kind(kind: Any, thing: Any) -> Any | None:
    """A type or an attribute as one of the bindings' class `kind`, None if it is none."""
    given = type(thing)
    if given is kind:
        return thing
    if (kind, given) in _refused:
        return None
    try:
        return kind(thing)
    except (ValueError, TypeError):
        # Of these classes are all those for which the bindings have no class of their own.
        if given not in (ir.Type, ir.Attribute):
            _refused.add((kind, given))
        return None


@remembered
def type_text(kind: Any) -> str:
    """A type, or an attribute, as it is printed."""
    return str(kind)
