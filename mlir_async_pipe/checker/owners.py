"""Accesses of global memory by different threads and blocks: does each own what it touches?

    out[128 block + thread] = …        one place for each thread of the grid: nobody else's
    out[thread] = …                    every block stores there: `cross-block`

No barrier orders blocks, and most kernels need none for global memory between threads either: each thread has places of
its own, whatever the iteration. That is shown here, once for all paths. Accesses that differ by constants and thread
ids alone are one group, so that the 64 stores of a GEMM's tile are one comparison. Roots that several threads of a
block may share are followed path by path, with their barriers, in another run.

A flag may order accesses of two blocks:

    %x[64 p + t] meets %x[64 (c - 1) + t']      p - c = -1
    %flag[q] is read as %flag[c - 1]            q - c = -1, so the block that releases is p

What a flag orders on the paths of each block stands in `flag_orders`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import combinations, combinations_with_replacement, product

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.conflicts import Cause, Finding, Judge
from mlir_async_pipe.checker.flag_orders import MEMORY_ORDER, AwaitedFlag, AwaitedFlags
from mlir_async_pipe.checker.footprints import (
    AccessGroup,
    FactScopes,
    Meetings,
    Touched,
    are_undecidable,
    beside,
    both_ranges,
    conflicting,
    groups_of,
    in_rows,
    must_meet,
    neighbours,
    of_axis,
    parts_of,
    shifted,
    thread_parts,
    with_threads,
)
from mlir_async_pipe.checker.forms import ANYTHING, Atom, Form
from mlir_async_pipe.checker.grid_blocks import GridBlocks, block_axis, distinct_axis, thread_axis
from mlir_async_pipe.checker.sites import Manner, conflict
from mlir_async_pipe.checker.state import Event, State
from mlir_async_pipe.checker.thread_grid import (
    ThreadRange,
    Threads,
    blocks_meet,
    deciding_numbers,
    has_numbers,
    is_about_threads,
    is_of_thread,
    thread_facts,
    threads_meet,
    with_ranges,
)
from mlir_async_pipe.checker.two_ends import Differences, TwoEnds
from mlir_async_pipe.facts.values import sums
from mlir_async_pipe.facts.values.sums import Interval
from mlir_async_pipe.facts.values.views import Piece
from mlir_async_pipe.vocabulary.rows import Scope

OTHER_BLOCKS = "other-blocks"
# Of two accesses that are undecided, in so many iterations and cases, no more are asked.
MOST_UNDECIDED = 64
UNCERTAIN = "uncertain-access"


@dataclass
class Owners:
    """Collects the accesses to shared global memory, and compares them at the end."""

    judge: Judge
    threads: Threads
    grid: GridBlocks
    is_argument: Callable[[int], bool]
    flags: AwaitedFlags
    limits: Mapping[Atom, Form | None] = field(default_factory=dict)
    _grouped: dict[bool, dict[int, list[AccessGroup] | None]] = field(default_factory=dict)
    # The ops of which nobody knows what they do to a root.
    _unknown: dict[int, set[int]] = field(default_factory=dict)

    def meet_unknown(self, root: int, site: int, *, given: bool) -> None:
        """An op that may do anything to a root; of one that is `given` it, so may another thread that runs it, too."""
        if self.judge.roots.is_own(root):
            return
        self._unknown.setdefault(root, set()).add(site)
        several = self.threads.several or self.grid.several
        if given and several and not self._are_independent(site, site):
            self.judge.unknown(site, site, "same-op", UNCERTAIN)

    def meet(self, events: Iterable[Event], state: State) -> None:
        """Accesses on one path, side by side."""
        spaces = self.judge.roots.spaces
        self._meetings.meet((e for e in events if "global" in spaces(e.region.root)), state)

    def adds_nothing(self, event: Event) -> bool:
        """Whether no other path can tell more of an event than is known already."""
        return self._meetings.adds_nothing(event)

    @cached_property
    def _meetings(self) -> Meetings:
        return Meetings(self._scopes, thread_facts(self.threads))

    @cached_property
    def _scopes(self) -> FactScopes:
        return FactScopes(self.is_argument)

    def is_kept(self, atom: Atom) -> bool:
        """Whether all threads of a block have a number alike, all the time."""
        return all(
            part.kind == "call" or self._scopes.is_fixed(part) or block_axis(part) is not None
            for part in forms.atoms_under(atom)
        )

    # Comparing ----------------------------------------------------------------------------

    def shared_roots(self) -> frozenset[int]:
        """The roots at which threads of one block may meet, by another root's name too."""
        if not self.threads.several:
            return frozenset()
        met = {
            root
            for root, groups in self._groups(numbered=self.threads.size is None).items()
            if (
                self._racing(root, "block")
                if groups is None
                else any(
                    not self._is_promised(a, b) and self._threads_meet(a, b)
                    for a, b in conflicting(groups, "block")
                )
            )
        }
        met.update(self._unknown)
        # In a grid of several blocks `judge_aliases` tells them, which no barrier orders.
        if not self.grid.several:
            met.update(root for one, other, _ in self._aliases() for root in (one, other))
        return frozenset(met)

    def _is_promised(self, a: AccessGroup, b: AccessGroup) -> bool:
        """Whether a promise says that threads do not meet where nobody can know it: both are at places such as
        row * stride, of the thread's own row and a stride that no path knows. Two threads of one row certainly meet."""
        sites = [site for group in (a, b) for touched, _ in group.members for site in touched.sites]
        one = sites[0]
        apart = all(self._are_independent(one, other) for other in sites)
        return apart and all(map(_is_undecidable, (a, b))) and not self._rows_meet(a, b)

    def _rows_meet(self, a: AccessGroup, b: AccessGroup) -> bool:
        """Whether two threads may have all numbers alike that decide what is shared, and meet beside it."""
        deciding = [deciding_numbers(atom) for form in a.shared for atom, _ in form.terms]
        if a.shared != b.shared or None in deciding or self.threads.size is None:
            return False
        rows = [number for numbers in deciding for number in numbers or ()]
        ends = (beside(thread_parts(group), rows) for group in (a, b))
        return threads_meet(self.threads, *ends)

    def _racing(self, root: int, among: Scope) -> list[tuple[int, int]]:
        """Sites of two accesses to a root that race if they meet; one pair a manner."""
        of_manner: dict[Manner, list[int]] = {}
        for touched in self._meetings.touched:
            if touched.event.region.root == root:
                site = touched.event.site
                of_manner.setdefault(self.judge.sites[site].manner, []).append(site)
        return [
            (max(*of_manner[a], *of_manner[b]), min(*of_manner[a], *of_manner[b]))
            for a, b in combinations_with_replacement(of_manner, 2)
            if conflict(a, b, among) is not False
        ]

    def may_meet(self, sites: set[int], root: int, among: ThreadRange) -> bool:
        """Whether accesses of some sites, to one root, may touch one place in two threads that are
        `among` some. Places in workgroup memory are not gathered: there they may."""
        found = [touched for touched in self._meetings.touched if touched.event.site in sites]
        if sites != {t.event.site for t in found} or any(
            t.event.region.root != root for t in found
        ):
            return True
        there = [
            replace(
                t, event=t.event._replace(threads=both_ranges(t.event.threads, among)), twins=set()
            )
            for t in found
        ]
        groups = groups_of(there, self.judge.sites, self.threads, numbered=False)
        return groups is None or any(
            self._threads_meet(a, b) for a, b in conflicting(groups, "block")
        )

    def judge_blocks(self) -> None:
        """Findings for accesses at which blocks meet."""
        if not self.grid.several:
            return
        for root, groups in self._groups(numbered=True).items():
            if groups is None:
                pairs = self._racing(root, "device")
                if pairs:
                    self._found(*pairs[0], None)
                continue
            undecided: Counter[tuple[frozenset[int], ...]] = Counter()
            for a, b in conflicting(groups, "device"):
                ends = tuple(frozenset(m.event.site for m, _ in g.members) for g in (a, b))
                if undecided[ends] < MOST_UNDECIDED:
                    self._compare_blocks(a, b)
                    one, other = (g.members[0][0].event.site for g in (a, b))
                    found = self.judge.findings.get(
                        (max(one, other), min(one, other), "other-block")
                    )
                    undecided[ends] += found is not None and not found.certain
        for root, unknown in self._unknown.items():
            for touched in self._meetings.touched:
                x = touched.event.site
                if self.judge.roots.may_alias(touched.event.region.root, root):
                    for y in unknown:
                        if not self._are_independent(x, y):
                            self.judge.unknown(max(x, y), min(x, y), "other-block", UNCERTAIN)

    def judge_aliases(self) -> None:
        """Findings for roots that may be one memory for two blocks: one for each two roots."""
        if not self.grid.several:
            return
        for _, _, (later, earlier) in self._aliases():
            self.judge.unknown(later, earlier, "other-block", "may-alias")

    def _aliases(self) -> Iterator[tuple[int, int, tuple[int, int]]]:
        """Two roots that may be one memory, and the sites of two accesses that then conflict."""
        by_root: dict[int, list[int]] = {}
        for touched in self._meetings.touched:
            by_root.setdefault(touched.event.region.root, []).append(touched.event.site)
        roots, sites = self.judge.roots, self.judge.sites
        for a, b in combinations(sorted(by_root), 2):
            if not (roots.may_alias(a, b) and roots.threads_may_meet(a, b)):
                continue
            pairs = [
                (max(x, y), min(x, y))
                for x, y in product(by_root[a], by_root[b])
                if conflict(sites[x].manner, sites[y].manner, "device") is not False
            ]
            if pairs and not self._are_independent(*min(pairs)):
                yield a, b, min(pairs)

    def _groups(self, *, numbered: bool) -> dict[int, list[AccessGroup] | None]:
        """The groups of each root; None where two accesses cannot be compared at all.

        `numbered`: block * size + thread counts as one number of the thread.
        """
        # Of a block of known size the start is a multiple of the block id: nothing to number.
        numbered = numbered and self.threads.size is None
        if numbered in self._grouped:
            return self._grouped[numbered]
        by_root: dict[int, list[Touched]] = {}
        for touched in self._meetings.touched:
            by_root.setdefault(touched.event.region.root, []).append(touched)
        found: dict[int, list[AccessGroup] | None] = {}
        for root, all_touched in by_root.items():
            # Of a thread's own memory others have another one under the same name.
            shared = self.judge.roots.threads_may_meet(root, root)
            if shared and any(self.judge.sites[t.event.site].writes for t in all_touched):
                found[root] = groups_of(
                    all_touched, self.judge.sites, self.threads, numbered=numbered
                )
        self._grouped[numbered] = found
        return found

    # Threads of a block -------------------------------------------------------------------

    def _threads_meet(self, a: AccessGroup, b: AccessGroup) -> bool:
        ends = self._ends(a, b, blocks=False)
        differences = ends.differences()
        if not differences.solve() or self._is_one_thread(differences):
            return False
        offsets = differences.sums(len(a.shared))
        one, other = thread_parts(a), thread_parts(b)
        zero = filter(differences.is_zero, differences.bounds)
        alike = [forms.of_atom(atom) for atom in zero if is_of_thread(atom)]
        if offsets is not None and not any(
            threads_meet(self.threads, beside(shifted(one, offset), alike), beside(other, alike))
            for offset in offsets
        ):
            return False
        whole = with_ranges(parts_of(a), parts_of(b))
        if whole and not threads_meet(self.threads, *whole):
            return False
        first, second = with_threads(a), with_threads(b)
        if first is not None and second is not None:
            differences = self._ends(first, second, blocks=False).differences()
            if not differences.solve() or self._is_one_thread(differences):
                return False
        pairs = ends.one_by_one(self.threads)
        return not pairs or any(self._threads_meet(x, y) for x, y in pairs)

    def _ends(self, a: AccessGroup, b: AccessGroup, *, blocks: bool) -> TwoEnds:
        return TwoEnds(a, b, self._fixed(blocks=blocks), self._range, self.limits)

    def _fixed(self, *, blocks: bool) -> Callable[[Atom], bool]:
        """Tells the numbers that two blocks, or two threads of one block, have alike."""
        return lambda atom: (
            self._scopes.is_fixed(atom) or (not blocks and block_axis(atom) is not None)
        )

    def _is_one_thread(self, differences: Differences) -> bool:
        """Whether what both touch has the numbers of one thread in it: that along x of the grid, or all of its block."""
        size = self.threads.size
        several = (
            self.threads.axes
            if size is None
            else [a for a, n in zip("xyz", size, strict=True) if n > 1]
        )
        own = all(differences.is_zero(Atom("tid", axis)) for axis in several)
        return own or any(
            thread_axis(a) == 0 for a in filter(differences.is_zero, differences.bounds)
        )

    # Blocks of the grid -------------------------------------------------------------------

    def _compare_blocks(self, a: AccessGroup, b: AccessGroup) -> None:
        later = max(group.members[0][0].event.site for group in (a, b))
        if (later, "other-block") in self.judge.undecided and are_undecidable(a, b):
            return
        if self._is_in_one_block(a, b) or self._is_in_one_block(*map(with_threads, (a, b))):
            return
        if self._is_ordered(a, b) or self._is_ordered(b, a):
            return
        pairs = self._ends(a, b, blocks=True).one_by_one(self.threads)
        for pair in pairs:
            self._compare_blocks(*pair)
        if pairs:
            return
        x_parts, y_parts = self._in_rows(a, b)
        for one, other in neighbours(self.grid, self._scopes.is_fixed, x_parts, y_parts):
            met = blocks_meet(self.threads, parts_of(x_parts), parts_of(y_parts), one, other)
            if met is not None:
                x, y = a.members[met[0]][0], b.members[met[1]][0]
                certain = x.event.region.certain and y.event.region.certain
                # A pointer of unknown origin may be another one in each block.
                certain = certain and self.judge.roots.roots[x.event.region.root].kind != "unknown"
                certain = certain and must_meet(x, y, (one, other))
                self._found(x.event.site, y.event.site, certain)
                return
        self._found(a.members[0][0].event.site, b.members[0][0].event.site, None)

    def _in_rows(self, a: AccessGroup, b: AccessGroup) -> list[AccessGroup]:
        """Both, where they have the same terms that cannot be computed, with the numbers that decide these instead, as more
        dimensions: blocks that have them alike have the terms alike. Others stay as they are.

            A[(block div 2) * n + tid]    -->    A[tid, block div 2]
        """

        def is_number(atom: Atom) -> bool:
            known = has_numbers(
                forms.of_atom(atom), lambda a: a.kind == "iteration" or block_axis(a) is not None
            )
            return known and not any(inner.kind == "any" for inner in forms.atoms_under(atom))

        terms = frozenset(t for form in a.shared for t in form.terms if not is_number(t[0]))
        deciding = [deciding_numbers(t[0], is_number, self._scopes.is_fixed) for t in terms]
        if a.shared != b.shared or None in deciding:
            return [a, b]
        rows = tuple(Piece(n, (), 1) for numbers in deciding for n in numbers or ())
        return [in_rows(group, terms, rows) for group in (a, b)]

    def _is_in_one_block(self, a: AccessGroup | None, b: AccessGroup | None) -> bool:
        """Whether what both touch, if anything, puts them into one block."""
        if a is None or b is None:
            return False
        differences = self._ends(a, b, blocks=True).differences()
        if not differences.solve():
            return True
        equal = {distinct_axis(atom) for atom in differences.bounds if differences.is_zero(atom)}
        for axis in self.grid.open_axes:
            ends = [of_axis(group.facts, axis) for group in (a, b)]
            if all(known.exact is not None for known in ends) and ends[0] == ends[1]:
                equal.add(axis)
        return equal.issuperset(self.grid.open_axes)

    def _range(self, atom: Atom, group: AccessGroup) -> Interval:
        axis = block_axis(atom)
        if axis is not None:
            known = of_axis(group.facts, axis)
            size = self.grid.sizes[axis]
            return known.low or 0, known.high if size is None else min(
                size - 1, size - 1 if known.high is None else known.high
            )
        given = {**thread_facts(self.threads), **group.facts}
        if atom.kind == "iteration":
            known = group.facts.get(atom, ANYTHING)
            ends: Interval = (known.low or 0, known.high)
            for total, limits in group.facts.items():
                factor = dict(forms.terms_of(total)).get(atom) if total.kind == "sum" else None
                if factor:
                    rest = Form(0, forms.terms_of(total) - {(atom, factor)})
                    left = sums.difference(limits.ends, forms.bounds(rest, given))
                    ends = sums.both(ends, sums.factor(left, factor))
            return ends
        return reduce(
            sums.either,
            (forms.bounds(forms.of_atom(atom), {**given, **dict(met)}) for met in group.met),
        )

    # What flags order ----------------------------------------------------------------------

    def _is_ordered(self, a: AccessGroup, b: AccessGroup) -> bool:
        """Whether all of `a` is over before a release that another block sees before it begins `b`."""
        return any(
            all(self.flags.begins_after(flag, n) for t, _ in b.members for n in t.sites)
            and self._is_released(a, flag)
            and self._releases_its_own(a, b, flag)
            for flag in self.flags.found
        )

    def _is_released(self, a: AccessGroup, flag: AwaitedFlag) -> bool:
        releases = [t for t in self._meetings.touched if t.event.site == flag.release]
        for touched, _ in a.members:
            one = all(self._is_same_thread(touched.event, t.event) for t in releases)
            if not all(self.flags.is_over_before(flag, n, one_thread=one) for n in touched.sites):
                return False
        return True

    def _is_same_thread(self, one: Event, other: Event) -> bool:
        axes = self.threads.axes if self.threads.size is None else "xyz"
        ends = [{**thread_facts(self.threads), **dict(event.threads)} for event in (one, other)]
        known = [[facts[Atom("tid", axis)].exact for axis in axes] for facts in ends]
        return known[0] == known[1] and None not in known[0]

    def _releases_its_own(self, a: AccessGroup, b: AccessGroup, flag: AwaitedFlag) -> bool:
        """Whether a block that releases the flag which a block of `b` sees, and one of `a` that touches
        the places of that block, are one."""
        releases, acquires = self._all_of(flag.release), self._all_of(flag.acquire)
        if not (releases and acquires):
            return False
        met = self._distance(a, b)
        return met is None or all(
            self._is_one_releaser((a, met), (release, seen))
            for release in releases
            for acquire in acquires
            if (seen := self._distance(release, acquire)) is not None
        )

    def _is_one_releaser(self, *ends: tuple[AccessGroup, list[int | None]]) -> bool:
        """Whether two groups run in one block: each with how far it is from the one other block."""
        for axis in self.grid.open_axes:
            numbers = {of_axis(group.facts, axis).exact for group, _ in ends}
            distances = {distance[axis] for _, distance in ends}
            if not any(len(known) == 1 and None not in known for known in (numbers, distances)):
                return False
        return True

    def _distance(self, a: AccessGroup, b: AccessGroup) -> list[int | None] | None:
        """By how much the block ids of two blocks whose accesses meet differ along each axis, None where
        that is not one number; None if they cannot meet."""
        differences = self._ends(a, b, blocks=True).differences()
        if not differences.solve():
            return None
        found: list[int | None] = [None, None, None]
        for atom, (low, high) in differences.bounds.items():
            axis = block_axis(atom)
            if axis is not None and low == high:
                found[axis] = low
        return found

    def _all_of(self, site: int) -> list[AccessGroup]:
        """The groups that hold all accesses of one site; none where some cannot be compared."""
        roots = {t.event.region.root for t in self._meetings.touched if t.event.site == site}
        found = []
        for root in roots:
            groups = self._groups(numbered=True).get(root)
            if groups is None:
                return []
            found += [g for g in groups if any(site in t.sites for t, _ in g.members)]
        return found

    # Findings -----------------------------------------------------------------------------

    def _found(self, one: int, other: int, certain: bool | None) -> None:
        if not certain and self._are_independent(one, other):
            return
        key: tuple[int, int, Cause] = (max(one, other), min(one, other), "other-block")
        doubt = self.judge.doubt_of_order(*key[:2], "device")
        if certain and not doubt:
            self.judge.findings[key] = Finding(*key, certain=True, reason="")
        else:
            said = certain or doubt == MEMORY_ORDER
            self.judge.unknown(*key, doubt if said else OTHER_BLOCKS)

    def _are_independent(self, one: int, other: int) -> bool:
        asserted = self.judge.sites[one].independent
        return asserted is not None and asserted == self.judge.sites[other].independent


def _is_undecidable(group: AccessGroup) -> bool:
    """Whether a thread's number is multiplied by, or mixed with, what no path to these accesses knows: whether two threads
    meet there cannot be answered then, also where it is asked path by path."""
    known = {
        atom
        for touched, _ in group.members
        for facts in (touched.facts, touched.launch, *touched.witness)
        for atom, one in facts.items()
        if one.exact is not None
    }
    return any(
        is_about_threads(atom)
        and any(not is_about_threads(part) for part in forms.atoms_under(atom) - known)
        for form in group.shared
        for atom, _ in form.terms
    )
