"""One access of a kernel, and how it conflicts with another.

store release 1, %flag      load acquire %flag      strong: of threads of their scope they do not race
store 1, %flag              load acquire %flag      a race, unless something orders them
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from mlir_async_pipe.vocabulary.rows import Scope, covers, least


class Strength(NamedTuple):
    """A volatile or atomic access does not race with others of threads of its `scope`, if they have
    as many `bytes` (None: not known); that of a plain one is its thread (PTX ISA, "Morally strong
    operations")."""

    scope: Scope
    bytes: int | None


NOT_STRONG = Strength("thread", None)


class Manner(NamedTuple):
    writes: bool
    strong: Strength


def conflict(one: Manner, other: Manner, threads: Scope) -> bool | None:
    """Whether two accesses of different `threads` of a block, or of the device, race if they meet;
    None: it cannot be told, of strong ones of a scope in which some of the threads are, and of
    those of different sizes."""
    if not (one.writes or other.writes):
        return False
    if NOT_STRONG in (one.strong, other.strong):
        return True
    scope = least(one.strong.scope, other.strong.scope)
    if covers(scope, threads):
        sizes = {one.strong.bytes, other.strong.bytes} - {None}
        return None if len(sizes) > 1 else False
    some = "warp" if threads == "block" else "cluster"
    return None if scope == some else True


@dataclass(frozen=True)
class Site:
    """One access of one op in one frame. `space` is that of the memory it names; `independent`
    the loop whose author asserted that what cannot be told of its accesses is no conflict."""

    op: Any
    access: Any
    frame: int
    asynchronous: bool
    queue: str | None
    writes: bool
    atomic: bool
    space: str
    independent: int | None = None
    strong: Strength = NOT_STRONG

    @property
    def manner(self) -> Manner:
        return Manner(self.writes, self.strong)
