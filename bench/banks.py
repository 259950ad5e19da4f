"""How often workgroup memory is asked for one access, because lanes want the same bank.

    32 rows of 64 bytes, lane l reads 16 bytes of row l % 8     4 passes where 1 would do
    the same, with the 16-byte chunks of a row swizzled         1 pass

Addresses are those of the pipelined loop, computed for the lanes of the first warp; what all lanes
share (slots, the loop's counter) moves all of them alike and counts as 0.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.values.numbers import evaluate
from mlir_async_pipe.vocabulary import Access, accesses
from mlir_async_pipe.vocabulary.launch_ids import launch_id
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, element_bytes

BANK_BYTES = 4
# Bytes that all banks give at once.
ROW_BYTES = {"gfx950": 256}
_USUAL_ROW_BYTES = 128
# The first four lanes of each run of four, of 32 lanes, that are served together when each reads 16
# bytes (triton-lang/triton, pull request 11365). All else is served in the order of the lanes.
_READS_OF_16 = {
    "gfx942": ((0, 20), (4, 16), (8, 28), (12, 24)),
    "gfx950": ((0, 12, 20, 24), (4, 8, 16, 28)),
}


def passes_of(module: Any, target: Target) -> dict[str, float]:
    """For each op kind in the loops that fill workgroup memory the largest number of passes of one
    access, as a multiple of what its bytes need."""
    found: dict[str, float] = defaultdict(float)
    for loop in walk(module):
        if loop.name != "scf.for" or not any(_fills(op) for op in walk(loop)):
            continue
        for op in walk(loop):
            for access in accesses(op):
                passes = _passes(access, target)
                if passes is not None:
                    name = op.name.split(".")[-1]
                    found[name] = max(found[name], passes)
    return dict(found)


def _fills(op: Any) -> bool:
    return any(a.writes and "workgroup" in str(a.memory.type) for a in accesses(op))


def _passes(access: Access, target: Target) -> float | None:
    """None where lanes have no addresses of their own, or they cannot be told."""
    if "workgroup" not in str(access.memory.type) or access.over_lanes or access.extent is None:
        return None
    try:
        bytes_ = prod(access.extent) * element_bytes(access.memory.type)
    except UnknownLayoutError:
        return None
    lanes = access.active_lanes or target.chip.lanes
    starts = _addresses(access, lanes)
    if starts is None or bytes_ > 16:
        return None
    row = ROW_BYTES.get(target.chip.name, _USUAL_ROW_BYTES)
    runs = _READS_OF_16.get(target.chip.name) if bytes_ == 16 and not access.writes else None
    phases = _in_order(lanes, row // max(bytes_, BANK_BYTES)) if runs is None else _of_runs(runs)
    return sum(conflicts(starts[phase], bytes_, row) for phase in phases) / len(phases)


def _addresses(access: Access, lanes: int) -> np.ndarray | None:
    """The first byte of each lane."""
    kind = ir.MemRefType(access.memory.type)
    strides, _ = kind.get_strides_and_offset()
    threads = np.arange(lanes, dtype=np.int64)

    def leaf(value: Any) -> np.ndarray:
        known = launch_id(value)
        is_lane = known is not None and known.differs and known.axis == 0
        return threads if is_lane else np.zeros(lanes, np.int64)

    total = np.zeros(lanes, np.int64)
    for index, stride in zip(access.indices, strides, strict=True):
        numbers = evaluate(index, {}, leaf)
        if numbers is None:
            return None
        total = total + numbers * stride
    return total * element_bytes(access.memory.type)


def _in_order(lanes: int, size: int) -> list[np.ndarray]:
    """The lanes that are served together: `size` neighbours."""
    return [np.arange(first, min(first + size, lanes)) for first in range(0, lanes, size)]


def _of_runs(phases: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
    """The lanes of a wave of 64 that are served together, by runs of four."""
    return [
        np.array([half + start + lane for start in starts for lane in range(4)])
        for half in (0, 32)
        for starts in phases
    ]


def conflicts(starts: np.ndarray, bytes_: int, row: int) -> int:
    """Passes for lanes that are served together: the most rows that one bank is asked for.

    Lanes that want the same 4 bytes are given them at once.
    """
    wanted: dict[int, set[int]] = defaultdict(set)
    for start in starts:
        for word in range(int(start) // BANK_BYTES, -(-(int(start) + bytes_) // BANK_BYTES)):
            wanted[word % (row // BANK_BYTES)].add(word)
    return max(map(len, wanted.values()))
