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
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    defining_op,
    is_block_argument,
    parent,
    remembered,
)
from mlir_async_pipe.facts.loops.annotations import PRIVATE
from mlir_async_pipe.facts.loops.transactions import only_computes
from mlir_async_pipe.facts.values.memory_roots import Root
from mlir_async_pipe.facts.values.thread_numbers import is_counted, is_decided_by_thread
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.pipeliner.dependence.between_threads import holds_in_any_block, ids_of
from mlir_async_pipe.pipeliner.dependence.distance import subscripts_equal
from mlir_async_pipe.pipeliner.dependence.footprint import (
    footprint,
    static_shape,
    written_together,
)
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion
from mlir_async_pipe.vocabulary.launch_ids import Size
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OPS,
    declaration_of,
    is_set,
    names_memory,
    said_of,
)


@dataclass(frozen=True)
class Unproven:
    """The read for which no proof was found; `open_block`: the size of the block, which is not
    known, decides what its threads read and write together."""

    read: CoveredRegion
    open_block: bool = False


def unproven_read(
    root: Root, regions: list[CoveredRegion], block: Size | None, *, written_elsewhere: bool
) -> Unproven | None:
    """None if the buffer is privatisable, else the first read that is not shown covered.

    `regions` are all accesses of the loop body to this root, in textual order;
    `written_elsewhere` says that code outside the loop writes it too.
    """
    if declared_private(root):
        return None
    return uncovered_read(root, regions, block, written_elsewhere=written_elsewhere)


def uncovered_read(
    root: Root, regions: list[CoveredRegion], block: Size | None, *, written_elsewhere: bool
) -> Unproven | None:
    """The same of any ops that run in textual order, whatever the allocation declares."""
    # A flag, or a counter: other threads read and write it when they like.
    for region in regions:
        if region.order.strong:
            return Unproven(region)
    for read in (r for r in regions if not r.writes):
        earlier = [w for w in regions if w.writes and w.position < read.position]
        if _written_by_its_reader(read, earlier):
            continue
        certain = [w for w in earlier if _is_over(w, read)]
        later = [w for w in regions if w.writes]
        if not _covered(read, certain, later, block, written_elsewhere):
            touching = [read, *(w for w in later if w.base == read.base)]
            ids = ids_of(touching)
            return Unproven(read, block is None and any(known.differs for known in ids))
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
    if not write.conditional:
        return True
    guards = _guards(write)
    if guards is None or write.access is None or not write.access.certain:
        return False
    return guards <= (_guards(read) or set())


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
    if not write.conditional:
        return True
    guards = _guards(write, enumerated=True)
    if guards is None or write.access is None or not write.access.certain:
        return False
    uniformity, shared = Uniformity(), _guards(read) or set()
    return all(
        is_decided_by_thread(guard[0])
        or (guard in shared and uniformity.difference(guard[0]) is None)
        for guard in guards
    )


def _guards(region: CoveredRegion, *, enumerated: bool = False) -> set[tuple[Value, int]] | None:
    """The conditions of the `scf.if` between an access and the loop body, each with the
    number of the branch; None if something else may skip the access. `enumerated`: no loop does whose
    iterations are enumerated for each thread."""
    found: set[tuple[Value, int]] = set()
    current = region.op
    while True:
        above = parent(current)
        if above is None or current == region.top:
            return found
        if above.name == "scf.if":
            branch = next(n for n, r in enumerate(above.regions) if current.block in list(r.blocks))
            found.add((above.operands[0], branch))
        elif above.name != "scf.execute_region" and not (enumerated and is_counted(above)):
            return None
        current = above


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
            # What nobody ever writes has no value to lose. A write through another view has other
            # coordinates.
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
    op = _allocation_op(root)
    if op is not None:
        return is_set(op.attributes, PRIVATE)
    return root.kind == "attribution" and is_set(said_of(root.value), PRIVATE)


def _allocation_op(root: Root) -> Operation | None:
    if root.kind == "allocation":
        return defining_op(root.value)
    if root.kind == "global":
        return find_global(root)
    return None


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
        """The op, or the holder of a block argument, by which one of `values` may differ from one
        iteration of the loop to the next, or take other values in inner loops; None if none does.
        Not asked again once something changes."""
        loop, pending = self._loop, list(values)
        while pending:
            value = pending.pop()
            if value in self._seen:
                continue
            self._seen.add(value)
            if is_block_argument(value):
                argument = ir.BlockArgument(value)
                holder = argument.owner.owner.operation
                if loop not in (holder, *ancestors(holder)):
                    continue
                if holder == loop or holder.name != "scf.for" or argument.arg_number:
                    return holder
                pending += list(holder.operands)[:3]
                continue
            op = defining_op(value)
            assert op is not None
            if loop not in ancestors(op):
                continue
            known = names_memory(op) or only_computes(op) or op.name in ADDRESS_OPS
            if not known:
                return op
            pending += list(op.operands)
        return None
