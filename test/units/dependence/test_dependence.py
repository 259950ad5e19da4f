"""Distances of dependences, what views and asserted aliasing do to them, and privatisation.

Covers: pipeliner/dependence/distance.py, pipeliner/dependence/memory_dependences.py, pipeliner/dependence/regions.py, pipeliner/dependence/privatise.py, facts/values/views.py, pipeliner/schedule/schedule_pass.py, facts/values/memory_roots.py
"""

from __future__ import annotations

import pytest

from helpers.analysed_loop import FUNCTION, analysed
from mlir_async_pipe import bindings
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.loops.statements import read_body
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.pipeliner.dependence.memory_dependences import Assertions, memory_dependences
from mlir_async_pipe.pipeliner.dependence.privatise import SameEachTime, unproven_read
from mlir_async_pipe.pipeliner.dependence.regions import regions_of

ir = bindings.ir


def dependences(body: str, **options) -> list[tuple[str, int, bool]]:
    """(kind, smallest distance, proven) of every dependence, in the order found."""
    assertions = Assertions(options.pop("independent", False), options.pop("noalias", False))
    _module, regions, index, _arithmetic = analysed(body, **options)
    found = memory_dependences(regions, frozenset(), index, assertions)
    return [(d.kind, d.distance, d.proven) for d in found]


def at(offset: int) -> str:
    """An index i + offset as %j."""
    return f"%o = arith.constant {offset} : index\n %j = arith.addi %i, %o : index\n"


# -- distances --------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [1, 2, 5])
def test_a_store_ahead_of_a_load_is_a_flow_at_that_distance(offset):
    body = at(offset) + "%a = memref.load %A[%i] : memref<64xf32>\n"
    body += "memref.store %a, %A[%j] : memref<64xf32>"
    assert dependences(body) == [("flow", offset, True)]


@pytest.mark.parametrize("offset", [1, 3])
def test_a_load_ahead_of_a_store_is_an_anti_dependence(offset):
    body = at(offset) + "%a = memref.load %A[%j] : memref<64xf32>\n"
    body += "memref.store %a, %A[%i] : memref<64xf32>"
    assert dependences(body) == [("anti", offset, True)]


def test_the_distance_counts_iterations_not_elements():
    body = at(4) + "%a = memref.load %A[%i] : memref<64xf32>\n"
    body += "memref.store %a, %A[%j] : memref<64xf32>"
    assert dependences(body, step="%c2") == [("flow", 2, True)]


def test_an_offset_between_two_steps_never_meets():
    body = at(1) + "%a = memref.load %A[%i] : memref<64xf32>\n"
    body += "memref.store %a, %A[%j] : memref<64xf32>"
    assert dependences(body, step="%c2") == []


def test_the_same_element_meets_in_every_iteration():
    body = "%a = memref.load %A[%c0] : memref<64xf32>\nmemref.store %a, %A[%c0] : memref<64xf32>"
    assert set(dependences(body)) == {("anti", 0, True), ("flow", 1, True), ("output", 1, True)}


def test_different_constant_elements_never_meet():
    body = "%a = memref.load %A[%c0] : memref<64xf32>\nmemref.store %a, %A[%c1] : memref<64xf32>"
    assert [kind for kind, _, _ in dependences(body)] == ["output"]


def test_a_certain_conflict_is_not_asserted_away_but_an_uncertain_one_is():
    certain = "memref.store %x, %A[%c0] : memref<64xf32>"
    uncertain = (
        "%r = memref.load %B[%i] : memref<64xf32>\n%k = arith.fptoui %r : f32 to i32\n"
        "%j = arith.index_cast %k : i32 to index\nmemref.store %x, %A[%j] : memref<64xf32>"
    )
    assert dependences(certain, independent=True) == [("output", 1, True)]
    assert ("output", 1, False) in dependences(uncertain)
    assert ("output", 1, False) not in dependences(uncertain, independent=True)


