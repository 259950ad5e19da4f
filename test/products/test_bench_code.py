"""How bench/code.py counts instructions, passes and what became worse; its kernels are right.

Covers: bench/code.py, bench/code_compare.py, bench/code_figures.py, bench/code_kernels.py, bench/code_table.py,
bench/iterations.py, bench/banks.py, bench/kernels, bench/user_kernels.py
"""

from __future__ import annotations

import importlib
import json
import re
from types import ModuleType

import numpy as np
import pytest

from helpers.paths import ROOT
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.nvvm.cubin import loop_bodies
from mlir_async_pipe.lowering.rocdl import isa

LOOP = """\
.text.k:
 /*0000*/ MOV R1, c[0x0][0x28] ;
.L_x_1:
 /*0010*/ DEPBAR.LE SB0, 0x1 ;
 /*0020*/ @!P0 LDGSTS.E.BYPASS.128 [R65], [R40.64] ;
 /*0030*/ HMMA.16816.F32 R8, R56.reuse, R174, R8 ;
 /*0040*/ HMMA.16816.F32 R8, R56.reuse, R174, R8 ;
 /*0050*/ IMAD.MOV.U32 R4, RZ, RZ, R5 ;
 /*0060*/ IMAD.WIDE.U32 R4, R223, 0x10, R4 ;
 /*0070*/ UISETP.NE.U32.AND UP0, UPT, UR8, 0x3, UPT ;
 /*0080*/ @!P0 BRA `(.L_x_1) ;
 /*0090*/ EXIT ;
"""
AMD = """\
	.type	k,@function
k:
	v_mov_b32_e32 v1, 0
.LBB0_1:
	s_waitcnt vmcnt(4)
	s_barrier
	; a comment
	global_load_lds_dwordx4 v[2:3], off
	ds_read_b128 v[4:7], v8
	v_mfma_f32_32x32x16_f16 v[0:15], v[4:7], v[4:7], v[0:15]
	v_mfma_f32_32x32x16_f16 v[0:15], v[4:7], v[4:7], v[0:15]
	s_add_i32 s0, s0, 1
	s_cbranch_scc1 .LBB0_1
	s_endpgm
.Lfunc_end0:
"""


