"""Privatisation without a block size: what holds in some shapes of blocks need not hold in all.

Covers: pipeliner/dependence/distance.py, pipeliner/dependence/privatise.py
"""

from __future__ import annotations

import pytest

from helpers.analysed_loop import analysed
from mlir_async_pipe import bindings, pipeline
from mlir_async_pipe.pipeliner.dependence.privatise import unproven_read, writes_the_same
from mlir_async_pipe.session.diagnostics import AsyncPipeError

ir = bindings.ir

PLACES = """
%ty = gpu.thread_id y
%bx = gpu.block_dim x
%c30 = arith.constant 30 : index
%rest = arith.andi %bx, %c30 : index
%far = arith.addi %tid, %rest : index
%half = arith.divui %tid, %c2 : index
%last = arith.subi %bx, %c1 : index
%opposite = arith.subi %last, %tid : index
"""


def is_private(write: str, read: str, threads: int | None = None) -> bool:
    """Whether each iteration reads only what it wrote, where others write all of the buffer."""
    body = (
        PLACES
        + f"memref.store %x, %S[{write}] : memref<64xf32, #wg>\n"
        + f"%r = memref.load %S[{read}] : memref<64xf32, #wg>"
    )
    _module, regions, _, arithmetic = analysed(body, threads=threads)
    found = [r for r in regions if r.root is not None and r.root.kind == "allocation"]
    missing = unproven_read(found[0].root, found, arithmetic.block_size, written_elsewhere=True)
    assert missing is None or missing.open_block == (threads is None)
    return missing is None


@pytest.mark.parametrize(
    ("write", "read", "private"),
    [
        # A block of 1 x 2 threads writes element 0, and reads 0 and 1.
        ("%tid", "%ty", False),
        ("%ty", "%tid", False),
        # The same place in every block with 0 to 31 threads over a multiple of 32, but not with 2.
        ("%tid", "%far", False),
        ("%tid", "%half", True),
        ("%tid", "%opposite", True),
        ("%ty", "%c0", True),
        ("%ty", "%ty", True),
        ("%c0", "%c0", True),
    ],
)
def test_without_a_block_size_a_proof_holds_in_every_shape(
    write: str, read: str, private: bool
) -> None:
    assert is_private(write, read) == private


def test_with_a_block_size_that_block_alone_counts() -> None:
    assert is_private("%tid", "%ty", threads=32)
    assert is_private("%tid", "%far", threads=64)


def test_elements_that_some_shape_alone_writes_are_not_those_of_every_iteration() -> None:
    """In a block of 1 x 2 threads the second store, which may be skipped, writes element 1."""
    body = PLACES + (
        "memref.store %x, %S[%tid] : memref<64xf32, #wg>\n"
        "%p = arith.cmpi eq, %i, %c0 : index\n"
        "scf.if %p { memref.store %x, %S[%ty] : memref<64xf32, #wg> }"
    )
    _module, regions, _, _ = analysed(body)
    found = [r for r in regions if r.root is not None and r.root.kind == "allocation"]
    assert not writes_the_same(found, None)
    assert writes_the_same(found, (64, 1, 1))


@pytest.mark.parametrize(("threads", "private"), [(64, True), (48, False)])
def test_lanes_that_a_block_does_not_have_copy_nothing(threads: int, private: bool) -> None:
    """64 lanes copy 256 elements; a wave of 48 threads copies 192, and element 192 is old."""
    body = (
        "%L = memref.alloc() : memref<2048xf32, #wg>\n%c192 = arith.constant 192 : index\n"
        "amdgpu.gather_to_lds %A[%i], %L[%c0] : vector<4xf32>, memref<64xf32>, memref<2048xf32, #wg>\n"
        "%r = memref.load %L[%c192] : memref<2048xf32, #wg>"
    )
    _module, regions, _, arithmetic = analysed(body, threads=threads)
    found = [r for r in regions if r.root is not None and r.root.kind == "allocation"]
    missing = unproven_read(found[0].root, found, arithmetic.block_size, written_elsewhere=True)
    assert (missing is None) == private


KERNEL = """
func.func @k(%A: memref<4096xf32> {{llvm.noalias}}, %O: memref<64xf32> {{llvm.noalias}}, %x: f32)
    attributes {{{known}}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %tx = gpu.thread_id x
  %ty = gpu.thread_id y
  %tile = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
  memref.store %x, %tile[%tx] : memref<64xf32, #gpu.address_space<workgroup>>
  %total = scf.for %i = %c0 to %c64 step %c1 iter_args(%sum = %zero) -> (f32) {{
    %at = arith.addi %i, %tx : index
    %copy = nvgpu.device_async_copy %A[%at], %tile[%tx], 1 : memref<4096xf32> to memref<64xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    gpu.barrier
    %v = memref.load %tile[%ty] : memref<64xf32, #gpu.address_space<workgroup>>
    %next = arith.addf %sum, %v : f32
    gpu.barrier
    scf.yield %next : f32
  }} {{async_pipe.num_stages = 2 : i64}}
  memref.store %total, %O[%tx] : memref<64xf32>
  return
}}
"""


def pipelined(known: str) -> str:
    module = ir.Module.parse(KERNEL.format(known=known), bindings.new_context())
    pipeline(module, target="nvvm:sm_80")
    return str(module)


def test_a_buffer_that_some_shapes_leave_unwritten_gets_no_versions() -> None:
    """Blocks of 1 x 2 threads read what stood in the tile before the loop."""
    with pytest.raises(AsyncPipeError) as refused:
        pipelined("")
    assert refused.value.code == "not-privatisable"
    assert "known_block_size" in str(refused.value)
    assert "memref<2x64xf32" in pipelined("known_block_size = array<i32: 64, 1, 1>")
