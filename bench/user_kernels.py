"""Kernels as users write them: naive subscripts, transfers, masks, views, tensors of three dimensions.

    USERS["column sums"].text()            MLIR, one kernel
    USERS["column sums"].data(draw, 3)     what it is given for 3 iterations, and what it must give

No generator of examples/ wrote them. A line of a body names constants as `%c4`, which are declared where the
kernel begins. The loads and stores are plain ones or copies of `nvgpu`, whatever the author likes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

TARGET = "nvvm:sm_80"
LOOP = "async_pipe.num_stages = 3 : i64"


@dataclass(frozen=True)
class Result:
    """What an argument must hold in the end, up to a distance."""

    wanted: np.ndarray
    distance: float = 0.0


Data = Callable[[np.random.Generator, int], tuple[Any, ...]]


@dataclass(frozen=True)
class UserKernel:
    """`data` gives the arguments for so many iterations: arrays, and results. `grid` and `threads` are
    those of the launch. `triton` is a kind of `triton_users.py`, "" without one; `products` are the multiplications
    of one warp in an iteration, 0 where no tensor core works."""

    text: Callable[[], str]
    data: Data
    grid: tuple[int, int, int] = (1, 1, 1)
    threads: int = 128
    products: int = 0
    triton: str = ""


def module(arguments: str, tiles: str, body: str, threads: int = 128) -> str:
    """A module with the kernel @f. `arguments` are "A: ?x128xf32, …" of memory that nothing else
    names, `tiles` the same in workgroup memory."""
    numbers = sorted({int(number) for number in re.findall(r"%c(\d+)\b", body)})
    constants = "\n".join(f"    %c{n} = arith.constant {n} : index" for n in numbers)
    kinds = dict(part.strip().split(": ") for part in (*arguments.split(","), *tiles.split(",")))
    wg = [part.split(":")[0].strip() for part in tiles.split(",")]
    kinds = {n: f"memref<{k}{', #wg' if n in wg else ''}>" for n, k in kinds.items()}
    # A line may say `$A` for the type of A.
    body = re.sub(r"\$(\w+)", lambda found: kinds[found[1]], body)
    given = ", ".join(f"%{n} : {k} {{llvm.noalias}}" for n, k in kinds.items() if n not in wg)
    own = ", ".join(f"%{n} : {kinds[n]} {{llvm.align = 16 : i64}}" for n in wg)
    return f"""\
