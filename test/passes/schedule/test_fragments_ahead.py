"""Fragments that are loaded a step of products ahead, over the seam of two iterations.

Covers: pipeliner/schedule/issue_order.py, pipeliner/expand/write/write_tiles.py
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.check_harness import check_module
from helpers.gemm_kernels import gemm_text, run_gemm
from helpers.kernel_order import kernel_order
from helpers.paths import ROOT
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, operations, set_integer, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

WAIT = "nvgpu.device_async_wait"
# Two steps: a load of S and its product, a load of T and its product. Threads read what others copied.
LOOP = """
#wg = #gpu.address_space<workgroup>
#one = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>
#dot = {indexing_maps = [#one, #one, #none], iterator_types = ["reduction"],
        kind = #vector.kind<add>}
gpu.module @m {
gpu.func @k(%A : memref<64xf32> {llvm.noalias}, %C : memref<64xf32> {llvm.noalias}, %n : index)
    workgroup(%S : memref<4xf32, #wg>, %T : memref<4xf32, #wg>)
    kernel attributes {known_block_size = array<i32: 4, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c28 = arith.constant 28 : index
  %zero = arith.constant 0.0 : f32
  %x = arith.constant dense<2.0> : vector<1xf32>
  %tid = gpu.thread_id x
  %other = arith.subi %c3, %tid : index
  %total = scf.for %i = %c0 to %n step %c4 iter_args(%sum = %zero) -> (f32) {
    %at = arith.addi %i, %tid : index
    %s_copy = nvgpu.device_async_copy %A[%at], %S[%tid], 1 : memref<64xf32> to memref<4xf32, #wg>
    %t_copy = nvgpu.device_async_copy %A[%at], %T[%tid], 1 : memref<64xf32> to memref<4xf32, #wg>
    %group = nvgpu.device_async_create_group %s_copy, %t_copy
    nvgpu.device_async_wait %group
    gpu.barrier
    %s = memref.load %S[%other] : memref<4xf32, #wg>
    %sv = vector.broadcast %s : f32 to vector<1xf32>
    %p = vector.contract #dot %sv, %x, %sum : vector<1xf32>, vector<1xf32> into f32
    %t = memref.load %T[%other] : memref<4xf32, #wg>
    %tv = vector.broadcast %t : f32 to vector<1xf32>
    %q = vector.contract #dot %tv, %x, %p : vector<1xf32>, vector<1xf32> into f32
    gpu.barrier
    scf.yield %q : f32
  } {ANNOTATION}
  memref.store %total, %C[%tid] : memref<64xf32>
  gpu.return
}
}
"""
AHEAD = ["wait", "barrier", "load", "product", "copy", "copy", "commit", "load", "product"]
IN_PLACE = ["wait", "barrier", "copy", "copy", "commit", "load", "product", "load", "product"]


def loop(stages: int, *more: str) -> str:
    """The kernel, its loop annotated."""
    given = ", ".join([f"async_pipe.num_stages = {stages}", *more])
    return LOOP.replace("ANNOTATION", given)


def asked(value: str) -> str:
    """The attribute."""
    return f'async_pipe.fragments = "{value}"'


def pipelined(text: str, target: str | None = "nvvm:sm_80", **options: Any) -> Any:
    """The module with its one loop pipelined and checked, and the report."""
    module = ir.Module.parse(text)
    return module, mlir_async_pipe.pipeline(module, target=target, **options)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_the_last_products_come_first_in_the_next_iteration(stages: int) -> None:
    with new_context():
        module, report = pipelined(loop(stages))
        assert kernel_order(module) == AHEAD
        assert f"memref<{stages}x4xf32, #gpu" in str(module)
        counts = [record.count for record in report.of("waits")]
        assert counts[:2] == [stages - 2] * 2
        # The loop as it was runs once at most where there are two stages: no thread is ahead there.
        assert {entry.code for entry in report.diagnostics} <= {"needless-barrier"}


@pytest.mark.parametrize("trips", range(7))
@pytest.mark.parametrize("completion", ["eager", "late", "random:1"])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_the_result_is_right_whenever_copies_arrive(
    stages: int, completion: str, trips: int
) -> None:
    with new_context():
        module, _ = pipelined(loop(stages))
        data = np.arange(64, dtype=np.float32)
        arguments = [data, np.zeros(64, np.float32), 4 * trips]
        result = machine.run(module, "k", arguments, threads=4, completion=completion)
    assert not result.races
    tiles = data[: 4 * trips].reshape(trips, 4)[:, ::-1]
    np.testing.assert_array_equal(result.arrays[1][:4], 4 * tiles.sum(axis=0))


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_one_group_more_in_flight_is_unsafe(stages: int) -> None:
    with new_context():
        module, _ = pipelined(loop(stages).replace("to %n step", "to %c28 step"))
        found = next(op for op in walk(module) if op.name == "scf.for")
        wait = next(op for op in walk(found) if op.name == WAIT)
        set_integer(wait, "numGroups", (integer_attribute(wait, "numGroups") or 0) + 1, 32)
        checks = check_module(module, "nvvm:sm_80").report.of("checks")
        arguments = [np.arange(64, dtype=np.float32), np.zeros(64, np.float32), 28]
        races = machine.run(module, "k", arguments, threads=4, completion="late").races
    assert sum(found.unsafe for found in checks) > 0
    assert races


@pytest.mark.parametrize(
    ("more", "target"),
    [
        ((asked("in-place"),), "nvvm:sm_80"),
        (('async_pipe.issue = "first"',), "nvvm:sm_80"),
        (('async_pipe.short_trip = "assume"',), "nvvm:sm_80"),
        (('async_pipe.epilogue = "predicate"',), "nvvm:sm_80"),
        ((), None),
    ],
)
def test_fragments_stay_where_somebody_says_so_or_nobody_knows_the_registers(more, target) -> None:
    with new_context():
        module, report = pipelined(loop(2, *more), target)
        assert kernel_order(module) == IN_PLACE
        # The loop as it was runs once at most where there are two stages: no thread is ahead there.
        assert {entry.code for entry in report.diagnostics} <= {"needless-barrier"}


def test_who_asks_for_it_gets_it_without_a_chip() -> None:
    with new_context():
        module, _ = pipelined(loop(2, asked("ahead")), None)
        assert kernel_order(module) == AHEAD


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (("vector.contract #dot %sv, %x, %sum : vector<1xf32>, vector<1xf32> into f32", "arith.addf %s, %sum : f32"), "more than one step|no products|"),
        (("to %n step", "to %c4 step"), "the loop runs 1 times"),
        (("%s = memref.load %S[%other]", "%where = arith.fptoui %sum : f32 to i32\n %to = arith.index_cast %where : i32 to index\n %s = memref.load %S[%to]"), "what the loop computes decides"),
        (("    gpu.barrier\n    scf.yield", "    memref.store %q, %T[%tid] : memref<4xf32, #wg>\n    gpu.barrier\n    scf.yield"), "touch the memory"),
        (("    gpu.barrier\n    scf.yield", "    %z = memref.load %S[%tid] : memref<4xf32, #wg>\n    memref.store %z, %C[%at] : memref<64xf32>\n    gpu.barrier\n    scf.yield"), "no products follow"),
        (("%q = vector.contract #dot %tv", "%q = vector.contract #dot %sv"), "more than one step"),
    ],
)  # fmt: skip
def test_what_cannot_be_ahead_is_reported_with_the_reason(changes, reason: str) -> None:
    old, new = changes
    text = loop(2, asked("ahead"))
    assert old in text
    with new_context():
        module, session = ir.Module.parse(text.replace(old, new)), Session()
        schedule = passes.find("async-pipe-schedule")
        schedule.run(module.operation, schedule.options(), session)
        reported = [e.message for e in session.diagnostics.items if e.code == "fragments-in-place"]
    if "addf" in new:
        assert reported == []  # one product is enough
    else:
        assert len(reported) == 1
        assert re.search(reason, reported[0])


# The same as people write it: loads and stores that are copies, both loads before the products.
LOADS_FIRST = re.sub(r"    %group = .*\n    nvgpu.*\n", "", LOOP)
LOADS_FIRST = re.sub(r"(    %p = .*\n)(    %t = .*\n    %tv = .*\n)", r"\2\1", LOADS_FIRST)
LOADS_FIRST = re.sub(
    r"%(._copy) = nvgpu.device_async_copy (%A\[%at\]), (%.\[%tid\]), 1 : (\S+) to (.*)",
    r"%\1 = memref.load \2 : \4\n    memref.store %\1, \3 : \5",
    LOADS_FIRST,
)


def loads_first(*changes: tuple[str, str]) -> str:
    text = LOADS_FIRST.replace("ANNOTATION", "async_pipe.num_stages = 3")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def carried(module: Any) -> int:
    """How many numbers the loop carries that are no counters: a sum, and fragments."""
    loop = next(op for op in walk(module) if op.name == "scf.for")
    return [str(result.type) for result in loop.results].count("f32")


def test_loads_come_with_the_first_product_of_a_sum_that_needs_them() -> None:
    with new_context():
        module, report = pipelined(loads_first())
        assert [record.ahead for record in report.of("fragments")] == [True]
        # Nobody groups the copies, so that they are in one piece: beside the product of the iteration before.
        assert kernel_order(module) == IN_PLACE
        assert carried(module) == 2
        data = np.arange(64, dtype=np.float32)
        for trips in range(7):
            arguments = [data, np.zeros(64, np.float32), 4 * trips]
            result = machine.run(module, "k", arguments, threads=4, completion="late")
            assert not result.races
            tiles = data[: 4 * trips].reshape(trips, 4)
            np.testing.assert_array_equal(result.arrays[1][:4], 4 * tiles[:, ::-1].sum(axis=0))


@pytest.mark.parametrize(
    "changes",
    [
        # The second product needs the first load too.
        (("#dot %tv, %x, %p : vector<1xf32>, vector<1xf32>", "#dot %tv, %sv, %p : vector<1xf32>, vector<1xf32>"),),
        # The products add to different sums.
        (("#dot %tv, %x, %p", "#dot %tv, %x, %zero"), ("scf.yield %q", "%r = arith.addf %p, %q : f32\n scf.yield %r")),
    ],
)  # fmt: skip
def test_loads_stay_together_where_products_need_them_together(changes) -> None:
    with new_context():
        module, _ = pipelined(loads_first(*changes))
        copied = ["wait", "barrier", "copy", "copy", "commit"]
        assert kernel_order(module) == [*copied, "load", "load", "product", "product"]
        assert carried(module) == 3


def test_a_tile_whose_registers_do_not_suffice_stays_in_place() -> None:
    with new_context():
        text = gemm_text("--tile-k=64", "--stages=3").replace(
            "{async_pipe", f"{{{asked('auto')}, async_pipe"
        )
        module, _ = pipelined(text, check="none")
        found = next(op for op in walk(module) if op.name == "scf.for")
        names = [op.name for op in operations(found.regions[0].blocks[0])]
    assert names.index("nvgpu.mma.sync") < names.index("nvgpu.device_async_copy")
    assert "nvgpu.ldmatrix" not in names[names.index("nvgpu.device_async_copy") :]


def scheduled(text: str) -> list[Any]:
    """The records of fragments that the schedule pass makes for sm_80."""
    module, session = ir.Module.parse(text), Session(target=Target.parse("nvvm:sm_80"))
    schedule = passes.find("async-pipe-schedule")
    schedule.run(module.operation, schedule.options(), session)
    return session.records.get("fragments", [])


@pytest.mark.parametrize(
    ("options", "ahead", "why"),
    [
        # Each row of its swizzle has subscripts of its own; the loads have two addresses a tile.
        (("--stages=3",), True, "244 registers are needed, and sm_80 has 255 for a thread"),
        (("--stages=3", "--edges"), True, "244 registers"),
        (("--stages=3", "--tile-k=64"), False, "264 registers are needed, and sm_80 has 255"),
    ],
)
def test_registers_of_addresses_are_counted_modulo_constants(
    options, ahead: bool, why: str
) -> None:
    with new_context():
        (found,) = scheduled(gemm_text(*options))
    assert found.ahead == ahead
    assert why in found.why


def test_what_the_softmax_holds_between_products_counts() -> None:
    """Attention at D = 128 took 16 bytes of spills where only sums, fragments and addresses were counted."""
    generator = str(ROOT / "examples" / "generate_attention.py")
    text = subprocess.run(
        [sys.executable, generator, "--features=128", "--stages=3"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    with new_context():
        (found,) = scheduled(text)
    assert not found.ahead
    assert "271 registers" in found.why


def test_explain_says_where_fragments_are_loaded_and_why() -> None:
    with new_context():
        _, report = pipelined(loop(2))
        (found,) = report.of("fragments")
        _, other = pipelined(loop(2, asked("in-place")))
        (in_place,) = other.of("fragments")
    assert str(found).startswith("fragments are loaded a step of products ahead: ")
    assert str(in_place) == "fragments are loaded where they are multiplied: the loop asks for it"


def test_amd_keeps_its_fragments_since_loads_after_copies_would_wait_for_them() -> None:
    with new_context():
        module, _ = pipelined(
            gemm_text("--chip=gfx950", "--stages=3"), "rocdl:gfx950", check="none"
        )
        found = next(op for op in walk(module) if op.name == "scf.for")
        names = [op.name for op in operations(found.regions[0].blocks[0])]
    first_product = names.index("amdgpu.mfma")
    assert "vector.load" in names[:first_product]


@pytest.mark.slow
def test_overlapped_tiles_may_have_their_fragments_ahead() -> None:
    """The store of a tile follows its last products, which are a stage later than the others."""
    small = ("--tile-m=64", "--tile-n=64", "--tile-k=16", "--persistent")
    with new_context():
        text = gemm_text(*small).replace("{async_pipe", f"{{{asked('ahead')}, async_pipe")
        module, report = pipelined(text, overlap_outer=True, check="none")
        assert not [e for e in report.diagnostics if e.code == "outer-not-overlapped"]
        result, right = run_gemm(module, (128, 128, 128), (2, 1))
    assert right and not result.races


@pytest.mark.slow
@pytest.mark.skipif(find_tool("ptxas") is None or find_tool("nvdisasm") is None, reason="no tools")
@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_tensor_cores_never_wait_for_long(stages: int, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    kernels, figures = map(importlib.import_module, ("code_kernels", "code_figures"))
    found = figures.ours(kernels.gemm("nvvm:sm_80", (128, 128, 32), "f16", stages))
    assert found.iteration.run <= 12
    assert found.iteration.all <= 130
    assert found.spills == 0
    classes = found.iteration.classes
    assert (classes["waits"], classes["barriers"], classes["commits"]) == (1, 1, 1)
