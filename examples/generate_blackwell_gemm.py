"""Writes a GEMM for Blackwell as a front end emits it before pipelining: tensor copies and tcgen05.

    python examples/generate_blackwell_gemm.py > gemm.mlir
    python examples/generate_blackwell_gemm.py --tile=256,128 --types=e4m3 --stages=4

C[M, N] = A[M, K] * B, where B is given as N x K (`--b=k`) or as K x N (`--b=n`). One thread copies the
tiles of an iteration (TMA) and issues their products, which add up in tensor memory; a commit says when
they are over. Nothing overlaps yet: `async_pipe.num_stages` asks for it. M and N must be multiples of the
tile; beyond K zeros are copied.

A box has 128 bytes of a row (or 64, or 32: `--swizzle`) and is swizzled so, and the k of a tile are such
a line: 64 elements of 16 bits. With `--b=n` the map of B has three dimensions, lines of n, k, and the lines of a row: of an array
B[K, N] it is B.reshape(K, N // 64, 64).transpose(1, 0, 2). The kernel takes the tensor maps of A and B, and
C; four warps load what was added up.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Literal

from mlir_text import Writer

WARP, THREADS = 32, 128
# Rows of a product, bytes of k that it adds up, and lines that a swizzle permutes.
MMA_M, MMA_BYTES, LINES = 128, 32, 8
# Columns that a warp loads at once.
LOADED = 32
TICKS = 10_000_000
SHARED = "#gpu.address_space<workgroup>"
BARRIERS = f"!nvgpu.mbarrier.group<memorySpace = {SHARED}>"
# Bits of a descriptor: always set, and the swizzle.
ALWAYS, SWIZZLES = 1 << 46, {128: 1 << 62, 64: 2 << 62, 32: 3 << 62}

# Of each type: what memory holds, bytes, the kind of product, and its number in that kind.
TYPES = {
    "f16": ("f16", 2, "f16", 0),
    "bf16": ("bf16", 2, "f16", 1),
    "tf32": ("f32", 4, "tf32", 2),
    "e4m3": ("f8E4M3FN", 1, "f8f6f4", 0),
    "e5m2": ("f8E5M2", 1, "f8f6f4", 1),
}


@dataclass(frozen=True)
class BlackwellGemm:
    """One kernel: sizes in elements. `b` says what runs along the rows of B in global memory."""

    name: str = "gemm"
    tile_m: int = 128
    tile_n: int = 128
    types: Literal["f16", "bf16", "tf32", "e4m3", "e5m2"] = "f16"
    b: Literal["k", "n"] = "k"
    stages: int = 3
    in_flight: int | None = None
    persistent: bool = False
    swizzle: Literal[32, 64, 128] = 128

    @property
    def stored(self) -> str:
        """The element type of A and B in memory."""
        return TYPES[self.types][0]

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return TYPES[self.types][1]

    @property
    def line(self) -> int:
        """Elements of a swizzled line: the k of a tile."""
        return self.swizzle // self.item_bytes

    @property
    def parts(self) -> int:
        """Accumulators of 128 rows."""
        return self.tile_m // MMA_M

    @property
    def columns(self) -> int:
        """Columns of tensor memory that hold them: a power of two."""
        return 1 << max(5, (self.parts * self.tile_n - 1).bit_length())

    def problems(self) -> list[str]:
        """Why this kernel cannot be made, [] if it can."""
        if self.tile_m not in (MMA_M, 2 * MMA_M):
            return ["a tile has 128 or 256 rows"]
        if self.tile_n % LOADED or not 0 < self.tile_n <= 256:
            return ["the columns of the tile are a multiple of 32, at most 256"]
        if self.b == "n" and (self.item_bytes != 2 or self.tile_n % self.line):
            return ["with n along the rows of B, elements have 16 bits, and n is a multiple of 64"]
        if self.stages < 1:
            return ["there is one stage at least"]
        return []

    def module(self) -> str:
        """The whole module as text."""
        w = Writer(indent=2)
        self._body(w)
        head = (
            f"  gpu.func @{self.name}(%A_map : !llvm.ptr, %B_map : !llvm.ptr, "
            "%C : memref<?x?xf32> {llvm.noalias}, %K : i32)\n"
            f"      workgroup(%A_shared : {self._buffer(self._a_box())}, "
            f"%B_shared : {self._buffer(self._b_box())}, %place : memref<1xi32, {SHARED}>)\n"
            f"      kernel attributes {{known_block_size = array<i32: {THREADS}, 1, 1>}} {{\n"
        )
        return (
            "module attributes {gpu.container_module} {\ngpu.module @kernels {\n"
            f"{head}{w.text()}\n  }}\n}}\n}}\n"
        )

    # -- shared memory and tensor maps ---------------------------------------------------------

    def _buffer(self, shape: str) -> str:
        return f"memref<{shape}x{self.stored}, {SHARED}>"

    def _a_box(self) -> str:
        return f"{self.tile_m}x{self.line}"

    def _b_box(self) -> str:
        """All n with k along the lines, or lines of n, for all k of the tile, one after the other."""
        if self.b == "k":
            return f"{self.tile_n}x{self.line}"
        return f"{self.tile_n // self.line}x{self.line}x{self.line}"

    def _map(self, box: str) -> str:
        return (
            f"!nvgpu.tensormap.descriptor<tensor = memref<{box}x{self.stored}, 3>, "
            f"swizzle = swizzle_{self.swizzle}b, l2promo = l2promo_128b, oob = zero, interleave = none>"
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
        w.value("warp_0", f"arith.cmpi ult, %tid, {w.constant(WARP)} : index")
        w.value("false", "arith.constant false")
        w.value("true", "arith.constant true")
        for name in ("full", "done"):
            w.value(name, f"nvgpu.mbarrier.create -> {BARRIERS}")
            w.line(f"nvgpu.mbarrier.init %{name}[{zero}], {one}, predicate = %first : {BARRIERS}")
        w.line("nvvm.fence.mbarrier.init")
        self._allocate(w)
        if not self.persistent:
            at_m = w.mul("m", w.value("block_m", "gpu.block_id y"), self.tile_m)
            at_n = w.mul("n", w.value("block_n", "gpu.block_id x"), self.tile_n)
            self._tile(w, at_m, at_n, "%false")
        else:
            self._tiles_of_block(w)
        with w.block("scf.if %warp_0"):
            w.line("nvvm.tcgen05.dealloc %sums, %columns : !llvm.ptr<6>, i32")
        w.line("gpu.return")

    def _allocate(self, w: Writer) -> None:
        """One warp takes columns of tensor memory, and says to all where they begin."""
        kind = f"memref<1xi32, {SHARED}>"
        w.value("columns", f"arith.constant {self.columns} : i32")
        with w.block("scf.if %warp_0"):
            at = w.value("at", f"memref.extract_aligned_pointer_as_index %place : {kind} -> index")
            at = w.value("at_i", f"arith.index_cast {at} : index to i32")
            to = w.value("to", f"llvm.inttoptr {at} : i32 to !llvm.ptr<3>")
            w.line(f"nvvm.tcgen05.alloc {to}, %columns : !llvm.ptr<3>, i32")
            w.line("nvvm.tcgen05.relinquish_alloc_permit")
        w.line("gpu.barrier")
        w.value("sums_at", f"memref.load %place[{w.constant(0)}] : {kind}")
        w.value("sums", "llvm.inttoptr %sums_at : i32 to !llvm.ptr<6>")

    def _tiles_of_block(self, w: Writer) -> None:
        """As many blocks as there are take tile after tile, row by row of C."""
        kind = "memref<?x?xf32>"
        m_size = w.value("M", f"memref.dim %C, {w.constant(0)} : {kind}")
        n_size = w.value("N", f"memref.dim %C, {w.constant(1)} : {kind}")
        rows, columns = w.div("rows", m_size, self.tile_m), w.div("tiles_n", n_size, self.tile_n)
        tiles = w.value("tiles", f"arith.muli {rows}, {columns} : index")
        block = w.value("block", "gpu.block_id x")
        blocks = w.value("blocks", "gpu.grid_dim x")
        header = f"%last = scf.for %tile = {block} to {tiles} step {blocks} iter_args(%start = %false) -> (i1)"
        with w.block(header):
            row = w.value("tile_row", f"arith.divui %tile, {columns} : index")
            column = w.value("tile_column", f"arith.remui %tile, {columns} : index")
            self._tile(w, w.mul("m", row, self.tile_m), w.mul("n", column, self.tile_n), "%start")
            w.line("scf.yield %total : i1")

    def _tile(self, w: Writer, at_m: str, at_n: str, phase: str) -> None:
        """The k loop and the store of one tile of C."""
        zero, ticks = w.constant(0), w.constant(TICKS)
        header = (
            f"%total = scf.for %k32 = {self._i32(w, 0)} to %K step {self._i32(w, self.line)}\n"
            f"        iter_args(%phase = {phase}) -> (i1) : i32"
        )
        with w.block(header, f"}} {{{self._annotation()}}}"):
            w.value("k", "arith.index_cast %k32 : i32 to index")
            self._copies(w, at_m, at_n)
            w.line(f"nvgpu.mbarrier.try_wait.parity %full[{zero}], %phase, {ticks} : {BARRIERS}")
            self._products(w)
            w.line(f"nvgpu.mbarrier.try_wait.parity %done[{zero}], %phase, {ticks} : {BARRIERS}")
            w.line("gpu.barrier")
            flip = w.value("flip", "arith.xori %phase, %true : i1")
            w.line(f"scf.yield {flip} : i1")
        self._store(w, at_m, at_n)

    def _annotation(self) -> str:
        notes = [f"async_pipe.num_stages = {self.stages} : i64"]
        if self.in_flight is not None:
            notes.append(f"async_pipe.in_flight = {self.in_flight} : i64")
        return ", ".join(notes)

    def _copies(self, w: Writer, at_m: str, at_n: str) -> None:
        zero = w.constant(0)
        size = (self.tile_m + self.tile_n) * self.swizzle
        w.line(
            f"nvgpu.mbarrier.arrive.expect_tx %full[{zero}], {w.constant(size)}, "
            f"predicate = %first : {BARRIERS}"
        )
        self._copy(w, "A", ("%k", at_m), self._a_box())
        at = ("%k", at_n)
        if self.b == "n":
            at = (zero, "%k", w.div("n_lines", at_n, self.line))
        self._copy(w, "B", at, self._b_box())

    def _copy(self, w: Writer, name: str, at: tuple[str, ...], box: str) -> None:
        w.line(
            f"nvgpu.tma.async.load %{name}[{', '.join(at)}], %full[{w.constant(0)}] to "
            f"%{name}_shared, predicate = %first : {self._map(box)}, {BARRIERS} -> "
            f"{self._buffer(box)}"
        )

    # -- products ------------------------------------------------------------------------------

    def _products(self, w: Writer) -> None:
        """Four steps of 32 bytes of k for each part of 128 rows, and the commit, by one thread."""
        a = self._descriptor(w, "A", self._buffer(self._a_box()), 16)
        panel = self.line * self.swizzle if self.b == "n" else 16
        b = self._descriptor(w, "B", self._buffer(self._b_box()), panel)
        # Along a line the next k are 32 bytes on; across lines 16 lines.
        b_step = MMA_BYTES if self.b == "k" else MMA_BYTES // self.item_bytes * self.swizzle
        instruction = self._i32(w, self._instruction())
        later = w.value("later", f"arith.cmpi ne, %k32, {self._i32(w, 0)} : i32")
        with w.block("scf.if %first"):
            for step in range(self.swizzle // MMA_BYTES):
                right = self._moved(w, "b_step", b, step * b_step)
                for part in range(self.parts):
                    offset = part * MMA_M * self.swizzle + step * MMA_BYTES
                    left = self._moved(w, "a_step", a, offset)
                    sums = self._sums(w, part)
                    w.line(
                        f"nvvm.tcgen05.mma {sums}, {left}, {right}, {instruction}, "
                        f"{'%true' if step else later} {{kind = #nvvm.tcgen05_mma_kind<"
                        f"{TYPES[self.types][2]}>, ctaGroup = #nvvm.cta_group<cta_1>}} : "
                        "(!llvm.ptr<6>, i64, i64, i32, i1)"
                    )
            at = w.value(
                "done_at", f"nvgpu.mbarrier.get %done[{w.constant(0)}] : {BARRIERS} -> i32"
            )
            to = w.value("done_to", f"llvm.inttoptr {at} : i32 to !llvm.ptr<3>")
            w.line(f"nvvm.tcgen05.commit {to} : !llvm.ptr<3>")

    def _instruction(self) -> int:
        """Bits 4-5 sums of f32, 7-9 and 10-12 types, 16 lines of B along n, 17-22 N / 8, 24-28 M / 16."""
        number = TYPES[self.types][3]
        return (
            1 << 4
            | number << 7
            | number << 10
            | (self.b == "n") << 16
            | self.tile_n // 8 << 17
            | MMA_M // 16 << 24
        )

    def _sums(self, w: Writer, part: int) -> str:
        if part == 0:
            return "%sums"
        at = w.value("part_at", f"arith.addi %sums_at, {self._i32(w, part * self.tile_n)} : i32")
        return w.value("part", f"llvm.inttoptr {at} : i32 to !llvm.ptr<6>")

    def _descriptor(self, w: Writer, name: str, kind: str, leading: int) -> str:
        """Bits 0 to 13 the address, 16 to 29 the leading offset, 32 to 45 the stride, all in units
        of 16 bytes; bit 46 is always set, bits 62 and 63 say how many bytes are swizzled."""
        bits = (
            leading // 16 << 16 | LINES * self.swizzle // 16 << 32 | ALWAYS | SWIZZLES[self.swizzle]
        )
        low = name.lower()
        pointer = w.value(
            f"{low}_pointer",
            f"memref.extract_aligned_pointer_as_index %{name}_shared : {kind} -> index",
        )
        address = w.value(f"{low}_address", f"arith.index_cast {pointer} : index to i32")
        shifted = w.value(f"{low}_shifted", f"arith.shrui {address}, {self._i32(w, 4)} : i32")
        place = w.value(f"{low}_place", f"arith.andi {shifted}, {self._i32(w, 0x3FFF)} : i32")
        wide = w.value(f"{low}_wide", f"arith.extui {place} : i32 to i64")
        return w.value(f"{low}_tile", f"arith.ori {wide}, {self._i64(w, bits)} : i64")

    def _moved(self, w: Writer, name: str, descriptor: str, size: int) -> str:
        if size == 0:
            return descriptor
        return w.value(name, f"arith.addi {descriptor}, {self._i64(w, size // 16)} : i64")

    def _i32(self, w: Writer, number: int) -> str:
        return w.value("i32", f"arith.constant {number} : i32")

    def _i64(self, w: Writer, number: int) -> str:
        number -= (number >> 63) << 64
        return w.value("i64", f"arith.constant {number} : i64")

    # -- the result ----------------------------------------------------------------------------

    def _store(self, w: Writer, at_m: str, at_n: str) -> None:
        """Warp w loads its lanes 32 w … 32 w + 31, a row of C in each thread; zeros if K is 0. Then
        all are past their loads before anybody issues products, or gives the columns back."""
        w.line("nvvm.tcgen05.fence <after>")
        warp = w.value("warp_i", f"arith.index_cast {w.div('warp', '%tid', WARP)} : index to i32")
        lanes = w.value("lanes", f"arith.muli {warp}, {self._i32(w, WARP << 16)} : i32")
        w.value("own", f"arith.addi %sums_at, {lanes} : i32")
        row = w.add("row", at_m, "%tid")
        some = w.value("some", f"arith.cmpi sgt, %K, {self._i32(w, 0)} : i32")
        zeros = w.value("zeros", f"arith.constant dense<0.0> : vector<{LOADED}xf32>")
        kind = f"vector<{LOADED}xf32>"
        for part in range(self.parts):
            at_row = w.add("r", row, w.constant(part * MMA_M))
            for first in range(0, self.tile_n, LOADED):
                with w.block(f"%v_{part}_{first} = scf.if {some} -> ({kind})", "} else {"):
                    at = w.value(
                        "at",
                        f"arith.addi %own, {self._i32(w, part * self.tile_n + first)} : i32",
                    )
                    at = w.value("from", f"llvm.inttoptr {at} : i32 to !llvm.ptr<6>")
                    bits = w.value(
                        "bits",
                        f"nvvm.tcgen05.ld {at} {{shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>}} "
                        f": vector<{LOADED}xi32>",
                    )
                    w.line("nvvm.tcgen05.wait <load>")
                    value = w.value("x", f"vector.bitcast {bits} : vector<{LOADED}xi32> to {kind}")
                    w.line(f"scf.yield {value} : {kind}")
                w.line(f"  scf.yield {zeros} : {kind}")
                w.line("}")
                to = w.add("c", at_n, w.constant(first))
                w.line(
                    f"vector.store %v_{part}_{first}, %C[{at_row}, {to}] : memref<?x?xf32>, {kind}"
                )
        w.line("nvvm.tcgen05.fence <before>")
        w.line("gpu.barrier")
        w.line("nvvm.tcgen05.fence <after>")


def main() -> None:
    """Print the kernel that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tile", default="128,128", help="M,N; k is a swizzled line")
    parser.add_argument("--types", choices=tuple(TYPES), default="f16")
    parser.add_argument("--b", choices=("k", "n"), default="k")
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--in-flight", type=int)
    parser.add_argument("--swizzle", type=int, choices=tuple(SWIZZLES), default=128)
    parser.add_argument("--persistent", action="store_true")
    arguments = parser.parse_args()
    m, n = map(int, arguments.tile.split(","))
    made = BlackwellGemm(
        tile_m=m,
        tile_n=n,
        types=arguments.types,
        b=arguments.b,
        stages=arguments.stages,
        in_flight=arguments.in_flight,
        persistent=arguments.persistent,
        swizzle=arguments.swizzle,
    )
    problems = made.problems()
    if problems:
        parser.error("; ".join(problems))
    print(made.module(), end="")


if __name__ == "__main__":
    main()
