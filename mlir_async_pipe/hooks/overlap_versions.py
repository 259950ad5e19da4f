"""Gives a kernel two versions: one for arrays that lie apart, and its own for arrays that overlap.

    ^entry(%a, %b):
      %apart = end of %a <= start of %b, or end of %b <= start of %a
      cf.cond_br %apart, ^pipelined(%a, %b), ^plain(%a, %b)

The test is part of the kernel: whatever a launch hands over later, it runs the version that is right for
it. Only pairs are compared of which one array is written. An array reaches from its first element to its last;
what a kernel touches outside of its arrays, nobody compares.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    as_kind,
    attribute,
    before,
    create,
    functions,
    is_function,
    is_kernel,
    operations,
    symbol_name,
    walk,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import address_of
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.memory_roots import (
    GIVEN,
    root_of,
    space_of_type,
    uses_of_memory,
)
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import slot_zero, versions_of
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.memory_layout import element_bytes, if_known
from mlir_async_pipe.vocabulary.memory_names import global_name

ARGUMENT_ATTRIBUTES = "arg_attrs"
# Pairs of a kernel's arguments, by number.
Pairs = list[tuple[int, int]]


def pairs_to_compare(module: Any) -> dict[str, Pairs]:
    """For each kernel the arrays that must lie apart: those of which one is written.

    A kernel is left out whose memory is not all in arrays that it is given with their sizes: a pointer, or a
    number that is an address, may lead into any of them.
    """
    for op in walk(module):
        roots = (root_of(access.memory) for access in accesses(op))
        if any(root.kind in GIVEN and root.kind != "argument" for root in roots):
            return {}
    found = {symbol_name(f): _pairs(f) for f in functions(module) if is_kernel(f)}
    return {name: pairs for name, pairs in found.items() if pairs}


def _pairs(kernel: Operation) -> Pairs:
    arguments = list(kernel.regions[0].blocks[0].arguments)
    arrays = [number for number, argument in enumerate(arguments) if _is_array(argument)]
    if any(
        _may_hold_addresses(argument) for n, argument in enumerate(arguments) if n not in arrays
    ):
        return []
    written = {number for number in arrays if not _is_only_read(arguments[number])}
    return [pair for pair in combinations(arrays, 2) if written.intersection(pair)]


def _is_only_read(array: Value) -> bool:
    """Whether nobody can write to an array through this argument."""
    return not any(
        named is None
        or any(a.writes and a.memory_operand == use.operand_number for a in accesses(use.owner))
        for use, named in uses_of_memory(array)
    )


def _is_array(argument: Value) -> bool:
    """Whether the extent of what an argument names can be computed."""
    if as_kind(ir.MemRefType, argument.type) is None or space_of_type(argument.type) != "global":
        return False
    return bool(if_known(element_bytes, argument.type))


def _may_hold_addresses(argument: Value) -> bool:
    return not isinstance(argument.type, (ir.IntegerType, ir.IndexType, ir.FloatType))


def add_plain_versions(module: Any, plain: Any, pairs: dict[str, Pairs]) -> None:
    """Let the kernels of `module`, which take the arrays of `pairs` to lie apart, begin with the test, and go on as
    those of `plain` where they do not. `plain` is used up."""
    originals = {symbol_name(function): function for function in functions(plain)}
    for kernel in functions(module):
        name = symbol_name(kernel)
        if name in pairs:
            # Of the joined kernel nothing is known: what holds in one version does not hold in the other.
            original = originals[name]
            if ARGUMENT_ATTRIBUTES in original.attributes:
                kernel.attributes[ARGUMENT_ATTRIBUTES] = original.attributes[ARGUMENT_ATTRIBUTES]
            elif ARGUMENT_ATTRIBUTES in kernel.attributes:
                del kernel.attributes[ARGUMENT_ATTRIBUTES]
            _share_memory(kernel.parent, original)
            _add_missing(kernel.parent, original)
            _join(kernel, original, pairs[name])


def _share_memory(table: Any, original: Operation) -> None:
    """Let a kernel keep in the first slots of the pipelined one what it kept in globals of its own:
    only one of them runs."""
    declared = {symbol_name(op): op for op in operations(table.regions[0].blocks[0])}
    for op in walk_named(original, lambda name: name == "memref.get_global"):
        name = global_name(op) or ""
        slots = declared.get(versions_of(name))
        if name in declared or slots is None or slots.name != "memref.global":
            continue
        whole = ir.MemRefType(ir.TypeAttr(slots.attributes["type"]).value)
        kind = ir.MemRefType(op.results[0].type)
        if list(whole.shape[1:]) == list(kind.shape):
            ip = before(op)
            memory = address_of(versions_of(name), whole, ip, op.location)
            op.results[0].replace_all_uses_with(slot_zero(memory, kind, tuple(kind.shape), ip))
            op.erase()


def _add_missing(table: Any, kernel: Operation) -> None:
    """Copy the symbols that a kernel uses and the pipelined one does not."""
    block = table.regions[0].blocks[0]
    known = {symbol_name(op) for op in operations(block)}
    used = {global_name(op) for op in walk(kernel)}
    for op in operations(kernel.parent.regions[0].blocks[0]):
        name = symbol_name(op)
        if name and name not in known and (name in used or is_function(op)):
            op.clone(ip=ir.InsertionPoint.at_block_begin(block))


def _join(kernel: Operation, original: Operation, pairs: Pairs) -> None:
    region = kernel.regions[0]
    pipelined = region.blocks[0]
    moved = list(original.regions[0].blocks)
    for block in moved:
        block.append_to(region)
    kinds = [argument.type for argument in pipelined.arguments]
    location = kernel.location
    entry = ir.Block.create_at_start(region, kinds, [location] * len(kinds))
    ip = ir.InsertionPoint(entry)
    arguments = list(entry.arguments)
    for version in (pipelined, moved[0]):
        for argument, given in zip(arguments, list(version.arguments), strict=True):
            given.replace_all_uses_with(argument)
    write = IntegerWriter(ip, location)
    ends = {n: _extent(arguments[n], write) for n in sorted({n for pair in pairs for n in pair})}
    apart: Value | None = None
    for a, b in pairs:
        above = write.compare("ule", ends[a][1], ends[b][0])
        below = write.compare("ule", ends[b][1], ends[a][0])
        both = write.binary("arith.ori", above, below)
        apart = both if apart is None else write.binary("arith.andi", apart, both)
    assert apart is not None
    segments = attribute(f"array<i32: 1, {len(kinds)}, {len(kinds)}>", kernel.context)
    create(
        "cf.cond_br",
        [apart, *arguments, *arguments],
        attributes={"operandSegmentSizes": segments},
        successors=[pipelined, moved[0]],
        ip=ip,
        loc=location,
    )


def _extent(array: Value, write: IntegerWriter) -> tuple[Value, Value]:
    """The addresses of the first byte of an array and of the byte after its last; strides may be negative."""
    offset, sizes, strides = write.layout(array)
    first = last = offset
    zero = write.constant(0)
    for size, stride in zip(sizes, strides, strict=True):
        reach = write.multiply(write.subtract(size, 1), stride)
        first = write.add(first, write.smallest(reach, zero))
        last = write.add(last, write.largest(reach, zero))
    base = write.cast("memref.extract_aligned_pointer_as_index", array, write.index)
    width = element_bytes(array.type)
    start = write.add(base, write.multiply(first, width))
    return start, write.add(base, write.multiply(write.add(last, 1), width))
