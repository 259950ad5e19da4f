"""Counts of `async_pipe.consumer_wait`, and the depth that `producer_acquire` promises.

    count = producer head - consumer head, the minimum over all paths

Each consumer_wait takes the oldest group of its queue that none took before, so after the m-th one
the groups younger than number m may stay in flight: groups committed minus groups taken. Where the
target's FIFO has groups of other queues too, those among them are counted by `younger_groups`. In
the same way slots acquired minus slots released must never exceed the `depth` of an acquire. Both are
least sums over all paths of what ops add and take away (`balance`):

    sum at p = min over all paths to p of the weights of the ops on the path

Commits weigh +1 and `consumer_wait` -1, so their sum is producer head minus consumer head.
Weights may be negative, so a loop that takes more than it adds has no least sum when its trip
count is unknown: the sum is then `UNBOUNDED`. The solver keeps what came before each block, so the
path with a least sum is read from there: the witness of `async_pipe.consumer_wait`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial

from mlir_async_pipe.bindings.raw_ops import integer_attribute
from mlir_async_pipe.facts.flow.conditions import Conditions
from mlir_async_pipe.facts.flow.flow_graph import Frame, Item, Node
from mlir_async_pipe.facts.flow.solver import Semiring, Solver
from mlir_async_pipe.session.diagnostics import CountError, Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Queue, queue_of, row_of
from mlir_async_pipe.vocabulary.control_flow import callee_name
from mlir_async_pipe.waits.count import TokenWaits
from mlir_async_pipe.waits.minplus import FOREVER, least
from mlir_async_pipe.waits.witness_paths import Path, WaitRecord, Witnesses, WitnessStep, step


def consumer_records(analysis: TokenWaits, session: Session) -> list[tuple[Item, WaitRecord]]:
    """The count of every consumer_wait of a module. Keeps an error for each that takes a group before
    there is one, a warning where it does so on some paths only."""
    waits = [item for item in analysis.graph.waits if takes_next(item)]
    found: dict[Item, WaitRecord] = {}
    for queue in dict.fromkeys(queue_of(item.op) for item in waits):
        mine = [item for item in waits if queue_of(item.op) == queue]
        if queue is None:
            found.update((item, _record(item, None, "dynamic-queue")) for item in mine)
            continue
        use = _QueueUse(analysis, queue, mine)
        paths = Paths(use.heads)
        for item in filter(partial(is_reached, use.heads), mine):
            found[item] = use.record(item, paths)
            use.report(item, found[item], session)
    return [(item, found.get(item) or _record(item, None, "unreachable")) for item in waits]


def takes_next(item: Item) -> bool:
    """Whether a wait takes the oldest group that was not taken before."""
    return item.rule is not None and item.rule.form == "next"


@dataclass
class _QueueUse:
    """One abstract queue: its `waits`; `heads` is producer head minus consumer head, the least over all paths."""

    analysis: TokenWaits
    queue: Queue
    waits: list[Item]
    heads: Balance = field(init=False)
    _younger: Solver[Worth] | None = None

    def __post_init__(self) -> None:
        graph = self.analysis.graph
        fifo = self.waits[0].queue
        self._own = frozenset(i for i in graph.commits if queue_of(i.op) == self.queue)
        on_fifo = frozenset(i for i in graph.commits if i.queue is fifo and i.queue is not None)
        takes = (item for item in graph.waits if takes_next(item) and item.queue is None)
        # An indirect call may be one of any function here; other modules know nothing of the queue.
        indirect = {call for call in graph.calls if callee_name(call.op) is None}
        taking = graph.with_callers(map(graph.root_of, [*self.waits, *indirect]))
        calls = [c for c in graph.calls if c in indirect or c.callee in taking]
        self._may_take = frozenset([*takes, *calls])
        self._items = [*self._own, *self.waits, *self._may_take]
        self.heads = balance(self.analysis.conditions, self._items, self._weight)
        others = on_fifo - self._own
        if others:
            held = [-self.most.after(item) for item in self._own if is_reached(self.most, item)]
            most = min(MOST_HELD, max(held, default=0))
            waits, items = frozenset(self.waits), [*self._items, *others]
            domain = YoungerGroups(self._own, others, waits, self._may_take, most)
            self._younger = Solver(self.analysis.conditions, items, domain, lambda root: UNIT)

    def _weight(self, item: Item) -> int:
        if item in self._may_take:
            # A callee that takes groups may take any number of them.
            return UNBOUNDED if item.kind == "call" else -1
        return 1 if item in self._own else -1 if item in self.waits else 0

    @cached_property
    def most(self) -> Balance:
        """Consumer head minus producer head, the least over all paths."""
        return balance(self.analysis.conditions, self._items, lambda item: -self._weight(item))

    def report(self, item: Item, record: WaitRecord, session: Session) -> None:
        """Keep an error, or a warning, of a wait that is ahead of its commits."""
        if record.reason != "consumer-ahead" or self._may_take:
            return
        what = "a group is taken here before it is committed: the slot was never filled"
        code, notes = "consumer-ahead", tuple((s.what, s.place) for s in record.witness)
        if not self._is_ahead(item):
            session.diagnostics.warning(f"on some path {what}", code=code, at=item.op, notes=notes)
            return
        advice = "commit it before, on every path"
        session.diagnostics.error(
            CountError(what, code=code, at=item.op, notes=notes, advice=advice)
        )

    def _is_ahead(self, item: Item) -> bool:
        """Whether some execution is ahead: it is on all paths to the wait, or all iterations around it together are."""
        most = self.most
        while is_reached(most, item) and most.after(item) <= 0:
            assert item.node is not None
            item = item.node.frame.item
            if item.kind != "nested" or item.is_root or item.trips is None:
                return False
        return is_reached(most, item)

    def record(self, item: Item, paths: Paths) -> WaitRecord:
        least, steps = self.heads.after(item), paths.to(item)
        if least < 0:
            return _record(item, least, "consumer-ahead", steps)
        count = least
        if self._younger is not None:
            count = max(least, after_take(self._younger.after(item)))
        if count > least:
            what = "groups of other queues are younger than the one that is taken"
            steps += (WitnessStep(what, Place.of(item.op), count - least),)
        return _record(item, count, "exact", steps)


def _record(
    item: Item, least: int | None, reason: str, witness: tuple[WitnessStep, ...] = ()
) -> WaitRecord:
    given = integer_attribute(item.op, "count")
    exact = None if least is None else max(-1, least)
    queue = "" if item.queue is None else item.queue.name
    return WaitRecord(Place.of(item.op), queue, max(0, exact or 0), exact, given, reason, witness)


def check_depths(analysis: TokenWaits, session: Session) -> None:
    """Keep an error for each acquire that may ask for more slots than its queue has."""
    for queue in dict.fromkeys(queue_of(item.op) for item in analysis.graph.slots):
        mine = [item for item in analysis.graph.slots if queue_of(item.op) == queue]

        # The largest sum is the least one of the opposite weights.
        slots = balance(analysis.conditions, mine, lambda item: -_slots(item))
        for item in mine:
            depth = integer_attribute(item.op, "depth")
            if _slots(item) <= 0 or depth is None or not is_reached(slots, item):
                continue
            held = -slots.after(item)
            if held > depth:
                many = "an unknown number of" if held > -UNBOUNDED // 2 else str(held)
                why = f"on some path {many} slots are held at once, but the queue has {depth}"
                advice = "release a slot with async_pipe.consumer_release before acquiring the next, or raise the depth"
                error = CountError(why, code="depth-exceeded", at=item.op, advice=advice)
                session.diagnostics.error(error)


def _slots(item: Item) -> int:
    """The slots that an op acquires, below 0: releases; 0 for ops around it."""
    return row_of(item.op).slots


# How many groups are younger than the oldest one that nobody took, where queues share a FIFO.
#
#     commit 0; commit 1; commit 0; take 0      two younger groups: one of each queue
#     commit 0; commit 1; commit 0; take 1      one
#
# A take on a queue whose groups exceed its takes by h, itself included, waits for the group with h
# younger ones of its own queue; the FIFO holds those of others between them. So a set of paths is worth,
# for each h, the least number of groups of the FIFO after the j-th youngest own group, for all j: h
# says at the take which j it needs. Paths with one h give the minimum for each j; a loop comes to rest,
# since h and j are bounded by what is ever held at once.

# More groups than any wait of an abstract queue leaves in flight.
MOST_HELD = 64
# On some path, any number of groups may have been taken.
ENDLESS = -(1 << 30)

Key = tuple[int, int]


@dataclass(frozen=True)
class Worth:
    """What a set of paths is worth; the first number of a key is own groups less takes. `passing[h, c]`: the least
    number of groups on a path with c own ones. `younger[h, j]`: the least number after the j-th youngest own group,
    the youngest being number 0."""

    passing: dict[Key, int]
    younger: dict[Key, int]


UNIT = Worth({(0, 0): 0}, {})
OWN = Worth({(1, 1): 1}, {(1, 0): 0})
OTHER = Worth({(0, 0): 1}, {})
TAKE = Worth({(-1, 0): 0}, {})
TAKES = Worth({(ENDLESS, 0): 0}, {})


@dataclass(frozen=True)
class YoungerGroups(Semiring[Worth]):
    """The domain: `own` groups and takes of one queue, `others` on its FIFO, at most `most` own groups at once."""

    own: frozenset[Item]
    others: frozenset[Item]
    takes: frozenset[Item]
    may_take: frozenset[Item]
    most: int
    unit: Worth = UNIT
    never: Worth = Worth({}, {})
    outside: Worth = UNIT

    def over(self, item: Item) -> Worth:
        if item in self.own:
            return OWN
        if item in self.others:
            return OTHER
        if item in self.takes:
            return TAKE
        if item in self.may_take:
            return TAKES if item.kind == "call" else self.join(UNIT, TAKE)
        return UNIT

    def then(self, first: Worth, later: Worth) -> Worth:
        """Groups of the first path are as much older as the later one has groups."""
        passing: dict[Key, int] = {}
        younger: dict[Key, int] = {}
        for (held, own), groups in later.passing.items():
            for (before, count), more in first.passing.items():
                if count + own <= self.most:
                    _least(passing, (self._held(before, held), count + own), groups + more)
            for (before, number), more in first.younger.items():
                if number + own <= self.most:
                    _least(younger, (self._held(before, held), number + own), groups + more)
        before_it = {held for held, _ in (*first.passing, *first.younger)}
        for (held, number), groups in later.younger.items():
            for before in before_it:
                _least(younger, (self._held(before, held), number), groups)
        return Worth(passing, younger)

    def _held(self, before: int, after: int) -> int:
        """Own groups less takes: at most as many as matter, and endlessly few stays so."""
        held = before + after
        return ENDLESS if held < -self.most else min(held, self.most)

    def join(self, first: Worth, second: Worth) -> Worth:
        return Worth(least([first.passing, second.passing]), least([first.younger, second.younger]))


def after_take(worth: Worth) -> int:
    """The groups that are younger than the one just taken; -1 if there may be none to take."""
    held = {held for held, _ in (*worth.passing, *worth.younger)}
    return min(-1 if h < 0 else worth.younger.get((h, h), -1) for h in held)


def _least(known: dict[Key, int], key: Key, groups: int) -> None:
    if groups < known.get(key, groups + 1):
        known[key] = groups


UNBOUNDED = -(1 << 58)

Weight = Callable[[Item], int]
Balance = Solver[int]


def balance(conditions: Conditions, items: Iterable[Item], weight: Weight) -> Balance:
    """The least sums at some items of a module, from the start of their functions."""
    return Solver(conditions, items, LeastSum(weight), lambda root: 0)


def is_reached(found: Balance, item: Item) -> bool:
    return found.before.get(item, FOREVER) < FOREVER


@dataclass(frozen=True)
class LeastSum(Semiring[int]):
    """The domain: sums, of which paths that meet give the least."""

    over: Weight
    unit: int = 0
    never: int = FOREVER
    outside: int = 0

    def then(self, first: int, later: int) -> int:
        if first >= FOREVER or later >= FOREVER:
            return FOREVER
        return max(UNBOUNDED, first + later)

    def join(self, first: int, second: int) -> int:
        return min(first, second)

    def power(self, body: int, times: int) -> int:
        return 0 if times == 0 else max(UNBOUNDED, min(FOREVER, body * times))

    def star(self, body: int, most: int | None = None) -> int:
        """No iteration, or as many as there may be if each takes more than it adds."""
        if body >= 0:
            return 0
        return UNBOUNDED if most is None else self.power(body, most)

    def widen(self, before: int, now: int, visits: int, blocks: int) -> int:
        """What still sinks after a round a block is in a cycle that takes more than it adds (Bellman and Ford)."""
        return UNBOUNDED if visits > blocks else now


_WHAT = {"commit": "a group is committed", "wait": "the oldest group is taken", "call": "a call"}


class Paths:
    """The paths of one balance: those to the start of each block are kept, since others go on."""

    def __init__(self, found: Balance) -> None:
        self.found = found
        self._to_block: dict[Node, Path] = {}
        self._witnesses = Witnesses()

    def to(self, wait: Item) -> tuple[WitnessStep, ...]:
        """The steps to a wait that paths reach, its own included. Their groups (below 0 for a group that is taken)
        add up to the sum at the wait, but where it has no lower bound: a step that takes any number of groups shows
        0."""
        return self._witnesses.read(self._before(wait) + self._over(wait))[1]

    def _over(self, item: Item) -> Path:
        return step(_shown(self.found.change[item]), _WHAT.get(item.kind, "past '{}'"), item.op)

    def _before(self, item: Item) -> Path:
        assert item.node is not None
        path = self._start(item.node)
        for other in self.found.of[item.node]:
            if other is item:
                break
            path += self._over(other)
        return path

    def _start(self, node: Node) -> Path:
        """The path to the start of a block, on from the nearest known one before it or the entry of its frame."""
        came_from = self.found.came_from
        blocks = {node: None}
        known = self._to_block.get(node)
        while known is None and node in came_from:
            node = came_from[node]
            known = self._to_block.get(node)
            if node in blocks:
                what = "a cycle of blocks that takes more than it commits"
                known = self._into(node.frame) + step(0, what, node.frame.item.op)
            blocks[node] = None
        path = self._into(node.frame) if known is None else known
        self._to_block[node] = path
        *after, _ = blocks
        for block in reversed(after):
            for item in self.found.of.get(node, ()):
                path += self._over(item)
            path += step(0, f"through block {node.number}", node.frame.item.op)
            node = block
            self._to_block[node] = path
        return path

    def _into(self, frame: Frame) -> Path:
        item = frame.item
        if frame not in self.found.entered:
            return step(0, "nothing is committed yet", item.op)
        before = self.found.entered[frame]
        what = "earlier iterations of '{}'" if before else "into '{}'"
        return self._before(item) + step(_shown(before), what, item.op)


def _shown(groups: int) -> int:
    return 0 if groups <= UNBOUNDED // 2 else groups
