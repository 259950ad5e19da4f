"""Where in an iteration the products stand that two warpgroups issue in turn.

    wait for the tiles                          both groups, when they like
    fence; products; commit; products; commit   a turn: one group after the other
    wait 1; softmax; wait 0; scale              while the other one has its turn

So the tensor cores work for one group while the other one computes its softmax (Shah and others,
FlashAttention-3, 2024, section 3.1). Nothing else is ordered: it is right without the turns.
"""

from __future__ import annotations

from typing import NamedTuple

from mlir_async_pipe.bindings.raw_ops import Operation, operations, walk
from mlir_async_pipe.pipeliner.plan.ping_pong_plan import GROUPS
from mlir_async_pipe.pipeliner.plan.role_block import WARPGROUP, refuse
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.rows import WGMMA


class ProductTurn(NamedTuple):
    """The first and the last op of a turn, in the body of a loop."""

    first: Operation
    last: Operation


def product_turn(loop: Operation, threads: int) -> ProductTurn:
    """Raises PipelineError (roles-unsupported)."""
    if threads != GROUPS * WARPGROUP:
        _refuse(f"{threads} threads are not two warpgroups that could take turns", loop, loop)
    found = [op for op in walk(loop) if row_of(op).queue == WGMMA]
    place = {op: number for number, op in enumerate(operations(loop.regions[0].blocks[0]))}
    for op in found:
        if op not in place:
            _refuse("some products do not stand in the loop itself", op, loop)
        if row_of(op).commits == "self":
            _refuse(f"'{op.name}' waits for products in the turn that it would end", op, loop)
    issued = [op for op in found if row_of(op).wait is None]
    if not issued:
        _refuse("no products of a warpgroup could be issued in turn", loop, loop)
    turn = ProductTurn(issued[0], issued[-1])
    for op in found:
        if row_of(op).wait and place[turn.first] < place[op] < place[turn.last]:
            _refuse("products stand before and after this wait: they would be two turns", op, loop)
    return turn


def _refuse(why: str, at: Operation, loop: Operation) -> None:
    refuse(
        why,
        at,
        loop,
        code="roles-unsupported",
        advice='roles = "specialised" lets both issue their products when they like',
    )
