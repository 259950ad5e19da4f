"""How the sums of `wgmma` leave a thread: to C in memory, or to a tile that a tensor store takes away.

    vector.store %two, %C[%row, %column]
    vector.store %two, %C_shared[panel, %row, %column swizzled]; …; fence; barrier; tma.async.store

Sum 4 j + 2 h + c of a thread is row 16 * warp + lane / 4 + 8 h, column 8 j + 2 (lane % 4) + c of its
part of 64 rows (PTX ISA, wgmma: matrix D). In a tile the chunk of 16 bytes c of line r lies where c xor (r mod 8)
would, so that a warp's eight rows of 4 bytes a lane meet in no bank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlir_text import Writer
from tensor_tiles import ELEMENTS, LINES, MMA_M, SUMS, WARPGROUP, Product, Tile

CHUNK_BYTES = 16
# The types that sums may have in C.
OUT = {"f32": ("f32", "f16", "bf16"), "f16": ("f16",), "s32": ("s32",)}


@dataclass(frozen=True)
class Sums:
    """`parts` parts of 64 rows of a warpgroup, in the struct %total#part, which go out as `out`."""

    product: Product
    parts: int
    groups: int
    out: str

    @property
    def element(self) -> str:
        """MLIR's type of an element of C."""
        return ELEMENTS[self.out][0]

    @property
    def tile(self) -> Tile:
        """The tile that a tensor store takes away."""
        return Tile("C", self.out, MMA_M * self.parts * self.groups, self.product.b.rows)

    def store(self, w: Writer, c: str, at_m: str, at_n: str) -> None:
        """To %C of type `c`, from (at_m, at_n) on."""
        row, column = self._place(w)
        row, column = w.add("row_m", row, at_m), w.add("column_n", column, at_n)
        for pair, part, half, j in self._pairs(w):
            at = w.add("r", row, w.constant(part * MMA_M + half * 8))
            to = w.add("c", column, w.constant(LINES * j))
            aligned = f"{{alignment = {2 * ELEMENTS[self.out][1]} : i64}}"
            w.line(f"vector.store {pair}, %C[{at}, {to}] {aligned} : {c}, {self._kind}")

    def store_tile(self, w: Writer, at_m: str, at_n: str) -> None:
        """To the tile, and from there to the map %C, by thread 0, which waits until it is read."""
        tile = self.tile
        row, column = self._place(w)
        line = w.rem("line", row, LINES)
        swizzled = w.xor(
            "swizzled", column, w.mul("moved", line, CHUNK_BYTES // tile.element_bytes)
        )
        for pair, part, half, j in self._pairs(w):
            panel, first = divmod(LINES * j, tile.per_line)
            at = w.add("r", row, w.constant(part * MMA_M + half * 8))
            place = [at, w.xor("c", swizzled, w.constant(first))]
            if tile.has_panels:
                place = [w.constant(panel), *place]
            w.line(
                f"vector.store {pair}, %C_shared[{', '.join(place)}] : {tile.buffer}, {self._kind}"
            )
        w.line(
            "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"
        )
        w.line("gpu.barrier")
        at = [at_n, at_m]
        if tile.has_panels:
            at = [w.constant(0), at_m, w.div("c_lines", at_n, tile.per_line)]
        w.line(
            f"nvgpu.tma.async.store %C_shared to %C[{', '.join(at)}], predicate = %first : "
            f"{tile.buffer} -> {tile.map}"
        )
        w.line("nvvm.cp.async.bulk.commit.group")
        w.line("nvvm.cp.async.bulk.wait_group 0 {read}")
        w.line("gpu.barrier")

    @property
    def _kind(self) -> str:
        return f"vector<2x{self.element}>"

    def _place(self, w: Writer) -> tuple[str, str]:
        """Row and column of the first of a thread's sums."""
        lane = w.rem("lane", "%tid", 32)
        warp = w.div("warp", w.rem("in_group", "%tid", WARPGROUP), 32)
        row = w.add("row", w.mul("warp_row", warp, 16), w.div("lane_row", lane, 4))
        if self.groups > 1:
            group = w.div("group_of", "%tid", WARPGROUP)
            row = w.add("row_g", row, w.mul("group_m", group, self.parts * MMA_M))
        return row, w.mul("pair", w.rem("quad", lane, 4), 2)

    def _pairs(self, w: Writer) -> Iterator[tuple[str, int, int, int]]:
        """Two sums of a row, with part, h and j, in the order in which they are stored."""
        for part in range(self.parts):
            for half in range(2):
                for j in range(self.product.b.rows // LINES):
                    yield self._pair(w, f"%total#{part}", 2 * j + half), part, half, j

    def _pair(self, w: Writer, sums: str, number: int) -> str:
        """Two sums of one row: a register, or two, as C has them."""
        _, element, packed = SUMS[self.product.sums]
        registers = range(2 * number // packed, 2 * (number + 1) // packed)
        found = [
            w.value("x", f"llvm.extractvalue {sums}[{at}] : {self.product.struct}")
            for at in registers
        ]
        if packed == 2:
            return found[0]
        wide = f"vector<2x{element}>"
        pair = w.value("v", f"vector.from_elements {', '.join(found)} : {wide}")
        if self.element == element:
            return pair
        return w.value("narrow", f"arith.truncf {pair} : {wide} to {self._kind}")
