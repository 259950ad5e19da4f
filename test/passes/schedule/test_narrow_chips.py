"""Chips that copy less at once than a load brings: loads ahead into registers take fewer instructions.

Covers: pipeliner/schedule/by_count.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.chips.target import Target

KERNEL = """
#wg = #gpu.address_space<workgroup>
gpu.module @m {
  gpu.func @f(%A: memref<4096xf32> {llvm.noalias, llvm.align = 16}, %B: memref<4096xf32> {llvm.noalias})
      workgroup(%tile: memref<TILExf32, #wg>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c63 = arith.constant 63 : index
    %step = arith.constant TILE : index
    %end = arith.constant 4096 : index
    %width = arith.constant WIDTH : index
    %thread = gpu.thread_id x
    %other = arith.subi %c63, %thread : index
    %mine = arith.muli %thread, %width : index
    %theirs = arith.muli %other, %width : index
    scf.for %i = %c0 to %end step %step {
      %at = arith.addi %i, %mine : index
      %v = vector.load %A[%at] {alignment = 4 : i64} : memref<4096xf32>, vector<WIDTHxf32>
      vector.store %v, %tile[%mine] : memref<TILExf32, #wg>, vector<WIDTHxf32>
      gpu.barrier
      %w = vector.load %tile[%theirs] : memref<TILExf32, #wg>, vector<WIDTHxf32>
      vector.store %w, %B[%at] : memref<4096xf32>, vector<WIDTHxf32>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64, async_pipe.stage_through = "THROUGH"}
    gpu.return
  }
}
"""


@pytest.mark.parametrize(
    ("target", "width", "through", "copies"),
    [
        ("rocdl:gfx942", 4, "auto", False),
        ("rocdl:gfx90a", 2, "auto", False),
        ("rocdl:gfx942", 4, "async", True),
        ("rocdl:gfx942", 1, "auto", True),
        # Pieces of 4 bytes, which lie 16 bytes apart: a wave writes its lanes next to each other.
        ("rocdl:gfx950", 4, "auto", False),
        # Not aligned for copies of 16 bytes, nor for such loads.
        ("nvvm:sm_80", 4, "auto", True),
    ],
)
def test_copies_of_more_instructions_than_loads_go_through_registers(
    target: str, width: int, through: str, copies: bool
) -> None:
    text = KERNEL.replace("WIDTH", str(width)).replace("TILE", str(64 * width))
    given = np.arange(4096, dtype=np.float32)
    with new_context():
        module = ir.Module.parse(text.replace("THROUGH", through))
        before = machine.run(module, "f", [given, given * 0]).arrays[1]
        report = pipeline(module, target)
        counts = [wait.count for wait in report.of("waits")]
        remarks = [entry for entry in report.diagnostics if entry.code == "through-registers"]
        assert counts == ([1, 1, 0] if copies else [])
        assert ("async_pipe.scope" in {op.name for op in walk(module)}) == copies
        for completion in ("eager", "late", "random:3"):
            run = machine.run(
                module, "f", [given, given * 0], target=Target.parse(target), completion=completion
            )
            assert run.races == ()
            np.testing.assert_array_equal(run.arrays[1], before)
    assert len(remarks) == (not copies)
    if remarks:
        apart = "do not write 1 neighbouring elements each"
        fewer = f"takes {width} instructions, and a load 1"
        assert (apart if target == "rocdl:gfx950" else fewer) in remarks[0].message
