"""Accesses to global memory as they were met on all paths, in groups that differ little.

store C[128 by + row, 128 bx + col]        one group: the starts differ in constants and
store C[128 by + row + 8, 128 bx + col]    thread ids alone, so all are compared at once
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import combinations, combinations_with_replacement
from typing import Any

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.differences import around
from mlir_async_pipe.checker.forms import Atom, AtomRange, Facts, Form
from mlir_async_pipe.checker.grid_blocks import block_axis, with_thread_numbers
from mlir_async_pipe.checker.paths import at_least, at_most, hull
from mlir_async_pipe.checker.places import is_of_thread
from mlir_async_pipe.checker.sites import Manner, Site, conflict
from mlir_async_pipe.checker.slots import span
from mlir_async_pipe.checker.state import Event
from mlir_async_pipe.checker.thread_grid import (
    ThreadRange,
    Threads,
    ends_of_threads,
    form_under,
    thread_facts,
)
from mlir_async_pipe.facts.values.views import Piece, Region, as_bytes
from mlir_async_pipe.vocabulary.rows import Scope


@dataclass
class Touched:
    """One access as it was met on some paths: what all of them knew of its unknowns, and
    `launch`, what they knew of numbers that are the same in all blocks.

    `witness` are the facts of both kinds on one path that certainly comes there. `twins` are the sites
    of accesses with the same meaning, which it stands for in its group.
    """

    event: Event
    facts: dict[Atom, AtomRange]
    launch: dict[Atom, AtomRange]
    certain: bool
    witness: tuple[dict[Atom, AtomRange], dict[Atom, AtomRange]]
    twins: set[int] = field(default_factory=set)

    @property
    def sites(self) -> set[int]:
        """The sites of all accesses that it stands for."""
        return {self.event.site, *self.twins}


@dataclass(frozen=True)
class AccessGroup:
    """Accesses of one manner to one root that differ in constants and thread ids only.

    `shared` is the rest of each dimension's start, `bounds` hold the part that differs, `spans`
    the length of what one access touches, `met` the conditions that their threads have met.
    """

    manner: Manner
    shared: tuple[Form, ...]
    members: tuple[tuple[Touched, Region], ...]
    bounds: tuple[tuple[int | None, int | None], ...]
    spans: tuple[int, ...]
    facts: dict[Atom, AtomRange]
    launch: dict[Atom, AtomRange]
    met: tuple[ThreadRange, ...]


# Unknowns that hold no form of others.
_PLAIN = frozenset({"tid", "iteration", "symbol"})


def groups_of(
    all_touched: list[Touched], sites: list[Site], threads: Threads, *, numbered: bool
) -> list[AccessGroup] | None:
    """The groups of the accesses to one root; None where some cannot be compared at all.

    `numbered`: block * size + thread counts as one number of the thread.
    """
    frames = {touched.event.region.frame for touched in all_touched}
    alike = len(frames) == 1 and not next(iter(frames)).base.terms
    members: dict[tuple[Any, ...], list[tuple[Touched, Region]]] = {}
    met_before: dict[Any, Touched] = {}
    for touched in all_touched:
        region = touched.event.region if alike else as_bytes(touched.event.region)
        if region is None or any(piece is None for piece in region.pieces):
            return None
        pieces = [piece for piece in region.pieces if piece is not None]
        site = sites[touched.event.site]
        manner = site.manner
        meaning = (manner, _meaning(touched, region, site))
        if meaning in met_before:
            met_before[meaning].twins.add(touched.event.site)
            continue
        met_before[meaning] = touched
        if numbered:
            pieces = [p._replace(start=with_thread_numbers(p.start)) for p in pieces]
            region = region._replace(pieces=tuple(pieces))
        shared = tuple(split(piece.start)[1] for piece in pieces)
        met = frozenset((a, k) for a, k in touched.facts.items() if block_axis(a) is not None)
        given = frozenset((a, k) for a, k in touched.launch.items() if k.exact is not None)
        members.setdefault((manner, shared, met, given), []).append((touched, region))
    return [
        _group(manner, shared, found, threads) for (manner, shared, *_), found in members.items()
    ]


def _meaning(touched: Touched, region: Region, site: Site) -> Any:
    """All of an access but its op, and which loops its iteration numbers count.

    Of equal loops over one tensor each access has the same meaning: one of them is held
    against the others. The numbers of two accesses are independent of each other, so that only
    their ranges and coefficients matter; those in operators keep their names.
    """
    starts = [piece.start for piece in region.pieces if piece is not None]
    named = {*touched.facts, *touched.launch}.union(*map(forms.atoms_of, starts))
    alike: dict[Atom, Atom] = {}
    if not any(atom.kind == "iteration" for atom in named):
        return (
            region,
            touched.event.threads,
            touched.event.maybe,
            frozenset(touched.facts.items()),
            frozenset(touched.launch.items()),
            touched.certain,
            site.independent,
        )
    if all(atom.kind in _PLAIN for atom in named) and not region.frame.base.terms:
        uses = {
            atom: (tuple(dict(form.terms).get(atom, 0) for form in starts), touched.facts.get(atom))
            for atom in named
            if atom.kind == "iteration"
        }
        alike = {
            atom: Atom("iteration", n)
            for n, atom in enumerate(sorted(uses, key=lambda a: repr(uses[a])))
        }

    def renamed(knowns: Iterable[tuple[Atom, Any]]) -> frozenset[tuple[Atom, Any]]:
        return frozenset((alike.get(atom, atom), known) for atom, known in knowns)

    pieces = tuple(
        piece and piece._replace(start=piece.start._replace(terms=renamed(piece.start.terms)))
        for piece in region.pieces
    )
    return (
        region._replace(pieces=pieces),
        touched.event.threads,
        touched.event.maybe,
        renamed(touched.facts.items()),
        renamed(touched.launch.items()),
        touched.certain,
        site.independent,
    )


def _group(
    manner: Manner,
    shared: tuple[Form, ...],
    members: list[tuple[Touched, Region]],
    threads: Threads,
) -> AccessGroup:
    bounds: list[tuple[int | None, int | None]] = []
    spans: list[int] = []
    facts, launch = members[0][0].facts, members[0][0].launch
    for touched, _ in members[1:]:
        facts = both_facts(facts, touched.facts, (launch, touched.launch))
        launch = both_facts(launch, touched.launch)
    base = thread_facts(threads)

    # The elements of a tile stand in rows and columns: of 64 starts 8 differ in a dimension.
    @cache
    def of_thread(start: Form, met: ThreadRange) -> tuple[int | None, int | None]:
        own = split(start)[0]
        # Ends of `tid * 4 or 512`, and of other operators on bits, are too wide; numbers are exact.
        ends = ends_of_threads(own, threads, met)
        return forms.bounds(own, {**base, **dict(met)}) if ends is None else ends

    for column in zip(*(region.pieces for _, region in members), strict=True):
        ends = [
            of_thread(piece.start, touched.event.threads)
            for piece, (touched, _) in zip(column, members, strict=True)
        ]
        bounds.append(around(ends))
        spans.append(max(span(piece) for piece in column))
    met = tuple({touched.event.threads: None for touched, _ in members})
    return AccessGroup(
        manner, shared, tuple(members), tuple(bounds), tuple(spans), facts, launch, met
    )


def alone(group: AccessGroup, threads: Threads) -> list[AccessGroup]:
    """A group for each access of a group."""
    return [_group(group.manner, group.shared, [member], threads) for member in group.members]


@lru_cache(maxsize=1 << 12)
def split(form: Form) -> tuple[Form, Form]:
    """The constant and the numbers of threads in a form, and the rest of it."""
    mine = frozenset(term for term in form.terms if is_of_thread(term[0]))
    return Form(form.constant, mine), Form(0, form.terms - mine)


def parts_of(group: AccessGroup) -> list[tuple[Event, tuple[Piece, ...]]]:
    """The accesses of a group with the pieces that they touch."""
    return [(t.event, tuple(p for p in r.pieces if p is not None)) for t, r in group.members]


def thread_parts(group: AccessGroup) -> list[tuple[Event, tuple[Piece, ...]]]:
    """The same with what constants and threads decide only: places beside the shared part."""
    return [
        (event, tuple(piece._replace(start=split(piece.start)[0]) for piece in pieces))
        for event, pieces in parts_of(group)
    ]


def shifted(
    accesses: list[tuple[Event, tuple[Piece, ...]]], offset: tuple[int, ...]
) -> list[tuple[Event, tuple[Piece, ...]]]:
    """The accesses with a number added to the start in each dimension; the same list for none."""
    if not any(offset):
        return accesses
    return [
        (
            event,
            tuple(
                piece._replace(start=forms.add(piece.start, forms.Form(number)))
                for piece, number in zip(pieces, offset, strict=True)
            ),
        )
        for event, pieces in accesses
    ]


def beside(
    accesses: list[tuple[Event, tuple[Piece, ...]]], numbers: list[Atom]
) -> list[tuple[Event, tuple[Piece, ...]]]:
    """The accesses with numbers of their threads as more dimensions: places of one of them only meet."""
    more = tuple(Piece(forms.of_atom(number), (), 1) for number in numbers)
    return [(event, (*pieces, *more)) for event, pieces in accesses]


def conflicting(
    groups: Iterable[AccessGroup], threads: Scope
) -> Iterator[tuple[AccessGroup, AccessGroup]]:
    """The pairs of groups that may race between threads of a block, or of the device; each group
    with itself too."""
    for a, b in combinations_with_replacement(groups, 2):
        if conflict(a.manner, b.manner, threads) is not False and may_be_one_launch(
            a.launch, b.launch
        ):
            yield a, b


def aliasing(
    all_touched: Iterable[Touched], sites: list[Site]
) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Two roots, and the sites of two accesses that conflict if both are one memory."""
    by_root: dict[int, list[int]] = {}
    for touched in all_touched:
        by_root.setdefault(touched.event.region.root, []).append(touched.event.site)
    for a, b in combinations(sorted(by_root), 2):
        pairs = [
            (max(x, y), min(x, y))
            for x in by_root[a]
            for y in by_root[b]
            if conflict(sites[x].manner, sites[y].manner, "device") is not False
        ]
        if pairs:
            yield a, b, min(pairs)


