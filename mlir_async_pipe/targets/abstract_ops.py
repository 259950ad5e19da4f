"""Lowers the abstract async ops (TVM RFC 0077) to what a chip has.

    "async_pipe.scope"() ({ load; store }) {queue = 0}   -->  nvgpu.device_async_copy …
    %t = "async_pipe.commit_queue"() {queue = 0}         -->  %t = nvgpu.device_async_create_group
    "async_pipe.wait_queue"(%t) {queue = 0, count = 1}   -->  nvgpu.device_async_wait %t {numGroups = 1}

All is decided before anything is rewritten. A scope that the chip cannot issue asynchronously
runs in place. If that holds for everything that a commit covers, the commit vanishes with the
waits for it; a commit that may cover a copy stays, for an additional group makes a wait only
stricter (N groups younger than the one needed is a lower bound). cp.async has one FIFO, so
all abstract queues share it: counts made on separate queues stay as they are, which is safe
for the same reason. Counts of token waits in functions where a commit vanished are made again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.affine import Arithmetic
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.diagnostics import LoweringError, Place
from mlir_async_pipe.ir_helpers import (
    Operation,
    Value,
    before,
    create,
    functions,
    integer_attribute,
    operations,
    symbol_name,
    walk,
)
from mlir_async_pipe.report import Session
from mlir_async_pipe.targets.chips import Chip
from mlir_async_pipe.targets.nvidia_ops import (
    TOKEN_TYPE,
    create_copies,
    create_group,
    create_wait,
)
from mlir_async_pipe.targets.scope_inlining import inline_scope
from mlir_async_pipe.targets.scopes import SCOPE, Copies, NotCopies, classify
from mlir_async_pipe.vocabulary.queues import CP_ASYNC

COMMIT = "async_pipe.commit_queue"
WAITS = ("async_pipe.wait_queue", "async_pipe.consumer_wait")
MARKERS = ("async_pipe.producer_acquire", "async_pipe.consumer_release")


@dataclass
class _Plan:
    """What becomes of every abstract op of one function."""

    function: Operation
    scopes: list[tuple[Operation, Copies | NotCopies]] = field(default_factory=list)
    kept_commits: list[Operation] = field(default_factory=list)
    gone_commits: list[Operation] = field(default_factory=list)
    kept_waits: list[Operation] = field(default_factory=list)
    gone_waits: list[Operation] = field(default_factory=list)
    markers: list[Operation] = field(default_factory=list)

    @property
    def asynchronous_queues(self) -> set[int | None]:
        """The abstract queues with at least one asynchronous scope; None: not constant."""
        return {queue_number(s) for s, found in self.scopes if isinstance(found, Copies)}


def lower_abstract_ops(root: Any, chip: Chip, session: Session, *, strict: bool) -> bool:
    """Lower the abstract ops of every function below `root`; returns whether counts changed.

    Raises LoweringError (sync-fallback) with `strict` where a scope must run in place.
    """
    plans = [plan for plan in (_plan(f, chip) for f in functions(root)) if plan is not None]
    for plan in plans:
        _report(plan, chip, session, strict)
    for plan in plans:
        _rewrite(plan)
    return any(plan.gone_commits for plan in plans)


def queue_number(op: Operation) -> int | None:
    """The abstract queue of an op, None where it is not constant."""
    return integer_attribute(op, "queue")


def _plan(function: Operation, chip: Chip) -> _Plan | None:
    """Decide about every abstract op of a function; None if it has none."""
    plan = _Plan(function)
    commits: list[Operation] = []
    waits: list[Operation] = []
    for op in walk(function):
        if op.name == SCOPE:
            plan.scopes.append((op, classify(op, chip)))
        elif op.name == COMMIT:
            commits.append(op)
        elif op.name in WAITS:
            waits.append(op)
        elif op.name in MARKERS:
            plan.markers.append(op)
    if not (plan.scopes or commits or waits or plan.markers):
        return None
    kinds = {op: found for op, found in plan.scopes}
    leaking = _leaking_queues(kinds)
    for commit in commits:
        gone = _covers_only_sync(commit, kinds, leaking)
        (plan.gone_commits if gone else plan.kept_commits).append(commit)
    for wait in waits:
        gone = _waits_for_nothing(wait, plan)
        (plan.gone_waits if gone else plan.kept_waits).append(wait)
    return plan


def _leaking_queues(kinds: dict[Operation, Copies | NotCopies]) -> set[int | None]:
    """Queues with an asynchronous scope that is not committed behind it in its own block.

    Such a scope may be covered by any later commit of its queue.
    """
    found = set()
    for scope, kind in kinds.items():
        siblings = operations(scope.block)
        behind = siblings[siblings.index(scope) + 1 :]
        committed = any(op.name == COMMIT and _may_share(op, scope) for op in behind)
        if isinstance(kind, Copies) and not committed:
            found.add(queue_number(scope))
    return found


def _covers_only_sync(
    commit: Operation, kinds: dict[Operation, Copies | NotCopies], leaking: set[int | None]
) -> bool:
    """Whether the commit surely covers a scope that runs in place, and no asynchronous copy."""
    queue = queue_number(commit)
    if all(isinstance(kind, NotCopies) for s, kind in kinds.items() if _may_share(s, commit)):
        return any(_may_share(scope, commit) for scope in kinds)
    if queue is None or queue in leaking or None in leaking:
        return False
    covers_sync = False
    siblings = operations(commit.block)
    for op in reversed(siblings[: siblings.index(commit)]):
        if op.name == COMMIT and queue_number(op) == queue:
            break
        for inner in walk(op):
            kind = kinds.get(inner)
            if kind is None or not _may_share(inner, commit):
                continue
            if isinstance(kind, Copies):
                return False
            covers_sync = True
    return covers_sync


def _may_share(a: Operation, b: Operation) -> bool:
    """Whether two abstract ops may be of one queue."""
    first, second = queue_number(a), queue_number(b)
    return first is None or second is None or first == second


def _waits_for_nothing(wait: Operation, plan: _Plan) -> bool:
    """Whether all that the wait waits for ran in place."""
    tokens = _tokens(wait)
    gone = {commit.results[0] for commit in plan.gone_commits}
    if tokens and all(token in gone for token in tokens):
        return True
    if not any(_may_share(commit, wait) for commit in plan.gone_commits):
        return False
    return not any(_may_share(commit, wait) for commit in plan.kept_commits)


def _tokens(wait: Operation) -> list[Value]:
    return [operand for operand in wait.operands if str(operand.type) == TOKEN_TYPE]


def _report(plan: _Plan, chip: Chip, session: Session, strict: bool) -> None:
    told: set[tuple[Place, str]] = set()
    for scope, kind in plan.scopes:
        # Prologue, kernel and epilogue hold copies of one scope of the input: said once.
        if not isinstance(kind, NotCopies) or (Place.of(scope), kind.reason) in told:
            continue
        told.add((Place.of(scope), kind.reason))
        notes = ((kind.reason, kind.at),)
        if strict:
            raise LoweringError(
                f"{chip.name} cannot run this scope asynchronously",
                code="sync-fallback",
                at=scope,
                notes=notes,
            )
        session.diagnostics.remark(
            f"this scope runs in place: {chip.name} cannot run it asynchronously",
            code="sync-fallback",
            at=scope,
            notes=notes,
        )
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


def _rewrite(plan: _Plan) -> None:
    for wait in plan.gone_waits + plan.markers:
        wait.erase()
    for commit in plan.gone_commits:
        _erase_commit(commit)
    for wait in plan.kept_waits:
        _lower_wait(wait)
    for commit in plan.kept_commits:
        group = create_group(before(commit), commit.location)
        commit.results[0].replace_all_uses_with(group.results[0])
        commit.erase()
    # Inner scopes stand behind outer ones in pre-order: from the inside out.
    for scope, kind in reversed(plan.scopes):
        if isinstance(kind, Copies):
            for pair in kind.pairs:
                create_copies(pair)
        inline_scope(scope)


def _erase_commit(commit: Operation) -> None:
    """Erase a commit; its token, which nobody waits for any more, becomes a constant.

    Tokens are i32 for the back end, and the cast goes when they are converted.
    """
    if len(list(commit.results[0].uses)) > 0:
        i32 = ir.IntegerType.get_signless(32, commit.context)
        zero = create(
            "arith.constant",
            results=[i32],
            attributes={"value": ir.IntegerAttr.get(i32, 0)},
            ip=before(commit),
            loc=commit.location,
        )
        token = create(
            "builtin.unrealized_conversion_cast",
            [zero.results[0]],
            [commit.results[0].type],
            ip=before(commit),
            loc=commit.location,
        )
        commit.results[0].replace_all_uses_with(token.results[0])
    commit.erase()


def _lower_wait(wait: Operation) -> None:
    """Lower one wait; a count that is an operand becomes a switch over what can occur."""
    tokens = _tokens(wait)
    numbers = [operand for operand in wait.operands if operand not in tokens]
    constant_queue = queue_number(wait) is not None
    dynamic = numbers[0] if constant_queue and numbers else None
    count = integer_attribute(wait, "count") if constant_queue else 0
    token = tokens[-1] if tokens else None
    if count is not None or dynamic is None:
        create_wait(count, token, before(wait), wait.location)
    else:
        _switch(dynamic, token, wait)
    wait.erase()


def _switch(count: Value, token: Value | None, wait: Operation) -> None:
    """wait(%n)  -->  scf.index_switch %n, a case for each number that %n can be, else 0."""
    low, high = Arithmetic().value_range(count)
    largest = CP_ASYNC.largest_count or 0
    if str(count.type) != "index" or low is None or high is None or high - low > largest:
        create_wait(0, token, before(wait), wait.location)
        return
    cases = [number for number in range(low, high + 1) if 0 < number <= largest]
    switch = create(
        "scf.index_switch",
        [count],
        attributes={"cases": ir.DenseI64ArrayAttr.get(cases, wait.context)},
        regions=1 + len(cases),
        ip=before(wait),
        loc=wait.location,
    )
    for region, number in zip(switch.regions, [0, *cases], strict=True):
        block = region.blocks.append()
        end = create("scf.yield", ip=ir.InsertionPoint(block), loc=wait.location)
        create_wait(number, token, before(end), wait.location)
