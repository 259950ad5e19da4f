"""Writes a GEMM for Hopper as a front end emits it before pipelining: tensor copies and wgmma.

    python examples/generate_hopper_gemm.py > gemm.mlir
    python examples/generate_hopper_gemm.py --tile=128,256,64 --types=bf16 --b=n --persistent

C[M, N] = A[M, K] * B, where B is given as N x K (`--b=k`: k along its rows, as weights lie) or as
K x N (`--b=n`). One thread copies the tiles of an iteration (TMA), whose bytes an mbarrier counts; each
warpgroup of 128 threads multiplies its rows by `wgmma` from shared memory. Nothing overlaps yet:
`async_pipe.num_stages` asks for it. M and N must be multiples of the tile; beyond K zeros are copied.

The kernel takes the tensor maps of A and B, and C. A box has 128 bytes of a row, which is 64 elements
of k or n, and is swizzled so (docs/hopper.md). With `--b=n` the map of B has three dimensions, lines of 64
n, k, and the lines of a row, so that one copy brings all of a tile: of an array B[K, N] it is
B.reshape(K, N // 64, 64).transpose(1, 0, 2).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Literal

from mlir_text import Writer

WARPGROUP = 128
# Rows and k of one wgmma, and elements of a swizzled line of 128 bytes.
MMA_M, MMA_K, LINE = 64, 16, 64
LINE_BYTES, LINES = 128, 8
TICKS = 10_000_000
SHARED = "#gpu.address_space<workgroup>"
BARRIERS = f"!nvgpu.mbarrier.group<memorySpace = {SHARED}>"


@dataclass(frozen=True)
class HopperGemm:
    """One kernel: sizes in elements. `b` says what runs along the rows of B in global memory."""

    name: str = "gemm"
    tile_m: int = 128
    tile_n: int = 128
    types: Literal["f16", "bf16"] = "f16"
    b: Literal["k", "n"] = "k"
    stages: int = 3
    in_flight: int | None = None
    warpgroups: int = 1
    persistent: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.warpgroups * WARPGROUP

    @property
    def sums(self) -> str:
        """What a thread holds of the 64 x tile_n elements that its warpgroup adds up."""
        return f"!llvm.struct<({', '.join(['f32'] * (self.tile_n // 2))})>"

    @property
    def parts(self) -> int:
        """Parts of 64 rows that a warpgroup multiplies."""
        return self.tile_m // MMA_M // self.warpgroups

    def problems(self) -> list[str]:
        """Why this kernel cannot be made, [] if it can."""
        if self.tile_m % (MMA_M * self.warpgroups) or self.tile_m > 256:
            return ["each warpgroup takes a multiple of 64 rows, of 256 in all"]
        if self.tile_n % LINE or not 0 < self.tile_n <= 256:
            return ["the columns of the tile are a multiple of 64, at most 256"]
        if self.stages < 1:
            return ["there is one stage at least"]
        return []

    def module(self) -> str:
        """The whole module as text."""
        w = Writer(indent=2)
        self._body(w)
        a, b = self._buffer(self._a_box()), self._b_buffer()
        head = (
            f"  gpu.func @{self.name}(%A_map : !llvm.ptr, %B_map : !llvm.ptr, "
            "%C : memref<?x?xf32> {llvm.noalias}, %K : i32)\n"
            f"      workgroup(%A_shared : {a}, %B_shared : {b})\n"
            f"      kernel attributes {{known_block_size = array<i32: {self.threads}, 1, 1>}} {{\n"
        )
        return (
            "module attributes {gpu.container_module} {\ngpu.module @kernels {\n"
            f"{head}{w.text()}\n  }}\n}}\n}}\n"
        )

    # -- shared memory and tensor maps ---------------------------------------------------------

    def _buffer(self, shape: str) -> str:
        return f"memref<{shape}x{self.types}, {SHARED}>"

    def _a_box(self) -> str:
        return f"{self.tile_m}x{LINE}"

    def _b_box(self) -> str:
        """All n with k along the lines, or lines of 64 n, for all k of the tile, one after the other."""
        return f"{self.tile_n}x{LINE}" if self.b == "k" else f"{self.tile_n // LINE}x{LINE}x{LINE}"

    def _b_buffer(self) -> str:
        return self._buffer(self._b_box())

    def _map(self, box: str) -> str:
        return (
            f"!nvgpu.tensormap.descriptor<tensor = memref<{box}x{self.types}, 3>, "
            "swizzle = swizzle_128b, l2promo = l2promo_128b, oob = zero, interleave = none>"
        )

    # -- the kernel ----------------------------------------------------------------------------

    def _body(self, w: Writer) -> None:
        zero, one = w.constant(0), w.constant(1)
        for name, box in (("A", self._a_box()), ("B", self._b_box())):
            w.line(
                f"%{name} = builtin.unrealized_conversion_cast %{name}_map : !llvm.ptr to "
                f"{self._map(box)}"
            )
        w.value("tid", "gpu.thread_id x")
        w.value("first", f"arith.cmpi eq, %tid, {zero} : index")
        w.value("false", "arith.constant false")
        w.value("true", "arith.constant true")
        w.value("full", f"nvgpu.mbarrier.create -> {BARRIERS}")
        w.line(f"nvgpu.mbarrier.init %full[{zero}], {one}, predicate = %first : {BARRIERS}")
        w.line("gpu.barrier")
        w.value("none", f"llvm.mlir.zero : {self.sums}")
        if not self.persistent:
            at_m = w.mul("m", w.value("block_m", "gpu.block_id y"), self.tile_m)
            at_n = w.mul("n", w.value("block_n", "gpu.block_id x"), self.tile_n)
            self._tile(w, at_m, at_n, "%false")
        else:
            self._tiles_of_block(w)
        w.line("gpu.return")

    def _tiles_of_block(self, w: Writer) -> None:
        """As many blocks as there are take tile after tile, row by row of C."""
        kind = "memref<?x?xf32>"
        m_size = w.value("M", f"memref.dim %C, {w.constant(0)} : {kind}")
        n_size = w.value("N", f"memref.dim %C, {w.constant(1)} : {kind}")
        rows, columns = w.div("rows", m_size, self.tile_m), w.div("columns", n_size, self.tile_n)
        tiles = w.value("tiles", f"arith.muli {rows}, {columns} : index")
        block = w.value("block", "gpu.block_id x")
        blocks = w.value("blocks", "gpu.grid_dim x")
        header = f"%last = scf.for %tile = {block} to {tiles} step {blocks} iter_args(%start = %false) -> (i1)"
        with w.block(header):
            row = w.value("tile_row", f"arith.divui %tile, {columns} : index")
            column = w.value("tile_column", f"arith.remui %tile, {columns} : index")
            self._tile(w, w.mul("m", row, self.tile_m), w.mul("n", column, self.tile_n), "%start")
            w.line(f"scf.yield %total#{self.parts} : i1")

    def _tile(self, w: Writer, at_m: str, at_n: str, phase: str) -> None:
        """The k loop and the store of one tile of C."""
        names = [f"%sum_{part}" for part in range(self.parts)]
        carried = ", ".join([*(f"{name} = %none" for name in names), f"%phase = {phase}"])
        types = ", ".join([*[self.sums] * self.parts, "i1"])
        header = (
            f"%total:{self.parts + 1} = scf.for %k32 = {self._i32(w, 0)} to %K step "
            f"{self._i32(w, LINE)}\n        iter_args({carried}) -> ({types}) : i32"
        )
        with w.block(header, f"}} {{{self._annotation()}}}"):
            w.value("k", "arith.index_cast %k32 : i32 to index")
            self._copies(w, at_m, at_n)
            w.line(
                f"nvgpu.mbarrier.try_wait.parity %full[{w.constant(0)}], %phase, "
                f"{w.constant(TICKS)} : {BARRIERS}"
            )
            sums = self._products(w, names)
            w.line("gpu.barrier")
            flip = w.value("flip", "arith.xori %phase, %true : i1")
            w.line(f"scf.yield {', '.join([*sums, flip])} : {types}")
        self._store(w, at_m, at_n)

    def _annotation(self) -> str:
        notes = [f"async_pipe.num_stages = {self.stages} : i64"]
        if self.in_flight is not None:
            notes.append(f"async_pipe.in_flight = {self.in_flight} : i64")
        return ", ".join(notes)

    def _copies(self, w: Writer, at_m: str, at_n: str) -> None:
        zero = w.constant(0)
        size = (self.tile_m + self.tile_n) * LINE * 2
        w.line(
            f"nvgpu.mbarrier.arrive.expect_tx %full[{zero}], {w.constant(size)}, "
            f"predicate = %first : {BARRIERS}"
        )
        self._copy(w, "A", ("%k", at_m), "%A_shared", self._buffer(self._a_box()), self._a_box())
        at = ("%k", at_n)
        if self.b == "n":
            at = (zero, "%k", w.div("n_lines", at_n, LINE))
        self._copy(w, "B", at, "%B_shared", self._b_buffer(), self._b_box())

    def _copy(
        self, w: Writer, name: str, at: tuple[str, ...], to: str, kind: str, box: str
    ) -> None:
        w.line(
            f"nvgpu.tma.async.load %{name}[{', '.join(at)}], %full[{w.constant(0)}] to {to}, "
            f"predicate = %first : {self._map(box)}, {BARRIERS} -> {kind}"
        )

    # -- products ------------------------------------------------------------------------------

    def _products(self, w: Writer, sums: list[str]) -> list[str]:
        """Four steps of 16 k for each part of 64 rows, in one group; returns the new sums."""
        a = self._descriptor(w, "A", self._buffer(self._a_box()), leading=16)
        b_boxes = LINE * LINE_BYTES if self.b == "n" else 16
        b = self._descriptor(w, "B", self._b_buffer(), leading=b_boxes)
        if self.warpgroups > 1:
            group = w.value("group_i", f"arith.index_cast {self._group(w)} : index to i64")
            rows = self._i64(w, self.parts * MMA_M * LINE_BYTES // 16)
            a = w.value(
                "a_group",
                f"arith.addi {a}, {w.value('rows', f'arith.muli {group}, {rows} : i64')} : i64",
            )
        # Along a line 16 k are 32 bytes; across lines 16 lines.
        b_step = MMA_K * 2 if self.b == "k" else MMA_K * LINE_BYTES
        w.line("nvvm.wgmma.fence.aligned")
        found = list(sums)
        for step in range(LINE // MMA_K):
            right = self._moved(w, "b_step", b, step * b_step)
            for part in range(self.parts):
                offset = part * MMA_M * LINE_BYTES + step * MMA_K * 2
                left = self._moved(w, "a_step", a, offset)
                found[part] = w.value("product", self._mma(left, right, found[part]))
        w.line("nvvm.wgmma.commit.group.sync.aligned")
        w.line("nvvm.wgmma.wait.group.sync.aligned 0")
        return found

    def _mma(self, left: str, right: str, sums: str) -> str:
        layout = "col" if self.b == "k" else "row"
        return (
            f"nvvm.wgmma.mma_async {left}, {right}, {sums}, <m = {MMA_M}, n = {self.tile_n}, "
            f"k = {MMA_K}>, D[<f32>, <one>], "
            f"A[<{self.types}>, <one>, <row>], "
            f"B[<{self.types}>, <one>, <{layout}>] : "
            f"{self.sums} -> {self.sums}"
        )

    def _descriptor(self, w: Writer, name: str, kind: str, leading: int) -> str:
        """Bits 0 to 13 the address, 16 to 29 the leading offset, 32 to 45 the stride, all in units
        of 16 bytes; bit 62 says that 128 bytes are swizzled."""
        stride = LINES * LINE_BYTES
        bits = leading // 16 << 16 | stride // 16 << 32 | 1 << 62
        low = name.lower()
        pointer = w.value(
            f"{low}_pointer",
            f"memref.extract_aligned_pointer_as_index %{name}_shared : {kind} -> index",
        )
        address = w.value(f"{low}_address", f"arith.index_cast {pointer} : index to i32")
        four, mask = self._i32(w, 4), self._i32(w, 0x3FFF)
        shifted = w.value(f"{low}_shifted", f"arith.shrui {address}, {four} : i32")
        place = w.value(f"{low}_place", f"arith.andi {shifted}, {mask} : i32")
        wide = w.value(f"{low}_wide", f"arith.extui {place} : i32 to i64")
        return w.value(f"{low}_tile", f"arith.ori {wide}, {self._i64(w, bits)} : i64")

    def _moved(self, w: Writer, name: str, descriptor: str, size: int) -> str:
        if size == 0:
            return descriptor
        return w.value(name, f"arith.addi {descriptor}, {self._i64(w, size // 16)} : i64")

    def _i32(self, w: Writer, number: int) -> str:
        return w.value("i32", f"arith.constant {number} : i32")

    def _i64(self, w: Writer, number: int) -> str:
        return w.value("i64", f"arith.constant {number} : i64")

    def _group(self, w: Writer) -> str:
        return w.div("group", "%tid", WARPGROUP)

    # -- the result ----------------------------------------------------------------------------

    def _store(self, w: Writer, at_m: str, at_n: str) -> None:
        """Register 4 j + 2 h + c of a thread is row 16 * warp + lane / 4 + 8 h, column
        8 j + 2 (lane % 4) + c of its part (PTX ISA, wgmma: matrix D)."""
        lane = w.rem("lane", "%tid", 32)
        warp = w.div("warp", w.rem("in_group", "%tid", WARPGROUP), 32)
        row = w.add("row", w.mul("warp_row", warp, 16), w.div("lane_row", lane, 4))
        row = w.add("row_m", row, at_m)
        if self.warpgroups > 1:
            row = w.add("row_g", row, w.mul("group_m", self._group(w), self.parts * MMA_M))
        column = w.add("column", at_n, w.mul("pair", w.rem("quad", lane, 4), 2))
        kind = "memref<?x?xf32>"
        for part in range(self.parts):
            for half in range(2):
                at = w.add("r", row, w.constant(part * MMA_M + half * 8))
                for j in range(self.tile_n // 8):
                    pair = [
                        w.value(
                            "x",
                            f"llvm.extractvalue %total#{part}[{4 * j + 2 * half + c}] : {self.sums}",
                        )
                        for c in range(2)
                    ]
                    both = w.value("v", f"vector.from_elements {', '.join(pair)} : vector<2xf32>")
                    to = w.add("c", column, w.constant(8 * j))
                    w.line(f"vector.store {both}, %C[{at}, {to}] : {kind}, vector<2xf32>")


def main() -> None:
    """Print the kernel that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tile", default="128,128,64", help="M,N,K; K is 64")
    parser.add_argument("--types", choices=("f16", "bf16"), default="f16")
    parser.add_argument("--b", choices=("k", "n"), default="k")
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--in-flight", type=int)
    parser.add_argument("--warpgroups", type=int, default=1)
    parser.add_argument("--persistent", action="store_true")
    arguments = parser.parse_args()
    m, n, k = map(int, arguments.tile.split(","))
    made = HopperGemm(
        tile_m=m,
        tile_n=n,
        types=arguments.types,
        b=arguments.b,
        stages=arguments.stages,
        in_flight=arguments.in_flight,
        warpgroups=arguments.warpgroups,
        persistent=arguments.persistent,
    )
    problems = made.problems() + ([] if k == LINE else ["the k of a tile is 64"])
    if problems:
        parser.error("; ".join(problems))
    print(made.module(), end="")


if __name__ == "__main__":
    main()