def both_facts(
    a: dict[Atom, AtomRange], b: dict[Atom, AtomRange], beside: tuple[Facts, Facts] = ({}, {})
) -> dict[Atom, AtomRange]:
    """What holds on two paths; of a sum that one says nothing about, what its parts say, and
    what that one knows `beside`."""
    found = {atom: both(a[atom], known) for atom, known in b.items() if atom in a}
    for one, other, more in ((a, b, beside[1]), (b, a, beside[0])):
        for atom in one.keys() - found.keys():
            if atom.kind == "sum":
                implied = AtomRange(*forms.bounds(form_under(atom), {**more, **other}))
                found[atom] = both(one[atom], implied)
    return found


def may_be_one_launch(a: dict[Atom, AtomRange], b: dict[Atom, AtomRange]) -> bool:
    """Whether what two accesses know of the numbers of a launch does not contradict."""
    return all(_meet(known, b[atom]) for atom, known in a.items() if atom in b)


def _meet(a: AtomRange, b: AtomRange) -> bool:
    return not (
        (a.high is not None and b.low is not None and a.high < b.low)
        or (b.high is not None and a.low is not None and b.high < a.low)
    )


def must_meet(
    one: Touched, other: Touched, numbers: tuple[dict[Atom, int], dict[Atom, int]]
) -> bool:
    """Whether one launch certainly has both accesses, with these numbers for their unknowns."""
    (facts, launch), (others, other_launch) = one.witness, other.witness
    for given, theirs in ((launch, other_launch), (other_launch, launch)):
        for atom, known in given.items():
            if known.modulus != 1 or (atom.kind != "symbol" and theirs.get(atom) != known):
                return False
    if not (one.certain and other.certain and may_be_one_launch(launch, other_launch)):
        return False
    joint = joint_launch(launch, other_launch)
    return all(
        known.contains(AtomRange(*forms.bounds(form_under(atom), {**joint, **_exact(values)})))
        for met, values in ((facts, numbers[0]), (others, numbers[1]))
        for atom, known in met.items()
        if atom in values or atom.kind == "sum"
    )


