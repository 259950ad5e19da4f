"""How bench/code.py counts the instructions of a loop.

Covers: bench/code.py, bench/sass.py
"""

from __future__ import annotations

import importlib

import pytest

from helpers.paths import ROOT
from mlir_async_pipe.lowering.nvvm.cubin import loop_bodies

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


@pytest.fixture
def sass(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("sass")


def test_a_loop_by_class_and_its_longest_run_around_the_end(sass) -> None:
    (body,) = loop_bodies(LOOP)["k"]
    found = sass.iteration(body)
    assert found.classes == {
        "waits": 1, "copies": 1, "products": 2, "moves": 1, "integer": 1, "predicates": 1,
        "branches": 1,
    }  # fmt: skip
    assert (found.all, found.products) == (8, 2)
    assert found.run == 6  # IMAD.MOV, IMAD.WIDE, UISETP, BRA, DEPBAR, LDGSTS


def test_without_a_product_the_run_is_the_whole_loop(sass) -> None:
    assert sass.iteration(("LDGSTS.E [R1], [R2.64]", "BRA `(.L_x_1)")).run == 2


def test_the_main_loop_copies_even_if_the_fall_back_multiplies_as_much(sass) -> None:
    fall_back = ("HMMA.16816.F32 R8, R5, R1, R8", "STS [R1], R2", "LDG R1, [R2.64]")
    main = ("HMMA.16816.F32 R8, R5, R1, R8", "LDGSTS.E [R1], [R2.64]")
    assert sass.main_loop((fall_back, main)) == main
