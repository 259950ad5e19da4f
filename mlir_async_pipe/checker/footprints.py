"""Accesses to shared global memory as they were met on all paths, in groups that differ little.

store C[128 by + row, 128 bx + col]        one group: the starts differ in constants and
store C[128 by + row + 8, 128 bx + col]    thread ids alone, so all are compared at once

What all paths to an access know of its unknowns counts:

path 1:  k in [0, 6],  n = 8       store out[128 block + k]
path 2:  k = 7                     both: k in [0, 7], and nothing of n
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, reduce
from itertools import combinations_with_replacement
from typing import Any, Literal

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.arithmetic import settle
from mlir_async_pipe.checker.forms import ANYTHING, Atom, AtomRange, Facts, Form, Knowns
from mlir_async_pipe.checker.grid_blocks import (
    GridBlocks,
    block_axis,
    distinct_axis,
    is_of_launch,
    with_thread_numbers,
)
from mlir_async_pipe.checker.overlap import span
from mlir_async_pipe.checker.paths import at_least, at_most, hull
from mlir_async_pipe.checker.sites import Manner, Site, conflict
from mlir_async_pipe.checker.state import Event, State
from mlir_async_pipe.checker.thread_grid import (
    ThreadRange,
    Threads,
    Touches,
    ends_of_threads,
    is_of_thread,
    thread_facts,
)
from mlir_async_pipe.facts.values import sums
from mlir_async_pipe.facts.values.sums import Interval
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
    facts: Knowns
    launch: Knowns
    certain: bool
    witness: tuple[Knowns, Knowns]
    twins: set[int] = field(default_factory=set)

    @property
    def sites(self) -> set[int]:
        """The sites of all accesses that it stands for."""
        return {self.event.site, *self.twins}


@dataclass(frozen=True)
class AccessGroup:
    """Accesses of one manner to one root that differ in constants and thread ids only.

    `shared` is the rest of each dimension's start, `bounds` hold the part that differs of accesses that are all as
    long as `spans` and touch no less, `met` the conditions that their threads have met.
    """

    manner: Manner
    shared: tuple[Form, ...]
    members: tuple[tuple[Touched, Region], ...]
    bounds: tuple[Interval, ...]
    spans: tuple[int, ...]
    facts: Knowns
    launch: Knowns
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
    held = [forms.form_under(atom) for atom in (*touched.facts, *touched.launch)]
    named = set[Atom]().union(*map(forms.atoms_of, (*held, *starts)))
    alike: dict[Atom, Atom] = {}
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

    def of_name(atom: Atom) -> Atom:
        if atom.kind == "sum":
            return Atom("sum", renamed(forms.terms_of(atom)))
        return alike.get(atom, atom)

    def renamed(knowns: Iterable[tuple[Atom, Any]]) -> frozenset[tuple[Atom, Any]]:
        return frozenset((of_name(atom), known) for atom, known in knowns)

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
    bounds: list[Interval] = []
    spans: list[int] = []
    facts, launch = members[0][0].facts, members[0][0].launch
    for touched, _ in members[1:]:
        facts = both_facts(facts, touched.facts, (launch, touched.launch))
        launch = both_facts(launch, touched.launch)
    base = thread_facts(threads)

    # The elements of a tile stand in rows and columns: of 64 starts 8 differ in a dimension.
    @cache
    def of_thread(start: Form, met: ThreadRange) -> Interval:
        own = split(start)[0]
        # Ends of `tid * 4 or 512`, and of other operators on bits, are too wide; numbers are exact.
        ends = ends_of_threads(own, threads, met)
        return forms.bounds(own, {**base, **dict(met)}) if ends is None else ends

    for column in zip(*(region.pieces for _, region in members), strict=True):
        ends = [
            of_thread(piece.start, touched.event.threads)
            for piece, (touched, _) in zip(column, members, strict=True)
        ]
        longest = max(span(piece) for piece in column)
        # What is shorter ends earlier: 2 elements from 126 on end as 4 from 124 on.
        begins = (
            (low, None if high is None else high + span(piece) - longest)
            for (low, high), piece in zip(ends, column, strict=True)
        )
        bounds.append(reduce(sums.either, begins))
        spans.append(longest)
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


def with_threads(group: AccessGroup) -> AccessGroup | None:
    """The group with the numbers of its threads as parts of what it shares; None where accesses have different ones. Each is
    a number by itself then: 4096 (tid div 16) + 4 (tid mod 16) is more than a number up to 61500."""
    shared: list[Form] = []
    bounds: list[Interval] = []
    columns = zip(*(region.pieces for _, region in group.members), strict=True)
    for form, column, longest in zip(group.shared, columns, group.spans, strict=True):
        own = [(split(piece.start)[0], span(piece)) for piece in column if piece is not None]
        if len({start.terms for start, _ in own}) > 1:
            return None
        shared.append(forms.add(form, Form(0, own[0][0].terms)))
        ends: list[Interval] = [(s.constant, s.constant + n - longest) for s, n in own]
        bounds.append(reduce(sums.either, ends))
    return replace(group, shared=tuple(shared), bounds=tuple(bounds))


def parts_of(group: AccessGroup) -> Touches:
    """The accesses of a group with the pieces that they touch."""
    return tuple(
        (t.event.threads, tuple(p for p in r.pieces if p is not None)) for t, r in group.members
    )


def thread_parts(group: AccessGroup) -> Touches:
    """The same with what constants and threads decide only: places beside the shared part."""
    return tuple(
        (met, tuple(piece._replace(start=split(piece.start)[0]) for piece in pieces))
        for met, pieces in parts_of(group)
    )


def shifted(accesses: Touches, offset: tuple[int, ...]) -> Touches:
    """The accesses with a number added to the start in each dimension."""

    def moved(piece: Piece, number: int) -> Piece:
        return piece._replace(start=forms.add(piece.start, Form(number)))

    return tuple((met, tuple(map(moved, pieces, offset))) for met, pieces in accesses)


def beside(accesses: Touches, numbers: list[Form]) -> Touches:
    """The accesses with numbers of their threads as more dimensions: places of one of them only meet."""
    more = tuple(Piece(number, (), 1) for number in numbers)
    return tuple((met, (*pieces, *more)) for met, pieces in accesses)


def in_rows(
    group: AccessGroup, terms: frozenset[tuple[Atom, int]], rows: tuple[Piece, ...]
) -> AccessGroup:
    """The group without some terms of its starts, and with more dimensions."""

    def without(form: Form) -> Form:
        return Form(form.constant, form.terms - terms)

    members = []
    for touched, region in group.members:
        cut = (p and p._replace(start=without(p.start)) for p in region.pieces)
        members.append((touched, region._replace(pieces=(*cut, *rows))))
    shared = (*map(without, group.shared), *(row.start for row in rows))
    return replace(group, shared=shared, members=tuple(members))


def conflicting(
    groups: Iterable[AccessGroup], threads: Scope
) -> Iterator[tuple[AccessGroup, AccessGroup]]:
    """The pairs of groups that may race between threads of a block, or of the device; each group with itself too."""
    for a, b in combinations_with_replacement(groups, 2):
        if conflict(a.manner, b.manner, threads) is not False and may_be_one_launch(
            a.launch, b.launch
        ):
            yield a, b


def both_facts(
    a: Knowns, b: Knowns, beside: tuple[Facts, Facts] = ({}, {}), base: Facts | None = None
) -> Knowns:
    """What holds on two paths; of a sum that one says nothing about, what its parts say, and
    what that one knows `beside`, and both (`base`)."""
    found = {atom: both(a[atom], known) for atom, known in b.items() if atom in a}
    for one, other, more in ((a, b, beside[1]), (b, a, beside[0])):
        for atom in one.keys() - found.keys():
            if atom.kind == "sum":
                given = {**(base or {}), **more, **other}
                implied = AtomRange(*forms.bounds(settle(forms.form_under(atom), given), given))
                found[atom] = both(one[atom], implied)
    return found


def may_be_one_launch(a: Knowns, b: Knowns) -> bool:
    """Whether what two accesses know of the numbers of a launch does not contradict."""
    return not any(known.is_apart(b[atom]) for atom, known in a.items() if atom in b)


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
        known.contains(
            AtomRange(*forms.bounds(forms.form_under(atom), {**joint, **_exact(values)}))
        )
        for met, values in ((facts, numbers[0]), (others, numbers[1]))
        for atom, known in met.items()
        if atom in values or atom.kind == "sum"
    )


def with_decisions(launch: Knowns) -> Knowns:
    """Also what comparisons that a path decided say of the numbers that they compare: n - 2 < 0
    was false, so n >= 2."""
    found = launch
    for atom, known in launch.items():
        name, arguments = forms.operator_of(atom)
        if name == "cmp<" and known.exact is not None:
            decide = at_most if known.exact else at_least
            found = decide(arguments[0], -known.exact, found)[0] or found
    return found


def joint_launch(a: Knowns, b: Knowns) -> Knowns:
    """What two accesses of one launch know of its numbers together: where one has n in 32 … 35, and the other one
    n div 4 >= 8, that is 8."""
    found = {**a, **{atom: known.within(a.get(atom, ANYTHING).ends) for atom, known in b.items()}}
    for atom in [atom for atom in found if atom.kind == "call"]:
        implied = forms.knowledge(atom, {one: k for one, k in found.items() if one != atom})
        found[atom] = found[atom].within(implied.ends)
    return found


def _exact(numbers: dict[Atom, int]) -> Knowns:
    return {atom: AtomRange(number, number) for atom, number in numbers.items()}


def both_ranges(one: ThreadRange, other: ThreadRange) -> ThreadRange:
    """The conditions of a thread that has met both."""
    met = dict(one)
    joint = {atom: known.within(met.get(atom, ANYTHING).ends) for atom, known in other}
    return tuple((met | joint).items())


def both(a: AtomRange, b: AtomRange) -> AtomRange:
    """What holds for the values of two paths."""
    if a == b:
        return a
    low, high = sums.either(a.ends, b.ends)
    return hull(a, b)._replace(low=low, high=high)


# The stores of one tile stand side by side and mention the same unknowns: what a path knows of these is gathered once.


@dataclass
class Meetings:
    """The accesses of one kernel; `base` is what is known of all threads."""

    scopes: FactScopes
    base: Facts
    _touched: dict[int, Touched] = field(default_factory=dict)

    @property
    def touched(self) -> Iterable[Touched]:
        """All accesses, in the order in which they were met first."""
        return self._touched.values()

    def meet(self, events: Iterable[Event], state: State) -> None:
        """Accesses on one path, side by side."""
        here = _Path(self.scopes, self.base, state)
        for event in events:
            met = self._touched.get(id(event))
            if met is None or not (met.certain and here.adds_nothing(met)):
                self._touched[id(event)] = here.meet(event, met)

    def adds_nothing(self, event: Event) -> bool:
        """Whether no other path can tell more of an event than is known already: it certainly
        happens, in any block, and in any thread."""
        met = self._touched.get(id(event))
        return met is not None and met.certain and not met.facts and not event.threads


@dataclass
class _Path:
    """One path at one point."""

    scopes: FactScopes
    base: Facts
    state: State
    _facts: dict[frozenset[Atom], Knowns] = field(default_factory=dict)

    def adds_nothing(self, met: Touched) -> bool:
        """Whether this path knows no less than what is known of an access already."""
        known = self.state.facts
        return all(
            known.get(atom) == value
            for facts in (met.facts, met.launch)
            for atom, value in facts.items()
        )

    def meet(self, event: Event, met: Touched | None) -> Touched:
        """An access, which other paths may have met."""
        facts, (_, _, launch, is_certain) = self._known_of(event), self._about_all
        certain = is_certain and not event.maybe
        if met is None:
            return Touched(event, facts, launch, certain, witness=(facts, launch))
        # Blocks between those of two paths need not come here.
        unlike = (atom for atom, known in facts.items() if met.facts.get(atom, known) != known)
        alike = all(block_axis(atom) is None for atom in unlike)
        if certain and not met.certain:
            met.witness = (facts, launch)
        met.facts = both_facts(met.facts, facts, (met.launch, launch), self.base)
        met.launch = both_facts(met.launch, launch)
        met.certain = (met.certain or certain) and alike
        return met

    def _known_of(self, event: Event) -> Knowns:
        """What is known of the unknowns of one access, and of its block."""
        found = self._facts.get(event.mentions)
        if found is None:
            known, mentions = self.state.facts, event.mentions
            found = {a: known[a] for a in mentions if a.kind != "tid" and a in known}
            blocks, sums, _, _ = self._about_all
            found.update(blocks)
            for atom in sums:
                if any(part in mentions for part, _ in forms.terms_of(atom)):
                    found[atom] = known[atom]
            self._facts[event.mentions] = found
        return found

    @cached_property
    def _about_all(self) -> tuple[Knowns, list[Atom], Knowns, bool]:
        """What every access here knows of its block; sums of what blocks count alike and of their own
        numbers; what is known of the launch; whether the access certainly happens."""
        facts, held = self.state.facts, self.scopes.of
        of_scope: dict[HoldsIn, Knowns] = {}
        for atom, known in facts.items():
            of_scope.setdefault(held(atom), {})[atom] = known
        of_blocks = (*of_scope.get("blocks", ()), *of_scope.get("each", ()))
        sums = [atom for atom in of_blocks if atom.kind == "sum"]
        launch = with_decisions(of_scope.get("grid", {}))
        certain = not self.state.tainted and of_scope.keys().isdisjoint(("path", "each"))
        return of_scope.get("block", {}), sums, launch, certain


# Two blocks, as numbers for what tells blocks apart: the first one and one after it.
#
#     C[128 block x + thread]            block x = 0 and 1, in both orders
#     C[128 (block x mod 4) + thread]    0 and 1, 2, 4, where the grid has so many
#
# Where such blocks touch one place, they certainly race.


def neighbours(
    grid: GridBlocks, is_fixed: Callable[[Atom], bool], a: AccessGroup, b: AccessGroup
) -> Iterator[tuple[dict[Atom, int], dict[Atom, int]]]:
    """Numbers for the unknowns of two blocks, next to each other or a power of two apart; none where some
    have no value that certainly occurs. `is_fixed` tells what all blocks have alike."""
    atoms = {
        atom
        for form in (*a.shared, *b.shared)
        for atom in forms.atoms_of(form)
        if atom.kind != "call"
    }
    free = list(filter(_is_free, atoms))
    # Of what blocks compute for themselves nobody knows that two of them come to one value.
    if not all(is_fixed(atom) and _cancels(atom, a, b) for atom in free):
        return
    for axis in grid.open_axes:
        distances = [1 << n for n in range(((grid.sizes[axis] or 2) - 1).bit_length())]
        for shift in (pair for by in distances for pair in ((0, by), (by, 0))):
            ends, blocks = [], []
            for group, step in zip((a, b), shift, strict=True):
                numbers = dict.fromkeys(free, 0)
                for atom in atoms:
                    along = block_axis(atom)
                    if atom.kind == "iteration":
                        numbers[atom] = group.facts.get(atom, ANYTHING).low or 0
                    elif along is not None:
                        low = of_axis(group.facts, along).low or 0
                        numbers[atom] = low + (step if along == axis else 0)
                ends.append(numbers)
                known, size = of_axis(group.facts, axis), grid.sizes[axis]
                number = (known.low or 0) + step
                exists = known.high is None or number <= known.high
                blocks.append(number if exists and (size is None or number < size) else None)
            if None not in blocks and blocks[0] != blocks[1]:
                yield ends[0], ends[1]


def are_undecidable(a: AccessGroup, b: AccessGroup) -> bool:
    """Whether `neighbours` has none for two groups, whatever the grid is: of (row + 16 i) * n nobody knows whether it is
    another one. Of terms that are alike more can be known."""
    return a.shared != b.shared and any(map(_is_hidden, (*a.shared, *b.shared)))


@lru_cache(maxsize=1 << 12)
def _is_hidden(form: Form) -> bool:
    """Whether an operator in a form has something else than what tells blocks and iterations apart."""
    operators = (atom for atom, _ in form.terms if atom.kind == "call")
    return any(_is_free(inner) for atom in operators for inner in forms.atoms_under(atom))


def _is_free(atom: Atom) -> bool:
    return atom.kind not in ("call", "iteration") and block_axis(atom) is None


def of_axis(facts: Knowns, axis: int) -> AtomRange:
    """What is known of the block id of an axis."""
    return next((k for a, k in facts.items() if block_axis(a) == axis), ANYTHING)


def _cancels(atom: Atom, a: AccessGroup, b: AccessGroup) -> bool:
    """Whether both ends have the same multiple of an atom, as a term of its own."""
    for x, y in zip(a.shared, b.shared, strict=True):
        if dict(x.terms).get(atom, 0) != dict(y.terms).get(atom, 0):
            return False
        for form in (x, y):
            if any(p.kind == "call" and atom in forms.atoms_under(p) for p, _ in form.terms):
                return False
    return distinct_axis(atom) is None and atom.kind == "symbol"


# Where a fact about an atom holds, seen from one path of one block.
#
#     %n = 4            in the whole grid: %n is an argument of the kernel
#     %i in [0, 8)      in what every block does, at a time of its own
#     block_id = 0      in one block
#     128 block_id + tid < %n    of a thread of each block that comes here
#
# At every access each fact of its path is asked for; an atom is distinguished once.

HoldsIn = Literal["block", "launch", "grid", "blocks", "each", "path"]
"""One block; the grid, by the sizes of its launch or by something else; what every block does; what each does of its own
number; one path of one block."""


@dataclass
class FactScopes:
    """The scopes of the atoms of one kernel; `is_argument` knows its arguments."""

    is_argument: Callable[[int], bool]

    def __post_init__(self) -> None:
        self.of = cache(self._of)

    def _of(self, atom: Atom) -> HoldsIn:
        if block_axis(atom) is not None:
            return "block"
        if all(map(self.is_fixed, forms.form_under(atom).symbols)):
            return "launch" if is_of_launch(atom) else "grid"
        leaves = [inner for inner in forms.atoms_under(atom) if inner.kind != "call"]
        own = [a for a in leaves if not (self.is_fixed(a) or a.kind in ("tid", "iteration"))]
        if any(block_axis(a) is None and not forms.is_of_summary(a) for a in own):
            return "path"
        return "each" if own else "blocks"

    def is_fixed(self, atom: Atom) -> bool:
        """Whether an unknown has one value in the whole grid, at any time."""
        if atom.kind == "call":
            operands = forms.operator_of(atom)[1]
            return all(self.is_fixed(part) for form in operands for part, _ in form.terms)
        if atom.kind != "symbol" or distinct_axis(atom) is not None:
            return False
        if atom.tag == "bit":
            return self.is_argument(atom.key[1])  # type: ignore[index]
        if isinstance(atom.key, int):
            return self.is_argument(atom.key)
        return is_of_launch(atom) or atom.tag in ("dim", "address")
