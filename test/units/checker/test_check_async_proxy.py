"""What tensor copies and products of warpgroups touch is judged by its phases, or unknown to the
checker: no error on right kernels, no silence on wrong ones. Generic accesses are judged as ever.

Covers: checker/kernel.py, checker/phases/phase_paths.py
"""

from __future__ import annotations

import dataclasses

import pytest

from helpers.check_harness import check_module, codes
from helpers.machine_programs import parse
from helpers.tensor_kernels import Ring
from mlir_async_pipe import machine
from mlir_async_pipe.checker.hazards import CheckSummary
from mlir_async_pipe.session.report import Report

TOGETHER = {"loads": Ring(), "products": Ring(slots=3, ahead=2, in_flight=1, reader="products")}
ROLES = {
    "roles": Ring(specialised=True),
    "roles of products": Ring(in_flight=1, reader="products", specialised=True),
}
WRONG = {
    "no wait": {"wait": ""},
    "phase never flips": {"flip": "%phase_ = arith.ori %phase, %phase : i1"},
    "no barrier": {"barrier": ""},
    "wait_group too weak": {"wait group": "2"},
}


def checked(text: str) -> Report:
    return check_module(parse(text)).report


def summary(report: Report) -> CheckSummary:
    (found,) = report.of("checks")
    return found


@pytest.mark.parametrize("name", TOGETHER | ROLES)
def test_a_right_kernel_is_proven(name):
    found = summary(checked((TOGETHER | ROLES)[name].text()))
    assert (found.unsafe, found.unknown) == (0, 0) and found.accesses > 0


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        (name, wrong)
        for name, ring in (TOGETHER | ROLES).items()
        for wrong, changes in WRONG.items()
        if ring.reader == "products" or "wait group" not in changes
        if not ring.specialised or "barrier" not in changes
    ],
)
def test_a_wrong_kernel_is_not_called_safe(name, wrong):
    ring = dataclasses.replace((TOGETHER | ROLES)[name], changes=WRONG[wrong])
    found = summary(checked(ring.text()))
    assert found.unsafe > 0


def test_the_warning_says_what_is_not_followed():
    text = ROLES["roles"].text().replace("eq, %t, %consumers", "eq, %t, %c63")
    reported = [
        str(item)
        for item in checked(text.replace("ult, %t, %consumers", "ult, %t, %c63")).diagnostics
    ]
    assert any(
        "cannot tell whether 'nvgpu.tma.async.load' races: what tensor copies and products of "
        "warpgroups do to this memory is not followed (lanes-apart)" in text
        for text in reported
    )


def test_generic_accesses_of_other_memory_are_judged():
    """Each thread reads what its neighbour wrote, without a barrier between."""
    race = """%other = memref.alloc() : memref<64xf32, WG>
%u = memref.load %out[%c0, %t] : memref<?x64xf32>
memref.store %u, %other[%t] : memref<64xf32, WG>
%neighbour = arith.subi %c63, %t : index
%w = memref.load %other[%neighbour] : memref<64xf32, WG>
memref.store %w, %out[%c0, %t] : memref<?x64xf32>
gpu.barrier"""
    ring = dataclasses.replace(TOGETHER["loads"], changes={"barrier after init": race})
    report = checked(ring.text())
    assert summary(report).unsafe > 0
    assert codes(report) == {"missing-barrier"}


def test_descriptors_that_are_numbers_may_name_all_workgroup_memory():
    struct = f"!llvm.struct<({', '.join(['f32'] * 4)})>"
    text = """
    func.func @f(%a: i64, %b: i64, %out: memref<128xf32>)
        attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
      %t = gpu.thread_id x
      %tile = memref.alloc() : memref<128xf32, WG>
      %x = memref.load %out[%t] : memref<128xf32>
      memref.store %x, %tile[%t] : memref<128xf32, WG>
      PRODUCT
      return
    }"""
    product = f"""%c = llvm.mlir.undef : {struct}
      nvvm.wgmma.fence.aligned
      %d = nvvm.wgmma.mma_async %a, %b, %c, <m = 64, n = 8, k = 16>, D[<f32>, <one>],
        A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : {struct} -> {struct}"""
    assert summary(checked(text.replace("PRODUCT", ""))).unknown == 0
    found = summary(checked(text.replace("PRODUCT", product)))
    assert found.unsafe == 0 and found.unknown == 1


