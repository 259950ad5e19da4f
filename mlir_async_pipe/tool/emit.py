"""What the tool writes in the end: IR as text or bytecode, or code for a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.session.report import Session
from mlir_async_pipe.tool import printing
from mlir_async_pipe.tool.options import Options


class CheckFailedError(Exception):
    """The last check found errors (they are in the session): there is nothing to emit."""


def emit(
    root: Any, options: Options, session: Session, last_check: Callable[[], None] = lambda: None
) -> bytes:
    """The bytes to write; raises LoweringError where the module cannot become code.

    `last_check` does not change the IR; code is made while it runs, and dropped if it leaves
    an error in the session: raises CheckFailedError.
    """
    if options.emit != "mlir":
        return _code(root, options, session, last_check)
    if options.emit_bytecode:
        return printing.bytecode(root)
    return printing.print_ir(root, options).encode()


def _code(root: Any, options: Options, session: Session, last_check: Callable[[], None]) -> bytes:
    assert session.target is not None  # the command line refuses --emit without --target

    def check() -> None:
        last_check()
        if session.diagnostics.with_severity("error"):
            raise CheckFailedError

    from mlir_async_pipe.lowering.lower import lower

    lowered = lower(root, target=session.target, emit=options.emit, meanwhile=check)
    session.diagnostics.items += lowered.diagnostics
    for kernel in lowered.kernels:
        session.record("kernels", kernel)
    for wait in lowered.waits:
        session.record("instructions", wait)
    return lowered.binary or lowered.text.encode()
