"""What a pipelined loop looks like: its prologue, kernel and epilogue, found in the IR.

    copy, commit                  prologue
    copy, commit
    scf.for {                     kernel: wait (1 group stays) -> commits of prologue and kernel
      wait, barrier                 barrier
      copy, commit                  copy, commit
      load … store                  load, store
    }
    wait, barrier, load … store   epilogue: wait (1) …, wait (0) …

What a pipeline is written of has the places of the loop that it was. So the kernel is the loop at
the place of the record, and what stands around it in its block with places of ops in the kernel is
prologue and epilogue. A loop without places has no outline. The loop as it was, which may stand
beside the pipeline for short trips, is no kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    defining_op,
    operations,
    parent,
    unchanged,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.flow.region_flow import origins
from mlir_async_pipe.facts.loops.annotations import STAGE
from mlir_async_pipe.reports.markup import count
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import given_count, is_wait_name, row_of
from mlir_async_pipe.vocabulary.products import PRODUCTS, products_left
from mlir_async_pipe.vocabulary.rows import WGMMA
from mlir_async_pipe.waits.witness_paths import FEW

PARTS = ("prologue", "kernel", "epilogue")
RUNNING = ("copy", "product", "statement")
# What the thread does that copies.
COPYING = ("copy", "announcement")


@dataclass(frozen=True)
class Entry:
    """One op of a pipeline: a "copy" that is issued, a "product" of matrices, a "commit", "wait",
    "barrier" or a plain "statement"; of an mbarrier a "phase wait", an "arrival", or an "announcement"
    of bytes that are to come.

    A wait leaves `count` groups in flight, a product that waits by itself too. `commits` are the numbers of the entries whose group
    its token may denote, `record` that of the wait's record in the report; None where several
    records fit. `group` is the number of the group of mbarriers that it is about, in the records of
    roles, None where it is about none or several.
    """

    number: int
    part: str
    kind: str
    op: str
    place: Place
    count: int | None = None
    commits: tuple[int, ...] = ()
    record: int | None = None
    group: int | None = None


@dataclass(frozen=True)
class Outline:
    """One pipelined loop: its entries in the order in which they stand.

    Where warps have roles, the loop became several, each with an outline: `role` is "copies",
    "products" or "computation", `threads` are those of the block that run it, "0-127". Both are ""
    where all threads run it."""

    place: Place
    entries: tuple[Entry, ...]
    role: str = ""
    threads: str = ""

    @property
    def title(self) -> str:
        """The role and its threads, "" if there is one only."""
        return f"{self.role} ({self.threads})" if self.threads else self.role

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts to be shown: a role that runs ahead by itself has no prologue."""
        return tuple(part for part in PARTS if not self.role or self.of(part))

    def of(self, part: str) -> tuple[Entry, ...]:
        """The entries of the prologue, the kernel or the epilogue."""
        return tuple(entry for entry in self.entries if entry.part == part)

    def contents(self, part: str) -> str:
        """What a part holds: 2 copies, 1 commit, 2 waits (1, 0)."""
        shown = []
        entries = self.of(part)
        for kind, number in Counter(entry.kind for entry in entries).items():
            counts = [str(entry.count) for entry in entries if entry.kind == kind == "wait"]
            shown.append(count(number, kind) + (f" ({', '.join(counts)})" if counts else ""))
        return ", ".join(shown) or "nothing"

    def stages(self, stages: int) -> dict[Place, int]:
        """The stage of the statements at each place: one of stage s stands S - 1 - s times in
        the prologue for each time that it stands in the kernel.

        Where phases say when copies are over, nothing is peeled: copies are stage 0, all else is the
        last one."""
        kernel = self.of("kernel")
        if any(entry.kind in ("phase wait", "announcement") for entry in kernel):
            return {
                entry.place: 0 if entry.kind in COPYING else stages - 1
                for entry in kernel
                if entry.kind in (*RUNNING, "announcement")
            }
        counted = {
            part: Counter(e.place for e in self.of(part) if e.kind in RUNNING) for part in PARTS
        }
        found = {}
        for place, once in counted["kernel"].items():
            before, rest = divmod(counted["prologue"][place], once)
            if not rest and before < stages:
                found[place] = stages - 1 - before
        return found


