"""In which order a pipeline may be asked, and what is said at the user's line where it is not.

    with pipe.consume(): …                 kernel.py:12: nothing was produced  [consume-without-produce]
    with pipe.produce() as a:
        with pipe.produce() as b: …        kernel.py:15: the slot of line 14 is not committed  [slot-open]

Only what is sure from the text is looked at here: steps of one block follow each other, and what
happens on the paths of loops and conditions is the count pass's to say.
"""

from __future__ import annotations

from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import plain_values, source_op
from mlir_async_pipe.builder.caller import caller, misuse
from mlir_async_pipe.builder.slot_memory import Slot
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.vocabulary import ALLOCATION_OPS

Role = Literal["produce", "consume", "loop"]


class Protocol:
    """What was asked of one pipeline so far."""

    def __init__(self, depth: int, apart: bool = False) -> None:
        """`apart`: others produce than consume, in any order of the text."""
        self._depth = depth
        self._apart = apart
        self._form: Literal["", "slots", "loop"] = ""
        self._begun: Place | None = None
        self._ended: Place | None = None
        # The `with` that stand open, and the slots of those that ended.
        self._open: list[tuple[Role, Place]] = []
        self._closed: list[Slot] = []
        self._produced = 0
        # Slots taken less slots released since the steps came to stand in this block.
        self._block: Any = None
        self._taken = 0
        self._produced_here = 0
        self._consumed = 0

    def may_have_buffer(self) -> None:
        """Raises UsageError (buffer-too-late) once the memory of the slots is made."""
        if self._begun is not None:
            raise misuse(
                "a buffer after the first slot was taken",
                code="buffer-too-late",
                notes=(("it was taken here", self._begun),),
                advice="ask for all buffers first",
            )

    def produce(self) -> None:
        """A slot is to be filled."""
        self._begin("slots", "produce")
        for role, place in self._open:
            if role == "produce":
                raise _still_open("another slot is produced", place)
        self._come_to_block()
        if self._taken == self._depth and not self._apart:
            raise misuse(
                f"{self._depth + 1} slots of a pipeline of depth {self._depth} are taken before "
                "one is released",
                code="depth-exceeded",
                advice="consume one first, or take more depth",
            )
        self._produced += 1
        self._produced_here += 1
        self._taken += 1
        self._open.append(("produce", caller()))

    def consume(self) -> None:
        """The oldest slot is to be read."""
        self._begin("slots", "consume")
        for role, place in self._open:
            if role == "produce":
                raise _still_open("a slot is consumed", place)
        self._come_to_block()
        self._consumed += 1
        # Each execution of this block produces as many as stand in it, if none stands elsewhere.
        elsewhere = self._produced - self._produced_here
        if self._consumed > self._produced_here and not elsewhere and not self._apart:
            many = self._produced_here
            raise misuse(
                "a slot is consumed, and none was produced before"
                if not many
                else f"slot number {many + 1} is consumed, and only {many} "
                + ("was" if many == 1 else "were")
                + " produced before",
                code="consume-without-produce",
                advice="with pipe.produce() as slot: … comes first, in the order of the text",
            )
        self._taken -= 1
        self._open.append(("consume", caller()))

    def loop(self) -> None:
        """A whole loop is to be written."""
        self._begin("loop", "loop")
        self._nothing_open("a loop is written")
        self._open.append(("loop", caller()))

    def tail(self) -> None:
        """The pipeline is to end."""
        self._begin(self._form or "slots", "produce")
        self._nothing_open("the pipeline ends")
        self._ended = caller()

    @property
    def held_at(self) -> Place:
        """Where the slot was taken that is held now."""
        return self._open[-1][1]

    def leave(self, slots: tuple[Slot, ...]) -> None:
        self._open.pop()
        for slot in slots:
            slot.close()
        self._closed += slots

    def _nothing_open(self, what: str) -> None:
        if self._open:
            raise _still_open(what, self._open[-1][1])

    def _begin(self, form: Literal["", "slots", "loop"], role: Role) -> None:
        # Who consumes may be written below the producer and its tail.
        if self._ended is not None and not (self._apart and role == "consume"):
            raise misuse(
                "the pipeline has ended",
                code="pipeline-closed",
                notes=(("its tail stands here", self._ended),),
            )
        if self._form not in ("", form):
            assert self._begun is not None
            raise misuse(
                "a pipeline is either a loop or written slot by slot",
                code="forms-mixed",
                notes=(("it began here", self._begun),),
                advice="two pipelines, with queues of their own",
            )
        self._look_for_late_uses()
        self._form = form
        self._begun = self._begun or caller()

    @plain_values()
    def _look_for_late_uses(self) -> None:
        """Raises UsageError (slot-closed) if an op came to use a slot after its `with`."""
        for slot in self._closed:
            if source_op(slot).name in ALLOCATION_OPS:
                # One slot is the memory itself, which later slots use too.
                continue
            uses = list(slot.uses)
            if len(uses) > slot.uses_inside:
                late = Place.of(uses[0].owner.operation)
                raise misuse(
                    "a slot was used after its 'with' had ended, when it may hold another tile",
                    code="slot-closed",
                    notes=(("the slot was taken here", slot.place),),
                    at=late if late.line else None,
                )

    @plain_values()
    def _come_to_block(self) -> None:
        block = ir.InsertionPoint.current.block
        if self._block is None or self._block != block:
            self._block, self._taken = block, 0
            self._produced_here = self._consumed = 0
        self._taken = max(self._taken, 0)


def _still_open(what: str, place: Place) -> Any:
    return misuse(
        f"{what} while a slot is still held",
        code="slot-open",
        notes=(("it was taken here", place),),
        advice="end its 'with' first, which commits it",
    )


def no_try_wait() -> Any:
    return misuse(
        "copies can be waited for, and not asked whether they have arrived",
        code="no-try-wait",
        advice="consume() waits; with more depth it finds them there",
    )
