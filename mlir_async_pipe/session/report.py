"""What a pass found and did, as frozen dataclasses that turn into JSON.

A `Session` travels through the passes of one run: it gathers diagnostics (remarks, warnings,
kept errors) and records (one per loop, wait, buffer, hazard, kernel). Records are whatever
frozen dataclasses a pass defines; the driver prints them and `to_json` nests them.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from mlir_async_pipe.session.arguments import did_you_mean
from mlir_async_pipe.session.called_from import called_by_users
from mlir_async_pipe.session.diagnostics import Diagnostics, Place, Severity, UsageError

if TYPE_CHECKING:
    from mlir_async_pipe.chips import Target

# What the passes of this package record; passes of others may add kinds.
KINDS = (
    "raised", "suggestions", "schedules", "extra_stages", "fragments", "loops", "waits", "relaxed", "stores",
    "drains", "simplifications", "barriers", "needless", "hazards", "roles", "checks", "kernels",
    "instructions", "races", "outlines", "timelines",
)  # fmt: skip


@dataclass
class Session:
    """The state of one run over one module.

    `target` is where the module is going (None: not decided, every abstract queue is its
    own FIFO). `explain` asks passes to leave `async_pipe.reason` attributes and notes.
    `witnesses` asks the count for the reason of each count and the path that attains it, which
    may take as long as the count. `hazards` is the severity that a hazard found by the checker
    gets in the end. `seconds` says how long steps took, by their names."""

    target: Target | None = None
    explain: bool = False
    witnesses: bool = True
    hazards: Severity = "error"
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    records: dict[str, list[Any]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    def record(self, kind: str, entry: Any) -> None:
        """Keep one record under `kind`, see `KINDS`."""
        self.records.setdefault(kind, []).append(entry)

    def silent(self) -> Session:
        """A session with the same settings, for what may come to nothing; see `take`."""
        return dataclasses.replace(self, diagnostics=Diagnostics(), records={}, seconds={})

    def take(self, other: Session) -> None:
        """Gather all that another session has gathered, after what is there."""
        self.diagnostics.items += other.diagnostics.items
        for kind, entries in other.records.items():
            self.records.setdefault(kind, []).extend(entries)
        for name, seconds in other.seconds.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Add the wall time of the block to the step `name`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def report(self) -> Report:
        """What has been gathered so far, frozen."""
        records = {kind: tuple(entries) for kind, entries in self.records.items()}
        return Report(tuple(self.diagnostics.items), records, dict(self.seconds))


@dataclass(frozen=True)
class Report:
    """The outcome of a run: diagnostics, and records by kind.

    `seconds` is the wall time of each step, by its name: no two runs have the same, so it counts
    for no comparison and is not in the JSON. `page` writes a report as HTML, `text` as what `print`
    shows; the room that can do so puts them there (`api`)."""

    page: ClassVar[Callable[[Report], str] | None] = None
    text: ClassVar[Callable[[Report], str] | None] = None

    diagnostics: tuple[Any, ...]
    records: dict[str, tuple[Any, ...]]
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    @called_by_users
    def of(self, kind: str) -> tuple[Any, ...]:
        """The records of one kind, in the order in which they were made; () if there are none.

        | kind            | one record for                                   | from               |
        |---|---|---|
        | raised          | a loop of blocks that became an scf.for          | raise-loops        |
        | suggestions     | a loop that nobody annotated                     | suggest            |
        | schedules       | a loop that was scheduled by latencies           | schedule           |
        | extra_stages    | a loop with more stages than it asked for        | schedule           |
        | fragments       | a loop that copies and multiplies                | schedule           |
        | loops           | a loop that was pipelined                        | expand             |
        | waits           | a wait, with its count in groups                 | count-waits        |
        | relaxed         | a wait that names no group and got a larger count | async-pipe, tokens |
        | stores          | a loop whose tensor stores stay in flight        | stores             |
        | drains          | a wait after a loop that was dropped             | drop-drains        |
        | simplifications | a wait or commit that was dropped                | simplify-waits     |
        | barriers        | a barrier that was inserted                      | barriers           |
        | needless        | a barrier that was dropped                       | drop-barriers      |
        | hazards         | an access that may race                          | check              |
        | roles           | an op on mbarriers, and the threads of a role    | check              |
        | checks          | a kernel, with how many accesses are safe        | check              |
        | kernels         | a kernel of the emitted code, with its resources | --emit             |
        | instructions    | a wait in the emitted code                       | --emit             |
        | races           | a race that the machine found                    | --run              |
        | outlines        | a pipelined loop, as it is written               | --report, --explain |
        | timelines       | a run, as a picture                              | --run --report=html |

        Raises UsageError (unknown-record) for a kind that is none of `KINDS` and that no pass
        of this run recorded."""
        if kind not in self.records and kind not in KINDS:
            advice = did_you_mean(str(kind), KINDS, "kinds of records")
            raise UsageError(f"no pass records '{kind}'", code="unknown-record", advice=advice)
        return self.records.get(kind, ())

    def to_json(self) -> dict[str, Any]:
        """The report as dictionaries, lists, numbers and strings."""
        return {
            "diagnostics": [item.to_json() for item in self.diagnostics],
            **{
                kind: [to_json(entry) for entry in entries]
                for kind, entries in self.records.items()
            },
        }

    def __str__(self) -> str:
        """The report as `print` shows it: what became of each loop, and all diagnostics."""
        text = type(self).text
        return repr(self) if text is None else text(self)

    def _repr_html_(self) -> str | None:
        """The report as notebooks show it."""
        page = type(self).page
        return None if page is None else page(self)


def to_json(value: Any) -> Any:
    """Turn nested dataclasses, tuples and places into plain JSON values."""
    if isinstance(value, Place):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(entry) for entry in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)
