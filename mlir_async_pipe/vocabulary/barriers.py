"""The barriers of the vocabulary: what they order, and whether all threads of a block meet there.

nvvm.barrier                                    all threads of the block
nvvm.barrier id = 1 number_of_threads = 64      all of them in a block of 64, else some
llvm.call_intrinsic "llvm.nvvm.barrier0"        as clang writes it: a row as the ops have
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Value,
    attribute,
    constant,
    constant_value,
    create,
    enclosing,
    integer_attribute,
    operations,
    remembered,
    walk_named,
)
from mlir_async_pipe.vocabulary.control_flow import leaves_region
from mlir_async_pipe.vocabulary.launch_ids import enclosing_launch_size
from mlir_async_pipe.vocabulary.op_table import SIZES, is_pure, operand_groups
from mlir_async_pipe.vocabulary.rows import (
    ACQUIRE,
    ALL_SPACES,
    EVERYTHING,
    RELEASE,
    UNORDERED,
    Fence,
    Meeting,
    MemoryOrder,
    Opaque,
    Row,
    Scope,
    acquire,
    attribute_order,
    both,
    covers,
    named_scope,
    release,
    restricted_order,
    scope_named,
)

# Threads meet there; fences around it say which memory is ordered.
BARE_BARRIER = "rocdl.s.barrier"
# The same of the lanes of a wave, which run together: no instruction, and for the compiler alone.
WAVE_BARRIER = "rocdl.wave.barrier"
# The same in two halves (gfx12): a wave says that it is there, and waits for the others.
SIGNAL, WAIT = "rocdl.s.barrier.signal", "rocdl.s.barrier.wait"
# The number of the barrier of all waves of a block.
WHOLE_BLOCK = -1
PART_OF_A_BARRIER = Opaque(
    "it is a part of a barrier, at which only some threads may meet", meets=True
)
# Barriers of a block that have a number (PTX ISA, barrier: 0 to 15).
NUMBERS = 16


def fenced_spaces(op: Any) -> frozenset[str]:
    """The address spaces that a gpu.barrier orders: all, or those it lists."""
    listed = str(op.attributes["address_spaces"]) if "address_spaces" in op.attributes else None
    return frozenset(s for s in ALL_SPACES if listed is None or f"<{s}>" in listed)


def write_fence(spaces: Iterable[str], ip: Any, loc: Any) -> None:
    """A gpu.barrier that orders the address spaces `spaces`."""
    listed = ", ".join(f"#gpu.address_space<{space}>" for space in sorted(spaces))
    fenced = {"address_spaces": attribute(f"[{listed}]", loc.context)}
    create("gpu.barrier", (), (), fenced, ip=ip, loc=loc)


def write_warp_barrier(ip: Any, loc: Any) -> None:
    """A barrier of all lanes of a warp (NVIDIA)."""
    i32 = ir.IntegerType.get_signless(32, loc.context)
    create("nvvm.bar.warp.sync", [constant(-1, i32, ip, loc)], ip=ip, loc=loc)


def write_wave_barrier(ip: Any, loc: Any) -> None:
    """A barrier of AMD that counts waves and orders workgroup memory."""
    tag = attribute('#llvm.mmra_tag<"amdgpu-synchronize-as":"local">', loc.context)
    scope = ir.StringAttr.get("workgroup", loc.context)
    for order, after in ((RELEASE, True), (ACQUIRE, False)):
        ordering = attribute(f"{order} : i64", loc.context)
        fence = {"ordering": ordering, "syncscope": scope, "llvm.mmra": tag}
        create("llvm.fence", attributes=fence, ip=ip, loc=loc)
        if after:
            create(BARE_BARRIER, ip=ip, loc=loc)


def _always(*spaces: str) -> Callable[[Any], frozenset[str]]:
    """A barrier of this kind orders these address spaces; without any the threads meet, but no memory is ordered."""
    found = frozenset(spaces)
    return lambda op: found


everything, nothing = _always(*ALL_SPACES), _always()


def between_fences(op: Any) -> frozenset[str]:
    """The barrier orders what the fences do that stand around it, as compilers for AMD write a whole one
    (LLVM, AMDGPU memory model: s_barrier); without them the threads meet, but no memory is ordered.

    llvm.fence syncscope("workgroup") release
    rocdl.s.barrier
    llvm.fence syncscope("workgroup") acquire

    Of the lanes of a wave, `syncscope("wavefront")` around `rocdl.wave.barrier` is enough.
    """
    return _ordered_by_fences(op.block).get(op, frozenset())


@remembered
def _ordered_by_fences(block: Any) -> dict[Any, frozenset[str]]:
    found = {}
    ops = operations(block)
    halves = _halves(block)
    for number, op in enumerate(ops):
        before = number - (2 if op in halves else 1)
        bare = op.name in (BARE_BARRIER, WAVE_BARRIER) or op in halves
        if not bare or before < 0 or number + 1 == len(ops):
            continue
        threads: Scope = "warp" if op.name == WAVE_BARRIER else "block"
        fences = ops[before], ops[number + 1]
        if all(fence.name == "llvm.fence" for fence in fences):
            first, then = map(attribute_order, fences)
            enough = covers(first.scope, threads) and covers(then.scope, threads)
            if enough and first.release and then.acquire:
                found[op] = first.spaces & then.spaces
    return found


@remembered
def _halves(block: Any) -> dict[Any, Any]:
    """The waits for the whole block right after its signal, and the signals: each with the other one."""
    found = {}
    ops = operations(block)
    for signal, wait in pairwise(ops):
        names = (signal.name, wait.name) == (SIGNAL, WAIT)
        if names and all(integer_attribute(op, "id") == WHOLE_BLOCK for op in (signal, wait)):
            found[wait] = signal
    return found


def _waited(op: Any) -> Row:
    """A wait right after the signal is the barrier; nothing can be done between."""
    return _WHOLE if op in _halves(op.block) else _PART


def _signalled(op: Any) -> Row:
    return _SAID if op in _halves(op.block).values() else _PART


_PART = Row("", effects=(PART_OF_A_BARRIER,), order=lambda op: EVERYTHING)
_WHOLE, _SAID = Row(WAIT, barrier=between_fences), Row(SIGNAL, does="nothing", harmless=True)


ARRIVES = "nvvm.barrier.arrive"


def never(op: Any) -> bool:
    """Threads of one warp meet, or of a cluster, or do not wait for each other."""
    return False


_of_some = partial(Row, barrier=nothing, whole=never)


def is_of_block(op: Any) -> bool:
    """Whether an nvvm.barrier waits for all threads of the block: its number is a constant, and
    so is its count, if it has one, which is the size of the block."""
    groups = operand_groups(op, NAMED_BARRIER)
    return _meets_block(op, groups["number"], groups["threads"])


def of_operands(number: int, threads: int) -> Callable[[Any], bool]:
    """The same of the call of an intrinsic, whose first operands are the number and the count, if it
    has them."""
    return lambda op: _meets_block(op, range(number), range(number, number + threads))


def _meets_block(op: Any, number: range, threads: range) -> bool:
    named = constant_value(op.operands[number[0]]) if number else 0
    if named is None or named >= NUMBERS:
        return False
    if not threads:
        return True
    size = enclosing_launch_size(op)
    if size is None or constant_value(op.operands[threads[0]]) != prod(size):
        return False
    # Who arrives and goes on is one of so many threads, too.
    function = enclosing(op, FUNCTION_OPS)
    return function is None or _arrivals(function).isdisjoint((named, None))


@remembered
def _arrivals(function: Any) -> frozenset[int | None]:
    """The numbers of the barriers at which threads of a function arrive and go on, None for one that is not constant."""
    found = walk_named(function, ARRIVES.__eq__)
    return frozenset(constant_value(op.operands[0]) if len(op.operands) > 1 else 0 for op in found)


def write_named_barrier(number: Value, threads: Value, ip: Any, loc: Any) -> None:
    """As many threads as `threads` says meet at the barrier of a number."""
    sizes = ir.DenseI32ArrayAttr.get(named_barrier_sizes(2), loc.context)
    create("nvvm.barrier", [number, threads], (), {SIZES: sizes}, ip=ip, loc=loc)


def named_barrier_sizes(operands: int) -> list[int]:
    """The sizes of the operand groups of an nvvm.barrier with a number, and with a count, if it has so many
    operands."""
    return [int(group < operands) for group in range(_groups_of_barrier())]


@cache
def _groups_of_barrier() -> int:
    """Two in newer bindings: the predicate of a reduction is in other ones a group, too."""
    with new_context() as context:
        plain = ir.Operation.parse("nvvm.barrier", context=context)
        return len(ir.DenseI32ArrayAttr(plain.attributes[SIZES]))


NAMED_BARRIER = Row(
    "nvvm.barrier",
    ("number?", "threads?", "+predicate?"),
    barrier=everything,
    whole=is_of_block,
    # What a predicate holds in, which all are told that meet.
    agree="same",
)


# All threads of the block make one value together; memory in which they do is nobody else's, and what other memory holds
# is not promised to be in order behind it. A region says how two numbers are combined.
_ALL_REDUCE = Row("gpu.all_reduce", ("value",), effects=(Meeting(nothing, "block"),), agree="same")
_ALL_REDUCE_OF_MORE = Row(
    "gpu.all_reduce",
    effects=(Opaque("it combines numbers by ops that do more than that", meets=True),),
    order=lambda op: EVERYTHING,
)


def _ordered(order: MemoryOrder) -> Callable[[Any], MemoryOrder]:
    return lambda op: order


BARRIER_ROWS = (
    replace(
        _ALL_REDUCE, by_op=lambda op: _ALL_REDUCE if _only_combines(op) else _ALL_REDUCE_OF_MORE
    ),
    Row("gpu.barrier", barrier=fenced_spaces, whole=lambda op: len(op.operands) == 0),
    Row("nvvm.barrier0", barrier=everything),
    NAMED_BARRIER,
    _of_some(ARRIVES, ("number?", "threads"), order=_ordered(release("block"))),
    _of_some("nvvm.bar.warp.sync", ("mask",), meets="warp", order=_ordered(both("warp"))),
    _of_some(
        WAVE_BARRIER,
        meets="warp",
        order=lambda op: both("warp", between_fences(op)) if between_fences(op) else UNORDERED,
    ),
    # All threads of a cluster meet; what they do between the two halves is ordered by none of them.
    _of_some("nvvm.cluster.arrive", meets="cluster", order=_ordered(release("cluster"))),
    _of_some("nvvm.cluster.arrive.relaxed", meets="cluster"),
    replace(
        _of_some("nvvm.cluster.wait", meets="cluster", order=_ordered(acquire("cluster"))),
        barrier=everything,
    ),
    Row("rocdl.barrier", barrier=everything),
    Row("amdgpu.lds_barrier", barrier=_always("workgroup")),
    Row(BARE_BARRIER, barrier=between_fences, counts_waves=True),
    replace(_PART, op=SIGNAL, by_op=_signalled),
    replace(_PART, op=WAIT, by_op=_waited),
)


def _only_combines(op: Any) -> bool:
    """Whether the region of an op only makes numbers of numbers."""
    inside = [one for region in op.regions for block in region.blocks for one in operations(block)]
    return all(is_pure(one) or leaves_region(one) for one in inside)


def _fence(
    op: str,
    order: MemoryOrder | Callable[[Any], MemoryOrder],
    operands: tuple[str, ...] = (),
    **what: Any,
) -> Row:
    order = _ordered(order) if isinstance(order, MemoryOrder) else order
    return Row(op, operands, order=order, effects=(Fence(**what),))


# What a wave did before such a wait is over after it, in the machine. Which accesses of the IR that are no memory model says:
# the compiler may write others between them, or change their order.
_COUNTER_WAIT = Opaque(
    "it waits for a hardware counter that belongs to no queue here",
    orders=False,
    ends_copies=True,
    harmless=True,
)
_COUNTER_WAITS = (
    "amdgpu.memory_counter_wait rocdl.s.wait.dscnt rocdl.s.wait.expcnt rocdl.s.wait.loadcnt "
    "rocdl.s.wait.storecnt rocdl.s.waitcnt"
)

FENCE_ROWS = (
    *(
        Row(op, order=_ordered(both("block")), effects=(_COUNTER_WAIT, Fence()), harmless=True)
        for op in _COUNTER_WAITS.split()
    ),
    _fence("llvm.fence", attribute_order),
    _fence("nvvm.memory.barrier", named_scope),
    _fence("nvvm.fence.sc.cluster", both("cluster")),
    _fence("nvvm.fence.mbarrier.init", release("cluster"), shows="mbarriers"),
    # Between the generic proxy and others, of one thread (PTX ISA, membar.proxy).
    _fence("nvvm.fence.proxy", both("block"), shows="all"),
    _fence(
        "nvvm.fence.proxy.acquire",
        *(lambda op: acquire(scope_named(op)), ("address", "size")),
        maps=True,
    ),
    _fence("nvvm.fence.proxy.release", lambda op: release(scope_named(op)), maps=True),
    _fence("nvvm.fence.proxy.sync_restrict", restricted_order),
    _fence("nvvm.fence.sync_restrict", restricted_order),
    _fence("nvgpu.tma.fence.descriptor", both("system"), ("tensor_map",)),
)

# NVIDIA's barriers and fences as intrinsics, by the names of all LLVM versions (IntrinsicsNVVM.td).
_SYNC_ALL = "barrier.n bar.sync barrier.sync barrier.cta.sync.aligned.all barrier.cta.sync.all"
_SYNC_SOME = (
    "barrier barrier.sync.cnt barrier.cta.sync.aligned.count barrier.cta.sync.count "
    "barrier.cta.sync.aligned barrier.cta.sync"
)
_ARRIVE = (
    "barrier.cta.arrive.aligned.count barrier.cta.arrive.count barrier.cta.arrive.aligned "
    "barrier.cta.arrive"
)
_NUMBER, _THREADS, _CONDITION = ("number",), ("number", "threads"), ("predicate",)
_COMBINED = ("and", "or", "popc")


def _intrinsic(name: str, operands: tuple[str, ...], number: int, threads: int) -> Row:
    whole = of_operands(number, threads) if number else None
    return Row(f"llvm.nvvm.{name}", operands, barrier=everything, whole=whole)


_MANY_NAMES = {
    ARRIVES: _ARRIVE.split(),
    "nvvm.bar.warp.sync": ["bar.warp.sync"],
    **{
        f"nvvm.{name}": [f"barrier.{name}", f"barrier.{name}.aligned"]
        for name in ("cluster.arrive", "cluster.arrive.relaxed", "cluster.wait")
    },
}
BARRIER_INTRINSICS = (
    _intrinsic("barrier0", (), 0, 0),
    *(_intrinsic(name, _NUMBER, 1, 0) for name in _SYNC_ALL.split()),
    *(_intrinsic(name, _THREADS, 1, 1) for name in _SYNC_SOME.split()),
    # They also count the threads in which a condition holds.
    *(_intrinsic(f"barrier0.{kind}", _CONDITION, 0, 0) for kind in _COMBINED),
    *(
        _intrinsic(f"barrier.cta.red.{kind}{aligned}.{of}", (*named, *_CONDITION), 1, threads)
        for kind in _COMBINED
        for aligned in ("", ".aligned")
        for of, named, threads in (("all", _NUMBER, 0), ("count", _THREADS, 1))
    ),
    *(
        replace(row, op=f"llvm.nvvm.{name}")
        for row in BARRIER_ROWS
        for name in _MANY_NAMES.get(row.op, ())
    ),
    _fence("llvm.nvvm.membar.cta", both("block")),
    _fence("llvm.nvvm.membar.gl", both("device")),
    _fence("llvm.nvvm.membar.sys", both("system")),
    _fence("llvm.nvvm.fence.sc.cluster", both("cluster")),
    _fence("llvm.nvvm.fence.acq_rel.cluster", both("cluster")),
)
