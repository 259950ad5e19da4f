"""Which loops may leave tensor stores in flight, how many, and which tiles get slots for that.

    for %i { write %o; fence; barrier; store %o; commit; wait 0 {read}; barrier }

q stores may read their tiles while later iterations write theirs if the tiles have q + 1 slots
(docs/phases.md). An iteration must write all that its store reads. It does if it writes the same
elements as all others: no condition and no subscript of its writes changes in the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    ancestors,
    enclosing,
    integer_attribute,
    operations,
    parent,
    walk,
)
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.pipeliner.dependence.privatise import SameEachTime, declared_private
from mlir_async_pipe.pipeliner.dependence.regions import regions_of
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan
from mlir_async_pipe.pipeliner.plan.memory_limit import workgroup_bytes
from mlir_async_pipe.pipeliner.plan.ring_memory import shows_slots, tile_buffers, users_of_memory
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import (
    ROWS,
    Access,
    accesses,
    flag_order,
    groups_of,
    named_row,
    row_of,
)
from mlir_async_pipe.vocabulary.memory_names import DEALLOCATION_OPS
from mlir_async_pipe.vocabulary.rows import BULK_STORE

_FORM = (
    "write each iteration as if it were alone: the tile, a fence, a barrier, its stores and one commit, "
    "`wait_group 0 {read}`, a barrier (docs/hopper.md)"
)


@dataclass(frozen=True)
class StorePlan:
    """`wait` is that of the loop, and leaves the groups of `in_flight` iterations; `buffers` get
    one slot more than that. `asked` were to be in flight. Where the writes and the stores stand in one
    branch, only iterations that take it count, and the slot goes on there."""

    wait: Operation
    # How many ops around the wait stand inside of what holds all of an iteration's writes and stores.
    depth: int
    buffers: tuple[BufferPlan, ...]
    in_flight: int
    asked: int


def plan_stores(loop: Operation, asked: int, limit: int | None, around: Surroundings) -> StorePlan:
    """What becomes of the stores of a loop; raises PipelineError (store-not-overlapped and what
    buffers that cannot have versions raise)."""
    stores, commit, wait = _group(loop)
    _check_around(loop)
    releasing = next((op for op in walk(loop) if flag_order(op).release), None)
    if releasing is not None:
        why = f"'{releasing.name}' tells other threads that what comes before it is over"
        raise _refused(why, releasing, loop)
    function = enclosing(loop, FUNCTION_OPS)
    assert function is not None
    buffers = tile_buffers(regions_of(stores, Arithmetic()), function, 1)
    places = {op: place for place, op in enumerate(walk(loop))}
    of_tiles = _writes(loop, buffers, function, stores)
    parts = {*stores, commit, wait, *(access.op for writes in of_tiles for access in writes)}
    holder, same = _holder(loop, parts), SameEachTime(loop)
    for op in (*stores, commit, wait):
        _check_conditions(op, holder, loop, same)
    for buffer, writes in zip(buffers, of_tiles, strict=True):
        _check_order(places, writes, stores, commit, wait)
        if not declared_private(buffer.root):
            _check_the_same(holder, loop, writes, same)
    _check_met(holder, wait, [writes[0].op for writes in of_tiles])
    depth = list(ancestors(wait)).index(holder)
    planned = {buffer.root.identity for buffer in buffers}
    free = None if limit is None else limit - around.workgroup_bytes_beside(loop, planned)
    left = asked
    while left and free is not None and workgroup_bytes(_with_slots(buffers, left + 1)) > free:
        left -= 1
    return StorePlan(wait, depth, _with_slots(buffers, left + 1), left, asked)


def _with_slots(buffers: tuple[BufferPlan, ...], versions: int) -> tuple[BufferPlan, ...]:
    return tuple(replace(buffer, versions=versions) for buffer in buffers)


def waits_of_stores(top: Operation) -> Iterator[Operation]:
    """The waits for groups of tensor stores."""
    return (op for op in walk(top) if _queued(op) and ROWS[op.name].wait is not None)


def carries_slots(op: Operation) -> bool:
    """Whether a slot can be carried through an op."""
    return op.name == "scf.for" or op.name == "scf.if"


def stored_tiles(top: Operation) -> Iterator[Value]:
    """What tensor stores read."""
    return (a.memory for op in walk(top) if _queued(op) for a in accesses(op) if not a.writes)


def is_tensor_store(op: Operation) -> bool:
    return _queued(op) and bool(ROWS[op.name].accesses)


def _queued(op: Operation) -> bool:
    return named_row(op.name).queue == BULK_STORE


def _group(loop: Operation) -> tuple[list[Operation], Operation, Operation]:
    """The stores of an iteration, their commit, and the wait for them."""
    found = [op for op in walk(loop) if _queued(op)]
    waits = list(waits_of_stores(loop))
    commits = [op for op in found if ROWS[op.name].commits]
    stores = [op for op in found if is_tensor_store(op)]
    if not stores or len(commits) != 1 or len(waits) != 1:
        raise _refused(
            f"an iteration has {len(stores)} stores in {len(commits)} groups, and waits for them "
            f"{len(waits)} times",
            (found or [loop])[0],
            loop,
        )
    (commit,), (wait,) = commits, waits
    rule = ROWS[wait.name].wait
    assert rule is not None
    if integer_attribute(wait, rule.count) != 0:
        raise _refused("its wait leaves groups in flight already", wait, loop)
    if rule.completes(wait) != "read":
        why = "its wait is for what they write, too, which somebody may read"
        raise _refused(why, wait, loop, "add `{read}` if only the tile is written anew")
    return stores, commit, wait


def _holder(loop: Operation, parts: set[Operation]) -> Operation:
    """The loop, or the innermost branch in it, in one block of which all of these stand."""
    holder = loop
    while True:
        around = {_child(part, holder) for part in parts}
        branch = next(iter(around))
        if len(around) > 1 or branch.name != "scf.if" or branch in parts:
            return holder
        blocks = {_child(part, branch).block for part in parts}
        if len(blocks) > 1:
            return holder
        holder = branch


def _child(op: Operation, holder: Operation) -> Operation:
    """The op in a block of `holder` that is the op, or is around it."""
    return next(each for each in (op, *ancestors(op)) if parent(each) == holder)


def _check_conditions(
    op: Operation, holder: Operation, loop: Operation, same: SameEachTime
) -> None:
    """An op happens whenever the holder's block is run, or never: for each thread."""
    for above in ancestors(op):
        if above == holder:
            return
        if above.name != "scf.if":
            raise _refused(f"it stands inside of '{above.name}'", op, loop)
        if same.what_changes(above.operands[:1]) is not None:
            raise _refused("it stands under a condition that changes in the loop", op, loop)


