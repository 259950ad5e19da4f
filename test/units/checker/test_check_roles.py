"""Warp-specialised kernels: right ones are proven for any number of tiles, wrong ones are named.

Covers: checker/phases/followed_kernel.py, checker/phases/mbarrier_state.py,
checker/phases/block_memory.py, checker/phases/phase_paths.py,
checker/phases/warp_clocks.py, checker/phases/op_effects.py, checker/phases/loop_iterations.py,
checker/kernel.py
"""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.machine_programs import parse
from helpers.role_kernels import APART as OWN_BARRIER
from helpers.role_kernels import AS_PING_PONG, WRONG, TwoGroups
from helpers.tensor_kernels import Ring
from helpers.tensor_mutants import APART, EVERYWHERE, PRODUCT, changed, init, one_by_one
from mlir_async_pipe.session.report import Report

LOADS = Ring(tiles=3, specialised=True, counted=False)
PRODUCTS = Ring(slots=2, in_flight=1, tiles=4, reader="products", specialised=True, counted=False)


def checked(ring: Ring | TwoGroups) -> Report:
    return check_module(parse(ring.text())).report


@pytest.mark.parametrize(
    ("in_flight", "counted"), list(itertools.product((0, 1, 2), (True, False)))
)
def test_one_slot_more_than_products_in_flight_is_proven_and_one_fewer_hangs(
    in_flight: int, counted: bool
) -> None:
    """V >= p + 1, for any number of tiles, two executions of the loop, and drain arrivals."""
    ring = dataclasses.replace(PRODUCTS, in_flight=in_flight, counted=counted)
    found = {
        slots: checked(dataclasses.replace(ring, slots=slots, tiles=2 * slots + 1))
        for slots in range(max(1, in_flight), in_flight + 3)
    }
    assert verdict(found[in_flight + 1]) == verdict(found[in_flight + 2]) == "safe"
    assert in_flight == 0 or codes(found[in_flight]) == {"deadlock"}


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
@pytest.mark.parametrize("counted", [True, False])
def test_generic_readers_are_proven(slots: int, counted: bool) -> None:
    ring = dataclasses.replace(LOADS, slots=slots, tiles=2 * slots + 1, counted=counted)
    assert verdict(checked(ring)) == "safe"


# The names of each fault, of which one order of the roles shows one.
NAMES = {
    "no wait": {"read-in-flight", "too-many-arrivals", "source-overwritten", "deadlock"},
    "wrong parity": {"wrong-parity", "deadlock", "source-overwritten"},
    "phase never flips": {"phase-not-flipped"},
    "phases restart": {"phase-not-flipped", "deadlock", "unwaited-copy"},
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
    "no wait for empty": {"too-many-arrivals", "missing-barrier", "source-overwritten"},
    "wrong parity of empty": {"deadlock"},
    "never given back": {"deadlock"},
    "empty counts too many": {"deadlock"},
    "empty counts too few": {"too-many-arrivals"},
    "wait_group too weak": {"source-overwritten", "missing-barrier"},
    "accumulators too early": {"read-in-flight"},
}
CASES = [
    pytest.param(ring, changes, NAMES[name], id=f"{ring.reader}-{name}")
    for ring, name, changes in one_by_one(
        (LOADS, (EVERYWHERE, APART)), (PRODUCTS, (EVERYWHERE, APART, PRODUCT))
    )
]


@pytest.mark.parametrize(("ring", "changes", "expected"), CASES)
def test_each_fault_has_a_name(ring: Ring, changes: dict[str, str], expected: set[str]) -> None:
    found = codes(checked(changed(ring, **changes)))
    assert found and found <= expected


def test_a_deadlock_names_both_sides() -> None:
    reported = [str(item) for item in checked(changed(PRODUCTS, arrive="")).diagnostics]
    (reported,) = [text for text in reported if "[deadlock]" in text][:1]
    lines = changed(PRODUCTS, arrive="").text().split("\n")
    places = [int(text.split(":")[1]) for text in reported.split("\n") if text.startswith("-:")]
    waits = [line for line in (lines[at - 1] for at in places) if "try_wait" in line]
    assert {"%full" in line for line in waits} == {True, False}
    assert "of its 4 arrivals came" in reported


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ((), "unknown"),
        # Products that the warp itself has not waited for.
        (("%s3 = arith.subi %s2, %left", "%s3 = arith.subi %s2, %c0"), "unsafe"),
        (("%s3 = arith.subi %s2, %left", "%s3 = arith.addi %s2, %c0"), "unsafe"),
    ],
)
def test_one_arrival_a_warpgroup_does_not_cover_its_other_warps(
    change: tuple[str, ...], expected: str
) -> None:
    """That wgmma is over in all four warps at once the PTX ISA neither says nor excludes."""
    one = changed(PRODUCTS, init_empty=init("%empty", "%c1")).text()
    leader = one.replace("%lane0 = arith.cmpi eq, %lane, %c0", "%lane0 = arith.cmpi eq, %t, %c0")
    assert leader != one
    text = leader.replace(*change) if change else leader
    assert text != leader or not change
    report = check_module(parse(text)).report
    assert verdict(report) == expected
    reasons = {reason for entry in report.of("checks") for reason in entry.reasons}
    assert expected == "unsafe" or reasons == {"products-of-others"}


