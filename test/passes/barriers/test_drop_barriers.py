"""Barriers that no two threads need go, and of what is left none can go.

Covers: pipeliner/ask_checker/needed_barriers.py, checker/effects.py
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from helpers.fewest_barriers import barriers, fewest, is_proven
from helpers.machine_programs import parse
from helpers.paths import ROOT
from helpers.tensor_kernels import Ring
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import enclosing, walk
from mlir_async_pipe.checker.kernel import check_kernel, surroundings
from mlir_async_pipe.checker.selection import kernels
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

BLOCK = "known_block_size = array<i32: 4, 1, 1>"
KERNEL = """
#wg = #gpu.address_space<workgroup>
gpu.module @m {
gpu.func @k(%A : memref<64xf32> {llvm.noalias}, %C : memref<64xf32> {llvm.noalias})
    workgroup(%S : memref<4xf32, #wg>, %T : memref<4xf32, #wg>, %N : memref<4xi32, #wg>)
    KIND attributes {BLOCK} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %one = arith.constant 1 : i32
  %m = arith.constant 1.0 : f32
  %tid = gpu.thread_id x
  %other = arith.subi %c3, %tid : index
  %low = arith.cmpi ult, %tid, %c2 : index
  %v = memref.load %A[%tid] : memref<64xf32>
  BODY
  gpu.return
}
}
"""
BARRIER = "gpu.barrier"


def store(buffer: str = "S", at: str = "tid") -> str:
    """The thread's number into a buffer."""
    return f"memref.store %v, %{buffer}[%{at}] : memref<4xf32, #wg>"


def read(number: int, buffer: str = "S", at: str = "tid") -> str:
    """A load from a buffer, and where it can be seen from outside."""
    return (
        f"%r{number} = memref.load %{buffer}[%{at}] : memref<4xf32, #wg>\n"
        f"memref.store %r{number}, %C[%tid] : memref<64xf32>"
    )


def module_of(lines: list[str], block: str = BLOCK, kind: str = "kernel") -> Any:
    text = KERNEL.replace("BODY", "\n  ".join(lines)).replace("BLOCK", block)
    return ir.Module.parse(text.replace("KIND", kind))


def dropped(module: Any, **options: Any) -> int:
    """How many barriers the pass drops; each has a remark at its place."""
    found, session = passes.find("async-pipe-drop-barriers"), Session()
    before = len(barriers(module))
    found.run(module.operation, found.options(**options), session)
    report = session.report()
    remarks = [entry for entry in report.diagnostics if entry.code == "needless-barrier"]
    assert len(remarks) == len(report.of("needless")) == before - len(barriers(module))
    return len(remarks)


@pytest.mark.parametrize(
    ("lines", "gone", "left"),
    [
        ([store(), BARRIER, read(1)], 1, 0),
        ([store(), BARRIER, read(1, at="other")], 0, 1),
        ([store(), BARRIER, BARRIER, read(1, at="other")], 1, 1),
        ([BARRIER, store(), BARRIER, read(1, at="other"), BARRIER], 2, 1),
        ([store(), BARRIER, read(1, at="other"), BARRIER, store()], 0, 2),
        ([store(), BARRIER, read(1, at="other"), BARRIER, store("T")], 1, 1),
        # One barrier does for both buffers.
        ([store(), BARRIER, store("T"), BARRIER, read(1, at="other"), read(2, "T", "other")], 1, 1),
    ],
)
def test_straight_code(lines: list[str], gone: int, left: int) -> None:
    with new_context():
        module = module_of(lines)
        assert dropped(module) == gone
        assert len(barriers(module)) == left == fewest(module)
        assert is_proven(module)
        assert dropped(module) == 0


LOOP = "scf.for %i = %c0 to %c3 step %c1 {"


@pytest.mark.parametrize(
    ("lines", "left_in_loop", "left_after"),
    [
        ([LOOP, store(), BARRIER, read(1), BARRIER, "}"], 0, 0),
        ([LOOP, store(), BARRIER, read(1, at="other"), BARRIER, "}"], 2, 0),
        ([LOOP, BARRIER, store(), "}", BARRIER, read(1, at="other")], 0, 1),
        # Either of two is enough: that of the loop goes, where it would run more often.
        ([store(), LOOP, BARRIER, read(1), "}", BARRIER, read(2, at="other")], 0, 1),
        ([LOOP, read(1), "}", store(), LOOP.replace("%i", "%j"), BARRIER, "}", BARRIER,
          read(2, at="other")], 0, 1),
        ([LOOP, store(), "}", BARRIER, LOOP.replace("%i", "%j"), read(1, at="other"), "}"], 0, 1),
    ],
)  # fmt: skip
def test_loops(lines: list[str], left_in_loop: int, left_after: int) -> None:
    with new_context():
        module = module_of(lines)
        dropped(module)
        inside = [op for op in barriers(module) if enclosing(op, ("scf.for",))]
        assert len(inside) == left_in_loop
        assert len(barriers(module)) == left_in_loop + left_after == fewest(module)


