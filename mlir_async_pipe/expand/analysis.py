"""What is true of a loop whatever its schedule: its accesses, which buffers may have versions,
and every dependence through memory with its distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.affine import Arithmetic
from mlir_async_pipe.dependence.distance import LoopIndex
from mlir_async_pipe.dependence.memory import Assertions, Dependence, memory_dependences
from mlir_async_pipe.dependence.regions import Region, regions_of
from mlir_async_pipe.expand.buffers import Obstacle, private_buffers
from mlir_async_pipe.expand.surroundings import Surroundings
from mlir_async_pipe.statements import Body


@dataclass(frozen=True)
class Analysis:
    """The facts about a loop body.

    `private` holds the keys of roots whose iterations may have versions, `unproven` what stands
    against it for the others. `around` is what stands around the loop.
    """

    body: Body
    regions: list[Region]
    index: LoopIndex
    private: frozenset[Any]
    unproven: dict[Any, Obstacle]
    dependences: list[Dependence]
    around: Surroundings


def analyse(
    body: Body, independent: bool, noalias_arguments: bool, around: Surroundings
) -> Analysis:
    """Gather the facts; `independent` and `noalias_arguments` are what the user vouches for."""
    loop = body.loop
    arithmetic = Arithmetic(around.launch_size(loop))
    index = LoopIndex(loop, arithmetic)
    regions = regions_of(list(dict.fromkeys(s.op for s in body.statements)), arithmetic)
    private, unproven = private_buffers(loop, regions, around, arithmetic.block_size)
    dependences = memory_dependences(
        regions, private, index, Assertions(independent, noalias_arguments)
    )
    return Analysis(body, regions, index, private, unproven, dependences, around)
