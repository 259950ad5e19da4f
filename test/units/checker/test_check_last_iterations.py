"""What a loop does in one of its iterations is not skipped by a path that widening made up.

Covers: checker/explore.py, checker/kernel.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_module
from helpers.machine_programs import parse
from mlir_async_pipe import machine

RING = "memref<3x64xf32, #gpu.address_space<workgroup>>"


def kernel(*, inner: int = 8, last: int | None = None, wait: int = 1) -> str:
    """Tiles in a ring of three, each used in `inner` steps; in step `last` of a tile comes the next one's
    wait, as in a main loop of CuTe."""
    last = inner - 1 if last is None else last
    return f"""
func.func @f(%from: memref<4096xf32>) attributes {{gpu.kernel, known_block_size = array<i32: 64, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %last = arith.constant {last} : index
  %inner = arith.constant {inner} : index
  %tiles = arith.constant 10 : index
  %tid = gpu.thread_id x
  %ring = memref.alloc() : {RING}
  %t0 = nvgpu.device_async_copy %from[%tid], %ring[%c0, %tid], 1 : memref<4096xf32> to {RING}
  nvvm.cp.async.commit.group
  %t1 = nvgpu.device_async_copy %from[%tid], %ring[%c1, %tid], 1 : memref<4096xf32> to {RING}
  nvvm.cp.async.commit.group
  nvvm.cp.async.wait.group 1
  gpu.barrier
  %r:3 = scf.for %k = %c0 to %tiles step %c1
      iter_args(%cur = %c0, %w = %c2, %rd = %c0) -> (index, index, index) {{
    %s:3 = scf.for %i = %c0 to %inner step %c1
        iter_args(%cur1 = %cur, %w1 = %w, %rd1 = %rd) -> (index, index, index) {{
      %ends = arith.cmpi eq, %i, %last : index
      %cur2 = scf.if %ends -> index {{
        nvvm.cp.async.wait.group {wait}
        gpu.barrier
        scf.yield %rd1 : index
      }} else {{
        scf.yield %cur1 : index
      }}
      %y = memref.load %ring[%cur2, %tid] : {RING}
      %first = arith.cmpi eq, %i, %c0 : index
      %z:2 = scf.if %first -> (index, index) {{
        %t = nvgpu.device_async_copy %from[%tid], %ring[%w1, %tid], 1 : memref<4096xf32> to {RING}
        nvvm.cp.async.commit.group
        %a = arith.addi %rd1, %c1 : index
        %b = arith.cmpi eq, %a, %c3 : index
        %c = arith.select %b, %c0, %a : index
        scf.yield %rd1, %c : index, index
      }} else {{
        scf.yield %w1, %rd1 : index, index
      }}
      scf.yield %cur2, %z#0, %z#1 : index, index, index
    }}
    scf.yield %s#0, %s#1, %s#2 : index, index, index
  }}
  nvvm.cp.async.wait.group 0
  return
}}"""


def races(text: str) -> bool:
    values = np.arange(4096, dtype=np.float32)
    return any(
        machine.run(parse(text), "f", [values], threads=(64, 1, 1), completion=completion).races
        for completion in ("eager", "late")
    )


@pytest.mark.parametrize("inner", [2, 8, 16])
def test_the_last_iteration_of_a_short_loop_is_met(inner: int) -> None:
    text = kernel(inner=inner)
    assert not races(text)
    found = check_module(parse(text))
    assert not found.unsafe and not found.unknown


@pytest.mark.parametrize("change", [{"wait": 2}, {"last": 9}])
def test_a_weaker_wait_and_one_that_never_comes_are_named(change: dict[str, int]) -> None:
    text = kernel(**change)
    assert races(text)
    assert "read-in-flight" in {code for code, _ in check_module(parse(text)).unsafe}


def test_of_a_long_loop_it_is_undecided() -> None:
    """The path that passes all of 40 iterations and not the last is none, but nobody knows that."""
    text = kernel(inner=40)
    assert not races(text)
    found = check_module(parse(text))
    assert not found.unsafe and found.unknown


def test_what_the_first_iterations_show_is_an_error_in_a_long_loop_too() -> None:
    text = kernel(inner=40, last=3, wait=2)
    assert races(text)
    assert "read-in-flight" in {code for code, _ in check_module(parse(text)).unsafe}
