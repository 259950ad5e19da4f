"""A fence for the async proxy stands on a path from the write to the access: made by the writer, with a barrier after
it, or by who has seen the write, with a barrier before (Lustig, Cooksey, Giroux, "Mixed-proxy extensions for the NVIDIA
PTX memory consistency model", ISCA 2022, section 5.4: in the block of the access). mbarriers are fenced by the thread
that initialised them. Checker and machine agree.

Covers: checker/phases/mbarrier_state.py, checker/phases/block_memory.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.machine_programs import parse
from helpers.stored_loops import FENCE, STORED_MAP
from helpers.tensor_stores import plain_text
from mlir_async_pipe import machine

BARRIER = "gpu.barrier"
LEADER = f"scf.if %leader {{\n{FENCE}\n}}"
OTHER = f"""%last = arith.constant 63 : index
    %other = arith.cmpi eq, %t, %last : index
    scf.if %other {{
{FENCE}
}}"""
# Of all threads' writes, of which thread 0 stores the tile.
STORES = {
    "fence, barrier": ([FENCE, BARRIER], False),
    "barrier, fence, barrier": ([BARRIER, FENCE, BARRIER], False),
    "barrier, fence of the issuing thread": ([BARRIER, LEADER], False),
    "barrier, fence": ([BARRIER, FENCE], False),
    "barrier, fence of another thread": ([BARRIER, OTHER], True),
    "barrier, fence of another thread, barrier": ([BARRIER, OTHER, BARRIER], False),
    "fence of another thread, barrier": ([OTHER, BARRIER], True),
    "fence of the issuing thread, barrier": ([LEADER, BARRIER], True),
}


def raced(text: str, arguments: list[object]) -> set[str]:
    return {
        code
        for schedule in ("lockstep", "forward", "backward")
        for code in machine.run(
            parse(text), None, arguments, threads=64, schedule=schedule
        ).race_codes
    }


def judged(text: str, arguments: list[object]) -> tuple[str, set[str], set[str]]:
    report = check_module(parse(text)).report
    return verdict(report), codes(report), raced(text, arguments)


@pytest.mark.parametrize("name", STORES)
def test_what_threads_wrote_is_stored_after_their_fences_and_a_barrier(name: str) -> None:
    between, wrong = STORES[name]
    text = plain_text("").replace(f"{FENCE}\n    gpu.barrier", "\n".join(between), 1)
    found, said, races = judged(text, [np.zeros(64 * 3, np.float32), 3])
    assert found == ("unsafe" if wrong else "safe")
    assert races == ({"missing-fence"} if wrong else set())
    assert not wrong or said & {"missing-fence", "missing-barrier"}


COPY = """
func.func @f(%x_: !llvm.ptr, %out: memref<64xf32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to MAP
  %o = memref.alloc() : memref<64xf32, WG>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %ticks = arith.constant 1000 : index
  %bytes = arith.constant 256 : index
  %false = arith.constant false
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %other = arith.cmpi eq, %t, %c32 : index
  %role = arith.cmpi ult, %t, %c32 : index
  %b = nvgpu.mbarrier.create -> BARS
  nvgpu.mbarrier.init %b[%c0], %c1, predicate = %leader : BARS
  BETWEEN
  BODY
  return
}"""
ISSUE = """nvgpu.mbarrier.arrive.expect_tx %b[%c0], %bytes, predicate = WHO : BARS
  nvgpu.tma.async.load %x[%c0], %b[%c0] to %o, predicate = WHO : MAP, BARS -> memref<64xf32, WG>"""
READ = """nvgpu.mbarrier.try_wait.parity %b[%c0], %false, %ticks : BARS
  %v = memref.load %o[%t] : memref<64xf32, WG>
  memref.store %v, %out[%t] : memref<64xf32>"""
GROUP = "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 1>"
FENCES = [FENCE, "nvvm.fence.mbarrier.init"]
BODIES = {
    "together": f"{ISSUE}\n{READ}",
    "roles": f"scf.if %role {{\n{READ}\n}} else {{\n{ISSUE}\n}}",
}


@pytest.mark.parametrize("fence", FENCES, ids=["proxy", "init"])
@pytest.mark.parametrize(
    ("body", "between", "who", "wrong"),
    [
        ("together", "FENCE\nBARRIER", "%other", False),
        ("together", "BARRIER\nFENCE\nBARRIER", "%other", False),
        ("together", "BARRIER\nFENCE", "%other", True),
        ("together", "BARRIER\nFENCE", "%leader", False),
        ("roles", "FENCE\nBARRIER", "%other", False),
        ("roles", "BARRIER\nFENCE\nBARRIER", "%other", False),
        ("roles", "BARRIER\nFENCE", "%other", True),
    ],
)
def test_a_copy_uses_an_mbarrier_after_the_fence_of_who_initialised_it(
    fence: str, body: str, between: str, who: str, wrong: bool
) -> None:
    between = between.replace("FENCE", fence).replace("BARRIER", BARRIER)
    text = COPY.replace("BETWEEN", between).replace("BODY", BODIES[body]).replace("WHO", who)
    text = text.replace("MAP", STORED_MAP).replace("BARS", GROUP)
    given = [np.arange(64, dtype=np.float32), np.zeros(64, np.float32)]
    expected = {"missing-fence"} if wrong else set()
    assert judged(text, given) == ("unsafe" if wrong else "safe", expected, expected)
