"""Reads the input, cuts it at `// -----` lines, and makes modules of the parts.

Each part is padded in front with as many newlines as the file has above it, so that places
in diagnostics are places in the file.

Every location of a module has the file's name: `Module.parse` takes none and `Operation.parse` accepts
one top-level op only, so the latter is tried first. A file with several top-level ops is parsed
without a name (its places are in file "-"), printed with its locations, and parsed again with the name
put in; that costs a few milliseconds and only such files pay them. In parse errors the sink puts the
name in.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.run_on_copy import bytes_of
from mlir_async_pipe.session.diagnostics import InputError, Place, UsageError
from mlir_async_pipe.tool.mlir_diagnostics import UNNAMED, MlirErrors, errors_of

# First bytes of MLIR bytecode ("ML" 0xEF "R").
BYTECODE_MAGIC = b"ML\xefR"


@dataclass(frozen=True)
class Source:
    """One module to process: the name of its file, its bytes, and its first line's number.

    `content` of text starts with `first_line - 1` newlines.
    """

    name: str
    content: bytes
    first_line: int = 1

    @property
    def is_bytecode(self) -> bool:
        """Whether the content is MLIR bytecode."""
        return self.content.startswith(BYTECODE_MAGIC)

    @property
    def text(self) -> str:
        """The content as text; raises UsageError (not-text) if it is not UTF-8."""
        try:
            return self.content.decode()
        except UnicodeDecodeError as error:
            line = self.content.count(b"\n", 0, error.start) + 1
            column = error.start - self.content.rfind(b"\n", 0, error.start)
            raise UsageError(
                "the input is neither UTF-8 text nor MLIR bytecode",
                code="not-text",
                at=Place(self.name, line, column),
            ) from None


def read(name: str) -> Source:
    """Read a file, or standard input for "-"; raises UsageError (cannot-read)."""
    if name == "-":
        return Source("<stdin>", sys.stdin.buffer.read())
    try:
        with open(name, "rb") as file:
            return Source(name, file.read())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot read the input: {reason}", code="cannot-read", at=Place(name)
        ) from None


def split(source: Source, marker: str) -> list[Source]:
    """The parts of `source` between lines that are `marker`; all of it if marker is ""."""
    if not marker or source.is_bytecode:
        return [source]
    parts = []
    first, gathered = 1, list[str]()
    for number, line in enumerate(source.text.splitlines(keepends=True), start=1):
        if line.rstrip() == marker.rstrip():
            parts.append(_part(source, first, gathered))
            first, gathered = number + 1, []
        else:
            gathered.append(line)
    parts.append(_part(source, first, gathered))
    return parts


def _part(source: Source, first: int, lines: list[str]) -> Source:
    return Source(source.name, ("\n" * (first - 1) + "".join(lines)).encode(), first)


_SEVERAL_OPS = "source must contain a single top-level operation"


def parse(source: Source, context: Any, *, implicit_module: bool = True) -> Any:
    """The root op of `source`: a module, or whatever op stands alone without `implicit_module`.

    Returns an object with `.operation` that owns the IR. Raises MlirErrors.
    """
    if source.is_bytecode:
        return _parse_module(source.content, context)
    text = source.text
    try:
        root = ir.Operation.parse(text, source_name=source.name, context=context)
    except ir.MLIRError as error:
        if implicit_module and _SEVERAL_OPS in str(error):
            return _named(_parse_module(text, context), source.name)
        if _SEVERAL_OPS in str(error):
            raise InputError(
                "the input is not exactly one op", code="parse-error", at=Place(source.name, 1, 1)
            ) from None
        raise MlirErrors(errors_of(error, code="parse-error")) from None
    if root.operation.name == "builtin.module":
        return root
    return _in_module(root, context) if implicit_module else root


def _parse_module(content: Any, context: Any) -> Any:
    try:
        return ir.Module.parse(content, context=context)
    except ir.MLIRError as error:
        raise MlirErrors(errors_of(error, code="parse-error")) from None


def _named(module: Any, name: str) -> Any:
    """The module with `name` as the file of its locations.

    Quotes inside strings are printed as escapes, so the pattern finds locations only.
    """
    text = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    quoted = json.dumps(name, ensure_ascii=False)
    named = _UNNAMED_PLACE.sub(lambda place: f"{quoted}{place[1]}", text)
    return ir.Operation.parse(named, source_name=name, context=module.operation.context)


_UNNAMED_PLACE = re.compile(rf'"{re.escape(UNNAMED)}"(:\d+:\d+)')


def _in_module(root: Any, context: Any) -> Any:
    module = ir.Module.create(loc=ir.Location.unknown(context))
    module.body.append(root.operation)
    if not module.operation.verify():
        raise InputError("the input does not verify", code="parse-error", at=root.operation)
    return module


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
