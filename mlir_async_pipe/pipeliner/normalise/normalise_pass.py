"""The pass `async-pipe-normalise`: loops as people and front ends write them, as the scheduler reads them.

    affine --> tile copies --> guards --> nests --> mbarriers --> addresses --> predicates --> buffers
           --> swizzle --> alignment --> loads --> slots

Each of these is a pass of its own, `async-pipe-normalise-…`, and right by itself: it computes the
same, whether the loop is pipelined afterwards or stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session


@dataclass(frozen=True)
class NormaliseOptions:
    """Options of `async-pipe-normalise`, which are those of the schedule that follows: `chip` is where
    the module is going, `num_stages` replaces the number on the loops (0 keeps it), `max_stages`
    bounds schedules by latencies."""

    chip: str = ""
    num_stages: int = 0
    max_stages: int = 8


def members(options: NormaliseOptions) -> list[tuple[passes.Pass, Any]]:
    return [(passes.find(name), passes.options_for(name, options)) for name in passes.NORMALISING]


@passes.register(
    "async-pipe-normalise",
    "write annotated loops in the form that the scheduler reads",
    NormaliseOptions,
    members,
)
def run(module: Any, options: NormaliseOptions, session: Session) -> None:
    passes.run_all(passes.NORMALISING, module, options, session)
