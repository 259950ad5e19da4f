"""Names of a stack's modules that a hook replaces, and puts back.

with hook: …          between install() and uninstall(), `mlir_optimization.optimize` is ours
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self


class Hook(ABC):
    """What hooks have in common: they replace names while they are installed."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Self:
        self.install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.uninstall()

    @abstractmethod
    def install(self) -> None:
        """Let everything that the stack compiles from now on go through this hook."""

    def uninstall(self) -> None:
        """Put everything back, last first."""
        while self._replaced:
            place, name, value = self._replaced.pop()
            setattr(place, name, value)

    def _replace(self, place: Any, name: str, value: Any) -> None:
        self._replaced.append((place, name, getattr(place, name)))
        setattr(place, name, value)