#wg = #gpu.address_space<workgroup>
module attributes {{gpu.container_module}} {{
gpu.module @kernels {{
  gpu.func @f({given})
      workgroup({own}) kernel attributes {{known_block_size = array<i32: {threads}, 1, 1>}} {{
{constants}
    %t = gpu.thread_id x
{body}
    gpu.return
  }}
}}
}}
"""


# Streams of rows -----------------------------------------------------------------------------
#
# Four rows of 128 numbers at a time; thread t has column t.


def stream(
    carried: str, each: str, after: str, results: str = "C: 128xf32", kind: str = "f32"
) -> str:
    """`carried` begins the values "s = zero, …"; `each` makes their next ones, s1 …, of the column's %x0 to %x3;
    `after` stores them."""
    names = [part.split("=")[0].strip() for part in carried.split(",")]
    begins = ", ".join(
        f"%{n} = %{part.split('=')[1].strip()}"
        for n, part in zip(names, carried.split(","), strict=True)
    )
    types = ", ".join(["f32"] * len(names))
    loads = "\n".join(f"      %y{j} = memref.load %tile[%c{j}, %t] : $tile" for j in range(4))
    widened = "\n".join(
        f"      %x{j} = arith.addf %y{j}, %zero : f32" if kind == "f32" else f"      %x{j} = arith.extf %y{j} : {kind} to f32"
        for j in range(4)
    )  # fmt: skip
    body = f"""\
    %zero = arith.constant 0.0 : f32
    %low = arith.constant -1.0e+30 : f32
    %row = arith.divui %t, %c32 : index
    %piece = arith.remui %t, %c32 : index
    %column = arith.muli %piece, %c4 : index
    %n = memref.dim %A, %c0 : $A
    %r:{len(names)} = scf.for %i = %c0 to %n step %c4 iter_args({begins}) -> ({types}) {{
      %from = arith.addi %i, %row : index
      %v = vector.load %A[%from, %column] : $A, vector<4x{kind}>
      vector.store %v, %tile[%row, %column] : $tile, vector<4x{kind}>
      gpu.barrier
{loads}
{widened}
{each}
      gpu.barrier
      scf.yield {", ".join(f"%{n}1" for n in names)} : {types}
    }} {{{LOOP}}}
{after}"""
    return module(f"A: ?x128x{kind}, {results}", f"tile: 4x128x{kind}", body)


def folded(op: str, first: str, names: list[str], last: str) -> str:
    """A chain of one op over several values."""
    lines, sofar = [], first
    for place, name in enumerate(names):
        made = last if place == len(names) - 1 else f"{last}_{place}"
        lines.append(f"      %{made} = {op} %{sofar}, %{name} : f32")
        sofar = made
    return "\n".join(lines)


X = ["x0", "x1", "x2", "x3"]
SQUARES = "\n".join(f"      %q{j} = arith.mulf %x{j}, %x{j} : f32" for j in range(4))
STORED = "    memref.store %r#0, %C[%t] : $C"
BOTH = f"{STORED}\n    memref.store %r#1, %D[%t] : $D"


def rows(draw: np.random.Generator, steps: int, kind: Any = np.float32) -> np.ndarray:
    """Small integers: their sums are exact."""
    return draw.integers(-4, 5, (4 * steps, 128)).astype(kind)


def column_sums() -> str:
    return stream("s = zero", folded("arith.addf", "s", X, "s1"), STORED)


def square_norms() -> str:
    each = SQUARES + "\n" + folded("arith.addf", "s", ["q0", "q1", "q2", "q3"], "s1")
    return stream("s = zero", each, STORED, kind="f16")


def moments() -> str:
    each = "\n".join((
        SQUARES, folded("arith.addf", "s", X, "s1"), folded("arith.addf", "p", ["q0", "q1", "q2", "q3"], "p1"),
    ))  # fmt: skip
    return stream("s = zero, p = zero", each, BOTH, "C: 128xf32, D: 128xf32")


def largest_magnitudes() -> str:
    each = "\n".join(f"      %a{j} = math.absf %x{j} : f32" for j in range(4))
    each += "\n" + folded("arith.maximumf", "s", ["a0", "a1", "a2", "a3"], "s1")
    return stream("s = zero", each, STORED)


def log_sum_exp() -> str:
    each = "\n".join((
        folded("arith.maximumf", "m", X, "m1"),
        *(f"      %o{j} = arith.subf %x{j}, %m1 : f32\n      %e{j} = math.exp2 %o{j} : f32" for j in range(4)),
        "      %off = arith.subf %m, %m1 : f32\n      %shrunk = math.exp2 %off : f32",
        "      %old = arith.mulf %s, %shrunk : f32",
        folded("arith.addf", "old", ["e0", "e1", "e2", "e3"], "s1"),
    ))  # fmt: skip
    return stream("m = low, s = zero", each, BOTH, "C: 128xf32, D: 128xf32", kind="f16")


def scan() -> str:
    each = "\n".join(
        f"      %k{j} = arith.addf %{'s' if j == 0 else f'k{j - 1}'}, %x{j} : f32\n"
        f"      %i{j} = arith.addi %i, %c{j} : index\n"
        f"      memref.store %k{j}, %D[%i{j}, %t] : $D"
        for j in range(4)
    )
    each += "\n      %s1 = arith.addf %k3, %zero : f32"
    return stream("s = zero", each, STORED, "C: 128xf32, D: ?x128xf32")


def of_rows(kind: Any, *found: Callable[[np.ndarray], np.ndarray], distance: float = 0.0) -> Data:
    """Data of a stream: each of the results of its rows."""

    def data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
        given = rows(draw, steps, kind)
        wide = given.astype(np.float64)
        return (given, *(Result(each(wide).astype(np.float32), distance) for each in found))

    return data


# Stencils ------------------------------------------------------------------------------------


def stencil_by_views() -> str:
    """D[i, t] = A[i, t] + A[i, t + 1] + A[i, t + 2], each tile of A a view that is copied whole."""
    return module("A: ?x136xf32, D: ?x128xf32", "tile: 136xf32", f"""\
    %n = memref.dim %A, %c0 : $A
    %t1 = arith.addi %t, %c1 : index
    %t2 = arith.addi %t, %c2 : index
    %column = arith.muli %t, %c4 : index
    %copies = arith.cmpi ult, %t, %c34 : index
    scf.for %i = %c0 to %n step %c1 {{
      %view = memref.subview %A[%i, 0] [1, 136] [1, 1] : $A to memref<136xf32, strided<[1], offset: ?>>
      scf.if %copies {{
        %v = vector.load %view[%column] : memref<136xf32, strided<[1], offset: ?>>, vector<4xf32>
        vector.store %v, %tile[%column] : $tile, vector<4xf32>
      }}
      gpu.barrier
      %x = memref.load %tile[%t] : $tile
      %y = memref.load %tile[%t1] : $tile
      %z = memref.load %tile[%t2] : $tile
      %xy = arith.addf %x, %y : f32
      %xyz = arith.addf %xy, %z : f32
      memref.store %xyz, %D[%i, %t] : $D
      gpu.barrier
    }} {{{LOOP}}}""")  # fmt: skip


def stencil_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a = draw.integers(-9, 9, (steps, 136)).astype(np.float32)
    return a, Result(a[:, :128] + a[:, 1:129] + a[:, 2:130])


def stencil_2d() -> str:
    """Five points: three rows of A are copied for each row of D."""
    copies = "\n".join(
        f"      %i{d} = arith.addi %i, %c{d} : index\n      %v{d} = memref.load %A[%i{d}, %t] : $A\n"
        f"      memref.store %v{d}, %tile[%c{d}, %t] : $tile"
        for d in range(3)
    )
    return module("A: ?x128xf32, D: ?x128xf32", "tile: 3x128xf32", f"""\
    %n = memref.dim %D, %c0 : $D
    %after = arith.addi %t, %c1 : index
    %right = arith.remui %after, %c128 : index
    %before = arith.addi %t, %c127 : index
    %left = arith.remui %before, %c128 : index
    scf.for %i = %c0 to %n step %c1 {{
{copies}
      gpu.barrier
      %up = memref.load %tile[%c0, %t] : $tile
      %down = memref.load %tile[%c2, %t] : $tile
      %l = memref.load %tile[%c1, %left] : $tile
      %r = memref.load %tile[%c1, %right] : $tile
      %x = memref.load %tile[%c1, %t] : $tile
      %s1 = arith.addf %up, %down : f32
      %s2 = arith.addf %l, %r : f32
      %s3 = arith.addf %s1, %s2 : f32
      %s4 = arith.addf %s3, %x : f32
      memref.store %s4, %D[%i, %t] : $D
      gpu.barrier
    }} {{{LOOP}}}""")  # fmt: skip


def stencil_2d_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a = draw.integers(-9, 9, (steps + 2, 128)).astype(np.float32)
    mid = a[1:-1]
    return a, Result(a[:-2] + a[2:] + mid + np.roll(mid, 1, 1) + np.roll(mid, -1, 1))


def stencil_3d() -> str:
    """Planes of 8x16, one after the other: D[z] = A[z] + A[z + 1] + its four neighbours around the ends."""
    sides = "\n".join(
        f"      %p{n} = memref.load %tile[%c1, {at}] : $tile" for n, at in enumerate(
            ("%up, %x", "%down, %x", "%y, %left", "%y, %right"))
    )  # fmt: skip
    sums = folded("arith.addf", "near", ["far", "p0", "p1", "p2", "p3"], "all")
    return module("A: ?x8x16xf32, D: ?x8x16xf32", "tile: 2x8x16xf32", f"""\
    %n = memref.dim %D, %c0 : $D
    %y = arith.divui %t, %c16 : index
    %x = arith.remui %t, %c16 : index
    %y1 = arith.addi %y, %c1 : index
    %y7 = arith.addi %y, %c7 : index
    %x1 = arith.addi %x, %c1 : index
    %x15 = arith.addi %x, %c15 : index
    %down = arith.remui %y1, %c8 : index
    %up = arith.remui %y7, %c8 : index
    %right = arith.remui %x1, %c16 : index
    %left = arith.remui %x15, %c16 : index
    scf.for %z = %c0 to %n step %c1 {{
      %z1 = arith.addi %z, %c1 : index
      %v = memref.load %A[%z, %y, %x] : $A
      memref.store %v, %tile[%c0, %y, %x] : $tile
      %w = memref.load %A[%z1, %y, %x] : $A
      memref.store %w, %tile[%c1, %y, %x] : $tile
      gpu.barrier
      %near = memref.load %tile[%c0, %y, %x] : $tile
      %far = memref.load %tile[%c1, %y, %x] : $tile
{sides}
{sums}
      memref.store %all, %D[%z, %y, %x] : $D
      gpu.barrier
    }} {{{LOOP}}}""")  # fmt: skip


def stencil_3d_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a = draw.integers(-9, 9, (steps + 1, 8, 16)).astype(np.float32)
    near, far = a[:-1], a[1:]
    around = sum(np.roll(far, by, axis) for by in (1, -1) for axis in (1, 2))
    return a, Result(near + far + around)


def moving_average() -> str:
    """A row of signals and seven taps of its own for each thread, loaded once."""
    taps = "\n".join(
        f"      %at{k} = arith.addi %t, %c{k} : index\n      %x{k} = memref.load %tile[%at{k}] : $tile\n"
        f"      %m{k} = arith.mulf %x{k}, %w{k} : f32"
        for k in range(7)
    )
    loads = "\n".join(f"    %w{k} = memref.load %W[%c{k}] : $W" for k in range(7))
    sums = folded("arith.addf", "m0", [f"m{k}" for k in range(1, 7)], "all")
    return module("A: ?x144xf32, W: 7xf32, D: ?x128xf32", "tile: 144xf32", f"""\
{loads}
    %n = memref.dim %A, %c0 : $A
    %rest = arith.addi %t, %c128 : index
    %has_rest = arith.cmpi ult, %t, %c16 : index
    scf.for %i = %c0 to %n step %c1 {{
      %v = memref.load %A[%i, %t] : $A
      memref.store %v, %tile[%t] : $tile
      scf.if %has_rest {{
        %w = memref.load %A[%i, %rest] : $A
        memref.store %w, %tile[%rest] : $tile
      }}
      gpu.barrier
{taps}
{sums}
      memref.store %all, %D[%i, %t] : $D
      gpu.barrier
    }} {{{LOOP}}}""")  # fmt: skip


def moving_average_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a = draw.integers(-9, 9, (steps, 144)).astype(np.float32)
    w = draw.integers(-3, 4, 7).astype(np.float32)
    wanted = sum(w[k] * a[:, k : k + 128] for k in range(7))
    return a, w, Result(np.asarray(wanted, np.float32))


# Products without tensor cores ---------------------------------------------------------------
#
# The textbook's: a block of 16x16 threads, a number of C each.


def textbook(
    arguments: str = "A: ?x?xf32, B: ?x?xf32, C: ?x?xf32",
    *,
    a: str = "%gm, %gk",
    b: str = "%hk, %gn",
    c: str = "%gm, %gn",
    depth: str = "memref.dim %A, %c1 : $A",
    before: str = "",
    each: str = "",
    kind: str = "f32",
    tile_a: str = "%y, %x",
) -> str:
    """A 16x16 tile of A and of B at a time; `a`, `b` and `c` are subscripts, made of what stands `before` the
    loop or in `each` iteration."""
    wide = (
        ""
        if kind == "f32"
        else f"\n        %p = arith.extf %p_ : {kind} to f32\n        %q = arith.extf %q_ : {kind} to f32"
    )
    mark = "" if kind == "f32" else "_"
    return module(arguments, f"ta: 16x16x{kind}, tb: 16x16x{kind}", f"""\
    %zero = arith.constant 0.0 : f32
    %bx = gpu.block_id x
    %by = gpu.block_id y
    %y = arith.divui %t, %c16 : index
    %x = arith.remui %t, %c16 : index
    %m0 = arith.muli %by, %c16 : index
    %n0 = arith.muli %bx, %c16 : index
    %gm = arith.addi %m0, %y : index
    %gn = arith.addi %n0, %x : index
{before}
    %depth = {depth}
    %sum = scf.for %k = %c0 to %depth step %c16 iter_args(%s = %zero) -> f32 {{
      %gk = arith.addi %k, %x : index
      %hk = arith.addi %k, %y : index
{each}
      %va = memref.load %A[{a}] : $A
      memref.store %va, %ta[{tile_a}] : $ta
      %vb = memref.load %B[{b}] : $B
      memref.store %vb, %tb[%y, %x] : $tb
      gpu.barrier
      %next = scf.for %j = %c0 to %c16 step %c1 iter_args(%u = %s) -> f32 {{
        %p{mark} = memref.load %ta[%y, %j] : $ta
        %q{mark} = memref.load %tb[%j, %x] : $tb{wide}
        %pq = arith.mulf %p, %q : f32
        %v = arith.addf %u, %pq : f32
        scf.yield %v : f32
      }}
      gpu.barrier
      scf.yield %next : f32
    }} {{{LOOP}}}
    memref.store %sum, %C[{c}] : $C""", threads=256)  # fmt: skip


def small(draw: np.random.Generator, *shape: int, kind: Any = np.float32) -> np.ndarray:
    return draw.integers(-4, 5, shape).astype(kind)


def of_matrices(
    kind: Any = np.float32,
    left: str = "mk",
    right: str = "kn",
    m: int = 16,
    n: int = 16,
    k: int = 16,
) -> Data:
    def data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
        sizes = {"m": m, "n": n, "k": k * steps}
        a, b = (small(draw, *(sizes[d] for d in dims), kind=kind) for dims in (left, right))
        wanted = np.einsum(f"{left},{right}->mn", a.astype(np.float64), b.astype(np.float64))
        return a, b, Result(wanted.astype(np.float32))

    return data


def batched() -> str:
    return textbook(
        "A: ?x?x?xf32, B: ?x?x?xf32, C: ?x?x?xf32", a="%bz, %gm, %gk", b="%bz, %hk, %gn", c="%bz, %gm, %gn",
        depth="memref.dim %A, %c2 : $A", before="    %bz = gpu.block_id z",
    )  # fmt: skip


def batched_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, b = small(draw, 2, 16, 16 * steps), small(draw, 2, 16 * steps, 16)
    return a, b, Result(a @ b)


def grouped() -> str:
    """Groups of rows have a B of their own: which, stands in memory."""
    return textbook(
        "A: ?x?xf32, B: ?x?x?xf32, E: ?xindex, C: ?x?xf32", b="%expert, %hk, %gn",
        before="    %expert = memref.load %E[%by] : $E",
    )  # fmt: skip


def grouped_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, b, e = small(draw, 32, 16 * steps), small(draw, 3, 16 * steps, 16), np.array([2, 0])
    wanted = np.concatenate([a[16 * g : 16 * g + 16] @ b[e[g]] for g in range(2)])
    return a, b, e, Result(wanted)


def gathered() -> str:
    """Rows of A by an index that is loaded in the loop."""
    return textbook(
        "A: ?x?xf32, B: ?x?xf32, I: ?xindex, C: ?x?xf32", a="%from, %gk",
        each="      %from = memref.load %I[%gm] : $I",
    )  # fmt: skip


def gathered_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, b, i = small(draw, 40, 16 * steps), small(draw, 16 * steps, 16), draw.permutation(40)[:16]
    return a, b, i, Result(a[i] @ b)


def convolution() -> str:
    """Two dimensions, 3x3 taps, 16 channels: one tap (kh, kw) in an iteration, its 16 channels are the tile.

    C[pixel, o] = sum of A[image, h + kh, w + kw, c] B[kh, kw, c, o] over 4x4 pixels of an image.
    """
    return textbook(
        "A: ?x?x?x16xf32, B: 3x3x16x?xf32, N: ?xf32, C: ?x?xf32", a="%by, %hh, %ww, %x", b="%kh, %kw, %y, %gn",
        before="    %h = arith.divui %y, %c4 : index\n    %w = arith.remui %y, %c4 : index",
        depth="memref.dim %N, %c0 : $N",
        each="""\
      %tap = arith.divui %k, %c16 : index
      %kh = arith.divui %tap, %c3 : index
      %kw = arith.remui %tap, %c3 : index
      %hh = arith.addi %h, %kh : index
      %ww = arith.addi %w, %kw : index""",
    )  # fmt: skip


def convolution_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, b = small(draw, 1, 6, 6, 16), small(draw, 3, 3, 16, 16)
    wanted = np.zeros((16, 16), np.float32)
    for tap in range(steps):
        kh, kw = divmod(tap, 3)
        wanted += a[0, kh : kh + 4, kw : kw + 4].reshape(16, 16) @ b[kh, kw]
    return a, b, np.zeros(16 * steps, np.float32), Result(wanted)


def convolution_1d() -> str:
    """C[w, o] = sum of A[w + kw, c] B[kw, c, o]: tap by tap, 16 channels a tile, by affine.apply."""
    return textbook(
        "A: ?x16xf32, B: ?x16x?xf32, N: ?xf32, C: ?x?xf32", a="%from, %x", b="%kw, %y, %gn",
        depth="memref.dim %N, %c0 : $N",
        each="""\
      %kw = affine.apply affine_map<(d0) -> (d0 floordiv 16)>(%k)
      %from = affine.apply affine_map<(d0, d1) -> (d0 + d1 floordiv 16)>(%gm, %k)""",
    )  # fmt: skip


def convolution_1d_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, b = small(draw, 16 + steps, 16), small(draw, steps, 16, 16)
    wanted = sum(a[k : k + 16] @ b[k] for k in range(steps))
    return a, b, np.zeros(16 * steps, np.float32), Result(np.asarray(wanted, np.float32))


def distances() -> str:
    """Squares of distances of points, by the textbook's loop."""
    text = textbook(b="%gn, %hk")
    return text.replace(
        "        %pq = arith.mulf %p, %q : f32",
        "        %off = arith.subf %p, %q : f32\n        %pq = arith.mulf %off, %off : f32",
    )


