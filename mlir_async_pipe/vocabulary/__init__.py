"""The one table: what every op issues, commits, waits for, reads, writes and orders.

row_of(op)       the row of an op, `UNKNOWN` if the table does not know it
accesses(op)     what this op reads and writes, with subscripts and extents
queue_of(op)     the queue that this op issues to, commits to or waits for
order_of(op)     what it orders: acquire, release, among volatile and atomic accesses
is_pure(op)      the op is known to touch no memory
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    before,
    constant_value,
    create,
    integer_attribute,
    remembered,
    set_integer,
)
from mlir_async_pipe.session import plugins
from mlir_async_pipe.vocabulary.async_ops import ASYNC_ROWS, INTRINSIC_ROWS, abstract_queue_number
from mlir_async_pipe.vocabulary.mbarrier_ops import PHASE_ROWS
from mlir_async_pipe.vocabulary.memory_names import ALLOCATION_OPS, VIEW_OPS
from mlir_async_pipe.vocabulary.memory_ops import MEMORY_ROWS, VENDOR_ROWS
from mlir_async_pipe.vocabulary.op_table import (
    ROWS,
    groups_of,
    meets_cluster,
    named_row,
    operand_groups,
    row_of,
    tensor_use,
    use_of,
)
from mlir_async_pipe.vocabulary.pure_ops import OPAQUE_ROWS, PURE_ROWS
from mlir_async_pipe.vocabulary.rows import (
    CP_ASYNC,
    PHYSICAL_QUEUES,
    UNORDERED,
    AccessKind,
    AccessRule,
    MemoryOrder,
    Opaque,
    Queue,
    Row,
    Share,
    WaitRule,
    abstract_queue,
    both,
    unordered,
)
from mlir_async_pipe.vocabulary.tensor_memory import TENSOR_ROWS

if TYPE_CHECKING:
    from mlir_async_pipe.chips.target import Target

__all__ = [
    "ALLOCATION_OPS",
    "PHYSICAL_QUEUES",
    "ROWS",
    "VIEW_OPS",
    "Access",
    "AccessRule",
    "Queue",
    "Row",
    "WaitRule",
    "accesses",
    "flag_order",
    "given_count",
    "groups_of",
    "has_only_a_count",
    "is_pure",
    "is_store",
    "meets_cluster",
    "named_row",
    "opaque_of",
    "operand_groups",
    "order_of",
    "queue_of",
    "row_of",
    "set_count",
    "shows_writes",
    "tensor_use",
    "use_of",
]

# A row of another package is there for every analysis, as one of ours is.
_OTHERS = [row for entry in plugins.entries("vocabulary").values() for row in entry.load()]
ASYNC_ROWS.update({row.op: row for row in _OTHERS if row.queue is not None})
ROWS.update(
    {
        **INTRINSIC_ROWS,
        **ASYNC_ROWS,
        **MEMORY_ROWS,
        **VENDOR_ROWS,
        **{row.op: row for row in (*PHASE_ROWS, *TENSOR_ROWS, *OPAQUE_ROWS, *PURE_ROWS, *_OTHERS)},
    }
)


class Access(NamedTuple):
    """One read or write of one op.

    `memory` is the memref or pointer at operand `memory_operand`, `indices` the subscripts
    at operands `index_operands`. `extent` is the number of elements in each trailing
    dimension, None for the whole buffer. `certain`: no element is left out (by a mask).
    `asynchronous`: it happens at any moment between issue and completion. `over_lanes`:
    lane l of a wave accesses l extents after the subscripts. `shares`: which part of the memory is a
    thread's, one for each dimension (None: the extent says all).
    """

    op: Any
    kind: AccessKind
    memory: Any
    memory_operand: int
    indices: tuple[Any, ...]
    index_operands: range
    extent: tuple[int, ...] | None
    asynchronous: bool
    certain: bool
    active_lanes: int | None
    takes_slot_index: bool
    over_lanes: bool = False
    shares: tuple[Share, ...] | None = None

    @property
    def writes(self) -> bool:
        """Whether the access changes memory (atomics do)."""
        return self.kind != "read"


def is_pure(op: Any) -> bool:
    """Whether the op itself (not its regions) touches no memory and makes a value."""
    return row_of(op).pure


def is_barrier(op: Any) -> bool:
    """Whether an op is a barrier of all threads of the block."""
    return row_of(op).barrier is not None


def order_of(op: Any) -> MemoryOrder:
    """What an op itself (not its regions) orders for other threads: everything, where nobody knows
    what it does. A call counts as such; who knows its callee asks the ops in there."""
    row = row_of(op)
    spaces = None if row.barrier is None else row.barrier(op)
    return both("block", spaces) if spaces and row.order is unordered else row.order(op)


def flag_order(op: Any) -> MemoryOrder:
    """What an op orders beside barriers, phases and fences for the async proxy, each of which has
    its own rules: flags, semaphores, fences, and whatever nobody knows."""
    row = row_of(op)
    if row.phase is not None or row.barrier is not None or row.meeting is not None:
        return UNORDERED
    return UNORDERED if shows_writes(op) else order_of(op)


def shows_writes(op: Any) -> bool:
    """Whether an op is a fence after which the async proxy sees what the thread wrote."""
    fence = row_of(op).fence
    return fence is not None and fence.shows != "nothing"


def is_unseen_copy(op: Any) -> bool:
    """Whether an op copies asynchronously, and the table does not say what, or on which queue."""
    row = row_of(op)
    if row.opaque is not None:
        return row.opaque.copies
    return row.completion == "counter" and row.asynchronous(op) and not row.accesses


def opaque_of(op: Any) -> Opaque | None:
    """Why an op may do anything to those who follow accesses, queues and barriers alone; None if it
    does not, or nobody has looked at it."""
    return row_of(op).opaque


def is_wait_name(name: str) -> bool:
    """Whether ops called `name` wait."""
    return named_row(name).wait is not None


def is_partial_barrier(op: Any) -> bool:
    """Whether an op is a barrier that some threads of the block may not take part in."""
    return row_of(op).meeting is not None


def is_store(op: Any) -> bool:
    """Whether an op stores one value, element by element, and does nothing else: no copy may stand
    for a volatile or atomic store."""
    row = named_row(op.name)
    return row.stores and not row.order(op).strong


def given_count(op: Any) -> int | None:
    """The constant that a wait lets stay in flight, None if it has none."""
    rule = row_of(op).wait
    if rule is None:
        return None
    if rule.operand is not None:
        return constant_value(op.operands[rule.operand])
    return integer_attribute(op, rule.count)


def set_count(op: Any, count: int) -> None:
    """Let a wait leave so many in flight."""
    rule = row_of(op).wait
    assert rule is not None
    if rule.operand is None:
        set_integer(op, rule.count, count, rule.count_bits)
        return
    kind = op.operands[rule.operand].type
    value = {"value": ir.IntegerAttr.get(kind, count)}
    made = create("llvm.mlir.constant", (), [kind], value, ip=before(op), loc=op.location)
    op.operands[rule.operand] = made.results[0]


def has_only_a_count(op: Operation) -> bool:
    """Whether an op is a wait with a constant count and no tokens."""
    rule = row_of(op).wait
    if rule is None or rule.form == "next" or len(op.operands):
        return False
    return given_count(op) is not None


def accesses(op: Any) -> tuple[Access, ...]:
    """What this op itself (not its regions) reads and writes; () for ops without a row."""
    return _accesses(op) if row_of(op).accesses else ()


@remembered
def _accesses(op: Any) -> tuple[Access, ...]:
    row = row_of(op)
    groups = operand_groups(op, row)
    asynchronous = row.asynchronous(op)
    operands = list(op.operands)
    found = []
    for rule in row.accesses:
        memory = groups[rule.memory][0]
        index_operands = groups[rule.indices] if rule.indices else range(0)
        found.append(
            Access(
                op,
                rule.kind,
                operands[memory],
                memory,
                tuple(operands[index_operands.start : index_operands.stop]),
                index_operands,
                _extent(rule, op, index_operands),
                asynchronous,
                rule.certain(op),
                rule.active_lanes(op),
                rule.takes_slot_index,
                rule.over_lanes,
                rule.shares(op),
            )
        )
    return tuple(found)


def _extent(rule: AccessRule, op: Any, index_operands: range) -> tuple[int, ...] | None:
    """The extent of an access in the dimensions that it has: a memref without any is one element."""
    extent = rule.extent(op)
    if not rule.indices or len(index_operands) or extent is None:
        return extent
    return () if all(length == 1 for length in extent) else None


def queue_of(op: Any, target: Target | None = None) -> Queue | None:
    """The queue of an async op; None if it has none, or if an abstract one is not constant.

    With a target, abstract queues are the chip's FIFO of copies: cp.async has one, so the
    RFC's queues 0 and 1 share it. Where the chip cannot copy asynchronously they stay apart.
    Per-thread copies (`nvgpu.device_async_*`) are those of the chip too, whoever made it.
    """
    row = row_of(op)
    if row.queue is None:
        return None
    physical = None if target is None else target.chip.copy_queue
    if isinstance(row.queue, Queue):
        return physical if physical is not None and row.queue == CP_ASYNC else row.queue
    number = abstract_queue_number(op)
    if number is None:
        return None
    return physical or abstract_queue(number)
