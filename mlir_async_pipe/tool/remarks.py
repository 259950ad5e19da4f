"""LLVM's optimisation remarks as YAML: what was pipelined and counted, what was not, what failed.

    --- !Passed
    Pass:            async-pipe
    Name:            pipelined
    DebugLoc:        { File: 'gemm.mlir', Line: 33, Column: 17 }
    Function:        gemm
    Args:
      - String:          'in 4 stages'
      - Stages:          '4'
    ...

The form is that of LLVM's remark streamer (LLVM's manual, "Remarks"), which opt-viewer and
llvm-remarkutil read; the flags are those of mlir-opt. Loops and proofs are passed, counts and what
passes remark are analysis, warnings and refused loops are missed, other errors are failures.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.session.diagnostics import Diagnostic, Note, Place, count
from mlir_async_pipe.session.report import Report
from mlir_async_pipe.tool import output
from mlir_async_pipe.tool.command_line import Options
from mlir_async_pipe.tool.output import Sink
from mlir_async_pipe.tool.process import Processed

_CATEGORIES = {"error": "Failure", "warning": "Missed", "remark": "Analysis", "note": "Analysis"}
# Of what stands in no function, or in one that has no place: LLVM's parser wants a name.
_NO_FUNCTION = "<module>"


@dataclass(frozen=True)
class Remark:
    """One document: its category is the tag, `arguments` are keys and texts in order."""

    category: str
    producer: str
    name: str
    place: Place
    function: str
    arguments: tuple[tuple[str, str], ...]

    def to_yaml(self) -> str:
        lines = [f"--- !{self.category}"]
        lines += [f"Pass:            {self.producer}", f"Name:            {self.name}"]
        if self.place.line:
            file = _quoted(self.place.file)
            where = f"File: {file}, Line: {self.place.line}, Column: {self.place.column}"
            lines.append(f"DebugLoc:        {{ {where} }}")
        lines += [f"Function:        {_quoted(self.function)}", "Args:"]
        lines += [f"  - {key + ':':16} {_quoted(text)}" for key, text in self.arguments]
        return "\n".join([*lines, "...", ""])


def _filters(options: Options) -> dict[str, re.Pattern[str] | None]:
    """Of each category which "pass:name" are written, None for none. `--remarks-filter` is for all categories;
    without any filter all are written."""
    given = {
        "Passed": options.remarks_filter_passed,
        "Missed": options.remarks_filter_missed,
        "Analysis": options.remarks_filter_analyse,
        "Failure": options.remarks_filter_failed,
    }
    everything = options.remarks_filter or ("" if any(given.values()) else ".*")
    chosen = {category: text or everything for category, text in given.items()}
    return {category: re.compile(text) if text else None for category, text in chosen.items()}


class Functions:
    """Finds the function in which a place stands: the last that begins before it, in its file."""

    def __init__(self, begins: Iterable[tuple[Place, str]]) -> None:
        self._begins: dict[str, list[tuple[int, int, str]]] = {}
        for place, name in begins:
            found = self._begins.setdefault(place.file, [])
            found.append((place.line, place.column, name))
        for found in self._begins.values():
            found.sort()

    def at(self, place: Place) -> str:
        begins = self._begins.get(place.file, [])
        before = bisect_right(begins, (place.line, place.column, "\U0010ffff"))
        return begins[before - 1][2] if before else _NO_FUNCTION


def write(outcomes: Sequence[Processed], options: Options, sink: Sink) -> None:
    """Write the remarks of a run to the file of them or stderr: on each part of the input what was
    recorded, then what was said of all of it."""
    filters = _filters(options)
    functions = Functions(begin for outcome in outcomes for begin in outcome.functions)
    reports = [outcome.session.report() for outcome in outcomes]
    made = [remark for report in reports for remark in _of_records(report, functions)]
    refusals = [outcome.refusal for outcome in outcomes]
    reported = [_of_diagnostic(said, functions, said in refusals) for said in sink.taken]
    # --explain says what the records hold.
    known = {(remark.name, remark.place) for remark in made}
    made += [remark for remark in reported if (remark.name, remark.place) not in known]
    text = ""
    for remark in made:
        wanted = filters[remark.category]
        if wanted is not None and wanted.search(f"{remark.producer}:{remark.name}"):
            text += remark.to_yaml()
    if options.remarks_output_file == "-":
        sys.stderr.write(text)
    else:
        output.write(options.remarks_output_file, text.encode())


def _of_records(report: Report, functions: Functions) -> Iterator[Remark]:
    for loop in report.of("loops"):
        versions = [("Versions", f"{b.buffer}: {b.versions}") for b in loop.buffers]
        stages = ("String", f"in {loop.stages} stages"), ("Stages", str(loop.stages))
        arguments = (*stages, *versions)
        yield Remark("Passed", "async-pipe", "pipelined", loop.place, loop.function, arguments)
    for wait in report.of("waits"):
        yield _of_wait(wait, functions)
    for check in report.of("checks"):
        proven = not (check.unsafe or check.unknown)
        counted = (
            ("Accesses", check.accesses),
            ("Unsafe", check.unsafe),
            ("Unknown", check.unknown),
        )
        yield Remark(
            "Passed" if proven else "Missed",
            "async-pipe-check",
            "proven" if proven else "not-proven",
            Place(),
            check.function or _NO_FUNCTION,
            tuple((key, str(number)) for key, number in counted),
        )


def _of_wait(wait: Any, functions: Functions) -> Remark:
    why = f": {wait.why}" if wait.why else ""
    return Remark(
        "Analysis",
        "async-pipe-count-waits",
        wait.reason or "count",
        wait.place,
        functions.at(wait.place),
        (
            (
                "String",
                f"{count(wait.count, 'group')} of queue {wait.queue} may stay in flight{why}",
            ),
            ("NumGroups", str(wait.count)),
            *(("Witness", f"{step.what} ({step.place})") for step in wait.witness),
        ),
    )


def _of_diagnostic(diagnostic: Diagnostic, functions: Functions, refuses: bool) -> Remark:
    texts = (Note(diagnostic.message), *diagnostic.notes)
    said = [f"{n.message} ({n.place})" if n.place.line else n.message for n in texts]
    return Remark(
        "Missed" if refuses else _CATEGORIES[diagnostic.severity],
        "async-pipe" if diagnostic.code else "mlir",
        diagnostic.code or "diagnostic",
        diagnostic.place,
        functions.at(diagnostic.place),
        tuple(zip(("String", *["Note"] * len(diagnostic.notes)), said, strict=True)),
    )


def _quoted(text: str) -> str:
    """A YAML scalar on one line, in single quotes."""
    return "'" + " ".join(text.split("\n")).replace("'", "''") + "'"
