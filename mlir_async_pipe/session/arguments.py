"""What a user typed or passed: the name that was meant, and numbers that are whole.

sm80           nvvm:sm_80        equal but for case, "-", "_", ":" and a part before ":" or "."
specialized    specialised       nearly so
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable
from typing import Any

from mlir_async_pipe.session.diagnostics import UsageError


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The one of `known` that `name` is nearly, "" if it is none.

    `cutoff`: from which ratio of equal characters on, 2 equal / (both lengths)."""
    names = list(known)
    letters = _letters(name)
    for entry in names:
        last = entry.replace(".", ":").rpartition(":")[2]
        if letters and letters in (_letters(entry), _letters(last)):
            return entry
    close = difflib.get_close_matches(name, names, 1, cutoff)
    return close[0] if close else ""


def did_you_mean(
    name: str, known: Iterable[str], otherwise: str = "known here", cutoff: float = 0.6
) -> str:
    """Advice to whoever typed a name that is none of `known`: the nearest one, else all of them."""
    names = list(known)
    near = nearest(name, names, cutoff)
    return f"did you mean '{near}'?" if near else f"{otherwise}: {', '.join(names) or 'none'}"


def whole_number(
    name: str, value: Any, least: int, code: str = "bad-argument", at: Any = None
) -> int:
    """A number that Python code passed as `name`: an int, or what NumPy and MLIR have for one. Raises UsageError
    (`code`, `at` a place) for what is none, and for less than `least`."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        why = f"{name} is {value!r}, expected a whole number of {least} or more"
        raise UsageError(why, code=code, at=at)
    return number


def operation_of(module: Any) -> Any:
    """The operation of a module; raises UsageError (not-a-module) for anything else."""
    root = getattr(module, "operation", None)
    if root is None:
        why = f"expected an ir.Module or an operation, not {module!r}"
        advice = "ir.Module.parse(text) in a context of mlir_async_pipe.bindings.new_context()"
        raise UsageError(why, code="not-a-module", advice=advice)
    return root


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
