"""Inline assembly as calls of functions that hold its instructions as ops.

    llvm.inline_asm has_side_effects                   llvm.call @asm_0(%to, %from, %p)
      "@$2 cp.async.cg.shared.global [$0], [$1], 16;"
      "r,l,b" %to, %from, %p                     -->   llvm.func private @asm_0(%0: i32, %1: i64, %2: i1) {
                                                         llvm.cond_br %2, …
                                                         nvvm.cp.async.shared.global …

Only assembly of which each instruction has a row (`instructions`) is raised. Any other stays: it may do
anything, and the checker says so.
"""

from __future__ import annotations

import re
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    SYMBOL_TABLES,
    Operation,
    before,
    clone,
    constant_value,
    create,
    defining_op,
    enclosing,
    erase,
    last_of,
    operations,
    raw,
    symbol_name,
    type_text,
    walk_named,
)
from mlir_async_pipe.facts.values.same_values import register_of
from mlir_async_pipe.ptx.function_writer import FunctionWriter, UnreadError, Value, promoted
from mlir_async_pipe.ptx.raise_ptx import PtxBody, decided_predicates, declare_registers
from mlir_async_pipe.ptx.syntax import Instruction, Register, read_assembly
from mlir_async_pipe.session.diagnostics import InputError, Place
from mlir_async_pipe.vocabulary.control_flow import ASSEMBLY
from mlir_async_pipe.vocabulary.memory_names import BITS_TAKEN, MEMBER_PUT
from mlir_async_pipe.vocabulary.op_table import INLINE_ASSEMBLY
from mlir_async_pipe.vocabulary.products import UNDEFINED, is_assembled, is_register_of_sums
from mlir_async_pipe.vocabulary.pure_ops import has_effects

# The type of a register of each constraint (NVPTX, inline assembly constraints).
_REGISTERS = {"b": "pred", "c": "b16", "h": "b16", "r": "b32", "l": "b64", "q": "b128", "f": "f32", "d": "f64"}  # fmt: skip
# Operands whose constant, if they are one, the ops are written for: numbers in the text, and predicates.
_WRITTEN_OUT = ("n", "i", "b")
_KINDS = re.compile(r"!llvm\.ptr(?:<\d+>)?|i\d+|b?f\d+|vector<2xb?f16>|vector<1x(?:i32|f32)>")


def raise_assembly(root: Operation) -> int:
    """Raise the inline assembly of all functions below `root`; how many there were."""
    made: dict[tuple[Any, ...], Operation | None] = {}
    raised = 0
    for op in walk_named(root, INLINE_ASSEMBLY.__eq__):
        table = enclosing(op, SYMBOL_TABLES)
        if table is None or not has_effects(op) or is_assembled(op):
            continue
        _take_registers(op)
        key = (str(table.name), *_key(op))
        if key not in made:
            made[key] = _write(op, table, f"async_pipe_asm_{len(made)}")
        function = made[key]
        if function is not None:
            _put(op, function)
            raised += 1
    for function in filter(None, made.values()):
        if _is_straight(function):
            erase([function])
    return raised


def _take_registers(op: Operation) -> None:
    """An assembly is given registers, whatever type their bits are taken for last: no thread writes one for that."""
    for number, value in enumerate(op.operands):
        register = register_of(value)
        if register != value and _KINDS.fullmatch(type_text(register.type)):
            op.operands[number] = register


def _key(op: Operation) -> tuple[Any, ...]:
    text, constraints = (
        str(ir.StringAttr(op.attributes[name]).value) for name in ("asm_string", "constraints")
    )
    given = zip(_constraints(constraints)[1], op.operands, strict=False)
    numbers = tuple(constant_value(value) if of in _WRITTEN_OUT else None for of, value in given)
    types = tuple(type_text(value.type) for value in (*op.operands, *op.results))
    return text, constraints, numbers, types


def _write(op: Operation, table: Operation, name: str) -> Operation | None:
    """The function of an assembly, added to the symbol table around it; None if it is not known, or these bindings
    have other ops."""
    try:
        module = promoted(_function(op, name), op.context)
    except (UnreadError, InputError, ir.MLIRError):
        return None
    (function,) = operations(module.body)
    first = operations(table.regions[0].blocks[0])[0]
    return raw(function.clone(ip=before(first)))


def _is_straight(function: Operation) -> bool:
    """Whether a function has no branches: then its ops stand in the place of the assembly."""
    return len(list(function.regions[0].blocks)) == 1


