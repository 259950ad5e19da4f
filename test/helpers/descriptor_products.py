"""Programs of one nvvm.wgmma.mma_async after the other along k, whose tiles tensor copies bring.

A tile lies as a copy with the same swizzle brings it: lines of `width` bytes, whose 16-byte chunks are
permuted; 16 bytes without a swizzle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.machine_programs import run
from mlir_async_pipe.machine import fragments
from mlir_async_pipe.machine.kinds import SMALL_FLOATS, cut_tf32, round_bf16

M = 64
BARS = "!nvgpu.mbarrier.group<memorySpace = WG>"
LAYOUT = {128: 1, 64: 2, 32: 3, 16: 0}
# MLIR type and bytes of each operand type, MLIR type and elements of a register of sums.
TYPES = {
    "f16": ("f16", 2),
    "bf16": ("bf16", 2),
    "tf32": ("f32", 4),
    "e4m3": ("f8E4M3FN", 1),
    "e5m2": ("f8E5M2", 1),
    "s8": ("i8", 1),
    "u8": ("ui8", 1),
}
SUMS = {"f32": ("f32", 1), "f16": ("vector<2xf16>", 2), "s32": ("i32", 1)}
NUMPY = {"f32": np.float32, "f16": np.float16, "s32": np.int32}


def tensor_map(rows: int, columns: int, kind: str, width: int) -> str:
    swizzle = f"swizzle_{width}b" if width > 16 else "none"
    return (
        f"!nvgpu.tensormap.descriptor<tensor = memref<{rows}x{columns}x{kind}, 3>, "
        f"swizzle = {swizzle}, l2promo = none, oob = zero, interleave = none>"
    )


def descriptor(width: int, leading: int, stride: int) -> int:
    """The bits beside the address, as a signed number of 64 bits."""
    bits = leading // 16 << 16 | stride // 16 << 32 | LAYOUT[width] << 62
    return bits - (1 << 64 if bits >> 63 else 0)


class Operand:
    """A (64 rows) or B (`rows`) of `depth` k: by lines of k (`by_k`), or by lines of M or N."""

    def __init__(
        self, name: str, width: int, depth: int, by_k: bool, types: str = "f16", rows: int = M
    ) -> None:
        self.name, self.width, self.by_k, self.types, self.rows = name, width, by_k, types, rows
        self.kind, self.bytes = TYPES[types]
        self.per_line = width // self.bytes
        lines, along = (rows, depth) if by_k else (depth, rows)
        self.boxes = along // self.per_line
        self.map = tensor_map(lines, self.per_line, self.kind, width)
        layout = f"strided<[{self.per_line}, 1], offset: ?>"
        self.shape = f"{lines}x{self.per_line}x{self.kind}"
        self.sizes = f"{lines}, {self.per_line}"
        self.box = f"memref<{self.shape}, {layout}, WG>"
        self.all = f"memref<{self.boxes}x{self.shape}, WG>"
        box_bytes, eight = lines * width, 8 * width
        # Without a swizzle a line is one chunk: the next chunk of k is in the next box.
        apart = {True: (box_bytes if width == 16 else 16, eight), False: (box_bytes, eight)}
        leading, stride = apart[by_k] if by_k or width > 16 else (eight, box_bytes)
        self.bits = descriptor(width, leading, stride)
        # 32 bytes of k further: along a line, which may be in the next box; or so many lines.
        steps = range(0, depth * self.bytes, 32)
        self.offsets = [
            k % width + k // width * box_bytes if by_k else k // self.bytes * width for k in steps
        ]

    def copies(self) -> str:
        lines = []
        for number in range(self.boxes):
            at = f"%{self.name}c{number}"
            lines.append(f"{at} = arith.constant {number * self.per_line} : index")
            lines.append(f"%{self.name}n{number} = arith.constant {number} : index")
            lines.append(
                f"%{self.name}b{number} = memref.subview %{self.name}s[%{self.name}n{number}, 0, 0]"
                f"[1, {self.sizes}][1, 1, 1] : {self.all} to {self.box}"
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

    def given(self, values: np.ndarray) -> np.ndarray:
        """Values (rows x k) as their tensor in global memory holds them."""
        encoded = stored(values, self.types)
        return np.ascontiguousarray(encoded if self.by_k else encoded.T)


def stored(values: np.ndarray, types: str) -> np.ndarray:
    """Values of a type as they lie in memory."""
    if types == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if types in ("e4m3", "e5m2"):
        return SMALL_FLOATS[TYPES[types][0]].encode(values)
    kinds = {"f16": np.float16, "tf32": np.float32, "s8": np.int8, "u8": np.uint8}
    return values.astype(kinds[types])


def drawn(numbers: Any, types: str, shape: tuple[int, int]) -> np.ndarray:
    """Random values that the type holds, of float64; with fractions where it has some."""
    if types == "s8":
        return numbers.integers(-128, 128, shape).astype(np.float64)
    if types == "u8":
        return numbers.integers(0, 256, shape).astype(np.float64)
    values = numbers.integers(-12, 13, shape).astype(np.float32) / 8
    if types in ("e4m3", "e5m2"):
        return SMALL_FLOATS[TYPES[types][0]].round(values).astype(np.float64)
    return (round_bf16(values) if types == "bf16" else cut_tf32(values)).astype(np.float64)


@dataclass(frozen=True)
class Product:
    """`wait` groups stay in flight before the sums are stored; `scale` says `one` or `neg` for A and
    B; `first` is scale-d of the first product, which adds to what `before` fills registers with."""

    a: Operand
    b: Operand
    sums: str = "f32"
    scale: tuple[str, str] = ("one", "one")
    first: str = "zero"
    before: float | None = None
    overflow: str = ""
    wait: str = "0"
    register: str = ""

    @property
    def n(self) -> int:
        """Columns of the sums."""
        return self.b.rows

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return M * self.n // 128 // SUMS[self.sums][1]

    def text(self) -> str:
        """The program."""
        a, b, steps = self.a, self.b, len(self.a.offsets)
        register = self.register or SUMS[self.sums][0]
        struct = f"!llvm.struct<({', '.join([register] * self.registers)})>"
        a_layout, b_layout = "row" if a.by_k else "col", "col" if b.by_k else "row"
        k = 32 // a.bytes
        products = "\n".join(
            f"%acc{i + 1} = nvvm.wgmma.mma_async %ad{i}, %bd{i}, %acc{i}, "
            f"<m = 64, n = {self.n}, k = {k}>, D[<{self.sums}>, <{'one' if i else self.first}>"
            f"{self.overflow}], A[<{a.types}>, <{self.scale[0]}>, <{a_layout}>], "
            f"B[<{b.types}>, <{self.scale[1]}>, <{b_layout}>] : {struct} -> {struct}"
            for i in range(steps)
        )
        start = f"%acc0 = llvm.mlir.undef : {struct}"
        if self.before is not None:
            literal = (
                f"dense<{self.before}> : {register}"
                if "vector" in register
                else (f"{self.before} : {register}")
            )
            start = (
                f"%fill = arith.constant {literal}\n%u0 = llvm.mlir.undef : {struct}\n"
                + "".join(
                    f"%{f'u{i + 1}' if i + 1 < self.registers else 'acc0'} = "
                    f"llvm.insertvalue %fill, %u{i}[{i}] : {struct}\n"
                    for i in range(self.registers)
                )
            )
        out = f"memref<128x{self.registers}x{register}>"
        stores = "\n".join(
            f"%r{i} = llvm.extractvalue %acc{steps}[{i}] : {struct}\n"
            f"%k{i} = arith.constant {i} : index\nmemref.store %r{i}, %out[%t, %k{i}] : {out}"
            for i in range(self.registers)
        )
        size = (M * a.bytes + self.n * b.bytes) * k * steps
        return f"""
