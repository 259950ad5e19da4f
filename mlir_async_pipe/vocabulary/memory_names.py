"""Ops that name memory and touch none: allocations, globals, views, pointers made of others.

memref.subview       a window: another first element
memref.expand_shape  regrouped: the same elements in other dimensions
memref.cast          the same memory under another type

A workgroup global of no bytes is another name of the block's dynamic shared memory, as is
gpu.dynamic_shared_memory: all of them begin at one address.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    SYMBOL_TABLES,
    Operation,
    Value,
    as_kind,
    defining_op,
    enclosing,
    function_type,
    integer_attribute,
    is_function,
    operations,
    symbol_name,
    type_text,
    walk_named,
)

# What the author of a loop, an allocation or an argument vouches for: nobody else's accesses meet it.
INDEPENDENT = "async_pipe.independent"
# What LLVM says of an argument: no other pointer reaches its memory; nobody writes through it.
NOALIAS, READONLY = "llvm.noalias", "llvm.readonly"


def is_set(attributes: Any, name: str) -> bool:
    """Whether an attribute that says something by being there is there, and not `false`."""
    return name in attributes and str(attributes[name]) != "false"


def said_of(argument: Value) -> Any:
    """The attributes that a function gives an argument, or a workgroup attribution: an empty
    mapping where it gives none."""
    block, number = ir.BlockArgument(argument).owner, ir.BlockArgument(argument).arg_number
    function, name = block.owner.operation, "arg_attrs"
    if not is_function(function) or block != function.regions[0].blocks[0]:
        return {}
    if function.name == "gpu.func" and number >= (inputs := len(function_type(function).inputs)):
        name, number = "workgroup_attrib_attrs", number - inputs
    entries = ir.ArrayAttr(function.attributes[name]) if name in function.attributes else ()
    return ir.DictAttr(entries[number]) if number < len(entries) else {}


# Memory of the thread that runs the op, unless its type names another space; an argument that is
# passed by value is a copy of its own as well.
THREAD_ALLOCATION_OPS = ("memref.alloca", "llvm.alloca")
ALLOCATION_OPS = ("memref.alloc", "gpu.alloc", *THREAD_ALLOCATION_OPS)
BY_VALUE = "llvm.byval"
# Ends the life of an allocation, and writes nothing.
DEALLOCATION_OPS = ("memref.dealloc", "gpu.dealloc")
DYNAMIC_MEMORY = "gpu.dynamic_shared_memory"

# Ops that take the address of a global, and the attribute that names it.
GLOBAL_ADDRESS_OPS = {"memref.get_global": "name", "llvm.mlir.addressof": "global_name"}

# Memory that a dispatch is given, as arguments are, by number instead of by position.
BINDING_OPS = ("hal.interface.binding.subspan",)


def binding_number(op: Any) -> int | None:
    """The number of the binding whose memory an op gives, None for all other ops."""
    return integer_attribute(op, "binding") if op.name in BINDING_OPS else None


GLOBAL_OPS = ("memref.global", "llvm.mlir.global")
# The size of a memory (operand 0) along a dimension (operand 1).
SIZE_OPS = ("memref.dim",)

# What an op shows of the memory of operand 0: some of it by offsets, sizes and strides, the bytes
# from one of them on, another layout from its aligned pointer on, all of it.
Shown = Literal["window", "bytes", "layout", "regrouped", "permuted", "same"]
VIEW_OPS: dict[str, Shown] = {
    "memref.subview": "window",
    "memref.view": "bytes",
    "memref.reinterpret_cast": "layout",
    "memref.collapse_shape": "regrouped",
    "memref.expand_shape": "regrouped",
    "memref.transpose": "permuted",
    "memref.cast": "same",
    "memref.memory_space_cast": "same",
    "memref.assume_alignment": "same",
    "amdgpu.fat_raw_buffer_cast": "same",
}
# Makes a buffer resource of AMD: a pointer, and what accesses through it may reach; and what these accesses begin with.
MAKES_RESOURCE, RESOURCE_ACCESSES = "rocdl.make.buffer.rsrc", "rocdl.raw.ptr.buffer."
# Pointers that stay inside the memory that operand 0 points to.
POINTER_STEPS: dict[str, Shown] = {
    "llvm.getelementptr": "window",
    "llvm.addrspacecast": "same",
    "llvm.bitcast": "same",
    MAKES_RESOURCE: "same",
}
# What takes a pointer out of a value that holds it, as an argument may be one: an address, or the
# descriptor of a memref.
POINTER_OF_ADDRESS, MEMBER_TAKEN = "llvm.inttoptr", "llvm.extractvalue"
ADDRESSES_IN = (POINTER_OF_ADDRESS, MEMBER_TAKEN)
# A struct or array (operand 0) with the member at `position` replaced.
MEMBER_PUT = "llvm.insertvalue"
PARTS = frozenset({MEMBER_PUT, MEMBER_TAKEN})
# A vector with one element replaced, and its bits taken for those of a number.
ELEMENT_PUT, BITS_TAKEN = "llvm.insertelement", "llvm.bitcast"
# An address as an integer; that of a memref is where its allocation begins.
ADDRESS_OF_MEMREF = "memref.extract_aligned_pointer_as_index"
ADDRESS_OPS: dict[str, Shown] = {ADDRESS_OF_MEMREF: "window", "llvm.ptrtoint": "same"}


def global_name(op: Any) -> str | None:
    """The name of the global whose address an op takes, None for all other ops."""
    attribute = GLOBAL_ADDRESS_OPS.get(op.name)
    return None if attribute is None else str(ir.FlatSymbolRefAttr(op.attributes[attribute]).value)


def taken_member(op: Any) -> Any | None:
    """The value that an op takes out of a struct or array into which it was put before; None where
    that cannot be seen.

    %s = llvm.insertvalue %p, %t[0]      %q = llvm.extractvalue %s[0]      %q is %p
    """
    return member_of(op.operands[0], position_of(op)).put if op.name == MEMBER_TAKEN else None


def position_of(op: Any) -> tuple[int, ...]:
    """Which member of a struct or array an op takes or puts, from the outside in."""
    return tuple(ir.DenseI64ArrayAttr(op.attributes["position"]))


class Member(NamedTuple):
    """What stands at `position` of `whole`; the value that was `put` there, if that is seen."""

    whole: Any
    position: tuple[int, ...]
    put: Any | None = None


def member_of(whole: Any, position: tuple[int, ...]) -> Member:
    """The member of a struct or array, followed through the ops that put others beside it, and through structs
    within structs.

    %s = llvm.insertvalue %p, %t[1, 0]     [1, 1] of %s is [1, 1] of %t
    %u = llvm.extractvalue %s[1]           [0] of %u is [1, 0] of %s, which is %p
    """
    made = defining_op(whole)
    while made is not None and made.name in (MEMBER_PUT, MEMBER_TAKEN):
        at = position_of(made)
        if made.name == MEMBER_TAKEN:
            whole, position = made.operands[0], (*at, *position)
        elif at == position:
            return Member(whole, position, made.operands[1])
        elif position[: len(at)] == at:
            whole, position = made.operands[1], position[len(at) :]
        elif at[: len(position)] == position:
            # A part of what is asked for.
            break
        else:
            whole = made.operands[0]
        made = defining_op(whole)
    return Member(whole, position)


MEMORY_NAMES = frozenset((*ALLOCATION_OPS, *GLOBAL_ADDRESS_OPS, DYNAMIC_MEMORY))


def names_memory(op: Any) -> bool:
    """Whether an op allocates memory, or takes the address of what is there from the start."""
    return op.name in MEMORY_NAMES


def is_dynamic_memory(op: Any) -> bool:
    """Whether an op gives the block's dynamic shared memory, whose bytes the launch decides."""
    if op.name == "memref.get_global":
        kind = op.results[0].type
        return in_workgroup_memory(kind) and 0 in ir.MemRefType(kind).shape
    if op.name == "llvm.mlir.addressof":
        declared = declaration_of(op) if in_workgroup_memory(op.results[0].type) else None
        return declared is not None and is_dynamic_global(declared)
    return bool(op.name == DYNAMIC_MEMORY)


