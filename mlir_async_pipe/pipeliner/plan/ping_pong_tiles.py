"""Workgroup memory beside the ring's that a tile needs, of which each of two groups gets a version.

    scf.for %tile { loop; write %o; fence; barrier; tma.async.store %o; … }   -->   %o[group]

A group runs every other iteration of the loop around, so it may have memory of its own where no
iteration reads what another one wrote. Plain reads show that as those of any pipelined loop do. A tensor store
reads all of its tile, and nobody says which elements a box leaves out: there each iteration must write the
same elements, before the store.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    ancestors,
    enclosing,
    source_op,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.pipeliner.dependence.privatise import (
    SameEachTime,
    declared_private,
    unproven_read,
)
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion, regions_of
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan, buffer_value
from mlir_async_pipe.pipeliner.plan.ring_memory import shows_slots, tile_buffers, users_of_memory
from mlir_async_pipe.pipeliner.plan.role_block import refuse
from mlir_async_pipe.pipeliner.plan.store_tiles import is_tensor_store, where_written
from mlir_async_pipe.vocabulary import VIEW_OPS, accesses
from mlir_async_pipe.vocabulary.launch_ids import Size
from mlir_async_pipe.vocabulary.memory_names import DEALLOCATION_OPS

_ADVICE = (
    "let each tile write all that it reads, in memory that is allocated before the loop over tiles and "
    f"that nothing else uses, or declare '{names.PRIVATE}' on it"
)


def ping_pong_tiles(
    around: Operation,
    own: tuple[Operation, ...],
    ring: frozenset[object],
    versions: int,
    block: Size | None,
    loop: Operation,
) -> tuple[BufferPlan, ...]:
    """The buffers that `own`, what one group runs of an iteration of `around`, uses beside those of the
    `ring`. Raises PipelineError (roles-unsupported, buffer-not-versionable)."""
    regions = [
        region
        for region in regions_of(list(own), Arithmetic(block))
        if region.root is not None
        and region.root.space == "workgroup"
        and region.root.identity not in ring
    ]
    if not regions:
        return ()
    function = enclosing(around, FUNCTION_OPS)
    assert function is not None
    of_roots: dict[object, list[CoveredRegion]] = {}
    for region in regions:
        assert region.root is not None
        of_roots.setdefault(region.root.identity, []).append(region)
    found = tile_buffers(regions, function, versions)
    users = users_of_memory(function)
    for buffer in found:
        identity, made = buffer.root.identity, source_op(buffer_value(buffer.regions))
        if buffer.root.kind != "global" and around in ancestors(made):
            _refuse(buffer, "it is made in the loop around", made, loop)
        for op in users.get(identity, ()):
            inside = around in ancestors(op)
            if (inside and shows_slots(op)) or op.name in DEALLOCATION_OPS:
                continue
            why = "in a way that cannot take a slot" if inside else "beside the loop around"
            _refuse(buffer, f"'{op.name}' uses it {why}", op, loop)
        if declared_private(buffer.root):
            continue
        for op in users.get(identity, ()):
            # A product reads by a descriptor, a number that is no access to any memory.
            if not accesses(op) and op.name not in (*VIEW_OPS, *DEALLOCATION_OPS):
                _refuse(buffer, f"who reads it by what '{op.name}' gives is not known", op, loop)
        _check_own(buffer, of_roots[identity], around, block, loop)
    return found


def _check_own(
    buffer: BufferPlan,
    regions: list[CoveredRegion],
    around: Operation,
    block: Size | None,
    loop: Operation,
) -> None:
    """No iteration of the loop around reads what another one wrote."""
    stores = [region for region in regions if is_tensor_store(region.op)]
    others = [region for region in regions if not is_tensor_store(region.op)]
    missing = unproven_read(buffer.root, others, block, written_elsewhere=False)
    if missing is not None:
        why = f"'{missing.read.op.name}' may read what the tile of the other group wrote"
        _refuse(buffer, why, missing.read.op, loop)
    if stores:
        _check_stores(buffer, stores, [r for r in others if r.writes], around, loop)


def _check_stores(
    buffer: BufferPlan,
    stores: list[CoveredRegion],
    writes: list[CoveredRegion],
    around: Operation,
    loop: Operation,
) -> None:
    """In each of the loops around the stores the same elements are written, before these."""
    first = min(store.position for store in stores)
    nests = [_loops(store.op, around) for store in stores]
    innermost = {nest[0] for nest in nests}
    same = {each: SameEachTime(each) for nest in nests for each in nest}
    for write in writes:
        if write.position > first or not innermost <= set(ancestors(write.op)):
            _refuse(buffer, f"'{write.op.name}' writes it after its store", write.op, loop)
        assert write.access is not None
        for each, values in same.items():
            where, holder = where_written(write.access, each)
            if holder is not None:
                _refuse(buffer, f"a write of it stands inside of '{holder.name}'", holder, loop)
            if values.what_changes(where) is not None:
                why = f"which elements '{write.op.name}' writes may change from tile to tile"
                _refuse(buffer, why, write.op, loop)


def _loops(op: Operation, around: Operation) -> list[Operation]:
    """The loops around an op, innermost first, up to the one over tiles."""
    above = list(ancestors(op))
    return [each for each in above[: above.index(around) + 1] if each.name == "scf.for"]


def _refuse(buffer: BufferPlan, why: str, at: Operation, loop: Operation) -> None:
    refuse(
        f"{buffer.root} would get a version for each of two groups, and {why}",
        at,
        loop,
        code="roles-unsupported",
        advice=_ADVICE,
    )
