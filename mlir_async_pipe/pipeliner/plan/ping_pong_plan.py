"""What two groups of threads need that take the iterations of the loop around alternately.

    scf.for %tile = … iter_args(%phase) {        shared: what says how long each tile's loop is, and
      %m = arith.muli %tile, %c128                       what the loop around carries: both compute it
      scf.for %k = … { copy, wait, use }   -->   own:    the rest, which the group runs whose tile it is
      store %m
      scf.yield %end                             idle:   phases of the input, which nobody needs any more
    }

Group g runs iterations g, g + 2, … of the loop around as the threads of the input would have: a
thread id is the number in the group.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    captured,
    defining_op,
    is_block_argument,
    operations,
    result_number,
    terminator,
    users,
    walk,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import Body, needed_values
from mlir_async_pipe.facts.loops.transactions import Transaction, only_computes, operand_number
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan
from mlir_async_pipe.pipeliner.plan.issue_slice import IssueSlice
from mlir_async_pipe.pipeliner.plan.ping_pong_tiles import ping_pong_tiles
from mlir_async_pipe.pipeliner.plan.role_block import refuse
from mlir_async_pipe.vocabulary import accesses, flag_order, is_barrier, is_pure, row_of, use_of
from mlir_async_pipe.vocabulary.launch_ids import Size, launch_id
from mlir_async_pipe.vocabulary.memory_names import ALLOCATION_OPS, is_set
from mlir_async_pipe.vocabulary.rows import UNORDERED

GROUPS = 2


@dataclass(frozen=True)
class PingPong:
    """`own` are the ops of the body of `around` that only one group runs, the loop among them;
    `idle` the numbers of the values that `around` carries for the input's phases and copies alone;
    `tiles` is other memory of a tile, with a version for each group."""

    around: Operation
    own: tuple[Operation, ...]
    idle: tuple[int, ...]
    tiles: tuple[BufferPlan, ...]


def plan_ping_pong(
    body: Body,
    transactions: tuple[Transaction, ...],
    outer: tuple[Operation, ...],
    issue: IssueSlice,
    moved: tuple[Operation, ...],
    ring: frozenset[object],
    block: Size | None,
) -> PingPong:
    """How the iterations of the loop around are shared out; `ring` are the buffers of the ring.

    Raises PipelineError (roles-unsupported, roles-values)."""
    loop = body.loop
    if len(outer) != 1 or outer[0].name != "scf.for":
        refuse(
            "no loop, or more than one op, stands between the mbarriers and this one, and two groups "
            "would take the iterations of a loop around in turn",
            outer[0] if outer else loop,
            loop,
            code="roles-unsupported",
            advice="write a persistent kernel: one loop over tiles, the loop of copies in its body",
        )
    (around,) = outer
    _check_beside(around, moved, loop)
    idle = _idle(around, body, transactions, issue)
    shared = _shared(around, loop, idle)
    own = tuple(op for op in operations(around.regions[0].blocks[0])[:-1] if op not in shared)
    parts = {op for t in transactions for op in t.ops}
    for op in (inner for top in own for inner in walk(top)):
        _check_mbarriers(op, parts, loop)
        if flag_order(op) != UNORDERED:
            refuse(
                f"'{op.name}' orders memory for other threads, and tiles of two groups are not in order",
                op,
                loop,
                code="memory-order",
            )
    if not is_set(around.attributes, names.INDEPENDENT):
        _check_reads(own, loop)
    _check_thread_values(moved, loop)
    tiles = ping_pong_tiles(around, own, ring, GROUPS, block, loop)
    return PingPong(around, own, idle, tiles)


def _check_beside(around: Operation, moved: tuple[Operation, ...], loop: Operation) -> None:
    """Beside the loop around, what the threads of the input run must not matter to be run twice."""
    for op in (inner for top in moved if top != around for inner in walk(top)):
        if not (is_barrier(op) or row_of(op).harmless or is_free(op)):
            refuse(
                f"both groups would run '{op.name}', which stands beside the loop around",
                op,
                loop,
                code="roles-unsupported",
                advice="put it into the loop over tiles, or before the mbarriers' barrier",
            )


def _idle(
    around: Operation, body: Body, transactions: tuple[Transaction, ...], issue: IssueSlice
) -> tuple[int, ...]:
    """What is carried around for phases, which the ring has its own of, and for copies, which the
    producer carries itself."""
    loop, block = body.loop, around.regions[0].blocks[0]
    needed = _needed_in(body, transactions, issue)
    found = []
    for number, value in enumerate(terminator(block).operands):
        if defining_op(value) != loop or is_block_argument(value):
            continue
        inner = result_number(value)
        argument = block.arguments[number + 1]
        taken = [op for op in users(argument) if op != loop]
        if inner in needed or taken or len(users(value)) > 1 or list(users(around.results[number])):
            continue
        if [n for n, v in enumerate(list(loop.operands)[3:]) if v == argument] == [inner]:
            found.append(number)
    return tuple(found)


def _needed_in(
    body: Body, transactions: tuple[Transaction, ...], issue: IssueSlice
) -> frozenset[int]:
    """The numbers of the values that the loop carries for what stays in it."""
    issuing = {op for t in transactions for op in (t.expect, *t.copies)}
    phases = {t.wait: operand_number(t.wait, "phase") for t in transactions}
    waiting: list[Value] = []
    for op in body.ops:
        if op not in issuing and (not is_pure(op) or len(op.regions)):
            used = list(op.operands) if op in phases else captured(op)
            waiting += [value for n, value in enumerate(used) if n != phases.get(op)]
    needed = needed_values(waiting, {body.loop, *body.ops})
    arguments = list(body.block.arguments)[1:]
    return frozenset(n for n, argument in enumerate(arguments) if argument in needed)


def _shared(around: Operation, loop: Operation, idle: tuple[int, ...]) -> set[Operation]:
    """The ops of the body around that both groups run: how many iterations the loop has, and what
    is carried around."""
    block = around.regions[0].blocks[0]
    yielded = list(terminator(block).operands)
    waiting = [value for number, value in enumerate(yielded) if number not in idle]
    waiting += list(loop.operands)[:3]
    shared: set[Operation] = set()
    while waiting:
        op = defining_op(waiting.pop())
        if op is None or op in shared or op.block != block:
            continue
        if not is_free(op):
            refuse(
                f"both groups would need what '{op.name}' gives in the tile of one",
                op,
                loop,
                code="roles-values",
                advice="let the loop over tiles carry nothing that a tile's loop, a load or a store "
                "has a part in",
            )
        shared.add(op)
        waiting += captured(op)
    return shared


def _check_mbarriers(op: Operation, parts: set[Operation], loop: Operation) -> None:
    """What the tiles of both groups use at once, they must not share."""
    if use_of(op) is not None and op not in parts and use_of(op) != "handle":
        refuse(
            f"'{op.name}' is about an mbarrier that both groups would use",
            op,
            loop,
            code="roles-unsupported",
        )


def _check_reads(own: tuple[Operation, ...], loop: Operation) -> None:
    """No tile reads what another one writes to global memory."""
    found = [(op, a) for top in own for op in walk(top) for a in accesses(op)]
    there = [(op, a.writes, root_of(a.memory)) for op, a in found]
    written = [root for _, writes, root in there if writes and root.space == "global"]
    kept = {root.identity for root in written}
    apart = all(root.noalias for root in written)
    for op, writes, root in there:
        if writes or root.space != "global":
            continue
        if root.identity in kept or not (apart or root.noalias or not written):
            refuse(
                f"'{op.name}' may read what the tile of the other group writes",
                op,
                loop,
                code="roles-unsupported",
                advice=f"assert '{names.INDEPENDENT}' on the loop around if tiles never do",
            )


def _check_thread_values(moved: tuple[Operation, ...], loop: Operation) -> None:
    """What threads compute before the roles part they can compute again, by their number in the
    group: pure ops, of ids."""
    inside = {op for top in moved for op in walk(top)}
    uniform = Uniformity()
    for op in (op for top in moved for op in walk(top)):
        known = [launch_id(result) for result in op.results]
        shared_out = any(access.shares is not None for access in accesses(op))
        if shared_out or any(k and k.kind == "subgroup" for k in known):
            refuse(
                f"'{op.name}' asks for the number of a warp in the block, which is another one in the "
                "second group",
                op,
                loop,
                code="roles-values",
                advice="compute it from gpu.thread_id, and store sums by 'vector.store' or the like",
            )
    seen: set[Operation] = set()
    waiting = [value for op in inside for value in op.operands]
    while waiting:
        value = waiting.pop()
        made = defining_op(value)
        if made is None or made in inside or made in seen:
            continue
        seen.add(made)
        known_id = launch_id(value)
        if known_id is not None and known_id.kind != "subgroup":
            continue
        if known_id is None and is_pure(made) and not len(made.regions):
            waiting += captured(made)
            continue
        if known_id is not None or uniform.differs_by_thread(value):
            refuse(
                f"'{made.name}' gives threads of the second group numbers that the input's do not have",
                made,
                loop,
                code="roles-values",
                advice="compute it from gpu.thread_id by arithmetic",
            )


def is_free(op: Operation) -> bool:
    """Whether it changes nothing that more threads run an op, or the same ones again."""
    return only_computes(op) or op.name in ALLOCATION_OPS