DRAIN = """scf.for %k = %c0 to %left step %c1 {
  %up = arith.addi %k, %c1 : index
  %s4 = arith.addi %r#0, %slots : index
  %s5 = arith.subi %s4, %up : index
  %old = arith.remui %s5, %slots : index
  scf.if %lane0 {
    %token = nvgpu.mbarrier.arrive %empty[%old] : BARS -> !nvgpu.mbarrier.token
  }
}"""


def test_drain_arrivals_are_the_last_of_the_execution() -> None:
    """ "Always p" gives back too many where an execution has fewer tiles; none at all hangs."""
    assert codes(checked(changed(PRODUCTS, drain=DRAIN))) <= {"too-many-arrivals", "deadlock"}
    assert verdict(checked(changed(PRODUCTS, drain=DRAIN))) == "unsafe"
    assert "deadlock" in codes(checked(changed(PRODUCTS, drain="")))
    enough = changed(dataclasses.replace(PRODUCTS, tiles=3, counted=True), drain=DRAIN)
    assert verdict(checked(enough)) == "safe"


def test_a_loop_of_very_many_tiles_is_proven() -> None:
    ring = dataclasses.replace(LOADS, slots=3, tiles=100000, executions=1, counted=True)
    assert verdict(checked(ring)) == "safe"
    assert verdict(checked(changed(ring, wait_empty=""))) == "unsafe"


def test_a_side_that_has_ended_does_not_wait_for_the_other() -> None:
    """Two branches in a row: the consumers pass the producer's, while that waits for them."""
    text = LOADS.text()
    head, rest = text.split("scf.if %consumes {", 1)
    consumer, producer = rest.split("\n} else {\n  scf.if %issues {", 1)
    body, end = producer.rsplit("\n  }\n}\nreturn", 1)
    apart = f"{head}scf.if %issues {{{body}\n}}\nscf.if %consumes {{{consumer}\n}}\nreturn{end}"
    assert verdict(check_module(parse(apart)).report) == "safe"
    inside = apart.replace("\nreturn", "\ngpu.barrier\nreturn")
    assert verdict(check_module(parse(inside)).report) == "safe"


def test_lanes_of_one_warp_that_are_two_roles_are_not_decided() -> None:
    """The clocks are those of warps."""
    text = LOADS.text().replace(
        "%issues = arith.cmpi eq, %t, %consumers", "%issues = arith.cmpi eq, %t, %c63"
    )
    text = text.replace(
        "%consumes = arith.cmpi ult, %t, %consumers", "%consumes = arith.cmpi ult, %t, %c63"
    )
    found = check_module(parse(text)).report.of("checks")[0]
    assert found.unsafe == 0 and set(found.reasons) == {"lanes-apart"}


def test_persistent_loops_by_the_size_of_the_grid() -> None:
    """Both roles go from the block's number to the number of tiles, by as many as there are blocks."""
    head = "scf.for %e = %c0 to %executions step %c1"
    text = LOADS.text().replace(head, "scf.for %e = %block to %executions step %blocks")
    ids = "%block = gpu.block_id x\n%blocks = gpu.grid_dim x\n%c0 ="
    text = text.replace("%c0 =", ids, 1).replace("%executions = arith.constant 2 : index", "")
    text = text.replace("%tiles: index", "%tiles: index, %executions: index")
    # What the blocks write is another matter.
    text = text.replace("memref.store %v, %out[%tile, %t] : memref<?x64xf32>", "")
    assert text.count("to %executions step %blocks") == 2
    assert verdict(check_module(parse(text)).report) == "safe"
    restarted = text.replace(
        "scf.yield %r#0, %r#1 : index, i1", "scf.yield %c0, %phase0 : index, i1"
    )
    assert verdict(check_module(parse(restarted)).report) == "unsafe"


GROUPS = [
    TwoGroups(counted=False),
    TwoGroups(slots=3, counted=False, barriers=2),
    TwoGroups(slots=1, arrivals="groups", counted=False),
    TwoGroups(style="ping-pong", executions=4),
    TwoGroups(style="ping-pong", slots=3, tiles=4, executions=5, barriers=2),
]


