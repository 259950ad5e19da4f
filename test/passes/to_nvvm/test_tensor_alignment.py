"""Workgroup memory of tensor copies begins where the swizzle of their tensor map does.

A tile that begins elsewhere is laid down rotated: wrong numbers and no message. So what is read
here is the PTX, and the alignment of the cubin's sections.

Covers: lowering/nvvm/shared_memory.py
"""

from __future__ import annotations

import re
import struct

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.nvvm.shared_memory import ANY, tensor_alignments

# Columns of f16 that fill a line of the swizzle, which MLIR demands of a box.
COLUMNS = {"none": 64, "swizzle_32b": 16, "swizzle_64b": 32, "swizzle_128b": 64}
BYTES = {"none": 128, "swizzle_32b": 256, "swizzle_64b": 512, "swizzle_128b": 1024}

MODULE = """
#wg = #gpu.address_space<workgroup>
!bars = !nvgpu.mbarrier.group<memorySpace = #wg, num_barriers = 1>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64x{columns}xf16, 3>, swizzle = {swizzle}, l2promo = none, oob = zero, interleave = none>
module attributes {{gpu.container_module}} {{
gpu.module @kernels {{
  {outside}
  gpu.func @kernel(%map_ : !llvm.ptr, %out : memref<64x{columns}xf16>) {workgroup} kernel
      attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %false = arith.constant false
    %ticks = arith.constant 1000 : index
    %bytes = arith.constant {bytes} : index
    %tid = gpu.thread_id x
    %leader = arith.cmpi eq, %tid, %c0 : index
    %full = nvgpu.mbarrier.create -> !bars
    nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !bars
    gpu.barrier
    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !bars
    {body}
    nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %ticks : !bars
    %v = memref.load %tile[%c0, %tid] : {tile}
    memref.store %v, %out[%c0, %tid] : memref<64x{columns}xf16>
    gpu.return
  }}
}}
}}
"""
LOAD = (
    "nvgpu.tma.async.load %map[%c0, %c0], %full[%c0] to %tile, predicate = %leader "
    ": !map, !bars -> {tile}"
)

CALLEE = """
  func.func @fill(%map_ : !llvm.ptr, %tile : {tile}) {{
    %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to !map
    %c0 = arith.constant 0 : index
    %tid = gpu.thread_id x
    %leader = arith.cmpi eq, %tid, %c0 : index
    %full = nvgpu.mbarrier.create -> !bars
    {load}
    return
  }}
"""
# Elements of a buffer beside the tile; the large one makes the kernel's memory dynamic.
PADDED = {"attribution": 200, "callee": 200, "large": 30000}


def kernel(swizzle: str, memory: str) -> str:
    """A kernel that copies one tile into `memory`."""
    columns = COLUMNS[swizzle]
    tile = f"memref<64x{columns}xf16, #wg>"
    workgroup, outside, body = "", "", ""
    if memory in PADDED:
        pad = f"memref<{PADDED[memory]}xf16, #wg>"
        workgroup = f"workgroup(%pad : {pad}, %tile : {tile})"
        use = f"%x = memref.load %out[%c0, %tid] : memref<64x{columns}xf16>\n"
        body = f"{use}memref.store %x, %pad[%tid] : {pad}\ngpu.barrier\n"
        body += f"%y = memref.load %pad[%c0] : {pad}\n"
        body += f"memref.store %y, %out[%c1, %tid] : memref<64x{columns}xf16>\n"
    if memory == "callee":
        outside = CALLEE.format(tile=tile, load=LOAD.format(tile=tile))
        body += f"func.call @fill(%map_, %tile) : (!llvm.ptr, {tile}) -> ()"
    elif memory == "global":
        outside = f'memref.global "private" @tile : {tile}'
        body = f"%tile = memref.get_global @tile : {tile}\n"
    elif memory == "allocation":
        body = f"%tile = memref.alloc() : {tile}\n"
    elif memory == "dynamic":
        raw = "memref<?xi8, #wg>"
        body = f"%all = gpu.dynamic_shared_memory : {raw}\n"
        body += f"%tile = memref.view %all[%c0][] : {raw} to {tile}\n"
    if memory != "callee":
        body += LOAD.format(tile=tile)
    return MODULE.format(
        swizzle=swizzle,
        columns=columns,
        bytes=128 * columns,
        tile=tile,
        workgroup=workgroup,
        outside=outside,
        body=body,
    )


