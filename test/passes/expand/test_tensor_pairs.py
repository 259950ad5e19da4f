"""Loops of tensor copies one after the other on the same mbarriers: one ring, whose slot and phase go
on from the first loop to the second.

Covers: pipeliner/plan/ring_plan.py, pipeliner/plan/mbarrier_setup.py,
pipeliner/expand/write/carried_ring.py, test/helpers/tensor_pairs.py
"""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from helpers.machine_programs import parse
from helpers.tensor_loops import Box, TensorLoop
from helpers.tensor_pairs import TensorPair
from mlir_async_pipe import check, pipeline
from mlir_async_pipe.machine.launch import COMPLETIONS
from mlir_async_pipe.pipeliner.plan import ring_plan
from mlir_async_pipe.session.diagnostics import AsyncPipeError

LOADS = TensorLoop((Box(2, 32),), trips=5, executions=2)
PRODUCTS = TensorLoop((Box(64, 64, "swizzle_128b"),) * 2, reader="products", trips=3, executions=2)
AGAIN = replace(LOADS, executions=6)
# d1 = 1, p1 = 2 and d2 = 2, p2 = 0: three slots for each alone, and d2 + p1 = 4.
THIRD_SUM = TensorPair(
    replace(PRODUCTS, stages=2, in_flight=2, issue="last"), 3, in_flight=0, issue="last"
)
PAIRS = {
    "equal": (TensorPair(LOADS), 3),
    "in a loop": (TensorPair(AGAIN), 3),
    "the first copies further ahead": (TensorPair(replace(LOADS, stages=4), stages=2), 4),
    "the second copies further ahead": (TensorPair(replace(LOADS, stages=2), stages=4), 4),
    "tiles of their own": (TensorPair(AGAIN, stages=4, apart=True, short=2), 4),
    "the second runs not at all": (TensorPair(AGAIN, short=6), 3),
    "the second is in a branch": (TensorPair(AGAIN, branch=True, short=1), 3),
    "two mbarriers": (TensorPair(replace(AGAIN, boxes=(Box(2, 32), Box(4, 16, transaction=1)))), 3),
    "copies last, then first": (
        TensorPair(replace(AGAIN, issue="last", stages=2), issue="first"),
        3,
    ),
    "products": (TensorPair(replace(PRODUCTS, executions=4), in_flight=2, apart=True), 4),
    "the third sum": (THIRD_SUM, 4),
    # d1 + p2 = 4 only as the first loop runs again after the second.
    "the third sum the other way": (
        TensorPair(
            replace(PRODUCTS, executions=4, stages=3, in_flight=0, issue="last"),
            stages=2,
            in_flight=2,
            issue="last",
        ),
        4,
    ),
}


def pipelined(pair: TensorPair, **options):
    module = pair.module()
    return module, pipeline(module, **options)


def versions(report) -> set[int]:
    return {buffer.versions for loop in report.of("loops") for buffer in loop.buffers}


def wrong(pair: TensorPair, module) -> list[str]:
    """What the machine finds."""
    runs = [pair.right(module, c, s) for c in COMPLETIONS for s in ("lockstep", "random")]
    return [why for why in runs if why]


@pytest.mark.parametrize("name", PAIRS)
def test_both_loops_turn_on_the_same_slots(name):
    pair, slots = PAIRS[name]
    assert not pair.right(pair.module(), "eager")
    module, report = pipelined(pair, check="error")
    assert versions(report) == {slots}
    assert len(report.of("loops")) == 2
    boxes = pair.loop.boxes
    groups = {box.transaction for box in boxes}
    assert str(module).count("nvgpu.mbarrier.init") == slots * len(groups)
    assert str(module).count("memref.alloc") == len(boxes) * (2 if pair.apart else 1)
    assert all(not found.unsafe and not found.unknown for found in report.of("checks"))
    assert not wrong(pair, module)


