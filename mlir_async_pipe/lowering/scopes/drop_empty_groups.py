"""Removes groups without copies where they cost one of the few marks that can be told apart.

    %e = nvgpu.device_async_create_group {async_pipe.empty}     -->   (nothing)
    nvgpu.device_async_wait %g {numGroups = 3 : i32}            -->   … {numGroups = 2 : i32}

On NVIDIA an empty group is free and keeps counts steady. On AMD each mark is one of 16 that the
back end tracks, so a group that is empty on every path goes, unless a wait names it, and all
counts are made again: keeping them would be unsafe. A group that is empty on some paths only
stays, outside the condition, as do its counts.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import Operation, is_used, walk
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.lowering.rocdl.rocdl_waits import is_group
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

EMPTY = "async_pipe.empty"


def drop_empty_groups(root: Operation, chip: Chip, session: Session) -> None:
    """Erase the empty groups that nothing names, then count all token waits again."""
    empty = [op for op in walk(root) if is_group(op) and EMPTY in op.attributes]
    unnamed = [op for op in empty if not any(map(is_used, op.results))]
    if not unnamed or _has_bare_waits(root):
        return
    for op in unnamed:
        op.erase()
    counting = passes.find("async-pipe-count-waits")
    options = passes.with_defaults(counting.options(), {"chip": chip.name})
    counting.run(root, options, session)


def _has_bare_waits(root: Operation) -> bool:
    """Whether some wait has a count but no token: it cannot be counted again."""
    return any(op.name == "nvvm.cp.async.wait.group" for op in walk(root))
