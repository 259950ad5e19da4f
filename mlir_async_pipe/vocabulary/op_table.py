"""The one table, and the one way to look up what it says of an op.

row_of(op)               the row of an op: `UNKNOWN` if nobody has looked at ops of its name
named_row(name)          the row of all ops of a name, where `by_op` and `whole` ask for no more
operand_groups(op, row)  which operands of an op belong to which named group of its row

Of the call of an intrinsic it is the row of what it calls: what is an attribute of an op is an operand
of the call. Overloaded intrinsics carry their types after the name (`….p1`).

A row names the ODS operand groups of its op in order: "*" after a name marks a group of any length,
"?" an optional one, and "+" before it one that not all bindings have:

    ("barrier", "bytes", "+multicast?", "predicate?")     3 groups, in newer bindings 4

`operandSegmentSizes` says how long each group of an op is, and by its own length which groups there
are; an op without it has no group marked "+", and at most one "*", which takes what the others leave.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    as_kind,
    before,
    constant_value,
    create,
    defining_op,
    integer_attribute,
    remembered,
    set_integer,
    type_text,
)
from mlir_async_pipe.session.diagnostics import InputError
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, callee_name
from mlir_async_pipe.vocabulary.launch_ids import ALL_LANES
from mlir_async_pipe.vocabulary.memory_layout import if_known, strides_and_offset
from mlir_async_pipe.vocabulary.operator_table import is_operator
from mlir_async_pipe.vocabulary.rows import (
    ALL_SPACES,
    CP_ASYNC,
    EVERYTHING,
    UNORDERED,
    AccessKind,
    AccessRule,
    MemoryOrder,
    Opaque,
    PhaseUse,
    Queue,
    Row,
    Share,
    TensorUse,
    abstract_queue,
    both,
    unordered,
)

if TYPE_CHECKING:
    from mlir_async_pipe.chips.target import Target

# The package fills it when it is imported.
ROWS: dict[str, Row] = {}
UNKNOWN = Row("", does="unknown", order=lambda op: EVERYTHING)

SIZES = "operandSegmentSizes"
# The op whose row is that of the intrinsic it calls.
CALL = "llvm.call_intrinsic"
INLINE_ASSEMBLY = "llvm.inline_asm"
# The ops that may call an intrinsic.
CALLS = frozenset({CALL, "llvm.call"})
_TARGETS = ("llvm.amdgcn.", "llvm.nvvm.")
# What follows the name of an overloaded intrinsic: pointers, integers, floats, vectors of them.
_TYPES = re.compile(r"(\.(v\d+)?(p\d+|i\d+|b?f\d+))+$")


@remembered
def row_of(op: Any) -> Row:
    """The row of this op's kind, or that of barriers of some threads, if this one is."""
    row = named_row(op.name)
    while row.by_op is not None:
        row = row.by_op(op)
    return row if row.whole is None or row.whole(op) else row.of_some


@cache
def named_row(name: str) -> Row:
    """The row of all ops called `name`: their own, or that of the longest beginning that has one."""
    if name in ROWS:
        return ROWS[name]
    ends = (at for at in range(len(name) - 1, 0, -1) if name[at - 1] in "._")
    return next((ROWS[name[:at]] for at in ends if name[:at] in ROWS), UNKNOWN)


def use_of(op: Any) -> PhaseUse | None:
    """What an op does with mbarriers, None for all others."""
    return row_of(op).phase


# How others read the id of a block, or of its cluster (PTX ISA, special registers; LLVM, AMDGPU intrinsics).
_NAMED_IN = frozenset({CALL, INLINE_ASSEMBLY, *CALL_OPS})
_BLOCK_IDS = ("ctaid", "clusterid", "workgroup.id", "group_id", "WorkgroupId")


def names_block(op: Any) -> bool:
    """Whether an intrinsic, a call or assembly reads the id of a block by its name."""
    return op.name in _NAMED_IN and any(name in str(op) for name in _BLOCK_IDS)


def tensor_use(op: Any) -> TensorUse | None:
    """What an op does with tensor memory, None if it has nothing to do with it."""
    return row_of(op).tensor


def meets_cluster(op: Any) -> bool:
    """Whether an op is a part of the barrier at which all threads of a cluster of blocks meet."""
    meeting = row_of(op).meeting
    return meeting is not None and meeting.of == "cluster"


def is_pure(op: Any) -> bool:
    """Whether the op itself (not its regions) touches no memory and makes a value."""
    return row_of(op).pure


def intrinsic_name(op: Any) -> str:
    """The intrinsic that a call names, "" for other ops. Of calls by symbol those of a target count."""
    if op.name == CALL:
        return str(ir.StringAttr(op.attributes["intrin"]).value)
    name = callee_name(op) or "" if op.name == "llvm.call" else ""
    return name if name.startswith(_TARGETS) else ""