def lowered(text: str, emit: str) -> bytes:
    with new_context():
        made = lower(ir.Module.parse(text), target=Target.parse("nvvm:sm_90a"), emit=emit)
    return made.binary or made.text.encode()


def alignments(ptx: str) -> dict[str, int]:
    """Bytes by name of what PTX declares in shared memory."""
    found = re.findall(r"\.shared \.align (\d+) \.b8 (\w+)\[", ptx)
    return {name: int(least) for least, name in found}


MEMORIES = ("attribution", "large", "global", "allocation", "dynamic", "callee")


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("swizzle", BYTES)
def test_each_memory_begins_where_the_swizzle_does(swizzle: str, memory: str) -> None:
    declared = alignments(lowered(kernel(swizzle, memory), "ptx").decode())
    tiles = {name: least for name, least in declared.items() if "mbarrier" not in name}
    wanted = BYTES[swizzle]
    if memory in ("attribution", "callee"):
        assert min(tiles.values()) == 16, "what no tensor copy touches is aligned as before"
    assert max(tiles.values()) == wanted
    assert all(least == 8 for name, least in declared.items() if "mbarrier" in name)


def section_alignments(cubin: bytes) -> dict[str, int]:
    """sh_addralign by name of an ELF file's sections (System V ABI, 64 bits)."""
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + size * i) for i in range(count)]
    start = headers[names][4]
    found = {}
    for header in headers:
        end = cubin.index(b"\0", start + header[0])
        found[cubin[start + header[0] : end].decode()] = header[8]
    return found


@pytest.mark.parametrize("swizzle", BYTES)
def test_the_cubin_keeps_the_alignment(swizzle: str) -> None:
    sections = section_alignments(lowered(kernel(swizzle, "attribution"), "cubin"))
    assert sections[".nv.shared.kernel"] == BYTES[swizzle]


def test_a_larger_alignment_of_the_author_stays() -> None:
    text = kernel("swizzle_32b", "attribution").replace(
        "%tile : memref<64x16xf16, #wg>)",
        "%tile : memref<64x16xf16, #wg> {llvm.align = 2048 : i64})",
    )
    assert max(alignments(lowered(text, "ptx").decode()).values()) == 2048


def test_memory_that_is_not_known_asks_of_every_buffer() -> None:
    """Which of two buffers a select hands on is not followed, so both begin at 1024."""
    tile = "memref<64x64xf16, #wg>"
    text = kernel("swizzle_128b", "attribution")
    text = text.replace("memref<200xf16, #wg>", tile).replace("%pad[%", "%pad[%c0, %")
    either = f"%one = arith.select %leader, %tile, %pad : {tile}\n"
    text = text.replace(
        LOAD.format(tile=tile), either + LOAD.format(tile=tile).replace("to %tile", "to %one")
    )
    with new_context():
        assert tensor_alignments(ir.Module.parse(text).operation) == {ANY: 1024}
    tiles = alignments(lowered(text, "ptx").decode())
    assert sorted(tiles.values()) == [8, 1024, 1024]


def test_memory_of_other_copies_stays_as_it_is() -> None:
    text = kernel("swizzle_128b", "attribution")
    text = text.replace(LOAD.format(tile="memref<64x64xf16, #wg>"), "")
    assert alignments(lowered(text, "ptx").decode()) == {"__mbarrier": 8, "__wg_kernel_0": 16}
