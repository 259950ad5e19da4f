"""What is surely beyond its group of mbarriers, its buffer or its columns is named; the rest is as it was.

Covers: checker/phases/memory_bounds.py, checker/phases/amounts.py, vocabulary/mbarrier_ops.py
"""

from __future__ import annotations

import re

import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.cluster_rings import text as cluster_ring
from helpers.descriptor_products import Operand, Product
from helpers.machine_programs import parse
from helpers.phase_mutants import failure
from helpers.tensor_kernels import Ring
from mlir_async_pipe.session.report import Report

LOADS = Ring(tiles=5)
PRODUCTS = Ring(slots=3, ahead=2, in_flight=1, tiles=7, reader="products")
ROLES = Ring(slots=2, tiles=5, specialised=True)
ANY = Ring(tiles=5, counted=False)


def report(text: str) -> Report:
    return check_module(parse(text)).report


def says(text: str) -> tuple[str, set[str]]:
    found = report(text)
    return verdict(found), set(codes(found))


def more_slots(ring: Ring, text: str) -> str:
    changed = text.replace(
        f"%slots = arith.constant {ring.slots}", f"%slots = arith.constant {ring.slots + 1}"
    )
    assert changed != text
    return changed


def fewer_mbarriers(text: str, group: str, number: int) -> str:
    """One group has fewer mbarriers than the ring has slots."""
    (kind,) = set(re.findall(r"!nvgpu\.mbarrier\.group<[^>]*>", text))
    small = re.sub(r"num_barriers = \d+", f"num_barriers = {number}", kind)
    lines = [
        line.replace(kind, small) if f"%{group}" in line else line for line in text.split("\n")
    ]
    assert small in "\n".join(lines)
    return "\n".join(lines)


RINGS = {"loads": LOADS, "products": PRODUCTS, "roles": ROLES, "any number of tiles": ANY}


@pytest.mark.parametrize("name", RINGS)
def test_a_slot_more_than_mbarriers_is_named_and_fails(name: str) -> None:
    ring = RINGS[name]
    assert says(ring.text())[0] == "safe"
    text = more_slots(ring, ring.text())
    assert says(text) == ("unsafe", {"out-of-bounds"})
    assert "out-of-bounds" in failure(ring, text, 0)


@pytest.mark.parametrize("group", ["full", "empty"])
def test_one_of_two_groups_that_is_too_small_is_named_and_fails(group: str) -> None:
    text = fewer_mbarriers(ROLES.text(), group, 1)
    assert says(text) == ("unsafe", {"out-of-bounds"})
    assert "out-of-bounds" in failure(ROLES, text, 0)


def test_mbarriers_that_no_slot_takes_are_right() -> None:
    assert says(fewer_mbarriers(ROLES.text(), "full", 5)) == ("safe", set())


def test_a_note_tells_the_size_at_the_op_that_makes_the_group() -> None:
    text = more_slots(LOADS, LOADS.text())
    (error,) = [d for d in report(text).diagnostics if d.severity == "error"]
    assert error.message == "'nvgpu.mbarrier.init' is out of bounds"
    note = error.notes[0]
    assert note.message == "it names mbarrier 2 of 2, counted from 0"
    assert "nvgpu.mbarrier.create" in text.split("\n")[note.place.line - 1]


def test_an_mbarrier_whose_number_nobody_knows_is_not_safe() -> None:
    unknown = ANY.text().replace("%full[%slot], %phase", "%full[%tiles], %phase")
    assert unknown != ANY.text()
    assert says(unknown)[0] != "safe"


def test_a_slot_beyond_the_tiles_alone_is_named_and_fails() -> None:
    """There are mbarriers for it."""
    text = more_slots(LOADS, LOADS.text()).replace("num_barriers = 2", "num_barriers = 3")
    assert says(text) == ("unsafe", {"out-of-bounds"})
    assert "out-of-bounds" in failure(LOADS, text, 0)
    (error,) = [d for d in report(text).diagnostics if d.severity == "error"]
    assert error.message == "'nvgpu.tma.async.load' is out of bounds"
    assert error.notes[0].message == "it touches bytes 512 to 767 of 512, counted from 0"
    assert "memref.alloc" in text.split("\n")[error.notes[0].place.line - 1]


def test_a_slot_before_the_first_one_is_named() -> None:
    before = LOADS.text().replace(
        "memref.subview %buffer[%at, 0]", "memref.subview %buffer[%below, 0]"
    )
    before = before.replace(
        "%to = memref.subview", "%below = arith.subi %at, %slots : index\n%to = memref.subview"
    )
    assert says(before) == ("unsafe", {"out-of-bounds"})


