"""Masked loads in an `async_pipe.scope` become asynchronous copies that write zeros.

Laws: the lowered kernel computes what NumPy does for every ragged size, on a machine whose
copies arrive as late as the waits allow; what no copy can do stays in place with its reason, and
a fill other than zero is refused.

Covers: lowering/scopes/masked_loads.py, lowering/nvvm/nvidia_ops.py, lowering/rocdl/rocdl_copies.py,
lowering/rocdl/rocdl_code.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.scopes.abstract_ops import lower_abstract_ops
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.session.report import Session

THREADS = 4
WIDTH = 8
V8 = "vector<8xf32>"
STORE = f"vector.store %v, %tile[%at] : memref<32xf32, #wg>, {V8}"
SCALAR_STORE = "memref.store %v, %tile[%at] : memref<32xf32, #wg>"
READ = "vector.transfer_read %A[%at], "
LOAD = f"vector.load %A[%at] : memref<?xf32>, {V8}"
MASKED_READ = f"%v = {READ}%zero, %m {{in_bounds = [true]}} : memref<?xf32>, {V8}\n{STORE}"
# Each thread has `left` elements in A; each body keeps so many, or all or none.
LEADING = {
    "maskedload": f"""%m = vector.create_mask %left : vector<8xi1>
      %v = vector.maskedload %A[%at], %m, %zeros : memref<?xf32>, vector<8xi1>, {V8} into {V8}
      {STORE}""",
    "masked transfer": f"%m = vector.create_mask %left : vector<8xi1>\n{MASKED_READ}",
    "transfer out of bounds": f"%v = {READ}%zero : memref<?xf32>, {V8}\n{STORE}",
    "mask and bounds": f"""%m = vector.create_mask %c8 : vector<8xi1>
      %v = {READ}%zero, %m : memref<?xf32>, {V8}
      {STORE}""",
    "two masks": f"""%m0 = vector.create_mask %left : vector<8xi1>
      %m1 = vector.constant_mask [8] : vector<8xi1>
      %m = arith.andi %m0, %m1 : vector<8xi1>
      {MASKED_READ}""",
    "poison": f"""%p = ub.poison : f32
      %m = vector.create_mask %left : vector<8xi1>
      %w = {READ}%zero, %m {{in_bounds = [true]}} : memref<?xf32>, {V8}
      vector.store %w, %tile[%at] : memref<32xf32, #wg>, {V8}""",
}
WHOLE_VECTOR = {
    "scf.if": f"""%v = scf.if %whole -> ({V8}) {{
        %i = arith.addi %at, %c0 : index
        %w = vector.load %A[%i] : memref<?xf32>, {V8}
        scf.yield %w : {V8}
      }} else {{ scf.yield %zeros : {V8} }}
      {STORE}""",
    "broadcast condition": f"""%m = vector.broadcast %whole : i1 to vector<8xi1>
      {MASKED_READ}""",
}


def kernel(body: str) -> str:
    """Each thread copies 8 elements of A into its part of the tile, and that to C."""
    return f"""#wg = #gpu.address_space<workgroup>
gpu.module @kernels {{
  gpu.func @kernel(%A : memref<?xf32> {{llvm.noalias, llvm.align = 16 : i32}},
                   %C : memref<32xf32> {{llvm.noalias}}, %n : index)
      workgroup(%tile : memref<32xf32, #wg> {{llvm.align = 16 : i64}})
      kernel attributes {{known_block_size = array<i32: {THREADS}, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %zero = arith.constant 0.0 : f32
    %minus_zero = arith.constant -0.0 : f32
    %one = arith.constant 1.0 : f32
    %zeros = arith.constant dense<0.0> : {V8}
    %ones = arith.constant dense<1.0> : {V8}
    %t = gpu.thread_id x
    %at = arith.muli %t, %c8 : index
    %left = arith.subi %n, %at : index
    %whole = arith.cmpi sge, %left, %c8 : index
    vector.store %ones, %tile[%at] : memref<32xf32, #wg>, {V8}
    "async_pipe.scope"() ({{
      {body}
      "async_pipe.yield"() : () -> ()
    }}) {{queue = 0 : i64}} : () -> ()
    %g = "async_pipe.commit_queue"() {{queue = 0 : i64}} : () -> !nvgpu.device.async.token
    "async_pipe.wait_queue"(%g) {{queue = 0 : i64, count = 0 : i64}}
        : (!nvgpu.device.async.token) -> ()
    %x = vector.load %tile[%at] : memref<32xf32, #wg>, {V8}
    vector.store %x, %C[%at] : memref<32xf32>, {V8}
    gpu.return
  }}
}}"""


