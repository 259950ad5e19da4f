"""Keeps the cyclic garbage collector away while a pass builds its graph.

A count of 10^4 blocks makes 3 * 10^5 objects that all live to its end, and as long as its
report; the collector would walk them over and over and find nothing (36 % of the time there,
and growth of 1.4 instead of 1.1). The graph takes itself apart when its last record goes, so it
never is garbage that only the collector could free.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 20_000
"""New objects above which it pays to make them old at once."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Run the body without cyclic collections; a collector that was off before stays off."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_count()[0] > MANY and gc.get_freeze_count() == 0:
                # Else the next allocation would walk all that was made (15 % of the time).
                # This only renames generations: everything is old, nothing stays frozen.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
