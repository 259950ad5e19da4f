"""All pieces of memory of a kernel, by number, and which of them may be the same."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from mlir_async_pipe.session.light_dataclass import dataclass
from mlir_async_pipe.values.memory_roots import Root, may_alias


@dataclass
class Roots:
    """All pieces of memory of a kernel, by number. `noalias_maps`: no two tensor maps that it is given
    describe one memory."""

    assume_noalias_arguments: bool = False
    noalias_maps: bool = False
    roots: list[Root] = field(default_factory=list)
    _numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _aliases: dict[tuple[int, int], bool] = field(default_factory=dict)

    def number(self, root: Root, frame: int) -> int:
        """The number of a root; allocations of a callee are its frame's own, its arguments any
        memory of its caller, whatever they assert of each other."""
        if frame and root.kind in ("argument", "address"):
            root = root._replace(kind="unknown", noalias=False)
        own = frame if root.kind in ("allocation", "unknown", "argument") else 0
        key = (root.kind, root.key, own)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.roots)
            self.roots.append(root)
        return found

    def may_alias(self, a: int, b: int) -> bool:
        """Whether two roots may share memory."""
        if a == b:
            return True
        found = self._aliases.get((a, b))
        if found is None:
            one, other = self.roots[min(a, b)], self.roots[max(a, b)]
            same = (one.kind, one.key) == (other.kind, other.key)
            found = self._aliases[a, b] = self._aliases[b, a] = (
                one.kind == "unknown"
                if same
                else may_alias(one, other, assume_noalias_arguments=self.assume_noalias_arguments)
            )
        return found

    def partners(self) -> list[list[int]]:
        """By number, all roots that a root may share memory with, itself among them.

        Two pieces of memory that are reached only through their own values never meet, so only
        the others (arguments, unknown ones) are held against every root: 1000 buffers and 2
        arguments are 4000 questions, not 10^6."""
        open_ones = [number for number, root in enumerate(self.roots) if not root.owned]
        found = []
        for number, root in enumerate(self.roots):
            asked = open_ones if root.owned else range(len(self.roots))
            met = [other for other in asked if other != number and self.may_alias(number, other)]
            found.append([number, *met])
        return found