def test_blocks_of_a_cluster_have_groups_of_their_own() -> None:
    ring = cluster_ring()
    assert says(ring)[0] == "safe"
    text = ring.replace("%slots = arith.constant 2", "%slots = arith.constant 3")
    assert says(text) == ("unsafe", {"out-of-bounds"})


POINTERS = """
llvm.mlir.global external @bars() {addr_space = 3 : i32} : !llvm.array<MADE x i64>
func.func @f() attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
  %bars = llvm.mlir.addressof @bars : !llvm.ptr<3>
  %one = llvm.getelementptr %bars[USED] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i64
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %n = arith.constant 1 : i32
  %first = arith.cmpi eq, %t, %c0 : index
  scf.if %first {
    nvvm.mbarrier.init %one, %n : !llvm.ptr<3>, i32
  }
  return
}
"""


@pytest.mark.parametrize(
    ("made", "used", "expected"), [(3, 2, "safe"), (3, 3, "unsafe"), (3, -1, "unsafe")]
)
def test_an_mbarrier_by_a_pointer(made: int, used: int, expected: str) -> None:
    text = POINTERS.replace("MADE", str(made)).replace("USED", str(used))
    found, names = says(text)
    assert found == expected
    assert names == ({"out-of-bounds"} if expected == "unsafe" else set())


def test_memory_whose_size_the_launch_decides_has_no_end_here() -> None:
    assert says(POINTERS.replace("MADE", "0").replace("USED", "9")) == ("safe", set())


def test_a_descriptor_that_is_not_aligned_to_its_swizzle_is_not_followed() -> None:
    """Of the eight lines that a swizzle permutes it begins in the fifth: which ones it names, and
    where they end, another base offset says."""
    operands = (Operand(name, 128, 64, True) for name in "ab")
    text = (
        Product(*operands)
        .text()
        .replace(
            "%out: memref<128x32xf32>) {",
            "%out: memref<128x32xf32> {llvm.noalias}) attributes "
            "{gpu.known_block_size = array<i32: 128, 1, 1>} {",
        )
    )
    assert says(text) == ("safe", set())
    further = text.replace("%ao0 = arith.constant 0 :", "%ao0 = arith.constant 512 :")
    assert further != text
    assert says(further) == ("unknown", set())
    (reason,) = {found.reason for found in report(further).of("hazards")}
    assert reason == "unknown-place"


def of_dynamic_memory(text: str, name: str) -> str:
    """The ring's buffer is at the begin of dynamic shared memory, by a name without bytes."""
    alloc = "%buffer = memref.alloc() : memref<2x64xf32, WG>"
    assert alloc in text
    text = text.replace(
        alloc,
        f"""%dynamic = memref.get_global @{name} : memref<0xf32, WG>
      %buffer = memref.reinterpret_cast %dynamic to offset: [0], sizes: [2, 64], strides: [64, 1]
        : memref<0xf32, WG> to memref<2x64xf32, WG>""",
    )
    return f'memref.global "private" @{name} : memref<0xf32, WG> {{alignment = 128 : i64}}\n{text}'


@pytest.mark.parametrize("name", ["loads", "roles"])
def test_memory_whose_size_the_launch_decides_has_no_end(name: str) -> None:
    assert says(of_dynamic_memory(RINGS[name].text(), "bytes")) == ("safe", set())


@pytest.mark.parametrize(
    ("other", "verdict_and_codes"),
    [("0xf32", ("unsafe", {"missing-barrier", "missing-fence"})), ("128xf32", ("safe", set()))],
)
def test_a_store_by_another_name_is_one_to_the_ring(
    other: str, verdict_and_codes: tuple[str, set[str]]
) -> None:
    text = of_dynamic_memory(LOADS.text(), "bytes")
    load = "%v = memref.load %buffer"
    text = text.replace(
        load,
        f"""%o = memref.get_global @other : memref<{other}, WG>
      %p = memref.reinterpret_cast %o to offset: [0], sizes: [128], strides: [1]
        : memref<{other}, WG> to memref<128xf32, WG>
      %one = arith.constant 1.0 : f32
      memref.store %one, %p[%t] : memref<128xf32, WG>
      {load}""",
    )
    text = f'memref.global "private" @other : memref<{other}, WG>\n{text}'
    assert says(text) == verdict_and_codes