def _check_around(loop: Operation) -> None:
    """The slot can be carried to where the kernel begins."""
    for above in ancestors(loop):
        if above.name in FUNCTION_OPS or above.name == "gpu.launch":
            return
        if not carries_slots(above):
            raise _refused(f"the slot cannot be carried through this '{above.name}'", above, loop)


def _writes(
    loop: Operation,
    buffers: tuple[BufferPlan, ...],
    function: Operation,
    stores: list[Operation],
) -> list[list[Access]]:
    """The writes of each tile; all else that uses it is the stores, and views in the loop."""
    writes: dict[object, list[Access]] = {buffer.root.identity: [] for buffer in buffers}
    for op in (op for tile in writes for op in users_of_memory(function).get(tile, ())):
        if loop not in ancestors(op):
            if op.name in DEALLOCATION_OPS:
                continue
            raise _refused(f"'{op.name}' uses its tile outside of the loop", op, loop)
        if not shows_slots(op):
            raise _refused(f"'{op.name}' names its tile in a way that cannot take a slot", op, loop)
    storing = set(stores)
    for op in (op for op in walk(loop) if op not in storing):
        for access in accesses(op):
            of_tile = writes.get(root_of(access.memory).identity)
            if of_tile is None:
                continue
            row = row_of(op)
            if access.kind != "write" or access.asynchronous or row.by_proxy:
                why = f"'{op.name}' does more to its tile than to write it before the store"
                raise _refused(why, op, loop)
            of_tile.append(access)
    if not all(writes.values()):
        raise _refused("nothing in the loop writes its tile", stores[0], loop)
    return list(writes.values())


def _check_order(
    places: dict[Operation, int],
    writes: list[Access],
    stores: list[Operation],
    commit: Operation,
    wait: Operation,
) -> None:
    """Writes, stores, commit; the wait comes after these, or before them."""
    first, last = (places[access.op] for access in (writes[0], writes[-1]))
    in_order = last < places[stores[0]] and places[stores[-1]] < places[commit]
    if not in_order or first < places[wait] < places[commit]:
        raise _refused(
            "what it does with its tile is in another order than writes, stores, commit",
            commit,
            None,
        )


def _check_met(holder: Operation, wait: Operation, writes: list[Operation]) -> None:
    """Threads meet after the wait, before one of them writes a tile again."""
    start = _child(wait, holder)
    order = operations(start.block)
    first = order.index(start)
    since = {op: number for number, op in enumerate([*order[first:], *order[:first]])}
    met = next((number for op, number in since.items() if _meets(op)), len(since))
    # 0: the wait and the write stand in one op, and the next iteration's comes after all others.
    if any(met >= (since[_child(write, holder)] or len(since)) for write in writes):
        why = "no barrier stands between its wait and the next iteration's writes"
        raise _refused(why, wait, holder)


def _meets(op: Operation) -> bool:
    barrier = named_row(op.name).barrier
    return barrier is not None and "workgroup" in barrier(op)


def _check_the_same(
    holder: Operation, loop: Operation, writes: Iterable[Access], same: SameEachTime
) -> None:
    """Each iteration writes the same elements."""
    for access in writes:
        where, inside = where_written(access, holder)
        if inside is not None:
            raise _refused("a write of its tile stands inside of it", inside, loop)
        changing = same.what_changes(where)
        if changing is not None:
            raise PipelineError(
                f"cannot leave its stores in flight: which elements '{access.op.name}' writes may "
                "change in the loop, so that the store may read some that an earlier iteration wrote",
                code="store-not-overlapped",
                at=access.op,
                notes=(("what changes", changing),),
                advice="`async_pipe.private` on the allocation says that each iteration writes all "
                "that its store reads",
            )


def where_written(access: Access, holder: Operation) -> tuple[list[Value], Operation | None]:
    """What says which elements a write touches each time that the holder's block is run, and an op around
    it there, if there is one, of which that is not known."""
    stored = {
        number
        for name, numbers in groups_of(access.op).items()
        if name.startswith("value")
        for number in numbers
    }
    where = [value for n, value in enumerate(access.op.operands) if n not in stored]
    for above in ancestors(access.op):
        if above == holder:
            break
        if not carries_slots(above):
            return where, above
        where += list(above.operands)[: 3 if above.name == "scf.for" else 1]
    return where, None


def _refused(why: str, at: Operation, loop: Operation | None, advice: str = _FORM) -> PipelineError:
    return PipelineError(
        f"cannot leave its stores in flight: {why}",
        code="store-not-overlapped",
        at=at,
        notes=() if loop is None or loop == at else (("the loop", loop),),
        advice=advice,
    )