@pytest.mark.parametrize("one_side", [True, False])
def test_one_side_of_a_branch_on_threads_may_copy(one_side):
    """What the other side does to what is copied is a second role."""
    text = Ring(leader="branch").text()
    marker = "scf.if %go {"
    head, *rest = text.split(marker)
    reads = "memref.load %buffer[%c0, %t] : memref<2x64xf32, WG>"
    other = "%u = arith.addi %c0, %c1 : index" if one_side else f"%u = {reads}"
    wrapped = [part.replace("\n}", f"\n}} else {{\n{other}\n}}", 1) for part in rest]
    found = summary(checked(marker.join([head, *wrapped])))
    assert found.unsafe == 0
    assert found.reasons == ({} if one_side else {"lanes-apart": found.unknown})


ARRIVE = "%token = nvgpu.mbarrier.arrive %full[%at] : {bars} -> !nvgpu.mbarrier.token"
EXPECT = "nvgpu.mbarrier.arrive.expect_tx %full[%at], {bytes} : {bars}"


def both_sides_arrive(ring: Ring, others: str) -> str:
    """Thread 0 announces and copies, all others do `others`; 64 arrivals make a phase."""
    bars = f"!nvgpu.mbarrier.group<memorySpace = WG, num_barriers = {ring.slots}>"
    text = ring.text().replace("init %full[%s], %c1", "init %full[%s], %c64")
    head, *rest = text.split("scf.if %go {")
    side = f"\n}} else {{\n{others.format(bars=bars, bytes='%c0')}\n}} }}"
    return "scf.if %in { scf.if %leader {".join(
        [head, *(part.replace("\n}", side, 1) for part in rest)]
    )


SIDES = [
    Ring(leader="branch"),
    Ring(leader="branch", counted=False),
    Ring(leader="branch", slots=3, ahead=2, order="before"),
]


@pytest.mark.parametrize("others", [ARRIVE, EXPECT], ids=["arrive", "expect 0"])
@pytest.mark.parametrize("ring", SIDES)
def test_both_sides_of_a_branch_on_threads_may_arrive(ring: Ring, others: str) -> None:
    """A phase needs the arrivals of both, in whatever order they come."""
    text = both_sides_arrive(ring, others)
    found = summary(checked(text))
    assert (found.unsafe, found.unknown) == (0, 0)
    result = machine.run(parse(text), None, ring.arguments(), threads=ring.threads)
    assert not result.races and ring.is_right(result)


@pytest.mark.parametrize(
    ("others", "expected"),
    [("%u = arith.addi %c0, %c1 : index", "deadlock"), (EXPECT.replace("{bytes}", "%c64"), "wrong-bytes")],
    ids=["not all arrive", "all announce"],
)  # fmt: skip
def test_what_both_sides_bring_a_phase_is_counted(others: str, expected: str) -> None:
    assert codes(checked(both_sides_arrive(SIDES[0], others))) == {expected}


def test_a_side_that_does_more_than_to_arrive_is_a_role() -> None:
    """When thread 0 wrote, beside the arrivals of the others, nobody counts."""
    store = "%v0 = arith.constant 0.0 : f32\n"
    store += "memref.store %v0, %buffer[%c0, %t] : memref<2x64xf32, WG>\n"
    found = summary(checked(both_sides_arrive(SIDES[0], store + ARRIVE)))
    assert "lanes-apart" in found.reasons
