"""Copies of the tensor data mover: one wave issues for all, waits count them, barriers tell other waves.

Covers: vocabulary/tensor_mover.py, checker/commit_groups.py, checker/conflicts.py,
checker/thread_grid.py
"""

import pytest

from helpers.check_harness import check_text
from helpers.tensor_mover_kernels import (
    BARRIER,
    GLOBAL,
    KERNELS,
    LOADED,
    MATRIX,
    OVERWRITE,
    READ,
    TILE,
    WG,
    by,
    descriptor,
    kernel,
    load,
    store,
    wait,
)

BAR = f"memref<!amdgpu.ds_barrier_state, {WG}>"


def check(text: str):
    return check_text(text, target="rocdl:gfx1250")


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_has_the_races_that_it_has(name):
    body, threads, codes = KERNELS[name]
    checked = check(kernel(body, threads))
    assert {code for code, _ in checked.unsafe} == codes
    assert not checked.unknown


# Forms that are not followed, and the reason that is said.
REFUSED = {
    "several blocks": (
        "%mask = arith.constant dense<true> : vector<16xi1>",
        "workgroupMask %mask",
        "it copies to several blocks of a cluster",
    ),
    "a barrier": (
        f"%bar = memref.alloc() : {BAR}",
        f"atomicBarrier(%bar[] : {BAR})",
        "it arrives at a barrier in LDS when it is over",
    ),
    "several tiles": (
        "%step = arith.constant 2048 : i32",
        "iterate %c64, %step, %c4",
        "it copies several tiles one after the other",
    ),
}


@pytest.mark.parametrize("form", REFUSED)
def test_what_is_not_followed_is_unknown_by_its_reason(form):
    before, rest, why = REFUSED[form]
    more = before + descriptor("d", "%src[%c0, %c0]", "%tile[%c0, %c0]", rest=rest)
    checked = check(kernel(load("d") + wait(0) + BARRIER + READ, more=more))
    assert not checked.unsafe
    assert {r for entry in checked.report.of("checks") for r in entry.reasons} == {
        "unfollowed-copy"
    }
    assert any(why in str(said) for said in checked.report.diagnostics)


def test_rows_that_are_gathered_are_unknown_by_their_reason():
    more = f"""
    %base = amdgpu.make_gather_dma_base %src[%c0, %c0], %tile[%c0, %c0] : {MATRIX}, {TILE} -> !amdgpu.tdm_gather_base<f16, i32>
    %rows8 = arith.constant dense<0> : vector<8xi32>
    %d = amdgpu.make_gather_dma_descriptor %base[%rows8] globalSize [32, 64] globalStride [64, 1]
      sharedSize [32, 64] : !amdgpu.tdm_gather_base<f16, i32>, vector<8xi32> -> !amdgpu.tdm_descriptor"""
    checked = check(kernel(load("d") + wait(0) + BARRIER + READ, more=more))
    assert any(
        "it gathers rows, or scatters them" in str(said) for said in checked.report.diagnostics
    )


def test_a_descriptor_that_a_loop_carries_is_unknown_by_its_reason():
    body = """
    %last = scf.for %i = %c0 to %c4 step %c1 iter_args(%d = %load) -> !amdgpu.tdm_descriptor {
      amdgpu.tensor_load_to_lds %d : !amdgpu.tdm_descriptor
      scf.yield %next : !amdgpu.tdm_descriptor
    }
    """
    checked = check(kernel(body + wait(0) + BARRIER + READ))
    assert not checked.unsafe
    assert any("one that a loop carries" in str(said) for said in checked.report.diagnostics)


# Where a tile of 32 rows of 64 lies in LDS: 64 columns of 72 by padding, or side by side.
PADDED = f"memref<32x72xf16, {WG}>"
PAD = "padShared(%four every %words)"
WORDS = "%four = arith.constant 4 : i32\n%words = arith.constant 32 : i32\n"


