"""Pass `async-pipe-drop-barriers`: drops the barriers that no two threads need, on IR that anybody wrote.

    store %a[%tid]                               store %a[%tid]
    gpu.barrier                        -->       load %a[%tid]
    load %a[%tid]                                gpu.barrier
    gpu.barrier                                  load %a[%other]
    gpu.barrier
    load %a[%other]

Only in kernels that the checker proves safe, and a barrier goes only if it proves the kernel without it, for
several threads along all axes of a block of unknown size. Its first run names the barriers that accesses rely on;
the others are tried together, then half by half, those in the deepest loops first. What is left is minimal: without
any one of them the kernel is not proven (what is needed among many is needed among fewer).

Barriers that may order more than the checker compares stay: those of kernels with atomic accesses,
whose results depend on their order although they never race; with flags and fences, by which what all
threads did before a barrier precedes what one thread releases after it; with unknown ops or
functions; and with mbarriers, which are judged separately.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    Operation,
    Value,
    ancestor_in_block,
    ancestors,
    attributes_of,
    before,
    create,
    edited,
    enclosing,
    function_name,
    has_body,
    is_kernel,
    operations,
    walk,
    walk_named,
)
from mlir_async_pipe.checker.kernel import KernelVerdict, ModuleKernels, check_kernel, surroundings
from mlir_async_pipe.checker.promises import CheckOptions
from mlir_async_pipe.checker.selection import (
    Callees,
    callee_of,
    kernels,
    releases_flags,
    with_callees,
)
from mlir_async_pipe.chips.target import ChipOptions, Target, target_for
from mlir_async_pipe.facts.flow.algorithms import by_halves
from mlir_async_pipe.facts.loops.annotations import BARRIERS, DRAIN, remove
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.session.diagnostics import HazardError, Place
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import flag_order, is_wait_name, named_row, row_of
from mlir_async_pipe.vocabulary.barriers import write_fence
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CALL_OPS,
    DEAD_ENDS,
    EXIT_OPS,
    LOOP_OPS,
    REGION_ROWS,
    SCOPE,
)
from mlir_async_pipe.vocabulary.rows import UNORDERED

_CONTROL = {*REGION_ROWS, *EXIT_OPS, *BRANCH_ROWS, *DEAD_ENDS}


@dataclass(frozen=True)
class DropBarrierOptions(ChipOptions):
    """Options of `async-pipe-drop-barriers`. `trials` bounds how often a kernel is checked without some of its barriers.
    `pipelined_only`: leave functions alone in which this run has pipelined no loop."""

    assume_noalias_arguments: bool = False
    trials: int = 32
    pipelined_only: bool = False


@dataclass(frozen=True)
class DroppedBarrier:
    place: Place
    op: str


# What the checker said of kernels as they are now, by what it was asked with.
Proven = dict[CheckOptions, dict[Operation, KernelVerdict]]
NOTHING_PROVEN: Proven = {}


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
    """Drop barriers of one kernel; what the checker says of it as it is now, None if it was not asked."""
    described = walk_named(kernel, lambda name: named_row(name).described)
    barriers = [op for op in described if _orders_memory(op)]
    if not barriers or not is_kernel(kernel):
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

    def is_proven() -> bool:
        return _is_proven(check_kernel(kernel, around, target, promised, until_found=True))

    places = {op: Place.of(op) for op in doubtful}
    dropped = by_halves(doubtful, lambda some: _can_go(some, is_proven), options.trials)
    for op in dropped:
        session.record("needless", DroppedBarrier(places[op], op.name))
        said = f"'{op.name}' is dropped: no two threads need it"
        session.diagnostics.remark(said, code="needless-barrier", at=places[op])
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
    if row.phase is not None or row.fence is not None or flag_order(op) != UNORDERED:
        return False
    return row.known or row.pure or row.harmless or op.name in _CONTROL


def _can_go(barriers: list[Operation], is_proven: Callable[[], bool]) -> bool:
    """Take the barriers out, and put them back if the kernel is not proven without them."""
    places = []
    for op in barriers:
        siblings = operations(op.block)
        places.append((op, siblings[siblings.index(op) + 1]))
        op.detach_from_parent()
    edited()
    if is_proven():
        return True
    for op, following in reversed(places):
        ir.InsertionPoint(following).insert(op)
    edited()
    return False


@dataclass(frozen=True)
class DrainRecord:
    """A wait that was dropped: after a loop, or for what was waited for before."""

    place: Place


@register("async-pipe-drop-drains", "drop waits after loops that nobody needs", ChipOptions)
def run_drains(module: Any, options: ChipOptions, session: Session) -> None:
    """Drops the waits after pipelined loops that nobody needs.

        scf.for { … copy -> %row[%i] }                      scf.for { … copy -> %row[%i] }
        wait %last   {async_pipe.drain}             -->
        scf.for { copy -> %b; wait; use %b, %row }          scf.for { copy -> %b; wait; use %b, %row }

        wait %g                                             wait %g
        scf.for { copy; commit; wait %g; … }       -->      scf.for { copy; commit; … }

    The expander waits after a loop for the groups that the loop leaves in flight. Where a later
    wait of the same queue retires them before anybody touches their memory, the next loop may begin
    while they are still in flight. A wait for a token that was waited for on every path to it retires
    only what was issued since; it is tried where all of the kernel is proven.

    By a flag that is released after a wait other threads learn that what the wait retired is over. So waits
    of kernels that order memory by flags or fences stay.

    Waits are tried one by one. A wait is dropped if the checker finds nothing new without it, and no copy
    is left in flight at the kernel's end. Only in kernels, whose memory no caller sees, and only where every
    op was followed.

    """
    target = target_for(options, session)
    if not _candidates(module):
        return
    found = [kernel for kernel in kernels(module) if _candidates(kernel)]
    around = surroundings(module, found) if found else None
    for kernel in found:
        drains = [(op, DRAIN in op.attributes) for op in _candidates(kernel)]
        for op, _ in drains:
            remove(op, (DRAIN,))
        if around is None or not is_kernel(kernel) or releases_flags(kernel, around.callees):
            continue
        known = check_kernel(kernel, around, target, each_unfinished=True)
        if any(finding.cause == "unfollowed" for finding in known.findings):
            continue
        for drain, marked in drains:
            # A wait of the user's may serve accesses of which nothing is proven either way.
            if not marked and _hazards(known):
                continue
            place = Place.of(drain)
            if _dropped(drain, kernel, around, target, known):
                session.record("drains", DrainRecord(place))


def _candidates(kernel: Operation) -> list[Operation]:
    waited: dict[Value, list[Operation]] = {}
    found = []
    for op in walk_named(kernel, is_wait_name):
        row = row_of(op)
        by_token = row.wait is not None and row.wait.form == "token"
        tokens = list(op.operands) if by_token else []
        if DRAIN in op.attributes or (
            len(tokens) == 1
            and any(ancestor_in_block(op, w.block) for w in waited.get(tokens[0], ()))
        ):
            found.append(op)
        elif len(tokens) == 1:
            waited.setdefault(tokens[0], []).append(op)
    return found


def _dropped(
    drain: Operation, kernel: Operation, around: ModuleKernels, target: Any, known: KernelVerdict
) -> bool:
    """Erase the wait if nothing new is found without it, else leave it as it was."""
    siblings = operations(drain.block)
    following = siblings[siblings.index(drain) + 1]
    name, operands, location = drain.name, list(drain.operands), drain.location
    attributes = attributes_of(drain)
    drain.erase()
    clean = not (_hazards(known) or known.summary.unknown)
    without = check_kernel(kernel, around, target, each_unfinished=True, until_found=clean)
    if _hazards(without) <= _hazards(known) and without.summary.unknown <= known.summary.unknown:
        return True
    create(name, operands, (), attributes, ip=before(following), loc=location)
    return False


def _hazards(outcome: KernelVerdict) -> set[tuple[Any, ...]]:
    found: set[tuple[Any, ...]] = {(f.later, f.earlier, f.cause) for f in outcome.findings}
    return found | {(site,) for site in outcome.unfinished}


# Barriers that are missing --------------------------------------------------------------------

BARRIER_CAUSES = ("not-visible", "missing-barrier")


@dataclass(frozen=True)
class BarrierOptions(ChipOptions):
    """Options of `async-pipe-barriers`. `asked`: only in functions that say `async_pipe.barriers`."""

    assume_noalias_arguments: bool = False
    asked: bool = False


@dataclass(frozen=True)
class BarrierRecord:
    """One inserted barrier: before what, and because of which access."""

    place: Place
    op: str
    other_place: Place
    other_op: str


@register("async-pipe-barriers", "insert the thread barriers that are missing", BarrierOptions)
def run_insert(module: Any, options: BarrierOptions, session: Session) -> None:
    """Inserts the thread barriers that a kernel lacks, on IR that anybody wrote.

        nvgpu.device_async_wait %token              nvgpu.device_async_wait %token
        memref.load %tile[%opposite]         -->    gpu.barrier memfence [workgroup]
                                                    memref.load %tile[%opposite]

    The checker says which pairs of accesses meet from different threads without a barrier; one is put
    before the first such access, and the checker is asked again, until no pair is left. The expander places its own barriers from the schedule, so that this pass finds nothing
    to do after it. A barrier never stands where threads may disagree on control: it moves out
    before the divergent op, and where that does not separate the pair the kernel is
    refused (`divergent-barrier`).
    """
    asking = [op for op in walk_named(module, KERNEL_OPS.__contains__) if BARRIERS in op.attributes]
    if options.asked and not asking:
        return
    target = target_for(options, session)
    found = [kernel for kernel in kernels(module) if not options.asked or kernel in asking]
    around = surroundings(module, found)
    promised = CheckOptions(assume_noalias_arguments=options.assume_noalias_arguments)
    for kernel in found:
        guarded: set[Operation] = set()
        while True:
            outcome = check_kernel(kernel, around, target, promised)
            # Pairs of accesses that need a barrier between them; the textually first one gets it.
            missing = [
                (outcome.sites[finding.later], outcome.sites[finding.earlier])
                for finding in outcome.findings
                if finding.cause in BARRIER_CAUSES
            ]
            if not missing:
                _report_unfollowed(outcome, session)
                break
            order = {op: number for number, op in enumerate(walk(kernel))}
            first = min(missing, key=lambda pair: order.get(pair[0].op, len(order)))
            later, earlier = (site.op for site in first)
            place = _uniform_place(later)
            outer = None if place is None else _uniform_place(_outside_of_loops(place, earlier))
            if outer is not None and outer not in guarded:
                place = outer
            if place is None or place in guarded:
                said = f"'{later.name}' needs a barrier before it, but threads may disagree on whether they get there"
                notes = (("because of what this does in another thread", earlier),)
                raise HazardError(said, code="divergent-barrier", at=later, notes=notes)
            guarded.add(place)
            session.record(
                "barriers",
                BarrierRecord(Place.of(later), later.name, Place.of(earlier), earlier.name),
            )
            spaces = {site.space for pair in missing for site in pair}
            write_fence(spaces, before(place), place.location)
    for op in asking:
        del op.attributes[BARRIERS]


def _report_unfollowed(outcome: KernelVerdict, session: Session) -> None:
    """Where control is not followed nobody knows which barriers are missing."""
    for finding in outcome.findings:
        if finding.cause == "unfollowed":
            op = outcome.sites[finding.later].op
            said = f"cannot tell whether '{op.name}' needs a barrier ({finding.reason})"
            session.diagnostics.warning(said, code="unknown-hazard", at=op)


def _uniform_place(op: Operation) -> Operation | None:
    """`op`, or what stands around it and may not hold a barrier: a barrier goes before
    an op whose regions threads run differently, and before an async scope. None where
    threads part between blocks: before such a branch it orders too little."""
    uniformity = Uniformity()
    place = op
    while True:
        around = enclosing(place, (SCOPE,)) or uniformity.divergent_control(place)
        if around is None:
            return place
        if len(list(around.successors)):
            return None
        place = around


def _outside_of_loops(op: Operation, earlier: Operation) -> Operation:
    """The outermost loop around `op` in which nothing has to be waited for: neither the other
    end nor a wait stands in it. A barrier before it serves all iterations; or `op` itself.

    wait                               wait
    scf.for %j { load %tile[%j] } -->  barrier
                                       scf.for %j { load %tile[%j] }
    """
    place = op
    for around in ancestors(op):
        inside = list(walk(around))
        rows = map(row_of, inside)
        synchronises = any(row.wait is not None or row.barrier is not None for row in rows)
        if around.name not in LOOP_OPS or earlier in inside or synchronises:
            return place
        place = around
    return place
