"""What is true of a loop whatever its schedule: its accesses, which buffers may have versions,
and every dependence through memory with its distance.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.pipeliner.dependence.distance import LoopIndex
from mlir_async_pipe.pipeliner.dependence.memory_dependences import (
    Assertions,
    Dependence,
    memory_dependences,
)
from mlir_async_pipe.pipeliner.dependence.regions import Region, regions_of
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.privatisation import Privatisation, private_buffers


@dataclass(frozen=True)
class Analysis:
    """The facts about a loop body.

    `privatisation` says whose iterations may have versions, and what stands against it for the
    others. `around` is what stands around the loop.
    """

    body: Body
    regions: list[Region]
    index: LoopIndex
    privatisation: Privatisation
    dependences: list[Dependence]
    around: Surroundings


def analyse(
    body: Body, independent: bool, noalias_arguments: bool, around: Surroundings
) -> Analysis:
    """Gather the facts; `independent` and `noalias_arguments` are what the user vouches for."""
    loop = body.loop
    arithmetic = Arithmetic(around.launch_size(loop))
    index = LoopIndex(loop, arithmetic)
    tops = list(dict.fromkeys(statement.op for statement in body.statements))
    regions = regions_of(tops, arithmetic, around.lanes(loop))
    privatisation = private_buffers(loop, regions, around, arithmetic)
    dependences = memory_dependences(
        regions, privatisation.private, index, Assertions(independent, noalias_arguments)
    )
    return Analysis(body, regions, index, privatisation, dependences, around)
