"""Runs the work in a forked child, so that a crash of native code becomes one error.

The fork happens before the bindings are imported: no threads exist yet, and a small process
forks in about a millisecond. The child tells what it is doing through shared memory, which
outlives it, and ends with this process.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.parent import end_with_parent

_BYTES = 4096


class CrashError(AsyncPipeError):
    """Native code ended the child process."""


class Activity:
    """What the process is doing now, readable from the parent after a crash."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, _BYTES)

    def is_now(self, text: str) -> None:
        content = text.encode()[: _BYTES - 1]
        self._shared[: len(content) + 1] = content + b"\0"

    def last(self) -> str:
        """What began last, "" if nothing did."""
        return self._shared[:].split(b"\0", 1)[0].decode(errors="replace")


def can_isolate() -> bool:
    """Whether this system has fork, and this process no other threads that it would lose."""
    return hasattr(os, "fork") and threading.active_count() == 1


def run(work: Callable[[Activity], int], where: Any) -> int:
    """The exit code of `work`, run in a child; raises CrashError (crash) if a signal ends it."""
    activity = Activity()
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(writing)
            end_with_parent(reading)
            code = work(activity)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            # No clean-up of what the parent owns too.
            os._exit(code)
    os.close(reading)
    with shown(activity.last, sys.stderr):
        status = _wait(child)
    os.close(writing)
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    if os.WTERMSIG(status) in _ENDED_FROM_OUTSIDE:
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    name = signal.Signals(os.WTERMSIG(status)).name
    doing = activity.last() or "starting"
    raise CrashError(f"MLIR crashed ({name}) while {doing}", code="crash", at=where)


_ENDED_FROM_OUTSIDE = (signal.SIGTERM, signal.SIGHUP)


def _wait(child: int) -> int:
    """The exit status of the child; who ends this process ends the child too. An interrupt from the keyboard
    reaches both, and the child says so."""
    earlier = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    for number in _ENDED_FROM_OUTSIDE:
        earlier[number] = signal.signal(number, lambda number, _: os.kill(child, number))
    try:
        return os.waitpid(child, 0)[1]
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


# Says on a terminal what takes long, and for how long by now.
#
#     async-pipe-opt: running async-pipe, 3 s
#
# Nothing before two seconds, nothing where standard error is no terminal. The line ends with a return,
# so that a diagnostic takes its place, and it goes when the work ends.

SILENT_SECONDS = 2.0
EVERY_SECONDS = 1.0
_CLEARED = "\x1b[2K"


@contextmanager
def shown(
    doing: Callable[[], str],
    stream: TextIO,
    *,
    silent: float = SILENT_SECONDS,
    every: float = EVERY_SECONDS,
) -> Iterator[None]:
    """Tell what `doing` says, from `silent` seconds on, while the block runs."""
    if not stream.isatty():
        yield
        return
    ended = threading.Event()
    began = time.monotonic()

    def report() -> None:
        wait = silent
        while not ended.wait(wait):
            seconds = time.monotonic() - began
            stream.write(f"{_CLEARED}async-pipe-opt: {doing() or 'starting'}, {seconds:.0f} s\r")
            stream.flush()
            wait = every

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()
        if time.monotonic() - began >= silent:
            stream.write(_CLEARED)
            stream.flush()
