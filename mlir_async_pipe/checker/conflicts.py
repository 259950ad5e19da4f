"""Judges one access against everything that may be in flight or unpublished around it.

    copy of an earlier group, still in flight     wait missing, too weak, or in the wrong place
    copy waited for by its own thread only        barrier missing after the wait
    synchronous access of this barrier interval   barrier missing before the copy that reuses it
    the same op in another thread                 two threads write to one place at once

The same thread's accesses conflict if they share a byte; between threads the thread ids of
both ends are separate unknowns. Findings are kept per pair of accesses, the worst of all
paths; the count that would do is the smallest over the paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from mlir_async_pipe.bindings.raw_ops import Block, Operation, Value, defining_op
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.flag_orders import MEMORY_ORDER, FlagOrders
from mlir_async_pipe.checker.forms import Atom, AtomRange, Form
from mlir_async_pipe.checker.overlap import (
    Comparer,
    Uncomputed,
    begin_alike,
    is_shared,
    is_undecidable,
    slots_apart,
    uncomputed,
)
from mlir_async_pipe.checker.phase_faults import FaultCode
from mlir_async_pipe.checker.sites import Roots, Site, conflict
from mlir_async_pipe.checker.state import Event, State, WaveGroups, of_group
from mlir_async_pipe.checker.thread_grid import (
    NO,
    YES,
    Overlap,
    ThreadRange,
    Verdict,
    are_whole_warps,
    is_thread_condition,
)
from mlir_async_pipe.facts.values.memory_roots import GIVEN
from mlir_async_pipe.facts.values.views import Piece, Region, as_bytes, whole_root
from mlir_async_pipe.facts.values.warp_values import WarpValues
from mlir_async_pipe.vocabulary import is_pure, named_row, row_of
from mlir_async_pipe.vocabulary.launch_ids import IDS
from mlir_async_pipe.vocabulary.rows import Scope

Cause = Literal[
    "in-flight",
    "uncommitted",
    "not-visible",
    "missing-barrier",
    "same-op",
    "other-block",
    "unfollowed",
    "budget",
    "async-proxy",
    "divergent-barrier",
]


@dataclass
class Finding:
    """A pair of accesses that may race: the later one, the earlier one, and why.

    `age` is the smallest count that some path would have needed at the later access; `wait`
    the wait op in force there and `wait_age` the count that it would have needed (negative:
    the group was committed after it). `certain` False: it cannot be decided, for `reason`. `note`: of
    a fault of phases, what is to be said of the other op; `example`: with which numbers it is met, and
    the site of the loop, or of the op, that this is said of. `loose`: see `State`, of the path.
    """

    later: int
    earlier: int
    cause: Cause | FaultCode
    certain: bool
    reason: str
    age: int | None = None
    wait: int | None = None
    wait_age: int | None = None
    barrier: int | None = None
    note: str = ""
    example: tuple[str, int] | None = None
    loose: frozenset[Atom] = frozenset()


Findings = dict[tuple[int, int, "Cause | FaultCode"], Finding]
"""By the later and the earlier access, and the cause."""


# Two groups of waves take turns, and whether a copy of one is over when the other comes is not known.
IN_TURN = "wave-groups"
# Why nothing is known of two accesses by different names.
MAY_ALIAS = "may-alias"
# What is stored is made of what the other lanes of the warp have read: on hardware these reads are over.
VALUE_ORDER = "value-order"
# A difference of places in memory is less, in bytes.
FARTHEST = 1 << 48
_SITE_OF = attrgetter("site")


class Origin(NamedTuple):
    """A number on which the bytes depend that an async copy brings to a place; None: not known. `sure`: with another one
    it brings other bytes."""

    number: Form | None
    sure: bool


@dataclass
class Judge:
    """Collects findings while the paths are followed.

    `tracked` are the roots outside workgroup memory at which threads of a block may meet: their
    synchronous accesses are compared too.
    """

    sites: list[Site]
    roots: Roots
    comparer: Comparer
    base_facts: Mapping[Atom, Any]
    orders: FlagOrders
    tracked: frozenset[int] = frozenset()
    # Accesses where what threads hand each other decides how many come.
    handed_on: Callable[[], frozenset[int]] = frozenset
    findings: Findings = field(default_factory=dict)
    left: set[int] = field(default_factory=set)
    unfinished: set[int] = field(default_factory=set)
    in_scope: set[int] = field(default_factory=set)
    one_value: set[int] = field(default_factory=set)
    # Accesses of which a finding with an op is known that may do anything, at either end, by cause.
    unclear: set[tuple[int, Cause]] = field(default_factory=set)
    # Accesses, as the later ones, of which something undecided was found, by cause.
    undecided: set[tuple[int, Cause]] = field(default_factory=set)
    _rows: Rows = field(default_factory=lambda: Rows())

    def __post_init__(self) -> None:
        self._warps = WarpValues(self.comparer.threads.sure_lanes)
        # Where a warp may have fewer lanes than are assumed, what more of them have alike is no certain race.
        self._usual_warps = WarpValues(self.comparer.threads.lanes)

    def is_of_warp(self, value: Value) -> bool:
        return self._warps.is_of_warp(value, self.comparer.threads.lanes)

    def access(
        self,
        later: Event,
        state: State,
        skip: int = 0,
        origins: Callable[[], list[Origin] | None] = list,
    ) -> None:
        """Check an access (or one end of an async op that is being issued) at its point.

        `skip` issues at the end of the open group belong to the same scope: no conflict. `origins`: what decides which
        bytes an async copy brings to a place.
        """
        site = self.sites[later.site]
        for pending in state.all_queues():
            groups = ((-1, pending.open[: len(pending.open) - skip]), *enumerate(pending.groups))
            for age, group in groups:
                cause: Cause = "uncommitted" if age < 0 else "in-flight"
                in_force = (age - pending.since, pending.wait)
                facts = state.facts
                close = [e for issue in group for e in issue if self._is_close(later, e, facts)]
                for event in self._open(later, cause, close) if close else ():
                    self._compare(later, event, state, cause, age, in_force)
        if not self.comparer.threads.several or self.roots.is_own(later.region.root):
            return
        if site.access is not None and site.writes and self._may_miss_a_barrier(later, later):
            self._against_itself(later, state, origins)
        if state.done:
            waits = state.last_waits()
            for event in self._close(later, "not-visible", waits, state.facts):
                self._compare_threads(later, event, state, "not-visible", wait=waits[event])
        for event in self._logged(later, state):
            is_new = not self._is_reported(later, event, state)
            if is_new and self._may_miss_a_barrier(later, event):
                self._compare_threads(later, event, state, "missing-barrier")
        if state.turns is not None:
            self._against_late(of_group(later, state.turns.early), state)

    def _against_late(self, later: Event, state: State) -> None:
        """An access of the early waves against what the late ones did before the last barrier, which these pass one later."""
        waits: dict[Event, int | None] = dict(sorted(state.behind, key=lambda e: e[1] or -1))
        for event in self._close(later, "missing-barrier", waits, state.facts):
            wait = waits[event]
            if wait is not None or self._may_miss_a_barrier(later, event):
                cause: Cause = "missing-barrier" if wait is None else "not-visible"
                overlap = self._overlap(later, event, state, same_thread=False, in_turn=False)
                self._compare_threads(later, event, state, cause, wait, overlap)

    def _open(self, later: Event, cause: Cause, earlier: Iterable[Event]) -> Iterator[Event]:
        """Those of which a finding would say more than is known: of ops that may do anything one is enough."""
        key, sites = (later.site, cause), self.sites
        if key in self.unclear and sites[later.site].access is None:
            return
        for event in earlier:
            if key not in self.unclear or sites[event.site].access is not None:
                yield event

    def _close(
        self, later: Event, cause: Cause, earlier: Iterable[Event], facts: Mapping[Atom, AtomRange]
    ) -> Iterator[Event]:
        """Those of a set that may conflict with `later`. Its order is another one in each process, what is found first is
        not."""
        close = (e for e in self._open(later, cause, earlier) if self._is_close(later, e, facts))
        return self._open(later, cause, sorted(close, key=_SITE_OF))

    def _logged(self, later: Event, state: State) -> Iterator[Event]:
        """What the log has that may conflict; of accesses that cannot be compared with `later` none after an undecided one."""
        cause: Cause = "missing-barrier"
        unlike = self._rows.unlike(later, state)
        if (later.site, cause) not in self.undecided:
            for event in sorted(unlike, key=_SITE_OF):
                if self._is_close(later, event, state.facts):
                    yield event
                if (later.site, cause) in self.undecided:
                    break
        yield from self._close(later, cause, state.log - unlike, state.facts)

    def _is_reported(self, later: Event, earlier: Event, state: State) -> bool:
        """Whether it is known already of two accesses without a barrier between that they may be to one memory by
        two names: nothing more is found of them."""
        if later.region.root == earlier.region.root:
            return False
        found = self.findings.get((later.site, earlier.site, "missing-barrier"))
        if found is None or (found.barrier is None and state.barrier is not None):
            return False
        return found.certain or found.reason <= MAY_ALIAS

    def _may_miss_a_barrier(self, later: Event, earlier: Event) -> bool:
        """Whether an access and an earlier synchronous one are checked: through workgroup or
        tracked memory, or if the later one is asynchronous. Two strong ones do not race."""
        one, other = self.sites[later.site], self.sites[earlier.site]
        a, b = later.region.root, earlier.region.root
        compared = (
            one.asynchronous
            or "workgroup" in self.roots.spaces(a) & self.roots.spaces(b)
            or (a in self.tracked and b in self.tracked)
        )
        return compared and conflict(one.manner, other.manner, "block") is not False

    def needs_a_barrier(self, later: Event, earlier: Event, state: State, *, waited: bool) -> bool:
        """Whether another thread's earlier access, asynchronous and `waited` for or synchronous,
        may meet this one if no barrier stands between."""
        return (
            not self.roots.is_own(later.region.root)
            and (waited or self._may_miss_a_barrier(later, earlier))
            and self._is_close(later, earlier, state.facts)
            and self._overlap(later, earlier, state, same_thread=False).verdict != "no"
        )

    def _against_itself(
        self, event: Event, state: State, origins: Callable[[], list[Origin] | None]
    ) -> None:
        """An op that writes, in two threads at once."""
        site = self.sites[event.site]
        meeting = self._overlap(event, event, state, same_thread=False)
        if meeting.verdict == "no":
            return
        alike = 0 if site.stored is None else self._warps.alike(site.stored)
        unsure = site.stored is not None and self._warps.may_agree(site.stored)
        if alike and self._begin_apart(event, state) != "no":
            alike, unsure = 0, True
        if self._meet_apart(event, state, alike & (self.comparer.threads.sure_lanes - 1)) == "no":
            self.one_value.add(event.site)
            return
        if alike and site.stored is not None:
            alike = self._usual_warps.alike(site.stored)
        if unsure or self._meet_apart(event, state, alike) == "no":
            reason = "same-value" if meeting.verdict == "yes" else meeting.reason
            self.unknown(event.site, event.site, "same-op", reason)
            return
        apart = self._bring_apart(event, origins(), state) if site.asynchronous else "yes"
        if apart == "yes" or (apart != "no" and meeting.verdict != "yes"):
            self._compare_threads(event, event, state, "same-op")
        elif apart != "no":
            self.unknown(event.site, event.site, "same-op", "same-value")

    def _bring_apart(self, event: Event, origins: list[Origin] | None, state: State) -> Verdict:
        """Whether threads whose copies meet bring other bytes there: one of their `origins` differs.

        copy A[%t mod 8] -> s[%t mod 4]      t and t + 4: 4 bytes from A[0] in one, from A[4] in the other
        """
        if origins is None:
            return "yes"
        region: Region | None = event.region
        if not begin_alike(event.region, event.region, same_thread=False):
            region = as_bytes(event.region)
        answers: set[Verdict] = set()
        for origin, sure in origins:
            if region is None or origin is None:
                return "cannot tell"
            one, others = (
                region._replace(pieces=(*region.pieces, Piece(start, (), length)))
                for start, length in ((origin, 1), (forms.add(origin, Form(1)), FARTHEST))
            )
            found = self._of_two_threads(event, one, others, state)
            answers.add(found if sure or found == "no" else "cannot tell")
        return next((answer for answer in ("yes", "cannot tell") if answer in answers), "no")

    def _begin_apart(self, event: Event, state: State) -> Verdict:
        """Whether threads that meet begin at two places: of one vector they store two elements to one place there."""
        region = event.region
        if not begin_alike(region, region, same_thread=False):
            region = as_bytes(region) or whole_root(region.root)
        pieces = region.pieces
        if region.certain and all(p is None or is_shared(p, False) for p in pieces):
            return "no"
        longer = [n for n, p in enumerate(pieces) if p is None or p.steps or p.length > 1]
        if not longer:
            return "no"
        piece = pieces[longer[0]]
        if len(longer) > 1 or piece is None or piece.steps:
            return "cannot tell"
        if forms.residue(piece.start, piece.length, {}) is not None:
            # All begin at multiples of the length.
            return "no"
        rest = piece._replace(start=forms.add(piece.start, Form(1)), length=piece.length - 1)
        first, others = (
            region._replace(pieces=(*pieces[: longer[0]], part, *pieces[longer[0] + 1 :]))
            for part in (piece._replace(length=1), rest)
        )
        return self._of_two_threads(event, first, others, state)

    def _of_two_threads(self, event: Event, one: Region, other: Region, state: State) -> Verdict:
        """Whether regions meet of two threads that both do an access."""
        return self.comparer.overlap(
            *(one, other, state.facts),
            same_thread=False,
            ranges=(event.threads, event.threads),
            beside=_chosen_alike(event, event),
        ).verdict

    def _meet_apart(self, event: Event, state: State, alike: int) -> Verdict:
        """Whether threads meet that do not store one value."""
        return self._between_unlike(event, event, state, alike).verdict if alike else "yes"

    def parted(self, later: Event, earlier: Event, state: State, *, certain: bool) -> None:
        """Check accesses on two sides of a branch whose sides different threads took."""
        ends = (earlier, later) if self.sites[earlier.site].asynchronous else (later, earlier)
        if self._may_miss_a_barrier(*ends) and self._is_close(later, earlier, state.facts):
            overlap = self._overlap(later, earlier, state, same_thread=False)
            if overlap.verdict == "yes" and not certain:
                overlap = Overlap("cannot tell", "divergent-branch")
            if overlap.verdict != "no":
                self._finding(later, earlier, state, "missing-barrier", overlap, False)

    def _is_close(self, later: Event, event: Event, facts: Mapping[Atom, AtomRange]) -> bool:
        """Whether an event may conflict with `later`: one of the two writes, and they are not in other slots."""
        sites = self.sites
        if not (sites[later.site].writes or sites[event.site].writes):
            return False
        root, other = later.region.root, event.region.root
        if other != root:
            return self.roots.may_alias(root, other)
        return not slots_apart(later.region, event.region, facts)

    def end(self, state: State) -> None:
        """Remember writes in flight at the end to memory that somebody may look at later."""
        for event in state.in_flight():
            self.unfinished.add(event.site)
            root = self.roots.roots[event.region.root]
            if self.sites[event.site].writes and root.kind in (*GIVEN, "global", "unknown"):
                self.left.add(event.site)

    def pair(self, later: Event, earlier: Event, state: State) -> None:
        """Check two executions of ops of one group that is still open."""
        self._compare(later, earlier, state, "uncommitted", -1, (-1, None))

    def unfollowed(self, site: int, reason: str, cause: Cause = "unfollowed") -> None:
        """An op of which nothing is known, since no path was followed there to its end."""
        self.findings[site, site, cause] = Finding(site, site, cause, False, reason)

    def divergent(self, site: int, state: State, *, may_be_met_elsewhere: bool) -> None:
        """A barrier on one side of a branch whose sides different threads took, or in a loop
        that they leave apart: certainly one that some threads do not reach, where ids of threads
        alone decide, unless those meet it at another one."""
        before = state.sides[-1].parting.facts if state.sides else {}
        decided = {a for a, k in state.facts.items() if before.get(a) != k}
        certain = (
            bool(state.sides)
            and state.sides[-1].parting.by_ids
            and not (state.tainted or state.uneven or may_be_met_elsewhere)
            and all(map(is_thread_condition, decided))
        )
        key: tuple[int, int, Cause] = (site, site, "divergent-barrier")
        if certain or key not in self.findings:
            reason = "" if certain else "divergent-branch"
            self.findings[key] = Finding(site, site, "divergent-barrier", certain, reason)

    def _compare(
        self,
        later: Event,
        earlier: Event,
        state: State,
        cause: Cause,
        age: int,
        wait: tuple[int, int | None],
    ) -> None:
        overlap = NO
        if not state.other:
            overlap = self._overlap(later, earlier, state, same_thread=True)
        same = True
        threads = self.comparer.threads
        if overlap.verdict != "yes" and threads.several:
            other = self._overlap(later, earlier, state, same_thread=False)
            if other.verdict == "yes" or overlap.verdict == "no":
                overlap, same = other, False
        if overlap.verdict == "no":
            return
        finding = self._finding(later, earlier, state, cause, overlap, same)
        if age >= 0:
            finding.age = age if finding.age is None else min(finding.age, age)
            if wait[1] is not None and (finding.wait_age is None or wait[0] < finding.wait_age):
                finding.wait_age, finding.wait = wait

    def _compare_threads(
        self,
        later: Event,
        earlier: Event,
        state: State,
        cause: Cause,
        wait: int | None = None,
        overlap: Overlap | None = None,
    ) -> None:
        overlap = overlap or self._overlap(later, earlier, state, same_thread=False)
        if overlap.verdict == "no":
            return
        finding = self._finding(later, earlier, state, cause, overlap, False)
        # The events of a state have no order: the first wait is named, whichever comes first.
        if wait is not None and (finding.wait is None or wait < finding.wait):
            finding.wait = wait
        finding.barrier = state.barrier if finding.barrier is None else finding.barrier

    def _overlap(
        self, later: Event, earlier: Event, state: State, *, same_thread: bool, in_turn: bool = True
    ) -> Overlap:
        """Whether two accesses meet, of groups of waves `in_turn` those that no barrier between the groups orders."""
        if state.turns is None or same_thread or not in_turn:
            found = self._proven_overlap(later, earlier, state, same_thread=same_thread)
        else:
            found = self._overlap_in_turn(later, earlier, state, state.turns)
        asserted = self.sites[later.site].independent
        if asserted is None or asserted != self.sites[earlier.site].independent:
            return found
        return NO if found.verdict == "cannot tell" else found

    def _overlap_in_turn(
        self, later: Event, earlier: Event, state: State, turns: WaveGroups
    ) -> Overlap:
        """The same for accesses of one interval of the program: in one group, or in two that are in order, unless one of
        them goes on after the interval."""
        groups = (turns.early, turns.late)

        def meet(group: ThreadRange, other: ThreadRange) -> Overlap:
            ends = of_group(later, group), of_group(earlier, other)
            return self._proven_overlap(*ends, state, same_thread=False)

        found = [meet(group, group) for group in groups]
        if YES not in found and any(self.sites[e.site].asynchronous for e in (later, earlier)):
            apart = [meet(*groups), meet(*groups[::-1])]
            found += [Overlap("cannot tell", IN_TURN) for one in apart if one.verdict != "no"]
        return max(found, key=lambda one: ("no", "cannot tell", "yes").index(one.verdict))

    def _proven_overlap(
        self, later: Event, earlier: Event, state: State, *, same_thread: bool
    ) -> Overlap:
        if not same_thread and not self.roots.threads_may_meet(
            later.region.root, earlier.region.root
        ):
            return NO
        if later.region.root != earlier.region.root:
            return Overlap("cannot tell", MAY_ALIAS)
        ranges = (earlier.threads, later.threads)
        threads = self.comparer.threads
        if not same_thread and any(map(self._is_of_whole_waves, (earlier, later))):
            # What a wave does its lanes do: they are no other threads.
            return self._between_unlike(later, earlier, state, threads.lanes - 1)
        # One thread met the conditions of both, also where this path has forgotten them.
        found = self.comparer.overlap(
            *(earlier.region, later.region, state.facts),
            same_thread=same_thread,
            ranges=ranges,
            beside=() if same_thread else _chosen_alike(earlier, later),
        )
        if same_thread or not earlier.met or found.verdict == "no":
            return found
        # Lanes of one warp are in order.
        apart = self._between_unlike(later, earlier, state, threads.sure_lanes - 1)
        if found.verdict == apart.verdict == "yes":
            return found
        return apart if apart.verdict == "no" else Overlap("cannot tell", "undecided-path")

    def _between_unlike(self, later: Event, earlier: Event, state: State, alike: int) -> Overlap:
        """Whether threads meet whose numbers differ in more than some bits: of two warps, without those of the lane."""
        return self.comparer.where_alike(alike).overlap(
            *(earlier.region, later.region, state.facts),
            same_thread=False,
            ranges=(earlier.threads, later.threads),
            beside=_chosen_alike(earlier, later),
        )

    def _is_of_whole_waves(self, event: Event) -> bool:
        """Whether waves did it, of which all lanes came there."""
        return self.sites[event.site].by_wave and are_whole_warps(
            event.threads, self.comparer.threads
        )

    def doubt_of_order(self, one: int, other: int, threads: Scope) -> str:
        """Why accesses of two threads that meet need not race: something may order them, they may be strong together, or
        what threads hand each other decides how many come there."""
        unsure = conflict(self.sites[one].manner, self.sites[other].manner, threads) is None
        if unsure or self.orders.may_order(one, other, threads):
            return MEMORY_ORDER
        return "" if self.handed_on().isdisjoint((one, other)) else "undecided-path"

    def unknown(self, later: int, earlier: int, cause: Cause, reason: str) -> None:
        """Accesses of which it cannot be decided whether they race."""
        key = (later, earlier, cause)
        self.findings.setdefault(key, Finding(*key, certain=False, reason=reason))
        self.undecided.add((later, cause))

    def _finding(
        self,
        later: Event,
        earlier: Event,
        state: State,
        cause: Cause,
        overlap: Overlap,
        same_thread: bool,
    ) -> Finding:
        certain = overlap.verdict == "yes"
        reason = overlap.reason
        doubt = _doubt(later, earlier, state)
        if certain and not (doubt or same_thread):
            doubt = self.doubt_of_order(later.site, earlier.site, "block")
            if not doubt and is_made_by_warp(self.sites[later.site], self.sites[earlier.site].op):
                lanes = self.comparer.threads.lanes
                apart = self._between_unlike(later, earlier, state, lanes - 1)
                doubt = "" if apart.verdict == "yes" else VALUE_ORDER
        if certain and doubt:
            certain = False
            reason = doubt
        key = (later.site, earlier.site, cause)
        one, other = self.sites[later.site], self.sites[earlier.site]
        # What is found of tensor copies may be found wrong by their phases, and is then no reason to leave out others.
        if (one.access is None or other.access is None) and not row_of(other.op).by_proxy:
            self.unclear.add((later.site, cause))
        found = self.findings.get(key)
        if found is None or (certain and not found.certain):
            reason = "" if certain else reason
            found = self.findings[key] = Finding(*key, certain, reason, loose=state.loose)
            if not certain:
                self.undecided.add((later.site, cause))
        elif certain and len(state.loose) < len(found.loose):
            found.loose = state.loose
        elif not found.certain:
            found.reason = min(found.reason, reason)
        return found


@dataclass
class Rows:
    """The accesses of each root at places that are made of what nobody can compute, by that (see `uncomputed`)."""

    _seen: set[Event] = field(default_factory=set)
    _alike: dict[tuple[Any, Uncomputed | None], set[Event]] = field(default_factory=dict)
    _atoms: set[Atom] = field(default_factory=set)

    def unlike(self, later: Event, state: State) -> Set[Event]:
        """What the log has of which no more can be found than that it is undecided."""
        sets = self._of(later)
        if sets is None:
            return frozenset()
        for event in state.log - self._seen:
            self._seen.add(event)
            for of in self._of(event) or ():
                of.add(event)
        # What is made of known numbers may be like other terms.
        known = any(k.exact is not None and a in self._atoms for a, k in state.facts.items())
        if known or not is_undecidable(later.region, state.facts):
            return frozenset()
        every, alike = sets
        return state.log & every - alike

    def _of(self, event: Event) -> tuple[set[Event], set[Event]] | None:
        """All accesses of one memory at such places, and those with the same terms; None of others."""
        terms = uncomputed(event.region)
        if terms is None or any(known.exact is not None for _, known in event.threads):
            return None
        self._atoms.update(*(forms.atoms_under(atom) for part in terms for atom, _ in part))
        memory = (event.region.root, event.region.frame)
        every, alike = (self._alike.setdefault((memory, of), set()) for of in (None, terms))
        return every, alike


def _doubt(later: Event, earlier: Event, state: State) -> str:
    """Why two accesses that meet need not race; empty if they certainly do."""
    if state.tainted:
        return state.tainted
    if state.unordered:
        return "divergent-barrier"
    if state.other:
        return "divergent-condition"
    return "conditional-access" if later.maybe or earlier.maybe else ""


def is_made_by_warp(store: Site, read: Operation) -> bool:
    """Whether what is stored is made by ops that all lanes of a warp run together, of what these read in the block of
    those ops: %r in D = mma(%a, …), where D is stored over the tile from which %a was loaded; the sum by shuffles that
    one lane stores over the first of its terms."""
    open_ones: list[tuple[Value, Block | None]] = (
        [] if store.stored is None else [(store.stored, None)]
    )
    seen = set()
    while open_ones:
        value, together = open_ones.pop()
        op = defining_op(value)
        if op is None or (value, together) in seen:
            continue
        seen.add((value, together))
        if op == read:
            return together is not None and op.block == together
        if is_pure(op) and len(op.regions) == 0:
            if named_row(op.name).agree == "differs" and op.name not in IDS:
                together = op.block
            open_ones += [(operand, together) for operand in op.operands]
    return False


def _chosen_alike(earlier: Event, later: Event) -> tuple[tuple[Piece, Piece], ...]:
    """What two threads have close to each other that one number chose, as bytes that meet.

    t = n at both ends    t' - t = 0              [t'] and [t]
    0 <= t - n < 4        -3 <= t' - t <= 3       [t'] and [t - 3, t + 3]
    """
    return tuple(
        (
            Piece(one.own, (), 1),
            Piece(
                forms.add(other.own, Form(one.low - other.high)),
                (),
                one.high - one.low + other.high - other.low + 1,
            ),
        )
        for one in earlier.chosen
        for other in later.chosen
        if one.shared == other.shared
    )
