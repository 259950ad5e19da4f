"""All pieces of memory of a kernel, by number, and which of them may be the same.

func.call @inner(%p)            in the callee's frame %q is the memory that %p names
func.func @inner(%q: …)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.facts.values.memory_roots import (
    OWN,
    Root,
    may_alias,
    root_of,
    threads_may_meet,
)

# Each call has others of these.
_OF_A_FRAME = ("allocation", "unknown", "argument")


@dataclass
class Roots:
    """All pieces of memory of a kernel, by number. `noalias_maps`: no two tensor maps that it is given
    describe one memory. `handed`: what calls hand to the arguments of each frame, as (frame, value)."""

    assume_noalias_arguments: bool = False
    noalias_maps: bool = False
    handed: Mapping[tuple[int, Any], tuple[int, Any]] = field(default_factory=dict)
    roots: list[Root] = field(default_factory=list)
    _numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _spaces: dict[int, frozenset[str]] = field(default_factory=dict)
    _aliases: dict[tuple[int, int], bool] = field(default_factory=dict)

    def number(self, root: Root, frame: int) -> int:
        """The number of a root; allocations of a callee are its frame's own, its arguments what its
        caller hands it, or else any memory, whatever they assert of each other."""
        while root.kind == "argument" and (frame, root.value) in self.handed:
            frame, value = self.handed[frame, root.value]
            root = root_of(value)
        if frame and root.kind in ("argument", "address"):
            root = root._replace(kind="unknown", noalias=False)
        own = frame if root.kind in _OF_A_FRAME or root.space == "private" else 0
        key = (root.kind, root.key, own)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.roots)
            self.roots.append(root)
        return found

    def spaces(self, number: int) -> frozenset[str]:
        """The address spaces in which others may find a root."""
        found = self._spaces.get(number)
        if found is None:
            found = self._spaces[number] = self.roots[number].spaces
        return found

    def is_own(self, number: int) -> bool:
        """Whether a root is a thread's own, which nobody else reaches."""
        return self.spaces(number) == OWN

    def threads_may_meet(self, a: int, b: int) -> bool:
        """Whether two threads may reach one memory by two roots that may be the same."""
        return threads_may_meet(self.roots[a], self.roots[b])

    def may_alias(self, a: int, b: int) -> bool:
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
