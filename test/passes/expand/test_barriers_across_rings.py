"""Accesses outside of a loop of tensor copies that only its barriers order stay ordered, whoever copies; where nothing
needs that, no barrier is written.

Covers: pipeliner/plan/ring_barriers.py, checker/without_copies.py, pipeliner/plan/ring_plan.py, pipeliner/dependence/surroundings.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers.cluster_loops import ClusterLoop
from helpers.hopper_gemms import HopperGemm
from helpers.machine_programs import parse
from helpers.tensor_loops import Box, TensorLoop
from helpers.tensor_memory_kernels import BlackwellGemm
from mlir_async_pipe import check, machine, pipeline
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session.diagnostics import PipelineError

TILES = (Box(64, 64, "swizzle_128b"),) * 2
LOOP = TensorLoop(TILES, reader="products", trips=2, static=True)
STORE = "memref.store %one, %P[%t] : memref<128xf32>"
LOAD = """%seen = memref.load %P[%other] : memref<128xf32>
memref.store %seen, %Q[%t] : memref<128xf32>"""
BARRIER = "gpu.barrier"
IN_LOOP = "%read = memref.load %P[%other] : memref<128xf32>"
# What stands before the loop, in it before its last barrier, and after it.
ORDERED = {
    "store, loop, load": (STORE, "", LOAD),
    "load, loop, store": (LOAD, "", STORE),
    "store, load in the loop": (STORE, f"{BARRIER}\n{IN_LOOP}", ""),
    "load in the loop, store": ("", IN_LOOP, STORE),
}
FREE = {
    "nothing": ("", "", ""),
    "a store before": (STORE, "", ""),
    "loads": (LOAD, IN_LOOP, ""),
    "other memory": (STORE, "", LOAD.replace("%P", "%O")),
    "a barrier of its own": (STORE, "", f"{BARRIER}\n{LOAD}"),
    "what the same thread stored": (STORE, "", LOAD.replace("%other", "%t")),
}
# In rounds: each stores to places of its own threads, or of others than the round before.
ANOTHER = """%turned = arith.addi %t, %e : index
%place = arith.remui %turned, %i128 : index
memref.store %one, %P[%place] : memref<128xf32>"""
ROUNDS = {"after the loop": ("", "", ANOTHER), "before the loop": (ANOTHER, "", "")}
FREE_ROUNDS = {
    "places of its threads": ("", "", STORE),
    "rows of rounds": ("", "", "memref.store %one, %R[%e, %other] : memref<3x128xf32>"),
    "nothing": ("", "", ""),
}
FORMS = {
    "copies spread": {},
    "copies first": {"issue": "first"},
    "copies last": {"issue": "last"},
    "warps of their own": {"roles": "specialised"},
}


ARRAYS = dict.fromkeys("PQO", "memref<128xf32>") | {"R": "memref<3x128xf32>"}


def accesses_around(loop: TensorLoop, case: tuple[str, str, str], fence: str = "") -> str:
    """The loop with the accesses of a case; its last barrier orders `fence` alone."""
    arrays = ", ".join(f"%{name}: {kind} {{llvm.noalias}}" for name, kind in ARRAYS.items())
    made = """%t = gpu.thread_id x
