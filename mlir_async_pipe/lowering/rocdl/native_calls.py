"""Calls of ROCm's device libraries that LLVM's back end for AMD does itself.

    llvm.call @__ocml_exp2_f32(%x)          llvm.intr.exp2(%x)
    llvm.call @__ocml_expm1_f32(%x)    -->  llvm.fsub(llvm.intr.exp(%x), 1.0)
    llvm.call @__ockl_get_num_groups(d)     the d-th word of the hidden arguments

MLIR makes nearly every `math` op a call, and a size of the grid too. What the chip has an
instruction for, or LLVM a proven expansion of, needs no library to link. Of f64 LLVM has none, and
of tanh, erf, sin and the like none for any type: these stay calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    constant_value,
    erase,
    has_body,
    integer_attribute,
    made_in,
    set_integer,
    symbol_name,
    terminator,
    walk,
    walk_named,
)
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.facts.flow.region_flow import Varying
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.lowering.rocdl.scalar_bases import use_scalar_bases
from mlir_async_pipe.lowering.scopes.dense_buffers import join_dynamic_globals
from mlir_async_pipe.lowering.split_addresses import (
    AddressedCopies,
    AddressParts,
    OrderOfValues,
    SplitAddress,
    Terms,
    split_all,
    terms_by_depth,
    write_sum,
)
from mlir_async_pipe.vocabulary import Access, accesses

# Bytes into the hidden arguments (code object 5 and newer): the blocks in x, y and z, 32 bits each,
# then the threads of a block in x, y and z, 16 bits each.
_BLOCKS, _THREADS = 0, 12

# From a builder and the call to the value that it stands for, None to leave it.
Writer = Callable[[LlvmBuilder, Any], Any]


def finish(root: Operation, chip: str) -> None:
    """What is done to the LLVM dialect before it becomes code for the chip of that name."""
    for gpu_module in walk_named(root, "gpu.module".__eq__):
        join_dynamic_globals(gpu_module)
    split_for_rocdl(root, chip)
    calls_to_intrinsics(root)


def calls_to_intrinsics(root: Operation) -> None:
    """Replace the calls, and erase the declarations that nobody calls any more."""
    replaced = []
    for op in walk(root):
        name = called(op)
        write = WRITERS.get(name)
        value = None if write is None else write(LlvmBuilder(before(op), op.location), op)
        if value is not None:
            op.results[0].replace_all_uses_with(value)
            replaced.append((op, name))
    erase(op for op, _ in replaced)
    left = {called(op) for op in walk(root)}
    names = {name for _, name in replaced} - left
    erase(op for op in list(walk(root)) if op.name == "llvm.func" and symbol_name(op) in names)


def called(op: Operation) -> str:
    """The name of the function that an op calls directly, "" for another op."""
    if op.name != "llvm.call" or "callee" not in op.attributes:
        return ""
    return str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)


def _intrinsic(name: str, build: LlvmBuilder, call: Operation) -> Value:
    (argument,) = call.operands
    return build.make(f"llvm.intr.{name}", [argument], argument.type)


def _rsqrt(build: LlvmBuilder, call: Operation) -> Value:
    root = _intrinsic("sqrt", build, call)
    return build.binary("llvm.fdiv", _one(build, root.type), root)


def _expm1(build: LlvmBuilder, call: Operation) -> Value:
    power = _intrinsic("exp", build, call)
    return build.binary("llvm.fsub", power, _one(build, power.type))


def _log1p(build: LlvmBuilder, call: Operation) -> Value:
    (argument,) = call.operands
    more = build.binary("llvm.fadd", _one(build, argument.type), argument)
    return build.make("llvm.intr.log", [more], more.type)


def _one(build: LlvmBuilder, kind: ir.Type) -> Value:
    return build.make("llvm.mlir.constant", [], kind, {"value": ir.FloatAttr.get(kind, 1.0)})


def _hidden(first: int, bits: int, build: LlvmBuilder, call: Operation) -> Value | None:
    """The number of a dimension, among the arguments that every launch adds."""
    dimension = constant_value(call.operands[0])
    if dimension is None:
        return None
    context = call.context
    intrinsic = ir.StringAttr.get("llvm.amdgcn.implicitarg.ptr", context)
    none = ir.DenseI32ArrayAttr.get([], context)
    segments = ir.DenseI32ArrayAttr.get([0, 0], context)
    start = build.make(
        "llvm.call_intrinsic",
        [],
        ir.Type.parse("!llvm.ptr<4>", context),
        {"intrin": intrinsic, "op_bundle_sizes": none, "operandSegmentSizes": segments},
    )
    place = build.at(start, first + dimension * bits // 8)
    read = build.make("llvm.load", [place], build.integer(bits))
    return build.cast("llvm.zext", read, call.results[0].type)


# 16 and 32 bits: LLVM expands them with the instructions of the chip, to the same precision.
_SHORT = ("f32", "f16")
WRITERS: dict[str, Writer] = {
    **{
        f"__ocml_{name}_{kind}": partial(_intrinsic, name)
        for name in ("exp", "exp2", "log", "log2", "log10")
        for kind in _SHORT
    },
    **{
        f"__ocml_{name}_{kind}": partial(_intrinsic, name)
        for name in ("floor", "ceil", "sqrt")
        for kind in (*_SHORT, "f64")
    },
    **{f"__ocml_rsqrt_{kind}": _rsqrt for kind in (*_SHORT, "f64")},
    **{f"__ocml_expm1_{kind}": _expm1 for kind in _SHORT},
    **{f"__ocml_log1p_{kind}": _log1p for kind in _SHORT},
    "__ockl_get_num_groups": partial(_hidden, _BLOCKS, 32),
    "__ockl_get_local_size": partial(_hidden, _THREADS, 16),
}


# Copies to LDS take few addresses there, each from a scalar register of its own.
#
#     copy %p, %tile + %row + 8192 * %slot               %at = %tile + %row              before the loop
#     copy %q, %tile + %row + 8192 * %slot + 1024   -->  copy %p, %at + 8192 * %slot
#                                                        copy %q - 1024, the same {offset = 1024}
#
# The address in LDS is one number for a wave and stands in M0: each copy with an address of its own
# takes an instruction that writes M0, and often another one that waits for it. The constant of the
# instruction is added to both addresses, so the global one begins as much earlier, which
# `split_addresses` adds once before a loop. How large such a constant may be stands in `chips`.
#
# What stands still of an address is hidden from LLVM, which would make all of them out of one
# register: two additions and a move for each, where one addition that writes M0 is enough.

AMD = AddressedCopies("s", scalar=True, immediate=False)
# The constant that is added to both addresses.
_CONSTANT = "offset"


@dataclass(frozen=True)
class _NativeCopy:
    """A wave's copy, what it writes in LDS, and where that is."""

    op: Operation
    written: Access
    address: SplitAddress

    @property
    def constant(self) -> int:
        """The constant bytes of the address."""
        return self.address.offset.constant


