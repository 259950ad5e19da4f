"""Every row of the vocabulary runs on the machine, or is refused by name.

Covers: vocabulary/async_ops.py, vocabulary/memory_ops.py, vocabulary/rows.py, machine/decode.py, machine/launch.py, machine/dialects/amd.py, machine/dialects/control.py, machine/dialects/gpu.py, machine/dialects/llvm.py, machine/dialects/arith.py, machine/dialects/nvvm.py, machine/dialects/tma.py
"""

import re

import numpy as np
import pytest

from helpers.machine_programs import parse, run
from mlir_async_pipe import machine
from mlir_async_pipe.machine import dialects  # noqa: F401  (fills the table of semantics)
from mlir_async_pipe.machine.decode import SEMANTICS
from mlir_async_pipe.session.diagnostics import MachineError
from mlir_async_pipe.vocabulary import ROWS
from mlir_async_pipe.vocabulary.async_ops import INTRINSIC_ROWS
from mlir_async_pipe.vocabulary.barriers import BARRIER_INTRINSICS
from mlir_async_pipe.vocabulary.memory_ops import HINTS

# Each program copies or keeps `src`, 64 values, through the op named and gives it in `dst`.
HEAD = "func.func @f(%src: memref<64xf32>, %dst: memref<64xf32>) {"
SHARED = "memref<64xf32, WG>"
BASE = """
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %buf = memref.alloc() : memref<64xf32, WG>
"""
KEEP = """
  %kept = memref.load %buf[%t] : memref<64xf32, WG>
  memref.store %kept, %dst[%t] : memref<64xf32>
  return
}"""
COPY = f"nvgpu.device_async_copy %src[%t], %buf[%t], 1 : memref<64xf32> to {SHARED}"
GROUPED = f"%x = {COPY}\n%g = nvgpu.device_async_create_group %x\nnvgpu.device_async_wait %g"
GATHER = f"amdgpu.gather_to_lds async %src[%t], %buf[%c0] : f32, memref<64xf32>, {SHARED}"
LDS = (
    f"amdgpu.global_load_async_to_lds %src[%t], %buf[%t] : vector<1xf32>, memref<64xf32>, {SHARED}"
)
STORED = f"%v = memref.load %src[%t] : memref<64xf32>\nmemref.store %v, %buf[%t] : {SHARED}"
MARKS = "rocdl.asyncmark\nrocdl.wait.asyncmark 0"
SCOPE = f"""
"async_pipe.scope"() ({{
  {STORED}
  "async_pipe.yield"() : () -> ()
}}) {{queue = 0 : i64}} : () -> ()"""
COMMIT = '%q = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK'
FIFO = f"""
"async_pipe.producer_acquire"() {{queue = 0 : i64, depth = 1 : i64}} : () -> ()
{SCOPE}
{COMMIT}
"async_pipe.consumer_wait"() {{queue = 0 : i64}} : () -> ()
"async_pipe.consumer_release"() {{queue = 0 : i64}} : () -> ()"""


def memref_program(body: str) -> str:
    return HEAD + BASE + body + KEEP


def pointers(copy: str, wait: str) -> str:
    """A program of pointers: `%from` and `%lds` are this thread's, `%wave` the block's."""
    return f"""
    llvm.mlir.global internal @bar() {{addr_space = 3 : i32}} : i64
    llvm.mlir.global internal @lds() {{addr_space = 3 : i32}} : !llvm.array<64 x f32>
    llvm.func @f(%src: !llvm.ptr<1>, %dst: !llvm.ptr<1>) {{
      %t = rocdl.workitem.id.x : i32
      %wave = llvm.mlir.addressof @lds : !llvm.ptr<3>
      %from = llvm.getelementptr %src[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %lds = llvm.getelementptr %wave[%t] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
      %to = llvm.getelementptr %dst[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      {copy}
      {wait}
      %kept = llvm.load %lds : !llvm.ptr<3> -> f32
      llvm.store %kept, %to : f32, !llvm.ptr<1>
      llvm.return
    }}"""


def without_store(copy: str, wait: str) -> str:
    """The same, where the op itself writes `dst`."""
    return pointers(copy, wait).replace("llvm.store %kept, %to : f32, !llvm.ptr<1>", "")