%last = arith.constant 127 : index
%one = arith.constant 1.0 : f32
%other = arith.subi %last, %t : index"""
    text = loop.text().replace("%out: memref", f"{arrays}, %out: memref", 1)
    lines = text.replace("%t = gpu.thread_id x", made, 1).split("\n")
    begin = next(n for n, line in enumerate(lines) if line.startswith("%r:3 = scf.for"))
    end = next(n for n, line in enumerate(lines) if line.startswith("} {async_pipe"))
    barrier = max(n for n, line in enumerate(lines[:end]) if line == BARRIER)
    lines[barrier] = f"{BARRIER} {fence}"
    before, inside, after = case
    lines[end + 1 : end + 1] = [after]
    lines[barrier:barrier] = [inside]
    lines[begin:begin] = [before]
    return "\n".join(lines)


def is_proven(module: Any) -> bool:
    (checks,) = check(module).of("checks")
    return (checks.unsafe, checks.unknown) == (0, 0)


def barriers(module: Any) -> Iterator[Any]:
    """Those after the mbarriers were initialised."""
    found = [op for op in walk(module.operation) if op.name in ("gpu.barrier", "nvvm.barrier")]
    yield from found[1:]


def races(module: Any, loop: TensorLoop) -> bool:
    given = loop.arguments()
    arrays = [np.full(128, n, np.float32) for n in (2, 3, 4)] + [np.zeros((3, 128), np.float32)]
    threads = int(re.search(r"known_block_size = array<i32: (\d+)", str(module))[1])
    arguments = [*given[:2], *arrays, *given[2:]]
    return any(
        machine.run(module, None, arguments, threads=threads, completion=order).races
        for order in ("late", "eager")
    )


def stays_ordered(loop: TensorLoop, case: tuple[str, str, str]) -> None:
    """By barriers without which the result races."""
    with new_context():
        module = parse(accesses_around(loop, case))
        assert is_proven(module) and not races(module, loop)
        pipeline(module, target="nvvm:sm_90a", check="none")
        assert is_proven(module) and not races(module, loop)
        for op in barriers(module):
            op.erase()
        assert not is_proven(module) and races(module, loop)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ORDERED)
def test_what_only_the_loops_barriers_ordered_stays_ordered(name: str, form: str) -> None:
    loop = replace(LOOP, **FORMS[form])
    stays_ordered(loop, ORDERED[name])


@pytest.mark.parametrize("name", FREE)
def test_no_barrier_is_written_for_nothing(name: str) -> None:
    loop = replace(LOOP, roles="specialised")
    with new_context():
        module = parse(accesses_around(loop, FREE[name]))
        pipeline(module, target="nvvm:sm_90a", check="none")
        assert len([*barriers(module)]) == "".join(FREE[name]).count(BARRIER)
        assert is_proven(module)


def test_barriers_that_do_not_order_global_memory_are_no_reason() -> None:
    loop, fence = replace(LOOP, roles="specialised"), "memfence [#gpu.address_space<workgroup>]"
    with new_context():
        module = parse(accesses_around(loop, ORDERED["store, loop, load"], fence))
        pipeline(module, target="nvvm:sm_90a", check="none")
        assert not [*barriers(module)]


def test_the_one_barrier_that_stays_orders_what_all_of_them_did() -> None:
    case, fence = (STORE, BARRIER, LOAD), "memfence [#gpu.address_space<workgroup>]"
    with new_context():
        module = parse(accesses_around(LOOP, case, fence))
        assert is_proven(module)
        pipeline(module, target="nvvm:sm_90a", check="none")
        assert is_proven(module) and len([*barriers(module)]) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_that_store_to_places_of_others_meet_in_between(name: str, form: str) -> None:
    loop = replace(LOOP, executions=3, **FORMS[form])
    stays_ordered(loop, ROUNDS[name])


@pytest.mark.parametrize("name", FREE_ROUNDS)
def test_rounds_that_store_to_places_of_their_own_need_no_barrier(name: str) -> None:
    loop = replace(LOOP, executions=3, roles="specialised")
    with new_context():
        module = parse(accesses_around(loop, FREE_ROUNDS[name]))
        pipeline(module, target="nvvm:sm_90a", check="none")
        assert not [*barriers(module)]
        assert is_proven(module) and not races(module, loop)


# Kernels of others: blocks of a cluster, two groups in turn, products in tensor memory ------------


CLUSTER = ClusterLoop().text()
BLACKWELL = BlackwellGemm(tile_n=32, stages=2, roles="specialised").module()
TURNS = HopperGemm(tile_n=64, warpgroups=2, stages=2).module()
AFTER_LOOP = f"{BARRIER}\n{LOAD}"


def around(text: str, threads: int, after: str) -> str:
    """A kernel with a store to workgroup memory before its annotated loop, and what stands `after` it: there, each
    thread loads what another one stored."""
    array = f"memref<{threads}xf32, #gpu.address_space<workgroup>>"
    before = f"""%P = memref.get_global @there : {array}
%number = gpu.thread_id x
%end = arith.constant {threads - 1} : index
%another = arith.subi %end, %number : index
%one = arith.constant 1.0 : f32
memref.store %one, %P[%number] : {array}"""
    after = after.replace(
        LOAD,
        f"%seen = memref.load %P[%another] : {array}\nmemref.store %seen, %P[%another] : {array}",
    )
    lines = text.split("\n")
    begin = max(n for n, line in enumerate(lines) if "= scf.for " in line)
    end = next(n for n, line in enumerate(lines) if "async_pipe.num_stages" in line)
    lines[end + 1 : end + 1] = [after]
    lines[begin:begin] = [before]
    function = next(n for n, line in enumerate(lines) if re.match(r" *(gpu|func)\.func ", line))
    lines[function:function] = [f'memref.global "private" @there : {array}']
    return "\n".join(lines)


def in_loops(text: str, target: str, roles: str = "") -> int:
    """The barriers in loops of the result."""
    module = parse(text)
    options = {"roles": roles} if roles else {}
    pipeline(module, target=target, check="none", **options)
    return sum(
        op.name in ("gpu.barrier", "nvvm.barrier")
        for loop in walk(module.operation)
        if loop.name == "scf.for"
        for op in walk(loop)
    )


@pytest.mark.parametrize(
    ("text", "threads", "target", "roles"),
    [(CLUSTER, 64, "nvvm:sm_90a", ""), (TURNS, 256, "nvvm:sm_90a", "alternating")],
    ids=["blocks of a cluster", "two groups in turn"],
)
def test_the_threads_of_the_input_meet_in_the_loop(
    text: str, threads: int, target: str, roles: str
) -> None:
    with new_context():
        free = in_loops(around(text, threads, AFTER_LOOP), target, roles)
        assert free == in_loops(text, target, roles)
        assert in_loops(around(text, threads, LOAD), target, roles) == free + 1


@pytest.mark.parametrize(
    ("text", "threads", "target", "why"),
    [
        (BLACKWELL, 128, "nvvm:sm_100a", "may need this barrier, at which nobody would meet"),
        (CLUSTER.replace(f"    {BARRIER}\n", ""), 64, "nvvm:sm_90a", "this meeting, which the pipeline"),
    ],
    ids=["products in tensor memory", "blocks of a cluster"],
)  # fmt: skip
def test_where_no_barrier_can_stay_it_is_refused_and_the_advice_helps(
    text: str, threads: int, target: str, why: str
) -> None:
    with new_context():
        with pytest.raises(PipelineError, match=why) as caught:
            in_loops(around(text, threads, LOAD), target)
        advice = "'gpu.barrier' after the loop"
        assert advice in str(caught.value)
        module = parse(around(text, threads, AFTER_LOOP))
        pipeline(module, target=target, check="none")
        assert is_proven(module)