@pytest.mark.parametrize("kernel", GROUPS)
def test_two_groups_of_consumers_are_proven(kernel: TwoGroups) -> None:
    """Cooperative, with an arrival of each warp or group; in turns, by named barriers."""
    assert verdict(checked(kernel)) == "safe"
    for completion, schedule in (("late", "forward"), ("random:1", "backward")):
        result = kernel.run(completion, schedule)
        assert not result.races and kernel.is_right(result)


@pytest.mark.parametrize(
    ("kernel", "wrong"),
    [(GROUPS[0], name) for name in WRONG]
    + [(GROUPS[2], name) for name in OWN_BARRIER]
    + [(GROUPS[3], name) for name in WRONG | AS_PING_PONG],
)
def test_two_groups_that_are_wrong_are_named(kernel: TwoGroups, wrong: str) -> None:
    changes = (WRONG | OWN_BARRIER | AS_PING_PONG)[wrong]
    mutant = dataclasses.replace(kernel, changes=changes, tiles=2 * kernel.slots + 1)
    fails = any(mutant.run(completion, "forward").races for completion in ("late", "eager"))
    assert fails
    assert verdict(checked(mutant)) == "unsafe"


def test_ping_pong_of_very_many_executions_is_counted_out() -> None:
    """Each group runs every second one: the loops of the roles are not alike."""
    kernel = TwoGroups(style="ping-pong", slots=2, tiles=2, executions=100)
    assert verdict(checked(kernel)) == "safe"


def test_subscripts_of_neighbouring_threads_touch_all_between() -> None:
    """A half of the tile that no wait covers certainly holds an element that some thread reads."""
    halves = dataclasses.replace(GROUPS[1], changes={"wait 0": ""})
    assert verdict(checked(halves)) == "unsafe"


def test_a_report_says_who_arrives_and_waits_where() -> None:
    uses = checked(dataclasses.replace(LOADS, slots=3, tiles=7)).of("roles")
    found = {(use.threads, use.does, use.op.split(".", 2)[2]): use for use in uses}
    assert set(found) == {
        ("0-63", "waits", "try_wait.parity"),
        ("0, 32", "arrives", "arrive"),
        ("64", "waits", "try_wait.parity"),
        ("64", "announces", "arrive.expect_tx"),
        ("64", "copies", "async.load"),
    }
    assert all(use.barriers == (0, 1, 2) and use.parities == (0, 1) for use in uses)
    assert {use.arrivals for use in uses if use.threads != "64"} == {1, 2}
    full = found["0-63", "waits", "try_wait.parity"].made
    assert (
        full == found["64", "copies", "async.load"].made != found["0, 32", "arrives", "arrive"].made
    )
    named = [use for use in checked(GROUPS[3]).of("roles") if use.made is None]
    assert {use.barriers for use in named} == {(1,), (2,)}
    assert checked(Ring(tiles=3)).of("roles") == ()


HERE = """%at_ = nvgpu.mbarrier.get %full[%at] : BARS -> i64
%full_ = llvm.inttoptr %at_ : i64 to !llvm.ptr<3>
%bytes_ = arith.index_cast %bytes : index to i32
"""
ANNOUNCES = "nvvm.mbarrier.expect_tx %full_, %bytes_ : !llvm.ptr<3>, i32\n"
ARRIVES = "%state = nvvm.mbarrier.arrive %full_ : !llvm.ptr<3> -> i64\n"


@pytest.mark.parametrize(
    ("expect", "found"),
    [
        (ANNOUNCES + ARRIVES, set()),
        (ANNOUNCES, {"deadlock"}),
        (ARRIVES + ANNOUNCES, {"read-in-flight", "wrong-bytes", "deadlock"}),
        (ANNOUNCES + ANNOUNCES + ARRIVES, {"wrong-bytes"}),
    ],
    ids=["before the arrival", "no arrival", "after the arrival", "twice"],
)
@pytest.mark.parametrize("roles", [True, False])
def test_bytes_are_announced_without_an_arrival(expect: str, found: set[str], roles: bool) -> None:
    """An arrival of the phase must come after that, else it may end without these bytes."""
    form = dataclasses.replace(LOADS, slots=2, specialised=roles, leader="branch")
    ring = changed(form, expect=HERE + expect)
    report = checked(ring)
    assert verdict(report) == ("unsafe" if found else "safe")
    assert codes(report) <= found
    result = ring.run()
    assert bool(result.races) == bool(found)
    assert found or ring.is_right(result)
