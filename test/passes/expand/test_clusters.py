"""Loops in which the blocks of a cluster copy tiles for each other: pipelined, proven and right.

Covers: pipeliner/plan/cluster_plan.py, pipeliner/expand/write/write_ring.py, pipeliner/plan/role_plan.py, pipeliner/plan/ring_plan.py, pipeliner/expand/write/write_roles.py, facts/loops/transactions.py
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from helpers.check_harness import check_module, check_text
from helpers.cluster_loops import MEET, ClusterLoop
from helpers.machine_programs import parse
from helpers.nvvm_tensor_loops import CONVERSIONS, converted
from mlir_async_pipe import lower, machine, pipeline
from mlir_async_pipe.session.diagnostics import AsyncPipeError

HALVES = ClusterLoop()
# Block 0 of the cluster copies whole tiles for all.
ISSUED_BY_ONE = ClusterLoop(
    parts=1,
    part="%part = arith.constant 0 : index",
    more="%also = arith.cmpi eq, %row, %c0 : index",
)
# Blocks of two rows: each copies for those of its own row.
ROWS = ClusterLoop(
    (2, 2),
    mask="""%y = gpu.cluster_block_id y
  %first = arith.addi %y, %y : index
  %three = arith.constant 3 : i16
  %by = arith.index_cast %first : index to i16
  %mask = arith.shli %three, %by : i16""",
)
QUARTERS = ClusterLoop((4, 1), parts=4, mask="%mask = arith.constant 15 : i16")
LOOPS = {
    "halves": HALVES,
    "two slots": replace(HALVES, stages=2),
    "halves, and the blocks meet last": replace(HALVES, meets_last=MEET),
    "halves, and the loop does not say where blocks meet": replace(
        HALVES, meets="", meets_first="gpu.barrier"
    ),
    "no tile": replace(HALVES, tiles=0),
    "fewer tiles than slots": replace(HALVES, tiles=2),
    "quarters": QUARTERS,
    "issued by one": ISSUED_BY_ONE,
    "issued by the second of three": replace(
        ISSUED_BY_ONE,
        shape=(3, 1),
        mask="%mask = arith.constant 7 : i16",
        more="%also = arith.cmpi eq, %row, %c1 : index",
    ),
    "rows": ROWS,
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_pipelined_proven_and_right(name):
    loop = LOOPS[name]
    module = loop.parsed()
    report = pipeline(module, check="error")
    assert report.of("loops")[0].buffers[0].versions == loop.stages
    checked = check_module(module)
    assert not checked.unsafe | checked.unknown
    for completion in machine.COMPLETIONS:
        assert loop.wrong(module, completion) == []


def test_slots_go_back_to_each_block_that_copies_into_them():
    """Of two blocks with two warps each four arrivals, by a lane of each warp in both blocks."""
    module = HALVES.parsed()
    pipeline(module, check="none")
    text = str(module)
    assert text.count("nvvm.mapa") == text.count("nvvm.mbarrier.arrive") == 2
    assert len(re.findall(r"mbarrier.init .*%c4, predicate", text)) == 3
    # After the initialisation and at the end; those of each iteration are gone.
    assert text.count("nvvm.cluster.arrive") == text.count("nvvm.cluster.wait") == 2


def test_a_block_waits_for_the_readers_of_its_own_copies_alone():
    """Two blocks of a row: two arrivals of each one's warps; nobody arrives in the other row."""
    module = ROWS.parsed()
    pipeline(module, check="none")
    assert len(re.findall(r"mbarrier.init .*%c4, predicate", str(module))) == 3
    assert str(module).count("nvvm.mapa") == 4


@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("roles", ["specialised", "together"])
def test_a_whole_tile_for_all_blocks_in_nvvm_s_form_is_pipelined_proven_and_right(
    roles, conversion
):
    loop = replace(
        ISSUED_BY_ONE,
        annotations=f'async_pipe.roles = "{roles}"',
        changes=(
            ("    %to = memref.subview", "    %unused = memref.subview"),
            ("to %to multicast", "to %tile multicast"),
            ("-> memref<64xf32, strided<[1], offset: ?>", "-> memref<64xf32"),
        ),
    )
    module = parse(converted(loop.parsed(), conversion))
    report = pipeline(module, check="error")
    assert "nvgpu.tma.async.load" not in str(module)
    assert [check.unknown for check in report.of("checks")] == [0]
    for completion in machine.COMPLETIONS:
        assert loop.wrong(module, completion) == []


def test_a_share_in_nvvm_s_form_is_refused_where_it_is_named():
    """Its pointer is made of the offset in a memref's descriptor, which no slot can be added to."""
    with pytest.raises(AsyncPipeError, match="names it in a way") as refused:
        pipeline(parse(converted(HALVES.parsed(), CONVERSIONS[1])), check="none")
    assert refused.value.code == "escapes"
    assert refused.value.diagnostic.place.line > 0


