"""Mathematics and sizes of the grid on AMD chips: with instructions where there are some, else by
ROCm's device libraries, and never by nothing.

Covers: lowering/rocdl/native_calls.py, lowering/rocdl/rocdl_code.py
"""

from __future__ import annotations

import pytest

from helpers.rocdl_kernels import parse
from mlir_async_pipe import bindings
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.rocdl import rocdl_code
from mlir_async_pipe.session.diagnostics import AsyncPipeError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not any(stack.name == "flydsl" for stack in bindings.installed()),
        reason="no AMDGPU back end: pip install flydsl",
    ),
]


def kernel(lines: str, kind: str = "f32") -> str:
    """Loads %v, and stores the %r that `lines` make of it, or of %i."""
    return f"""module attributes {{gpu.container_module}} {{ gpu.module @m {{
      gpu.func @k(%a: memref<64x{kind}>) kernel {{
        %i = gpu.thread_id x
        %v = memref.load %a[%i] : memref<64x{kind}>
        {lines}
        memref.store %r, %a[%i] : memref<64x{kind}>
        gpu.return }} }} }}"""


def isa(text: str, chip: str = "gfx942") -> str:
    """The assembly of a kernel."""
    return lower(parse(text), target=Target.of_chip(chip), emit="isa").text


def refused(text: str) -> AsyncPipeError:
    """What `lower` raises."""
    with pytest.raises(AsyncPipeError) as caught:
        isa(text)
    return caught.value


@pytest.fixture
def no_libraries(monkeypatch):
    """A machine without ROCm and the packages that have its libraries."""
    for module in (rocdl_code,):
        monkeypatch.setattr(module, "device_libraries", lambda: None)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("exp", "v_exp_f"),
        ("exp2", "v_exp_f"),
        ("expm1", "v_exp_f"),
        ("log", "v_log_f"),
        ("log2", "v_log_f"),
        ("log10", "v_log_f"),
        ("log1p", "v_log_f"),
        ("sqrt", "v_sqrt_f"),
        ("rsqrt", ("v_rsq_f", "v_sqrt_f")),
        ("floor", "v_floor_f"),
        ("ceil", "v_ceil_f"),
    ],
)
def test_what_the_chip_computes_needs_no_library(name, instruction, kind, no_libraries):
    text = isa(kernel(f"%r = math.{name} %v : {kind}", kind))
    any_of = (instruction,) if isinstance(instruction, str) else instruction
    assert any(each in text for each in any_of)
    assert "global_store" in text and "__ocml" not in text


def test_vectors_of_several_dimensions_are_computed_element_by_element(no_libraries):
    text = isa(
        kernel(
            """%all = vector.broadcast %v : f32 to vector<2x3xf32>
            %m = memref.load %a[%i] : memref<64xf32>
            %w = vector.insert %m, %all [1, 2] : f32 into vector<2x3xf32>
            %e = math.exp2 %w : vector<2x3xf32>
            %x = vector.extract %e[0, 0] : f32 from vector<2x3xf32>
            %y = vector.extract %e[1, 2] : f32 from vector<2x3xf32>
            %r = arith.subf %x, %y : f32"""
        )
    )
    assert "v_exp_f32" in text and "__ocml" not in text


@pytest.mark.parametrize(
    ("name", "kind", "called"),
    [
        ("tanh", "f32", "__ocml_tanh_f32"),
        ("erf", "f16", "__ocml_erf_f16"),
        ("sin", "f32", "__ocml_sin_f32"),
        ("exp", "f64", "__ocml_exp_f64"),
    ],
)
def test_the_rest_is_refused_without_the_libraries(name, kind, called, no_libraries):
    error = refused(kernel(f"%r = math.{name} %v : {kind}", kind))
    assert error.code == "device-libraries-missing" and called in str(error)
    assert "pip install triton" in str(error)
    assert error.diagnostic.place.line == 5


def test_an_intrinsic_that_the_back_end_leaves_out_is_refused():
    error = refused(kernel("%r = llvm.intr.tanh(%v) : (f32) -> f32"))
    assert error.code == "unknown-intrinsic" and "write 'math.tanh'" in str(error)


# LLVM reads its own text too where it expects bitcode.
LIBRARY = """
target triple = "amdgcn-amd-amdhsa"
define float @__ocml_erf_f32(float %x) {
  %twice = fmul float %x, 4096.0
  ret float %twice
}
"""


def test_the_rest_is_linked_with_the_libraries_of_rocm(monkeypatch, tmp_path):
    place = tmp_path / "amdgcn" / "bitcode"
    place.mkdir(parents=True)
    (place / "ocml.bc").write_text(LIBRARY)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    text = isa(kernel("%r = math.erf %v : f32"))
    # 4096.0, or the twelve that v_ldexp adds to the exponent.
    assert ("0x45800000" in text or "v_ldexp_f32" in text) and "global_store" in text


def test_the_libraries_of_a_package_are_found(monkeypatch, tmp_path):
    place = tmp_path / "triton" / "backends" / "amd" / "lib"
    place.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").write_text("raise AssertionError('not to be imported')")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "none"))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert rocdl_code.device_libraries() != place
    (place / "ocml.bc").write_text("")
    assert rocdl_code.device_libraries() == place


@pytest.mark.parametrize("dimension", ["x", "y", "z"])
def test_sizes_of_the_grid_are_read_from_the_hidden_arguments(dimension, no_libraries):
    lines = f"""%n = gpu.grid_dim {dimension}
        %b = gpu.block_dim {dimension}
        %s = arith.muli %n, %b : index
        %r = arith.index_cast %s : index to i32"""
    text = isa(kernel(lines, "i32"))
    assert f"hidden_block_count_{dimension}" in text and "__ockl" not in text
    # After the 40 bytes of the memref: 4 bytes for each number of blocks, then 2 for each of threads.
    number = "xyz".index(dimension)
    assert f"0x{40 + 4 * number:x}\n" in text
    assert f"0x{52 + 2 * number & ~3:x}\n" in text
