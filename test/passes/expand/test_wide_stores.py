"""Stores of fragments that go through the buffers of their loop: right, proven, unsafe without what orders them, and refused
where that is not known to be the same.

Covers: pipeliner/expand/wide_stores.py
"""

from __future__ import annotations

import re
from functools import cache
from itertools import count

import numpy as np
import pytest

from helpers.gemm_kernels import gemm_text, operands
from mlir_async_pipe import check, machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.machine.validation import validate
from mlir_async_pipe.session.report import Report

TARGET = "nvvm:sm_80"
SIZE = (64, 64, 96)
STORE = re.compile(
    r"    vector.store (?P<v>%\w+), %C\[(?P<r>%\w+), (?P<c>%\w+)\] \{alignment = 8 : i64\} : "
    r"memref<\?x\?xf32>, vector<2xf32>\n"
)
MEET = "nvvm.bar.warp.sync"


@pytest.fixture(autouse=True)
def context():
    with new_context():
        yield


@cache
def gemm(*options: str) -> str:
    return gemm_text("--tile-m=64", "--tile-n=64", *options)


def with_stores(body: str, arguments: str = "", kind: str = "f32", text: str = "") -> str:
    """The GEMM whose stores are `body`, of $v at $r, $c; $n is another number in each of them."""
    numbers = count()

    def written(found: re.Match[str]) -> str:
        names = {**found.groupdict(), "n": str(next(numbers))}
        return re.sub(r"\$([vrcn])\b", lambda name: names[name[1]], body)

    text = STORE.sub(written, text or gemm())
    return text.replace(
        "%C : memref<?x?xf32> {llvm.noalias}",
        f"%C : memref<?x?x{kind}> {{llvm.noalias}}{arguments}",
    )


def annotated(text: str, through: str) -> str:
    name = "async_pipe.num_stages"
    return text.replace(name, f'async_pipe.store_through = "{through}", {name}')


def piped(text: str, through: str = "tile") -> tuple[ir.Module, Report]:
    module = ir.Module.parse(annotated(text, through))
    return module, pipeline(module, target=TARGET)


def said(report: Report, code: str) -> list[str]:
    return [one.message for one in report.diagnostics if one.code == code]


def stored_bytes(module: ir.Module) -> list[int]:
    """The alignments of stores to global memory."""
    text = re.findall(
        r"vector.store .*alignment = (\d+) : i64\} : memref<\?x\?xf(?:16|32)>,", str(module)
    )
    return [int(one) for one in text]


def result(module: ir.Module, *more: np.ndarray, kind: type = np.float32) -> np.ndarray:
    (a, b, c), _ = operands(SIZE, "f16")
    arguments = [a, b, c.astype(kind), *more]
    found = machine.run(module, "gemm", arguments, threads=128, completion="late").arrays[2]
    assert found is not None
    return found


PRODUCT = operands(SIZE, "f16")[1]
COLUMNS = np.arange(64, dtype=np.float32)
RESIDUAL = (np.arange(64 * 64, dtype=np.float32) % 37).reshape(64, 64)
PLAIN = "    vector.store $v, %C[$r, $c] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>\n"
HALVES = """\
    %h$n = arith.truncf $v : vector<2xf32> to vector<2xf16>
    vector.store %h$n, %C[$r, $c] {alignment = 4 : i64} : memref<?x?xf16>, vector<2xf16>
"""
BIAS = """\
    %b$n = vector.load %D[$c] : memref<64xf32>, vector<2xf32>
    %s$n = arith.addf $v, %b$n : vector<2xf32>
    %z$n = arith.constant dense<0.0> : vector<2xf32>
    %m$n = arith.maximumf %s$n, %z$n : vector<2xf32>
    %h$n = arith.truncf %m$n : vector<2xf32> to vector<2xf16>
    vector.store %h$n, %C[$r, $c] : memref<?x?xf16>, vector<2xf16>
"""
ADDED = """\
    %d$n = vector.load %D[$r, $c] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
    %s$n = arith.addf $v, %d$n : vector<2xf32>
    vector.store %s$n, %C[$r, $c] {alignment = 8 : i64} : memref<?x?xf32>, vector<2xf32>
"""
MATRIX = ", %D : memref<?x?xf32> {llvm.noalias}"