def split_for_rocdl(root: Operation, chip: str) -> None:
    """Take the addresses of the LLVM dialect below `root` apart, for the AMD chip of that name."""
    form = CHIPS[chip].copy_form
    for op in list(walk_named(root, "llvm.func".__eq__, inside=False)):
        if form is not None and has_body(op):
            share_lds_addresses(op, form.largest_constant)
            use_scalar_bases(op)
    split_all(root, AMD)


def share_lds_addresses(function: Operation, largest: int) -> None:
    """Give the copies of each block of a function as few addresses in LDS as constants of 0 to
    `largest` allow."""
    varying, order = Varying(function.regions[0]), OrderOfValues(function)
    windows = [window for copies in _by_address(function) for window in _windows(copies, largest)]
    for window in windows:
        first, block = window[0], window[0].op.block
        parts = terms_by_depth(first.address, block, varying, order)
        still = tuple(term for part in parts[:-1] for term in part)
        for copy in window:
            _advance(copy, copy.constant - first.constant)
        entry = _entry(first, still, varying) if varying.nest(block) and parts[-1] else None
        if entry is not None:
            made = _standing(first, still, entry)
            for copy in window:
                build = LlvmBuilder(before(copy.op), copy.op.location)
                moved = build.at(made, write_sum(build, parts[-1]))
                copy.op.operands[copy.written.memory_operand] = moved


def _by_address(function: Operation) -> list[list[_NativeCopy]]:
    """The copies of a block whose addresses in LDS differ by constants."""
    parts = AddressParts()
    found: dict[Any, list[_NativeCopy]] = defaultdict(list)
    for op in walk(function):
        for written in accesses(op):
            # What has used its constant stays as it is.
            if written.over_lanes and integer_attribute(op, _CONSTANT) == 0:
                address = parts.address(written.memory)
                key = (op.block, address.base, str(address.kind), address.offset.terms)
                found[key].append(_NativeCopy(op, written, address))
    return list(found.values())


def _windows(copies: list[_NativeCopy], largest: int) -> list[list[_NativeCopy]]:
    """The copies that can share an address, each group with the lowest one first."""
    found: list[list[_NativeCopy]] = []
    for copy in sorted(copies, key=lambda copy: copy.constant):
        if not found or copy.constant - found[-1][0].constant > largest:
            found.append([])
        found[-1].append(copy)
    return found


def _entry(copy: _NativeCopy, still: Terms, varying: Varying) -> Operation | None:
    """The branch into the innermost loop around a copy, if there is one only and all that stands
    still of the address is known there."""
    loop = varying.nest(copy.op.block)[-1]
    values = [copy.address.base, *(symbol for symbol, _ in still)]
    if any(loop in varying.nest(made_in(value)[1]) for value in values):
        return None
    ends = [
        end
        for end in map(terminator, loop.region.blocks)
        if loop in list(end.successors) and loop not in varying.nest(end.block)
    ]
    return ends[0] if len(ends) == 1 else None


def _advance(copy: _NativeCopy, constant: int) -> None:
    """Let the instruction add a constant, and both addresses begin that much earlier."""
    if not constant:
        return
    build = LlvmBuilder(before(copy.op), copy.op.location)
    for access in accesses(copy.op):
        copy.op.operands[access.memory_operand] = build.at(access.memory, -constant)
    set_integer(copy.op, _CONSTANT, constant, 32)


def _standing(copy: _NativeCopy, still: Terms, entry: Operation) -> Value:
    """What stands still of a copy's address in LDS, in a scalar register."""
    build = LlvmBuilder(before(entry), copy.op.location)
    base, kind = copy.address.base, copy.address.kind
    if base.type != kind:
        base = build.cast("llvm.addrspacecast", base, kind)
    total = write_sum(build, still, constant=copy.constant)
    offset = build.cast("llvm.trunc", total, build.integer(32))
    return build.at(base, build.hidden(offset, AMD.register))
