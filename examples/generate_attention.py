"""Writes flash attention as a front end emits it before pipelining.

    python examples/generate_attention.py > attention.mlir
    python examples/generate_attention.py --features=128 --causal --stages=4

O = softmax(Q K^T / sqrt(D)) V for each head, with D = 64 or 128 features. Q, K, V and O are
[heads, positions, D]; positions are a multiple of 64. Block x of head y makes 64 rows of O: 4 warps
with 16 rows each, whose Q stays in registers. Each iteration copies the
next 64 rows of K and of V as a group each, waits for both, and updates the online softmax: the
largest score m and the sum l of each row, and O scaled to the new m. Nothing overlaps yet.

`--schedule` says how it is to be pipelined. `stages`: `async_pipe.num_stages`, one wait and one
barrier an iteration. `apart`: stage arrays that copy K three iterations ahead and V two, so that
each has its own wait, with its own count.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from attention_tiles import MMA_K, AttentionTiles
from mlir_text import Writer
from nvidia_tiles import MMA_N, TYPES
from online_softmax import PAIRS, Place, constants, inverse_sums, largest_scores, online_softmax
from tile_copies import group_and_wait

ROWS, WARPS = 64, 4
TYPE = TYPES["f16"]
# Statements: copies of K, copies of V, scores with their softmax, product with V.
APART = (
    "async_pipe.stage = array<i64: 0, 1, 3, 3>, async_pipe.order = array<i64: 3, 2, 0, 1>, "
    "async_pipe.async_stages = array<i64: 0, 1>"
)


@dataclass(frozen=True)
class Attention:
    """One attention kernel; `stages` counts where the schedule is that of num_stages."""

    name: str = "attention"
    features: int = 64
    causal: bool = False
    stages: int = 3
    schedule: Literal["stages", "apart"] = "stages"

    # What kernels of the same shape do otherwise: see generate_backward.py.
    operands = (("Q", "f16"), ("K", "f16"), ("V", "f16"), ("O", "f32"))
    of_rows: ClassVar[tuple[str, ...]] = ()
    resident = "q"
    softmax: ClassVar[dict[str, str]] = {
        "%m0": "%low",
        "%m1": "%low",
        "%l0": "%none",
        "%l1": "%none",
    }

    @property
    def tiles(self) -> AttentionTiles:
        """Copies of all three operands, and Q K^T of a warp."""
        return AttentionTiles(TYPE, self.features, 32 * WARPS, ROWS // WARPS, ROWS)

    @property
    def outputs(self) -> AttentionTiles:
        """P V of a warp."""
        return AttentionTiles(TYPE, self.features, 32 * WARPS, ROWS // WARPS, self.features)

    def module(self) -> str:
        """The whole module as text."""
        space = "#gpu.address_space<workgroup>"
        tile = f"memref<{ROWS}x{self.features}xf16, {space}>"
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
            f"%{name}_tile : {tile} {{llvm.align = 16 : i64}}" for name in f"{self.resident}kv"
        )
        size = f"known_block_size = array<i32: {32 * WARPS}, 1, 1>"
        w = Writer(indent=2)
        self._body(w, tile)
        return (
            "module attributes {gpu.container_module} {\ngpu.module @kernels {\n"
            f"  gpu.func @{self.name}({arguments})\n      workgroup({shared})\n"
            f"      kernel attributes {{{size}}} {{\n{w.text()}\n  }}\n}}\n}}\n"
        )

    def _heads(self, kind: str) -> str:
        return f"memref<?x?x{self.features}x{kind}>"

    def _one_head(self, kind: str) -> str:
        return f"memref<?x{self.features}x{kind}, strided<[{self.features}, 1], offset: ?>>"

    def _body(self, w: Writer, tile: str) -> None:
        zero = w.constant(0)
        w.value("tid", "gpu.thread_id x")
        w.rem("lane", "%tid", 32)
        warp_row = w.mul("warp_row", w.div("warp", "%tid", 32), ROWS // WARPS)
        q_row = w.mul("q_first", w.value("block", "gpu.block_id x"), ROWS)
        head = w.value("head", "gpu.block_id y")
        w.value("N", f"memref.dim %K_heads, {w.constant(1)} : {self._heads('f16')}")
        for name, kind in self.operands:
            w.value(
                name,
                f"memref.subview %{name}_heads[{head}, 0, 0] [1, %N, {self.features}] [1, 1, 1] "
                f": {self._heads(kind)} to {self._one_head(kind)}",
            )
        constants(w, self.features)
        w.value("zeros", f"arith.constant dense<0.0> : {self.tiles.accumulator_type}")
        count = self.outputs.accumulators
        state = [*self.softmax.values(), *["%zeros"] * count]
        copies = [c for name in self.resident for c in self._copies(w, name, tile, q_row)]
        if self.causal:
            # The only tile with a mask comes first: its latency is that of Q.
            for name in "kv":
                copies += self._copies(w, name, tile, q_row)
        group_and_wait(w, [copies])
        w.line("gpu.barrier")
        q_parts = [
            part
            for name in self.resident
            for part in self.tiles.first_operand(w, (f"%{name}_tile", tile), warp_row)
        ]
        self._values_of_rows(w, q_row, warp_row)
        if self.causal:
            state = self._iteration(w, q_parts, tile, state, warp_row)
            w.line("gpu.barrier")
        names = [*self.softmax, *(f"%o_{number}" for number in range(count))]
        types = ", ".join(["f32"] * len(self.softmax) + [self.tiles.accumulator_type] * count)
        carried = ", ".join(f"{n} = {start}" for n, start in zip(names, state, strict=True))
        last = q_row if self.causal else "%N"
        bounds = f"%j = {zero} to {last} step {w.constant(ROWS)}"
        loop = f"%done:{len(names)} = scf.for {bounds}\n        iter_args({carried}) -> ({types})"
        with w.block(loop, f"}} {{{self._annotation()}}}"):
            copy = self._copies_as_statement if self.schedule == "apart" else self._copies
            # A commit takes all copies before it: that of K has to stand before the copies of V.
            for name in "kv":
                tokens = ", ".join(copy(w, name, tile, "%j"))
                group = w.value("group", f"nvgpu.device_async_create_group {tokens}")
            w.line(f"nvgpu.device_async_wait {group}")
            w.line("gpu.barrier")
            iteration = self._statements if self.schedule == "apart" else self._iteration
            yielded = iteration(w, q_parts, tile, names)
            w.line("gpu.barrier")
            w.line(f"scf.yield {', '.join(yielded)} : {types}")
        self._store(w, w.add("o_row", q_row, warp_row))

    def _values_of_rows(self, w: Writer, block_row: str, warp_row: str) -> None:
        """What is loaded of the rows of a lane, before the loop."""

    def _annotation(self) -> str:
        return APART if self.schedule == "apart" else f"async_pipe.num_stages = {self.stages} : i64"

    def _copies(self, w: Writer, name: str, tile: str, row: str) -> list[str]:
        """This thread's copies of 64 rows from `row`."""
        shared, operand = (f"%{name}_tile", tile), (f"%{name.upper()}", self._one_head("f16"))
        return self.tiles.copy_tile(w, shared, operand, ROWS, (row, "%c0"), None)

    def _copies_as_statement(self, w: Writer, name: str, tile: str, row: str) -> list[str]:
        """The same as one statement, which hands on the last one's token."""
        with w.statement(f"{name}_copies", ["!nvgpu.device.async.token"]) as yielded:
            yielded += self._copies(w, name, tile, row)[-1:]
        return [f"%{name}_copies#0"]

    def _iteration(
        self, w: Writer, q_parts: list[str], tile: str, state: list[str], diagonal: str = ""
    ) -> list[str]:
        """The new m, l and O."""
        softmax, p_parts, factor = self._softmax(w, q_parts, tile, state[:4], diagonal)
        return [*softmax, *self._output(w, p_parts, tile, state[4:], factor)]

    def _statements(self, w: Writer, q_parts: list[str], tile: str, state: list[str]) -> list[str]:
        """The same as two statements: what reads K, and what reads V."""
        kind, p_count = self.tiles.accumulator_type, ROWS // MMA_K
        kinds = [kind] * self.outputs.accumulators
        types = ["f32"] * 4 + ["vector<4x2xf16>"] * p_count + [kind]
        with w.statement("softmax", types) as yielded:
            softmax, p_parts, factor = self._softmax(w, q_parts, tile, state[:4])
            yielded += [*softmax, *p_parts, factor]
        *results, factor = [f"%softmax#{number}" for number in range(len(types))]
        with w.statement("output", kinds) as yielded:
            yielded += self._output(w, results[4:], tile, state[4:], factor)
        return [*results[:4], *(f"%output#{number}" for number in range(len(kinds)))]

    def _output(
        self, w: Writer, p_parts: list[str], tile: str, sums: list[str], factor: str
    ) -> list[str]:
        """The new O."""
        scaled = self._scaled(w, sums, factor)
        return self.outputs.add_values(w, p_parts, ("%v_tile", tile), scaled)

    def _softmax(
        self, w: Writer, q_parts: list[str], tile: str, state: list[str], diagonal: str = ""
    ) -> tuple[list[str], list[str], str]:
        """The new m and l of both rows of a lane, the fragments of P, and the factor of O.
        `diagonal`: the warp's first row of a tile on the diagonal, which gets a mask."""
        scores = self.tiles.scores(w, q_parts, ("%k_tile", tile), "%zeros")
        elements = {
            (number, half, element): self._element(w, score, half, element)
            for number, score in enumerate(scores)
            for half, element in PAIRS
        }
        if diagonal:
            elements = self._masked(w, elements, diagonal)
        largest = largest_scores(w, elements, state)
        softmax, weights, factors = online_softmax(w, elements, state, largest)
        step = MMA_K // MMA_N
        p_parts = [self._operand(w, weights, at) for at in range(0, len(scores), step)]
        return softmax, p_parts, self._factor(w, factors)

    def _masked(self, w: Writer, elements: dict[Place, str], warp_row: str) -> dict[Place, str]:
        """Nothing of the keys after a query, both counted from the first of the tile."""
        row = w.add("row", warp_row, w.div("lane_row", "%lane", 4))
        rows = [row, w.add("row", row, w.constant(8))]
        key = w.mul("key", w.rem("lane_pair", "%lane", 4), 2)
        masked = {}
        for (number, half, element), score in elements.items():
            at = w.add("at", key, w.constant(number * MMA_N + element))
            later = w.value("later", f"arith.cmpi ugt, {at}, {rows[half]} : index")
            kept = w.value("kept", f"arith.select {later}, %low, {score} : f32")
            masked[number, half, element] = kept
        return masked

    def _operand(self, w: Writer, weights: dict[Place, str], number: int) -> str:
        """Two accumulator tiles of P, side by side, as a 16x16 fragment."""
        halves = [
            w.value("p", f"arith.truncf {weights[tile, half, element]} : f32 to f16")
            for tile in (number, number + 1)
            for half, element in PAIRS
        ]
        listed = ", ".join(halves)
        return w.value("p_part", f"vector.from_elements {listed} : vector<4x2xf16>")

    def _factor(self, w: Writer, of_rows: list[str]) -> str:
        """Two rows' factors, for each element of an accumulator tile."""
        listed = ", ".join(of_rows[half] for half, _ in PAIRS)
        return w.value("factor", f"vector.from_elements {listed} : {self.tiles.accumulator_type}")

    def _scaled(self, w: Writer, sums: list[str], factor: str) -> list[str]:
        kind = self.tiles.accumulator_type
        return [w.value("scaled", f"arith.mulf {o}, {factor} : {kind}") for o in sums]

    def _element(self, w: Writer, tile: str, half: int, element: int) -> str:
        kind = self.tiles.accumulator_type
        return w.value("element", f"vector.extract {tile}[{half}, {element}] : f32 from {kind}")

    def _store(self, w: Writer, row: str) -> None:
        """O divided by l."""
        factors = inverse_sums(w, ["%done#2", "%done#3"])
        sums = [f"%done#{4 + number}" for number in range(self.outputs.accumulators)]
        scaled = self._scaled(w, sums, self._factor(w, factors))
        self.outputs.store(w, ("%O", self._one_head("f32")), (row, "%c0"), scaled, None)
        w.line("gpu.return")


def main(arguments: list[str]) -> int:
    """Print the attention kernel that the command line describes."""
    parser = argparse.ArgumentParser(description="Write flash attention before pipelining.")
    parser.add_argument("--name", default="attention")
    parser.add_argument("--features", type=int, choices=(64, 128), default=64)
    parser.add_argument("--causal", action="store_true", help="no keys after the query")
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--schedule", choices=("stages", "apart"), default="stages")
    parser.add_argument(
        "-o", dest="output", type=Path, help="file to write (default: standard output)"
    )
    chosen = parser.parse_args(arguments)
    text = Attention(
        chosen.name, chosen.features, chosen.causal, chosen.stages, chosen.schedule
    ).module()
    if chosen.output is None:
        sys.stdout.write(text)
    else:
        chosen.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
