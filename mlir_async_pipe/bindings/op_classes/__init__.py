"""Modules of op classes for the bindings, one a dialect; see `bindings`.

`async_pipe` is here, and empty. A process that wants no op classes at all has every other one
made up, empty too, when the bindings look for it.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from typing import Any


class _EmptyModules:
    """Finds an empty module for each name in this package. It has no base of `importlib.abc`, whose import takes as
    long as that of all else here."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        loader: Any = self
        return ModuleSpec(fullname, loader) if fullname.startswith(f"{__name__}.") else None

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual one."""

    def exec_module(self, module: Any) -> None:
        """There is nothing in it."""


def let_all_be_empty() -> None:
    """From now on every module of this package that has no file exists, and is empty."""
    if not any(isinstance(finder, _EmptyModules) for finder in sys.meta_path):
        sys.meta_path.append(_EmptyModules())