def row_name(op: Any) -> str:
    """The name of the row of an op: the intrinsic that it calls, if that has one, else its own. Of
    calls by symbol barriers and fences count: no queue is followed through them."""
    name = op.name
    if name not in CALLS:
        return name
    known = _known_intrinsic(intrinsic_name(op))
    followed = known is not None and (name == CALL or ROWS[known].queue is None)
    return known if known is not None and followed else str(name)


@cache
def _known_intrinsic(name: str) -> str | None:
    """The intrinsic with a row that a name, with its types, stands for."""
    plain = name if name in ROWS else _TYPES.sub("", name)
    return plain if plain in ROWS else None


def groups_of(op: Any) -> dict[str, range]:
    """`operand_groups` of an op that has a row."""
    return operand_groups(op, row_of(op))


def operand_groups(op: Any, row: Row) -> dict[str, range]:
    """The operand numbers of each named operand group of `row`, for this very op; a group that its
    bindings do not have is empty. Raises InputError (unknown-operands)."""
    # Those of a call of an intrinsic tell its bundles apart.
    if SIZES not in op.attributes or op.name == CALL:
        sizes = _sizes_of_groups(row.operands, len(op.operands))
    else:
        sizes = tuple(ir.DenseI32ArrayAttr(op.attributes[SIZES]))
    groups = _groups_of_sizes(row.operands, sizes)
    if groups is None:
        known = ", ".join(name.strip("+*?") for name in row.operands)
        why = f"'{op.name}' has {len(sizes)} groups of operands, which are not those that are known of it ({known})"
        advice = "it comes from bindings of another version than this package knows"
        raise InputError(why, code="unknown-operands", at=op, advice=advice)
    return dict(groups)


@cache
def _sizes_of_groups(names: tuple[str, ...], total: int) -> tuple[int, ...]:
    """How many of `total` operands each named group takes."""
    names = tuple(name for name in names if name[0] != "+")
    spare = total - sum(name[-1] not in "*?" for name in names)
    sizes = []
    for name in names:
        optional = {"*": spare, "?": min(1, spare)}.get(name[-1])
        spare -= optional or 0
        sizes.append(1 if optional is None else optional)
    return tuple(sizes)


@cache
def _groups_of_sizes(names: tuple[str, ...], sizes: tuple[int, ...]) -> dict[str, range] | None:
    """The operand numbers of each named group, None where the op has other groups; the result is
    shared, so it must not change."""
    there = [name for name in names if name[0] != "+" or len(sizes) == len(names)]
    if len(sizes) != len(there):
        return None
    groups = {name.strip("+*?"): range(0) for name in names}
    start = 0
    for name, size in zip(there, sizes, strict=True):
        groups[name.strip("+*?")] = range(start, start + size)
        start += size
    return groups


