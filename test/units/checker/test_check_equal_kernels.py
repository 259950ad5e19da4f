"""Equal kernels are checked once: which are equal, and that those prove the same.

Beside each thing that may differ stands one that may not.

Covers: checker/equal_kernels.py, checker/check_pass.py
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.checker import check_pass, equal_kernels
from mlir_async_pipe.checker.kernel import check_kernel, surroundings
from mlir_async_pipe.checker.selection import kernels
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session.diagnostics import Diagnostic
from mlir_async_pipe.session.report import Session

KERNELS = int(os.environ.get("ASYNC_PIPE_SAMPLES", "8"))
NVIDIA = "nvvm:sm_80"

RING = """
gpu.func @NAME(%A: memref<64x32xf32> {llvm.noalias}, %C: memref<64x32xf32>) workgroup(%s: memref<4x32xf32, #gpu.address_space<workgroup>>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %b = gpu.block_id x
  %t = gpu.thread_id x
  %copy = nvgpu.device_async_copy %A[%c0, %t], %s[%c0, %t], 1 : memref<64x32xf32> to memref<4x32xf32, #gpu.address_space<workgroup>>
  %group = nvgpu.device_async_create_group %copy
  nvgpu.device_async_wait %group {numGroups = 0 : i32}
  %x = memref.load %s[%c0, %t] : memref<4x32xf32, #gpu.address_space<workgroup>>
  %y = arith.addf %x, %one : f32
  memref.store %y, %C[%c0, %t] : memref<64x32xf32>
  gpu.return
}
"""

ALIKE = {
    "another name": ("NAME", "other"),
    "more arithmetic of data": (
        "%y = arith.addf %x",
        "%z = arith.addf %x, %x : f32\n  %y = arith.addf %z",
    ),
    "more rows of memory that subscripts touch": ("memref<64x32xf32>", "memref<96x32xf32>"),
}
DIFFERENT = {
    "a constant": ("constant 1 :", "constant 2 :"),
    "a count": ("numGroups = 0", "numGroups = 1"),
    "an assertion": (" {llvm.noalias}", ""),
    "the length of rows": ("64x32xf32", "64x64xf32"),
    "rows of no known number": ("%C: memref<64x32xf32>", "%C: memref<?x32xf32>"),
    "a type of elements": (
        "constant 1.0 : f32\n",
        "constant 1.0 : f32\n  %d = memref.alloca() : memref<1xf64>\n",
    ),
    "an operand": (
        "%copy = nvgpu.device_async_copy %A[%c0",
        "%copy = nvgpu.device_async_copy %A[%c1",
    ),
    "a size of blocks": ("32, 1, 1>}", "64, 1, 1>}"),
    "an op with effects": ("  %x = memref", "  gpu.barrier\n  %x = memref"),
    "a size that is asked for": (
        "  gpu.return",
        "  %n = memref.dim %A, %c0 : memref<64x32xf32>\n  gpu.return",
    ),
    "an assertion of its author": (
        "numGroups = 0 : i32}",
        "numGroups = 0 : i32, async_pipe.independent = 1}",
    ),
}


def module_of(*functions: str) -> str:
    return "gpu.module @kernels {\n" + "".join(functions) + "}\n"


def named(name: str, *change: str) -> str:
    text = RING.replace(*change) if change else RING
    if change and change[1] == "%C: memref<?x32xf32>":
        text = text.replace("%C[%c0, %t] : memref<64", "%C[%c0, %t] : memref<?")
    return text.replace("NAME", name)


def keys(text: str) -> list[Hashable]:
    with new_context():
        module = ir.Module.parse(text)
        found = kernels(module.operation)
        around = surroundings(module.operation, found)
        made = [equal_kernels.key_of(kernel, around) for kernel in found]
        # Handles of types and attributes compare while their context lives.
        return [None if key is None else [other == key for other in made] for key in made]


def checked(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> tuple[list[str], list[Any], list[Diagnostic]]:
    """The kernels that were followed, the summaries and what was said."""
    followed: list[str] = []

    def follow(kernel: Any, *rest: Any, **options: Any) -> Any:
        outcome = check_kernel(kernel, *rest, **options)
        followed.append(outcome.summary.function)
        return outcome

    monkeypatch.setattr(check_pass, "check_kernel", follow)
    session = Session(target=Target.parse(NVIDIA))
    with new_context():
        check_pass.run(ir.Module.parse(text).operation, check_pass.CheckOptions(), session)
    return followed, session.records["checks"], session.diagnostics.items


@pytest.mark.parametrize("change", ALIKE.values(), ids=ALIKE)
def test_what_no_proof_reads_makes_no_difference(
    monkeypatch: pytest.MonkeyPatch, change: tuple[str, str]
) -> None:
    text = module_of(named("one"), named("two", *change).replace("@other", "@two"))
    followed, summaries, _ = checked(monkeypatch, text)
    assert followed == ["one"]
    assert [summary.function for summary in summaries] == ["one", "two"]
    assert replace(summaries[1], function="one") == summaries[0]
    alone = checked(monkeypatch, module_of(named("two", *change).replace("@other", "@two")))[1]
    assert alone == summaries[1:]


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT)
def test_what_a_proof_reads_makes_another_kernel(change: tuple[str, str]) -> None:
    found = keys(module_of(named("one"), named("two", *change), named("three")))
    assert found == [[True, False, True], [False, True, False], [True, False, True]]


def test_a_kernel_that_races_is_named_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    change = ("numGroups = 0", "numGroups = 1")
    text = module_of(named("one", *change), named("two", *change), named("three"))
    followed, summaries, said = checked(monkeypatch, text)
    assert followed == ["one", "two", "three"]
    assert [summary.unsafe for summary in summaries] == [1, 1, 0]
    assert [entry.code for entry in said] == ["read-in-flight"] * 2


def test_launches_of_other_sizes_make_other_kernels() -> None:
    functions = [
        named(name).replace(" attributes {known_block_size = array<i32: 32, 1, 1>}", "")
        for name in ("one", "two", "three")
    ]
    host = "".join(
        f"gpu.launch_func @kernels::@{name} blocks in (%c1, %c1, %c1) threads in (%{size}, %c1, %c1)"
        " args(%A : memref<64x32xf32>, %A : memref<64x32xf32>)\n"
        for name, size in (("one", "c32"), ("two", "c64"), ("three", "c32"))
    )
    constants = "".join(f"%c{n} = arith.constant {n} : index\n" for n in (1, 32, 64))
    text = f"module attributes {{gpu.container_module}} {{\n{module_of(*functions)}"
    text += f"func.func @host(%A: memref<64x32xf32>) {{\n{constants}{host}return\n}}\n}}"
    assert keys(text) == [[True, False, True], [False, True, False], [True, False, True]]


def test_a_block_id_that_only_data_use_is_used() -> None:
    """It says that there are several blocks."""
    texts = [
        named(
            f"k{n}",
            "  %copy",
            f"  %v = vector.broadcast {value} : index to vector<2xindex>\n  %copy",
        )
        for n, value in enumerate(("%c0", "%b", "%c0"))
    ]
    assert keys(module_of(*texts)) == [
        [True, False, True],
        [False, True, False],
        [True, False, True],
    ]


def test_a_kernel_that_calls_shares_nothing() -> None:
    call = ("  gpu.return", "  func.call @f() : () -> ()\n  gpu.return")
    text = module_of(named("one", *call), named("two", *call), "func.func private @f()\n")
    assert keys(text)[:2] == [None, None]