func.func @f(%a_: !llvm.ptr, %b_: !llvm.ptr, %out: {out}) {{
  %a = builtin.unrealized_conversion_cast %a_ : !llvm.ptr to {a.map}
  %b = builtin.unrealized_conversion_cast %b_ : !llvm.ptr to {b.map}
  %as = memref.alloc() : {a.all}
  %bs = memref.alloc() : {b.all}
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %low = arith.constant 262143 : i64
  %four = arith.constant 4 : i64
  %false = arith.constant false
  %bytes = arith.constant {size} : index
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
  {start}
  nvvm.wgmma.fence.aligned
  {products}
  nvvm.wgmma.commit.group.sync.aligned
  nvvm.wgmma.wait.group.sync.aligned {self.wait}
  {stores}
  return
}}"""

    def run(self, left: np.ndarray, right: np.ndarray, completion: str) -> tuple[Any, np.ndarray]:
        """The run on A (64 x k) and B (n x k), and the sums that the registers hold."""
        elements = SUMS[self.sums][1]
        out = np.zeros((128, self.registers * elements), NUMPY[self.sums])
        if self.register == "i32" and self.sums == "f16":
            out = out.view(np.int32)
        elif elements == 2:
            out = out.reshape(128, self.registers, 2)
        given = [self.a.given(left), self.b.given(right)]
        result = run(self.text(), *given, out, threads=128, completion=completion)
        layout = fragments.warpgroup(M, self.n)
        sums = np.zeros((M, self.n), NUMPY[self.sums])
        found = result.arrays[2].view(NUMPY[self.sums]).reshape(128, -1)
        sums[layout.rows, layout.columns] = found
        return result, sums
