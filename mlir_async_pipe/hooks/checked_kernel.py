"""What hooks that check do with a kernel that is compiled: prove it, and tell what was found.

    module, in the bindings in use --check--> reports, HazardError, HazardWarning

An error stops the compilation, so that the stack neither runs nor caches the kernel. What is unknown is
a warning at the user's line, and so is a kernel that the bindings cannot read: neither counts as proven.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

from mlir_async_pipe import api
from mlir_async_pipe.bindings import current, ir
from mlir_async_pipe.hooks.pipelined_kernel import Hook, KernelReport
from mlir_async_pipe.session.diagnostics import (
    AsyncPipeError,
    Diagnostic,
    Diagnostics,
    HazardError,
    HazardWarning,
    UsageError,
)


class CheckingHook(Hook):
    """A hook that checks. `check`: True raises HazardError for the first error of a kernel, "warn" tells
    errors as warnings (HazardWarning), False checks nothing. `noalias`: no two arguments of a kernel
    share memory. `no_overflow`: integers of 32 bits do not wrap. `independent`: threads and blocks store to
    different places where that cannot be decided (see `mlir_async_pipe.check`).

    `reports` has an entry for each kernel that was checked, and `loops` is 0 in all of them.
    Raises UsageError (bad-argument) for another `check`."""

    def __init__(
        self,
        check: bool | Literal["warn"] = True,
        *,
        noalias: bool = False,
        no_overflow: bool = False,
        independent: bool = False,
    ) -> None:
        super().__init__()
        if check not in (True, False, "warn"):
            why = f"check is {check!r}, expected True, False or 'warn'"
            raise UsageError(why, code="bad-argument")
        self.check = check
        self._promises = {
            "assume_noalias_arguments": noalias,
            "assume_no_overflow": no_overflow,
            "assume_independent": independent,
        }

    def _check(self, kernel: str, target: str, read: Callable[[], Any]) -> None:
        """Check a kernel in the module that `read` gives. Raises HazardError."""
        made = _checked(kernel, target, read, self._promises)
        self.reports.append(made)
        errors = [one for one in made.diagnostics if one.severity == "error"]
        _warn(kernel, [one for one in made.diagnostics if one.severity == "warning"])
        if errors and self.check is True:
            raise HazardError.of(errors[0])
        _warn(kernel, errors)


def _checked(
    kernel: str, target: str, read: Callable[[], Any], promises: dict[str, Any]
) -> KernelReport:
    """What is found, or why nothing is."""
    why, text = Diagnostics(), ""
    try:
        module = read()
        text = module.operation.get_asm(enable_debug_info=True)
        with module.operation.context:
            report = api.check(module, target, **promises)
        if report.of("checks"):
            return KernelReport(kernel, 0, report.diagnostics, report, text)
        why.warning("not checked: its module has no kernel", code="no-kernels")
    except AsyncPipeError as error:
        found = error.diagnostic
        why.warning(f"not checked: {found.message}", code=found.code, at=found.place)
    # What MLIR raises for text and for pipelines.
    except (ir.MLIRError, ValueError) as error:
        said = f"bindings '{current().name}' cannot read it: {str(error).splitlines()[-1]}"
        why.warning(f"not checked: {said}", code="parse-error")
    return KernelReport(kernel, 0, tuple(why.items), None, text)


def _warn(kernel: str, found: Sequence[Diagnostic]) -> None:
    """Warn at the lines of the user's Python that diagnostics have as their places."""
    # Of an unrolled loop there is one for each of its copies.
    for one in dict.fromkeys(found):
        notes = [f"\n  {note.place}: note: {note.message}" for note in one.notes]
        text = f"{kernel}: {one.message} [{one.code}]{''.join(notes)}"
        warnings.warn_explicit(
            text, HazardWarning, one.place.file or "<unknown>", max(one.place.line, 1)
        )
