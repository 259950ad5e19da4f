"""Mbarriers, tensor copies and products on all paths: right loops are proven, wrong ones are named.

Covers: checker/phases/phase_paths.py, checker/phases/op_effects.py, checker/phases/mbarrier_state.py,
checker/phases/block_memory.py, checker/phases/registers_in_flight.py, checker/phases/loop_iterations.py,
checker/phases/path_state.py, checker/phase_faults.py, vocabulary/mbarrier_ops.py
"""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.machine_programs import parse
from helpers.tensor_kernels import Ring
from helpers.tensor_mutants import EVERYWHERE, PRODUCT, TOGETHER, changed, one_by_one
from mlir_async_pipe.session.diagnostics import MachineError
from mlir_async_pipe.session.report import Report

LOADS = Ring(tiles=3)
PRODUCTS = Ring(slots=3, ahead=2, in_flight=1, tiles=4, reader="products")


def checked(ring: Ring) -> Report:
    return check_module(parse(ring.text())).report


FORMS = list(
    itertools.product(
        ("thread", "elect", "branch"), (True, False), ("carried", "divided"), ("after", "before")
    )
)


@pytest.mark.parametrize(("leader", "counted", "parity", "order"), FORMS)
def test_as_many_slots_as_the_rule_says_are_proven_and_one_fewer_is_not(
    leader: str, counted: bool, parity: str, order: str
) -> None:
    """V >= d + p, one more where the copy comes before the product; also for any number of tiles,
    and whatever writes slot and parity."""
    least = 2 + (order == "before")
    form = {"leader": leader, "counted": counted, "parity": parity, "order": order}
    found = [
        verdict(checked(Ring(slots=slots, ahead=2, tiles=2 * slots + 1, **form)))
        for slots in (least - 1, least, least + 1)
    ]
    assert found == ["unsafe", "safe", "safe"]


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize(("ahead", "in_flight"), [(1, 0), (1, 2), (2, 1), (3, 0)])
def test_products_in_flight_need_a_slot_each(ahead: int, in_flight: int, counted: bool) -> None:
    least = ahead + in_flight
    ring = Ring(ahead=ahead, in_flight=in_flight, reader="products", counted=counted)
    found = [
        verdict(checked(dataclasses.replace(ring, slots=slots, tiles=2 * slots + 1)))
        for slots in (least, least - 1)
        if slots
    ]
    assert found == ["safe", "unsafe"][: len(found)]


# The name of each fault; where the machine's completion decides what shows first, of several.
NAMES = {
    "no wait": {"read-in-flight"},
    "wrong parity": {"wrong-parity"},
    "phase never flips": {"phase-not-flipped"},
    "phases restart": {"phase-not-flipped", "missing-barrier", "source-overwritten"},
    "too few bytes": {"wrong-bytes"},
    "too many bytes": {"wrong-bytes"},
    "no expect_tx": {"deadlock"},
    "two arrivals": {"too-many-arrivals"},
    "no fence": {"missing-fence"},
    "init not visible": {"init-not-visible"},
    "init by all": {"several-issuers"},
    "init counts two": {"deadlock"},
    "no init": {"barrier-not-initialised"},
    "init again": {"initialised-again"},
    "no barrier": {"phase-overtaken", "missing-barrier"},
    "wrong slot": {"deadlock", "too-many-arrivals", "source-overwritten", "overwrite-in-flight"},
    "expect_tx without the copy": {"wrong-bytes", "too-many-arrivals"},
    "wait_group too weak": {"source-overwritten"},
    "accumulators too early": {"read-in-flight"},
}
CASES = [
    pytest.param(ring, changes, NAMES[name], id=f"{ring.reader}-{name}")
    for ring, name, changes in one_by_one(
        (LOADS, (EVERYWHERE, TOGETHER)), (PRODUCTS, (EVERYWHERE, TOGETHER, PRODUCT))
    )
]


