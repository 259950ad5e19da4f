"""Which counts a wait can have at run time: all the ages that its token may have, path by path.

    %t = commit             {0}
    scf.if %c { commit }    {0, 1}
    wait %t                 the count is 0 or 1

A set of ages is a number whose bits are its members, so a commit is a shift and a join is `or`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mlir_async_pipe.bindings.raw_ops import Operation, Value
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, CAST_OPS, SELECT_OPS

Ages = dict[Value, int]

# Bit 0: a group that no wait of the queue can see. Bit 1: a copy that is in no group yet (age
# -1). Bit k + 2: k groups were committed since.
NEVER, OPEN, NEWEST = 1, 2, 4

CommitsTo = Callable[[Operation], bool]


@dataclass
class PossibleAges:
    """The domain: the possible ages of the tokens in `tracked`; all above `oldest` are one.

    `commits` says whether an op commits to the queue, `called` how many groups a call commits at
    least (no more are counted at run time), `foreign` is the age of a token from elsewhere.
    """

    tracked: set[Value]
    commits: CommitsTo
    called: Callable[[Operation], int]
    foreign: int
    oldest: int
    unreached: Ages | None = None
    _ceiling: int = field(init=False)

    def __post_init__(self) -> None:
        self._ceiling = 1 << (self.oldest + 3)

    def over(self, op: Operation, state: Ages) -> Ages:
        """Commits make every token older; other ops may make tokens."""
        if self.commits(op):
            state = self._older(state, 1)
        elif op.name in CALL_OPS:
            state = self._older(state, self.called(op))
        for result in op.results:
            if result in self.tracked:
                state = {**state, result: self._age_of(op, state)}
        return state

    def _age_of(self, op: Operation, state: Ages) -> int:
        row = row_of(op)
        if row is not None and row.commits is not None:
            return NEWEST if self.commits(op) else NEVER
        if row is not None and row.token:
            return OPEN
        if op.name in SELECT_OPS:
            return self.of(op.operands[1], state) | self.of(op.operands[2], state)
        if op.name in CAST_OPS:
            return self.of(op.operands[0], state)
        return self.foreign

    def of(self, value: Value, state: Ages) -> int:
        """The possible ages of a value; of one from another thread: none that counts."""
        return state.get(value, NEVER)

    def _older(self, state: Ages, groups: int) -> Ages:
        for _ in range(min(groups, self.oldest + 2)):
            state = {value: self._older_by_one(ages) for value, ages in state.items()}
        return state

    def _older_by_one(self, ages: int) -> int:
        older = (ages & ~NEVER) << 1
        if older >= self._ceiling:
            older = (older & (self._ceiling - 1)) | (self._ceiling >> 1)
        return older | (ages & NEVER)

    def join(self, first: Ages, second: Ages) -> Ages:
        """What either path allows."""
        joined = dict(first)
        for value, ages in second.items():
            joined[value] = joined.get(value, 0) | ages
        return joined

    again = join

    def hand(self, targets: Sequence[Value], sources: Sequence[Value], state: Ages) -> Ages:
        """A target is as old as its source."""
        handed = {
            target: self.of(source, state)
            for target, source in zip(targets, sources, strict=False)
            if target in self.tracked
        }
        return {**state, **handed} if handed else state

    def apart(self, op: Operation, state: Ages) -> Ages:
        """Tokens do not pass between threads."""
        return {}

    def behind_apart(self, op: Operation, state: Ages) -> Ages:
        """A token from there was committed no later than here."""
        made = {result: self.foreign for result in op.results if result in self.tracked}
        return {**state, **made} if made else state


def counts_in(ages: int) -> list[int]:
    """The counts that a set of ages stands for, in order; those below 0 are left out."""
    return [bit - 2 for bit in range(2, ages.bit_length()) if ages >> bit & 1]
