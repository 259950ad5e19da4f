"""Kernels with the tensor data mover of gfx1250, each with what is wrong with it.

`KERNELS`: body, threads, codes of the races. Rows of 64 f16; `%tile` is the block's tile in LDS, `%own` has one for
each of four waves; %load, %store and %load_own are descriptors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target

WG, GLOBAL = "#gpu.address_space<workgroup>", "#gpu.address_space<global>"
MATRIX = f"memref<256x64xf16, {GLOBAL}>"
TILE, OWN = f"memref<32x64xf16, {WG}>", f"memref<4x32x64xf16, {WG}>"
_TYPES = "!amdgpu.tdm_base<f16> -> !amdgpu.tdm_descriptor"


def descriptor(name: str, source: str, place: str, kind: str = TILE, **more: str) -> str:
    """A descriptor of 32 rows of 64; `more`: sizes, tile and what follows them."""
    sizes, tile = more.get("sizes", "32, 64"), more.get("tile", "32, 64")
    return f"""
    %{name}_base = amdgpu.make_dma_base {source}, {place} : {MATRIX}, {kind} -> !amdgpu.tdm_base<f16>
    %{name} = amdgpu.make_dma_descriptor %{name}_base globalSize [{sizes}] globalStride [64, 1]
      sharedSize [{tile}] {more.get("rest", "")} : {_TYPES}"""


def load(name: str = "load") -> str:
    return f"amdgpu.tensor_load_to_lds %{name} : !amdgpu.tdm_descriptor\n"


def store(name: str = "store") -> str:
    return f"amdgpu.tensor_store_from_lds %{name} : !amdgpu.tdm_descriptor\n"


def wait(count: int) -> str:
    return f"rocdl.s.wait.tensorcnt {count}\n"


def by(condition: str, body: str) -> str:
    return f"scf.if {condition} {{\n{body}}}\n"


BARRIER = "gpu.barrier\n"
# Each thread reads the 16 elements of its row of the tile that another wave's lane holds, too.
READ = f"""
    %v = vector.load %tile[%row, %column] : {TILE}, vector<16xf16>
    vector.store %v, %out[%row, %column] : {MATRIX}, vector<16xf16>
"""
READ_OWN = f"""
    %v = vector.load %own[%wave, %lane, %c0] : {OWN}, vector<16xf16>
    vector.store %v, %out[%t, %c0] : {MATRIX}, vector<16xf16>
"""
OVERWRITE = f"    vector.store %ones, %tile[%row, %column] : {TILE}, vector<16xf16>\n"


def kernel(body: str, threads: int = 128, more: str = "") -> str:
    """A block of `threads`, which copy from %src; `more` stands before the body."""
    setup = "".join(
        descriptor(name, source, place, kind)
        for name, source, place, kind in (
            ("load", "%src[%c0, %c0]", "%tile[%c0, %c0]", TILE),
            ("next", "%src[%c32, %c0]", "%tile[%c0, %c0]", TILE),
            ("store", "%dst[%c0, %c0]", "%tile[%c0, %c0]", TILE),
            ("load_own", "%src[%rows, %c0]", "%own[%wave, %c0, %c0]", OWN),
            ("store_own", "%dst[%rows, %c0]", "%own[%wave, %c0, %c0]", OWN),
        )
    )
    return f"""
