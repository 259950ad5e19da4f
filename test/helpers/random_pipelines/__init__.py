"""Random annotated kernels by feature, as MLIR text that shares nothing with the package.

    for program in programs(seed=7, feature="guards", count=3):
        program.text, program.function, program.arguments(), program.threads, program.options

`shape` says what a kernel looks like, `draw` draws one for a feature, `write` writes it down.
`judge` (not imported from here: it needs the package) pipelines, runs and checks a program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

from helpers.random_pipelines.draw import FEATURES, draw
from helpers.random_pipelines.shape import Shape
from helpers.random_pipelines.write import FUNCTION, write

__all__ = ["FEATURES", "Program", "program", "programs"]


@dataclass(frozen=True)
class Program:
    """One kernel. `seed` and `feature` make it again; `target` is where it goes, None if that is
    not decided; `options` are those of the pass `async-pipe`."""

    feature: str
    seed: int
    shape: Shape
    function: str = FUNCTION

    @property
    def name(self) -> str:
        """What a report calls it."""
        return f"{self.feature}:{self.seed}"

    @property
    def threads(self) -> tuple[int, int, int]:
        """Threads of its block: x, y, z."""
        return self.shape.block

    @property
    def target(self) -> str | None:
        """Where the kernel is going."""
        return self.shape.target

    @property
    def options(self) -> dict[str, Any]:
        """Options of `async-pipe`."""
        given = {"smem_limit": self.shape.smem_limit, "overlap_outer": self.shape.overlap_outer}
        return {name: value for name, value in given.items() if value}

    @cached_property
    def text(self) -> str:
        """The module with its annotations."""
        return write(self.shape)

    def arguments(self) -> list[Any]:
        """New arguments: inputs of small integers, outputs of -1, bounds."""
        shape = self.shape
        random = np.random.default_rng(7)
        inputs = [
            random.integers(0, 9, (shape.rows, *shape.lanes)).astype(copy.dtype)
            for copy in shape.copies
        ]
        outputs = [
            np.full((shape.rows, *shape.lanes), -1, np.float32) for _ in range(shape.outputs)
        ]
        return [*inputs, *outputs, *shape.bounds]


def program(seed: int, feature: str) -> Program:
    """The program of a feature that a seed gives."""
    return Program(feature, seed, draw(feature, Random(f"{feature} {seed}")))


def programs(seed: int, feature: str, count: int) -> Iterator[Program]:
    """`count` programs, from `seed` on."""
    return (program(number, feature) for number in range(seed, seed + count))
