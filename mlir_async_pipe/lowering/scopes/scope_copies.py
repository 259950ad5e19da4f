"""What an `async_pipe.scope` does: copies that a chip can issue asynchronously, or not.

    "async_pipe.scope"() ({                              Copies(pairs=(%v -> store,), …)
      %v = vector.load %A[%i, %k] …
      vector.store %v, %tile[%r, %c] …                   a scope that adds, stores to global
      "async_pipe.yield"() : () -> ()                    memory, or calls: NotCopies(reason)
    }) {queue = 0 : i64} : () -> ()

A scope copies if all it writes is workgroup memory, each value written is the result of a load
from global memory with no other use, zero where a mask or a condition leaves elements out
(`masked_loads`), and no two copies may touch the same element: a commit group orders nothing
inside itself. Reads that only make addresses happen at issue, which is
within the time that the scope allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import Operation, walk
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.lowering.scopes.copy_width import copy_width
from mlir_async_pipe.lowering.scopes.masked_loads import (
    SYNC_FALLBACK,
    NotLoaded,
    Part,
    loaded_value,
)
from mlir_async_pipe.lowering.scopes.scope_overlap import find_overlap
from mlir_async_pipe.lowering.scopes.transfers import is_plain
from mlir_async_pipe.values.linear import Arithmetic
from mlir_async_pipe.values.memory_roots import root_of
from mlir_async_pipe.vocabulary import Access, accesses, is_pure, is_store, row_of
from mlir_async_pipe.vocabulary.control_flow import in_scope

SCOPE = "async_pipe.scope"


@dataclass(frozen=True)
class CopyPair:
    """A load and the store of its result: `elements` of `element_bytes` each.

    `piece_bytes` is the size of one asynchronous copy; the pair becomes
    elements * element_bytes / piece_bytes of them. `narrowed_by` is the access whose unknown
    alignment forbids a wider one, if there is such. What not all parts of `kept` keep is zero;
    `through` are the selections and conditions between load and store, the last one first.
    """

    load: Operation
    store: Operation
    kept: tuple[Part, ...]
    through: tuple[Operation, ...]
    elements: int
    element_bytes: int
    piece_bytes: int
    narrowed_by: Access | None = None


@dataclass(frozen=True)
class Copies:
    """The scope only copies; `pairs` are to be formed, other async copies stand already."""

    pairs: tuple[CopyPair, ...]


@dataclass(frozen=True)
class NotCopies:
    """The chip cannot issue the scope asynchronously: a sentence, and the op that it is about.

    `code` is `nonzero-fill` where that is refused, else `sync-fallback`.
    """

    reason: str
    at: Operation
    code: str = SYNC_FALLBACK


Refuse = Callable[[CopyPair], str | None]
"""Why a chip cannot issue a pair for reasons of its own, None if it can."""


def classify(scope: Operation, chip: Chip, refuse: Refuse | None = None) -> Copies | NotCopies:
    """Whether all that `scope` does can be issued as asynchronous copies on `chip`."""
    if not chip.copy_bytes:
        return NotCopies(f"{chip.name} has no asynchronous copy to workgroup memory", scope)
    arithmetic = Arithmetic()
    pairs: list[CopyPair] = []
    written: list[Access] = []
    for op in _inside(scope):
        found = _classify_op(op, chip, arithmetic, refuse)
        if isinstance(found, NotCopies):
            return found
        if isinstance(found, CopyPair):
            pairs.append(found)
        written += [access for access in accesses(op) if access.writes]
    meeting = find_overlap(scope, written, arithmetic)
    if meeting is not None:
        return NotCopies("copies of one group may write the same element", meeting)
    return Copies(tuple(pairs))


def _inside(scope: Operation) -> Iterator[Operation]:
    return (op for op in walk(scope) if op != scope)


def _classify_op(
    op: Operation, chip: Chip, arithmetic: Arithmetic, refuse: Refuse | None
) -> CopyPair | NotCopies | None:
    """What one op means for its scope; None: nothing that hinders copying."""
    if is_pure(op) or in_scope(op):
        return None
    row = row_of(op)
    if is_store(op):
        return _pair(op, chip, arithmetic, refuse)
    if row is not None and row.asynchronous(op) and row.queue == chip.copy_queue:
        return None
    if row is not None and row.accesses and row.wait is None:
        if any(access.writes for access in accesses(op)):
            return NotCopies(f"'{op.name}' is no copy that {chip.name} can issue", op)
        if all(root_of(access.memory).space == "global" for access in accesses(op)):
            return None
        return NotCopies(f"'{op.name}' reads memory that is not global", op)
    return NotCopies(f"'{op.name}' is no copy", op)


def _pair(
    store: Operation, chip: Chip, arithmetic: Arithmetic, refuse: Refuse | None
) -> CopyPair | NotCopies:
    (target,) = accesses(store)
    if root_of(target.memory).space != "workgroup":
        return NotCopies(f"'{store.name}' does not write workgroup memory", store)
    if store.name == "vector.transfer_write" and not is_plain(store):
        return NotCopies("it may leave elements of its row unwritten, which no copy does", store)
    found = loaded_value(store)
    if isinstance(found, NotLoaded):
        return NotCopies(found.reason, found.at, found.code)
    (source,) = accesses(found.load)
    if root_of(source.memory).space != "global":
        return NotCopies(f"'{found.load.name}' does not read global memory", found.load)
    width = copy_width(source, target, chip, arithmetic)
    if isinstance(width, str):
        return NotCopies(width, store)
    pair = CopyPair(
        found.load,
        store,
        found.kept,
        found.through,
        width.elements,
        width.element_bytes,
        width.piece_bytes,
        width.narrowed_by,
    )
    refused = refuse(pair) if refuse is not None else None
    return pair if refused is None else NotCopies(refused, store)
