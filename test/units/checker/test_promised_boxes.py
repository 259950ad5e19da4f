"""Tensor maps that are made elsewhere: a user says which boxes they have, and PTX of a Hopper GEMM is proven.

Covers: checker/promises.py, vocabulary/tensor_boxes.py, facts/values/memory_roots.py,
checker/phases/loop_iterations.py
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from helpers.hopper_gemms import HopperGemm, pipelined_text
from helpers.machine_programs import parse
from mlir_async_pipe import check, lower, machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.ptx.raise_ptx import raise_ptx
from mlir_async_pipe.session.diagnostics import AsyncPipeError

BOXES = "0=128x64xf16,1=128x64xf16"
PROMISES: dict[str, Any] = {
    "assume_noalias_arguments": True,
    "assume_no_overflow": True,
    "assume_independent": True,
}


@cache
def gemm(roles: str = "together", persistent: bool = False) -> str:
    """The PTX of a GEMM by tensor copies, as LLVM writes it: three slots, loops that test at their ends."""
    with new_context():
        made = HopperGemm(roles=roles, persistent=persistent)
        module = ir.Module.parse(pipelined_text(made, False))
        return lower(module, target="nvvm:sm_90a", emit="ptx").text


def report(ptx: str, boxes: str = BOXES) -> Any:
    return check(
        raise_ptx(ptx, new_context(), "k.ptx"), "nvvm:sm_90a", assume_boxes=boxes, **PROMISES
    )


def found(ptx: str, boxes: str = BOXES) -> tuple[str, set[str]]:
    """The verdict, and the codes of what is certain."""
    made = report(ptx, boxes)
    (summary,) = made.of("checks")
    codes = {d.code for d in made.diagnostics if d.severity == "error"}
    return "unsafe" if summary.unsafe else "unknown" if summary.unknown else "proven", codes


@pytest.mark.parametrize("roles", ["together", "specialised"])
def test_the_ptx_of_a_gemm_by_tensor_copies_is_proven(roles: str) -> None:
    assert found(gemm(roles)) == ("proven", set())


def asked(roles: str, where: str = "[%r15]", goes_on: str = "@%p98") -> str:
    """The GEMM whose consumers ask for their phase first, and wait for it if the answer is no, as CUTLASS has it."""
    head, wait, rest = gemm(roles).rpartition("\t{\n\t.reg .pred       P1; \n\tLAB_WAIT:")
    block, rest = rest.split("}\n", 1)
    assert "[%r15], %r16" in block
    question = f"mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p98, {where}, %r16;\n"
    made = f"{head}{question}{goes_on} bra $asked;\n{wait}{block}}}\n$asked:\n{rest}"
    return re.sub(r"\.reg \.pred \t%p<\d+>", ".reg .pred %p<99>", made)


@pytest.mark.parametrize("roles", ["together", "specialised"])
def test_a_gemm_that_asks_before_it_waits_is_proven(roles: str) -> None:
    assert found(asked(roles)) == ("proven", set())
    assert found(asked(roles, where="[%r15+8]"))[0] != "proven"
    assert found(asked(roles, goes_on="@!%p98"))[0] == "unsafe"


@pytest.mark.parametrize("boxes", ["", "0=128x64xf16"])
def test_without_the_boxes_it_cannot_be_told(boxes: str) -> None:
    verdict, codes = found(gemm(), boxes)
    assert (verdict, codes) == ("unknown", set())


@pytest.mark.parametrize(
    "old, new, code",
    [
        ("mov.b32 \t%r19, 32768", "mov.b32 \t%r19, 16384", "wrong-bytes"),
        ("wgmma.wait_group.sync.aligned \t1", "wgmma.wait_group.sync.aligned \t2", "source-overwritten"),
        ("wait_group.sync.aligned \t1;\n\tbar.sync \t0;", "wait_group.sync.aligned \t1;", "phase-overtaken"),
        ("setp.lt.s32 \t%p11, %r168, %r2", "setp.lt.s32 \t%p11, %r168, %r4", "unwaited-copy"),
        ("setp.gt.s32 \t%p9, %r4, 64", "setp.gt.s32 \t%p9, %r4, 0", "unwaited-copy"),
        ("setp.eq.b32 \t%p14, %r39, 2", "setp.eq.b32 \t%p14, %r39, 1", "wrong-parity"),
        ("mov.b32 \t%r38, 2", "mov.b32 \t%r38, 1", "too-many-arrivals"),
    ],
    ids=["bytes", "wait", "barrier", "last tiles", "first tiles", "phase", "slot"],
)  # fmt: skip
def test_what_is_broken_in_it_is_named(old: str, new: str, code: str) -> None:
    broken = gemm().replace(old, new, 1)
    assert broken != gemm()
    verdict, codes = found(broken)
    assert verdict == "unsafe"
    assert code in codes


def test_an_example_names_the_parameter_of_the_file() -> None:
    broken = gemm().replace(*("wgmma.wait_group.sync.aligned \t" + n for n in "12"))
    notes = [note.message for d in report(broken).diagnostics for note in d.notes]
    assert any(re.search(r"for example with gemm_param_\d+ = \d+", note) for note in notes), notes


@pytest.mark.parametrize(
    "old, new, code",
    [
        ("mov.b32 \t%r19, 32768", "mov.b32 \t%r19, 16384", "wrong-bytes"),
        ("wgmma.wait_group.sync.aligned \t1", "wgmma.wait_group.sync.aligned \t2", "missing-barrier"),
        ("mul.wide.u32 \t%rd50, %r39, 8", "mul.wide.u32 \t%rd50, %r40, 8", "too-many-arrivals"),
        ("mbarrier.arrive.shared.b64 \t%rd51, [%rd6];", "", "deadlock"),
        ("mov.pred \t%p20, -1", "mov.pred \t%p20, 0", "deadlock"),
        ("setp.eq.b32 \t%p13, %r40, 2", "setp.eq.b32 \t%p13, %r40, 1", "deadlock"),
        ("setp.lt.s32 \t%p9, %r171, %r4", "setp.le.s32 \t%p9, %r171, %r4", "unwaited-copy"),
        ("add.s32 \t%r171, %r171, 64", "add.s32 \t%r171, %r171, 128", "deadlock"),
        # In the eleventh iteration nothing is copied.
        (
            "elect.sync \t%r21|%p6, -1;",
            "elect.sync \t%r21|%p6, -1;\n\tsetp.ne.s32 \t%p2, %r171, 640;\n\tand.pred \t%p6, %p6, %p2;",
            "deadlock",
        ),
    ],
    ids=["bytes", "wait", "slot", "arrival", "first", "phase", "one more", "half", "late"],
)  # fmt: skip
def test_what_is_broken_between_roles_is_named(old: str, new: str, code: str) -> None:
    whole = gemm("specialised")
    broken = whole.replace(old, new, 1)
    assert broken != whole
    verdict, codes = found(broken)
    assert verdict == "unsafe"
    assert code in codes


@pytest.mark.parametrize(
    "condition", ["setp.ne.s32 \t%p14, %r168, 640", "setp.lt.s32 \t%p14, %r168, 12800"]
)
def test_what_is_broken_in_late_iterations_is_not_proven(condition: str) -> None:
    guard = "setp.lt.s32 \t%p11, %r168, %r2;"
    broken = gemm().replace(guard, f"{guard}\n\t{condition};\n\tand.pred \t%p11, %p11, %p14;")
    assert broken != gemm()
    assert found(broken)[0] != "proven"


def test_a_box_that_is_not_that_of_the_map_does_not_bring_the_bytes() -> None:
    verdict, codes = found(gemm(), "0=128x64xf16,1=64x64xf16")
    assert (verdict, codes) == ("unsafe", {"wrong-bytes"})


@pytest.mark.parametrize("completion", ["late", "eager"])
def test_the_machine_runs_what_is_read(completion: str) -> None:
    numbers = np.random.default_rng(1)
    a, b = (numbers.integers(-3, 4, (128, 200)).astype(np.float16) for _ in range(2))
    c = np.zeros((128, 128), np.float32)
    maps = [machine.TensorMap(array, (128, 64), "swizzle_128b") for array in (a, b)]
    module = raise_ptx(gemm(), new_context(), "k.ptx")
    result = machine.run(
        module,
        None,
        [*maps, c, c, 0, 128, 128, 128, 1, 200],
        threads=(128, 1, 1),
        grid=(1, 1, 1),
        completion=completion,
        dynamic_shared_bytes=6 * 128 * 64 * 2,
    )
    assert not result.race_codes
    np.testing.assert_array_equal(result.arrays[3], a.astype(np.float32) @ b.T.astype(np.float32))


# A copy of a whole tile by maps that the kernel is given: as arguments, and in the bytes of one.
COPIES = """
llvm.mlir.global internal @tile() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<16384 x i8>
llvm.mlir.global internal @full() {addr_space = 3 : i32, alignment = 8 : i64} : !llvm.array<8 x i8>
llvm.func @k(%map: !llvm.ptr, %maps: !llvm.ptr {llvm.byval = !llvm.array<256 x i8>}, %n: i32)
    attributes {nvvm.kernel, nvvm.reqntid = array<i32: 32>} {
  %zero = llvm.mlir.constant(0 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %ticks = llvm.mlir.constant(10000 : i32) : i32
  %bytes = llvm.mlir.constant(8192 : i32) : i32
  %tid = nvvm.read.ptx.sreg.tid.x range <i32, 0, 32> : i32
  %first = llvm.icmp "eq" %tid, %zero : i32
  %full = llvm.mlir.addressof @full : !llvm.ptr<3>
  %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
  %second = llvm.getelementptr %maps[128] : (!llvm.ptr) -> !llvm.ptr, i8
  nvvm.mbarrier.init %full, %one, predicate = %first : !llvm.ptr<3>, i32, i1
  nvvm.fence.mbarrier.init
  nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
  nvvm.barrier
  nvvm.mbarrier.arrive.expect_tx %full, %bytes, predicate = %first : !llvm.ptr<3>, i32, i1
  %to = llvm.addrspacecast %tile : !llvm.ptr<3> to !llvm.ptr<7>
  nvvm.cp.async.bulk.tensor.shared.cluster.global %to, MAP, %full, box[%zero, %zero] predicate = %first MODE: !llvm.ptr<7>, !llvm.ptr
  nvvm.mbarrier.try_wait.parity %full, %zero, %ticks : !llvm.ptr<3>, i32, i32
  llvm.return
}"""


def copy(boxes: str, by: str = "%map", mode: str = "") -> Any:
    text = COPIES.replace("MAP", by).replace("MODE", mode)
    return check(parse(text), "nvvm:sm_90a", assume_boxes=boxes, **PROMISES)


@pytest.mark.parametrize(
    "boxes, by, unknown",
    [
        ("0=64x64xf16", "%map", False),
        ("0=64x128xi8", "%map", False),
        ("k:0=64x64xbf16", "%map", False),
        ("1=64x64xf16", "%maps", False),
        ("1+128=64x64xf16", "%second", False),
        ("", "%map", True),
        ("", "%second", True),
    ],
)
def test_maps_are_named_by_argument_and_byte(boxes: str, by: str, unknown: bool) -> None:
    (summary,) = copy(boxes, by).of("checks")
    assert not summary.unsafe
    assert bool(summary.unknown) == unknown


def test_a_box_on_the_copy_says_the_same() -> None:
    (summary,) = copy("", mode="{async_pipe.box = memref<64x64xf16>} ").of("checks")
    assert (summary.unsafe, summary.unknown) == (0, 0)


@pytest.mark.parametrize(
    "boxes, by, code, message",
    [
        ("2=64x64xf16", "%map", "unused-box", "no tensor copy is by the map of '2=64x64xf16'"),
        ("1=64x64xf16", "%second", "unused-box", "no tensor copy is by the map of '1=64x64xf16'"),
        ("other:0=64x64xf16", "%map", "unused-box", "no tensor copy is by the map of 'other:0"),
        ("0=64xf16", "%map", "bad-box", "it has 1 dimensions, the copy 2 coordinates"),
        ("0=512x64xf16", "%map", "bad-box", "a dimension has 1 to 256 elements"),
        ("0=64x4xf16", "%map", "bad-box", "its rows have 8 bytes, which are no multiple of 16"),
        ("0=64x64x!x", "%map", "bad-option-value", "'0=64x64x!x' of assume-boxes is no box"),
        ("0=64x64xq7", "%map", "bad-option-value", "'0=64x64xq7' of assume-boxes is no type of MLIR"),
        ("64x64xf16", "%map", "bad-option-value", "'64x64xf16' of assume-boxes is no box"),
    ],
)  # fmt: skip
def test_a_box_that_no_map_has_is_refused(boxes: str, by: str, code: str, message: str) -> None:
    with pytest.raises(AsyncPipeError) as error:
        copy(boxes, by)
    assert error.value.code == code
    assert message in str(error.value)


def test_the_advice_names_the_maps_whose_box_nothing_says() -> None:
    with pytest.raises(AsyncPipeError) as error:
        copy("2=64x64xf16", "%second")
    assert "k:1+128" in str(error.value)


@pytest.mark.parametrize("said", ['"64x64xf16"', "f16", "memref<?x64xf16>", "memref<64x64xtf32>"])
def test_what_is_no_box_on_a_copy_is_refused(said: str) -> None:
    with pytest.raises(AsyncPipeError) as error:
        copy("", mode=f"{{async_pipe.box = {said}}} ")
    assert error.value.code == "bad-box"


@pytest.mark.slow
def test_the_ptx_of_a_persistent_gemm_is_proven() -> None:
    """Tiles in steps of the grid: addresses count by a number that the loop carries, which LLVM divides in two widths."""
    assert found(gemm(persistent=True)) == ("proven", set())


@pytest.mark.slow
def test_in_a_persistent_gemm_one_more_group_of_products_in_flight_is_not_proven() -> None:
    """Which of the faults is certain the checker does not find out: it is unknown."""
    text = gemm(persistent=True)
    old = "wgmma.wait_group.sync.aligned \t1"
    assert old in text
    verdict, _ = found(text.replace(old, "wgmma.wait_group.sync.aligned \t2"))
    assert verdict != "proven"
