"""What hooks that check do with a kernel that is compiled: prove it, and tell what was found.

    text of the stack --read by the bindings in use--> module --check--> reports, HazardError, HazardWarning

An error stops the compilation, so that the stack neither runs nor caches the kernel. What is unknown is
a warning at the user's line, and so is a kernel that the bindings cannot read: neither counts as proven.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

from mlir_async_pipe import api
from mlir_async_pipe.bindings import current, ir, new_context
from mlir_async_pipe.hooks.pipelined_kernel import Hook, KernelReport
from mlir_async_pipe.session.diagnostics import (
    AsyncPipeError,
    Diagnostic,
    Diagnostics,
    HazardError,
    HazardWarning,
    UsageError,
)
from mlir_async_pipe.session.report import Report


class CheckingHook(Hook):
    """A hook that checks. `check`: True raises HazardError for the first error of a kernel, "warn" tells
    errors as warnings (HazardWarning), False checks nothing. `noalias`: no two arguments of a kernel
    share memory.

    `reports` has an entry for each kernel that was checked, and `loops` is 0 in all of them.
    Raises UsageError (bad-argument) for another `check`.
    """

    def __init__(self, check: bool | Literal["warn"] = True, *, noalias: bool = False) -> None:
        super().__init__()
        if check not in (True, False, "warn"):
            raise UsageError(
                f"check is {check!r}, expected True, False or 'warn'", code="bad-argument"
            )
        self.check = check
        self.noalias = noalias
        self.reports: list[KernelReport] = []

    def _check(self, kernel: str, text: str, target: str) -> None:
        """Check the module of one kernel. Raises HazardError."""
        report, told = _checked(text, target, self.noalias)
        self.reports.append(KernelReport(kernel, 0, told, report, text))
        errors = [one for one in told if one.severity == "error"]
        _warn(kernel, [one for one in told if one.severity == "warning"])
        if errors and self.check is True:
            raise HazardError.of(errors[0])
        _warn(kernel, errors)


def _checked(text: str, target: str, noalias: bool) -> tuple[Report | None, tuple[Diagnostic, ...]]:
    """The report of a module, None where there is none, and what is to be told."""
    why = Diagnostics()
    try:
        with new_context():
            report = api.check(ir.Module.parse(text), target, assume_noalias_arguments=noalias)
        return report, report.diagnostics
    except ir.MLIRError as error:
        said = str(error).splitlines()[-1]
        why.warning(
            f"not checked: bindings '{current().name}' cannot read it: {said}", code="parse-error"
        )
    except AsyncPipeError as error:
        found = error.diagnostic
        why.warning(f"not checked: {found.message}", code=found.code, at=found.place)
    return None, tuple(why.items)


def _warn(kernel: str, found: Sequence[Diagnostic]) -> None:
    """Warn at the lines of the user's Python that diagnostics have as their places."""
    for one in found:
        notes = [f"\n  {note.place}: note: {note.message}" for note in one.notes]
        text = f"{kernel}: {one.message} [{one.code}]{''.join(notes)}"
        warnings.warn_explicit(
            text, HazardWarning, one.place.file or "<unknown>", max(one.place.line, 1)
        )
