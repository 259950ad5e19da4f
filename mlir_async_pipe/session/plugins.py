"""What other installed packages add, by entry points, and libraries that only some extra installs.

    [project.entry-points."mlir_async_pipe.passes"]        a module that registers it
    my-pass = "my_package.my_pass"
    [project.entry-points."mlir_async_pipe.vocabulary"]    rows of ops (an iterable)
    my-dialect = "my_package.rows:ROWS"
    [project.entry-points."mlir_async_pipe.machine"]       a module that registers semantics
    my-dialect = "my_package.semantics"

Most often there are none, and Python's own look-up takes longer to import than all that a small
command does: it is asked only where the text of some package's entry points names a group of ours.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from typing import Any, Literal

from mlir_async_pipe.session.diagnostics import UsageError

Group = Literal["passes", "vocabulary", "machine"]

_PREFIX = "mlir_async_pipe."


@cache
def entries(group: Group) -> dict[str, Any]:
    """The entry points of a group by name; `load()` of one imports what it names."""
    if not _any_of_ours():
        return {}
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=_PREFIX + group)}


@cache
def _any_of_ours() -> bool:
    """Whether a package on the path has an entry point for this one."""
    announcements = (
        announced
        for entry in sys.path
        for announced in Path(entry or ".").glob("*-info/entry_points.txt")
    )
    return any(f"[{_PREFIX}" in announced.read_text() for announced in announcements)


def install(extra: str) -> str:
    """The command that brings what an extra names. We are on no index: it is run in a clone."""
    return f"in a clone of mlir-async-pipe: pip install '.[{extra}]'"


def library(module: str, *, extra: str, wanted_by: str) -> Any:
    """The module called `module`, which an extra of ours installs. Raises UsageError (missing-extra), which names
    what wants it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        why = f"{wanted_by} needs the library {module.partition('.')[0]}, which is not installed"
        raise UsageError(why, code="missing-extra", advice=install(extra)) from None
