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

from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    before,
    create,
    integer_attribute,
    operations,
    set_integer,
    symbol_name,
)
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.lowering.nvvm.nvidia_ops import create_copies, create_group, create_wait
from mlir_async_pipe.lowering.scopes.abstract_plan import (
    Plan,
    may_share,
    plan_functions,
    queue_number,
)
from mlir_async_pipe.lowering.scopes.masked_loads import NONZERO_FILL
from mlir_async_pipe.lowering.scopes.scope_copies import (
    Copies,
    CopyPair,
    NotCopies,
    Refuse,
)
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import LoweringError, Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Access
from mlir_async_pipe.vocabulary.async_ops import count_operand, no_group, tokens_of
from mlir_async_pipe.vocabulary.rows import CP_ASYNC
from mlir_async_pipe.waits.run_time.count_operands import possible_counts, wait_for_one_of


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
    gone = [commit for plan in plans for commit in plan.gone_commits]
    for plan in plans:
        _remove_waits(plan, gone)
    for commit in gone:
        _erase_commit(commit)
    if gone:
        # While tokens and queues can still be seen, which consumer_wait needs too.
        counting = passes.find("async-pipe-count-waits")
        options = passes.with_defaults(counting.options(), {"chip": chip.name})
        counting.run(root, options, session)
    for plan in plans:
        _lower_the_rest(plan)
    if gone or any(plan.gone_waits for plan in plans):
        _check_what_is_left(root, chip, session)


def _report(plan: Plan, chip: Chip, session: Session, strict: bool) -> None:
    told: set[tuple[Place, str]] = set()

    def is_new(at: Operation, what: str) -> bool:
        """Prologue, kernel and epilogue hold copies of one scope of the input: reported once."""
        known = (Place.of(at), what) in told
        told.add((Place.of(at), what))
        return not known

    for scope, kind in plan.scopes:
        if isinstance(kind, NotCopies):
            if is_new(scope, kind.reason):
                _report_in_place(scope, kind, chip, session, strict)
            continue
        for pair in kind.pairs:
            if pair.narrowed_by is not None and is_new(pair.store, "narrow"):
                _report_narrow(pair, pair.narrowed_by, session)
    queues = plan.asynchronous_queues
    if len(queues) > 1:
        listed = ", ".join("not constant" if q is None else str(q) for q in sorted(queues, key=str))
        session.diagnostics.remark(
            f"queues {listed} of '{symbol_name(plan.function)}' share one FIFO on {chip.name}; "
            "given counts stay, which is safe",
            code="queues-merged",
            at=plan.function,
        )
    for wait in plan.kept_waits:
        if queue_number(wait) is None:
            session.diagnostics.remark(
                "the queue of this wait is not constant, so it waits for all groups",
                code="dynamic-queue",
                at=wait,
            )


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
        raise LoweringError(
            f"{chip.name} cannot run this scope asynchronously",
            code="sync-fallback",
            at=scope,
            notes=notes,
        )
    session.diagnostics.warning(
        f"this scope runs in place: {chip.name} cannot run it asynchronously",
        code="sync-fallback",
        at=scope,
        notes=notes,
    )


def _report_narrow(pair: CopyPair, narrow: Access, session: Session) -> None:
    session.diagnostics.remark(
        f"copied {pair.piece_bytes} bytes at a time: nothing says that the addresses of "
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


def _remove_waits(plan: Plan, gone: list[Operation]) -> None:
    """Erase the waits and markers of queues on which nothing is asynchronous.

    A count without tokens cannot be made again: where it may include a commit that goes, all
    groups are waited for.
    """
    for op in plan.gone_waits + plan.gone_markers:
        op.erase()
    for wait in plan.kept_waits:
        counted = wait.name == "async_pipe.wait_queue" and not tokens_of(wait)
        if counted and any(may_share(commit, wait) for commit in gone):
            set_integer(wait, "count", 0, 64)


def _lower_the_rest(plan: Plan) -> None:
    for marker in plan.markers:
        marker.erase()
    for wait in plan.kept_waits:
        _lower_wait(wait)
    for commit in plan.kept_commits:
        group = create_group(before(commit), commit.location)
        commit.results[0].replace_all_uses_with(group.results[0])
        commit.erase()
    # Inner scopes stand after outer ones in pre-order: from the inside out.
    for scope, kind in reversed(plan.scopes):
        if isinstance(kind, Copies):
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
    checking = passes.find("async-pipe-check")
    checking.run(root, passes.with_defaults(checking.options(), {"chip": chip.name}), found)
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
    if len(list(commit.results[0].uses)) > 0:
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
        end = operations(block)[-1]
        if end.name == "async_pipe.yield":
            create("scf.yield", ip=before(end), loc=end.location)
            end.erase()
    scope.erase()
