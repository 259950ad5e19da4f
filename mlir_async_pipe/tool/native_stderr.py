"""Catches what C++ code writes to file descriptor 2, which sys.stderr does not see.

MLIR writes some option errors straight there, and a tool that reports one error must not let
a second, unlocated one through.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass


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
