"""Loops of the affine dialect are followed in their order, like scf.for.

Covers: checker/kernel_flow.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text

WG = "#gpu.address_space<workgroup>"


def kernel(bounds: str, row: str, wait: int = 0) -> str:
    """Copies a row of %A an iteration, each a group, then reads row 0."""
    return f"""
func.func @k(%A: memref<8x64xf32> {{llvm.noalias}}, %n: index) -> f32 {{
  %c0 = arith.constant 0 : index
  %tile = memref.alloc() : memref<8x64xf32, {WG}>
  affine.for %i = {bounds} {{
    %copy = nvgpu.device_async_copy %A[%i, %c0], %tile[{row}, %c0], 4
        : memref<8x64xf32> to memref<8x64xf32, {WG}>
    nvvm.cp.async.commit.group
  }}
  nvvm.cp.async.wait.group {wait}
  %v = memref.load %tile[%c0, %c0] : memref<8x64xf32, {WG}>
  return %v : f32
}}"""


@pytest.mark.parametrize("bounds", ["0 to 8", "0 to 8 step 2", "0 to %n", "%c0 to %n"])
def test_rows_that_differ_are_safe(bounds: str) -> None:
    checked = check_text(kernel(bounds, "%i"))
    assert checked.report.of("hazards") == ()


@pytest.mark.parametrize("bounds", ["0 to 8", "0 to %n"])
def test_the_same_row_twice_is_unsafe(bounds: str) -> None:
    (error, *_) = check_text(kernel(bounds, "%c0")).report.diagnostics
    assert (error.severity, error.code) == ("error", "overwrite-in-flight")


def test_a_wait_that_leaves_the_first_row_of_eight_in_flight_is_unsafe() -> None:
    assert check_text(kernel("0 to 8", "%i", wait=7)).report.of("hazards") == ()
    (error, *_) = check_text(kernel("0 to 8", "%i", wait=8)).report.diagnostics
    assert (error.severity, error.code) == ("error", "read-in-flight")


def test_a_bound_that_is_the_least_of_several_is_never_taken_for_safe() -> None:
    bounds = "0 to min affine_map<(d0) -> (d0, 8)>(%n)"
    assert check_text(kernel(bounds, "%c0")).report.of("hazards") != ()
