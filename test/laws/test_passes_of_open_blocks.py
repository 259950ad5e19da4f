"""Passes that ask the checker, on random kernels whose block has an unknown shape.

Law: what had no race in any shape has none after the pass; after async-pipe-barriers no shape
lacks a barrier, whatever the kernel lacked before.

Covers: pipeliner/ask_checker/needed_barriers.py, pipeliner/ask_checker/attach_tokens.py, waits/simplify.py
"""

from __future__ import annotations

import os
import random

import pytest

from helpers.check_harness import machine_races
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session

TARGET = "nvvm:sm_80"
SAMPLES = int(os.environ.get("ASYNC_PIPE_SAMPLES", "7"))
SHAPES = {
    1: [(4, 1, 1), (3, 1, 1)],
    2: [(4, 1, 1), (2, 2, 1), (1, 3, 1)],
    3: [(2, 2, 2), (1, 1, 4)],
}
PASSES = {
    "relax": ("async-pipe-tokens", {"relax": True}),
    "drop-drains": ("async-pipe-drop-drains", {}),
    "drop-barriers": ("async-pipe-drop-barriers", {}),
    "barriers": ("async-pipe-barriers", {}),
}
LACKS_A_BARRIER = {"not-visible", "missing-barrier"}

KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: memref<64xf32> {{llvm.noalias}}, %n: index) workgroup(%s: memref<2x4x4x4xf32, 3>) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    {ids}
    %first = nvgpu.device_async_copy %A[%c0], %s[%c0, {to}], 1 : memref<64xf32> to memref<2x4x4x4xf32, 3>
    %g0 = nvgpu.device_async_create_group %first
    %second = nvgpu.device_async_copy %A[%c1], %s[%c1, {to}], 1 : memref<64xf32> to memref<2x4x4x4xf32, 3>
    %g1 = nvgpu.device_async_create_group %second
    nvgpu.device_async_wait %g0 {{numGroups = {count} : i32}}
    {barrier}
    %p = arith.cmpi ult, {left}, {right} : index
    {guard} {{
      %v = memref.load %s[%c0, {at}] : memref<2x4x4x4xf32, 3>
    }}
    nvgpu.device_async_wait %g1 {{numGroups = 0 : i32, async_pipe.drain}}
    {last_barrier}
    {read}
    gpu.return
  }}
}}
"""


def random_kernel(seed: int) -> tuple[str, int]:
    """A kernel, and how many axes it reads."""
    chosen = random.Random(seed)
    axes = "xyz"[: 1 + seed % 3]
    mine = [f"%{axis}" for axis in axes]
    ids = [f"%{axis} = gpu.thread_id {axis}" for axis in axes]
    ids += [f"%m{axis} = arith.subi %c3, %{axis} : index" for axis in axes]
    # Mostly places of each thread's own: else all threads race already.
    to = [axis if chosen.random() < 0.9 else "%c0" for axis in mine]
    at = [chosen.choice([axis, axis, f"%m{axis[1]}", "%c0"]) for axis in mine]
    fill = ["%c0"] * (3 - len(axes))
    guard = chosen.choice(["scf.execute_region", "scf.if %p"])
    at_text = ", ".join([*at, *fill])
    text = KERNEL.format(
        ids="\n    ".join(ids),
        to=", ".join([*to, *fill]),
        at=at_text,
        count=chosen.choice([0, 0, 1]),
        barrier=chosen.choice(["gpu.barrier", "gpu.barrier", ""]),
        left=chosen.choice([*mine, "%n"]),
        right=chosen.choice(["%c1", "%n"]),
        guard=guard,
        last_barrier=chosen.choice(["gpu.barrier", ""]),
        read=f"%w = memref.load %s[%c1, {at_text}] : memref<2x4x4x4xf32, 3>"
        if chosen.random() < 0.6
        else "",
    )
    if guard == "scf.execute_region":
        text = text.replace("3>\n    }\n    nvgpu", "3>\n      scf.yield\n    }\n    nvgpu")
    return text, len(axes)


def races(text: str, axes: int) -> set[str]:
    """The codes of all races in any shape of the block."""
    return {
        code
        for shape in SHAPES[axes]
        for code, _ in machine_races(text, TARGET, trips=[0, 2], block=shape)
    }


def after(text: str, name: str) -> str:
    """The kernel after a pass; empty where the pass refuses it."""
    with new_context():
        module = ir.Module.parse(text)
        found = passes.find(PASSES[name][0])
        session = Session(target=Target.parse(TARGET))
        try:
            found.run(module.operation, found.options(**PASSES[name][1]), session)
        except AsyncPipeError as refused:
            assert (name, refused.code) == ("barriers", "divergent-barrier")
            return ""
        return str(module)


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("axes", SHAPES)
def test_a_pass_makes_no_race_in_any_shape_of_the_block(name: str, axes: int) -> None:
    changed = 0
    for seed in range(axes - 1, 3 * SAMPLES, 3):
        text, read = random_kernel(seed)
        assert read == axes
        result = after(text, name)
        if not result:
            continue
        with new_context():
            same = str(ir.Module.parse(text.replace(", async_pipe.drain", ""))) == result
        changed += not same
        found = races(result, axes)
        if name == "barriers":
            assert not found & LACKS_A_BARRIER, (seed, result)
        if found:
            assert races(text, axes), (seed, result)
    assert changed, "no kernel of the sample was changed"
