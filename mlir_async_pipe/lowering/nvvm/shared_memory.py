"""Prepares workgroup memory for NVIDIA: allocations become globals, large kernels go dynamic.

    %b = memref.alloc() : memref<…, workgroup>   -->  memref.global "private" @kernel_shared
                                                      %b = memref.get_global @kernel_shared

A `memref.alloc` in workgroup space would silently become a call of malloc. A kernel may declare
48 KiB; where attributions and globals need more, they move to one dynamic allocation:

    workgroup(%a : memref<4096xf32>, …)          -->  %d = gpu.dynamic_shared_memory
                                                      %a = memref.view %d[0]
    gpu.func attributes {async_pipe.dynamic_shared_bytes = 65536}, and gpu.launch_func asks for it
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    OpWriter,
    Value,
    again,
    ancestors,
    attributes_of,
    before,
    constant,
    constant_value,
    function_type,
    has_body,
    integer_attribute,
    is_function,
    operations,
    remembered,
    set_integer,
    symbol_name,
    users,
    walk,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import address_of, declare_global, fresh_name
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.values.alignment import (
    access_alignment,
    argument_alignment,
    element_bytes,
)
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import root_of, space_of, space_of_type
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.vocabulary import ALLOCATION_OPS, VIEW_OPS, accesses, groups_of, row_of
from mlir_async_pipe.vocabulary.control_flow import callee_name
from mlir_async_pipe.vocabulary.mbarrier_ops import MBARRIER_BYTES, number_of_mbarriers
from mlir_async_pipe.vocabulary.memory_layout import (
    TypeLayout,
    UnknownLayoutError,
    element_layout,
    layout_of,
    rounded,
    span_bytes,
)
from mlir_async_pipe.vocabulary.memory_names import (
    DEALLOCATION_OPS,
    GLOBAL_OPS,
    global_name,
    is_dynamic_memory,
)
from mlir_async_pipe.vocabulary.tensor_boxes import tensor_map_type

# cp.async copies 16 bytes at most, and both ends must be aligned to the copy's size.
ALIGNMENT_BYTES = 16


def globalise_allocations(gpu_module: Operation) -> None:
    """Make every workgroup allocation of a gpu.module a private global; its deallocs go.

    Raises LoweringError (dynamic-workgroup-alloc) for a size that is not static, and
    (workgroup-alloc-escapes) for an allocation in a loop that outlives its iteration.
    """
    allocations = [
        op
        for op in walk(gpu_module)
        if op.name in ALLOCATION_OPS and space_of(op.results[0], op) == "workgroup"
    ]
    for allocation in allocations:
        _check_allocation(allocation)
    for allocation in allocations:
        _globalise(allocation, gpu_module)


def _check_allocation(allocation: Operation) -> None:
    if not ir.MemRefType(allocation.results[0].type).has_static_shape:
        why = "a workgroup allocation needs a static size"
        raise LoweringError(why, code="dynamic-workgroup-alloc", at=allocation)
    _check_not_empty(allocation.results[0].type, allocation)
    in_loop = any(above.name in ("scf.for", "scf.while") for above in ancestors(allocation))
    for value in _with_views(allocation.results[0]):
        for user in users(value):
            if in_loop and user.name in ("scf.yield", "scf.condition"):
                raise LoweringError(
                    "a workgroup allocation in a loop is used after its iteration",
                    code="workgroup-alloc-escapes",
                    at=allocation,
                    notes=(("it leaves the iteration here", user),),
                )


def _check_not_empty(kind: Any, at: Operation) -> None:
    """A global without bytes would be dynamic shared memory, which no other memory lies over."""
    if 0 in ir.MemRefType(kind).shape:
        why = f"workgroup memory of type {kind} has no bytes"
        advice = "name dynamic shared memory by gpu.dynamic_shared_memory"
        raise LoweringError(why, code="dynamic-workgroup-alloc", at=at, advice=advice)


def _with_views(memory: Value) -> list[Value]:
    """The memref and everything that is a view of it."""
    return list(walked([memory], lambda m: [u.results[0] for u in users(m) if u.name in VIEW_OPS]))


def _globalise(allocation: Operation, gpu_module: Operation) -> None:
    function = next(op for op in ancestors(allocation) if "sym_name" in op.attributes)
    name = fresh_name(gpu_module, f"{symbol_name(function)}_shared")
    kind, loc = allocation.results[0].type, allocation.location
    given = integer_attribute(allocation, "alignment") or 1
    alignment = max(ALIGNMENT_BYTES, element_layout(kind).alignment, given)
    declare_global(gpu_module, name, kind, ir.UnitAttr.get(allocation.context), alignment, loc)
    memory = address_of(name, kind, before(allocation), loc)
    for value in _with_views(allocation.results[0]):
        for user in users(value):
            if user.name in DEALLOCATION_OPS:
                user.erase()
    allocation.results[0].replace_all_uses_with(memory)
    allocation.erase()


@dataclass(frozen=True)
class SharedBuffer:
    """Workgroup memory of a kernel: an attribution (`argument`), a global (`name`), or neither:
    what cannot move (`fixed_shared`)."""

    bytes: int
    alignment: int
    name: str = ""
    argument: Value | None = None


def workgroup_buffers(kernel: Operation, gpu_module: Operation) -> list[SharedBuffer]:
    """The workgroup memory that a kernel declares or reaches, also through calls."""
    found = attributions(kernel)
    globals_ = {symbol_name(op): op for op in top_level(gpu_module) if op.name in GLOBAL_OPS}
    seen: set[str] = set()
    for function in reachable(kernel, gpu_module):
        for op in walk(function):
            name = global_name(op)
            if name in seen:
                continue
            if name is not None:
                seen.add(name)
            if is_dynamic_memory(op):
                continue
            fixed = fixed_layout(op, globals_)
            if fixed is not None:
                found.append(SharedBuffer(fixed.stride_bytes, fixed.alignment))
            elif op.name == "memref.get_global" and name in globals_:
                found += _declared(globals_[name])
    return found


def _declared(declared: Operation) -> list[SharedBuffer]:
    kind = ir.TypeAttr(declared.attributes["type"]).value
    if space_of_type(kind) != "workgroup":
        return []
    alignment = max(integer_attribute(declared, "alignment") or 1, ALIGNMENT_BYTES)
    return [SharedBuffer(buffer_bytes(kind, declared), alignment, name=symbol_name(declared))]


def attributions(function: Operation) -> list[SharedBuffer]:
    """The workgroup attributions of a gpu.func, aligned as `llvm.align` asks."""
    found = []
    for argument in attributed(function):
        _check_not_empty(argument.type, function)
        alignment = max(argument_alignment(argument), ALIGNMENT_BYTES)
        size = buffer_bytes(argument.type, function)
        found.append(SharedBuffer(size, alignment, argument=argument))
    return found


def attributed(function: Operation) -> list[Value]:
    """The block arguments of a gpu.func that are its workgroup attributions."""
    count = integer_attribute(function, "workgroup_attributions") or 0
    if function.name != "gpu.func" or count == 0:
        return []
    inputs = len(function_type(function).inputs)
    return list(function.regions[0].blocks[0].arguments)[inputs : inputs + count]


def end_of(buffers: Iterable[SharedBuffer], start: int = 0) -> int:
    """The first byte after the buffers when they are laid out one after the other."""
    for buffer in buffers:
        start = rounded(start, buffer.alignment) + buffer.bytes
    return start


def reachable(kernel: Operation, gpu_module: Operation) -> list[Operation]:
    """The kernel and the functions of its module that it calls, directly or not."""
    by_name = {symbol_name(f): f for f in module_functions(gpu_module)}

    def called(function: Operation) -> list[Operation]:
        return [by_name[name] for name in map(callee_name, walk(function)) if name in by_name]

    return list(walked([kernel], called))


def buffer_bytes(kind: Any, at: Operation) -> int:
    """The bytes that a buffer of this type spans. Raises LoweringError (element-layout)."""
    with has_layout(at):
        size = span_bytes(kind)
    if size is None:
        why = f"workgroup memory of type {kind} has no static size"
        raise LoweringError(why, code="dynamic-workgroup-alloc", at=at)
    return size


def kernels(gpu_module: Operation) -> list[Operation]:
    return [
        f for f in module_functions(gpu_module) if f.name == "gpu.func" and "kernel" in f.attributes
    ]


def module_functions(gpu_module: Operation) -> list[Operation]:
    """The functions with a body of a gpu.module; no other op holds functions there."""
    return [op for op in top_level(gpu_module) if is_function(op) and has_body(op)]


def top_level(gpu_module: Operation) -> list[Operation]:
    """The ops that stand directly in a gpu.module: functions and globals."""
    return operations(gpu_module.regions[0].blocks[0])


def check_fits(kernel: Operation, needed: int, chip: Chip) -> None:
    """Raise LoweringError (workgroup-memory) if a block cannot have so much memory."""
    if needed > chip.workgroup_bytes:
        raise LoweringError(
            f"kernel '{symbol_name(kernel)}' needs {needed} bytes of workgroup memory, and "
            f"{chip.name} has {chip.workgroup_bytes} a block",
            code="workgroup-memory",
            at=kernel,
            advice="use fewer stages or smaller tiles, or set --smem-limit",
        )


# Shared memory at a fixed place --------------------------------------------------------------
#
# Workgroup memory that a kernel has beside its buffers, and that stays static.
#
# nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<…, num_barriers = 3>     24 bytes, aligned to 8
# llvm.mlir.addressof @g, a global in address space 3                      what its type takes


def fixed_layout(op: Operation, globals_: dict[str, Operation]) -> TypeLayout | None:
    """What the memory takes that `op` makes or names; None if it names none that is fixed.

    Raises LoweringError (element-layout).
    """
    if op.name == "nvgpu.mbarrier.create":
        size = MBARRIER_BYTES * number_of_mbarriers(op.results[0].type)
        return TypeLayout(8 * size, size, MBARRIER_BYTES)
    if op.name != "llvm.mlir.addressof" or space_of(op.results[0]) != "workgroup":
        return None
    declared = globals_.get(str(ir.FlatSymbolRefAttr(op.attributes["global_name"]).value))
    if declared is None:
        return None
    with has_layout(declared):
        return layout_of(ir.TypeAttr(declared.attributes["global_type"]).value)


@contextmanager
def has_layout(at: Operation) -> Iterator[None]:
    """Inside, a type that has no layout in memory is an error: LoweringError (element-layout)."""
    try:
        yield
    except UnknownLayoutError as error:
        raise LoweringError(f"cannot lower this: {error}", code="element-layout", at=at) from error


# Alignment ---------------------------------------------------------------------------------------
#
# Lets workgroup buffers begin at multiples of 16 bytes, so that copies into them may be wide.
#
#     workgroup(%a : memref<512xf32, …>)        -->  workgroup(%a : memref<512xf32, …> {llvm.align = 16})
#     memref.global "private" @a : memref<…>    -->  memref.global "private" @a : memref<…> {alignment = 16}
#
# Where a buffer begins is the compiler's to choose; a larger `llvm.align` of the author stays, and
# buffers of tensor copies begin where their swizzle does (`tensor_alignment`).


_ATTRIBUTES = "workgroup_attrib_attrs"


def align_workgroup_buffers(root: Operation) -> None:
    """Raise the alignment of every attribution and global in workgroup memory below `root`."""
    asked = tensor_alignments(root)
    for op in walk(root):
        if op.name == "memref.global":
            kind = ir.TypeAttr(op.attributes["type"]).value
            natural = element_layout(kind).alignment
            _raise(op, kind, max(ALIGNMENT_BYTES, natural, asked_of(symbol_name(op), asked)))
        elif op.name in ALLOCATION_OPS:
            _raise(op, op.results[0].type, asked_of(op.results[0], asked))
        elif attributed(op):
            _align_attributions(op, asked)


def _raise(op: Operation, kind: Any, least: int) -> None:
    known = integer_attribute(op, "alignment") or 1
    if space_of_type(kind) == "workgroup" and known < least:
        set_integer(op, "alignment", least, 64)


def _align_attributions(function: Operation, asked: dict[Any, int]) -> None:
    context = function.context
    i64 = ir.IntegerType.get_signless(64, context)
    arguments = attributed(function)
    entries: list[dict[str, ir.Attribute]] = [{} for _ in arguments]
    if _ATTRIBUTES in function.attributes:
        given = ir.ArrayAttr(function.attributes[_ATTRIBUTES])
        entries = [{item.name: item.attr for item in ir.DictAttr(entry)} for entry in given]
    for entry, argument in zip(entries, arguments, strict=True):
        natural = max(element_layout(argument.type).alignment, argument_alignment(argument))
        least = max(ALIGNMENT_BYTES, natural, asked_of(argument, asked))
        entry["llvm.align"] = ir.IntegerAttr.get(i64, least)
    made = [ir.DictAttr.get(entry, context) for entry in entries]
    function.attributes[_ATTRIBUTES] = ir.ArrayAttr.get(made, context)


# Puts the proven alignment on vector loads and stores.
#
#     vector.load %tile[%r, %c] : …, vector<8xf16>
#       -->  vector.load %tile[%r, %c] {alignment = 16 : i64} : …, vector<8xf16>
#
# Without it a vector access is taken to be aligned like one element, and the back end splits it:
# eight loads of 2 bytes instead of one of 16.

VECTOR_OPS = ("vector.load", "vector.store", "vector.maskedload")


def annotate_alignment(root: Any) -> None:
    """Set `alignment` on each vector load and store that has none and is aligned better."""
    arithmetic = Arithmetic()
    for op in walk_named(root, VECTOR_OPS.__contains__):
        if "alignment" in op.attributes:
            continue
        (access,) = accesses(op)
        element = element_bytes(access.memory)
        total = element * prod(access.extent or ())
        useful = 1 << max(total - 1, 0).bit_length()
        known = min(access_alignment(access.memory, access.indices, arithmetic), useful)
        if known > element > 0:
            set_integer(op, "alignment", known, 64)


# How far the workgroup memory must be aligned that tensor copies fill, read or multiply from.
#
#     tensor map: swizzle_128b     1024 bytes        none       128 bytes
#                 swizzle_64b       512              unknown   1024
#                 swizzle_32b       256
#
# A swizzle permutes 16-byte chunks by bits of the *address*, with a period of 8 lines; the
# descriptors of wgmma say that a tile begins where such a period does (PTX ISA, swizzling modes,
# and matrix descriptor: base offset 0). A tile that begins elsewhere is laid down rotated, and
# nothing in the program says so.

# The destination of a tensor copy must be aligned to 128 bytes (PTX ISA, cp.async.bulk.tensor).
TENSOR_COPY_BYTES = 128
_PERIOD_BYTES = {"swizzle_32b": 256, "swizzle_64b": 512, "swizzle_128b": 1024}
_SWIZZLE = re.compile(r"tensormap\.descriptor<.*\bswizzle = (\w+)")

# The key of memory whose root is not known: it may be any buffer.
ANY = "any"
DYNAMIC = "dynamic"


@remembered
def tensor_alignments(root: Operation) -> dict[Any, int]:
    """Bytes by what they are asked of: an attribution or allocation (its value), a global (its
    name), DYNAMIC shared memory, or ANY buffer. Callees ask it of what they are given."""
    asked: dict[Any, int] = {}
    calls = [op for op in walk(root) if callee_name(op) is not None]
    waiting = [pair for op in walk(root) if (pair := _asked_by(op)) is not None]
    for memory, least in waiting:
        found = root_of(memory)
        if found.space != "workgroup":
            continue
        if found.kind == "argument":
            passed = _passed(found.value, calls)
            waiting += [(value, least) for value in passed if (value, least) not in waiting]
            continue
        key = ANY if found.kind == "unknown" else found.key
        asked[key] = max(asked.get(key, 1), least)
    return asked


def asked_of(key: Any, asked: dict[Any, int]) -> int:
    """The bytes asked of one buffer, 1 if nobody asks for any."""
    return max(asked.get(key, 1), asked.get(ANY, 1))


def _asked_by(op: Operation) -> tuple[Value, int] | None:
    """The workgroup memory of a tensor copy or matrix descriptor, and its alignment."""
    row = row_of(op)
    if not row.swizzled:
        return None
    groups = groups_of(op)
    memory = op.operands[groups[row.swizzled][0]]
    maps = [op.operands[n] for n in groups.get("tensor_map", ())]
    return memory, max(TENSOR_COPY_BYTES, *(_period(tensor_map_type(value)) for value in maps))


def _period(map_type: str) -> int:
    """The period of a map's swizzle, the longest where nothing says which it has."""
    found = _SWIZZLE.search(map_type)
    return _PERIOD_BYTES.get(found[1], 1) if found else max(_PERIOD_BYTES.values())


