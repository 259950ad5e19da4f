"""What one random kernel looks like, as data.

Each iteration copies rows of inputs to workgroup memory (`copies`), may pass them on to another
buffer (`middle`), and writes rows of outputs (`sinks`); threads may read what the thread opposite
copied. The loop counts in `counter`, from `first` on, and may carry values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

BITS = {"index": 64, "i8": 8, "i32": 32, "i64": 64}


@dataclass(frozen=True)
class Copy:
    """One copied row an iteration.

    `how`: "native" is nvgpu.device_async_copy, "pair" a load and a store, "guarded" a native copy
    in an scf.if, "filled" a native copy of no elements where the guard does not hold, "late" a
    load whose value reaches the buffer in a later stage. `buffer`: "alloc", "global", "subview",
    "expanded", "collapsed", "reinterpreted" or "shared" (a row of the one buffer of all such
    copies; where the views of buffers stand, in the loop or before it, is the shape's
    `views_outside`). `ahead`: rows between the iteration's own and the one that is copied.
    """

    how: str = "native"
    buffer: str = "alloc"
    ahead: int = 0
    element: str = "f32"

    @property
    def dtype(self) -> Any:
        """The elements of the input."""
        return {"f32": np.float32, "i32": np.int32, "i16": np.int16}[self.element]


@dataclass(frozen=True)
class Carried:
    """Values over iterations.

    `what`: "sum" adds what was there `distance` iterations before, "memory" does so through an
    output, "rows" carries an index that copies use, "swap" swaps two indices of which copies
    use one, "swap late" two values of which the last stage uses one.
    """

    what: str
    distance: int = 1


@dataclass(frozen=True)
class Shape:
    """One kernel. `form` is "num_stages", "arrays" or "latency"; `stages` the number of stages
    that is asked for (of arrays: the consumers' stage + 1). Trip counts are of iterations."""

    block: tuple[int, int, int] = (4, 1, 1)
    target: str | None = None
    copies: tuple[Copy, ...] = (Copy(),)
    middle: str = ""
    sinks: tuple[str, ...] = ("store",)
    guard: str = ""
    views_outside: bool = False
    across: bool = True
    carried: tuple[Carried, ...] = ()
    counter: str = "index"
    unsigned: bool = False
    first: int = 0
    step: int = 1
    rest: int = 1
    trips: int = 5
    dynamic: bool = False
    outer: int = 0
    outer_annotation: str = ""
    form: str = "num_stages"
    stages: int = 3
    order: str = "textual"
    extra: tuple[str, ...] = ()
    smem_limit: int = 0
    overlap_outer: bool = False

    @property
    def lanes(self) -> tuple[int, ...]:
        """The dimensions of a row, slowest first: one for each dimension of the block."""
        x, y, z = self.block
        return (z, y, x) if z > 1 else (y, x) if y > 1 else (x,)

    @property
    def rows(self) -> int:
        """Rows of inputs and outputs: all that an iteration of any tile reaches."""
        return max(self.outer, 1) * self.trips + 8

    @property
    def last(self) -> int:
        """The upper bound: `rest` (1 to `step`) after the last value of the counter."""
        if self.trips == 0:
            return self.first
        return self.first + (self.trips - 1) * self.step + self.rest

    @property
    def outputs(self) -> int:
        """Output arrays: one a sink, one for what is left behind the loop."""
        return len(self.sinks) + 1

    @property
    def bounds(self) -> list[int]:
        """The numbers that are passed where bounds are dynamic."""
        return [wrapped(self.first, self.counter), wrapped(self.last, self.counter)]


def wrapped(value: int, kind: str) -> int:
    """A number as the signed one of the same bits."""
    half = 1 << (BITS[kind] - 1)
    return (value + half) % (2 * half) - half
