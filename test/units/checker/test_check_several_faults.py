"""Faults of phases that do not follow from each other are told in one run.

A fault ends its path; the kernel is followed again as if what is missing there stood there.

Covers: checker/phases/mending.py, checker/phases/followed_kernel.py, checker/phase_faults.py
"""

from __future__ import annotations

import pytest

from helpers import cluster_rings
from helpers.check_harness import check_module, check_text, codes
from helpers.machine_programs import parse
from helpers.map_kernels import WRONG, map_text
from helpers.tensor_kernels import Ring
from mlir_async_pipe.session.report import Report

CHANGES = {
    "barrier after init": "",
    "wait empty": "",
    "arrive": "",
    "fence": "",
    "barrier": "",
    "wait": "",
    "flip": "%phase_ = arith.ori %phase, %phase : i1",
    "expect": "nvgpu.mbarrier.arrive.expect_tx %full[%at], {bytes}, predicate = %go : "
    "!nvgpu.mbarrier.group<memorySpace = WG, num_barriers = 2>",
}
FENCE, BARRIER, FLIP = "missing-fence", "phase-overtaken", "phase-not-flipped"
INIT, EARLY = "init-not-visible", "too-many-arrivals"


def checked(
    *names: str, specialised: bool = False, size: str = "%c64", reader: str = "loads"
) -> Report:
    changes = {name: CHANGES[name].replace("{bytes}", size) for name in names}
    ring = Ring(counted=False, specialised=specialised, changes=changes, reader=reader)
    return check_module(parse(ring.text())).report


def unknown_codes(report: Report) -> set[str]:
    return {found.code for found in report.of("hazards") if found.verdict == "unknown"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("fence",), {FENCE}),
        (("barrier",), {BARRIER}),
        (("flip",), {FLIP}),
        (("wait",), {"read-in-flight"}),
        (("fence", "barrier"), {FENCE, BARRIER}),
        (("fence", "flip"), {FENCE, FLIP}),
        (("barrier", "flip"), {BARRIER, FLIP}),
        (("barrier", "wait"), {BARRIER, "read-in-flight"}),
        (("fence", "barrier", "flip"), {FENCE, BARRIER, FLIP}),
        (("fence", "barrier", "wait"), {FENCE, BARRIER, "read-in-flight"}),
        (("barrier after init", "fence", "barrier", "flip"), {INIT, FENCE, BARRIER, FLIP}),
    ],
)
def test_all_that_do_not_follow_from_each_other_are_reported(
    names: tuple[str, ...], expected: set[str]
) -> None:
    report = checked(*names)
    assert codes(report) == expected
    assert not unknown_codes(report)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("fence",), {FENCE}),
        (("flip",), {FLIP}),
        (("barrier after init",), {INIT}),
        (("wait empty",), {EARLY}),
        (("fence", "flip"), {FENCE, FLIP}),
        (("barrier after init", "flip"), {INIT, FLIP}),
        (("fence", "wait empty"), {FENCE, EARLY}),
        (("wait", "wait empty"), {"read-in-flight", "missing-barrier"}),
        (("fence", "barrier after init", "wait empty"), {FENCE, INIT, EARLY}),
        (("fence", "wait", "wait empty"), {FENCE, "read-in-flight", "missing-barrier"}),
        (
            ("fence", "barrier after init", "wait", "wait empty"),
            {FENCE, INIT, "read-in-flight", "missing-barrier"},
        ),
    ],
)
@pytest.mark.parametrize("reader", ["loads", "products"])
def test_faults_of_roles_are_reported_together(
    reader: str, names: tuple[str, ...], expected: set[str]
) -> None:
    report = checked(*names, specialised=True, reader=reader)
    assert codes(report) == expected
    assert not unknown_codes(report)


def test_what_follows_from_a_wait_that_a_role_lacks_is_not_reported() -> None:
    """The producer that waits for nobody announces too early, copies over what is read, and lets the
    consumers arrive too often: it is told where it is too early first."""
    assert len(checked("wait empty", specialised=True).of("hazards")) == 1


