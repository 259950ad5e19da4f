"""What the tool writes in the end: IR as text or bytecode, or code for a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings.run_on_copy import bytes_of
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.tool import printing
from mlir_async_pipe.tool.options import Options


def ir(root: Any, options: Options) -> bytes:
    if options.emit_bytecode:
        return bytes_of(root)
    return printing.print_ir(root, options).encode()


def code(
    root: Any, options: Options, session: Session, last_check: Callable[[], None]
) -> bytes | None:
    """Code for the session's target; None if the session has errors, before or after
    `last_check`, which does not change the IR: the back end works meanwhile.

    Raises LoweringError where the module cannot become code.
    """
    assert session.target is not None  # the command line refuses --emit without --target
    from mlir_async_pipe.lowering.lower import CodeOptions, begin

    if session.diagnostics.with_severity("error"):
        last_check()
        return None
    # A report tells what kernels need.
    asks = True if options.report and options.resources is None else options.resources
    how = CodeOptions(resources=asks, kept=options.cache)
    with begin(root, target=session.target, emit=options.emit, options=how) as started:
        last_check()
        if session.diagnostics.with_severity("error"):
            return None
        lowered = started.result()
    session.diagnostics.items += lowered.diagnostics
    session.seconds.update(lowered.seconds)
    for kernel in lowered.kernels:
        session.record("kernels", kernel)
    for wait in lowered.waits:
        session.record("instructions", wait)
    return lowered.binary or lowered.text.encode()
