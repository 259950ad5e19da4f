"""Advice helps: each refusal's advice is followed, and the next run pipelines the loop.

A row names a reason code, a program that is refused with it, words of the advice that the refusal gives,
and the change that follows it. A test compares the codes with those that give advice in the sources.

Covers: pipeliner/plan/legality.py, pipeliner/plan/buffer_plan.py, pipeliner/plan/memory_limit.py,
pipeliner/plan/choose_versions.py, pipeliner/plan/units.py, pipeliner/plan/make_plan.py,
pipeliner/schedule/by_count.py, facts/loops/annotations.py
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import mlir_async_pipe
from mlir_async_pipe import pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError

WG = "#gpu.address_space<workgroup>"
ROOMS = ("pipeliner/expand", "pipeliner/plan", "pipeliner/schedule", "facts/loops")
# Checked where they are written: what is misspelt is listed, and another kind of loop becomes an
# scf.for by MLIR's own passes, which raise no code of ours. Of tensor copies and their products:
# test_tensor_copies, test_tensor_commits, test_input_phases and test_warp_roles, whose wrong loops are
# right ones changed.
TENSOR_COPIES = frozenset(
    "transaction-incomplete transaction-bytes transaction-stages mbarrier-shared copy-operands "
    "products-in-use phase-not-carried bad-annotation commit-incomplete input-phase "
    "roles-block roles-unsupported roles-values".split()
)
# Of orders of products: test_parted_stages.py, whose wrong orders are right ones changed.
ORDERS = {"dependence-violated"}
# test_stores.py follows it.
STORES = {"store-not-overlapped"}
# test_clusters.py, test_cluster_together.py and test_asked_clusters.py follow it.
CLUSTERS = {"cluster-unsupported", "cluster-conflict", "bad-usage"}
# test_unit_schedule.py follows it.
REGISTERS = {"register-limit"}
ELSEWHERE = {
    "unknown-annotation",
    "not-a-loop",
    "latency-without-statement",
    *ORDERS,
    *STORES,
    *CLUSTERS,
    *REGISTERS,
} | TENSOR_COPIES


@dataclass(frozen=True)
class Row:
    """`code` refuses `text`; its advice has `words`; `old` becomes `new` where it is followed, or
    `options` are given."""

    code: str
    words: str
    text: str
    old: str = ""
    new: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    always: dict[str, Any] = field(default_factory=dict)


def loop(body: str, annotations: str, before: str = "", noalias: str = "{llvm.noalias}") -> str:
    """A function of 32 threads with a loop of 16 iterations."""
    return f"""