def test_fragments_are_stored_16_bytes_a_lane() -> None:
    module, report = piped(gemm())
    assert stored_bytes(module) == [16] * 8 + [8] * 16
    (message,) = said(report, "stores-through-tile")
    assert message.startswith(
        "16 stores of 8 bytes a lane become 8 of 16 bytes, by way of attribution "
    )
    assert "32 lines of 128 bytes, not 128, where addresses" in message
    assert np.array_equal(result(module), PRODUCT)


def known_rows() -> str:
    """Rows of C of 64 numbers, at addresses that are multiples of 16 bytes."""
    text = gemm().replace(
        "%C : memref<?x?xf32> {", "%C : memref<64x64xf32> {llvm.align = 16 : i64, "
    )
    return re.sub(r"(vector.store .*: memref<)\?x\?xf32", r"\g<1>64x64xf32", text)


@pytest.mark.parametrize(
    ("name", "number", "code"),
    [
        ("gpu.barrier", -2, "missing-barrier"),
        ("gpu.barrier", -1, "unknown-hazard"),
        (MEET, 0, "missing-barrier"),
        (MEET, 1, "missing-barrier"),
    ],
)
def test_without_what_orders_lanes_and_block_it_is_unsafe(
    name: str, number: int, code: str
) -> None:
    """What lanes read before they store again is in order by what they wait for, which no model promises: unknown."""
    module, _ = piped(known_rows())
    assert not check(module, target=TARGET).diagnostics
    found = [op for op in walk(module.operation) if op.name == name]
    assert name != MEET or len(found) == 2
    found[number].erase()
    assert check(module, target=TARGET).diagnostics[0].code == code


def test_where_addresses_decide_it_is_not_proven_without_them() -> None:
    module, _ = piped(gemm())
    next(op for op in walk(module.operation) if op.name == MEET).erase()
    assert {one.code for one in check(module, target=TARGET).diagnostics} == {"unknown-hazard"}


def test_it_computes_what_it_did_for_all_data() -> None:
    (a, b, c), _ = operands((64, 64, 32), "f16")
    before = ir.Module.parse(gemm())
    after, _ = piped(gemm())
    validate(before, after, "gemm", [a, b, c], threads=128)


@pytest.mark.parametrize(
    ("body", "arguments", "more", "wanted", "rounds"),
    [
        (HALVES, "", (), PRODUCT, 1),
        (BIAS, ", %D : memref<64xf32> {llvm.noalias}", (COLUMNS,), np.maximum(PRODUCT + COLUMNS, 0), 1),
    ],
)  # fmt: skip
def test_conversions_bias_and_activation_stand_between(
    body: str, arguments: str, more: tuple, wanted: np.ndarray, rounds: int
) -> None:
    module, report = piped(with_stores(body, arguments, "f16"))
    (message,) = said(report, "stores-through-tile")
    assert "16 stores of 4 bytes a lane become 4 of 16 bytes" in message
    assert np.array_equal(result(module, *more, kind=np.float16), wanted.astype(np.float16))


@pytest.mark.parametrize(
    ("body", "kind", "stored"), [(PLAIN, "f32", [8] * 16), (HALVES, "f16", [16] * 4 + [4] * 16)]
)
def test_by_default_only_stores_that_waste_sectors_go_through_the_tile(
    body: str, kind: str, stored: list[int]
) -> None:
    """Four lanes store 32 bytes of a row as pairs of f32, and 16 as pairs of f16."""
    module, report = piped(with_stores(body, "", kind), "auto")
    assert stored_bytes(module) == stored
    assert bool(said(report, "stores-through-tile")) == (kind == "f16")
    assert not said(report, "stores-as-written")


def test_residuals_of_a_round_are_read_before_its_first_store() -> None:
    module, report = piped(with_stores(ADDED, MATRIX))
    assert said(report, "stores-through-tile")
    assert np.array_equal(result(module, RESIDUAL), PRODUCT + RESIDUAL)
    lines = str(module).splitlines()
    reads = [n for n, line in enumerate(lines) if "vector.load %arg3" in line]
    stores = [n for n, line in enumerate(lines) if "vector.store" in line and "%arg2[" in line]
    assert len(reads) == 16 and reads[7] < stores[0] < reads[8]


def test_what_is_added_to_may_be_read_in_between() -> None:
    """C += A B: each place is read before it is stored, and no other store writes it."""
    module, report = piped(with_stores(ADDED.replace("%D", "%C")))
    assert said(report, "stores-through-tile")
    assert np.array_equal(result(module), PRODUCT - 7)


