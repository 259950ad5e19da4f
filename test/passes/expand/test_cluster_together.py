"""Loops in which the blocks of a cluster copy tiles for each other, and all warps copy and compute.

Covers: pipeliner/plan/role_plan.py, pipeliner/expand/write/write_ring.py, pipeliner/plan/ring_plan.py, pipeliner/plan/tensor_tiles.py
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from helpers.check_harness import check_module, check_text
from helpers.cluster_loops import MEET, ClusterLoop
from helpers.machine_programs import parse
from helpers.tensor_memory_kernels import BlackwellGemm
from mlir_async_pipe import lower, machine, pipeline
from mlir_async_pipe.session.diagnostics import AsyncPipeError

TOGETHER = 'async_pipe.roles = "together"'
LAST = TOGETHER + ', async_pipe.issue = "last"'
HALVES = ClusterLoop(annotations=TOGETHER)
ISSUED_BY_ONE = replace(
    HALVES,
    parts=1,
    part="%part = arith.constant 0 : index",
    more="%also = arith.cmpi eq, %row, %c0 : index",
)
LOOPS = {
    "copies first": HALVES,
    "copies last": replace(HALVES, annotations=LAST),
    "one slot": replace(HALVES, stages=2, annotations=LAST),
    "the blocks meet last": replace(HALVES, meets_last=MEET),
    "no tile": replace(HALVES, tiles=0),
    "fewer tiles than slots": replace(HALVES, tiles=2, annotations=LAST),
    "issued by one": ISSUED_BY_ONE,
    "issued by the second of three": replace(
        ISSUED_BY_ONE,
        shape=(3, 1),
        mask="%mask = arith.constant 7 : i16",
        more="%also = arith.cmpi eq, %row, %c1 : index",
    ),
    "two rows": replace(
        HALVES,
        shape=(2, 2),
        stages=2,
        annotations=LAST,
        mask="""%y = gpu.cluster_block_id y
  %first = arith.addi %y, %y : index
  %three = arith.constant 3 : i16
  %by = arith.index_cast %first : index to i16
  %mask = arith.shli %three, %by : i16""",
    ),
    "a loop around": replace(HALVES, stages=2, tiles=4, rounds=3),
    "a loop around, copies last": replace(HALVES, tiles=4, rounds=3, annotations=LAST),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_pipelined_proven_and_right(name):
    loop = LOOPS[name]
    module = loop.parsed()
    report = pipeline(module, check="error")
    slots = loop.stages - (LAST in loop.annotations)
    assert report.of("loops")[0].buffers[0].versions == slots
    checked = check_module(module)
    assert not checked.unsafe | checked.unknown
    for completion in machine.COMPLETIONS:
        assert loop.wrong(module, completion) == []


@pytest.mark.parametrize("schedule", machine.SCHEDULES)
@pytest.mark.parametrize("name", ["copies last", "a loop around", "issued by one"])
def test_it_is_right_in_each_order_of_warps(name, schedule):
    loop = LOOPS[name]
    module = loop.parsed()
    pipeline(module, check="none")
    assert loop.wrong(module, "random", schedule=schedule) == []


def test_arrivals_and_a_wait_take_the_place_of_barriers():
    """Of two blocks with two warps each four arrivals; only the first warp waits for them."""
    module = HALVES.parsed()
    pipeline(module, check="none")
    text = str(module)
    assert "gpu.barrier" not in text
    assert text.count("nvvm.mapa") == text.count("nvvm.mbarrier.arrive") == 2
    assert len(re.findall(r"mbarrier.init .*%c4, predicate", text)) == 3
    # One for tiles, one for slots: before the loop all of these are free.
    assert text.count("try_wait") == 2
    assert text.count("nvvm.cluster.arrive") == text.count("nvvm.cluster.wait") == 2


def test_what_comes_before_a_loop_that_runs_again_waits_for_slots():
    loop = replace(HALVES, tiles=4, rounds=3)
    module = loop.parsed()
    pipeline(module, check="none")
    # A wait for the tile; for the slots of the two that are copied before the loop, and the next one's.
    assert str(module).count("try_wait") == 4


MUTANTS = {
    "no arrival in block 0": (r"%\w+ = nvvm.mapa.*\n *nvvm.mbarrier.arrive.*\n( *%.* = arith.constant 1)", r"\1"),
    "no arrival in block 1": (r"(nvvm.mapa.*\n *nvvm.mbarrier.arrive.*\n *%\w+ = arith.const.*\n).*\n.*\n", r"\1"),
    "both arrivals in block 0": (r"(%c\w+) = arith.constant 1 : i32\n(.*mapa)", r"\1 = arith.constant 0 : i32\n\2"),
    "arrivals of one block": ("constant 4 : index", "constant 2 : index"),
    "no wait for a slot": (r"nvgpu.mbarrier.try_wait.parity.*%c10000000 .*", ""),
    "the other parity of a slot": (r"arith.cmpi ule, (%\w+), (%\w+) : index\n( *%\w+ = arith.xori)", r"arith.cmpi ugt, \1, \2 : index\n\3"),
    "the slot of the tile": (r"(nvgpu.mbarrier.get %\w+\[)%\w+", r"\g<1>%c0"),
    "no wait for a tile": (r"nvgpu.mbarrier.try_wait.parity.*%c1000000 .*", ""),
    "the bytes of one share": ("constant 256 : index", "constant 128 : index"),
    "a mask of one block": ("constant 3 : i16", "constant 1 : i16"),
    "no meeting first": (r"nvvm.cluster.arrive\n *nvvm.cluster.wait(\n *%)", r"gpu.barrier\1"),
    "no meeting last": (r"nvvm.cluster.arrive\n *nvvm.cluster.wait(\n *return)", r"gpu.barrier\1"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.parametrize("order", ["copies first", "copies last"])
def test_what_is_left_out_of_the_result_is_found(order, name):
    loop = LOOPS[order]
    module = loop.parsed()
    pipeline(module, check="none")
    wrong, changed = re.subn(*MUTANTS[name], str(module))
    assert changed
    assert check_text(wrong).unsafe
    assert any(loop.wrong(parse(wrong), completion) for completion in machine.COMPLETIONS)


def test_the_cluster_goes_to_machine_code():
    module = parse(HALVES.kernel())
    pipeline(module, check="error", target="nvvm:sm_90a")
    ptx = lower(module, target="nvvm:sm_90a").text
    assert ptx.count("multicast::cluster") == 3
    assert "mbarrier.arrive.shared::cluster.b64" in ptx


@pytest.mark.parametrize(("blocks", "hazards"), [(2, []), (4, ["cross-block"])])
def test_a_launch_is_its_kernel_s_cluster(blocks, hazards):
    """The number of a thread is an argument there. Blocks store by their place in their cluster: those of two clusters meet."""
    launched = re.sub(
        r"(?s)func.func @f\((.*?)\) attributes \{.*?\} \{(.*)  return\n\}",
        rf"""func.func @f(\1) {{
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %blocks = arith.constant {blocks} : index
  %threads = arith.constant 64 : index
  gpu.launch clusters(%cx, %cy, %cz) in (%nx = %two, %ny = %one, %nz = %one)
      blocks(%bx, %by, %bz) in (%gx = %blocks, %gy = %one, %gz = %one)
      threads(%tx, %ty, %tz) in (%sx = %threads, %sy = %one, %sz = %one) {{\2  gpu.terminator
  }}
  return
}}""",
        HALVES.text(),
    )
    assert "gpu.launch" in launched
    module = parse(launched)
    report = pipeline(module, check="error")
    assert [hazard.code for hazard in report.of("hazards")] == hazards
    text = str(module)
    assert text.count("nvvm.mapa") == text.count("try_wait") == 2
    # Only the input asks for it.
    assert text.count("gpu.thread_id") == 1


ANOTHER = """  %line = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
  scf.for %again = %c0 to %tiles step %c1 {
    %copied = memref.load %out[%c0, %t] : memref<2x64xf32>
    memref.store %copied, %line[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %seen = memref.load %line[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %seen, %out[%c1, %t] : memref<2x64xf32>
    gpu.barrier
  } {async_pipe.num_stages = 2 : i64, async_pipe.independent}
  return"""
ALWAYS = (", predicate = %leader", ", predicate = %true")
REFUSALS = {
    "blocks of parts of warps": (
        replace(HALVES, changes=(("array<i32: 64", "array<i32: 48"),)),
        "cluster-unsupported",
        "a multiple of 32",
    ),
    "blocks of unknown size": (
        replace(HALVES, changes=(("gpu.known_block_size = array<i32: 64, 1, 1>, ", ""),)),
        "cluster-unsupported",
        "decided by more",
    ),
    "copies of all threads": (
        replace(HALVES, changes=(ALWAYS,)),
        "cluster-unsupported",
        "not issued by thread 0",
    ),
    "another loop": (
        replace(HALVES, changes=(("  return", ANOTHER),)),
        "cluster-unsupported",
        "another loop to be pipelined",
    ),
    "a kernel that returns something": (
        replace(
            HALVES,
            changes=(
                ("%tiles: index) attributes", "%tiles: index) -> index attributes"),
                ("  return", "  return %c0 : index"),
            ),
        ),
        "cluster-unsupported",
        "returns something",
    ),
    "what is written may be what another block copies": (
        replace(HALVES, rounds=3, changes=((" {llvm.noalias}", ""), ("  scf.yield %sum_", "  memref.store %sum_, %out[%row, %t] : memref<2x64xf32>\n  scf.yield %sum_"))),
        "unproven-independence",
        "blocks of a cluster do not order",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused_stays_as_it_was(name):
    loop, code, words = REFUSALS[name]
    module = loop.parsed()
    before = str(module)
    with pytest.raises(AsyncPipeError, match=words) as refused:
        pipeline(module, check="none")
    assert refused.value.code == code
    assert refused.value.diagnostic.place.line > 0
    assert str(module) == before


def test_commits_of_products_give_slots_back_to_one_block():
    text = BlackwellGemm(tile_n=32, stages=2).module()
    text = text.replace(
        "known_block_size", "known_cluster_size = array<i32: 1, 1, 1>, known_block_size"
    )
    text = text.replace(
        "to %B_shared, predicate", "to %B_shared multicast_mask = %mask, predicate"
    ).replace("%c0 = ", "%mask = arith.constant 1 : i16\n%c0 = ", 1)
    with pytest.raises(AsyncPipeError, match="commits of products") as refused:
        pipeline(parse(text), check="none", target="nvvm:sm_100a")
    assert refused.value.code == "cluster-unsupported"


def test_who_follows_the_advice_gets_a_pipeline():
    """The predicate of thread 0, and blocks of whole warps."""
    wrong, _, words = REFUSALS["blocks of parts of warps"]
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(wrong.parsed(), check="none")
    reported = [note.message for note in refused.value.diagnostic.notes]
    assert any(words in note and "gpu.thread_id x == 0" in note for note in reported)
    module = HALVES.parsed()
    pipeline(module, check="error")
    assert HALVES.wrong(module, "late") == []
