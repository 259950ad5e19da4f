"""Reads that a mask or a number of source elements cuts short: no error without an execution.

Covers: vocabulary/async_ops.py, vocabulary/memory_ops.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_text
from helpers.machine_programs import run

# Each thread copies or reads four elements; the first two are its own.
KERNEL = """
gpu.module @kernels {{
  gpu.func @k(%A: memref<256xf32> {{llvm.noalias}}, %C: memref<256xf32> {{llvm.noalias}}, %n: index)
      workgroup(%s: memref<256xf32, 3>) kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c63 = arith.constant 63 : index
    %f = arith.constant 1.0 : f32
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %t = gpu.thread_id x
    %first = arith.muli %t, %c4 : index
    %second = arith.addi %first, %c1 : index
    %third = arith.addi %first, %c2 : index
    {body}
    gpu.return
  }}
}}
"""
COPY = """%c = nvgpu.device_async_copy %A[%first], %s[%first], 4, {elements} : memref<256xf32> to memref<256xf32, 3>
    %g = nvgpu.device_async_create_group %c
    memref.store %f, %A[%third] : memref<256xf32>
    nvgpu.device_async_wait %g {{numGroups = 0 : i32}}"""
OTHERS = """memref.store %f, %s[%first] : memref<256xf32, 3>
    memref.store %f, %s[%second] : memref<256xf32, 3>
    %other = arith.subi %c63, %t : index
    %start = arith.muli %other, %c4 : index
    %theirs = arith.addi %start, %c2 : index
    memref.store %f, %s[%theirs] : memref<256xf32, 3>
    %mask = vector.create_mask %n : vector<4xi1>
    {read}
    vector.store %v, %C[%first] : memref<256xf32>, vector<4xf32>"""
READS = {
    "maskedload": "%v = vector.maskedload %s[%first], %mask, %zero : memref<256xf32, 3>, "
    "vector<4xi1>, vector<4xf32> into vector<4xf32>",
    "transfer_read": "%v = vector.transfer_read %s[%first], %f, %mask : memref<256xf32, 3>, vector<4xf32>",
}


def verdict(text: str) -> str:
    checked = check_text(text)
    return "unsafe" if checked.unsafe else "unknown" if checked.unknown else "proven"


def races(text: str, count: int) -> bool:
    arrays = [np.zeros(256, np.float32) for _ in range(2)]
    results = (run(text, *arrays, count, threads=64, completion=c) for c in ("late", "eager"))
    return any(result.races for result in results)


@pytest.mark.parametrize(
    ("elements", "found"), [("%c2", "proven"), ("%c4", "unsafe"), ("%n", "unknown")]
)
def test_a_copy_reads_as_many_source_elements_as_it_says(elements: str, found: str) -> None:
    text = KERNEL.format(body=COPY.format(elements=elements))
    assert verdict(text) == found
    assert races(text, 2) == (found == "unsafe")


@pytest.mark.parametrize("name", READS)
def test_a_masked_read_need_not_read_what_others_write(name: str) -> None:
    text = KERNEL.format(body=OTHERS.format(read=READS[name]))
    assert verdict(text) == "unknown"
    assert not races(text, 2)
    assert races(text, 4)


def test_a_read_without_a_mask_is_certain() -> None:
    read = "%v = vector.transfer_read %s[%first], %f : memref<256xf32, 3>, vector<4xf32>"
    assert verdict(KERNEL.format(body=OTHERS.format(read=read))) == "unsafe"


@pytest.mark.parametrize(("size", "found"), [("", "unsafe"), (", %eight", "proven")])
def test_a_copy_of_pointers_reads_as_many_bytes_as_it_says(size: str, found: str) -> None:
    kind = ", i32" if size else ""
    text = f"""
