"""The schedule that a number of stages stands for in a loop of tensor copies.

    expect, copy, wait, use            {num_stages = S}        copies: stage 0, all else: S - 1

S slots hold what S - 1 iterations copy ahead in either order. Where the products of p iterations
stay in flight, the copies come last: the barrier before them follows the wait that leaves p, and
d + p slots do. Without such products that would copy when all is computed, so they come first,
and d + p + 1 slots do (docs/phases.md).
"""

from __future__ import annotations

from mlir_async_pipe.loops.annotations import LoopAnnotations
from mlir_async_pipe.loops.products_in_flight import in_flight, products_of
from mlir_async_pipe.loops.statements import Body, numbering
from mlir_async_pipe.loops.transactions import transactions_of
from mlir_async_pipe.schedule.decision import Decision, Slot
from mlir_async_pipe.session.diagnostics import InputError


def decide_transactions(body: Body, stages: int, found: LoopAnnotations) -> Decision:
    """Copies in stage 0, everything else in the last one.

    Raises PipelineError (what `transactions_of` raises), InputError (no-consumers,
    products-in-use)."""
    copies = {copy for transaction in transactions_of(body.loop) for copy in transaction.copies}
    last = found.issue == "last" or (
        found.issue == "auto" and in_flight(products_of(body.loop), found.in_flight, body.loop) > 0
    )
    issued = [s.number for s in body.statements if s.op in copies]
    others = [s.number for s in body.statements if s.op not in copies]
    if not others:
        raise InputError(
            "cannot pipeline: nothing in the loop uses what it copies",
            code="no-consumers",
            at=body.loop,
            notes=numbering(body),
        )
    order = others + issued if last else issued + others
    return Decision(
        body,
        tuple(
            Slot(
                0 if s.op in copies else stages - 1,
                order.index(s.number),
                asynchronous=s.op in copies,
            )
            for s in body.statements
        ),
        found.wait_at or "iteration",
    )