def test_vectors_meet_where_they_overlap():
    body = "%v = vector.load %A[%i] : memref<64xf32>, vector<4xf32>\n"
    body += at(4) + "vector.store %v, %A[%j] : memref<64xf32>, vector<4xf32>"
    # i + 4 … i + 7 is read again from one to seven iterations later.
    assert ("flow", 1, True) in dependences(body)
    assert dependences(body, step="%c4") == [("flow", 1, True)]
    assert dependences(body, step="%c8") == []


def test_one_dimension_that_never_meets_is_enough():
    body = "%a = memref.load %D[%i, %c0] : memref<64x64xf32>\n"
    body += "memref.store %a, %D[%n, %c1] : memref<64x64xf32>"
    assert "flow" not in [kind for kind, _, _ in dependences(body)]


def test_a_slot_written_by_hand_meets_itself_after_as_many_iterations():
    body = "%s = arith.remui %i, %c4 : index\n%a = memref.load %S[%s] : memref<64xf32, #wg>\n"
    body += "memref.store %a, %S[%s] : memref<64xf32, #wg>"
    assert set(dependences(body)) == {("anti", 0, True), ("flow", 4, True), ("output", 4, True)}


def test_thread_ids_of_the_two_ends_are_separate():
    """A[i + tid] of one thread is A[i' + tid'] of another: every distance up to the block."""
    body = "%j = arith.addi %i, %tid : index\n%a = memref.load %A[%j] : memref<64xf32>\n"
    body += "memref.store %a, %A[%j] : memref<64xf32>"
    assert ("flow", 1, True) in dependences(body, threads=32)
    assert "flow" not in [kind for kind, _, _ in dependences(body, threads=32, step="%c32")]


# -- which memory -----------------------------------------------------------------------------


def test_arguments_may_alias_unless_one_is_noalias():
    may = "%a = memref.load %B[%i] : memref<64xf32>\nmemref.store %a, %C[%i] : memref<64xf32>"
    never = may.replace("%B", "%A")
    assert ("flow", 1, False) in dependences(may)
    assert dependences(may, noalias=True) == []
    assert dependences(never) == []


def test_memory_spaces_are_separate():
    body = "%a = memref.load %B[%i] : memref<64xf32>\nmemref.store %a, %S[%i] : memref<64xf32, #wg>"
    assert dependences(body) == []


def test_subviews_are_seen_through():
    body = at(2) + (
        "%v = memref.subview %A[%j] [4] [1] : memref<64xf32> to "
        "memref<4xf32, strided<[1], offset: ?>>\n"
        "%a = memref.load %A[%i] : memref<64xf32>\n"
        "memref.store %a, %v[%c1] : memref<4xf32, strided<[1], offset: ?>>"
    )
    assert dependences(body) == [("flow", 3, True)]


def test_an_element_of_a_strided_subview_is_followed_to_its_buffer():
    body = (
        "%v = memref.subview %A[%i] [4] [2] : memref<64xf32> to "
        "memref<4xf32, strided<[2], offset: ?>>\n"
        "%a = memref.load %A[%i] : memref<64xf32>\n"
        "memref.store %a, %v[%c1] : memref<4xf32, strided<[2], offset: ?>>"
    )
    # %v[1] is %A[i + 2]
    assert dependences(body) == [("flow", 2, True)]


def test_a_row_of_a_strided_subview_stands_for_the_whole_buffer():
    body = (
        "%v = memref.subview %A[%i] [4] [2] : memref<64xf32> to "
        "memref<4xf32, strided<[2], offset: ?>>\n"
        "%a = memref.load %A[%i] : memref<64xf32>\n"
        "%b = vector.broadcast %a : f32 to vector<4xf32>\n"
        "vector.transfer_write %b, %v[%c0] {in_bounds = [true]} : vector<4xf32>, "
        "memref<4xf32, strided<[2], offset: ?>>"
    )
    assert ("flow", 1, False) in dependences(body)


