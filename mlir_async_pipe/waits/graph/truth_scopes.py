"""Which of the conditions that a count follows are known where.

%c = …                      %c is local here: the frame is looked at once for each truth
scf.for { scf.if %c … }     and free in the frames below that hold its sites
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mlir_async_pipe.flow.conditions import Assumption, Conditions
from mlir_async_pipe.flow.items import Frame

Key = tuple[bool, ...]
"""The truths of the conditions that a frame sees from outside."""


class Scopes:
    """The scopes of the conditions in `tracked`.

    `free` are those that a frame sees from outside, `local` those that it defines.
    """

    def __init__(self, conditions: Conditions, tracked: frozenset[int]) -> None:
        self.tracked = tracked
        self.local: dict[Frame, tuple[int, ...]] = {}
        free: dict[Frame, set[int]] = {}
        for number in sorted(tracked):
            condition = conditions.all[number]
            home = condition.home.frame
            self.local[home] = (*self.local.get(home, ()), number)
            for site in condition.sites:
                frame = site.frame
                while frame is not home and number not in free.setdefault(frame, set()):
                    free[frame].add(number)
                    assert frame.item.node is not None
                    frame = frame.item.node.frame
        self.free = {frame: tuple(sorted(numbers)) for frame, numbers in free.items() if numbers}

    def keys(self, frame: Frame) -> Sequence[Key]:
        """All assumptions about what a frame sees from outside."""
        free = self.free.get(frame)
        return list(itertools.product((False, True), repeat=len(free))) if free else ((),)

    def assumption(self, frame: Frame, key: Key) -> Assumption:
        """The assumption behind a key of a frame."""
        return dict(zip(self.free[frame], key, strict=True)) if key else {}

    def key(self, frame: Frame, assumption: Assumption) -> Key:
        """The part of an assumption that a frame sees."""
        free = self.free.get(frame)
        return tuple([assumption[number] for number in free]) if free else ()

    def seen(self, frame: Frame, assumption: Assumption) -> Key:
        """The part of an assumption that the blocks of a frame see."""
        if not self.tracked:
            return ()
        numbers = (*self.free.get(frame, ()), *self.local.get(frame, ()))
        return tuple([assumption[number] for number in numbers])

    def choices(self, frame: Frame, assumption: Assumption) -> Sequence[Assumption]:
        """The assumption with every truth of the conditions that a frame itself defines."""
        local = self.local.get(frame)
        if not local:
            return (assumption,)
        return [
            {**assumption, **dict(zip(local, values, strict=True))}
            for values in itertools.product((False, True), repeat=len(local))
        ]
