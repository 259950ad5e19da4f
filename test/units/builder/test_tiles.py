"""`copy_tile`: widths, spread, masks and edges, and what it refuses, at the user's line.

Covers: builder/tiles.py, builder/slot_memory.py
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

from helpers.object_kernels import copied, kernel
from mlir_async_pipe import Pipeline, copy_tile
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.session.diagnostics import UsageError

TARGETS = ("nvvm:sm_80", "rocdl:gfx950", "rocdl:gfx942")


def widths(text: str) -> set[int]:
    """Elements of the loads from global memory."""
    return {int(n) for n in re.findall(r"vector\.(?:masked)?load .*vector<(\d+)xf32>\n", text)}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "threads", "align", "width"),
    [
        ((64, 16), 64, 16, 4),
        ((8, 32), 64, 16, 4),
        # 16 copies of 16 bytes would leave threads without any.
        ((64,), 64, 16, 1),
        ((16, 8), 64, 8, 2),
        ((16, 8), 64, None, 1),
        # Rows of 24 bytes.
        ((32, 6), 32, 16, 2),
        ((3, 5, 8), 64, 16, 4),
        # 30 copies by 64 threads.
        ((6, 5), 64, 16, 1),
        # 32 copies of a thread are a loop.
        ((64, 32), 64, None, 1),
    ],
)
def test_a_tile_is_copied_whole_in_copies_as_wide_as_its_rows_allow(
    shape: tuple[int, ...], threads: int, align: int | None, width: int, target: str
) -> None:
    array = np.random.default_rng(0).random(shape, dtype=np.float32)
    sizes = "x".join(["?"] * len(shape))
    found, written, _ = copied(
        lambda source, slot: copy_tile(source, slot, at=[0] * len(shape), align=align),
        shape,
        array,
        f"memref<{sizes}xf32>",
        threads=threads,
        target=target,
    )
    assert np.array_equal(found, array)
    assert widths(written) == {width}


def test_alignment_that_is_proven_needs_no_word() -> None:
    array = np.random.default_rng(0).random((64, 16), dtype=np.float32)
    source = "memref<64x16xf32>"
    _, written, _ = copied(copy_tile, (64, 16), array, source)
    assert widths(written) == {1}
    aligned = "memref<64x16xf32> {llvm.align = 16 : i64, llvm.noalias}"
    with kernel([]) as k:
        parameter = f"gpu.func @k(%a : {aligned}) kernel"
        text = str(k.module).replace("gpu.func @k() kernel", parameter)
        module = ir.Module.parse(text)
        block = module.body.operations[0].regions[0].blocks[0].operations[0].regions[0].blocks[0]
        pipe = Pipeline(2)
        pipe.buffer((64, 16), "f32")
        with ir.InsertionPoint(block.operations[0]), pipe.produce() as slot:
            copy_tile(block.arguments[0], slot)
        assert widths(str(module)) == {4}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [(16, 32), (10, 32), (16, 30), (3, 5), (40, 40)])
def test_what_lies_beyond_the_edge_is_zero(size: tuple[int, int], target: str) -> None:
    array = np.random.default_rng(1).random(size, dtype=np.float32) + 1
    found, _, _ = copied(
        lambda source, slot: copy_tile(source, slot, at=(0, 0), mask="edges", align=4),
        (16, 32),
        array,
        "memref<?x?xf32>",
        target=target,
    )
    expected = np.zeros((16, 32), np.float32)
    inside = array[:16, :32]
    expected[: inside.shape[0], : inside.shape[1]] = inside
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(("rows", "columns"), [(5, None), (None, 8), (0, 16), (7, 11)])
def test_a_mask_says_how_many_rows_and_columns_are_there(
    rows: int | None, columns: int | None
) -> None:
    array = np.random.default_rng(2).random((16, 16), dtype=np.float32) + 1
    found, _, _ = copied(
        lambda source, slot: copy_tile(source, slot, mask=(rows, columns), align=16),
        (16, 16),
        array,
        "memref<16x16xf32>",
    )
    expected = np.zeros((16, 16), np.float32)
    expected[:rows, :columns] = array[:rows, :columns]
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("mask", [None, (9, 3)])
def test_rows_whose_elements_lie_apart_are_copied_one_by_one(mask: tuple[int, int] | None) -> None:
    array = np.random.default_rng(3).random((16, 4), dtype=np.float32) + 1
    found, _, _ = copied(
        lambda source, slot: copy_tile(source, slot, mask=mask),
        (16, 4),
        array.T.copy().T,
        "memref<16x4xf32, strided<[1, 16]>>",
    )
    rows, columns = mask or (16, 4)
    expected = np.zeros((16, 4), np.float32)
    expected[:rows, :columns] = array[:rows, :columns]
    assert np.array_equal(found, expected)


def here() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def refused(copy: Any, source: str = "memref<16x16xf32>", dtype: str = "f32") -> UsageError:
    """The error of a copy into a slot of 16 x 16; it names a line of this file."""
    with kernel([source]) as k:
        pipe = Pipeline(2)
        pipe.buffer((16, 16), dtype)
        with pytest.raises(UsageError) as caught, pipe.produce() as slot:
            copy(k.arguments[0], slot)
    assert caught.value.diagnostic.place.file == __file__
    return caught.value


@pytest.mark.parametrize(
    ("source", "dtype", "message"),
    [
        ("memref<16x16xf16>", "f32", "elements of f16 into f32"),
        ("memref<8x16xf32>", "f32", "a tile of 8x16 into a slot of 16x16"),
        ("memref<16xf32>", "f32", "a tile of 16 into a slot of 16x16"),
        ("memref<?x16xf32>", "f32", "a tile of ?x16 into a slot of 16x16"),
        ("memref<16x16xf32, #gpu.address_space<workgroup>>", "f32", "workgroup memory"),
        ("index", "f32", "the source is no memref but index"),
    ],
)
def test_source_and_slot_have_to_fit(source: str, dtype: str, message: str) -> None:
    error = refused(lambda source, slot: copy_tile(source, slot), source, dtype)
    assert error.code == "tile-mismatch"
    assert message in str(error)


def test_what_is_no_value_is_no_source() -> None:
    error = refused(lambda _, slot: copy_tile("A", slot))
    assert error.code == "tile-mismatch" and "the source is no memref but str" in str(error)


@pytest.mark.parametrize("mask", [(1,), (1, 2, 3), ("a", None), "edges", 4])
def test_a_mask_has_an_entry_a_dimension(mask: Any) -> None:
    error = refused(lambda source, slot: copy_tile(source, slot, mask=mask))
    assert error.code == "tile-mask"


def test_as_many_subscripts_as_dimensions() -> None:
    assert refused(lambda a, slot: copy_tile(a, slot, at=(0,))).code == "tile-mismatch"


def test_an_alignment_is_a_power_of_two() -> None:
    assert refused(lambda a, slot: copy_tile(a, slot, align=12)).code == "bad-argument"


def test_the_line_is_the_one_that_copies() -> None:
    lines = []

    def copy(source: Any, slot: Any) -> None:
        lines.append(here() + 1)
        copy_tile(source, slot, mask=(1,))

    assert refused(copy).diagnostic.place.line == lines[0]


def test_threads_have_to_be_known() -> None:
    with kernel(["memref<16x16xf32>"], known=False) as k:
        pipe = Pipeline(2)
        pipe.buffer((16, 16), "f32")
        with pytest.raises(UsageError) as caught, pipe.produce() as slot:
            copy_tile(k.arguments[0], slot)
    assert caught.value.code == "threads-unknown"


def test_threads_that_are_given_become_those_of_the_kernel() -> None:
    with kernel(["memref<16x16xf32>"], known=False) as k:
        pipe = Pipeline(2, threads=(8, 8))
        pipe.buffer((16, 16), "f32")
        with pipe.produce() as slot:
            copy_tile(k.arguments[0], slot)
        text = str(k.module)
    assert "known_block_size = array<i32: 8, 8, 1>" in text
    assert "gpu.thread_id y" in text


def test_threads_that_differ_from_those_of_the_kernel_are_refused() -> None:
    with kernel(["memref<16x16xf32>"], threads=64) as k:
        pipe = Pipeline(2, threads=128)
        pipe.buffer((16, 16), "f32")
        with pytest.raises(UsageError) as caught, pipe.produce() as slot:
            copy_tile(k.arguments[0], slot)
    assert caught.value.code == "threads-differ"


def test_memory_that_is_no_slot_is_filled_by_all_threads() -> None:
    shared = "memref<16x16xf32, #gpu.address_space<workgroup>>"
    with kernel(["memref<16x16xf32>", shared]) as k:
        copy_tile(*k.arguments, align=16)
        assert widths(str(k.module)) == {4}
