"""Tuning: which candidates, what becomes of each, in which order, and what is kept.

Covers: tuning/tune.py
"""

from __future__ import annotations

import csv
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest

from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.tuning.tune import Outcome, Task, tune

TARGET = "nvvm:sm_80"
STEPS = 12


def tile(rows: int = 1, wide: bool = False, wait: int = 0) -> str:
    """Adds one to a row of A at a time; each of 32 threads copies `rows` numbers of it."""
    kind = f"memref<{rows * 32}xf32, #gpu.address_space<workgroup>>"
    whole = f"memref<{STEPS * rows * 32}xf32>"
    return f"""
gpu.module @m {{
  gpu.func @k(%A: {whole} {{llvm.noalias}}, %C: {whole} {{llvm.noalias}})
      workgroup(%S: {kind}) kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {STEPS} : index
    %step = arith.constant {rows * 32} : index
    %rows = arith.constant {rows} : index
    %one = arith.constant 1.0 : f32
    %x = gpu.thread_id x
    %own = arith.muli %x, %rows : index
    scf.for %i = %c0 to %n step %c1 {{
      %base = arith.muli %i, %step : index
      %at = arith.addi %base, %own : index
      %copy = nvgpu.device_async_copy %A[%at], %S[%own], {rows} : {whole} to {kind}
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      %v = memref.load %S[%own] : {kind}
      %w = arith.addf %v, %one : f32
      memref.store %w, %C[%at] : {whole}
    }} {{async_pipe.num_stages = 3 : i64}}
    gpu.return
  }}
}}"""


def arrays(rows: int = 1) -> list[np.ndarray]:
    return [np.arange(STEPS * rows * 32, dtype=np.float32), np.zeros(STEPS * rows * 32, np.float32)]


class Inline(Executor):
    """Does what is submitted at once, and counts it."""

    def __init__(self) -> None:
        self.asked: list[Task] = []

    def submit(self, function, /, *arguments, **keywords):
        self.asked += arguments
        done: Future = Future()
        done.set_result(function(*arguments, **keywords))
        return done


def test_every_candidate_has_its_figures_and_the_best_is_first():
    found = tune(
        tile, {"num_stages": [2, 3, 4], "rows": [1, 2]}, target=TARGET, inputs=arrays,
        executor=Inline(),
    )  # fmt: skip
    assert len(found.outcomes) == 6 and not any(o.failed for o in found.outcomes)
    by = {(o.parameters["num_stages"], o.parameters["rows"]): o for o in found.outcomes}
    assert [by[s, 1].shared_bytes for s in (2, 3, 4)] == [2 * 128, 3 * 128, 4 * 128]
    assert by[3, 2].shared_bytes == 3 * 256
    assert all(o.blocks == 32 and o.spill_bytes == 0 for o in found.outcomes)
    assert by[2, 1].stalls > by[3, 1].stalls > by[4, 1].stalls
    assert all(o.binary.startswith(b"\x7fELF") for o in found.outcomes)
    assert found.best == min(found.outcomes, key=lambda o: o.order) == found.outcomes[0]


def test_what_fails_is_a_row_with_its_reason_and_comes_last():
    found = tune(
        tile, {"num_stages": [3, -1], "smem_limit": [0, 200]}, target=TARGET, executor=Inline()
    )
    assert [o.code for o in found.outcomes][:1] == [""]
    failed = {tuple(o.parameters.values()): o for o in found.outcomes if o.failed}
    assert failed[-1, 0].code and failed[-1, 0].message
    # Two versions of 128 bytes are too many for 200.
    assert (3, 200) in failed or found.outcomes[1].shared_bytes <= 200


def test_a_builder_that_raises_is_a_row():
    def build(rows: int) -> str:
        if rows == 7:
            raise ValueError("no tile of 7")
        return tile(rows)

    found = tune(build, {"rows": [1, 7]}, target=TARGET, executor=Inline())
    assert [o.code for o in found.outcomes] == ["", "build-failed"]
    assert "no tile of 7" in found.outcomes[1].message


