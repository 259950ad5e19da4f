"""Where in an iteration the copies are issued.

    first     wait, barrier, copies, loads, products            distance S - 1 iterations
    spread    wait, barrier, loads, product, copy, product, …   between S - 2 and S - 1
    last      wait, barrier, loads, products, copies            S - 2

Copies that come first keep the tensor cores waiting for them and for their addresses. Copies that
come later arrive later: by the cycles p before the last of them. With T cycles an iteration and
L cycles from issue to arrival a step takes max(T, (L + p) / (S - 1)) cycles, so the default spreads
copies where that makes no step longer (docs/latency.md).

Copies stand after the last load from workgroup memory: which slot they fill is known here, but not
to a back end that wants to load earlier.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from mlir_async_pipe.bindings.raw_ops import Operation, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.loops.needed_statements import value_producers
from mlir_async_pipe.loops.statements import Body, Statement, read_body
from mlir_async_pipe.values.memory_roots import root_of
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.products import is_product

Issue = Literal["first", "spread", "last"]
Asked = Literal["auto", "first", "spread", "last"]


@dataclass(frozen=True)
class IssueOptions:
    """`issue` replaces what the loop says ("auto" keeps it); `cost` and `target` are for what is
    left open by both."""

    issue: Asked = "auto"
    cost: str = ""
    target: Target | None = None


DEFAULT = IssueOptions()


def with_products(body: Body) -> Body:
    """The body, in which products are statements: what is issued between two of them."""
    return read_body(body.loop, {*(s.op for s in body.statements), *filter(is_product, body.pure)})


def ranks(
    body: Body, first: set[int], pairs: Iterable[tuple[Operation, Operation]], issue: Issue
) -> dict[int, int]:
    """The order of each statement, of which `first` are the copies and what they need."""
    rest = [s.number for s in body.statements if s.number not in first]
    if issue == "first":
        ranked = [*sorted(first), *rest]
    elif issue == "last":
        ranked = [*rest, *sorted(first)]
    else:
        ranked = _spread(body, rest, _pieces(body, first, pairs))
    return {number: rank for rank, number in enumerate(ranked)}


def _spread(body: Body, rest: list[int], pieces: list[list[int]]) -> list[int]:
    """`rest` with the pieces after its products: piece j of n after product j P / n of the P that
    no load from workgroup memory follows."""
    last_load = max((i for i, n in enumerate(rest) if _loads(body.statements[n])), default=-1)
    products = [i for i, n in enumerate(rest) if _multiplies(body.statements[n]) and i > last_load]
    gaps = products or [last_load]
    after: dict[int, list[int]] = {}
    for j, piece in enumerate(pieces):
        gap = gaps[j * len(gaps) // len(pieces)]
        after.setdefault(gap, []).extend(piece)
    ranked = after.get(-1, [])
    for i, number in enumerate(rest):
        ranked += [number, *after.get(i, [])]
    return ranked


def _pieces(
    body: Body, first: set[int], pairs: Iterable[tuple[Operation, Operation]]
) -> list[list[int]]:
    """What runs ahead, in parts that no value leaves; one part where a copy is made of two ops,
    since such copies are committed together only if nothing stands between them."""
    if any(pairs):
        return [sorted(first)]
    by_op = {s.op: s.number for s in body.statements}
    part = {number: {number} for number in first}
    for number in sorted(first):
        for producer in value_producers(body.statements[number].op, by_op, set()) & first:
            joined = part[number] | part[producer]
            part.update(dict.fromkeys(joined, joined))
    return [sorted(numbers) for number, numbers in part.items() if number == min(numbers)]


def _loads(statement: Statement) -> bool:
    return any(
        not access.writes and root_of(access.memory).space == "workgroup"
        for op in walk(statement.op)
        for access in accesses(op)
    )


def _multiplies(statement: Statement) -> bool:
    return any(map(is_product, walk(statement.op)))


def default_issue(body: Body, stages: int, copies: set[int], options: IssueOptions) -> Issue:
    """What the cost model says: "spread" where that makes no step longer.

    `body` has its products as statements, `copies` are the numbers of its copies."""
    if stages < 3 or not any(map(_multiplies, body.statements)):
        return "first"
    # The tables are needed by few loops, and importing them by none.
    from mlir_async_pipe.costs.cost_model import CostModel
    from mlir_async_pipe.schedule.modulo.unit_costs import UnitCosts

    model = CostModel.parse(options.cost, options.target)
    costs = UnitCosts(model, options.target)
    barrier = model.barrier if body.synchronisation else 0
    held = {s.number: costs.held_by(s.op) for s in body.statements if s.number not in copies}
    step = barrier + sum(held.values()) + sum(map(costs.held_by, body.pure))
    order = ranks(body, copies, (), "spread")
    issued = max(order[number] for number in copies)
    before = barrier + sum(cycles for number, cycles in held.items() if order[number] < issued)
    arrival = max(
        copy.latency
        for number in copies
        for copy in costs.copies_of((body.statements[number].op,), "")
    )
    late, early = ((arrival + cycles) / (stages - 1) for cycles in (before, barrier))
    return "spread" if max(step, late) <= max(step, early) else "first"