ENDS = "!llvm.ptr<1>, !llvm.ptr<3>"
CP = "nvvm.cp.async.shared.global %lds, %from, 4, cache = ca : !llvm.ptr<3>, !llvm.ptr<1>"
CP_WAIT = "nvvm.cp.async.commit.group\nnvvm.cp.async.wait.group 0"
THROUGH = "%z = llvm.load %from : !llvm.ptr<1> -> f32\nllvm.store %z, %lds : f32, !llvm.ptr<3>"
# The two low bytes of a small float are 0.
LOW_BYTES_SET = f"""{THROUGH}
%bits = llvm.bitcast %z : f32 to i32
%low = llvm.mlir.constant(65535 : i32) : i32
%set = llvm.or %bits, %low : i32
llvm.store %set, %lds : i32, !llvm.ptr<3>
%no = llvm.mlir.constant(0 : i8) : i8
%two = llvm.mlir.constant(2 : i64) : i64
"""
FENCES = (
    "llvm.fence acq_rel",
    "nvvm.memory.barrier #nvvm.mem_scope<gpu>",
    "nvvm.fence.sc.cluster",
    "nvvm.fence.mbarrier.init",
    "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>}",
    "nvvm.fence.proxy.release #nvvm.mem_scope<gpu>",
    "nvvm.fence.proxy.sync_restrict {order = #nvvm.mem_order<acquire>}",
    "nvvm.fence.sync_restrict {order = #nvvm.mem_order<acquire>}",
)
FENCE = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"
# Every fourth thread copies 16 bytes, and the others none: a bulk copy has 16 bytes at least, at multiples of 16.
SIXTEEN = """%three = llvm.mlir.constant(3 : i32) : i32
%nothing = llvm.mlir.constant(0 : i32) : i32
%sixteen = llvm.mlir.constant(16 : i32) : i32
%low = llvm.and %t, %three : i32
%copies = llvm.icmp "eq" %low, %nothing : i32
%size = llvm.select %copies, %sixteen, %nothing : i1, i32"""
BULK = f"""{THROUGH}
{FENCE}
nvvm.barrier
{SIXTEEN}
nvvm.cp.async.bulk.global.shared.cta %to, %lds, %size : !llvm.ptr<1>, !llvm.ptr<3>
nvvm.cp.async.bulk.commit.group
nvvm.cp.async.bulk.wait_group 0"""
# Thread 0 announces the bytes of all copies, and arrives again after them.
BULK_LOAD = f"""{SIXTEEN}
%none = llvm.mlir.constant(0 : i32) : i32
%two = llvm.mlir.constant(2 : i32) : i32
%some = llvm.mlir.constant(256 : i32) : i32
%first = llvm.icmp "eq" %t, %none : i32
%bar = llvm.mlir.addressof @bar : !llvm.ptr<3>
nvvm.mbarrier.init %bar, %two, predicate = %first : !llvm.ptr<3>, i32, i1
{FENCE}
nvvm.barrier
nvvm.mbarrier.arrive.expect_tx %bar, %some, predicate = %first : !llvm.ptr<3>, i32, i1
nvvm.cp.async.bulk.shared.cluster.global %lds, %from, %bar, %size : !llvm.ptr<3>, !llvm.ptr<1>
nvvm.mbarrier.arrive.expect_tx %bar, %none, predicate = %first : !llvm.ptr<3>, i32, i1
nvvm.mbarrier.try_wait.parity %bar, %none, %some : !llvm.ptr<3>, i32, i32"""
BUFFER = """%stride = llvm.mlir.constant(0 : i16) : i16
%all = llvm.mlir.constant(256 : i64) : i64
%no = llvm.mlir.constant(0 : i32) : i32
%size = llvm.mlir.constant(4 : i32) : i32
%at = llvm.mul %t, %size : i32
%r = rocdl.make.buffer.rsrc %src, %stride, %all, %no : !llvm.ptr<1> to !llvm.ptr<8>
rocdl.raw.ptr.buffer.load.async.lds %r, %wave, %size, %at, %no, %no, %no"""

DESCRIPTOR = (
    "!nvgpu.tensormap.descriptor<tensor = memref<64xf32, WG>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>"
)
BARRIERS = "!nvgpu.mbarrier.group<memorySpace = WG>"
TENSOR_MAP = f"""
  %c64 = arith.constant 64 : index
  %first = arith.cmpi eq, %t, %c0 : index
  %u = memref.cast %src : memref<64xf32> to memref<*xf32>
  %w = memref.cast %dst : memref<64xf32> to memref<*xf32>
  %from = nvgpu.tma.create.descriptor %u box[%c64] : memref<*xf32> -> {DESCRIPTOR}
  %to = nvgpu.tma.create.descriptor %w box[%c64] : memref<*xf32> -> {DESCRIPTOR}
  %bar = nvgpu.mbarrier.create -> {BARRIERS}
  %c1 = arith.constant 1 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  nvgpu.mbarrier.init %bar[%c0], %c1, predicate = %first : {BARRIERS}
  {FENCE}
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes, predicate = %first : {BARRIERS}
  nvgpu.tma.async.load %from[%c0], %bar[%c0] to %buf, predicate = %first : {DESCRIPTOR}, {BARRIERS} -> {SHARED}
  nvgpu.mbarrier.try_wait.parity %bar[%c0], %false, %c64 : {BARRIERS}
"""
TENSOR_STORE = f"""
  nvgpu.tma.async.store %buf to %to[%c0], predicate = %first : {SHARED} -> {DESCRIPTOR}
  nvvm.cp.async.bulk.commit.group
  nvvm.cp.async.bulk.wait_group 0
  return
}}"""