llvm.mlir.global internal @lds() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<256 x f32>
llvm.func @k(%A: !llvm.ptr<1> {{llvm.noalias}}) attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 64>}} {{
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %f = llvm.mlir.constant(1.0 : f32) : f32
  %eight = llvm.mlir.constant(8 : i32) : i32
  %lds = llvm.mlir.addressof @lds : !llvm.ptr<3>
  %to = llvm.getelementptr %lds[%t] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<4 x f32>
  %from = llvm.getelementptr %A[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, !llvm.array<4 x f32>
  %third = llvm.getelementptr %from[2] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
  nvvm.cp.async.shared.global %to, %from, 16, cache = cg{size} : !llvm.ptr<3>, !llvm.ptr<1>{kind}
  nvvm.cp.async.commit.group
  llvm.store %f, %third : f32, !llvm.ptr<1>
  nvvm.cp.async.wait.group 0
  llvm.return
}}
"""
    assert verdict(text) == found
    result = run(text, np.zeros(256, np.float32), threads=64, completion="late")
    assert bool(result.races) == (found == "unsafe")


# Thread t stores to element 4 (63 - t) + 2: thread 63 - t reads it, if its mask keeps the third element.
MASKED = {
    "maskedload": READS["maskedload"],
    "transfer_read": READS["transfer_read"],
    "vector.mask": """%v = vector.mask %mask {
      vector.transfer_read %s[%first], %f {in_bounds = [true]} : memref<256xf32, 3>, vector<4xf32>
    } : vector<4xi1> -> vector<4xf32>""",
}


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize(
    ("mask", "found"),
    [
        ("vector.constant_mask [2] : vector<4xi1>", "proven"),
        ("vector.constant_mask [3] : vector<4xi1>", "unsafe"),
        ("arith.constant dense<true> : vector<4xi1>", "unsafe"),
        ("arith.constant dense<[true, true, false, false]> : vector<4xi1>", "unknown"),
        ("vector.create_mask %c2 : vector<4xi1>", "proven"),
        ("vector.create_mask %c4 : vector<4xi1>", "unsafe"),
        ("vector.create_mask %c0 : vector<4xi1>", "unknown"),
        ("vector.create_mask %n : vector<4xi1>", "unknown"),
    ],
)
def test_a_mask_of_a_known_number_of_elements_is_exact(name: str, mask: str, found: str) -> None:
    text = KERNEL.format(body=OTHERS.format(read=MASKED[name]))
    text = text.replace("vector.create_mask %n : vector<4xi1>", mask)
    assert verdict(text) == found
    if found != "unknown":
        assert races(text, 2) == (found == "unsafe")


COLUMN = """
func.func @f(%C: memref<8x8xf32>) attributes {{gpu.known_block_size = array<i32: 8, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %t = gpu.thread_id x
  %z = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<8x8xf32, 3>
  memref.store %z, %s[{store}] : memref<8x8xf32, 3>
  %v = vector.transfer_read %s[{load}], %z {{in_bounds = [true], permutation_map = affine_map<(i, j) -> ({map})>}} : memref<8x8xf32, 3>, vector<8xf32>
  vector.store %v, %C[%t, %c0] : memref<8x8xf32>, vector<8xf32>
  return
}}"""


@pytest.mark.parametrize(
    ("store", "load", "moved", "found"),
    [
        ("%t, %c0", "%c0, %t", "i", "unsafe"),
        ("%c0, %t", "%c0, %t", "i", "proven"),
        ("%c0, %t", "%c0, %c0", "j", "unsafe"),
        ("%t, %c0", "%t, %c0", "j", "proven"),
        ("%t, %c0", "%t, %c0", "0", "proven"),
    ],
)
def test_a_transfer_reads_the_dimensions_that_its_map_names(
    store: str, load: str, moved: str, found: str
) -> None:
    """Column t of eight rows, row t, or one element for all: thread t stores one element before."""
    text = COLUMN.format(store=store, load=load, map=moved)
    assert verdict(text) == found
    result = run(text, np.zeros((8, 8), np.float32), threads=8)
    assert any(race.code == "missing-barrier" for race in result.races) == (found == "unsafe")
