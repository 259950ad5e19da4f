"""The library of the bindings can be loaded by a thread before they are imported.

Covers: bindings/load_ahead.py, bindings/stack.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mlir_async_pipe.bindings import load_ahead, stack

LIBRARY = load_ahead._library(stack.library_folder(stack.current()))

# Says whether the library is mapped: before, in the end, and what the bindings then make.
PROGRAM = """
import threading
from pathlib import Path
from mlir_async_pipe.bindings import load_ahead, new_context

def mapped():
    return {library!r} in Path("/proc/self/maps").read_text()

print(mapped())
load_ahead.load_ahead()
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
print(mapped())
with new_context():
    from mlir_async_pipe.bindings import ir
    print(ir.Module.parse("func.func private @f()"))
"""


@pytest.mark.skipif(LIBRARY is None or sys.platform != "linux", reason="no library of this kind")
def test_a_thread_loads_what_the_bindings_then_find() -> None:
    program = PROGRAM.format(library=str(LIBRARY))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:3] == ["False", "True", "module {"]


def test_the_largest_c_interface_is_taken(tmp_path: Path) -> None:
    assert load_ahead._library(None) is load_ahead._library(str(tmp_path)) is None
    for name, size in (("libOneCAPI.so", 1), ("libAllCAPI.so", 9), ("libOther.so", 99)):
        (tmp_path / name).write_bytes(bytes(size))
    assert load_ahead._library(str(tmp_path)) == tmp_path / "libAllCAPI.so"


def test_bindings_that_are_not_there_have_no_library() -> None:
    assert stack.library_folder(stack.Stack("none", "no_such_package._mlir", "")) is None
