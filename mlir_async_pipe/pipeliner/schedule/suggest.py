"""Says what `num_stages` would make of each loop without annotations.

    scf.for … { load A; store tile; … }    -->    unchanged, and a remark: copies 2 iterations
                                                  ahead, 3 versions of 4096 bytes

Each loop is tried on a copy of the module, with nothing else annotated: schedule and expand, no counts, no check.
That costs as many copies as there are loops, so that this is a question to ask, not a pass for every compilation.

Loops other than `scf.for` are not tried. It says why for each: the iterations of an `scf.while` are
not counted; a loop between blocks can be raised first, or the reason why not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    functions,
    operations,
    terminator,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import annotate, reads_global_memory, requested_loops
from mlir_async_pipe.facts.loops.statements import find_loops
from mlir_async_pipe.pipeliner.normalise.affine_loops import LOOPS, write_affine_loops
from mlir_async_pipe.pipeliner.normalise.raise_loops import BranchGraph
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Diagnostic, Place
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary.control_flow import LOOP_OPS, WHILE_OPS

_NOT_COUNTED = "nobody counts the iterations of an 'scf.while'; what is pipelined is 'scf.for' [loop-not-counted]"
_BY_RAISING = "'async-pipe-raise-loops' makes an 'scf.for' of it, which can be tried [raise-first]"


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
    written = _with_affine_loops_written(module.operation, options.num_stages)
    loops = find_loops(written, annotated=False)
    for number, loop in enumerate(loops):
        found = _tried(written, number, loop, options, session)
        session.record("suggestions", found)
        _report(loop, found, session)
    others = _not_tried(module.operation)
    for op, reason in others:
        session.diagnostics.remark(
            f"nothing can be suggested for this loop: {reason}", code="no-suggestion", at=op
        )
    if not loops and not others:
        session.diagnostics.remark(
            "no loop here reads global memory without being annotated", code="no-loops", at=module
        )


def _with_affine_loops_written(module: Operation, num_stages: int) -> Operation:
    """The module, or a copy of it in which each affine.for that can be is an scf.for."""
    if not walk_named(module, "affine.for".__eq__):
        return module
    copy = module.clone(ip=False).operation
    loops = walk_named(copy, LOOPS.__contains__)
    asked = [Place.of(loop) for loop in loops if names.is_requested(loop)]
    for loop in loops:
        if loop.name == "affine.for" and not names.is_requested(loop):
            annotate(loop, num_stages=num_stages)
    write_affine_loops(copy)
    for loop in requested_loops(copy):
        if Place.of(loop) not in asked:
            names.forget(loop)
    return copy


def _tried(
    module: Operation, number: int, loop: Operation, options: SuggestOptions, session: Session
) -> Suggestion:
    """Pipeline the loop with this number on a copy."""
    copy = module.operation.clone(ip=False).operation
    chosen = find_loops(copy, annotated=False)[number]
    for other in requested_loops(copy):
        names.forget(other)
    annotate(chosen, num_stages=options.num_stages)
    trial = Session(target=session.target)
    place = Place.of(loop)
    try:
        passes.run_all(passes.PIPELINING, copy, options, trial)
    except AsyncPipeError as error:
        return Suggestion(place, "", options.num_stages, reason=_first(error.diagnostic))
    report = trial.report()
    if not report.of("loops"):
        reported = [entry for entry in report.diagnostics if entry.severity != "note"]
        return Suggestion(place, "", options.num_stages, reason=_first(reported[-1]))
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


def _not_tried(module: Operation) -> list[tuple[Operation, str]]:
    """The innermost loops that read global memory and are no scf.for, and why they are not tried."""
    whiles = filter(reads_global_memory, walk_named(module, WHILE_OPS.__contains__))
    found = [(loop, _NOT_COUNTED) for loop in whiles if not _has_loops(walk(loop), loop)]
    in_blocks = [loop for function in functions(module) for loop in _loops_of_blocks(function)]
    if in_blocks:
        trial = Session()
        passes.run_one("async-pipe-raise-loops", module.clone(ip=False).operation, trial)
        report = trial.report()
        raised = {entry.place for entry in report.of("raised")}
    for last, body in in_blocks:
        places = {Place.of(op) for op in body}
        refused = [_first(d) for d in report.diagnostics if d.place in places]
        refused.append("a loop around it stays as branches [loop-not-structured]")
        if places & raised:
            refused = [_BY_RAISING]
        found.append((last, refused[0]))
    return found


def _loops_of_blocks(function: Operation) -> list[tuple[Operation, list[Operation]]]:
    """Each innermost loop of blocks of a function that reads global memory: the end of its first block, and its ops."""
    region = function.regions[0]
    loops = BranchGraph(region).loops if len(list(region.blocks)) > 1 else {}
    found = []
    for header, members in loops.items():
        body = [op for block in members for op in operations(block)]
        inner = any(other in members for other in loops if other != header)
        reads = any(reads_global_memory(op) for op in body)
        if reads and not inner and not any(_has_loops(walk(op)) for op in body):
            found.append((terminator(header), body))
    return found


def _has_loops(ops: Iterable[Operation], but: Operation | None = None) -> bool:
    return any(op.name in LOOP_OPS and op != but and reads_global_memory(op) for op in ops)


def _first(diagnostic: Diagnostic) -> str:
    return f"{diagnostic.message} [{diagnostic.code}]"


def _report(loop: Operation, found: Suggestion, session: Session) -> None:
    if not found.form:
        said = f"{found.stages} stages do not help this loop: {found.reason}"
        session.diagnostics.remark(said, code="no-suggestion", at=loop)
        return
    ahead = (
        f"copies {found.stages - 1} iterations ahead, {found.bytes} bytes of workgroup memory"
        if found.form == "copies"
        else f"loads {found.stages - 1} iterations ahead, {found.registers} registers a thread"
    )
    why = f" ({found.reason})" if found.reason else ""
    said = f"'{names.NUM_STAGES} = {found.stages}' on this loop: {ahead}{why}"
    session.diagnostics.remark(said, code="suggestion", at=loop)