def test_rows_of_known_length_need_no_second_version() -> None:
    module, report = piped(known_rows())
    (message,) = said(report, "stores-through-tile")
    assert not message.endswith("16 bytes") and "alignment = 8 : i64} : memref<64x64" not in str(
        module
    )
    assert np.array_equal(result(module), PRODUCT)


def test_rows_that_begin_between_16_bytes_are_stored_as_before() -> None:
    module, _ = piped(gemm())
    (a, b, _), _ = operands(SIZE, "f16")
    c = np.full((64, 66), -7, np.float32)[:, :64]
    found = machine.run(module, "gemm", [a, b, c], threads=128, completion="late").arrays[2]
    assert np.array_equal(found, PRODUCT)


def test_the_text_is_the_same_each_time() -> None:
    assert len({str(piped(gemm())[0]) for _ in range(5)}) == 1


def test_a_tile_after_a_tile_waits_for_the_buffers() -> None:
    """Blocks that take tile after tile: what comes after the stores, of either version, comes after a barrier."""
    module, report = piped(gemm("--persistent"))
    assert said(report, "stores-through-tile")
    (a, b, c), product = operands((128, 64, 96), "f16")
    found = machine.run(module, "gemm", [a, b, c], threads=128, grid=(1, 1), completion="late")
    assert np.array_equal(found.arrays[2], product)
    branch = [op for op in walk(module.operation) if op.name == "scf.if" and MEET in str(op)][-1]
    inside = [op.operation for op in branch.regions[0].blocks[0]]
    assert [op.name for op in inside].count("gpu.barrier") == 2
    around = [op.operation for op in branch.operation.block]
    barrier = around[around.index(branch) + 1]
    assert barrier.name == "gpu.barrier" and not check(module, target=TARGET).diagnostics
    barrier.erase()
    assert check(module, target=TARGET).diagnostics[0].code == "unknown-hazard"


def test_what_comes_before_the_loop_in_a_loop_of_blocks_reads_what_was_left() -> None:
    """The buffers are read where the block comes again: no stores go through them."""
    half, shared = "memref<2x128xf16>", "memref<64x32xf16, #gpu.address_space<workgroup>>"
    text = gemm().replace("%C : ", f"%D : {half} {{llvm.noalias}}, %N : index, %C : ")
    head = f"""
    %one = arith.constant 1.0 : f16
    cf.br ^again(%c1 : index)
  ^again(%round : index):
    %is_round = arith.cmpi eq, %round, %c1 : index
    %is_thread = arith.cmpi eq, %tid, %c0 : index
    %is_first = arith.andi %is_round, %is_thread : i1
    scf.if %is_first {{
      memref.store %one, %a_shared[%c0, %c0] : {shared}
      memref.store %one, %b_shared[%c0, %c0] : {shared}
    }}
    gpu.barrier
    %a_left = memref.load %a_shared[%c0, %c0] : {shared}
    %b_left = memref.load %b_shared[%c0, %c0] : {shared}
    %left = arith.mulf %a_left, %b_left : f16
    %row = arith.subi %round, %c1 : index
    memref.store %left, %D[%row, %tid] : {half}
    gpu.barrier
"""
    # Doubled, so that no `scf.for` counts the rounds.
    end = """
    %next = arith.muli %round, %c2 : index
    %more = arith.cmpi slt, %next, %N : index
    cf.cond_br %more, ^again(%next : index), ^end
  ^end:
"""
    text = text.replace("    %total:8", head + "    %total:8").replace(
        "    gpu.return", end + "    gpu.return"
    )
    module = ir.Module.parse(annotated(text, "tile"))
    report = pipeline(module, target=TARGET, check="none")
    assert "no buffer of the loop that could hold them is free" in str(
        said(report, "stores-as-written")
    )
    (a, b, c), product = operands(SIZE, "f16")
    left = np.zeros((2, 128), np.float16)
    found = machine.run(module, "gemm", [a, b, left, 3, c], threads=128, completion="late")
    assert not found.races and np.array_equal(found.arrays[4], product)
    assert (found.arrays[2] == [[1.0], [a[0, 64] * b[0, 64]]]).all()


