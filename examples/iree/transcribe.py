"""Turns what IREE prints of a dispatch into a kernel of upstream dialects.

    iree-compile matmul.mlir --iree-hal-target-device=cuda --iree-cuda-target=sm_80 \
        --iree-llvmgpu-prefetch-num-stages=0 --compile-to=executable-targets -o /dev/null \
        --mlir-print-ir-after=iree-codegen-resolve-swizzle-hints 2> dump.mlir
    python transcribe.py dump.mlir > sm_80_matmul.mlir

Runs with IREE's own bindings (`pip install iree-base-compiler==3.13.0`). Changed are only the
ops that no other stack knows, everything else is IREE's:

    hal.interface.binding.subspan        an argument of the kernel, {llvm.noalias}
    hal.interface.constant.load          the arguments after them
    hal.interface.workgroup.id[0]        gpu.block_id x, and gpu.grid_dim x for the count
    util.assume.int                      its operand
    func.func, func.return               gpu.func … kernel in a gpu.module, gpu.return
    gpu.known_block_size                 known_block_size

Bindings of a dispatch never overlap when one of them is written, so the arguments may say so.
IREE's MLIR is younger than that of other stacks, so `SPELLINGS` writes some ops the older way.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from iree.compiler import ir

BINDING = "hal.interface.binding.subspan"
ASSUME = "util.assume.int"
CONSTANT = "hal.interface.constant.load"
WORKGROUP_ID = "hal.interface.workgroup.id"
WORKGROUP_COUNT = "hal.interface.workgroup.count"
COMMENT = "// -----//"

# Ops that print differently in MLIR of autumn 2026 (IREE 3.13) and of spring 2026, and a mark
# that IREE's pipeliner leaves.
SPELLINGS = (
    (r" \{__pipelining_first_stage__\}", ""),
    (r"(nvgpu\.device_async_copy .*?, \d+) bypassL1 :", r"\1 {bypassL1} :"),
    (r"(vector\.(?:insert|extract)_strided_slice .*?) (offsets = .*\]) :", r"\1 {\2} :"),
    (r"(nvgpu\.mma\.sync.*?) (mmaShape = \[.*?\]) :", r"\1 {\2} :"),
    (r"(amdgpu\.mfma [^:]*) :", r"\1 blgp = none :"),
    (r"(amdgpu\.dpp .*?)\(unit\)", r"\1"),
    (r"(amdgpu\.dpp .*?) row_mask\((\d+)\)(.*) :", r"\1\3 {row_mask = \2 : i32} :"),
    (r"(amdgpu\.dpp .*?) bound_ctrl\(true\) :", r"\1 {bound_ctrl = true} :"),
    (r"(nvgpu\.device_async_wait .*?) (numGroups = \d+)", r"\1 {\2 : i32}"),
)


def main(path: str) -> None:
    """Print the kernel of the last dispatch in a dump."""
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(last_dump(Path(path).read_text()))
        print(older_spelling(str(transcribed(dispatch_of(module)))))


def last_dump(text: str) -> str:
    """The IR after the last header of `--mlir-print-ir-after`, or all of a file without one."""
    behind = text[text.rindex(COMMENT) :].partition("\n")[2] if COMMENT in text else text
    return behind


def dispatch_of(module: ir.Module) -> ir.Operation:
    """The one function of the dump that has bindings."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "func.func" and any(inner.name == BINDING for inner in body_of(op)):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    (dispatch,) = found
    return dispatch


def body_of(function: ir.Operation) -> list[ir.Operation]:
    """The top-level ops of a function of one block."""
    return [op.operation for op in function.regions[0].blocks[0].operations]


def transcribed(dispatch: ir.Operation) -> ir.Module:
    """The kernel in a gpu.module; takes the body out of `dispatch`."""
    bindings = [op for op in body_of(dispatch) if op.name == BINDING]
    number = {op: ir.IntegerAttr(op.attributes["binding"]).value for op in bindings}
    types = {number[op]: op.results[0].type for op in bindings}
    constants = [op for op in body_of(dispatch) if op.name == CONSTANT]
    arguments = [types[key] for key in sorted(types)]
    attributes = [ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()}) for _ in arguments]
    arguments += [op.results[0].type for op in constants]
    attributes += [ir.DictAttr.get({}) for _ in constants]
    module = ir.Module.create()
    kernels = ir.Operation.create(
        "gpu.module",
        attributes={"sym_name": ir.StringAttr.get("kernels")},
        regions=1,
        ip=ir.InsertionPoint(module.body),
    )
    kernel = ir.Operation.create(
        "gpu.func",
        attributes={
            "sym_name": ir.StringAttr.get(str(dispatch.attributes["sym_name"]).strip('"')),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(arguments, [])),
            "arg_attrs": ir.ArrayAttr.get(attributes),
            "gpu.kernel": ir.UnitAttr.get(),
            "known_block_size": dispatch.attributes["gpu.known_block_size"],
        },
        regions=1,
        ip=ir.InsertionPoint(kernels.regions[0].blocks.append()),
    )
    block = kernel.regions[0].blocks.append(*arguments)
    for op in body_of(dispatch):
        block.append(op)
    for op in bindings:
        place = sorted(types).index(number[op])
        op.results[0].replace_all_uses_with(block.arguments[place])
        op.erase()
    for place, op in enumerate(constants, len(types)):
        op.results[0].replace_all_uses_with(block.arguments[place])
        op.erase()
    for op in [op.operation for op in block.operations]:
        upstream(op)
    return module


def upstream(op: ir.Operation) -> None:
    """Replace one op of IREE's by what upstream has for it."""
    if op.name == ASSUME:
        for known, operand in zip(op.results, op.operands, strict=True):
            known.replace_all_uses_with(operand)
        op.erase()
    elif op.name == WORKGROUP_COUNT:
        replace_by_axis(op, "gpu.grid_dim")
    elif op.name == WORKGROUP_ID:
        replace_by_axis(op, "gpu.block_id")
    elif op.name == "func.return":
        ir.Operation.create("gpu.return", ip=ir.InsertionPoint(op))
        op.erase()


def replace_by_axis(op: ir.Operation, name: str) -> None:
    """The op of the gpu dialect for the dimension of one of IREE's."""
    axis = "xyz"[ir.IntegerAttr(op.attributes["dimension"]).value]
    made = ir.Operation.create(
        name,
        results=[ir.IndexType.get()],
        attributes={"dimension": ir.Attribute.parse(f"#gpu<dim<{axis}>>")},
        ip=ir.InsertionPoint(op),
    )
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()


def older_spelling(text: str) -> str:
    """The module as older parsers read it."""
    for found, written in SPELLINGS:
        text = re.sub(found, written, text)
    return text


if __name__ == "__main__":
    main(sys.argv[1])
