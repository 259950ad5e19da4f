"""The timeline: stalls against numbers worked by hand, and both file formats.

Covers: machine/timeline.py, facts/costs/cost_model.py
"""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from helpers.machine_programs import run, zeros
from mlir_async_pipe.facts.costs.cost_model import CostModel
from mlir_async_pipe.machine.timeline import chrome_trace, lay_out, svg, write_timeline
from mlir_async_pipe.session.diagnostics import UsageError

ROW = "memref<1xf32, strided<[1], offset: ?>>"


def staged(stages: int, trips: int = 12) -> str:
    """A loop that copies `stages` - 1 iterations ahead and computes (math.exp) on each row:
    wait, issue the next copy, compute. One stage: copy, wait, compute."""
    ahead = stages - 1
    prologue = [f"%ahead = arith.constant {ahead} : index"]
    for i in range(ahead):
        prologue += [
            f"%p{i} = arith.constant {i} : index",
            f"%t{i} = {_copy(f'%p{i}', f'%p{i}')}",
            f"%g{i} = nvgpu.device_async_create_group %t{i}",
        ]
    wait = f"nvgpu.device_async_wait %t {{numGroups = {max(ahead - 1, 0)} : i32}}"
    issue = f"%x = {_copy('%next', '%free')}\n%t = nvgpu.device_async_create_group %x"
    early = f"{issue}\n{wait}" if stages == 1 else f"{wait.replace('%t ', '%none ')}\n{issue}"
    nothing = "%none = nvgpu.device_async_create_group {async_pipe.empty}" if stages > 1 else ""
    return f"""
    func.func @f(%src: memref<{trips + ahead}xf32>, %dst: memref<{trips + ahead}xf32>) {{
      %buf = memref.alloc() : memref<{stages}xf32, WG>
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant {trips} : index
      %slots = arith.constant {stages} : index
      {nothing}
      {chr(10).join(prologue)}
      scf.for %i = %c0 to %n step %c1 {{
        %next = arith.addi %i, %ahead : index
        %free = arith.remui %next, %slots : index
        %slot = arith.remui %i, %slots : index
        {early}
        %v = memref.load %buf[%slot] : memref<{stages}xf32, WG>
        %e = math.exp %v : f32
        memref.store %e, %dst[%i] : memref<{trips + ahead}xf32>
      }}
      nvvm.cp.async.wait.group 0
      return
    }}""".replace("SRC", str(trips + ahead)).replace("SLOTS", str(stages))


def _copy(source: str, slot: str) -> str:
    return (
        f"nvgpu.device_async_copy %src[{source}], %buf[{slot}], 1 : memref<SRCxf32> "
        "to memref<SLOTSxf32, WG>"
    )


def stall(stages: int, latency: int, compute: int) -> float:
    """Stalled cycles of a steady iteration."""
    size = 12 + stages - 1
    result = run(staged(stages), np.ones(size, np.float32), zeros(size), completion="late")
    assert result.races == ()
    model = CostModel(default_latency=latency, ops={"math.exp": compute})
    return lay_out(result.trace, model).stall_an_iteration


@pytest.mark.parametrize(
    "stages, latency, compute, expected",
    [
        # The copy is issued stages - 1 computations before its wait, so what is left to wait
        # is latency - (stages - 1) * compute, once an iteration while copies do not pile up.
        (1, 500, 300, 500),
        (2, 500, 300, 200),
        (3, 500, 300, 0),
        (4, 500, 300, 0),
        (2, 500, 500, 0),
        (2, 100, 300, 0),
    ],
)
def test_stall_an_iteration_is_what_a_person_works_out(stages, latency, compute, expected):
    assert stall(stages, latency, compute) == expected