module attributes {{gpu.container_module}} {{
gpu.module @kernels {{
  gpu.func @k(%src: {MATRIX} {{llvm.noalias}}, %out: {MATRIX} {{llvm.noalias}}, %dst: {MATRIX} {{llvm.noalias}})
      workgroup(%tile: {TILE}, %own: {OWN}) kernel
      attributes {{known_block_size = array<i32: {threads}, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %ones = arith.constant dense<1.0> : vector<16xf16>
    %t = gpu.thread_id x
    %wave = arith.divui %t, %c32 : index
    %lane = arith.remui %t, %c32 : index
    %rows = arith.muli %wave, %c32 : index
    %row = arith.divui %t, %c4 : index
    %quarter = arith.remui %t, %c4 : index
    %column = arith.muli %quarter, %c16 : index
    %first_wave = arith.cmpi ult, %t, %c32 : index
    %first_thread = arith.cmpi eq, %t, %c0 : index
{setup}{more}
{body}
    gpu.return
  }}
}}
}}"""


class Kernel(NamedTuple):
    """The body of a kernel, its threads, and the codes of its races."""

    body: str
    threads: int = 128
    codes: frozenset[str] = frozenset()


def _races(*codes: str) -> frozenset[str]:
    return frozenset(codes)


LOADED = load() + wait(0) + BARRIER
KERNELS = {
    "all waves copy it": Kernel(LOADED + READ),
    "the first wave copies it": Kernel(by("%first_wave", load()) + wait(0) + BARRIER + READ),
    "it waits where it copies": Kernel(by("%first_wave", load() + wait(0)) + BARRIER + READ),
    "one thread is enough": Kernel(by("%first_thread", load()) + wait(0) + BARRIER + READ),
    "nobody waits": Kernel(load() + BARRIER + READ + wait(0), 128, _races("read-in-flight")),
    "one may stay": Kernel(
        load() + wait(1) + BARRIER + READ + wait(0), 128, _races("read-in-flight")
    ),
    "no barrier tells the other waves": Kernel(load() + wait(0) + READ, 128, _races("not-visible")),
    "a barrier before the wait": Kernel(
        by("%first_wave", load()) + BARRIER + wait(0) + READ, 128, _races("not-visible")
    ),
    "a wave is told by its wait": Kernel(load() + wait(0) + READ, 32),
    "each wave has its own tile": Kernel(load("load_own") + wait(0) + READ_OWN),
    "each reads its own too early": Kernel(
        load("load_own") + wait(1) + READ_OWN + wait(0), 128, _races("read-in-flight")
    ),
    "the older of two": Kernel(load("load_own") + load() + wait(1) + READ_OWN + wait(0)),
    "the younger of two": Kernel(
        load() + load("load_own") + wait(1) + READ_OWN + wait(0), 128, _races("read-in-flight")
    ),
    "marks cover it": Kernel(load() + "rocdl.asyncmark\nrocdl.wait.asyncmark 0\n" + BARRIER + READ),
    "another counter": Kernel(
        load() + "rocdl.s.wait.asynccnt 0\n" + BARRIER + READ + wait(0),
        128,
        _races("read-in-flight"),
    ),
    "the next tile before others have read": Kernel(
        LOADED + READ + load("next") + wait(0), 128, _races("missing-barrier")
    ),
    "the next tile after all have read": Kernel(LOADED + READ + BARRIER + load("next") + wait(0)),
    "a store of what all have written": Kernel(
        OVERWRITE + BARRIER + by("%first_wave", store()) + wait(0)
    ),
    "a store of what others still write": Kernel(
        OVERWRITE + by("%first_wave", store()) + wait(0), 128, _races("missing-barrier")
    ),
    "written while it is stored": Kernel(
        OVERWRITE + BARRIER + store() + OVERWRITE + wait(0), 128, _races("source-overwritten")
    ),
    "written after it was stored": Kernel(
        OVERWRITE + BARRIER + by("%first_wave", store()) + wait(0) + BARRIER + OVERWRITE
    ),
    "a wave stores its own": Kernel(load("load_own") + wait(0) + store("store_own") + wait(0)),
    "a wave stores its own too early": Kernel(
        load("load_own") + store("store_own") + wait(0), 128, _races("read-in-flight")
    ),
    "a wave loads over what it stores": Kernel(
        load("load_own") + wait(0) + store("store_own") + load("load_own") + wait(0),
        128,
        _races("source-overwritten"),
    ),
}


def run(text: str, **options: object) -> machine.RunResult:
    """Run a kernel with 128 threads, or as many as its attribute says; %out and %dst begin with zeros."""
    source = np.arange(256 * 64, dtype=np.float32).reshape(256, 64).astype(np.float16)
    module = ir.Module.parse(text, new_context())
    arrays = [source, np.zeros_like(source), np.zeros_like(source)]
    return machine.run(module, None, arrays, target=Target.parse("rocdl:gfx1250"), **options)
