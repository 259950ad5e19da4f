"""Columns and lanes of tensor memory: who takes them, where they begin, who gives them back, as the checker
and the machine say it.

Covers: checker/phases/op_effects.py, checker/phases/tensor_state.py, vocabulary/memory_ops.py, vocabulary/tensor_memory.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_text
from helpers.machine_programs import run

PLACE = "memref<1xi32, #gpu.address_space<workgroup>>"
TAKE = "nvvm.tcgen05.alloc %q, %n : !llvm.ptr<3>, i32"
READ = f"%a = memref.load %p[%c0] : {PLACE}\n  %b = llvm.inttoptr %a : i32 to !llvm.ptr<6>"
GIVE = "nvvm.tcgen05.dealloc %b, %n : !llvm.ptr<6>, i32"
MET = "gpu.barrier"


def of_warp(*ops: str) -> str:
    return "\n  ".join(["scf.if %warp0 {", *ops, "}"])


def of_thread(*ops: str) -> str:
    return "\n  ".join(["scf.if %thread0 {", *ops, "}"])


def program(*lines: str, columns: int = 64) -> str:
    body = "\n  ".join(lines)
    return f"""
func.func @f(%out: memref<128xi32>) attributes {{gpu.known_block_size = array<i32: 128, 1, 1>}} {{
  %p = memref.alloc() : {PLACE}
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %n = arith.constant {columns} : i32
  %c16 = arith.constant 16 : i32
  %c5 = arith.constant 5 : i32
  %t = gpu.thread_id x
  %warp0 = arith.cmpi ult, %t, %c32 : index
  %thread0 = arith.cmpi eq, %t, %c0 : index
  %w = arith.divui %t, %c32 : index
  %i = memref.extract_aligned_pointer_as_index %p : {PLACE} -> index
  %j = arith.index_cast %i : index to i32
  %q = llvm.inttoptr %j : i32 to !llvm.ptr<3>
  {body}
  return
}}"""


GIVEN = (MET, of_warp(GIVE))


def filled(lanes: str) -> tuple[str, ...]:
    """Each warp loads from its lanes, or from others."""
    return (
        "%w32 = arith.index_cast %w : index to i32",
        f"%from = {lanes}",
        "%high = arith.constant 21 : i32",
        "%lane = arith.shli %from, %high : i32",
        "%at_ = arith.addi %a, %lane : i32",
        "%at = llvm.inttoptr %at_ : i32 to !llvm.ptr<6>",
        "%v = nvvm.tcgen05.ld %at {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : i32",
        "nvvm.tcgen05.wait <load>",
        "memref.store %v, %out[%t] : memref<128xi32>",
    )


LOAD = "nvvm.tcgen05.ld %at {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<2xi32>"
WAIT = "nvvm.tcgen05.wait <load>"
CAST = "%f = vector.bitcast %v : vector<2xi32> to vector<2xf32>"


def loaded(*lines: str) -> str:
    """Each warp loads from its lanes, and does something with the registers."""
    at = filled("arith.addi %w32, %c0i : i32")[:6]
    return program(of_warp(TAKE), MET, READ, *at, *lines, *GIVEN).replace(
        "%c5 =", "%c0i = arith.constant 0 : i32\n  %yes = arith.constant true\n  %c5 ="
    )


def passed_on(*inside: str) -> str:
    """The registers leave a branch."""
    zero = "%zero = arith.constant dense<0> : vector<2xi32>"
    end = f"}} else {{\n{zero}\nscf.yield %zero : vector<2xi32>\n}}"
    then = ("%in = " + LOAD, *inside, "scf.yield %in : vector<2xi32>")
    return "\n".join(["%v = scf.if %yes -> (vector<2xi32>) {", *then, end])


RIGHT = {
    "by one warp": program(of_warp(TAKE), MET, READ, *GIVEN),
    "all columns": program(of_warp(TAKE), MET, READ, *GIVEN, columns=512),
    "taken again": program(
        of_warp(TAKE),
        MET,
        READ,
        *GIVEN,
        of_warp(TAKE, "nvvm.tcgen05.relinquish_alloc_permit"),
        *GIVEN,
    ),
    "own lanes": program(
        of_warp(TAKE), MET, READ, *filled("arith.addi %w32, %c0i : i32"), *GIVEN
    ).replace("%c5 =", "%c0i = arith.constant 0 : i32\n  %c5 ="),
    "registers cast after the wait": loaded(f"%v = {LOAD}", WAIT, CAST),
    "registers passed on after the wait": loaded(passed_on(WAIT), CAST),
}
WRONG = {
    "registers cast before the wait": (loaded(f"%v = {LOAD}", CAST, WAIT), "read-in-flight"),
    "registers passed on before the wait": (loaded(passed_on(), WAIT, CAST), "read-in-flight"),
    "read before a barrier": (program(of_warp(TAKE), READ, *GIVEN), "missing-barrier"),
    "by every warp to one place": (program(TAKE, MET, READ, *GIVEN), "missing-barrier"),
    "by one thread": (program(of_thread(TAKE), MET, READ, *GIVEN), "divergent-warp-op"),
    "given back by one thread": (
        program(of_warp(TAKE), MET, READ, MET, of_thread(GIVE)),
        "divergent-warp-op",
    ),
    "given back twice": (
        program(of_warp(TAKE), MET, READ, MET, of_warp(GIVE, GIVE)),
        "out-of-bounds",
    ),
    "given back by every warp": (program(of_warp(TAKE), MET, READ, MET, GIVE), "out-of-bounds"),
    "kept": (program(of_warp(TAKE), MET, READ, MET), "columns-kept"),
    "288 columns": (program(of_warp(TAKE), MET, READ, *GIVEN, columns=288), "no-columns"),
    "16 columns": (program(of_warp(TAKE), MET, READ, *GIVEN, columns=16), "no-columns"),
    "lanes of another warp": (
        program(of_warp(TAKE), MET, READ, *filled("arith.addi %w32, %c1i : i32"), *GIVEN).replace(
            "%c5 =", "%c1i = arith.constant 1 : i32\n  %c5 ="
        ),
        "wrong-lanes",
    ),
}


def machine_codes(text: str) -> set[str]:
    return set(run(text, np.zeros(128, np.int32), threads=128).race_codes) - {"uninitialised-read"}


@pytest.mark.parametrize("name", RIGHT)
def test_columns_that_are_taken_and_given_back_once_are_proven(name):
    found = check_text(RIGHT[name], "nvvm:sm_100a")
    assert not found.unsafe and not found.unknown
    assert machine_codes(RIGHT[name]) == set()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_use_of_columns_is_named(name):
    text, code = WRONG[name]
    found = check_text(text, "nvvm:sm_100a")
    assert code in {code for code, _ in found.unsafe}


@pytest.mark.parametrize(
    "name", [name for name, (_, code) in WRONG.items() if not name.endswith("columns")]
)
def test_the_machine_fails_there_too(name):
    assert machine_codes(WRONG[name][0])


def test_more_columns_than_there_are_may_wait_for_ever():
    """Four warps take 256 each, to places of their own, and give them back when all have them."""
    own = program(
        "%w32 = arith.index_cast %w : index to i32",
        "%two = arith.constant 2 : i32",
        "%bytes = arith.shli %w32, %two : i32",
        "%mine = arith.addi %j, %bytes : i32",
        "%r = llvm.inttoptr %mine : i32 to !llvm.ptr<3>",
        TAKE.replace("%q", "%r"),
        MET,
        READ.replace("%c0", "%w"),
        GIVE,
        columns=256,
    ).replace(PLACE, PLACE.replace("1x", "4x"))
    found = check_text(own, "nvvm:sm_100a")
    assert found.unknown | found.unsafe
    assert "no-columns" in machine_codes(own)
