"""Per-thread copies on AMD chips: what arrives in LDS, and which copies are refused.

Covers: lowering/rocdl/rocdl_copies.py, lowering/rocdl/to_rocdl.py, lowering/nvvm/to_nvvm.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.rocdl_kernels import COPYING, STRAIGHT, SWIZZLED, copy_kernel, lowered, parse, run_copy
from mlir_async_pipe import machine
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.chips.target import CHIPS, Target
from mlir_async_pipe.session.diagnostics import AsyncPipeError

pytestmark = pytest.mark.slow

ROWS_OF_16 = """
    %half = arith.remui %y, %c4 : index
    %x8 = arith.muli %x, %c8 : index
    %row = arith.addi %y, %c0 : index
    %column = arith.addi %x8, %c0 : index
    %to_row = arith.addi %y, %c0 : index
    %to_column = arith.addi %x8, %c0 : index
"""


def _count(module, name):
    return sum(1 for op in walk(module) if op.name == name)


@pytest.mark.parametrize("completion", ["eager", "late"])
@pytest.mark.parametrize("index", [STRAIGHT, SWIZZLED], ids=["straight", "swizzled"])
@pytest.mark.parametrize("chip", COPYING)
def test_what_arrives_in_lds_is_what_the_per_thread_copies_say(chip, index, completion):
    text = copy_kernel(index)
    lanes = CHIPS[chip].lanes
    _, _, expected = run_copy(parse(text), lanes=lanes)
    module = parse(text)
    lowered(module, chip)
    result, a, found = run_copy(module, lanes=lanes, completion=completion)
    assert not result.races
    assert (found > 0).all() and sorted(found.ravel()) == sorted(a.ravel())
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("chip", COPYING)
def test_a_block_of_two_dimensions_is_cut_into_waves_in_linear_order(chip):
    block = (4, 64, 1)
    module = parse(copy_kernel(ROWS_OF_16, block=block))
    lowered(module, chip)
    result, a, found = run_copy(module, lanes=CHIPS[chip].lanes, block=block)
    assert not result.races and np.array_equal(found, a)


@pytest.mark.parametrize(
    ("chip", "copies"), [("gfx942", 4), ("gfx1030", 4), ("gfx950", 1), ("gfx1250", 1)]
)
def test_a_16_byte_copy_becomes_the_widest_copies_of_the_chip(chip, copies):
    module = parse(copy_kernel(STRAIGHT))
    lowered(module, chip)
    form = CHIPS[chip].copy_form
    assert form is not None
    assert _count(module, form.op) == copies


@pytest.mark.parametrize("chip", COPYING)
@pytest.mark.parametrize("kept", [0, 3, 8])
def test_elements_that_are_left_out_are_zeros(chip, kept):
    module = parse(copy_kernel(STRAIGHT, kept="%n"))
    lowered(module, chip)
    result, a, found = run_copy(module, lanes=CHIPS[chip].lanes, n=kept)
    expected = np.where(np.arange(32) % 8 < kept, a, 0)
    assert not result.races and np.array_equal(found, expected)


@pytest.mark.parametrize("chip", COPYING)
def test_lanes_beyond_an_edge_store_zeros(chip):
    index = STRAIGHT + (
        "    %inside = arith.cmpi ult, %row, %n : index\n"
        "    %kept = arith.select %inside, %c8, %c0 : index\n"
    )
    module = parse(copy_kernel(index, kept="%kept"))
    lowered(module, chip)
    result, a, found = run_copy(module, lanes=CHIPS[chip].lanes, n=21)
    expected = np.where(np.arange(64)[:, None] < 21, a, 0)
    assert not result.races and np.array_equal(found, expected)


def test_a_copy_in_a_static_inner_loop_is_followed_through_its_counter():
    index = """
    %quarter = arith.divui %x, %c4 : index
    %chunk = arith.remui %x, %c4 : index
    %column = arith.muli %chunk, %c8 : index
    %to_column = arith.addi %column, %c0 : index
    scf.for %i = %c1 to %c4 step %c1 {
      %down = arith.muli %i, %c16 : index
      %r = arith.addi %quarter, %down : index
      %early = nvgpu.device_async_copy %A[%r, %column], %tile[%r, %column], 8
        : memref<?x?xf16> to memref<64x32xf16, #gpu.address_space<workgroup>>
    }
    %row = arith.addi %quarter, %c0 : index
    %to_row = arith.addi %quarter, %c0 : index
"""
    block = (64, 1, 1)
    module = parse(copy_kernel(index, block=block))
    lowered(module, "gfx950")
    result, a, found = run_copy(module, lanes=64, block=block)
    assert not result.races and np.array_equal(found, a)


REFUSED = {
    "lanes-of-a-wave-apart": (
        "gfx950",
        STRAIGHT.replace("%chunk, %c8", "%chunk, %c16"),
        {"shape": (64, 64)},
        "wave-layout",
    ),
    "all-lanes-at-one-place": (
        "gfx950",
        STRAIGHT.replace("arith.divui %x", "arith.divui %c0").replace(
            "arith.remui %x", "arith.remui %c0"
        ),
        {},
        "wave-layout",
    ),
    "order-is-not-its-own-inverse": (
        "gfx950",
        """
    %next = arith.addi %x, %c1 : index
    %turned = arith.remui %next, %c64 : index
    %row = arith.divui %turned, %c4 : index
    %chunk = arith.remui %turned, %c4 : index
    %column = arith.muli %chunk, %c8 : index
    %to_row = arith.addi %row, %c0 : index
    %to_column = arith.addi %column, %c0 : index
