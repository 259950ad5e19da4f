"""Lowers the abstract async ops (TVM RFC 0077) to what a chip has.

    "async_pipe.scope"() ({ load; store }) {queue = 0}   -->  nvgpu.device_async_copy …
    %t = "async_pipe.commit_queue"() {queue = 0}         -->  %t = nvgpu.device_async_create_group
    "async_pipe.wait_queue"(%t) {queue = 0, count = 1}   -->  nvgpu.device_async_wait %t {numGroups = 1}

What runs in place and what vanishes with it is decided first (`abstract_plan`). cp.async has one
FIFO, so all abstract queues share it: counts made on separate queues stay as they are, which is
safe, since more groups in the FIFO make a wait for at most N only stricter. Where a commit
vanished all counts are made again, and where anything did the checker proves what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    before,
    create,
    functions,
    integer_attribute,
    is_used,
    operations,
    set_integer,
    symbol_name,
    walk,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import end_with_yield
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.flow.algorithms import joined
from mlir_async_pipe.lowering.nvvm.nvidia_ops import create_copies, create_group, create_wait
from mlir_async_pipe.lowering.scopes.masked_loads import NONZERO_FILL
from mlir_async_pipe.lowering.scopes.scope_copies import (
    CopyPair,
    NotCopies,
    Refuse,
    ScopeCopies,
    classify,
)
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import LoweringError, Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Access
from mlir_async_pipe.vocabulary.async_ops import count_operand, no_group, queue_number, tokens_of
from mlir_async_pipe.vocabulary.control_flow import SCOPE, callee_name
from mlir_async_pipe.vocabulary.rows import CP_ASYNC
from mlir_async_pipe.waits.dynamic import possible_counts, wait_for_one_of


def lower_abstract_ops(
    root: Any, chip: Chip, session: Session, *, strict: bool, refuse: Refuse | None = None
) -> None:
    """Lower the abstract ops of every function below `root`.

    `refuse` says of a copy why the chip cannot issue it although it has the size.

    Raises LoweringError (nonzero-fill) where a masked copy leaves something else than zeros,
    (sync-fallback) with `strict` where a scope must run in place, and (lost-wait) where a copy is
    in flight at an access that only a wait which vanished covered.
    """
    plans = plan_functions(root, chip, refuse)
    for plan in plans:
        _report(plan, chip, session, strict)
    gone = [commit for plan in plans for commit in plan.commits.gone]
    for plan in plans:
        _remove_waits(plan, gone)
    for commit in gone:
        _erase_commit(commit)
    if gone:
        # While tokens and queues can still be seen, which consumer_wait needs too.
        passes.run_one("async-pipe-count-waits", root, session, chip=chip.name)
    for plan in plans:
        _lower_the_rest(plan)
    if gone or any(plan.waits.gone for plan in plans):
        _check_what_is_left(root, chip, session)


def _report(plan: AbstractOpsPlan, chip: Chip, session: Session, strict: bool) -> None:
    reported: set[tuple[Place, str]] = set()

    def is_new(at: Operation, what: str) -> bool:
        """Prologue, kernel and epilogue hold copies of one scope of the input: reported once."""
        known = (Place.of(at), what) in reported
        reported.add((Place.of(at), what))
        return not known

    for scope, kind in plan.scopes:
        if isinstance(kind, NotCopies):
            if is_new(scope, kind.reason):
                _report_in_place(scope, kind, chip, session, strict)
            continue
        for pair in kind.pairs:
            if pair.width.narrowed_by is not None and is_new(pair.store, "narrow"):
                _report_narrow(pair, pair.width.narrowed_by, session)
    queues = plan.asynchronous_queues
    if len(queues) > 1:
        listed = ", ".join("not constant" if q is None else str(q) for q in sorted(queues, key=str))
        session.diagnostics.remark(
            f"queues {listed} of '{symbol_name(plan.function)}' share one FIFO on {chip.name}; "
            "given counts stay, which is safe",
            code="queues-merged",
            at=plan.function,
        )
    for wait in plan.waits.kept:
        if queue_number(wait) is None:
            said = "the queue of this wait is not constant, so it waits for all groups"
            session.diagnostics.remark(said, code="dynamic-queue", at=wait)


def _report_in_place(
    scope: Operation, kind: NotCopies, chip: Chip, session: Session, strict: bool
) -> None:
    if kind.code == NONZERO_FILL:
        raise LoweringError(
            f"{chip.name} cannot copy this: {kind.reason}",
            code="nonzero-fill",
            at=kind.at,
            notes=(("the scope that it is copied in", scope),),
            advice="load zeros there, and put the other value in where the copy is read",
        )
    notes = ((kind.reason, kind.at),)
    if strict:
        why = f"{chip.name} cannot run this scope asynchronously"
        raise LoweringError(why, code="sync-fallback", at=scope, notes=notes)
    said = f"this scope runs in place: {chip.name} cannot run it asynchronously"
    session.diagnostics.warning(said, code="sync-fallback", at=scope, notes=notes)


def _report_narrow(pair: CopyPair, narrow: Access, session: Session) -> None:
    session.diagnostics.remark(
        f"copied {pair.width.piece_bytes} bytes at a time: nothing says that the addresses of "
        f"'{narrow.op.name}' are aligned for more",
        code="narrow-copies",
        at=narrow.op,
        notes=(
            (
                "state it with `llvm.align` on the argument, `memref.assume_alignment`, or "
                "`alignment` on a vector.load or vector.store",
                narrow.op,
            ),
        ),
    )


def _remove_waits(plan: AbstractOpsPlan, gone: list[Operation]) -> None:
    """Erase the waits and markers of queues on which nothing is asynchronous.

    A count without tokens cannot be made again: where it may include a commit that goes, all
    groups are waited for.
    """
    for op in plan.waits.gone + plan.markers.gone:
        op.erase()
    for wait in plan.waits.kept:
        counted = wait.name == "async_pipe.wait_queue" and not tokens_of(wait)
        if counted and any(may_share(commit, wait) for commit in gone):
            set_integer(wait, "count", 0, 64)


def _lower_the_rest(plan: AbstractOpsPlan) -> None:
    for marker in plan.markers.kept:
        marker.erase()
    for wait in plan.waits.kept:
        _lower_wait(wait)
    for commit in plan.commits.kept:
        group = create_group(before(commit), commit.location)
        commit.results[0].replace_all_uses_with(group.results[0])
        commit.erase()
    # Inner scopes stand after outer ones in pre-order: from the inside out.
    for scope, kind in reversed(plan.scopes):
        if isinstance(kind, ScopeCopies):
            for pair in kind.pairs:
                create_copies(pair)
        inline_scope(scope)


# What a wait that vanished would have prevented; barriers between threads are untouched.
_IN_FLIGHT = ("read-in-flight", "overwrite-in-flight", "source-overwritten", "atomic-in-flight")


def _check_what_is_left(root: Any, chip: Chip, session: Session) -> None:
    """Waits and groups of a queue that runs in place are gone: nothing may have relied on them.

    Raises LoweringError (lost-wait), a warning where hazards are only warned of.
    """
    found = Session()
    passes.run_one("async-pipe-check", root, found, chip=chip.name)
    for hazard in found.report().of("hazards"):
        if hazard.verdict != "unsafe" or hazard.code not in _IN_FLIGHT:
            continue
        error = LoweringError(
            f"'{hazard.op}' meets '{hazard.other_op}' in flight ({hazard.code}): the wait between "
            f"them is on a queue that runs in place on {chip.name}",
            code="lost-wait",
            at=hazard.place,
            notes=(("this op is in flight there", hazard.other_place),),
            advice="wait for the group of the copy itself",
        )
        if session.hazards != "warning":
            raise error
        session.diagnostics.warning(error.diagnostic.message, code=error.code, at=hazard.place)


def _erase_commit(commit: Operation) -> None:
    """Erase a commit, whose token no wait needs any more."""
    if is_used(commit.results[0]):
        commit.results[0].replace_all_uses_with(no_group(before(commit), commit.location))
    commit.erase()


def _lower_wait(wait: Operation) -> None:
    """Lower one wait; a count that is an operand becomes a switch over what can occur."""
    tokens, dynamic = tokens_of(wait), count_operand(wait)
    token = tokens[-1] if tokens else None
    count = integer_attribute(wait, "count")
    if queue_number(wait) is None:
        count = 0

    def make(number: int | None, ip: Any) -> None:
        create_wait(number, token, ip, wait.location)

    if count is not None or dynamic is None:
        make(count, before(wait))
        wait.erase()
    else:
        counts = possible_counts(dynamic, CP_ASYNC, wait)
        wait_for_one_of(wait, dynamic, counts or {0: 0}, make)


# Scopes inlined ------------------------------------------------------------------------------
#
# Puts the ops of an `async_pipe.scope` where the scope stands.
#
#     "async_pipe.scope"() ({ a; b; yield })   -->  a; b
#
# Several blocks (a scope with conditions, after convert-scf-to-cf) become an
# scf.execute_region, which may stand inside any loop or condition, and which a later
# convert-scf-to-cf dissolves.


def inline_scope(scope: Operation) -> None:
    blocks = list(scope.regions[0].blocks)
    if len(blocks) == 1:
        *body, end = operations(blocks[0])
        end.erase()
        for op in body:
            op.move_before(scope)
        scope.erase()
        return
    region = create("scf.execute_region", regions=1, ip=before(scope), loc=scope.location)
    for block in blocks:
        block.append_to(region.regions[0])
    for block in list(region.regions[0].blocks):
        if operations(block)[-1].name == "async_pipe.yield":
            end_with_yield(block, ())
    scope.erase()


# Decides what becomes of the abstract async ops of a module, before anything is rewritten.
#
# Scopes that copy stay asynchronous, others run in place. A queue on which everything runs in
# place is gone, with its commits and its waits. On a queue that also copies a commit that certainly
# covers no copy goes if nobody names its group; else it stays, as an empty group: waits for it
# retire the copies before it, as a FIFO does, and one group more makes other waits only stricter
# (N groups younger than the one needed is a lower bound).

COMMIT = "async_pipe.commit_queue"
WAITS = ("async_pipe.wait_queue", "async_pipe.consumer_wait")
MARKERS = ("async_pipe.producer_acquire", "async_pipe.consumer_release")

Kinds = dict[Operation, ScopeCopies | NotCopies]


@dataclass
class Decided:
    """Ops of one kind: those that stay, and those that go with what runs in place."""

    kept: list[Operation] = field(default_factory=list)
    gone: list[Operation] = field(default_factory=list)


@dataclass
class AbstractOpsPlan:
    """What becomes of every abstract op of one function."""

    function: Operation
    scopes: list[tuple[Operation, ScopeCopies | NotCopies]] = field(default_factory=list)
    commits: Decided = field(default_factory=Decided)
    waits: Decided = field(default_factory=Decided)
    markers: Decided = field(default_factory=Decided)

    @property
    def asynchronous_queues(self) -> set[int | None]:
        """The abstract queues with at least one asynchronous scope; None: not constant."""
        return {queue_number(s) for s, found in self.scopes if isinstance(found, ScopeCopies)}


def plan_functions(root: Any, chip: Chip, refuse: Refuse | None) -> list[AbstractOpsPlan]:
    """Decide about the abstract ops of every function below `root` that has any.

    Queues belong to a thread, not to a function: a commit also covers copies that callees
    issued, so what is on a queue is asked of all functions that calls connect.
    """
    plans = [AbstractOpsPlan(function) for function in functions(root)]
    for plan in plans:
        ops = walk_named(plan.function, SCOPE.__eq__)
        plan.scopes = [(op, classify(op, chip, refuse)) for op in ops]
    for connected in _connected(plans):
        kinds = {op: kind for plan in connected for op, kind in plan.scopes}
        leaking = _leaking_queues(kinds)
        for plan in connected:
            _decide(plan, kinds, leaking)
    empty = (Decided(),) * 3
    return [p for p in plans if p.scopes or (p.commits, p.waits, p.markers) != empty]


def _connected(plans: list[AbstractOpsPlan]) -> list[list[AbstractOpsPlan]]:
    """The functions in groups: one calls another, or both call or are called by a third."""
    names = [symbol_name(plan.function) for plan in plans]
    calls = (
        (name, callee_name(op))
        for name, p in zip(names, plans, strict=True)
        for op in walk(p.function)
    )
    parts = joined(names, ((name, callee) for name, callee in calls if callee in names))
    return [[plan for plan in plans if symbol_name(plan.function) in part] for part in parts]


def _decide(plan: AbstractOpsPlan, kinds: Kinds, leaking: set[int | None]) -> None:
    decided = {COMMIT: plan.commits, **dict.fromkeys(WAITS, plan.waits)}
    decided |= dict.fromkeys(MARKERS, plan.markers)
    for op in walk_named(plan.function, decided.__contains__):
        unnamed = op.name == COMMIT and not is_used(op.results[0])
        gone = _is_gone(op, kinds) or (unnamed and _covers_only_sync(op, kinds, leaking))
        (decided[op.name].gone if gone else decided[op.name].kept).append(op)


def _is_gone(op: Operation, kinds: Kinds) -> bool:
    """Whether everything on the op's queue runs in place (and something does)."""
    found = [kind for scope, kind in kinds.items() if may_share(scope, op)]
    return bool(found) and all(isinstance(kind, NotCopies) for kind in found)


