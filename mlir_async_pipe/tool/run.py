"""Runs the steps of a plan on one root op, with instruments around each step.

No handle to an op inside the root lives across a step of MLIR: its passes erase ops without telling
Python, and touching such a handle afterwards ends the process. What dropping barriers learned of the
kernels that it left as they were is given to a check right after it, which does not ask again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mlir_async_pipe.bindings import ir, passmanager
from mlir_async_pipe.bindings.raw_ops import FUNCTION_OPS, SYMBOL_TABLES, operations
from mlir_async_pipe.pipeliner.ask_checker.drop_barriers import NOTHING_PROVEN, Proven, drop
from mlir_async_pipe.pipeliner.async_pipe_pass import CHECK, DROP_BARRIERS, run_check
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.tool.isolate import Activity
from mlir_async_pipe.tool.mlir_diagnostics import MlirErrors, errors_of
from mlir_async_pipe.tool.pass_steps import MlirStep, Step

ANY = "any"
# What `any` stands for where one of our passes is nested in it: ops that MLIR would accept
# there, and that can hold a loop or a call.
_ISOLATED = (*SYMBOL_TABLES, *FUNCTION_OPS)


class Instrument:
    """Looks on while steps run."""

    def before(self, step: Step, root: Any) -> None:
        """Called before each step."""

    def after(self, step: Step, root: Any) -> None:
        """Called after each step that succeeded."""

    def failed(self, step: Step, root: Any) -> None:
        """Called after the step that failed, if any."""


class Follow(Instrument):
    """Keeps the activity up to date, so that a crash can be reported with its pass."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity

    def before(self, step: Step, root: Any) -> None:
        self._activity.is_now(f"running '{step.name}'")


def run(
    root: Any,
    steps: Sequence[Step],
    session: Session,
    *,
    verify_each: bool = True,
    statistics: bool = False,
    instruments: Sequence[Instrument] = (),
    proven: Proven = NOTHING_PROVEN,
) -> Proven:
    """Run `steps` in order on `root`; raises AsyncPipeError or MlirErrors and stops there.

    `proven` is what the step before the first one gave, and nothing has changed since; what the last
    one gave is returned.
    """
    for step in steps:
        for instrument in instruments:
            instrument.before(step, root)
        try:
            proven = _run_step(root, step, session, verify_each, statistics, proven)
        except Exception:
            for instrument in instruments:
                instrument.failed(step, root)
            raise
        for instrument in instruments:
            instrument.after(step, root)
    return proven


def selected(root: Any, anchors: Sequence[str]) -> Iterator[Any]:
    """The ops that `anchors` leads to: the root, then children, then theirs."""
    name = root.operation.name
    if anchors and anchors[0] not in (ANY, name):
        raise UsageError(
            f"can't run '{anchors[0]}' pass manager on '{name}' op", code="bad-pipeline"
        )
    found = [root.operation]
    for anchor in anchors[1:]:
        found = [child for op in found for child in _children(op) if _matches(child, anchor)]
    yield from found


def _children(op: Any) -> list[Any]:
    return [child for region in op.regions for block in region for child in operations(block)]


def _matches(op: Any, anchor: str) -> bool:
    return bool(op.name == anchor or (anchor == ANY and op.name in _ISOLATED))


def _run_step(
    root: Any, step: Step, session: Session, verify_each: bool, statistics: bool, proven: Proven
) -> Proven:
    if isinstance(step, MlirStep):
        _run_mlir(root, step, verify_each, statistics)
        return NOTHING_PROVEN
    found = NOTHING_PROVEN
    for op in selected(root, step.anchors):
        if step.name == CHECK:
            run_check(op, step.options, session, proven.of(step.options))
        elif step.name == DROP_BARRIERS:
            found = found.joined(step.options, drop(op, step.options, session))
        else:
            step.found.run(op, step.options, session)
    if verify_each:
        verify(root)
    return found


def _run_mlir(root: Any, step: MlirStep, verify_each: bool, statistics: bool) -> None:
    manager = passmanager.PassManager.parse(step.text, root.operation.context)
    manager.enable_verifier(verify_each)
    if statistics and hasattr(manager, "enable_statistics"):
        manager.enable_statistics()
    try:
        manager.run(root.operation)
    except ir.MLIRError as error:
        found = errors_of(error, code="pass-failed")
        raise MlirErrors(found) from None


def verify(root: Any) -> None:
    """Verify the IR; raises MlirErrors (verification-failed)."""
    try:
        root.operation.verify()
    except ir.MLIRError as error:
        raise MlirErrors(errors_of(error, code="verification-failed")) from None
