"""A wait for a token that every way to it has waited for goes, if nobody needs what else it waits for.

Covers: pipeliner/ask_checker/needed_barriers.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk

WG = "#gpu.address_space<workgroup>"
TILE = f"memref<64xf32, {WG}>"
WAIT = "nvgpu.device_async_wait %g"


def kernel(before: str, inside: str, read: str = "%t[%c0]") -> str:
    """A copy to %t, then a loop that copies to %u and reads `read` in each iteration."""
    return f"""
gpu.module @m {{
  gpu.func @k(%A: memref<64xf32> {{llvm.noalias}}, %C: memref<64xf32> {{llvm.noalias}}, %c: i1)
      workgroup(%t : {TILE}, %u : {TILE})
      kernel attributes {{known_block_size = array<i32: 1, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %x = nvgpu.device_async_copy %A[%c0], %t[%c0], 4 : memref<64xf32> to {TILE}
    %g = nvgpu.device_async_create_group %x
    {before}
    %r = scf.for %i = %c0 to %c64 step %c1 iter_args(%last = %g) -> (!nvgpu.device.async.token) {{
      %y = nvgpu.device_async_copy %A[%i], %u[%i], 1 : memref<64xf32> to {TILE}
      %h = nvgpu.device_async_create_group %y
      {inside}
      %v = memref.load {read} : {TILE}
      memref.store %v, %C[%i] : memref<64xf32>
      scf.yield %h : !nvgpu.device.async.token
    }}
    nvgpu.device_async_wait %r
    %w = memref.load %u[%c1] : {TILE}
    memref.store %w, %C[%c1] : memref<64xf32>
    gpu.return
  }}
}}"""


def waits_left(text: str) -> int:
    """How many waits a pipeline keeps; it computes what the text does, in every completion."""
    given = np.arange(1, 65, dtype=np.float32)
    with new_context():
        module = ir.Module.parse(text)
        pipeline(module, "nvvm:sm_80")
        for completion in ("eager", "late", "random"):
            run = machine.run(
                module, "k", [given, given * 0, True], threads=1, completion=completion
            )
            assert run.races == ()
            assert run.arrays[1][1] == given[1]
            assert run.arrays[1][0] == run.arrays[1][2] == given[0]
        return sum(op.name == "nvgpu.device_async_wait" for op in walk(module.operation))


GOES = {
    "before the loop": (WAIT, WAIT),
    "before the loop, and twice in it": (WAIT, f"{WAIT}\n{WAIT}"),
    "before the loop, under a condition in it": (WAIT, f"scf.if %c {{ {WAIT} }}"),
}
STAYS = {
    "nowhere before": ("", WAIT, 2),
    "on one of two ways": (f"scf.if %c {{ {WAIT} }}", WAIT, 3),
}


@pytest.mark.parametrize("name", GOES)
def test_a_wait_for_what_was_waited_for_goes(name: str) -> None:
    assert waits_left(kernel(*GOES[name])) == 2


@pytest.mark.parametrize("name", STAYS)
def test_a_wait_that_some_way_needs_stays(name: str) -> None:
    before, inside, left = STAYS[name]
    assert waits_left(kernel(before, inside)) == left


def test_a_wait_whose_count_retires_what_is_read_stays() -> None:
    """It lets one group stay, so it retires the copy of the iteration before, which is read here."""
    first = f"""%x0 = nvgpu.device_async_copy %A[%c0], %u[%c0], 1 : memref<64xf32> to {TILE}
    %g0 = nvgpu.device_async_create_group %x0
    nvgpu.device_async_wait %g0"""
    inside = "nvgpu.device_async_wait %g0\n%p = arith.subi %i, %c1 : index"
    text = kernel(first, inside, "%u[%p]").replace("%i = %c0", "%i = %c1")
    with new_context():
        module = ir.Module.parse(text)
        report = pipeline(module, "nvvm:sm_80")
        assert [check.unknown + check.unsafe for check in report.of("checks")] == [0]
        assert [wait.count for wait in report.of("waits")] == [0, 1, 0]
        assert str(module).count("nvgpu.device_async_wait") == 3


def test_a_wait_stays_where_not_everything_is_proven() -> None:
    text = kernel(WAIT, WAIT, "%u[%c0]")
    with new_context():
        module = ir.Module.parse(text)
        pipeline(module, "nvvm:sm_80", check="warn")
        assert str(module).count("nvgpu.device_async_wait") == 3


def test_several_waits_after_loops_are_tried_one_by_one() -> None:
    """What was tried first is gone, or another op, when the next one is tried."""
    text = kernel("", WAIT).replace(
        "device_async_wait %r", "device_async_wait %r {async_pipe.drain}"
    )
    text = text.replace(
        "gpu.return", "\n    ".join(3 * [f"{WAIT} {{async_pipe.drain}}"]) + "\n    gpu.return"
    )
    assert waits_left(text) == 2
