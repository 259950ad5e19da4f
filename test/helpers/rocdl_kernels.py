"""Kernels with per-thread copies for the AMD tests, and how they are lowered and run."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import CHIPS, Target
from mlir_async_pipe.machine.run_kernel import RunResult
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Report, Session

SPACE = "#gpu.address_space<workgroup>"
COPYING = [name for name, chip in CHIPS.items() if chip.copy_form]


def parse(text: str) -> Any:
    """The module of a text, in a context of its own."""
    return ir.Module.parse(text, new_context())


def lowered(module: Any, chip: str, **options: Any) -> Report:
    """Run `async-pipe-to-rocdl` on the module."""
    session = Session(target=Target.of_chip(chip))
    found = passes.find("async-pipe-to-rocdl")
    text = " ".join(f"{key}={value}" for key, value in options.items())
    found.run(module.operation, passes.parse_options(found, text), session)
    assert module.operation.verify()
    return session.report()


def copy_kernel(
    index: str,
    *,
    elements: int = 8,
    kind: str = "f16",
    shape: tuple[int, int] = (64, 32),
    block: tuple[int, int, int] | None = (256, 1, 1),
    kept: str = "",
    after: str = "",
) -> str:
    """A kernel that copies A to a tile, waits, and writes the tile to C.

    `index` defines %row and %column (of A) and %to_row and %to_column (of the tile) from
    %x, %y, %z and the constants %c0 .. %c64; `kept` is a value for srcElements; `after` stands
    after the copy.
    """
    rows, columns = shape
    size = f"known_block_size = array<i32: {block[0]}, {block[1]}, {block[2]}>" if block else ""
    constants = "\n".join(
        f"    %c{value} = arith.constant {value} : index" for value in (0, 1, 2, 4, 8, 16, 32, 64)
    )
    tile, array = f"memref<{rows}x{columns}x{kind}, {SPACE}>", f"memref<?x?x{kind}>"
    source_elements = f", {kept}" if kept else ""
    return f"""
gpu.module @kernels {{
  gpu.func @copy(%A : {array}, %C : {array}, %n : index)
      workgroup(%tile : {tile} {{llvm.align = 16 : i64}}) kernel attributes {{{size}}} {{
{constants}
    %x = gpu.thread_id x
    %y = gpu.thread_id y
    %z = gpu.thread_id z
{index}
    %copy = nvgpu.device_async_copy %A[%row, %column], %tile[%to_row, %to_column], {elements}{source_elements}
        : {array} to {tile}
{after}
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    gpu.barrier memfence [{SPACE}]
    %both = arith.addi %x, %y : index
    %first = arith.cmpi eq, %both, %c0 : index
    scf.if %first {{
      %rows = arith.constant {rows} : index
      %columns = arith.constant {columns} : index
      scf.for %i = %c0 to %rows step %c1 {{
        scf.for %j = %c0 to %columns step %c1 {{
          %v = memref.load %tile[%i, %j] : {tile}
          memref.store %v, %C[%i, %j] : {array}
        }}
      }}
    }}
    gpu.return
  }}
}}
"""


STRAIGHT = """
    %row = arith.divui %x, %c4 : index
    %chunk = arith.remui %x, %c4 : index
    %column = arith.muli %chunk, %c8 : index
    %to_row = arith.addi %row, %c0 : index
    %to_column = arith.addi %column, %c0 : index
"""

SWIZZLED = """
    %row = arith.divui %x, %c4 : index
    %chunk = arith.remui %x, %c4 : index
    %column = arith.muli %chunk, %c8 : index
    %to_row = arith.addi %row, %c0 : index
    %pair = arith.divui %row, %c2 : index
    %turn = arith.remui %pair, %c4 : index
    %place = arith.xori %chunk, %turn : index
    %to_column = arith.muli %place, %c8 : index
"""


def run_copy(
    module: Any,
    *,
    lanes: int,
    shape: tuple[int, int] = (64, 32),
    block: tuple[int, int, int] = (256, 1, 1),
    n: int = 0,
    completion: str = "late",
) -> tuple[RunResult, np.ndarray, np.ndarray]:
    """Run @copy on the CPU; returns the run, A, and the tile that it found."""
    a = np.arange(shape[0] * shape[1], dtype=np.float16).reshape(shape) % 997 + 1
    c = np.full(shape, -1, np.float16)
    result = machine.run(
        module, "copy", [a, c, n], threads=block, warp=lanes, completion=completion
    )
    found = result.arrays[1]
    assert found is not None
    return result, a, found
