"""What hardware allows of the sizes of a launch, and of a kernel's arguments of type index.

    gpu.block_dim x         1 … 1024 threads a block
    gpu.grid_dim x          1 … 2^31 - 1 blocks, gpu.block_id from 0; of 16 blocks 16, and 0 … 15
    func.func @f(%n: index)     a size: 0 or more

CUDA C++ Programming Guide, compute capabilities; HIP's limits are the same in x, smaller in y, z.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlir_async_pipe.checker.forms import Atom, Known
from mlir_async_pipe.checker.grid_blocks import GridBlocks
from mlir_async_pipe.vocabulary.launch_ids import LAUNCH_SYMBOLS, Kind

SIZE = Known(0, None)

_LARGEST_GRID = (1 << 31) - 1
_BLOCK_ID = Known(0, _LARGEST_GRID - 1)
_GRID_SIZE = Known(1, _LARGEST_GRID)
_BLOCK_SIZE = Known(1, 1024)

_OF_KINDS: dict[Kind, Known] = {
    "block": _BLOCK_ID,
    "grid_size": _GRID_SIZE,
    "block_size": _BLOCK_SIZE,
}
# The symbols of `thread_ids` for these.
_LAUNCH_FACTS: Mapping[Atom, Known] = {
    Atom("symbol", (LAUNCH_SYMBOLS[kind], axis)): known
    for kind, known in _OF_KINDS.items()
    for axis in range(3)
}


def launch_facts(grid: GridBlocks) -> dict[Atom, Known]:
    """The same, and what the size of a grid says where it is stated."""
    found = dict(_LAUNCH_FACTS)
    for axis, size in enumerate(grid.sizes):
        if size is not None and grid.stated:
            found[Atom("symbol", (LAUNCH_SYMBOLS["block"], axis))] = Known(0, size - 1)
            found[Atom("symbol", (LAUNCH_SYMBOLS["grid_size"], axis))] = Known(size, size)
    return found
