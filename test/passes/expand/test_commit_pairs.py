"""Two loops whose products commits complete, on the same mbarriers: one ring.

Covers: pipeliner/plan/ring_plan.py, pipeliner/expand/write/write_ring.py, test/helpers/gemm_pairs.py
"""

from __future__ import annotations

import pytest

from helpers.gemm_pairs import GemmPair, Loop
from helpers.machine_programs import parse
from mlir_async_pipe import check, pipeline
from mlir_async_pipe.pipeliner.expand.write.kernel_units import EarlierSlot
from mlir_async_pipe.session.diagnostics import AsyncPipeError

MOODS = [("eager", "lockstep"), ("late", "forward"), ("late", "backward"), ("random", "random")]
# d1 + p1 = 2, and V = 3 or 4 of the second loop.
FURTHER = GemmPair(Loop(2, 1), Loop(4, 0))
PAIRS = {
    "equal": (GemmPair(Loop(3, 1), Loop(3, 1)), 3),
    "the second copies further ahead": (FURTHER, 3),
    "the same around": (GemmPair(Loop(2, 1), Loop(4, 0), persistent=True), 3),
    "the first copies further ahead": (GemmPair(Loop(4, 0), Loop(2, 1)), 3),
    "no third sum": (GemmPair(Loop(2, 2), Loop(3, 0)), 3),
    "copies first, then last": (GemmPair(Loop(2, 1, "first"), Loop(4, 0)), 4),
    "copies last, then first": (GemmPair(Loop(2, 2), Loop(4, 0, "first"), persistent=True), 4),
    "three in flight of five": (GemmPair(Loop(2, 3, "first"), Loop(2, 1)), 5),
}


def wrong(pair: GemmPair, module) -> set[str]:
    """What the machine finds."""
    trips = (1, 4) if pair.persistent else (0, 1, 2, 5)
    moods = MOODS[-2:] if pair.persistent else MOODS
    return {pair.wrong(module, n, *mood) for n in trips for mood in moods} - {""}


@pytest.mark.parametrize("name", PAIRS)
def test_slots_and_phases_of_both_go_on_from_loop_to_loop(name):
    pair, slots = PAIRS[name]
    module = parse(pair.text())
    report = pipeline(module, check="error")
    assert {b.versions for loop in report.of("loops") for b in loop.buffers} == {slots}
    assert len(report.of("loops")) == 2
    assert all(not found.unsafe and not found.unknown for found in report.of("checks"))
    assert not wrong(pair, module)


def test_waits_for_the_tiles_that_copies_overwrite_leave_phases_out(monkeypatch):
    """They are for tile t + d - V, not for t - p, where the second loop has more slots than d1 + p1."""

    def of_tile_ahead(earlier, stage):
        return earlier.slots.in_step(0)

    monkeypatch.setattr(EarlierSlot, "in_step", of_tile_ahead)
    module = parse(FURTHER.text())
    pipeline(module, check="none")
    assert wrong(FURTHER, module) == {"phase-overtaken"}
    assert any(found.unsafe for found in check(module).of("checks"))


def test_products_that_complete_on_other_mbarriers_are_refused():
    before, first, second, after = FURTHER.loops()
    line = next(line for line in before.split("\n") if "%done = " in line)
    start = next(line for line in before.split("\n") if ".init %done" in line)
    more = "\n".join(one.replace("%done", "%other") for one in (line, start))
    text = before.replace(start, f"{start}\n{more}")
    second = second.replace("%done[", "%other[")
    with pytest.raises(AsyncPipeError, match="do not complete on the same ones") as refused:
        pipeline(parse("\n".join((text, first, second, after))))
    assert refused.value.code == "mbarrier-shared"


def test_copies_and_products_may_not_change_their_mbarriers():
    before, first, second, after = FURTHER.loops()
    second = second.replace("%done[", "%x[").replace("%full[", "%done[").replace("%x[", "%full[")
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(parse("\n".join((before, first, second, after))))
    assert refused.value.code == "mbarrier-shared"