def test_a_sum_counts_only_where_the_one_loop_follows_the_other():
    """d1 + p2 = 4, and the first loop does not run again: d2 + p2 = 3."""
    pair, _ = PAIRS["the third sum the other way"]
    once = replace(pair, loop=replace(pair.loop, executions=2))
    module, report = pipelined(once, check="error")
    assert versions(report) == {3}
    assert not wrong(once, module)


@pytest.mark.parametrize("name", ["the third sum", "the third sum the other way"])
def test_slots_for_each_loop_alone_are_too_few(name, monkeypatch):
    pair, slots = PAIRS[name]
    monkeypatch.setattr(ring_plan, "_may_follow", lambda ring, a, b: a is b)
    module, report = pipelined(pair, check="none")
    assert max(versions(report)) < slots
    assert wrong(pair, module)
    assert any(found.unsafe for found in check(module).of("checks"))


@pytest.mark.parametrize("name", ["equal", "tiles of their own", "products"])
@pytest.mark.parametrize("carried", ["slot", "phase"])
def test_a_second_loop_that_starts_anew_is_found(name, carried):
    pair, _ = PAIRS[name]
    pair = replace(pair, loop=replace(pair.loop, executions=2, trips=5))
    module, _ = pipelined(pair)
    text = str(module)
    second = [m.start() for m in re.finditer("scf.for", text)][1]
    line = text[second : text.index("\n", second)]
    (first, slot), (_, phase) = re.findall(r"= (%\d+)#(\d)", line)
    given = slot if carried == "slot" else phase
    constant = "%anew = arith.constant " + ("0 : index" if carried == "slot" else "false")
    anew = text[:second].rindex("\n") + 1
    changed = (
        text[:anew]
        + constant
        + "\n"
        + text[anew:second]
        + line.replace(f"{first}#{given}", "%anew", 1)
        + text[second + len(line) :]
    )
    assert wrong(pair, parse(changed))
    assert any(found.unsafe for found in check(parse(changed)).of("checks"))


def test_memory_for_fewer_slots_is_shared_out():
    pair = TensorPair(replace(AGAIN, stages=4), stages=3)
    module, report = pipelined(pair, check="error", smem_limit=2 * 256)
    assert versions(report) == {2}
    assert sum(said.code == "fewer-slots" for said in report.diagnostics) == 2
    assert not wrong(pair, module)


@pytest.mark.parametrize("roles", ["", "specialised"])
@pytest.mark.parametrize(("room", "slots"), [(8, [4, 4]), (7, [4, 3]), (5, [3, 2]), (4, [2, 2])])
def test_memory_is_shared_out_among_rings_of_one_kernel(room, slots, roles):
    loop = replace(LOADS, stages=4, roles=roles)
    pair = TensorPair(loop, stages=4, apart=True, grouped=True)
    module, report = pipelined(pair, check="none", smem_limit=room * 256)
    assert [one.buffers[0].versions for one in report.of("loops")] == slots
    assert not pair.right(module, "late")
    with pytest.raises(AsyncPipeError) as refused:
        pipelined(pair, check="none", smem_limit=3 * 256)
    assert refused.value.code == "smem-limit"


def test_an_input_that_starts_again_after_an_even_number_of_tiles_is_right():
    pair = TensorPair(replace(LOADS, trips=4, static=True))
    text = pair.text().replace("%phase = %r#1", "%phase = %false")
    assert text != pair.text()
    module = parse(text)
    report = pipeline(module, check="error")
    assert not [said for said in report.diagnostics if said.code == "input-phase-unknown"]
    assert not wrong(pair, module)


@pytest.mark.parametrize(
    ("pair", "old", "new"),
    [
        (TensorPair(LOADS), "%phase = %r#1", "%phase = %false"),
        (TensorPair(replace(LOADS, static=True)), "%phase = %r#1", "%phase = %false"),
        (TensorPair(AGAIN), "%phase = %phase0", "%phase = %false"),
        (TensorPair(LOADS), "%phase = %false", "%phase = %true"),
    ],
)
def test_an_input_that_asks_for_other_phases_is_refused(pair, old, new):
    assert old in pair.text()
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(parse(pair.text().replace(old, new, 1)))
    assert refused.value.code == "input-phase"


