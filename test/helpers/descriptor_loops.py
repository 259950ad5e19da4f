"""The bodies of tensor loops whose products read tiles by descriptors, in all types and orders.

Box 0 is A, 64 rows, box 1 is B; each lies in lines of its swizzle's width, of k (`by_k`) or of M or N.
A thread's sums are a row of the output.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.descriptor_products import LAYOUT, NUMPY, SUMS, TYPES, descriptor, stored
from mlir_async_pipe.machine import fragments

if TYPE_CHECKING:
    from helpers.tensor_loops import TensorLoop

M, K_BYTES, THREADS = 64, 32, 128
MIXED = [("e4m3", "e5m2"), ("s8", "u8")]


def columns_of(loop: TensorLoop) -> int:
    """The columns of the product."""
    b = loop.boxes[1]
    return b.rows if b.by_k else b.columns


def depth_of(loop: TensorLoop) -> int:
    """The k of a tile."""
    a = loop.boxes[0]
    return a.columns if a.by_k else a.rows


def registers_of(loop: TensorLoop) -> int:
    """Registers of sums of a thread."""
    return M * columns_of(loop) // THREADS // SUMS[loop.sums][1]


def struct_of(loop: TensorLoop) -> str:
    """What holds them."""
    return f"!llvm.struct<({', '.join([SUMS[loop.sums][0]] * registers_of(loop))})>"


def values_of(loop: TensorLoop) -> list[np.ndarray]:
    """A (64 x k) and B (columns x k) of all tiles: integers that every sum holds as they are."""
    numbers = np.random.default_rng(loop.trips)
    most = 1 if loop.sums == "f16" else 3
    k = max(K_BYTES, loop.tiles * depth_of(loop) - loop.outside)
    shapes = (M, k), (columns_of(loop), k)
    return [
        numbers.integers(0 if box.types == "u8" else -most, most + 1, shape).astype(np.float32)
        for box, shape in zip(loop.boxes, shapes, strict=True)
    ]


def arrays_of(loop: TensorLoop) -> list[np.ndarray]:
    """Both as their tensors in global memory hold them."""
    return [
        np.ascontiguousarray(stored(values, box.types) if box.by_k else stored(values, box.types).T)
        for box, values in zip(loop.boxes, values_of(loop), strict=True)
    ]


def expected_of(loop: TensorLoop) -> np.ndarray:
    """The sums of each thread in each execution, by NumPy."""
    out = np.zeros(loop.output, NUMPY[loop.sums])
    left, right = values_of(loop)
    layout = fragments.warpgroup(M, columns_of(loop))
    step = loop.trips * depth_of(loop)
    for e in loop.runs:
        k = slice(e * step, (e + 1) * step)
        product = (left[:, k] @ right[:, k].T).astype(out.dtype)
        out[e * THREADS : (e + 1) * THREADS] = layout.spread(product[None])[0]
    return out


def products_text(loop: TensorLoop, kinds: list[str]) -> list[str]:
    """One group of products along the k of a tile, waited for at once."""
    struct = struct_of(loop)
    lines = ["%low18 = arith.constant 262143 : i64", "%four = arith.constant 4 : i64"]
    for n, kind in enumerate(kinds):
        lines += _descriptors(loop, n, kind)
    lines.append("nvvm.wgmma.fence.aligned")
    a, b = loop.boxes
    orders = "row" if a.by_k else "col", "col" if b.by_k else "row"
    k = K_BYTES // TYPES[a.types][1]
    overflow = ", <wrapped>" if loop.sums == "s32" else ""
    steps = depth_of(loop) // k
    for i in range(steps):
        made = "%made" if i == steps - 1 else f"%sum_{i}"
        lines.append(
            f"{made} = nvvm.wgmma.mma_async %d0_{i}, %d1_{i}, {f'%sum_{i - 1}' if i else '%sum'}, "
            f"<m = 64, n = {columns_of(loop)}, k = {k}>, D[<{loop.sums}>, <one>{overflow}], "
            f"A[<{a.types}>, <one>, <{orders[0]}>], B[<{b.types}>, <one>, <{orders[1]}>] : "
            f"{struct} -> {struct}"
        )
    return [*lines, "nvvm.wgmma.commit.group.sync.aligned", "nvvm.wgmma.wait.group.sync.aligned 0"]


def _descriptors(loop: TensorLoop, n: int, kind: str) -> list[str]:
    """One for each 32 bytes of k: further along a line, or so many lines."""
    box = loop.boxes[n]
    size = TYPES[box.types][1]
    width = box.columns * size
    assert width in LAYOUT
    lines = [
        f"%p{n} = memref.extract_aligned_pointer_as_index %b{n} : {kind} -> index",
        f"%p{n}i = arith.index_cast %p{n} : index to i64",
        f"%bits{n} = arith.constant {descriptor(width, 16, 8 * width)} : i64",
    ]
    for i in range(depth_of(loop) * size // K_BYTES):
        offset = i * K_BYTES if box.by_k else i * K_BYTES // size * width
        lines += [
            f"%o{n}_{i} = arith.constant {offset} : i64",
            f"%x{n}_{i} = arith.addi %p{n}i, %o{n}_{i} : i64",
            f"%y{n}_{i} = arith.andi %x{n}_{i}, %low18 : i64",
            f"%z{n}_{i} = arith.shrui %y{n}_{i}, %four : i64",
            f"%d{n}_{i} = arith.ori %z{n}_{i}, %bits{n} : i64",
        ]
    return lines


def store_text(loop: TensorLoop) -> list[str]:
    """A thread's sums as its row of the output of this execution."""
    (register, packed), element = SUMS[loop.sums], output_element(loop)
    out = f"memref<?x{loop.output[1]}x{element}>"
    lines = ["%rows = arith.muli %e, %i128 : index", "%row = arith.addi %rows, %t : index"]
    for i in range(registers_of(loop)):
        lines += [
            f"%v{i} = llvm.extractvalue %r#2[{i}] : {struct_of(loop)}",
            f"%at{i} = arith.constant {i * packed} : index",
            f"vector.store %v{i}, %out[%row, %at{i}] : {out}, {register}"
            if packed > 1
            else f"memref.store %v{i}, %out[%row, %at{i}] : {out}",
        ]
    return lines