def _passed(argument: Value, calls: list[Operation]) -> list[Value]:
    """What the calls of a function hand to one of its arguments."""
    function = ir.BlockArgument(argument).owner.owner.operation
    number = ir.BlockArgument(argument).arg_number
    name = symbol_name(function)
    return [call.operands[number] for call in calls if callee_name(call) == name]


# Dynamic memory ----------------------------------------------------------------------------------
#
# Moves the workgroup buffers of large kernels into dynamic shared memory.
#
#     workgroup(%a : memref<8192xf32, #wg>, %b : …)   -->   %d = gpu.dynamic_shared_memory
#                                                           %a = memref.view %d[0][]
#                                                           %b = memref.view %d[32768][]
#
# CUDA lets a kernel declare 48 KiB (CUDA C++ Programming Guide, compute capabilities); the rest
# must be asked for at launch. A buffer stands at the same offset in every function that uses
# it, since a called function cannot know which kernel it runs for.


DYNAMIC_BYTES = "async_pipe.dynamic_shared_bytes"
WORKGROUP_BYTES = "memref<?xi8, #gpu.address_space<workgroup>>"


@dataclass(frozen=True)
class DynamicShared:
    """Dynamic shared memory of a gpu.module: bytes by kernel name, and the base's alignment."""

    bytes_of: dict[str, int]
    alignment: int = TENSOR_COPY_BYTES


