"""Ops that move neighbours in memory, given a memref whose last dimension has gaps.

The verifiers of `vector.load` and of copies refuse such memrefs; those of these ops do not, and their lowerings
take the elements side by side.

Covers: vocabulary/memory_ops.py, facts/values/views.py, machine/dialects/vector.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text, machine_races

KERNEL = """
gpu.module @m {{
  gpu.func @k(%g: memref<256xf32> {{llvm.noalias}}, %o: memref<256xf32> {{llvm.noalias}})
      workgroup(%s: memref<256xf32, #gpu.address_space<workgroup>>, %h: memref<1024xf16, #gpu.address_space<workgroup>>)
      kernel attributes {{known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 1, 1, 1>}} {{
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c31 = arith.constant 31 : index
    %z = arith.constant 0.0 : f32
    %zh = arith.constant 0.0 : f16
    %two = arith.constant dense<1.0> : vector<2xf32>
    %both = arith.constant dense<true> : vector<2xi1>
    %t = gpu.thread_id x
    %ti = arith.index_cast %t : index to i32
    %other = arith.subi %c31, %t : index
    %there = arith.muli %other, %c4 : index
    %first = arith.addi %there, %c1 : index
    %second = arith.addi %there, %c2 : index
    %gs = memref.subview %g[0] [64] [4] : memref<256xf32> to memref<64xf32, strided<[4]>>
    %ss = memref.subview %s[0] [64] [4] : memref<256xf32, #gpu.address_space<workgroup>> to memref<64xf32, strided<[4]>, #gpu.address_space<workgroup>>
    %hs = memref.subview %h[0] [256] [4] : memref<1024xf16, #gpu.address_space<workgroup>> to memref<256xf16, strided<[4]>, #gpu.address_space<workgroup>>
    {body}
    gpu.return
  }}
}}
"""
GLOBAL = "memref<64xf32, strided<[4]>>"
SHARED = "memref<64xf32, strided<[4]>, #gpu.address_space<workgroup>>"
HALVES = "memref<256xf16, strided<[4]>, #gpu.address_space<workgroup>>"
TO_GLOBAL = "memref.store %z, %g[{at}] : memref<256xf32>"
TO_SHARED = "memref.store %z, %s[{at}] : memref<256xf32, #gpu.address_space<workgroup>>"
TAKEN = "vector.store %x, %o[%there] : memref<256xf32>, vector<2xf32>\n"
# name: (target, what moves 2 neighbours from element 4 t on, the store of another thread)
MOVES = {
    "raw load": (
        "rocdl:gfx942",
        f"%x = amdgpu.raw_buffer_load {{{{boundsCheck = false}}}} %gs[%ti] : {GLOBAL}, i32 -> vector<2xf32>\n"
        f"{TAKEN}",
        TO_GLOBAL,
    ),
    "raw store": (
        "rocdl:gfx942",
        f"amdgpu.raw_buffer_store {{{{boundsCheck = false}}}} %two -> %gs[%ti] : vector<2xf32> -> {GLOBAL}, i32\n",
        TO_GLOBAL,
    ),
    "masked load": (
        None,
        f"%x = vector.maskedload %ss[%t], %both, %two : {SHARED}, vector<2xi1>, vector<2xf32> into vector<2xf32>\n"
        f"{TAKEN}",
        TO_SHARED,
    ),
    "masked store": (
        None,
        f"vector.maskedstore %ss[%t], %both, %two : {SHARED}, vector<2xi1>, vector<2xf32>\n",
        TO_SHARED,
    ),
    "copy from": (
        "rocdl:gfx1250",
        f"amdgpu.global_load_async_to_lds %gs[%t], %s[%there] : vector<2xf32>, {GLOBAL}, "
        "memref<256xf32, #gpu.address_space<workgroup>>\nrocdl.asyncmark\nrocdl.wait.asyncmark 0\n",
        TO_GLOBAL,
    ),
    "copy to": (
        "rocdl:gfx1250",
        "amdgpu.global_load_async_to_lds %g[%there], %ss[%t] : vector<2xf32>, memref<256xf32>, "
        f"{SHARED}\nrocdl.asyncmark\nrocdl.wait.asyncmark 0\n",
        TO_SHARED,
    ),
}


def kernel(name: str, at: str) -> tuple[str | None, str]:
    target, move, store = MOVES[name]
    return target, KERNEL.format(body=f"{move.format()}    {store.format(at=at)}")


@pytest.mark.parametrize("name", MOVES)
def test_neighbours_lie_side_by_side_whatever_the_strides(name: str) -> None:
    """The second element is the one after the first, which another thread stores to."""
    target, text = kernel(name, "%first")
    assert check_text(text, target).unsafe
    assert machine_races(text, target)


@pytest.mark.parametrize("name", MOVES)
def test_what_lies_between_neighbours_and_the_next_subscript_is_free(name: str) -> None:
    target, text = kernel(name, "%second")
    checked = check_text(text, target)
    assert not checked.unsafe and not checked.unknown
    assert not machine_races(text, target)


def test_a_lane_that_reads_for_others_reads_side_by_side() -> None:
    body = f"""%x = amdgpu.transpose_load %hs[%t] : {HALVES} -> vector<4xf16>
    memref.store %zh, %h[%first] : memref<1024xf16, #gpu.address_space<workgroup>>"""
    assert check_text(KERNEL.format(body=body), "rocdl:gfx950").unsafe


@pytest.mark.parametrize(
    "move",
    [
        "%x = vector.expandload %ss[%t], %both, %two : "
        f"{SHARED}, vector<2xi1>, vector<2xf32> into vector<2xf32>",
        f"vector.compressstore %ss[%t], %both, %two : {SHARED}, vector<2xi1>, vector<2xf32>",
    ],
)
@pytest.mark.parametrize(("at", "found"), [("%first", "unknown"), ("%second", "proven")])
def test_packed_elements_are_side_by_side_and_maybe_fewer(move: str, at: str, found: str) -> None:
    checked = check_text(KERNEL.format(body=f"{move}\n{TO_SHARED.format(at=at)}"))
    assert not checked.unsafe
    assert bool(checked.unknown) == (found == "unknown")


@pytest.mark.parametrize(
    "op",
    [
        "amdgpu.raw_buffer_store {boundsCheck = false} %z -> %row[%i0, %i4] : f32 -> VIEW, i32, i32",
        "amdgpu.raw_buffer_atomic_fadd {boundsCheck = false} %z -> %row[%i0, %i4] : f32 -> VIEW, i32, i32",
    ],
)
def test_an_access_to_a_buffer_may_leave_its_view(op: str) -> None:
    """Columns 0 to 3 of lines of 16: the access is at column 4."""
    view = "memref<16x4xf32, strided<[16, 1]>>"
    text = KERNEL.format(
        body=f"""%i0 = arith.constant 0 : i32
    %i4 = arith.constant 4 : i32
    %lines = memref.reinterpret_cast %g to offset: [0], sizes: [16, 16], strides: [16, 1] : memref<256xf32> to memref<16x16xf32>
    %row = memref.subview %lines[0, 0] [16, 4] [1, 1] : memref<16x16xf32> to {view}
    %is = arith.cmpi eq, %t, %c1 : index
    scf.if %is {{
      memref.store %z, %g[%c4] : memref<256xf32>
    }} else {{
      {op.replace("VIEW", view)}
    }}"""
    )
    assert {code for code, _ in check_text(text, "rocdl:gfx942").unknown} == {"missing-barrier"}


def test_a_vector_is_one_element_of_a_memref_of_vectors() -> None:
    kind = "memref<32xvector<4xf32>, #gpu.address_space<workgroup>>"
    body = f"""%four = arith.constant dense<1.0> : vector<4xf32>
    %own = memref.alloc() : {kind}
    vector.store %four, %own[%t] : {kind}, vector<4xf32>
    %x = vector.load %own[%t] : {kind}, vector<4xf32>"""
    checked = check_text(KERNEL.format(body=body))
    assert not checked.unsafe and not checked.unknown
    assert check_text(KERNEL.format(body=body.replace("load %own[%t]", "load %own[%other]"))).unsafe


CLIPPED = """%four = arith.constant dense<1.0> : vector<4xf32>
    %c30 = arith.constant 30 : index
    %c32 = arith.constant 32 : index
    %part = memref.subview %s[0] [32] [1] : memref<256xf32, #gpu.address_space<workgroup>> to memref<32xf32, strided<[1]>, #gpu.address_space<workgroup>>
    %is = arith.cmpi eq, %t, %c1 : index
    scf.if %is {{
      vector.transfer_write %four, %part[{at}] {{in_bounds = [{said}]}} : vector<4xf32>, memref<32xf32, strided<[1]>, #gpu.address_space<workgroup>>
    }} else {{
      %not = arith.cmpi eq, %t, %c2 : index
      scf.if %not {{
        memref.store %z, %s[{store}] : memref<256xf32, #gpu.address_space<workgroup>>
      }}
    }}"""


@pytest.mark.parametrize(
    ("at", "said", "store", "found"),
    [
        ("%c30", "false", "%c32", "unknown"),
        ("%c4", "false", "%c4", "unsafe"),
        ("%c4", "true", "%c4", "unsafe"),
        ("%c4", "false", "%c32", "proven"),
    ],
)
def test_a_transfer_leaves_alone_what_lies_beyond_its_view(
    at: str, said: str, store: str, found: str
) -> None:
    text = KERNEL.format(body=CLIPPED.format(at=at, said=said, store=store))
    checked = check_text(text)
    assert bool(checked.unsafe) == (found == "unsafe")
    assert bool(checked.unknown) == (found == "unknown")
    assert bool(machine_races(text)) == (found == "unsafe")
