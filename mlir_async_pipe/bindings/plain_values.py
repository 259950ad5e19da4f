"""Inside, `==` on values asks whether they are one value, whatever their stack made of it.

    with plain_values():
        %a == %b            True or False, and no `arith.cmpi eq, %a, %b`

Stacks that are languages cast each value to a class of their own, in which `==` builds a
comparison. Sets, dicts and `in` ask it too. Such classes lose these methods for as long as somebody
is inside, and then have them again; nobody may trace a kernel in another thread meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mlir_async_pipe.bindings import ir

_METHODS = ("__eq__", "__ne__", "__hash__")
_lock = threading.Lock()
_inside = 0
_taken: list[tuple[type, str, Any]] = []


@contextmanager
def plain_values() -> Iterator[None]:
    """Values compare by identity inside; may be nested, and decorates functions."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _inside
    with _lock:
        _inside += 1
        if _inside > 1:
            return
        for kind in _below(ir.Value):
            for name in _METHODS:
                if name in vars(kind):
                    _taken.append((kind, name, vars(kind)[name]))
                    delattr(kind, name)


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        while _taken and not _inside:
            kind, name, method = _taken.pop()
            setattr(kind, name, method)


def _below(kind: type) -> list[type]:
    """The classes of a stack's language: those below the bindings' own."""
    found: list[type] = []
    near: type
    for near in kind.__subclasses__():
        found += [] if near.__module__ == kind.__module__ else [near]
        found += _below(near)
    return found
