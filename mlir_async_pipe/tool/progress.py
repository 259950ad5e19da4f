"""Says on a terminal what takes long, and for how long by now.

    async-pipe-opt: running async-pipe, 3 s

Nothing before two seconds, nothing where standard error is no terminal. The line ends with a return,
so that a diagnostic takes its place, and it goes when the work ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

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

    def tell() -> None:
        wait = silent
        while not ended.wait(wait):
            seconds = time.monotonic() - began
            stream.write(f"{_CLEARED}async-pipe-opt: {doing() or 'starting'}, {seconds:.0f} s\r")
            stream.flush()
            wait = every

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
        if time.monotonic() - began >= silent:
            stream.write(_CLEARED)
            stream.flush()
