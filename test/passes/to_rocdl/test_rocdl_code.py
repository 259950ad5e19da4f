"""Code for AMD chips: assembly and code objects, and the errors when they cannot be made.

Covers: lowering/rocdl/rocdl_code.py, lowering/rocdl/to_rocdl.py
"""

from __future__ import annotations

import importlib.util
import stat
import sys

import pytest

from helpers.rocdl_kernels import SPACE, STRAIGHT, copy_kernel, parse
from mlir_async_pipe import bindings
from mlir_async_pipe.bindings import back_end_process
from mlir_async_pipe.bindings.back_end_child import Request
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.rocdl import rocdl_code
from mlir_async_pipe.session.diagnostics import AsyncPipeError

pytestmark = pytest.mark.slow

needs_flydsl = pytest.mark.skipif(
    not any(stack.name == "flydsl" for stack in bindings.installed()),
    reason="no AMDGPU back end: pip install flydsl",
)
needs_linker = pytest.mark.skipif(rocdl_code.linker() is None, reason="no ld.lld")


def emitted(text: str, emit: str, chip: str = "gfx950"):
    """What `lower` makes of a kernel."""
    return lower(parse(text), target=Target.of_chip(chip), emit=emit)


@needs_flydsl
@pytest.mark.parametrize(
    ("chip", "instruction"),
    [
        ("gfx90a", "global_load_dword v"),
        ("gfx942", "global_load_lds_dword v"),
        ("gfx950", "global_load_lds_dwordx4 v"),
        ("gfx1030", "global_load_dword v"),
        ("gfx1250", "global_load_async_to_lds_b128 v"),
    ],
)
def test_copies_become_the_instructions_of_the_chip(chip, instruction):
    code = emitted(copy_kernel(STRAIGHT), "isa", chip)
    assert instruction in code.text
    assert f'amdgcn-amd-amdhsa-unknown-{chip}"' in code.text
    assert "llvm.amdgcn" not in code.text
    (kernel,) = code.kernels
    assert kernel.workgroup_bytes == 64 * 32 * 2


@needs_flydsl
def test_the_callers_module_stays_as_it_is():
    module = parse(copy_kernel(STRAIGHT))
    before = str(module)
    lower(module, target=Target.of_chip("gfx942"), emit="isa")
    assert str(module) == before


@needs_flydsl
def test_the_llvm_dialect_holds_the_intrinsics_of_marks():
    text = emitted(copy_kernel(STRAIGHT), "llvm").text
    assert "rocdl.asyncmark" in text and "rocdl.wait.asyncmark 0" in text
    assert "llvm.func" in text and "amdgpu." not in text


@needs_flydsl
@needs_linker
def test_a_code_object_is_an_elf_file_and_its_waits_are_reported():
    code = emitted(copy_kernel(STRAIGHT), "hsaco")
    assert code.binary.startswith(b"\x7fELF") and code.text == ""
    assert [wait.left for wait in code.waits] == [(0,)]


@needs_flydsl
def test_without_a_linker_the_packages_are_named(monkeypatch):
    monkeypatch.setattr(rocdl_code, "linker", lambda: None)
    with pytest.raises(AsyncPipeError) as caught:
        emitted(copy_kernel(STRAIGHT), "hsaco")
    assert caught.value.code == "linker-missing" and "pip install ziglang" in str(caught.value)


