"""`lower` emits PTX and cubins, reads the counts back, and turns failures into errors.

Covers: lowering/lower.py, lowering/nvvm/lower_nvvm.py, lowering/nvvm/ptxas.py, chips/target.py
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from helpers.double_buffered import DOUBLE_BUFFERED
from mlir_async_pipe import bindings, cache
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import CodeOptions, Lowered, lower
from mlir_async_pipe.lowering.nvvm import lower_nvvm, ptxas
from mlir_async_pipe.lowering.nvvm.ptxas import Assembled, Resources, find_tool
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import to_json

pytestmark = pytest.mark.slow

needs_cuda_tools = pytest.mark.skipif(
    find_tool("ptxas") is None or find_tool("nvdisasm") is None, reason="no CUDA tools"
)


def lowered(text: str, emit: str, chip: str = "sm_80", *, strict: bool = False) -> Lowered:
    with new_context():
        module = ir.Module.parse(text)
        before = str(module)
        result = lower(module, target=Target.of_chip(chip), emit=emit, options=CodeOptions(strict))
        assert str(module) == before
        return result


def error_of(text: str, emit: str = "ptx", chip: str = "sm_80") -> AsyncPipeError:
    with pytest.raises(AsyncPipeError) as caught:
        lowered(text, emit, chip)
    return caught.value


def in_kernel(body: str, arguments: str = "%C : memref<?xf32>") -> str:
    return f"gpu.module @kernels {{ gpu.func @kernel({arguments}) kernel {{ {body} gpu.return }} }}"


def test_ptx_has_the_counts_of_the_module() -> None:
    result = lowered(DOUBLE_BUFFERED, "ptx")
    (kernel,) = result.kernels
    assert kernel.ptx is not None
    assert set(kernel.ptx.waits) == {0, 1}
    assert kernel.ptx.waits[-1] == 0
    assert result.text.count("cp.async.wait_group") == len(kernel.ptx.waits)
    assert result.binary == b""


@needs_cuda_tools
def test_machine_code_has_the_counts_of_the_module() -> None:
    result = lowered(DOUBLE_BUFFERED, "cubin")
    (kernel,) = result.kernels
    assert result.binary.startswith(b"\x7fELF")
    assert kernel.machine is not None and kernel.resources is not None
    assert set(kernel.machine.waits) == {0, 1}
    assert any(loop.waits and set(loop.waits) == {1} for loop in kernel.machine.pipelined_loops)
    assert kernel.resources.spill_store_bytes == 0
    assert kernel.resources.static_shared_bytes == 1024


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The PTX that ptxas is given from now on."""
    given: list[str] = []
    run = ptxas._run

    def counted(ptx: str, architecture: str, tool: str) -> Assembled:
        given.append(ptx)
        return run(ptx, architecture, tool)

    ptxas._assemble.cache_clear()
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, "off")
    monkeypatch.setattr(ptxas, "_run", counted)
    return given


@needs_cuda_tools
@pytest.mark.parametrize(
    ("emit", "resources", "at_once", "when_read"),
    [
        ("ptx", None, 0, 1),
        ("ptx", True, 1, 1),
        ("ptx", False, 0, 0),
        ("cubin", None, 1, 1),
        ("cubin", False, 1, 1),
    ],
)
def test_ptxas_is_asked_at_once_when_somebody_reads_or_never(
    emit: str, resources: bool | None, at_once: int, when_read: int, asked: list[str]
) -> None:
    with new_context():
        module = ir.Module.parse(DOUBLE_BUFFERED)
        how = CodeOptions(resources=resources)
        result = lower(module, target=Target.of_chip("sm_80"), emit=emit, options=how)
    (kernel,) = result.kernels
    assert kernel.ptx is not None and len(asked) == at_once
    assert (kernel.resources is not None) == when_read
    assert kernel.resources == kernel.resources and len(asked) == when_read


