"""Keeps states finite: many instances of one access become a few that cover them.

    copy to row k-1, k-2, …, k-7      -->   copy to row k - 1 - q for some q >= 0

Where instances differ by the iteration number alone, the youngest with "some earlier
iteration" stands for all; where they do not, what differs becomes "the whole dimension". Such
an access may be one that never was, so a conflict with it cannot be told for certain.
"""

from __future__ import annotations

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form, Known
from mlir_async_pipe.checker.rewriting import Substitution
from mlir_async_pipe.checker.state import (
    Event,
    Group,
    State,
    event_of,
    moved,
)
from mlir_async_pipe.facts.values.views import Region

# Instances of one access that a set remembers one by one.
LARGEST_SET = 6


def bound(state: State, largest_wait: int) -> None:
    """Merge instances where a set, an open group or the oldest group holds too many."""
    state.log = frozenset(_bounded(list(state.log)))
    if len(state.done) > LARGEST_SET:
        waits = state.last_waits()
        latest = max(waits.values())
        state.done = frozenset((e, waits.get(e, latest)) for e in _bounded(list(waits)))
    for name, pending in state.queues.items():
        groups = pending.groups
        if len(groups) > largest_wait and groups:
            groups = (*groups[:-1], _bounded_group(groups[-1]))
        state.queues[name] = pending._replace(open=_bounded_group(pending.open), groups=groups)


def _bounded_group(group: Group) -> Group:
    events = [event for issue in group for event in issue]
    kept = _bounded(events)
    return group if kept is events else tuple((event,) for event in kept)


def _bounded(events: list[Event]) -> list[Event]:
    by_site: dict[int, list[Event]] = {}
    for event in events:
        by_site.setdefault(event.site, []).append(event)
    if all(len(same) <= LARGEST_SET for same in by_site.values()):
        return events
    kept: list[Event] = []
    for same in by_site.values():
        kept += same if len(same) <= LARGEST_SET else _merged(same)
    return kept


def _merged(events: list[Event]) -> list[Event]:
    """A few events that cover the given ones of one site."""
    clusters: list[list[Event]] = []
    for event in sorted(events, key=_age):
        for cluster in clusters:
            if _is_earlier(event, cluster[0]):
                cluster.append(event)
                break
        else:
            clusters.append([event])
    merged = [_or_earlier(c[0]) if len(c) > 1 else c[0] for c in clusters]
    return merged if len(merged) <= LARGEST_SET else [_joined(events)]


def _age(event: Event) -> tuple[int, str]:
    """Events of later iterations first: the subscript's distance from the iteration number."""
    distance = 0
    for piece in event.region.pieces:
        if piece is not None:
            for atom, coefficient in piece.start.terms:
                if atom.kind == "iteration":
                    distance = -piece.start.constant if coefficient > 0 else piece.start.constant
                    return distance, repr(event.region.pieces)
    return distance, repr(event.region.pieces)


def _is_earlier(event: Event, young: Event) -> bool:
    """Whether `event` is `young` with an earlier iteration number."""
    if event == young:
        return True
    distances = set()
    for old, new in zip(event.region.pieces, young.region.pieces, strict=True):
        if old is None or new is None or old[1:] != new[1:]:
            if old != new:
                return False
            continue
        step = _step(new.start)
        plain = Form(old.start.constant, frozenset(t for t in old.start.terms if not _past(t[0])))
        difference = forms.subtract(new.start, plain)
        if difference.terms:
            return False
        if step:
            if difference.constant % step or difference.constant // step < 0:
                return False
            distances.add(difference.constant // step)
        elif difference.constant:
            return False
    return len(distances) <= 1


def _step(form: Form) -> int:
    """The coefficient of the only iteration number in a form, 0 if there is none."""
    steps = [coefficient for atom, coefficient in form.terms if atom.kind == "iteration"]
    return steps[0] if len(steps) == 1 else 0


def _past(atom: Atom) -> bool:
    return atom.kind == "any" and atom.key[0][0] == "earlier"  # type: ignore[index]


def _or_earlier(event: Event) -> Event:
    """The event, or one of an earlier iteration."""
    mapping: dict[Atom, Form] = {}
    for piece in event.region.pieces:
        if piece is None:
            continue
        for atom in forms.atoms_of(piece.start):
            if atom.kind == "iteration":
                before = Atom("any", (("earlier", atom.key), Known(0, None)))
                mapping[atom] = forms.subtract(forms.of_atom(atom), forms.of_atom(before))
    region: Region = Substitution(mapping, {}).region(event.region)
    return moved(event, region._replace(certain=False))


def _joined(events: list[Event]) -> Event:
    """One event that covers all: pieces that differ become whole."""
    first = events[0]
    pieces = tuple(
        column[0] if all(piece == column[0] for piece in column) else None
        for column in zip(*(event.region.pieces for event in events), strict=True)
    )
    region = first.region._replace(pieces=pieces, certain=False)
    return event_of(first.site, region, (), True)
