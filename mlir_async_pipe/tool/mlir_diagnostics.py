"""MLIR's own diagnostics as ours: errors from exceptions, the rest from the context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mlir_async_pipe.session.diagnostics import Diagnostic, Note, Place, Severity

# The name that MLIR gives a buffer that was parsed without one.
UNNAMED = "-"
_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note", "remark")


class MlirErrors(Exception):
    """MLIR refused something; carries its diagnostics, at least one, all errors."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.diagnostics = diagnostics
        super().__init__("\n".join(map(str, diagnostics)))


def errors_of(error: Any, *, code: str) -> tuple[Diagnostic, ...]:
    """The diagnostics of an ir.MLIRError, the first with `code`; made up if it has none."""
    found = [diagnostic(entry) for entry in getattr(error, "error_diagnostics", [])]
    if not found:
        found = [Diagnostic("error", str(error).strip() or type(error).__name__, "")]
    return tuple(replace(each, code=code) for each in found)


def diagnostic(entry: Any) -> Diagnostic:
    """One ir.Diagnostic or ir.DiagnosticInfo, with its notes."""
    severity = str(entry.severity).rsplit(".", 1)[-1].lower()
    notes = tuple(Note(note.message.strip(), Place.of(note.location)) for note in entry.notes)
    known: Severity = next((name for name in _SEVERITIES if name == severity), "error")
    return Diagnostic(known, entry.message.strip(), "", Place.of(entry.location), notes)


def forward(context: Any, emit: Callable[[Diagnostic], None]) -> Any:
    """Send what MLIR says on `context` to `emit`; keep the returned handler alive."""

    def handle(entry: Any) -> bool:
        emit(diagnostic(entry))
        return True

    return context.attach_diagnostic_handler(handle)
