"""How often workgroup memory is asked for one access, because lanes want the same bank.

    32 rows of 64 bytes, lane l reads 16 bytes of row l % 8     4 passes where 1 would do
    the same, with the 16-byte chunks of a row swizzled         1 pass

Counted by `facts/costs/warp_traffic.py`, as `--explain` tells it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.costs.warp_traffic import Traffic, WarpTraffic
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.launch_ids import enclosing_launch_size


def passes_of(module: Any, target: Target) -> dict[str, float]:
    """For each op kind in the loops that fill workgroup memory the largest number of passes of one
    access, as a multiple of what its bytes need."""
    found: dict[str, float] = defaultdict(float)
    for loop in walk(module):
        if loop.name != "scf.for" or not any(_fills(op) for op in walk(loop)):
            continue
        traffic = WarpTraffic(enclosing_launch_size(loop), target.chip)
        for op in walk(loop):
            for access in accesses(op):
                asked = traffic.of(access)
                if isinstance(asked, Traffic) and asked.space == "workgroup":
                    name = op.name.split(".")[-1]
                    found[name] = max(found[name], asked.asked / asked.ideal)
    return dict(found)


def _fills(op: Any) -> bool:
    return any(a.writes and "workgroup" in str(a.memory.type) for a in accesses(op))
