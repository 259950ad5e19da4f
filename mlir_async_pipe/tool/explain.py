"""`--explain`: the numbering of each loop's statements, and what each loop became.

    gemm.mlir:35:16: remark: 3 stages, 1 group an iteration [pipelined]
    gemm.mlir:35:16: note: buffer 'a_shared' has 3 versions of 8192 bytes

Passes add what they know, since the session asks them to: the count pass tells for each wait
the path that attains its count. `--explain=NAME` keeps what concerns the function of that name,
`--explain=LINE` the loop that stands in that line.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import functions, symbol_name, walk
from mlir_async_pipe.loops.find_loops import find_loops
from mlir_async_pipe.loops.statements import numbering, read_body
from mlir_async_pipe.session.diagnostics import (
    AsyncPipeError,
    Diagnostic,
    Diagnostics,
    Note,
    Place,
    UsageError,
)
from mlir_async_pipe.session.report import Session

EVERYTHING = "true"


def selected_places(root: Any, selector: str) -> frozenset[Place] | None:
    """The places of all ops that `selector` names, None if it selects everything.

    Raises UsageError (unknown-loop) if it names nothing.
    """
    if selector == EVERYTHING:
        return None
    if selector.isdecimal():
        line = int(selector)
        found = [op for op in walk(root) if op.name == "scf.for" and Place.of(op).line == line]
    else:
        found = [op for op in functions(root) if symbol_name(op) == selector]
    if not found:
        raise UsageError(
            f"--explain={selector} names no function and no line of a loop",
            code="unknown-loop",
            advice="write the name of a function, or the line in which an scf.for stands",
        )
    return frozenset(Place.of(inner) for op in found for inner in walk(op))


def numberings(root: Any) -> list[Diagnostic]:
    """One remark a loop that is to be pipelined, with a note for each statement."""
    said = Diagnostics()
    for loop in find_loops(root):
        try:
            notes = numbering(read_body(loop))
        except AsyncPipeError:
            continue  # the schedule pass tells what is wrong with this loop
        said.remark(f"{_count(len(notes), 'statement')}", code="statements", at=loop, notes=notes)
    return said.items


def decisions(session: Session) -> list[Diagnostic]:
    """One remark a pipelined loop; the count pass speaks for the waits itself."""
    return [_loop(record) for record in session.records.get("loops", [])]


def only(said: list[Diagnostic], places: frozenset[Place] | None) -> list[Diagnostic]:
    """Errors and warnings, and the remarks at one of `places`; all if that is None."""
    return [
        entry
        for entry in said
        if places is None or entry.severity in ("error", "warning") or entry.place in places
    ]


def _loop(record: Any) -> Diagnostic:
    groups = _count(record.groups_per_iteration, "group")
    message = f"{_count(record.stages, 'stage')}, {groups} an iteration"
    notes = tuple(_buffer(entry, record.place) for entry in record.buffers)
    if record.filling.empty_groups:
        empty = _count(record.filling.empty_groups, "empty group")
        kept = _count(record.filling.kept_in_flight, "more group")
        text = f"{empty} in the prologue; the kernel's waits leave {kept} in flight for it"
        notes += (Note(text, record.place),)
    return Diagnostic("remark", message, "pipelined", record.place, notes)


def _buffer(record: Any, place: Place) -> Note:
    versions = _count(record.versions, "version")
    return Note(f"buffer '{record.buffer}' has {versions} of {record.slot_bytes} bytes", place)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