def test_views_that_move_with_the_iteration_lie_elsewhere_in_the_next_one():
    # Byte 4 (63 - i) and subscript i: every iteration touches the last element.
    body = (
        "%c63 = arith.constant 63 : index\n"
        "%left = arith.subi %c63, %i : index\n%shift = arith.muli %left, %c4 : index\n"
        "%raw = memref.alloca() : memref<256xi8>\n"
        "%v = memref.view %raw[%shift][] : memref<256xi8> to memref<64xf32>\n"
        "%a = memref.load %v[%i] : memref<64xf32>\n"
        "memref.store %a, %v[%i] : memref<64xf32>"
    )
    assert ("flow", 1, False) in dependences(body)


# -- privatisation ----------------------------------------------------------------------------

STORE = "memref.store %x, %S[{index}] : memref<64xf32, #wg>"
LOAD = "%r = memref.load %S[{index}] : memref<64xf32, #wg>"


def private(body: str, threads: int | None = 32, written_elsewhere: bool = False) -> bool:
    """Whether each iteration reads only what it wrote, over all threads of the block."""
    _module, regions, _, arithmetic = analysed(body, threads=threads)
    found = [r for r in regions if r.root is not None and r.root.kind == "allocation"]
    return (
        unproven_read(
            found[0].root, found, arithmetic.block_size, written_elsewhere=written_elsewhere
        )
        is None
    )


def test_reading_what_the_thread_itself_wrote_is_private():
    assert private(STORE.format(index="%tid") + "\n" + LOAD.format(index="%tid"))


def test_reading_before_writing_is_not_private():
    assert not private(LOAD.format(index="%tid") + "\n" + STORE.format(index="%tid"))


def test_reading_what_another_thread_wrote_is_private():
    body = STORE.format(index="%tid") + "\n%o = arith.subi %c31, %tid : index\n"
    assert private(body + LOAD.format(index="%o"))


def test_reading_beyond_what_the_block_wrote_needs_that_nobody_writes_there():
    body = STORE.format(index="%tid") + "\n%o = arith.addi %tid, %c32 : index\n"
    body += LOAD.format(index="%o")
    assert private(body)
    assert not private(body, written_elsewhere=True)
    late = body + "\nmemref.store %x, %S[%o] : memref<64xf32, #wg>"
    assert not private(late)


def test_a_swizzle_and_its_inverse_cover_the_same_elements():
    """Written in rows with column xor row, read with the same swizzle in another thread order."""
    write = (
        "%r0 = arith.divui %tid, %c8 : index\n%q0 = arith.remui %tid, %c8 : index\n"
        "%s0 = arith.xori %q0, %r0 : index\n"
        "memref.store %x, %T[%r0, %s0] : memref<8x8xf32, #wg>\n"
    )
    read = (
        "%r1 = arith.remui %tid, %c8 : index\n%q1 = arith.divui %tid, %c8 : index\n"
        "%s1 = arith.xori %q1, %r1 : index\n"
        "%v = memref.load %T[%r1, %s1] : memref<8x8xf32, #wg>"
    )
    assert private(write + read, threads=64)
    half = write.replace("%r0, %s0", "%r0, %q1").replace(
        "memref.store", "%q1 = arith.divui %q0, %c2 : index\nmemref.store"
    )
    later = read.replace("%r1", "%r2").replace("%q1", "%q2").replace("%s1", "%s2")
    touched = "\nmemref.store %x, %T[%r2, %s2] : memref<8x8xf32, #wg>"
    assert not private(half + later + touched, threads=64)


def test_a_write_that_may_be_skipped_covers_nothing():
    body = (
        "%c = arith.cmpf ogt, %x, %x : f32\nscf.if %c {\n"
        + STORE.format(index="%tid")
        + "\n}\n"
        + LOAD.format(index="%tid")
    )
    assert not private(body)


