"""The pass `async-pipe-check`: does any access race with an async op, on any path?

    session.records["hazards"]     one Hazard a pair of accesses that races or may race
    session.records["checks"]      one CheckSummary a kernel
    session.records["roles"]       one RoleUse for each op on mbarriers of each role

Nothing is executed and nothing is edited: numbers are kept as forms over iteration numbers and thread ids, states of
queues are followed along all paths until they repeat. An access is *safe* if no path has a conflict, *unsafe* (an error
with two notes) if one certainly has, else *unknown* (a warning with a reason).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlir_async_pipe.bindings.raw_ops import symbol_name
from mlir_async_pipe.checker import hazards
from mlir_async_pipe.checker.as_read import as_read
from mlir_async_pipe.checker.hazards import CheckSummary, Hazard
from mlir_async_pipe.checker.kernel import KernelVerdict, check_kernel, surroundings
from mlir_async_pipe.checker.promises import CheckOptions
from mlir_async_pipe.checker.selection import kernels
from mlir_async_pipe.checker.unfollowed import REASON, homeless
from mlir_async_pipe.chips.target import target_for
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary.memory_names import lost_values

__all__ = ["CheckOptions", "CheckSummary", "Hazard", "run"]


@passes.register(
    "async-pipe-check", "prove that no access races with an async op in flight", CheckOptions
)
def run(module: Any, options: CheckOptions, session: Session) -> None:
    """Check all kernels of a module; hazards are kept as errors in the session."""
    check(module, options, session, {})


def check(
    module: Any, options: CheckOptions, session: Session, known: Mapping[Any, KernelVerdict]
) -> None:
    """The same, where the outcomes of kernels that are `known` need not be found again."""
    target = target_for(options, session)
    module = as_read(module.operation, options)
    found = kernels(module)
    around = surroundings(module, found)
    for kernel in found:
        outcome = known.get(kernel) or check_kernel(kernel, around, target, options)
        _report(outcome, session)
        _remark(outcome, session)
    _report_homeless(module, session)
    for declared in lost_values(module.operation):
        session.diagnostics.warning(
            f"workgroup memory has no initial values: those of '{symbol_name(declared)}' are lost",
            code="lost-values",
            at=declared,
            notes=(("declare it uninitialized, and let the kernel store them", declared),),
        )


def _report(outcome: KernelVerdict, session: Session) -> None:
    """Record every finding; say one for each access and code, that with the smallest count."""
    sites, ops = outcome.sites, outcome.ops
    for finding in outcome.findings:
        session.record("hazards", hazards.record_of(finding, sites, ops, outcome.summary.function))
    unsafe = {finding.later for finding in outcome.findings if finding.certain}
    # Of one line there are several ops where a loop was unrolled or has a prologue.
    reported: set[tuple[str, Place]] = set()
    for finding in hazards.worst_of_each(outcome.findings, sites):
        if finding.certain:
            session.diagnostics.error(hazards.error_of(finding, sites, ops))
        elif finding.later not in unsafe:
            at = sites[finding.later].op
            message = f"cannot tell whether {hazards.sentence(finding, sites)} ({finding.reason})"
            place = Place.of(at)
            if (message, place) in reported:
                continue
            if place.line:
                reported.add((message, place))
            session.diagnostics.warning(
                message,
                code="unknown-hazard",
                at=at,
                notes=(*hazards.notes(finding, sites, ops), *hazards.advice(finding, sites)),
            )
    for number in outcome.in_scope:
        session.record("hazards", hazards.record_in_scope(ops[number], outcome.summary.function))
        session.diagnostics.error(hazards.error_in_scope(ops[number]))
    for use in outcome.roles:
        session.record("roles", use)
    session.record("checks", outcome.summary)


def _report_homeless(module: Any, session: Session) -> None:
    """What stands in no function and no launch is in no kernel, and nobody follows it."""
    found = list(homeless(module))
    for op in found:
        session.diagnostics.warning(
            f"cannot tell whether '{op.name}' races: it stands in no function ({REASON})",
            code="unknown-hazard",
            at=op,
        )
    if found:
        number = len(found)
        session.record("checks", CheckSummary("", number, 0, number, {REASON: number}, 0))


def _remark(outcome: KernelVerdict, session: Session) -> None:
    """What the user may want to know although no access in the kernel races."""
    for number in outcome.one_value:
        op = outcome.sites[number].op
        session.diagnostics.remark(
            f"all lanes of a warp store one value to one place in '{op.name}': one of them would do",
            code="same-value",
            at=op,
        )
    for number in outcome.left:
        op = outcome.sites[number].op
        session.diagnostics.remark(
            f"'{op.name}' may still be writing when the function ends: no wait covers it",
            code="unwaited-copy",
            at=op,
        )
