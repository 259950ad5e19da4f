"""Which conditions a wait has to see with one truth value each, to be counted exactly.

    scf.if %c { commit }  …  scf.if %c { wait }        %c stands at two sites of a path

A condition matters to a wait if it decides at two places, or at one place twice, on the paths from the groups that
the wait's tokens denote. Following it doubles the work in its scope, so each wait follows those that it needs, at
most `MOST_CONDITIONS`; more are left free, which only adds paths and so can only make the count smaller.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import chain, product
from operator import itemgetter
from typing import NamedTuple

from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.flow.conditions import Assumption, Conditions, Literal
from mlir_async_pipe.facts.flow.flow_graph import END, Frame, Item, Node
from mlir_async_pipe.facts.flow.region_flow import origins
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS, EXIT_OPS
from mlir_async_pipe.waits.token_values import Events, TokenValues

MOST_CONDITIONS = 8

# Conditions that are followed together in one run for several waits: 2^4 passes in a scope.
MOST_TOGETHER = 4


class DecisionSite(NamedTuple):
    """One place where a condition decides. `repeats`: more than once for one truth value, since a loop goes round it."""

    condition: int
    number: int
    repeats: bool


class Correlations:
    """The sites of one queue's events, found by where they stand."""

    def __init__(self, events: Events, conditions: Conditions) -> None:
        self.events = events
        self.values = events.values
        self.conditions = conditions
        self._sites_found: list[tuple[DecisionSite, Node, int]] = []
        self._weights: dict[int, int] = {}
        self._endless: set[int] = set()
        self._at: dict[Node, list[tuple[int, DecisionSite]]] | None = None
        for select in events.selects:
            literal = conditions.literal(select.condition, select, select.node)
            self._add(literal, select.node, select.position)
        for item in events.nested:
            assert item.node is not None
            self._add_item(item, item.node)
        for frame in chain.from_iterable(events.frames.values()):
            for node in frame.nodes if len(frame.nodes) > 1 else ():
                if node.condition is not None:
                    self._add(conditions.literal(node.condition, node, node), node, END)

    @property
    def any(self) -> bool:
        """Whether some condition decides more than once."""
        return any(weight > 1 for weight in self._weights.values())

    def _add_item(self, item: Item, node: Node) -> None:
        if item.row.flow == "branch":
            region = self.conditions.region(item)
            if isinstance(region, Literal):
                self._add(region, node, item.position)
        elif item.row.flow == "while":
            for inner in item.frames[0].nodes:
                if inner.exits:
                    op = self.values.graph.terminator_of(inner)
                    literal = self.conditions.literal(op.operands[0], item, inner)
                    if isinstance(literal, Literal):
                        self._endless.add(literal.number)
                    self._add(literal, inner, END)

    def _add(self, literal: Literal | bool, node: Node, position: int) -> None:
        if isinstance(literal, bool):
            return
        number = literal.number
        repeats = _repeats(node, self.conditions.all[number].home)
        self._sites_found.append(
            (DecisionSite(number, len(self._sites_found), repeats), node, position)
        )
        self._weights[number] = self._weights.get(number, 0) + (2 if repeats else 1)

    def _sites_at(self) -> dict[Node, list[tuple[int, DecisionSite]]]:
        """The sites of each block, in order: those in it and those in the ops in it."""
        at: dict[Node, list[tuple[int, DecisionSite]]] = {}
        for site, node, position in self._sites_found:
            here: Node | None = node
            while here is not None:
                at.setdefault(here, []).append((position, site))
                position, here = here.frame.item.position, here.frame.item.node
        for sites in at.values():
            sites.sort(key=itemgetter(0))
        return at

    def of(self, wait: Item) -> list[int]:
        """The conditions that matter to a wait."""
        spans: Spans = {}
        assert wait.node is not None
        for value in wait.operands.values():
            self._between(value, wait.node, wait.position, spans)

        def sources(value: int) -> list[int]:
            found = sources_of(self.values, value)
            for read in found:
                self._between(*read, spans)
            return [source for source, _, _ in found]

        reached(wait.operands.values(), sources)
        weights: Counter[int] = Counter()
        # In their order, and not that of a set: of many conditions the first ones are followed.
        for site in sorted(self._sites(spans)):
            weights[site.condition] += 2 if site.repeats else 1
        chosen = [number for number, weight in weights.items() if weight > 1]
        chosen += [number for number in self._endless if self._weights[number] > 1]
        return list(dict.fromkeys(chosen))

    def _between(self, value: int, node: Node, position: int, spans: Spans) -> None:
        """The spans between the definition of a value and a use, and the ops that guard it."""
        found = self.values.defs[value]
        here: Node | None = node
        while here is not None and here.frame is not found.node.frame:
            spans.setdefault(here, set()).add((-1, position))
            position, here = here.frame.item.position, here.frame.item.node
        if here is found.node and len(here.frame.nodes) == 1:
            spans.setdefault(here, set()).add((found.position, position))
        else:
            for other in found.node.frame.nodes:
                spans.setdefault(other, set()).add((-1, END))
        guard: Node | None = found.node
        while guard is not None:
            item = guard.frame.item
            if item.node is not None:
                spans.setdefault(item.node, set()).add((item.position, item.position))
            guard = item.node

    def _sites(self, spans: Spans) -> set[DecisionSite]:
        """The sites inside the spans; spans that overlap are looked at once."""
        found: set[DecisionSite] = set()
        if self._at is None:
            self._at = self._sites_at()
        for node, pieces in spans.items():
            sites = self._at.get(node)
            if not sites:
                continue
            after = 0
            for first, last in sorted(pieces):
                start = max(after, bisect_left(sites, first, key=itemgetter(0)))
                after = max(start, bisect_right(sites, last, key=itemgetter(0)))
                found.update(site for _, site in sites[start:after])
        return found


