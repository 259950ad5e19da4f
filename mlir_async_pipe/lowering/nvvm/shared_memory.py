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

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    before,
    function_type,
    has_body,
    integer_attribute,
    is_function,
    operations,
    symbol_name,
    users,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import address_of, declare_global, fresh_name
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.values.alignment import argument_alignment
from mlir_async_pipe.facts.values.memory_roots import space_of, space_of_type
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.vocabulary import ALLOCATION_OPS, VIEW_OPS
from mlir_async_pipe.vocabulary.mbarrier_ops import MBARRIER_BYTES, number_of_mbarriers
from mlir_async_pipe.vocabulary.memory_layout import (
    TypeLayout,
    UnknownLayoutError,
    element_layout,
    layout_of,
    span_bytes,
)
from mlir_async_pipe.vocabulary.memory_names import (
    DEALLOCATION_OPS,
    GLOBAL_OPS,
    global_name,
    is_dynamic_memory,
)

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
        raise LoweringError(
            "a workgroup allocation needs a static size",
            code="dynamic-workgroup-alloc",
            at=allocation,
        )
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
        raise LoweringError(
            f"workgroup memory of type {kind} has no bytes",
            code="dynamic-workgroup-alloc",
            at=at,
            advice="name dynamic shared memory by gpu.dynamic_shared_memory",
        )


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
            if name is not None and name in seen:
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


def rounded(offset: int, alignment: int) -> int:
    """The first multiple of `alignment` that is not below `offset`."""
    return -(-offset // alignment) * alignment


def reachable(kernel: Operation, gpu_module: Operation) -> list[Operation]:
    """The kernel and the functions of its module that it calls, directly or not."""
    by_name = {symbol_name(f): f for f in module_functions(gpu_module)}

    def called(function: Operation) -> list[Operation]:
        callees = (op.attributes["callee"] for op in walk(function) if "callee" in op.attributes)
        names = (str(callee).lstrip("@") for callee in callees)
        return [by_name[name] for name in names if name in by_name]

    return list(walked([kernel], called))


def buffer_bytes(kind: Any, at: Operation) -> int:
    """The bytes that a buffer of this type spans. Raises LoweringError (element-layout)."""
    with has_layout(at):
        size = span_bytes(kind)
    if size is None:
        raise LoweringError(
            f"workgroup memory of type {kind} has no static size",
            code="dynamic-workgroup-alloc",
            at=at,
        )
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
