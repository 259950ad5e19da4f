"""What a terminal is told about work that takes long.

Covers: tool/isolate.py
"""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import time

import pytest

from mlir_async_pipe.tool import isolate


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def reported(terminal: bool, seconds: float) -> str:
    stream = Stream(terminal)
    with isolate.shown(lambda: "running x", stream, silent=0.05, every=0.02):
        time.sleep(seconds)
    return stream.getvalue()


def test_long_work_is_named_until_it_ends():
    lines = reported(True, 0.5).split("\x1b[2K")
    assert lines[0] == "" and lines[-1] == ""
    assert len(lines) > 3
    assert set(lines[1:-1]) <= {
        "async-pipe-opt: running x, 0 s\r",
        "async-pipe-opt: running x, 1 s\r",
    }


@pytest.mark.parametrize("terminal, seconds", [(True, 0.0), (False, 0.2)])
def test_short_work_and_pipes_are_told_nothing(terminal, seconds):
    assert reported(terminal, seconds) == ""


def test_an_error_in_the_work_leaves_no_line():
    stream = Stream(True)
    with (
        pytest.raises(ZeroDivisionError),
        isolate.shown(lambda: "", stream, silent=0.01, every=0.01),
    ):
        time.sleep(0.1)
        raise ZeroDivisionError
    assert stream.getvalue().endswith("s\r\x1b[2K")
    assert "starting" in stream.getvalue()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork: the work is not watched from outside")
def test_a_run_of_the_tool_on_a_terminal_ends_well(tmp_path):
    source = tmp_path / "empty.mlir"
    source.write_text("module {}\n")
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "mlir_async_pipe.tool", str(source)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=slave, timeout=60)
    os.close(slave)
    os.set_blocking(master, False)
    try:
        said = os.read(master, 4096)
    except (BlockingIOError, OSError):
        said = b""
    os.close(master)
    assert done.returncode == 0
    assert b"error" not in said
