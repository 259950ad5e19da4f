"""Keeps the cyclic garbage collector from looking often while a pass runs.

A count of 10^4 blocks makes 3 * 10^5 objects that all live to its end, and so do the states of a
check; the collector would walk them over and over and find nothing (docs/speed.md).
"""

from __future__ import annotations

import functools
import gc
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

# New objects between two collections; Python's default is 700 or 2000.
_RARELY = 100_000

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


# Passes may run in several threads; the first one in sets the threshold, the last one out resets it.
_lock = threading.Lock()
_before: tuple[int, int, int] = (0, 0, 0)
_running = 0


def collected_rarely(run: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Decorator: while `run` runs, a collection comes after 10^5 new objects.

    A collector that is off, or set to be rarer still, stays so; afterwards it is as before."""

    @functools.wraps(run)
    def wrapped(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Answer:
        _enter()
        try:
            return run(*arguments, **keywords)
        finally:
            _leave()

    return wrapped


def _enter() -> None:
    global _running, _before
    with _lock:
        _running += 1
        if _running == 1:
            _before = gc.get_threshold()
            if 0 < _before[0] < _RARELY:
                gc.set_threshold(_RARELY, *_before[1:])


def _leave() -> None:
    global _running
    with _lock:
        _running -= 1
        if _running == 0:
            gc.set_threshold(*_before)