Spans = dict[Node, set[tuple[int, int]]]
"""Pieces of blocks: (first position, last position)."""


def _repeats(node: Node, home: Node) -> bool:
    """Whether a site in `node` may be met twice before `home` runs again."""
    here: Node | None = node
    while here is not None and here is not home:
        if len(here.frame.nodes) > 1 or here.frame is home.frame:
            return True
        if here.frame.item.row.flow in ("for", "while", "unknown"):
            return True
        here = here.frame.item.node
    return False


def sources_of(values: TokenValues, value: int) -> list[tuple[int, Node, int]]:
    """The values that a value may equal, with the place where each of them is read."""
    found = values.defs[value]
    if found.kind == "commit":
        return []
    if found.item is not None and found.item.kind == "call":
        return [(source, found.node, found.position) for source in found.item.operands.values()]
    node = found.node
    if found.kind == "argument" and node is not node.frame.entry:
        place = next(number for number, given in node.arguments.items() if given == value)
        edges = values.edges_into(node)
        return [(edge.values[place], at, END) for at, edge in edges if place in edge.values]
    graph = values.graph
    sources = []
    for source, at in origins(values.handle(value)).entries:
        is_end = at.name in EXIT_OPS or at.name in BRANCH_ROWS
        position = END if is_end else graph.position_of(at)
        sources.append((values.number_of(source), graph.node_of(at.block), position))
    return sources


def batches(wanted: dict[Item, list[int]]) -> list[tuple[frozenset[int], list[Item]]]:
    """Group waits so that few runs serve them all: (conditions to follow, waits)."""
    groups: dict[frozenset[int], list[Item]] = {}
    for wait, conditions in wanted.items():
        groups.setdefault(frozenset(conditions[:MOST_CONDITIONS]), []).append(wait)
    made: list[tuple[frozenset[int], list[Item]]] = []
    for needed, waits in sorted(groups.items(), key=lambda entry: -len(entry[0])):
        for number, (together, served) in enumerate(made):
            if needed <= together or len(needed | together) <= MOST_TOGETHER:
                made[number] = (needed | together, served + waits)
                break
        else:
            made.append((needed, waits))
    return made


# -- which of them are known where -----------------------------------------------------------------------

Key = tuple[bool, ...]
"""The truths of the conditions that a frame sees from outside."""


class Scopes:
    """The scopes of the conditions in `tracked`. `free` are those that a frame sees from outside, `local` those
    that it defines."""

    def __init__(self, conditions: Conditions, tracked: frozenset[int]) -> None:
        self.tracked = tracked
        self.local: dict[Frame, tuple[int, ...]] = {}
        free: dict[Frame, set[int]] = {}
        for number in sorted(tracked):
            condition = conditions.all[number]
            home = condition.home.frame
            self.local[home] = (*self.local.get(home, ()), number)
            for site in condition.sites:
                frame = site.frame
                while frame is not home and number not in free.setdefault(frame, set()):
                    free[frame].add(number)
                    assert frame.item.node is not None
                    frame = frame.item.node.frame
        self.free = {frame: tuple(sorted(numbers)) for frame, numbers in free.items() if numbers}

    def keys(self, frame: Frame) -> Sequence[Key]:
        """All assumptions about what a frame sees from outside."""
        free = self.free.get(frame)
        return list(product((False, True), repeat=len(free))) if free else ((),)

    def assumption(self, frame: Frame, key: Key) -> Assumption:
        return dict(zip(self.free[frame], key, strict=True)) if key else {}

    def key(self, frame: Frame, assumption: Assumption) -> Key:
        """The part of an assumption that a frame sees."""
        free = self.free.get(frame)
        return tuple([assumption[number] for number in free]) if free else ()

    def seen(self, frame: Frame, assumption: Assumption) -> Key:
        """The part of an assumption that the blocks of a frame see."""
        if not self.tracked:
            return ()
        numbers = (*self.free.get(frame, ()), *self.local.get(frame, ()))
        return tuple([assumption[number] for number in numbers])

    def choices(self, frame: Frame, assumption: Assumption) -> Sequence[Assumption]:
        """The assumption with every truth of the conditions that a frame itself defines."""
        local = self.local.get(frame)
        if not local:
            return (assumption,)
        return [
            {**assumption, **dict(zip(local, values, strict=True))}
            for values in product((False, True), repeat=len(local))
        ]
