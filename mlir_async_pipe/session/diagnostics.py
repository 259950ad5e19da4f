"""Located diagnostics and the one exception tree of the package.

    gemm.mlir:14:5: error: cannot pipeline: 'memref.store' may touch … [unproven-independence]
    gemm.mlir:17:10: note: the load that it may overwrite
    gemm.mlir:9:3: note: assert `async_pipe.independent` on this loop if they never overlap

A diagnostic is a severity, a sentence, a stable reason code, the place, and notes at other
places. Nothing here imports MLIR: a location is read off the bindings' object once, so a
diagnostic outlives the IR that it talks about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NoReturn

Severity = Literal["error", "warning", "remark", "note"]


@dataclass(frozen=True)
class Place:
    """A point in a source file; line and column count from 1, 0 means unknown."""

    file: str = ""
    line: int = 0
    column: int = 0

    @staticmethod
    def of(location: Any) -> Place:
        """The place of an ir.Location (or of anything that has `.location`). Fused, named and call-site locations
        stand for their first file location, of Python's frames the innermost outside of the bindings."""
        return Place.at(getattr(location, "location", location))

    @staticmethod
    def at(location: Any) -> Place:
        try:
            # Cutlass' bindings end the process when another location is asked for its file.
            # Others do not tell kinds of locations apart.
            if not getattr(location, "is_a_file", lambda: True)():
                raise AttributeError
            # Five times as fast as the text, where the stack knows file locations.
            return Place(location.filename, location.start_line, location.start_col)
        except AttributeError:
            text = str(location)
        if text == "loc(unknown)":
            return Place()
        frames = list(_FILE_LOCATION.finditer(text))
        if not frames:
            return Place()
        # An op that Python built is found where it was asked for, not in the bindings' own files.
        match = next((f for f in frames if not _is_of_bindings(f.group("file"))), frames[0])
        return Place(match.group("file"), int(match.group("line")), int(match.group("column")))

    def __str__(self) -> str:
        if not self.file and not self.line:
            return "<unknown>"
        return f"{self.file}:{self.line}:{self.column}"


# loc("gemm.mlir":14:5) and, for ranges, loc("gemm.mlir":14:5 to :9)
_FILE_LOCATION = re.compile(r'"(?P<file>(?:[^"\\]|\\.)*)":(?P<line>\d+):(?P<column>\d+)')


# A language's own files: its library functions stand between an op and the kernel that calls them.
_LANGUAGES = re.compile(r"[/\\](?:site|dist)-packages[/\\](?:triton|nvidia_cutlass_dsl|jax)[/\\]")


@cache
def _is_of_bindings(file: str) -> bool:
    """Whether a file lies in a language's package, or in one of MLIR's bindings, which have their library
    beside it."""
    return _LANGUAGES.search(file) is not None or any(
        (folder / "_mlir_libs").is_dir() for folder in list(Path(file).parents)[:3]
    )


@dataclass(frozen=True)
class Note:
    """A remark attached to a diagnostic, at a place of its own."""

    message: str
    place: Place = Place()