@pytest.mark.parametrize(
    ("rest", "row", "column", "certain"),
    [
        # Each row of 64 f16, 32 words, is followed by 4 words that nobody writes.
        (PAD, 3, 0, True),
        (PAD, 3, 64, False),
        # Without padding row 31 of 64 ends in row 28 of 72.
        ("", 27, 0, True),
        ("", 29, 0, False),
    ],
)
def test_padding_says_which_part_of_a_row_is_written(rest, row, column, certain):
    body = f"""
    {load("d")}
    %at_row = arith.constant {row} : index
    %at = arith.constant {column} : index
    %x = vector.load %wide[%at_row, %at] : {PADDED}, vector<8xf16>
    vector.store %x, %out[%t, %c0] : {MATRIX}, vector<8xf16>
    {wait(0)}"""
    more = f"%wide = memref.alloc() : {PADDED}\n{WORDS}" + descriptor(
        "d", "%src[%c0, %c0]", "%wide[%c0, %c0]", PADDED, rest=rest
    )
    checked = check(kernel(body, more=more))
    assert bool(checked.unsafe) is certain
    assert not checked.unknown


def test_rows_after_the_tile_are_not_touched():
    """16 rows are copied: reads of rows 16 to 31 meet none of them, those of row 15 do."""
    more = descriptor("d", "%src[%c0, %c0]", "%tile[%c0, %c0]", tile="16, 64")
    for row, races in ((16, False), (15, True)):
        read = f"""
        %at = arith.constant {row} : index
        %x = vector.load %tile[%at, %c0] : {TILE}, vector<16xf16>
        vector.store %x, %out[%t, %c0] : {MATRIX}, vector<16xf16>
        """
        checked = check(kernel(load("d") + read + wait(0), more=more))
        assert bool(checked.unsafe) is races
        assert not checked.unknown


@pytest.mark.parametrize(("count", "safe"), [(2, True), (3, False)])
def test_each_of_three_buffers_needs_its_count(count, safe):
    """Three copies in flight, of which the wait leaves the two younger ones."""
    body = f"""
    scf.if %first_wave {{
      amdgpu.tensor_load_to_lds %load : !amdgpu.tdm_descriptor
      amdgpu.tensor_load_to_lds %b : !amdgpu.tdm_descriptor
      amdgpu.tensor_load_to_lds %c : !amdgpu.tdm_descriptor
    }}
    {wait(count)}{BARRIER}{READ}{wait(0)}"""
    more = descriptor("b", "%src[%c0, %c0]", "%own[%c1, %c0, %c0]", f"memref<4x32x64xf16, {WG}>")
    more += descriptor("c", "%src[%c0, %c0]", "%own[%c0, %c0, %c0]", f"memref<4x32x64xf16, {WG}>")
    checked = check(kernel(body, more=more))
    assert (not checked.unsafe) is safe
    assert not checked.unknown


def test_copies_of_two_counters_are_counted_apart():
    """A copy by lanes is on asynccnt: a wait for tensorcnt leaves it in flight, and does not count it."""
    lanes = f"""
    amdgpu.global_load_async_to_lds %src[%t, %c0], %own[%wave, %lane, %c0]
      : vector<8xf16>, {MATRIX}, memref<4x32x64xf16, {WG}>
    """
    both = load() + lanes
    read_lanes = f"""
    %x = vector.load %own[%wave, %lane, %c0] : memref<4x32x64xf16, {WG}>, vector<8xf16>
    vector.store %x, %out[%t, %c0] : {MATRIX}, vector<8xf16>
    """
    tensor, asynchronous = wait(0), "rocdl.s.wait.asynccnt 0\n"
    assert not check(kernel(both + tensor + BARRIER + READ + asynchronous)).unsafe
    assert check(kernel(both + wait(1) + BARRIER + READ + asynchronous)).unsafe
    assert not check(kernel(both + asynchronous + read_lanes + tensor)).unsafe
    assert check(kernel(both + tensor + read_lanes + asynchronous)).unsafe


def test_a_thread_of_the_wave_that_did_not_copy_needs_a_barrier():
    """Only thread 0 came to the copy: what it waited for no other thread knows."""
    alone = by("%first_thread", load() + wait(0))
    assert {code for code, _ in check(kernel(alone + READ, 32)).unsafe} == {"not-visible"}
    assert not check(kernel(alone + BARRIER + READ, 32)).unsafe


def test_a_store_after_a_load_of_the_same_tile_waits_for_it():
    """The mover completes in order, but reads LDS when it likes: a store needs the load's wait."""
    early = by("%first_wave", load() + store()) + wait(0)
    assert {code for code, _ in check(kernel(early)).unsafe} == {"read-in-flight"}
    assert not check(kernel(by("%first_wave", load() + wait(0) + store()) + wait(0))).unsafe