def lowered(body: str, session: Session | None = None, *, chip: str = "sm_80") -> Any:
    module = ir.Module.parse(kernel(body))
    found = session or Session(target=Target.of_chip(chip))
    lower_abstract_ops(module.operation, CHIPS[chip], found, strict=session is None)
    assert module.operation.verify()
    return module


def copies(module: Any) -> int:
    return sum(op.name == "nvgpu.device_async_copy" for op in walk(module))


def result(module: Any, size: int) -> np.ndarray:
    source = np.arange(1, size + 1, dtype=np.float32)
    empty = np.full(THREADS * WIDTH, -1, np.float32)
    found = machine.run(module, "kernel", [source, empty, size], threads=THREADS, completion="late")
    assert found.races == ()
    array = found.arrays[1]
    assert array is not None
    return array


def ragged(size: int, whole: int) -> np.ndarray:
    """1, 2, … up to `size`, rounded down to `whole` elements, and zeros after."""
    expected = np.zeros(THREADS * WIDTH, np.float32)
    kept = size // whole * whole
    expected[:kept] = np.arange(1, kept + 1)
    return expected


@pytest.mark.parametrize("size", [1, 3, 4, 8, 13, 31, 32])
@pytest.mark.parametrize("name", LEADING)
def test_a_leading_mask_copies_the_elements_that_it_keeps(name: str, size: int) -> None:
    with new_context():
        module = lowered(LEADING[name])
        assert copies(module) == 2
        np.testing.assert_array_equal(result(module, size), ragged(size, 1))


@pytest.mark.parametrize("size", [3, 8, 13, 32])
@pytest.mark.parametrize("name", WHOLE_VECTOR)
def test_a_condition_copies_all_or_none(name: str, size: int) -> None:
    with new_context():
        module = lowered(WHOLE_VECTOR[name])
        assert copies(module) == 2
        np.testing.assert_array_equal(result(module, size), ragged(size, WIDTH))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_selected_scalar_copies_one_element_or_none(swapped: bool) -> None:
    chosen = "%zero, %a" if swapped else "%a, %zero"
    body = f"""%a = memref.load %A[%at] : memref<?xf32>
      %v = arith.select %whole, {chosen} : f32
      {SCALAR_STORE}"""
    with new_context():
        module = lowered(body)
        assert copies(module) == 1
        first = result(module, 25)[::WIDTH]
    kept = np.array([1, 1, 1, 0]) if not swapped else np.array([0, 0, 0, 1])
    np.testing.assert_array_equal(first, kept * np.array([1, 9, 17, 25]))


def test_a_selected_vector_copies_what_the_mask_keeps() -> None:
    body = f"""%m = vector.create_mask %left : vector<8xi1>
      %a = {LOAD}
      %v = arith.select %m, %a, %zeros : vector<8xi1>, {V8}
      {STORE}"""
    with new_context():
        module = ir.Module.parse(kernel(body))
        # All 32 elements can be loaded, and 13 are kept.
        session = Session(target=Target.of_chip("sm_80"))
        lower_abstract_ops(module.operation, CHIPS["sm_80"], session, strict=True)
        source = np.arange(1, 33, dtype=np.float32)
        empty = np.zeros(32, np.float32)
        found = machine.run(
            module, "kernel", [source, empty, 13], threads=THREADS, completion="late"
        )
    assert found.races == ()
    np.testing.assert_array_equal(found.arrays[1], ragged(13, 1))