def test_text_that_is_no_mlir_is_a_row():
    found = tune(lambda k: "nonsense", {"k": [1]}, target=TARGET, executor=Inline())
    assert found.outcomes[0].code == "internal-error"
    with pytest.raises(UsageError) as caught:
        _ = found.best
    assert caught.value.code == "no-candidate"


def neighbour(k: int) -> str:
    """Without a barrier: thread x reads what thread `j` wrote; with k = 0 that is its own."""
    kind = "memref<32xf32, #gpu.address_space<workgroup>>"
    return f"""
gpu.module @m {{
  gpu.func @k(%J: memref<32xindex> {{llvm.noalias}}, %C: memref<32xf32> {{llvm.noalias}})
      workgroup(%S: {kind}) kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %one = arith.constant 1.0 : f32
    %x = gpu.thread_id x
    memref.store %one, %S[%x] : {kind}
    %j = {"memref.load %J[%x] : memref<32xindex>" if k else "arith.addi %x, %x : index"}
    %at = arith.subi %j, %x : index
    %v = memref.load %S[%at] : {kind}
    memref.store %v, %C[%x] : memref<32xf32>
    gpu.return
  }}
}}"""


def test_a_candidate_that_races_on_the_machine_is_a_failure():
    """What the checker cannot tell: the thread that is read from stands in memory."""

    def inputs() -> list[np.ndarray]:
        return [np.full(32, 31), np.zeros(32, np.float32)]

    found = tune(neighbour, {"k": [0, 1]}, target=TARGET, inputs=inputs, executor=Inline())
    assert [(o.parameters["k"], o.failed) for o in found.outcomes] == [(0, False), (1, True)]
    assert found.outcomes[1].code == "missing-barrier"


@pytest.mark.parametrize(
    ("space", "code"),
    [({}, "empty-space"), ({"rows": []}, "empty-space"), ({"colour": [1]}, "unknown-parameter")],
)
def test_spaces_that_are_none_are_refused(space, code):
    with pytest.raises(UsageError) as caught:
        tune(tile, space, target=TARGET, executor=Inline())
    assert caught.value.code == code


def test_measured_candidates_are_sorted_by_their_cost_and_only_the_best_are_measured():
    asked = []

    def cost(outcome: Outcome) -> float:
        asked.append(outcome.parameters["num_stages"])
        return -outcome.parameters["num_stages"]

    space = {"num_stages": [2, 3, 4]}
    found = tune(tile, space, target=TARGET, cost=cost, executor=Inline())
    assert [o.parameters["num_stages"] for o in found.outcomes] == [4, 3, 2]
    asked.clear()
    found = tune(
        tile, space, target=TARGET, cost=cost, keep=1, inputs=lambda: arrays(), executor=Inline()
    )
    assert len(asked) == 1
    assert [o.cost is None for o in found.outcomes] == [False, True, True]


def test_blocks_that_do_more_may_take_longer():
    space = {"rows": [1, 2]}
    settings = {"target": TARGET, "inputs": arrays, "executor": Inline()}
    alike = tune(tile, space, **settings)
    assert [o.parameters["rows"] for o in alike.outcomes] == [1, 2]
    found = tune(tile, space, work=lambda rows: rows**3, **settings)
    assert [o.parameters["rows"] for o in found.outcomes] == [2, 1]


def test_one_that_cannot_be_measured_is_a_failure():
    def cost(outcome: Outcome) -> float:
        if outcome.parameters["num_stages"] == 2:
            raise RuntimeError("launch failed")
        return 1.0

    found = tune(tile, {"num_stages": [2, 3]}, target=TARGET, cost=cost, executor=Inline())
    assert [(o.parameters["num_stages"], o.code) for o in found.outcomes] == [
        (3, ""),
        (2, "cost-failed"),
    ]


def test_what_a_store_has_is_not_tried_again(tmp_path):
    store, first, second = tmp_path / "tune.sqlite", Inline(), Inline()
    space = {"num_stages": [2, 3]}
    before = tune(tile, space, target=TARGET, executor=first, store=store)
    wider = {"num_stages": [2, 3, 4]}
    after = tune(tile, wider, target=TARGET, executor=second, store=store)
    assert len(first.asked) == 2
    assert [asked.parameters for asked in second.asked] == [{"num_stages": 4}]
    assert {o for o in map(repr, before.outcomes)} <= {o for o in map(repr, after.outcomes)}
    assert all(o.binary for o in after.outcomes)


