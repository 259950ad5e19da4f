"""Turns a pipeline into steps: runs of MLIR's passes as text, and single passes of ours.

    builtin.module(cse,gpu.module(a,async-pipe-expand,b),canonicalize)
    --> builtin.module(cse,gpu.module(a)) | async-pipe-expand on each gpu.module |
        builtin.module(gpu.module(b),canonicalize)

A nest with one of our passes is cut at it, and the cut parts run nest by nest: a pass sees
only its own op, so the order among sibling ops does not matter. Everything is checked before
the first step runs.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir, passmanager
from mlir_async_pipe.bindings.raw_ops import FUNCTION_OPS, SYMBOL_TABLES, operations
from mlir_async_pipe.checker.promises import CheckOptions
from mlir_async_pipe.pipeliner.ask_checker.needed_barriers import NOTHING_PROVEN, Proven, drop
from mlir_async_pipe.pipeliner.async_pipe_pass import CHECK, DROP_BARRIERS, run_check
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Place, UsageError
from mlir_async_pipe.session.pipeline_text import (
    PIPELINE,
    Leaf,
    NestedPipeline,
    PassCall,
    leaves,
    parse,
)  # fmt: skip
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.tool.command_line import PassFlag, captured_stderr, did_you_mean
from mlir_async_pipe.tool.mlir_diagnostics import MlirErrors, errors_of


@dataclass(frozen=True)
class MlirStep:
    """Passes of MLIR: pipeline text whose anchor is the root op.

    `anchors` is the nest of the one pass of a single step, () for the root and for a step of
    several passes; `name` is the pass or, for several, the whole text."""

    text: str
    name: str
    anchors: tuple[str, ...] = ()


@dataclass(frozen=True)
class OurStep:
    """One of our passes, run on each op that `anchors` leads to from the root."""

    found: passes.Pass
    options: Any
    text: str
    anchors: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.found.name


Step = MlirStep | OurStep


def from_flags(flags: tuple[PassFlag, ...], root: str, context: Any) -> NestedPipeline:
    """The pipeline of pass flags; a pass for another op than the root is nested into it. Raises UsageError
    (unknown-pass, bad-pass-options)."""
    elements: list[PassCall | NestedPipeline] = []
    for flag in flags:
        call = PassCall(flag.name, flag.options, 0)
        restricted = None if passes.is_ours(flag.name) else _restriction(call, root, context)
        elements.append(call if restricted is None else NestedPipeline(restricted, (call,), 0))
    return NestedPipeline(root, tuple(elements), 0)


def make(
    pipeline: NestedPipeline, context: Any, defaults: dict[str, Any], *, single: bool
) -> list[Step]:
    """The steps of `pipeline`; with `single` each pass is a step of its own.

    `defaults` are values (chip, smem_limit, cluster) for options of our passes that the text leaves out.
    Raises UsageError (unknown-pass, bad-pass-options, unknown-option, bad-option-value)."""
    steps: list[Step] = []
    for part in _cut(pipeline):
        if isinstance(part, NestedPipeline):
            _check_mlir(part, context)
            if not single:
                steps.append(MlirStep(str(part), ",".join(map(str, part.elements))))
                continue
            # Named pipelines are opened up; MLIR prints them with all their options.
            for call, anchors in leaves(_opened_by_mlir(part, context)):
                steps.append(MlirStep(_nested(str(call), anchors), call.name, anchors))
        else:
            step = _our_step(*part, defaults)
            steps.extend(_opened(step) if single else [step])
    return steps


def text_of(steps: list[Step], root: str) -> str:
    """Pipeline text that runs these steps."""
    parts = []
    for step in steps:
        if isinstance(step, MlirStep):
            inner = step.text[step.text.index("(") + 1 : -1]
        else:
            inner = _nested(step.text, step.anchors[1:])
        parts.append(inner)
    return f"{root}({','.join(parts)})"


def _cut(nest: NestedPipeline) -> Iterator[NestedPipeline | Leaf]:
    """Largest nests without our passes, and our passes with their anchors, in order."""
    gathered: list[PassCall | NestedPipeline] = []
    for element in nest.elements:
        if not any(passes.is_ours(call.name) for call, _ in leaves(element)):
            gathered.append(element)
            continue
        if gathered:
            yield dataclasses.replace(nest, elements=tuple(gathered))
            gathered = []
        if isinstance(element, PassCall):
            yield element, (nest.anchor,)
            continue
        for part in _cut(element):
            if isinstance(part, NestedPipeline):
                yield dataclasses.replace(nest, elements=(part,))
            else:
                call, anchors = part
                yield call, (nest.anchor, *anchors)
    if gathered:
        yield dataclasses.replace(nest, elements=tuple(gathered))


def _our_step(call: PassCall, anchors: tuple[str, ...], defaults: dict[str, Any]) -> OurStep:
    try:
        found = passes.find(call.name)
        options = passes.parse_options(found, call.options)
    except AsyncPipeError as error:
        said = error.diagnostic
        advice = said.notes[-1].message if said.notes else None
        why = said.message
        raise UsageError(why, code=error.code, at=_place(call), advice=advice) from None
    return OurStep(found, passes.with_defaults(options, defaults), str(call), anchors)


def _opened(step: OurStep) -> list[OurStep]:
    """The members of a pass that runs others in turn, as steps; another pass alone."""
    members = step.found.members(step.options) if step.found.members else []
    return [
        OurStep(found, given, _text(found, given), step.anchors) for found, given in members
    ] or [step]


def _text(found: passes.Pass, options: Any) -> str:
    """Pipeline text of a pass with the options that differ from their defaults."""
    given = [
        f"{entry.name.replace('_', '-')}={str(getattr(options, entry.name)).lower()}"
        for entry in dataclasses.fields(options)
        if getattr(options, entry.name) != entry.default
    ]
    return f"{found.name}{{{' '.join(given)}}}" if given else found.name


def _place(call: PassCall) -> Place:
    return Place(PIPELINE, 1, call.column) if call.column else Place()


def _opened_by_mlir(nest: NestedPipeline, context: Any) -> NestedPipeline:
    with captured_stderr():
        try:
            opened = parse(str(passmanager.PassManager.parse(str(nest), context)))
            passmanager.PassManager.parse(str(opened), context)
        except (ValueError, UsageError):
            return nest  # it has an option that MLIR prints but does not read
    return opened


def _nested(text: str, anchors: tuple[str, ...]) -> str:
    for anchor in reversed(anchors):
        text = f"{anchor}({text})"
    return text


def _check_mlir(nest: NestedPipeline, context: Any) -> None:
    """Let MLIR parse the text; if it refuses, find the pass that it refuses."""
    if _refusal(str(nest), context) is None:
        return
    for call, anchors in leaves(nest):
        refusal = _refusal(_nested(str(call), anchors), context)
        if refusal is not None:
            raise _refused(call, refusal, context)
    why = f"MLIR refuses the pipeline '{nest}'"
    raise UsageError(why, code="bad-pipeline", at=Place(PIPELINE, 1, 1))


def _refusal(text: str, context: Any) -> str | None:
    """Why MLIR does not parse this pipeline; None if it does."""
    with captured_stderr() as spoken:
        try:
            passmanager.PassManager.parse(text, context)
        except ValueError as error:
            reason = str(error)
        else:
            return None
    return f"{spoken[0]}\n{reason}"


def _refused(call: PassCall, refusal: str, context: Any) -> UsageError:
    if "does not refer to a registered pass" in refusal:
        return UsageError(
            f"unknown pass '{call.name}'",
            code="unknown-pass",
            at=_place(call),
            advice=did_you_mean(call.name, context)
            or "async-pipe-opt --list-passes lists the passes",
        )
    restricted = _RESTRICTED.search(refusal)
    if restricted is not None:
        why = f"pass '{call.name}' runs on '{restricted[1]}' only"
        advice = f"write {restricted[1]}({call.name})"
        return UsageError(why, code="bad-pipeline", at=_place(call), advice=advice)
    lines = [line.strip(" :") for line in refusal.splitlines()]
    kept = [line for line in lines if line and not line.startswith("failed to add")]
    why = f"pass '{call.name}' refuses its options '{call.options}': {'; '.join(kept)}"
    return UsageError(why, code="bad-pass-options", at=_place(call))


def _restriction(call: PassCall, root: str, context: Any) -> str | None:
    """The op that a pass of MLIR insists on, None if it runs on the root."""
    refusal = _refusal(_nested(str(call), (root,)), context)
    if refusal is None:
        return None
    restricted = _RESTRICTED.search(refusal)
    if restricted is None:
        raise _refused(call, refusal, context)
    return restricted[1]


_RESTRICTED = re.compile(r"restricted to '([^']+)'")


# Runs the steps ----------------------------------------------------------------------------------
#
# Runs the steps of a plan on one root op, with instruments around each step.
#
# No handle to an op inside the root lives across a step of MLIR: its passes erase ops without telling
# Python, and touching such a handle afterwards ends the process. What dropping barriers learned of the
# kernels that it left as they were is given to a check right after it, which does not ask again.


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


def run(
    root: Any,
    steps: Sequence[Step],
    session: Session,
    *,
    verify_each: bool = True,
    statistics: bool = False,
    instruments: Sequence[Instrument] = (),
    begins: Callable[[str], None] = lambda text: None,
    proven: Proven = NOTHING_PROVEN,
) -> Proven:
    """Run `steps` in order on `root`; raises AsyncPipeError or MlirErrors and stops there.

    `begins` is told of each what begins, so that a crash can be reported with its pass. `proven` is what the step before the first one gave, and nothing has changed since; what the last
    one gave is returned."""
    for step in steps:
        begins(f"running '{step.name}'")
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
        why = f"can't run '{anchors[0]}' pass manager on '{name}' op"
        raise UsageError(why, code="bad-pipeline")
    found = [root.operation]
    for anchor in anchors[1:]:
        wanted = _ISOLATED if anchor == ANY else (anchor,)
        blocks = [block for op in found for region in op.regions for block in region]
        found = [op for block in blocks for op in operations(block) if op.name in wanted]
    yield from found


def _run_step(
    root: Any, step: Step, session: Session, verify_each: bool, statistics: bool, proven: Proven
) -> Proven:
    if isinstance(step, MlirStep):
        _run_mlir(root, step, verify_each, statistics)
        return NOTHING_PROVEN
    found: Proven = {}
    for op in selected(root, step.anchors):
        if step.name == CHECK:
            run_check(op, step.options, session, proven.get(step.options, {}))
        elif step.name == DROP_BARRIERS:
            asked = CheckOptions(step.options.chip, step.options.assume_noalias_arguments)
            found.setdefault(asked, {}).update(drop(op, step.options, session))
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
