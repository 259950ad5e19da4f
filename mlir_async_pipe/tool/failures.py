"""Diagnostics for what nobody foresaw: defects of ours and crashes of native code."""

from __future__ import annotations

import dataclasses
import traceback

from mlir_async_pipe.session.diagnostics import Diagnostic, Note, Place
from mlir_async_pipe.tool import reproducer


def internal_error(error: Exception) -> Diagnostic:
    """A defect of ours: one error, with the place in our source instead of a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    place = Place(frames[-1].filename, frames[-1].lineno or 0, 1) if frames else Place()
    message = f"internal error: {type(error).__name__}: {error}"
    return Diagnostic("error", message, "internal-error", notes=(Note("raised here", place),))


def with_reproducer(crash: Diagnostic, name: str) -> Diagnostic:
    """The crash with a note on the file that repeats it, or on how to get one."""
    if name and reproducer.rescue(name):
        note = Note("this file repeats it, with --run-reproducer", Place(name))
    else:
        note = Note("--mlir-pass-pipeline-crash-reproducer=FILE writes a file that repeats it")
    return dataclasses.replace(crash, notes=(note,))
