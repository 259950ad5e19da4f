"""Decides whether two regions share a byte: no, yes, or cannot tell (with a reason).

    ring[0, r, c .. c+8]  vs  ring[1, …]           no: other slot
    ring[0, tid div 8, …] vs  ring[0, lane, …]     enumerated over the threads of both ends

Symbols of now are equal at both ends and cancel. Thread ids cancel only if both ends are the
same thread; between threads they are separate unknowns, and the threads must differ. What is
left after cancelling decides: a constant by comparison, thread ids and short ranges by
enumeration (at most 2^21 pairs), anything else by its bounds, else it cannot be told.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.arithmetic import settle
from mlir_async_pipe.checker.forms import Atom, Facts, Form, Known
from mlir_async_pipe.checker.memory import Piece, Region, as_bytes
from mlir_async_pipe.checker.thread_grid import (
    NO,
    YES,
    Grid,
    Overlap,
    ThreadRange,
    Threads,
    has_numbers,
    is_about_threads,
    is_common,
    thread_facts,
)

# Iterations that are tried one by one where a subscript meets a fixed place.
LONGEST_MEETING = 32


@dataclass
class Comparer:
    """Answers overlap questions for one kernel, each once."""

    threads: Threads
    _known: dict[tuple[object, ...], Overlap] = field(default_factory=dict)

    def overlap(
        self,
        a: Region,
        b: Region,
        facts: Facts,
        *,
        same_thread: bool,
        ranges: tuple[ThreadRange, ThreadRange] = ((), ()),
    ) -> Overlap:
        """Whether regions of one root share a byte; `a` is the earlier access.

        `same_thread` False asks for two different threads. `ranges` are conditions on the
        thread ids of both ends.
        """
        longest = max((s for f in (a.frame, b.frame) for s in f.shape if s is not None), default=0)
        if a.frame != b.frame:
            bytes_a, bytes_b = as_bytes(a), as_bytes(b)
            if bytes_a is None or bytes_b is None:
                return Overlap("cannot tell", "unknown-layout")
            a, b = bytes_a, bytes_b
        pairs = list(zip(a.pieces, b.pieces, strict=True))
        open_pairs: list[tuple[Piece, Piece]] = []
        reason = "" if a.certain and b.certain else "uncertain-access"
        for one, other in pairs:
            if one is None or other is None:
                reason = reason or "unknown-extent"
                continue
            if one == other and _shared(one, same_thread):
                continue
            if constants_disjoint(one, other):
                return NO
            open_pairs.append((one, other))
        # What this path knows of thread ids holds for the thread that is there now; the other
        # thread was somewhere else, under its own conditions.
        then = facts if same_thread else self._elsewhere(facts, ranges[0])
        open_pairs = [(_ready(x, then, longest), _ready(y, facts, longest)) for x, y in open_pairs]
        if any(_disjoint_by_bounds(x, y, then, facts, same_thread) for x, y in open_pairs):
            return NO
        open_pairs = _in_reach(open_pairs, then, facts, same_thread)
        meeting = _meeting_iterations(open_pairs, facts, same_thread)
        if meeting is not None:
            iteration, numbers = meeting
            answer = NO
            for number in numbers:
                fixed = {**facts, iteration: Known(number, number)}
                once = self.overlap(a, b, fixed, same_thread=same_thread, ranges=ranges)
                answer = once if answer is NO or once is YES else answer
            return answer
        key = (tuple(open_pairs), same_thread, a.lanes, b.lanes, ranges)
        found = self._known.get(key)
        if found is None:
            found = _enumerate(open_pairs, same_thread, (a.lanes, b.lanes), ranges, self.threads)
            self._known[key] = found
        if found.verdict == "yes" and reason:
            return Overlap("cannot tell", reason)
        return found

    def _elsewhere(self, facts: Facts, met: ThreadRange) -> Facts:
        """What holds for a thread that met the conditions `met`, and is not the one of now."""
        common = {atom: known for atom, known in facts.items() if not is_about_threads(atom)}
        return {**common, **thread_facts(self.threads), **dict(met)}


def _ready(piece: Piece, facts: Facts, longest: int) -> Piece:
    """The piece with known atoms as numbers, and ranges that stay inside the buffer.

    An iteration number without bound that is (part of) a subscript is less than the longest
    dimension, or it would leave the buffer.
    """

    def bounded(atom: Atom) -> Form | None:
        if atom.kind != "any" or not longest or forms.range_of(atom).low != 0:
            return None
        if forms.range_of(atom).high is not None:
            return None
        name = atom.key[0]  # type: ignore[index]
        return forms.of_atom(Atom("any", (name, Known(0, longest - 1))))

    if not piece.start.terms:
        return piece
    start = settle(piece.start, facts)
    ranges = {atom: form for atom in forms.atoms_of(start) if (form := bounded(atom)) is not None}
    return Piece(forms.substitute(start, ranges, facts), piece.steps, piece.length)


def _meeting_iterations(
    pairs: list[tuple[Piece, Piece]], facts: Facts, same_thread: bool
) -> tuple[Atom, list[int]] | None:
    """The iterations in which one dimension can meet at all, where only they decide it.

    k + 2 against 5: iteration 3, if the facts allow it. States repeat, so every number that
    the facts allow is reached.
    """
    for x, y in pairs:
        if x.steps or y.steps or not (_shared(x, same_thread) and _shared(y, same_thread)):
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
        return atom, [n for n in numbers if known.contains(Known(n, n))]
    return None


def _shared(piece: Piece, same_thread: bool) -> bool:
    """Whether equal pieces certainly meet: nothing in them differs between the two ends."""
    return all(is_common(atom, same_thread) for atom, _ in piece.start.terms)


def constants_disjoint(a: Piece, b: Piece) -> bool:
    """Whether both pieces are at constant places that do not meet."""
    if a.start.terms or b.start.terms:
        return False
    return (
        a.start.constant + _span(a) <= b.start.constant
        or b.start.constant + _span(b) <= a.start.constant
    )


def _other_slot(a: Piece, b: Piece, facts: Facts) -> bool:
    """Whether both ends are single slots x mod V and y mod V, or y alone, with x - y not
    divisible by V: equal ones would make it divisible."""
    if a.length != 1 or b.length != 1 or a.steps or b.steps:
        return False
    if not (_shared(a, False) and _shared(b, False)):
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
    if coefficient != 1 or atom.kind != "call":
        return form, None
    name, arguments = forms.operator_of(atom)
    return (arguments[0], arguments[1].constant) if name == "mod" else (form, None)


def _span(piece: Piece) -> int:
    return piece.length + sum(step * (count - 1) for step, count in piece.steps)


def _disjoint_by_bounds(a: Piece, b: Piece, then: Facts, facts: Facts, same_thread: bool) -> bool:
    """Whether bounds keep both ends apart:

        D[512 (k - 2 - q) + 4 tid']  vs  D[512 k + 4 tid]     q >= 0, tid, tid' <= 127
        512 (k - 2) - 512 k + [-inf, 508] + 4 <= 0            so they are apart

    `then` is what is known of the thread of `a`, `facts` of that of `b`.
    """
    if _other_slot(a, b, facts):
        return True
    low, high = _distance(a.start, b.start, then, facts, same_thread)
    return (high is not None and high + _span(a) <= 0) or (low is not None and low >= _span(b))


def _distance(
    a: Form, b: Form, then: Facts, facts: Facts, same_thread: bool
) -> tuple[int | None, int | None]:
    """Bounds of a - b: one difference of what both share, plus each end's own."""
    common_a, own_a = _parted(a, same_thread)
    common_b, own_b = _parted(b, same_thread)
    ends = [forms.bounds(forms.subtract(common_a, common_b), facts), forms.bounds(own_a, then)]
    low, high = forms.bounds(own_b, facts)
    ends.append((None if high is None else -high, None if low is None else -low))
    lows, highs = zip(*ends, strict=True)
    return (
        None if None in lows else sum(lows),
        None if None in highs else sum(highs),
    )


def _parted(form: Form, same_thread: bool) -> tuple[Form, Form]:
    """A form as the sum of what has one value at both ends and what has not."""
    common = frozenset(term for term in form.terms if is_common(term[0], same_thread))
    return Form(form.constant, common), Form(0, form.terms - common)


def _in_reach(
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
            if room is not None:
                last = (room + _span(x if factor < 0 else y) - 1) // abs(factor)
                known = forms.range_of(atom)
                known = known._replace(high=last if known.low is None else max(last, known.low))
                cuts[atom] = forms.of_atom(Atom("any", (atom.key[0], known)))  # type: ignore[index]
    if not cuts:
        return pairs
    return [(Piece(forms.substitute(x.start, cuts, then), x.steps, x.length), y) for x, y in pairs]


def _enumerate(
    pairs: list[tuple[Piece, Piece]],
    same_thread: bool,
    lanes: tuple[int | None, int | None],
    ranges: tuple[ThreadRange, ThreadRange],
    threads: Threads,
) -> Overlap:
    """Compare the positions of both ends for all threads and ranges."""
    if not pairs and ranges == ((), ()):
        if same_thread or threads.surely > 1:
            return YES
        return NO if threads.size is not None else Overlap("cannot tell", "block-size")
    left = [_split(x.start, y.start, same_thread) for x, y in pairs]
    decided = [(split, pair) for split, pair in zip(left, pairs, strict=True) if split is not None]
    dropped = len(left) - len(decided)
    grid = Grid(threads, same_thread, ranges)
    best = grid.compare(decided, lanes)
    if best is NO:
        return NO
    if dropped:
        return Overlap("cannot tell", "opaque-subscript")
    return best


def _split(a: Form, b: Form, same_thread: bool) -> tuple[Form, Form] | None:
    """Both ends with equal symbols cancelled; None if a symbol is left that has no numbers."""
    shared: dict[Atom, int] = {}
    for atom, coefficient in a.terms & b.terms:
        if is_common(atom, same_thread):
            shared[atom] = coefficient
    cut = frozenset(shared.items())
    a, b = Form(a.constant, a.terms - cut), Form(b.constant, b.terms - cut)
    if has_numbers(a) and has_numbers(b):
        return a, b
    return None
