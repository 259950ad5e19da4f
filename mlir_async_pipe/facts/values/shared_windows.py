"""Windows of dynamic shared memory: memref.view of gpu.dynamic_shared_memory.

%all = gpu.dynamic_shared_memory : memref<?xi8, …>
%a = memref.view %all[%c0][] : … to memref<128x32xf16, …>        bytes 0 … 8191
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    enclosing,
    users,
    walk,
)
from mlir_async_pipe.facts.values.memory_roots import Root, may_alias, root_of
from mlir_async_pipe.vocabulary.memory_names import is_dynamic_memory


def windows(function: Operation) -> list[Root]:
    """The windows that a function makes, one for each view; one of unknown place for whatever else
    uses dynamic memory."""
    found = []
    for op in walk(function):
        if op.name == "memref.view" or (
            is_dynamic_memory(op) and any(u.name != "memref.view" for u in users(op.results[0]))
        ):
            found.append(root_of(op.results[0]))
    return [root for root in found if root.kind == "dynamic"]


def overlapping_windows(op: Operation, root: Root) -> bool:
    """Whether another view of the function may name bytes of this window."""
    same = 0
    for other in windows(enclosing(op, FUNCTION_OPS) or op):
        if other.identity == root.identity:
            same += 1
        elif may_alias(root, other):
            return True
    return same > 1


def end_of_windows(function: Operation, without: frozenset[Any]) -> int:
    """The first byte after all windows but those in `without`, rounded up to 16.

    Windows of unknown place overlap everything, so a function that has one never gets here.
    """
    end = 0
    for root in windows(function):
        if root.identity not in without:
            assert root.offset is not None and root.size is not None
            end = max(end, root.offset + root.size)
    return -(-end // 16) * 16