@pytest.fixture
def bench(monkeypatch):
    """Modules of bench/ by name."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))

    def of(name: str) -> ModuleType:
        return importlib.import_module(name)

    return of


def test_a_loop_by_class_and_its_longest_run_around_the_end(bench) -> None:
    (body,) = loop_bodies(LOOP)["k"]
    found = bench("iterations").iteration(body, "nvvm")
    assert found.classes == {
        "waits": 1, "copies": 1, "products": 2, "moves": 1, "integer": 1, "predicates": 1,
        "branches": 1,
    }  # fmt: skip
    assert (found.all, found.products, found.waits) == (8, 2, (1,))
    assert found.run == 6  # IMAD.MOV, IMAD.WIDE, UISETP, BRA, DEPBAR, LDGSTS


def test_an_unrolled_loop_counts_by_its_products(bench) -> None:
    (body,) = isa.loop_bodies(AMD)["k"]
    found = bench("iterations").iteration(body, "rocdl", 32 * 32 * 16)
    assert found.classes == {
        "waits": 0.5, "barriers": 0.5, "copies": 0.5, "fragments": 0.5, "products": 1,
        "scalar": 0.5, "branches": 0.5,
    }  # fmt: skip
    assert (found.run, found.waits) == (6, (4,))


@pytest.mark.parametrize("waits", [1, 2, 4])
def test_an_unrolled_loop_without_products_counts_by_its_waits(bench, waits: int) -> None:
    body = ("DEPBAR.LE SB0, 0x1 ", "LDS R1, [R2]", "FADD R3, R1, R3 ") * waits
    found = bench("iterations").iteration(body, "nvvm")
    assert (found.all, found.waits) == (3, (1,) * waits)


def test_amds_waits_for_single_copies_are_no_iterations(bench) -> None:
    body = (
        "s_waitcnt vmcnt(1)",
        "ds_read_b32 v1, v2",
        "s_waitcnt vmcnt(0)",
        "v_add_f32 v3, v1, v3",
    )
    assert bench("iterations").iteration(body, "rocdl").all == 4


def test_kernels_of_users_above_the_best_are_told_and_no_others(bench) -> None:
    table = bench("code_table")

    def sides(all_: int, run: int) -> dict:
        return {"ours": {"all": all_, "run": run}, "Triton": {"all": 100, "run": 20}}

    given = {
        f"nvvm:sm_80 {table.WRITTEN}{name}": sides(*figures)
        for name, figures in {"x": (105, 21), "y": (106, 20), "z": (99, 22)}.items()
    }
    given[f"nvvm:sm_80 {table.WRITTEN}alone"] = {"ours": {"all": 500, "run": 500}}
    told = table.above(given).splitlines()
    assert told[2:] == ["* y: all 106 beside 100", "* z: run 22 beside 20"]


def test_a_block_that_was_moved_behind_a_loop_makes_no_loop(bench) -> None:
    around = ("HMMA.16816.F32 R8, R5, R1, R8", "LDGSTS.E [R1], [R2.64]", *["MOV R1, R2"] * 9)
    main = ("HMMA.16816.F32 R8, R5, R1, R8", "LDGSTS.E [R1], [R2.64]")
    found = bench("iterations").main_loop(((*around, "BRA `(.L_x_9)"), main), "nvvm")
    assert found == main


def test_without_a_product_the_run_is_the_whole_loop(bench) -> None:
    body = ("LDGSTS.E [R1], [R2.64]", "BRA `(.L_x_1)")
    assert bench("iterations").iteration(body, "nvvm").run == 2


def test_the_main_loop_copies_even_if_the_fall_back_multiplies_as_much(bench) -> None:
    fall_back = ("HMMA.16816.F32 R8, R5, R1, R8", "STS [R1], R2", "LDG R1, [R2.64]")
    main = ("HMMA.16816.F32 R8, R5, R1, R8", "LDGSTS.E [R1], [R2.64]")
    assert bench("iterations").main_loop((fall_back, main), "nvvm") == main


def test_conflicts_of_a_gemm_with_and_without_its_swizzle(bench) -> None:
    gemm = next(k for k in bench("code_kernels").KERNELS if k.name == "GEMM 128x128x32 f16 S=3")
    target = Target.parse(gemm.target)
    with new_context():
        module = ir.Module.parse(gemm.text())
        pipeline(module, target=target)
        found = bench("banks").passes_of(module, target)
        assert found == {"ldmatrix": 1, "device_async_copy": 1}
        unswizzled = re.sub(r"arith.xori (%\w+), %\w+", r"arith.ori \1, \1", str(module))
        plain = ir.Module.parse(unswizzled)
        assert bench("banks").passes_of(plain, target) == {"ldmatrix": 4, "device_async_copy": 1}


def test_compare_names_what_is_worse_and_only_that(bench) -> None:
    worse = bench("code_compare").worse
    figures = {"all": 126, "run": 49, "spills": 0, "registers": 220, "passes of ldmatrix": 1}
    before = {"k": {"ours": figures}}
    assert worse({"k": {"ours": {**figures, "all": 120, "registers": 225}}}, before) == []
    assert worse({"new": {"ours": {**figures, "all": 999}}}, before) == []
    found = worse(
        {"k": {"ours": {**figures, "all": 127, "registers": 240, "passes of ldmatrix": 2}}}, before
    )
    assert found == [
        "k: all was 126 and is 127",
        "k: passes of ldmatrix was 1 and is 2",
        "k: registers were 220, are 240",
    ]


def test_the_page_is_made_of_the_stored_figures(bench) -> None:
    stored = json.loads((ROOT / "bench" / "code.json").read_text())
    assert (ROOT / "docs" / "code.md").read_text() == bench("code_table").document(stored)


def test_kernels_that_are_longer_than_tritons_are_named_with_the_reason(bench) -> None:
    page = bench("code_table")
    sides = {"ours": {"all": 71.5}, "Triton": {"all": 51.0}}
    rows = {"rocdl:gfx942 a": sides, "rocdl:gfx942 b": {**sides, "ours": {"all": 51.0}}}
    assert page.longer(rows) == ["* a: 71.5 beside 51"]
    assert "### Longer than Triton's\n\n* a: 71.5 beside 51\n\nA lane" in page.document(rows)
    with pytest.raises(KeyError):
        page.document({"nvvm:sm_80 a": sides})


def test_of_our_nvidia_kernels_only_attention_by_tensor_copies_is_longer_than_tritons(
    bench,
) -> None:
    """By a fortieth at most, for the reason that the page gives."""
    stored = json.loads((ROOT / "bench" / "code.json").read_text())
    rows = {name: sides for name, sides in stored.items() if name.startswith("nvvm:")}
    assert sum("Triton" in sides for sides in rows.values()) >= 25
    attention = {name for name in rows if "attention" in name and name.endswith("TMA")}
    others = {name: sides for name, sides in rows.items() if name not in attention}
    assert bench("code_table").longer(others) == []
    for name in attention:
        assert rows[name]["ours"]["all"] <= 1.025 * rows[name]["Triton"]["all"]


@pytest.mark.parametrize("tile", [(128, 128, 32), (128, 128, 64), (64, 64, 32), (64, 32, 64)])
@pytest.mark.parametrize("target", ["rocdl:gfx942", "rocdl:gfx950"])
def test_lanes_of_amd_chips_meet_no_bank_twice(bench, target: str, tile: tuple) -> None:
    """64x32x64 of 2 x 2 waves takes instructions of 16 rows, the others those of 32."""
    kernel = bench("code_kernels").gemm(target, tile, "f16", 2)
    with new_context():
        module = ir.Module.parse(kernel.text())
        found = bench("banks").passes_of(module, Target.parse(target))
        assert found["load"] == 1
        unswizzled = re.sub(r"arith.xori (%\w+), %\w+", r"arith.ori \1, \1", str(module))
        plain = ir.Module.parse(unswizzled)
        assert bench("banks").passes_of(plain, Target.parse(target))["load"] > 1


@pytest.mark.slow
@pytest.mark.parametrize("stages", [3, 4])
def test_an_iteration_of_the_gemm_has_at_most_130_instructions(bench, stages: int) -> None:
    """64 of them are products; one wait, one barrier, one commit, no spills."""
    name = f"GEMM 128x128x32 f16 S={stages}"
    kernel = next(k for k in bench("code_kernels").KERNELS if k.name == name)
    found = bench("code_figures").ours(kernel)
    counts = found.iteration.classes
    assert found.iteration.all <= 130
    assert (counts["products"], counts["barriers"], counts["commits"]) == (64, 1, 1)
    assert found.iteration.waits == (stages - 2,)
    assert found.spills == 0
    assert set(found.passes.values()) == {1}


@pytest.mark.parametrize("completion", ["eager", "late", "random"])
@pytest.mark.parametrize("pipelined", [False, True])
def test_its_small_kernels_are_right(completion: str, pipelined: bool) -> None:
    draw = np.random.default_rng(1)
    rows, line = draw.integers(-8, 9, (5, 128)).astype(np.float32), draw.normal(size=2048)
    line = line.astype(np.float32)
    with new_context():
        for name, given in (
            ("stencil", [rows, np.zeros_like(rows)]),
            ("softmax", [line, np.zeros(128, np.float32), np.zeros(128, np.float32)]),
        ):
            module = ir.Module.parse((ROOT / "bench" / "kernels" / f"{name}.mlir").read_text())
            if pipelined:
                pipeline(module, target="nvvm:sm_80")
            result = machine.run(module, name, given, completion=completion)
            assert not result.races
            if name == "stencil":
                expected = np.roll(rows, 1, 1) + 2 * rows + np.roll(rows, -1, 1)
                assert np.array_equal(result.arrays[1], expected)
            else:
                columns = line.reshape(-1, 128)
                assert np.array_equal(result.arrays[1], columns.max(0))
                sums = np.exp2(columns - columns.max(0)).sum(0)
                assert np.allclose(result.arrays[2], sums, rtol=1e-5)