def _leaking_queues(kinds: Kinds) -> set[int | None]:
    """Queues with an asynchronous scope that is not committed after it in its own block.

    Such a scope may be covered by any later commit of its queue.
    """
    found = set()
    for scope, kind in kinds.items():
        queue, siblings = queue_number(scope), operations(scope.block)
        following = siblings[siblings.index(scope) + 1 :]
        committed = any(op.name == COMMIT and queue_number(op) == queue for op in following)
        if isinstance(kind, ScopeCopies) and not (committed and queue is not None):
            found.add(queue)
    return found


def _covers_only_sync(commit: Operation, kinds: Kinds, leaking: set[int | None]) -> bool:
    """Whether the commit certainly covers a scope that runs in place, and no asynchronous copy."""
    queue = queue_number(commit)
    if queue is None or queue in leaking or None in leaking:
        return False
    covers_sync = False
    siblings = operations(commit.block)
    for op in reversed(siblings[: siblings.index(commit)]):
        if op.name == COMMIT and queue_number(op) == queue:
            break
        for inner in walk(op):
            kind = kinds.get(inner)
            if kind is None or not may_share(inner, commit):
                continue
            if isinstance(kind, ScopeCopies):
                return False
            covers_sync = True
    return covers_sync


def may_share(a: Operation, b: Operation) -> bool:
    """Whether two abstract ops may be of one queue."""
    first, second = queue_number(a), queue_number(b)
    return first is None or second is None or first == second