@dataclass(frozen=True)
class Diagnostic:
    """One finding: what is wrong, where, its reason code, and what helps."""

    severity: Severity
    message: str
    code: str
    place: Place = Place()
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        code = f" [{self.code}]" if self.code else ""
        lines = [f"{self.place}: {self.severity}: {self.message}{code}"]
        lines += [f"{note.place}: note: {note.message}" for note in self.notes]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The diagnostic as plain dictionaries and strings."""
        return {**asdict(self), "notes": [asdict(note) for note in self.notes]}


class AsyncPipeError(Exception):
    """Root of all errors that this package raises on purpose.

    `at` is an op, a location or a Place; `notes` are (message, at) pairs; `advice` becomes
    a last note at the same place that says what the user can do. `loop` is the one that was
    refused, where it was one."""

    loop: Any = None

    def __init__(
        self,
        message: str,
        *,
        code: str,
        at: Any = None,
        notes: tuple[tuple[str, Any], ...] = (),
        advice: str | None = None,
    ) -> None:
        place = _place(at)
        all_notes = [Note(text, _place(where)) for text, where in notes]
        if advice:
            all_notes.append(Note(advice, place))
        self.diagnostic = Diagnostic("error", message, code, place, tuple(all_notes))
        super().__init__(str(self.diagnostic))

    @property
    def code(self) -> str:
        """The stable reason code, for instance "unproven-independence"."""
        return self.diagnostic.code


@contextmanager
def refusing(loop: Any) -> Iterator[None]:
    """Errors inside are about this loop."""
    try:
        yield
    except AsyncPipeError as error:
        error.loop = loop
        raise


class BindingsError(AsyncPipeError):
    """No usable MLIR Python bindings."""


class UsageError(AsyncPipeError):
    """A wrong option, target, pass name or file."""


class InputError(AsyncPipeError):
    """The input is not valid IR, or an annotation on it makes no sense."""


class PipelineError(AsyncPipeError):
    """A loop cannot be pipelined as asked; the loop is untouched."""


@dataclass(frozen=True)
class Refusal:
    """Refuses loops with errors that begin alike: `cannot`, then why; `code` and `advice` where no others are given."""

    cannot: str
    code: str
    advice: str

    def __call__(
        self, why: str, at: Any, loop: Any, *, code: str = "", advice: str = ""
    ) -> NoReturn:
        """Raise PipelineError: `why` about the op `at`, which is the loop itself or has to do with it."""
        raise PipelineError(
            f"{self.cannot} {why}",
            code=code or self.code,
            at=at,
            notes=(("the loop", loop),) if at != loop else (),
            advice=advice or self.advice,
        )


class CountError(AsyncPipeError):
    """A wait has no meaning, or a given count is unsafe."""


class HazardError(AsyncPipeError):
    """The checker found an access that may race."""

    @staticmethod
    def of(found: Diagnostic) -> HazardError:
        """The error that a kept diagnostic tells of."""
        notes = tuple((note.message, note.place) for note in found.notes)
        return HazardError(found.message, code=found.code, at=found.place, notes=notes)


class HazardWarning(UserWarning):
    """An access of a kernel that a hook checks may race, or does and only a warning is asked for."""


class LoweringError(AsyncPipeError):
    """The module cannot be lowered to the target as it stands."""


class MachineError(AsyncPipeError):
    """The async machine cannot run the program, or the program is wrong."""


@dataclass
class Diagnostics:
    """Collects what passes say that is not fatal: remarks, warnings, and kept errors."""

    items: list[Diagnostic] = field(default_factory=list)

    def remark(
        self, message: str, *, code: str, at: Any = None, notes: tuple[tuple[str, Any], ...] = ()
    ) -> None:
        """Something the user may want to know; nothing is wrong."""
        self._add("remark", message, code, at, notes)

    def warning(
        self, message: str, *, code: str, at: Any = None, notes: tuple[tuple[str, Any], ...] = ()
    ) -> None:
        """Something that is probably not what the user meant."""
        self._add("warning", message, code, at, notes)

    def error(self, error: AsyncPipeError) -> None:
        """Keep an error without stopping; the driver exits with 1 when there is any."""
        self.items.append(error.diagnostic)

    def with_severity(self, severity: Severity) -> list[Diagnostic]:
        """All diagnostics of one severity, in the order in which they were reported."""
        return [item for item in self.items if item.severity == severity]

    def _add(
        self,
        severity: Severity,
        message: str,
        code: str,
        at: Any,
        notes: tuple[tuple[str, Any], ...],
    ) -> None:
        made = tuple([Note(text, _place(where)) for text, where in notes]) if notes else ()
        self.items.append(Diagnostic(severity, message, code, _place(at), made))


def _place(at: Any) -> Place:
    if at is None:
        return Place()
    return at if isinstance(at, Place) else Place.of(at)


def count(number: int, thing: str) -> str:
    """1 group, 2 groups, 3 copies."""
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"
    return f"{number} {thing if number == 1 else plural}"
