"""Gives kernels the clusters that an option asks for: in the module, nobody says how large they are.

gpu.func @k(…) kernel                  -->     gpu.func @k(…) kernel attributes {
                                                   known_cluster_size = array<i32: 2, 1, 1>}

Only kernels whose loops copy by tensor maps: others have nothing to copy for other blocks.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlir_async_pipe.bindings.raw_ops import Operation, ancestors, is_function
from mlir_async_pipe.facts.loops.transactions import has_transactions
from mlir_async_pipe.session.diagnostics import InputError, UsageError
from mlir_async_pipe.vocabulary.launch_ids import (
    CLUSTER_SIZES,
    Size,
    cluster_size,
    constant_sizes,
    set_cluster_size,
)


def give_clusters(loops: Iterable[Operation], asked: str) -> None:
    """Let the kernels of loops of tensor copies have clusters of `asked` blocks, "x,y,z".

    Raises UsageError (bad-usage), InputError (cluster-conflict)."""
    size = _size(asked)
    kernels = dict.fromkeys(_kernel(loop) for loop in loops if has_transactions(loop))
    for kernel in kernels:
        known = cluster_size(kernel) if is_function(kernel) else constant_sizes(kernel, "cluster")
        if known not in (None, size) or not (known or is_function(kernel)):
            told = f"of {' x '.join(map(str, known))} blocks" if known else "that it does not name"
            raise InputError(
                f"clusters of {' x '.join(map(str, size))} blocks are asked for, and this "
                f"'{kernel.name}' has clusters {told}",
                code="cluster-conflict",
                at=kernel,
                advice="leave the option out, or let the kernel and its launches say the same",
            )
    for kernel in kernels:
        if is_function(kernel) and not any(name in kernel.attributes for name in CLUSTER_SIZES):
            set_cluster_size(kernel, size)


def _kernel(loop: Operation) -> Operation:
    return next(op for op in ancestors(loop) if op.name == "gpu.launch" or is_function(op))


def _size(asked: str) -> Size:
    parts = [part.strip() for part in asked.split(",")]
    if len(parts) > 3 or not all(part.isdecimal() and int(part) for part in parts):
        raise UsageError(
            f"'{asked}' is no size of clusters",
            code="bad-usage",
            advice="write the blocks along x, y and z: 2,1,1",
        )
    x, y, z = [*map(int, parts), 1, 1][:3]
    return x, y, z
