"""Loops of products in tensor memory: slots, mbarriers that say when products are over, and what is
refused.

Covers: facts/loops/transactions.py, pipeliner/expand/write/write_ring.py,
pipeliner/plan/mbarrier_setup.py, pipeliner/plan/tensor_tiles.py
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from helpers.machine_programs import parse
from helpers.tensor_memory_kernels import BlackwellGemm, run_gemm
from mlir_async_pipe import pipeline
from mlir_async_pipe.session.diagnostics import AsyncPipeError

SMALL = BlackwellGemm(tile_n=32)
MOODS = [("eager", "lockstep"), ("late", "forward"), ("random", "random")]


def text_of(gemm: BlackwellGemm, issue: str = "auto") -> str:
    note = f'async_pipe.issue = "{issue}", async_pipe.num_stages'
    return gemm.module().replace(
        "async_pipe.num_stages", note if issue != "auto" else "async_pipe.num_stages"
    )


def pipelined(gemm: BlackwellGemm, issue: str = "auto"):
    module = parse(text_of(gemm, issue))
    return module, pipeline(module, check="none")


@pytest.mark.parametrize(
    ("gemm", "issue", "slots"),
    [
        # d + p with the copies last, d + p + 1 with the copies first; p is 1 if nothing is said.
        (replace(SMALL, stages=2), "auto", 2),
        (replace(SMALL, stages=4), "auto", 4),
        (replace(SMALL, stages=3, in_flight=0), "auto", 3),
        (replace(SMALL, stages=3, in_flight=0), "last", 2),
        (replace(SMALL, stages=3, in_flight=2), "auto", 4),
        (replace(SMALL, stages=3), "first", 4),
        (replace(SMALL, stages=2, in_flight=3), "first", 5),
    ],
)
def test_each_slot_has_an_mbarrier_for_its_copies_and_one_for_its_products(gemm, issue, slots):
    module, report = pipelined(gemm, issue)
    (record,) = report.of("loops")
    assert {buffer.versions for buffer in record.buffers} == {slots}
    text = str(module)
    assert len(re.findall(rf"mbarrier.create -> .*num_barriers = {slots}>", text)) == 2
    # One for each product in flight after the loop.
    left = 1 if gemm.in_flight is None else gemm.in_flight
    after = text[text.index("scf.yield", text.index("tcgen05.commit")) :]
    assert after.count("try_wait.parity") == left
    for trips in (0, 1, slots, 2 * slots + 1):
        for completion, schedule in MOODS:
            right, result = run_gemm(
                module, gemm, trips * gemm.line, completion=completion, schedule=schedule
            )
            assert right
            assert result.races == ()


def test_phases_of_products_go_on_in_the_next_tile():
    gemm = replace(SMALL, persistent=True, in_flight=2)
    module, _ = pipelined(gemm)
    for k in (gemm.line, 5 * gemm.line):
        for completion, schedule in MOODS:
            right, result = run_gemm(
                module, gemm, k, tiles=(3, 1), grid=1, completion=completion, schedule=schedule
            )
            assert right
            assert result.races == ()


def test_slots_are_overwritten_where_nobody_waits_for_their_products():
    module, _ = pipelined(replace(SMALL, stages=3))
    text = str(module)
    # The kernel waits for no product at all.
    wait = re.search(r"try_wait.parity (%\w+)\[(%\w+)\], (%\w+)(?=.*\n\s+gpu.barrier)", text)
    assert wait is not None
    line = text[text.rindex("\n", 0, wait.start()) : text.index("\n", wait.end())]
    changed = text.replace(line, "")
    found = set()
    for completion, schedule in MOODS:
        _, result = run_gemm(
            parse(changed), SMALL, 6 * SMALL.line, completion=completion, schedule=schedule
        )
        found |= result.race_codes
    assert "source-overwritten" in found


def test_a_loop_that_loads_what_it_adds_up_leaves_no_product_in_flight():
    text = SMALL.module().replace(
        "%flip =",
        "nvvm.tcgen05.fence <before>\n%seen = nvvm.tcgen05.ld %sums {shape = "
        "#nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<2xi32>\nnvvm.tcgen05.wait <load>\n%flip =",
    )
    module = parse(text)
    (record,) = pipeline(module, check="none").of("loops")
    assert {buffer.versions for buffer in record.buffers} == {3}
    asked = text.replace("num_stages = 3", "in_flight = 1 : i64, async_pipe.num_stages = 3")
    with pytest.raises(AsyncPipeError) as raised:
        pipeline(parse(asked))
    assert raised.value.code == "products-in-use"


REFUSED = {
    "no wait": (r"\n *nvgpu.mbarrier.try_wait.parity %done.*", "", "commit-incomplete"),
    "a number that varies": (
        r"nvgpu.mbarrier.get %done\[%c0\]",
        r"nvgpu.mbarrier.get %done[%k]",
        "commit-incomplete",
    ),
    "twice": (r"(nvvm.tcgen05.commit .*)", r"\1\n\1", "commit-incomplete"),
    "in a loop": (
        r"(nvvm.tcgen05.commit .*)",
        r"scf.for %again = %c0 to %c1 step %c1 {\n\1\n}",
        "commit-incomplete",
    ),
    "two arrivals": (r"%done\[%c0\], %c1,", "%done[%c0], %c32,", "transaction-incomplete"),
    "used elsewhere": (
        r"nvvm.tcgen05.fence <after>\n",
        "nvgpu.mbarrier.try_wait.parity %done[%c0], %false, %c0 : "
        "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>\n",
        "mbarrier-shared",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_moved_is_refused_where_it_stands(name):
    pattern, other, code = REFUSED[name]
    text = re.sub(pattern, other, SMALL.module(), count=1)
    assert text != SMALL.module()
    with pytest.raises(AsyncPipeError) as raised:
        pipeline(parse(text))
    assert raised.value.code == code
    assert raised.value.diagnostic.place.line > 0
