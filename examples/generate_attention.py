"""Writes flash attention as a front end emits it before pipelining.

    python examples/generate_attention.py > attention.mlir
    python examples/generate_attention.py --features=128 --causal --stages=4

O = softmax(Q K^T / sqrt(D)) V for each head, with D = 64 or 128 features. Q, K, V and O are
[heads, positions, D]; positions are a multiple of a block's rows. Block x of head y makes 64 rows of O: 4 warps
with 16 rows each, whose Q stays in registers. Each iteration copies the
next 64 rows of K and of V as a group each, waits for both, and updates the online softmax: the
largest score m and the sum l of each row, and O scaled to the new m. Nothing overlaps yet.

`AttentionTiles` is what differs between vendors, `attention_tiles.py` has both. On chips with `amdgpu.mfma` a wave has
32 rows, a block 128:

    python examples/generate_attention.py --chip=gfx950

`--schedule` says how it is to be pipelined. `stages`: `async_pipe.num_stages`, one wait and one
barrier an iteration. `apart`: stage arrays that copy K three iterations ahead and V two, so that
each has its own wait, with its own count.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from amd_matrix_chips import MATRIX_CHIPS
from attention_tiles import AmdAttentionTiles, NvidiaAttentionTiles
from generate_gemm import Placed, Tiles
from mlir_text import Writer
from nvidia_tiles import MMA_M, TYPES
from online_softmax import Place, Softmax, constants

KEYS, WARPS = 64, 4
TYPE = TYPES["f16"]
# Statements: copies of K, copies of V, scores with their softmax, product with V.
APART = (
    "async_pipe.stage = array<i64: 0, 1, 3, 3>, async_pipe.order = array<i64: 3, 2, 0, 1>, "
    "async_pipe.async_stages = array<i64: 0, 1>"
)


class AttentionTiles(Tiles, Protocol):
    """What a vendor's warp has of Q, P and O, and of K and V: `warp_m` rows, and keys or features."""

    @property
    def warp_m(self) -> int:
        """Rows of a warp."""

    @property
    def softmax(self) -> Softmax:
        """How lanes share the rows of a product."""

    @property
    def operand_types(self) -> list[str]:
        """The types of the operands of P."""

    def first_operand(self, w: Writer, q: Placed, row: str) -> list[str]:
        """Rows of Q from `row`, as the products of their scores take them."""

    def scores(self, w: Writer, q_parts: list[str], k: Placed, zero: str) -> list[str]:
        """Q K^T, not yet scaled."""

    def elements(self, w: Writer, scores: list[str]) -> dict[Place, str]:
        """The elements of accumulator tiles, one by one."""

    def lane_rows(self, w: Writer, first: str) -> list[str]:
        """The rows of which a lane holds elements, of those from `first` on."""

    def lane_column(self, w: Writer) -> str:
        """The column of a lane's first element."""

    def column(self, place: Place) -> int:
        """How many columns after the lane's first one an element stands."""

    def operands(self, w: Writer, weights: dict[Place, str]) -> list[str]:
        """P, rounded, as the products with V take it."""

    def add_values(
        self, w: Writer, p_parts: list[str], v: Placed, accumulators: list[str]
    ) -> list[str]:
        """P V added to the accumulators."""

    def of_rows(self, w: Writer, values: list[str]) -> str:
        """What belongs to the rows of a lane, for each element of an accumulator tile."""


