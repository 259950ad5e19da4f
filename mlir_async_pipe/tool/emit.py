"""What the tool writes in the end: IR as text or bytecode, or code for a target."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe import api
from mlir_async_pipe.report import Session
from mlir_async_pipe.tool import printing
from mlir_async_pipe.tool.options import Options


def emit(root: Any, options: Options, session: Session) -> bytes:
    """The bytes to write; raises LoweringError where the module cannot become code."""
    if options.emit != "mlir":
        return _code(root, options, session)
    if options.emit_bytecode:
        return printing.bytecode(root)
    return printing.print_ir(root, options).encode()


def _code(root: Any, options: Options, session: Session) -> bytes:
    assert session.target is not None  # the command line refuses --emit without --target
    lowered = api.lower(root, target=session.target, emit=options.emit)
    session.diagnostics.items += lowered.diagnostics
    for kernel in lowered.kernels:
        session.record("kernels", kernel)
    for wait in lowered.waits:
        session.record("instructions", wait)
    return lowered.binary or lowered.text.encode()
