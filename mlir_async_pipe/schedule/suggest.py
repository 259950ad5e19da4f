"""Says of each loop that nobody annotated what `num_stages` would make of it.

    scf.for … { load A; store tile; … }    -->    unchanged, and a remark: copies 2 iterations
                                                  ahead, 3 versions of 4096 bytes

Each loop is tried on a copy of the module, with nothing else annotated: schedule and expand, no
counts, no check. That costs as many copies as there are loops, so that this is a question to ask,
not a pass for every compilation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.loops import annotations as names
from mlir_async_pipe.loops.find_loops import find_loops
from mlir_async_pipe.loops.write_annotations import annotate
from mlir_async_pipe.schedule.fall_back import schedule_and_expand
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Diagnostic, Place
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session


@dataclass(frozen=True)
class SuggestOptions:
    """Options of `async-pipe-suggest`.

    `num_stages` is the number that is tried, `chip` where the module is going, `smem_limit` the
    bytes of workgroup memory that a block may use (0: what the chip has).
    """

    num_stages: int = 3
    chip: str = ""
    smem_limit: int = 0


@dataclass(frozen=True)
class Suggestion:
    """What would become of one loop: `form` is "copies", "loads" or "" where it is refused, for
    `reason`. `bytes` of workgroup memory for all versions; `registers` of 32 bits, in each thread,
    for values that travel from iteration to iteration."""

    place: Place
    form: str
    stages: int
    bytes: int = 0
    registers: int = 0
    reason: str = ""


@register("async-pipe-suggest", "say which loops could be pipelined, and how", SuggestOptions)
def run(module: Any, options: SuggestOptions, session: Session) -> None:
    """Try every loop that could be pipelined, and tell what came of it."""
    loops = find_loops(module, annotated=False)
    for number, loop in enumerate(loops):
        found = _tried(module.operation, number, loop, options, session)
        session.record("suggestions", found)
        _tell(loop, found, session)
    if not loops:
        session.diagnostics.remark(
            "no loop here reads global memory without being annotated", code="no-loops", at=module
        )


def _tried(
    module: Operation, number: int, loop: Operation, options: SuggestOptions, session: Session
) -> Suggestion:
    """Pipeline the loop with this number on a copy."""
    copy = module.operation.clone(ip=False).operation
    chosen = find_loops(copy, annotated=False)[number]
    for other in find_loops(copy):
        names.forget(other)
        names.remove(other, (names.STAGE, names.ORDER))
    annotate(chosen, num_stages=options.num_stages)
    trial = Session(target=session.target)
    given = {"chip": options.chip, "smem_limit": options.smem_limit}
    scheduling, expanding = (
        passes.with_defaults(passes.find(name).options(), given)
        for name in ("async-pipe-schedule", "async-pipe-expand")
    )
    place = Place.of(loop)
    try:
        schedule_and_expand(copy, scheduling, expanding, trial)
    except AsyncPipeError as error:
        return Suggestion(place, "", options.num_stages, reason=str(_first(error.diagnostic)))
    report = trial.report()
    if not report.of("loops"):
        told = [entry for entry in report.diagnostics if entry.severity != "note"]
        return Suggestion(place, "", options.num_stages, reason=str(_first(told[-1])))
    (made,) = report.of("loops")
    through = [entry for entry in report.diagnostics if entry.code == "through-registers"]
    return Suggestion(
        place,
        "loads" if through else "copies",
        options.num_stages,
        sum(buffer.bytes for buffer in made.buffers),
        made.carried_registers,
        through[0].message.partition(": ")[2] if through else "",
    )


def _first(diagnostic: Diagnostic) -> str:
    return f"{diagnostic.message} [{diagnostic.code}]"


def _tell(loop: Operation, found: Suggestion, session: Session) -> None:
    if not found.form:
        session.diagnostics.remark(
            f"{found.stages} stages do not help this loop: {found.reason}",
            code="no-suggestion",
            at=loop,
        )
        return
    ahead = (
        f"copies {found.stages - 1} iterations ahead, {found.bytes} bytes of workgroup memory"
        if found.form == "copies"
        else f"loads {found.stages - 1} iterations ahead, {found.registers} registers a thread"
    )
    why = f" ({found.reason})" if found.reason else ""
    session.diagnostics.remark(
        f"'{names.NUM_STAGES} = {found.stages}' on this loop: {ahead}{why}",
        code="suggestion",
        at=loop,
    )
