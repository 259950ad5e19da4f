"""Values and conditions that differ between threads: what one thread knows, another may not.

Covers: checker/path_values.py, checker/effects.py, checker/grid_blocks.py,
checker/state.py, checker/explore.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import Checked, check_text

KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: memref<4096xf32> {{llvm.noalias}}, %I: memref<128xindex> {{llvm.noalias}},
              %n: index) workgroup(%s: memref<512xf32, 3>)
      kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c32 = arith.constant 32 : index
    %tid = gpu.thread_id x
    %warp = arith.divui %tid, %c32 : index
    {indices}
    %a = nvgpu.device_async_copy %A[%to], %s[%to], 1 : memref<4096xf32> to memref<512xf32, 3>
    %g = nvgpu.device_async_create_group %a
    nvgpu.device_async_wait %g {{numGroups = 0 : i32}}
    {read}
    gpu.return
  }}
}}
"""
READ = "%v = memref.load %s[%from] : memref<512xf32, 3>"


def check(indices: str, read: str = READ) -> Checked:
    return check_text(KERNEL.format(indices=indices, read=read))


def codes(checked: Checked) -> set[str]:
    return {code for code, _ in checked.unsafe | checked.unknown}


def test_a_condition_on_the_warp_says_nothing_of_the_other_threads_warp() -> None:
    """Warp 0 reads place 1, which warp 1 wrote: there is no barrier."""
    only_warp_0 = "%first = arith.cmpi eq, %warp, %c0 : index\nscf.if %first {" + READ + "}"
    indices = "%to = arith.addi %warp, %c0 : index\n%from = arith.constant {} : index"
    assert codes(check(indices.format(1), only_warp_0)) == {"not-visible"}
    assert codes(check(indices.format(5), only_warp_0)) == set()


@pytest.mark.parametrize("distance", [0, 1])
def test_a_loaded_index_may_be_another_one_in_another_thread(distance: int) -> None:
    loaded = f"""
    %to = memref.load %I[%tid] : memref<128xindex>
    %c = arith.constant {distance} : index
    %from = arith.addi %to, %c : index"""
    checked = check(loaded)
    (summary,) = checked.report.of("checks")
    assert codes(checked) == {"not-visible"}
    assert (summary.unsafe, summary.reasons) == (0, {"opaque-subscript": 1})


@pytest.mark.parametrize(("distance", "expected"), [(0, {"not-visible"}), (1, set())])
def test_an_argument_is_the_same_in_all_threads(distance: int, expected: set[str]) -> None:
    indices = f"""
    %to = arith.addi %n, %c0 : index
    %c = arith.constant {distance} : index
    %from = arith.addi %n, %c : index"""
    assert codes(check(indices)) == expected


BOTH_SIDES = """%t = arith.cmpi {condition} : index
  scf.if %t {{
    %b = nvgpu.device_async_copy %A[%tid], %s[%tid], 1 : memref<4096xf32> to memref<512xf32, 3>
    %h = nvgpu.device_async_create_group %b
    nvgpu.device_async_wait %h {{numGroups = 0 : i32}}
  }} else {{
    %w = memref.load {read} : {kind}
  }}"""


@pytest.mark.parametrize(
    ("condition", "read", "kind", "unsafe"),
    [
        ("eq, %warp, %c0", "%s[%c1]", "memref<512xf32, 3>", 1),
        ("eq, %warp, %c0", "%s[%tid]", "memref<512xf32, 3>", 0),
        ("eq, %n, %c0", "%s[%c1]", "memref<512xf32, 3>", 0),
        ("eq, %warp, %c0", "%A[%c1]", "memref<4096xf32>", 0),
    ],
)
def test_both_sides_of_a_branch_on_the_warp_run(
    condition: str, read: str, kind: str, unsafe: int
) -> None:
    """One side copies into workgroup memory, the other one reads it, or global memory."""
    branch = BOTH_SIDES.format(condition=condition, read=read, kind=kind)
    behind = "%c128 = arith.constant 128 : index\n%to = arith.addi %tid, %c128 : index"
    checked = check(behind, branch)
    (summary,) = checked.report.of("checks")
    assert (summary.unsafe, summary.unknown) == (unsafe, 0)


LAUNCH = """
func.func @host(%A: memref<4096xf32>, %s: memref<512xf32, 3>) {{
  %c1 = arith.constant 1 : index
  %c127 = arith.constant 127 : index
  %c128 = arith.constant 128 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%nx = %c128, %ny = %c1, %nz = %c1) {{
    %a = nvgpu.device_async_copy %A[%tx], %s[%tx], 1 : memref<4096xf32> to memref<512xf32, 3>
    %g = nvgpu.device_async_create_group %a
    nvgpu.device_async_wait %g {{numGroups = 0 : i32}}
    {barrier}
    %other = arith.subi %c127, %tx : index
    %last = arith.subi %nx, %c1 : index
    %behind = arith.addi %last, %c1 : index
    %v = memref.load %s[{place}] : memref<512xf32, 3>
    gpu.terminator
  }}
  return
}}
"""


@pytest.mark.parametrize(
    ("place", "barrier", "expected"),
    [
        ("%other", "", {"not-visible"}),
        ("%other", "gpu.barrier", set()),
        ("%last", "", {"not-visible"}),
        ("%behind", "", set()),
        ("%tx", "", set()),
    ],
)
def test_thread_ids_of_a_launch_are_thread_ids(
    place: str, barrier: str, expected: set[str]
) -> None:
    assert codes(check_text(LAUNCH.format(place=place, barrier=barrier))) == expected