def distances_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, b = small(draw, 16, 16 * steps), small(draw, 16, 16 * steps)
    return a, b, Result(((a[:, None] - b[None]) ** 2).sum(axis=2))


def matrix_vector() -> str:
    """y = A x: a thread has a row, a block the next 128 numbers of x; eight columns of A at a time
    would be better, and the author did not care."""
    return module("A: ?x?xf32, X: ?xf32, Y: 128xf32", "tx: 32xf32, ta: 128x36xf32", f"""\
    %zero = arith.constant 0.0 : f32
    %n = memref.dim %X, %c0 : $X
    %first = arith.cmpi ult, %t, %c32 : index
    %row = arith.divui %t, %c8 : index
    %eighth = arith.remui %t, %c8 : index
    %column = arith.muli %eighth, %c4 : index
    %sum = scf.for %k = %c0 to %n step %c32 iter_args(%s = %zero) -> f32 {{
      %from = arith.addi %k, %t : index
      scf.if %first {{
        %v = memref.load %X[%from] : $X
        memref.store %v, %tx[%t] : $tx
      }}
      %at = arith.addi %k, %column : index
      scf.for %i = %c0 to %c128 step %c16 {{
        %r = arith.addi %i, %row : index
        %w = vector.load %A[%r, %at] : $A, vector<4xf32>
        vector.store %w, %ta[%r, %column] : $ta, vector<4xf32>
      }}
      gpu.barrier
      %next = scf.for %j = %c0 to %c32 step %c1 iter_args(%u = %s) -> f32 {{
        %p = memref.load %ta[%t, %j] : $ta
        %q = memref.load %tx[%j] : $tx
        %pq = arith.mulf %p, %q : f32
        %v = arith.addf %u, %pq : f32
        scf.yield %v : f32
      }}
      gpu.barrier
      scf.yield %next : f32
    }} {{{LOOP}}}
    memref.store %sum, %Y[%t] : $Y""")  # fmt: skip


