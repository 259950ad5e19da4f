"""Turns a source into a module, with the file's name in every location.

`Module.parse` takes no file name and `Operation.parse` accepts one top-level op only, so the
latter is tried first. A file with several top-level ops is parsed without a name (its places
are in file "-"), printed with its locations, and parsed again with the name put in; that costs
a few milliseconds and only such files pay them. In parse errors the sink puts the name in.

It needs the bindings, which the command line chooses: so it is no part of `inputs`, which comes first.
"""

from __future__ import annotations

import json
import re
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.run_on_copy import bytes_of
from mlir_async_pipe.session.diagnostics import InputError, Place
from mlir_async_pipe.tool.inputs import Source
from mlir_async_pipe.tool.mlir_diagnostics import UNNAMED, MlirErrors, errors_of

_SEVERAL_OPS = "source must contain a single top-level operation"


def parse(source: Source, context: Any, *, implicit_module: bool = True) -> Any:
    """The root op of `source`: a module, or whatever op stands alone without `implicit_module`. Returns an object
    with `.operation` that owns the IR. Raises MlirErrors."""
    if source.is_bytecode:
        return _parsed(ir.Module, source.content, context, "parse-error")
    text = source.text
    if source.is_ptx:
        from mlir_async_pipe.ptx.raise_ptx import raise_ptx

        return raise_ptx(text, context, source.name)
    try:
        root = ir.Operation.parse(text, source_name=source.name, context=context)
    except ir.MLIRError as error:
        if implicit_module and _SEVERAL_OPS in str(error):
            return _named(_parsed(ir.Module, text, context, "parse-error"), source.name)
        if _SEVERAL_OPS in str(error):
            why = "the input is not exactly one op"
            raise InputError(why, code="parse-error", at=Place(source.name, 1, 1)) from None
        raise MlirErrors(errors_of(error, code="parse-error")) from None
    if root.operation.name == "builtin.module":
        return root
    if not implicit_module:
        return root
    module = ir.Module.create(loc=ir.Location.unknown(context))
    module.body.append(root.operation)
    if not module.operation.verify():
        raise InputError("the input does not verify", code="parse-error", at=root.operation)
    return module


def _parsed(kind: Any, content: str | bytes, context: Any, code: str) -> Any:
    try:
        return kind.parse(content, context=context)
    except ir.MLIRError as error:
        raise MlirErrors(errors_of(error, code=code)) from None


def _named(module: Any, name: str) -> Any:
    """The module with `name` as the file of its locations. Quotes inside strings are printed as escapes, so the
    pattern finds locations only."""
    text = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    quoted = json.dumps(name, ensure_ascii=False)
    named = _UNNAMED_PLACE.sub(lambda place: f"{quoted}{place[1]}", text)
    return ir.Operation.parse(named, source_name=name, context=module.operation.context)


_UNNAMED_PLACE = re.compile(rf'"{re.escape(UNNAMED)}"(:\d+:\d+)')


def verify(root: Any, file: str) -> None:
    """Raises InputError (roundtrip-differs) or MlirErrors (roundtrip-differs)."""
    text = root.operation.get_asm(enable_debug_info=True)
    context = root.operation.context
    forms = (("text", ir.Operation, text), ("bytecode", ir.Module, bytes_of(root)))
    for form, kind, content in forms:
        again = _parsed(kind, content, context, "roundtrip-differs")
        if _generic(again) != _generic(root):
            why = f"the IR changes when it is printed as {form} and parsed again"
            raise InputError(why, code="roundtrip-differs", at=Place(file, 1, 1))


def _generic(root: Any) -> str:
    return str(root.operation.get_asm(print_generic_op_form=True, enable_debug_info=True))
