"""The states that came where paths meet, each followed once; of those of roles, one for all of a shape.

    slot 1, tile 4, producer has heard of the reads of slots 0 and 1      followed
    slot 1, tile 8, producer has heard of the read of slot 0              followed: it stands for both
    slot 1, tile 9, producer has heard of the reads of slots 0 and 1      the same

A merged state waits until no other one goes on, so that most of its shape are in it by then.

Which op brought the last arrival of a phase (one in the loop, or one of the drains after it) is a part of the
shape, or not. Without it the states no longer remember where in the ring earlier tiles ended, which doubles
them with each slot; but of more states less is known in all of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum

from mlir_async_pipe.checker.phases.path_state import PathState
from mlir_async_pipe.checker.phases.role_memory import RoleMemory
from mlir_async_pipe.checker.phases.role_shapes import Heard, least, lower


class Merging(Enum):
    """Which states of roles are followed as one."""

    NOTHING = "equal ones"
    SAME_ENDS = "those of one shape"
    ALL = "those of one shape, whichever ops ended phases"


@dataclass
class StatesSeen:
    """States by block and shape, with what was heard in all that are `merged`; `waiting`: to go on from,
    the oldest first. `heads` are blocks with which iterations begin."""

    merged: Merging
    heard: dict[tuple[int, Hashable], Heard] = field(default_factory=dict)
    waiting: dict[tuple[int, Hashable], PathState] = field(default_factory=dict)
    heads: set[int] = field(default_factory=set)

    def goes_on(self, block: int, state: PathState) -> bool:
        """Whether a state is new, or not asked, and goes on at once."""
        memory, merges = state.memory, self.merged is not Merging.NOTHING
        by_iteration = isinstance(memory, RoleMemory) and (merges or memory.blocks.threads)
        if by_iteration and not state.is_asked(block in self.heads):
            return True
        shape, heard = state.shape_and_heard(ends=self.merged is not Merging.ALL)
        if not merges:
            before = len(self.heard)
            self.heard[block, (shape, heard)] = ()
            return len(self.heard) > before
        known = self.heard.get((block, shape))
        if known is not None:
            heard = least(known, heard)
            if heard == known:
                return False
            assert isinstance(memory, RoleMemory)
            lower(memory, heard)
        self.heard[block, shape] = heard
        self.waiting[block, shape] = state
        return False

    def next(self) -> tuple[int, PathState]:
        """The block and state that has waited longest."""
        (block, shape), state = next(iter(self.waiting.items()))
        del self.waiting[block, shape]
        return block, state
