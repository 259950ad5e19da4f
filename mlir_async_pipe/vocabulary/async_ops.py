"""The async rows of the vocabulary: issue, commit, wait.

To teach the whole system a new kind of async op, add a row here: analysis, machine, checker
and lowering read nothing else.

| queue      | source of the semantics                                                      |
|------------|------------------------------------------------------------------------------|
| cp.async   | PTX ISA, "Data Movement: Non-bulk copy" (cp.async, commit_group, wait_group)  |
| bulk-store | PTX ISA, cp.async.bulk.commit_group / wait_group[.read]                       |
| wgmma      | PTX ISA, wgmma.commit_group / wait_group                                      |
| async-lds  | LLVM, "AMDGPU Asynchronous Operations" (asyncmark, wait.asyncmark)            |
| asynccnt, tensorcnt | AMD gfx12 ISA counters: of copies of the queue async-lds            |
| attribute  | TVM RFC 0077, queues of async_commit_queue / async_wait_queue                 |

Intrinsics of LLVM that copy, commit, wait or are a barrier have rows as well:

    llvm.call_intrinsic "llvm.amdgcn.wait.asyncmark"(%n) : (i16) -> ()   waits as rocdl.wait.asyncmark
    llvm.call @llvm.amdgcn.wait.asyncmark(%n) : (i16) -> ()              is not looked into
    llvm.call @llvm.nvvm.barrier0() : () -> ()                           a barrier

What is an attribute of the op is an operand of the call. Overloaded intrinsics carry their types
after the name (`….p1`). An intrinsic without a row may do anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    constant,
    constant_value,
    create,
    integer_attribute,
    type_text,
)
from mlir_async_pipe.vocabulary.barriers import BARRIER_INTRINSICS, BARRIER_ROWS, FENCE_ROWS
from mlir_async_pipe.vocabulary.control_flow import SCOPE
from mlir_async_pipe.vocabulary.memory_ops import (
    VENDOR_ROWS,
    by_resource,
    bytes_at,
    bytes_given,
    bytes_of,
    neighbours,
    never,
    size_of_last_group,
    to_sixteen_bytes,
    transfer_type,
    whole,
)
from mlir_async_pipe.vocabulary.rows import (
    ASYNC_LDS,
    ASYNCCNT,
    BULK_STORE,
    CP_ASYNC,
    TENSORCNT,
    WGMMA,
    AccessRule,
    Extent,
    Queue,
    Row,
    WaitRule,
)
from mlir_async_pipe.vocabulary.tensor_mover import TENSOR_COPIES


def always(op: Any) -> bool:
    """The op is asynchronous whatever its attributes."""
    return True


def read_or_full(op: Any) -> Literal["full", "read"]:
    """Bulk waits with `read` promise only that the source may be reused."""
    return "read" if "read" in op.attributes else "full"


def copy(
    op: str,
    operands: tuple[str, ...],
    queue: Queue,
    extent: Extent,
    *,
    source_indices: str = "source_indices",
    destination_indices: str = "destination_indices",
    over_lanes: bool = False,
    limit: Callable[[Any], Any] = lambda op: None,
    **more: Any,
) -> Row:
    """A row that reads `source` and writes `destination` between issue and completion. Of the source it
    reads no more than the operand `limit` says, if there is one, and writes zeros after that."""

    def read(op: Any) -> tuple[int, ...] | None:
        given, most = limit(op), extent(op)
        count = None if given is None else constant_value(given)
        return (min(count, *most),) if count and most else most

    def certain(op: Any) -> bool:
        given = limit(op)
        return given is None or bool(constant_value(given))

    rules = (
        AccessRule("read", "source", source_indices, read, certain, contiguous=True),
        AccessRule(
            *("write", "destination", destination_indices, extent),
            over_lanes=over_lanes,
            contiguous=True,
        ),
    )
    counter = ASYNCCNT if queue == ASYNC_LDS else None
    return Row(op, operands, rules, queue, **{"asynchronous": always, "counter": counter, **more})


_BY_POINTER: dict[str, Any] = {"source_indices": "", "destination_indices": ""}


def pointer_copy(
    op: str, operands: tuple[str, ...], queue: Queue, size: str | int, **options: Any
) -> Row:
    """A copy between two pointers without subscripts; `size` is an attribute or bytes."""
    return copy(op, operands, queue, bytes_at(size), **_BY_POINTER, **options)


def _tile_store(op: str, *operands: str, adds: bool = False) -> Row:
    """A tensor copy out of `source`."""
    return Row(
        op,
        operands,
        accesses=(AccessRule("read", "source", "", whole),),
        queue=BULK_STORE,
        asynchronous=always,
        swizzled="source",
        adds=adds,
    )


def _counter_wait(op: str, queue: Queue) -> Row:
    return Row(op, queue=queue, wait=WaitRule("count", "count", 16), completion="counter")


TOKEN_WAIT = WaitRule("token", "numGroups", 32)
DESCRIPTORS = ("descriptor_a", "descriptor_b")
_warpgroup = partial(Row, queue=WGMMA)


DEVICE_COPY = "nvgpu.device_async_copy"

NVIDIA_ROWS = (
    copy(
        DEVICE_COPY,
        ("destination", "destination_indices*", "source", "source_indices*", "source_elements?"),
        CP_ASYNC,
        neighbours("dstElements"),
        token=True,
        # `srcElements`.
        limit=lambda op: op.operands[-1] if size_of_last_group(op) else None,
    ),
    Row(
        "nvgpu.device_async_create_group", ("tokens*",), queue=CP_ASYNC, commits="group", token=True
    ),
    Row("nvgpu.device_async_wait", ("token",), queue=CP_ASYNC, wait=TOKEN_WAIT),
    pointer_copy(
        "nvvm.cp.async.shared.global",
        ("destination", "source", "bytes?"),
        CP_ASYNC,
        "size",
        # `cpSize`.
        limit=lambda op: op.operands[2] if len(op.operands) > 2 else None,
        # Both addresses are multiples of what is copied (PTX ISA, cp.async).
        alignment=lambda op: integer_attribute(op, "size") or 1,
    ),
    Row("nvvm.cp.async.commit.group", queue=CP_ASYNC, commits="group"),
    Row("nvvm.cp.async.wait.group", queue=CP_ASYNC, wait=WaitRule("count", "n", 32)),
    _tile_store("nvgpu.tma.async.store", "source", "tensor_map", "coordinates*", "predicate?"),
    pointer_copy(
        "nvvm.cp.async.bulk.global.shared.cta",
        ("destination", "source", "bytes", "l2_cache_hint?", "byte_mask?"),
        BULK_STORE,
        "",
        alignment=to_sixteen_bytes,
    ),
    _tile_store(
        "nvvm.cp.async.bulk.tensor.global.shared.cta",
        *("tensor_map", "source", "coordinates*", "l2_cache_hint?", "predicate?"),
    ),
    _tile_store(
        "nvvm.cp.async.bulk.tensor.reduce",
        *("tensor_map", "source", "coordinates*", "l2_cache_hint?"),
        adds=True,
    ),
    Row("nvvm.cp.async.bulk.commit.group", queue=BULK_STORE, commits="group"),
    Row(
        "nvvm.cp.async.bulk.wait_group",
        queue=BULK_STORE,
        wait=WaitRule("count", "group", 32, read_or_full),
    ),
    Row("nvgpu.warpgroup.generate.descriptor", ("tensor", "tensor_map"), swizzled="tensor"),
    # It begins with a fence, is a group, and waits by itself but for `products_left` groups.
    _warpgroup(
        "nvgpu.warpgroup.mma",
        (*DESCRIPTORS, "sums"),
        asynchronous=always,
        commits="self",
        descriptors=DESCRIPTORS,
        fences_sums=True,
    ),
    _warpgroup(
        "nvvm.wgmma.mma_async", ("sums", *DESCRIPTORS), asynchronous=always, descriptors=DESCRIPTORS
    ),
    _warpgroup("nvvm.wgmma.fence.aligned", fences_sums=True),
    _warpgroup("nvvm.wgmma.commit.group.sync.aligned", commits="group"),
    _warpgroup("nvvm.wgmma.wait.group.sync.aligned", wait=WaitRule("count", "group", 64)),
)

# Copies of each lane by addresses of its own, of so many bits.
_BETWEEN_LANES = (
    ("global.load.async.to.lds", ("source", "destination")),
    ("global.store.async.from.lds", ("destination", "source")),
)
_BITS = (8, 32, 64, 128)
# From global memory to the wave's stretch of LDS.
_BUFFER_COPY = copy(
    "rocdl.raw.ptr.buffer.load.async.lds",
    ("source", "destination", "size", "offset", "scalar_offset", "moved", "aux"),
    ASYNC_LDS,
    bytes_given(5),
    **_BY_POINTER,
    over_lanes=True,
)
_WAVE_COPIES = (
    *(
        pointer_copy(op, ("source", "destination"), ASYNC_LDS, "size", over_lanes=True)
        for op in ("rocdl.load.async.to.lds", "rocdl.global.load.async.lds")
    ),
    replace(
        _BUFFER_COPY,
        accesses=(by_resource("read", 0, bytes_given(5), "source"), _BUFFER_COPY.accesses[1]),
    ),
)

AMD_ROWS = (
    copy(
        "amdgpu.gather_to_lds",
        ("source", "source_indices*", "destination", "destination_indices*"),
        ASYNC_LDS,
        transfer_type,
        # Without it the compiler tracks the copy: it is synchronous.
        asynchronous=lambda op: "async" in op.attributes,
        over_lanes=True,
        async_attribute="async",
    ),
    copy(
        "amdgpu.global_load_async_to_lds",
        ("source", "source_indices*", "destination", "destination_indices*", "mask?"),
        ASYNC_LDS,
        transfer_type,
    ),
    *_WAVE_COPIES,
    # The compiler waits for these where it must: before the wave looks at the memory, and at a release fence (LLVM,
    # AMDGPU asynchronous operations, "LDS DMA"; its back end writes s_waitcnt vmcnt(0) in front of both).
    *(
        replace(row, op=row.op.replace("async.", ""), queue=None, asynchronous=never, counter=None)
        for row in _WAVE_COPIES
    ),
    *(
        pointer_copy(f"rocdl.{name}.b{bits}", ends, ASYNC_LDS, bits // 8)
        for bits in _BITS
        for name, ends in _BETWEEN_LANES
    ),
    Row("rocdl.asyncmark", queue=ASYNC_LDS, commits="group"),
    Row("rocdl.wait.asyncmark", queue=ASYNC_LDS, wait=WaitRule("count", "count", 16)),
    _counter_wait("rocdl.s.wait.asynccnt", ASYNCCNT),
    *TENSOR_COPIES,
    _counter_wait("rocdl.s.wait.tensorcnt", TENSORCNT),
)

ABSTRACT_ROWS = (
    Row(SCOPE, queue="attribute", asynchronous=always),
    Row("async_pipe.commit_queue", queue="attribute", commits="group", token=True),
    Row(
        "async_pipe.wait_queue",
        ("tokens*",),
        queue="attribute",
        wait=WaitRule("token", "count", 64),
    ),
    Row("async_pipe.consumer_wait", queue="attribute", wait=WaitRule("next", "count", 64)),
    Row("async_pipe.producer_acquire", queue="attribute", slots=1),
    Row("async_pipe.consumer_release", queue="attribute", slots=-1),
)

ASYNC_ROWS = {
    row.op: row for row in NVIDIA_ROWS + AMD_ROWS + ABSTRACT_ROWS + BARRIER_ROWS + FENCE_ROWS
}


def queue_number(op: Any) -> int | None:
    """The abstract queue of an `async_pipe` op, None where it is not a constant."""
    return integer_attribute(op, "queue")


TOKEN_TYPE = "!nvgpu.device.async.token"

# Operands of this type are numbers: the queue of an abstract op without the attribute, and
# after it the count of a wait without one.
NUMBER_TYPE = "index"


def tokens_of(op: Any) -> list[Any]:
    """The tokens among the operands of an op."""
    return [operand for operand in op.operands if type_text(operand.type) == TOKEN_TYPE]


def count_operand(op: Any) -> Any | None:
    """The operand that is the count of an `async_pipe.wait_queue`, None if none is.

    "async_pipe.wait_queue"(%n) {queue = 0 : i64} : (index) -> ()
    """
    if op.name != "async_pipe.wait_queue" or "count" in op.attributes:
        return None
    numbers = [operand for operand in op.operands if type_text(operand.type) == NUMBER_TYPE]
    if "queue" not in op.attributes:
        numbers = numbers[1:]
    return numbers[0] if numbers else None


# The op with a token that stands for a commit or a count-form wait on the same FIFO.
TOKEN_FORMS = {
    "nvvm.cp.async.commit.group": "nvgpu.device_async_create_group",
    "nvvm.cp.async.wait.group": "nvgpu.device_async_wait",
    "async_pipe.wait_queue": "async_pipe.wait_queue",
}

# The wait that counts, for one that names groups by tokens.
COUNT_FORMS = {
    "nvgpu.device_async_wait": "nvvm.cp.async.wait.group",
    "async_pipe.wait_queue": "async_pipe.wait_queue",
}

# TOKEN_FORMS of ops whose queue has no op with a token of its own: where the target's copies use
# that queue, the abstract ops stand for it.
ABSTRACT_FORMS = {
    "rocdl.asyncmark": "async_pipe.commit_queue",
    "rocdl.wait.asyncmark": "async_pipe.wait_queue",
}

# A group of the token form without operands has to carry one of these: without any attribute
# it prints as text that does not parse again.
NO_COPIES = "async_pipe.empty"
UNNAMED_COPIES = "async_pipe.copies"


def token_form(op: Any, copy_queue: Queue | None) -> str | None:
    """The op with a token that stands for a commit or wait; None if there is none.

    `copy_queue` is the FIFO of the target's copies, None without a target.
    """
    form, row = TOKEN_FORMS.get(op.name), ASYNC_ROWS.get(op.name)
    if form is None and copy_queue is not None and row is not None and row.queue == copy_queue:
        form = ABSTRACT_FORMS.get(op.name)
    return form


def no_group(ip: Any, loc: Any) -> Any:
    """A token that stands for no group, where no wait reads it.

    Tokens are i32 for the back ends, and the cast goes when they are converted.
    """
    zero = constant(0, ir.IntegerType.get_signless(32, loc.context), ip, loc)
    cast, token = "builtin.unrealized_conversion_cast", ir.Type.parse(TOKEN_TYPE, loc.context)
    return create(cast, [zero], [token], ip=ip, loc=loc).results[0]


def _called(
    prefix: str,
    dialect: str,
    name: str,
    operands: tuple[str, ...] = (),
    extent: Extent | None = None,
) -> Row:
    """The row of an op for the call of an intrinsic: its `operands`, what a copy covers, and the
    count of a wait in operand 0."""
    row = {**ASYNC_ROWS, **VENDOR_ROWS}[dialect + name]
    rules = row.accesses
    if extent is not None:
        rules = tuple(replace(rule, extent=extent) for rule in rules)
    wait = None if row.wait is None else replace(row.wait, operand=0)
    return replace(row, op=prefix + name, operands=operands or row.operands, accesses=rules, wait=wait)  # fmt: skip


_ENDS = ("source", "destination")
_AS_THEIR_OPS = (
    "raw.ptr.buffer.load.async.lds raw.ptr.buffer.load.lds asyncmark wait.asyncmark s.wait.asynccnt "
    "s.wait.tensorcnt s.barrier tensor.load.to.lds tensor.store.from.lds"
)
_rocdl = partial(_called, "llvm.amdgcn.", "rocdl.")

INTRINSIC_ROWS = {
    row.op: row
    for row in (
        *BARRIER_INTRINSICS,
        *(
            _rocdl(name, (*_ENDS, "size", "offset", "aux"), bytes_given(3))
            for between in ("async.", "")
            for name in (f"load.{between}to.lds", f"global.load.{between}lds")
        ),
        *map(_rocdl, _AS_THEIR_OPS.split()),
        *(
            _rocdl(f"{name}.b{bits}", (*ends, "offset", "aux"), bytes_given(2, bits // 8))
            for bits in _BITS
            for name, ends in _BETWEEN_LANES
        ),
        *(
            _called("llvm.nvvm.", "nvvm.", name)
            for name in ("cp.async.commit.group", "cp.async.wait.group")
        ),
        *(
            replace(
                _called("llvm.nvvm.", "nvvm.", "cp.async.shared.global", extent=bytes_of(size)),
                op=f"llvm.nvvm.cp.async.{cache}.shared.global.{size}{sized}",
            )
            for cache, sizes in (("ca", (4, 8, 16)), ("cg", (16,)))
            for size in sizes
            for sized in ("", ".s")
        ),
    )
}
