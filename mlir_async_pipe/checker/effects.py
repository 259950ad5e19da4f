"""What ops with effects do to the abstract state: issue, commit, wait, barrier, access.

copy      checked against the state, then joins the open group of its queue
commit    the open group becomes the youngest committed one; all others age by one
wait N    groups older than the N youngest retire
barrier   what has retired is visible to all threads; the access log starts anew
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from mlir_async_pipe.checker import forms, memory
from mlir_async_pipe.checker.conflicts import Judge, thread_ranges
from mlir_async_pipe.checker.forms import Atom, Form, Known
from mlir_async_pipe.checker.graph import Flow
from mlir_async_pipe.checker.sites import Sites
from mlir_async_pipe.checker.state import Event, Group, Issue, Pending, State, Token, rewrite_region
from mlir_async_pipe.checker.thread_grid import ThreadRange
from mlir_async_pipe.checker.values import Values, is_memory
from mlir_async_pipe.ir_helpers import integer_attribute
from mlir_async_pipe.vocabulary import Row, row_of
from mlir_async_pipe.vocabulary.async_ops import count_operand


class _Accessed(NamedTuple):
    """The accesses of one op that matter; `queue` is where they are issued, None if they are
    synchronous, and `own_group` if each op is a group."""

    sites: tuple[int, ...]
    queue: str | None
    own_group: bool
    maybe: bool


@dataclass
class Effects:
    """Executes ops with effects on states, and asks the judge about every access."""

    flow: Flow
    values: Values
    sites: Sites
    judge: Judge

    def prepare(
        self, op: Any, frame: int, maybe: bool, variables: tuple[int, ...]
    ) -> Callable[[State], None]:
        """Read one op once; what it gives runs on a state.

        `variables` are the induction variables of summary loops around it.
        """
        row = row_of(op)
        if row is None:
            return lambda state: self._opaque(state, op, frame)
        queue = self.sites.queue_name(op, row)
        parts: list[Callable[[State], None]] = []
        if row.accesses and self.sites.of(op, frame):
            parts.append(partial(self._access, self._accessed(op, frame, row, maybe)))
            if row.asynchronous(op):
                parts += [partial(self._against_itself, op, frame, maybe, v) for v in variables]
        if row.commits == "group":
            parts.append(partial(self._commit, op, frame, queue))
        if row.wait is not None:
            parts.append(partial(self._wait, op, frame, row, queue))
        if row.barrier is not None:
            parts.append(partial(self._barrier, op, row.barrier(op)))

        def run(state: State) -> None:
            for part in parts:
                part(state)

        return run

    # Accesses -----------------------------------------------------------------------------

    def _accessed(self, op: Any, frame: int, row: Row, maybe: bool) -> _Accessed:
        numbers = self.sites.of(op, frame)
        mattering = tuple(number for number in numbers if self.sites.matters(number))
        site = self.judge.sites[numbers[0]]
        queue = site.queue if site.asynchronous else None
        return _Accessed(mattering, queue, row.commits == "self", maybe)

    def _access(self, accessed: _Accessed, state: State) -> None:
        queue = accessed.queue
        if not accessed.sites and queue is None:
            return
        threads = thread_ranges(state, self.judge.base_facts)
        events = tuple(self._event(state, n, threads, accessed.maybe) for n in accessed.sites)
        skip = 0
        if state.scopes and queue is not None:
            skip = len(state.queues.get(queue, Pending()).open) - state.scopes[-1]
        for event in events:
            self.judge.access(event, state, skip)
        if queue is not None:
            self._issue(state, queue, events, own_group=accessed.own_group)
        elif self.judge.comparer.threads.several:
            logged = [e for e in events if self.sites.is_logged(e.site)]
            if logged:
                state.log = state.log.union(logged)

    def _against_itself(
        self, op: Any, frame: int, maybe: bool, variable: int, state: State
    ) -> None:
        """A copy in a summary loop against the copies of that loop's earlier iterations."""
        form = state.env.get(variable)
        atoms = forms.atoms_of(form) if isinstance(form, Form) else frozenset()
        own = [a for a in atoms if a.kind == "any"]
        if len(own) != 1:
            return
        high = forms.range_of(own[0]).high
        if high == 0:
            return
        one = forms.of_atom(Atom("symbol", ("iteration of", variable)))
        rest = Known(0, None if high is None else high - 1)
        gap = forms.of_atom(Atom("any", (("gap", variable), rest)))
        later = forms.add(forms.add(one, gap), Form(1))
        threads = thread_ranges(state, self.judge.base_facts)
        for number in self.sites.of(op, frame):
            if self.sites.matters(number) and self.judge.sites[number].writes:
                event = self._event(state, number, threads, maybe)
                self.judge.pair(
                    event._replace(region=rewrite_region(event.region, {own[0]: later}, {})),
                    event._replace(region=rewrite_region(event.region, {own[0]: one}, {})),
                    state,
                )

    def _event(self, state: State, number: int, threads: ThreadRange, maybe: bool) -> Event:
        """The event of an access here."""
        access = self.judge.sites[number].access
        memory_number, index_numbers = self.sites.operands(number)
        view = self.values.view(state, memory_number)
        if view is None:
            region = memory.whole_root(self.sites.static_root(number))
            return Event(number, region, threads, maybe)
        region = memory.region_of(
            view,
            [self.values.form(state, index) for index in index_numbers],
            access.extent,
            certain=access.certain,
            lanes=access.active_lanes,
        )
        if access.over_lanes:
            region = memory.spread_over_lanes(region)
        return Event(number, region, threads, maybe)

    def _issue(self, state: State, queue: str, issue: Issue, *, own_group: bool) -> None:
        pending = state.queues.get(queue, Pending())
        if own_group:
            pending = self._pushed(pending, (issue,))
        else:
            pending = pending._replace(open=(*pending.open, issue))
        state.queues[queue] = pending

    # Groups -------------------------------------------------------------------------------

    def _commit(self, op: Any, frame: int, queue: str | None, state: State) -> None:
        if queue is None:
            state.tainted = True
            return
        pending = state.queues.get(queue, Pending())
        state.queues[queue] = self._pushed(pending, pending.open)._replace(open=())
        for number, value in state.env.items():
            if isinstance(value, Token) and value.queue == queue:
                # Older groups are not told apart: such a token promises nothing any more.
                oldest = self.sites.largest_wait + 1
                state.env[number] = Token(queue, min(value.age + 1, oldest))
        for result in op.results:
            state.env[self.flow.number(frame, result)] = Token(queue, 0)

    def _pushed(self, pending: Pending, group: Group) -> Pending:
        groups = (group, *pending.groups)
        limit = self.sites.largest_wait + 1
        if len(groups) > limit:
            # Every wait that retires one of these retires all of them: they are one.
            oldest = tuple(issue for old in groups[limit - 1 :] for issue in old)
            groups = (*groups[: limit - 1], oldest)
        while groups and not groups[-1]:
            groups = groups[:-1]
        return pending._replace(
            groups=groups,
            since=min(pending.since + 1, limit) if pending.wait is not None else 0,
            unconsumed=min(pending.unconsumed + 1, limit),
        )

    def _wait(self, op: Any, frame: int, row: Row, queue: str | None, state: State) -> None:
        assert row.wait is not None
        if row.completion == "counter":
            self._wait_for_ops(state, op, row)
            return
        if queue is None:
            state.tainted = True
            return
        pending = state.queues.get(queue, Pending())
        count = self._count(state, op, frame, row, pending)
        if count is None:
            return
        kept, retired = pending.groups[:count], pending.groups[count:]
        left: tuple[Group, ...] = ()
        if row.wait.completes(op) == "read":
            left = tuple(self._without_reads(group) for group in retired)
            retired = ()
        site = self.sites.op_number(op)
        unconsumed = pending.unconsumed
        if row.wait.form == "next":
            unconsumed = max(0, unconsumed - 1)
        state.queues[queue] = pending._replace(
            groups=(*kept, *left), wait=site, since=0, unconsumed=unconsumed
        )
        self._retire(state, [issue for group in retired for issue in group], site)

    def _count(self, state: State, op: Any, frame: int, row: Row, pending: Pending) -> int | None:
        """How many groups the wait leaves in flight; None if it promises nothing."""
        assert row.wait is not None
        given = integer_attribute(op, row.wait.count) if row.wait.count else None
        if given is not None:
            return max(given, 0)
        if row.wait.form == "next":
            return max(pending.unconsumed - 1, 0)
        if row.wait.form == "count":
            return None
        number = count_operand(op)
        if number is not None:
            form = self.values.form(state, self.flow.number(frame, number))
            if form.is_constant:
                return max(form.constant, 0)
            # What the wait promises depends on a number that is not known here.
            state.tainted = True
            return None
        if not self.sites.is_abstract(op):
            # device_async_wait without numGroups waits for everything.
            return 0
        ages = []
        for operand in op.operands:
            token = state.env.get(self.flow.number(frame, operand))
            if isinstance(token, Token) and token.age <= self.sites.largest_wait:
                ages.append(token.age)
        return min(ages) if ages else None

    def _without_reads(self, group: Group) -> Group:
        writes = (
            tuple(event for event in issue if self.judge.sites[event.site].writes)
            for issue in group
        )
        return tuple(issue for issue in writes if issue)

    def _wait_for_ops(self, state: State, op: Any, row: Row) -> None:
        """Counters count copies, not groups: the N youngest copies stay in flight."""
        assert row.wait is not None
        count = integer_attribute(op, row.wait.count)
        if count is None:
            return
        retired: list[Issue] = []
        for name in self.sites.counted_queues(op):
            pending = state.queues.get(name)
            if pending is None:
                continue
            left = max(count, 0)
            new: list[Group] = []
            for group in (pending.open, *pending.groups):
                cut = max(0, len(group) - left)
                retired += group[:cut]
                new.append(group[cut:])
                left = max(0, left - len(group))
            state.queues[name] = pending._replace(
                open=new[0], groups=tuple(new[1:]), wait=self.sites.op_number(op), since=0
            )
        self._retire(state, retired, self.sites.op_number(op))

    def _retire(self, state: State, issues: list[Issue], wait: int) -> None:
        if self.judge.comparer.threads.several and issues:
            events = frozenset(
                (event, wait)
                for issue in issues
                for event in issue
                if self.judge.sites[event.site].space != "private"
            )
            state.done = state.done | events

    def _barrier(self, op: Any, spaces: frozenset[str], state: State) -> None:
        sites = self.judge.sites
        state.done = frozenset(e for e in state.done if sites[e[0].site].space not in spaces)
        state.log = frozenset(e for e in state.log if sites[e.site].space not in spaces)
        if spaces:
            state.barrier = self.sites.op_number(op)

    # Regions and calls --------------------------------------------------------------------

    def bracket(self, state: State, kind: str, op: Any, frame: int) -> None:
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
            queue = self.sites.scope_queue(op)
            length = len(state.queues.get(queue, Pending()).open) if queue else 0
            state.scopes = (*state.scopes, length)
        else:
            state.scopes = state.scopes[:-1]

    def _opaque(self, state: State, op: Any, frame: int) -> None:
        """An op that is not in the vocabulary may touch the memory that it can reach."""
        if self.sites.is_harmless(op):
            return
        reached = set()
        for operand in op.operands:
            if is_memory(operand.type):
                view = self.values.view(state, self.flow.number(frame, operand))
                if view is not None:
                    reached.add(view.root)
        number = self.sites.opaque(op, frame)
        for root in self.sites.reachable(reached, bool(reached)):
            region = memory.whole_root(root)
            self.judge.access(Event(number, region, (), True), state)
