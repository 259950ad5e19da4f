"""Where copies are issued, what that costs in versions, and what decides where nobody says it.

Covers: pipeliner/schedule/issue_order.py, pipeliner/plan/make_plan.py, pipeliner/plan/sync_state.py,
vocabulary/products.py
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass, replace

import pytest

import mlir_async_pipe
from helpers.kernel_order import kernel_order
from helpers.paths import ROOT
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.session.diagnostics import InputError, UsageError
from mlir_async_pipe.vocabulary import is_pure
from mlir_async_pipe.vocabulary.products import PRODUCTS

# Two copies, two products of what they copied. The threads of a block read each other's elements.
LOOP = """
#wg = #gpu.address_space<workgroup>
#one = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>
#dot = {indexing_maps = [#one, #one, #none], iterator_types = ["reduction"],
        kind = #vector.kind<add>}
gpu.module @m {
gpu.func @k(%A : memref<64xf32> {llvm.noalias}, %C : memref<64xf32> {llvm.noalias})
    workgroup(%S : memref<4xf32, #wg>, %T : memref<4xf32, #wg>)
    kernel attributes {known_block_size = array<i32: 4, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %x = arith.constant dense<2.0> : vector<1xf32>
  %tid = gpu.thread_id x
  %other = arith.subi %c3, %tid : index
  scf.for %i = %c0 to %c64 step %c4 {
    %at = arith.addi %i, %tid : index
    COPIES
    gpu.barrier
    %s = memref.load %S[%other] : memref<4xf32, #wg>
    %t = memref.load %T[%other] : memref<4xf32, #wg>
    %sv = vector.broadcast %s : f32 to vector<1xf32>
    %tv = vector.broadcast %t : f32 to vector<1xf32>
    %p = vector.contract #dot %sv, %x, %zero : vector<1xf32>, vector<1xf32> into f32
    %q = vector.contract #dot %tv, %x, %p : vector<1xf32>, vector<1xf32> into f32
    memref.store %q, %C[%at] : memref<64xf32>
    gpu.barrier
  } {ANNOTATION}
  gpu.return
}
}
"""
ASYNC_COPIES = """
    %s_copy = nvgpu.device_async_copy %A[%at], %S[%tid], 1 : memref<64xf32> to memref<4xf32, #wg>
    %t_copy = nvgpu.device_async_copy %A[%at], %T[%tid], 1 : memref<64xf32> to memref<4xf32, #wg>
    %group = nvgpu.device_async_create_group %s_copy, %t_copy
    nvgpu.device_async_wait %group"""
FRONT_END_COPIES = """
    %a = memref.load %A[%at] : memref<64xf32>
    memref.store %a, %S[%tid] : memref<4xf32, #wg>
    %b = memref.load %A[%at] : memref<64xf32>
    memref.store %b, %T[%tid] : memref<4xf32, #wg>"""


@dataclass(frozen=True)
class Result:
    """The ops of the kernel loop in order, the versions of the first buffer, the whole text."""

    kernel: list[str]
    versions: int
    text: str


def pipelined(text: str, **options) -> Result:
    """What the one-shot pass, with its check, makes of a module with one loop."""
    with new_context():
        module = ir.Module.parse(text)
        mlir_async_pipe.pipeline(module, target="nvvm:sm_80", **options)
        found = re.search(r"memref<(\d)x4xf32, #gpu", str(module))
        return Result(kernel_order(module), int(found[1]) if found else 1, str(module))


def loop(annotation: str, copies: str = ASYNC_COPIES) -> str:
    """The module with its loop annotated."""
    return LOOP.replace("COPIES", copies.strip()).replace("ANNOTATION", annotation)


def stages(number: int, issue: str = "") -> str:
    """The annotations of a loop."""
    return f"async_pipe.num_stages = {number}" + (
        f', async_pipe.issue = "{issue}"' if issue else ""
    )


FIRST = ["wait", "barrier", "copy", "copy", "commit", "load", "load", "product", "product", "store"]
SPREAD = [
    "wait",
    "barrier",
    "load",
    "load",
    "product",
    "copy",
    "product",
    "copy",
    "commit",
    "store",
]
LAST = ["wait", "barrier", "load", "load", "product", "product", "store", "copy", "copy", "commit"]


@pytest.mark.parametrize("number", [2, 3, 4, 5])
@pytest.mark.parametrize(
    ("issue", "kernel"), [("first", FIRST), ("spread", SPREAD), ("last", LAST)]
)
def test_each_place_has_one_wait_one_barrier_one_commit_and_a_version_for_each_stage(
    issue: str, kernel: list[str], number: int
) -> None:
    found = pipelined(loop(stages(number, issue)))
    assert (found.kernel, found.versions) == (kernel, number)


def test_the_option_comes_before_what_the_loop_says() -> None:
    assert pipelined(loop(stages(3, "first")), issue="last").kernel == LAST
    assert pipelined(loop(stages(3, "last")), issue="auto").kernel == LAST


@pytest.mark.parametrize("issue", ["spread", "last"])
def test_without_room_for_one_more_version_a_second_barrier_stays(issue: str) -> None:
    found = pipelined(loop(stages(3, issue)), smem_limit=64)
    assert found.versions == 2
    assert found.kernel.count("barrier") == 2
    assert found.kernel.count("wait") == 1


@pytest.mark.parametrize("issue", ["spread", "last"])
def test_copies_of_a_load_and_a_store_are_committed_together(issue: str) -> None:
    kernel = pipelined(loop(stages(3, issue), FRONT_END_COPIES)).text
    body = kernel[kernel.index("scf.for") :]
    assert body[: body.index("scf.yield")].count("commit") <= 1


def test_where_no_product_is_spread_copies_stand_after_the_last_load() -> None:
    text = re.sub(
        r"%([pq]) = vector.contract.*", r"%\1 = arith.addf %s, %t : f32", loop(stages(3, "spread"))
    )
    assert pipelined(text).kernel == [
        "wait", "barrier", "load", "load", "copy", "copy", "commit", "store",
    ]  # fmt: skip


# What decides where nobody says it: 500 cycles to an arrival, one barrier of 20, two loads of 4, two
# products of the cost given, one store of 4. The copies stand after the products.
@pytest.mark.parametrize(
    ("number", "product", "kernel"),
    [
        (2, 5000, FIRST),  # two stages: nothing would overlap
        (3, 100, FIRST),  # T = 232, (500 + 228) / 2 > (500 + 20) / 2 > T
        (3, 400, SPREAD),  # T = 832 hides both
        (5, 100, SPREAD),  # T = 232 hides (500 + 228) / 4
        (4, 0, FIRST),  # (500 + 28) / 3 > (500 + 20) / 3
    ],
)
def test_copies_are_spread_where_that_makes_no_step_longer(
    number: int, product: int, kernel: list[str]
) -> None:
    cost = f"chip,vector.contract={product}"
    annotation = f'{stages(number)}, async_pipe.fragments = "in-place"'
    assert pipelined(loop(annotation), cost=cost).kernel == kernel


def test_loops_without_products_copy_first() -> None:
    text = re.sub(r"%([pq]) = vector.contract.*", r"%\1 = arith.addf %s, %t : f32", loop(stages(4)))
    assert pipelined(text, cost="latency=1").kernel[2:4] == ["copy", "copy"]


def test_an_unknown_place_is_refused() -> None:
    with pytest.raises(InputError, match="issue") as caught:
        pipelined(loop(stages(3, "never")))
    assert caught.value.code == "bad-annotation"
    with pytest.raises(UsageError) as reported:
        pipelined(loop(stages(3)), issue="never")
    assert reported.value.code == "bad-option-value"


def test_products_touch_no_memory() -> None:
    assert [name for name in PRODUCTS if not is_pure(Named(name))] == []


@dataclass(frozen=True)
class Named:
    """As much of an op as the vocabulary's names need."""

    name: str


@pytest.mark.slow
@pytest.mark.skipif(find_tool("ptxas") is None or find_tool("nvdisasm") is None, reason="no tools")
@pytest.mark.parametrize("number", [3, 4])
def test_tensor_cores_start_at_once(number: int, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    kernels, figures = map(importlib.import_module, ("code_kernels", "code_figures"))
    gemm = kernels.gemm("nvvm:sm_80", (128, 128, 32), "f16", number)
    place = '{async_pipe.fragments = "in-place", async_pipe.issue = '
    first, spread = (
        figures.ours(
            replace(gemm, text=lambda at=at: gemm.text().replace("{async", f'{place}"{at}", async'))
        )
        for at in ("first", "spread")
    )
    assert spread.iteration.run <= 0.6 * first.iteration.run
    assert spread.spills == 0