@pytest.mark.parametrize(("ring", "changes", "expected"), CASES)
def test_each_fault_has_a_name(ring: Ring, changes: dict[str, str], expected: set[str]) -> None:
    found = codes(checked(changed(ring, **changes)))
    assert found and found <= expected


# Each thread arrives where the next copy into its slot waits, in the place of a barrier of the block.
GIVEN_BACK = Ring(
    tiles=7,
    leader="branch",
    changes={
        "init": """scf.for %s = %c0 to %slots step %c1 {
  nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : BARS
  nvgpu.mbarrier.init %empty[%s], %consumers, predicate = %leader : BARS
}""",
        "expect": """%turn = arith.divui %tile, %slots : index
%odd = arith.remui %turn, %c2 : index
%before = arith.cmpi eq, %odd, %c0 : index
nvgpu.mbarrier.try_wait.parity %empty[%at], %before, %c64 : BARS
nvgpu.mbarrier.arrive.expect_tx %full[%at], %bytes : BARS""",
        "barrier": "%token = nvgpu.mbarrier.arrive %empty[%slot] : BARS -> !nvgpu.mbarrier.token",
    },
)
# An arrival before the read, by one thread for all, and a wait of the leader alone.
ONE = "scf.if %leader {{ {} }}"
LATE = {
    "arrival before the read": (dataclasses.replace(GIVEN_BACK, order="before"), "missing-barrier"),
    "one thread arrives": (
        changed(
            GIVEN_BACK,
            barrier=ONE.format(GIVEN_BACK.changes["barrier"]),
            init=GIVEN_BACK.changes["init"].replace("%consumers", "%c1"),
        ),
        "phase-overtaken",
    ),
    "one thread waits": (
        changed(
            GIVEN_BACK,
            wait=ONE.format("nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %c64 : BARS"),
        ),
        "not-visible",
    ),
}


def raced(ring: Ring) -> set[str]:
    """What the machine finds, the code of its error if it stops."""
    found: set[str] = set()
    for schedule, completion in itertools.product(
        ("lockstep", "forward", "backward"), ("late", "eager")
    ):
        try:
            found |= ring.run(completion, schedule).race_codes
        except MachineError as failed:
            found.add(failed.code)
    return found


def test_threads_that_all_arrive_where_the_copy_waits_need_no_barrier_of_the_block() -> None:
    assert verdict(checked(GIVEN_BACK)) == "safe"
    assert not raced(GIVEN_BACK)


@pytest.mark.parametrize("name", LATE)
def test_who_arrives_too_early_or_waits_alone_needs_one(name: str) -> None:
    ring, code = LATE[name]
    assert codes(checked(ring)) == {code}
    assert raced(ring)


def test_all_threads_that_copy_are_named() -> None:
    all_of_them = LOADS.text().replace("%go = arith.andi %in, %leader", "%go = arith.andi %in, %in")
    report = check_module(parse(all_of_them)).report
    assert codes(report) == {"too-many-arrivals"}
    only_copies = LOADS.text().replace("to %to, predicate = %go", "to %to, predicate = %in")
    assert codes(check_module(parse(only_copies)).report) == {"several-issuers"}


def test_a_message_names_both_ops_and_what_is_missing() -> None:
    reported = [str(item) for item in checked(changed(PRODUCTS, wait_group="2")).diagnostics]
    assert any(
        "'nvgpu.tma.async.load' writes what 'nvgpu.warpgroup.mma' may still be reading" in text
        and "it reads until a wait with count 1 or less on queue wgmma" in text
        for text in reported
    )


def test_a_copy_that_nobody_waits_for_is_in_flight_when_the_block_ends() -> None:
    text = LOADS.text().replace("scf.for %i = %c0 to %tiles", "scf.for %i = %c0 to %c0")
    assert codes(check_module(parse(text)).report) == {"too-many-arrivals"}
    once = text.replace("%executions = arith.constant 2", "%executions = arith.constant 1")
    assert codes(check_module(parse(once)).report) == {"unwaited-copy"}


