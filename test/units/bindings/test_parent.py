"""A process that works for another one ends with it, also while it is deep in native code.

Covers: session/parent.py, bindings/back_end_child.py
"""

from __future__ import annotations

import select
import signal
import subprocess
import sys

import pytest

# One long call of native code, which lets no other thread of Python run.
BUSY = """
import os, sys
from mlir_async_pipe.session.parent import end_with_parent, ending_with_parent

if sys.argv[1] == "always":
    end_with_parent(0)
else:
    with ending_with_parent(0):
        pass
    print("ready", flush=True)
    print(input(), flush=True)
    if sys.argv[1] == "while it works":
        with ending_with_parent(0):
            pow(3, 10**9)
print("busy", flush=True)
pow(3, 10**9)
"""


def started(when: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BUSY, when], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere native code comes to its end first")
def test_a_process_ends_when_its_pipe_is_closed():
    with started("always") as process:
        assert process.stdout.readline() == "busy\n"
        process.stdin.close()
        assert process.wait(30) != 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere native code comes to its end first")
def test_between_two_pieces_of_work_the_pipe_is_an_ordinary_one():
    with started("while it works") as process:
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("asked\n")
        process.stdin.flush()
        assert process.stdout.readline() == "asked\n"
        process.stdin.close()
        assert process.wait(30) != 0


def test_a_process_goes_on_where_it_does_not_listen():
    with started("never again") as process:
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("asked\n")
        process.stdin.close()
        assert [process.stdout.readline() for _ in range(2)] == ["asked\n", "busy\n"]
        assert not select.select([process.stdout], [], [], 0.5)[0]
        process.kill()
    assert process.returncode == -signal.SIGKILL