TENSOR_LOAD = f"""
  %base = amdgpu.make_dma_base %src[%c0], %buf[%c0] : memref<64xf32>, {SHARED} -> !amdgpu.tdm_base<f32>
  %tile = amdgpu.make_dma_descriptor %base globalSize [64] globalStride [1] sharedSize [64] : !amdgpu.tdm_base<f32> -> !amdgpu.tdm_descriptor
  amdgpu.tensor_load_to_lds %tile : !amdgpu.tdm_descriptor
  rocdl.s.wait.tensorcnt 0
  gpu.barrier
"""
STORED_TENSOR = f"""
  %base = amdgpu.make_dma_base %dst[%c0], %buf[%c0] : memref<64xf32>, {SHARED} -> !amdgpu.tdm_base<f32>
  %tile = amdgpu.make_dma_descriptor %base globalSize [64] globalStride [1] sharedSize [64] : !amdgpu.tdm_base<f32> -> !amdgpu.tdm_descriptor
  amdgpu.tensor_store_from_lds %tile : !amdgpu.tdm_descriptor
  rocdl.s.wait.tensorcnt 0
  return
}}"""


ONE = "vector<1xf32>"
GATHERED = f"""
  %one = arith.constant 1 : index
  %mask = vector.create_mask %one : vector<1xi1>
  %none = arith.constant dense<0.0> : {ONE}
  %at = vector.broadcast %t : index to vector<1xindex>
  %v = vector.gather %src[%c0][%at], %mask, %none
    : memref<64xf32>, vector<1xindex>, vector<1xi1>, {ONE} into {ONE}"""


def barrier_program(barrier: str) -> str:
    return memref_program(f"{STORED}\n{barrier}")