@unchanged()
def record_outlines(root: Any, session: Session) -> None:
    """Record an outline of each pipelined loop of the session that stands in the IR, and in the
    records of its waits where they stand."""
    loops = _loops(root, session)
    if not loops:
        return
    records = _records(root, session)
    beside: dict[Block, dict[Place, list[Shown]]] = {}
    for loop in loops:
        if _is_original(loop):
            for wait in walk_named(loop, is_wait_name):
                if wait in records:
                    _note_part(session, records[wait], FEW)
            continue
        if loop.block not in beside:
            beside[loop.block] = _by_place(loop.block)
        ops = _ops(loop, beside[loop.block])
        numbers = {op: number for number, (_, _, op) in enumerate(ops)}
        entries = tuple(
            _entry(numbers[op], part, kind, op, numbers, records) for part, kind, op in ops
        )
        session.record("outlines", Outline(Place.of(loop), entries))
        for entry in entries:
            if entry.record is not None:
                _note_part(session, entry.record, entry.part)


def pipelined_loops(root: Any, session: Session) -> list[Operation]:
    """The kernels of the session's pipelined loops that stand in the IR."""
    return [loop for loop in _loops(root, session) if not _is_original(loop)]


def _loops(root: Any, session: Session) -> list[Operation]:
    """These, and the loops as they were."""
    places = {record.place for record in session.records.get("loops", []) if record.place.line}
    return [op for op in walk_named(root, "scf.for".__eq__) if Place.of(op) in places]


def name_roles(session: Session) -> None:
    """Say in the outlines which role runs each of them, and in which threads: after the check."""
    if "outlines" in session.records:
        session.records["outlines"] = list(_with_roles(session))


def _note_part(session: Session, record: int, part: str) -> None:
    waits = session.records["waits"]
    waits[record] = replace(waits[record], part=part)


def _with_roles(session: Session) -> Iterator[Outline]:
    """The outlines; of those of one place each with its role, and with the threads that the checker
    met at those of its ops on mbarriers that no other one has."""
    groups: dict[tuple[str, Place], set[int]] = {}
    for use in session.records.get("roles", []):
        groups.setdefault((use.op, use.place), set()).add(use.group)
    outlines = [_with_groups(outline, groups) for outline in session.records["outlines"]]
    for outline in outlines:
        others = [e for e in outlines if e.place == outline.place and e is not outline]
        if not others:
            yield outline
            continue
        kinds = {entry.kind for entry in outline.of("kernel")}
        role = "products" if "product" in kinds else "copies" if "copy" in kinds else "computation"
        taken = {(entry.op, entry.place) for other in others for entry in other.entries}
        own = {(entry.op, entry.place) for entry in outline.entries} - taken
        uses = [use for use in session.records.get("roles", []) if (use.op, use.place) in own]
        # Those who wait are more than those who arrive for them; ping-pong groups run the same ops.
        waiting = [use.threads for use in uses if use.does == "waits"]
        threads = " and ".join(dict.fromkeys(waiting))
        yield replace(outline, role=role, threads=threads and f"threads {threads}")


def _with_groups(outline: Outline, groups: dict[tuple[str, Place], set[int]]) -> Outline:
    def named(entry: Entry) -> Entry:
        found = groups.get((entry.op, entry.place), set())
        return replace(entry, group=next(iter(found))) if len(found) == 1 else entry

    return replace(outline, entries=tuple(map(named, outline.entries)))


def _is_original(loop: Operation) -> bool:
    """Whether this is the loop as it was, beside a pipeline that needs more iterations."""
    around = parent(loop)
    return (
        around is not None
        and around.name == "scf.if"
        and Place.of(around) == Place.of(loop)
        and any(op == loop for op in _inside(around.regions[1]))
    )


Shown = tuple[int, Operation, str, Operation]
"""(number in its block, op of the block that it is or stands in, kind, op)"""


def _by_place(block: Block) -> dict[Place, list[Shown]]:
    """The ops of a block that matter, and those in them, by their places: each loop of many asks
    for its own ones."""
    shown = ((top, kind, op) for top in operations(block) for kind, op in _shown(walk(top)))
    found: dict[Place, list[Shown]] = {}
    for number, (top, kind, op) in enumerate(shown):
        found.setdefault(Place.of(op), []).append((number, top, kind, op))
    return found


