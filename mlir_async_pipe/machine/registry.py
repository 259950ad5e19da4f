"""The table op name -> semantics, filled by the files in `dialects/`.

A semantics is a *builder*: called once for each op of the program with its decoded site, it
returns the function that executes the op for all threads of a unit, every time it is reached.

    @semantics("arith.addi", "index.add")
    def add(site):
        kind = site.result_kind()
        return lambda unit, left, right: kind.settle(left + right)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Execute = Callable[..., Any]
Builder = Callable[[Any], Execute]
SomeBuilder = TypeVar("SomeBuilder", bound=Callable[..., Execute])

SEMANTICS: dict[str, Builder] = {}
# Terminators that leave for a block of the same region; the rest leave the region.
BRANCHES: dict[str, Builder] = {}


def semantics(*names: str) -> Callable[[SomeBuilder], SomeBuilder]:
    """Decorator: this builder gives the semantics of the ops called `names`."""
    return _enter(SEMANTICS, names)


def branch(*names: str) -> Callable[[SomeBuilder], SomeBuilder]:
    """Decorator: this builder gives the jumps of the terminators called `names`."""
    return _enter(BRANCHES, names)


def _enter(
    table: dict[str, Builder], names: tuple[str, ...]
) -> Callable[[SomeBuilder], SomeBuilder]:
    def remember(builder: SomeBuilder) -> SomeBuilder:
        table.update(dict.fromkeys(names, builder))
        return builder

    return remember


# Ops that end a region and hand their operands to the op around it.
LEAVE = frozenset(
    {
        "func.return",
        "gpu.return",
        "cuda.return",
        "llvm.return",
        "scf.yield",
        "scf.condition",
        "affine.yield",
        "async_pipe.yield",
        "memref.atomic_yield",
        "gpu.terminator",
        "gpu.yield",
        "vector.yield",
        "scf.reduce",
        "scf.forall.in_parallel",
    }
)
