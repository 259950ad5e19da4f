"""Strided views of ring slots: every other element of a slot, by reinterpret_cast or subview.

A view counts in bytes of the whole ring where the copies beside it count slots, so both must
be looked at for the same iteration: slots k mod V and (k + 2) mod V are never one.

Covers: facts/values/views.py, checker/path_values.py, checker/state.py, checker/sites.py, checker/step_graph.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import Checked, check_text, machine_races
from helpers.paths import ROOT
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

VIEWS = ROOT / "lit-tests" / "expand" / "views.mlir"

REINTERPRET = """
%first = arith.muli %slot, %c128 : index
%offset = arith.addi %first, %c1 : index
%odd = memref.reinterpret_cast %s to offset: [%offset], sizes: [64], strides: [2]
  : memref<{versions}x128xf32, 3> to memref<64xf32, strided<[2], offset: ?>, 3>
"""
SUBVIEW = """
%odd = memref.subview %s[%slot, 1] [1, 64] [1, 2]
  : memref<{versions}x128xf32, 3> to memref<64xf32, strided<[2], offset: ?>, 3>
"""
FLATTENED = """
%row = memref.subview %s[%slot, 0] [1, 128] [1, 1]
  : memref<{versions}x128xf32, 3> to memref<128xf32, strided<[1], offset: ?>, 3>
%pairs = memref.expand_shape %row [[0, 1]] output_shape [64, 2]
  : memref<128xf32, strided<[1], offset: ?>, 3> into memref<64x2xf32, strided<[2, 1], offset: ?>, 3>
%odd = memref.subview %pairs[0, 1] [64, 1] [1, 1]
  : memref<64x2xf32, strided<[2, 1], offset: ?>, 3> to memref<64xf32, strided<[2], offset: ?>, 3>
"""
# Two copies ahead: iteration k reads slot (k + read) mod V and copies into slot (k + 2) mod V.
KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: memref<16x128xf32> {{llvm.noalias}}, %n: index)
      workgroup(%s: memref<{versions}x128xf32, 3>)
      kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %read = arith.constant {read} : index
    %V = arith.constant {versions} : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %t = gpu.thread_id x
    %half = arith.remui %t, %c64 : index
    %a = nvgpu.device_async_copy %A[%c0, %t], %s[%c0, %t], 1 : memref<16x128xf32> to memref<{versions}x128xf32, 3>
    %ga = nvgpu.device_async_create_group %a
    %b = nvgpu.device_async_copy %A[%c1, %t], %s[%c1, %t], 1 : memref<16x128xf32> to memref<{versions}x128xf32, 3>
    %gb = nvgpu.device_async_create_group %b
    scf.for %i = %c0 to %n step %c1 {{
      nvgpu.device_async_wait %ga {{numGroups = 1 : i32}}
      gpu.barrier
      %next = arith.addi %i, %c2 : index
      %to = arith.remui %next, %V : index
      %c = nvgpu.device_async_copy %A[%next, %t], %s[%to, %t], 1 : memref<16x128xf32> to memref<{versions}x128xf32, 3>
      %gc = nvgpu.device_async_create_group %c
      %now = arith.addi %i, %read : index
      %slot = arith.remui %now, %V : index
      {view}
      %x = memref.load %odd[%half] : memref<64xf32, strided<[2], offset: ?>, 3>
    }}
    nvgpu.device_async_wait %ga {{numGroups = 0 : i32}}
    gpu.return
  }}
}}
"""


def checked(view: str, versions: int, read: int = 0) -> tuple[str, Checked]:
    text = KERNEL.format(view=view.format(versions=versions), versions=versions, read=read)
    return text, check_text(text, "nvvm:sm_80")


@pytest.mark.parametrize("view", [REINTERPRET, SUBVIEW, FLATTENED])
@pytest.mark.parametrize("versions", [3, 4])
def test_a_strided_view_of_a_slot_is_proven_beside_the_copies(view: str, versions: int) -> None:
    text, found = checked(view, versions)
    assert (found.unsafe, found.unknown) == (frozenset(), frozenset())
    assert not machine_races(text, "nvvm:sm_80")


@pytest.mark.parametrize("view", [REINTERPRET, SUBVIEW, FLATTENED])
@pytest.mark.parametrize(("versions", "read"), [(2, 0), (3, 1), (3, 2), (4, 1)])
def test_a_version_too_few_or_another_slot_is_unsafe(view: str, versions: int, read: int) -> None:
    text, found = checked(view, versions, read)
    assert found.unsafe
    assert not found.unknown
    assert machine_races(text, "nvvm:sm_80") <= found.unsafe


def test_views_that_follow_to_their_slot_are_proven() -> None:
    with new_context():
        module = ir.Module.parse(VIEWS.read_text())
        session = Session()
        pipeline = passes.find("async-pipe")
        pipeline.run(module.operation, pipeline.options(), session)
    (summary,) = session.report().of("checks")
    assert (summary.unsafe, summary.unknown) == (0, 0)


@pytest.mark.parametrize(
    ("strides", "races"), [("[1, 1]", True), ("[0, 1]", True), ("[2, 1]", False)]
)
def test_two_subscripts_of_one_element_meet(strides: str, races: bool) -> None:
    """Thread t stores [t, 0] and loads [t, 1], which with strides [1, 1] thread t + 1 stores."""
    rows = f"memref<64x2xf32, strided<{strides}>, 3>"
    found = check_text(f"""
gpu.module @m {{
  gpu.func @k(%v: {rows}, %out: memref<64xf32> {{llvm.noalias}})
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %x = arith.constant 1.0 : f32
    %t = gpu.thread_id x
    memref.store %x, %v[%t, %c0] : {rows}
    %y = memref.load %v[%t, %c1] : {rows}
    memref.store %y, %out[%t] : memref<64xf32>
    gpu.return
  }}
}}""")
    assert bool(found.unsafe) == races
    assert not found.unknown


