"""Two loops of products in tensor memory one after the other, on the same mbarriers: the k loop of a GEMM
twice, so it gives 2 A B.

for %tile = … { for %k = … { … } {first}; for %k = … { … } {second} }
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.machine_programs import parse
from helpers.tensor_memory_kernels import BlackwellGemm, run_gemm

_FIRST_PRODUCT = "= arith.cmpi ne, %k32,"


@dataclass(frozen=True)
class Loop:
    """What a loop is annotated with."""

    stages: int
    in_flight: int
    issue: str = "last"

    @property
    def note(self) -> str:
        """The attributes."""
        return (
            f"{{async_pipe.num_stages = {self.stages} : i64, async_pipe.in_flight = {self.in_flight}"
            f' : i64, async_pipe.issue = "{self.issue}"}}'
        )


@dataclass(frozen=True)
class GemmPair:
    """The two loops; `persistent`: in a loop over tiles, so that the first one comes after the second."""

    first: Loop
    second: Loop
    persistent: bool = False

    @property
    def gemm(self) -> BlackwellGemm:
        """That of one loop."""
        return BlackwellGemm(tile_n=32, persistent=self.persistent)

    def loops(self) -> tuple[str, str, str, str]:
        """What is before the loops, both, and what is after them."""
        text = self.gemm.module()
        start = text.index("%total = scf.for")
        end = text.index("}", text.index("{async_pipe", start)) + 1
        first = re.sub(r"\{async_pipe[^}]*\}", self.first.note, text[start:end])
        second = re.sub(r"\{async_pipe[^}]*\}", self.second.note, text[start:end])
        # It adds to what the first one has left, and goes on with its phase.
        second = second.replace("%total", "%again").replace(
            _FIRST_PRODUCT, "= arith.cmpi eq, %k32,"
        )
        second, count = re.subn(r"arith\.cmpi eq, %k32, (%\w+)", r"arith.cmpi eq, \1, \1", second)
        assert count == 1
        second = re.sub(r"%phase = %\w+\)", "%phase = %total)", second)
        return text[:start], first, second, text[end:].replace("%total", "%again")

    def text(self) -> str:
        """The annotated module."""
        return "\n".join(self.loops())

    def wrong(self, module: Any, trips: int, completion: str, schedule: str) -> str:
        """Run a form of it: "" if it gives NumPy's numbers and nothing raced, else why not."""
        gemm, k = self.gemm, trips * self.gemm.line
        tiles, grid = ((3, 1), 1) if self.persistent else ((1, 1), None)
        _, result = run_gemm(
            module, gemm, k, tiles=tiles, grid=grid, completion=completion, schedule=schedule
        )
        _, once = run_gemm(parse(gemm.module()), gemm, k, tiles=tiles, grid=grid)
        if result.races:
            return " ".join(sorted(result.race_codes))
        return "" if np.array_equal(result.arrays[2], 2 * once.arrays[2]) else "wrong numbers"
