"""Tensor memory on the machine: products, loads and stores against NumPy, and what is found in wrong
kernels.

Covers: machine/dialects/tcgen05.py, machine/tensor_cells.py, machine/barrier_phases.py, machine/warp_clock.py, vocabulary/tensor_memory.py
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.machine_programs import codes, parse, run
from helpers.tensor_memory_kernels import BlackwellGemm, run_gemm
from mlir_async_pipe.session.diagnostics import MachineError
from mlir_async_pipe.vocabulary.tensor_memory import product_shape

MOODS = [("eager", "lockstep"), ("late", "forward"), ("random", "random")]
FORMS = [
    BlackwellGemm(tile_n=64),
    BlackwellGemm(tile_n=64, types="bf16", b="n"),
    BlackwellGemm(tile_n=32, types="tf32"),
    BlackwellGemm(tile_n=32, types="e4m3", tile_m=256),
    BlackwellGemm(tile_n=96, types="e5m2"),
    BlackwellGemm(tile_n=64, swizzle=64, b="n"),
    BlackwellGemm(tile_n=32, swizzle=32, types="tf32"),
]
SMALL = BlackwellGemm(tile_n=32)


@pytest.mark.parametrize("completion, schedule", MOODS)
@pytest.mark.parametrize(
    "gemm", FORMS, ids=lambda gemm: f"{gemm.types}-{gemm.b}-{gemm.tile_m}-{gemm.swizzle}"
)
def test_products_of_every_type_add_up_in_tensor_memory(gemm, completion, schedule):
    module = parse(gemm.module())
    for k in (0, 2 * gemm.line + 8):
        right, result = run_gemm(module, gemm, k, completion=completion, schedule=schedule)
        assert right
        assert result.races == ()


def test_tile_after_tile_goes_into_the_same_columns():
    gemm = BlackwellGemm(tile_n=32, persistent=True)
    for completion, schedule in MOODS:
        right, result = run_gemm(
            parse(gemm.module()),
            gemm,
            136,
            tiles=(2, 2),
            grid=1,
            completion=completion,
            schedule=schedule,
        )
        assert right
        assert result.races == ()


COMMIT = re.compile(r"\n *nvvm.tcgen05.commit.*")
DONE = re.compile(r"\n *nvgpu.mbarrier.try_wait.parity %done.*")
FENCES = re.compile(r"\n *nvvm.tcgen05.fence <(\w+)>")
MUTANTS = {
    "no commit": (COMMIT, "", {"deadlock"}),
    "nobody waits": (DONE, "", {"source-overwritten"}),
    "no fence after the wait": (FENCES, "", {"missing-tensor-fence"}),
    "every lane of a warp issues": (r"scf.if %first", "scf.if %warp_0", {"overwrite-in-flight"}),
    "lanes of another warp": ("%own = arith.addi", "%own = arith.subi", {"wrong-lanes"}),
    "no wait for the loads": ("nvvm.tcgen05.wait <load>", "", {"unwaited-copy"}),
    "loads are used at once": (
        r"(nvvm.tcgen05.wait <load>)(\n[^\n]*bitcast[^\n]*)",
        r"\2\n\1",
        {"read-in-flight"},
    ),
    "columns stay": (re.compile(r"\n *nvvm.tcgen05.dealloc.*"), "", {"columns-kept"}),
    "commit on the other mbarrier": (
        "nvgpu.mbarrier.get %done",
        "nvgpu.mbarrier.get %full",
        {"deadlock"},
    ),
    "wait for the other parity": (
        r"(.*%done\[%c0\], )%phase",
        r"%other = arith.xori %phase, %true : i1\n\1%other",
        {"source-overwritten", "deadlock"},
    ),
    "sums of nothing": ("arith.cmpi ne, %k32", "arith.cmpi sge, %k32", {"uninitialised-read"}),
}


@pytest.mark.parametrize("completion, schedule", MOODS)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_kernel_is_found_however_late_products_are(name, completion, schedule):
    pattern, other, expected = MUTANTS[name]
    text = SMALL.module()
    changed = re.sub(pattern, other, text)
    assert changed != text
    _, result = run_gemm(parse(changed), SMALL, 72, completion=completion, schedule=schedule)
    assert expected & result.race_codes, result.races


def test_accumulators_are_overwritten_where_warps_say_nothing_of_their_loads():
    """Tile after tile: the products of the next one go where warps have loaded, told by a fence."""
    gemm = BlackwellGemm(tile_n=32, persistent=True)
    text = gemm.module()
    changed = text.replace("nvvm.tcgen05.fence <before>", "")
    _, result = run_gemm(parse(changed), gemm, 64, tiles=(2, 1), grid=1)
    assert result.race_codes == {"missing-tensor-fence"}
    without = re.sub(r"(fence <before>\n *)gpu.barrier", r"\1", text)
    _, result = run_gemm(parse(without), gemm, 64, tiles=(2, 1), grid=1, schedule="forward")
    assert result.races


# Rows of A in lanes or in workgroup memory, B in workgroup memory, both without a swizzle: chunks of
# 8 rows of 16 bytes lie one after the other, the two of a row PANEL bytes apart.
PLAIN = """
gpu.module @kernels {
  llvm.mlir.global internal @place() {addr_space = 3 : i32} : i32
  gpu.func @f(%a: memref<2x64x8xf16>, %b: memref<2x32x8xf16>, %packed: memref<64x8xi32>, %c: memref<64x32xi32>)
      workgroup(%as: memref<2x64x8xf16, WG>, %bs: memref<2x32x8xf16, WG>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %t = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %false = arith.constant false
    %ticks = arith.constant 1000 : index
    %first = arith.cmpi eq, %t, %c0 : index
    %warp_0 = arith.cmpi ult, %t, %c32 : index
    %n = arith.constant 64 : i32
    %at = llvm.mlir.addressof @place : !llvm.ptr<3>
    scf.if %warp_0 { nvvm.tcgen05.alloc %at, %n : !llvm.ptr<3>, i32 }
    %done = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = WG>
    nvgpu.mbarrier.init %done[%c0], %c1, predicate = %first : !nvgpu.mbarrier.group<memorySpace = WG>
    nvvm.fence.mbarrier.init
    %half = arith.divui %t, %c64 : index
    %row = arith.remui %t, %c64 : index
    %av = vector.load %a[%half, %row, %c0] : memref<2x64x8xf16>, vector<8xf16>
    vector.store %av, %as[%half, %row, %c0] : memref<2x64x8xf16, WG>, vector<8xf16>
    %in_b = arith.cmpi ult, %row, %c32 : index
    scf.if %in_b {
      %bv = vector.load %b[%half, %row, %c0] : memref<2x32x8xf16>, vector<8xf16>
      vector.store %bv, %bs[%half, %row, %c0] : memref<2x32x8xf16, WG>, vector<8xf16>
    }
    nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
    gpu.barrier
    %address = llvm.load %at : !llvm.ptr<3> -> i32
    %warp = arith.divui %t, %c32 : index
    %warp_i = arith.index_cast %warp : index to i32
    %lanes = arith.constant 2097152 : i32
    %mine = arith.muli %warp_i, %lanes : i32
    %own_i = arith.addi %address, %mine : i32
    %own = llvm.inttoptr %own_i : i32 to !llvm.ptr<6>
    %sums = llvm.inttoptr %address : i32 to !llvm.ptr<6>
    %width = arith.constant 32 : i32
    %second_i = arith.addi %own_i, %width : i32
    %second = llvm.inttoptr %second_i : i32 to !llvm.ptr<6>
    %kept_i = arith.addi %address, %width : i32
    %kept = llvm.inttoptr %kept_i : i32 to !llvm.ptr<6>
    %lane = arith.remui %t, %c32 : index
    %some = arith.minui %lane, %c16 : index
    %last = arith.constant 15 : index
    %in_half = arith.minui %some, %last : index
    %base = arith.muli %warp, %c16 : index
    %packed_row = arith.addi %base, %in_half : index
    %pv = vector.load %packed[%packed_row, %c0] : memref<64x8xi32>, vector<8xi32>
    nvvm.tcgen05.st %second, %pv {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<8xi32>
    nvvm.tcgen05.wait <store>
    nvvm.tcgen05.fence <before>
    gpu.barrier
    nvvm.tcgen05.fence <after>
    %ap = memref.extract_aligned_pointer_as_index %as : memref<2x64x8xf16, WG> -> index
    %bp = memref.extract_aligned_pointer_as_index %bs : memref<2x32x8xf16, WG> -> index
    %ai = arith.index_cast %ap : index to i64
    %bi = arith.index_cast %bp : index to i64
    %four = arith.constant 4 : i64
    %mask = arith.constant 0x3fff : i64
    %a4 = arith.shrui %ai, %four : i64
    %b4 = arith.shrui %bi, %four : i64
    %am = arith.andi %a4, %mask : i64
    %bm = arith.andi %b4, %mask : i64
    %abits = arith.constant A_BITS : i64
    %bbits = arith.constant B_BITS : i64
    %ad = arith.ori %am, %abits : i64
    %bd = arith.ori %bm, %bbits : i64
    %form = arith.constant FORM : i32
    scf.if %first {
      nvvm.tcgen05.mma %sums, LEFT, %bd, %form, %false {kind = #nvvm.tcgen05_mma_kind<f16>, ctaGroup = #nvvm.cta_group<cta_1>} : (!llvm.ptr<6>, KIND, i64, i32, i1)
      %get = nvgpu.mbarrier.get %done[%c0] : !nvgpu.mbarrier.group<memorySpace = WG> -> i32
      %to = llvm.inttoptr %get : i32 to !llvm.ptr<3>
      nvvm.tcgen05.commit %to : !llvm.ptr<3>
    }
    nvgpu.mbarrier.try_wait.parity %done[%c0], %false, %ticks : !nvgpu.mbarrier.group<memorySpace = WG>
    nvvm.tcgen05.fence <after>
    %v = nvvm.tcgen05.ld %own {shape = #nvvm.tcgen05_ldst_shape<shape_16x256b>} : vector<16xi32>
    nvvm.tcgen05.wait <load>
    %quad = arith.divui %lane, %c4 : index
    %in_quad = arith.remui %lane, %c4 : index
    %pair = arith.muli %in_quad, %c2 : index
    %top = arith.addi %base, %quad : index
    %bottom = arith.addi %top, %c8 : index
    STORES
    nvvm.tcgen05.fence <before>
    gpu.barrier
    scf.if %warp_0 { nvvm.tcgen05.dealloc %sums, %n : !llvm.ptr<6>, i32 }
    gpu.return
  }
}"""


@pytest.mark.parametrize("completion", ["eager", "late", "random"])
@pytest.mark.parametrize("in_tensor", [False, True])
def test_64_rows_lie_in_half_of_each_warp_s_lanes(in_tensor, completion):
    """A from workgroup memory without a swizzle, or from tensor memory, two elements in a cell."""
    stores = []
    for j in range(4):
        stores.append(f"%k{j} = arith.constant {8 * j} : index")
        stores.append(f"%at{j} = arith.addi %pair, %k{j} : index")
        for half, row in enumerate(("%top", "%bottom")):
            first = 4 * j + 2 * half
            name = f"%s{j}{half}"
            stores.append(
                f"{name} = vector.extract_strided_slice %v {{offsets = [{first}], sizes = [2], "
                "strides = [1]} : vector<16xi32> to vector<2xi32>"
            )
            stores.append(
                f"vector.store {name}, %c[{row}, %at{j}] : memref<64x32xi32>, vector<2xi32>"
            )
    bits = [1 << 46 | 128 // 16 << 32 | rows * 16 // 16 << 16 for rows in (64, 32)]
    text = PLAIN.replace("A_BITS", str(bits[0])).replace("B_BITS", str(bits[1]))
    text = text.replace("FORM", str(1 << 4 | 32 // 8 << 17 | 64 // 16 << 24))
    text = text.replace("LEFT", "%kept" if in_tensor else "%ad")
    text = text.replace("KIND", "!llvm.ptr<6>" if in_tensor else "i64")
    random = np.random.default_rng(1)
    a, b = random.integers(-3, 4, (64, 16)), random.integers(-3, 4, (32, 16))
    halves = [x.astype(np.float16).reshape(-1, 2, 8).transpose(1, 0, 2).copy() for x in (a, b)]
    packed = a.astype(np.float16).view(np.int32)
    done = run(
        text.replace("STORES", "\n".join(stores)),
        *halves,
        packed,
        np.zeros((64, 32), np.int32),
        threads=128,
        completion=completion,
    )
    assert done.races == ()
    assert (done.arrays[3].view(np.float32) == a @ b.T).all()


ONE_WARP = """
gpu.module @kernels {
  llvm.mlir.global internal @place() {addr_space = 3 : i32} : i32
  gpu.func @f(%from: memref<32x32xi32>, %to: memref<32x32xi32>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %t = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %n = arith.constant COLUMNS : i32
    %at = llvm.mlir.addressof @place : !llvm.ptr<3>
    nvvm.tcgen05.alloc %at, %n : !llvm.ptr<3>, i32
    gpu.barrier
    %address = llvm.load %at : !llvm.ptr<3> -> i32
    %cells = llvm.inttoptr %address : i32 to !llvm.ptr<6>
BODY
    nvvm.tcgen05.dealloc %cells, %n : !llvm.ptr<6>, i32
    gpu.return
  }
}"""
THROUGH = """
    %row = vector.load %from[%t, %c0] : memref<32x32xi32>, vector<32xi32>
    nvvm.tcgen05.st %cells, %row {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<32xi32>
    nvvm.tcgen05.wait <store>
    %back = nvvm.tcgen05.ld %cells {shape = #nvvm.tcgen05_ldst_shape<SHAPE>} : vector<Nxi32>
    nvvm.tcgen05.wait <load>
    %wide = vector.broadcast %back : vector<Nxi32> to vector<1xNxi32>
    %flat = vector.shape_cast %wide : vector<1xNxi32> to vector<Nxi32>
    vector.store %flat, %to[%t, %c0] : memref<32x32xi32>, vector<Nxi32>"""


def through(shape: str, registers: int) -> str:
    body = THROUGH.replace("SHAPE", f"shape_{shape}").replace("N", str(registers))
    return ONE_WARP.replace("BODY", body).replace("COLUMNS", "32")


@pytest.mark.parametrize("completion", ["eager", "late", "random"])
def test_rows_come_back_as_they_were_stored(completion):
    rows = np.arange(1024, dtype=np.int32).reshape(32, 32)
    done = run(through("32x32b", 32), rows, rows * 0, threads=32, completion=completion)
    assert done.races == ()
    assert (done.arrays[1] == rows).all()


@pytest.mark.parametrize(
    "shape, registers, lane, column",
    [
        ("16x128b", 4, lambda t, r: t // 4 + 8 * (r % 2), lambda t, r: t % 4 + 4 * (r // 2)),
        (
            "16x256b",
            8,
            lambda t, r: t // 4 + 8 * (r % 4 // 2),
            lambda t, r: 2 * (t % 4) + r % 2 + 8 * (r // 4),
        ),
    ],
)
def test_halves_of_lanes_are_loaded_as_matrix_fragments(shape, registers, lane, column):
    rows = np.arange(1024, dtype=np.int32).reshape(32, 32)
    done = run(through(shape, registers), rows, rows * 0, threads=32)
    assert done.races == ()
    thread, register = np.indices((32, registers))
    expected = rows[lane(thread, register), column(thread, register)]
    assert (done.arrays[1][:, :registers] == expected).all()


def test_a_load_before_the_stores_are_waited_for_is_found():
    text = through("32x32b", 32).replace("nvvm.tcgen05.wait <store>", "")
    rows = np.zeros((32, 32), np.int32)
    assert "read-in-flight" in codes(text, rows, rows, threads=32)


def test_more_columns_than_there_are_is_no_program():
    text = ONE_WARP.replace("COLUMNS", "512")
    again = text.replace("BODY", "nvvm.tcgen05.alloc %at, %n : !llvm.ptr<3>, i32")
    rows = np.zeros((32, 32), np.int32)
    assert "no-columns" in codes(again, rows, rows, threads=32)
    assert codes(text.replace("BODY", ""), rows, rows, threads=32) == set()


@pytest.mark.parametrize(
    "body, why",
    [
        ("nvvm.tcgen05.shift %cells : !llvm.ptr<6>", "nvvm.tcgen05.shift"),
        (
            "%d = arith.constant 0 : i64\n"
            "nvvm.tcgen05.cp %cells, %d {shape = #nvvm.tcgen05_cp_shape<shape_128x256b>}",
            "nvvm.tcgen05.cp",
        ),
        (THROUGH.replace("SHAPE", "shape_16x64b").replace("N", "2"), "32x32b"),
    ],
)
def test_what_the_machine_does_not_run_is_refused_by_name(body, why):
    text = ONE_WARP.replace("COLUMNS", "32").replace("BODY", body)
    rows = np.zeros((32, 32), np.int32)
    with pytest.raises(MachineError, match=re.escape(why)):
        run(text, rows, rows, threads=32)


def test_an_instruction_descriptor_is_read_as_ptx_has_it():
    bits = 1 << 4 | 1 << 7 | 1 << 10 | 1 << 13 | 1 << 16 | 128 // 8 << 17 | 64 // 16 << 24
    shape = product_shape("f16", bits)
    assert (shape.m, shape.n, shape.k, shape.types, shape.sums) == (
        64,
        128,
        16,
        ("bf16",) * 2,
        "f32",
    )
    assert (shape.negated, shape.by_k, shape.sparse) == ((True, False), (True, False), False)
    assert product_shape("tf32", 1 << 4) is None
    assert product_shape("mxf4", 0) is None
