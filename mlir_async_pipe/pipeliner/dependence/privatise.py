"""Whether a buffer may have a version of its own for each iteration.

It may if every location that iteration k reads was written in iteration k before, over the
union of the block's threads: then no value flows from one iteration to the next through
the buffer, and iterations can use different copies of it.

Three answers that count as proof, tried in this order: the author's `async_pipe.private` on
the allocation; each read has the very subscripts of an earlier write that happens whenever
the read does (then its own thread wrote it, whatever the subscripts are); enumeration of
threads and inner loops, where what is written in one around both is the same in each of its iterations.

    scf.for %i {
      %t = gpu.thread_id x                        the same in each iteration
      scf.for %j = %c0 to %n step %c8 {           %j takes the same values each time
        %k = arith.addi %t, %j                    so does %k
        %r = arith.remui %i, %c2                  changes

And whoever reads it outside of the loop must see nothing of the loop's, or the last iteration's version,
which then lies in slot 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    ancestors,
    defining_op,
    enclosing,
    is_block_argument,
    is_made_in,
    operations,
    outermost,
    parent,
    remembered,
    source_op,
    symbol_name,
    walk,
)
from mlir_async_pipe.facts.flow.region_flow import runs_again
from mlir_async_pipe.facts.loops.annotations import PRIVATE
from mlir_async_pipe.facts.loops.transactions import only_computes
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import Root, overlapping_windows, root_of
from mlir_async_pipe.facts.values.thread_numbers import guards_of, is_counted, is_decided_by_thread
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.pipeliner.dependence.distance import (
    footprint,
    holds_in_any_block,
    launch_ids_of,
    static_shape,
    subscripts_equal,
    written_together,
)
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion, by_root, regions_of
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, REGION_ROWS
from mlir_async_pipe.vocabulary.launch_ids import Size
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OPS,
    GLOBAL_ADDRESS_OPS,
    declaration_of,
    is_set,
    names_memory,
    said_of,
)


@dataclass(frozen=True)
class Obstacle:
    """Why a buffer cannot have versions: a read for which no proof was found, so that it may see another iteration's value,
    or (`outside`) one outside of the loop that may see what is not in slot 0. `open_block`: the size of the block, which
    is not known, decides what its threads read and write together."""

    op: Operation
    outside: bool = False
    open_block: bool = False


def unproven_read(
    root: Root, regions: list[CoveredRegion], block: Size | None, *, written_elsewhere: bool
) -> Obstacle | None:
    """None if the buffer is privatisable, else the first read that is not shown covered. `regions` are all accesses of the
    loop body to this root, in textual order; `written_elsewhere`: code outside the loop writes it too."""
    if declared_private(root):
        return None
    return uncovered_read(root, regions, block, written_elsewhere=written_elsewhere)


def uncovered_read(
    root: Root, regions: list[CoveredRegion], block: Size | None, *, written_elsewhere: bool
) -> Obstacle | None:
    """The same of any ops that run in textual order, whatever the allocation declares."""
    # A flag, or a counter: other threads read and write it when they like.
    for region in regions:
        if region.order.strong:
            return Obstacle(region.op)
    for read in (r for r in regions if not r.writes):
        earlier = [w for w in regions if w.writes and w.position < read.position]
        if _written_by_its_reader(read, earlier):
            continue
        certain = [w for w in earlier if _is_over(w, read)]
        later = [w for w in regions if w.writes]
        if not _covered(read, certain, later, block, written_elsewhere):
            touching = [read, *(w for w in later if w.base == read.base)]
            ids = launch_ids_of(touching)
            open_block = block is None and any(known.differs for known in ids)
            return Obstacle(read.op, open_block=open_block)
    return None


def covered_by(read: CoveredRegion, writes: list[CoveredRegion], block: Size | None) -> bool:
    """Whether `writes`, which stand before `read` in one iteration, certainly fill all that
    it reads. `block` is the number of threads in x, y, z, if that is known."""
    certain = [write for write in writes if _is_over(write, read)]
    return _written_by_its_reader(read, writes) or _covered(read, certain, [], block, True)


def _written_by_its_reader(read: CoveredRegion, writes: list[CoveredRegion]) -> bool:
    return any(subscripts_equal(w, read) and _happens_with(w, read) for w in writes)


def _happens_with(write: CoveredRegion, read: CoveredRegion) -> bool:
    """Whether the write happens in every iteration in which the read does: each `scf.if`
    around it, with the same condition, stands around the read too."""
    guards = _certain_guards(write)
    return guards is not None and guards <= (_guards(read) or set())


def _is_over(write: CoveredRegion, read: CoveredRegion) -> bool:
    """Whether all that a write touches is written when a read that follows it happens: what a loop around
    both writes of it in later iterations is not."""
    if not _happens_for_all(write, read):
        return False
    if write.top != read.top:
        return True
    around = set(ancestors(write.op))
    inside = takewhile(lambda op: op != parent(read.top), ancestors(read.op))
    return all(
        _same_each_time((write, op)) for op in inside if op in around and op.name == "scf.for"
    )


# Each write is compared with every read that may see it.
@remembered
def _same_each_time(asked: tuple[CoveredRegion, Operation]) -> bool:
    write, loop = asked
    if write.access is None:
        return False
    where = [*write.access.indices, write.access.memory]
    return SameEachTime(loop).what_changes(where) is None


def _happens_for_all(write: CoveredRegion, read: CoveredRegion) -> bool:
    """Whether every thread writes in each iteration in which one reads: no condition, or those of
    the read, on which all threads agree; or the threads that do are known by their ids."""
    guards = _certain_guards(write, enumerated=True)
    uniformity, shared = Uniformity(), _guards(read) or set()
    return guards is not None and all(
        is_decided_by_thread(guard[0])
        or (guard in shared and uniformity.difference(guard[0]) is None)
        for guard in guards
    )


def _certain_guards(
    write: CoveredRegion, *, enumerated: bool = False
) -> set[tuple[Value, int]] | None:
    """All that may keep an access from happening; None if something else may."""
    if not write.conditional:
        return set()
    certain = write.access is not None and write.access.certain
    return _guards(write, enumerated=enumerated) if certain else None


def _guards(region: CoveredRegion, *, enumerated: bool = False) -> set[tuple[Value, int]] | None:
    """The conditions of the `scf.if` between an access and the loop body, each with the number of the branch; None if
    something else may skip the access. `enumerated`: no loop does whose iterations are enumerated for each thread."""
    holders = takewhile(lambda op: op != parent(region.top), ancestors(region.op))
    if any(
        op.name not in ("scf.if", "scf.execute_region") and not (enumerated and is_counted(op))
        for op in holders
    ):
        return None
    return set(guards_of(region.op, region.top))


def _covered(
    read: CoveredRegion,
    writes: list[CoveredRegion],
    every_write: list[CoveredRegion],
    block: Size | None,
    written_elsewhere: bool,
) -> bool:
    shape = static_shape(read)
    if shape is None:
        return False

    def fills_all(size: Size) -> bool:
        missing = _missing(read, writes, shape, size)
        if missing is not None and missing.any() and not written_elsewhere:
            # What nobody ever writes has no value to lose. A write through another view has other coordinates.
            alike = all(write.base == read.base for write in every_write)
            written = written_together(every_write, size) if alike else None
            missing = None if written is None else missing & written
        return missing is not None and not missing.any()

    others = [] if written_elsewhere else every_write
    return holds_in_any_block([read, *writes, *others], block, fills_all)


def _missing(
    read: CoveredRegion, writes: list[CoveredRegion], shape: tuple[int, ...], block: Size
) -> np.ndarray | None:
    """The elements that are read but not covered by `writes`, None if not computable."""
    needed = footprint(read, shape, block)
    if needed is None:
        return None
    # What stands right before a read is likely to fill it.
    for write in reversed(writes):
        if not needed.any():
            break
        covered = footprint(write, shape, block) if write.base == read.base else None
        if covered is not None:
            needed = needed & ~covered
    return needed


def declared_private(root: Root) -> bool:
    """Whether the allocation carries `async_pipe.private`."""
    if root.kind == "attribution":
        return is_set(said_of(root.value), PRIVATE)
    op = find_global(root) if root.kind == "global" else None
    op = defining_op(root.value) if root.kind == "allocation" else op
    return op is not None and is_set(op.attributes, PRIVATE)


def find_global(root: Root) -> Operation | None:
    """The memref.global behind a root of kind "global"."""
    get = defining_op(root.value)
    assert get is not None
    return declaration_of(get)


class SameEachTime:
    """Asked of a loop; each value is looked at once, whoever uses it."""

    def __init__(self, loop: Operation) -> None:
        self._loop = loop
        self._seen: set[Value] = set()

    def what_changes(self, values: Iterable[Value]) -> Operation | None:
        """The op, or the holder of a block argument, by which one of `values` may differ from one iteration of the loop
        to the next, or take other values in inner loops; None if none does. Not asked again once something changes."""
        loop, pending = self._loop, list(values)
        while pending:
            value = pending.pop()
            if value in self._seen:
                continue
            self._seen.add(value)
            if not is_made_in(value, loop):
                continue
            if is_block_argument(value):
                argument = ir.BlockArgument(value)
                holder = argument.owner.owner.operation
                if holder == loop or holder.name != "scf.for" or argument.arg_number:
                    return holder
                pending += list(holder.operands)[:3]
                continue
            op = defining_op(value)
            assert op is not None
            if not (names_memory(op) or only_computes(op) or op.name in ADDRESS_OPS):
                return op
            pending += list(op.operands)
        return None


# Reads outside of the loop -------------------------------------------------------------------
#
#     scf.for { copy -> %b; use %b }       the loop
#     scf.for { copy -> %b; use %b }       sees its own copies only: none of the loop's
#     copy -> %b; wait; use %b             the same in straight code
#     use %b                               sees what the loop's last iteration wrote
#
# A read sees nothing of the loop if every element it reads was written before it in its own
# block, after the loop. Reads that may see something still find it in one place if each
# iteration of the loop writes the very same elements: those of its last iteration.


def sees_nothing_of(loop: Operation, read: Operation, root: Root, arithmetic: Arithmetic) -> bool:
    """Whether `read`, an op outside of `loop`, certainly sees no element of `root` that the loop
    wrote. False also means: cannot tell."""
    if not accesses(read):
        return False
    again = root.kind == "global" or runs_again(loop)
    holders = [loop, *ancestors(loop)]
    current = read
    while True:
        block = operations(current.block)
        mine = next((op for op in block if op in holders), None)
        if mine is None:
            above = parent(current)
            if _reads_its_own(block, root, arithmetic, _proof_in(above)):
                return True
            if above is None or above.name in FUNCTION_OPS:
                return False
            current = above
            continue
        if mine == current:
            # Two regions of one op, of which one execution of it runs one.
            return REGION_ROWS[mine.name].flow == "branch" and not again
        here, there = block.index(mine), block.index(current)
        if there < here:
            return not again or _reads_its_own(block[:here], root, arithmetic, uncovered_read)
        return _reads_its_own(block[here + 1 :], root, arithmetic, uncovered_read)


def sees_own_block(root: Root, arithmetic: Arithmetic) -> Callable[[Operation], bool]:
    """A question about reads: whether one certainly sees no element of `root` but those that its own
    block wrote, so that it sees nothing of any loop; only asked of blocks that hold no loop. All
    reads of a block have one answer, which is found once."""
    answers: dict[Any, bool] = {}

    def sees(read: Operation) -> bool:
        if not accesses(read):
            return False
        if read.block not in answers:
            block = operations(read.block)
            answers[read.block] = not any(len(op.regions) for op in block) and _reads_its_own(
                block, root, arithmetic, _proof_in(parent(read))
            )
        return answers[read.block]

    return sees


def _proof_in(above: Operation | None) -> Callable[..., Obstacle | None]:
    """`async_pipe.private` vouches for the iterations of loops."""
    return unproven_read if above is not None and above.name == "scf.for" else uncovered_read


def _reads_its_own(
    ops: list[Operation], root: Root, arithmetic: Arithmetic, proof: Callable[..., Obstacle | None]
) -> bool:
    """Whether ops that run in this order read nothing of `root` that they did not write."""
    regions = [
        region
        for region in regions_of(ops, arithmetic)
        if region.root is not None and region.root.identity == root.identity
    ]
    return proof(root, regions, arithmetic.block_size, written_elsewhere=True) is None


def user_elsewhere(loop: Operation, root: Root) -> Operation | None:
    """What uses a global of the module outside of the loop's function, so that it may see what
    the loop wrote. Workgroup memory goes from one function to another by calls only."""
    if root.kind != "global":
        return None
    function = enclosing(loop, FUNCTION_OPS)
    everything = list(walk(outermost(loop)))
    declared = [
        op for op in everything if "sym_name" in op.attributes and symbol_name(op) == root.key
    ]
    if root.space == "workgroup" and not any(op.name in CALL_OPS for op in everything):
        return None
    for op in declared:
        if root.space == "global" and "sym_visibility" not in op.attributes:
            return op
    return next(
        (
            op
            for op in everything
            if op.name in GLOBAL_ADDRESS_OPS
            and root_of(op.results[0]).key == root.key
            and enclosing(op, FUNCTION_OPS) != function
        ),
        None,
    )


def writes_the_same(regions: list[CoveredRegion], block: Size | None) -> bool:
    """Whether each iteration of a loop certainly writes every element of a buffer that any
    iteration writes. `regions` are the accesses of the body to it."""
    writes = [region for region in regions if region.writes]
    always = [w for w in writes if not w.conditional]
    if not always or any(w.access is None or w.access.kind == "atomic" for w in writes):
        return False

    def alike(size: Size) -> bool:
        every, certain = written_together(writes, size), written_together(always, size)
        return every is not None and certain is not None and not (every & ~certain).any()

    return holds_in_any_block(writes, block, alike)


# The decision --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Privatisation:
    """Which roots (by identity) may have a version an iteration, and what stands against the other owned ones. Of those
    in `seen_after` the last iteration's version has to lie in slot 0, where reads after the loop find it."""

    private: frozenset[Any]
    seen_after: frozenset[Any]
    obstacles: dict[Any, Obstacle]