def test_direct_stores_are_left_alone() -> None:
    module, report = piped(gemm(), "direct")
    assert stored_bytes(module) == [8] * 16
    assert not said(report, "stores-as-written") and not said(report, "stores-through-tile")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (with_stores(PLAIN + "    gpu.barrier\n"), "'gpu.barrier' stands between them"),
        (with_stores(ADDED, ", %D : memref<?x?xf32>").replace("%C : memref<?x?xf32> {llvm.noalias}",
                                                              "%C : memref<?x?xf32>"),
         "'vector.load' between them may touch their memory"),
        (with_stores(PLAIN.replace("$r", "%c_row")), "two threads store to one place"),
        (with_stores(ADDED.replace("%D[$r,", "%C[%c_row,")), "may touch their memory"),
        (with_stores("    %j$n = arith.addi $c, %c1 : index\n" + PLAIN.replace("$c", "%j$n")),
         "its rows may begin between multiples of 16 bytes"),
        (with_stores("    %j$n = arith.xori $r, %c1 : index\n" + PLAIN.replace("$r", "%j$n")), ""),
        (gemm("--edges"), ""),
    ],
)  # fmt: skip
def test_what_is_not_known_to_be_the_same_is_refused(text: str, why: str) -> None:
    module, report = piped(text)
    assert 16 not in stored_bytes(module) and not said(report, "stores-through-tile")
    assert all(why in one for one in said(report, "stores-as-written"))
    assert bool(said(report, "stores-as-written")) == bool(why)


# Tiles that overlap -----------------------------------------------------------------------------


def overlapping(through: str, warps: int = 2, **options: object) -> tuple[ir.Module, Report]:
    """C = max(A B + bias, 0) + R in f16, of 32x32 tiles of a warp; the next tile's copies start in this one."""
    text = gemm_text(
        *(f"--tile-m={32 * warps}", "--tile-n=32", f"--warps-m={warps}", "--warps-n=1"),
        *("--persistent", "--residual=direct"),
    )
    module = ir.Module.parse(annotated(text, through))
    return module, pipeline(module, target=TARGET, overlap_outer=True, **options)


def test_where_tiles_overlap_each_warp_has_memory_of_its_own() -> None:
    module, report = overlapping("tile")
    (message,) = said(report, "stores-through-tile")
    assert message.startswith(
        "16 stores of 4 bytes a lane become 4 of 16 bytes, by way of memory of their own, "
    )
    assert not check(module).diagnostics
    assert stored_bytes(module).count(16) == 4
    for m, n, k, blocks in ((128, 96, 160, 1), (128, 96, 160, 4), (64, 64, 64, 2)):
        (a, b, _), product = operands((m, n, k), "f16")
        bias, residual = np.arange(n, dtype=np.float32) - n // 2, np.ones((m, n), np.float16)
        arguments = [a, b, np.full((m, n), -7, np.float16), bias, residual]
        done = machine.run(
            module, "gemm", arguments, threads=64, grid=(blocks, 1), completion="late"
        )
        wanted = (np.maximum(product + bias, 0) + residual).astype(np.float16)
        assert not done.races and np.array_equal(done.arrays[2], wanted)


def test_lanes_of_a_warp_that_do_not_meet_race_where_tiles_overlap() -> None:
    """Before they read what others wrote, and before they write what others read."""
    module, _ = overlapping("tile", warps=1)
    text = str(module)
    assert not check(module).diagnostics
    meetings = len(re.findall(MEET, text))
    assert meetings >= 5
    for number in (1, 2):
        module = ir.Module.parse(text)
        [op for op in walk(module) if op.name == MEET][number].erase()
        codes = {one.code for one in check(module).diagnostics}
        # Of iterations that alignment and trips decide it is not certain.
        assert codes and codes <= {"missing-barrier", "unknown-hazard"}, number


def test_memory_of_their_own_is_asked_for_and_has_to_fit() -> None:
    module, report = overlapping("auto")
    (message,) = said(report, "stores-as-written")
    assert re.fullmatch(
        r"16 stores of 2 elements a lane stay as they are: where tiles overlap they take \d+ bytes of workgroup memory "
        r'of their own, which `async_pipe.store_through = "tile"` asks for',
        message,
    )
    assert 16 not in stored_bytes(module)
    # Three slots of 64 and of 32 rows of 64 bytes.
    used = 3 * (64 + 32) * 64
    _, report = overlapping("tile", smem_limit=used)
    (message,) = said(report, "stores-as-written")
    assert message.endswith(f"{used} of {used} bytes of workgroup memory are in use")


def test_a_loop_whose_tiles_stay_apart_uses_its_buffers() -> None:
    module = ir.Module.parse(annotated(gemm(), "tile"))
    report = pipeline(module, target=TARGET, overlap_outer=True)
    assert "by way of attribution" in said(report, "stores-through-tile")[0]
