"""Tensor copies in every mode, reductions in the bulk group and stores of matrices, from their PTX: the numbers are NumPy's, and
one sibling of each races.

Covers: machine/dialects/tma.py, machine/dialects/nvvm.py, machine/detector.py,
machine/dialects/async_ops.py, vocabulary/tensor_boxes.py, ptx/instructions.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.check_harness import check_module
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.ptx.raise_ptx import raise_ptx
from mlir_async_pipe.session.diagnostics import AsyncPipeError

HEAD = """\
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 64 m, .param .u64 .ptr .global .align 16 y)
.reqntid 32, 1, 1
{
  .reg .pred %p<9>; .reg .b16 %h<4>; .reg .b32 %r<40>; .reg .b64 %d<9>; .reg .f32 %f<9>;
  .shared .align 128 .b8 tile[2048];
  .shared .align 8 .b8 bar[8];
  ld.param.u64 %d1, [m];
  ld.param.u64 %d2, [y];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  mov.u32 %r3, bar;
  mul.wide.u32 %d3, %r1, 4;
  add.s64 %d4, %d2, %d3;
  shl.b32 %r4, %r1, 2;
  add.s32 %r5, %r2, %r4;
  setp.ne.u32 %p1, %r1, 0;
"""
COMPLETIONS = ("eager", "late", "random:1")


def kernel(body: str) -> Any:
    return raise_ptx(f"{HEAD}{body}\n  ret;\n}}\n", new_context(), "k.ptx")


def run(body: str, *arrays: Any, completion: str = "late") -> machine.RunResult:
    return machine.run(kernel(body), "k", list(arrays), threads=32, completion=completion)


# Thread 0 copies what is named to the tile, all wait, and each thread gives one number of 32 bits back.
LOADED = """\
  @%p1 bra $ready;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {bytes};
  {copy};
$ready:
  bar.sync 0;
$again:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;
  @!%p3 bra $again;
  ld.shared.u32 %r9, [%r5];
  st.global.u32 [%d4], %r9;"""
TENSOR = "cp.async.bulk.tensor.{}d.shared::cta.global.{}.mbarrier::complete_tx::bytes [%r2], [%d1, {{{}}}], [%r3]"
GATHER = TENSOR.format(2, "tile::gather4", "4, 5, 2, 11, 0")
ROWS = np.arange(8 * 16, dtype=np.uint32).reshape(8, 16)


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_four_rows_are_gathered(completion: str) -> None:
    """Rows 5, 2, 11 and 0 from column 4 on; row 11 is beyond the tensor: zeros."""
    body = LOADED.format(bytes=4 * 8 * 4, copy=GATHER)
    tensor = machine.TensorMap(ROWS, (1, 8))
    result = run(body, tensor, np.zeros(32, np.uint32), completion=completion)
    expected = np.concatenate([ROWS[5, 4:12], ROWS[2, 4:12], np.zeros(8), ROWS[0, 4:12]])
    assert not result.races
    np.testing.assert_array_equal(result.arrays[1], expected)


@pytest.mark.parametrize(
    ("bytes_", "drop", "codes"),
    [(4 * 8 * 4, "  @!%p3 bra $again;\n", {"read-in-flight"}), (8 * 4, "", {"deadlock"})],
)
def test_a_gather_that_is_not_awaited_races(bytes_: int, drop: str, codes: set[str]) -> None:
    body = LOADED.format(bytes=bytes_, copy=GATHER).replace(drop, "")
    result = run(body, machine.TensorMap(ROWS, (1, 8)), np.zeros(32, np.uint32))
    assert codes <= result.race_codes


@pytest.mark.parametrize(
    ("box", "bytes_", "found"),
    [("1x8xi32", 128, set()), ("1x8xi32", 32, {"wrong-bytes"}), ("1x16xi32", 128, {"wrong-bytes"})],
)
def test_a_map_for_rows_brings_four_of_its_boxes(box: str, bytes_: int, found: set[str]) -> None:
    module = kernel(LOADED.format(bytes=bytes_, copy=GATHER))
    checked = check_module(module, assume_boxes=f"0={box}", assume_noalias_arguments=True)
    assert {code for code, _ in checked.unsafe} == found
    assert found or not checked.unknown


def test_a_box_of_several_rows_is_none_of_a_map_for_rows() -> None:
    module = kernel(LOADED.format(bytes=128, copy=GATHER))
    with pytest.raises(AsyncPipeError, match="has one row"):
        check_module(module, assume_boxes="0=4x8xi32")


@pytest.mark.parametrize(
    ("tensor", "copy"),
    [
        (machine.TensorMap(ROWS, (4, 8)), GATHER),
        (machine.TensorMap(ROWS, (4, 8), corners=((0,), (0,))), TENSOR.format(2, "tile", "0, 0")),
        (
            machine.TensorMap(ROWS.reshape(2, 4, 16), (4, 8)),
            TENSOR.format(3, "im2col", "0, 0, 0") + ", {0}",
        ),
    ],
)
def test_a_map_for_another_mode_is_refused(tensor: machine.TensorMap, copy: str) -> None:
    with pytest.raises(AsyncPipeError, match="mode '"):
        run(LOADED.format(bytes=128, copy=copy), tensor, np.zeros(32, np.uint32))


IMAGES = np.arange(2 * 4 * 5 * 8, dtype=np.uint32).reshape(2, 4, 5, 8)


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("filter_at", [(0, 0), (2, 1)])
@pytest.mark.parametrize("start", [(-1, -1, 0), (3, 2, 0), (2, 2, 1)])
def test_pixels_of_a_convolution_are_im2col(
    start: tuple[int, int, int], filter_at: tuple[int, int], completion: str
) -> None:
    """8 pixels of 4 channels, in a filter of 3 x 3 with one row and column of zeros around: each output pixel is moved by the
    filter's place; after the last one of a row, or image, comes the first of the next."""
    column, row, image = start
    offsets = f"{{{filter_at[0]}, {filter_at[1]}}}"
    copy = TENSOR.format(4, "im2col", f"4, {column}, {row}, {image}") + f", {offsets}"
    tensor = machine.TensorMap(IMAGES, (8, 4), corners=((-1, -1), (-1, -1)))
    body = LOADED.format(bytes=8 * 4 * 4, copy=copy)
    result = run(body, tensor, np.zeros(32, np.uint32), completion=completion)
    padded = np.pad(IMAGES, ((0, 1), (1, 1), (1, 1), (0, 0)))
    # Outputs by image, row and column, in one row; those after the last image are zeros.
    outputs = [
        padded[n, y + filter_at[1], x + filter_at[0], 4:]
        for n in range(3)
        for y in range(4)
        for x in range(5)
    ]
    first = image * 20 + (row + 1) * 5 + column + 1
    assert not result.races
    np.testing.assert_array_equal(result.arrays[1], np.concatenate(outputs[first : first + 8]))


STORED = """\
  st.shared.{kind} [%r5], {value};
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%p1 bra $done;
  {copy};
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
$done:"""
SCATTER = "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%d1, {4, 5, 2, 9, 0}], [%r2]"


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_four_rows_are_scattered(completion: str) -> None:
    """Row 9 is beyond the tensor, and is left out."""
    given = np.zeros((8, 16), np.uint32)
    body = STORED.format(kind="u32", value="%r1", copy=SCATTER)
    result = run(body, machine.TensorMap(given, (1, 8)), given, completion=completion)
    expected = np.zeros((8, 16), np.uint32)
    for number, row in ((0, 5), (1, 2), (3, 0)):
        expected[row, 4:12] = np.arange(8) + 8 * number
    assert not result.races
    np.testing.assert_array_equal(result.arrays[0], expected)


def test_rows_that_are_scattered_over_one_another_race() -> None:
    twice = f"{SCATTER};\n  {SCATTER.replace('5, 2, 9, 0', '0, 1, 3, 4')}"
    body = STORED.format(kind="u32", value="%r1", copy=twice)
    given = np.zeros((8, 16), np.uint32)
    result = run(body, machine.TensorMap(given, (1, 8)), given)
    assert result.race_codes == {"overwrite-in-flight"}


REDUCE = (
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.{}.tile.bulk_group [%d1, {{4, 2}}], [%r2]"
)
REDUCE_BULK = "cp.reduce.async.bulk.global.shared::cta.bulk_group.{} [%d2], [%r2], 128"
COMBINED = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, new: np.where(old >= new, 0, old + 1),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - 1),
}