@pytest.mark.parametrize("changed", ["target", "text", "options", "inputs"])
def test_all_that_figures_depend_on_is_in_the_key(changed):
    asked = Task({}, tile(), TARGET, {"num_stages": 2}, (np.zeros(2),), "mlir")
    other = {"target": "nvvm:sm_90", "text": tile(2), "options": {}, "inputs": (np.ones(2),)}
    assert replace(asked, **{changed: other[changed]}).key != asked.key
    assert replace(asked, parameters={"name": 1}).key == asked.key


def test_a_file_that_is_no_store_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be looked at " * 10)
    with pytest.raises(UsageError) as caught:
        tune(tile, {"num_stages": [2]}, target=TARGET, executor=Inline(), store=path)
    assert caught.value.code == "bad-store"


def test_rows_are_written_as_csv(tmp_path):
    found = tune(tile, {"num_stages": [2, 3]}, target=TARGET, executor=Inline())
    found.to_csv(tmp_path / "rows.csv")
    with open(tmp_path / "rows.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["num_stages"] for row in rows] == [
        str(o.parameters["num_stages"]) for o in found.outcomes
    ]
    assert rows[0]["registers"] == str(found.best.registers)


def test_table_and_plot(tmp_path):
    pytest.importorskip("rich")
    pytest.importorskip("matplotlib")
    found = tune(tile, {"num_stages": [2, 3]}, target=TARGET, executor=Inline(), progress=True)
    assert "num_stages" in found.table() and str(found.best.registers) in found.table()
    found.plot(tmp_path / "bars.svg")
    assert "num_stages=3" in (tmp_path / "bars.svg").read_text()


@pytest.mark.slow
def test_processes_give_the_table_that_one_process_gives():
    space = {"num_stages": [2, 3], "rows": [1, 2]}
    alone = tune(tile, space, target=TARGET, inputs=arrays, executor=Inline())
    assert tune(tile, space, target=TARGET, inputs=arrays).rows() == alone.rows()


@pytest.mark.slow
def test_a_worker_that_dies_is_a_row_and_is_not_kept(tmp_path):
    class Dying(ProcessPoolExecutor):
        def submit(self, function, /, *arguments, **keywords):
            return super().submit(exit_at_once)

    store = tmp_path / "tune.sqlite"
    with Dying(1, mp_context=get_context("spawn")) as pool:
        found = tune(tile, {"num_stages": [2]}, target=TARGET, executor=pool, store=store)
    assert found.outcomes[0].code == "worker-failed"
    again = tune(tile, {"num_stages": [2]}, target=TARGET, executor=Inline(), store=store)
    assert not again.best.failed


def exit_at_once() -> None:
    import os

    os._exit(3)


@pytest.mark.slow
def test_a_cluster_gives_the_same_table():
    distributed = pytest.importorskip("distributed")
    space = {"num_stages": [2, 3], "rows": [1, 2]}
    alone = tune(tile, space, target=TARGET, executor=Inline())
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as local,
        distributed.Client(local) as client,
    ):
        found = tune(tile, space, target=TARGET, executor=client.get_executor())
    assert found.rows() == alone.rows()


@pytest.mark.slow
def test_the_example_is_tuned_and_its_row_is_right():
    from runpy import run_path

    from helpers.paths import ROOT

    example = run_path(str(ROOT / "examples" / "tune_gemm.py"))
    space = {"tile_m": [64], "tile_n": [64], "tile_k": [32], "num_stages": [2, 3]}
    found = tune(
        example["build"], space, target=TARGET, inputs=example["inputs"], executor=Inline()
    )
    assert not any(o.failed or o.spill_bytes for o in found.outcomes)
    by = {o.parameters["num_stages"]: o for o in found.outcomes}
    # Tiles of 64 x 32 f16 for A and B: 8 KiB a version.
    assert [by[s].shared_bytes for s in (2, 3)] == [2 * 8192, 3 * 8192]
    assert by[2].cycles > by[3].cycles
    with pytest.raises(ValueError):
        example["build"](tile_m=24)