PROGRAMS = {
    "nvgpu.device_async_copy": memref_program(GROUPED),
    "nvgpu.device_async_create_group": memref_program(GROUPED),
    "nvgpu.device_async_wait": memref_program(GROUPED),
    "nvvm.cp.async.shared.global": pointers(CP, CP_WAIT),
    "nvvm.cp.async.commit.group": pointers(CP, CP_WAIT),
    "nvvm.cp.async.wait.group": pointers(CP, CP_WAIT),
    "nvgpu.tma.async.load": HEAD + BASE + TENSOR_MAP + KEEP,
    "nvgpu.tma.async.store": HEAD + BASE + TENSOR_MAP + TENSOR_STORE,
    "nvvm.cp.async.bulk.global.shared.cta": without_store("", BULK),
    "nvvm.cp.async.bulk.commit.group": without_store("", BULK),
    "nvvm.cp.async.bulk.wait_group": without_store("", BULK),
    "nvvm.cp.async.bulk.shared.cluster.global": pointers(BULK_LOAD, ""),
    "nvvm.wgmma.commit.group.sync.aligned": pointers(
        CP, f"{CP_WAIT}\nnvvm.wgmma.commit.group.sync.aligned"
    ),
    "nvvm.wgmma.wait.group.sync.aligned": pointers(
        CP, f"{CP_WAIT}\nnvvm.wgmma.wait.group.sync.aligned 1"
    ),
    "amdgpu.gather_to_lds": memref_program(f"{GATHER}\n{MARKS}"),
    "amdgpu.global_load_async_to_lds": memref_program(f"{LDS}\n{MARKS}"),
    **{
        f"rocdl.{name}": pointers(f"rocdl.{name} %from, %wave, 4, 0, 0 : {ENDS}", MARKS)
        for name in ("load.async.to.lds", "global.load.async.lds")
    },
    "rocdl.global.store.async.from.lds.b32": without_store(
        f"{THROUGH}\nrocdl.global.store.async.from.lds.b32 %to, %lds, 0, 0 : {ENDS}", MARKS
    ),
    "rocdl.raw.ptr.buffer.load.async.lds": pointers(BUFFER, MARKS),
    "rocdl.raw.ptr.buffer.load.lds": pointers(BUFFER.replace("async.", ""), ""),
    **{
        name: pointers(
            f'"{name}"(%from, %wave) {{size = 4 : i32, offset = 0 : i32, aux = 0 : i32}}'
            " : (!llvm.ptr<1>, !llvm.ptr<3>) -> ()",
            "",
        )
        for name in ("rocdl.load.to.lds", "rocdl.global.load.lds")
    },
    "rocdl.s.setprio": memref_program(f"rocdl.s.setprio 1\n{STORED}"),
    "rocdl.sched.barrier": memref_program(f"{STORED}\nrocdl.sched.barrier 0"),
    "amdgpu.sched_barrier": memref_program(f"{STORED}\namdgpu.sched_barrier allow = <none>"),
    "memref.prefetch": memref_program(
        f"memref.prefetch %src[%t], read, locality<3>, data : memref<64xf32>\n{STORED}"
    ),
    "gpu.printf": memref_program(f'{STORED}\ngpu.printf "%d", %t : index'),
    "rocdl.global.load.async.to.lds.b32": pointers(
        "rocdl.global.load.async.to.lds.b32 %from, %lds, 0, 0 : !llvm.ptr<1>, !llvm.ptr<3>", MARKS
    ),
    "rocdl.asyncmark": memref_program(f"{GATHER}\n{MARKS}"),
    "rocdl.wait.asyncmark": memref_program(f"{GATHER}\n{MARKS}"),
    "rocdl.s.wait.asynccnt": memref_program(f"{LDS}\nrocdl.s.wait.asynccnt 0"),
    "rocdl.s.wait.tensorcnt": memref_program(f"{GROUPED}\nrocdl.s.wait.tensorcnt 0"),
    "amdgpu.tensor_load_to_lds": memref_program(TENSOR_LOAD),
    "amdgpu.tensor_store_from_lds": HEAD + BASE + f"{STORED}\ngpu.barrier\n{STORED_TENSOR}",
    "async_pipe.scope": memref_program(
        f'{SCOPE}\n{COMMIT}\n"async_pipe.wait_queue"(%q) {{queue = 0 : i64}} : (TOK) -> ()'
    ),
    "async_pipe.commit_queue": memref_program(
        f'{SCOPE}\n{COMMIT}\n"async_pipe.wait_queue"() {{queue = 0 : i64, count = 0 : i64}} : () -> ()'
    ),
    "async_pipe.wait_queue": memref_program(
        f'{SCOPE}\n{COMMIT}\n"async_pipe.wait_queue"(%q) {{queue = 0 : i64}} : (TOK) -> ()'
    ),
    "async_pipe.consumer_wait": memref_program(FIFO),
    "async_pipe.producer_acquire": memref_program(FIFO),
    "async_pipe.consumer_release": memref_program(FIFO),
    "gpu.barrier": barrier_program("gpu.barrier"),
    "nvvm.barrier": barrier_program("nvvm.barrier"),
    "rocdl.barrier": barrier_program("rocdl.barrier"),
    "rocdl.s.barrier": barrier_program("rocdl.s.barrier"),
    "amdgpu.lds_barrier": barrier_program("amdgpu.lds_barrier"),
    "memref.load": memref_program(STORED),
    "memref.store": memref_program(STORED),
    "affine.load": memref_program(
        f"%v = affine.load %src[%t] : memref<64xf32>\naffine.store %v, %buf[%t] : {SHARED}"
    ),
    "affine.store": memref_program(
        f"%v = affine.load %src[%t] : memref<64xf32>\naffine.store %v, %buf[%t] : {SHARED}"
    ),
    "vector.load": memref_program(
        "%v = vector.load %src[%t] : memref<64xf32>, vector<1xf32>\n"
        f"vector.store %v, %buf[%t] : {SHARED}, vector<1xf32>"
    ),
    "vector.store": memref_program(
        "%v = vector.load %src[%t] : memref<64xf32>, vector<1xf32>\n"
        f"vector.store %v, %buf[%t] : {SHARED}, vector<1xf32>"
    ),
    "vector.transfer_read": memref_program(
        "%pad = arith.constant 0.0 : f32\n"
        "%v = vector.transfer_read %src[%t], %pad : memref<64xf32>, vector<1xf32>\n"
        f"vector.transfer_write %v, %buf[%t] : vector<1xf32>, {SHARED}"
    ),
    "vector.transfer_write": memref_program(
        "%pad = arith.constant 0.0 : f32\n"
        "%v = vector.transfer_read %src[%t], %pad : memref<64xf32>, vector<1xf32>\n"
        f"vector.transfer_write %v, %buf[%t] : vector<1xf32>, {SHARED}"
    ),
    "vector.maskedload": memref_program(
        "%one = arith.constant 1 : index\n"
        "%mask = vector.create_mask %one : vector<1xi1>\n"
        "%none = arith.constant dense<0.0> : vector<1xf32>\n"
        "%v = vector.maskedload %src[%t], %mask, %none"
        " : memref<64xf32>, vector<1xi1>, vector<1xf32> into vector<1xf32>\n"
        f"vector.store %v, %buf[%t] : {SHARED}, vector<1xf32>"
    ),
    "vector.maskedstore": memref_program(
        "%one = arith.constant 1 : index\n"
        "%mask = vector.create_mask %one : vector<1xi1>\n"
        "%v = vector.load %src[%t] : memref<64xf32>, vector<1xf32>\n"
        f"vector.maskedstore %buf[%t], %mask, %v : {SHARED}, vector<1xi1>, vector<1xf32>"
    ),
    "vector.gather": memref_program(f"{GATHERED}\nvector.store %v, %buf[%t] : {SHARED}, {ONE}"),
    "vector.scatter": memref_program(
        f"{GATHERED}\nvector.scatter %buf[%c0][%at], %mask, %v"
        f" : {SHARED}, vector<1xindex>, vector<1xi1>, {ONE}"
    ),
    "memref.generic_atomic_rmw": memref_program(
        f"{STORED}\n%old = memref.generic_atomic_rmw %buf[%t] : {SHARED} {{\n"
        "^bb0(%held: f32):\n memref.atomic_yield %held : f32\n}"
    ),
    "memref.atomic_rmw": memref_program(
        f"%v = memref.load %src[%t] : memref<64xf32>\n"
        f"%old = memref.atomic_rmw assign %v, %buf[%t] : (f32, {SHARED}) -> f32"
    ),
    "memref.copy": HEAD
    + """
      %t = gpu.thread_id x
      %s = memref.subview %src[%t] [1] [1] : memref<64xf32> to memref<1xf32, strided<[1], offset: ?>>
      %d = memref.subview %dst[%t] [1] [1] : memref<64xf32> to memref<1xf32, strided<[1], offset: ?>>
      memref.copy %s, %d : memref<1xf32, strided<[1], offset: ?>> to memref<1xf32, strided<[1], offset: ?>>
      return
    }""",
    "llvm.load": pointers(THROUGH, ""),
    "llvm.store": pointers(THROUGH, ""),
    **{
        name: pointers(
            f'%four = llvm.mlir.constant(4 : i64) : i64\n"{name}"(%lds, %from, %four) '
            "<{isVolatile = false}> : (!llvm.ptr<3>, !llvm.ptr<1>, i64) -> ()",
            "",
        )
        for name in ("llvm.intr.memcpy", "llvm.intr.memmove")
    },
    "llvm.intr.memcpy.inline": pointers(
        '"llvm.intr.memcpy.inline"(%lds, %from) <{isVolatile = false, len = 4 : i64}> : '
        "(!llvm.ptr<3>, !llvm.ptr<1>) -> ()",
        "",
    ),
    "llvm.intr.memset": pointers(
        f'{LOW_BYTES_SET}"llvm.intr.memset"(%lds, %no, %two) <{{isVolatile = false}}> : '
        "(!llvm.ptr<3>, i8, i64) -> ()",
        "",
    ),
    "llvm.intr.memset.inline": pointers(
        f'{LOW_BYTES_SET}"llvm.intr.memset.inline"(%lds, %no) <{{isVolatile = false, len = 2 : i64}}> '
        ": (!llvm.ptr<3>, i8) -> ()",
        "",
    ),
    "llvm.atomicrmw": pointers(
        "%z = llvm.load %from : !llvm.ptr<1> -> f32\n"
        "%old = llvm.atomicrmw xchg %lds, %z acq_rel : !llvm.ptr<3>, f32",
        "",
    ),
    "llvm.cmpxchg": pointers(
        "%z = llvm.load %from : !llvm.ptr<1> -> i32\n%none = llvm.mlir.constant(0 : i32) : i32\n"
        "llvm.store %none, %lds : i32, !llvm.ptr<3>\n"
        "%old = llvm.cmpxchg %lds, %none, %z acq_rel monotonic : !llvm.ptr<3>, i32",
        "",
    ),
    **{fence.split()[0]: pointers(f"{THROUGH}\n{fence}", "") for fence in FENCES},
    "nvvm.fence.proxy.acquire": pointers(
        f"{THROUGH}\n%any = llvm.addrspacecast %src : !llvm.ptr<1> to !llvm.ptr\n"
        "nvvm.fence.proxy.acquire #nvvm.mem_scope<gpu> %any, %t",
        "",
    ),
}
# Tested elsewhere, with layouts of their own: ldmatrix in test_machine_matrix, the product of a
# warpgroup in test_machine_warpgroup and test_machine_wgmma, named
# barriers in test_machine_named_barriers, the widths of the b8 … b128 copies below, nvvm.barrier0
# in stacks that still have it.
MATRIX_LOADS = {"nvgpu.ldmatrix", "nvvm.ldmatrix", "amdgpu.transpose_load"}
WAVE_TILES = {"gpu.subgroup_mma_load_matrix", "gpu.subgroup_mma_store_matrix"}
# In test_machine_buffers.
BUFFERS = {f"amdgpu.raw_buffer_{kind}" for kind in ("load", "store")} | {
    *(f"rocdl.raw.ptr.buffer.{kind}" for kind in ("load", "store")),
    "rocdl.ptr.s.buffer.load",
}
ELSEWHERE = (
    MATRIX_LOADS
    | WAVE_TILES
    | set(HINTS)
    | {"nvgpu.warpgroup.mma", "nvgpu.warpgroup.mma.store", "nvvm.barrier0"}
    | {"nvgpu.warpgroup.generate.descriptor"}
    | {"nvvm.wgmma.mma_async", "nvvm.wgmma.fence.aligned", "nvvm.tcgen05.alloc"}
    | {"nvvm.barrier.arrive", "nvvm.bar.warp.sync", "rocdl.wave.barrier"}
    | {"nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed", "nvvm.cluster.wait"}
    | {"nvvm.cp.async.bulk.tensor.shared.cluster.global", "nvgpu.tma.fence.descriptor"}
    | {"rocdl.tensor.load.to.lds", "rocdl.tensor.store.from.lds"}
    # units/ptx/test_instructions_without_ops.py
    | {f"ptx.multimem.{name}" for name in ("ld_reduce", "st", "red")}
    # test_machine_bulk_copies.py
    | {"nvvm.stmatrix", "nvvm.cp.async.bulk.tensor.reduce"}
    | {"ptx.cp.reduce.async.bulk.global.shared::cta.bulk_group"}
    | {f"rocdl.global.load.async.to.lds.b{bits}" for bits in (8, 64, 128)}
    | {f"rocdl.global.store.async.from.lds.b{bits}" for bits in (8, 64, 128)}
    | BUFFERS
)
REFUSED = {
    "nvvm.cp.async.bulk.tensor.global.shared.cta": """
    llvm.func @f(%m: !llvm.ptr, %s: !llvm.ptr<3>, %x: i32) {
      nvvm.cp.async.bulk.tensor.global.shared.cta %m, %s, box[%x] : !llvm.ptr, !llvm.ptr<3>
      llvm.return
    }"""
}