def _put(op: Operation, function: Operation) -> None:
    # Triton writes that there is no result as a result of no value.
    ip, results = before(op), [one for one in op.results if type_text(one.type) != "!llvm.void"]
    if _is_straight(function):
        block = function.regions[0].blocks[0]
        mapping = dict(zip(block.arguments, op.operands, strict=True))
        *inner, end = operations(block)
        for one in inner:
            made = clone(one, mapping, ip)
            made.location = op.location
            _lift(made)
        values = [mapping.get(value, value) for value in end.operands]
    else:
        attributes = {
            "callee": ir.FlatSymbolRefAttr.get(symbol_name(function), op.context),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(op.operands), 0], op.context),
            "op_bundle_sizes": ir.DenseI32ArrayAttr.get([], op.context),
        }
        kinds = [value.type for value in results]
        call = create("llvm.call", list(op.operands), kinds, attributes, ip=ip, loc=op.location)
        values = list(call.results)
    for old, new in zip(results, values, strict=True):
        old.replace_all_uses_with(new)
    erase([op])


def _lift(op: Operation) -> None:
    """Put a register among those of a product where it was computed: there its thread writes it, and a fence
    before the product orders that.

    %x = llvm.fmul …; nvvm.wgmma.fence.aligned; %s = llvm.insertvalue %x, …; nvvm.wgmma.mma_async %s
    """
    put = op.name == MEMBER_PUT and not is_register_of_sums(op.operands[1])
    if not (op.name in UNDEFINED or op.name == BITS_TAKEN or put):
        return
    block = op.operation.block
    made = [one for one in map(defining_op, op.operands) if one is not None and one.block == block]
    first = block.operations[0]
    if made:
        op.move_after(last_of(made))
    elif first.operation != op:
        op.move_before(first)


def _function(op: Operation, name: str) -> str:
    text, constraints, _, _ = _key(op)
    outputs, inputs = _constraints(constraints)
    given = list(op.operands)
    results = _result_types(op, len(outputs))
    if len(inputs) != len(given) or any("*" in one for one in (*outputs, *inputs)):
        raise UnreadError
    registers = {f"${n}": _register(one.lstrip("=&")) for n, one in enumerate(outputs)}
    starts: list[tuple[str, int]] = []
    decided: dict[str, bool] = {}
    for n, one in enumerate(inputs):
        number = f"${len(outputs) + n}"
        if one in ("n", "i"):
            value = constant_value(given[n])
            if value is None:
                raise UnreadError
            text = re.sub(rf"\{number}\b", str(value), text)
        elif one.isdigit():
            # The register of an output begins as this input, whatever number the text calls it by.
            text = re.sub(rf"\{number}\b", f"${one}", text)
            starts.append((f"${one}", n))
        else:
            registers[number] = _register(one)
            starts.append((number, n))
            value = constant_value(given[n]) if one == "b" else None
            if value is not None:
                decided[number] = bool(value)
    kernel = read_assembly(_plain(text), registers, Place.of(op))
    types = [type_text(value.type) for value in given]
    if not all(map(_KINDS.fullmatch, (*types, *results))):
        raise UnreadError
    arguments = [Value(f"%p{n}", kind) for n, kind in enumerate(types)]
    decided |= decided_predicates(kernel)
    straight = all(isinstance(one, Instruction) and one.guard is None for one in kernel.body)
    named = {one.name: one for one in arguments}
    w = FunctionWriter(kernel, named, {}, decided=decided, hands_out=straight)
    declare_registers(w)
    for register, n in starts:
        w.assign(Register(register), arguments[n])
    PtxBody(w, inside=True).write()
    _return(w, [f"${n}" for n in range(len(outputs))], results, op)
    kind = type_text(op.results[0].type) if results else "void"
    return w.function(name, kind, "linkage = #llvm.linkage<internal>", ASSEMBLY)


def _return(w: FunctionWriter, names: list[str], kinds: list[str], op: Operation) -> None:
    values = [w.read(Register(name), kind) for name, kind in zip(names, kinds, strict=True)]
    if len(values) > 1:
        whole = w.make("llvm.mlir.poison", (), type_text(op.results[0].type))
        for number, value in enumerate(values):
            whole = w.put(whole, value, number)
        values = [whole]
    w.op("llvm.return", values)


def _constraints(text: str) -> tuple[list[str], list[str]]:
    """Outputs and inputs; what is clobbered is left out."""
    each = [one for one in map(str.strip, text.split(",")) if one and one[0] != "~"]
    return [one for one in each if one[0] == "="], [one for one in each if one[0] != "="]


def _register(constraint: str) -> str:
    if constraint not in _REGISTERS:
        raise UnreadError
    return _REGISTERS[constraint]


def _result_types(op: Operation, count: int) -> list[str]:
    kind = type_text(op.results[0].type) if op.results else "!llvm.void"
    if kind == "!llvm.void":
        return []
    if count == 1:
        return [kind]
    inner = re.fullmatch(r"!llvm\.struct<\((.*)\)>", kind)
    found = [one.strip() for one in inner[1].split(",")] if inner else []
    if len(found) != count:
        raise UnreadError
    return ["!llvm." + one if one.startswith("ptr") else one for one in found]


def _plain(text: str) -> str:
    """Assembly as PTX: `$$` is a dollar sign, `${:uid}` a number that makes labels differ."""
    return text.replace("${:uid}", "").replace("$$", "__dollar__")