def test_threads_that_write_are_known_by_their_ids():
    """Threads below 16 write: elements 0 to 15 are covered, of the others nobody ever writes any."""
    write = (
        "%c = arith.cmpi ult, %tid, %c16 : index\nscf.if %c {\n"
        + STORE.format(index="%tid")
        + "\n}\n"
    )
    own = write + LOAD.format(index="%tid")
    assert private(own)
    assert not private(own, written_elsewhere=True)
    low = write + "%o = arith.remui %tid, %c16 : index\n" + LOAD.format(index="%o")
    assert private(low, written_elsewhere=True)
    otherwise = low.replace("scf.if %c {\n", "scf.if %c {\n} else {\n")
    assert not private(otherwise, written_elsewhere=True)


def test_inner_loops_are_enumerated():
    body = (
        "scf.for %k = %c0 to %c2 step %c1 {\n%m = arith.muli %k, %c32 : index\n"
        "%j = arith.addi %m, %tid : index\n" + STORE.format(index="%j") + "\n}\n"
        "%m2 = arith.muli %tid, %c2 : index\n" + LOAD.format(index="%m2")
    )
    assert private(body)


def copied_from_its_thread_on(upper: str, stored: str = "%k") -> str:
    """Thread t writes elements t, t + 32, … below `upper`, or `stored` for each of them; it reads element t + 8."""
    return (
        f"%end = arith.constant {upper} : index\n"
        "scf.for %k = %tid to %end step %c32 {\n" + STORE.format(index=stored) + "\n}\n"
        "%o = arith.addi %tid, %c8 : index\n" + LOAD.format(index="%o")
    )


def test_a_loop_that_runs_once_or_twice_in_a_thread_is_enumerated():
    """With 32 threads elements 8 to 39 are read."""
    assert private(copied_from_its_thread_on("40"), written_elsewhere=True)
    assert not private(copied_from_its_thread_on("39"), written_elsewhere=True)
    assert not private(copied_from_its_thread_on("40"), threads=16, written_elsewhere=True)


def test_a_loop_that_some_threads_never_run_writes_nothing_for_them():
    body = copied_from_its_thread_on("16", stored="%tid").replace("%S[%o]", "%S[%tid]")
    assert not private(body, written_elsewhere=True)
    assert private(body.replace("constant 16", "constant 32"), written_elsewhere=True)


def test_a_loop_up_to_what_memory_says_is_not_enumerated():
    loaded = (
        "%w = memref.load %S[%c0] : memref<64xf32, #wg>\n%count = arith.fptoui %w : f32 to i32\n"
    )
    body = copied_from_its_thread_on("40").replace(
        "%end = arith.constant 40 : index", loaded + "%end = arith.index_cast %count : i32 to index"
    )
    assert not private(body, written_elsewhere=True)


def test_without_a_block_size_every_possible_size_must_be_covered():
    same = STORE.format(index="%tid") + "\n" + LOAD.format(index="%tid")
    assert private(same, threads=None)
    # 31 - tid is what another thread wrote for 32 threads, but not for one.
    other = STORE.format(index="%tid") + "\n%o = arith.subi %c31, %tid : index\n"
    other += LOAD.format(index="%o")
    assert not private(other, threads=None, written_elsewhere=True)


def test_indices_from_memory_are_not_proven():
    body = (
        "%r0 = memref.load %B[%i] : memref<64xf32>\n%k = arith.fptoui %r0 : f32 to i32\n"
        "%j = arith.index_cast %k : i32 to index\n"
        + STORE.format(index="%tid")
        + "\n"
        + LOAD.format(index="%j")
    )
    assert not private(body)


# -- copies over the lanes of a wave ----------------------------------------------------------

LDS = "memref<2048xf32, #wg>"
WAVES = """
%L = memref.alloc() : memref<2048xf32, #wg>
%wave = arith.divui %tid, %c64 : index
%c1024 = arith.constant 1024 : index
%low = arith.muli %wave, %c1024 : index
"""


def copies_of_waves(second: str) -> list[tuple[str, int, bool]]:
    """Dependences of two copies to LDS: 64 lanes write 4 elements each after their address."""
    body = WAVES + second
    for place in ("%low", "%next"):
        body += f"amdgpu.gather_to_lds %A[%i], %L[{place}] : vector<4xf32>, memref<64xf32>, {LDS}\n"
    return dependences(body, threads=128)


