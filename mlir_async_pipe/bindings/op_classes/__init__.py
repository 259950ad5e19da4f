"""Modules of op classes for the bindings, one a dialect; see `bindings`.

`async_pipe` is here, and empty. A process that wants no op classes at all has every other one
made up, empty too, when the bindings look for it.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _EmptyModules(MetaPathFinder, Loader):
    """Finds an empty module for each name in this package."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.startswith(f"{__name__}.") else None

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


def let_all_be_empty() -> None:
    """From now on every module of this package that has no file exists, and is empty."""
    if not any(isinstance(finder, _EmptyModules) for finder in sys.meta_path):
        sys.meta_path.append(_EmptyModules())