ATOMIC = "%o{n} = memref.atomic_rmw addi %one, %N[%c0] : (i32, memref<4xi32, #wg>) -> i32"


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        # Adds do not race, but what each of them sees depends on their order.
        ([ATOMIC.format(n=1), BARRIER, ATOMIC.format(n=2)], {}),
        # The kernel is not safe as it is: nobody knows what its barriers are for.
        ([store(), read(1, at="other"), BARRIER, store("T"), BARRIER, read(2, "T")], {}),
        # Which threads come is not the same everywhere.
        (["scf.if %low {", store(), BARRIER, read(1), "}"], {}),
        ([store(), BARRIER, read(1)], {"kind": ""}),
        # Two threads may have one x, and a block of unknown size any shape.
        ([store(), BARRIER, read(1)], {"block": BLOCK.replace("4, 1, 1", "4, 2, 1")}),
        ([store(), BARRIER, read(1)], {"block": ""}),
        (
            [
                '"nobody.knows"() ({ "nobody.ends"() : () -> () }) : () -> ()',
                store(),
                BARRIER,
                read(1),
            ],
            {},
        ),
    ],
)
def test_barriers_that_stay(lines: list[str], options: dict[str, str]) -> None:
    with new_context() as context:
        context.allow_unregistered_dialects = True
        assert dropped(module_of(lines, **options)) == 0


LLVM = """
llvm.func @k(%p: !llvm.ptr<1>) attributes {{nvvm.kernel, known_block_size = array<i32: 32, 1, 1>}} {{
  %one = llvm.mlir.constant(1 : i32) : i32
  {what}
  nvvm.barrier
  {what}
  llvm.return
}}
llvm.func @unknown()
llvm.func @known() {{
  llvm.return
}}
"""


@pytest.mark.parametrize(
    ("what", "gone"),
    [
        ("llvm.call @known() : () -> ()", 1),
        ("llvm.call @unknown() : () -> ()", 0),
        ('llvm.fence syncscope("device") seq_cst', 0),
        ("llvm.atomicrmw add %p, %one monotonic : !llvm.ptr<1>, i32", 0),
        ('llvm.inline_asm has_side_effects "red [$0], 1;", "l" %p : (!llvm.ptr<1>) -> ()', 0),
        ('llvm.call_intrinsic "llvm.nvvm.membar.gl"() : () -> ()', 0),
    ],
)
def test_what_nobody_knows_may_need_the_barrier(what: str, gone: int) -> None:
    with new_context():
        module = ir.Module.parse(LLVM.format(what=what))
        found, session = passes.find("async-pipe-drop-barriers"), Session()
        found.run(module.operation, found.options(), session)
        assert len(session.report().of("needless")) == gone
        assert str(module).count("nvvm.barrier") == 1 - gone


def test_an_mbarrier_keeps_the_barriers_of_its_kernel() -> None:
    init = """%b = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = #wg>
  nvgpu.mbarrier.init %b[%c0], %c1 : !nvgpu.mbarrier.group<memorySpace = #wg>"""
    arrive = (
        "%k = nvgpu.mbarrier.arrive %b[%c0] : !nvgpu.mbarrier.group<memorySpace = #wg> "
        "-> !nvgpu.mbarrier.token"
    )
    with new_context():
        assert dropped(module_of([init, BARRIER, arrive])) == 0
        assert dropped(module_of([store(), BARRIER, read(1)])) == 1


RINGS = (Ring(), Ring(reader="products"), Ring(specialised=True))


@pytest.mark.parametrize("ring", RINGS)
def test_what_stops_early_proves_nothing_that_the_whole_check_does_not(ring: Ring) -> None:
    with new_context():
        text = str(parse(ring.text()))
        number = len(all_barriers(ir.Module.parse(text)))
        assert dropped(ir.Module.parse(text)) == 0
        for left_out in range(number + 1):
            module = ir.Module.parse(text)
            for op in all_barriers(module)[left_out : left_out + 1]:
                op.erase()
            (kernel,) = kernels(module.operation)
            around = surroundings(module.operation, [kernel])
            target = Target.parse("nvvm:sm_90a")
            whole, early = (
                check_kernel(kernel, around, target, until_found=stops) for stops in (False, True)
            )
            assert bool(early.findings) >= bool(whole.findings)


def all_barriers(module: Any) -> list[Any]:
    return [op for op in walk(module) if op.name in (BARRIER, "nvvm.barrier0", "nvvm.barrier")]


def test_trials_bound_the_work() -> None:
    lines = [store(), *[BARRIER] * 4, read(1, at="other")]
    with new_context():
        # All four, which cannot go; the first half, which can; one of the rest.
        assert [dropped(module_of(lines), trials=trials) for trials in (0, 1, 2, 9)] == [0, 0, 2, 3]


