"""What GEMMs by tensor copies share: their tiles of C, the copies of an iteration, the module.

    block tiles of C, one a block or many, row by row:   _tile(w, m, n, phase) writes one
    an iteration:   announce the bytes, copy A, copy B   by thread 0 (`first`)

C[M, N] = A[M, K] * B, where B is given as N x K (`b` is "k": k along its rows, as weights lie) or as K x N.
With "n" the map of B has three dimensions, lines of n, k, and the lines of a row, so that one copy brings
all of a tile: of an array B[K, N] it is B.reshape(K, N // 64, 64).transpose(1, 0, 2), for 64 elements a line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from mlir_text import Writer
from tensor_tiles import FULL, Tile


@dataclass(frozen=True)
class TensorGemm(ABC):
    """One kernel: sizes in elements. `b` says what runs along the rows of B in global memory."""

    name: str = "gemm"
    tile_m: int = 128
    tile_n: int = 128
    types: str = "f16"
    b: Literal["k", "n"] = "k"
    stages: int = 3
    in_flight: int | None = None
    persistent: bool = False
    group: int = 1

    @property
    @abstractmethod
    def threads(self) -> int:
        """Threads of a block."""

    @property
    @abstractmethod
    def left(self) -> Tile:
        """The tile of A."""

    @property
    @abstractmethod
    def right(self) -> Tile:
        """The tile of B."""

    @property
    def c(self) -> str:
        """The type of C."""
        return "memref<?x?xf32>"

    def module(self) -> str:
        """The whole module as text."""
        w = Writer(indent=2)
        self._body(w)
        buffers = ", ".join(
            (
                f"%A_shared : {self.left.buffer}",
                f"%B_shared : {self.right.buffer}",
                *self._more_memory(),
            )
        )
        return (
            "module attributes {gpu.container_module} {\ngpu.module @kernels {\n"
            f"  gpu.func @{self.name}(%A_map : !llvm.ptr, %B_map : !llvm.ptr, "
            f"{self._result()}, %K : i32)\n"
            f"      workgroup({buffers})\n"
            f"      kernel attributes {{known_block_size = array<i32: {self.threads}, 1, 1>"
            f"{self._more_attributes()}}} {{\n"
            f"{w.text()}\n  }}\n}}\n}}\n"
        )

    def _result(self) -> str:
        """The arguments that say where C goes, and how large it is."""
        return f"%C : {self.c} {{llvm.noalias}}"

    def _sizes(self, w: Writer) -> tuple[str, str]:
        """Rows and columns of C."""
        rows, columns = (
            w.value(name, f"memref.dim %C, {w.constant(axis)} : {self.c}")
            for axis, name in enumerate("MN")
        )
        return rows, columns

    @property
    def _blocks_below(self) -> int:
        """Blocks that take tiles of C below each other: those of a cluster along y."""
        return 1

    def _more_attributes(self) -> str:
        """What the kernel says beside the size of its blocks."""
        return ""

    def _more_memory(self) -> tuple[str, ...]:
        """Workgroup memory beside that of the tiles."""
        return ()

    @abstractmethod
    def _body(self, w: Writer) -> None:
        """Write the kernel."""

    @abstractmethod
    def _tile(self, w: Writer, at_m: str, at_n: str, phase: str) -> str:
        """Write one tile of C, whose first phase is given; returns the phase of the next one."""

    def _tiles(self, w: Writer) -> None:
        """The tile of the block; or, persistent, as many blocks, or clusters of them, as there are take tile
        after tile, row by row of C, or column by column of `group` rows of tiles: blocks that run at once
        then read fewer different lines of A and B together, which stay in the second-level cache."""
        if not self.persistent:
            at_m = w.mul("m", w.value("block_m", "gpu.block_id y"), self.tile_m)
            at_n = w.mul("n", w.value("block_n", "gpu.block_id x"), self.tile_n)
            self._tile(w, at_m, at_n, "%false")
            return
        m_size, n_size = self._sizes(w)
        height = self.tile_m * self._blocks_below
        rows, columns = w.div("rows", m_size, height), w.div("tiles_n", n_size, self.tile_n)
        tiles = w.value("tiles", f"arith.muli {rows}, {columns} : index")
        block = w.value("block", "gpu.block_id x")
        blocks = w.value("blocks", "gpu.grid_dim x")
        header = f"%last = scf.for %tile = {block} to {tiles} step {blocks} iter_args(%start = %false) -> (i1)"
        with w.block(header, f"}}{self._notes_on_tiles()}"):
            row, column = self._place(w, rows, columns)
            at_m, at_n = w.mul("m", row, height), w.mul("n", column, self.tile_n)
            if self._blocks_below > 1:
                rank = w.value("row_rank", "gpu.cluster_block_id y")
                at_m = w.add("m_block", at_m, w.mul("m_rank", rank, self.tile_m))
            w.line(f"scf.yield {self._tile(w, at_m, at_n, '%start')} : i1")

    def _place(self, w: Writer, rows: str, columns: str) -> tuple[str, str]:
        """Row and column of tile %tile, among so many."""
        if self.group == 1:
            return (
                w.value("tile_row", f"arith.divui %tile, {columns} : index"),
                w.value("tile_column", f"arith.remui %tile, {columns} : index"),
            )
        size = w.mul("of_group", columns, self.group)
        first = w.mul(
            "first_row", w.value("tile_group", f"arith.divui %tile, {size} : index"), self.group
        )
        left = w.value("left", f"arith.subi {rows}, {first} : index")
        height = w.value("height", f"arith.minui {left}, {w.constant(self.group)} : index")
        number = w.value("in_group", f"arith.remui %tile, {size} : index")
        row = w.value("row_in_group", f"arith.remui {number}, {height} : index")
        return (
            w.add("tile_row", first, row),
            w.value("tile_column", f"arith.divui {number}, {height} : index"),
        )

    def _notes_on_tiles(self) -> str:
        """What the loop over tiles says of itself."""
        return ""

    def _copies(self, w: Writer, at_m: str, at_n: str) -> None:
        """The tiles at %k, as one phase of the mbarrier `full`."""
        FULL.announce(w, self.left, self.right)
        self.left.copy(w, ("%k", at_m))
        at = ("%k", at_n)
        if self.b == "n":
            at = (w.constant(0), "%k", w.div("n_lines", at_n, self.right.per_line))
        self.right.copy(w, at)

    def _annotation(self) -> str:
        notes = [f"async_pipe.num_stages = {self.stages} : i64"]
        if self.in_flight is not None:
            notes.append(f"async_pipe.in_flight = {self.in_flight} : i64")
        return ", ".join(notes)