def test_copies_that_do_not_reach_each_other_are_apart():
    # Waves at 0 and 1024 copy 256 elements each, and 256 from 256 on.
    second = "%c256 = arith.constant 256 : index\n%next = arith.addi %low, %c256 : index\n"
    assert ("output", 0, False) not in copies_of_waves(second)
    assert all(distance == 1 for _, distance, _ in copies_of_waves(second))


def test_a_copy_reaches_as_far_as_all_lanes_write():
    # 200 elements on, the stretch of 256 overlaps, though the address of each lane does not.
    second = "%c200 = arith.constant 200 : index\n%next = arith.addi %low, %c200 : index\n"
    assert ("output", 0, False) in copies_of_waves(second)


@pytest.mark.parametrize(
    ("shape", "subscripts", "extent"),
    [
        ("2048", "%low", (256,)),
        ("32x64", "%wave, %c0", (4, 64)),
        ("8x256", "%wave, %c0", (1, 256)),
        ("4x512", "%wave, %c8", (1, 256)),
        # Four rows that begin inside a row are no box.
        ("32x64", "%wave, %c8", None),
        # 256 elements are no whole number of rows of 96.
        ("32x96", "%wave, %c0", None),
    ],
)
def test_the_stretch_of_a_wave_is_a_box_of_rows(shape, subscripts, extent):
    kind = f"memref<{shape}xf32, #wg>"
    body = WAVES + f"%M = memref.alloc() : {kind}\n"
    body += f"amdgpu.gather_to_lds %A[%i], %M[{subscripts}] : vector<4xf32>, memref<64xf32>, {kind}"
    text = FUNCTION.format(body=body, lower="%c0", step="%c1", known="")
    module = ir.Module.parse(text, bindings.new_context())
    loop = next(op for op in walk(module.operation) if op.name == "scf.for")
    tops = [s.op for s in read_body(loop).statements]
    write = next(r for r in regions_of(tops, Arithmetic(), 64) if r.writes)
    assert write.extent == extent


@pytest.mark.parametrize(("lanes", "covered"), [(32, False), (64, True)])
def test_lane_ids_have_the_chips_width(lanes, covered):
    """Two waves of 64, or four of 32, write at their lane: only lanes up to 63 fill 64 elements."""
    body = """
    %lane = gpu.lane_id
    memref.store %x, %S[%lane] : memref<64xf32, #wg>
    gpu.barrier
    %c63 = arith.constant 63 : index
    %y = memref.load %S[%c63] : memref<64xf32, #wg>
    memref.store %y, %A[%i] : memref<64xf32>
    """
    text = FUNCTION.format(
        body=body,
        lower="%c0",
        step="%c1",
        known="attributes {known_block_size = array<i32: 128, 1, 1>}",
    )
    module = ir.Module.parse(text, bindings.new_context())
    loop = next(op for op in walk(module.operation) if op.name == "scf.for")
    tops = [s.op for s in read_body(loop).statements]
    regions = regions_of(tops, Arithmetic((128, 1, 1)), lanes)
    tile = [r for r in regions if r.root is not None and r.root.space == "workgroup"]
    missing = unproven_read(tile[0].root, tile, (128, 1, 1), written_elsewhere=True)
    assert (missing is None) == covered


# -- what is the same in each iteration ---------------------------------------------------------


@pytest.mark.parametrize(("size", "changes"), [("%i", True), ("%n", False)])
def test_the_size_of_an_allocation_in_the_loop_is_the_same_if_what_it_is_given_is(size, changes):
    body = f"%b = memref.alloca({size}) : memref<?xf32>\n%d = memref.dim %b, %c0 : memref<?xf32>\n"
    body += "%a = memref.load %A[%d] : memref<64xf32>"
    _module, _regions, index, _arithmetic = analysed(body)
    (found,) = (op for op in walk(index.loop) if op.name == "memref.dim")
    changing = SameEachTime(index.loop).what_changes(found.results)
    assert (changing is not None) is changes
