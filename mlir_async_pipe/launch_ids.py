"""Which values say where in the launch a thread stands, whatever writes them.

    %t = gpu.thread_id x                           LaunchId("thread", 0)
    gpu.launch blocks(…) threads(%tx, %ty, %tz)    %ty is LaunchId("thread", 1)

A `gpu.launch` gives as block arguments what ops give in an outlined kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.integer_ops import thread_dimension
from mlir_async_pipe.ir_helpers import Value, defining_op, is_block_argument

Kind = Literal["thread", "block", "block_size", "grid_size", "lane", "subgroup"]


@dataclass(frozen=True)
class LaunchId:
    """`axis` is 0, 1, 2 for x, y, z, and 0 for what has none."""

    kind: Kind
    axis: int = 0

    @property
    def differs(self) -> bool:
        """Whether threads of one block have different values."""
        return self.kind in ("thread", "lane", "subgroup")


_OPS: dict[str, Kind] = {
    "gpu.thread_id": "thread",
    "gpu.block_id": "block",
    "gpu.block_dim": "block_size",
    "gpu.grid_dim": "grid_size",
    "gpu.lane_id": "lane",
    "gpu.subgroup_id": "subgroup",
}
_WITHOUT_AXIS = ("lane", "subgroup")
# The block arguments of gpu.launch, three of each; attributions come behind them.
_ARGUMENTS: tuple[Kind, ...] = ("block", "thread", "grid_size", "block_size")


def launch_id(value: Value) -> LaunchId | None:
    """What `value` says about the launch; None if it is computed, loaded or given otherwise."""
    if is_block_argument(value):
        argument = ir.BlockArgument(value)
        kind, axis = divmod(int(argument.arg_number), 3)
        if argument.owner.owner.name != "gpu.launch" or kind >= len(_ARGUMENTS):
            return None
        return LaunchId(_ARGUMENTS[kind], axis)
    op = defining_op(value)
    assert op is not None
    found = _OPS.get(op.name)
    if found is None:
        return None
    return LaunchId(found, 0 if found in _WITHOUT_AXIS else thread_dimension(op))
