"""Blocks of unknown size: every shape is possible along the axes that a kernel reads.

Two threads at one x are two threads wherever a block may be 2-D; the machine runs the same text
in blocks of several shapes.

Covers: checker/thread_grid.py, checker/grid_blocks.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text, machine_races
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

TARGET = "nvvm:sm_80"
KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: memref<4096xf32> {{llvm.noalias}}) workgroup(%s: memref<64x8x8xf32, 3>) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c7 = arith.constant 7 : index
    %x = gpu.thread_id x
    {ids}
    %a = nvgpu.device_async_copy %A[%c0], %s[{to}], 1 : memref<4096xf32> to memref<64x8x8xf32, 3>
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 0
    {barrier}
    %v = memref.load %s[{at}] : memref<64x8x8xf32, 3>
    gpu.return
  }}
}}
"""
Y = "%y = gpu.thread_id y"
Z = "%z = gpu.thread_id z"
NVVM_Y = "%y32 = nvvm.read.ptx.sreg.tid.y : i32\n%y = arith.index_cast %y32 : i32 to index"
ROCDL_Y = "%y32 = rocdl.workitem.id.y : i32\n%y = arith.index_cast %y32 : i32 to index"
LINEAR = f"""{Y}
    %d = gpu.block_dim x
    %r = arith.muli %y, %d : index
    %l = arith.addi %r, %x : index"""
BY_HAND = f"""{Y}
    %r = arith.muli %y, %c4 : index
    %l = arith.addi %r, %x : index"""
SHAPES = [(4, 1, 1), (2, 2, 1), (2, 2, 2), (1, 4, 1), (8, 2, 1)]

# ids, where each thread copies to, where it reads
RACES = {
    "one-x": (Y, "%x, %c0, %c0", "%x, %c0, %c0"),
    "one-y": (Y, "%y, %c0, %c0", "%y, %c0, %c0"),
    "one-x-and-y": (f"{Y}\n{Z}", "%x, %y, %c0", "%x, %y, %c0"),
    "mirrored-y": (f"{Y}\n%m = arith.subi %c1, %y : index", "%x, %y, %c0", "%x, %m, %c0"),
    "nvvm-ids": (NVVM_Y, "%x, %c0, %c0", "%x, %c0, %c0"),
    "linear-id-of-another-width": (BY_HAND, "%l, %c0, %c0", "%l, %c0, %c0"),
    "size-is-read": ("%d = gpu.block_dim y", "%x, %c0, %c0", "%x, %c0, %c0"),
}
SAFE = {
    "only-x": ("", "%x, %c0, %c0", "%x, %c0, %c0"),
    "x-and-y": (Y, "%x, %y, %c0", "%x, %y, %c0"),
    "x-y-z": (f"{Y}\n{Z}", "%x, %y, %z", "%x, %y, %z"),
    "rocdl-ids": (ROCDL_Y, "%x, %y, %c0", "%x, %y, %c0"),
}


def kernel(ids: str, to: str, at: str, barrier: str = "") -> str:
    return KERNEL.format(ids=ids, to=to, at=at, barrier=barrier)


def races_in_some_shape(text: str) -> bool:
    return any(machine_races(text, TARGET, trips=[0], block=shape) for shape in SHAPES)


@pytest.mark.parametrize("name", RACES)
def test_threads_that_share_a_place_in_some_shape_are_not_safe(name: str) -> None:
    text = kernel(*RACES[name])
    checked = check_text(text, TARGET)
    assert checked.unsafe | checked.unknown
    if "nvvm" not in name:
        assert races_in_some_shape(text)


@pytest.mark.parametrize("name", SAFE)
def test_threads_with_places_of_their_own_are_safe(name: str) -> None:
    text = kernel(*SAFE[name])
    checked = check_text(text, TARGET)
    assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())


@pytest.mark.parametrize("name", RACES)
def test_a_barrier_makes_them_safe_where_the_copies_do_not_meet(name: str) -> None:
    ids, _, at = RACES[name]
    text = kernel(ids, "%x, %y, %z" if "z" in ids else "%x, %y, %c0", at, "gpu.barrier")
    if "%y" not in ids:
        text = kernel(f"{Y}\n{ids}", "%x, %y, %c0", at, "gpu.barrier")
    if "%z" not in ids and "one-x-and-y" in name:
        text = kernel(f"{ids}", "%x, %y, %z", at, "gpu.barrier")
    checked = check_text(text, TARGET)
    assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())


@pytest.mark.parametrize("name", ["mirrored-y"])
def test_missing_barriers_are_inserted_for_blocks_of_any_shape(name: str) -> None:
    text = kernel(*RACES[name])
    with new_context():
        module = ir.Module.parse(text)
        found = passes.find("async-pipe-barriers")
        session = Session(target=Target.parse(TARGET))
        found.run(module.operation, found.options(), session)
        assert len(session.report().of("barriers")) == 1
        result = str(module)
    assert not races_in_some_shape(result)
    checked = check_text(result, TARGET)
    assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())


@pytest.mark.parametrize("op", ["gpu.subgroup_id : index", "gpu.lane_id"])
def test_warps_and_lanes_have_several_threads(op: str) -> None:
    """All lanes of a warp copy to one place; all warps have a lane of each number."""
    text = kernel(f"%w = {op}", "%w, %c0, %c0", "%w, %c0, %c0")
    checked = check_text(text, TARGET)
    assert checked.unsafe | checked.unknown


LAUNCHES = """
module attributes {{gpu.container_module}} {{
{module}
  func.func @host(%A: memref<4096xf32>, %n: index) {{
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    gpu.launch_func @m::@k blocks in (%c1, %c1, %c1) threads in ({first}) args(%A : memref<4096xf32>)
    gpu.launch_func @m::@k blocks in (%c1, %c1, %c1) threads in ({second}) args(%A : memref<4096xf32>)
    return
  }}
}}
"""


@pytest.mark.parametrize(
    ("first", "second", "safe"),
    [
        ("%c4, %c1, %c1", "%c4, %c1, %c1", True),
        ("%c4, %c1, %c1", "%c4, %c2, %c1", False),
        ("%c4, %c1, %c1", "%c4, %n, %c1", False),
        ("%n, %c1, %c1", "%n, %c2, %c1", False),
    ],
)
def test_every_launch_of_a_kernel_must_be_safe(first: str, second: str, safe: bool) -> None:
    text = LAUNCHES.format(module=kernel(*RACES["one-x"]), first=first, second=second)
    checked = check_text(text, TARGET)
    assert (not (checked.unsafe | checked.unknown)) == safe


def test_an_axis_that_nothing_reads_has_several_threads_where_that_is_assumed() -> None:
    """Threads of a block of 4 x 2 that share an x copy to one place and read it there."""
    text = kernel(*SAFE["only-x"])
    alone = check_text(text, TARGET)
    assert (alone.unsafe, alone.unknown) == (frozenset(), frozenset())
    assert machine_races(text, TARGET, trips=[0], block=(4, 2, 1))
    several = check_text(text, TARGET, assume_several_threads=True)
    assert several.unsafe | several.unknown
    # A block that is known has no other shape.
    known = text.replace(
        " kernel {", " kernel attributes {known_block_size = array<i32: 4, 1, 1>} {"
    )
    sized = check_text(known, TARGET, assume_several_threads=True)
    assert (sized.unsafe, sized.unknown) == (frozenset(), frozenset())


def test_a_kernel_that_reads_all_axes_is_safe_with_that_assumption_too() -> None:
    checked = check_text(kernel(*SAFE["x-y-z"]), TARGET, assume_several_threads=True)
    assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())
