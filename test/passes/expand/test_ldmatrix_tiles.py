"""Tiles that tensor copies bring, read by ldmatrix and multiplied by mma.sync: pipelined, by warps of
their own too, swizzled or not, proven, right on the machine, and code that ptxas takes.

Covers: pipeliner/expand/write/write_ring.py, pipeliner/expand/write/write_roles.py, pipeliner/plan/tensor_tiles.py,
test/helpers/ldmatrix_loops.py
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from helpers.check_harness import check_module
from helpers.machine_programs import parse
from helpers.tensor_loops import Box, TensorLoop, judge
from mlir_async_pipe import Target, lower, machine, pipeline

SWIZZLES = {
    "none": (16, "none"),
    "no swizzle, wide": (64, "none"),
    "32b": (16, "swizzle_32b"),
    "64b": (32, "swizzle_64b"),
    "128b": (64, "swizzle_128b"),
}


def loop_of(name: str, roles: str = "") -> TensorLoop:
    columns, swizzle = SWIZZLES[name]
    boxes = (Box(32, columns, swizzle), Box(8, columns, swizzle))
    return TensorLoop(boxes, reader="matrices", trips=5, executions=2, roles=roles)


@pytest.mark.parametrize("roles", ["", "specialised"])
@pytest.mark.parametrize("name", SWIZZLES)
def test_tiles_read_by_ldmatrix_are_pipelined_proven_and_right(name: str, roles: str) -> None:
    loop = loop_of(name, roles)
    (check,) = pipeline(loop.module(), check="error").of("checks")
    assert (check.unsafe, check.unknown) == (0, 0)
    assert judge(loop) == []


WRONG = {
    "no wait": (r"nvgpu.mbarrier.try_wait.parity .*", "", {"read-in-flight"}),
    "the phase stays": (
        r"(%\d+) = arith.xori (%arg\d+), (%\w+) : i1",
        r"\1 = arith.ori \2, \2 : i1",
        {"phase-not-flipped"},
    ),
    "no barrier before the copies": (r"(?<=\n      )gpu.barrier.*", "", {"phase-overtaken"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_left_out_is_found_by_checker_and_machine(name: str) -> None:
    loop = replace(loop_of("128b"), stages=2, issue="last", executions=1)
    module = loop.module()
    pipeline(module, check="none")
    pattern, instead, expected = WRONG[name]
    changed, times = re.subn(pattern, instead, str(module))
    assert times
    found = {entry.code for entry in check_module(parse(changed)).report.diagnostics}
    assert found & expected
    assert any(
        _wrong(loop, changed, completion, schedule)
        for completion in machine.COMPLETIONS
        for schedule in machine.SCHEDULES
    )


def _wrong(loop: TensorLoop, text: str, completion: str, schedule: str) -> bool:
    try:
        return loop.right(parse(text), completion, schedule) != ""
    except machine.MachineError:
        return True


@pytest.mark.parametrize("roles", ["", "specialised"])
@pytest.mark.parametrize("name", ["none", "128b"])
def test_ptxas_takes_them(name: str, roles: str) -> None:
    """In the loop one product for 16 k, no lanes' loop around a copy, no spills."""
    text = loop_of(name, roles).text().replace("func.func @f(", "gpu.module @k {\ngpu.func @f(")
    text = text.replace("return\n}", "gpu.return\n}\n}").replace(
        "memref.alloc() : ", "memref.alloca() : "
    )
    module = parse(text.replace("attributes {gpu.known", "kernel attributes {known"))
    target = Target.parse("nvvm:sm_90a")
    pipeline(module, target=target)
    (kernel,) = lower(module, target=target, emit="cubin").kernels
    assert kernel.resources.spill_store_bytes == 0
    loops = [each for each in kernel.machine.loops if each.multiplications]
    assert loops
    assert {each.multiplications for each in loops} == {SWIZZLES[name][0] // 16}
    copies = 0 if roles else 2
    assert {(each.tensor_copies, each.expects) for each in loops} == {(copies, copies // 2)}
