"""Decides whether two regions share a byte: no, yes, or cannot tell (with a reason).

    ring[0, r, c .. c+8]  vs  ring[1, …]           no: other slot
    ring[0, tid div 8, …] vs  ring[0, lane, …]     enumerated over the threads of both ends

Symbols of now are equal at both ends and cancel. Thread ids cancel only if both ends are the
same thread; between threads they are separate unknowns, and the threads must differ. What is
left after cancelling decides: a constant by comparison, thread ids and short ranges by
enumeration (at most 2^21 pairs), anything else by its bounds, else it is undecided.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.arithmetic import settle
from mlir_async_pipe.checker.budget import POINTS, Budget
from mlir_async_pipe.checker.forms import Atom, AtomRange, Facts, Form, Knowns, cases, shortened
from mlir_async_pipe.checker.thread_grid import (
    NO,
    YES,
    Grid,
    Overlap,
    ThreadRange,
    Threads,
    compared,
    deciding_numbers,
    from_zero,
    has_numbers,
    is_about_threads,
    is_common,
    is_of_thread,
    is_thread_number,
    thread_facts,
)
from mlir_async_pipe.facts.values import sums
from mlir_async_pipe.facts.values.sums import Interval
from mlir_async_pipe.facts.values.views import Piece, Region, as_bytes

# Iterations that are tried one by one where a subscript meets a fixed place.
LONGEST_MEETING = 32

# Why nothing is known of places that are made of what nobody can compute.
OPAQUE = "opaque-subscript"

Answers = dict[tuple[object, ...], Overlap]
"""What was answered, by question."""


@dataclass
class Comparer:
    """Answers overlap questions for one kernel, each once, out of its `budget`."""

    threads: Threads
    budget: Budget = field(default_factory=lambda: Budget(POINTS))
    _known: Answers = field(default_factory=dict)

    _where_alike: dict[int, Comparer] = field(default_factory=dict)

    def where_alike(self, bits: int) -> Comparer:
        """The same, where threads whose numbers differ in these bits alone count as one."""
        if bits not in self._where_alike:
            self._where_alike[bits] = Comparer(replace(self.threads, alike=bits), self.budget)
        return self._where_alike[bits]

    def overlap(
        self,
        a: Region,
        b: Region,
        facts: Facts,
        *,
        same_thread: bool,
        ranges: tuple[ThreadRange, ThreadRange] = ((), ()),
        beside: tuple[tuple[Piece, Piece], ...] = (),
    ) -> Overlap:
        """Whether regions of one root share a byte; `a` is the earlier access.

        `same_thread` False asks for two different threads. `ranges` are conditions on the thread ids of both ends; threads
        meet only where what stands `beside` the regions does, too.
        """
        if not begin_alike(a, b, same_thread=same_thread):
            bytes_a, bytes_b = as_bytes(a), as_bytes(b)
            if bytes_a is None or bytes_b is None:
                return Overlap("cannot tell", "unknown-layout")
            a, b = bytes_a, bytes_b
        open_pairs: list[tuple[Piece, Piece]] = []
        reason = "" if a.certain and b.certain else "uncertain-access"
        for one, other in zip(a.pieces, b.pieces, strict=True):
            if one is None or other is None:
                reason = reason or "unknown-extent"
                continue
            if one == other and is_shared(one, same_thread):
                continue
            if constants_disjoint(one, other):
                return NO
            open_pairs.append((one, other))
        open_pairs += beside
        key: tuple[object, ...] = (tuple(open_pairs), same_thread, a.lanes, b.lanes, ranges)
        # What a path knows of thread ids stands in `ranges`: no other fact matters to these.
        if not all(is_thread_number(piece.start) for pair in open_pairs for piece in pair):
            facts = _about(open_pairs, facts)
            key = (*key, frozenset(facts.items()))
        self.budget.asked()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._decide(
                open_pairs, (a, b), facts, same_thread, ranges, beside
            )
        if found.verdict == "yes" and reason:
            found = Overlap("cannot tell", reason)
        return found

    def _decide(
        self,
        pairs: list[tuple[Piece, Piece]],
        regions: tuple[Region, Region],
        facts: Facts,
        same_thread: bool,
        ranges: tuple[ThreadRange, ThreadRange],
        beside: tuple[tuple[Piece, Piece], ...],
    ) -> Overlap:
        """The answer for the pairs of pieces that are left open; all else meets."""
        a, b = regions
        then = facts
        if not same_thread:
            # What this path knows of thread ids holds for the thread that is there now; the other
            # thread was somewhere else, under its own conditions.
            common = {atom: known for atom, known in facts.items() if not is_about_threads(atom)}
            then = {**common, **thread_facts(self.threads), **dict(ranges[0])}
        pairs = [(_ready(x, then), _ready(y, facts)) for x, y in pairs]
        if any(disjoint_by_bounds(x, y, then, facts, same_thread) for x, y in pairs):
            return NO
        congruent = [without_remainder(x, y, then, facts, same_thread) for x, y in pairs]
        # What meets without the remainder need not meet with it, unless it is one number.
        may_wrap_round = any(
            new != old and (span(new[0]), span(new[1])) != (1, 1)
            for new, old in zip(congruent, pairs, strict=True)
        )
        if congruent != pairs:
            pairs = congruent
            if any(disjoint_by_bounds(x, y, then, facts, same_thread) for x, y in pairs):
                return NO
        pairs = in_reach(pairs, then, facts, same_thread)
        meeting = _meeting_iterations(pairs, facts, same_thread)
        if meeting is not None:
            iteration, numbers = meeting
            answer = NO
            for number in numbers:
                fixed = {**facts, iteration: AtomRange(number, number)}
                once = self.overlap(
                    a, b, fixed, same_thread=same_thread, ranges=ranges, beside=beside
                )
                answer = once if answer is NO or once is YES else answer
            return answer
        left = [_cancelled(x, y, same_thread) for x, y in pairs]
        grid = Grid(self.threads, same_thread, ranges)
        found = _enumerate(left, facts, grid, (a.lanes, b.lanes), self._known)
        if found.reason == OPAQUE and not same_thread:
            alike = _where_alike(left)
            if alike and _enumerate(alike, facts, grid, (a.lanes, b.lanes), self._known) is YES:
                found = YES
        self.budget.decided(grid.positions)
        starts = (piece.start for pair in left for piece in pair)
        may_wrap = may_wrap_round or any(forms.may_wrap(s) for s in starts)
        unsure = found.verdict == "cannot tell" or (may_wrap_round and found.verdict == "yes")
        return Overlap("cannot tell", "may-wrap") if may_wrap and unsure else found


def _about(pairs: list[tuple[Piece, Piece]], facts: Facts) -> Knowns:
    """What is known of the numbers that these pieces are made of: no other fact decides whether they meet."""
    atoms: set[Atom] = set()
    for pair in pairs:
        for piece in pair:
            atoms |= forms.atoms_of(piece.start)
    atoms |= {forms.counter_of(atom) for atom in atoms if forms.is_earlier(atom)}
    return {atom: known for atom, known in facts.items() if forms.atoms_under(atom) <= atoms}


def _ready(piece: Piece, facts: Facts) -> Piece:
    """The piece with known atoms as numbers."""
    if not piece.start.terms:
        return piece
    return Piece(settle(piece.start, facts), piece.steps, piece.length)


def _meeting_iterations(
    pairs: list[tuple[Piece, Piece]], facts: Facts, same_thread: bool
) -> tuple[Atom, list[int]] | None:
    """The iterations in which one dimension can meet at all, where only they decide it.

    k + 2 against 5: iteration 3, if the facts allow it. States repeat, so every number that the facts allow is reached.
    """
    for x, y in pairs:
        if x.steps or y.steps or not (is_shared(x, same_thread) and is_shared(y, same_thread)):
            continue
        difference = forms.subtract(x.start, y.start)
        if len(difference.terms) != 1:
            continue
        ((atom, factor),) = difference.terms
        if atom.kind != "iteration" or x.length + y.length > LONGEST_MEETING:
            continue
        wanted = range(-x.length + 1 - difference.constant, y.length - difference.constant)
        known = forms.knowledge(atom, facts)
        numbers = [value // factor for value in wanted if value % factor == 0]
        return atom, [n for n in numbers if known.contains(AtomRange(n, n))]
    return None


def _cancelled(x: Piece, y: Piece, same_thread: bool) -> tuple[Piece, Piece]:
    """Both ends without the terms that are equal and have one value at both."""
    a, b = x.start, y.start
    cut = frozenset(term for term in a.terms & b.terms if is_common(term[0], same_thread))
    return (
        x._replace(start=Form(a.constant, a.terms - cut)),
        y._replace(start=Form(b.constant, b.terms - cut)),
    )


def _enumerate(
    pairs: list[tuple[Piece, Piece]],
    facts: Facts,
    grid: Grid,
    lanes: tuple[int | None, int | None],
    known: Answers,
) -> Overlap:
    """Compare the positions of both ends for all threads, ranges and residues of unknowns."""
    some_lanes = lanes != (None, None)
    if some_lanes and not pairs and grid.threads.size is None:
        # One wave, in which lane 0 alone accesses, or several?
        return YES if grid.same_thread else Overlap("cannot tell", "block-size")
    if not pairs and grid.ranges == ((), ()) and not some_lanes and not grid.threads.alike:
        if grid.same_thread or grid.threads.least_size > 1:
            return YES
        return NO if grid.threads.size is not None else Overlap("cannot tell", "block-size")
    pairs = _with_starts(pairs, shortened([piece.start for pair in pairs for piece in pair]))
    decided = [pair for pair in pairs if _has_cases(pair, facts, grid.same_thread)]
    options = cases([piece.start for pair in decided for piece in pair], facts)
    if options is None:
        return Overlap("cannot tell", "enumeration-limit")
    answers = []
    for starts in options:
        case = _with_starts(decided, starts)
        if any(_is_of_numbers(x, y) and constants_disjoint(x, y) for x, y in case):
            answers.append(NO)
            continue
        # The same rows of two slots are one question.
        case = [pair for pair in case if not _is_of_numbers(*pair)] or case[:1]
        question = (grid.threads, grid.same_thread, grid.ranges, from_zero(case), lanes)
        if question not in known:
            found = compared(*question)
            known[question] = found.answer
            # What this kernel may take does not depend on what was asked in others.
            grid.positions += found.positions
        answers.append(known[question])
    if all(answer.verdict == "no" for answer in answers):
        return NO
    if len(decided) < len(pairs):
        return Overlap("cannot tell", OPAQUE)
    # Not every residue of an unknown need occur.
    certain = all(answer.verdict == "yes" for answer in answers)
    unsure = next((answer for answer in answers if answer.verdict == "cannot tell"), None)
    return YES if certain else unsure or Overlap("cannot tell", OPAQUE)


def _where_alike(pairs: list[tuple[Piece, Piece]]) -> list[tuple[Piece, Piece]] | None:
    """The pairs where two threads have all numbers alike that decide terms which cannot be computed; None where
    other terms are left.

        A[(tid div 2) * n]  vs  A[(tid' div 2) * n]      -->      tid div 2 = tid' div 2: threads 0 and 1
    """
    found: list[tuple[Piece, Piece]] = []
    for x, y in pairs:
        opaque = frozenset(term for term in x.start.terms if not is_of_thread(term[0]))
        own = [Form(p.start.constant, p.start.terms - opaque) for p in (x, y)]
        deciding = [deciding_numbers(atom) for atom, _ in opaque]
        alike = opaque <= y.start.terms and all(map(is_thread_number, own))
        if not alike or None in deciding:
            return None
        found += _with_starts([(x, y)], own)
        numbers = {Piece(number, (), 1) for some in deciding for number in some or ()}
        found += [(number, number) for number in numbers]
    return found


# Places that are made of what nobody can compute, and that threads have different.
#
#     C[(row + 16 i) * n + col]      i and j of two stores: never known to meet where i is not j,
#                                    since n may be anything; where it is, in threads of one row
#
# Of n such stores in one interval each meets the others. What more is known than that it is undecided is known of
# those with the same terms.

Uncomputed = tuple[frozenset[tuple[Atom, int]], ...]


@lru_cache(maxsize=1 << 14)
def uncomputed(region: Region) -> Uncomputed | None:
    """The terms of a region's starts, and of what is under their remainders, that differ between threads and are no
    numbers of these; None if there are none, or if the region is whole in a dimension."""
    if None in region.pieces or not begin_alike(region, region, same_thread=False):
        return None
    starts = [piece.start for piece in region.pieces if piece is not None]
    inner = (_only_remainder(start) or (start,) for start in starts)
    found = tuple(frozenset(t for t in start.terms if _is_uncomputed(t[0])) for start, *_ in inner)
    return found if any(found) else None


def _is_uncomputed(atom: Atom) -> bool:
    return not is_common(atom, same_thread=False) and not has_numbers(forms.of_atom(atom))


def is_undecidable(region: Region, facts: Facts) -> bool:
    """Whether all of its `uncomputed` terms have no numbers that can be tried."""
    given = zip(uncomputed(region) or (), region.pieces, strict=True)
    starts = [start for terms, p in given if terms and p for start in (Form(0, terms), p.start)]
    return all(cases([start], facts) is None for start in starts)


def _is_of_numbers(x: Piece, y: Piece) -> bool:
    return not (x.start.terms or y.start.terms or x.steps or y.steps)


def _with_starts(pairs: list[tuple[Piece, Piece]], starts: list[Form]) -> list[tuple[Piece, Piece]]:
    """The pairs of pieces with other starts, two for each pair."""
    return [
        (x._replace(start=a), y._replace(start=b))
        for (x, y), a, b in zip(pairs, starts[::2], starts[1::2], strict=True)
    ]


def _has_cases(pair: tuple[Piece, Piece], facts: Facts, same_thread: bool) -> bool:
    """Whether residues of unknowns that both ends share leave nothing but numbers."""
    starts = [piece.start for piece in pair]
    if all(has_numbers(start) for start in starts):
        return True
    options = cases(starts, facts)
    unknown = (a for start in starts for a in forms.atoms_of(start) if a.kind == "symbol")
    return (
        options is not None
        and all(is_common(atom, same_thread) for atom in unknown)
        and all(has_numbers(start) for start in next(options, []))
    )


# How far apart two pieces may begin, and what that leaves of them to compare.
#
# `then` is what is known of the thread of the first piece, `facts` of that of the second.


def disjoint_by_bounds(a: Piece, b: Piece, then: Facts, facts: Facts, same_thread: bool) -> bool:
    """Whether bounds keep both ends apart:

    D[512 (k - 2 - q) + 4 tid']  vs  D[512 k + 4 tid]     q >= 0, tid, tid' <= 127
    512 (k - 2) - 512 k + [-inf, 508] + 4 <= 0            so they are apart
    """
    if other_slot(a, b, facts):
        return True
    low, high = _distance(a.start, b.start, then, facts, same_thread)
    return (high is not None and high + span(a) <= 0) or (low is not None and low >= span(b))


def _distance(a: Form, b: Form, then: Facts, facts: Facts, same_thread: bool) -> Interval:
    """Bounds of a - b: one difference of what both share, plus each end's own."""
    common_a, own_a = _parted(a, same_thread)
    common_b, own_b = _parted(b, same_thread)
    own = sums.difference(forms.bounds(own_a, then), forms.bounds(own_b, facts))
    return sums.added(forms.bounds(forms.subtract(common_a, common_b), facts), own)


def _parted(form: Form, same_thread: bool) -> tuple[Form, Form]:
    """A form as the sum of what has one value at both ends and what has not."""
    common = frozenset(term for term in form.terms if is_common(term[0], same_thread))
    return Form(form.constant, common), Form(0, form.terms - common)


def in_reach(
    pairs: list[tuple[Piece, Piece]], then: Facts, facts: Facts, same_thread: bool
) -> list[tuple[Piece, Piece]]:
    """The pairs, with "some earlier iteration" of the earlier end cut to those that can meet.

    D[512 (k - 1 - q) + 4 tid']  vs  D[512 (k - 1) + 4 tid]     only q = 0 can
    """
    cuts: dict[Atom, Form] = {}
    for x, y in pairs:
        for atom, factor in x.start.terms:
            if atom.kind != "any" or forms.range_of(atom).high is not None or atom in cuts:
                continue
            rest = Form(x.start.constant, x.start.terms - {(atom, factor)})
            low, high = _distance(rest, y.start, then, facts, same_thread)
            # They meet iff 1 - span(x) <= factor * q + rest - y <= span(y) - 1.
            room = high if factor < 0 else None if low is None else -low
            last = _made_until(atom, facts)
            if room is not None:
                meets = (room + span(x if factor < 0 else y) - 1) // abs(factor)
                last = sums.least(last, meets)
            if last is not None:
                known = forms.range_of(atom)
                known = known._replace(high=last if known.low is None else max(last, known.low))
                cuts[atom] = forms.of_atom(Atom("any", (atom.key[0], known)))
    if not cuts:
        return pairs
    return [(Piece(forms.substitute(x.start, cuts, then), x.steps, x.length), y) for x, y in pairs]


def _made_until(atom: Atom, facts: Facts) -> int | None:
    """How many iterations before the youngest one an access was at most: it was in iteration 0 or later."""
    if not forms.is_earlier(atom):
        return None
    counter = forms.counter_of(atom)
    left, last = facts.get(forms.earlier(counter)[1]), forms.knowledge(counter, facts).high
    return None if left is None or left.low is None or last is None else last - left.low


def without_remainder(
    x: Piece, y: Piece, then: Facts, facts: Facts, same_thread: bool
) -> tuple[Piece, Piece]:
    """Both ends with the number under a remainder instead of the remainder, where they meet only if
    these numbers do: they are less than its modulus apart.

        A[wrap(n + t)]  vs  A[wrap(n + t')]     |t - t'| < 2^32: only where t = t'
    """
    one, other = _only_remainder(x.start), _only_remainder(y.start)
    if one is None or other is None or one[1] != other[1]:
        return x, y
    low, high = _distance(one[0], other[0], then, facts, same_thread)
    longest = max(span(x), span(y))
    if low is None or high is None or max(-low, high) + longest > abs(one[1]):
        return x, y
    return x._replace(start=one[0]), y._replace(start=other[0])


def _only_remainder(form: Form) -> tuple[Form, int] | None:
    """The form without the only remainder in its terms, c (x mod m) --> c x, and c m; None for other
    forms, and those that are enumerated as they are."""
    remainders = [term for term in form.terms if term[0].kind == "call"]
    if len(remainders) != 1 or has_numbers(form):
        return None
    ((atom, factor),) = remainders
    modulus = forms.modulus_of(atom)
    if modulus is None:
        return None
    inner = forms.operator_of(atom)[1][0]
    rest = Form(form.constant, form.terms - {(atom, factor)})
    return forms.add(rest, forms.scale(inner, factor)), factor * modulus


# Whether two accesses are in different slots of a ring: the usual answer, found quickly.
#
#     ring[0, …]                  ring[1, …]                     other places
#     ring[(k + 2) mod 3, …]      ring[k mod 3, …]               2 is not divisible by 3
#     ring[(k + 2) mod 3, …]      ring[1, …]  where k = 0        2 is not 1
#
# Slots are the same number in all threads, so the answer holds for the same thread and for
# two of them. It is remembered by the two subscripts and by what is known of their atoms.


def slots_apart(x: Region, y: Region, facts: Facts) -> bool:
    """Whether one dimension alone keeps two regions of one root apart, in every thread."""
    # Most begin where their memory does: asked n^2 times of n copies in flight.
    if (x.frame is not y.frame or x.frame.base.terms) and not begin_alike(x, y, same_thread=False):
        return False
    for p, q in zip(x.pieces, y.pieces, strict=True):
        if p is None or q is None:
            continue
        one, other = _slot(p), _slot(q)
        if not (p.start.terms or q.start.terms):
            apart = constants_disjoint(p, q)
        elif one is not None and other is not None and one[1:] == other[1:]:
            # (k + 2) mod V against k mod V: no fact is needed.
            apart = (one[0] - other[0]) % one[2] != 0
        else:
            atoms = _deciding(p, q)
            known = tuple([(atom, facts.get(atom)) for atom in atoms or ()])
            apart = atoms is not None and _differ(p, q, known)
        if apart:
            return True
    return False


@lru_cache(maxsize=1 << 14)
def _slot(piece: Piece) -> tuple[int, Hashable, int] | None:
    """c, x and V of a slot (x + c) mod V, x without a constant; None for others."""
    slot, versions = _remainder_of(piece.start)
    if versions and piece[1:] == ((), 1) and is_shared(piece, False):
        return slot.constant, slot.terms, versions
    return None


@lru_cache(maxsize=1 << 14)
def _deciding(p: Piece, q: Piece) -> tuple[Atom, ...] | None:
    """The atoms that decide; None for pieces that are no slots."""
    if p.steps or q.steps or not (is_shared(p, False) and is_shared(q, False)):
        return None
    atoms = forms.atoms_of(p.start) | forms.atoms_of(q.start)
    return tuple(atom for atom in atoms if atom.kind != "call")


@lru_cache(maxsize=1 << 16)
def _differ(p: Piece, q: Piece, known: tuple[tuple[Atom, AtomRange | None], ...]) -> bool:
    facts = {atom: one for atom, one in known if one is not None}
    p, q = (piece._replace(start=settle(piece.start, facts)) for piece in (p, q))
    return constants_disjoint(p, q) or other_slot(p, q, facts)


def begin_alike(x: Region, y: Region, *, same_thread: bool) -> bool:
    """Whether both count from one place: a view may begin elsewhere in each thread, or each time."""
    if x.frame != y.frame:
        return False
    terms = x.frame.base.terms
    return not terms or all(is_common(atom, same_thread) for atom, _ in terms)


def is_shared(piece: Piece, same_thread: bool) -> bool:
    """Whether equal pieces certainly meet: nothing in them differs between the two ends."""
    return all(is_common(atom, same_thread) for atom, _ in piece.start.terms)


def constants_disjoint(a: Piece, b: Piece) -> bool:
    x, y = a.start, b.start
    if x.terms or y.terms or x.constant == y.constant:
        return False
    low, high = (a, b) if x.constant < y.constant else (b, a)
    length = span(low) if low.steps else low.length
    return low.start.constant + length <= high.start.constant


def other_slot(a: Piece, b: Piece, facts: Facts) -> bool:
    """Whether both ends are single slots x mod V and y mod V, or y alone, with x - y not
    divisible by V: equal ones would make it divisible."""
    if a.length != 1 or b.length != 1 or a.steps or b.steps:
        return False
    if not (is_shared(a, False) and is_shared(b, False)):
        return False
    inner = [_remainder_of(piece.start) for piece in (a, b)]
    moduli = {versions for _, versions in inner if versions is not None}
    if len(moduli) != 1:
        return False
    difference = forms.subtract(inner[0][0], inner[1][0])
    return forms.residue(difference, moduli.pop(), facts) not in (None, 0)


def _remainder_of(form: Form) -> tuple[Form, int | None]:
    """(x, V) if the form is x mod V, else itself and None: a slot of known number."""
    if form.constant or len(form.terms) != 1:
        return form, None
    ((atom, coefficient),) = form.terms
    name, arguments = forms.operator_of(atom)
    is_slot = coefficient == 1 and name == "mod"
    return (arguments[0], arguments[1].constant) if is_slot else (form, None)


def span(piece: Piece) -> int:
    """The length of the shortest stretch that holds the piece."""
    if not piece.steps:
        return piece.length
    return piece.length + sum(step * (count - 1) for step, count in piece.steps)