# Layouts over lanes, and atomics on buffers, that the machine does not know.
DESCRIBED = {name for name, row in ROWS.items() if row.described and not row.opaque}
WITHOUT_SEMANTICS = (
    {n for n in DESCRIBED if n.startswith("rocdl.") and ".tr" in n}
    | {n for n in DESCRIBED if ("buffer" in n and ".atomic." in n) or "buffer_atomic" in n}
    | {"amdgpu.global_transpose_load", "nvvm.tensormap.replace"}
    | {"nvvm.wmma.load", "nvvm.wmma.store", "vector.compressstore", "vector.expandload"}
)


def test_every_row_is_tested_here_or_named_as_tested_elsewhere():
    known = set(PROGRAMS) | ELSEWHERE | set(REFUSED) | WITHOUT_SEMANTICS | set(INTRINSIC_ROWS)
    # Phases run in test_machine_mbarriers and the like, products in test_machine_tensor_memory.
    with_phases = {name for name, row in ROWS.items() if row.phase or row.tensor}
    assert with_phases <= set(SEMANTICS)
    assert known | with_phases == DESCRIBED | with_phases
    assert WITHOUT_SEMANTICS & set(SEMANTICS) == set()
    assert set(HINTS) <= set(SEMANTICS)


@pytest.mark.parametrize("completion", ("eager", "late", "random:3"))
@pytest.mark.parametrize("name", PROGRAMS)
def test_row_runs_right_under_every_completion(name, completion):
    source = np.arange(64, dtype=np.float32)
    given = np.zeros(64, np.float32)
    result = run(PROGRAMS[name], source, given, threads=64, warp=64, completion=completion)
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1], source)


