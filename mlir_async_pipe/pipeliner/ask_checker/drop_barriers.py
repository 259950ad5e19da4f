"""Drops the barriers that no two threads need, on IR that anybody wrote.

    store %a[%tid]                               store %a[%tid]
    gpu.barrier                        -->       load %a[%tid]
    load %a[%tid]                                gpu.barrier
    gpu.barrier                                  load %a[%other]
    gpu.barrier
    load %a[%other]

Only in kernels that the checker proves safe, and a barrier goes only if it proves the kernel without
it, for several threads along all axes of a block of unknown size. Its first run names the barriers
that accesses rely on; the others are tried together, then half by half, those in the deepest loops
first. What is left is minimal: without any one of them the kernel is not proven (what is needed
among many is needed among fewer).

Barriers that may order more than the checker compares stay: those of kernels with atomic accesses,
whose results depend on their order although they never race; with flags and fences, by which what all
threads did before a barrier precedes what one thread releases after it; with unknown ops or
functions; and with mbarriers, which are judged separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    ancestors,
    edited,
    function_name,
    has_body,
    is_kernel,
    operations,
    walk_named,
)
from mlir_async_pipe.checker.as_read import CheckOptions
from mlir_async_pipe.checker.kernel import KernelVerdict, ModuleKernels, check_kernel, surroundings
from mlir_async_pipe.checker.selection import Callees, callee_of, kernels, with_callees
from mlir_async_pipe.chips.target import Target, target_for
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import flag_order, named_row, row_of
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CALL_OPS,
    DEAD_ENDS,
    EXIT_OPS,
    LOOP_OPS,
    REGION_ROWS,
)
from mlir_async_pipe.vocabulary.rows import UNORDERED

_CONTROL = {*REGION_ROWS, *EXIT_OPS, *BRANCH_ROWS, *DEAD_ENDS}


@dataclass(frozen=True)
class DropBarrierOptions:
    """Options of `async-pipe-drop-barriers`.

    `chip` says which queues abstract ops share. `assume_noalias_arguments`: no two function
    arguments point to the same memory. `trials` bounds how often a kernel is checked without some
    of its barriers. `pipelined_only`: leave functions alone in which this run has pipelined no loop.
    """

    chip: str = ""
    assume_noalias_arguments: bool = False
    trials: int = 32
    pipelined_only: bool = False


@dataclass(frozen=True)
class DroppedBarrier:
    place: Place
    op: str


@dataclass(frozen=True)
class Proven:
    """What the checker said of `kernels` as they are now, asked with these options."""

    options: DropBarrierOptions
    kernels: Mapping[Operation, KernelVerdict]

    def joined(
        self, options: DropBarrierOptions, more: Mapping[Operation, KernelVerdict]
    ) -> Proven:
        """The same and what it says of more kernels, asked with other options than nothing was."""
        return Proven(options, {**self.kernels, **more})

    def of(self, options: CheckOptions) -> Mapping[Operation, KernelVerdict]:
        """The outcomes, if a check with these options would ask the same."""
        ours = CheckOptions(self.options.chip, self.options.assume_noalias_arguments)
        return self.kernels if options == ours else {}


NOTHING_PROVEN = Proven(DropBarrierOptions(), {})


@register("async-pipe-drop-barriers", "drop barriers that no two threads need", DropBarrierOptions)
def run(module: Any, options: DropBarrierOptions, session: Session) -> None:
    drop(module, options, session)


def drop(
    module: Any, options: DropBarrierOptions, session: Session
) -> dict[Operation, KernelVerdict]:
    """The same. Returns what the checker has said of kernels as they are now."""
    pipelined = {record.function for record in session.records.get("loops", ())}
    target = target_for(options, session)
    found = kernels(module)
    around = surroundings(module, found)
    known = {}
    for kernel in found:
        if options.pipelined_only and function_name(kernel) not in pipelined:
            continue
        outcome = _drop_in(kernel, around, target, options, session)
        if outcome is not None:
            known[kernel] = outcome
    return known


def _drop_in(
    kernel: Operation,
    around: ModuleKernels,
    target: Target | None,
    options: DropBarrierOptions,
    session: Session,
) -> KernelVerdict | None:
    """Drop barriers of one kernel. Returns what the checker says of it; None where it was not asked
    about the kernel as it is now."""
    barriers = [
        op
        for op in walk_named(kernel, lambda name: named_row(name).described)
        if _orders_memory(op)
    ]
    if not barriers or not (kernel.name == "gpu.launch" or is_kernel(kernel)):
        return None
    promised = CheckOptions(assume_noalias_arguments=options.assume_noalias_arguments)
    outcome = check_kernel(kernel, around, target, promised)
    relied_on = {outcome.ops[number] for number in outcome.relied_on}
    doubtful = [op for op in barriers if op not in relied_on]
    if not (doubtful and _is_proven(outcome) and _is_compared(kernel, around, outcome)):
        return outcome
    inside = {op: sum(above.name in LOOP_OPS for above in ancestors(op)) for op in doubtful}
    doubtful.sort(key=inside.__getitem__, reverse=True)
    promised = replace(promised, assume_several_threads=True)
    trials = _Trials(kernel, around, target, promised, options.trials)
    places = {op: Place.of(op) for op in doubtful}
    dropped = list(trials.shrink(doubtful))
    for op in dropped:
        session.record("needless", DroppedBarrier(places[op], op.name))
        session.diagnostics.remark(
            f"'{op.name}' is dropped: no two threads need it",
            code="needless-barrier",
            at=places[op],
        )
    return None if dropped else outcome


def _orders_memory(op: Operation) -> bool:
    """Whether an op is nothing but a barrier of all threads, for some memory."""
    row = row_of(op)
    return row.barrier is not None and bool(row.barrier(op)) and not op.results


def _is_proven(outcome: KernelVerdict) -> bool:
    return not (outcome.findings or outcome.in_scope)


def _is_compared(kernel: Operation, around: ModuleKernels, outcome: KernelVerdict) -> bool:
    """Whether all that threads do to each other are accesses of which one has to be first."""
    return not any(site.atomic for site in outcome.sites) and all(
        _is_known(op, around.callees) for op in with_callees(kernel, around.callees)
    )


def _is_known(op: Operation, callees: Callees) -> bool:
    """Whether it is known what an op does to memory, and that it orders nothing, beside barriers."""
    row = row_of(op)
    if op.name in CALL_OPS and row.does == "unknown":
        callee = callee_of(op, callees)
        return callee is not None and has_body(callee)
    if row.phase is not None or row.fence is not None:
        return False
    if flag_order(op) != UNORDERED:
        return False
    return row.known or row.pure or row.harmless or op.name in _CONTROL


@dataclass
class _Trials:
    """Checks of one kernel without some of its barriers, of which so many are `left`."""

    kernel: Operation
    around: ModuleKernels
    target: Target | None
    promised: CheckOptions
    left: int

    def shrink(self, barriers: list[Operation]) -> Iterator[Operation]:
        """Take out as many of the barriers as can go; gives those that are out."""
        if not barriers or self.left <= 0:
            return
        if self._can_go(barriers):
            yield from barriers
        elif len(barriers) > 1:
            half = len(barriers) // 2
            yield from self.shrink(barriers[:half])
            yield from self.shrink(barriers[half:])

    def _can_go(self, barriers: list[Operation]) -> bool:
        """Take the barriers out, and put them back if the kernel is not proven without them."""
        self.left -= 1
        places = []
        for op in barriers:
            siblings = operations(op.block)
            places.append((op, siblings[siblings.index(op) + 1]))
            op.detach_from_parent()
        edited()
        without = check_kernel(
            self.kernel, self.around, self.target, self.promised, until_found=True
        )
        if _is_proven(without):
            return True
        for op, following in reversed(places):
            ir.InsertionPoint(following).insert(op)
        edited()
        return False
