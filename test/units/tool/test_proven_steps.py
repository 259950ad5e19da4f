"""What dropping barriers was told of a kernel holds for a check right after it, and for no other.

Covers: tool/pass_steps.py, pipeliner/ask_checker/needed_barriers.py
"""

from __future__ import annotations

from typing import Any

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.checker import check_pass
from mlir_async_pipe.checker.kernel import check_kernel
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import pipeline_text
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.tool import pass_steps

KERNEL = """
gpu.module @kernels {
  gpu.func @k(%A: memref<64x32xf32> {llvm.noalias}, %C: memref<64x32xf32>)
      workgroup(%s: memref<1x32xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c31 = arith.constant 31 : index
    %t = gpu.thread_id x
    %u = arith.subi %c31, %t : index
    %copy = nvgpu.device_async_copy %A[%c0, %t], %s[%c0, %t], 1 : memref<64x32xf32> to memref<1x32xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group {numGroups = COUNT : i32}
    gpu.barrier
    %x = memref.load %s[%c0, INDEX] : memref<1x32xf32, #gpu.address_space<workgroup>>
    memref.store %x, %C[%c0, %t] : memref<64x32xf32>
    gpu.return
  }
}
"""
DROP, CHECK = "async-pipe-drop-barriers", "async-pipe-check"


def followed(
    monkeypatch: pytest.MonkeyPatch, passes: str, *, count: int = 0, index: str = "%u"
) -> tuple[int, Session]:
    """How many kernels checks followed in a run of these passes, and what was said."""
    asked: list[Any] = []

    def follow(kernel: Any, *rest: Any, **options: Any) -> Any:
        asked.append(kernel)
        return check_kernel(kernel, *rest, **options)

    monkeypatch.setattr(check_pass, "check_kernel", follow)
    session = Session(target=Target.parse("nvvm:sm_80"))
    with new_context() as context:
        module = ir.Module.parse(KERNEL.replace("COUNT", str(count)).replace("INDEX", index))
        pipeline = pipeline_text.parse(f"builtin.module({passes})")
        pass_steps.run(module, pass_steps.make(pipeline, context, {}, single=True), session)
    return len(asked), session


def test_a_check_right_after_it_does_not_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, session = followed(monkeypatch, f"{DROP},{CHECK}")
    assert asked == 0
    alone, checked = followed(monkeypatch, CHECK)
    assert alone == 1
    assert session.records["checks"] == checked.records["checks"]


def test_what_races_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, session = followed(monkeypatch, f"{DROP},{CHECK}", count=1)
    assert asked == 0
    assert [entry.code for entry in session.diagnostics.items] == ["read-in-flight"]


@pytest.mark.parametrize(
    "passes",
    [
        f"{DROP},cse,{CHECK}",
        f"{DROP},async-pipe-count-waits,{CHECK}",
        f"{DROP},{CHECK}{{assume-several-blocks=true}}",
        f"{DROP},{CHECK}{{assume-noalias-arguments=true}}",
        f"{DROP}{{assume-noalias-arguments=true}},{CHECK}",
    ],
)
def test_any_other_check_asks(monkeypatch: pytest.MonkeyPatch, passes: str) -> None:
    assert followed(monkeypatch, passes)[0] == 1


def test_a_kernel_that_lost_a_barrier_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, session = followed(monkeypatch, f"{DROP},{CHECK}", index="%t")
    assert asked == 1
    assert [entry.code for entry in session.diagnostics.items] == ["needless-barrier"]
