"""Where the threads of a block stand: their ids, by a number for each thread.

32 threads in x, 4 in y          thread 33 has x = 1, y = 1, lane 1, warp 1
any block of axes x and y        all places (x, y) with (x + 1) (y + 1) <= 1024
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from mlir_async_pipe.checker.forms import Atom
from mlir_async_pipe.vocabulary.launch_ids import LARGEST_BLOCK


@lru_cache(maxsize=64)
def ids_in(size: tuple[int, int, int], warp: int) -> Mapping[Atom, np.ndarray]:
    """The ids of the threads of a block of known size, by their linear number."""
    linear = np.arange(size[0] * size[1] * size[2])
    return {
        Atom("tid", "x"): linear % size[0],
        Atom("tid", "y"): linear // size[0] % size[1],
        Atom("tid", "z"): linear // (size[0] * size[1]),
        Atom("tid", "lane"): linear % warp,
        Atom("tid", "warp"): linear // warp,
    }


@lru_cache(maxsize=8)
def open_ids(axes: str) -> Mapping[Atom, np.ndarray]:
    """All (x, y, z) that blocks of up to `LARGEST_BLOCK` threads have, the first one first:

    of axes x and y 7 069 places, of all three 29 425. Two of them need not fit into one block;
    where none meet, none do in any block.
    """
    extents = [LARGEST_BLOCK if axis in axes else 1 for axis in "zyx"]
    x = np.zeros(1, np.int64)
    places = [np.zeros((1, 0), np.int64), np.ones(1, np.int64)]
    for extent in extents:
        # A place needs a block of (x + 1) (y + 1) (z + 1) threads at least.
        at, volume = places
        room = np.minimum(LARGEST_BLOCK // volume, extent)
        rows = np.repeat(np.arange(len(at)), room)
        x = np.arange(len(rows)) - np.repeat(np.cumsum(room) - room, room)
        places = [np.column_stack([at[rows], x]), volume[rows] * (x + 1)]
    return {Atom("tid", axis): places[0][:, 2 - n] for n, axis in enumerate("xyz")}