def test_a_fence_is_named_after_what_stops_roles_and_nothing_about_their_order() -> None:
    """Consumers that wait for no tile let the producer hang: whoever is early then is so in no run."""
    report = checked("fence", "wait", specialised=True)
    assert codes(report) == {"deadlock", EARLY}
    assert unknown_codes(report) == {FENCE}
    assert not unknown_codes(checked("wait", specialised=True))


@pytest.mark.parametrize("size", ["%c64", "%c2048"], ids=["too few", "too many"])
def test_what_comes_after_a_fault_that_stops_the_kernel_is_not_certain(size: str) -> None:
    """No run comes to the fault of the parity: with wrong bytes the first wait never passes, or
    too early."""
    text = Ring(counted=False, changes={n: CHANGES[n] for n in ("fence", "flip", "expect")}).text()
    text = text.replace("{bytes}", size)
    text = text.replace("%c2 =", "%c2048 = arith.constant 2048 : index\n  %c2 =", 1)
    report = check_module(parse(text)).report
    assert codes(report) == {FENCE, "wrong-bytes"}
    assert FLIP in unknown_codes(report)
    reasons = {found.reason for found in report.of("hazards") if found.verdict == "unknown"}
    assert reasons == {"undecided-path"}


@pytest.mark.parametrize(
    ("specialised", "name", "other"),
    [
        (False, "barrier after init", INIT),
        (False, "fence", FENCE),
        (True, "fence", FENCE),
        (True, "flip", FLIP),
        (True, "wait empty", "overwrite-in-flight"),
    ],
)
def test_what_comes_before_a_deadlock_is_reported_beside_it(
    specialised: bool, name: str, other: str
) -> None:
    """Nobody announces the copies, so that those who wait for them hang; others have come to a fault before."""
    changes = {"expect": "", name: CHANGES[name]}
    ring = Ring(counted=False, specialised=specialised, changes=changes)
    report = check_module(parse(ring.text())).report
    assert codes(report) == {"deadlock", other}
    assert not unknown_codes(report)


def test_a_deadlock_ends_what_is_certain() -> None:
    """Nobody announces the copies: the first wait hangs, and no run comes to the loop's end."""
    changes = {"expect": "", "flip": CHANGES["flip"]}
    report = check_module(parse(Ring(counted=False, changes=changes).text())).report
    assert codes(report) <= {"deadlock", "wrong-bytes"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ("no fence of a tile that the copy overwrites", "a wait for its reads"),
            {FENCE, "read-in-flight"},
        ),
        (
            ("no fence of a tile that the copy overwrites", "no barrier after the wait"),
            {FENCE, "not-visible"},
        ),
        (("no fence of x", "a tensor store over another one"), {FENCE, "overwrite-in-flight"}),
    ],
)
def test_faults_behind_tensor_maps_are_reported_with_those_of_workgroup_memory(
    names: tuple[str, ...], expected: set[str]
) -> None:
    changes = {part: text for name in names for part, text in WRONG[name][0].items()}
    report = check_module(parse(map_text(changes))).report
    assert codes(report) == expected
    assert not unknown_codes(report)


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        (("fence", "meet_last"), {FENCE, "block-ended"}),
        (("fence", "wait_empty"), {FENCE, EARLY}),
        (("wait_empty",), {EARLY}),
        # Of blocks that do not wait for each other's mbarriers nothing else is told.
        (("meet_first", "wait_full"), {INIT}),
    ],
)
def test_a_fence_that_blocks_of_a_cluster_lack_is_reported_beside_another_fault(
    missing: tuple[str, ...], expected: set[str]
) -> None:
    text = cluster_rings.text(**dict.fromkeys(missing, ""))
    report = check_text(text.replace("WG", "#gpu.address_space<workgroup>")).report
    assert codes(report) == expected