def test_a_linker_on_the_path_comes_first(monkeypatch, tmp_path):
    linker = tmp_path / "ld.lld"
    linker.write_text("#!/bin/sh\n")
    linker.chmod(linker.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rocdl_code.linker() == [str(linker)]


def test_the_linker_of_a_package_is_found(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "ziglang" or None)
    assert rocdl_code.linker() == [sys.executable, "-m", "ziglang", "ld.lld"]


def test_without_a_back_end_the_pip_command_is_given(monkeypatch):
    monkeypatch.setattr(bindings, "installed", lambda: ())
    with pytest.raises(AsyncPipeError) as caught:
        emitted(copy_kernel(STRAIGHT), "isa")
    assert caught.value.code == "back-end-missing"
    assert "pip install '.[amd]'" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "code", "named"),
    [
        (
            b"s_add_u32 s0, s0, llvm.amdgcn.asyncmark@rel32@lo+4",
            "unknown-intrinsic",
            "llvm.amdgcn.asyncmark",
        ),
        (b" ; illegal copy v20 to s7", "codegen-failed", "illegal copy v20 to s7"),
    ],
)
def test_code_that_the_back_end_should_not_have_written_is_refused(monkeypatch, line, code, named):
    def answer(request):
        yield
        return b"f:\n\ts_getpc_b64 s[0:1]\n\t" + line + b"\n"

    monkeypatch.setattr(back_end_process, "run", answer)
    monkeypatch.setattr(rocdl_code, "back_end", lambda lowering: "flydsl")
    with pytest.raises(AsyncPipeError) as caught:
        emitted(copy_kernel(STRAIGHT), "isa")
    assert caught.value.code == code and named in str(caught.value)


ONE_GROUP = """
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
"""
TWO_GROUPS = """
    %group = nvgpu.device_async_create_group %copy
    %again = nvgpu.device_async_copy %A[%row, %column], %tile[%to_row, %to_column], 8, %n
        : memref<?x?xf16> to memref<64x32xf16, #gpu.address_space<workgroup>>
    %younger = nvgpu.device_async_create_group %again
    nvgpu.device_async_wait %group {numGroups = 1 : i32}
"""


@needs_flydsl
def test_copies_under_a_condition_are_reported_as_a_stricter_wait():
    # %n may be any number, so lanes leave the copies, and the back end counts none of them.
    text = copy_kernel(STRAIGHT, kept="%n")
    assert ONE_GROUP in text
    code = emitted(text.replace(ONE_GROUP, TWO_GROUPS), "isa")
    first = code.waits[0]
    assert (first.verdict, first.left) == ("stricter", (0,))
    assert "outside conditions" in first.reason
    assert {item.code for item in code.diagnostics} == {"back-end-wait"}


@needs_flydsl
def test_an_op_that_nothing_lowers_is_refused_where_it_stands():
    text = copy_kernel(STRAIGHT).replace(
        "    %group =", '    "other.op"() : () -> ()\n    %group ='
    )
    with pytest.raises(AsyncPipeError) as caught:
        emitted(text, "isa")
    assert caught.value.code == "left-over-op" and "'other.op'" in str(caught.value)
    assert caught.value.diagnostic.place.line > 0


@needs_flydsl
def test_what_the_conversions_refuse_is_reported_where_it_stands():
    wide = (
        "    amdgpu.gather_to_lds async %A[%row, %column], %tile[%c0, %c0] : vector<8xf16>, "
        f"memref<?x?xf16>, memref<64x32xf16, {SPACE}>\n"
    )
    text = copy_kernel(STRAIGHT).replace("    %group =", wide + "    %group =")
    emitted(text, "isa", "gfx950")
    with pytest.raises(AsyncPipeError) as caught:
        emitted(text, "isa", "gfx942")
    assert caught.value.code == "lowering-failed" and "gfx950" in str(caught.value)
    assert caught.value.diagnostic.place.line == text[: text.index(wide)].count("\n") + 1


@needs_flydsl
def test_a_back_end_that_gives_up_is_an_error_not_a_crash():
    with pytest.raises(AsyncPipeError) as caught:
        list(back_end_process.run(Request("flydsl", "module { not mlir }", (), "", "module")))
    assert caught.value.code == "codegen-failed"


@pytest.mark.parametrize(
    ("text", "code"),
    [("module {}", "no-kernels"), ("gpu.module @a {}\ngpu.module @b {}", "several-gpu-modules")],
)
def test_code_is_made_of_one_gpu_module(text, code):
    with pytest.raises(AsyncPipeError) as caught:
        emitted(text, "isa")
    assert caught.value.code == code


@pytest.mark.parametrize("emit", ["ptx", "cubin"])
def test_nvidias_kinds_of_code_are_refused(emit):
    with pytest.raises(AsyncPipeError) as caught:
        emitted(copy_kernel(STRAIGHT), emit)
    assert caught.value.code == "emit-kind" and "hsaco" in str(caught.value)
