"""Copies that thread 0 issues are issued by an elected thread where it is as good, and else stay.

The checker elects the last lane of a warp, never thread 0: what it proves holds whoever is picked.

Covers: lowering/nvvm/elected_copies.py, facts/values/uniformity.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe import check, lower
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import constant_value, defining_op, walk
from mlir_async_pipe.facts.values.uniformity import conjunction
from mlir_async_pipe.lowering.nvvm.elected_copies import elect_copies

WG = "#gpu.address_space<workgroup>"
BARS = f"!nvgpu.mbarrier.group<memorySpace = {WG}>"
TILE = f"memref<64xf32, {WG}>"
MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>"
)
LOAD = f"""nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : {BARS}
nvgpu.tma.async.load %in[%x], %full[%c0] to %tile, predicate = %first : {MAP}, {BARS} -> {TILE}
"""
ONE_WAIT = f"nvgpu.mbarrier.try_wait.parity %full[%c0], %off, %ticks : {BARS}\n"
STORE = f"nvgpu.tma.async.store %tile to %out[%x], predicate = %first : {TILE} -> {MAP}\n"
COMMIT = "nvvm.cp.async.bulk.commit.group\n"
WAIT = "nvvm.cp.async.bulk.wait_group 0 {read}\n"
BARRIER = "gpu.barrier\n"
LOADED = f"{BARRIER}{LOAD}{ONE_WAIT}"
STORED = f"{BARRIER}{STORE}{COMMIT}{WAIT}"


def kernel(
    body: str, threads: str = "64, 1, 1", first: str = "arith.cmpi ult, %t, %c1 : index"
) -> str:
    """Thread 0 initialises an mbarrier; then the body."""
    return f"""
