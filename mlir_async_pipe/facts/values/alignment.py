"""How far an address is known to be aligned, in bytes.

    %row = arith.muli %tid, %c8          access_alignment(%tile, [%row], 16) = 16
    memref.load %tile[%row]              for an f16 tile whose allocation is 16-aligned

The answer is a power of two that divides the address in every execution, proven from the
allocation, `llvm.align`, `memref.assume_alignment`, strides and subscripts; never less than
what the element type has anyway. Nothing is taken for granted about dynamic strides: the rows
of a `memref<?x?xf16>` may begin at any multiple of 2 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    as_kind,
    defining_op,
    integer_attribute,
)
from mlir_async_pipe.facts.values.divisors import (
    LARGEST_BYTES,
    divisor,
    global_alignment,
    power_of_two,
)
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.views import ViewStep, beginning, reached
from mlir_async_pipe.vocabulary import ALLOCATION_OPS, VIEW_OPS, memory_layout
from mlir_async_pipe.vocabulary.memory_layout import (
    UnknownLayoutError,
    element_layout,
    if_known,
    strides_and_offset,
)
from mlir_async_pipe.vocabulary.memory_names import said_of

# What gpu.dynamic_shared_memory begins at (convert-gpu-to-nvvm emits a 16-aligned global).
DYNAMIC_SHARED_BYTES = 16
# What a workgroup allocation gets when it becomes a global for the target.
WORKGROUP_ALLOCATION_BYTES = 16


def access_alignment(
    memory: Value, indices: Sequence[Value], arithmetic: Arithmetic | None = None, assumed: int = 1
) -> int:
    """Bytes that divide the address of `memory[indices]`; a power of two up to 4096.

    `assumed` bytes, a power of two, are taken to divide the addresses of the first elements of arguments,
    and all strides that are not static."""
    numbers = arithmetic or Arithmetic()
    element = element_bytes(memory)
    if element == 0:
        return 1
    begin = value_alignment(memory, numbers, assumed)
    known = gcd(begin, _offset(memory, indices, element, numbers, assumed))
    return power_of_two(gcd(known, LARGEST_BYTES) if known else LARGEST_BYTES)


def element_bytes(memory: Value) -> int:
    """Bytes from one element to the next; 0 where that is not known."""
    return if_known(memory_layout.element_bytes, memory.type) or 0


def _natural_alignment(memory: Value) -> int:
    """What every element is aligned to by its type."""
    layout = if_known(element_layout, memory.type)
    return 1 if layout is None else layout.alignment


def value_alignment(memory: Value, numbers: Arithmetic, assumed: int = 1) -> int:
    """Bytes that divide the address of the first element of a memref, or the pointer to a global; `assumed` as
    in `access_alignment`."""
    op = defining_op(memory)
    if as_kind(ir.MemRefType, memory.type) is None:
        return global_alignment(op) if op is not None and op.name == "llvm.mlir.addressof" else 1
    natural = _natural_alignment(memory)
    if op is None:
        return lcm(natural, assumed, _from_base(memory, argument_alignment(memory)))
    if op.name == "memref.assume_alignment":
        asserted = integer_attribute(op, "alignment") or 1
        return lcm(asserted, value_alignment(op.operands[0], numbers, assumed))
    if op.name in VIEW_OPS:
        return lcm(natural, _view_alignment(op, numbers, assumed))
    if op.name in ALLOCATION_OPS:
        given = integer_attribute(op, "alignment") or 1
        workgroup = "workgroup" in str(ir.MemRefType(memory.type).memory_space or "")
        begin = lcm(given, WORKGROUP_ALLOCATION_BYTES if workgroup else 1)
        return lcm(natural, _from_base(memory, begin))
    if op.name == "memref.get_global":
        return lcm(natural, _from_base(memory, global_alignment(op)))
    if op.name == "gpu.dynamic_shared_memory":
        return DYNAMIC_SHARED_BYTES
    return natural


def _view_alignment(op: Operation, numbers: Arithmetic, assumed: int) -> int:
    """What divides the address of the source, and each step from there to the view."""
    source = op.operands[0]
    begin = if_known(beginning, op)
    if begin is None or (begin.of_aligned and offset_bytes(source) != 0):
        return 1

    def of(step: ViewStep) -> int:
        size = step.size * (
            _unknown_stride(step.size, assumed) if step.stride is None else step.stride
        )
        amount = step.amount
        return size * (
            amount if isinstance(amount, int) else divisor(op.operands[amount.position], numbers)
        )

    return reached(value_alignment(source, numbers, assumed), begin.steps, of, gcd) or 1


def _unknown_stride(element: int, assumed: int) -> int:
    """What divides a stride that is not known, in elements."""
    return max(assumed // element, 1)


def _from_base(memory: Value, base: int) -> int:
    """Bytes that divide the address of the first element where the buffer's own address, which is
    what `llvm.align` and `alignment` are about, is a multiple of `base`.

    memref<?xf16, strided<[1], offset: 6>>, 16   -->   gcd(16, 12) = 4
    """
    offset = offset_bytes(memory)
    return 1 if offset is None else gcd(base, offset)


def offset_bytes(memory: Value) -> int | None:
    """Bytes from a memref's buffer to its first element, None where that is dynamic."""
    try:
        _, offset = strides_and_offset(ir.MemRefType(memory.type))
        return None if offset is None else offset * memory_layout.element_bytes(memory.type)
    except UnknownLayoutError:
        return None


def _offset(
    memory: Value, indices: Sequence[Value], element: int, numbers: Arithmetic, assumed: int
) -> int:
    """What divides the byte distance of `indices` from the first element."""
    strides, unknown = static_strides(memory), _unknown_stride(element, assumed)
    parts = [
        divisor(index, numbers) * (unknown if stride is None else stride)
        for index, stride in zip(indices, strides, strict=True)
    ]
    return element * gcd(*parts) if parts else 0


def static_strides(memory: Value) -> list[int | None]:
    """The strides of a memref in elements, None for each that is not static."""
    kind = ir.MemRefType(memory.type)
    known = if_known(strides_and_offset, kind)
    return [None] * kind.rank if known is None else known[0]


def argument_alignment(argument: Value) -> int:
    """`llvm.align` on a function argument or a workgroup attribution, 1 if there is none."""
    given = said_of(argument)
    return int(ir.IntegerAttr(given["llvm.align"]).value) or 1 if "llvm.align" in given else 1