""",
        {"block": (64, 1, 1)},
        "wave-layout",
    ),
    "place-from-memory": (
        "gfx942",
        """
    %found = memref.load %A[%x, %c0] : memref<?x?xf16>
    %bits = arith.bitcast %found : f16 to i16
    %row = arith.index_cast %bits : i16 to index
    %column = arith.addi %c0, %c0 : index
    %to_row = arith.addi %row, %c0 : index
    %to_column = arith.addi %c0, %c0 : index
""",
        {},
        "wave-layout",
    ),
    "unknown-block-size": ("gfx942", STRAIGHT, {"block": None}, "unknown-block-size"),
    "split-in-a-partial-wave": ("gfx942", STRAIGHT, {"block": (96, 1, 1)}, "partial-wave"),
    "eight-byte-elements": ("gfx942", STRAIGHT, {"elements": 1, "kind": "f64"}, "copy-width"),
    "no-lds-copies-on-gfx11": ("gfx1100", STRAIGHT, {}, "no-async-copies"),
    "no-lds-copies-on-gfx12": ("gfx1200", STRAIGHT, {}, "no-async-copies"),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_copy_that_a_chip_cannot_do_is_refused_where_it_stands(case):
    chip, index, options, code = REFUSED[case]
    module = parse(copy_kernel(index, **options))
    before = str(module)
    with pytest.raises(AsyncPipeError) as caught:
        lowered(module, chip)
    assert caught.value.code == code
    assert caught.value.diagnostic.place.line > 0
    assert str(module) == before


@pytest.mark.parametrize("chip", ["gfx950", "gfx1250"])
def test_the_source_must_be_global_memory(chip):
    text = copy_kernel(STRAIGHT).replace("memref<?x?xf16>", "memref<?x?xf16, 4>")
    with pytest.raises(AsyncPipeError) as caught:
        lowered(parse(text), chip)
    assert caught.value.code == "copy-space"


def test_a_split_copy_that_some_threads_skip_is_refused():
    text = copy_kernel(STRAIGHT)
    start = text.index("    %copy = ")
    end = text.index("    %group")
    guarded = (
        "    %some = arith.cmpi ult, %x, %c4 : index\n    scf.if %some {\n"
        + text[start:end]
        + "    }\n"
    )
    text = text[:start] + guarded + text[end:].replace("create_group %copy", "create_group")
    with pytest.raises(AsyncPipeError) as caught:
        lowered(parse(text), "gfx942")
    assert caught.value.code == "divergent-copy"
    # Whole 16-byte copies stay with their lanes, so lanes may be missing.
    lowered(parse(text), "gfx950")


def of_views(source: str, target: str) -> str:
    """Two waves copy 16 bytes a lane: from %A[%mine] or a view of %A, to a view of LDS from `target` on."""
    kind = "memref<1024xi32, #gpu.address_space<{}>>"
    view = "memref<512xi32, strided<[1], offset: ?>, #gpu.address_space<{}>>"
    array, tile = kind.format("global"), kind.format("workgroup")
    part, place = view.format("global"), view.format("workgroup")
    return f"""gpu.module @m {{
      gpu.func @k(%A: {array} {{llvm.noalias}}, %B: {array} {{llvm.noalias}}) workgroup(%s: {tile} {{llvm.align = 16 : i64}})
          kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
        %c0 = arith.constant 0 : index
        %c4 = arith.constant 4 : index
        %c64 = arith.constant 64 : index
        %c512 = arith.constant 512 : index
        %t = gpu.thread_id x
        %wave = arith.divui %t, %c64 : index
        %lane = arith.remui %t, %c64 : index
        %by_wave = arith.muli %wave, %c512 : index
        %by_lane = arith.muli %lane, %c4 : index
        %from = memref.subview %A[{source}] [512] [1] : {array} to {part}
        %to = memref.subview %s[{target}] [512] [1] : {tile} to {place}
        %copy = nvgpu.device_async_copy %from[%by_lane], %to[%by_lane], 4 : {part} to {place}
        %group = nvgpu.device_async_create_group %copy
        nvgpu.device_async_wait %group
        gpu.barrier
        %x = vector.load %to[%by_lane] : {place}, vector<4xi32>
        %at = arith.addi %by_wave, %by_lane : index
        vector.store %x, %B[%at] : {array}, vector<4xi32>
        gpu.return
      }}
    }}"""


@pytest.mark.parametrize(
    ("chip", "source", "target", "refused"),
    [
        ("gfx950", "%by_wave", "%by_wave", False),
        ("gfx942", "%by_wave", "%by_wave", False),
        ("gfx950", "%by_wave", "%by_lane", True),
        # Each lane copies for itself.
        ("gfx950", "%by_lane", "%by_wave", False),
        # A lane copies a quarter of what another one names, in the view of that one.
        ("gfx942", "%by_lane", "%by_wave", True),
    ],
)
def test_lanes_of_a_wave_copy_by_one_view(chip, source, target, refused):
    text = of_views(source, target)
    given = np.arange(1024, dtype=np.int32)
    before = machine.run(parse(text), "k", [given, 0 * given], target=Target.of_chip(chip))
    module = parse(text)
    if refused:
        with pytest.raises(AsyncPipeError, match="views of their own") as caught:
            lowered(module, chip)
        assert caught.value.code == "wave-layout"
        return
    lowered(module, chip)
    after = machine.run(module, "k", [given, 0 * given], target=Target.of_chip(chip))
    assert not after.races and np.array_equal(after.arrays[1], before.arrays[1])
