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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import passmanager
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Place, UsageError
from mlir_async_pipe.session.pipeline_text import PIPELINE, NestedPipeline, PassCall, leaves, parse
from mlir_async_pipe.tool.flags import PassFlag
from mlir_async_pipe.tool.known_names import captured_stderr, did_you_mean


@dataclass(frozen=True)
class MlirStep:
    """Passes of MLIR: pipeline text whose anchor is the root op.

    `anchors` is the nest of the one pass of a single step, () for the root and for a step of
    several passes; `name` is the pass or, for several, the whole text.
    """

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
    """The pipeline of pass flags; a pass for another op than the root is nested into it.

    Raises UsageError (unknown-pass, bad-pass-options).
    """
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
    Raises UsageError (unknown-pass, bad-pass-options, unknown-option, bad-option-value).
    """
    steps: list[Step] = []
    for part in _cut(pipeline):
        if isinstance(part, NestedPipeline):
            _check_mlir(part, context)
            whole = MlirStep(str(part), ",".join(map(str, part.elements)))
            steps.extend(_single_steps(part, context) if single else [whole])
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


def _cut(nest: NestedPipeline) -> Iterator[NestedPipeline | tuple[PassCall, tuple[str, ...]]]:
    """Largest nests without our passes, and our passes with their anchors, in order."""
    gathered: list[PassCall | NestedPipeline] = []
    for element in nest.elements:
        if not any(passes.is_ours(leaf.name) for leaf in leaves(element)):
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
        raise _at_column(error, call) from None
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


def _at_column(error: AsyncPipeError, call: PassCall) -> AsyncPipeError:
    advice = error.diagnostic.notes[-1].message if error.diagnostic.notes else None
    message = error.diagnostic.message
    return UsageError(message, code=error.code, at=_place(call), advice=advice)


def _place(call: PassCall) -> Place:
    return Place(PIPELINE, 1, call.column) if call.column else Place()


def _single_steps(nest: NestedPipeline, context: Any) -> list[Step]:
    """One step a pass, named pipelines opened up; MLIR prints them with all their options."""
    return [
        MlirStep(_nested(str(call), anchors), call.name, anchors)
        for call, anchors in _leaves_with_anchors(_opened_by_mlir(nest, context), ())
    ]


def _opened_by_mlir(nest: NestedPipeline, context: Any) -> NestedPipeline:
    with captured_stderr():
        try:
            opened = parse(str(passmanager.PassManager.parse(str(nest), context)))
            passmanager.PassManager.parse(str(opened), context)
        except (ValueError, UsageError):
            return nest  # it has an option that MLIR prints but does not read
    return opened


def _leaves_with_anchors(
    nest: NestedPipeline, above: tuple[str, ...]
) -> Iterator[tuple[PassCall, tuple[str, ...]]]:
    anchors = (*above, nest.anchor)
    for element in nest.elements:
        if isinstance(element, PassCall):
            yield element, anchors
        else:
            yield from _leaves_with_anchors(element, anchors)


def _nested(text: str, anchors: tuple[str, ...]) -> str:
    for anchor in reversed(anchors):
        text = f"{anchor}({text})"
    return text


def _check_mlir(nest: NestedPipeline, context: Any) -> None:
    """Let MLIR parse the text; if it refuses, find the pass that it refuses."""
    if _refusal(str(nest), context) is None:
        return
    for call, anchors in _leaves_with_anchors(nest, ()):
        refusal = _refusal(_nested(str(call), anchors), context)
        if refusal is not None:
            raise _refused(call, refusal, context)
    raise UsageError(
        f"MLIR refuses the pipeline '{nest}'", code="bad-pipeline", at=Place(PIPELINE, 1, 1)
    )


def _refusal(text: str, context: Any) -> str | None:
    """Why MLIR does not parse this pipeline; None if it does."""
    with captured_stderr() as spoken:
        try:
            passmanager.PassManager.parse(text, context)
        except ValueError as error:
            reason = str(error)
        else:
            return None
    return f"{spoken.text}\n{reason}"


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
        return UsageError(
            f"pass '{call.name}' runs on '{restricted[1]}' only",
            code="bad-pipeline",
            at=_place(call),
            advice=f"write {restricted[1]}({call.name})",
        )
    lines = [line.strip(" :") for line in refusal.splitlines()]
    kept = [line for line in lines if line and not line.startswith("failed to add")]
    return UsageError(
        f"pass '{call.name}' refuses its options '{call.options}': {'; '.join(kept)}",
        code="bad-pass-options",
        at=_place(call),
    )


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