def test_phases_groups_and_total_of_two_stages():
    result = run(staged(2, trips=12), np.ones(13, np.float32), zeros(13))
    timeline = lay_out(result.trace, CostModel(ops={"math.exp": 300}))
    # The first copy arrives at 500; then each of 12 iterations takes 500 cycles from wait to
    # wait, the last without a wait after its 300 but with the drain at 12 * 500 + 500.
    assert timeline.total == 500 + 12 * 500
    assert [phase for phase, _, _ in timeline.phases] == ["kernel", "epilogue"]
    assert sum(bar.kind == "group" for bar in timeline.bars) == 13
    assert len(timeline.iteration_stalls) == 12


def test_throughput_makes_copies_queue_up():
    result = run(staged(3), np.ones(14, np.float32), zeros(14))
    model = CostModel(
        default_latency=100, bytes_per_cycle={"cp.async": 4 / 400}, ops={"math.exp": 300}
    )
    # One copy of 4 bytes holds the queue 400 cycles and compute takes 300: 100 are lost.
    assert lay_out(result.trace, model).stall_an_iteration == 100


def test_waits_are_marked_where_they_end():
    result = run(staged(2, trips=2), np.ones(3, np.float32), zeros(3))
    timeline = lay_out(result.trace, CostModel(ops={"math.exp": 300}))
    assert timeline.waits == (("wait 0", 500), ("wait 0", 1000), ("wait 0", 1500))


def test_issuing_a_copy_can_cost_cycles_of_the_thread():
    result = run(staged(2), np.ones(13, np.float32), zeros(13))
    model = CostModel(ops={"math.exp": 300, "nvgpu.device_async_copy": 40})
    # The copy is under way while the thread issues it, and 300 cycles of compute follow.
    assert lay_out(result.trace, model).stall_an_iteration == 500 - 340


def test_latency_attribute_on_an_op_is_its_cost():
    program = staged(2).replace("math.exp %v", "math.exp %v {async_pipe.latency = 123 : i64}")
    result = run(program, np.ones(13, np.float32), zeros(13))
    assert lay_out(result.trace, CostModel()).stall_an_iteration == 500 - 123


def test_chrome_trace_has_an_event_for_each_bar():
    result = run(staged(2), np.ones(13, np.float32), zeros(13))
    timeline = lay_out(result.trace, CostModel(ops={"math.exp": 300}))
    events = json.loads(chrome_trace(timeline))["traceEvents"]
    shown = [event for event in events if event["ph"] == "X" and event["cat"] != "phase"]
    assert len(shown) == len(timeline.bars)
    assert {event["args"]["name"] for event in events if event["ph"] == "M"} >= {
        "thread",
        "cp.async",
    }


def test_svg_is_well_formed_and_tells_stalls():
    result = run(staged(2), np.ones(13, np.float32), zeros(13))
    picture = svg(lay_out(result.trace, CostModel(ops={"math.exp": 300})))
    root = ElementTree.fromstring(picture)
    titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any("wait 0" in title and "200 cycles" in title for title in titles)


def test_empty_trace_has_a_picture_too():
    timeline = lay_out(run("func.func @f() { return }").trace, CostModel())
    assert timeline.total == 0
    ElementTree.fromstring(svg(timeline))


@pytest.mark.parametrize("text", ["latency", "latency=fast", "x=-1"])
def test_bad_costs_are_refused(text):
    with pytest.raises(UsageError, match="bad-cost"):
        CostModel.parse(text)


def test_costs_are_read_from_text():
    model = CostModel.parse("latency=400,latency.wgmma=90,throughput.cp.async=8,barrier=20,a.b=7")
    assert (model.default_latency, model.barrier) == (400, 20)
    assert (model.latency, model.ops) == ({"wgmma": 90}, {"a.b": 7})
    assert model.bytes_per_cycle == {"cp.async": 8.0}


def test_timeline_files_end_in_svg_or_json(tmp_path):
    timeline = lay_out(run("func.func @f() { return }").trace, CostModel())
    with pytest.raises(UsageError, match="bad-timeline"):
        write_timeline(timeline, str(tmp_path / "a.png"))
