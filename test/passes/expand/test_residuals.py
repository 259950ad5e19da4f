"""What is read after a loop, copied during its last iterations: right, proven, a race as soon as a wait leaves one group more in
flight, and left where it is if that is not known to be the same.

Covers: pipeliner/expand/residuals.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from helpers.gemm_kernels import gemm_text, operands
from mlir_async_pipe import check, machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, set_integer, walk
from mlir_async_pipe.machine.validation import validate
from mlir_async_pipe.session.diagnostics import InputError
from mlir_async_pipe.session.report import Report

TARGET = "nvvm:sm_80"
TILE = ("--tile-m=32", "--tile-n=32", "--warps-m=1", "--warps-n=1")
# One warp: 4 pairs of the bias and 16 of R for each thread.
BYTES = 32 * (4 * 8 + 16 * 4)


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    with new_context():
        yield


def text_of(*options: str, residual: str = "async") -> str:
    return gemm_text(*TILE, f"--residual={residual}", *options)


def piped(text: str, target: str = TARGET, **options: object) -> tuple[ir.Module, Report]:
    module = ir.Module.parse(text)
    return module, pipeline(module, target=target, **options)


def said(report: Report, code: str) -> list[str]:
    return [one.message for one in report.diagnostics if one.code == code]


def given(shape: tuple[int, int, int]) -> tuple[list[np.ndarray], np.ndarray]:
    """Arguments, and C: max(A B^T + bias, 0) + R."""
    (a, b, c), product = operands(shape, "f16")
    bias = np.arange(shape[1], dtype=np.float32) - 7
    more = (np.arange(c.size, dtype=np.float32) % 23 - 11).reshape(c.shape)
    wanted = (np.maximum(product + bias, 0) + more).astype(np.float16)
    return [a, b, c.astype(np.float16), bias, more.astype(np.float16)], wanted


def is_right(module: ir.Module, shape: tuple[int, int, int], blocks: int = 1) -> bool:
    arguments, wanted = given(shape)
    for completion in ("late", "eager"):
        done = machine.run(
            module, "gemm", arguments, threads=32, grid=(blocks, 1), completion=completion
        )
        if done.races or not np.array_equal(done.arrays[2], wanted):
            return False
    return True


def loads_from_global(module: ir.Module) -> int:
    return len(re.findall(r"vector.load %arg[34]\b", str(module)))


def waits(module: ir.Module) -> list:
    return [op for op in walk(module) if op.name == "nvgpu.device_async_wait"]


def test_bias_and_residual_are_copied_during_the_last_iterations() -> None:
    module, report = piped(text_of())
    (message,) = said(report, "residuals-ahead")
    assert (
        f"32 loads after the loop: what is read is copied during its last iterations, {BYTES} bytes"
        in message
    )
    assert not said(report, "residuals-as-written") and not check(module).diagnostics
    assert loads_from_global(module) == 0
    lines = str(module).splitlines()
    kernel = next(n for n, line in enumerate(lines) if line.strip().startswith("scf.yield"))
    copies = [n for n, line in enumerate(lines) if re.search("device_async_copy %arg[34]", line)]
    # After the kernel, and before the last products; again before the loop for short trips.
    assert len(copies) == 2 * 20
    products = [n for n, line in enumerate(lines) if "mma.sync" in line]
    assert kernel < copies[0] and any(copies[19] < n < copies[20] for n in products)
    assert all(is_right(module, (32, 32, k)) for k in (32, 64, 96, 192))


def test_it_computes_the_same_for_all_data() -> None:
    text = text_of()
    module, _ = piped(text)
    arguments, _ = given((32, 32, 160))
    assert validate(ir.Module.parse(text), module, "gemm", arguments, threads=32).verdict == "equal"


@pytest.mark.parametrize("options", [(), ("--persistent",)])
def test_one_group_more_in_flight_is_a_race(options: tuple[str, ...]) -> None:
    module, _ = piped(text_of(*options), overlap_outer=bool(options))
    found = waits(module)
    # Of a persistent kernel the last but one waits for zeros.
    for op in found[:-2] + found[-1:] if options else found:
        count = integer_attribute(op, "numGroups")
        set_integer(op, "numGroups", count + 1, 32)
        assert "read-in-flight" in {one.code for one in check(module).diagnostics}
        set_integer(op, "numGroups", count, 32)
    assert not check(module).diagnostics


@pytest.mark.parametrize("overlap_outer", [False, True])
def test_tiles_of_a_persistent_kernel_copy_theirs(overlap_outer: bool) -> None:
    module, report = piped(text_of("--persistent"), overlap_outer=overlap_outer)
    assert said(report, "residuals-ahead") and not check(module).diagnostics
    # Where tiles overlap, the loop over tiles with fewer steps than stages reads as it is written.
    assert loads_from_global(module) == (32 if overlap_outer else 0)
    assert all(is_right(module, (96, 64, k), n) for k, n in ((160, 1), (160, 4), (64, 2)))


def test_where_tiles_overlap_they_join_the_next_tiles_copies() -> None:
    """No wait is added: the last iterations wait for that group anyway."""
    counts = []
    for residual in ("direct", "async"):
        module, _ = piped(text_of("--persistent", residual=residual), overlap_outer=True)
        counts.append([integer_attribute(op, "numGroups") for op in waits(module)])
    assert counts[0] == counts[1]


SUMS = """
#wg = #gpu.address_space<workgroup>
func.func @sums(%A: memref<9x4xf32> {llvm.noalias}, %R: memref<4x2xf32> {llvm.noalias}, %O: memref<4x2xf32> {llvm.noalias})
    attributes {known_block_size = array<i32: 2, 2, 1>} {
  %B = memref.alloc() : memref<4xf32, #wg>
  %zero = arith.constant dense<0.0> : vector<2xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c9 = arith.constant 9 : index
  %x = gpu.thread_id x
  %y = gpu.thread_id y
  %row = arith.muli %y, %c2 : index
  %t = arith.addi %row, %x : index
  %other = arith.subi %c3, %t : index
  %total = scf.for %i = %c0 to %c9 step %c1 iter_args(%acc = %zero) -> vector<2xf32> {
    %tk = nvgpu.device_async_copy %A[%i, %t], %B[%t], 1 : memref<9x4xf32> to memref<4xf32, #wg>
    %g = nvgpu.device_async_create_group %tk
    nvgpu.device_async_wait %g
    gpu.barrier
    %v = memref.load %B[%other] : memref<4xf32, #wg>
    %w = vector.broadcast %v : f32 to vector<2xf32>
    %sum = arith.addf %w, %acc : vector<2xf32>
    gpu.barrier
    scf.yield %sum : vector<2xf32>
  } {async_pipe.num_stages = 3 : i64, async_pipe.residuals = "async"}
  %r = vector.load %R[%other, %c0] {alignment = 8 : i64} : memref<4x2xf32>, vector<2xf32>
  %s = arith.addf %total, %r : vector<2xf32>
  vector.store %s, %O[%t, %c0] : memref<4x2xf32>, vector<2xf32>
  return
}
"""


def test_threads_of_a_block_in_two_dimensions_have_places_of_their_own() -> None:
    module, report = piped(SUMS)
    (message,) = said(report, "residuals-ahead")
    assert "1 load after the loop" in message and not check(module).diagnostics
    a = np.arange(36, dtype=np.float32).reshape(9, 4)
    r = np.arange(8, dtype=np.float32).reshape(4, 2)
    for completion in ("late", "eager"):
        o = np.zeros((4, 2), np.float32)
        done = machine.run(module, "sums", [a, r, o], threads=(2, 2, 1), completion=completion)
        assert not done.races
        assert np.array_equal(done.arrays[2], a.sum(axis=0)[::-1, None] + r[::-1])


def test_what_stands_between_two_loops_is_read_after_the_first() -> None:
    start, rest = SUMS.split("  %total = ")
    loop, after = rest.split("  %r = ")
    again = re.sub(r"%(total|r|s)\b", r"%\1_2", f"  %total = {loop}  %r = {after}").replace(
        "= %zero", "= %s"
    )
    text = f"{start}  %total = {loop}  %r = {after.split('  vector.store')[0]}{again}"
    module, report = piped(text)
    assert len(said(report, "residuals-ahead")) == 2 and not said(report, "residuals-as-written")
    assert not check(module).diagnostics
    a = np.arange(36, dtype=np.float32).reshape(9, 4)
    r = np.arange(8, dtype=np.float32).reshape(4, 2)
    o = np.zeros((4, 2), np.float32)
    done = machine.run(module, "sums", [a, r, o], threads=(2, 2, 1), completion="late")
    assert not done.races
    assert np.array_equal(done.arrays[2], 2 * (a.sum(axis=0)[::-1, None] + r[::-1]))


def in_place(*options: str) -> str:
    """C = max(A B^T + bias, 0) + C."""
    return text_of(*options).replace("vector.load %R[", "vector.load %C[")


def test_what_is_added_may_be_what_is_overwritten() -> None:
    """Each load stands before the store of its elements, and after those of others."""
    module, report = piped(in_place())
    assert said(report, "residuals-ahead") and not said(report, "residuals-as-written")
    assert not check(module).diagnostics
    arguments, wanted = given((32, 32, 96))
    arguments[2] = arguments[4]
    done = machine.run(module, "gemm", arguments, threads=32, completion="late")
    assert not done.races and np.array_equal(done.arrays[2], wanted)


def may_be_one() -> str:
    return re.sub(r"(%[CR] : memref<\?x\?xf16>) \{llvm.noalias\}", r"\1", text_of())


def with_barrier() -> str:
    return re.sub(r"(\n +)(%bias_pair = )", r"\1gpu.barrier\1\2", text_of(), count=1)


def with_loaded_rows() -> str:
    text = re.sub(
        r"( +)(%r_pair(?:_\d+)?) = vector.load %R\[(%\w+), ",
        r"\1\2_i = memref.load %I[\3] : memref<?xindex>\n\1\2 = vector.load %R[\2_i, ",
        text_of(),
    )
    return text.replace("%R : memref", "%I : memref<?xindex> {llvm.noalias}, %R : memref")


def unaligned() -> str:
    return re.sub(r"(vector.load %R\[.*\]) \{alignment = 4 : i64\}", r"\1", text_of())


REFUSED = {
    "alignment": (unaligned, "its address may be no multiple of 4 bytes", 16),
    "tiles that add to what they store": (
        lambda: in_place("--persistent"), "'vector.store' may write its memory", 16,
    ),
    "arrays that may be one": (may_be_one, "a store before it may write what it reads", 15),
    "a barrier": (with_barrier, "'gpu.barrier' stands before it", 32),
    "a place that is loaded": (
        with_loaded_rows, "its place depends on what the loop computes, or on what is loaded", 16,
    ),
    "a block of any size": (
        lambda: text_of().replace("known_block_size = array<i32: 32, 1, 1>", "some"),
        "how many threads a block has is not known", 32,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_loads_stay_where_copies_may_read_something_else(case: str) -> None:
    text, reason, number = REFUSED[case]
    module, report = piped(text(), check="none")
    found = said(report, "residuals-as-written")
    assert sum(reason in one for one in found) == number
    assert loads_from_global(module) > 0 or "%C[" in text()


def test_what_does_not_fit_stays() -> None:
    # Three slots of two tiles of 32 x 32 f16.
    fits = 3 * 2 * 32 * 32 * 2 + BYTES
    _, report = piped(text_of(), smem_limit=fits)
    assert said(report, "residuals-ahead")
    module, report = piped(text_of(), smem_limit=fits - 1)
    (message,) = said(report, "residuals-as-written")
    assert f"{BYTES} bytes do not fit beside" in message
    assert is_right(module, (32, 32, 96))


def test_versions_in_a_threads_own_memory_take_none_of_the_workgroups() -> None:
    """Three slots of 16 bytes and 32 of what is read; 3 of 64 bytes are private."""
    text = SUMS.replace("  %zero", "  %own = memref.alloca() : memref<16xf32>\n  %zero", 1)
    early = "%a = memref.load %A[%i, %c0] : memref<9x4xf32>\n memref.store %a, %own[%c0] : memref<16xf32>"
    late = "%a2 = memref.load %own[%c0] : memref<16xf32>\n %v2 = arith.addf %v, %a2 : f32"
    text = text.replace("    %tk =", f"{early}\n    %tk =")
    text = text.replace("    %w = vector.broadcast %v", f"{late}\n    %w = vector.broadcast %v2")
    text = text.replace("num_stages = 3 : i64", "stage = [0, 0, 0, 2, 2]")
    _, report = piped(text, smem_limit=80)
    (loop,) = report.of("loops")
    assert sum(buffer.bytes for buffer in loop.buffers) == 3 * 16 + 3 * 64
    assert said(report, "residuals-ahead")
    _, report = piped(text, smem_limit=79)
    (message,) = said(report, "residuals-as-written")
    assert "32 bytes do not fit beside 48 of 79 bytes" in message


def test_where_nobody_asks_nothing_moves() -> None:
    module, report = piped(text_of(residual="direct"))
    assert loads_from_global(module) == 32
    assert not said(report, "residuals-ahead") and not said(report, "residuals-as-written")


def test_another_word_is_an_error() -> None:
    with pytest.raises(InputError) as found:
        piped(text_of().replace('"async"', '"ahead"'))
    assert "async_pipe.residuals" in str(found.value)
