"""Loops that fill a tile, where what they load goes through registers: it really runs ahead, or is
refused.

Covers: pipeliner/normalise/guarded_stores.py, pipeliner/schedule/by_count.py
"""

import numpy as np
import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session.diagnostics import InputError

ROWS = 32


def kernel(copy: str, attributes: str, bound: str = "%c4") -> str:
    """32 threads sum column 4 of tiles of 32 rows; `copy` fills a quarter, row %j * 8 + tid / 4."""
    return f"""
    func.func @f(%A: memref<?x32xf32> {{llvm.noalias}}, %C: memref<32xf32> {{llvm.noalias}},
                 %few: index) attributes {{gpu.known_block_size = array<i32: 32, 1, 1>}} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %c32 = arith.constant 32 : index
      %tid = gpu.thread_id x
      %tile = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
      %n = memref.dim %A, %c0 : memref<?x32xf32>
      %row = arith.divui %tid, %c4 : index
      %left = arith.remui %tid, %c4 : index
      %column = arith.muli %left, %c8 : index
      %zero = arith.constant 0.0 : f32
      %sum = scf.for %i = %c0 to %n step %c32 iter_args(%a = %zero) -> (f32) {{
        scf.for %j = %c0 to {bound} step %c1 {{
          %first = arith.muli %j, %c8 : index
          %r = arith.addi %row, %first : index
          %g = arith.addi %i, %r : index
          {copy}
        }}
        gpu.barrier
        %x = memref.load %tile[%tid, %c4] : memref<32x32xf32, #gpu.address_space<workgroup>>
        %b = arith.addf %a, %x : f32
        gpu.barrier
        scf.yield %b : f32
      }} {{async_pipe.num_stages = 3 : i64{attributes}}}
      memref.store %sum, %C[%tid] : memref<32xf32>
      return
    }}"""


LOAD = "%w = vector.load %A[%g, %column] : memref<?x32xf32>, vector<8xf32>\n"
STORE = (
    "vector.store %w, %tile[%r, %column] : "
    "memref<32x32xf32, #gpu.address_space<workgroup>>, vector<8xf32>\n"
)
COPY = LOAD + STORE
GUARDED = f"""%inside = arith.cmpi ult, %g, %n : index
          scf.if %inside {{ {COPY} }}"""
REGISTERS = ', async_pipe.stage_through = "registers"'


def pipelined(text: str, target: str):
    with new_context():
        module = ir.Module.parse(text)
        report = mlir_async_pipe.pipeline(module, target=target)
        return module, report


def loads_that_are_carried(module) -> bool:
    """Whether the kernel carries what it loads: rows of 8 from iteration to iteration."""
    loops = [op for op in walk(module.operation) if op.name == "scf.for"]
    return any(str(result.type) == "vector<8xf32>" for op in loops for result in op.results)


CASES = {
    "asked for": (COPY, REGISTERS, "nvvm:sm_80"),
    "guarded": (GUARDED, REGISTERS, "nvvm:sm_80"),
    "no wide copies": (COPY, "", "rocdl:gfx942"),
    "no copies": (COPY, "", "rocdl:gfx1100"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_rows_of_a_loop_are_loaded_two_iterations_ahead(case):
    copy, attributes, target = CASES[case]
    module, report = pipelined(kernel(copy, attributes), target)
    (reported,) = [entry for entry in report.diagnostics if entry.code == "through-registers"]
    # What a guard stores stays where the guard is.
    stores = "" if case == "guarded" else ", their stores 1 ahead"
    assert reported.message.startswith(
        f"the loads of this loop run 2 iterations ahead, into registers{stores}: "
    )
    assert loads_that_are_carried(module)
    assert [(check.unsafe, check.unknown) for check in report.of("checks")] == [(0, 0)]
    for tiles in (0, 1, 2, 5):
        rows = np.arange(tiles * ROWS * 32, dtype=np.float32).reshape(-1, 32)
        for completion in ("eager", "late"):
            arrays = [rows, np.zeros(32, np.float32), 0]
            done = machine.run(module, "f", arrays, threads=32, completion=completion)
            assert done.races == ()
            expected = rows.reshape(tiles, ROWS, 32)[:, :, 4].sum(0)
            np.testing.assert_array_equal(done.arrays[1], expected)


def test_a_loop_of_copies_stays_one_where_they_are_asynchronous():
    module, report = pipelined(kernel(COPY, ""), "nvvm:sm_80")
    assert not [entry for entry in report.diagnostics if entry.code == "through-registers"]
    assert not loads_that_are_carried(module)
    assert "async_pipe.scope" in str(module)


@pytest.mark.parametrize("bound", ("%few", "%n"))
def test_a_loop_of_unknown_length_is_refused_by_name(bound):
    """Nobody says how many registers it takes: nothing is told that is not written."""
    with pytest.raises(InputError) as caught:
        pipelined(kernel(COPY, REGISTERS, bound), "nvvm:sm_80")
    assert caught.value.code == "no-copies"
    assert "no statement that only loads from global memory" in caught.value.diagnostic.message
    noted = [note.message for note in caught.value.diagnostic.notes]
    assert any("its statement 'scf.for' does more than that" in text for text in noted)
