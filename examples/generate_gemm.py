"""Writes a tiled GEMM as a front end emits it before pipelining.

    python examples/generate_gemm.py > examples/gemm.mlir
    python examples/generate_gemm.py --types=bf16 --tile-k=64 --stages=4 --edges

C[M, N] = A[M, K] * B[N, K]^T with dynamic M, N, K: B holds one row a column of C, as weights
do, so that k runs along the rows of both operands. One block of 2 x 2 warps makes one tile of
C. Each iteration of the k loop copies one tile of A and one of B into one buffer each, waits
for them, and multiplies; nothing overlaps yet, and `async_pipe.num_stages` asks for it.

Rows of A and B must begin at multiples of 16 bytes. Without --edges M, N and K must be
multiples of the tile; with it M and N are free, and K a multiple of 16 bytes.

`Tiles` is what differs between vendors: `nvidia_tiles.NvidiaTiles` and `amd_tiles.AmdTiles`.
The loop, its copies, groups, waits and barriers are the same for both:

    python examples/generate_gemm.py --chip=gfx950 --stages=3

With --weights=i8 the loop dequantises: B is copied as integers of 8 bits, a lane turns what it reads of them
into f16, and what a column is scaled by is left to whoever reads C.

With --residual C is max(A B^T + bias, 0) + R, in f16; `async` asks for bias and R to be copied while the last products run.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from amd_matrix_chips import MATRIX_CHIPS
from amd_tiles import AmdTiles
from dequant_tiles import AmdDequantTiles, NvidiaDequantTiles
from mlir_text import Writer
from nvidia_tiles import TYPES, ElementTypes, NvidiaTiles

# Statements: copies of A, copies of B, and prologue, kernel and epilogue of the inner loop.
# Shared memory four deep, and the first fragments of the next tile before this one's last use.
NESTED_OUTER = (
    "async_pipe.stage = array<i64: 0, 0, 2, 3, 3>, "
    "async_pipe.order = array<i64: 0, 1, 3, 2, 4>, async_pipe.async_stages = array<i64: 0>"
)
# Statements: fragments of A, fragments of B, products. Registers two deep.
NESTED_INNER = "async_pipe.stage = array<i64: 0, 0, 1>, async_pipe.order = array<i64: 0, 1, 2>"

Placed = tuple[str, str]
"""A value and its type, or a row and a column."""


class Tiles(Protocol):
    """How one vendor copies tiles to shared memory, multiplies and stores them."""

    @property
    def lanes(self) -> int:
        """Threads of a warp or wave."""

    @property
    def accumulator_type(self) -> str:
        """What one thread holds of one accumulator tile."""

    @property
    def accumulator_zero(self) -> str:
        """The attribute of a zero accumulator."""

    @property
    def accumulators(self) -> int:
        """Accumulator tiles of a warp."""

    def problems(self, rows: tuple[int, int]) -> list[str]:
        """Why tiles of these rows (of A, of B) cannot be made, [] if they can."""

    def copy_tile(
        self,
        w: Writer,
        shared: Placed,
        source: Placed,
        rows: int,
        at: Placed,
        bounds: Placed | None,
    ) -> list[str]:
        """Issue this thread's copies of one tile; zeros beyond `bounds`. Returns tokens."""

    def group_and_wait(self, w: Writer, groups: list[list[str]]) -> None:
        """Commit each list of copies as a group, and wait for all of them."""

    def multiply(
        self, w: Writer, a: Placed, b: Placed, warp: Placed, accumulators: list[str]
    ) -> list[str]:
        """Add the product of the two tiles in shared memory to the accumulators."""

    def store(
        self, w: Writer, result: Placed, at: Placed, accumulators: list[str], bounds: Placed | None
    ) -> None:
        """Write the accumulators to C, nothing beyond `bounds`."""