def test_a_copy_in_flight_crosses_barriers_that_go() -> None:
    copy = """%copy = nvgpu.device_async_copy %A[%tid], %S[%tid], 1 : memref<64xf32> to memref<4xf32, #wg>
  %g = nvgpu.device_async_create_group %copy"""
    wait = "nvgpu.device_async_wait %g {numGroups = 0 : i32}"
    with new_context():
        module = module_of([copy, BARRIER, wait, BARRIER, read(1, at="other")])
        assert dropped(module) == 1
        names = [op.name for op in walk(module)]
        assert names.index("nvgpu.device_async_wait") < names.index(BARRIER)


PIPELINED = """scf.for %i = %c0 to %c3 step %c1 {
    %at = arith.addi %i, %tid : index
    %copy = nvgpu.device_async_copy %A[%at], %S[%tid], 1 : memref<64xf32> to memref<4xf32, #wg>
    %g = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %g
    gpu.barrier
    %x = memref.load %S[%other] : memref<4xf32, #wg>
    memref.store %x, %C[%tid] : memref<64xf32>
    gpu.barrier
  } {async_pipe.num_stages = 2 : i64}"""


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        ([store("T"), BARRIER, read(1, "T")], [store("T"), BARRIER, read(2, "T")], 0),
        ([store("T"), BARRIER, read(1, "T", "other")], [], 1),
        ([], [LOOP, store("T"), BARRIER, read(1, "T"), "}"], 0),
    ],
)
def test_around_a_pipelined_loop(before: list[str], after: list[str], more: int) -> None:
    with new_context():
        alone, module = module_of([PIPELINED]), module_of([*before, PIPELINED, *after])
        for each in (alone, module):
            pipeline(each, "nvvm:sm_80")
        assert len(barriers(module)) == len(barriers(alone)) + more
        unproven = module_of([*before, PIPELINED, *after])
        pipeline(unproven, "nvvm:sm_80", check="none")
        assert len(barriers(unproven)) >= len(barriers(module)) + (not more)


def test_functions_in_which_nothing_is_pipelined_stay() -> None:
    with new_context():
        own = str(module_of([store(), BARRIER, read(1)])).replace("@k", "@plain")
        start, end = own.index("  gpu.func"), own.rindex("  }\n}")
        text = str(module_of([PIPELINED]))
        module = ir.Module.parse(text.replace("  gpu.func", own[start:end] + "  gpu.func", 1))
        pipeline(module, "nvvm:sm_80")
        (plain, _) = [op for op in walk(module) if op.name == "gpu.func"]
        assert len(barriers(plain)) == 1
        assert dropped(module) == 1


def random_lines(seed: int, loops: bool) -> list[str]:
    """Stores and loads with barriers wherever any could be needed, some of them in a loop."""
    chosen = random.Random(seed)
    lines = [store("S"), store("T"), BARRIER]
    for number in range(4):
        buffer, at = chosen.choice("ST"), chosen.choice(["tid", "tid", "other"])
        lines.append(store(buffer, at) if chosen.random() < 0.5 else read(number, buffer, at))
        lines.append(BARRIER)
    if loops:
        first = chosen.randrange(3, 8, 2)
        lines[first : first + 4] = [LOOP, *lines[first : first + 4], "}"]
    return lines


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_no_fewer_barriers_would_do(seed: int, loops: bool) -> None:
    """Exhaustive: of all subsets of the barriers that are proven, none is smaller; and what is
    left does the same on the machine, whoever runs first."""
    with new_context():
        module = module_of(random_lines(seed, loops))
        text = str(module)
        least = fewest(module)
        dropped(module)
        assert len(barriers(module)) == least
        data = np.arange(64, dtype=np.float32)
        given = ir.Module.parse(text)
        wanted = machine.run(given, "k", [data, np.zeros(64, np.float32)], threads=4)
        for schedule in ("forward", "backward", "random"):
            found = machine.run(
                module, "k", [data, np.zeros(64, np.float32)], threads=4, schedule=schedule
            )
            assert not found.races
            np.testing.assert_array_equal(found.arrays[1], wanted.arrays[1])


@pytest.mark.slow
@pytest.mark.parametrize(("loops", "row"), [(False, "straight code"), (True, "partly in a loop")])
def test_the_page_has_the_figures_of_60_kernels(loops: bool, row: str) -> None:
    given = left = least = 0
    for seed in range(60):
        with new_context():
            module = module_of(random_lines(seed, loops))
            given += len(barriers(module))
            least += fewest(module)
            dropped(module)
            left += len(barriers(module))
    assert f"| {row} | {given} | {left} | {least} |" in (ROOT / "docs" / "barriers.md").read_text()