@pytest.mark.parametrize("operation", COMBINED)
@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_box_is_combined_with_what_is_there(operation: str, completion: str) -> None:
    given = np.random.default_rng(1).integers(0, 40, (8, 16)).astype(np.uint32)
    given[0, 0] = given[3, 5] = 2**32 - 3
    body = STORED.format(kind="u32", value="%r1", copy=REDUCE.format(operation))
    result = run(body, machine.TensorMap(given.copy(), (4, 8)), given, completion=completion)
    expected = given.copy()
    expected[2:6, 4:12] = COMBINED[operation](
        given[2:6, 4:12], np.arange(32, dtype=np.uint32).reshape(4, 8)
    )
    assert not result.races
    np.testing.assert_array_equal(result.arrays[0], expected)


@pytest.mark.parametrize(
    ("suffix", "kind", "combine"),
    [
        ("add.f32", np.float32, np.add),
        ("add.u32", np.uint32, np.add),
        ("max.s32", np.int32, np.maximum),
        ("max.u32", np.uint32, np.maximum),
        ("xor.b32", np.uint32, np.bitwise_xor),
    ],
)
def test_bytes_are_combined_as_numbers_of_a_type(suffix: str, kind: Any, combine: Any) -> None:
    given = (np.arange(32)[::-1] - 16).astype(np.int32).view(np.uint32).astype(kind)
    value = "%r1"
    conversion = ""
    if kind is np.float32:
        given = np.arange(32, dtype=np.float32) / 2
        conversion, value = "  cvt.rn.f32.u32 %f1, %r1;\n", "%f1"
    kinds = "f32" if kind is np.float32 else "u32"
    body = conversion + STORED.format(kind=kinds, value=value, copy=REDUCE_BULK.format(suffix))
    result = run(body, np.zeros(1, np.uint32), given.copy())
    assert not result.races
    np.testing.assert_array_equal(result.arrays[1], combine(given, np.arange(32).astype(kind)))