def output_element(loop: TensorLoop) -> str:
    """The type of an element of the output."""
    return {"f32": "f32", "f16": "f16", "s32": "i32"}[loop.sums]


def random_operands(pick: random.Random) -> tuple[str, list[dict[str, Any]], int]:
    """The type of the sums, what the boxes of A and B are, and bytes of an element."""
    # Only 16 bits may have k across their lines.
    wide = [("f16", "f16"), ("bf16", "bf16")] * 4
    types = pick.choice([*wide, *((name, name) for name in TYPES), *MIXED])
    size = TYPES[types[0]][1]
    sums = "f32"
    if types[0] in ("s8", "u8"):
        sums = "s32"
    elif types[0] in ("f16", "e4m3", "e5m2"):
        sums = pick.choice(["f32", "f16"])
    by_k = [size != 2 or pick.random() < 0.5 for _ in types]
    # Lines of k are as wide as both tiles are deep.
    width = pick.choice([32, 64, 128])
    depth = width // size if any(by_k) else pick.choice([16, 32, 64])
    columns = pick.choice([8, 16, 24, 64] if by_k[1] else [16, 32, 64])
    boxes = []
    for rows, along, name in zip((M, columns), by_k, types, strict=True):
        lines, per_line = (rows, depth) if along else (depth, rows)
        swizzle = f"swizzle_{per_line * size}b"
        boxes.append(
            {"rows": lines, "columns": per_line, "swizzle": swizzle, "types": name, "by_k": along}
        )
    return sums, boxes, size