def matrix_vector_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, x = small(draw, 128, 32 * steps), small(draw, 32 * steps)
    return a, x, Result(a @ x)


def embedding_bag(weighted: bool = False) -> str:
    """The sum of the rows of a table that a list names, with weights or without."""
    weight = (
        "\n      %wt = memref.load %W[%i] : $W\n      %y = arith.mulf %x, %wt : f32"
        if weighted
        else ""
    )
    given = "E: ?x128xf32, I: ?xindex, " + ("W: ?xf32, " if weighted else "") + "C: 128xf32"
    return module(given, "row: 128xf32", f"""\
    %zero = arith.constant 0.0 : f32
    %n = memref.dim %I, %c0 : $I
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {{
      %which = memref.load %I[%i] : $I
      %v = memref.load %E[%which, %t] : $E
      memref.store %v, %row[%t] : $row
      gpu.barrier
      %x = memref.load %row[%t] : $row{weight}
      %next = arith.addf %s, %{"y" if weighted else "x"} : f32
      gpu.barrier
      scf.yield %next : f32
    }} {{{LOOP}}}
    memref.store %sum, %C[%t] : $C""")  # fmt: skip


def bag_data(draw: np.random.Generator, steps: int, weighted: bool = False) -> tuple[Any, ...]:
    e, i, w = small(draw, 9, 128), draw.integers(0, 9, steps), small(draw, steps)
    if not weighted:
        return e, i, Result(e[i].sum(axis=0))
    return e, i, w, Result((e[i] * w[:, None]).sum(axis=0))


