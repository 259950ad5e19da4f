"""Tensor copies, mbarriers and products of warpgroups run asynchronously: right loops are right in
every order, and each way to be wrong is found in every order.

Covers: machine/barrier_phases.py, machine/warp_clock.py, machine/dialects/mbarriers.py, machine/dialects/tma.py, machine/dialects/nvvm.py, machine/warp_order.py, vocabulary/mbarrier_ops.py
"""

from __future__ import annotations

import dataclasses
import os
import random
from typing import Any

import numpy as np
import pytest

from helpers.machine_programs import run
from helpers.tensor_kernels import Ring
from helpers.tensor_mutants import (
    APART,
    EVERYWHERE,
    MORE,
    PRODUCT,
    TOGETHER,
    changed,
    drawn,
    drawn_mutant,
)
from mlir_async_pipe.machine.launch import COMPLETIONS

NIGHTLY = os.environ.get("ASYNC_PIPE_NIGHTLY") == "1"
LOADS = Ring(tiles=3)
ROLES = Ring(tiles=3, specialised=True)
PRODUCTS = Ring(slots=3, ahead=2, in_flight=1, tiles=4, reader="products")
ROLES_OF_PRODUCTS = Ring(slots=2, in_flight=1, tiles=3, reader="products", specialised=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300 if NIGHTLY else 24))
def test_right_loops_are_right_in_every_order(seed):
    ring = drawn(seed)
    for completion in ("eager", "late", f"random:{seed}"):
        schedule = random.Random(completion + str(seed)).choice(
            ("lockstep", "forward", "backward", "random")
        )
        result = ring.run(completion, schedule)
        assert result.races == (), (ring, completion, schedule)
        assert ring.is_right(result), (ring, completion, schedule)


MUTANTS = [
    pytest.param(ring, changes, codes, id=f"{form}-{name}")
    for form, ring, tables in (
        ("loads", LOADS, (EVERYWHERE, TOGETHER)),
        ("roles", ROLES, (EVERYWHERE, APART)),
        ("products", PRODUCTS, (EVERYWHERE, TOGETHER, PRODUCT)),
        ("roles of products", ROLES_OF_PRODUCTS, (EVERYWHERE, APART, PRODUCT)),
    )
    for table in tables
    for name, (changes, codes) in table.items()
]


@pytest.mark.slow
@pytest.mark.parametrize(("ring", "changes", "codes"), MUTANTS)
def test_a_mutant_is_found_whenever_copies_arrive(ring, changes, codes):
    for completion in COMPLETIONS:
        assert changed(ring, **changes).run(completion).race_codes & codes, completion


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300 if NIGHTLY else 24))
def test_drawn_mutants_fail_in_every_order(seed):
    ring = drawn_mutant(seed)
    for completion in ("eager", "late", f"random:{seed}"):
        schedule = random.Random(completion + str(seed)).choice(
            ("lockstep", "forward", "backward", "random")
        )
        assert ring.run(completion, schedule).races, (ring, completion, schedule)


STORES = """
func.func @f(%y_: !llvm.ptr) {
  %y = builtin.unrealized_conversion_cast %y_ : !llvm.ptr to MAP
  %buffer = memref.alloc() : memref<SLOTSx64xf32, WG>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %slots = arith.constant SLOTS : index
  %tiles = arith.constant 7 : index
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  scf.for %i = %c0 to %tiles step %c1 {
    %slot = arith.remui %i, %slots : index
    FIRST
    SECOND
    %n = arith.index_cast %i : index to i32
    %v = arith.sitofp %n : i32 to f32
    memref.store %v, %buffer[%slot, %t] : memref<SLOTSx64xf32, WG>
    FENCE
    gpu.barrier
    %at = arith.muli %i, %c64 : index
    %tile = memref.subview %buffer[%slot, 0][1, 64][1, 1] : memref<SLOTSx64xf32, WG> to memref<64xf32, strided<[1], offset: ?>, WG>
    nvgpu.tma.async.store %tile to %y[%at], predicate = %leader : memref<64xf32, strided<[1], offset: ?>, WG> -> MAP
    nvvm.cp.async.bulk.commit.group
  }
  nvvm.cp.async.bulk.wait_group 0
  return
}"""
STORE_MAP = "!nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>"
FENCE = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"


