"""Which reads outside of a loop may see what the loop wrote into a buffer.

    scf.for { copy -> %b; use %b }       the loop
    scf.for { copy -> %b; use %b }       sees its own copies only: none of the loop's
    copy -> %b; wait; use %b             the same in straight code
    use %b                               sees what the loop's last iteration wrote

A read sees nothing of the loop if every element it reads was written before it in its own
block, after the loop. Reads that may see something still find it in one place if each
iteration of the loop writes the very same elements: those of its last iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    ancestors,
    enclosing,
    operations,
    outermost,
    parent,
    symbol_name,
    walk,
)
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import Root, root_of
from mlir_async_pipe.pipeliner.dependence.between_threads import holds_in_any_block
from mlir_async_pipe.pipeliner.dependence.footprint import written_together
from mlir_async_pipe.pipeliner.dependence.privatise import (
    Unproven,
    uncovered_read,
    unproven_read,
)
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion, regions_of
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, LOOP_OPS, REGION_ROWS
from mlir_async_pipe.vocabulary.launch_ids import Size
from mlir_async_pipe.vocabulary.memory_names import GLOBAL_ADDRESS_OPS


def sees_nothing_of(loop: Operation, read: Operation, root: Root, arithmetic: Arithmetic) -> bool:
    """Whether `read`, an op outside of `loop`, certainly sees no element of `root` that the loop
    wrote. False also means: cannot tell."""
    if not accesses(read):
        return False
    again = root.kind == "global" or _runs_again(loop)
    holders = [loop, *ancestors(loop)]
    current = read
    while True:
        block = operations(current.block)
        mine = next((op for op in block if op in holders), None)
        if mine is None:
            above = parent(current)
            if _covered(block, root, arithmetic, _proof_in(above)):
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
            return not again or _covered(block[:here], root, arithmetic, uncovered_read)
        return _covered(block[here + 1 :], root, arithmetic, uncovered_read)


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
            answers[read.block] = not any(len(op.regions) for op in block) and _covered(
                block, root, arithmetic, _proof_in(parent(read))
            )
        return answers[read.block]

    return sees


def _proof_in(above: Operation | None) -> Callable[..., Unproven | None]:
    """`async_pipe.private` vouches for the iterations of loops."""
    return unproven_read if above is not None and above.name == "scf.for" else uncovered_read


def _runs_again(loop: Operation) -> bool:
    """Whether what stands before the loop may run after it: there is a loop around both."""
    for above in ancestors(loop):
        if above.name in LOOP_OPS:
            return True
        if above.name in FUNCTION_OPS:
            return len(list(above.regions[0].blocks)) > 1
    return False


def _covered(
    ops: list[Operation], root: Root, arithmetic: Arithmetic, proof: Callable[..., Unproven | None]
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
