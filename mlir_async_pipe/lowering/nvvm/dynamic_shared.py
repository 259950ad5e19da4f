"""Moves the workgroup buffers of large kernels into dynamic shared memory.

    workgroup(%a : memref<8192xf32, #wg>, %b : …)   -->   %d = gpu.dynamic_shared_memory
                                                          %a = memref.view %d[0][]
                                                          %b = memref.view %d[32768][]

CUDA lets a kernel declare 48 KiB (CUDA C++ Programming Guide, compute capabilities); the rest
must be asked for at launch. A buffer stands at the same offset in every function that uses
it, since a called function cannot know which kernel it runs for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    OpWriter,
    Value,
    again,
    attributes_of,
    before,
    constant,
    constant_value,
    integer_attribute,
    operations,
    set_integer,
    symbol_name,
    users,
    walk,
)
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.lowering.nvvm.shared_memory import (
    SharedBuffer,
    attributions,
    check_fits,
    end_of,
    kernels,
    module_functions,
    reachable,
    rounded,
    workgroup_buffers,
)
from mlir_async_pipe.lowering.nvvm.workgroup_alignment import (
    DYNAMIC,
    TENSOR_COPY_BYTES,
    asked_of,
    tensor_alignments,
)
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.vocabulary.memory_names import global_name, is_dynamic_memory

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

    def kernels_with(name: str) -> int:
        return sum(any(b.name == name for b in buffers) for buffers in needed.values())

    return sorted(moved.values(), key=lambda buffer: -kernels_with(buffer.name))


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
    for op in list(walk(function)):
        if op.name == "memref.get_global" and (name := global_name(op)) in offsets:
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
        if "workgroup_attrib_attrs" in kernel.attributes:
            del kernel.attributes["workgroup_attrib_attrs"]
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
    for launch in [op for op in walk(root) if op.name == "gpu.launch_func"]:
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
