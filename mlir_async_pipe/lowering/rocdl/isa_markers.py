"""Marks our waits in the assembly, and says what the back end made of each.

    rocdl.wait.asyncmark 2   -->   "; async_pipe.wait 0" and the wait
                                   "; async_pipe.wait 0", s_waitcnt vmcnt(8), in the assembly

The marker is a comment in an inline assembly op: it makes no instruction, and it goes along
where LLVM unrolls or copies a loop. The back end waits for instructions, not groups: N groups
are at least N times the fewest copies that any group holds, and vmcnt reaches 63, of which 63
means "do not wait". Fewer left in flight than that is stricter than the count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    before,
    create,
    functions,
    operations,
    symbol_name,
    walk,
)
from mlir_async_pipe.lowering.rocdl.isa import (
    MARKER,
    IsaKernel,
    IsaWait,
    is_barrier,
)
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.vocabulary import given_count, row_of
from mlir_async_pipe.vocabulary.rows import ASYNC_LDS, ASYNCCNT, TENSORCNT

_QUEUES = (ASYNC_LDS, ASYNCCNT, TENSORCNT)


@dataclass(frozen=True)
class MarkedWait:
    """One wait of the module: its count (groups, or copies for a counter), and the fewest
    copies of a group in its function, which is 1 where the count is in copies. `certain` of
    them are issued on every path, the others stand under conditions."""

    number: int
    function: str
    op: str
    count: int
    copies: int
    certain: int
    place: Place

    @property
    def expected(self) -> int:
        """Copies that the wait leaves in flight, as far as an instruction can say it."""
        limit = ASYNC_LDS.copies_in_flight
        assert limit is not None
        return min(self.count * self.copies, limit)


@dataclass(frozen=True)
class WaitReadback:
    """What one wait became: the numbers of its instructions in textual order (LLVM may have
    copied the loop), whether one is stricter than the count, and why."""

    wait: MarkedWait
    left: tuple[int, ...]
    left_in_loops: tuple[int, ...]
    verdict: Literal["kept", "stricter", "none"]
    reason: str


def mark(module: Any) -> tuple[MarkedWait, ...]:
    """Put a marker before every async wait of the module; returns the waits."""
    found: list[MarkedWait] = []
    for function in functions(module):
        fewest = _fewest_copies(function)
        for op in walk(function):
            row = row_of(op)
            if row.wait is None or row.queue not in _QUEUES:
                continue
            count = given_count(op) or 0
            copies = fewest if row.queue == ASYNC_LDS else (1, 1)
            number = len(found)
            found.append(
                MarkedWait(number, symbol_name(function), op.name, count, *copies, Place.of(op))
            )
            _insert_marker(op, number)
    return tuple(found)


def _fewest_copies(function: Operation) -> tuple[int, int]:
    """The fewest copies in a group of the function, between two marks of one block: with those
    under conditions and in inner loops, and without."""
    found = [_copies_in_front(mark_op) for mark_op in walk(function) if _is_mark(mark_op)]
    return (
        min((copies for copies, _ in found), default=0),
        min((certain for _, certain in found), default=0),
    )


def _copies_in_front(mark_op: Operation) -> tuple[int, int]:
    """Copies between a mark and the one before it in its block: all, and the certain ones."""
    copies = certain = 0
    siblings = operations(mark_op.block)
    for op in reversed(siblings[: siblings.index(mark_op)]):
        inner = list(walk(op))
        if any(_is_mark(each) for each in inner):
            break
        copies += sum(_is_copy(each) for each in inner)
        certain += _is_copy(op)
    return copies, certain


def _is_copy(op: Operation) -> bool:
    row = row_of(op)
    return row.queue == ASYNC_LDS and row.asynchronous(op)


def _is_mark(op: Operation) -> bool:
    row = row_of(op)
    return row.queue == ASYNC_LDS and row.commits == "group"


def _insert_marker(wait: Operation, number: int) -> None:
    context = wait.context
    create(
        "llvm.inline_asm",
        attributes={
            "asm_string": ir.StringAttr.get(f"; {MARKER} {number}", context),
            "constraints": ir.StringAttr.get("", context),
            "has_side_effects": ir.UnitAttr.get(context),
        },
        ip=before(wait),
        loc=wait.location,
    )


def explain(
    waits: tuple[MarkedWait, ...], kernels: tuple[IsaKernel, ...]
) -> tuple[WaitReadback, ...]:
    """What became of each wait."""
    by_name = {kernel.name: kernel for kernel in kernels}
    return tuple(
        _explain(wait, by_name[wait.function]) for wait in waits if wait.function in by_name
    )


def _explain(wait: MarkedWait, kernel: IsaKernel) -> WaitReadback:
    own = [entry for entry in kernel.waits if entry.marker == wait.number]
    left = tuple(entry.left for entry in own)
    in_loops = tuple(entry.left for entry in own if entry.loop)
    barrier = _barrier_wait(own, kernel)
    if barrier is not None:
        return WaitReadback(
            wait,
            left,
            in_loops,
            "stricter",
            f"the barrier after it fences more than workgroup memory, so {barrier.counter} "
            f"waits until {barrier.left} ops are in flight (line {barrier.line})",
        )
    if not own:
        return WaitReadback(
            wait, left, in_loops, "none", "the back end found nothing in flight to wait for"
        )
    if min(left) >= wait.expected:
        limited = wait.count * wait.copies > wait.expected
        return WaitReadback(wait, left, in_loops, "stricter" if limited else "kept", _limit(wait))
    return WaitReadback(wait, left, in_loops, "stricter", _fewer(wait, min(left)))


def _fewer(wait: MarkedWait, left: int) -> str:
    held = f"{wait.count} groups hold {wait.count * wait.copies} copies"
    if wait.certain < wait.copies:
        return (
            f"{held}, {wait.count * wait.certain} of them outside conditions: the back end counts "
            f"those that are surely issued, and leaves {left} in flight"
        )
    return f"{held}, but on some path into this place {left} are in flight, as the back end sees it"


def _limit(wait: MarkedWait) -> str:
    wanted = wait.count * wait.copies
    if wanted == wait.expected:
        return ""
    return f"{wanted} copies may stay in flight, and the counter tells {wait.expected} apart"


def _barrier_wait(own: list[IsaWait], kernel: IsaKernel) -> IsaWait | None:
    """A wait that the back end itself put between one of ours and the barrier after it."""
    for wait in own:
        behind = [entry for entry in kernel.waits if entry.line > wait.line]
        following = behind[0] if behind else None
        if (
            following is not None
            and following.marker is None
            and is_barrier(following.reason)
            and following.counter == wait.counter
            and following.left < wait.left
        ):
            return following
    return None
