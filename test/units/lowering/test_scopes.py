"""Which scopes are copies that a chip can issue, and why the others are not.

Covers: lowering/scopes/scope_copies.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.lowering.scopes.scope_copies import NotCopies, ScopeCopies, classify
from mlir_async_pipe.vocabulary.control_flow import SCOPE

WG = "#gpu.address_space<workgroup>"
TILE = f"memref<64x64xf32, {WG}>"
LOAD = "%v = memref.load %A[%t, %t] : memref<64x64xf32>"
STORE = f"memref.store %v, %tile[%t, %t] : {TILE}"


def classified(body: str, chip: str = "sm_80", attributes: str = "") -> ScopeCopies | NotCopies:
    text = f"""
gpu.module @kernels {{
  gpu.func @kernel(%A : memref<64x64xf32>, %B : memref<64x64xf32>, %I : memref<64xindex>,
                   %S : memref<64x64xf32, strided<[64, 2]>>, %U : memref<?x?xf16>,
                   %E : memref<f32>, %n : index, %c : i1, %f : f32)
      workgroup(%tile : {TILE} {{llvm.align = 16 : i64}},
                %half : memref<64x64xf16, {WG}> {{llvm.align = 16 : i64}},
                %zero : memref<f32, {WG}>)
      kernel {attributes} {{
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


# What a block of 128 threads copies by loops over its rows, of 32 bytes a thread and iteration: row and column.
BY_THREADS = {
    "quotient of the id": ("affine.apply affine_map<(t, j) -> (t floordiv 8 + j * 16)>(%t, %j)", "%column"),
    "floordivsi": ("arith.addi %quotient, %j16 : index", "%column"),
    "a linear number": ("affine.apply affine_map<(t, j) -> ((t + j * 128) floordiv 8)>(%t, %j)", "%column"),
    "a column by it too": (
        "affine.apply affine_map<(t, j) -> ((t + j * 128) floordiv 8)>(%t, %j)",
        "affine.apply affine_map<(t, j) -> (((t + j * 128) mod 8) * 8)>(%t, %j)",
    ),
    "a swizzled column": (
        "affine.apply affine_map<(t, j) -> (t floordiv 8 + j * 16)>(%t, %j)",
        "arith.xori %column, %j8 : index",
    ),
    "columns that change places": (
        "affine.apply affine_map<(t, j) -> (t floordiv 8)>(%t, %j)",
        "arith.xori %column, %j8 : index",
    ),
    "from a row that is computed before": (
"affine.apply affine_map<(t, j) -> ((t + j * 128) floordiv 8)>(%t, %j)\n  %s = arith.addi %r, %n : index",
        "%column",
    ),
}  # fmt: skip
MEETING = {
    "two iterations in a row": ("affine.apply affine_map<(t, j) -> (t floordiv 8 + (j floordiv 2) * 16)>(%t, %j)", "%column"),
    "halves of a copy": (
        "affine.apply affine_map<(t, j) -> (t floordiv 8)>(%t, %j)",
        "affine.apply affine_map<(t, j) -> (j * 4)>(%t, %j)",
    ),
    "a row by something else": ("arith.remui %j, %n : index", "%column"),
}  # fmt: skip


def copied_by_threads(row: str, column: str, loop: str = "%j = %c0 to %c4 step %c1") -> str:
    """A loop whose iterations copy 8 elements to a row and a column, which are ops or values."""
    stored = "%s" if "%s =" in row else "%r"
    made = f"%cc = {column}" if " " in column else f"%cc = arith.addi {column}, %c0 : index"
    return f"""
%c16 = arith.constant 16 : index
%c128 = arith.constant 128 : index
%c512 = arith.constant 512 : index
%quotient = arith.floordivsi %t, %c8 : index
%column = affine.apply affine_map<(t) -> ((t mod 8) * 8)>(%t)
scf.for {loop} {{
  %j16 = arith.muli %j, %c16 : index
  %j8 = arith.muli %j, %c8 : index
  %r = {row}
  {made}
  %v = vector.load %A[%r, %cc] : memref<64x64xf32>, vector<8xf32>
  vector.store %v, %tile[{stored}, %cc] : {TILE}, vector<8xf32>
}}"""


BLOCK = "attributes {known_block_size = array<i32: 128, 1, 1>}"


@pytest.mark.parametrize("name", BY_THREADS)
def test_what_each_thread_copies_is_enumerated(name: str) -> None:
    body = copied_by_threads(*BY_THREADS[name])
    assert isinstance(classified(body, attributes=BLOCK), ScopeCopies)


@pytest.mark.parametrize("name", MEETING)
def test_iterations_of_a_thread_that_meet_are_found(name: str) -> None:
    found = classified(copied_by_threads(*MEETING[name]), attributes=BLOCK)
    assert isinstance(found, NotCopies)
    assert found.reason == "copies of one group may write the same element"


def test_a_loop_that_begins_at_the_id_is_enumerated() -> None:
    row, column = (
        "affine.apply affine_map<(j) -> (j floordiv 8)>(%j)",
        "affine.apply affine_map<(j) -> ((j mod 8) * 8)>(%j)",
    )
    body = copied_by_threads(row, column, "%j = %t to %c512 step %c128")
    assert isinstance(classified(body, attributes=BLOCK), ScopeCopies)
    # Without the column, iterations 4 and 12 of thread 4 write row 1 both.
    meeting = copied_by_threads(row, "%column", "%j = %t to %c512 step %c4")
    assert isinstance(classified(meeting, attributes=BLOCK), NotCopies)


def test_two_loops_of_a_scope_are_compared() -> None:
    first = copied_by_threads(*BY_THREADS["a linear number"])
    loop = first[first.index("scf.for") :]

    def second(rows: int) -> str:
        moved = loop.replace("(t + j * 128) floordiv 8", f"(t + j * 128) floordiv 8 + {rows}")
        return f"{first}\n{moved}"

    halves = "%j = %c0 to %c2 step %c1"
    apart = second(32).replace("%j = %c0 to %c4 step %c1", halves)
    assert isinstance(classified(apart, attributes=BLOCK), ScopeCopies)
    meeting = second(16).replace("%j = %c0 to %c4 step %c1", halves)
    assert isinstance(classified(meeting, attributes=BLOCK), NotCopies)


def test_without_a_block_size_nothing_is_enumerated() -> None:
    assert isinstance(classified(copied_by_threads(*BY_THREADS["a linear number"])), NotCopies)


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
    assert [(pair.width.elements, pair.width.piece_bytes) for pair in found.pairs] == [(4, 4)]
