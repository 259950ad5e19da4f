"""Lets a thread that the hardware picks issue the tensor copies that thread 0 would issue.

    gpu.barrier                                         gpu.barrier
    expect_tx %full, predicate = %thread_is_0           %one = nvvm.elect.sync
    tma.async.load …, predicate = %thread_is_0    -->   %leader = %one && %thread < 32
                                                        expect_tx %full, predicate = %leader
                                                        tma.async.load …, predicate = %leader

ptxas does not know that a thread id names one thread: where lanes have gone apart it may let each part
of the warp issue a copy whose predicate is a comparison, and the mbarrier gets its bytes twice. Of
`elect.sync` it knows.

Another thread than 0 may be picked. That is the same where
- all threads come to the copy (`Uniformity`), in whole warps, and none has to wait for what thread 0
  does after it: a barrier of the block precedes, with nothing but arithmetic, fences, and what issues
  in between. It also orders what thread 0 did, as to initialise the mbarrier, before the copy;
- the operands are the same in all threads;
- arrivals and bytes are counted, whoever arrives: an expect_tx may stay with thread 0 (its arrival keeps
  the phase open, so that bytes may land before they are announced);
- groups of stores belong to threads: each thread commits and waits, and none goes on after a wait
  without a barrier, but to the end of the kernel. Else stores stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, Value, defining_op, operations, walk_named
from mlir_async_pipe.facts.loops.transactions import only_computes
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.uniformity import (
    Uniformity,
    compared_thread,
    conditions,
    conjunction,
)
from mlir_async_pipe.lowering.nvvm.shared_memory import kernels
from mlir_async_pipe.vocabulary import groups_of, named_row, row_of, use_of
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS
from mlir_async_pipe.vocabulary.launch_ids import ELECT, block_size
from mlir_async_pipe.vocabulary.mbarrier_ops import TENSOR_LOADS
from mlir_async_pipe.vocabulary.memory_names import POINTER_OF_ADDRESS
from mlir_async_pipe.vocabulary.rows import BULK_STORE

WARP = 32
_END = "gpu.return"


def elect_copies(gpu_module: Operation) -> None:
    """Rewrite the predicates of each kernel with a block of whole warps along x."""
    for kernel in kernels(gpu_module):
        size = block_size(kernel)
        if size is None or size[1:] != (1, 1) or size[0] % WARP:
            continue
        if not walk_named(kernel, lambda name: name in TENSOR_LOADS or _is_store(name)):
            continue
        found = _Kernel()
        found.stores = _each_thread_waits(kernel, found.same)
        blocks = list(kernel.regions[0].blocks)
        if len(blocks) == 1:
            found.read(operations(blocks[0]), met=False)
        for group in found.groups:
            _elect(group)


@dataclass
class _Kernel:
    """The `groups` of ops that one elected thread can issue; `stores`: those that store are some."""

    same: Uniformity = field(default_factory=Uniformity)
    stores: bool = False
    groups: list[list[Operation]] = field(default_factory=list)

    def read(self, ops: list[Operation], *, met: bool) -> bool:
        """Follow a block that all threads run; `met` is whether they met before, and since then only
        issued. Returns it of its end."""
        group: list[Operation] = []
        for op in ops:
            if met and self._fits(op):
                group.append(op)
            if _only_issues(op):
                continue
            self._close(group)
            group = []
            met = self._enter(op, met) if len(op.regions) else _is_barrier(op)
        self._close(group)
        return met

    def _enter(self, op: Operation, met: bool) -> bool:
        """Follow the regions that all threads run alike; whether they have met at their end."""
        row = REGION_ROWS.get(op.name)
        blocks = [block for region in op.regions for block in region.blocks]
        if row is None or row.flow not in ("for", "branch") or len(blocks) > len(op.regions):
            return False
        if any(self.same.difference(value) is not None for value in conditions(op)):
            return False
        bodies = [operations(block) for block in blocks]
        if row.flow == "for":
            # An iteration comes after what precedes the loop, or after another one.
            met = met and _ends_met(bodies[0])
            return self.read(bodies[0], met=met) and met
        ends = [self.read(body, met=met) for body in bodies]
        return met and all(ends)

    def _fits(self, op: Operation) -> bool:
        """Whether any thread may issue the op instead of thread 0, of which its predicate speaks."""
        issues = use_of(op) == "expect" or op.name in TENSOR_LOADS
        if not issues and not (self.stores and _is_store(op.name)):
            return False
        place = _predicate(op)
        if place is None or len(op.results):
            return False
        parts = conjunction(op.operands[place])
        shared = [part for part in parts if compared_thread(part) is None]
        others = [value for n, value in enumerate(op.operands) if n != place]
        return len(shared) < len(parts) and all(map(self._is_same, (*shared, *others)))

    def _is_same(self, value: Value) -> bool:
        op = defining_op(value)
        if op is not None and (use_of(op) == "handle" or op.name == POINTER_OF_ADDRESS):
            return all(map(self._is_same, op.operands))
        return self.same.difference(value) is None

    def _close(self, group: list[Operation]) -> None:
        if any(use_of(op) != "expect" for op in group):
            self.groups.append(group)


def _only_issues(op: Operation) -> bool:
    """Whether an op waits for nobody, and orders no memory of thread 0 before a copy after it."""
    row = row_of(op)
    commits = row.queue == BULK_STORE and bool(row.commits)
    issues = use_of(op) == "expect" or op.name in TENSOR_LOADS or _is_store(op.name)
    return only_computes(op) or row.fence is not None or issues or commits


def _ends_met(ops: list[Operation]) -> bool:
    """Whether a body ends with a barrier, and what only issues after it."""
    last = next((op for op in reversed(ops[:-1]) if not _only_issues(op)), None)
    return last is None or _is_barrier(last)


def _is_barrier(op: Operation) -> bool:
    """A barrier of all threads of the block: on NVIDIA it orders all their memory."""
    row = row_of(op)
    return row.barrier is not None and bool(row.barrier(op))


def _is_store(name: str) -> bool:
    row = named_row(name)
    return row.queue == BULK_STORE and "predicate?" in row.operands


def _each_thread_waits(kernel: Operation, same: Uniformity) -> bool:
    """Whether all threads commit and wait for the groups of stores, and meet after each wait."""
    blocks: dict[Any, list[Operation]] = {}
    for op in walk_named(kernel, lambda name: named_row(name).queue == BULK_STORE):
        if not _is_store(op.name):
            blocks.setdefault(op.block, []).append(op)
    for block, found in blocks.items():
        if same.divergent_control(found[0]) is not None:
            return False
        left, meets = set(found), False
        for op in reversed(operations(block)):
            row = row_of(op)
            if op in left and row.wait is not None and not meets:
                return False
            if not (op in left or only_computes(op) or row_of(op).fence is not None):
                meets = op.name == _END or _is_barrier(op)
    return True


def _predicate(op: Operation) -> int | None:
    """The place of the predicate of an op that issues, None where it has none."""
    group = groups_of(op).get("predicate", range(0))
    return group[0] if len(group) else None


def _elect(group: list[Operation]) -> None:
    """Let one thread of warp 0 issue all of the group: what is announced, and the copies, in its order."""
    leader = None
    for op in group:
        place = _predicate(op)
        assert place is not None
        parts = conjunction(op.operands[place])
        if leader is None:
            leader = _leader(op, parts)
        write = IntegerWriter.before(op)
        condition = leader
        for part in parts:
            if compared_thread(part) is None:
                condition = write.binary("arith.andi", condition, part)
        op.operands[place] = condition


def _leader(first: Operation, parts: list[Value]) -> Value:
    """An i1 that holds in one thread of warp 0."""
    thread = next(found for part in parts if (found := compared_thread(part)) is not None)
    write = IntegerWriter.before(first)
    in_warp_0 = write.compare("ult", thread, WARP)
    return write.binary("arith.andi", write.make(ELECT, (), in_warp_0.type), in_warp_0)