@dataclass(frozen=True)
class Attention:
    """One attention kernel; `stages` counts where the schedule is that of num_stages."""

    name: str = "attention"
    features: int = 64
    causal: bool = False
    stages: int = 3
    schedule: Literal["stages", "apart"] = "stages"
    chip: str = ""

    # What kernels of the same shape do otherwise: see generate_backward.py.
    operands = (("Q", "f16"), ("K", "f16"), ("V", "f16"), ("O", "f32"))
    of_rows: ClassVar[tuple[str, ...]] = ()
    resident = "q"

    @property
    def carried(self) -> dict[str, str]:
        """What iterations hand on beside O, and what it begins with: m and l of the rows of a lane."""
        return self.tiles.softmax.start

    @property
    def tiles(self) -> AttentionTiles:
        """Copies of all three operands, and Q K^T of a warp."""
        return self._tiles(KEYS)

    @property
    def outputs(self) -> AttentionTiles:
        """P V of a warp."""
        return self._tiles(self.features)

    def _tiles(self, columns: int) -> AttentionTiles:
        chip = MATRIX_CHIPS.get(self.chip)
        if chip is None:
            return NvidiaAttentionTiles(TYPE, self.features, 32 * WARPS, MMA_M, columns)
        threads, rows = chip.lanes * WARPS, max(chip.depths)
        return AmdAttentionTiles(chip, TYPE, self.features, threads, rows, columns)

    @property
    def rows(self) -> int:
        """Rows of O that a block makes."""
        return WARPS * self.tiles.warp_m

    def module(self) -> str:
        """The whole module as text."""
        arguments = ", ".join(
            [
                *(
                    f"%{name}_heads : {self._heads(kind)} {{llvm.noalias}}"
                    for name, kind in self.operands
                ),
                *(f"%{name} : memref<?x?xf32> {{llvm.noalias}}" for name in self.of_rows),
            ]
        )
        shared = ", ".join(
            f"{value} : {kind} {{llvm.align = 16 : i64}}"
            for value, kind in map(self._tile, f"{self.resident}kv")
        )
        size = f"known_block_size = array<i32: {self.tiles.lanes * WARPS}, 1, 1>"
        w = Writer(indent=2)
        self._body(w)
        return (
            "module attributes {gpu.container_module} {\ngpu.module @kernels {\n"
            f"  gpu.func @{self.name}({arguments})\n      workgroup({shared})\n"
            f"      kernel attributes {{{size}}} {{\n{w.text()}\n  }}\n}}\n}}\n"
        )

    def _heads(self, kind: str) -> str:
        return f"memref<?x?x{self.features}x{kind}>"

    def _one_head(self, kind: str) -> str:
        return f"memref<?x{self.features}x{kind}, strided<[{self.features}, 1], offset: ?>>"

    def _rows_of_tile(self, name: str) -> int:
        return self.rows if name in self.resident else KEYS

    def _tile(self, name: str) -> Placed:
        """The workgroup memory for a tile of an operand."""
        shape = f"{self._rows_of_tile(name)}x{self.features}"
        return f"%{name}_tile", f"memref<{shape}xf16, #gpu.address_space<workgroup>>"

    def _body(self, w: Writer) -> None:
        zero, tiles = w.constant(0), self.tiles
        w.value("tid", "gpu.thread_id x")
        w.rem("lane", "%tid", tiles.lanes)
        warp_row = w.mul("warp_row", w.div("warp", "%tid", tiles.lanes), tiles.warp_m)
        q_row = w.mul("q_first", w.value("block", "gpu.block_id x"), self.rows)
        head = w.value("head", "gpu.block_id y")
        w.value("N", f"memref.dim %K_heads, {w.constant(1)} : {self._heads('f16')}")
        for name, kind in self.operands:
            w.value(
                name,
                f"memref.subview %{name}_heads[{head}, 0, 0] [1, %N, {self.features}] [1, 1, 1] "
                f": {self._heads(kind)} to {self._one_head(kind)}",
            )
        constants(w, self.features)
        w.value("zeros", f"arith.constant {tiles.accumulator_zero} : {tiles.accumulator_type}")
        count = self.outputs.accumulators
        state = [*self.carried.values(), *["%zeros"] * count]
        # Tiles with a mask come first: the latency of the first one is that of Q.
        masked = range(0, self.rows if self.causal else 0, KEYS)
        names = [*self.resident, *("kv" if masked else "")]
        tiles.group_and_wait(w, [[copy for name in names for copy in self._copies(w, name, q_row)]])
        w.line("gpu.barrier")
        q_parts = [
            part
            for name in self.resident
            for part in tiles.first_operand(w, self._tile(name), warp_row)
        ]
        self._values_of_rows(w, q_row, warp_row)
        for first in masked:
            if first:
                row = w.add("masked_row", q_row, w.constant(first))
                tiles.group_and_wait(
                    w, [[copy for name in "kv" for copy in self._copies(w, name, row)]]
                )
                w.line("gpu.barrier")
            state = self._iteration(w, q_parts, state, (warp_row, first))
            w.line("gpu.barrier")
        names = [*self.carried, *(f"%o_{number}" for number in range(count))]
        types = ", ".join(["f32"] * len(self.carried) + [tiles.accumulator_type] * count)
        carried = ", ".join(f"{n} = {start}" for n, start in zip(names, state, strict=True))
        last = q_row if self.causal else "%N"
        bounds = f"%j = {zero} to {last} step {w.constant(KEYS)}"
        loop = f"%done:{len(names)} = scf.for {bounds}\n        iter_args({carried}) -> ({types})"
        with w.block(loop, f"}} {{{self._annotation()}}}"):
            copy = self._copies_as_statement if self.schedule == "apart" else self._copies
            # A commit takes all copies before it: that of K has to stand before the copies of V.
            for name in "kv":
                tokens = ", ".join(copy(w, name, "%j"))
                group = w.value("group", f"nvgpu.device_async_create_group {tokens}")
            w.line(f"nvgpu.device_async_wait {group}")
            w.line("gpu.barrier")
            iteration = self._statements if self.schedule == "apart" else self._iteration
            yielded = iteration(w, q_parts, names)
            w.line("gpu.barrier")
            w.line(f"scf.yield {', '.join(yielded)} : {types}")
        self._store(w, w.add("o_row", q_row, warp_row))

    def _values_of_rows(self, w: Writer, block_row: str, warp_row: str) -> None:
        """What is loaded of the rows of a lane, before the loop."""

    def _annotation(self) -> str:
        return APART if self.schedule == "apart" else f"async_pipe.num_stages = {self.stages} : i64"

    def _copies(self, w: Writer, name: str, row: str) -> list[str]:
        """This thread's copies of a tile's rows from `row`."""
        operand = (f"%{name.upper()}", self._one_head("f16"))
        rows = self._rows_of_tile(name)
        return self.tiles.copy_tile(w, self._tile(name), operand, rows, (row, "%c0"), None)

    def _copies_as_statement(self, w: Writer, name: str, row: str) -> list[str]:
        """The same as one statement, which hands on the last one's token."""
        with w.statement(f"{name}_copies", ["!nvgpu.device.async.token"]) as yielded:
            yielded += self._copies(w, name, row)[-1:]
        return [f"%{name}_copies#0"]

    def _iteration(
        self, w: Writer, q_parts: list[str], state: list[str], masked: tuple[str, int] | None = None
    ) -> list[str]:
        """The new m, l and O."""
        old = len(self.carried)
        softmax, p_parts, factor = self._softmax(w, q_parts, state[:old], masked)
        return [*softmax, *self._output(w, p_parts, state[old:], factor)]

    def _statements(self, w: Writer, q_parts: list[str], state: list[str]) -> list[str]:
        """The same as two statements: what reads K, and what reads V."""
        kind, old = self.tiles.accumulator_type, len(self.carried)
        kinds = [kind] * self.outputs.accumulators
        types = ["f32"] * old + self.tiles.operand_types + [kind]
        with w.statement("softmax", types) as yielded:
            softmax, p_parts, factor = self._softmax(w, q_parts, state[:old])
            yielded += [*softmax, *p_parts, factor]
        *results, factor = [f"%softmax#{number}" for number in range(len(types))]
        with w.statement("output", kinds) as yielded:
            yielded += self._output(w, results[old:], state[old:], factor)
        return [*results[:old], *(f"%output#{number}" for number in range(len(kinds)))]

    def _output(self, w: Writer, p_parts: list[str], sums: list[str], factor: str) -> list[str]:
        """The new O."""
        scaled = self._scaled(w, sums, factor)
        return self.outputs.add_values(w, p_parts, self._tile("v"), scaled)

    def _softmax(
        self, w: Writer, q_parts: list[str], state: list[str], masked: tuple[str, int] | None = None
    ) -> tuple[list[str], list[str], str]:
        """The new m and l of the rows of a lane, P, and the factor of O.
        `masked`, of a tile that gets a mask: the warp's first row and the first key, counted from the block's first."""
        elements = self._scores(w, q_parts, "k")
        if masked is not None:
            elements = self._masked(w, elements, *masked)
        softmax = self.tiles.softmax
        largest = softmax.largest_scores(w, elements, state)
        new, weights, factors = softmax.weigh(w, elements, state, largest)
        return new, self.tiles.operands(w, weights), self.tiles.of_rows(w, factors)

    def _scores(self, w: Writer, q_parts: list[str], name: str) -> dict[Place, str]:
        """The elements of a product with rows of K, or of V."""
        return self.tiles.elements(w, self.tiles.scores(w, q_parts, self._tile(name), "%zeros"))

    def _masked(
        self, w: Writer, elements: dict[Place, str], warp_row: str, first: int
    ) -> dict[Place, str]:
        """Nothing of the keys after a query."""
        rows, key = self.tiles.lane_rows(w, warp_row), self.tiles.lane_column(w)
        masked = {}
        for place, score in elements.items():
            at = w.add("at", key, w.constant(first + self.tiles.column(place)))
            later = w.value("later", f"arith.cmpi ugt, {at}, {rows[place[1]]} : index")
            masked[place] = w.value("kept", f"arith.select {later}, %low, {score} : f32")
        return masked

    def _scaled(self, w: Writer, sums: list[str], factor: str) -> list[str]:
        kind = self.tiles.accumulator_type
        return [w.value("scaled", f"arith.mulf {o}, {factor} : {kind}") for o in sums]

    def _totals(self) -> list[str]:
        """O after the loop."""
        first = len(self.carried)
        return [f"%done#{first + number}" for number in range(self.outputs.accumulators)]

    def _store(self, w: Writer, row: str) -> None:
        """O divided by l."""
        rows = self.tiles.softmax.rows
        sums = [f"%done#{rows + number}" for number in range(rows)]
        factors = self.tiles.softmax.inverse_sums(w, sums)
        self._store_sums(w, row, self._scaled(w, self._totals(), self.tiles.of_rows(w, factors)))

    def _store_sums(self, w: Writer, row: str, sums: list[str]) -> None:
        self.outputs.store(w, ("%O", self._one_head("f32")), (row, "%c0"), sums, None)
        w.line("gpu.return")


def main(arguments: list[str]) -> int:
    """Print the attention kernel that the command line describes."""
    parser = argparse.ArgumentParser(description="Write flash attention before pipelining.")
    parser.add_argument("--name", default="attention")
    parser.add_argument("--features", type=int, choices=(64, 128), default=64)
    parser.add_argument("--causal", action="store_true", help="no keys after the query")
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--schedule", choices=("stages", "apart"), default="stages")
    parser.add_argument("--chip", choices=MATRIX_CHIPS, default="", help="an AMD chip")
    parser.add_argument(
        "-o", dest="output", type=Path, help="file to write (default: standard output)"
    )
    chosen = parser.parse_args(arguments)
    given = vars(chosen)
    output = given.pop("output")
    text = Attention(**given).module()
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