@needs_cuda_tools
def test_what_is_read_later_is_what_is_asked_at_once(asked: list[str]) -> None:
    """Also of a result that was kept; and a report has it."""
    with new_context():
        module = ir.Module.parse(DOUBLE_BUFFERED)
        target = Target.of_chip("sm_80")
        now, later = (
            lower(module, target=target, options=CodeOptions(resources=r)) for r in (True, None)
        )
    (kernel,) = pickle.loads(pickle.dumps(later)).kernels
    assert to_json(kernel)["resources"]["static_shared_bytes"] == 1024
    assert (kernel,) == now.kernels == later.kernels and now.text == later.text
    assert len(asked) == 1


# An instruction that does not exist, as text for LLVM.
BOGUS = 'llvm.inline_asm has_side_effects "bogus.instruction;", "" : () -> ()'


@needs_cuda_tools
def test_text_for_llvm_is_checked_at_once() -> None:
    error = error_of(in_kernel(BOGUS))
    assert error.code == "assembler-failed"


@needs_cuda_tools
def test_a_refusal_is_reported_when_somebody_reads() -> None:
    with new_context():
        module = ir.Module.parse(in_kernel(""))
        result = lower(module, target=Target.of_chip("sm_80"))
    (kernel,) = result.kernels
    vars(kernel)["_resources"] = replace(vars(kernel)["_resources"], ptx="no PTX")
    with pytest.raises(AsyncPipeError, match="ptxas refuses"):
        _ = kernel.resources


@needs_cuda_tools
def test_ptx_is_assembled_once_for_its_cubin_and_its_resources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ptxas._assemble.cache_clear()
    calls: list[str] = []
    run = ptxas.subprocess.run

    def counted(command: list[str], **options: Any) -> Any:
        calls.append(command[0])
        return run(command, **options)

    monkeypatch.setattr(ptxas.subprocess, "run", counted)
    first, second = lowered(DOUBLE_BUFFERED, "ptx"), lowered(DOUBLE_BUFFERED, "cubin")
    assert first.kernels[0].resources == second.kernels[0].resources
    assert sum(call.endswith("ptxas") for call in calls) == 1


def test_code_says_how_long_its_steps_took() -> None:
    seconds = lowered(DOUBLE_BUFFERED, "ptx").seconds
    assert {"convert", "addresses", "back end: parsing", "back end: code"} <= set(seconds)
    assert all(took >= 0 for took in seconds.values())


def spilling(first: int, second: int, chosen: list[str]) -> Callable[..., Assembled]:
    """An assembler that reports these spills; it keeps the PTX that it was given."""
    spills = iter((first, second))

    def assemble(ptx: str, chip: Any, *, kept: bool) -> Assembled:
        chosen.append(ptx)
        return Assembled(b"", {"kernel": Resources(128, next(spills), 0, 0, 0)})

    return assemble