@dataclass(frozen=True)
class Gemm:
    """One GEMM kernel: sizes in elements, `warps` as rows and columns of warps in a block."""

    name: str = "gemm"
    tile_m: int = 128
    tile_n: int = 128
    tile_k: int = 32
    warps: tuple[int, int] = (2, 2)
    types: ElementTypes = TYPES["f16"]
    stages: int = 3
    edges: bool = False
    shared: Literal["attribution", "global", "alloc"] = "attribution"
    groups: Literal["one", "operand"] = "one"
    chip: str = ""
    nested: bool = False
    persistent: bool = False
    staging: Literal["async", "registers"] = "async"
    roles: Literal["", "ping-pong"] = ""
    weights: Literal["", "i8"] = ""
    residual: Literal["", "direct", "async"] = ""

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.warps[0] * self.warps[1] * self.tiles.lanes

    @property
    def tiles(self) -> Tiles:
        """The tile operations of the vendor that this kernel is for."""
        rows, columns = self.warps
        warp = (self.tile_m // rows, self.tile_n // columns)
        matrix_chip = MATRIX_CHIPS.get(self.chip)
        if matrix_chip is not None:
            threads = rows * columns * matrix_chip.lanes
            amd = AmdDequantTiles if self.weights else AmdTiles
            return amd(matrix_chip, self.types, self.tile_k, threads, *warp, self.staging)
        nvidia = NvidiaDequantTiles if self.weights else NvidiaTiles
        return nvidia(self.types, self.tile_k, rows * columns * 32, *warp, bool(self.residual))

    def problems(self) -> list[str]:
        """Why this kernel cannot be made, [] if it can."""
        if min(self.tile_m, self.tile_n, self.tile_k, self.stages, *self.warps) < 1:
            return ["tile sizes, warps and stages must be at least 1"]
        if self.tile_m % self.warps[0] or self.tile_n % self.warps[1]:
            return ["the warps must divide the tile"]
        if self.nested and self.chip:
            return ["the nested pipeline is written for NVIDIA tensor cores"]
        if self.staging == "registers" and (self.edges or not self.chip):
            return ["copies through registers are written for AMD chips and whole tiles"]
        if self.roles and (not self.chip or self.warps[0] * self.warps[1] != 8):
            return ["eight warps of an AMD chip make two groups that take turns"]
        if self.weights and (self.types.operand != "f16" or self.edges or self.nested):
            return ["weights of 8 bits are written for f16, whole tiles and one loop"]
        if self.residual and (self.types.operand != "f16" or self.edges or self.chip):
            return ["bias and residual are written for f16, whole tiles and NVIDIA tensor cores"]
        return self.tiles.problems((self.tile_m, self.tile_n))

    def module(self) -> str:
        """The whole module as text."""
        kernel = self._kernel()
        globals_ = "".join(
            f'  memref.global "private" @{self.name}_{operand}_shared : {kind} {{alignment = 16 : i64}}\n'
            for operand, kind in self._buffers().items()
            if self.shared == "global"
        )
        return (
            "module attributes {gpu.container_module} {\n"
            f"gpu.module @kernels {{\n{globals_}{kernel}\n}}\n}}\n"
        )

    def _buffers(self) -> dict[str, str]:
        space = "#gpu.address_space<workgroup>"
        return {
            operand: f"memref<{rows}x{self.tile_k}x{kind}, {space}>"
            for operand, rows, kind in (
                ("a", self.tile_m, self.types.operand),
                ("b", self.tile_n, self.weights or self.types.operand),
            )
        }

    @property
    def _kind_of_b(self) -> str:
        return f"memref<?x?x{self.weights or self.types.operand}>"

    def _kernel(self) -> str:
        operand = f"memref<?x?x{self.types.operand}>"
        result = operand if self.residual else f"memref<?x?x{self.types.accumulator}>"
        given = [("A", operand), ("B", self._kind_of_b), ("C", result)]
        given += [("bias", "memref<?xf32>"), ("R", result)] if self.residual else []
        arguments = ", ".join(f"%{name} : {kind} {{llvm.noalias}}" for name, kind in given)
        attributions = ", ".join(
            f"%{name}_shared : {kind} {{llvm.align = 16 : i64}}"
            for name, kind in self._buffers().items()
        )
        workgroup = f"\n      workgroup({attributions})" if self.shared == "attribution" else ""
        size = f"known_block_size = array<i32: {self.threads}, 1, 1>"
        header = f"  gpu.func @{self.name}({arguments}){workgroup}\n      kernel attributes {{{size}}} {{\n"
        writer = Writer(indent=2)
        self._body(writer, (operand, result))
        return f"{header}{writer.text()}\n  }}"

    def _body(self, w: Writer, kinds: Placed) -> None:
        shared = self._declare_shared(w)
        zero, one = w.constant(0), w.constant(1)
        w.value("tid", "gpu.thread_id x")
        w.rem("lane", "%tid", self.tiles.lanes)
        warp = w.div("warp", "%tid", self.tiles.lanes)
        at = ("", "")
        if not self.persistent:
            at_m = w.mul("m", w.value("block_m", "gpu.block_id y"), self.tile_m)
            at = (at_m, w.mul("n", w.value("block_n", "gpu.block_id x"), self.tile_n))
        k_size = w.value("K", f"memref.dim %A, {one} : {kinds[0]}")
        m_size = n_size = ""
        if self.edges or self.persistent:
            m_size = w.value("M", f"memref.dim %A, {zero} : {kinds[0]}")
            n_size = w.value("N", f"memref.dim %B, {zero} : {self._kind_of_b}")
        sizes = (m_size, n_size, k_size)
        rows, columns = self.warps
        warp_m = w.mul("warp_m", w.div("warp_row", warp, columns), self.tile_m // rows)
        warp_n = w.mul("warp_n", w.rem("warp_column", warp, columns), self.tile_n // columns)
        kind = self.tiles.accumulator_type
        start = w.value("zeros", f"arith.constant {self.tiles.accumulator_zero} : {kind}")
        if self.persistent:
            self._tiles_of_block(w, kinds, shared, sizes, (warp_m, warp_n), start)
        else:
            self._one_tile(w, kinds, shared, at, sizes, (warp_m, warp_n), start)
        self._release_shared(w, shared)
        w.line("gpu.return")

    def _tiles_of_block(
        self,
        w: Writer,
        kinds: Placed,
        shared: dict[str, Placed],
        sizes: tuple[str, str, str],
        warp: Placed,
        start: str,
    ) -> None:
        """As many blocks as there are take tile after tile, row by row of C."""
        m_size, n_size, _ = sizes
        rows = w.div("m_tiles", w.add("m_padded", m_size, w.constant(self.tile_m - 1)), self.tile_m)
        columns = w.div(
            "n_tiles", w.add("n_padded", n_size, w.constant(self.tile_n - 1)), self.tile_n
        )
        tiles = w.value("tiles", f"arith.muli {rows}, {columns} : index")
        block = w.value("block", "gpu.block_id x")
        blocks = w.value("blocks", "gpu.grid_dim x")
        with w.block(f"scf.for %tile = {block} to {tiles} step {blocks}"):
            row = w.value("tile_row", f"arith.divui %tile, {columns} : index")
            column = w.value("tile_column", f"arith.remui %tile, {columns} : index")
            at = (w.mul("m", row, self.tile_m), w.mul("n", column, self.tile_n))
            self._one_tile(w, kinds, shared, at, sizes, warp, start)

    def _one_tile(
        self,
        w: Writer,
        kinds: Placed,
        shared: dict[str, Placed],
        at: Placed,
        sizes: tuple[str, str, str],
        warp: Placed,
        start: str,
    ) -> None:
        """The k loop and the store of one tile of C."""
        at_m, at_n = at
        m_size, n_size, k_size = sizes
        warp_m, warp_n = warp
        zero, kind = w.constant(0), self.tiles.accumulator_type
        count = self.tiles.accumulators
        names = [f"%sum_{i}" for i in range(count)]
        carried = ", ".join(f"{name} = {start}" for name in names)
        types = ", ".join([kind] * count)
        bounds = f"%k = {zero} to {k_size} step {w.constant(self.tile_k)}"
        loop = f"%total:{count} = scf.for {bounds}\n        iter_args({carried}) -> ({types})"
        with w.block(loop, f"}} {{{NESTED_OUTER if self.nested else self._annotation()}}}"):
            groups: list[list[str]] = []
            for name, of, rows_, at, size in (
                ("A", kinds[0], self.tile_m, at_m, m_size),
                ("B", self._kind_of_b, self.tile_n, at_n, n_size),
            ):
                limits = (size, k_size) if self.edges else None
                tile = (shared[name.lower()], (f"%{name}", of), rows_, (at, "%k"), limits)
                groups.append(
                    self._copies_as_statement(w, name.lower(), tile)
                    if self.nested
                    else self.tiles.copy_tile(w, *tile)
                )
            self.tiles.group_and_wait(
                w, groups if self.groups == "operand" else [groups[0] + groups[1]]
            )
            w.line("gpu.barrier")
            tile_ = (shared["a"], shared["b"], (warp_m, warp_n), names)
            tiles = self.tiles
            if self.nested and isinstance(tiles, NvidiaTiles):
                sums = tiles.multiply_in_loop(w, *tile_, NESTED_INNER)
            else:
                sums = tiles.multiply(w, *tile_)
            w.line("gpu.barrier")
            w.line(f"scf.yield {', '.join(sums)} : {types}")
        c_at = (w.add("c_warp_row", at_m, warp_m), w.add("c_warp_column", at_n, warp_n))
        totals = [f"%total#{i}" for i in range(count)]
        limits = (m_size, n_size) if self.edges else None
        self.tiles.store(w, ("%C", kinds[1]), c_at, totals, limits)

    def _annotation(self) -> str:
        asked = [f"async_pipe.num_stages = {self.stages} : i64"]
        if self.staging == "registers":
            asked.append('async_pipe.stage_through = "registers"')
        if self.roles:
            asked.append(f'async_pipe.roles = "{self.roles}"')
        if self.residual:
            asked.append(f'async_pipe.residuals = "{self.residual}"')
        return ", ".join(asked)

    def _copies_as_statement(self, w: Writer, name: str, tile: Any) -> list[str]:
        """All copies of one operand as one statement, which hands on the last one's token."""
        with w.statement(f"{name}_copies", ["!nvgpu.device.async.token"]) as yielded:
            yielded += self.tiles.copy_tile(w, *tile)[-1:]
        return [f"%{name}_copies#0"]

    def _declare_shared(self, w: Writer) -> dict[str, Placed]:
        """The two buffers as (value, type), made where they are no attributions."""
        makers = {"global": "memref.get_global @{0}_{1}_shared", "alloc": "memref.alloc()"}
        shared = {}
        for name, kind in self._buffers().items():
            maker = makers.get(self.shared)
            if maker is not None:
                w.value(f"{name}_shared", f"{maker.format(self.name, name)} : {kind}")
            shared[name] = (f"%{name}_shared", kind)
        return shared

    def _release_shared(self, w: Writer, shared: dict[str, Placed]) -> None:
        if self.shared == "alloc":
            for value, kind in shared.values():
                w.line(f"memref.dealloc {value} : {kind}")


def main(arguments: list[str]) -> int:
    """Print the GEMM that the command line describes."""
    parser = argparse.ArgumentParser(description="Write a tiled GEMM before pipelining.")
    parser.add_argument("--name", default="gemm")
    for name, default in (("m", 128), ("n", 128), ("k", 32)):
        parser.add_argument(f"--tile-{name}", type=int, default=default, metavar="ELEMENTS")
    parser.add_argument("--warps-m", type=int, default=2)
    parser.add_argument("--warps-n", type=int, default=2)
    parser.add_argument("--types", choices=sorted(TYPES), default="f16")
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument(
        "--edges", action="store_true", help="any M and N; zero-fill, guarded stores"
    )
    parser.add_argument(
        "--shared", choices=("attribution", "global", "alloc"), default="attribution"
    )
    parser.add_argument("--groups", choices=("one", "operand"), default="one")
    parser.add_argument(
        "--chip",
        choices=sorted(MATRIX_CHIPS),
        default="",
        help="tile operations for this AMD chip (default: for NVIDIA tensor cores)",
    )
    parser.add_argument(
        "--nested",
        action="store_true",
        help="a loop over the tile's k inside the k loop, both pipelined by arrays",
    )
    parser.add_argument(
        "--persistent",
        action="store_true",
        help="blocks of a grid in x that take tile after tile, for overlap-outer",
    )
    parser.add_argument(
        "--staging",
        choices=("async", "registers"),
        default="async",
        help="asynchronous copies, or loads ahead into registers (AMD chips, without --edges)",
    )
    parser.add_argument(
        "--roles",
        choices=("", "ping-pong"),
        default="",
        help="two groups of four warps that take memory and products in turn (AMD chips)",
    )
    parser.add_argument(
        "--weights", choices=("i8",), default="", help="B stands in memory as integers of 8 bits"
    )
    parser.add_argument(
        "--residual",
        choices=("", "direct", "async"),
        default="",
        help="C is max(A B^T + bias, 0) + R in f16, both read after the loop or copied during its end",
    )
    parser.add_argument(
        "-o", dest="output", type=Path, help="file to write (default: standard output)"
    )
    chosen = parser.parse_args(arguments)
    gemm = Gemm(
        chosen.name,
        chosen.tile_m,
        chosen.tile_n,
        chosen.tile_k,
        (chosen.warps_m, chosen.warps_n),
        TYPES[chosen.types],
        chosen.stages,
        chosen.edges,
        chosen.shared,
        chosen.groups,
        chosen.chip,
        chosen.nested,
        chosen.persistent,
        chosen.staging,
        chosen.roles,
        chosen.weights,
        chosen.residual,
    )
    problems = gemm.problems()
    if problems:
        parser.error("; ".join(problems))
    if chosen.output is None:
        sys.stdout.write(gemm.module())
    else:
        chosen.output.write_text(gemm.module())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
