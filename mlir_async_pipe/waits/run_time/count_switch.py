"""Waits whose count is known at run time only: a switch over the constants that can occur.

    wait N(%n)   -->   switch %n { case 1: wait 1   case 2: wait 2   default: wait 0 }

Neither PTX nor AMD's counters take a count from a register, so each count gets a wait of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    create,
)


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
