"""The transactions of a loop: copies that complete on an mbarrier, with what announces them and
what waits for them.

    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader     the commit
    nvgpu.tma.async.load %map[%k], %full[%c0] to %tile, predicate = %leader     the copies
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %ticks                   the wait

Each iteration has one of each for an mbarrier, which is named by a group and a constant number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mlir_async_pipe.bindings.memo import remembered
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    constant_value,
    operations,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.loops.mbarrier_operands import handle_of as handle_of
from mlir_async_pipe.facts.loops.mbarrier_operands import mbarrier_named, named
from mlir_async_pipe.facts.loops.mbarrier_operands import mbarrier_pointer as mbarrier_pointer
from mlir_async_pipe.facts.loops.mbarrier_operands import operand as operand
from mlir_async_pipe.facts.loops.mbarrier_operands import operand_number as operand_number
from mlir_async_pipe.facts.loops.tensor_commits import completions_of
from mlir_async_pipe.facts.values.integer_ops import product
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import ROWS, Row, row_of, use_of
from mlir_async_pipe.vocabulary.mbarrier_ops import TENSOR_LOADS, box_bytes, is_im2col
from mlir_async_pipe.vocabulary.memory_layout import element_bytes
from mlir_async_pipe.vocabulary.rows import PhaseUse


@dataclass(frozen=True)
class Transaction:
    """What completes one phase of mbarrier `number` of the group `barriers` in each iteration."""

    barriers: Value
    number: int
    expect: Operation
    copies: tuple[Operation, ...]
    wait: Operation

    @property
    def ops(self) -> tuple[Operation, ...]:
        return (self.expect, *self.copies, self.wait)


@remembered
def has_transactions(loop: Operation) -> bool:
    """Whether a loop copies by ops that complete on mbarriers."""
    return bool(walk_named(loop, lambda name: complete_on_mbarriers((name,))))


def complete_on_mbarriers(names: Iterable[str]) -> bool:
    """Whether some ops of these names may complete on mbarriers."""
    return any(name in ROWS and _is_of_mbarriers(ROWS[name]) for name in names)


def is_phase_op(op: Operation) -> bool:
    """Whether an op announces or waits for a phase, or names an mbarrier: of a transaction, its
    commit and its wait."""
    return use_of(op) in ("expect", "wait", "handle")


def transactions_of(loop: Operation) -> tuple[Transaction, ...]:
    """The transactions of a loop, in the order of their waits.

    Raises PipelineError: async-op-unsupported, transaction-incomplete, transaction-bytes,
    commit-incomplete.
    """
    for op in walk(loop):
        if _completes_on_mbarrier(op):
            _check_form(op)
    top = operations(loop.regions[0].blocks[0])
    of_products = {op for completion in completions_of(loop) for op in completion.ops}
    for op in walk(loop):
        if use_of(op) is not None and op not in top and op not in of_products:
            raise _incomplete(op, "it stands in a region of the body, not in the body itself")
    found: dict[tuple[Value, int], dict[str, list[Operation]]] = {}
    for op in top:
        use = use_of(op)
        if use is None or use == "handle" or op in of_products:
            continue
        issued_by_all = use in ("expect", "copy") and "predicate" not in named(op)
        if use not in ("expect", "copy", "wait") or issued_by_all:
            raise _incomplete(op, _unfit(use))
        parts = found.setdefault(_mbarrier(op), {"expect": [], "copy": [], "wait": []})
        parts[use].append(op)
    made = [_complete(*key, parts) for key, parts in found.items()]
    for transaction in made:
        _check_bytes(transaction)
    places = {op: place for place, op in enumerate(top)}
    return tuple(sorted(made, key=lambda transaction: places[transaction.wait]))


def _completes_on_mbarrier(op: Operation) -> bool:
    row = row_of(op)
    return row is not None and _is_of_mbarriers(row)


def _is_of_mbarriers(row: Row) -> bool:
    return row.completion == "mbarrier"


def _check_form(op: Operation) -> None:
    """Whether copies of this form can run ahead; raises PipelineError (async-op-unsupported)."""
    why = ""
    if op.name not in TENSOR_LOADS:
        why = "it has no predicate, which ends the copies"
    elif "im2col" in named(op) or is_im2col(op):
        why = "in im2col mode the box is not what the tile's type says"
    if why:
        raise PipelineError(
            f"cannot pipeline: '{op.name}' completes on an mbarrier, and is not made to run ahead: "
            f"{why}",
            code="async-op-unsupported",
            at=op,
            advice=f"write it as '{TENSOR_LOADS[0]}' of a tiled map into this block, or as "
            "nvgpu.device_async_copy",
        )


def _unfit(use: PhaseUse) -> str:
    if use in ("expect", "copy"):
        return "every thread issues it, and a phase has one arrival; give it a predicate"
    return "it is no part of copying a tile: only arrive.expect_tx, copies and a try_wait are"


def _mbarrier(op: Operation) -> tuple[Value, int]:
    found = mbarrier_named(op)
    if found is None:
        raise _incomplete(op, "its mbarrier is not a group's with a constant number")
    return found


def _complete(barriers: Value, number: int, parts: dict[str, list[Operation]]) -> Transaction:
    first = next(op for ops in (parts["copy"], parts["expect"], parts["wait"]) for op in ops)
    for use, what in (("expect", "arrive.expect_tx"), ("wait", "try_wait.parity")):
        if len(parts[use]) != 1:
            some = "no" if not parts[use] else "more than one"
            raise _incomplete(first, f"the iteration has {some} {what} for its mbarrier")
    (expect,), (wait,), copies = parts["expect"], parts["wait"], parts["copy"]
    if not copies:
        raise _incomplete(expect, "no copy of the iteration completes on its mbarrier")
    block = list(operations(expect.block))
    if any(block.index(op) > block.index(wait) for op in (expect, *copies)):
        raise _incomplete(wait, "it waits before the copies of its iteration are issued")
    return Transaction(barriers, number, expect, tuple(copies), wait)


def _check_bytes(transaction: Transaction) -> None:
    """The bytes that are announced are those of whole boxes, zeros outside of the tensor too."""
    if any("multicast" in named(copy) for copy in transaction.copies):
        # What other blocks bring counts too (`cluster_plan`).
        return
    announced = operand(transaction.expect, "bytes")
    given = None if announced is None else constant_value(announced)
    sizes = [bytes_of(copy) for copy in transaction.copies]
    # What the maps of nvvm's form describe is often not to be seen.
    known = [size for size in sizes if size is not None]
    whole = sum(known)
    if len(known) == len(sizes) and given is not None and given != whole:
        raise PipelineError(
            f"cannot pipeline: {given} bytes are announced, and the copies of the phase bring "
            f"{whole}",
            code="transaction-bytes",
            at=transaction.expect,
            notes=tuple(("a copy of the phase", copy) for copy in transaction.copies),
            advice="announce the bytes of the whole boxes; what is out of bounds counts as zeros",
        )


def bytes_of(copy: Operation) -> int | None:
    """The bytes that a tensor copy brings to a block, None if that is not to be seen."""
    kind = copy.operands[operand_number(copy, "destination")].type
    if str(kind).startswith("memref<"):
        return product(kind.shape) * element_bytes(kind)
    return box_bytes(copy)


def _incomplete(op: Operation, why: str) -> PipelineError:
    return PipelineError(
        f"cannot pipeline: '{op.name}' is not part of a transaction that can be moved: {why}",
        code="transaction-incomplete",
        at=op,
        advice="write each iteration as if it were alone: arrive.expect_tx and its copies by one "
        "thread, then try_wait.parity by all (docs/hopper.md)",
    )