def stored(slots: int, in_flight: int, fence: str = FENCE, late: bool = True, **options: Any):
    """Each warp writes its part of a tile, thread 0 stores it with `in_flight` stores reading."""
    over, meet = f"nvvm.cp.async.bulk.wait_group {in_flight} {{read}}", "gpu.barrier"
    first, second = (over, meet) if late else (meet, over)
    text = STORES.replace("MAP", STORE_MAP).replace("SLOTS", str(slots)).replace("FENCE", fence)
    text = text.replace("FIRST", first).replace("SECOND", second)
    return run(text, np.zeros(7 * 64, np.float32), threads=64, **options)


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("in_flight", [0, 1, 2])
def test_stores_in_flight_need_a_slot_more(in_flight, completion):
    """V >= q + 1, as docs/phases.md has it; the values are those of a run without overlap."""
    right = stored(in_flight + 1, in_flight, completion=completion)
    assert right.races == ()
    np.testing.assert_array_equal(right.arrays[0], np.repeat(np.arange(7), 64))
    if in_flight:
        wrong = stored(in_flight, in_flight, completion=completion)
        assert wrong.race_codes == {"source-overwritten"}


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_stores_of_what_is_not_ready(completion):
    """Written without a fence; overwritten by a warp that does not know of the leader's wait."""
    assert stored(2, 1, fence="", completion=completion).race_codes == {"missing-fence"}
    schedules = ("lockstep", "forward", "backward")
    found = [stored(1, 0, late=False, completion=completion, schedule=s) for s in schedules]
    assert all(result.race_codes & {"missing-barrier", "source-overwritten"} for result in found)


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize(
    "ring",
    [
        dataclasses.replace(LOADS, slots=1, ahead=2),
        dataclasses.replace(PRODUCTS, slots=2),
        dataclasses.replace(ROLES_OF_PRODUCTS, slots=1),
    ],
)
def test_one_slot_too_few(ring, completion):
    """V 1 for d 2; V 2 for d 2 and p 1; V 1 for p 1 and a producer."""
    codes = {"too-many-arrivals", "source-overwritten", "deadlock", "overwrite-in-flight"}
    assert ring.run(completion).race_codes & codes


def test_a_deadlock_names_both_sides():
    """The consumers wait for tile 0, and the producer for slot 0 to be given back."""
    result = changed(ROLES, first_empty_phase="%false").run()
    reported = [race for race in result.races if race.code == "deadlock"]
    assert len(reported) == 3, "two warps of consumers, and the producer"
    lines = {race.place.line for race in reported}
    assert lines == {race.other_place.line for race in reported} and len(lines) == 2
    assert "mbarrier 0: phase 0 lacks 1 arrivals, 0 bytes" in str(reported[0])
    assert "mbarrier 0: phase 0 lacks 2 arrivals, 0 bytes" in str(reported[2])


def test_bytes_that_never_come_are_reported():
    result = changed(LOADS, expect=MORE).run()
    assert "'nvgpu.mbarrier.try_wait.parity' waits for ever" in str(result.races[0])
    assert "phase 0 lacks 0 arrivals, 1 bytes" in str(result.races[0])


def test_a_late_copy_leaves_poison_where_nobody_waits():
    """The value shows it too, not only the detector."""
    ring = changed(LOADS, wait="")
    assert not ring.is_right(ring.run("late"))
    assert ring.is_right(ring.run("eager"))


TENSOR = (
    "!nvgpu.tensormap.descriptor<tensor = memref<4x64xf16, 3>, swizzle = SWIZZLE, l2promo = none, "
    "oob = zero, interleave = none>"
)
BOX = f"""
func.func @f(%x_: !llvm.ptr, %out: memref<4x64xf16>, %row: index, %column: index) {{
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to {TENSOR}
  %box = memref.alloc() : memref<4x64xf16, WG>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %bytes = arith.constant 512 : index
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %false = arith.constant false
  %full = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = WG>
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : !nvgpu.mbarrier.group<memorySpace = WG>
  nvvm.fence.mbarrier.init
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : !nvgpu.mbarrier.group<memorySpace = WG>
  nvgpu.tma.async.load %x[%column, %row], %full[%c0] to %box, predicate = %leader : {TENSOR}, !nvgpu.mbarrier.group<memorySpace = WG> -> memref<4x64xf16, WG>
  nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %c4 : !nvgpu.mbarrier.group<memorySpace = WG>
  scf.for %i = %c0 to %c4 step %c1 {{
    %v = memref.load %box[%i, %t] : memref<4x64xf16, WG>
    memref.store %v, %out[%i, %t] : memref<4x64xf16>
  }}
  return
}}"""


def boxed(swizzle: str, row: int, column: int) -> np.ndarray:
    source = np.arange(10 * 100, dtype=np.float16).reshape(10, 100)
    text = BOX.replace("SWIZZLE", swizzle)
    result = run(text, source, np.zeros((4, 64), np.float16), row, column, threads=64)
    assert result.races == ()
    return result.arrays[1]


@pytest.mark.parametrize(("row", "column"), [(2, 7), (8, 0), (0, 60), (-2, 0), (12, 0)])
def test_a_box_is_filled_with_zeros_outside_the_tensor(row, column):
    """Its bytes count all the same: 512 were announced, and the wait passes."""
    source = np.arange(10 * 100, dtype=np.float16).reshape(10, 100)
    padded = np.pad(source, ((4, 8), (0, 64)))
    expected = padded[row + 4 : row + 8, column : column + 64]
    np.testing.assert_array_equal(boxed("none", row, column), expected)


def test_a_swizzle_permutes_the_chunks_of_a_line():
    """Line r of 128 bytes: its chunk c of 8 elements lies where chunk c xor r would."""
    plain, swizzled = boxed("none", 0, 0), boxed("swizzle_128b", 0, 0)
    for line in range(4):
        for chunk in range(8):
            at = 8 * (chunk ^ line)
            np.testing.assert_array_equal(
                swizzled[line, at : at + 8], plain[line, 8 * chunk : 8 * chunk + 8]
            )