gpu.module @kernels {{
  gpu.func @one(%in_: !llvm.ptr, %out_: !llvm.ptr, %x: index, %c: i1, %from: memref<4xindex>)
      workgroup(%tile: {TILE}) kernel attributes {{known_block_size = array<i32: {threads}>}} {{
    %in = builtin.unrealized_conversion_cast %in_ : !llvm.ptr to {MAP}
    %out = builtin.unrealized_conversion_cast %out_ : !llvm.ptr to {MAP}
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %bytes = arith.constant 256 : index
    %ticks = arith.constant 1000 : index
    %off = arith.constant false
    %t = gpu.thread_id x
    %y = gpu.thread_id y
    %first = {first}
    %second = arith.cmpi eq, %t, %c1 : index
    %near = arith.cmpi ult, %t, %c4 : index
    %full = nvgpu.mbarrier.create -> {BARS}
    nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : {BARS}
    nvvm.fence.mbarrier.init
    {body}
    gpu.return
  }}
}}"""


def stepped(text: str) -> ir.Module:
    """The module after the step."""
    module = ir.Module.parse(text)
    for op in walk(module):
        if op.name == "gpu.module":
            elect_copies(op)
    assert module.operation.verify()
    return module


def elected(text: str) -> list[str]:
    """The names of the ops that an elected thread of warp 0 issues after the step, in their order."""
    with new_context():
        module = stepped(text)
        return [op.name for op in walk(module) if len(op.operands) and _is_elected(op)]


def _is_elected(op: ir.Operation) -> bool:
    predicate = op.operands[len(op.operands) - 1]
    if not op.name.startswith("nvgpu.") or str(predicate.type) != "i1":
        return False
    made = [found for part in conjunction(predicate) if (found := defining_op(part)) is not None]
    warps = [op.operands[1] for op in made if op.name == "arith.cmpi"]
    picked = any(op.name == "nvvm.elect.sync" for op in made)
    assert not picked or 32 in map(constant_value, warps)
    return picked


def is_safe(module: ir.Module) -> bool:
    return all((found.unsafe, found.unknown) == (0, 0) for found in check(module).of("checks"))


EXPECT, COPY, SENT = (
    "nvgpu.mbarrier.arrive.expect_tx",
    "nvgpu.tma.async.load",
    "nvgpu.tma.async.store",
)
IN_LOOP = "scf.for %i = %c0 to %x step %c1 {{\n{}}}\n"
ALL = (EXPECT, COPY)
WITH = "predicate = %first"
WRITTEN = "memref.store %x, %from[%c0] : memref<4xindex>\n"


@pytest.mark.parametrize(
    ("body", "issued"),
    [
        (LOADED, ALL),
        (f"{BARRIER}nvvm.fence.mbarrier.init\n{LOAD}", ALL),
        (f"{BARRIER}%b = arith.andi %first, %c : i1\n" + LOAD.replace(WITH, "predicate = %b"), ALL),
        (f"{BARRIER}{LOAD}{LOAD}", ALL * 2),
        (f"{LOADED}{BARRIER}{LOAD}", ALL * 2),
        (BARRIER + IN_LOOP.format(f"{LOAD}{ONE_WAIT}{BARRIER}"), ALL),
        (IN_LOOP.format(f"{LOADED}"), ALL),
        (f"{BARRIER}scf.if %c {{\n{LOAD}}}\n", ALL),
        (f"{BARRIER}scf.if %c {{\n}}\n{LOAD}", ALL),
        (STORED, (SENT,)),
        (f"{STORED}{BARRIER}{WRITTEN}", (SENT,)),
        (IN_LOOP.format(f"{STORED}{BARRIER}"), (SENT,)),
        # The copy goes where its operands do; what announces it elsewhere stays with thread 0.
        (f"{LOAD.splitlines()[0]}\n{BARRIER}{LOAD.splitlines()[1]}", (COPY,)),
    ],
)
def test_any_thread_may_issue(body: str, issued: tuple[str, ...]) -> None:
    assert elected(kernel(body)) == list(issued)


@pytest.mark.parametrize(
    "body",
    [
        # Thread 0 may not have initialised the mbarrier yet.
        LOAD,
        # What precedes the copy in thread 0 precedes it in no other thread.
        f"{BARRIER}{WRITTEN}{LOAD}",
        f"{BARRIER}%n = memref.load %from[%c0] : memref<4xindex>\n{LOAD}",
        f"{BARRIER}{ONE_WAIT}{LOAD}",
        IN_LOOP.format(f"{LOAD}{ONE_WAIT}{BARRIER}"),
        BARRIER + IN_LOOP.format(f"{LOAD}{ONE_WAIT}"),
        BARRIER + IN_LOOP.format(f"{BARRIER}{ONE_WAIT}") + LOAD,
        # Lanes that wait for the copy would not come to where a thread is elected.
        f"{BARRIER}%no = arith.cmpi ne, %t, %c0 : index\nscf.if %no {{\n{ONE_WAIT}}}\n{LOAD}",
        # Not all threads come there.
        f"{BARRIER}scf.if %near {{\n{LOAD}}}\n",
        f"{BARRIER}scf.if %first {{\n{LOAD}}}\n",
        f"scf.for %i = %c0 to %t step %c1 {{\n{LOADED}}}\n",
        # Thread 0 means something else than others would.
        BARRIER + LOAD.splitlines()[1].replace("[%x]", "[%t]"),
        f"%n = memref.load %from[%c0] : memref<4xindex>\n{BARRIER}"
        + LOAD.splitlines()[1].replace("[%x]", "[%n]"),
        "%b = arith.andi %first, %near : i1\n" + LOADED.replace(WITH, "predicate = %b"),
        # It is not thread 0 alone.
        LOADED.replace(WITH, "predicate = %second"),
        LOADED.replace(WITH, "predicate = %near"),
        LOADED.replace(WITH, "predicate = %c"),
        # Nothing is copied.
        BARRIER + LOAD.splitlines()[0],
        # The thread that stores has to wait for it, and the others for that.
        f"{BARRIER}{STORE}scf.if %first {{\n{COMMIT}{WAIT}}}\n",
        f"{BARRIER}{STORE}{COMMIT}scf.if %first {{\n{WAIT}}}\n",
        f"{STORED}{WRITTEN}",
        f"{STORED}{WRITTEN}{BARRIER}",
        IN_LOOP.format(STORED),
    ],
)
def test_thread_0_goes_on_issuing(body: str) -> None:
    assert elected(kernel(body)) == []


@pytest.mark.parametrize("threads", ["48, 1, 1", "32, 2, 1", "32, 1, 2", "16, 1, 1"])
def test_blocks_that_are_not_whole_warps_along_x(threads: str) -> None:
    assert elected(kernel(LOADED, threads)) == []
    assert elected(kernel(LOADED)) == list(ALL)


def test_a_block_of_unknown_size() -> None:
    text = kernel(LOADED)
    assert elected(text.replace("known_block_size", "any_size")) == []


@pytest.mark.parametrize(
    ("first", "is_it"),
    [("arith.cmpi eq, %c0, %t : index", True), ("arith.cmpi eq, %y, %c0 : index", False)],
)
def test_how_thread_0_is_compared(first: str, is_it: bool) -> None:
    assert bool(elected(kernel(LOADED, first=first))) == is_it


def test_what_issues_together_is_issued_by_one_thread() -> None:
    with new_context():
        text = str(stepped(kernel(f"{BARRIER}{LOAD}{LOAD.replace(WITH, 'predicate = %first')}")))
    assert text.count("nvvm.elect.sync") == 1


@pytest.mark.parametrize(
    "body", [LOADED, IN_LOOP.format(STORED + BARRIER)], ids=["load", "stores in a loop"]
)
def test_it_is_proven_whichever_lane_is_elected(body: str) -> None:
    with new_context():
        before, after = ir.Module.parse(kernel(body)), stepped(kernel(body))
        assert "nvvm.elect.sync" in str(after)
        assert is_safe(before) and is_safe(after)


def test_without_the_barrier_another_lane_would_be_wrong() -> None:
    """Thread 0 needs none between its mbarrier and its copy; an elected thread does."""
    with new_context():
        after = str(stepped(kernel(LOADED)))
        assert not is_safe(ir.Module.parse(after.replace("gpu.barrier", "", 1)))


def test_a_condition_made_of_itself_again_and_again() -> None:
    lines = [f"%b{n + 1} = arith.andi %b{n}, %b{n} : i1" for n in range(60)]
    body = "%b0 = arith.andi %first, %c : i1\n" + "\n".join(lines)
    assert elected(kernel(f"{body}\n{LOADED.replace(WITH, 'predicate = %b60')}")) == list(ALL)


def test_the_code_that_is_emitted() -> None:
    with new_context():
        ptx = lower(ir.Module.parse(kernel(LOADED)), target="nvvm:sm_90a", emit="ptx").text
    assert ptx.count("elect.sync") == 1
    assert ptx.index("bar.sync") < ptx.index("elect.sync") < ptx.index("expect_tx")