def test_a_block_of_unknown_size_is_not_followed() -> None:
    text = LOADS.text().replace("attributes {gpu.known_block_size = array<i32: 64, 1, 1>}", "")
    found = check_module(parse(text)).report.of("checks")[0]
    assert found.unsafe == 0 and found.reasons == {"block-size": found.unknown}


def test_a_loop_of_very_many_tiles_is_proven() -> None:
    """Its iterations are followed as if their number were not known."""
    assert verdict(checked(Ring(slots=3, ahead=2, tiles=100000, executions=1))) == "safe"
    wrong = changed(Ring(slots=3, ahead=2, tiles=100000, executions=1), barrier="")
    assert codes(checked(wrong)) == {"phase-overtaken"}


STEPS = """
  %n64 = arith.constant 64 : index
  %up = arith.addi %n, %c63 : index
  %tiles = arith.divui %up, %n64 : index
  %full ="""


def test_tiles_that_are_counted_by_a_division() -> None:
    """The loop runs from 0 to n by 64; the prologue and the refills compare tiles."""
    text = Ring(slots=3, ahead=2, executions=1, counted=False).text()
    text = text.replace("%tiles: index", "%n: index").replace("\n  %full =", STEPS, 1)
    head = "%r:3 = scf.for %i = %c0 to %tiles step %c1"
    assert head in text
    stepped = text.replace(head, "%r:3 = scf.for %from_n = %c0 to %n step %n64")
    stepped = stepped.replace(
        "%tile = arith.addi %first, %i",
        "%i = arith.divui %from_n, %n64 : index\n%tile = arith.addi %first, %i",
    )
    assert verdict(check_module(parse(stepped)).report) == "safe"
    wrong = stepped.replace("%up = arith.addi %n, %c63", "%up = arith.addi %n, %c0")
    assert "deadlock" in codes(check_module(parse(wrong)).report)


def test_a_wait_that_is_not_followed_is_unknown_also_without_any_copy() -> None:
    """No access tells of what the lanes of one warp do that are two roles."""
    ring = Ring(specialised=True, changes={"copy": "", "expect": ""})
    text = ring.text().replace("eq, %t, %consumers", "eq, %t, %c63")
    text = text.replace("ult, %t, %consumers", "ult, %t, %c63")
    report = check_module(parse(text)).report
    found = report.of("checks")[0]
    assert found.reasons.get("lanes-apart") == found.unknown >= 2
    reported = [str(item) for item in report.diagnostics]
    expected = "'nvgpu.mbarrier.try_wait.parity' waits for the right phase"
    assert any(f"cannot tell whether {expected}" in text for text in reported)


