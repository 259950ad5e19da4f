"""The pass `async-pipe`: everything from an annotated loop to a checked one.

    affine --> cursors --> recount --> normalise-… --> schedule --> expand --> turns --> stores --> count-waits
           --> barriers where a function asks for them --> drop-drains --> simplify-waits
           --> drop-barriers --> check

An option is passed to each member that has one of that name, so `async-pipe{chip=sm_80}`
is `async-pipe-expand{chip=sm_80}`, `async-pipe-count-waits{chip=sm_80}` and so on. `check` runs
last, on what the others left: our own output is never trusted. Where `drop-barriers` has asked the
checker about a kernel, and left it as it was, that answer is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, unchanged, walk, walk_named
from mlir_async_pipe.checker.check_pass import check
from mlir_async_pipe.checker.kernel import KernelVerdict
from mlir_async_pipe.chips.target import with_target
from mlir_async_pipe.facts.loops.annotations import (
    BARRIERS,
    KNOWN_NAMES,
    STORES_IN_FLIGHT,
    check_names,
    is_requested,
)
from mlir_async_pipe.pipeliner.ask_checker.needed_barriers import drop
from mlir_async_pipe.pipeliner.expand.expand_pass import ExpandOptions
from mlir_async_pipe.pipeliner.schedule.schedule_pass import ScheduleOptions
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import Diagnostics, HazardError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.control_flow import LOOP_OPS
from mlir_async_pipe.waits.ssa.cursors import CURSOR

CHECK = "async-pipe-check"
DROP_BARRIERS = "async-pipe-drop-barriers"
AFFINE = "async-pipe-normalise-affine"
OTHERS = [name for name in passes.PIPELINING if name != AFFINE]
MEMBERS = (
    AFFINE,
    "async-pipe-warn-unannotated",
    "async-pipe-cursors",
    "async-pipe-recount",
    *OTHERS,
    "async-pipe-turns",
    "async-pipe-stores",
    "async-pipe-count-waits",
    "async-pipe-barriers",
    "async-pipe-drop-drains",
    "async-pipe-simplify-waits",
    DROP_BARRIERS,
    CHECK,
)
# These ask the checker about all that the others have left.
PROVING = (DROP_BARRIERS, CHECK)
# `check` is another option there. The groups are those of the input, or formed for prologue,
# kernel and epilogue alike.
SETTINGS: dict[str, dict[str, Any]] = {
    "async-pipe-count-waits": {"check": False},
    "async-pipe-simplify-waits": {"keep_commits": True},
    DROP_BARRIERS: {"pipelined_only": True},
    "async-pipe-barriers": {"asked": True},
}


@dataclass(frozen=True)
class PipelineOptions(ExpandOptions, ScheduleOptions):
    """Options of `async-pipe`: those of its schedule and of its expansion.

    `check` makes hazards errors or warnings, or leaves the check out, and with it all that rests on
    proofs: no barrier is dropped then.
    """

    check: str = field(default="error", metadata={"choices": ("error", "warn", "none")})


def members(options: PipelineOptions) -> list[tuple[passes.Pass, Any]]:
    names = [name for name in MEMBERS if options.check != "none" or name not in PROVING]
    return [
        (passes.find(name), passes.options_for(name, options, SETTINGS.get(name))) for name in names
    ]


@passes.register(
    "async-pipe",
    "pipeline annotated loops, count their waits, check",
    PipelineOptions,
    # None that run one by one where this pass softens the last one.
    lambda options: [] if options.check == "warn" else members(options),
)
def run(module: Any, options: PipelineOptions, session: Session) -> None:
    """Run the members in order; the first error stops."""
    session = with_target(options, session)
    if options.check == "warn":
        session = dataclasses.replace(session, hazards="warning")
    found = members(options)
    for member, given in found:
        if member.name not in PROVING:
            with session.measured(member.name):
                member.run(module, given, session)
    if options.check != "none":
        (_, dropping), (_, checking) = found[-len(PROVING) :]
        with unchanged():
            with session.measured(DROP_BARRIERS):
                known = drop(module, dropping, session)
            with session.measured(CHECK):
                run_check(module, checking, session, known)


@passes.register(
    "async-pipe-warn-unannotated", "warn where there are loops and none asks to be pipelined"
)
def warn_unannotated(module: Any, options: passes.NoOptions, session: Session) -> None:
    """A warning at the first loop of a module in which none is annotated, and none is written by hand with
    counts or barriers to be found. Raises InputError (unknown-annotation) where one is misspelt."""
    for loop in walk_named(module, "scf.for".__eq__):
        check_names(loop, KNOWN_NAMES)
    asking = any(map(is_requested, walk_named(module, LOOP_OPS.__contains__)))
    if asking or any(map(_is_by_hand, walk(module))):
        return
    for op in walk(module):
        # A loop, or blocks that may be one.
        if op.name in LOOP_OPS or any(len(region.blocks) > 1 for region in op.regions):
            advice = "annotate one, say `async_pipe.num_stages = 3`; --suggest lists them"
            said = "no loop here asks to be pipelined"
            session.diagnostics.warning(
                said, code="no-annotated-loops", at=op, notes=((advice, op),)
            )
            return


def _is_by_hand(op: Operation) -> bool:
    """Whether a pipeline was written slot by slot, with counts, barriers or stores in flight to be found."""
    row = row_of(op)
    written = any(name in op.attributes for name in (BARRIERS, CURSOR, STORES_IN_FLIGHT))
    return written or row.slots != 0


def run_check(
    module: Any, options: Any, session: Session, known: Mapping[Any, KernelVerdict] | None = None
) -> None:
    """Run the checker, but for kernels of a `known` outcome; with hazards as warnings its errors become warnings."""
    found = Diagnostics()
    try:
        check(module, options, dataclasses.replace(session, diagnostics=found), known or {})
    except HazardError as error:
        found.error(error)
    session.diagnostics.items += [
        dataclasses.replace(entry, severity=session.hazards) if entry.severity == "error" else entry
        for entry in found.items
    ]
