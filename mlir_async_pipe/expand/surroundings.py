"""What stands around the loops of a module, indexed once for all of them.

Each loop asks who touches its buffers outside of it, and how large its launch is. Walking the
function for each loop would make a module of n loops cost n squared; here every function is
walked once. Valid as long as nothing is edited, that is for the planning of one round.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.buffers import root_of
from mlir_async_pipe.dependence.launch import (
    Launches,
    Size,
    enclosing_launch_size,
    launched_sizes,
)
from mlir_async_pipe.ir_helpers import FUNCTION_OPS, Operation, enclosing, outermost, walk
from mlir_async_pipe.vocabulary import accesses


@dataclass(frozen=True)
class Touch:
    """One access of a function: its place in textual order, and what it does."""

    place: int
    reads: bool
    writes: bool


@dataclass
class _Function:
    """The accesses of one function by root, and where its loops begin."""

    touches: dict[Any, list[Touch]] = field(default_factory=lambda: defaultdict(list))
    loops: dict[Operation, int] = field(default_factory=dict)


class Surroundings:
    """The functions and launches of a module, each read when first asked for."""

    def __init__(self) -> None:
        self._functions: dict[Operation, _Function] = {}
        self._launches: Launches | None = None

    def touches_outside(self, loop: Operation, identity: Any) -> tuple[list[Touch], list[Touch]]:
        """The accesses of one root in the loop's function, in front of and behind the loop."""
        found = self._function(enclosing(loop, FUNCTION_OPS) or loop)
        start = found.loops[loop]
        end = start + sum(1 for _ in walk(loop))
        touches = found.touches.get(identity, [])
        return [t for t in touches if t.place < start], [t for t in touches if t.place >= end]

    def launch_size(self, loop: Operation) -> Size | None:
        """Threads of a block in x, y, z that run the loop, None where nothing says so."""
        if self._launches is None:
            self._launches = launched_sizes(outermost(loop))
        return enclosing_launch_size(loop, self._launches)

    def _function(self, function: Operation) -> _Function:
        if function not in self._functions:
            self._functions[function] = _read(function)
        return self._functions[function]


def _read(function: Operation) -> _Function:
    found = _Function()
    for place, op in enumerate(walk(function)):
        if op.name == "scf.for":
            found.loops[op] = place
        for access in accesses(op):
            touch = Touch(place, access.kind != "write", access.writes)
            found.touches[root_of(access.memory).identity].append(touch)
    return found