def with_decisions(launch: dict[Atom, AtomRange]) -> dict[Atom, AtomRange]:
    """Also what comparisons that a path decided say of the numbers that they compare: n - 2 < 0
    was false, so n >= 2."""
    found = launch
    for atom, known in launch.items():
        if atom.kind == "call" and known.exact is not None:
            name, arguments = forms.operator_of(atom)
            if name == "cmp<":
                decide = at_most if known.exact else at_least
                found = decide(arguments[0], -known.exact, found)[0] or found
    return found


def joint_launch(a: dict[Atom, AtomRange], b: dict[Atom, AtomRange]) -> dict[Atom, AtomRange]:
    """What two accesses of one launch know of its numbers together."""
    return {**a, **{atom: _cut(known, a.get(atom)) for atom, known in b.items()}}


def _exact(numbers: dict[Atom, int]) -> dict[Atom, AtomRange]:
    return {atom: AtomRange(number, number) for atom, number in numbers.items()}


def both_ranges(one: ThreadRange, other: ThreadRange) -> ThreadRange:
    """The conditions of a thread that has met both."""
    met = dict(one)
    return tuple((met | {atom: _cut(known, met.get(atom)) for atom, known in other}).items())


def _cut(a: AtomRange, b: AtomRange | None) -> AtomRange:
    """What both say."""
    if b is None:
        return a
    low = max((k.low for k in (a, b) if k.low is not None), default=None)
    high = min((k.high for k in (a, b) if k.high is not None), default=None)
    return a._replace(low=low, high=high)


def both(a: AtomRange, b: AtomRange) -> AtomRange:
    """What holds for the values of two paths."""
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    high = None if a.high is None or b.high is None else max(a.high, b.high)
    return hull(a, b)._replace(low=low, high=high)