GEMM = """
func.func @f(%a_: !llvm.ptr, %n: index) attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
  %a = builtin.unrealized_conversion_cast %a_ : !llvm.ptr to MAP
  %tiles = memref.alloc() : memref<SLOTSx64x64xf16, WG>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %slots = arith.constant SLOTS : index
  %ticks = arith.constant 1000 : index
  %size = arith.constant 8192 : index
  %false = arith.constant false
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %full = nvgpu.mbarrier.create -> BARS
  scf.for %s = %c0 to %slots step %c1 {
    nvgpu.mbarrier.init %full[%s], %c1, predicate = %leader : BARS
  }
  nvvm.fence.mbarrier.init
  gpu.barrier
  %zero = llvm.mlir.zero : REGISTERS
  %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %false, %sum = %zero) -> (index, i1, REGISTERS) {
    %view = memref.subview %tiles[%slot, 0, 0][1, 64, 64][1, 1, 1] : memref<SLOTSx64x64xf16, WG> to memref<64x64xf16, strided<[64, 1], offset: ?>, WG>
    nvgpu.mbarrier.arrive.expect_tx %full[%slot], %size, predicate = %leader : BARS
    nvgpu.tma.async.load %a[%c0, %c0], %full[%slot] to %view, predicate = %leader : MAP, BARS -> memref<64x64xf16, strided<[64, 1], offset: ?>, WG>
    nvgpu.mbarrier.try_wait.parity %full[%slot], %phase, %ticks : BARS
    %base = memref.extract_aligned_pointer_as_index %tiles : memref<SLOTSx64x64xf16, WG> -> index
    %from = arith.muli %slot, %size : index
    %at = arith.addi %base, %from : index
    %at32 = arith.index_cast %at : index to i32
    %four = arith.constant 4 : i32
    %bits = arith.constant 16383 : i32
    %units = arith.shrui %at32, %four : i32
    %low = arith.andi %units, %bits : i32
    %low64 = arith.extui %low : i32 to i64
    %layout = arith.constant 4611686293305360384 : i64
    %first = arith.ori %low64, %layout : i64
    %two = arith.constant STEP : i64
    %second = arith.addi %first, %two : i64
    nvvm.wgmma.fence.aligned
    %x = nvvm.wgmma.mma_async %first, %first, %sum, <m = 64, n = 8, k = 16>, D[<f32>, <one>], A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : REGISTERS -> REGISTERS
    %y = nvvm.wgmma.mma_async %second, %second, %x, <m = 64, n = 8, k = 16>, D[<f32>, <one>], A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : REGISTERS -> REGISTERS
    nvvm.wgmma.commit.group.sync.aligned
    nvvm.wgmma.wait.group.sync.aligned LEFT
    gpu.barrier
    %s1 = arith.addi %slot, %c1 : index
    %wrap = arith.cmpi eq, %s1, %slots : index
    %slot_ = arith.select %wrap, %c0, %s1 : index
    %phase_ = arith.xori %phase, %wrap : i1
    scf.yield %slot_, %phase_, %y : index, i1, REGISTERS
  }
  nvvm.wgmma.wait.group.sync.aligned LAST
  %v = llvm.extractvalue %r#2[0] : REGISTERS
  vector.print %v : f32
  return
}"""


def filled_gemm(changes: dict[str, str]) -> str:
    """The loop with numbers and types put in."""
    values = {"SLOTS": "1", "LEFT": "0", "LAST": "0", "STEP": "2", **changes}
    text = GEMM
    for name, value in values.items():
        text = text.replace(name, value)
    registers = f"!llvm.struct<({', '.join(['f32'] * 4)})>"
    tensor_map = (
        "!nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, "
        "l2promo = none, oob = zero, interleave = none>"
    )
    bars = f"!nvgpu.mbarrier.group<memorySpace = WG, num_barriers = {values['SLOTS']}>"
    text = text.replace("REGISTERS", registers).replace("MAP", tensor_map).replace("BARS", bars)
    return text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"LEFT": "1"}, {"missing-barrier", "source-overwritten"}),
        ({"SLOTS": "2", "LEFT": "1"}, set()),
        ({"LEFT": "1", "SLOTS": "2", "LAST": "1"}, {"read-in-flight"}),
    ],
)
def test_products_of_descriptors_that_are_numbers(
    changes: dict[str, str], expected: set[str]
) -> None:
    """Descriptors are made of the buffer's address as compilers write it. Each iteration copies its
    own tile, so V >= p + 1; k-steps of 32 bytes stay inside their slot."""
    text = filled_gemm(changes)
    found = codes(check_module(parse(text)).report)
    assert bool(found) == bool(expected) and found <= expected


