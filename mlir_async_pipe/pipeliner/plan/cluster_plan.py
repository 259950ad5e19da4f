"""Which blocks of a cluster copy tiles into which, and where all of them meet.

    multicast_mask = 3, in 2 blocks      each copies into both: its slots go back when the readers of
                                         both have arrived
    … predicate = %first_block           only block 0 does: block 1 waits for its own readers alone
    cluster.arrive, .wait in the loop    dropped: they kept the input's single slot

Masks and predicates must be decided by a block's place in its cluster, so that all of this is numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mlir_async_pipe.bindings.raw_ops import Operation, Value, last_of, operations, parent, walk
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.facts.loops.transactions import (
    Transaction,
    bytes_of,
    named,
    operand,
    operand_constant,
)
from mlir_async_pipe.facts.values.numbers import evaluate
from mlir_async_pipe.facts.values.uniformity import conjunction
from mlir_async_pipe.pipeliner.plan.mbarrier_setup import MbarrierSetup
from mlir_async_pipe.pipeliner.plan.tensor_tiles import writes_shared
from mlir_async_pipe.session.diagnostics import PipelineError, Refusal
from mlir_async_pipe.vocabulary import meets_cluster, order_of
from mlir_async_pipe.vocabulary.launch_ids import MAPA, Size, cluster_size, launch_id

# More blocks than any chip has in a cluster.
MOST_BLOCKS = 16

refuse = Refusal(
    "cannot let the blocks of a cluster copy for each other:",
    code="cluster-unsupported",
    advice="let each block copy for itself",
)


@dataclass(frozen=True)
class ClusterPlan:
    """`targets` are for each block those that it copies into, and itself, as bits. `met` is the wait
    of the input after which all blocks see the mbarriers; `dropped` are meetings of the input in the
    loop and at the end of the kernel."""

    targets: tuple[int, ...]
    met: Operation | None
    dropped: tuple[Operation, ...]

    @property
    def ops(self) -> tuple[Operation, ...]:
        """The parts of meetings that there may be."""
        if self.met is None:
            return self.dropped
        order = operations(self.met.block)
        before = order[: order.index(self.met) + 1]
        return (*self.dropped, *(op for op in before if meets_cluster(op)))


def is_multicast(copy: Operation) -> bool:
    return "multicast" in named(copy)


def plan_cluster(
    body: Body,
    transactions: tuple[Transaction, ...],
    setups: tuple[MbarrierSetup, ...],
    leader: Value | None,
) -> tuple[ClusterPlan, tuple[MbarrierSetup, ...]]:
    """Of a loop with multicasts, and the setups, whose mbarriers are ready where all blocks have met. Raises
    PipelineError (cluster-unsupported, transaction-bytes)."""
    kernel = parent(setups[0].create)
    assert kernel is not None
    size = cluster_size(kernel)
    count = 0 if size is None else int(np.prod(size))
    if size is None or not 0 < count <= MOST_BLOCKS:
        why = f"how many blocks make a cluster is not known, or more than {MOST_BLOCKS}"
        refuse(why, kernel, body.loop, advice="give the kernel a known_cluster_size")
    targets, blocks = [1 << rank for rank in range(count)], _Blocks(size, leader, body.loop)
    for transaction in transactions:
        for rank, reached in enumerate(blocks.reached(transaction)):
            targets[rank] |= reached
    met, dropped = _meetings(body, transactions, setups, kernel)
    ready = []
    for setup in setups:
        meetings = [op for op in (setup.meeting, met) if op is not None]
        ready.append(replace(setup, meeting=last_of(meetings) if meetings else None))
    return ClusterPlan(tuple(targets), met, dropped), tuple(ready)


# -- copies ------------------------------------------------------------------------------------


class _Blocks:
    """Which blocks of a cluster issue what, by the conditions beside that of thread 0, `leader`. Arrays have a number
    for each block, x fastest."""

    def __init__(self, size: Size, leader: Value | None, loop: Operation) -> None:
        self.size, self.leader, self.loop = size, leader, loop
        self.ranks = np.arange(int(np.prod(size)))

    def reached(self, transaction: Transaction) -> list[int]:
        """The blocks that the copies of each block reach; all bytes that come to one must be announced."""
        count = len(self.ranks)
        if not self._issue(transaction.expect).all():
            why = "a block announces no bytes"
            refuse(why, transaction.expect, self.loop, advice="announce them in all blocks")
        found, sizes = np.zeros(count, np.int64), np.zeros(count, np.int64)
        known = np.ones(count, bool)
        for copy in transaction.copies:
            mask = operand(copy, "multicast")
            masks = 1 << self.ranks if mask is None else self._numbers(mask, copy)
            reached = np.where(self._issue(copy) != 0, masks & 0xFFFF, 0)
            for bits in reached[reached >> count != 0].tolist():
                why = f"the mask {bits} names blocks beyond a cluster of {count}"
                advice = "let bit n of the mask stand for the block of rank n"
                refuse(why, copy, self.loop, advice=advice)
            found |= reached
            coming, size = (reached[:, None] >> self.ranks & 1).sum(axis=0), bytes_of(copy)
            sizes += coming * (size or 0)
            known &= (coming == 0) | (size is not None)
        given = operand_constant(transaction.expect, "bytes")
        wrong = known & (sizes != given)
        for rank in np.flatnonzero(wrong) if given is not None else ():
            raise PipelineError(
                f"cannot pipeline: {given} bytes are announced, and the copies of all blocks bring "
                f"{sizes[rank]} to block {rank} of the cluster",
                code="transaction-bytes",
                at=transaction.expect,
                notes=tuple(("a copy of the phase", copy) for copy in transaction.copies),
                advice="announce the bytes of all shares that come to a block, of whichever block",
            )
        return [int(bits) for bits in found]

    def _issue(self, op: Operation) -> np.ndarray:
        """In which blocks an op is issued."""
        predicate = operand(op, "predicate")
        assert predicate is not None
        found = np.ones(len(self.ranks), np.int64)
        for part in conjunction(predicate):
            if self.leader is None or part != self.leader:
                found = found * (self._numbers(part, op) & 1)
        return found

    def _numbers(self, value: Value, op: Operation) -> np.ndarray:
        """An integer in each block."""
        x, y, _ = self.size
        places = (self.ranks % x, self.ranks // x % y, self.ranks // (x * y))

        def leaf(of: Value) -> np.ndarray | None:
            known = launch_id(of)
            if known is None:
                return None
            if known.kind == "cluster_block":
                return places[known.axis]
            fixed = {"cluster_size": self.size[known.axis], "cluster_blocks": len(self.ranks)}
            if known.kind in fixed:
                return np.asarray(fixed[known.kind])
            return self.ranks if known.kind == "cluster_rank" else None

        found = evaluate(value, {}, leaf)
        if found is None:
            why = "is decided by more than their place in the cluster"
            refuse(
                f"which blocks '{op.name}' reaches {why}",
                op,
                self.loop,
                advice="make masks, and conditions beside that of thread 0, of constants and of "
                "gpu.cluster_block_id or nvvm.read.ptx.sreg.cluster.ctarank",
            )
        return found * np.ones(len(self.ranks), np.int64)


# -- meetings ----------------------------------------------------------------------------------


def _meetings(
    body: Body,
    transactions: tuple[Transaction, ...],
    setups: tuple[MbarrierSetup, ...],
    kernel: Operation,
) -> tuple[Operation | None, tuple[Operation, ...]]:
    """The wait that follows the mbarriers' initialisation, and the meetings that are replaced."""
    order = operations(kernel.regions[0].blocks[0])
    places = {op: place for place, op in enumerate(order)}
    ready = max(places.get(setup.last_init, 0) for setup in setups)
    last = len(order) - 1
    while last and meets_cluster(order[last - 1]):
        last -= 1
    start = next(n for n, op in enumerate(order) if body.loop in walk(op))
    copies = {copy for transaction in transactions for copy in transaction.copies}
    writer = next((op for op in walk(body.loop) if op not in copies and writes_shared(op)), None)
    met: Operation | None = None
    dropped: list[Operation] = []
    for op in (op for op in walk(kernel) if op.name == MAPA or meets_cluster(op)):
        place = places.get(op)
        if (op.name != MAPA and op.block == body.block and writer is None) or (
            place is not None and place >= last
        ):
            dropped.append(op)
        elif place is None or op.name == MAPA or not ready < place < start:
            why = "it reaches other blocks" if op.name == MAPA else "what meets here is not known"
            refuse(
                f"'{op.name}' stands where blocks of the cluster do more than copy tiles: {why}",
                op,
                body.loop,
                advice="let all blocks meet after the mbarriers are initialised, at the end of an iteration "
                "that writes no memory, and at the end of the kernel",
            )
        elif order_of(op).acquire:
            met = op
    return met, tuple(dropped)
