"""How much workgroup memory a kernel reserves, where its buffers lie, and how they are aligned.

Covers: vocabulary/memory_layout.py, lowering/scopes/dense_buffers.py,
lowering/scopes/known_types.py
"""

from __future__ import annotations

import re

import pytest

import mlir_async_pipe
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, layout_of, span_bytes

WG = "#gpu.address_space<workgroup>"


def lowered(text: str, target: str, emit: str = "") -> mlir_async_pipe.lowering.lower.Lowered:
    with new_context():
        module = ir.Module.parse(f"module attributes {{gpu.container_module}} {{ {text} }}")
        default = "ptx" if target.startswith("nvvm") else "isa"
        return mlir_async_pipe.lower(module, target=target, emit=emit or default)


def touching(kind: str, *, tiles: int = 1, align: int = 0) -> str:
    """A kernel that moves one element within each of its tiles, so that no compiler drops them."""
    given = f" {{llvm.align = {align} : i64}}" if align else ""
    names = [f"%t{n}" for n in range(tiles)]
    shape, element = re.findall(r"^memref<((?:\d+x)+)(.*?)(?:, (?:strided|affine|#).*)?>$", kind)[0]
    rank = shape.count("x")
    at = ", ".join(["%i"] * rank)
    to = ", ".join(["%j"] * rank)
    body = "".join(
        f"%v{n} = memref.load {name}[{at}] : {kind}\nmemref.store %v{n}, {name}[{to}] : {kind}\n"
        f"gpu.barrier\n%w{n} = memref.load {name}[%c0{', %c0' * (rank - 1)}] : {kind}\n"
        f"memref.store %w{n}, %out{n}[%c0] : memref<1x{element}>\n"
        for n, name in enumerate(names)
    )
    outs = "".join(f", %out{n} : memref<1x{element}>" for n in range(tiles))
    return f"""gpu.module @m {{ gpu.func @k(%i : index, %j : index{outs})
      workgroup({", ".join(f"{name} : {kind}{given}" for name in names)}) kernel
      attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
      %c0 = arith.constant 0 : index
      {body} gpu.return }} }}"""


def reserved(code: mlir_async_pipe.lowering.lower.Lowered) -> int:
    """Bytes of workgroup memory that the code asks for."""
    amd = re.search(r"\.amdhsa_group_segment_fixed_size (\d+)", code.text)
    if amd:
        return int(amd.group(1))
    sizes = re.findall(r"\.shared \.align \d+ \.b8 \w+\[(\d+)\]", code.text)
    return sum(map(int, sizes)) + code.kernels[0].dynamic_shared_bytes


PADDED = {
    "strides": f"memref<32x32xf16, strided<[40, 1]>, {WG}>",
    "an affine map": f"memref<32x32xf16, affine_map<(d0, d1) -> (d0 * 40 + d1)>, {WG}>",
}


@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx942"])
@pytest.mark.parametrize("kind", PADDED.values(), ids=PADDED)
def test_a_padded_tile_reserves_what_its_elements_span(kind: str, target: str) -> None:
    assert reserved(lowered(touching(kind), target)) == (31 * 40 + 31 + 1) * 2


def test_an_offset_of_the_layout_is_reserved_too() -> None:
    kind = f"memref<64xf32, strided<[2], offset: 6>, {WG}>"
    assert reserved(lowered(touching(kind), "nvvm:sm_80")) == (6 + 63 * 2 + 1) * 4


def test_padded_allocations_and_globals_reserve_their_span() -> None:
    kind = PADDED["strides"]
    text = f"""gpu.module @m {{ gpu.func @k(%i : index, %x : f16, %o : memref<1xf16>) kernel {{
      %c0 = arith.constant 0 : index
      %a = memref.alloc() : {kind}
      memref.store %x, %a[%i, %i] : {kind}
      gpu.barrier
      %v = memref.load %a[%c0, %i] : {kind}
      memref.store %v, %o[%c0] : memref<1xf16>
      gpu.return }} }}"""
    assert reserved(lowered(text, "nvvm:sm_80")) == 2544
    assert reserved(lowered(text, "rocdl:gfx942")) == 2544


