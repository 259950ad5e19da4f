"""Whether tensor copies may be issued before what the input does before them: that must not write
what they read.

    store %A                       warps of their own do not wait for it: apart, whatever is asserted
    scf.for %tile = … {
      scf.for %k = … {
        store %B                   before the copy of its own iteration: apart
        copy %A; store %C          S - 1 iterations ahead: apart, or independent
      }
      store %C                     with warps of their own: apart, or both loops independent
    }

Which tensor a map describes is not to be seen, so only memory that no other pointer reaches is
apart: not global memory, or an argument with `llvm.noalias`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import Operation, ancestors, operations, remembered, walk
from mlir_async_pipe.facts.loops.annotations import INDEPENDENT
from mlir_async_pipe.facts.loops.transactions import Transaction
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.pipeliner.dependence.regions import is_opaque
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import accesses, flag_order, row_of, tensor_use, use_of
from mlir_async_pipe.vocabulary.memory_names import is_set
from mlir_async_pipe.vocabulary.rows import BULK_STORE


@dataclass(frozen=True)
class _Overtaken:
    """`ops` come before copies of later iterations of `loops`, outermost first, or, where there are
    none, before those of the same iteration: of that no loop's independence says anything."""

    ops: list[Operation]
    loops: tuple[Operation, ...]

    @property
    def vouched(self) -> bool:
        """Whether the author says that no two iterations meet."""
        return bool(self.loops) and all(is_set(loop.attributes, INDEPENDENT) for loop in self.loops)


def check_independent(
    loop: Operation,
    outer: tuple[Operation, ...],
    ready: tuple[Operation, ...],
    transactions: tuple[Transaction, ...],
    noalias_arguments: bool,
    meetings: tuple[Operation, ...] = (),
    by_others: str = "",
) -> None:
    """Nothing that copies overtake writes what they read; `outer` are the ops between the mbarriers,
    of which the last of `ready` are the initialisation, and the loop; `by_others`: which
    others copy than the threads that run the loop, if some do. Of a loop without writes `meetings` of the cluster order nothing.
    Raises PipelineError (unproven-independence)."""
    copies = [copy for transaction in transactions for copy in transaction.copies]
    parts = _overtaken(loop, outer, ready, copies) if by_others else _inside(loop, (loop,), copies)
    for part in parts:
        for op in (op for top in part.ops for op in _ordering(top)):
            if op not in meetings:
                raise PipelineError(
                    f"cannot pipeline: '{op.name}' orders memory for other threads, and a tensor "
                    "copy of a later iteration would run before it",
                    code="memory-order",
                    at=op,
                    notes=(("the copy", transactions[0].copies[0]),),
                )
        if part.vouched:
            continue
        for op in (op for top in part.ops for op in _writers(top)):
            if op not in meetings and _may_write(op, noalias_arguments):
                raise PipelineError(
                    f"cannot pipeline: '{op.name}' may write what a tensor copy "
                    + ("of a later iteration reads" if part.loops else "after it reads")
                    + (f", which {by_others} do not order" if by_others else ""),
                    code="unproven-independence",
                    at=op,
                    notes=(("the copy", transactions[0].copies[0]),),
                    advice=_advice(part, loop),
                )


def _overtaken(
    loop: Operation,
    outer: tuple[Operation, ...],
    ready: tuple[Operation, ...],
    copies: list[Operation],
) -> Iterator[_Overtaken]:
    """What warps that only copy may be ahead of: all that comes before the loop, and, in a loop
    around, all that comes after it, too."""
    before = list(operations((*outer, loop)[0].block))
    first = max((before.index(op) + 1 for op in ready if op in before), default=0)
    before = before[first:]
    loops: tuple[Operation, ...] = ()
    above = [op.block for op in (*outer, loop)]
    for holder in (*outer, loop):
        place = before.index(holder)
        yield _Overtaken(before[:place], ())
        if loops:
            yield _Overtaken(before[place + 1 :], loops)
        if holder.name == "scf.for":
            loops = (*loops, holder)
        if holder == loop:
            break
        for block in (block for region in holder.regions for block in region.blocks):
            if block in above:
                before = operations(block)
            elif loops:
                yield _Overtaken(operations(block), loops)
    yield from _inside(loop, loops, copies)


def _inside(
    loop: Operation, loops: tuple[Operation, ...], copies: list[Operation]
) -> Iterator[_Overtaken]:
    """What copies are ahead of in their loop: what comes before one of them in its iteration, too."""
    body = list(operations(loop.regions[0].blocks[0]))
    copying = {op for copy in copies for op in (copy, *ancestors(copy))}
    last = max(number for number, op in enumerate(body) if op in copying)
    yield _Overtaken(body[: last + 1], ())
    yield _Overtaken([loop], loops)


@remembered
def _ordering(top: Operation) -> list[Operation]:
    """What nothing moves above, of an op and all in it."""
    return [op for op in walk(top) if flag_order(op).acquire]


@remembered
def _writers(top: Operation) -> list[Operation]:
    """What may write some map's tensor, of an op and all in it: of loops in a row each is asked for all
    before it."""
    return [op for op in walk(top) if _may_write(op, False)]


def _may_write(op: Operation, noalias_arguments: bool) -> bool:
    """Whether it may write what a tensor map describes."""
    written = [root_of(a.memory) for a in accesses(op) if a.writes]
    harmless = noalias_arguments or all(r.space != "global" or r.noalias for r in written)
    return not harmless or _stores_tensor(op) or (is_opaque(op) and not touches_no_tensor(op))


def _stores_tensor(op: Operation) -> bool:
    row = row_of(op)
    return row.queue == BULK_STORE and bool(row.swizzled)


def touches_no_tensor(op: Operation) -> bool:
    """Ops that no row describes, and that leave global memory alone."""
    return use_of(op) is not None or tensor_use(op) is not None


def _advice(part: _Overtaken, loop: Operation) -> str:
    if not part.loops:
        return (
            "write it after the copies, or through an argument with `llvm.noalias` that no tensor map "
            "describes"
        )
    if part.loops == (loop,):
        return f"assert `{INDEPENDENT}` on this loop if they never overlap"
    return f"assert `{INDEPENDENT}` on each loop around this op if they never overlap"