def move_large_kernels(gpu_module: Operation, chip: Chip) -> DynamicShared:
    """Give each kernel that needs more than the static limit one dynamic allocation.

    Raises LoweringError (workgroup-memory) if the chip has not so much, and
    (dynamic-shared-conflict) if such a kernel uses dynamic shared memory at unknown places.
    """
    # By name, since the hash of an op covers its attributes, which are about to change.
    found = {symbol_name(kernel): kernel for kernel in kernels(gpu_module)}
    needed = {name: workgroup_buffers(kernel, gpu_module) for name, kernel in found.items()}
    sizes = {name: integer_attribute(k, DYNAMIC_BYTES) or 0 for name, k in found.items()}
    static = {name: end_of(buffers) for name, buffers in needed.items()}
    large = {name: k for name, k in found.items() if static[name] > chip.static_workgroup_bytes}
    for name, kernel in found.items():
        check_fits(kernel, static[name] + sizes[name], chip)
    own = asked_of(DYNAMIC, tensor_alignments(gpu_module))
    alignment = max([TENSOR_COPY_BYTES, own, *(b.alignment for n in large for b in needed[n])])
    if large:
        sizes, static = _move(gpu_module, needed, found, large, sizes)
        for name, kernel in found.items():
            # The dynamic part begins after the static one, at a multiple of its alignment.
            check_fits(kernel, rounded(static[name], alignment) + sizes[name], chip)
            if sizes[name]:
                set_integer(kernel, DYNAMIC_BYTES, sizes[name], 64)
    return DynamicShared({name: size for name, size in sizes.items() if size}, alignment)