def dequantised() -> str:
    """Columns of bytes times a scale for each row, which another array has."""
    return module("A: ?x128xi8, S: ?xf32, C: 128xf32", "tile: 8x128xi8, ts: 8xf32", f"""\
    %zero = arith.constant 0.0 : f32
    %n = memref.dim %A, %c0 : $A
    %row = arith.divui %t, %c16 : index
    %piece = arith.remui %t, %c16 : index
    %column = arith.muli %piece, %c8 : index
    %first = arith.cmpi ult, %t, %c8 : index
    %sum = scf.for %i = %c0 to %n step %c8 iter_args(%s = %zero) -> f32 {{
      %from = arith.addi %i, %row : index
      %v = vector.load %A[%from, %column] : $A, vector<8xi8>
      vector.store %v, %tile[%row, %column] : $tile, vector<8xi8>
      scf.if %first {{
        %at = arith.addi %i, %t : index
        %w = memref.load %S[%at] : $S
        memref.store %w, %ts[%t] : $ts
      }}
      gpu.barrier
      %next = scf.for %j = %c0 to %c8 step %c1 iter_args(%u = %s) -> f32 {{
        %byte = memref.load %tile[%j, %t] : $tile
        %x = arith.sitofp %byte : i8 to f32
        %scale = memref.load %ts[%j] : $ts
        %scaled = arith.mulf %x, %scale : f32
        %y = arith.addf %u, %scaled : f32
        scf.yield %y : f32
      }}
      gpu.barrier
      scf.yield %next : f32
    }} {{{LOOP}}}
    memref.store %sum, %C[%t] : $C""")  # fmt: skip


def dequantised_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, s = small(draw, 8 * steps, 128, kind=np.int8), small(draw, 8 * steps)
    return a, s, Result((a * s[:, None]).sum(axis=0).astype(np.float32))


def decode() -> str:
    """Attention of one query, a head of 32 features a block of 32 threads: key by key, online."""
    return module("Q: 32xf32, K: ?x32xf32, V: ?x32xf32, C: 32xf32", "tk: 4x32xf32, tv: 4x32xf32", f"""\
    %zero = arith.constant 0.0 : f32
    %low = arith.constant -1.0e+30 : f32
    %n = memref.dim %K, %c0 : $K
    %row = arith.divui %t, %c8 : index
    %piece = arith.remui %t, %c8 : index
    %column = arith.muli %piece, %c4 : index
    %sum:3 = scf.for %i = %c0 to %n step %c4 iter_args(%m = %low, %w = %zero, %o = %zero) -> (f32, f32, f32) {{
      %from = arith.addi %i, %row : index
      %vk = vector.load %K[%from, %column] : $K, vector<4xf32>
      vector.store %vk, %tk[%row, %column] : $tk, vector<4xf32>
      %vv = vector.load %V[%from, %column] : $V, vector<4xf32>
      vector.store %vv, %tv[%row, %column] : $tv, vector<4xf32>
      gpu.barrier
      %next:3 = scf.for %j = %c0 to %c4 step %c1 iter_args(%m_ = %m, %w_ = %w, %o_ = %o) -> (f32, f32, f32) {{
        %score = scf.for %d = %c0 to %c32 step %c1 iter_args(%u = %zero) -> f32 {{
          %q = memref.load %Q[%d] : $Q
          %k = memref.load %tk[%j, %d] : $tk
          %qk = arith.mulf %q, %k : f32
          %u1 = arith.addf %u, %qk : f32
          scf.yield %u1 : f32
        }}
        %m1 = arith.maximumf %m_, %score : f32
        %off = arith.subf %m_, %m1 : f32
        %shrunk = math.exp2 %off : f32
        %above = arith.subf %score, %m1 : f32
        %p = math.exp2 %above : f32
        %w0 = arith.mulf %w_, %shrunk : f32
        %w1 = arith.addf %w0, %p : f32
        %v = memref.load %tv[%j, %t] : $tv
        %pv = arith.mulf %p, %v : f32
        %o0 = arith.mulf %o_, %shrunk : f32
        %o1 = arith.addf %o0, %pv : f32
        scf.yield %m1, %w1, %o1 : f32, f32, f32
      }}
      gpu.barrier
      scf.yield %next#0, %next#1, %next#2 : f32, f32, f32
    }} {{{LOOP}}}
    %whole = arith.divf %sum#2, %sum#1 : f32
    memref.store %whole, %C[%t] : $C""", threads=32)  # fmt: skip


def decode_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    q, k, v = (
        draw.normal(size=s).astype(np.float32) for s in ((32,), (4 * steps, 32), (4 * steps, 32))
    )
    p = np.exp2(k.astype(float) @ q - (k.astype(float) @ q).max())
    return q, k, v, Result((p @ v / p.sum()).astype(np.float32), 1e-4)


# Products of tensor cores --------------------------------------------------------------------
#
# A block of 64x64 of C, four warps of 32x32, 32 of k at a time; rows of tiles are 40 long, so that
# eight of them meet in no bank. The products are m16n8k16.

COPY = "vector.load %{m}[{at}] : ${m}, vector<8x{kind}>"