def intrinsic(name: str, *operands: str) -> str:
    """A call; operands are `%value: type` or `3: type`, which becomes a constant."""
    lines, values, types = [], [], []
    for number, operand in enumerate(operands):
        value, kind = operand.split(": ")
        if not value.startswith("%"):
            constant = f"%{name.rpartition('.')[2]}{number}"
            lines.append(f"{constant} = llvm.mlir.constant({value} : {kind}) : {kind}")
            value = constant
        values.append(value)
        types.append(kind)
    call = f'llvm.call_intrinsic "{name}"({", ".join(values)}) : ({", ".join(types)}) -> ()'
    return "\n".join([*lines, call])


FROM, LDS_AT, WAVE_AT = "%from: !llvm.ptr<1>", "%lds: !llvm.ptr<3>", "%wave: !llvm.ptr<3>"
INTRINSIC_MARKS = (
    intrinsic("llvm.amdgcn.asyncmark") + "\n" + intrinsic("llvm.amdgcn.wait.asyncmark", "0: i16")
)
INTRINSIC_GROUPS = (
    intrinsic("llvm.nvvm.cp.async.commit.group")
    + "\n"
    + intrinsic("llvm.nvvm.cp.async.wait.group", "0: i32")
)
WAVE = (FROM, WAVE_AT, "4: i32", "0: i32", "0: i32")
BUFFER_AT, TIMES_FOUR = "%r: !llvm.ptr<8>", "%at: i32"
RESOURCE = BUFFER.rpartition("\n")[0]
OF_BUFFER = (BUFFER_AT, WAVE_AT, "4: i32", TIMES_FOUR, "0: i32", "0: i32", "0: i32")
STORE = "llvm.amdgcn.global.store.async.from.lds.b32"
# The name of an overloaded intrinsic carries the space of its source.
INTRINSIC_PROGRAMS = {
    **{
        name: pointers(intrinsic(name + types, *WAVE), INTRINSIC_MARKS)
        for name, types in (
            ("llvm.amdgcn.load.async.to.lds", ".p1"),
            ("llvm.amdgcn.global.load.async.lds", ""),
        )
    },
    "llvm.amdgcn.load.to.lds": pointers(intrinsic("llvm.amdgcn.load.to.lds.p1", *WAVE), ""),
    "llvm.amdgcn.global.load.lds": pointers(intrinsic("llvm.amdgcn.global.load.lds", *WAVE), ""),
    **{
        name: pointers(f"{RESOURCE}\n{intrinsic(name, *OF_BUFFER)}", wait)
        for name, wait in (
            ("llvm.amdgcn.raw.ptr.buffer.load.async.lds", INTRINSIC_MARKS),
            ("llvm.amdgcn.raw.ptr.buffer.load.lds", ""),
        )
    },
    "llvm.amdgcn.global.load.async.to.lds.b32": pointers(
        intrinsic("llvm.amdgcn.global.load.async.to.lds.b32", FROM, LDS_AT, "0: i32", "0: i32"),
        intrinsic("llvm.amdgcn.s.wait.asynccnt", "0: i16"),
    ),
    STORE: without_store(
        f"{THROUGH}\n" + intrinsic(STORE, "%to: !llvm.ptr<1>", LDS_AT, "0: i32", "0: i32"),
        INTRINSIC_MARKS,
    ),
    "llvm.nvvm.cp.async.ca.shared.global.4": pointers(
        intrinsic("llvm.nvvm.cp.async.ca.shared.global.4", LDS_AT, FROM), INTRINSIC_GROUPS
    ),
    "llvm.nvvm.cp.async.ca.shared.global.4.s": pointers(
        intrinsic("llvm.nvvm.cp.async.ca.shared.global.4.s", LDS_AT, FROM, "4: i32"),
        INTRINSIC_GROUPS,
    ),
    "llvm.amdgcn.s.barrier": pointers(THROUGH, intrinsic("llvm.amdgcn.s.barrier")),
    "llvm.nvvm.barrier0": pointers(THROUGH, intrinsic("llvm.nvvm.barrier0")),
    **{
        f"llvm.nvvm.{name}": pointers(THROUGH, intrinsic(f"llvm.nvvm.{name}", "1: i32"))
        for name in (
            "barrier.n",
            "bar.sync",
            "barrier.sync",
            "barrier.cta.sync.all",
            "barrier.cta.sync.aligned.all",
        )
    },
    **{
        name: pointers(f"{intrinsic(name)}\n{THROUGH}\n{intrinsic(name)}", "nvvm.barrier")
        for name in (row.op for row in BARRIER_INTRINSICS if row.barrier is None)
    },
}
OF_INTRINSIC_PROGRAMS = {
    "llvm.amdgcn.asyncmark",
    "llvm.amdgcn.wait.asyncmark",
    "llvm.amdgcn.s.wait.asynccnt",
    "llvm.nvvm.cp.async.commit.group",
    "llvm.nvvm.cp.async.wait.group",
}
# As the ops are: by size, and for copies of tensors.
OTHER_INTRINSICS = {
    f"llvm.amdgcn.{name}"
    for name in ("s.wait.tensorcnt", "tensor.load.to.lds", "tensor.store.from.lds")
} | {name for name in INTRINSIC_ROWS if re.search(r"\.(b8|b64|b128|8|16)(\.s)?$", name)}
# Of some threads, or with a value: the checker knows them, the machine refuses them.
OTHER_INTRINSICS |= {row.op for row in BARRIER_INTRINSICS} - INTRINSIC_PROGRAMS.keys()


