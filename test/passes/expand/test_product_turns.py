"""Two warpgroups that issue their products in turn (`async_pipe.roles = "alternating"`): right, proven, and refused.

Covers: pipeliner/plan/ping_pong_plan.py, pipeliner/expand/write/write_roles.py,
checker/phases/block_memory.py, checker/phases/mbarrier_state.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from helpers.hopper_attention import wrong_by
from helpers.hopper_gemms import HopperGemm
from helpers.paths import ROOT
from helpers.ptxas_remarks import remarks_on_products
from mlir_async_pipe import check, lower, machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import (
    before,
    clone,
    create,
    integer_attribute,
    operations,
    set_integer,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import end_of, write_if
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.session.diagnostics import PipelineError

sys.path.insert(0, str(ROOT / "examples"))

from generate_hopper_attention import HopperAttention

TARGET = "nvvm:sm_90a"
ATTENTION = HopperAttention(warpgroups=2, stages=2)
PRODUCT = "nvvm.wgmma.mma_async"
GEMMS = {
    "one tile": HopperGemm(tile_n=64, warpgroups=2, stages=2),
    "persistent": HopperGemm(tile_n=64, warpgroups=2, stages=2, persistent=True),
}
ARRIVE, MEET, WAIT = ("nvvm.barrier.arrive", "nvvm.barrier", "nvvm.wgmma.wait.group.sync.aligned")
MODULES: dict[str, Callable[[], str]] = {"attention": ATTENTION.module} | {
    f"GEMM, {name}": made.module for name, made in GEMMS.items()
}


@cache
def alternating(name: str) -> str:
    """The pipelined module, which the checker proves."""
    with new_context():
        module = ir.Module.parse(MODULES[name]())
        (checks,) = pipeline(module, target=TARGET, roles="alternating").of("checks")
        assert (checks.unsafe, checks.unknown) == (0, 0)
        return str(module)


def loop_of_products(module: Any) -> Any:
    (loop,) = [
        op
        for op in walk(module.operation)
        if op.name == "scf.for"
        and any(inner.name == PRODUCT for inner in operations(op.regions[0].blocks[0]))
    ]
    return loop


def run(text: str, completion: str, positions: int = 192) -> tuple[float, set[str]]:
    """How far attention is from NumPy's, and what raced."""
    with new_context():
        return wrong_by(ATTENTION, ir.Module.parse(text), positions, completion, 128, heads=1)


@pytest.mark.parametrize("name", MODULES)
def test_a_turn_begins_before_the_products_and_ends_after_them(name: str) -> None:
    with new_context():
        module = ir.Module.parse(alternating(name))
        names = [op.name for op in operations(loop_of_products(module).regions[0].blocks[0])]
    begin, end, wait = names.index(MEET), names.index(ARRIVE), names.index(WAIT)
    issued = [n for n, op in enumerate(names) if "wgmma" in op and op != WAIT]
    later = [n for n in issued if n > wait]
    assert begin < min(issued) < max(n for n in issued if n < wait) < end < wait
    # The second half of the output comes beside the products of the other group.
    assert [names[n].split(".")[2] for n in later] == ["fence", "commit"] * (name == "attention")
    assert alternating(name).count(ARRIVE) == 2


@pytest.mark.parametrize("completion", machine.COMPLETIONS)
@pytest.mark.parametrize("positions", [128, 192, 320])
def test_attention_in_turns_is_numpy_s(positions: int, completion: str) -> None:
    error, races = run(alternating("attention"), completion, positions)
    assert error < 1e-3 and races == set()


def broken(change: Callable[[Any], None]) -> str:
    with new_context():
        module = ir.Module.parse(alternating("attention"))
        change(module)
        assert module.operation.verify()
        return str(module)


def _without_a_turn_s_end(module: Any) -> None:
    body = operations(loop_of_products(module).regions[0].blocks[0])
    next(op for op in body if op.name == ARRIVE).erase()


def _without_the_first_turn(module: Any) -> None:
    next(op for op in walk(module.operation) if op.name == ARRIVE).erase()


def _at_the_other_s_barrier(module: Any) -> None:
    body = operations(loop_of_products(module).regions[0].blocks[0])
    meet, arrive = (next(op for op in body if op.name == name) for name in (MEET, ARRIVE))
    meet.operands[0], arrive.operands[0] = arrive.operands[0], meet.operands[0]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_without_a_turn_s_end, "deadlock"),
        (_without_the_first_turn, "deadlock"),
        (_at_the_other_s_barrier, "too-many-arrivals"),
    ],
)
def test_turns_that_nobody_gives_are_found(change: Callable[[Any], None], code: str) -> None:
    text = broken(change)
    with new_context():
        report = check(ir.Module.parse(text), target=TARGET)
    assert code in {entry.code for entry in report.diagnostics}
    _, races = run(text, "late")
    assert code in races