def is_dynamic_global(declared: Any) -> bool:
    """Whether a workgroup global of LLVM has no bytes (CUDA's `extern __shared__ float x[]`)."""
    if declared.name != "llvm.mlir.global" or integer_attribute(declared, "addr_space") != 3:
        return False
    return _NO_BYTES.match(str(declared.attributes["global_type"])) is not None


_NO_BYTES = re.compile(r"!llvm\.array<(\d+ x array<)*0 x ")


def has_initial_values(declared: Any) -> bool:
    """Whether a global begins with values, zeros among them. Workgroup memory never does: it holds
    whatever it held before."""
    if declared.name == "memref.global":
        name = "initial_value"
        return name in declared.attributes and str(declared.attributes[name]) != "unit"
    if "value" in declared.attributes:
        return True
    ends = [operations(block)[-1] for region in declared.regions for block in region.blocks]
    given = [defining_op(value) for end in ends for value in end.operands]
    return any(op is None or op.name not in _NO_VALUES for op in given)


_NO_VALUES = ("llvm.mlir.undef", "llvm.mlir.poison")


def lost_values(root: Operation) -> list[Operation]:
    """The workgroup globals below `root` that are declared with values."""
    return [op for op in walk_named(root, GLOBAL_OPS.__contains__) if _loses_values(op)]


def _loses_values(declared: Operation) -> bool:
    if declared.name == "memref.global":
        workgroup = in_workgroup_memory(ir.TypeAttr(declared.attributes["type"]).value)
    else:
        workgroup = integer_attribute(declared, "addr_space") == 3
    return workgroup and has_initial_values(declared)


def in_workgroup_memory(kind: Any) -> bool:
    """Whether a memref or pointer type names the memory that the threads of a block share."""
    memref = as_kind(ir.MemRefType, kind)
    if memref is None:
        return type_text(kind) == "!llvm.ptr<3>"
    space = str(memref.memory_space or "")
    return "workgroup" in space or space.split(":")[0].strip() == "3"


def declaration_of(op: Any) -> Operation | None:
    """The global whose address an op takes, if its symbol table has it."""
    name, table = global_name(op), enclosing(op, SYMBOL_TABLES)
    for declared in operations(table.regions[0].blocks[0]) if name and table else ():
        if declared.name in GLOBAL_OPS and symbol_name(declared) == name:
            return declared
    return None
