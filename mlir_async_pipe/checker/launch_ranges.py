"""What hardware allows of the sizes of a launch, and of a kernel's arguments of type index.

    gpu.block_dim x         1 … 1024 threads a block
    gpu.grid_dim x          1 … 2^31 - 1 blocks, gpu.block_id from 0
    func.func @f(%n: index)     a size: 0 or more

CUDA C++ Programming Guide, compute capabilities; HIP's limits are the same in x, smaller in y, z.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlir_async_pipe.checker.forms import Atom, Known

SIZE = Known(0, None)

_LARGEST_GRID = (1 << 31) - 1
_BLOCK_ID = Known(0, _LARGEST_GRID - 1)
_GRID_SIZE = Known(1, _LARGEST_GRID)
_BLOCK_SIZE = Known(1, 1024)

_OF_GPU_OPS = {
    "gpu.block_id": _BLOCK_ID,
    "gpu.grid_dim": _GRID_SIZE,
    "gpu.block_dim": _BLOCK_SIZE,
}
# The symbols of `thread_ids` for these.
LAUNCH_FACTS: Mapping[Atom, Known] = {
    Atom("symbol", (name, axis)): known for name, known in _OF_GPU_OPS.items() for axis in range(3)
}
