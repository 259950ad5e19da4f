"""What commits, waits, barriers and calls do to the queues of a state.

commit    the open group becomes the youngest committed one; all others age by one
wait N    groups older than the N youngest retire
barrier   what has retired is visible to all threads; the access log starts anew
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from mlir_async_pipe.checker.partings import after_barrier, is_reached_by_all
from mlir_async_pipe.checker.path_values import PathValues
from mlir_async_pipe.checker.sites import Sites
from mlir_async_pipe.checker.state import (
    Event,
    Group,
    Issue,
    Pending,
    State,
    Token,
    WaveGroups,
    of_group,
)
from mlir_async_pipe.checker.step_graph import Run
from mlir_async_pipe.checker.thread_grid import ThreadRange, are_whole_warps, threads_within
from mlir_async_pipe.vocabulary import Row, given_count, row_of
from mlir_async_pipe.vocabulary.async_ops import count_operand

Spaces = frozenset[str]


@dataclass
class Groups:
    """The queues of one kernel. `several`: other threads must come to know what has retired."""

    values: PathValues
    sites: Sites
    several: bool

    def issue(self, state: State, queue: str, issue: Issue, *, own_group: bool) -> None:
        """An async op joins the open group, or is a group of its own."""
        pending = state.queues.get(queue, Pending())
        if own_group:
            pending = self._pushed(pending, (issue,))
        else:
            pending = pending._replace(open=self._joined(pending.open, (issue,)))
        state.queues[queue] = pending

    def commit(self, results: tuple[int, ...], queue: str | None, own: str, state: State) -> None:
        """The open group becomes the youngest one, of the abstract queue `own`; `results` are its token."""
        if queue is None:
            state.taint()
            return
        pending = state.queues.get(queue, Pending())
        state.queues[queue] = self._pushed(pending, pending.open, own)._replace(open=())
        if any(len(ages) > self.sites.largest_wait for _, ages in state.queues[queue].untaken):
            # Which group the next consumer_wait takes is not remembered for longer.
            state.taint()
        # Older groups are not distinguished: such a token promises nothing any more.
        oldest = self.sites.largest_wait + 1
        for number, value in state.env.items():
            if isinstance(value, Token) and value.queue == queue and value.age < oldest:
                state.env[number] = Token(queue, value.age + 1)
        for result in results:
            state.env[result] = Token(queue, 0)

    def _pushed(self, pending: Pending, group: Group, own: str = "") -> Pending:
        groups = (group, *pending.groups)
        limit = self.sites.largest_wait + 1
        if len(groups) > limit:
            # Every wait that retires one of these retires all of them: they are one.
            *_, young, old = groups
            groups = (*groups[: limit - 1], self._joined(old, young))
        while groups and not groups[-1]:
            groups = groups[:-1]
        return pending._replace(
            groups=groups,
            since=min(pending.since + 1, limit) if pending.wait is not None else 0,
            untaken=self._untaken(pending, own),
        )

    def _untaken(self, pending: Pending, own: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The groups that nobody took, after one more of the abstract queue `own`."""
        limit = self.sites.largest_wait + 1
        older = {name: tuple(min(age + 1, limit) for age in a) for name, a in pending.untaken}
        if own in self.sites.taken_queues:
            older[own] = (*older.get(own, ()), 0)[-limit:]
        return tuple(sorted(older.items()))

    def _joined(self, old: Group, young: Group) -> Group:
        """Both, where what is there more often than any wait counts is forgotten: else a loop without
        a wait would never come to the same state again."""
        limit, group = self.sites.largest_wait + 1, list(old)
        for issue in young:
            if group.count(issue) >= limit:
                group.remove(issue)
            group.append(issue)
        return tuple(group)

    def wait_of(self, run: Run, row: Row, queue: str | None) -> Callable[[State], None]:
        """Read a wait once; what it gives runs on a state."""
        assert row.wait is not None
        given = given_count(run.op)
        number = self.sites.op_number(run.op)
        if row.completion == "counter":
            queues = self.sites.counted_queues(run.op)
            return partial(self._wait_for_ops, queues, queue, given, number)
        if queue is None:
            return State.taint
        form, own = row.wait.form, self.sites.own_queue(run.op)
        read_only = row.wait.completes(run.op) == "read"
        count_of = self._count_of(run, row, own)

        def wait(state: State) -> None:
            pending = state.queues.get(queue, Pending())
            count = count_of(state, pending)
            if count is None:
                return
            kept, retired = pending.groups[:count], pending.groups[count:]
            left: tuple[Group, ...] = ()
            if read_only:
                # Sources only are known to be reusable.
                left, retired = tuple(map(self._without_reads, retired)), ()
            untaken = pending.untaken
            if form == "next":
                untaken = tuple((n, ages[n == own :]) for n, ages in untaken)
            state.queues[queue] = pending._replace(
                groups=(*kept, *left), wait=number, since=0, untaken=untaken
            )
            self._retire(state, [issue for group in retired for issue in group], number)

        return wait

    def _count_of(self, run: Run, row: Row, own: str) -> Callable[[State, Pending], int | None]:
        """How many groups a wait leaves in flight, which takes one of the abstract queue `own`; None if it promises nothing."""
        assert row.wait is not None
        given, operand = given_count(run.op), count_operand(run.op)
        if given is not None:
            return lambda state, pending: max(given, 0)
        if row.wait.form == "next":
            return lambda state, pending: next(iter(dict(pending.untaken).get(own, ())), 0)
        if row.wait.form == "count":
            return lambda state, pending: None
        if operand is not None:
            return partial(self._counted, self.values.flow.number(run.frame, operand))
        if self.sites.reads_tokens(run.op, row):
            return partial(self._by_tokens, run.operands)
        # device_async_wait without numGroups waits for everything.
        return lambda state, pending: 0

    def _counted(self, number: int, state: State, pending: Pending) -> int | None:
        form = self.values.form(state, number)
        if form.is_constant:
            return max(form.constant, 0)
        # What the wait promises depends on a number that is not known here.
        state.taint()
        return None

    def _by_tokens(self, operands: tuple[int, ...], state: State, pending: Pending) -> int | None:
        tokens = [t for t in map(state.env.get, operands) if isinstance(t, Token)]
        ages = [token.age for token in tokens if token.age <= self.sites.largest_wait]
        return min(ages) if ages else None

    def _without_reads(self, group: Group) -> Group:
        writes = (
            tuple(event for event in issue if self.sites.sites[event.site].writes)
            for issue in group
        )
        return tuple(issue for issue in writes if issue)

    def _wait_for_ops(
        self,
        queues: tuple[str, ...],
        counter: str | None,
        count: int | None,
        number: int,
        state: State,
    ) -> None:
        """Counters count copies, not groups: the N youngest copies of theirs stay in flight, and all
        that another one counts.

            first wave: copy a; second wave: copy b; wait 1        retires neither: each wave has one
        """
        if count is None:
            return
        retired: list[Issue] = []
        for name in queues:
            pending = state.queues.get(name)
            if pending is None:
                continue
            younger: list[ThreadRange] = []
            new: list[Group] = []
            for group in (pending.open, *pending.groups):
                kept: list[Issue] = []
                for issue in reversed(group):
                    if self._counter_of(issue) != counter:
                        kept.append(issue)
                        continue
                    # Who issued it has issued those younger ones that ask for no more.
                    threads = issue[0].threads
                    alike = sum(set(other) <= set(threads) for other in younger)
                    (kept if alike < max(count, 0) else retired).append(issue)
                    if not issue[0].maybe:
                        younger.append(threads)
                new.append(tuple(reversed(kept)))
            state.queues[name] = pending._replace(
                open=new[0], groups=tuple(new[1:]), wait=number, since=0
            )
        self._retire(state, retired, number)

    def _counter_of(self, issue: Issue) -> str | None:
        return next((self.sites.sites[event.site].counter for event in issue), None)

    def _retire(self, state: State, issues: list[Issue], wait: int) -> None:
        if self.several and issues:
            events = frozenset(
                (event, wait)
                for issue in issues
                for event in issue
                if not self.sites.roots.is_own(event.region.root)
            )
            state.done = state.done | events

    def barrier(self, number: int, spaces: Spaces, state: State) -> None:
        """The barrier with this number, which orders the memory of some address spaces."""
        if not is_reached_by_all(state):
            state.unordered = True
            spaces = frozenset()
        if state.turns is not None:
            # The early ones pass one of their own before the late ones.
            kept = (entry for entry in state.behind if not self._orders(entry[0], spaces))
            state.behind = self._done_by(state, state.turns.late, spaces).union(kept)
        state.done = frozenset(e for e in state.done if not self._orders(e[0], spaces))
        state.log = frozenset(e for e in state.log if not self._orders(e, spaces))
        if spaces:
            state.barrier = number
        state.sides = tuple(map(after_barrier, state.sides))

    def _orders(self, event: Event, spaces: Spaces) -> bool:
        """Whether a barrier that orders some address spaces orders an access."""
        return self.sites.roots.spaces(event.region.root) <= spaces

    # Regions and calls --------------------------------------------------------------------

    def bracket(self, state: State, kind: str, op: Any) -> None:
        """The begin or end of a scope or of a call in place."""
        functional = self.sites.function_queues
        if kind == "call":
            saved = tuple((n, p) for n, p in sorted(state.queues.items()) if n in functional)
            state.queues = {n: p for n, p in state.queues.items() if n not in functional}
            state.callers = (*state.callers, saved)
        elif kind == "end call":
            *rest, saved = state.callers
            state.callers = tuple(rest)
            for name, pending in saved:
                inner = state.queues.get(name, Pending())
                issues = (*inner.open, *(i for g in reversed(inner.groups) for i in g))
                state.queues[name] = pending._replace(open=(*pending.open, *issues))
            for name, inner in list(state.queues.items()):
                if name in functional and name not in dict(saved):
                    issues = (*(i for g in reversed(inner.groups) for i in g), *inner.open)
                    state.queues[name] = Pending(open=issues)
        elif kind == "scope":
            queue = self.sites.queue_name(op, row_of(op))
            length = len(state.queues.get(queue, Pending()).open) if queue else 0
            state.scopes = (*state.scopes, length)
        else:
            state.scopes = state.scopes[:-1]

    # Two groups of waves in turn: the late one passes one barrier more, and is from there on an interval behind.
    #
    #     if %late { barrier }               the late waves meet the others' next barrier
    #     loop { I; barrier; J; barrier }    the late ones are in I while the others are in J
    #     if not %late { barrier }           the others meet the last barrier of the late ones
    #
    # A barrier of AMD counts waves, whichever of the block's barriers they are at. A path follows the program, whose
    # intervals, from one common barrier to the next, are numbered. Interval i of the late group runs beside interval i + 1 of
    # the others, so of two accesses in different groups
    #
    #     late in i, early in i + 1      are in no order: what the late ones did is remembered for one more interval
    #     early in i, late in i          are in order, by the barrier that ends i for the early ones
    #     a copy and anything in i       may be: it goes on after the interval, or began before. Nothing is claimed
    #
    # and within a group all is as in a block. So what a thread waits for is known to all after two barriers.

    def pass_alone(self, state: State, run: Run, waves: ThreadRange, others: ThreadRange) -> bool:
        """A barrier that `waves` alone pass, and `others` not, begins turns, or ends them; False if it does neither."""
        threads, spaces = self.values.threads, orders_of(run)
        site = self.sites.opaque(run.op, run.frame)
        masks = [threads_within(group, threads) for group in (waves, others)]
        whole = all(are_whole_warps(group, threads) for group in (waves, others))
        if None in masks or not whole or state.sides or state.uneven or state.unordered:
            return False
        turns = state.turns
        if turns is None:
            state.behind = self._done_by(state, waves, spaces)
            self._keep(state, others, spaces)
            state.turns = WaveGroups(others, waves, spaces, site)
            return True
        if masks[0] != threads_within(turns.early, threads) or spaces != turns.spaces:
            return False
        # The early ones have met the last barrier of the late ones, whose last interval is not over.
        state.behind = frozenset()
        self._keep(state, turns.late, spaces)
        state.turns = None
        return True

    def _done_by(
        self, state: State, group: ThreadRange, spaces: Spaces
    ) -> frozenset[tuple[Event, int | None]]:
        """What threads of a group did and waited for since the last barrier, of what barriers order."""
        orders = self._orders
        found = {(of_group(e, group), wait) for e, wait in state.done if orders(e, spaces)}
        return frozenset(found).union(
            (of_group(e, group), None) for e in state.log if orders(e, spaces)
        )

    def _keep(self, state: State, group: ThreadRange, spaces: Spaces) -> None:
        """Of what barriers order, what threads of a group did is in no order with what comes."""

        def kept(event: Event) -> Event:
            return of_group(event, group) if self._orders(event, spaces) else event

        state.done = frozenset((kept(event), wait) for event, wait in state.done)
        state.log = frozenset(map(kept, state.log))


def orders_of(run: Run) -> Spaces:
    return run.row.barrier(run.op) if run.row.barrier is not None else frozenset()