@pytest.mark.parametrize(("second", "helps"), [(0, True), (4, True), (32, False)])
def test_a_kernel_that_spills_is_made_again_for_one_block_a_multiprocessor(
    second: int, helps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    monkeypatch.setattr(lower_nvvm, "find_tool", lambda name: name)
    monkeypatch.setattr(lower_nvvm, "assemble", spilling(32, second, given))
    monkeypatch.setattr(lower_nvvm, "needs_ptxas", lambda ptx, chip: True)
    result = lowered(DOUBLE_BUFFERED, "ptx", "sm_90a")
    assert [".minnctapersm 1" in ptx for ptx in given] == [False, True]
    assert (".minnctapersm 1" in result.text) == helps
    assert [remark.code for remark in result.diagnostics] == ["spills"]


@pytest.mark.parametrize("chip", ["sm_86", "sm_90a", "sm_100a", "sm_120"])
def test_ptx_is_for_the_chip_that_was_asked_for(chip: str) -> None:
    result = lowered(DOUBLE_BUFFERED, "ptx", chip)
    assert f".target {chip}" in result.text


@pytest.mark.skipif(
    not any(stack.name == "flydsl" for stack in bindings.installed()), reason="no AMDGPU back end"
)
def test_the_same_module_becomes_amd_code() -> None:
    with new_context():
        module = ir.Module.parse(DOUBLE_BUFFERED)
        result = lower(module, target=Target.of_chip("gfx950"), emit="isa")
    # LLVM unrolls the loop, and vmcnt counts the stores too, so the numbers differ by place.
    assert [(entry.wait.count, entry.verdict) for entry in result.waits] == [
        (1, "kept"),
        (0, "kept"),
    ]


def test_llvm_dialect_is_text_without_a_child() -> None:
    result = lowered(DOUBLE_BUFFERED, "llvm")
    assert "nvvm.cp.async.wait.group 1" in result.text
    assert "nvgpu." not in result.text


def test_dynamic_shared_memory_is_external_and_reported() -> None:
    body = """
      %t = gpu.thread_id x
      %x = memref.load %C[%t] : memref<?xf32>
      memref.store %x, %tile[%t] : memref<16384xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %y = memref.load %tile[%n] : memref<16384xf32, #gpu.address_space<workgroup>>
      memref.store %y, %C[%t] : memref<?xf32>
    """
    workgroup = "workgroup(%tile : memref<16384xf32, #gpu.address_space<workgroup>>)"
    text = in_kernel(body, "%C : memref<?xf32>, %n : index").replace(
        "kernel {", f"{workgroup} kernel {{"
    )
    result = lowered(text, "ptx")
    (kernel,) = result.kernels
    assert kernel.dynamic_shared_bytes == 65536
    assert ".extern .shared .align 128" in result.text
    assert ".shared .align 16 .b8" not in result.text


def test_math_functions_come_from_libdevice() -> None:
    body = """
      %t = gpu.thread_id x
      %x = memref.load %C[%t] : memref<?xf32>
      %y = math.atan %x : f32
      memref.store %y, %C[%t] : memref<?xf32>
    """
    assert ".extern .func" not in lowered(in_kernel(body), "ptx").text


def test_what_the_back_end_cannot_do_is_an_error_and_no_crash() -> None:
    text = """
    gpu.module @kernels {
      llvm.func @llvm.nvvm.no.such.thing(f32) -> f32
      llvm.func @kernel(%p : !llvm.ptr) attributes {nvvm.kernel} {
        %x = llvm.load %p : !llvm.ptr -> f32
        %y = llvm.call @llvm.nvvm.no.such.thing(%x) : (f32) -> f32
        llvm.store %y, %p : f32, !llvm.ptr
        llvm.return
      }
    }"""
    assert error_of(text).code == "codegen-failed"


def test_a_call_of_nothing_is_an_error() -> None:
    text = """
    gpu.module @kernels {
      llvm.func @elsewhere()
      llvm.func @kernel() attributes {nvvm.kernel} {
        llvm.call @elsewhere() : () -> ()
        llvm.return
      }
    }"""
    error = error_of(text)
    assert error.code == "unresolved-call"
    assert "'elsewhere'" in error.diagnostic.message


def test_a_module_without_kernels_is_an_error() -> None:
    assert error_of("func.func @host() { return }").code == "no-kernels"


def test_two_gpu_modules_are_an_error() -> None:
    kernel = "gpu.func @k() kernel { gpu.return }"
    text = f"gpu.module @a {{ {kernel} }} gpu.module @b {{ {kernel} }}"
    assert error_of(text).code == "several-gpu-modules"


@pytest.mark.parametrize("emit", ["isa", "hsaco", "exe"])
def test_code_of_another_kind_is_an_error(emit: str) -> None:
    assert error_of(DOUBLE_BUFFERED, emit).code == "emit-kind"


def test_a_foreign_op_is_refused_where_it_stands() -> None:
    text = in_kernel('"mine.op"() : () -> ()')
    error = error_of(text)
    assert error.code == "left-over-op"
    assert error.diagnostic.place.line == 1


def test_strict_makes_a_scope_in_place_an_error() -> None:
    body = """
      %c0 = arith.constant 0 : index
      "async_pipe.scope"() ({
        %x = memref.load %C[%c0] : memref<?xf32>
        memref.store %x, %C[%c0] : memref<?xf32>
        "async_pipe.yield"() : () -> ()
      }) {queue = 0 : i64} : () -> ()
    """
    with pytest.raises(AsyncPipeError) as caught:
        lowered(in_kernel(body), "llvm", strict=True)
    assert caught.value.code == "sync-fallback"
    reported = lowered(in_kernel(body), "llvm").diagnostics
    assert [(item.code, item.severity) for item in reported] == [("sync-fallback", "warning")]
