"""Counts that are operands: a wait for each constant that can occur, else one for all groups.

    wait_queue(%n) {queue = 0}   -->   switch %n { case 1: wait 1   case 2: wait 2   default: wait 0 }

Neither PTX nor AMD's counters take a count from a register, so each count gets a wait of its own. On
a queue that is no constant either the wait is for all groups. The constants are looked for behind
selects, loops and branches; the ends give their range:

    %n = arith.select %c, %c0, %c2              {0, 2}
    %n = scf.if %c -> index { … 1 } else { … }  what the sides yield
    %n = arith.remui %i, %c3                    {0, 1, 2}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    attributes_of,
    before,
    constant_value,
    create,
)
from mlir_async_pipe.facts.flow.items import Item
from mlir_async_pipe.facts.flow.ways import origins
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.session.diagnostics import CountError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Queue
from mlir_async_pipe.vocabulary.async_ops import count_operand, tokens_of
from mlir_async_pipe.waits.write_counts import largest_count, set_count, wait_rule

MOST_CONSTANTS = 64


def waits_with_count_operands(waits: list[Item]) -> list[tuple[Item, Value]]:
    """The waits whose count is an operand; raises CountError (tokens-and-count) for one that
    names groups by tokens as well."""
    found = []
    for item in waits:
        count = count_operand(item.op)
        if count is None:
            continue
        if tokens_of(item.op):
            raise CountError(
                f"'{item.op.name}' has tokens and a count, which would have to agree",
                code="tokens-and-count",
                at=item.op,
                advice="name the groups by tokens, or give a count",
            )
        found.append((item, count))
    return found


def make_counts_constant(waits: list[tuple[Item, Value]], session: Session) -> None:
    """Replace each wait by those for the constants that its count can be."""
    for item, count in waits:
        counts = possible_counts(count, item.queue, item.op)
        if counts is None:
            session.diagnostics.remark(
                "nothing is known about the queue of this wait, so it waits for all groups"
                if item.queue is None
                else "nothing is known about this count, so the wait is for all groups",
                code="dynamic-queue" if item.queue is None else "dynamic-count",
                at=item.op,
            )
        wait_for_one_of(item.op, count, counts or {0: 0}, _wait_like(item.op))


def possible_counts(count: Value, queue: Queue | None, wait: Operation) -> dict[int, int] | None:
    """What a wait may leave in flight, for each value of its count; None: not known."""
    values = None if queue is None else possible_constants(count)
    if values is None:
        return None
    largest = largest_count(queue, wait_rule(wait))
    return {value: max(0, min(largest, value)) for value in values}


def wait_for_one_of(wait: Operation, number: Value, counts: dict[int, int], make_wait: Any) -> None:
    """Put waits in the place of one whose count is `number`; `make_wait(count, ip)` makes each."""
    if len(set(counts.values())) == 1:
        make_wait(next(iter(counts.values())), before(wait))
    else:
        cases = [value for value, count in counts.items() if count > 0]
        switch_over_counts(number, cases, 0, wait, lambda n, ip: make_wait(counts.get(n, 0), ip))
    wait.erase()


def _wait_like(wait: Operation) -> Any:
    """Makes waits like this one, with a count that is an attribute."""
    kept = attributes_of(wait)
    # An operand before the count is the queue.
    operands = list(wait.operands)[:-1]

    def make(count: int, ip: Any) -> None:
        made = create(wait.name, operands, (), kept, ip=ip, loc=wait.location)
        set_count(made, wait_rule(made), count)

    return make


def possible_constants(value: Value) -> list[int] | None:
    """All values that an integer can have, in order; None if they are not known, or too many."""
    arithmetic = Arithmetic()
    found: set[int] = set()
    seen = {value}
    work = [value]
    while work:
        here = work.pop()
        constant = constant_value(here)
        if constant is not None:
            found.add(constant)
            continue
        sources = origins(here)
        if sources.complete and sources.handed:
            work += [source for source in sources.values if source not in seen]
            seen.update(sources.values)
        else:
            low, high = arithmetic.value_range(here)
            if low is None or high is None or high - low >= MOST_CONSTANTS:
                return None
            found.update(range(low, high + 1))
        if len(found) > MOST_CONSTANTS:
            return None
    return sorted(found)


def switch_over_counts(
    number: Value,
    cases: Sequence[int],
    otherwise: int,
    at: Operation,
    make_wait: Callable[[int, Any], object],
) -> None:
    """Before `at`: where the index `number` is one of `cases`, wait with that count, else
    with `otherwise`; `make_wait(count, insertion point)` makes each wait."""
    switch = create(
        "scf.index_switch",
        [number],
        (),
        {"cases": ir.DenseI64ArrayAttr.get(list(cases), at.context)},
        regions=1 + len(cases),
        ip=before(at),
        loc=at.location,
    )
    # The default region comes first.
    for region, count in zip(switch.regions, [otherwise, *cases], strict=True):
        block = region.blocks.append()
        end = create("scf.yield", ip=ir.InsertionPoint(block), loc=at.location)
        make_wait(count, before(end))
