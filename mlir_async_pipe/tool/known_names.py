"""The names that may follow two dashes: options, our passes, and MLIR's.

The bindings offer no list of MLIR's passes. But a pass is registered under a text that stands in
their library, so every text there that looks like the name of a pass is offered to MLIR's parser of
pipelines, which knows 300 of 46000. A linker keeps a text that ends another one as its tail: `cse`
is found in `early-cse`, `sccp` in `ipsccp`.
"""

from __future__ import annotations

import contextlib
import importlib
import mmap
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mlir_async_pipe import bindings
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.arguments import nearest
from mlir_async_pipe.tool.flags import FLAGS

_TEXT = re.compile(rb"[a-z][a-z0-9-]{2,}+\0")
# Tails that begin inside a word are tried of words up to this length.
_SHORT = 14
# The library with MLIR in it has more than 100 MB, those of single dialects less than 1.
_SMALLEST_LIBRARY = 4_000_000


def did_you_mean(name: str, context: Any = None) -> str:
    """A question that names the option or pass that is written almost so, "" if none is.

    MLIR's passes are asked for with a `context` only, and last: that takes a second."""
    ours = [*(flag.name for flag in FLAGS), *passes.names()]
    near = nearest(name, ours, 0.8)
    if not near and context is not None:
        near = nearest(name, [*ours, *mlir_passes(context)])
    return f"did you mean '--{near}'?" if near else ""


def mlir_passes(context: Any) -> tuple[str, ...]:
    """The names of the passes and named pipelines that the bindings register, sorted."""
    from mlir_async_pipe.bindings import passmanager

    found = []
    with captured_stderr():
        for name in sorted(_texts()):
            try:
                passmanager.PassManager.parse(f"any({name})", context)
            except ValueError as error:
                if "does not refer to a registered pass" in str(error):
                    continue
            found.append(name)
    return tuple(found)


@cache
def _texts() -> frozenset[str]:
    """The texts in the libraries of the bindings that look like names of passes."""
    libraries = importlib.import_module(f"{bindings.current().prefix}._mlir_libs")
    found: set[str] = set()
    for file in Path(libraries.__path__[0]).iterdir():
        if file.is_file() and file.stat().st_size > _SMALLEST_LIBRARY:
            with open(file, "rb") as opened:
                content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
                found.update(text[:-1].decode() for text in _TEXT.findall(content))
    return frozenset(tail for text in found for tail in _tails(text))


def _tails(text: str) -> Iterator[str]:
    """The ends of a text that may be names: from each of its words on, and short single words."""
    yield text
    for start in range(1, len(text) - 2):
        inside = len(text) <= _SHORT and "-" not in text[start:]
        if text[start].isalpha() and (inside or text[start - 1] == "-"):
            yield text[start:]


# Catches what C++ code writes to file descriptor 2, which sys.stderr does not see.
#
# MLIR writes some option errors straight there, and a tool that reports one error must not let
# a second, unlocated one through.


@dataclass
class Spoken:
    """What was written, filled in when the block ends."""

    text: str = ""


@contextlib.contextmanager
def captured_stderr() -> Iterator[Spoken]:
    """Redirect descriptor 2 into a temporary file for the length of the block."""
    spoken = Spoken()
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 2)
            try:
                yield spoken
            finally:
                os.dup2(kept, 2)
                file.seek(0)
                spoken.text = file.read().decode(errors="replace").strip()
    finally:
        os.close(kept)