def test_padded_tiles_move_to_dynamic_memory_with_their_span() -> None:
    kind = f"memref<128x64xf32, strided<[68, 1]>, {WG}>"
    code = lowered(touching(kind, tiles=2), "nvvm:sm_80", "llvm")
    size = (127 * 68 + 64) * 4
    assert code.kernels[0].dynamic_shared_bytes == -(-size // 16) * 16 + size


@pytest.mark.parametrize(
    ("element", "stride"),
    [("i1", 1), ("i4", 1), ("i24", 4), ("vector<3xf32>", 16), ("complex<f32>", 8), ("f16", 2)],
)
def test_neighbours_above_48_kib_do_not_overlap(element: str, stride: int) -> None:
    """Two tiles lie one after the other, each as long as LLVM's data layout makes it."""
    count = 32768 // stride
    kind = f"memref<{count}x{element}, {WG}>"
    code = lowered(touching(kind, tiles=2), "nvvm:sm_80", "llvm")
    assert code.kernels[0].dynamic_shared_bytes == 2 * 32768
    assert re.search(r"\b32768\b", code.text)


@pytest.mark.parametrize(
    ("target", "element", "count", "tiles"),
    [
        ("nvvm:sm_86", "i24", 14000, 2),
        ("nvvm:sm_86", "vector<3xf32>", 3500, 2),
        ("nvvm:sm_86", "i1", 60000, 2),
        ("rocdl:gfx942", "i24", 20000, 1),
        ("rocdl:gfx942", "vector<3xf32>", 5000, 1),
        ("rocdl:gfx942", "i1", 80000, 1),
    ],
)
def test_the_limit_counts_what_llvm_reserves(
    target: str, element: str, count: int, tiles: int
) -> None:
    """By bits / 8 all of these would fit: 84000 of 101376 bytes, 60000 of 65536."""
    with pytest.raises(LoweringError) as caught:
        lowered(touching(f"memref<{count}x{element}, {WG}>", tiles=tiles), target)
    assert caught.value.code == "workgroup-memory"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx942"])
@pytest.mark.parametrize("element", ["i1", "i24", "vector<3xf32>", "f64", "complex<f32>"])
def test_the_code_reserves_what_the_layout_says(element: str, target: str) -> None:
    kind = f"memref<77x{element}, {WG}>"
    with new_context():
        expected = span_bytes(ir.Type.parse(kind))
    assert reserved(lowered(touching(kind), target)) == expected


@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx942"])
@pytest.mark.parametrize("element", ["f80", "tf32"])
def test_elements_that_no_memory_of_a_gpu_holds_are_refused(element: str, target: str) -> None:
    with pytest.raises(LoweringError) as caught:
        lowered(touching(f"memref<64x{element}, {WG}>"), target)
    assert caught.value.code == "element-layout"


def test_a_tiled_layout_is_refused() -> None:
    kind = f"memref<64xf32, affine_map<(d0) -> (d0 floordiv 4, d0 mod 4)>, {WG}>"
    with pytest.raises(LoweringError) as caught:
        lowered(touching(kind), "nvvm:sm_80")
    assert caught.value.code == "element-layout"


@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx942"])
def test_copies_of_elements_that_lie_apart_are_refused(target: str) -> None:
    """8 elements of i4 are 4 bytes in a vector and 8 in memory."""
    text = f"""gpu.module @m {{ gpu.func @k(%a : memref<64xi4>, %i : index)
      workgroup(%t : memref<64xi4, {WG}>) kernel
      attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
      %c = nvgpu.device_async_copy %a[%i], %t[%i], 8
        : memref<64xi4> to memref<64xi4, {WG}>
      gpu.return }} }}"""
    with pytest.raises(LoweringError) as caught:
        lowered(text, target)
    assert caught.value.code == "copy-width"


@pytest.mark.parametrize(
    ("text", "stride", "alignment"),
    [
        ("i1", 1, 1),
        ("i24", 4, 4),
        ("i48", 8, 8),
        ("f4E2M1FN", 1, 1),
        ("vector<3xf32>", 16, 16),
        ("vector<5xf16>", 16, 16),
        ("vector<8xi1>", 1, 1),
        ("vector<2x3xf16>", 16, 8),
        ("complex<f64>", 16, 8),
    ],
)
def test_layouts_are_llvms(text: str, stride: int, alignment: int) -> None:
    with new_context():
        layout = layout_of(ir.Type.parse(text))
    assert (layout.stride_bytes, layout.alignment) == (stride, alignment)


def test_strides_that_lead_to_before_the_buffer_have_no_span() -> None:
    with new_context(), pytest.raises(UnknownLayoutError):
        span_bytes(ir.Type.parse("memref<4xf32, strided<[-1], offset: 2>>"))


@pytest.mark.parametrize("tiles", [1, 4])
def test_the_alignment_that_is_asked_for_is_kept(tiles: int) -> None:
    """Below 48 KiB on the global itself, above it on the base and on each offset."""
    kind = f"memref<4100xf32, {WG}>"
    code = lowered(touching(kind, tiles=tiles, align=1024), "nvvm:sm_90")
    if tiles == 1:
        assert re.search(r"\.shared \.align 1024 \.b8 \w+\[16400\]", code.text)
        return
    assert re.search(r"\.extern \.shared \.align 1024", code.text)
    # 16400 bytes, the next multiple of 1024 being 17408.
    assert code.kernels[0].dynamic_shared_bytes == 3 * 17408 + 16400


def test_the_alignment_of_a_global_is_kept_in_dynamic_memory() -> None:
    kind = f"memref<8200xf32, {WG}>"
    text = f"""gpu.module @m {{
      memref.global "private" @a : {kind} {{alignment = 512 : i64}}
      memref.global "private" @b : {kind} {{alignment = 512 : i64}}
      gpu.func @k(%i : index, %x : f32) kernel {{
        %a = memref.get_global @a : {kind}
        %b = memref.get_global @b : {kind}
        memref.store %x, %a[%i] : {kind}
        memref.store %x, %b[%i] : {kind}
        gpu.return }} }}"""
    code = lowered(text, "nvvm:sm_80")
    assert re.search(r"\.extern \.shared \.align 512", code.text)
    assert code.kernels[0].dynamic_shared_bytes == 33280 + 32800
