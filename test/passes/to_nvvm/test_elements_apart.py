"""Elements that memory holds otherwise than a vector or an asynchronous copy takes them.

Covers: lowering/nvvm/to_nvvm.py, lowering/nvvm/shared_memory.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.ptx_machine import COMPLETIONS, Array, launch, memref, parse
from helpers.ptx_of import Ptx, ptx_of
from mlir_async_pipe.session.diagnostics import LoweringError

pytestmark = pytest.mark.slow

WG = "#gpu.address_space<workgroup>"


def kernel(element: str, width: int, load: str, store: str) -> str:
    """Each of 32 threads moves `width` elements of 4 rows through workgroup memory."""
    kind = f"vector<{width}x{element}>" if width > 1 else element
    columns = 32 * width
    to = f"memref<{columns}x{element}, {WG}>"
    tail = f", {kind}" if width > 1 else ""
    return f"""
    module attributes {{gpu.container_module}} {{ gpu.module @kernels {{
    gpu.func @kernel(%A: memref<4x{columns}x{element}> {{llvm.noalias}},
                     %D: memref<4x{columns}x{element}> {{llvm.noalias}})
        workgroup(%tile: {to} {{llvm.align = 16 : i64}})
        kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %width = arith.constant {width} : index
      %t = gpu.thread_id x
      %at = arith.muli %t, %width : index
      scf.for %i = %c0 to %c4 step %c1 {{
        %v = {load} %A[%i, %at] : memref<4x{columns}x{element}>{tail}
        {store} %v, %tile[%at] : {to}{tail}
        gpu.barrier
        %w = {load} %tile[%at] : {to}{tail}
        {store} %w, %D[%i, %at] : memref<4x{columns}x{element}>{tail}
        gpu.barrier
      }} {{async_pipe.num_stages = 3 : i64}}
      gpu.return
    }} }} }}
    """


def moved(found: Ptx, data: np.ndarray, completion: str) -> np.ndarray:
    """What the kernel makes of the stored bytes of 4 rows."""
    to = Array(np.zeros_like(data), data.itemsize)
    shape = data.shape
    arguments = memref(Array(data, data.itemsize, True), shape, (shape[1], 1))
    arguments += memref(to, shape, (shape[1], 1))
    launch(
        parse(found.text), "kernel", arguments, block=(32, 1, 1), completion=completion,
        dynamic_bytes=found.dynamic_bytes["kernel"],
    )  # fmt: skip
    return to.data


@pytest.mark.parametrize("element", ["i1", "i4", "i24"])
@pytest.mark.parametrize("width", [2, 8])
def test_vectors_of_elements_that_lie_apart_are_refused(element: str, width: int) -> None:
    """LLVM moves the packed bits: of 8 i4 in 8 bytes it would move 4."""
    text = kernel(element, width, "vector.load", "vector.store")
    for pipelined in (False, True):
        with pytest.raises(LoweringError) as caught:
            ptx_of(text, pipelined=pipelined)
        assert caught.value.code == "element-layout"


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("element", ["i1", "i4"])
def test_they_are_moved_one_by_one(element: str, completion: str) -> None:
    found = ptx_of(kernel(element, 1, "memref.load", "memref.store"))
    data = np.random.default_rng(1).integers(0, 2, (4, 32)).astype(np.uint8)
    assert np.array_equal(moved(found, data, completion), data)


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_copies_of_index_run_in_place(completion: str) -> None:
    """nvgpu's copy has no elements of type index: its verifier would end the process."""
    found = ptx_of(kernel("index", 2, "vector.load", "vector.store"))
    assert "cp.async" not in found.text
    data = np.random.default_rng(2).integers(-9, 9, (4, 64))
    assert np.array_equal(moved(found, data, completion), data)