def test_every_intrinsic_with_a_row_is_tested():
    assert set(INTRINSIC_PROGRAMS) | OF_INTRINSIC_PROGRAMS | OTHER_INTRINSICS == set(INTRINSIC_ROWS)


@pytest.mark.parametrize("completion", ("eager", "late", "random:3"))
@pytest.mark.parametrize("name", INTRINSIC_PROGRAMS)
def test_intrinsics_mean_what_their_rows_say(name, completion):
    source, given = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    program = INTRINSIC_PROGRAMS[name]
    result = run(program, source, given, threads=64, warp=64, completion=completion)
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1], source)


def test_unknown_intrinsic_is_refused_by_name():
    program = pointers("", intrinsic("llvm.amdgcn.s.sleep", "1: i32"))
    with pytest.raises(MachineError, match=r"intrinsic 'llvm\.amdgcn\.s\.sleep'"):
        run(program, np.zeros(4, np.uint8), np.zeros(4, np.uint8))


WITHOUT_WAIT = {
    "nvgpu.device_async_copy": memref_program(f"%x = {COPY}"),
    "nvvm.cp.async.shared.global": pointers(CP, ""),
    "amdgpu.gather_to_lds": memref_program(GATHER),
    "amdgpu.global_load_async_to_lds": memref_program(LDS),
    "rocdl.raw.ptr.buffer.load.async.lds": pointers(BUFFER, ""),
    "rocdl.global.load.async.lds": PROGRAMS["rocdl.global.load.async.lds"].replace(MARKS, ""),
    "llvm.amdgcn.global.load.async.lds": INTRINSIC_PROGRAMS[
        "llvm.amdgcn.global.load.async.lds"
    ].replace(INTRINSIC_MARKS, ""),
    "async_pipe.scope": memref_program(SCOPE),
}
# The data stays where it was; only that the store may still be on its way is found.
BULK_WITHOUT_WAIT = {
    "nvvm.cp.async.bulk.global.shared.cta": without_store("", BULK.rpartition("\n")[0]),
    "nvgpu.tma.async.store": HEAD
    + BASE
    + TENSOR_MAP
    + TENSOR_STORE.replace("nvvm.cp.async.bulk.wait_group 0", ""),
}


@pytest.mark.parametrize("name", BULK_WITHOUT_WAIT)
def test_bulk_store_without_its_wait_is_found(name):
    source, given = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    result = run(BULK_WITHOUT_WAIT[name], source, given, threads=64, warp=64, completion="late")
    assert result.race_codes - {"overwrite-in-flight"} == {"unwaited-copy"}


@pytest.mark.parametrize("name", WITHOUT_WAIT)
def test_row_races_without_its_wait(name):
    source, given = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    result = run(WITHOUT_WAIT[name], source, given, threads=64, warp=64, completion="late")
    assert result.race_codes == {"read-in-flight", "uncommitted-copy"}
    assert np.isnan(result.arrays[1]).all()


def test_a_count_that_is_no_constant_is_refused():
    wait = intrinsic("llvm.amdgcn.wait.asyncmark", "%n: i16")
    program = pointers("%n = llvm.trunc %t : i32 to i16", wait)
    with pytest.raises(MachineError, match="count is not a constant"):
        run(program, np.zeros(4, np.uint8), np.zeros(4, np.uint8))


