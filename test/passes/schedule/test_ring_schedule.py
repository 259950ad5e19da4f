"""`async_pipe.schedule = "optimal"` on loops of tensor copies: which warps copy and multiply, on how many slots, that
what comes of it is proven and right, and what is refused.

Covers: pipeliner/schedule/modulo/rings.py
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from helpers.hopper_attention import wrong_by
from helpers.hopper_gemms import HopperGemm, run_gemm
from helpers.paths import ROOT
from helpers.tensor_memory_kernels import BlackwellGemm
from helpers.tensor_memory_kernels import run_gemm as run_blackwell
from mlir_async_pipe import api
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.costs.cost_model import SPECIAL, TENSOR
from mlir_async_pipe.machine.validation import Data, validate
from mlir_async_pipe.pipeliner.schedule.modulo import rings
from mlir_async_pipe.pipeliner.schedule.modulo.schedule_loop import ScheduleRecord
from mlir_async_pipe.pipeliner.schedule.schedule_pass import ScheduleOptions
from mlir_async_pipe.pipeliner.schedule.schedule_pass import run as schedule
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.session.report import Session

sys.path.insert(0, str(ROOT / "examples"))
from generate_hopper_attention import HopperAttention

HOPPER, BLACKWELL = "nvvm:sm_90a", "nvvm:sm_100a"
GEMM, ATTENTION = HopperGemm(), HopperAttention(features=128, warpgroups=2)
PLAIN = replace(ATTENTION, plain=True)
WAIT = "nvvm.wgmma.wait.group.sync.aligned"


def optimal(made: Any) -> str:
    given = f"async_pipe.num_stages = {made.stages} : i64"
    assert made.module().count(given) == 1
    return made.module().replace(given, 'async_pipe.schedule = "optimal"')


def scheduled(text: str, target: str = HOPPER, **options: Any) -> tuple[ScheduleRecord, Session]:
    """The pass alone, with what it explains."""
    with new_context():
        session = Session(target=Target.parse(target), explain=True)
        schedule(ir.Module.parse(text), ScheduleOptions(**options), session)
    (record,) = session.records["schedules"]
    return record, session


def pipelined(text: str, target: str) -> tuple[ir.Module, ScheduleRecord]:
    """The module in the current context, which the checker proves."""
    module = ir.Module.parse(text)
    report = api.pipeline(module, target=target, cache=False)
    (checks,), (record,) = report.of("checks"), report.of("schedules")
    assert (checks.unsafe, checks.unknown) == (0, 0)
    return module, record


def test_warps_of_their_own_give_a_gemm_no_smaller_interval():
    with new_context():
        module, record = pipelined(optimal(GEMM), HOPPER)
        assert run_gemm(module, GEMM, "late") == (True, set())
    # 8 products of 16 pieces a warp, 4 cycles each; 500 cycles and two tiles' 256 are hidden by two iterations.
    assert (record.interval, record.lower_bound, record.proven) == (512, 512, True)
    assert record.bound_by == "the unit 'tensor', which is never idle"
    assert (record.roles, record.stages, record.shared_bytes) == ("together", 3, 3 * 32768)
    assert record.partitions == (
        "together 512 on 3 slots",
        "specialised 512 on 3 slots",
        "grouped refused [roles-unsupported]",
        "alternating refused [roles-unsupported]",
    )


def test_a_chart_has_a_line_for_each_of_many_groups_of_products():
    commit = "nvvm.wgmma.commit.group.sync.aligned\n"
    text = optimal(GEMM).replace(commit, f"{commit}{AT}\n{commit}" * 30, 1)
    record, session = scheduled(text)
    (remark,) = [d for d in session.diagnostics.items if d.code == "unit-schedule"]
    # A wait counts 7 groups at most, so none of an iteration stay in flight.
    assert record.interval > 512
    assert sum("issue products" in note.message for note in remark.notes) == 60


@pytest.mark.parametrize("roles", ["together", "specialised"])
def test_roles_of_the_loop_leave_one_partition(roles):
    text = optimal(GEMM).replace('"optimal"', f'"optimal", async_pipe.roles = "{roles}"')
    record, _ = scheduled(text)
    assert (record.roles, record.partitions) == (roles, (f"{roles} 512 on 3 slots",))


def test_costs_decide_who_copies():
    # A barrier that takes longer than an iteration's products; mbarriers take what they took.
    record, session = scheduled(optimal(GEMM), cost="chip,barrier=900")
    assert record.roles == "specialised"
    assert record.partitions[0].startswith("together 9")
    (remark,) = [d for d in session.diagnostics.items if d.code == "unit-schedule"]
    assert "512 cycles between iterations; no smaller interval: the unit 'tensor'" in remark.message
    assert f"partitions: {', '.join(record.partitions)}" in remark.message
    # And one where arrivals are dear.
    costs = "chip,latency.mbarrier.arrive=9000"
    assert scheduled(optimal(GEMM), cost=costs)[0].roles == "together"


def test_two_groups_of_attention_take_turns_as_in_flash_attention_3():
    """Four groups of products of 16 rows, 64 keys and 128 features a warp: the tensor cores are never idle, which no
    partition beats. In phase the softmax of both groups leaves them idle."""
    with new_context():
        module, record = pipelined(optimal(ATTENTION), HOPPER)
        error, races = wrong_by(ATTENTION, module, 192, "late", 128, heads=1)
    assert error < 1e-3 and races == set()
    assert (record.interval, record.proven, record.roles) == (1024, True, "alternating")
    assert record.bound_by == "the unit 'tensor', which is never idle"
    refused = [said for said in record.partitions if "refused" in said]
    assert refused == ["grouped refused [roles-unsupported]"]
    others = [int(said.split()[1]) for said in record.partitions if "refused" not in said]
    assert others == sorted(others, reverse=True) and others[1] > 1200


@pytest.mark.parametrize(
    ("made", "interval", "roles", "hand"),
    [(HopperAttention(plain=True), 508, "specialised", 506), (PLAIN, 1024, "alternating", 1024)],
)
def test_the_plain_loop_of_attention_gets_the_order_of_flash_attention_3(
    made, interval, roles, hand
):
    """Scores of the next tile beside the second product of this one, and a product in flight beside the softmax: the
    interval is that of the loop in which both are written so."""
    added = 128 * (roles != "together")
    with new_context():
        module, record = pipelined(optimal(made), HOPPER)
        error, races = wrong_by(made, module, 192, "late", added, heads=1)
        counts = [
            integer_attribute(op, "group") for op in walk(module.operation) if op.name == WAIT
        ]
    assert error < 1e-3 and races == set()
    assert (record.interval, record.proven, record.roles) == (interval, True, roles)
    # That of the scores, first of all; in the kernel it leaves the second product, beside the softmax.
    assert counts == [0, 1, 0, 0]
    assert all("and 2 stages of products" in said for said in record.partitions if " on " in said)
    written = scheduled(optimal(replace(made, plain=False)))[0]
    assert written.interval == hand and "stages of products" not in str(written.partitions)


@pytest.mark.parametrize("plain", [True, False])
def test_largest_scores_and_weights_are_computed_before_and_after_the_second_half(
    plain, monkeypatch
):
    """Each holds the warps for as long as its units at least: 34 exponentials of 8 cycles, 32 maxima of 1."""
    texts, made = [], rings.RingProblem.__init__

    def remember(self, plan, text, *more):
        texts.append(text)
        made(self, plan, text, *more)

    monkeypatch.setattr(rings.RingProblem, "__init__", remember)
    scheduled(optimal(HopperAttention(plain=plain)))
    halves = {id(t): t for t in texts if [s.kind for s in t.steps].count("products") == 3}
    assert halves
    for text in halves.values():
        for step in text.steps:
            assert step.held >= max(step.uses.values(), default=0) or step.kind != "compute"
        kinds = [step.kind for step in text.steps]
        at = len(kinds) - 1 - kinds[::-1].index("products")
        largest, half, weights = text.steps[at - 1 : at + 2]
        assert kinds[at - 2 : at + 2] == ["done", "compute", "products", "compute"]
        assert half.uses[TENSOR] == 2 * 16 * 2
        assert SPECIAL not in largest.uses and 32 <= largest.held < 64
        assert weights.uses[SPECIAL] == weights.held == 34 * 8


def test_what_the_plain_loop_of_attention_computes_is_kept_for_all_data():
    made, heads = HopperAttention(plain=True), Data((192, 64), "float16")
    data = [heads, heads, Data((1, 192, 64), "float16"), Data((1, 192, 64), "float32"), 192]
    with new_context():
        before = ir.Module.parse(optimal(made))
        after, _ = pipelined(optimal(made), HOPPER)
        target = Target.parse(HOPPER)
        assert validate(before, after, None, data, target=target, grid=(1, 1, 1)).is_equal


def test_memory_leaves_products_in_one_stage():
    """Two slots hold the tile whose output is multiplied, and the next one: none is copied ahead. One stage hides more."""
    record, _ = scheduled(optimal(PLAIN), smem_limit=2 * 32768 + 32768)
    assert record.interval > 1024 and record.shared_bytes == 2 * 32768
    assert any(said.endswith("2 slots") for said in record.partitions)


def test_of_many_groups_of_products_the_text_is_the_order():
    commit = "nvvm.wgmma.commit.group.sync.aligned\n"
    text = optimal(PLAIN).replace(commit, f"{commit}      {AT}\n      {commit}" * 3, 1)
    record, _ = scheduled(text)
    assert "stages of products" not in str(record.partitions)
    assert record.partitions[-1] == "alternating refused [roles-unsupported]"


def test_a_warp_issues_the_products_of_tensor_memory():
    made = BlackwellGemm(tile_n=64)
    with new_context():
        module, record = pipelined(optimal(made), BLACKWELL)
        right, result = run_blackwell(module, made, 200, completion="late")
    assert right and result.races == ()
    assert (record.roles, record.barriers) == ("specialised", 0)
    # Two tiles of 16 and 8 KiB, 128 bytes a cycle.
    assert (record.interval, record.proven) == (192, True)
    assert record.bound_by == "the unit 'tensor copy', which is never idle"


def test_memory_bounds_the_slots_and_so_the_interval():
    record, _ = scheduled(optimal(GEMM), smem_limit=2 * 32768)
    assert record.shared_bytes == 2 * 32768
    # Two slots hold the copy's latency, its tiles, the waits and the products of one iteration.
    assert record.interval > 512 and record.bound_by.startswith("a recurrence")


@pytest.mark.parametrize("made", [HopperGemm(tile_m=64, tile_n=64), BlackwellGemm(tile_n=64)])
def test_what_the_plain_loop_computes_is_kept_for_all_data(made):
    target = HOPPER if isinstance(made, HopperGemm) else BLACKWELL
    data = [Data((rows, 200), "float16") for rows in (made.tile_m, 64)]
    data.append(Data((made.tile_m, 64), "float32"))
    with new_context():
        before = ir.Module.parse(optimal(made))
        after, _ = pipelined(optimal(made), target)
        assert validate(before, after, None, [*data, 200], target=Target.parse(target)).is_equal


LOOP = "%n1 = scf.for %q = %c0 to %tid step %c1 iter_args(%x = %c0) -> index {{ {} \n scf.yield %x : index }}"
AT = "nvvm.wgmma.fence.aligned"


@pytest.mark.parametrize(
    ("text", "target", "code", "why"),
    [
        (optimal(HopperGemm(cluster=2)), HOPPER, "transaction-stages", "blocks of a cluster"),
        (optimal(GEMM), "nvvm:sm_120a", "transaction-stages", "whose costs are not known"),
        (
            optimal(GEMM).replace("known_block_size = array<i32: 128, 1, 1>", ""),
            HOPPER,
            "transaction-stages",
            "a block of unknown size",
        ),
        (
            optimal(GEMM).replace(AT, f"nvvm.cp.async.bulk.wait_group 0 {{read}}\n{AT}", 1),
            HOPPER,
            "transaction-stages",
            "'nvvm.cp.async.bulk.wait_group' has no cost",
        ),
        (
            optimal(GEMM).replace(AT, LOOP.format("nvvm.barrier") + "\n" + AT, 1),
            HOPPER,
            "regions-in-schedule",
            "loops of unknown length",
        ),
    ],
)
def test_what_no_cost_is_known_of_is_refused(text, target, code, why):
    with pytest.raises(PipelineError) as refusal:
        scheduled(text, target)
    assert refusal.value.code == code
    assert why in str(refusal.value) and "async_pipe.num_stages" in str(refusal.value)


def test_several_loops_of_a_kernel_are_refused():
    with new_context():
        module = ir.Module.parse(optimal(GEMM))
        (loop,) = [op for op in walk(module.operation) if op.name == "scf.for"]
        loop.clone(ir.InsertionPoint(loop))
        text = str(module)
    with pytest.raises(PipelineError) as refusal:
        scheduled(text)
    assert refusal.value.code == "transaction-stages"
    assert "the kernel has several" in str(refusal.value)
