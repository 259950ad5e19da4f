"""Loops of copies by the tensor data mover of gfx1250, which `num_stages` pipelines.

Each iteration copies a tile of 32 rows of 64 f16 and adds it up; 128 threads, four waves.
"""

from __future__ import annotations

import numpy as np

from mlir_async_pipe import machine
from mlir_async_pipe.chips.target import Target

WG, GLOBAL = "#gpu.address_space<workgroup>", "#gpu.address_space<global>"
COLUMNS = 1024
MATRIX = f"memref<32x{COLUMNS}xf16, {GLOBAL}>"
TILE = f"memref<32x64xf16, {WG}>"
GFX1250 = Target.parse("rocdl:gfx1250")
# Which waves copy: all of them, the first one, one thread of it, or each its own eight rows.
WHO = ("all", "wave", "thread", "rows")
CONDITIONS = {"wave": "%first_wave", "thread": "%first_thread", "subgroup": "%first_subgroup"}


def _descriptor(name: str, source: str, tile: str, place: str, rows: int) -> str:
    return f"""
      %{name}_base = amdgpu.make_dma_base {source}, {tile}{place} : {MATRIX}, {TILE} -> !amdgpu.tdm_base<f16>
      %{name} = amdgpu.make_dma_descriptor %{name}_base globalSize [{rows}, 64] globalStride [{COLUMNS}, 1]
        sharedSize [{rows}, 64] : !amdgpu.tdm_base<f16> -> !amdgpu.tdm_descriptor"""


def loop(who: str = "wave", stages: int = 3, tiles: int = 1, attributes: str = "") -> str:
    """The loop as its author writes it: copy, wait for all, barrier, add, barrier."""
    rows, row = (8, "%own_row") if who == "rows" else (32, "%c0")
    names = [f"tile{number}" for number in range(tiles)]
    copies, reads, sums = "", "", "%acc"
    for number, name in enumerate(names):
        copies += _descriptor(f"d{number}", f"%src[{row}, %k]", f"%{name}", f"[{row}, %c0]", rows)
    issue = "".join(
        f"\n        amdgpu.tensor_load_to_lds %d{n} : !amdgpu.tdm_descriptor" for n in range(tiles)
    )
    if who in CONDITIONS:
        issue = f"\n      scf.if {CONDITIONS[who]} {{{issue}\n      }}"
    for number, name in enumerate(names):
        reads += f"""
      %v{number} = vector.load %{name}[%row, %column] : {TILE}, vector<16xf16>
      %x{number} = arith.extf %v{number} : vector<16xf16> to vector<16xf32>
      %s{number} = arith.addf {sums}, %x{number} : vector<16xf32>"""
        sums = f"%s{number}"
    asked = f"async_pipe.num_stages = {stages} : i64" + (f", {attributes}" if attributes else "")
    attributions = ", ".join(f"%{name}: {TILE}" for name in names)
    return f"""
module attributes {{gpu.container_module}} {{
gpu.module @kernels {{
  gpu.func @k(%src: {MATRIX} {{llvm.noalias}}, %out: memref<32x64xf32, {GLOBAL}> {{llvm.noalias}}, %n: index)
      workgroup({attributions}) kernel
      attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %t = gpu.thread_id x
    %row = arith.divui %t, %c4 : index
    %quarter = arith.remui %t, %c4 : index
    %column = arith.muli %quarter, %c16 : index
    %wave = arith.divui %t, %c32 : index
    %own_row = arith.muli %wave, %c8 : index
    %first_wave = arith.cmpi ult, %t, %c32 : index
    %first_thread = arith.cmpi eq, %t, %c0 : index
    %subgroup = gpu.subgroup_id : index
    %first_subgroup = arith.cmpi eq, %subgroup, %c0 : index
    %zero = arith.constant dense<0.0> : vector<16xf32>
    %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> vector<16xf32> {{{copies}{issue}
      rocdl.s.wait.tensorcnt 0
      gpu.barrier{reads}
      gpu.barrier
      scf.yield {sums} : vector<16xf32>
    }} {{{asked}}}
    vector.store %r, %out[%row, %column] : memref<32x64xf32, {GLOBAL}>, vector<16xf32>
    gpu.return
  }}
}}
}}"""


def run(module: object, iterations: int, **options: object) -> machine.RunResult:
    """Run a loop over so many tiles; the result stands in the second array."""
    source = np.arange(32 * COLUMNS, dtype=np.float32).reshape(32, COLUMNS) % 251
    arrays = [source.astype(np.float16), np.full((32, 64), -1, np.float32)]
    arguments = [*arrays, 64 * iterations]
    return machine.run(module, None, arguments, threads=128, target=GFX1250, **options)


def expected(iterations: int, tiles: int = 1) -> np.ndarray:
    source = np.arange(32 * COLUMNS, dtype=np.float32).reshape(32, COLUMNS) % 251
    blocks = source[:, : 64 * iterations].reshape(32, iterations, 64)
    return tiles * blocks.sum(axis=1)