def tensor(
    arguments: str = "A: ?x?xf16, B: ?x?xf16, C: ?x?xf32",
    *,
    a: str = "%ar, %ak",
    b: str = "%br, %ak",
    c: str = "{r}, {q}",
    load: str = COPY,
    kind: str = "f16",
    before: str = "",
    each: str = "",
    begin: str = "%c0",
    end: str = "memref.dim %A, %c1 : $A",
    by_k: bool = False,
    seconds: bool = False,
    loop: str = LOOP,
) -> str:
    """`a` and `b` are subscripts of what a thread copies, of %ar and %br (rows of the matrices, below by 0 and
    by 32) and %ak. With `by_k` B is K x N, with `seconds` there is a second B, D, and C is the product of both."""
    copies, rows = [], 32 if not by_k else 16
    names = ("A", "B", "D") if seconds else ("A", "B")
    for name in names:
        for half in range(2):
            tile = {"A": "ta", "B": "tb", "D": "td"}[name]
            at = (a if name == "A" else b).replace("%ar", f"%ar{half}").replace("%br", f"%br{half}")
            at = at.replace("%bk", f"%bk{half}")
            place = f"%bt{half}, %bc" if by_k and name != "A" else f"%t{half}, %piece"
            copies.append(
                f"      %v{name}{half} = " + load.format(m=name, at=at, kind=kind) + "\n"
                f"      vector.store %v{name}{half}, %{tile}[{place}] : ${tile}, vector<8x{kind}>"
            )
    fragments, products = [], []
    for step in range(2):
        for i in range(2):
            fragments.append(
                f"      %fa{step}{i} = nvgpu.ldmatrix %ta[%fr{i}, %fc{step}] {{numTiles = 4 : i32, transpose = false}}"
                f" : $ta -> vector<4x2x{kind}>"
            )
        for name in names[1:]:
            for j in range(4):
                at = f"%gk{step}, %gn{j}" if by_k else f"%gr{j}, %gc{step}"
                fragments.append(
                    f"      %f{name.lower()}{step}{j} = nvgpu.ldmatrix %t{name.lower()}[{at}] {{numTiles = 2 : i32, "
                    f"transpose = {str(by_k).lower()}}} : $t{name.lower()} -> vector<2x2x{kind}>"
                )
    sums = [f"{name.lower()}{i}{j}" for name in names[1:] for i in range(2) for j in range(4)]
    acc = "vector<2x2xf32>"
    for step in range(2):
        for s in sums:
            old = f"s{s}" if step == 0 else f"u{s}0"
            products.append(
                f"      %u{s}{step} = nvgpu.mma.sync (%fa{step}{s[1]}, %f{s[0]}{step}{s[2]}, %{old}) "
                f"{{mmaShape = [16, 8, 16]}} : (vector<4x2x{kind}>, vector<2x2x{kind}>, {acc}) -> {acc}"
            )
    stores = []
    for place in range(8):
        i, j = divmod(place, 4)
        for half in range(2):
            row, column = 16 * i + 8 * half, 8 * j
            mark = f"{place}{half}"
            value = f"%o{mark}"
            stores.append(
                f"    %o{mark} = vector.extract %all#{place}[{half}] : vector<2xf32> from {acc}"
            )
            if seconds:
                stores.append(
                    f"    %d{mark} = vector.extract %all#{8 + place}[{half}] : vector<2xf32> from {acc}"
                )
                stores.append(f"    %e{mark} = arith.mulf %o{mark}, %d{mark} : vector<2xf32>")
                value = f"%e{mark}"
            stores.append(f"    %r{mark} = arith.addi %cm, %c{row} : index")
            stores.append(f"    %q{mark} = arith.addi %cn, %c{column} : index")
            at = c.format(r=f"%r{mark}", q=f"%q{mark}")
            stores.append(f"    vector.store {value}, %C[{at}] : $C, vector<2xf32>")
    tiles = f"ta: 64x40x{kind}, tb: {'32x72' if by_k else '64x40'}x{kind}"
    tiles += f", td: {'32x72' if by_k else '64x40'}x{kind}" if seconds else ""
    carried = ", ".join(f"%s{s} = %zeros" for s in sums)
    types = ", ".join([acc] * len(sums))
    newline = "\n"
    by_k_places = """\
    %bt0 = arith.divui %t, %c8 : index
    %bt1 = arith.addi %bt0, %c16 : index
    %bp = arith.remui %t, %c8 : index
    %bc = arith.muli %bp, %c8 : index
    %bn = arith.addi %n0, %bc : index
""" if by_k else ""  # fmt: skip
    by_k_each = f"""\
      %bk0 = arith.addi %k, %bt0 : index
      %bk1 = arith.addi %bk0, %c{rows} : index
""" if by_k else ""  # fmt: skip
    return module(arguments, tiles, f"""\
    %zeros = arith.constant dense<0.0> : {acc}
    %bx = gpu.block_id x
    %by = gpu.block_id y
    %m0 = arith.muli %by, %c64 : index
    %n0 = arith.muli %bx, %c64 : index
    %t0 = arith.divui %t, %c4 : index
    %t1 = arith.addi %t0, %c32 : index
    %quarter = arith.remui %t, %c4 : index
    %piece = arith.muli %quarter, %c8 : index
    %ar0 = arith.addi %m0, %t0 : index
    %ar1 = arith.addi %m0, %t1 : index
    %br0 = arith.addi %n0, %t0 : index
    %br1 = arith.addi %n0, %t1 : index
{by_k_places}    %warp = arith.divui %t, %c32 : index
    %lane = arith.remui %t, %c32 : index
    %wy = arith.divui %warp, %c2 : index
    %wx = arith.remui %warp, %c2 : index
    %wm = arith.muli %wy, %c32 : index
    %wn = arith.muli %wx, %c32 : index
    %l16 = arith.remui %lane, %c16 : index
    %h16 = arith.divui %lane, %c16 : index
    %l8 = arith.remui %lane, %c8 : index
    %h8 = arith.divui %l16, %c8 : index
    %fr0 = arith.addi %wm, %l16 : index
    %fr1 = arith.addi %fr0, %c16 : index
    %fc0 = arith.muli %h16, %c8 : index
    %fc1 = arith.addi %fc0, %c16 : index
    %gr0 = arith.addi %wn, %l8 : index
    %gr1 = arith.addi %gr0, %c8 : index
    %gr2 = arith.addi %gr0, %c16 : index
    %gr3 = arith.addi %gr0, %c24 : index
    %gc0 = arith.muli %h8, %c8 : index
    %gc1 = arith.addi %gc0, %c16 : index
    %gk0 = arith.addi %l16, %c0 : index
    %gk1 = arith.addi %l16, %c16 : index
    %gn0 = arith.addi %wn, %c0 : index
    %gn1 = arith.addi %wn, %c8 : index
    %gn2 = arith.addi %wn, %c16 : index
    %gn3 = arith.addi %wn, %c24 : index
{before}
    %end = {end}
    %all:{len(sums)} = scf.for %k = {begin} to %end step %c32 iter_args({carried}) -> ({types}) {{
      %ak = arith.addi %k, %piece : index
{by_k_each}{each}
{newline.join(copies)}
      gpu.barrier
{newline.join(fragments)}
{newline.join(products)}
      gpu.barrier
      scf.yield {", ".join(f"%u{s}1" for s in sums)} : {types}
    }} {{{loop}}}
    %lr = arith.divui %lane, %c4 : index
    %lc = arith.remui %lane, %c4 : index
    %lc2 = arith.muli %lc, %c2 : index
    %cm0 = arith.addi %m0, %wm : index
    %cm = arith.addi %cm0, %lr : index
    %cn0 = arith.addi %n0, %wn : index
    %cn = arith.addi %cn0, %lc2 : index
{newline.join(stores)}""")  # fmt: skip