def test_a_transfer_in_bounds_is_a_plain_copy() -> None:
    body = f"%v = {READ}%one {{in_bounds = [true]}} : memref<?xf32>, {V8}\n{STORE}"
    with new_context():
        module = lowered(body)
        segments = [
            list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))[-1]
            for op in walk(module)
            if op.name == "nvgpu.device_async_copy"
        ]
    assert segments == [0, 0]


NONZERO = {
    "padding of a transfer": f"%v = {READ}%one : memref<?xf32>, {V8}\n{STORE}",
    "minus zero": f"%v = {READ}%minus_zero : memref<?xf32>, {V8}\n{STORE}",
    "pass-through": f"""%m = vector.create_mask %left : vector<8xi1>
      %v = vector.maskedload %A[%at], %m, %ones : memref<?xf32>, vector<8xi1>, {V8} into {V8}
      {STORE}""",
    "select": f"""%a = memref.load %A[%at] : memref<?xf32>
      %v = arith.select %whole, %a, %one : f32
      {SCALAR_STORE}""",
    "condition": f"""%v = scf.if %whole -> (f32) {{
        %a = memref.load %A[%at] : memref<?xf32>
        scf.yield %a : f32
      }} else {{ scf.yield %one : f32 }}
      {SCALAR_STORE}""",
}


@pytest.mark.parametrize("chip", ["sm_80", "gfx950"])
@pytest.mark.parametrize("name", NONZERO)
def test_a_fill_other_than_zero_is_refused_where_it_stands(name: str, chip: str) -> None:
    session = Session(target=Target.of_chip(chip))
    with new_context(), pytest.raises(LoweringError) as caught:
        lowered(NONZERO[name], session, chip=chip)
    assert caught.value.code == "nonzero-fill"
    assert "gives another value than zero" in str(caught.value)


IN_PLACE = {
    "a mask of comparisons": (
        f"""%s = vector.step : vector<8xindex>
      %b = vector.broadcast %left : index to vector<8xindex>
      %m = arith.cmpi slt, %s, %b : vector<8xindex>
      {MASKED_READ}""",
        "the mask of 'vector.transfer_read' may keep other elements than the leading ones",
    ),
    "a constant mask with a hole": (
        f"%m = arith.constant dense<[1, 0, 1, 1, 1, 1, 1, 1]> : vector<8xi1>\n{MASKED_READ}",
        "may keep other elements than the leading ones",
    ),
    "zeros where the mask is set": (
        f"""%m = vector.create_mask %left : vector<8xi1>
      %a = {LOAD}
      %v = arith.select %m, %zeros, %a : vector<8xi1>, {V8}
      {STORE}""",
        "the mask of 'arith.select' may keep other elements",
    ),
    "another use": (
        f"""%v = {READ}%zero : memref<?xf32>, {V8}
      {STORE}
      vector.store %v, %tile[%at] : memref<32xf32, #wg>, {V8}""",
        "has another use",
    ),
    "computed after the load": (
        f"""%m = vector.create_mask %left : vector<8xi1>
      %a = vector.maskedload %A[%at], %m, %zeros : memref<?xf32>, vector<8xi1>, {V8} into {V8}
      %v = arith.addf %a, %ones : {V8}
      {STORE}""",
        "is computed, not loaded",
    ),
    "a division that the condition guards": (
        f"""%v = scf.if %whole -> (f32) {{
        %q = arith.divui %at, %left : index
        %a = memref.load %A[%q] : memref<?xf32>
        scf.yield %a : f32
      }} else {{ scf.yield %zero : f32 }}
      {SCALAR_STORE}""",
        "is computed, not loaded",
    ),
    "a broadcast transfer": (
        f"""%v = {READ}%zero {{permutation_map = affine_map<(d0) -> (0)>}} : memref<?xf32>, {V8}
      {STORE}""",
        "not next to each other",
    ),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_no_copy_can_do_stays_in_place_with_its_reason(name: str) -> None:
    body, reason = IN_PLACE[name]
    session = Session(target=Target.of_chip("sm_80"))
    with new_context():
        module = lowered(body, session)
        assert copies(module) == 0
    (warning,) = session.diagnostics.items
    assert (warning.code, warning.severity) == ("sync-fallback", "warning")
    assert any(reason in note.message for note in warning.notes)
