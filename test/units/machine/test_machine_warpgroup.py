"""Matrix products of a warpgroup on the machine, against NumPy.

Covers: machine/dialects/warpgroup.py, machine/fragments.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.machine_programs import run
from mlir_async_pipe.facts.costs.cost_model import CostModel
from mlir_async_pipe.machine import fragments
from mlir_async_pipe.machine.timeline import lay_out
from mlir_async_pipe.session.diagnostics import MachineError

pytestmark = pytest.mark.slow


def tensor_map(rows: int, columns: int = 64) -> str:
    return (
        f"!nvgpu.tensormap.descriptor<tensor = memref<{rows}x{columns}xT, WG>, "
        "swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>"
    )


OF_B = "    : memref<64x128xT, WG>, "
BARRIERS = "!nvgpu.mbarrier.group<memorySpace = WG>"
FENCE = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"
ACC = "!nvgpu.warpgroup.accumulator<fragmented = vector<128x128xf32>>"
DESC_A = "!nvgpu.warpgroup.descriptor<tensor = memref<128x64xT, WG>>"
DESC_B = "!nvgpu.warpgroup.descriptor<tensor = memref<64x128xT, WG>>"
HALF = "memref<64x64xT, strided<[64, 1], offset: OFFSET>, WG>"
# B is 64x128 and comes as two boxes of 64x64, one after the other.
GEMM = f"""
func.func @f(%a: memref<128x64xT>, %b: memref<64x128xT>, %c: memref<128x128xf32>) {{
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %first = arith.cmpi eq, %t, %c0 : index
  %sa = memref.alloc() : memref<128x64xT, WG>
  %sb = memref.alloc() : memref<64x128xT, WG>
  %b0 = memref.reinterpret_cast %sb to offset: [0], sizes: [64, 64], strides: [64, 1]
    : memref<64x128xT, WG> to {HALF.replace("OFFSET", "0")}
  %b1 = memref.reinterpret_cast %sb to offset: [4096], sizes: [64, 64], strides: [64, 1]
    : memref<64x128xT, WG> to {HALF.replace("OFFSET", "4096")}
  %ua = memref.cast %a : memref<128x64xT> to memref<*xT>
  %ub = memref.cast %b : memref<64x128xT> to memref<*xT>
  %ma = nvgpu.tma.create.descriptor %ua box[%c128, %c64] : memref<*xT> -> {tensor_map(128)}
  %mb = nvgpu.tma.create.descriptor %ub box[%c64, %c64] : memref<*xT> -> {tensor_map(64)}
  %bar = nvgpu.mbarrier.create -> {BARRIERS}
  %c1 = arith.constant 1 : index
  %bytes = arith.constant 32768 : index
  %false = arith.constant false
  nvgpu.mbarrier.init %bar[%c0], %c1, predicate = %first : {BARRIERS}
  {FENCE}
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes, predicate = %first : {BARRIERS}
  nvgpu.tma.async.load %ma[%c0, %c0], %bar[%c0] to %sa, predicate = %first
    : {tensor_map(128)}, {BARRIERS} -> memref<128x64xT, WG>
  nvgpu.tma.async.load %mb[%c0, %c0], %bar[%c0] to %b0, predicate = %first
    : {tensor_map(64)}, {BARRIERS} -> {HALF.replace("OFFSET", "0")}
  nvgpu.tma.async.load %mb[%c64, %c0], %bar[%c0] to %b1, predicate = %first
    : {tensor_map(64)}, {BARRIERS} -> {HALF.replace("OFFSET", "4096")}
  nvgpu.mbarrier.try_wait.parity %bar[%c0], %false, %c64 : {BARRIERS}
  %da = nvgpu.warpgroup.generate.descriptor %sa, %ma
    : memref<128x64xT, WG>, {tensor_map(128)} -> {DESC_A}
  %db = nvgpu.warpgroup.generate.descriptor %sb, %mb
    : memref<64x128xT, WG>, {tensor_map(64)} -> {DESC_B}
  %zero = nvgpu.warpgroup.mma.init.accumulator -> {ACC}
  %once = nvgpu.warpgroup.mma %da, %db, %zero {{transposeB}} : {DESC_A}, {DESC_B}, {ACC} -> {ACC}
  %twice = nvgpu.warpgroup.mma %da, %db, %once {{transposeB, waitGroup = 0 : i64}} : {DESC_A}, {DESC_B}, {ACC} -> {ACC}
  nvgpu.warpgroup.mma.store %twice, %c : {ACC} to memref<128x128xf32>
  return
}}"""


def gemm(element: str = "f16") -> str:
    return GEMM.replace("xT", f"x{element}")


def operands() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((128, 64), (64, 128)))
    return a, b, np.zeros((128, 128), np.float32)


def as_bf16(values: np.ndarray) -> np.ndarray:
    """Bit patterns; small integers lose nothing."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("element", ("f16", "bf16"))
