"""PTX instructions for which NVVM has no op: their rows, and that the machine and the checker read them so.

Covers: vocabulary/ptx_rows.py, machine/dialects/nvvm.py, checker/phases/op_effects.py, ptx/instructions.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_module
from helpers.machine_programs import parse
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.ptx.raise_ptx import raise_ptx
from mlir_async_pipe.vocabulary import accesses, order_of, row_of
from mlir_async_pipe.vocabulary.ptx_rows import read_instruction

HEAD = """\
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 x, .param .u64 .ptr .global .align 16 y)
.reqntid {threads}, 1, 1
{cluster}{{
  .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .f32 %f<9>;
  .shared .align 16 .b8 smem[256];
  ld.param.u64 %d1, [x];
  ld.param.u64 %d4, [y];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, smem;
  mul.wide.u32 %d2, %r1, 4;
  add.s64 %d3, %d1, %d2;
  add.s64 %d5, %d4, %d2;
"""


def kernel(body: str, threads: int = 32, cluster: str = "") -> str:
    return HEAD.format(threads=threads, cluster=cluster) + f"{body}\n  ret;\n}}\n"


def found(text: str) -> tuple[set[str], int, int]:
    """The codes of errors, and how many accesses are unsafe and unknown."""
    module = raise_ptx(text, new_context(), "k.ptx")
    result = check_module(module, assume_noalias_arguments=True)
    return {code for code, _ in result.unsafe}, len(result.unsafe), len(result.unknown)


@pytest.mark.parametrize(
    ("text", "results", "row", "size"),
    [
        ("multimem.ld_reduce.acquire.sys.global.add.f32 $0, [$1];", 1, "multimem.ld_reduce", 4),
        (
            "multimem.ld_reduce.weak.global.add.acc::f32.v4.bf16x2 {$0, $1, $2, $3}, [$4];",
            4,
            "multimem.ld_reduce",
            16,
        ),
        ("multimem.st.v4.f32 [$0], {$1, $2, $3, $4};", 0, "multimem.st", 16),
        ("multimem.red.release.gpu.global.max.s64 [$0], $1;", 0, "multimem.red", 8),
        (
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [$0], {$1, $2}, [$3];",
            0,
            "st.async",
            16,
        ),
        # Operands twice, in another order, or moved; two instructions; modifiers of which nobody knows what they mean.
        ("multimem.st.f32 [$1], $0;", 0, "", 0),
        ("multimem.st.v2.f32 [$0], {$1, $1};", 0, "", 0),
        ("multimem.st.f32 [$0+4], $1;", 0, "", 0),
        ("multimem.st.f32 [$0], $1; multimem.st.f32 [$0], $1;", 0, "", 0),
        ("@$2 multimem.st.f32 [$0], $1;", 0, "", 0),
        ("multimem.st.mmio.f32 [$0], $1;", 0, "", 0),
        ("multimem.st.global [$0], $1;", 0, "", 0),
        ("multimem.store.f32 [$0], $1;", 0, "", 0),
        ("st.async.release.sys.global.b32 [$0], $1, [$2];", 0, "", 0),
    ],
)
def test_assembly_of_one_instruction_has_its_row(
    text: str, results: int, row: str, size: int
) -> None:
    instruction = read_instruction(text, results)
    if not row:
        assert instruction is None
    else:
        assert instruction is not None and (instruction.row, instruction.size) == (
            f"ptx.{row}",
            size,
        )


@pytest.mark.parametrize(
    ("instruction", "kind", "acquire", "release", "strong"),
    [
        ("multimem.ld_reduce.acquire.sys.global.add.u32 %r3, [%d1]", "read", True, False, True),
        ("multimem.ld_reduce.weak.global.add.u32 %r3, [%d1]", "read", False, False, False),
        ("multimem.st.release.gpu.global.u32 [%d1], %r3", "write", False, True, True),
        ("multimem.st.global.u32 [%d1], %r3", "write", False, False, False),
        ("multimem.red.global.add.u32 [%d1], %r3", "atomic", False, False, True),
    ],
)
def test_what_it_accesses_and_orders_stands_in_the_row(
    instruction: str, kind: str, acquire: bool, release: bool, strong: bool
) -> None:
    module = raise_ptx(kernel(f"  {instruction};\n  st.global.u32 [%d4], %r3;"), new_context())
    (op,) = [op for op in walk(module.operation) if op.name == "llvm.inline_asm"]
    (access,), order = accesses(op), order_of(op)
    assert (access.kind, access.extent) == (kind, (4,))
    assert (order.acquire, order.release, order.strong) == (acquire, release, strong)


SUM = "  multimem.ld_reduce.relaxed.sys.global.add.f32 %f1, [%d3];\n  multimem.st.global.f32 [{}], %f1;"


def test_sums_of_several_devices_are_stored_to_all() -> None:
    text = kernel(SUM.format("%d5"))
    assert found(text) == (set(), 0, 0)
    data = np.arange(32, dtype=np.float32)
    module = raise_ptx(text, new_context(), "k.ptx")
    result = machine.run(module, "k", [data, np.zeros_like(data)], threads=32)
    assert not result.races and np.array_equal(result.arrays[1], data)


@pytest.mark.parametrize("place", ["%d4", "%d5+4"])
def test_threads_that_store_to_one_place_of_all_devices_race(place: str) -> None:
    """All to the first, or each to its own and to its neighbour's."""
    codes, unsafe, _ = found(kernel(SUM.format("%d5") + "\n" + SUM.format(place), threads=64))
    assert codes == {"missing-barrier"} and unsafe


def test_reductions_of_all_devices_may_meet() -> None:
    text = kernel("  multimem.red.relaxed.sys.global.add.u32 [%d4], %r1;")
    assert found(text) == (set(), 0, 0)
    module = raise_ptx(text, new_context(), "k.ptx")
    result = machine.run(module, "k", [np.zeros(32, np.uint32)] * 2, threads=32)
    assert result.arrays[1][0] == 31 * 16 and not result.races
    codes, _, _ = found(
        text.replace("multimem.red.relaxed.sys.global.add", "multimem.st.weak.global")
    )
    assert codes == {"missing-barrier"}


# The first thread of each block hands a number to the other block, which waits for its 4 bytes.
HANDED = """\
  add.s32 %r3, %r2, 128;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $ready;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {bytes};
$ready:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r4, %cluster_ctarank;
  xor.b32 %r5, %r4, 1;
  mapa.shared::cluster.u32 %r6, %r2, {there};
  mapa.shared::cluster.u32 %r7, %r3, %r5;
  add.s32 %r8, %r4, 7;
  @{issuer} st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r6], %r8, [%r7];
$again:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;
  {wait}
  ld.shared.u32 %r9, [%r2];
  mul.wide.u32 %d6, %r4, 4;
  add.s64 %d7, %d1, %d6;
  setp.eq.u32 %p4, %r1, 0;
  @%p4 st.global.u32 [%d7], %r9;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;"""
PARTS = {"bytes": 4, "there": "%r5", "issuer": "!%p1", "wait": "@!%p3 bra $again;"}


def handed(**changes: str) -> str:
    return kernel(HANDED.format(**(PARTS | changes)), cluster=".reqnctapercluster 2, 1, 1\n")


@pytest.mark.parametrize("completion", ["eager", "late", "random:1"])
def test_blocks_hand_each_other_numbers(completion: str) -> None:
    module = raise_ptx(handed(), new_context(), "k.ptx")
    result = machine.run(
        module, "k", [np.zeros(2, np.uint32)] * 2, threads=32, grid=2, completion=completion
    )
    assert not result.races and result.arrays[0].tolist() == [8, 7]


@pytest.mark.parametrize(
    "changes", [{"wait": ""}, {"bytes": "8"}, {"issuer": "%p1"}, {"bytes": "2"}]
)
def test_numbers_that_are_not_awaited_are_found_by_the_machine_and_never_proven(
    changes: dict,
) -> None:
    text = handed(**changes)
    module = raise_ptx(text, new_context(), "k.ptx")
    result = machine.run(module, "k", [np.zeros(2, np.uint32)] * 2, threads=32, grid=2)
    assert result.races
    _, unsafe, unknown = found(text)
    assert unsafe + unknown


def test_a_number_that_another_block_hands_over_is_proven() -> None:
    assert found(handed()) == (set(), 0, 0)


CANCEL = """\
  add.s32 %r3, %r2, 128;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $ready;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16;
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r2], [%r3];
$ready:
  bar.sync 0;
$again:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;
  {}
  ld.shared.u32 %r9, [%r2];
  st.global.u32 [%d3], %r9;"""


def test_who_asks_for_another_block_waits_for_the_answer() -> None:
    text = kernel(CANCEL.format("@!%p3 bra $again;"))
    assert found(text) == (set(), 0, 0)
    module = raise_ptx(text, new_context(), "k.ptx")
    result = machine.run(module, "k", [np.ones(32, np.uint32)] * 2, threads=32)
    assert not result.races and not result.arrays[0].any()
    codes, _, unknown = found(kernel(CANCEL.format("")))
    assert codes == {"read-in-flight"} or unknown


def test_assembly_of_others_in_this_form_has_the_row_too() -> None:
    module = parse(
        "llvm.func @f(%p: !llvm.ptr<1>, %x: f32) attributes {nvvm.kernel} {\n"
        '  llvm.inline_asm has_side_effects "multimem.red.relaxed.sys.global.add.f32 [$0], $1;", "l,f" %p, %x '
        ": (!llvm.ptr<1>, f32) -> ()\n  llvm.return\n}"
    )
    (op,) = [op for op in walk(module.operation) if op.name == "llvm.inline_asm"]
    assert row_of(op).op == "ptx.multimem.red"
    assert not check_module(module).unsafe


# Both blocks, and all their threads, count in the first block, which waits for 64 numbers of 4 bytes.
COUNTED = """\
  add.s32 %r3, %r2, 128;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $ready;
  st.shared.u32 [%r2], 1000;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 256;
$ready:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r4, %cluster_ctarank;
  mapa.shared::cluster.u32 %r6, %r2, 0;
  mapa.shared::cluster.u32 %r7, %r3, 0;
  {red}.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{operation} [%r6], %r1, [%r7];
  setp.ne.u32 %p2, %r4, 0;
  @%p2 bra $over;
$again:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;
  {wait}
  ld.shared.u32 %r9, [%r2];
  st.global.u32 [%d3], %r9;
$over:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;"""
WAITED = {"red": "red", "operation": "add.u32", "wait": "@!%p3 bra $again;"}


def counted(**changes: str) -> str:
    text = COUNTED.format(**(WAITED | changes))
    return kernel(text, cluster=".reqnctapercluster 2, 1, 1\n")


@pytest.mark.parametrize("completion", ["eager", "late", "random:1"])
@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("add.u32", 1000 + 2 * 496),
        ("max.s32", 1000),
        ("min.u32", 0),
        ("and.b32", 0),
        ("or.b32", 1023),
        ("xor.b32", 1000),
    ],
)
def test_blocks_combine_in_one_of_them(operation: str, expected: int, completion: str) -> None:
    module = raise_ptx(counted(operation=operation), new_context(), "k.ptx")
    result = machine.run(
        module, "k", [np.zeros(32, np.uint32)] * 2, threads=32, grid=2, completion=completion
    )
    assert not result.races
    assert result.arrays[0].tolist() == [expected] * 32


def test_what_is_combined_and_not_awaited_races() -> None:
    module = raise_ptx(counted(wait=""), new_context(), "k.ptx")
    given = [np.zeros(32, np.uint32)] * 2
    result = machine.run(module, "k", given, threads=32, grid=2, completion="late")
    assert "read-in-flight" in result.race_codes


def test_asynchronous_reductions_are_unknown_by_name() -> None:
    """What phases they end is not followed: neither proven nor an error."""
    _, unsafe, unknown = found(counted())
    assert not unsafe and unknown
