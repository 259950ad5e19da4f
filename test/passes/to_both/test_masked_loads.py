"""What a mask leaves out of a load is the pass-through in the emitted code, and is not read.

Covers: lowering/scopes/masked_loads.py
"""

from __future__ import annotations

import re

import pytest

import mlir_async_pipe
from mlir_async_pipe.bindings import ir, new_context

A = "memref<1024xf16>"
MASKED = f"vector.maskedload %A[%at], %m, %z : {A}, vector<8xi1>, vector<8xf16> into vector<8xf16>"


def lines_of(body: str, target: str, kind: str = "f16") -> list[str]:
    """The loads and stores of global memory that a kernel on arrays of 1024 elements becomes."""
    given = f"memref<1024x{kind}> {{llvm.align = 16 : i64}}"
    text = f"""module attributes {{gpu.container_module}} {{ gpu.module @m {{
      gpu.func @k(%A : {given}, %B : {given}) kernel {{
        %t = gpu.thread_id x
        %c1 = arith.constant 1 : index
        %c3 = arith.constant 3 : index
        %c8 = arith.constant 8 : index
        %at = arith.muli %t, %c8 : index
        %f0 = arith.constant 0.0 : f16
        %z = arith.constant dense<0.0> : vector<8xf16>
        {body}
        gpu.return }} }} }}"""
    with new_context():
        emit = "ptx" if target.startswith("nvvm") else "isa"
        code = mlir_async_pipe.lower(ir.Module.parse(text), target=target, emit=emit).text
    pattern = r"\b(?:ld\.global|st\.global|global_load|global_store)\S*.*"
    return re.findall(pattern, code)


def bytes_read(lines: list[str]) -> int:
    """Bytes that the loads of PTX or ISA read."""
    total = 0
    for line in lines:
        if found := re.match(r"ld\.global\S*?(?:\.v(\d))?\.b(\d+)", line):
            total += int(found[1] or 1) * int(found[2]) // 8
        elif found := re.match(r"global_load_(ushort|dword(?:x(\d))?|\w+)", line):
            total += 2 if found[1] in ("ushort", "short_d16", "u16") else 4 * int(found[2] or 1)
    return total


CONSTANT = {
    "constant_mask": f"%m = vector.constant_mask [5] : vector<8xi1>\n%v = {MASKED}",
    "constant": "%m = arith.constant dense<[true, true, true, true, true, false, false, false]> "
    f": vector<8xi1>\n%v = {MASKED}",
    "transfer": "%m = vector.constant_mask [5] : vector<8xi1>\n%v = vector.transfer_read %A[%at], "
    f"%f0, %m {{in_bounds = [true]}} : {A}, vector<8xf16>",
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx942"])
@pytest.mark.parametrize("load", CONSTANT.values(), ids=CONSTANT)
def test_five_of_eight_elements_are_read_and_three_are_zero(load: str, target: str) -> None:
    lines = lines_of(f"{load}\nvector.store %v, %B[%at] : {A}, vector<8xf16>", target)
    assert bytes_read(lines) == 10
    if target.startswith("nvvm"):
        assert re.search(r"st\.global\.v4\.b32 .*, 0\}", lines[-1])


def test_wide_parts_of_a_mask_are_read_at_once() -> None:
    lines = lines_of(
        f"{CONSTANT['constant']}\nvector.store %v, %B[%at] : {A}, vector<8xf16>", "nvvm:sm_80"
    )
    assert [line.split()[0] for line in lines[:2]] == ["ld.global.v2.b32", "ld.global.b16"]


def test_a_mask_with_holes_reads_no_hole() -> None:
    mask = "[true, false, true, true, false, false, false, true]"
    body = f"%m = arith.constant dense<{mask}> : vector<8xi1>\n%v = {MASKED}"
    lines = lines_of(f"{body}\nvector.store %v, %B[%at] : {A}, vector<8xf16>", "nvvm:sm_80")
    assert bytes_read(lines) == 8


@pytest.mark.parametrize(("length", "kind", "unit"), [(8, "f16", 16), (128, "i8", 8)])
def test_a_mask_that_becomes_constant_by_unrolling_keeps_its_zeros(
    length: int, kind: str, unit: int
) -> None:
    """LLVM unrolls the loop; each element is then read under its own bit of the mask."""
    array, row = f"memref<1024x{kind}>", f"vector<{length}x{kind}>"
    body = f"""%zeros = arith.constant dense<0{".0" * (kind == "f16")}> : {row}
    scf.for %j = %c1 to %c3 step %c1 {{
      %n = arith.muli %j, %c3 : index
      %m = vector.create_mask %n : vector<{length}xi1>
      %size = arith.constant {length} : index
      %o = arith.muli %j, %size : index
      %v = vector.maskedload %A[%o], %m, %zeros
        : {array}, vector<{length}xi1>, {row} into {row}
      vector.store %v, %B[%o] : {array}, {row}
    }}"""
    lines = lines_of(body, "nvvm:sm_80", kind)
    loads = [line for line in lines if line.startswith("ld.")]
    assert loads
    assert all(line.startswith(f"ld.global.b{unit}") for line in loads)
