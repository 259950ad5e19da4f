"""Attention with the warps of FlashAttention-4, by hand and from the plain loop: machine code and schedules.

Covers: examples/generate_blackwell_attention.py, pipeliner/schedule/modulo/rings.py, lowering/nvvm/to_nvvm.py, lowering/nvvm/cubin.py
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from helpers.hopper_attention import BlackwellAttention
from helpers.machine_programs import parse
from helpers.paths import ROOT
from mlir_async_pipe import lower, pipeline
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool

SMALL = BlackwellAttention()
NEEDS_PTXAS = pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")


@NEEDS_PTXAS
@pytest.mark.parametrize(
    ("made", "spilled"),
    [
        (SMALL, 0),
        (replace(SMALL, groups=2), 0),
        (BlackwellAttention(features=128, keys=128, groups=2, overlaid=True), 24),
    ],
    ids=["one group", "two groups", "of FlashAttention-4"],
)
def test_each_role_has_its_loop(made, spilled):
    (kernel,) = lower(parse(made.module()), target="nvvm:sm_100a", emit="cubin").kernels
    loops = kernel.machine.loops
    (products,) = [found for found in loops if found.multiplications]
    steps = (made.features + made.keys) // 16
    assert products.multiplications == steps * made.groups
    assert products.commits == 2 * made.groups + 1
    assert products.phase_waits == (3 if made.overlaid else 2) * made.groups + 1
    (copies,) = [found for found in loops if found.tensor_copies]
    assert (copies.tensor_copies, copies.expects, copies.phase_waits) == (2, 1, 1)
    arriving = [(found.phase_waits, found.arrivals) for found in loops if found.arrivals]
    assert arriving == [(2, 2)] * made.groups + [(2 * made.groups, 2 * made.groups)]
    assert kernel.resources.spill_store_bytes <= spilled


@NEEDS_PTXAS
@pytest.mark.parametrize(("size", "most"), [({}, 345), ({"keys": 128}, 616)], ids=str)
def test_the_plain_loop_with_roles_has_a_loop_for_each(size, most):
    made = BlackwellAttention(plain=True, roles="specialised", **size)
    module = parse(made.module())
    pipeline(module, target="nvvm:sm_100a")
    (kernel,) = lower(module, target="nvvm:sm_100a", emit="cubin").kernels
    loops = kernel.machine.loops
    (products,) = [found for found in loops if found.multiplications]
    assert (products.commits, products.phase_waits, products.barriers) == (2, 2, 0)
    (copies,) = [found for found in loops if found.tensor_copies]
    assert (copies.tensor_copies, copies.expects, copies.phase_waits) == (2, 1, 1)
    (softmax,) = [found for found in loops if found.arrivals]
    assert (softmax.phase_waits, softmax.arrivals, softmax.barriers) == (2, 1, 0)
    assert softmax.instructions <= most
    assert kernel.resources.spill_store_bytes == 0


@NEEDS_PTXAS
def test_each_group_of_threads_has_its_loop():
    made = BlackwellAttention(
        plain=True, roles="grouped", stages=2, groups=2, overlaid=True, keys=128, features=128
    )
    module = parse(made.module())
    pipeline(module, target="nvvm:sm_100a")
    (kernel,) = lower(module, target="nvvm:sm_100a", emit="cubin").kernels
    groups = [found for found in kernel.machine.loops if found.arrivals]
    assert [(found.phase_waits, found.arrivals, found.barriers) for found in groups] == [
        (1, 1, 0)
    ] * 2
    assert max(found.instructions for found in groups) <= 660
    assert (kernel.resources.registers, kernel.resources.spill_store_bytes) == (168, 0)


def optimal(made: BlackwellAttention) -> Any:
    """The schedule that is found, of a loop that is proven."""
    text = made.module().replace("num_stages = 3 : i64", 'schedule = "optimal"')
    report = pipeline(parse(text), target="nvvm:sm_100a", check="error")
    (checks,) = report.of("checks")
    assert (checks.unsafe, checks.unknown) == (0, 0)
    (found,) = report.of("schedules")
    return found


@pytest.mark.parametrize(
    ("groups", "bound"), [(1, "the threads"), (2, "the unit 'special function'")]
)
def test_the_next_scores_come_before_the_last_output_so_that_softmax_is_never_idle(groups, bound):
    found = optimal(BlackwellAttention(plain=True, groups=groups))
    assert found.proven and found.bound_by == f"{bound}, which is never idle"
    assert "and 2 stages of products" in "".join(found.partitions)


def test_where_p_lies_over_the_scores_the_next_ones_follow_the_output_of_their_own_tile():
    """Of two tiles of queries both run beside the softmax of the other one; of one tile alone nothing does."""
    one, two = (
        optimal(BlackwellAttention(plain=True, overlaid=True, groups=groups)) for groups in (1, 2)
    )
    assert one.proven and two.proven
    assert two.interval < 0.85 * 2 * one.interval
    # A group for each of them waits for nobody else's products.
    assert (one.roles, two.roles) == ("specialised", "grouped")
    assert "grouped refused [roles-unsupported]" in one.partitions


@pytest.mark.parametrize("features", [64, 128])
def test_the_optimal_schedule_of_the_plain_loop_gives_products_a_warp(features):
    found = optimal(BlackwellAttention(plain=True, features=features, keys=features))
    intervals = dict(
        said.split(" on ")[0].split(" ") for said in found.partitions if " on " in said
    )
    assert found.roles == "specialised" and found.proven
    assert int(intervals["specialised"]) == found.interval < int(intervals["together"])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--features=128", "--keys=128", "--groups=2"], "do not fit tensor memory"),
        (["--slots=1"], "two slots at least"),
        (["--persistent"], "head to head"),
    ],
)
def test_what_cannot_be_made_is_said(arguments, why):
    script = ROOT / "examples" / "generate_blackwell_attention.py"
    done = subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert why in done.stderr
