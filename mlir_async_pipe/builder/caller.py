"""Where the user's Python asked for something: the place of errors, and the location of ops.

kernel.py:41:10: error: a slot of …        the innermost frame outside of this package
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.session.called_from import caller
from mlir_async_pipe.session.diagnostics import Place, UsageError

# The locations that `located` made current: the line of each call says more than they do.
_made: list[Any] = []


def misuse(
    message: str,
    *,
    code: str,
    advice: str | None = None,
    notes: tuple[tuple[str, Place], ...] = (),
    at: Place | None = None,
) -> UsageError:
    """An error at the line of the user that is being executed, or at another place."""
    return UsageError(message, code=code, at=at or caller(), advice=advice, notes=notes)


def here() -> Any:
    """The location of ops that are made now: the user's own, where one is set, else the line."""
    current = ir.Location.current
    if current is not None and current not in _made and str(current) != "loc(unknown)":
        return current
    place = caller()
    return ir.Location.file(place.file, place.line, place.column, context=point().context)


@contextlib.contextmanager
def located() -> Iterator[None]:
    """Inside, the user's own ops are at the line that is being executed now, unless they say."""
    made = here()
    _made.append(made)
    try:
        with made:
            yield
    finally:
        _made.pop()


def point() -> Any:
    """The op around the current insertion point; raises UsageError (no-insertion-point)."""
    return _current(ir.InsertionPoint).block.owner


def in_context() -> None:
    """Raises UsageError (no-insertion-point) where no context is current either."""
    _current(ir.Context)


def _current(kind: Any) -> Any:
    try:
        found = kind.current
    except ValueError:
        found = None
    if found is None:
        why = "what a pipeline writes goes to the current insertion point, and there is none"
        raise misuse(why, code="no-insertion-point", advice="with ir.InsertionPoint(block): …")
    return found