def _ops(loop: Operation, by_place: dict[Place, list[Shown]]) -> list[tuple[str, str, Operation]]:
    """Part, kind and op of everything that a pipeline consists of."""
    # What is written for the whole loop, such as the last wait for products, has the loop's own place.
    places = {Place.of(loop), *(Place.of(op) for _, op in _shown(walk(loop)))}
    found = (shown for place in places for shown in by_place.get(place, ()))
    near = sorted(found, key=lambda shown: shown[0])
    parts: list[tuple[str, str, Operation]] = []
    part = "prologue"
    # A loop of the computation stands in the prologue and the epilogue, too.
    loops = {Place.of(op) for op in walk_named(loop, "scf.for".__eq__)}
    for _, top, kind, op in near:
        if top == loop:
            parts.append(("kernel", kind, op))
            part = "epilogue"
        elif top.name != "scf.for" or Place.of(top) in loops:
            parts.append((part, kind, op))
    return parts


def _shown(ops: Iterable[Operation]) -> Iterator[tuple[str, Operation]]:
    """The ops that matter, each with its kind."""
    for op in ops:
        kind = _kind(op)
        if kind:
            yield kind, op


def _kind(op: Operation) -> str:
    row = row_of(op)
    if multiplies(op):
        return "product"
    if row.phase in _OF_PHASES:
        return _OF_PHASES[row.phase]
    if not row.known:
        if row.pure and STAGE not in op.attributes:
            return ""
        return "" if len(op.regions) or _ends(op) else "statement"
    if row.wait is not None:
        return "wait"
    if row.barrier is not None:
        return "barrier"
    if row.commits == "group":
        return "commit"
    return "copy" if row.asynchronous(op) else "statement"


def multiplies(op: Operation) -> bool:
    row = row_of(op)
    in_flight = row.queue is WGMMA and row.asynchronous(op)
    return op.name in PRODUCTS or row.tensor == "product" or in_flight


_OF_PHASES = {
    "arrive": "arrival",
    "commit": "arrival",
    "expect": "announcement",
    "wait": "phase wait",
    "test": "phase wait",
    "copy": "copy",
}


def _ends(op: Operation) -> bool:
    return op.name.endswith((".yield", ".return", ".condition"))


def _inside(region: Any) -> Iterator[Operation]:
    for block in region:
        yield from operations(block)


def _records(root: Any, session: Session) -> dict[Operation, int]:
    """The number of the record of each wait, where it is plain which: as many waits stand at its
    place with its count as records do. Both are in the order of the text."""
    recorded: dict[tuple[Place, int], list[int]] = {}
    for number, record in enumerate(session.records.get("waits", [])):
        recorded.setdefault((record.place, record.count), []).append(number)
    standing: dict[tuple[Place, int], list[Operation]] = {}
    for op in walk_named(root, is_wait_name):
        if _kind(op) == "wait":
            standing.setdefault((Place.of(op), _count(op) or 0), []).append(op)
    found: dict[Operation, int] = {}
    for key, ops in standing.items():
        numbers = recorded.get(key, [])
        if len(numbers) == len(ops):
            found.update(zip(ops, numbers, strict=True))
    return found


def _entry(
    number: int,
    part: str,
    kind: str,
    op: Operation,
    numbers: dict[Operation, int],
    records: dict[Operation, int],
) -> Entry:
    place = Place.of(op)
    if kind != "wait":
        return Entry(number, part, kind, op.name, place, products_left(op))
    commits = sorted({numbers[made] for made in _makers(list(op.operands)) if made in numbers})
    return Entry(number, part, kind, op.name, place, _count(op), tuple(commits), records.get(op))


def _count(op: Operation) -> int | None:
    row = row_of(op)
    assert row.wait is not None
    given = given_count(op)
    return 0 if given is None and row.wait.form == "token" else given


def _makers(values: Sequence[Value]) -> Iterator[Operation]:
    """The ops that make what `values` may be, through loops, branches and selects."""
    seen = set(values)
    open_values = list(values)
    while open_values:
        value = open_values.pop()
        further = origins(value).values
        if not further:
            op = defining_op(value)
            if op is not None:
                yield op
        open_values += [next_value for next_value in further if next_value not in seen]
        seen.update(further)
