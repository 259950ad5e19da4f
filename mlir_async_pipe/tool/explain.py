"""`--explain`: the numbering of each loop's statements, what each loop became, and each wait's count.

    gemm.mlir:35:16: remark: 3 stages, 1 group an iteration [pipelined]
    gemm.mlir:35:16: note: buffer 'a_shared' has 3 versions of 8192 bytes
    gemm.mlir:35:16: note: prologue: 16 copies, 2 commits
    gemm.mlir:35:16: remark: kernel: 1 group of cp.async may stay in flight: … [exact]
    gemm.mlir:74:19: note: the awaited group is committed; a younger group is committed (74:19); …

    gemm.mlir:35:16: remark: tensor binds: 512 cycles an iteration of a block [limits]

The path that attains a count is one note, at its first step. `--explain=NAME` keeps what concerns
the function of that name, `--explain=LINE` the loop that stands in that line.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from mlir_async_pipe.bindings.raw_ops import functions, symbol_name, walk
from mlir_async_pipe.facts.costs.cost_model import CostModel
from mlir_async_pipe.facts.loops.annotations import requested_loops
from mlir_async_pipe.facts.loops.statements import numbering, read_body
from mlir_async_pipe.session.diagnostics import (
    AsyncPipeError,
    Diagnostic,
    Diagnostics,
    Note,
    Place,
    UsageError,
    count,
)
from mlir_async_pipe.session.report import Session

EVERYTHING = "true"


def selected_places(root: Any, selector: str) -> frozenset[Place] | None:
    """The places of all ops that `selector` names, None if it selects everything. Raises UsageError (unknown-loop)
    if it names nothing."""
    if selector == EVERYTHING:
        return None
    if selector.isdecimal():
        line = int(selector)
        found = [op for op in walk(root) if op.name == "scf.for" and Place.of(op).line == line]
    else:
        found = [op for op in functions(root) if symbol_name(op) == selector]
    if not found:
        why = f"--explain={selector} names no function and no line of a loop"
        advice = "write the name of a function, or the line in which an scf.for stands"
        raise UsageError(why, code="unknown-loop", advice=advice)
    return frozenset(Place.of(inner) for op in found for inner in walk(op))


def numberings(root: Any) -> list[Diagnostic]:
    """One remark a loop that is to be pipelined, with a note for each statement."""
    said = Diagnostics()
    for loop in requested_loops(root):
        try:
            notes = numbering(read_body(loop))
        except AsyncPipeError:
            continue  # the schedule pass tells what is wrong with this loop
        said.remark(f"{count(len(notes), 'statement')}", code="statements", at=loop, notes=notes)
    return said.items


def decisions(session: Session) -> list[Diagnostic]:
    """One remark a pipelined loop, and one a wait."""
    outlines = session.records.get("outlines", [])
    extras = {extra.place: extra for extra in session.records.get("extra_stages", [])}
    loops = session.records.get("loops", [])
    fragments = {placed.place: placed for placed in session.records.get("fragments", [])}
    shown = [
        _loop(record, outlines, extras.get(record.place), fragments.get(record.place))
        for record in loops
    ]
    return shown + [_wait(record) for record in session.records.get("waits", [])]


def what_bounds(root: Any, session: Session, cost: str) -> list[Diagnostic]:
    """What memory is asked for and what bounds kernels and loops, by `--cost` and the code that was made."""
    # Without --explain nobody needs what it imports.
    from mlir_async_pipe.reports import limits

    return limits.remarks(root, session, CostModel.parse(cost, session.target))


def only(said: list[Diagnostic], places: frozenset[Place] | None) -> list[Diagnostic]:
    """Errors and warnings, and the remarks at one of `places`; all if that is None."""
    return [
        entry
        for entry in said
        if places is None or entry.severity in ("error", "warning") or entry.place in places
    ]


def _loop(
    record: Any, outlines: Sequence[Any], extra: Any | None, fragments: Any | None
) -> Diagnostic:
    groups = count(record.groups_per_iteration, "group")
    why = f" ({extra})" if extra else ""
    message = f"{count(record.stages, 'stage')}{why}, {groups} an iteration"
    texts = [
        f"buffer '{entry.buffer}' has {count(entry.versions, 'version')} of {entry.slot_bytes} bytes"
        for entry in record.buffers
    ]
    if fragments is not None:
        texts.append(str(fragments))
    if record.filling.empty_groups:
        empty = count(record.filling.empty_groups, "empty group")
        kept = count(record.filling.kept_in_flight, "more group")
        texts.append(f"{empty} in the prologue; the kernel's waits leave {kept} in flight for it")
    for outline in (entry for entry in outlines if entry.place == record.place):
        role = f"{outline.title}: " if outline.title else ""
        texts += [f"{role}{part}: {outline.contents(part)}" for part in outline.parts]
    notes = tuple(Note(text, record.place) for text in texts)
    return Diagnostic("remark", message, "pipelined", record.place, notes)


def _wait(record: Any) -> Diagnostic:
    part = f"{record.part}: " if record.part else ""
    groups = f"{count(record.count, 'group')} of {record.queue or 'its queue'}"
    message = f"{part}{groups} may stay in flight: {record.why}"
    return Diagnostic("remark", message, record.reason, record.place, _path(record.witness))


def _path(witness: Sequence[Any]) -> tuple[Note, ...]:
    """The steps of a path as one note at the first; steps that repeat are named once."""
    shown: list[str] = []
    for step, repeated in itertools.groupby(witness):
        times = len(list(repeated))
        where = f" ({step.place.line}:{step.place.column})" if shown and step.place.line else ""
        shown.append(f"{step.what}{where}{f', {times} times' if times > 1 else ''}")
    return (Note("; ".join(shown), witness[0].place),) if shown else ()
