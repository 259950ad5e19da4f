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


def semantics(*names: str) -> Callable[[SomeBuilder], SomeBuilder]:
    """Decorator: this builder gives the semantics of the ops called `names`."""

    def remember(builder: SomeBuilder) -> SomeBuilder:
        SEMANTICS.update(dict.fromkeys(names, builder))
        return builder

    return remember
