"""gpu.subgroup_mma: a product of one tile, through workgroup memory, beside NumPy's.

Covers: machine/dialects/gpu.py, machine/kinds.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.machine_programs import run
from mlir_async_pipe.session.diagnostics import MachineError

PRODUCT = """
func.func @f(%a: memref<16x16xf16>, %b: memref<16x16xf16>, %c: memref<16x32xf32>) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %start = gpu.subgroup_mma_constant_matrix %zero : !gpu.mma_matrix<16x16xf32, "COp">
  %x = gpu.subgroup_mma_load_matrix %a[%c0, %c0] {leadDimension = 16 : index}
    : memref<16x16xf16> -> !gpu.mma_matrix<16x16xf16, "AOp">
  %y = gpu.subgroup_mma_load_matrix %b[%c0, %c0] {leadDimension = 16 : index FLAG}
    : memref<16x16xf16> -> !gpu.mma_matrix<16x16xf16, "BOp">
  %r = gpu.subgroup_mma_compute %x, %y, %start
    : !gpu.mma_matrix<16x16xf16, "AOp">, !gpu.mma_matrix<16x16xf16, "BOp"> -> !gpu.mma_matrix<16x16xf32, "COp">
  gpu.subgroup_mma_store_matrix %r, %c[%c0, %c16] {leadDimension = 32 : index}
    : !gpu.mma_matrix<16x16xf32, "COp">, memref<16x32xf32>
  return
}"""


@pytest.mark.parametrize("transpose", [False, True])
def test_one_wave_multiplies_two_tiles(transpose):
    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2))
    text = PRODUCT.replace("FLAG", ", transpose" if transpose else "")
    result = run(text, a, b, np.zeros((16, 32), np.float32), threads=32)
    wanted = a.astype(np.float32) @ (b.T if transpose else b).astype(np.float32)
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[2][:, 16:], wanted)
    assert not result.arrays[2][:, :16].any()


def test_part_of_a_wave_is_reported():
    tile = np.zeros((16, 16), np.float16)
    result = run(
        PRODUCT.replace("FLAG", ""), tile, tile, np.zeros((16, 32), np.float32), threads=16
    )
    assert "divergent-warp-op" in result.race_codes


def test_transposed_operands_of_a_product_are_refused():
    text = PRODUCT.replace("FLAG", "").replace("%x, %y, %start\n", "%x, %y, %start {a_transpose}\n")
    tile = np.zeros((16, 16), np.float16)
    with pytest.raises(MachineError, match="transposed operands"):
        run(text, tile, tile, np.zeros((16, 32), np.float32), threads=32)