def _move(
    gpu_module: Operation,
    needed: dict[str, list[SharedBuffer]],
    found: dict[str, Operation],
    large: dict[str, Operation],
    given: dict[str, int],
) -> tuple[dict[str, int], dict[str, int]]:
    """Lay out globals first, then each large kernel's attributions.

    Returns the bytes of dynamic and of static memory by kernel.
    """
    moved = _shared_first({b.name: b for n in large for b in needed[n] if b.name}, needed)
    names = {buffer.name for buffer in moved}
    users_ = [n for n in found if n in large or any(b.name in names for b in needed[n])]
    start = max(given[name] or _own_bytes(found[name], gpu_module) for name in users_)
    offsets: dict[str, int] = {}
    for buffer in moved:
        offsets[buffer.name] = rounded(end_of(moved[: len(offsets)], start), buffer.alignment)
    for function in module_functions(gpu_module):
        _move_globals(function, offsets)
    sizes, static = dict(given), {}
    for name, buffers in needed.items():
        used = [offsets[b.name] + b.bytes for b in buffers if b.name in offsets]
        sizes[name] = max([given[name], *used])
        if name in large:
            sizes[name] = max(sizes[name], _move_attributions(large[name], max([start, *used])))
            buffers = [buffer for buffer in buffers if buffer.argument is None]
        static[name] = end_of(buffer for buffer in buffers if buffer.name not in offsets)
    return sizes, static


