"""What is decided about one buffer of a loop, whether its memory can hold versions, and which writes
of an iteration each of its reads may see.

    copy A -> %tile; use %tile; copy B -> %tile; use %tile

The second use sees the second copy only, if that fills all that is read: then the two values
may take turns in one slot, whatever the stages of their copies are. Proving it enumerates
threads, which is worth it only where it saves a version; so the answer comes in two
approximations, every earlier write and the last one, and exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import DYNAMIC, Operation, ancestors, defining_op
from mlir_async_pipe.facts.values.memory_roots import Root, bytes_of_global, is_pointer
from mlir_async_pipe.pipeliner.dependence.distance import LoopIndex, subscripts_equal
from mlir_async_pipe.pipeliner.dependence.privatise import covered_by, find_global
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion
from mlir_async_pipe.pipeliner.plan.version_rules import Contents
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import VIEW_OPS
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, element_bytes, is_dense
from mlir_async_pipe.vocabulary.memory_names import has_initial_values

# Bytes of the widest access there is.
WIDEST = 16


@dataclass(frozen=True)
class BufferPlan:
    """One privatised buffer of a loop.

    `versions` is V, `slot_bytes` the distance of two slots; `extra_wait` is set where fewer
    versions than the loosest waits want were taken, so that a wait stands before the write.
    `meeting` holds the pairs of `regions` (by index) that may touch a common element of a
    slot, one of them writing, `seen` those of a read and a write that it may see in its own
    iteration. `ends_in_slot_zero`: the last iteration's version has to lie in slot 0, because
    somebody outside of the loop reads it.
    """

    root: Root
    regions: tuple[CoveredRegion, ...]
    versions: int
    slot_bytes: int
    extra_wait: bool
    meeting: frozenset[tuple[int, int]]
    seen: Pairs
    ends_in_slot_zero: bool = False

    @property
    def contents(self) -> Contents:
        """What is known of the values in a slot."""
        remaining = remaining_writes(self.regions) if self.ends_in_slot_zero else frozenset()
        return Contents(
            meets=lambda x, y: (x.access, y.access) in self.meeting,
            sees=lambda r, w: (r.access, w.access) in self.seen,
            remains=lambda w: w.access in remaining,
        )


def buffer_value(regions: tuple[CoveredRegion, ...]) -> Any:
    """The memref that the accesses name: the root, or the view of dynamic shared memory."""
    root = regions[0].root
    assert root is not None
    return root.value if root.offset is None else regions[0].base


def buffer_type(regions: tuple[CoveredRegion, ...]) -> Any:
    return ir.MemRefType(buffer_value(regions).type)


def slot_bytes(regions: tuple[CoveredRegion, ...]) -> int:
    """The bytes of one slot, 0 for a buffer of dynamic size, which cannot have several.

    Raises PipelineError (element-layout).
    """
    value = buffer_value(regions)
    if is_pointer(value):
        # What a slot begins with is aligned to what any copy or vector needs.
        return -(-(bytes_of_global(value) or 0) // WIDEST) * WIDEST
    kind = buffer_type(regions)
    if not kind.has_static_shape:
        return 0
    try:
        return prod(slot_shape(regions)) * element_bytes(kind)
    except UnknownLayoutError as error:
        raise PipelineError(
            f"cannot pipeline: {error}", code="element-layout", at=regions[0].op
        ) from error


def slot_shape(regions: tuple[CoveredRegion, ...]) -> list[int]:
    """The shape of a slot: the buffer's, its outermost dimension grown until the next slot
    begins at a multiple of the widest access, and of the period of the layout.

    memref<3x5xf16>, accesses of 4  -->  [4, 5]: 3 * 5 is no multiple of 4, 4 * 5 is
    """
    shape = [int(size) for size in buffer_type(regions).shape]
    widest = max(max(r.elements_at_once, r.period) for r in regions)
    while shape and prod(shape) % widest:
        shape[0] += 1
    return shape


def _unfit(
    plan: BufferPlan, why: str, at: Operation, *, code: str = "buffer-not-versionable", **more: Any
) -> PipelineError:
    needs = f"cannot pipeline: {plan.root} needs {plan.versions} versions"
    return PipelineError(f"{needs}, {why}", code=code, at=at, **more)


def check_versionable(plan: BufferPlan, loop: Operation) -> None:
    """Raise PipelineError (buffer-not-versionable, escapes) if it cannot have several versions."""
    declared = find_global(plan.root) if plan.root.kind == "global" else None
    if declared is not None and has_initial_values(declared):
        why = "and begins with values that one of them alone would have"
        advice = "declare it uninitialized, and store the values before the loop"
        notes = (("its declaration", declared),)
        raise _unfit(plan, why, plan.regions[0].op, notes=notes, advice=advice)
    if is_pointer(buffer_value(plan.regions)) or (
        plan.root.kind == "dynamic" and plan.root.size is None
    ):
        _check_pointers(plan)
        return
    kind = buffer_type(plan.regions)
    if not kind.has_static_shape or not is_dense(kind):
        why = f"but its type {kind} is not a dense array of static shape"
        raise _unfit(plan, why, plan.regions[0].op)
    for region in plan.regions:
        named_by = region.op if region.access is None else region.access.named_by
        if loop not in ancestors(named_by):
            why = f"but '{named_by.name}' describes it to '{region.op.name}' before the loop"
            advice = "make the descriptor in the loop, so that it can describe the slot of each iteration"
            raise _unfit(plan, why, region.op, notes=(("made here", named_by),), advice=advice)
        if region.access is None or not _reaches_directly(region, plan.root, loop):
            why = f"but '{region.op.name}' reaches it through a view that cannot take a slot"
            raise _unfit(plan, why, region.op, code="escapes")


def _check_pointers(plan: BufferPlan) -> None:
    if plan.root.kind != "global" or not plan.slot_bytes:
        advice = (
            "declare a global of its size, or a memref.view of gpu.dynamic_shared_memory, or load into "
            'registers (async_pipe.stage_through = "registers")'
        )
        why = "and how many bytes it has is not known"
        raise _unfit(plan, why, plan.regions[0].op, advice=advice)
    for region in plan.regions:
        if region.access is None or not is_pointer(region.access.memory):
            why = f"but '{region.op.name}' reaches it by more than a pointer"
            raise _unfit(plan, why, region.op, code="escapes")


def _reaches_directly(region: CoveredRegion, root: Root, loop: Operation) -> bool:
    """Whether the access uses the buffer itself, or views made inside the loop only."""
    assert region.access is not None
    memory = region.access.memory
    while True:
        op = defining_op(memory)
        if op is not None and op.name == "memref.view":
            return root.kind == "dynamic" and loop not in list(ancestors(op))
        if op is None or op.name == "memref.get_global" or memory == root.value:
            return True
        if not can_move(op) or loop not in list(ancestors(op)):
            return False
        memory = op.operands[0]


REINTERPRET = "memref.reinterpret_cast"


def is_movable(name: str) -> bool:
    """Whether views called `name` can show a slot of a buffer as they showed the buffer."""
    return name in ("memref.subview", REINTERPRET) or VIEW_OPS.get(name) in ("same", "regrouped")


def can_move(op: Operation) -> bool:
    """Whether a view can be moved to a slot: its kind is known and its strides are constant."""
    if not is_movable(op.name):
        return False
    kind = ir.MemRefType(op.results[0].type)
    if not kind.has_static_shape:
        return False
    strides, _ = kind.get_strides_and_offset()
    return all(stride != DYNAMIC for stride in strides)


Pairs = frozenset[tuple[int, int]]
"""(read, write), numbers of accesses in textual order."""


def earlier_writes(regions: tuple[CoveredRegion, ...], index: LoopIndex) -> Pairs:
    """Every write before a read that may touch its elements in the same iteration: no
    read sees more than these."""
    found = set()
    for i, read in enumerate(regions):
        for j, write in enumerate(regions[:i]):
            if write.writes and (read.access is None or read.access.kind != "write"):
                per_thread = write.root is not None and write.root.space == "private"
                distances = index.distances(write, read, same_thread=per_thread)
                if distances is not None and distances.smallest(0) == 0:
                    found.add((i, j))
    return frozenset(found)


def last_writes(earlier: Pairs) -> Pairs:
    """Of those, the last one for each read, which it sees at least."""
    last: dict[int, int] = {}
    for read, write in earlier:
        last[read] = max(write, last.get(read, write))
    return frozenset(last.items())


def seen_writes(regions: tuple[CoveredRegion, ...], earlier: Pairs, index: LoopIndex) -> Pairs:
    """From the last one backwards, until those that are certain fill all that is read."""
    seen: set[tuple[int, int]] = set()
    for number, read in enumerate(regions):
        later: list[CoveredRegion] = []
        for write in sorted((j for i, j in earlier if i == number), reverse=True):
            seen.add((number, write))
            later.append(regions[write])
            if covered_by(read, later, index.arithmetic.block_size):
                break
    return frozenset(seen)


def remaining_writes(regions: tuple[CoveredRegion, ...]) -> frozenset[int]:
    """The writes whose elements no later write of the iteration certainly overwrites."""

    def is_overwritten(i: int, write: CoveredRegion) -> bool:
        certain = (r for r in regions[i + 1 :] if r.writes and not r.conditional)
        return any(subscripts_equal(write, later) for later in certain)

    writes = ((i, region) for i, region in enumerate(regions) if region.writes)
    return frozenset(i for i, write in writes if not is_overwritten(i, write))
