"""Files that repeat a failing run: the IR before the pipeline, and the pipeline's text.

They have mlir-opt's form, an external resource called `mlir_reproducer`:

    {-#
      external_resources: {
        mlir_reproducer: {
          pipeline: "builtin.module(cse)",
          disable_threading: false,
          verify_each: true
        }
      }
    #-}
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mlir_async_pipe.session.diagnostics import InputError, Place
from mlir_async_pipe.tool import output
from mlir_async_pipe.tool.inputs import Source

_BLOCK = re.compile(r"\{-#.*?#-\}", re.DOTALL)
_FIELD = r'\b%s\s*:\s*("(?:[^"\\]|\\.)*"|true|false)'
_PENDING = ".pending"


@dataclass(frozen=True)
class Reproducer:
    """How a run is repeated."""

    pipeline: str
    disable_threading: bool = False
    verify_each: bool = True

    def __str__(self) -> str:
        return (
            "\n{-#\n  external_resources: {\n    mlir_reproducer: {\n"
            f"      pipeline: {_quoted(self.pipeline)},\n"
            f"      disable_threading: {str(self.disable_threading).lower()},\n"
            f"      verify_each: {str(self.verify_each).lower()}\n"
            "    }\n  }\n#-}\n"
        )


def required(source: Source) -> Reproducer:
    """The reproducer in the input; raises InputError (no-reproducer)."""
    found = _block(source)
    block = "" if found is None else found[0]
    pipeline = _field(block, "pipeline")
    if not isinstance(pipeline, str):
        why = "the input holds no pipeline to reproduce"
        advice = "--mlir-pass-pipeline-crash-reproducer=FILE writes such a file"
        raise InputError(why, code="no-reproducer", at=Place(source.name, 1, 1), advice=advice)
    one_thread = _field(block, "disable_threading") is True
    return Reproducer(pipeline, one_thread, _field(block, "verify_each") is not False)


def without(source: Source) -> Source:
    """The source with a reproducer blanked out, which MLIR would warn about; lines stay."""
    block = _block(source)
    if block is None:
        return source
    blank = "\n" * block[0].count("\n")
    text = source.text[: block.start()] + blank + source.text[block.end() :]
    return Source(source.name, text.encode(), source.first_line)


@contextlib.contextmanager
def kept_on_failure(name: str, ir_text: str, reproducer: Reproducer) -> Iterator[None]:
    """Write `name` if the block raises; for a crash, `rescue` finds it as a pending file."""
    pending = name + _PENDING
    output.write(pending, (ir_text + str(reproducer)).encode())
    try:
        yield
    except BaseException:
        os.replace(pending, name)
        raise
    else:
        os.unlink(pending)


def rescue(name: str) -> bool:
    """After a crash: make the pending file the reproducer; whether there was one."""
    try:
        os.replace(name + _PENDING, name)
    except FileNotFoundError:
        return False
    return True


def _block(source: Source) -> re.Match[str] | None:
    blocks = () if source.is_bytecode else _BLOCK.finditer(source.text)
    return next((block for block in blocks if "mlir_reproducer" in block[0]), None)


def _field(block: str, name: str) -> str | bool | None:
    match = re.search(_FIELD % name, block)
    if match is None:
        return None
    return match[1] == "true" if match[1] in ("true", "false") else _unquoted(match[1])


def _quoted(text: str) -> str:
    """MLIR's string form: a backslash is doubled, a quote or control character is \\XX in hex."""
    escaped = text.replace("\\", "\\\\")
    return '"' + re.sub(r'["\x00-\x1f]', lambda found: f"\\{ord(found[0]):02X}", escaped) + '"'


def _unquoted(text: str) -> str:
    def unescaped(escape: re.Match[str]) -> str:
        if len(escape[1]) == 2:
            return chr(int(escape[1], 16))
        return {"n": "\n", "t": "\t"}.get(escape[1], escape[1])

    return re.sub(r"\\([0-9A-Fa-f]{2}|.)", unescaped, text[1:-1])