def _shared_first(
    moved: dict[str, SharedBuffer], needed: dict[str, list[SharedBuffer]]
) -> list[SharedBuffer]:
    """The globals to move, those of the most kernels first: a kernel asks for all bytes up to the
    last global that it uses, whoever the others belong to."""
    kernels_with = Counter(n for buffers in needed.values() for n in {b.name for b in buffers})
    return sorted(moved.values(), key=lambda buffer: -kernels_with[buffer.name])


def _own_bytes(kernel: Operation, gpu_module: Operation) -> int:
    """The end of the dynamic shared memory that the input itself uses."""
    end = 0
    for function in reachable(kernel, gpu_module):
        for op in walk(function):
            if not is_dynamic_memory(op):
                continue
            for user in users(op.results[0]):
                window = root_of(user.results[0]) if user.name == "memref.view" else None
                if window is None or window.offset is None or window.size is None:
                    raise LoweringError(
                        f"kernel '{symbol_name(kernel)}' needs more static workgroup memory than "
                        "the chip allows, and uses dynamic shared memory at unknown places",
                        code="dynamic-shared-conflict",
                        at=op,
                        advice=f"give the bytes that it uses as {DYNAMIC_BYTES} on the kernel",
                    )
                end = max(end, window.offset + window.size)
    return end


