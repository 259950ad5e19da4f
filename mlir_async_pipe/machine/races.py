"""What the race detector reports: findings with both ends, told apart by a stable code.

| code                | what happened                                                           |
|---------------------|-------------------------------------------------------------------------|
| read-in-flight      | data was read while the copy that writes it was still in flight          |
| overwrite-in-flight | the destination of an async op in flight was written                     |
| source-overwritten  | the source of an async op in flight was written                          |
| atomic-in-flight    | an atomic touched a range in flight                                      |
| not-visible         | waited for by one thread, used by another with no barrier between        |
| missing-barrier     | two threads touched one location in one barrier interval, one of them writing |
| cross-block         | two blocks of the grid touched one location, one of them writing         |
| divergent-barrier   | a barrier that not all threads of the block reached                      |
| divergent-warp-op   | an op of a whole warp that not all of its lanes reached                  |
| uninitialised-read  | memory that nothing had written was read                                 |
| out-of-bounds       | an access outside its buffer                                             |
| uncommitted-copy    | an async op that belongs to no group when the kernel ends                |
| unwaited-copy       | an async op that no wait covers when the kernel ends                     |
| queue-overflow      | more slots of a queue acquired than its depth                            |
| wait-before-commit  | a wait for a group that is not committed yet                             |
| missing-fence       | the async proxy reads or writes what a generic write left unfenced       |
| barrier-not-initialised | an mbarrier that nobody has initialised                              |
| too-many-arrivals   | an arrival at an mbarrier whose phase lacks none                          |
| phase-overtaken     | an mbarrier went on by two phases while a thread waited for the first     |
| missing-tensor-fence | tensor memory that another thread or a commit made ready, without the fence |
| missing-register-fence | a product adds to registers that threads touched, without a fence since |
| wrong-lanes         | a warp touched lanes of tensor memory that are not its own               |
| no-columns          | tensor memory has not so many columns left                               |
| columns-kept        | columns of tensor memory that nobody gave back                           |
| block-ended         | a block of a cluster ended before others were done with its memory       |
| deadlock            | a wait that nobody can let pass                                          |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlir_async_pipe.session.diagnostics import Diagnostic, Note, Place

_SENTENCES = {
    "read-in-flight": "'{op}' reads data that '{other}' is still writing",
    "overwrite-in-flight": "'{op}' writes where '{other}' is still writing",
    "source-overwritten": "'{op}' writes what '{other}' may still read",
    "atomic-in-flight": "'{op}' is atomic on a range where '{other}' is in flight",
    "not-visible": "'{op}' uses what '{other}' of another thread wrote, without a barrier after its wait",
    "missing-barrier": "'{op}' and '{other}' of another thread touch the same memory without a barrier between",
    "cross-block": "'{op}' and '{other}' of another block touch the same memory, and nothing orders them",
    "divergent-barrier": "'{op}' is not reached by all threads of the block",
    "divergent-warp-op": "'{op}' needs its whole warp, but some lanes do not reach it",
    "uninitialised-read": "'{op}' reads memory that nothing has written",
    "out-of-bounds": "'{op}' accesses memory outside its buffer",
    "uncommitted-copy": "'{op}' is in no group when the kernel ends",
    "unwaited-copy": "'{op}' is still in flight when the kernel ends: no wait covers it",
    "queue-overflow": "'{op}' acquires more slots than the queue has",
    "wait-before-commit": "'{op}' waits for a group that is not committed yet",
    "missing-fence": "'{op}' touches what '{other}' wrote, without a fence for the async proxy between",
    "barrier-not-initialised": "'{op}' uses an mbarrier that nothing has initialised",
    "too-many-arrivals": "'{op}' arrives where no arrival is pending",
    "phase-overtaken": "'{op}' passes for another phase than it may mean: two are over that it knows nothing of",
    "missing-tensor-fence": "'{op}' touches tensor memory after '{other}', without a fence of tensor memory between",
    "missing-register-fence": "'{op}' may add to what its registers held before: a fence of products is missing",
    "wrong-lanes": "'{op}' touches lanes of tensor memory that its warp may not",
    "no-columns": "'{op}' asks for more columns of tensor memory than are free",
    "columns-kept": "'{op}' takes columns of tensor memory that nobody gives back",
    "block-ended": "a block of '{op}' ends while '{other}' of another may still reach its memory",
    "deadlock": "'{op}' waits for ever",
}

NOWHERE = Place()
CODES = tuple(_SENTENCES)


@dataclass(frozen=True)
class Race:
    """One finding, the first of `count` equal ones.

    `op` at `place` is the access that completed the race, `other_op` at `other_place` the
    earlier end ("" where a race has one end only). `thread` and `other_thread` are linear
    ids in the grid, -1 if unknown. `buffer` and `byte` (offset in it) say where in memory, and
    `detail` what an mbarrier lacks.
    """

    code: str
    op: str
    place: Place
    other_op: str = ""
    other_place: Place = NOWHERE
    thread: int = -1
    other_thread: int = -1
    buffer: str = ""
    byte: int = -1
    count: int = 1
    detail: str = ""

    def diagnostic(self) -> Diagnostic:
        """The finding as an error with a note at the other end."""
        message = _SENTENCES[self.code].format(op=self.op, other=self.other_op)
        if self.buffer:
            message += f" (byte {self.byte} of {self.buffer}"
            message += f", thread {self.thread})" if self.thread >= 0 else ")"
        if self.detail:
            message += f" ({self.detail})"
        if self.count > 1:
            message += f", {self.count} times"
        notes = []
        if self.other_op:
            who = f" by thread {self.other_thread}" if self.other_thread >= 0 else ""
            notes.append(Note(f"the other access, '{self.other_op}'{who}", self.other_place))
        return Diagnostic("error", message, self.code, self.place, tuple(notes))

    def __str__(self) -> str:
        return str(self.diagnostic())


class RaceLog:
    """Gathers findings, one entry for each (code, op, other op)."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Place, str, Place, str], Race] = {}

    def add(self, race: Race) -> None:
        """Keep a finding, or count it where an equal one is known."""
        key = (race.code, race.place, race.op, race.other_place, race.other_op)
        known = self._found.get(key)
        self._found[key] = race if known is None else replace(known, count=known.count + 1)

    def all(self) -> tuple[Race, ...]:
        """All findings in the order in which they were first seen."""
        return tuple(self._found.values())
