"""Products with 64-bit descriptors: swizzles and both major orders, against NumPy.

A tile lies as a tensor copy with the same swizzle brings it: lines of W bytes, whose 16-byte chunks
are permuted.

Covers: machine/dialects/wgmma.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.machine_programs import run
from mlir_async_pipe.machine import fragments
from mlir_async_pipe.session.diagnostics import MachineError

M = N = 64
REGISTERS = M * N // 128
STRUCT = f"!llvm.struct<({', '.join(['f32'] * REGISTERS)})>"
BARS = "!nvgpu.mbarrier.group<memorySpace = WG>"
LAYOUT = {128: 1, 64: 2, 32: 3}


def tensor_map(rows: int, columns: int, width: int) -> str:
    return (
        f"!nvgpu.tensormap.descriptor<tensor = memref<{rows}x{columns}xf16, 3>, "
        f"swizzle = swizzle_{width}b, l2promo = none, oob = zero, interleave = none>"
    )


def descriptor(width: int, leading: int, stride: int) -> int:
    """The bits beside the address, as a signed number of 64 bits."""
    bits = leading // 16 << 16 | stride // 16 << 32 | LAYOUT[width] << 62
    return bits - (1 << 64 if bits >> 63 else 0)


class Operand:
    """A or B of `depth` k: by lines of k (`by_k`), or by lines of M or N."""

    def __init__(self, name: str, width: int, depth: int, by_k: bool) -> None:
        self.name, self.width, self.by_k = name, width, by_k
        per_line = width // 2
        lines = M if by_k else depth
        self.boxes = (depth if by_k else M) // per_line
        self.map = tensor_map(lines, per_line, width)
        self.box = f"memref<{lines}x{per_line}xf16, strided<[{per_line}, 1], offset: ?>, WG>"
        self.all = f"memref<{self.boxes}x{lines}x{per_line}xf16, WG>"
        box_bytes = lines * width
        stride = 8 * width
        self.bits = descriptor(width, 16 if by_k else box_bytes, stride)
        # 16 k further: 32 bytes along a line, which may be in the next box; or 16 lines.
        steps = range(0, depth, 16)
        self.offsets = [
            2 * k % width + 2 * k // width * box_bytes if by_k else k * width for k in steps
        ]

    def copies(self) -> str:
        lines = []
        for number in range(self.boxes):
            at = f"%{self.name}c{number}"
            lines.append(f"{at} = arith.constant {number * self.width // 2} : index")
            lines.append(f"%{self.name}n{number} = arith.constant {number} : index")
            shape = self.box.split("<")[1].split("xf16")[0].replace("x", ", ")
            lines.append(
                f"%{self.name}b{number} = memref.subview %{self.name}s[%{self.name}n{number}, 0, 0]"
                f"[1, {shape}][1, 1, 1] : {self.all} to {self.box}"
            )
            lines.append(
                f"nvgpu.tma.async.load %{self.name}[{at}, %c0], %bar[%c0] to %{self.name}b{number}, "
                f"predicate = %leader : {self.map}, {BARS} -> {self.box}"
            )
        return "\n".join(lines)

    def descriptors(self) -> str:
        name = self.name
        lines = [
            f"%{name}p = memref.extract_aligned_pointer_as_index %{name}s : {self.all} -> index",
            f"%{name}i = arith.index_cast %{name}p : index to i64",
            f"%{name}bits = arith.constant {self.bits} : i64",
        ]
        for number, offset in enumerate(self.offsets):
            lines += [
                f"%{name}o{number} = arith.constant {offset} : i64",
                f"%{name}x{number} = arith.addi %{name}i, %{name}o{number} : i64",
                f"%{name}y{number} = arith.andi %{name}x{number}, %low : i64",
                f"%{name}z{number} = arith.shrui %{name}y{number}, %four : i64",
                f"%{name}d{number} = arith.ori %{name}z{number}, %{name}bits : i64",
            ]
        return "\n".join(lines)


def program(a: Operand, b: Operand, wait: str = "0") -> str:
    steps = len(a.offsets)
    a_layout, b_layout = "row" if a.by_k else "col", "col" if b.by_k else "row"
    products = "\n".join(
        f"%acc{i + 1} = nvvm.wgmma.mma_async %ad{i}, %bd{i}, %acc{i}, <m = 64, n = {N}, k = 16>, "
        f"D[<f32>, <{'one' if i else 'zero'}>], A[<f16>, <one>, <{a_layout}>], "
        f"B[<f16>, <one>, <{b_layout}>] : {STRUCT} -> {STRUCT}"
        for i in range(steps)
    )
    stores = "\n".join(
        f"%r{i} = llvm.extractvalue %acc{steps}[{i}] : {STRUCT}\n"
        f"%k{i} = arith.constant {i} : index\n"
        f"memref.store %r{i}, %out[%t, %k{i}] : memref<128x{REGISTERS}xf32>"
        for i in range(REGISTERS)
    )
    return f"""
