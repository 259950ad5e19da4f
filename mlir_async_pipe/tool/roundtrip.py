"""Prints IR and parses it again, as text and as bytecode, and wants the same IR back."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.run_on_copy import bytes_of
from mlir_async_pipe.session.diagnostics import InputError, Place
from mlir_async_pipe.tool.mlir_diagnostics import MlirErrors, errors_of


def verify(root: Any, file: str) -> None:
    """Raises InputError (roundtrip-differs) or MlirErrors (roundtrip-differs)."""
    text = root.operation.get_asm(enable_debug_info=True)
    for form, content in (("text", text), ("bytecode", bytes_of(root))):
        if _generic(_parsed(content, root)) != _generic(root):
            raise InputError(
                f"the IR changes when it is printed as {form} and parsed again",
                code="roundtrip-differs",
                at=Place(file, 1, 1),
            )


def _parsed(content: str | bytes, root: Any) -> Any:
    try:
        if isinstance(content, str):
            return ir.Operation.parse(content, context=root.operation.context)
        return ir.Module.parse(content, context=root.operation.context)
    except ir.MLIRError as error:
        raise MlirErrors(errors_of(error, code="roundtrip-differs")) from None


def _generic(root: Any) -> str:
    return str(root.operation.get_asm(print_generic_op_form=True, enable_debug_info=True))