def test_warpgroup_mma_multiplies_what_tma_copies_brought(element):
    a, b, c = operands()
    given = (a, b) if element == "f16" else (as_bf16(a), as_bf16(b))
    result = run(gemm(element), *given, c, threads=128)
    assert result.races == ()
    np.testing.assert_array_equal(
        result.arrays[2], 2 * (a.astype(np.float32) @ b.astype(np.float32))
    )


def test_a_timeline_has_the_products_and_their_waits():
    """The first wait leaves the first product in flight, the second one stalls for both."""
    timeline = lay_out(run(gemm(), *operands(), threads=128).trace, CostModel(default_latency=100))
    groups = [(bar.lane, bar.name) for bar in timeline.bars if bar.kind == "group"]
    assert groups == [("wgmma", "group 0"), ("wgmma", "group 1")]
    assert [name for name, _ in timeline.waits] == ["wait 1", "wait 0"]
    assert timeline.stalls == 100


@pytest.mark.parametrize("completion", ("eager", "late", "random:1"))
def test_accumulators_are_read_after_the_wait_for_their_product(completion):
    """The default leaves one product in flight, whose registers hold nothing yet."""
    program = gemm().replace(", waitGroup = 0 : i64", "")
    result = run(program, *operands(), threads=128, completion=completion)
    assert result.race_codes == {"read-in-flight", "unwaited-copy"}
    assert np.isnan(result.arrays[2]).any() == (completion != "eager")


def test_operands_written_by_threads_need_a_fence():
    """TMA writes are seen, generic ones are not."""
    old = "  %da = nvgpu"
    store = "  memref.store %one, %sa[%t, %c0] : memref<128x64xf16, WG>\n  FENCE\n  gpu.barrier\n"
    program = gemm().replace(old, "  %one = arith.constant 1.0 : f16\n" + store + old)
    unfenced = run(program.replace("FENCE", ""), *operands(), threads=128)
    assert unfenced.race_codes == {"missing-fence"}
    assert run(program.replace("FENCE", FENCE), *operands(), threads=128).races == ()


def test_warpgroup_mma_before_the_barrier_wait_is_a_race():
    lines = [line for line in gemm().splitlines() if "try_wait" not in line]
    result = run("\n".join(lines), *operands(), threads=128)
    assert result.race_codes == {"read-in-flight", "unwaited-copy"}


def test_warpgroup_mma_of_unwritten_memory_is_found():
    program = gemm().replace(
        "nvgpu.tma.async.load %mb[%c64, %c0]", "nvgpu.tma.async.load %mb[%c0, %c0]"
    )
    program = program.replace("to %b1, predicate", "to %b0, predicate").replace(
        "-> " + HALF.replace("OFFSET", "4096").replace("xT", "xf16"),
        "-> " + HALF.replace("OFFSET", "0").replace("xT", "xf16"),
    )
    codes = run(program, *operands(), threads=128).race_codes
    assert codes == {"uninitialised-read", "overwrite-in-flight"}


def test_part_of_a_warpgroup_is_found():
    result = run(gemm(), *operands(), threads=96)
    assert "divergent-warp-op" in result.race_codes


@pytest.mark.parametrize(
    "old, new, why",
    [
        ("{transposeB}", "", "with transposeB only"),
        (f"%sb, %mb\n{OF_B}{tensor_map(64)}", f"%sb, %ma\n{OF_B}{tensor_map(128)}", "not boxes"),
    ],
)
def test_forms_whose_descriptors_read_elsewhere_are_refused(old, new, why):
    program = GEMM.replace(old, new).replace("xT", "xf16")
    with pytest.raises(MachineError, match=why) as error:
        run(program, *operands(), threads=128)
    assert error.value.code == "unsupported-op"


@pytest.mark.parametrize("schedule", ["lockstep", "random"])
def test_the_second_warpgroup_stores_64_rows_after_the_first(schedule):
    """Its first 64 are the last ones of the first warpgroup; its last ones are beyond the memref."""
    result = run(gemm(), *operands(), threads=256, schedule=schedule)
    assert result.race_codes == {"missing-barrier", "out-of-bounds"}


# Copied from the PTX ISA's figure of the accumulator of wgmma.m64nNk16, not computed.
@pytest.mark.parametrize(
    "lane, element, place",
    [
        (0, 1, (0, 1)),
        (5, 2, (9, 2)),
        (37, 4, (17, 10)),
        (127, 7, (63, 15)),
        (0, 8, (64, 0)),
        (127, 15, (127, 15)),
    ],
)
def test_lane_holds_the_element_that_the_figure_says(lane, element, place):
    layout = fragments.warpgroup(128, 16)
    assert (layout.rows[lane, element], layout.columns[lane, element]) == place