SIZES = """
gpu.module @m {{
  gpu.func @k(%s: memref<?xi8, 3>, %n: index, %m: index, %out: memref<64xi8> {{llvm.noalias}})
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %x = arith.constant 1 : i8
    %t = gpu.thread_id x
    {view}
    %a = memref.dim %s, %c0 : memref<?xi8, 3>
    %b = memref.dim %v, %c0 : {kind}
    %d = arith.subi %a, %b : index
    %at = arith.addi %t, %d : index
    memref.store %x, %s[%t] : memref<?xi8, 3>
    %y = memref.load %s[%at] : memref<?xi8, 3>
    memref.store %y, %out[%t] : memref<64xi8>
    gpu.return
  }}
}}"""
PART = "memref<?xi8, strided<[1]>, 3>"


@pytest.mark.parametrize(
    ("view", "kind", "proven"),
    [
        (f"%v = memref.subview %s[0] [%n] [1] : memref<?xi8, 3> to {PART}", PART, False),
        (
            "%v = memref.view %s[%c0][%n] : memref<?xi8, 3> to memref<?xi8, 3>",
            "memref<?xi8, 3>",
            False,
        ),
        (
            "%u = memref.cast %s : memref<?xi8, 3> to memref<64xi8, 3>\n"
            "%v = memref.cast %u : memref<64xi8, 3> to memref<?xi8, 3>",
            "memref<?xi8, 3>",
            True,
        ),
    ],
)
def test_a_view_at_the_begin_of_a_memref_may_be_smaller(view: str, kind: str, proven: bool) -> None:
    """Thread t loads t plus what the sizes differ by, which another thread stores."""
    found = check_text(SIZES.format(view=view, kind=kind))
    assert not found.unsafe
    assert bool(found.unknown) != proven


# x of iteration i is not x of iteration i - 1, which %prev is made of.
CARRIED = """
gpu.module @m {{
  gpu.func @k(%out: memref<64xf32> {{llvm.noalias}}, %n: i32)
      workgroup(%s: memref<1024xf32, 3>)
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %f = arith.constant 1.0 : f32
    %t = gpu.thread_id x
    {first}
    %r = scf.for %i = %zero to %n step %one iter_args(%prev = %start) -> {kind} : i32 {{
      %power = math.ipowi %i, %i : i32
      %x = arith.index_cast %power : i32 to index
      {make}
      %later = arith.cmpi sgt, %i, %zero : i32
      scf.if %later {{
        {store}
        {load}
        memref.store %y, %out[%t] : memref<64xf32>
      }}
      gpu.barrier
      scf.yield %now : {kind}
    }}
    gpu.return
  }}
}}"""
WINDOW = "memref<64xf32, strided<[1], offset: ?>, 3>"


def test_a_carried_view_keeps_the_offset_of_its_iteration() -> None:
    """Thread t stores x' + t and loads x + t: another thread's element, where x is not x'."""
    begin = "memref.subview %s[{}] [64] [1] : memref<1024xf32, 3> to " + WINDOW
    found = check_text(
        CARRIED.format(
            first="%start = " + begin.format("%c0"),
            make="%now = " + begin.format("%x"),
            store=f"memref.store %f, %prev[%t] : {WINDOW}",
            load=f"%y = memref.load %now[%t] : {WINDOW}",
            kind=WINDOW,
        )
    )
    assert found.unknown
    assert not found.unsafe


def test_what_a_loop_allocates_has_another_size_each_time() -> None:
    found = check_text(
        CARRIED.format(
            first="%start = arith.constant 0 : index",
            make="%b = memref.alloc(%x) : memref<?xf32>\n%now = memref.dim %b, %c0 : memref<?xf32>",
            store="%p = arith.addi %prev, %t : index\n"
            "memref.store %f, %s[%p] : memref<1024xf32, 3>",
            load="%q = arith.addi %now, %t : index\n%y = memref.load %s[%q] : memref<1024xf32, 3>",
            kind="index",
        )
    )
    assert found.unknown
    assert not found.unsafe


@pytest.mark.parametrize(("stored", "loaded", "races"), [(1, 0, True), (0, 1, True), (1, 1, False)])
def test_a_view_that_begins_elsewhere_in_each_thread(stored: int, loaded: int, races: bool) -> None:
    """Element 1 of thread t is element 0 of thread t + 1, and of no thread element 1."""
    text = f"""
gpu.module @m {{
  gpu.func @k(%out: memref<64xf32> {{llvm.noalias}}) workgroup(%a: memref<4096xi8, 3>)
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %x = arith.constant 1.0 : f32
    %stored = arith.constant {stored} : index
    %loaded = arith.constant {loaded} : index
    %c4 = arith.constant 4 : index
    %t = gpu.thread_id x
    %begin = arith.muli %t, %c4 : index
    %v = memref.view %a[%begin][] : memref<4096xi8, 3> to memref<2xf32, 3>
    memref.store %x, %v[%stored] : memref<2xf32, 3>
    %y = memref.load %v[%loaded] : memref<2xf32, 3>
    memref.store %y, %out[%t] : memref<64xf32>
    gpu.return
  }}
}}"""
    found = check_text(text, "nvvm:sm_80")
    assert not found.unknown
    assert found.unsafe == machine_races(text, "nvvm:sm_80")
    assert bool(found.unsafe) == races