def test_a_wait_of_one_group_alone_leaves_the_other_s_products_in_flight() -> None:
    """What both issued in one op is two things once they are apart."""

    def weaken(module: Any) -> None:
        body = operations(loop_of_products(module).regions[0].blocks[0])
        (wait,) = [op for op in body if op.name == WAIT and integer_attribute(op, "group") == 0]
        wait.erase()

    text = broken(weaken)
    with new_context():
        report = check(ir.Module.parse(text), target=TARGET)
    assert {"read-in-flight", "source-overwritten"} & {entry.code for entry in report.diagnostics}


@pytest.mark.parametrize(("threads", "verdict"), [(1, "lanes-apart"), (32, ""), (128, "")])
def test_all_lanes_of_a_warp_wait_for_its_products(threads: int, verdict: str) -> None:
    """One more wait, by some of the threads: the op is `.aligned`."""

    def wait_once_more(module: Any) -> None:
        body = operations(loop_of_products(module).regions[0].blocks[0])
        wait = [op for op in body if op.name == WAIT][-1]
        thread = next(op for op in walk(module.operation) if op.name == "gpu.thread_id")
        build = IntegerWriter(before(wait), wait.location)
        some = build.compare("ult", thread.results[0], threads)
        branch = write_if(some, (), None, build.ip, wait.location)
        clone(wait, {}, before(end_of(branch.regions[0])))

    text = broken(wait_once_more)
    with new_context():
        report = check(ir.Module.parse(text), target=TARGET)
    messages = [entry.message for entry in report.diagnostics]
    assert all(f"({verdict})" in message for message in messages)
    assert bool(messages) == bool(verdict)


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
def test_ptxas_does_not_serialise_products_in_turns(tmp_path: Path) -> None:
    with new_context():
        module = ir.Module.parse(alternating("attention"))
        (kernel,) = lower(module, target=TARGET, emit="cubin").kernels
        text = lower(module, target=TARGET, emit="ptx").text
    assert remarks_on_products(text, tmp_path) == []
    assert kernel.resources.spill_store_bytes == 0
    (loop,) = [found for found in kernel.machine.loops if found.multiplications]
    assert (loop.product_waits, loop.barriers) == ((1, 0), 1)


# What has no turns ----------------------------------------------------------------------------


def _a_wait_between(module: Any) -> None:
    body = operations(loop_of_products(module).regions[0].blocks[0])
    commit = next(op for op in body if op.name.startswith("nvvm.wgmma.commit"))
    wait = next(op for op in body if op.name == WAIT)
    more = wait.operation.clone(ir.InsertionPoint(body[body.index(commit) + 1]))
    set_integer(more, "group", 0, 64)


def _in_a_branch(module: Any) -> None:
    body = operations(loop_of_products(module).regions[0].blocks[0])
    fence = next(op for op in body if op.name == "nvvm.wgmma.fence.aligned")
    yes = next(op for op in walk(module.operation) if op.name == "arith.cmpi").results[0]
    branch = create("scf.if", [yes], [], ip=before(fence), loc=fence.location, regions=2)
    block = branch.regions[0].blocks.append()
    fence.move_before(create("scf.yield", [], [], ip=ir.InsertionPoint(block), loc=fence.location))


@pytest.mark.parametrize(
    ("made", "change", "message"),
    [
        (HopperAttention(), None, "128 threads are not two warpgroups"),
        (HopperAttention(warpgroups=3), None, "384 threads are not two warpgroups"),
        (ATTENTION, _a_wait_between, "products stand before and after this wait"),
        (ATTENTION, _in_a_branch, "do not stand in the loop itself"),
    ],
)
def test_a_loop_without_turns_is_refused(
    made: HopperAttention, change: Callable[[Any], None] | None, message: str
) -> None:
    with new_context():
        module = ir.Module.parse(made.module())
        if change is not None:
            change(module)
        text = str(module)
        with pytest.raises(PipelineError, match=message) as raised:
            pipeline(module, target=TARGET, roles="alternating")
        assert raised.value.code == "roles-unsupported"
        assert str(module) == text
