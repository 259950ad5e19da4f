"""A change of the whole process that lasts while any thread is inside of a block: the first one in makes it, the
last one out undoes it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any


class WhileAny(ContextDecorator):
    """Of `with`, and a decorator. `change` makes the change and gives what undoes it."""

    def __init__(self, change: Callable[[], Callable[[], None]]) -> None:
        self._change = change
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._undo = self._change()
            self._inside += 1

    def __exit__(self, *error: Any) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._undo()