func.func private @g()
memref.global "private" @s : memref<32xf32, {WG}> = uninitialized
llvm.mlir.global external @p() {{addr_space = 3 : i32}} : !llvm.array<0 x f32>
func.func @f(%A: memref<1024xf32> {noalias}, %C: memref<1024xf32> {noalias}, %n: index)
    attributes {{gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %t = gpu.thread_id x
  %t64 = arith.index_cast %t : index to i64
  %some = arith.cmpi ult, %t, %n : index
  %tile = memref.alloc() : memref<32xf32, {WG}>
  {before}
  scf.for %i = %c0 to %c16 step %c1 {{
    %o = arith.muli %i, %c32 : index
    %x = arith.addi %o, %t : index
    {body}
  }} {{{annotations}}}
  return
}}"""


def private(text: str) -> str:
    """The same with a tile that each iteration is said to overwrite."""
    return text.replace("memref.alloc()", "memref.alloc() {async_pipe.private}")


COPY = f"""%v = memref.load %A[%x] : memref<1024xf32>
    memref.store %v, %tile[%t] : memref<32xf32, {WG}>"""
USE = f"""%w = memref.load %tile[%t] : memref<32xf32, {WG}>
    memref.store %w, %C[%x] : memref<1024xf32>"""
POINTERS = """%p = llvm.getelementptr %base[%t64] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, f32
    %v = memref.load %A[%x] : memref<1024xf32>
    llvm.store %v, %p : f32, !llvm.ptr<3>
    %w = llvm.load %p : !llvm.ptr<3> -> f32
    memref.store %w, %C[%x] : memref<1024xf32>"""
GATHER = f"""amdgpu.gather_to_lds async %A[%x], %tile[%c0] : f32, memref<1024xf32>, memref<32xf32, {WG}>
    %w = memref.load %tile[%t] : memref<32xf32, {WG}>
    memref.store %w, %C[%x] : memref<1024xf32>"""
THREE = "async_pipe.num_stages = 3 : i64"
ASYNC = THREE + ', async_pipe.stage_through = "async"'
STAGES = "async_pipe.stage = [0, 0, 1, 1]"
SCOPE = """scf.execute_region no_inline {
      %v = memref.load %A[%x] : memref<1024xf32>
      memref.store %v, %tile[%t] : memref<32xf32, WG>
      INSIDE
      scf.yield
    }""".replace("WG", WG)
SCOPED = "async_pipe.stage = [0, 1, 1], async_pipe.async_stages = [0]"
BOTH_AXES = """%y = gpu.thread_id y
  %c8 = arith.constant 8 : index
  %c31 = arith.constant 31 : index
  %down = arith.muli %y, %c8 : index
  %line = arith.addi %down, %t : index
  %r = arith.subi %c31, %line : index"""
NEST = """
func.func @f(%A: memref<?xf32> {llvm.noalias}, %D: memref<?xf32> {llvm.noalias}, %n: index, %m: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %k = %c0 to %n step %c1 {
    scf.for %j = %c0 to %m step %c1 {
      %v = memref.load %A[%j] : memref<?xf32>
      memref.store %v, %D[%j] : memref<?xf32>
    } {async_pipe.stage = [0, 1]}
  } {async_pipe.stage = [0, 1, 1], async_pipe.independent}
  return
}"""

ROWS = (
    Row(
        "unproven-independence",
        "assume-noalias-arguments",
        loop(COPY + "\n" + USE, THREE, noalias=""),
        options={"assume_noalias_arguments": True},
    ),
    Row(
        "unproven-independence",
        "give arguments `llvm.noalias`",
        loop(COPY + "\n" + USE, THREE, noalias=""),
        "memref<1024xf32> ,",
        "memref<1024xf32> {llvm.noalias},",
    ),
    Row(
        "unproven-independence",
        "assert `async_pipe.independent` on this loop",
        loop(COPY + "\n" + USE, THREE, noalias=""),
        THREE,
        THREE + ", async_pipe.independent",
    ),
    Row(
        "not-privatisable",
        "`async_pipe.private` on the allocation",
        loop(f"scf.if %some {{ {COPY} }}\n" + USE, ASYNC),
        "memref.alloc()",
        "memref.alloc() {async_pipe.private}",
    ),
    Row(
        "not-privatisable",
        "`known_block_size` on the kernel",
        loop(
            COPY.replace("%tile[%t]", "%tile[%line]")
            + "\n"
            + USE.replace("%tile[%t]", "%tile[%r]"),
            ASYNC,
            BOTH_AXES,
        ).replace(", gpu.known_block_size = array<i32: 32, 1, 1>", ""),
        "attributes {gpu.kernel",
        "attributes {gpu.known_block_size = array<i32: 8, 4, 1>, gpu.kernel",
    ),
    Row(
        "smem-limit",
        "2 versions of every buffer would fit",
        loop(COPY + "\n" + USE, ASYNC),
        "num_stages = 3",
        "num_stages = 2",
        always={"smem_limit": 256 + 64},
    ),
    Row(
        "regions-in-schedule",
        "give 'async_pipe.num_stages'",
        loop(
            f"scf.for %j = %c0 to %n step %c1 {{ {COPY} }}\n" + USE,
            'async_pipe.schedule = "optimal"',
        ).replace("memref.alloc()", "memref.alloc() {async_pipe.private}"),
        'async_pipe.schedule = "optimal"',
        THREE,
    ),
    Row(
        "too-many-stages",
        "take fewer",
        loop(COPY + "\n" + USE, ASYNC.replace("3 :", "5000 :")).replace("to %c16", "to %n"),
        "num_stages = 5000",
        "num_stages = 3",
    ),
    Row(
        "buffer-not-versionable",
        "load into registers",
        loop(POINTERS, STAGES, "%base = llvm.mlir.addressof @p : !llvm.ptr<3>"),
        STAGES,
        THREE + ', async_pipe.stage_through = "registers"',
    ),
    Row(
        "no-copies",
        "give the schedule yourself",
        loop(USE, ASYNC),
        ASYNC,
        "async_pipe.stage = [0, 1]",
    ),
    Row(
        "conflicting-annotations",
        "keep 'async_pipe.num_stages' for the default schedule",
        loop(COPY + "\n" + USE, f"{THREE}, {STAGES}"),
        f"{THREE}, {STAGES}",
        THREE,
    ),
    Row(
        "async-stage-unknown",
        "the stages are [0, 1]",
        loop(COPY + "\n" + USE, STAGES + ", async_pipe.async_stages = [2]"),
        "async_stages = [2]",
        "async_stages = [0]",
    ),
    Row(
        "predicate-unsupported",
        'use async_pipe.epilogue = "peel"',
        private(loop(GATHER, SCOPED + ', async_pipe.epilogue = "predicate"')),
        'async_pipe.epilogue = "predicate"',
        'async_pipe.epilogue = "peel", async_pipe.short_trip = "version"',
    ),
    Row(
        "synchronisation-in-scope",
        "take groups, waits and barriers out of the statement",
        loop(SCOPE.replace("INSIDE", "gpu.barrier") + "\n" + USE, SCOPED),
        "      gpu.barrier\n",
        "",
    ),
    Row(
        "call-in-scope",
        "inline it, or leave the statement synchronous",
        loop(SCOPE.replace("INSIDE", "func.call @g() : () -> ()") + "\n" + USE, SCOPED),
        "func.call @g() : () -> ()",
        "",
    ),
    Row(
        "async-op-unsupported",
        "or as nvgpu.device_async_copy",
        private(
            loop(
                "nvvm.cp.async.bulk.shared.cluster.global %to, %from, %full, %bytes : "
                "!llvm.ptr<7>, !llvm.ptr<1>\n" + USE,
                SCOPED,
                before="%bytes = arith.constant 128 : i32",
            )
        ).replace(
            "%n: index)", "%n: index, %to: !llvm.ptr<7>, %from: !llvm.ptr<1>, %full: !llvm.ptr<3>)"
        ),
        "nvvm.cp.async.bulk.shared.cluster.global",
        "%copy = nvgpu.device_async_copy %A[%x], %tile[%t], 1 : memref<1024xf32> to "
        f"memref<32xf32, {WG}> //",
    ),
    Row(
        "inner-loop-versioned",
        'async_pipe.short_trip = "predicate", or "assume"',
        NEST,
        "async_pipe.stage = [0, 1]}",
        'async_pipe.stage = [0, 1], async_pipe.short_trip = "assume"}',
    ),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.code}: {row.words[:30]}")
def test_the_next_run_is_better_where_the_advice_is_followed(row):
    with new_context():
        with pytest.raises(AsyncPipeError) as refused:
            pipeline(ir.Module.parse(row.text), check="none", **row.always)
        assert refused.value.code == row.code
        reported = [note.message for note in refused.value.diagnostic.notes]
        assert any(row.words in message for message in reported), reported
        assert row.options or row.old in row.text
        better = ir.Module.parse(row.text.replace(row.old, row.new) if row.old else row.text)
        report = pipeline(better, check="none", **row.always, **row.options)
    assert report.of("loops")


def codes_with_advice() -> Iterator[str]:
    package = Path(mlir_async_pipe.__file__).parent
    for file in (file for room in ROOMS for file in (package / room).rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            if not isinstance(call, ast.Call):
                continue
            given = {entry.arg: entry.value for entry in call.keywords}
            if "advice" in given and isinstance(given.get("code"), ast.Constant):
                yield given["code"].value


def test_every_code_that_gives_advice_has_a_row():
    assert set(codes_with_advice()) - ELSEWHERE == {row.code for row in ROWS}