def test_a_store_is_judged_in_global_memory():
    """%dst is read by all threads after the store: without its wait and a barrier that races."""
    again = f"""
    %back = vector.load %dst[%row, %column] : {MATRIX}, vector<16xf16>
    vector.store %back, %out[%row, %column] : {MATRIX}, vector<16xf16>
    """
    stored = OVERWRITE + BARRIER + by("%first_wave", store())
    assert check(kernel(stored + BARRIER + again + wait(0))).unsafe
    assert not check(kernel(stored + wait(0) + BARRIER + again)).unsafe
    assert GLOBAL in MATRIX
    assert LOADED


def ring(count: int, guard: str = "%first_wave", trips: str = "%n") -> str:
    """Three tiles in turn: two copies ahead, a wait for `count`, a barrier, the next copy, the read."""
    own = f"memref<4x32x64xf16, {WG}>"

    def copy(name: str) -> str:
        return (
            f"scf.if {guard} {{\namdgpu.tensor_load_to_lds %{name} : !amdgpu.tdm_descriptor\n}}\n"
        )

    first = descriptor("a", "%src[%c0, %c0]", "%own[%c0, %c0, %c0]", own)
    second = descriptor("b", "%src[%c32, %c0]", "%own[%c1, %c0, %c0]", own)
    ahead = descriptor("c", "%src[%at, %c0]", "%own[%slot, %c0, %c0]", own)
    body = f"""
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    {copy("a")}{copy("b")}
    scf.for %i = %c0 to {trips} step %c1 {{
      {wait(count)}{BARRIER}
      %j = arith.addi %i, %c2 : index
      %slot = arith.remui %j, %c3 : index
      %at = arith.muli %j, %c32 : index
      {ahead}
      {copy("c")}
      %now = arith.remui %i, %c3 : index
      %v = vector.load %own[%now, %row, %column] : {own}, vector<16xf16>
      vector.store %v, %out[%row, %column] : {MATRIX}, vector<16xf16>
    }}
    {wait(0)}"""
    text = kernel(body, more=first + second)
    given = "%n: index, %any: i1, %dst:"
    return text.replace("%dst:", given, 1)


@pytest.mark.parametrize("trips", ("%c4", "%n"))
@pytest.mark.parametrize("guard", ("%first_wave", "%first_thread", "%any"))
@pytest.mark.parametrize(("count", "safe"), [(0, True), (1, True), (2, False)])
def test_copies_of_one_wave_are_counted_in_that_wave(count, safe, guard, trips):
    """A wave has issued all copies or none, whatever the condition is: so counts say which are over."""
    checked = check(ring(count, guard, trips))
    assert (not checked.unsafe) is safe
    assert not checked.unknown


@pytest.mark.parametrize(("count", "safe"), [(0, True), (1, False)])
def test_copies_of_another_wave_do_not_count(count, safe):
    """Wave 0 and wave 1 copy one tile each: a wait for all but one waits for neither."""
    own = f"memref<4x32x64xf16, {WG}>"
    more = descriptor("b", "%src[%c32, %c0]", "%own[%c1, %c0, %c0]", own)
    more += "\n%second_wave = arith.cmpi eq, %wave, %c1 : index\n"
    body = by("%first_wave", load()) + by("%second_wave", load("b"))
    checked = check(kernel(body + wait(count) + BARRIER + READ + wait(0), more=more))
    assert (not checked.unsafe) is safe


def test_a_wave_that_cannot_have_copied_makes_no_error():
    """The copy stands beside a store, so that two paths are followed; on that of other waves nothing was
    copied, and a thread is on one of them all the time."""
    own = f"memref<4x32x64xf16, {WG}>"
    more = descriptor("b", "%src[%c32, %c0]", "%own[%c1, %c0, %c0]", own)
    beside = f"vector.store %ones, %out[%t, %c0] : {MATRIX}, vector<16xf16>\n"
    body = by("%first_wave", load() + beside) + by("%first_wave", load("b") + beside)
    checked = check(kernel(body + wait(1) + BARRIER + READ + wait(0), more=more))
    assert not checked.unsafe
