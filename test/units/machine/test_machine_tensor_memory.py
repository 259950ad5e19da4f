"""Tensor memory on the machine: products, loads and stores against NumPy, and what is found in wrong
kernels.

Covers: machine/dialects/tcgen05.py, machine/dialects/tensor_products.py, machine/tensor_cells.py, machine/barrier_phases.py,
machine/warp_clock.py, machine/clocked_detector.py, vocabulary/tensor_memory.py
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.machine_programs import codes, parse, run
from helpers.tensor_memory_kernels import BlackwellGemm, run_gemm
from mlir_async_pipe.session.diagnostics import MachineError
from mlir_async_pipe.vocabulary.tensor_memory import TENSOR_OPS, product_shape

MOODS = [("eager", "lockstep"), ("late", "forward"), ("random", "random")]
FORMS = [
    BlackwellGemm(tile_n=64),
    BlackwellGemm(tile_n=64, types="bf16", b="n"),
    BlackwellGemm(tile_n=32, types="tf32"),
    BlackwellGemm(tile_n=32, types="e4m3", tile_m=256),
    BlackwellGemm(tile_n=96, types="e5m2"),
]
SMALL = BlackwellGemm(tile_n=32)


@pytest.mark.parametrize("completion, schedule", MOODS)
@pytest.mark.parametrize("gemm", FORMS, ids=lambda gemm: f"{gemm.types}-{gemm.b}-{gemm.tile_m}")
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


def test_every_op_of_the_table_runs_or_is_refused():
    from mlir_async_pipe.machine.registry import SEMANTICS

    assert set(TENSOR_OPS) <= set(SEMANTICS)


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