@pytest.mark.parametrize("name", ("llvm.amdgcn.s.barrier.signal", "llvm.amdgcn.s.barrier.wait"))
def test_a_longer_name_is_another_intrinsic(name):
    """The two halves of a barrier are none."""
    with pytest.raises(MachineError, match="intrinsic"):
        run(pointers("", intrinsic(name, "-1: i32")), np.zeros(4, np.uint8), np.zeros(4, np.uint8))


def test_an_async_store_without_its_wait_is_found():
    program = PROGRAMS["rocdl.global.store.async.from.lds.b32"].replace(MARKS, "")
    source, given = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    result = run(program, source, given, threads=64, warp=64, completion="late")
    assert result.race_codes == {"uncommitted-copy"}


def test_gather_to_lds_without_async_is_over_when_it_returns():
    program = memref_program(GATHER.replace(" async ", " "))
    source, given = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    result = run(program, source, given, threads=64, warp=64, completion="late")
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1], source)


@pytest.mark.parametrize("bits", (8, 32, 64, 128))
def test_async_loads_of_each_width_copy_that_many_bytes(bits):
    copy = f"rocdl.global.load.async.to.lds.b{bits} %src, %wave, 0, 0 : !llvm.ptr<1>, !llvm.ptr<3>"
    program = pointers(copy, MARKS).replace("%kept = llvm.load %lds", "%kept = llvm.load %wave")
    source = np.arange(1, 17, dtype=np.uint8)
    if bits < 32:
        program = program.replace("-> f32", "-> i8").replace(
            "llvm.store %kept, %to : f32", "llvm.store %kept, %to : i8"
        )
    result = run(program, source, np.zeros(4, np.uint8))
    assert result.races == ()
    np.testing.assert_array_equal(
        result.arrays[1][: min(4, bits // 8)], source[: min(4, bits // 8)]
    )


@pytest.mark.parametrize("name", REFUSED)
def test_analysis_only_row_is_refused_by_name(name):
    arguments = (0, 0, 0) if "bar" in name else (np.zeros(4, np.uint8), np.zeros(4, np.uint8), 0)
    with pytest.raises(MachineError, match=name.replace(".", r"\.")) as error:
        run(REFUSED[name], *arguments)
    assert error.value.code == "unsupported-op"


def test_a_bulk_store_of_what_is_not_fenced_is_found():
    source, given = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    program = PROGRAMS["nvvm.cp.async.bulk.global.shared.cta"].replace(FENCE, "")
    assert run(program, source, given, threads=64).race_codes == {"missing-fence"}


MARKS_OF_A_CALLEE = """
func.func private @copy(%src: memref<4xf32>, %buf: memref<4xf32, WG>, %i: index) {
  amdgpu.gather_to_lds async %src[%i], %buf[%i] : f32, memref<4xf32>, memref<4xf32, WG>
  rocdl.asyncmark
  return
}
func.func @f(%src: memref<4xf32>) -> f32 {
  %buf = memref.alloc() : memref<4xf32, WG>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  amdgpu.gather_to_lds async %src[%c0], %buf[%c0] : f32, memref<4xf32>, memref<4xf32, WG>
  rocdl.asyncmark
  func.call @copy(%src, %buf, %c1) : (memref<4xf32>, memref<4xf32, WG>, index) -> ()
  MORE
  rocdl.wait.asyncmark COUNT
  %v = memref.load %buf[READ] : memref<4xf32, WG>
  rocdl.asyncmark
  rocdl.wait.asyncmark 0
  return %v : f32
}"""


@pytest.mark.parametrize(
    "more, count, read, clean",
    [
        # The callee's mark does not count: 0 waits for the caller's one mark, before the call.
        ("", 0, "%c0", True),
        ("", 0, "%c1", False),
        ("", 1, "%c0", False),
        # A mark after the call covers what the callee issued.
        ("rocdl.asyncmark", 0, "%c1", True),
        ("rocdl.asyncmark", 1, "%c0", True),
        ("rocdl.asyncmark", 1, "%c1", False),
    ],
)
def test_marks_of_a_callee_do_not_count_in_the_caller(more, count, read, clean):
    program = MARKS_OF_A_CALLEE.replace("MORE", more).replace("COUNT", str(count))
    module = parse(program.replace("READ", read))
    result = machine.run(module, "f", [np.ones(4, np.float32)], warp=64)
    assert result.race_codes == (set() if clean else {"read-in-flight"})


def test_thread_scope_counts_the_groups_of_a_callee():
    program = """
    func.func private @more() {
      %e = nvgpu.device_async_create_group {async_pipe.empty}
      return
    }
    func.func @f(%src: memref<4xf32>) -> f32 {
      %buf = memref.alloc() : memref<4xf32, WG>
      %c0 = arith.constant 0 : index
      %x = nvgpu.device_async_copy %src[%c0], %buf[%c0], 1 : memref<4xf32> to memref<4xf32, WG>
      %g = nvgpu.device_async_create_group %x
      func.call @more() : () -> ()
      nvgpu.device_async_wait %g {numGroups = 1 : i32}
      %v = memref.load %buf[%c0] : memref<4xf32, WG>
      return %v : f32
    }"""
    result = machine.run(parse(program), "f", [np.ones(4, np.float32)])
    assert result.races == () and result.waits[0].exact == 1