def tensor_data(kind: str = "f16", right: str = "nk", ragged: int = 0) -> Data:
    def data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
        sizes = {"m": 64, "n": 64, "k": 32 * steps - ragged}
        a, b = (small(draw, *(sizes[d] for d in dims)) for dims in ("mk", right))
        wanted = np.einsum(f"mk,{right}->mn", a, b)
        return as_kind(a, kind), as_kind(b, kind), Result(wanted)

    return data


def as_kind(numbers: np.ndarray, kind: str) -> np.ndarray:
    """In f16, or the bits of bf16: both hold small integers."""
    if kind == "bf16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return numbers.astype(np.float16)


def batched_tensor_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, b = small(draw, 2, 64, 32 * steps), small(draw, 2, 64, 32 * steps)
    return as_kind(a, "f16"), as_kind(b, "f16"), Result(np.einsum("zmk,znk->zmn", a, b))


def split_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, b = small(draw, 64, 64 * steps), small(draw, 64, 64 * steps)
    halves = [slice(0, 32 * steps), slice(32 * steps, None)]
    return (
        as_kind(a, "f16"),
        as_kind(b, "f16"),
        Result(np.stack([a[:, s] @ b[:, s].T for s in halves])),
    )


SPLIT = """\
    %bz = gpu.block_id z
    %whole = memref.dim %A, %c1 : $A
    %half = arith.divui %whole, %c2 : index
    %begin = arith.muli %bz, %half : index"""


def gathered_tensor_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, b, i = small(draw, 80, 32 * steps), small(draw, 64, 32 * steps), draw.permutation(80)[:64]
    return as_kind(a, "f16"), as_kind(b, "f16"), i, Result(a[i] @ b.T)


def grouped_tensor_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, b, e = small(draw, 128, 32 * steps), small(draw, 3, 64, 32 * steps), np.array([2, 0])
    wanted = np.concatenate([a[64 * g : 64 * g + 64] @ b[e[g]].T for g in range(2)])
    return as_kind(a, "f16"), as_kind(b, "f16"), e, Result(wanted)


def gated_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, b, d = (small(draw, 64, 32 * steps) for _ in range(3))
    return *(as_kind(x, "f16") for x in (a, b, d)), Result((a @ b.T) * (a @ d.T))


# 8x8 pixels of an image of 32 channels a block, one of 3x3 taps an iteration.
TAPS = """\
      %tap = arith.divui %k, %c32 : index
      %kh = arith.divui %tap, %c3 : index
      %kw = arith.remui %tap, %c3 : index
      %h0 = arith.divui %t0, %c8 : index
      %ar0_ = arith.addi %h0, %kh : index
      %h1 = arith.addi %h0, %c4 : index
      %ar1_ = arith.addi %h1, %kh : index
      %w0 = arith.remui %t0, %c8 : index
      %ww = arith.addi %w0, %kw : index"""


def tensor_convolution() -> str:
    return tensor(
        "A: ?x?x?x32xf16, B: ?x3x3x32xf16, N: ?xf16, C: ?x?xf32", a="%by, %ar_, %ww, %piece",
        b="%br, %kh, %kw, %piece", end="memref.dim %N, %c0 : $N", each=TAPS,
    )  # fmt: skip


def tensor_convolution_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, b = small(draw, 1, 10, 10, 32), small(draw, 64, 3, 3, 32)
    wanted = np.zeros((64, 64), np.float32)
    for tap in range(steps):
        kh, kw = divmod(tap, 3)
        wanted += a[0, kh : kh + 8, kw : kw + 8].reshape(64, 32) @ b[:, kh, kw].T
    return as_kind(a, "f16"), as_kind(b, "f16"), np.zeros(32 * steps, np.float16), Result(wanted)


def bytes_of_b() -> str:
    """B in bytes, which become f16 on their way to the tile."""
    text = tensor("A: ?x?xf16, B: ?x?xi8, C: ?x?xf32")
    for half in range(2):
        text = re.sub(
            rf"%vB{half} = vector.load (.*), vector<8xf16>",
            rf"%wB{half} = vector.load \1, vector<8xi8>\n      %vB{half} = arith.sitofp %wB{half} : vector<8xi8> to vector<8xf16>",
            text,
        )
    return text


def bytes_of_b_data(draw: np.random.Generator, steps: int) -> tuple[Any, ...]:
    a, b = small(draw, 64, 32 * steps), small(draw, 64, 32 * steps)
    return as_kind(a, "f16"), b.astype(np.int8), Result(a @ b.T)


def transferred(rest: str) -> str:
    return "vector.transfer_read %{m}[{at}], %fill" + rest + " : ${m}, vector<8x{kind}>"


FILL = "    %fill = arith.constant 0.0 : f16"
PROMISED = "vector.load %{m}[{at}] {{alignment = 16}} : ${m}, vector<8x{kind}>"


