"""Keeps the cyclic garbage collector away while a pass builds its graph.

A count of 10^4 blocks makes 3 * 10^5 objects that all live to its end; the collector would walk
them over and over and find nothing (docs/speed.md).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Run the body without cyclic collections; a collector that was off before stays off."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