@pytest.mark.parametrize(
    ("code", "pair", "changes"),
    [
        # Not annotated, so the mbarriers are not the first loop's alone.
        ("mbarrier-shared", TensorPair(LOADS), [(r"(%r2:3.*?)\{async_pipe[^}]*\}", r"\1")]),
        # The second loop waits for one of the first one's two mbarriers.
        (
            "mbarrier-shared",
            TensorPair(replace(LOADS, boxes=(Box(2, 32), Box(2, 32, transaction=1)))),
            [
                (r"(%r2:3.*?)nvgpu.mbarrier.arrive.expect_tx %full\[%i1\][^\n]*\n", r"\1"),
                (r"(%r2:3.*?)nvgpu.mbarrier.try_wait.parity %full\[%i1\][^\n]*\n", r"\1"),
                (r"(%r2:3.*?)nvgpu.tma.async.load %m1[^\n]*\n", r"\1"),
            ],
        ),
        # The second loop reads what the first one copied.
        (
            "not-privatisable",
            TensorPair(LOADS, apart=True),
            [(r"(%r2:3.*?memref.load )%own0", r"\1%b0")],
        ),
        ("smem-limit", TensorPair(replace(LOADS, boxes=(Box(64, 64),))), []),
    ],
)
def test_what_is_no_ring_is_refused_where_it_stands(code, pair, changes):
    text = pair.text()
    for old, new in changes:
        text, count = re.subn(old, new, text, count=1, flags=re.DOTALL)
        assert count == 1
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(parse(text), smem_limit=24 * 1024)
    assert refused.value.code == code
    assert refused.value.diagnostic.place.line > 0


def test_a_group_for_each_loop_is_as_good():
    """What the refusal of other uses advises."""
    pair = TensorPair(replace(LOADS, stages=4), stages=2, apart=True, grouped=True)
    module, report = pipelined(pair, check="error")
    assert versions(report) == {2, 4}
    assert not wrong(pair, module)


def random_pair(seed: int) -> TensorPair:
    pick = random.Random(f"pair {seed}")
    loads = pick.random() < 0.7
    common = {
        "stages": pick.randint(2, 4),
        "issue": pick.choice(["", "first", "last"]),
        "trips": pick.randint(0, 9),
        "lower": pick.choice([0, 3]),
        "step": pick.choice([1, 2]),
        "static": pick.random() < 0.4,
        "executions": pick.choice([2, 4, 6]),
        "carried": pick.random() < 0.3,
        "fenced": True,
        "memory": pick.choice(["alloc", "global"]) if loads else "alloc",
        "skip": pick.choice([0, 0, 2]) if loads else 0,
    }
    own = {"stages": pick.randint(2, 4), "issue": pick.choice(["", "first", "last"])}
    own["branch"] = common["executions"] > 2 and pick.random() < 0.3
    own["apart"] = common["memory"] == "alloc" and pick.random() < 0.5
    if loads:
        boxes = tuple(
            Box(pick.choice([1, 2, 4]), 32, "swizzle_128b", n) for n in range(pick.randint(1, 2))
        )
        return TensorPair(TensorLoop(boxes, **common), short=pick.choice([0, 1, 4, 10]), **own)
    left = [pick.choice([None, 0, 1, 2]) for _ in range(2)]
    loop = replace(PRODUCTS, in_flight=left[0], **{**common, "trips": common["trips"] // 2})
    return TensorPair(loop, in_flight=left[1], **own)


@pytest.mark.parametrize("seed", range(12))
def test_random_pairs_are_right(seed):
    pair = random_pair(seed)
    assert not pair.right(pair.module(), "eager")
    module, report = pipelined(pair, check="warn")
    assert all(not found.unsafe for found in report.of("checks"))
    assert not [why for c in COMPLETIONS if (why := pair.right(module, c))]