def on_tensor_cores(text: Callable[[], str], data: Data, triton: str, **more: Any) -> UserKernel:
    return UserKernel(text, data, products=64 * 64 * 32 // 4, triton=triton, **more)


USERS: dict[str, UserKernel] = {
    "column sums": UserKernel(column_sums, of_rows(np.float32, lambda x: x.sum(axis=0))),
    "norms of columns, f16": UserKernel(
        square_norms, of_rows(np.float16, lambda x: (x * x).sum(axis=0))
    ),
    "moments of columns (layer norm)": UserKernel(
        moments, of_rows(np.float32, lambda x: x.sum(axis=0), lambda x: (x * x).sum(axis=0))
    ),
    "largest magnitudes (quantisation)": UserKernel(
        largest_magnitudes, of_rows(np.float32, lambda x: np.abs(x).max(axis=0))
    ),
    "log-sum-exp of columns, f16": UserKernel(
        log_sum_exp,
        of_rows(
            np.float16,
            lambda x: x.max(axis=0),
            lambda x: np.exp2(x - x.max(axis=0)).sum(axis=0),
            distance=1e-4,
        ),
    ),
    "scan of columns": UserKernel(
        scan, of_rows(np.float32, lambda x: x.sum(axis=0), lambda x: x.cumsum(axis=0))
    ),
    "stencil of 3 by views": UserKernel(stencil_by_views, stencil_data),
    "stencil of 5 in 2-D": UserKernel(stencil_2d, stencil_2d_data),
    "stencil of 6 in 3-D": UserKernel(stencil_3d, stencil_3d_data),
    "moving average, 7 taps": UserKernel(moving_average, moving_average_data),
    "matrix times vector": UserKernel(matrix_vector, matrix_vector_data),
    "embedding bag": UserKernel(embedding_bag, bag_data),
    "embedding bag, weighted": UserKernel(
        partial(embedding_bag, True), partial(bag_data, weighted=True)
    ),
    "bytes with scales": UserKernel(dequantised, dequantised_data),
    "attention of one query": UserKernel(decode, decode_data, threads=32),
    "textbook GEMM f32": UserKernel(textbook, of_matrices(), threads=256),
    "textbook GEMM f16 to f32": UserKernel(
        partial(textbook, "A: ?x?xf16, B: ?x?xf16, C: ?x?xf32", kind="f16"),
        of_matrices(np.float16),
        threads=256,
    ),
    "textbook GEMM, A transposed": UserKernel(
        partial(
            textbook,
            a="%hk, %ma",
            before="    %ma = arith.addi %m0, %x : index",
            tile_a="%x, %y",
            depth="memref.dim %A, %c0 : $A",
        ),
        of_matrices(left="km"),
        threads=256,
    ),
    "textbook GEMM, batched 3-D": UserKernel(batched, batched_data, (1, 1, 2), 256),
    "textbook GEMM, grouped": UserKernel(grouped, grouped_data, (1, 2, 1), 256),
    "textbook GEMM, rows gathered": UserKernel(gathered, gathered_data, threads=256),
    "convolution (kh, kw), f32": UserKernel(convolution, convolution_data, threads=256),
    "convolution 1-D by affine.apply": UserKernel(convolution_1d, convolution_1d_data, threads=256),
    "distances of points": UserKernel(distances, distances_data, threads=256),
    "GEMM 64x64x32 f16": on_tensor_cores(tensor, tensor_data(), "gemm"),
    "GEMM f16, alignment promised": on_tensor_cores(
        partial(tensor, load=PROMISED), tensor_data(), "gemm"
    ),
    "GEMM f16 by transfers": on_tensor_cores(
        partial(tensor, load=transferred(" {{in_bounds = [true]}}"), before=FILL),
        tensor_data(),
        "gemm",
    ),
    "GEMM f16, k masked by transfers": on_tensor_cores(
        partial(tensor, load=transferred(""), before=FILL), tensor_data(ragged=8), "masked"
    ),
    "GEMM bf16": on_tensor_cores(
        partial(tensor, "A: ?x?xbf16, B: ?x?xbf16, C: ?x?xf32", kind="bf16"),
        tensor_data("bf16"),
        "bf16",
    ),
    "GEMM f16, B by k": on_tensor_cores(
        partial(tensor, b="%bk, %bn", by_k=True), tensor_data(right="kn"), "by k"
    ),
    "GEMM f16, batched 3-D": on_tensor_cores(
        partial(
            tensor,
            "A: ?x?x?xf16, B: ?x?x?xf16, C: ?x?x?xf32",
            a="%bz, %ar, %ak",
            b="%bz, %br, %ak",
            c="%bz, {r}, {q}",
            before="    %bz = gpu.block_id z",
            end="memref.dim %A, %c2 : $A",
        ),
        batched_tensor_data,
        "gemm",
        grid=(1, 1, 2),
    ),
    "GEMM f16, split k": on_tensor_cores(
        partial(
            tensor,
            "A: ?x?xf16, B: ?x?xf16, C: ?x?x?xf32",
            c="%bz, {r}, {q}",
            before=SPLIT,
            begin="%begin",
            end="arith.addi %begin, %half : index",
        ),
        split_data,
        "gemm",
        grid=(1, 1, 2),
    ),
    "GEMM f16, rows gathered": on_tensor_cores(
        partial(
            tensor,
            "A: ?x?xf16, B: ?x?xf16, I: ?xindex, C: ?x?xf32",
            a="%ar_, %ak",
            each="      %ar0_ = memref.load %I[%ar0] : $I\n      %ar1_ = memref.load %I[%ar1] : $I",
        ),
        gathered_tensor_data,
        "gathered",
    ),
    "GEMM f16, grouped": on_tensor_cores(
        partial(
            tensor,
            "A: ?x?xf16, B: ?x?x?xf16, E: ?xindex, C: ?x?xf32",
            b="%expert, %br, %ak",
            before="    %expert = memref.load %E[%by] : $E",
        ),
        grouped_tensor_data,
        "gemm",
        grid=(1, 2, 1),
    ),
    "GEMM f16, gated (two B)": UserKernel(
        partial(tensor, "A: ?x?xf16, B: ?x?xf16, D: ?x?xf16, C: ?x?xf32", seconds=True),
        gated_data,
        products=2 * 64 * 64 * 32 // 4,
        triton="gated",
    ),
    "convolution (kh, kw), f16": on_tensor_cores(
        tensor_convolution, tensor_convolution_data, "convolution"
    ),
    "GEMM f16, B in bytes": on_tensor_cores(bytes_of_b, bytes_of_b_data, "bytes"),
}
