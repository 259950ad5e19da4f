"""The candidates of a space, and which of their parameters go where.

    {"num_stages": [2, 3], "tile": [64, 128]}, build(tile)
      -->  build(tile=64) with pipeline(num_stages=2), …: four candidates

A parameter that `build` names goes to `build`, every other one must be an option of `pipeline`.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlir_async_pipe import api
from mlir_async_pipe.session.diagnostics import UsageError

# What `pipeline` is told here itself.
_NOT_OPTIONS = frozenset({"module", "target", "check", "witnesses"})
OPTIONS = frozenset(inspect.signature(api.pipeline).parameters) - _NOT_OPTIONS


def candidates(space: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every choice of one value for each parameter, the last parameter changing fastest.

    Raises UsageError (empty-space) for a space without candidates.
    """
    empty = [name for name, values in space.items() if not len(values)]
    if empty or not space:
        raise UsageError(
            f"parameter '{empty[0]}' has no values" if empty else "the space has no parameters",
            code="empty-space",
            advice="tune(build, {'num_stages': [2, 3, 4]}, …)",
        )
    return [dict(zip(space, chosen, strict=True)) for chosen in itertools.product(*space.values())]


def divided(
    build: Callable[..., Any], parameters: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of `build`, and the options of `pipeline`.

    Raises UsageError (unknown-parameter) for a parameter that neither takes.
    """
    taken = inspect.signature(build).parameters
    takes_all = any(given.kind is given.VAR_KEYWORD for given in taken.values())
    built = {n: v for n, v in parameters.items() if n in taken or (takes_all and n not in OPTIONS)}
    options = {name: value for name, value in parameters.items() if name not in built}
    for name in options:
        if name not in OPTIONS:
            raise UsageError(
                f"parameter '{name}' is neither an argument of the builder nor an option of pipeline",
                code="unknown-parameter",
                advice=f"pipeline has {', '.join(sorted(OPTIONS))}",
            )
    return built, options