@pytest.mark.parametrize(
    ("last", "part", "expected"),
    [("0", "1", set()), ("1", "0", set()), ("1", "1", {"read-in-flight"})],
)
def test_a_struct_of_accumulators_may_be_made_while_they_are_filled(
    last: str, part: str, expected: set[str]
) -> None:
    """Products converted to nvvm put their registers into one struct before they commit: that reads
    nothing, and what is in part 0 of it is not in flight because part 1 is."""
    text = filled_gemm({"SLOTS": "2", "LEFT": "1", "LAST": last})
    registers = f"!llvm.struct<({', '.join(['f32'] * 4)})>"
    both = f"!llvm.struct<({registers}, {registers})>"
    commit = "    nvvm.wgmma.commit.group.sync.aligned\n"
    packed = f"""    %none = llvm.mlir.poison : {both}
    %some = llvm.insertvalue %zero, %none[0] : {both}
    %all = llvm.insertvalue %y, %some[1] : {both}
{commit}    %back = llvm.extractvalue %all[1] : {both}
"""
    text = text.replace(commit, packed)
    text = text.replace("scf.yield %slot_, %phase_, %y", "scf.yield %slot_, %phase_, %back")
    text = text.replace(
        "  %v = llvm.extractvalue %r#2[0]",
        f"""  %nothing = llvm.mlir.poison : {both}
  %one = llvm.insertvalue %zero, %nothing[0] : {both}
  %two = llvm.insertvalue %r#2, %one[1] : {both}
  %read = llvm.extractvalue %two[{part}] : {both}
  %v = llvm.extractvalue %read[0]""",
    )
    found = check_module(parse(text)).report
    assert codes(found) == expected
    assert verdict(found) == ("unsafe" if expected else "safe")


def test_descriptors_of_several_warpgroups() -> None:
    """Each of two warpgroups multiplies from its half of the tile on: its descriptor has the number of
    the warpgroup in it, and the buffer goes on after the tile."""
    text = filled_gemm({})
    assert "<1x64x64xf16, WG>" in text
    two = text.replace("<1x64x64xf16, WG>", "<2x64x64xf16, WG>")
    two = two.replace("array<i32: 128, 1, 1>", "array<i32: 256, 1, 1>").replace(
        "%at = arith.addi %base, %from : index",
        """%c128 = arith.constant 128 : index
    %half = arith.constant 4096 : index
    %group = arith.divui %t, %c128 : index
    %own = arith.muli %group, %half : index
    %mine = arith.addi %base, %own : index
    %at = arith.addi %mine, %from : index""",
    )
    assert verdict(check_module(parse(two)).report) == "safe"
    further = two.replace("constant 4096 : index", "constant 8192 : index")
    assert verdict(check_module(parse(further)).report) == "safe", "memory that nobody copies to"
    ended = two.replace("constant 4096 : index", "constant 9216 : index")
    assert codes(check_module(parse(ended)).report) == {"out-of-bounds"}, (
        "1024 bytes beyond its end"
    )
    early = two.replace("wait.group.sync.aligned 0\n    gpu", "wait.group.sync.aligned 1\n    gpu")
    assert codes(check_module(parse(early)).report) <= {"missing-barrier", "source-overwritten"}
    assert verdict(check_module(parse(early)).report) == "unsafe"


SPIN = """%one = nvgpu.mbarrier.get %full[%slot] : BARS -> i64
%pointer = llvm.inttoptr %one : i64 to !llvm.ptr<3>
%odd_ = arith.extui %phase : i1 to i32
scf.while : () -> () {
  %over = nvvm.mbarrier.test.wait %pointer, %odd_ : !llvm.ptr<3>, i32 -> i1
  %again = arith.xori %over, %true : i1
  scf.condition(%again)
} do {
  scf.yield
}"""


def test_a_loop_that_asks_until_the_phase_is_over_is_a_wait() -> None:
    """A parity that is never flipped, and a test without a loop, are named."""
    assert verdict(checked(changed(LOADS, wait=SPIN))) == "safe"
    never = {"wait": SPIN, "flip": "%phase_ = arith.ori %phase, %phase : i1"}
    assert codes(checked(dataclasses.replace(LOADS, changes=never))) == {"phase-not-flipped"}
    relaxed = SPIN.replace("%odd_ :", "%odd_ {relaxed = true} :")
    assert verdict(checked(changed(LOADS, wait=relaxed))) == "unknown"
    once = SPIN.replace("scf.condition(%again)", "scf.condition(%false)")
    assert "read-in-flight" in codes(checked(changed(LOADS, wait=once)))


def test_asking_for_a_phase_that_never_ends_is_not_called_safe() -> None:
    report = checked(dataclasses.replace(LOADS, changes={"wait": SPIN, "expect": ""}))
    assert verdict(report) == "unknown"