func.func @f(%a_: !llvm.ptr, %b_: !llvm.ptr, %out: memref<128x{REGISTERS}xf32>) {{
  %a = builtin.unrealized_conversion_cast %a_ : !llvm.ptr to {a.map}
  %b = builtin.unrealized_conversion_cast %b_ : !llvm.ptr to {b.map}
  %as = memref.alloc() : {a.all}
  %bs = memref.alloc() : {b.all}
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %low = arith.constant 262143 : i64
  %four = arith.constant 4 : i64
  %false = arith.constant false
  %bytes = arith.constant {2 * (M + N) * 16 * steps} : index
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %bar = nvgpu.mbarrier.create -> {BARS}
  nvgpu.mbarrier.init %bar[%c0], %c1, predicate = %leader : {BARS}
  nvvm.fence.mbarrier.init
  gpu.barrier
  nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes, predicate = %leader : {BARS}
  {a.copies()}
  {b.copies()}
  nvgpu.mbarrier.try_wait.parity %bar[%c0], %false, %c1 : {BARS}
  {a.descriptors()}
  {b.descriptors()}
  %acc0 = llvm.mlir.undef : {STRUCT}
  nvvm.wgmma.fence.aligned
  {products}
  nvvm.wgmma.commit.group.sync.aligned
  nvvm.wgmma.wait.group.sync.aligned {wait}
  {stores}
  return
}}"""


def multiplied(a: Operand, b: Operand, depth: int, completion: str, wait: str = "0"):
    """The run, its product put together from the registers, and NumPy's."""
    random = np.random.default_rng(3)
    left = random.integers(-4, 5, (M, depth)).astype(np.float16)
    right = random.integers(-4, 5, (depth, N)).astype(np.float16)
    given = [left if a.by_k else left.T.copy(), right.T.copy() if b.by_k else right]
    out = np.zeros((128, REGISTERS), np.float32)
    result = run(program(a, b, wait), *given, out, threads=128, completion=completion)
    layout = fragments.warpgroup(M, N)
    product = np.zeros((M, N), np.float32)
    product[layout.rows, layout.columns] = result.arrays[2]
    return result, product, left.astype(np.float32) @ right.astype(np.float32)


@pytest.mark.parametrize("b_by_k", [True, False], ids=["B by k", "B by n"])
@pytest.mark.parametrize("a_by_k", [True, False], ids=["A by k", "A by m"])
@pytest.mark.parametrize("width", LAYOUT)
def test_every_swizzle_and_order(width, a_by_k, b_by_k):
    a, b = Operand("a", width, 64, a_by_k), Operand("b", width, 64, b_by_k)
    for completion in ("eager", "late", "random:1"):
        result, product, expected = multiplied(a, b, 64, completion)
        assert result.races == ()
        np.testing.assert_array_equal(product, expected)


def test_a_wrong_swizzle_multiplies_something_else():
    a, b = Operand("a", 128, 64, True), Operand("b", 128, 64, True)
    b.bits = descriptor(64, 16, 8 * 128)
    _, product, expected = multiplied(a, b, 64, "late")
    assert not np.array_equal(product, expected)


def test_registers_hold_nothing_before_the_wait():
    a, b = Operand("a", 128, 64, True), Operand("b", 128, 64, False)
    result, product, _ = multiplied(a, b, 64, "late", wait="1")
    assert np.isnan(product).all()
    assert result.race_codes == {"unwaited-copy"}


def test_descriptors_that_name_no_memory_are_refused():
    a, b = Operand("a", 128, 64, True), Operand("b", 128, 64, True)
    b.offsets[0] = 200000
    with pytest.raises(MachineError, match="names 0 places"):
        multiplied(a, b, 64, "eager")
