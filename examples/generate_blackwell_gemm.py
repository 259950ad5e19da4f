"""Writes a GEMM for Blackwell as a front end emits it before pipelining: tensor copies and tcgen05.

    python examples/generate_blackwell_gemm.py > gemm.mlir
    python examples/generate_blackwell_gemm.py --tile=256,128 --types=e4m3 --stages=4

C[M, N] = A[M, K] * B, where B is given as N x K (`--b=k`) or as K x N (`--b=n`). One thread copies the
tiles of an iteration (TMA) and issues their products, which add up in tensor memory; a commit says when
they are over. Nothing overlaps yet: `async_pipe.num_stages` asks for it, and `--roles=specialised` for warps of
their own. M and N must be multiples of the
tile; beyond K zeros are copied.

A box has 128 bytes of a row (or 64, or 32: `--swizzle`) and is swizzled so, and the k of a tile are such
a line: 64 elements of 16 bits. With `--b=n` the map of B has three dimensions (tensor_gemm.py). The kernel takes the tensor maps of A and B, and
C; four warps load what was added up.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Literal

from mlir_text import Writer
from tensor_gemm import TensorGemm
from tensor_tiles import (
    FULL,
    LINE_BYTES,
    SHARED,
    SWIZZLES,
    TYPES,
    Mbarrier,
    Tile,
    i32,
    tensor_maps,
)  # fmt: skip

WARP, THREADS = 32, 128
# Rows of a product.
MMA_M = 128
# Columns that a warp loads at once.
LOADED = 32
# The bit of a descriptor that is always set.
ALWAYS = 1 << 46
DONE = Mbarrier("done")

# Of each type: the kind of product, and its number in that kind.
KINDS = {
    "f16": ("f16", 0),
    "bf16": ("f16", 1),
    "tf32": ("tf32", 2),
    "e4m3": ("f8f6f4", 0),
    "e5m2": ("f8f6f4", 1),
}


@dataclass(frozen=True)
class BlackwellGemm(TensorGemm):
    """One kernel, whose tiles have a line of `swizzle` bytes of k."""

    swizzle: Literal[32, 64, 128] = LINE_BYTES
    roles: Literal["together", "specialised"] = "together"

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return THREADS

    @property
    def line(self) -> int:
        """Elements of a swizzled line: the k of a tile."""
        return self.swizzle // TYPES[self.types][1]

    @property
    def left(self) -> Tile:
        """The tile of A."""
        return Tile("A", self.types, self.tile_m, self.line, widest=self.swizzle)

    @property
    def right(self) -> Tile:
        """The tile of B."""
        return Tile("B", self.types, self.tile_n, self.line, self.b == "k", widest=self.swizzle)

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
        if self.b == "n" and (self.right.element_bytes != 2 or self.tile_n % self.line):
            return ["with n along the rows of B, elements have 16 bits, and n is a multiple of 64"]
        if self.stages < 1:
            return ["there is one stage at least"]
        return []

    def _annotation(self) -> str:
        roles = f', async_pipe.roles = "{self.roles}"' if self.roles != "together" else ""
        return super()._annotation() + roles

    def _more_memory(self) -> tuple[str, ...]:
        return (f"%place : memref<1xi32, {SHARED}>",)

    # -- the kernel ----------------------------------------------------------------------------

    def _body(self, w: Writer) -> None:
        tensor_maps(w, self.left, self.right)
        w.value("tid", "gpu.thread_id x")
        w.value("first", f"arith.cmpi eq, %tid, {w.constant(0)} : index")
        w.value("warp_0", f"arith.cmpi ult, %tid, {w.constant(WARP)} : index")
        w.value("false", "arith.constant false")
        w.value("true", "arith.constant true")
        FULL.create(w)
        DONE.create(w)
        w.line("nvvm.fence.mbarrier.init")
        self._allocate(w)
        self._tiles(w)
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

    def _tile(self, w: Writer, at_m: str, at_n: str, phase: str) -> str:
        """The k loop and the store of one tile of C."""
        header = (
            f"%total = scf.for %k32 = {i32(w, 0)} to %K step {i32(w, self.line)}\n"
            f"        iter_args(%phase = {phase}) -> (i1) : i32"
        )
        with w.block(header, f"}} {{{self._annotation()}}}"):
            w.value("k", "arith.index_cast %k32 : i32 to index")
            self._copies(w, at_m, at_n)
            FULL.wait(w, "%phase")
            self._products(w)
            DONE.wait(w, "%phase")
            w.line("gpu.barrier")
            flip = w.value("flip", "arith.xori %phase, %true : i1")
            w.line(f"scf.yield {flip} : i1")
        self._store(w, at_m, at_n)
        return "%total"

    # -- products ------------------------------------------------------------------------------

    def _products(self, w: Writer) -> None:
        """Four steps of 32 bytes of k for each part of 128 rows, and the commit, by one thread."""
        a, b = self.left.descriptor(w, ALWAYS), self.right.descriptor(w, ALWAYS)
        instruction = i32(w, self._instruction())
        later = w.value("later", f"arith.cmpi ne, %k32, {i32(w, 0)} : i32")
        with w.block("scf.if %first"):
            for step in range(self.left.steps):
                right = self.right.moved(w, b, step)
                for part in range(self.parts):
                    left = self.left.moved(w, a, step, part * MMA_M)
                    sums = self._sums(w, part)
                    w.line(
                        f"nvvm.tcgen05.mma {sums}, {left}, {right}, {instruction}, "
                        f"{'%true' if step else later} {{kind = #nvvm.tcgen05_mma_kind<"
                        f"{KINDS[self.types][0]}>, ctaGroup = #nvvm.cta_group<cta_1>}} : "
                        "(!llvm.ptr<6>, i64, i64, i32, i1)"
                    )
            at = w.value("done_at", f"nvgpu.mbarrier.get {DONE.at(w)} : {DONE.kind} -> i32")
            to = w.value("done_to", f"llvm.inttoptr {at} : i32 to !llvm.ptr<3>")
            w.line(f"nvvm.tcgen05.commit {to} : !llvm.ptr<3>")

    def _instruction(self) -> int:
        """Bits 4-5 sums of f32, 7-9 and 10-12 types, 16 lines of B along n, 17-22 N / 8, 24-28 M / 16."""
        number = KINDS[self.types][1]
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
        at = w.value("part_at", f"arith.addi %sums_at, {i32(w, part * self.tile_n)} : i32")
        return w.value("part", f"llvm.inttoptr {at} : i32 to !llvm.ptr<6>")

    # -- the result ----------------------------------------------------------------------------

    def _store(self, w: Writer, at_m: str, at_n: str) -> None:
        """Warp w loads its lanes 32 w … 32 w + 31, a row of C in each thread; zeros if K is 0. Then
        all are past their loads before anybody issues products, or gives the columns back."""
        w.line("nvvm.tcgen05.fence <after>")
        warp = w.value("warp_i", f"arith.index_cast {w.div('warp', '%tid', WARP)} : index to i32")
        lanes = w.value("lanes", f"arith.muli {warp}, {i32(w, WARP << 16)} : i32")
        w.value("own", f"arith.addi %sums_at, {lanes} : i32")
        row = w.add("row", at_m, "%tid")
        some = w.value("some", f"arith.cmpi sgt, %K, {i32(w, 0)} : i32")
        zeros = w.value("zeros", f"arith.constant dense<0.0> : vector<{LOADED}xf32>")
        kind = f"vector<{LOADED}xf32>"
        for part in range(self.parts):
            at_row = w.add("r", row, w.constant(part * MMA_M))
            for first in range(0, self.tile_n, LOADED):
                with w.block(f"%v_{part}_{first} = scf.if {some} -> ({kind})", "} else {"):
                    at = w.value(
                        "at", f"arith.addi %own, {i32(w, part * self.tile_n + first)} : i32"
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
                    f"vector.store %v_{part}_{first}, %C[{at_row}, {to}] {{alignment = 16 : i64}} : "
                    f"memref<?x?xf32>, {kind}"
                )
        w.line("nvvm.tcgen05.fence <before>")
        w.line("gpu.barrier")
        w.line("nvvm.tcgen05.fence <after>")


def main() -> None:
    """Print the kernel that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tile", default="128,128", help="M,N; k is a swizzled line")
    parser.add_argument("--types", choices=tuple(KINDS), default="f16")
    parser.add_argument("--b", choices=("k", "n"), default="k")
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--in-flight", type=int)
    parser.add_argument("--swizzle", type=int, choices=tuple(SWIZZLES), default=128)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument(
        "--roles",
        choices=("together", "specialised"),
        default="together",
        help="specialised: warps of their own copy and multiply",
    )
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
        roles=arguments.roles,
    )
    problems = made.problems()
    if problems:
        parser.error("; ".join(problems))
    print(made.module(), end="")


if __name__ == "__main__":
    main()
