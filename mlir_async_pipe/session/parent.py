"""Ends this process with its parent, whatever the parent died of.

The parent holds the writing end of a pipe, to which nothing is written meanwhile. When the parent is
gone, Linux sends SIGIO to who reads the pipe, which ends it also in the middle of native code;
elsewhere a thread notices, as soon as that code lets Python run.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_HAS_SIGNAL = sys.platform == "linux"


def end_with_parent(pipe: int) -> None:
    """From now on this process ends when the writing end of `pipe` is closed."""
    if _HAS_SIGNAL:
        _listen(pipe, True)
    else:
        threading.Thread(target=_wait_for_end, args=(pipe,), daemon=True).start()


@contextmanager
def ending_with_parent(pipe: int) -> Iterator[None]:
    """The same while the body runs; after it `pipe` may be written to and read. Where there is no
    signal the process goes on until it reads the pipe."""
    if _HAS_SIGNAL:
        _listen(pipe, True)
    try:
        yield
    finally:
        if _HAS_SIGNAL:
            _listen(pipe, False)


def _listen(pipe: int, on: bool) -> None:
    import fcntl

    flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
    if not on:
        fcntl.fcntl(pipe, fcntl.F_SETFL, flags & ~os.O_ASYNC)
        return
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_ASYNC)
    # The parent may have ended before.
    if select.select([pipe], [], [], 0)[0]:
        os._exit(1)


def _wait_for_end(pipe: int) -> None:
    os.read(pipe, 1)
    os._exit(1)