MUTANTS = {
    "no arrival in block 0": (r"%\w+ = nvvm.mapa.*\n *nvvm.mbarrier.arrive.*\n( *%.* = arith.constant 1)", r"\1"),
    "no arrival in block 1": (r"(nvvm.mapa.*\n *nvvm.mbarrier.arrive.*\n *%\w+ = arith.const.*\n).*\n.*\n", r"\1"),
    "both arrivals in block 0": (r"(%c\w+) = arith.constant 1 : i32\n(.*mapa)", r"\1 = arith.constant 0 : i32\n\2"),
    "arrivals of one block": ("constant 4 : index", "constant 2 : index"),
    "the bytes of one share": ("constant 256 : index", "constant 128 : index"),
    "a mask of one block": ("constant 3 : i16", "constant 1 : i16"),
    "a mask of three": ("constant 3 : i16", "constant 7 : i16"),
    "no meeting first": (r"nvvm.cluster.arrive\n *nvvm.cluster.wait(\n *%)", r"gpu.barrier\1"),
    "no meeting last": (r"nvvm.cluster.arrive\n *nvvm.cluster.wait(\n *return)", r"gpu.barrier\1"),
    "no fence": ("nvvm.fence.mbarrier.init", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_what_is_left_out_of_the_result_is_found(name):
    module = HALVES.parsed()
    pipeline(module, check="none")
    wrong, changed = re.subn(*MUTANTS[name], str(module))
    assert changed
    assert check_text(wrong).unsafe
    assert any(HALVES.wrong(parse(wrong), completion) for completion in machine.COMPLETIONS)


def test_the_cluster_goes_to_machine_code():
    module = parse(HALVES.kernel())
    pipeline(module, check="error", target="nvvm:sm_90a")
    ptx = lower(module, target="nvvm:sm_90a").text
    assert ".reqnctapercluster 2, 1, 1" in ptx
    assert ptx.count("multicast::cluster") == 3
    assert ptx.count("barrier.cluster.arrive") == ptx.count("barrier.cluster.wait") == 2
    assert "mbarrier.arrive.shared::cluster.b64" in ptx


PING_PONG = 'async_pipe.roles = "ping-pong"'
REFUSALS = {
    "two groups in turn": (replace(HALVES, annotations=PING_PONG), "roles-unsupported"),
    "no size": (
        replace(HALVES, changes=((", gpu.known_cluster_size = array<i32: 2, 1, 1>", ""),)),
        "cluster-unsupported",
    ),
    "a mask beyond the cluster": (
        replace(HALVES, mask="%mask = arith.constant 5 : i16"),
        "cluster-unsupported",
    ),
    "a mask that is not known": (
        replace(HALVES, mask="%mask = arith.index_cast %tiles : index to i16"),
        "cluster-unsupported",
    ),
    "a condition that is not known": (
        replace(HALVES, more="%also = arith.cmpi ne, %tiles, %c1 : index"),
        "cluster-unsupported",
    ),
    "the bytes of one share": (replace(HALVES, announced=128), "transaction-bytes"),
    "a meeting elsewhere": (
        replace(HALVES, changes=(("  memref.store %sum", f"  {MEET}\n  memref.store %sum"),)),
        "cluster-unsupported",
    ),
    "a meeting that may order writes": (
        replace(
            HALVES,
            changes=(
                ("    gpu.barrier\n", "    memref.store %v, %out[%row, %t] : memref<2x64xf32>\n"),
            ),
        ),
        "cluster-unsupported",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused_stays_as_it_was(name):
    loop, code = REFUSALS[name]
    module = loop.parsed()
    before = str(module)
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(module, check="none")
    assert refused.value.code == code
    assert refused.value.diagnostic.place.line > 0
    assert str(module) == before


BY_ROW = "%of_block = gpu.cluster_block_id x"
FOLLOWED = {
    "no size": ("give the kernel a known_cluster_size", HALVES),
    "a mask beyond the cluster": ("let bit n of the mask stand for the block of rank n", HALVES),
    "a mask that is not known": (
        "make masks",
        replace(
            ISSUED_BY_ONE,
            mask=f"{BY_ROW}\n%mask_ = arith.constant 3 : index\n"
            "%mask = arith.index_cast %mask_ : index to i16",
        ),
    ),
    "a condition that is not known": (
        "gpu.cluster_block_id",
        replace(ISSUED_BY_ONE, more=f"{BY_ROW}\n%also = arith.cmpi ne, %of_block, %c1 : index"),
    ),
    "a meeting elsewhere": ("at the end of the kernel", replace(HALVES, meets_last=MEET)),
    "a meeting that may order writes": ("that writes no memory", HALVES),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_who_follows_the_advice_on_clusters_gets_a_pipeline(name):
    words, mended = FOLLOWED[name]
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(REFUSALS[name][0].parsed(), check="none")
    assert any(words in note.message for note in refused.value.diagnostic.notes)
    module = mended.parsed()
    pipeline(module, check="error")
    assert mended.wrong(module, "late") == []