def _move_globals(function: Operation, offsets: dict[str, int]) -> None:
    """memref.get_global @buffer  -->  memref.view of dynamic shared memory at its offset."""
    for op in walk_named(function, "memref.get_global".__eq__):
        if (name := global_name(op)) in offsets:
            _replace(op.results[0], offsets[name], function)
            op.erase()


def _move_attributions(kernel: Operation, start: int) -> int:
    """Replace the kernel's attributions by views from offset `start` on; returns their end."""
    buffers = attributions(kernel)
    for buffer in buffers:
        assert buffer.argument is not None
        offset = rounded(start, buffer.alignment)
        _replace(buffer.argument, offset, kernel)
        start = offset + buffer.bytes
    block = kernel.regions[0].blocks[0]
    for buffer in reversed(buffers):
        block.erase_argument(ir.BlockArgument(buffer.argument).arg_number)
    if buffers:
        set_integer(kernel, "workgroup_attributions", 0, 64)
        if _ATTRIBUTES in kernel.attributes:
            del kernel.attributes[_ATTRIBUTES]
    return start


def _replace(memory: Value, offset: int, function: Operation) -> None:
    """Let everything that uses `memory` use dynamic shared memory at `offset` bytes."""
    context, loc = function.context, function.location
    index = ir.IndexType.get(context)
    ip = before(operations(function.regions[0].blocks[0])[0])
    at = constant(offset, index, ip, loc)
    bytes_type = ir.Type.parse(WORKGROUP_BYTES, context)
    write = OpWriter(ip, loc)
    base = write.make("gpu.dynamic_shared_memory", (), bytes_type)
    space = ir.MemRefType(bytes_type).memory_space
    old = ir.MemRefType(memory.type)
    kind = ir.MemRefType.get(list(old.shape), old.element_type, old.layout, space, loc=loc)
    view = write.make("memref.view", [base, at], kind)
    if kind != old:
        view = write.make("memref.memory_space_cast", [view], old)
    memory.replace_all_uses_with(view)


def ask_at_launch(root: Any, module_name: str, shared: DynamicShared) -> None:
    """Give each gpu.launch_func of a kernel with dynamic memory the size that it needs.

    Raises LoweringError (dynamic-shared-conflict) for a launch that asks for less.
    """
    for launch in walk_named(root, "gpu.launch_func".__eq__):
        names = [part.strip("@") for part in str(launch.attributes["kernel"]).split("::")]
        if names[0] == module_name and names[-1] in shared.bytes_of:
            _ask(launch, shared.bytes_of[names[-1]])


# Position of dynamicSharedMemorySize in gpu.launch_func's operandSegmentSizes.
_LAUNCH_SEGMENT = 10


def _ask(launch: Operation, size: int) -> None:
    segments = list(ir.DenseI32ArrayAttr(launch.attributes["operandSegmentSizes"]))
    position = sum(segments[:_LAUNCH_SEGMENT])
    if segments[_LAUNCH_SEGMENT]:
        asked = constant_value(launch.operands[position])
        if asked is not None and asked >= size:
            return
        raise LoweringError(
            f"this launch asks for {'an unknown number of' if asked is None else asked} bytes of "
            f"dynamic shared memory, and the kernel needs {size}",
            code="dynamic-shared-conflict",
            at=launch,
        )
    i32 = ir.IntegerType.get_signless(32, launch.context)
    number = constant(size, i32, before(launch), launch.location)
    segments[_LAUNCH_SEGMENT] = 1
    attributes = attributes_of(launch)
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(segments, launch.context)
    operands = list(launch.operands)
    again(launch, [*operands[:position], number, *operands[position:]], attributes=attributes)
