"""Which asynchronous copies bypass the first-level cache, and which fetch whole lines.

Covers: lowering/nvvm/nvidia_ops.py
"""

from __future__ import annotations

import re
from typing import Any

import pytest

import mlir_async_pipe
from helpers.ptx_of import ptx_of
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import operations
from mlir_async_pipe.lowering.nvvm.nvidia_ops import WHOLE_LINES, with_whole_lines
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.session.report import Session

WG = "#gpu.address_space<workgroup>"
COPY = "nvgpu.device_async_copy %A[{at}], %tile[%t, %c0], {elements}{bypass} : memref<?x?xf16> to memref<64x{columns}xf16, {wg}>"


def kernel(
    at: str = "%t, %k", step: int = 32, elements: int = 8, columns: int = 32,
    bypass: str = "", more: str = "", before: str = "",
) -> str:  # fmt: skip
    """Each of 64 threads copies `elements` of its row, `step` columns further each iteration."""
    copy = COPY.format(at=at, elements=elements, bypass=bypass, columns=columns, wg=WG)
    return f"""
    module attributes {{gpu.container_module}} {{ gpu.module @kernels {{
    gpu.func @kernel(%A: memref<?x?xf16> {{llvm.noalias, llvm.align = 16 : i64}}, %D: memref<?xf16> {{llvm.noalias}}, %n: index)
        workgroup(%tile: memref<64x{columns}xf16, {WG}> {{llvm.align = 16 : i64}})
        kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
      %c0 = arith.constant 0 : index
      %step = arith.constant {step} : index
      %t = gpu.thread_id x
      {before}
      scf.for %k = %c0 to %n step %step {{
        %copy = {copy}
        {more}
        %group = nvgpu.device_async_create_group %copy
        nvgpu.device_async_wait %group
        gpu.barrier
        %v = memref.load %tile[%t, %c0] : memref<64x{columns}xf16, {WG}>
        memref.store %v, %D[%k] : memref<?xf16>
        gpu.barrier
      }}
      gpu.return
    }} }} }}"""


def copies(text: str) -> list[str]:
    """The names and sizes of the copies in the PTX."""
    ptx = ptx_of(text, pipelined=False).text
    return [f"{name} {size}" for name, size in re.findall(r"(cp\.async\.c\S+) .*\], (\d+)", ptx)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "cp.async.cg.shared.global.L2::128B 16"),
        ({"bypass": " {bypassL1}"}, "cp.async.cg.shared.global.L2::128B 16"),
        ({"elements": 4}, "cp.async.ca.shared.global.L2::128B 8"),
        # A whole line an iteration.
        ({"step": 64, "columns": 64}, "cp.async.cg.shared.global 16"),
        # Row by row: the next iteration reads another line.
        ({"at": "%k, %t"}, "cp.async.cg.shared.global 16"),
        # The same place again and again.
        ({"at": "%t, %c0"}, "cp.async.cg.shared.global 16"),
    ],
)
def test_how_a_copy_is_written(options: dict, expected: str) -> None:
    assert set(copies(kernel(**options))) == {expected}


def test_a_copy_of_the_same_kind_that_does_not_go_on_leaves_all_as_they_are() -> None:
    other = COPY.format(at="%k, %t", elements=8, bypass="", columns=32, wg=WG)
    found = copies(kernel(more=f"%other = {other}".replace("%tile[%t", "%tile[%c0")))
    assert set(found) == {"cp.async.cg.shared.global.L2::128B 16"}, "they fill the same buffer"
    far = kernel(more=f"%other = {other}".replace("%tile", "%far")).replace(
        "workgroup(", f"workgroup(%far: memref<64x32xf16, {WG}>, "
    )
    assert set(copies(far)) == {"cp.async.cg.shared.global 16"}


def test_copies_of_the_prologue_are_as_those_of_the_loop() -> None:
    first = COPY.format(at="%t, %c0", elements=8, bypass="", columns=32, wg=WG)
    found = copies(kernel(before=f"%first = {first}"))
    assert found == ["cp.async.cg.shared.global.L2::128B 16"] * 2


@pytest.mark.parametrize(
    ("text", "cache", "lines"),
    [
        ("", "cg", True),
        ("bypass-l1=formed", "ca", True),
        ("bypass-l1=formed l2-lines=false", "ca", False),
    ],
)
def test_the_options_of_the_pass(text: str, cache: str, *, lines: bool) -> None:
    found = passes.find("async-pipe-to-nvvm")
    with new_context():
        module = ir.Module.parse(kernel())
        found.run(module.operation, passes.parse_options(found, f"chip=sm_80 {text}"), Session())
        (gpu_module,) = operations(module.body)
        assert f"cache = {cache}" in str(module)
        assert (WHOLE_LINES in gpu_module.attributes) is lines


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "cp.async.cg.shared.global.L2::128B"),
        ({"l2_lines": False}, "cp.async.cg.shared.global"),
        ({"bypass_l1": "formed"}, "cp.async.ca.shared.global.L2::128B"),
        ({"bypass_l1": "formed", "l2_lines": False}, "cp.async.ca.shared.global"),
    ],
)
def test_the_same_from_python(options: dict[str, Any], name: str) -> None:
    with new_context():
        code = mlir_async_pipe.lower(
            ir.Module.parse(kernel()), target="nvvm:sm_80", cache=False, **options
        )
    assert set(re.findall(r"cp\.async\.c[ag][\w.:]+", code.text)) == {name}


def test_a_wrong_value_from_python_is_named() -> None:
    with new_context(), pytest.raises(UsageError, match="'some', expected 'all' or 'formed'"):
        mlir_async_pipe.lower(ir.Module.parse(kernel()), target="nvvm:sm_80", bypass_l1="some")  # type: ignore[arg-type]


def test_only_the_named_kinds_are_rewritten() -> None:
    ptx = """
    cp.async.cg.shared.global [%r1], [%rd1], 16;
    cp.async.cg.shared.global [%r1+64], [%rd1+128], 16, %r5;
    cp.async.ca.shared.global [%r1], [%rd1], 16;
    cp.async.ca.shared.global [%r1], [%rd1], 8;
    cp.async.ca.shared.global.L2::64B [%r1], [%rd1], 8;
    """
    with new_context():
        module = ir.Module.parse(
            f'module attributes {{{WHOLE_LINES} = ["cg 16", "ca 8"]}} {{}}'
        ).operation
        found = with_whole_lines(ptx, module)
    assert found.count("L2::128B") == 3
    assert found.replace(".L2::128B", "") == ptx
    assert "ca.shared.global [%r1], [%rd1], 16" in found
