"""Which scopes are copies that a chip can issue, and why the others are not.

Covers: lowering/scopes/scope_copies.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.lowering.scopes.scope_copies import (
    SCOPE,
    NotCopies,
    ScopeCopies,
    classify,
)

WG = "#gpu.address_space<workgroup>"
TILE = f"memref<64x64xf32, {WG}>"
LOAD = "%v = memref.load %A[%t, %t] : memref<64x64xf32>"
STORE = f"memref.store %v, %tile[%t, %t] : {TILE}"


def classified(body: str, chip: str = "sm_80") -> ScopeCopies | NotCopies:
    text = f"""
gpu.module @kernels {{
  gpu.func @kernel(%A : memref<64x64xf32>, %B : memref<64x64xf32>, %I : memref<64xindex>,
                   %S : memref<64x64xf32, strided<[64, 2]>>, %U : memref<?x?xf16>,
                   %E : memref<f32>, %n : index, %c : i1, %f : f32)
      workgroup(%tile : {TILE} {{llvm.align = 16 : i64}},
                %half : memref<64x64xf16, {WG}> {{llvm.align = 16 : i64}},
                %zero : memref<f32, {WG}>)
      kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %t = gpu.thread_id x
    %t1 = arith.addi %t, %c1 : index
    "async_pipe.scope"() ({{
      {body}
      "async_pipe.yield"() : () -> ()
    }}) {{queue = 0 : i64}} : () -> ()
    gpu.return
  }}
}}"""
    with new_context():
        module = ir.Module.parse(text)
        scope = next(op for op in walk(module) if op.name == SCOPE)
        return classify(scope, CHIPS[chip])


COPYING = {
    "one element": f"{LOAD}\n{STORE}",
    "a pair of neighbours": f"{LOAD}\n{STORE}\n"
    "%w = memref.load %A[%t, %t1] : memref<64x64xf32>\n"
    f"memref.store %w, %tile[%t, %t1] : {TILE}",
    "stored under a condition": f"{LOAD}\nscf.if %c {{ {STORE} }}",
    "under a condition": f"scf.if %c {{ {LOAD}\n{STORE} }}",
    "gathered": "%i = memref.load %I[%t] : memref<64xindex>\n"
    "%v = memref.load %A[%i, %t] : memref<64x64xf32>\n"
    f"{STORE}",
    "in a loop over rows": "scf.for %i = %c0 to %n step %c1 {\n"
    "%v = memref.load %A[%i, %t] : memref<64x64xf32>\n"
    f"memref.store %v, %tile[%i, %t] : {TILE}\n}}",
    "in a loop over vectors": "scf.for %i = %c0 to %n step %c4 {\n"
    "%v = vector.load %A[%t, %i] : memref<64x64xf32>, vector<4xf32>\n"
    f"vector.store %v, %tile[%t, %i] : {TILE}, vector<4xf32>\n}}",
    "an async copy of the input": "%g = nvgpu.device_async_copy %A[%t, %t], %tile[%t, %t], 1 "
    f": memref<64x64xf32> to {TILE}",
    "nothing": "",
}

NOT_COPYING = {
    "computed": f"{LOAD}\n%w = arith.addf %v, %f : f32\nmemref.store %w, %tile[%t, %t] : {TILE}",
    "a constant": f"memref.store %f, %tile[%t, %t] : {TILE}",
    "to global memory": f"{LOAD}\nmemref.store %v, %B[%t, %t] : memref<64x64xf32>",
    "from workgroup memory": f"%v = memref.load %tile[%t1, %t] : {TILE}\n{STORE}",
    "used twice": f"{LOAD}\n{STORE}\nmemref.store %v, %tile[%t, %t1] : {TILE}",
    "loaded in another loop": f"{LOAD}\nscf.for %i = %c0 to %n step %c1 {{ {STORE} }}",
    "two bytes": "%v = memref.load %U[%t, %t] : memref<?x?xf16>\n"
    f"memref.store %v, %half[%t, %t] : memref<64x64xf16, {WG}>",
    "rows that may begin anywhere": "%v = vector.load %U[%t, %c0] : memref<?x?xf16>, vector<8xf16>\n"
    f"vector.store %v, %half[%t, %c0] : memref<64x64xf16, {WG}>, vector<8xf16>",
    "elements apart": "%v = memref.load %S[%t, %t] : memref<64x64xf32, strided<[64, 2]>>\n" + STORE,
    "no dimensions": f"%v = memref.load %E[] : memref<f32>\nmemref.store %v, %zero[] : memref<f32, {WG}>",
    "twice the same element": f"{LOAD}\n{STORE}\n{LOAD.replace('%v', '%w')}\n{STORE.replace('%v', '%w')}",
    "perhaps the same element": f"{LOAD}\n{STORE}\n{LOAD.replace('%v', '%w')}\n"
    f"memref.store %w, %tile[%t, %n] : {TILE}",
    "overlapping vectors": "%v = vector.load %A[%t, %c0] : memref<64x64xf32>, vector<4xf32>\n"
    f"vector.store %v, %tile[%t, %c0] : {TILE}, vector<4xf32>\n"
    "%w = vector.load %A[%t, %c0] : memref<64x64xf32>, vector<2xf32>\n"
    f"vector.store %w, %tile[%t, %c2] : {TILE}, vector<2xf32>",
    "the same element in every iteration": f"scf.for %i = %c0 to %n step %c1 {{ {LOAD}\n{STORE} }}",
    "overlapping iterations": "scf.for %i = %c0 to %n step %c2 {\n"
    "%v = vector.load %A[%t, %i] : memref<64x64xf32>, vector<4xf32>\n"
    f"vector.store %v, %tile[%t, %i] : {TILE}, vector<4xf32>\n}}",
    "iterations that fold onto each other": "scf.for %i = %c0 to %n step %c1 {\n"
    "%j = arith.remui %i, %c8 : index\n"
    "%v = memref.load %A[%j, %t] : memref<64x64xf32>\n"
    f"memref.store %v, %tile[%j, %t] : {TILE}\n}}",
    "two loops that cancel": "scf.for %i = %c0 to %c4 step %c1 {\n"
    "scf.for %k = %c0 to %c4 step %c1 {\n"
    "%j = arith.addi %i, %k : index\n"
    "%v = memref.load %A[%j, %t] : memref<64x64xf32>\n"
    f"memref.store %v, %tile[%j, %t] : {TILE}\n}}\n}}",
    "a barrier": f"{LOAD}\n{STORE}\ngpu.barrier",
    "a call": f'{LOAD}\n{STORE}\n"some.call"() : () -> ()',
    "a loop of blocks": f"cf.br ^body\n^body:\n{LOAD}\n{STORE}\ncf.cond_br %c, ^body, ^end\n^end:",
}


@pytest.mark.parametrize("name", COPYING)
def test_copies_are_found(name: str) -> None:
    found = classified(COPYING[name])
    assert isinstance(found, ScopeCopies), found


@pytest.mark.parametrize("name", NOT_COPYING)
def test_what_is_no_copy_says_why(name: str) -> None:
    found = classified(NOT_COPYING[name])
    assert isinstance(found, NotCopies)
    assert found.reason


@pytest.mark.parametrize(
    ("chip", "copies"), [("sm_80", True), ("sm_90a", True), ("gfx950", True), ("gfx1100", False)]
)
def test_a_chip_without_async_copies_runs_every_scope_in_place(chip: str, copies: bool) -> None:
    assert isinstance(classified(COPYING["one element"], chip), ScopeCopies) == copies


def test_the_widest_pieces_that_fit_are_chosen() -> None:
    body = (
        "%v = vector.load %A[%t, %c0] : memref<64x64xf32>, vector<4xf32>\n"
        f"vector.store %v, %tile[%t, %c0] : {TILE}, vector<4xf32>"
    )
    # %A is known to be aligned like one element only.
    found = classified(body)
    assert isinstance(found, ScopeCopies)
    assert [(pair.elements, pair.piece_bytes) for pair in found.pairs] == [(4, 4)]
