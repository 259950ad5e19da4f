"""How many threads a block has where a kernel does not say it: its bound, and what a user promises of the launch.

Covers: checker/promises.py, checker/thread_grid.py, vocabulary/launch_ids.py, lowering/scopes/block_sizes.py
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.machine_programs import parse
from mlir_async_pipe import check
from mlir_async_pipe.session.diagnostics import AsyncPipeError


def rotated(attributes: str, name: str = "k", ids: str = "x") -> str:
    """Thread t stores at t modulo 128 and reads its neighbour's: two threads meet in blocks of more than 128."""
    return f"""
llvm.mlir.global internal @tile_{name}() {{addr_space = 3 : i32}} : !llvm.array<512 x i8>
llvm.func @{name}(%out: !llvm.ptr<1>) attributes {{nvvm.kernel{attributes}}} {{
  %c1 = arith.constant 1 : i32
  %c127 = arith.constant 127 : i32
  %t = nvvm.read.ptx.sreg.tid.{ids} : i32
  %tile = llvm.mlir.addressof @tile_{name} : !llvm.ptr<3>
  %mine = arith.andi %t, %c127 : i32
  %to = llvm.getelementptr %tile[%mine] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  llvm.store %t, %to : i32, !llvm.ptr<3>
  nvvm.barrier
  %t1 = arith.addi %t, %c1 : i32
  %theirs = arith.andi %t1, %c127 : i32
  %from = llvm.getelementptr %tile[%theirs] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  %v = llvm.load %from : !llvm.ptr<3> -> i32
  %where = llvm.getelementptr %out[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
  llvm.store %v, %where : i32, !llvm.ptr<1>
  llvm.return
}}"""


def verdict(text: str, **promises: Any) -> str:
    report = check(parse(text), "nvvm:sm_80", **promises)
    summaries = report.of("checks")
    unsafe = any(summary.unsafe for summary in summaries)
    return "unsafe" if unsafe else "unknown" if any(s.unknown for s in summaries) else "proven"


BOUND = ", {} = array<i32: {}>"


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ("", "unknown"),
        (BOUND.format("nvvm.maxntid", "128, 1, 1"), "proven"),
        # It bounds the number, whatever the shape.
        (BOUND.format("nvvm.maxntid", "16, 8"), "proven"),
        (BOUND.format("nvvm.maxntid", "129, 1, 1"), "unknown"),
        (BOUND.format("nvvm.reqntid", "128, 1, 1"), "proven"),
        (BOUND.format("nvvm.reqntid", "256, 1, 1"), "unsafe"),
        (", rocdl.max_flat_work_group_size = 128 : i32", "proven"),
        (', rocdl.flat_work_group_size = "64,128"', "proven"),
        (', rocdl.flat_work_group_size = "64,256"', "unknown"),
    ],
)
def test_a_bound_of_the_threads_is_one_of_their_numbers(attributes: str, wanted: str) -> None:
    assert verdict(rotated(attributes)) == wanted


@pytest.mark.parametrize(
    ("promise", "wanted"),
    [
        ("128", "proven"),
        ("16x8", "unsafe"),
        ("64", "proven"),
        ("256", "unsafe"),
        ("k:128", "proven"),
    ],
)
def test_a_promise_of_the_launch_is_believed(promise: str, wanted: str) -> None:
    assert verdict(rotated(""), assume_block_size=promise) == wanted


def test_a_promise_for_one_kernel_leaves_the_others_as_they_are() -> None:
    both = rotated("") + rotated(", nvvm.reqntid = array<i32: 256, 1, 1>", "l")
    assert verdict(both, assume_block_size="k:128") == "unsafe"
    both = rotated("") + rotated(", nvvm.reqntid = array<i32: 128, 1, 1>", "l")
    # Who says its own size is not meant by a promise for all.
    assert verdict(both, assume_block_size="64") == "proven"
    assert verdict(rotated("") + rotated("", "l"), assume_block_size="k:128") == "unknown"
    assert verdict(rotated("") + rotated("", "l"), assume_block_size="k:128,256") == "unsafe"


@pytest.mark.parametrize(
    ("promise", "attributes", "code", "message"),
    [
        ("0", "", "bad-option-value", "'0' of assume-block-size is no size of a block"),
        ("2048", "", "bad-option-value", "'2048' of assume-block-size"),
        ("12x", "", "bad-option-value", "'12x' of assume-block-size"),
        ("64,128", "", "bad-option-value", "'128' of assume-block-size"),
        ("l:64", "", "unused-size", "no kernel of unknown size is meant by 'l'"),
        (
            "64",
            BOUND.format("nvvm.reqntid", "128, 1, 1"),
            "unused-size",
            "no kernel of unknown size",
        ),
        ("k:64", BOUND.format("nvvm.reqntid", "128, 1, 1"), "block-size-conflict", "128 x 1 x 1"),
        ("256", BOUND.format("nvvm.maxntid", "128, 1, 1"), "block-size-conflict", "1 to 128"),
    ],
)
def test_a_promise_that_cannot_be_meant_is_an_error(
    promise: str, attributes: str, code: str, message: str
) -> None:
    with pytest.raises(AsyncPipeError) as found:
        verdict(rotated(attributes), assume_block_size=promise)
    assert found.value.code == code
    assert message in str(found.value)


def test_the_blocks_of_a_cluster_are_promised_likewise() -> None:
    for promise, attributes, code in (
        ("32", "", "bad-option-value"),
        ("k:2", ", nvvm.cluster_dim = array<i32: 4, 1, 1>", "cluster-conflict"),
        ("l:2", "", "unused-size"),
    ):
        with pytest.raises(AsyncPipeError) as found:
            verdict(rotated(attributes), assume_cluster_size=promise)
        assert found.value.code == code
    sized = rotated(", nvvm.reqntid = array<i32: 128, 1, 1>")
    assert verdict(sized, assume_cluster_size="1") == "proven"
    # Its two blocks, of which none reads its id, store to one place.
    assert verdict(sized, assume_cluster_size="2") == "unsafe"