class Access(NamedTuple):
    """One read or write of one op.

    `memory` is the memref or pointer at operand `memory_operand`, `indices` the subscripts
    at operands `index_operands`. `extent` is the number of elements in each trailing
    dimension, None for the whole buffer. `certain`: no element is left out (by a mask).
    `asynchronous`: it happens at any moment between issue and completion. `over_lanes`:
    lane l of a wave accesses l extents after the subscripts. `shares`: which part of the memory is a
    thread's, one for each dimension (None: the extent says all). `contiguous`: the memref's strides do
    not hold for the last dimension of the extent, whose elements lie side by side; with extent None the access
    may leave the view. Where a descriptor stands for memory and subscripts, they are operands of
    `named_by`, not of the op.
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
    contiguous: bool = False
    named_by: Any = None

    @property
    def writes(self) -> bool:
        """Whether the access changes memory (atomics do)."""
        return self.kind != "read"


def is_barrier(op: Any) -> bool:
    """Whether an op is a barrier of all threads of the block."""
    return row_of(op).barrier is not None


def order_of(op: Any) -> MemoryOrder:
    """What an op itself (not its regions) orders for other threads: everything, where nobody knows
    what it does. A call counts as such; who knows its callee asks the ops in there."""
    row = row_of(op)
    if row.order is not unordered:
        return row.order(op)
    spaces = None if row.barrier is None else row.barrier(op)
    return both("block", spaces) if spaces else UNORDERED


def flag_order(op: Any) -> MemoryOrder:
    """What an op orders beside barriers, phases and fences for the async proxy, each of which has
    its own rules: flags, semaphores, fences, and whatever nobody knows."""
    row = row_of(op)
    if row.phase is not None or row.barrier is not None or row.meeting is not None:
        return UNORDERED
    return UNORDERED if shows_writes(op) else order_of(op)


def shows_writes(op: Any) -> bool:
    """Whether an op is a fence after which the async proxy sees what the thread wrote."""
    return row_of(op).shows_writes


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


def meets_whole_warp(op: Any) -> bool:
    """Whether all lanes of a warp meet at an op, after which they find all memory in order: its mask names them, if it has one."""
    meeting = row_of(op).meeting
    if meeting is None or meeting.of != "warp" or order_of(op).spaces != ALL_SPACES:
        return False
    groups = groups_of(op)
    if "mask" not in groups:
        return order_of(op).orders
    mask = constant_value(op.operands[groups["mask"].start])
    return mask is not None and mask & ALL_LANES == ALL_LANES


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
    counted = rule is not None and rule.form != "next" and not len(op.operands)
    return counted and given_count(op) is not None


@remembered
def accesses(op: Any) -> tuple[Access, ...]:
    """What this op itself (not its regions) reads and writes; () for ops without a row."""
    row = row_of(op)
    if not row.accesses:
        return ()
    asynchronous = row.asynchronous(op)
    groups = operand_groups(op, row) if row.places is None else {}
    places = {} if row.places is None else row.places(op)
    own = list(op.operands)
    found = []
    for rule in row.accesses:
        named_by, operands = op, own
        if row.places is None:
            memory = groups[rule.memory][0]
            index_operands = groups[rule.indices] if rule.indices else range(0)
        else:
            named_by, memory, index_operands = places[rule.memory]
            operands = list(named_by.operands)
        extent = _extent(rule, op, operands[memory], index_operands)
        beyond = rule.beyond_rows is not None and rule.beyond_rows(op)
        found.append(
            Access(
                op,
                rule.kind,
                operands[memory],
                memory,
                tuple(operands[index_operands.start : index_operands.stop]),
                index_operands,
                extent,
                asynchronous,
                rule.certain is None or rule.certain(op),
                None if rule.active_lanes is None else rule.active_lanes(op),
                rule.takes_slot_index,
                rule.over_lanes,
                None if rule.shares is None else rule.shares(op),
                beyond or (rule.contiguous and _leaves_strides(operands[memory].type, extent)),
                named_by,
            )
        )
    return tuple(found)


def _extent(
    rule: AccessRule, op: Any, memory: Any, index_operands: range
) -> tuple[int, ...] | None:
    """The extent of an access in the dimensions that it has: a memref without any is one element."""
    extent = rule.extent(op)
    if not rule.indices or len(index_operands) or extent is None:
        return extent
    if as_kind(ir.MemRefType, memory.type) is None:
        return extent
    return () if all(length == 1 for length in extent) else None


def is_load(op: Any) -> bool:
    """Whether an op gives each thread what stands where the thread says, and does nothing else."""
    row, found = row_of(op), accesses(op)
    alone = [access.kind for access in found] == ["read"] and not found[0].asynchronous
    return alone and not row.order(op).strong and row.agree != "differs"


def needed_where(op: Any) -> tuple[Any, bool] | None:
    """The condition under which a thread has need of what it loads, known before the load, and whether that holds or does
    not; None if it always may have.

        %v = llvm.load %p
        %x = llvm.select %inside, %v, %zero        where %inside is false %v may be anything

    A load that meets a store of another thread gives an undefined value, and does nothing else (LLVM, "Memory Model for
    Concurrent Operations").
    """
    if len(op.results) != 1 or not is_load(op):
        return None
    read, chosen = op.results[0], set()
    for use in read.uses:
        user = use.owner.operation
        if (
            not is_operator(user.name, "select")
            or user.block != op.block
            or user.operands[0] == read
        ):
            return None
        chosen.add((user.operands[0], use.operand_number == 1))
    if len(chosen) != 1:
        return None
    condition, holds = chosen.pop()
    made = defining_op(condition)
    late = made is not None and made.block == op.block and op.is_before_in_block(made)
    return None if late or type_text(condition.type) != "i1" else (condition, holds)


class TokenOps(NamedTuple):
    """The names of the ops that make a group of a queue, and wait for it, by a token."""

    commit: str
    wait: str


ABSTRACT_OPS = TokenOps("async_pipe.commit_queue", "async_pipe.wait_queue")


@cache
def token_ops(queue: Queue | None) -> TokenOps | None:
    """The ops with tokens of a queue; None if it has no such ops."""
    rows = [row for row in ROWS.values() if row.queue is not None and row.queue == queue]
    commits = [row.op for row in rows if row.commits == "group" and row.token]
    waits = [row.op for row in rows if row.wait is not None and row.wait.form == "token"]
    return TokenOps(commits[0], waits[0]) if commits and waits else None


@cache
def function_queues() -> frozenset[str]:
    """The names of the queues whose waits count the groups of the running function alone."""
    queues = (row.queue for row in ROWS.values() if isinstance(row.queue, Queue))
    return frozenset(queue.name for queue in queues if queue.scope == "function")


def _leaves_strides(kind: Any, extent: tuple[int, ...] | None) -> bool:
    """Whether elements that lie side by side are not those of neighbouring subscripts, or nobody knows."""
    if extent is not None and (not extent or extent[-1] == 1):
        return False
    memref = as_kind(ir.MemRefType, kind)
    if memref is None or extent is None:
        return memref is not None
    known = if_known(strides_and_offset, memref)
    return known is None or known[0][-1] != 1


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
    number = integer_attribute(op, "queue")
    if number is None:
        return None
    return physical or abstract_queue(number)