@pytest.mark.parametrize(
    ("copy", "codes"),
    [
        # Two reductions may meet, a reduction and a copy not.
        (f"{REDUCE_BULK.format('add.u32')};\n  {REDUCE_BULK.format('add.u32')}", set()),
        (
            f"{REDUCE_BULK.format('add.u32')};\n  cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r2], 128",
            {"overwrite-in-flight"},
        ),
    ],
)
def test_reductions_may_meet_in_flight(copy: str, codes: set[str]) -> None:
    given = np.ones(32, np.uint32)
    body = STORED.format(kind="u32", value="%r1", copy=copy)
    result = run(body, np.zeros(1, np.uint32), given.copy())
    assert result.race_codes == codes
    if not codes:
        np.testing.assert_array_equal(result.arrays[1], given + 2 * np.arange(32))


def test_blocks_add_to_one_place() -> None:
    body = STORED.format(kind="u32", value="%r1", copy=REDUCE_BULK.format("add.u32"))
    module = kernel(body)
    result = machine.run(module, "k", [np.zeros(1, np.uint32), np.zeros(32, np.uint32)], threads=32, grid=3)  # fmt: skip
    assert not result.races
    np.testing.assert_array_equal(result.arrays[1], 3 * np.arange(32))


def test_what_is_not_waited_for_is_not_there() -> None:
    body = STORED.format(kind="u32", value="%r1", copy=REDUCE_BULK.format("add.u32"))
    body = body.replace("cp.async.bulk.wait_group 0;\n$done:", "ld.global.u32 %r9, [%d2];\n  st.global.u32 [%d2+64], %r9;\n$done:")  # fmt: skip
    result = run(body, np.zeros(1, np.uint32), np.zeros(32, np.uint32))
    assert {"read-in-flight", "overwrite-in-flight"} <= result.race_codes


# Lane l names row l; register r of lane l is 4 l + r, as two halves.
MATRIX = """\
  shl.b32 %r10, %r1, 4;
  add.s32 %r11, %r2, %r10;
  mad.lo.s32 %r12, %r1, 65540, 262144;
  add.s32 %r13, %r12, 65537;
  stmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 [%r11], {{%r12, %r13}};
  {barrier}
  ld.shared.u32 %r9, [%r2+{at}];
  st.global.u32 [%d4], %r9;"""


@pytest.mark.parametrize("transposed", [False, True])
def test_a_matrix_is_stored_as_ldmatrix_loads_it(transposed: bool) -> None:
    body = MATRIX.format(trans=".trans" if transposed else "", barrier="bar.sync 0;", at=0)
    body = body.replace("[%r2+0]", "[%r5]")
    lanes = np.arange(32, dtype=np.uint32)
    registers = np.stack([lanes * 65540 + 262144, lanes * 65540 + 262144 + 65537])
    tiles = registers.astype("<u4").view("<u2").reshape(2, 8, 8)
    if transposed:
        tiles = tiles.swapaxes(1, 2)
    result = run(body, np.zeros(1, np.uint32), np.zeros(32, np.uint32))
    assert not result.races
    expected = np.ascontiguousarray(tiles).reshape(-1).view("<u4")[:32]
    np.testing.assert_array_equal(result.arrays[1], expected)
    second = run(body.replace("[%r5]", "[%r5+128]"), np.zeros(1, np.uint32), np.zeros(32, np.uint32))  # fmt: skip
    expected = np.ascontiguousarray(tiles).reshape(-1).view("<u4")[32:]
    np.testing.assert_array_equal(second.arrays[1], expected)


def test_a_matrix_that_others_read_before_a_barrier_races() -> None:
    body = MATRIX.format(trans="", barrier="", at=128)
    assert run(body, np.zeros(1, np.uint32), np.zeros(32, np.uint32)).race_codes
    assert check_module(kernel(body), assume_noalias_arguments=True).unsafe


def test_a_matrix_of_bytes_is_refused() -> None:
    body = "  stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r5], {%r1};"
    with pytest.raises(AsyncPipeError, match="16 bits"):
        run(body, np.zeros(1, np.uint32), np.zeros(32, np.uint32))