def private_buffers(
    loop: Operation, regions: list[CoveredRegion], around: Surroundings, arithmetic: Arithmetic
) -> Privatisation:
    opaque = any(region.opaque for region in regions)
    private: set[Any] = set()
    seen_after: set[Any] = set()
    obstacles: dict[Any, Obstacle] = {}
    for key, found in by_root(regions).items():
        root = found[0].root
        assert root is not None
        if opaque or not _is_ours(root) or not any(r.writes for r in found) or _inside(root, loop):
            continue
        if root.kind == "dynamic" and overlapping_windows(loop, root):
            continue
        written = around.writes_outside(loop, key)
        missing = unproven_read(root, found, arithmetic.block_size, written_elsewhere=written)
        if missing is not None:
            obstacles[key] = missing
            continue
        elsewhere = user_elsewhere(loop, root)
        if elsewhere is not None:
            obstacles[key] = Obstacle(elsewhere, outside=True)
            continue
        seeing = around.readers_outside(
            loop,
            root,
            arithmetic.block_size,
            sees_own_block(root, arithmetic),
            partial(sees_nothing_of, loop, root=root, arithmetic=arithmetic),
        )
        if seeing and not writes_the_same(found, arithmetic.block_size):
            obstacles[key] = Obstacle(seeing[0], outside=True)
            continue
        private.add(key)
        if seeing:
            seen_after.add(key)
    return Privatisation(frozenset(private), frozenset(seen_after), obstacles)


def _inside(root: Root, loop: Operation) -> bool:
    return root.kind != "global" and loop in list(ancestors(source_op(root.value)))


def _is_ours(root: Root) -> bool:
    """Memory that is ours alone; a thread's own has to be a memref, which has a place for slots."""
    return root.is_buffer or (root.owned and root.space != "private")
