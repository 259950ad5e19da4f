"""Workgroup memory begins with no values: globals that are declared with some are refused.

Covers: vocabulary/memory_names.py, lowering/scopes/known_types.py, checker/check_pass.py,
pipeliner/plan/buffer_plan.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_text
from helpers.machine_programs import parse
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.chips.target import CHIPS, Target
from mlir_async_pipe.lowering.nvvm import to_nvvm
from mlir_async_pipe.lowering.rocdl import to_rocdl
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session

SPACE = "#gpu.address_space<workgroup>"
MEMREF = "%s = memref.get_global @g : {kind}\n%v = memref.load %s[%t] : {kind}"
POINTER = "%s = llvm.mlir.addressof @g : {kind}\n%v = llvm.load %s : {kind} -> f32"
ARRAY = (
    "llvm.mlir.global internal @g({value}) {{addr_space = {space} : i32}} : !llvm.array<64 x f32>"
)

# A global with values, or without, and what reads it.
WITH_VALUES = {
    "numbers": (f'memref.global "private" @g : memref<64xf32, {SPACE}> = dense<1.5>', MEMREF),
    "zeros": ('memref.global "private" @g : memref<64xf32, 3> = dense<0.0>', MEMREF),
    "a constant": (
        f'memref.global "private" constant @g : memref<64xf32, {SPACE}> = dense<2.0>',
        MEMREF,
    ),
    "of LLVM": (ARRAY.format(value="dense<1.5> : tensor<64xf32>", space=3), POINTER),
    "a region": (
        ARRAY.format(value="", space=3)
        + "{ %z = llvm.mlir.zero : !llvm.array<64 x f32> llvm.return %z : !llvm.array<64 x f32> }",
        POINTER,
    ),
}
WITHOUT = {
    "uninitialized": (
        f'memref.global "private" @g : memref<64xf32, {SPACE}> = uninitialized',
        MEMREF,
    ),
    "nothing said": ('memref.global "private" @g : memref<64xf32, 3>', MEMREF),
    "of LLVM": (ARRAY.format(value="", space=3), POINTER),
    "undefined": (
        ARRAY.format(value="", space=3)
        + "{ %z = llvm.mlir.undef : !llvm.array<64 x f32> llvm.return %z : !llvm.array<64 x f32> }",
        POINTER,
    ),
    "poison": (
        ARRAY.format(value="", space=3)
        + "{ %z = llvm.mlir.poison : !llvm.array<64 x f32> llvm.return %z : !llvm.array<64 x f32> }",
        POINTER,
    ),
    "global memory": ('memref.global "private" @g : memref<64xf32> = dense<1.5>', MEMREF),
    "constant memory": (
        ARRAY.format(value="dense<1.5> : tensor<64xf32>", space=4).replace("internal", "constant"),
        POINTER,
    ),
}


def kernel(declared: str, read: str) -> str:
    kind = declared.split(" : ")[1].split(" =")[0]
    if "llvm" in declared:
        kind = f"!llvm.ptr<{4 if 'addr_space = 4' in declared else 3}>"
    return f"""gpu.module @m {{
      {declared}
      gpu.func @k(%out: memref<64xf32> {{llvm.noalias}}) kernel
          attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
        %t = gpu.thread_id x
        {read.format(kind=kind)}
        memref.store %v, %out[%t] : memref<64xf32>
        gpu.return
      }} }}"""


def lowered(text: str, chip: str) -> None:
    session, root = Session(target=Target.of_chip(chip)), parse(text).operation
    if CHIPS[chip].lowering == "nvvm":
        to_nvvm.run(root, to_nvvm.ToNvvmOptions(chip), session)
    else:
        to_rocdl.run(root, to_rocdl.ToRocdlOptions(chip), session)


@pytest.mark.parametrize("chip", ["sm_80", "gfx942"])
@pytest.mark.parametrize("name", WITH_VALUES)
def test_values_of_workgroup_memory_are_refused_where_they_are_declared(
    name: str, chip: str
) -> None:
    with pytest.raises(AsyncPipeError) as caught:
        lowered(kernel(*WITH_VALUES[name]), chip)
    assert caught.value.code == "lost-values"
    assert caught.value.diagnostic.place.line == 2


@pytest.mark.parametrize("chip", ["sm_80", "gfx942"])
@pytest.mark.parametrize("name", WITHOUT)
def test_others_are_lowered(name: str, chip: str) -> None:
    lowered(kernel(*WITHOUT[name]), chip)


@pytest.mark.parametrize(
    ("given", "reported"), [(WITH_VALUES, ["lost-values"]), (WITHOUT, [])], ids=["with", "without"]
)
def test_the_checker_warns_of_them(given: dict[str, tuple[str, str]], reported: list[str]) -> None:
    for declared, read in given.values():
        report = check_text(kernel(declared, read)).report
        assert [entry.code for entry in report.diagnostics] == reported


def test_the_machine_finds_what_reads_them() -> None:
    out = np.zeros(64, np.float32)
    for declared, read in (WITH_VALUES["numbers"], WITH_VALUES["of LLVM"]):
        run = machine.run(parse(kernel(declared, read)), "k", [out])
        assert "uninitialised-read" in run.race_codes
    run = machine.run(parse(kernel(*WITHOUT["global memory"])), "k", [out])
    assert not run.races and (run.arrays[0] == 1.5).all()


LOOP = """
  memref.global "private" @g : memref<4xf32{space}> = {value}
  func.func @k(%A: memref<64xf32> {{llvm.noalias}}, %C: memref<64xf32> {{llvm.noalias}}) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    %s = memref.get_global @g : memref<4xf32{space}>
    scf.for %i = %c0 to %c64 step %c1 {{
      %v = memref.load %A[%i] : memref<64xf32>
      memref.store %v, %s[%c0] : memref<4xf32{space}>
      %w = memref.load %s[%c0] : memref<4xf32{space}>
      %x = memref.load %s[{read}] : memref<4xf32{space}>
      %y = arith.addf %w, %x : f32
      memref.store %y, %C[%i] : memref<64xf32>
    }} {{async_pipe.stage = [0, 0, 2, 2, 2], async_pipe.order = [0, 1, 2, 3, 4]}}
    return
  }}"""


@pytest.mark.parametrize("space", ["", ", 3"])
@pytest.mark.parametrize("read", ["%c0", "%c2"])
def test_a_buffer_that_begins_with_values_gets_no_versions(space: str, read: str) -> None:
    with pytest.raises(AsyncPipeError) as caught:
        pipeline(parse(LOOP.format(space=space, value="dense<1.0>", read=read)))
    assert caught.value.code == "buffer-not-versionable"
    module = parse(LOOP.format(space=space, value="uninitialized", read=read))
    pipeline(module)
    assert "memref<3x4xf32" in str(module)
