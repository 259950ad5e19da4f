"""The user's Python: the line that calls this package, for what no file of IR has a place for.

    <unknown>: error: no function 'f' …     kernel.py:41:10: error: no function 'f' …
    -:12:5: error: …                        the same, and kernel.py:41:10: note: called from here, …

Errors that are raised and diagnostics of a report that is returned are treated alike.

A module that is parsed from a string has the file "-", one that is built without locations has none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from mlir_async_pipe.session.arguments import nearest
from mlir_async_pipe.session.diagnostics import (
    AsyncPipeError,
    CountError,
    Diagnostic,
    HazardError,
    InputError,
    Note,
    PipelineError,
    Place,
    UsageError,
)

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")

_PACKAGE = str(Path(__file__).parents[1])
# The flag of code that takes `**options` (Python's `inspect.CO_VARKEYWORDS`).
_VARKEYWORDS = 0x08
# What a wheel has there is code of users, as it is beside the package.
_EXAMPLES = f"{_PACKAGE}/example_files"
# Errors that are about an op of the module, which has a location or has none.
_ABOUT_OPS = (InputError, PipelineError, CountError, HazardError)
# The default of an argument tells its kind; a number's range is for the call to say.
_KINDS = {bool: "True or False", str: "a string"}
# Parameters by names that are not like them.
_MEANT = {"blocks": "grid", "block": "threads", "stages": "num_stages", "chip": "target"}


def caller() -> Place:
    """The place in the innermost frame that is neither of this package nor of contextlib."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    line, _, column, _ = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    return Place(frame.f_code.co_filename, line or frame.f_lineno, (column or 0) + 1)


def called_by_users(call: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Decorator: errors, and diagnostics of what is returned, name the line of the call where they have
    no place in a file. An argument that `call` does not have is answered with the one that was meant, one
    of another kind than its default raises UsageError (bad-argument). Calls by this package are left alone."""
    inner: Any = call
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    code = inner.__code__
    taken = dataclasses.fields(inner.takes) if hasattr(inner, "takes") else ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    names += tuple(entry.name for entry in taken)
    takes_any = code.co_flags & _VARKEYWORDS and not taken
    defaults = {**(inner.__kwdefaults__ or {}), **{entry.name: entry.default for entry in taken}}

    @functools.wraps(call)
    def wrapped(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Answer:
        if _is_ours(sys._getframe(1).f_code.co_filename):
            return call(*arguments, **keywords)
        for name in () if takes_any else keywords:
            meant = _MEANT.get(name) or nearest(name, names)
            if name not in names and meant in names:
                raise TypeError(
                    f"{call.__qualname__}() has no argument '{name}'; did you mean '{meant}'?"
                )
        for name, default in defaults.items():
            expected = _KINDS.get(type(default))
            if expected and not isinstance(keywords.get(name, default), type(default)):
                why = f"{name} is {keywords[name]!r}, expected {expected}"
                raise UsageError(why, code="bad-argument", at=caller())
        try:
            answer = call(*arguments, **keywords)
        except AsyncPipeError as error:
            error.diagnostic = _placed(error.diagnostic, caller(), isinstance(error, _ABOUT_OPS))
            error.args = (str(error.diagnostic),)
            raise
        found = getattr(answer, "diagnostics", ())
        if not any(one.place.file in ("", "-") for one in found):
            return answer
        placed = tuple(_placed(one, caller(), about_op=True) for one in found)
        return dataclasses.replace(cast("Any", answer), diagnostics=placed)

    return wrapped


def takes(options: type) -> Callable[[Callable[Parameters, Answer]], Callable[Parameters, Answer]]:
    """Decorator of a function whose keywords are the fields of a dataclass."""

    def mark(call: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
        vars(call)["takes"] = options
        return call

    return mark


def _placed(found: Diagnostic, at: Place, about_op: bool) -> Diagnostic:
    if found.place.file == "-":
        text = "called from here, with a module that was parsed from a string"
        return dataclasses.replace(found, notes=(*found.notes, Note(text, at)))
    if found.place.file:
        return found
    # The advice stands at the place of the error, which had none.
    notes = tuple(
        note if note.place.file else dataclasses.replace(note, place=at) for note in found.notes
    )
    if about_op:
        text = "the module has no locations: what is built in `with ir.loc_tracebacks():` has"
        notes += (Note(text, at),)
    return dataclasses.replace(found, place=at, notes=notes)


def _is_ours(file: str) -> bool:
    # `with` runs a generator of this package from contextlib's frame.
    return file == contextlib.__file__ or (
        file.startswith(_PACKAGE) and not file.startswith(_EXAMPLES)
    )
