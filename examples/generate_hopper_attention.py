"""Writes flash attention for Hopper as a front end emits it before pipelining: tensor copies and wgmma.

    python examples/generate_hopper_attention.py > attention.mlir
    python examples/generate_hopper_attention.py --features=128 --keys=128 --warpgroups=2

O = softmax(Q K^T / sqrt(D)) V for each head, with D = 64 or 128 features. Q, K and V are
[heads * positions, D], O is [heads, positions, D]; block x of head y makes 64 rows of O a warpgroup, whose Q stays in workgroup
memory. Each iteration copies the next tile of K and this one's V, on one mbarrier:

    scores of the next tile = Q K^T     in flight together
    O += P V of this tile, half of it   in flight after a wait for the scores, beside
    m = the largest scores
    the other half of O += P V          in flight beside
    P = the next tile's weights         in other registers; then the wait that leaves none

The first scores stand before the loop, with a tile of K of their own, the last product after it, with a
tile of V. O, scores, m, l and P are registers: a lane's scores of 16 keys are just what it has of A (docs/hopper.md).
Nothing is copied ahead yet: `async_pipe.num_stages` asks for it.

With `--causal` a position sees no later one. The tile on the diagonal comes first, before the loop, and is the only one with
a mask; the loop goes down from there.

With `--plain` the loop is one tile after the other: copies, scores, softmax, O += P V. `async_pipe.schedule = "optimal"` on it
finds the order above, or a better one.

With `--weights=memory` P goes through workgroup memory instead, for products with two descriptors. With two slots for it one
barrier an iteration is enough, and the stores of P, which the wait for O follows, keep the softmax before that wait.

With 128 features the tensor maps of Q, K and V have three dimensions, halves of 64 features, rows, and a
half: of an array A[R, 128] it is A.reshape(R, 2, 64).transpose(1, 0, 2). That of V always has three.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from mlir_text import Writer
from online_softmax import NVIDIA_SOFTMAX, PAIRS, Place, constants
from tensor_tiles import (
    FULL,
    LINES,
    MMA_M,
    WARPGROUP,
    Mbarrier,
    Product,
    Tile,
    i32,
    tensor_maps,
    warpgroup_number,
)

READY, LAST = Mbarrier("ready"), Mbarrier("last")
PROXY_FENCE = (
    "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"
)
# Of the scores: m and l of two rows; then O.
SOFTMAX = list(NVIDIA_SOFTMAX.start)


@dataclass(frozen=True)
class HopperAttention:
    """One kernel: `features` D, `keys` of a tile, 64 rows for each warpgroup; P is multiplied from `weights`."""

    name: str = "attention"
    features: int = 64
    keys: int = 64
    warpgroups: int = 1
    stages: int = 3
    weights: str = "registers"
    causal: bool = False
    plain: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.warpgroups * WARPGROUP

    @property
    def rows(self) -> int:
        """Rows of O that a block makes."""
        return self.warpgroups * MMA_M

    def _tile(self, name: str, tensor: str = "") -> Tile:
        """K and V as they are multiplied by: k is the features of K, and the keys of V."""
        by_k = not name.startswith("V")
        rows, depth = (self.keys, self.features) if by_k else (self.features, self.keys)
        return Tile(name, "f16", rows, depth, by_k, tensor)

    @property
    def tiles(self) -> dict[str, Tile]:
        """All buffers of workgroup memory, by name."""
        tiles = [Tile("Q", "f16", self.rows, self.features), self._tile("K"), self._tile("V")]
        if not self.plain:
            tiles += [self._tile("K_first", "K"), self._tile("V_last", "V")]
        return {tile.name: tile for tile in tiles + [self._p] * self.in_memory}

    @property
    def in_memory(self) -> bool:
        """Whether P goes through workgroup memory."""
        return self.weights == "memory"

    @property
    def _p(self) -> Tile:
        return Tile("P", "f16", self.rows, self.keys, slots=2)

    @property
    def scores(self) -> Product:
        """64 rows of Q K^T."""
        return Product(self.tiles["Q"], self.tiles["K"])

    @property
    def output(self) -> Product:
        """64 rows of P V."""
        return Product(self._p, self.tiles["V"])

    def problems(self) -> list[str]:
        """Why this kernel cannot be made, [] if it can."""
        if self.features not in (64, 128) or self.keys not in (64, 128):
            return ["there are 64 or 128 features, and as many keys in a tile"]
        if self.stages < 1 or self.warpgroups < 1:
            return ["there is one stage and one warpgroup at least"]
        if self.causal and self.keys != self.rows:
            return [
                "a causal block has as many rows as a tile has keys, so that one tile is on the diagonal"
            ]
        if self.plain and (self.causal or self.in_memory):
            return ["the plain loop has no mask, and P in registers"]
        return []

    def module(self) -> str:
        """The whole module as text."""
        w = Writer(indent=2)
        self._body(w)
        maps = ", ".join(f"%{name}_map : !llvm.ptr" for name in "QKV")
        buffers = ", ".join(f"%{t.name}_shared : {t.buffer}" for t in self.tiles.values())
        head = (
            f"  gpu.func @{self.name}({maps}, %O : {self._o} {{llvm.noalias}}, %N : i32)\n"
            f"      workgroup({buffers})\n"
            f"      kernel attributes {{known_block_size = array<i32: {self.threads}, 1, 1>}} {{\n"
        )
        return (
            "module attributes {gpu.container_module} {\ngpu.module @kernels {\n"
            f"{head}{w.text()}\n  }}\n}}\n}}\n"
        )

    @property
    def _o(self) -> str:
        return f"memref<?x?x{self.features}xf32>"

    # -- the kernel ----------------------------------------------------------------------------

    def _body(self, w: Writer) -> None:
        tensor_maps(w, *(self.tiles[name] for name in "QKV"))
        w.value("tid", "gpu.thread_id x")
        w.value("first", f"arith.cmpi eq, %tid, {w.constant(0)} : index")
        w.value("false", "arith.constant false")
        w.value("true", "arith.constant true")
        for mbarrier in (READY, FULL) if self.plain else (READY, LAST, FULL):
            mbarrier.create(w)
        w.line("nvvm.fence.mbarrier.init")
        w.line("gpu.barrier")
        constants(w, self.features)
        w.value("no_scores", f"llvm.mlir.undef : {self.scores.struct}")
        w.value("no_sums", f"llvm.mlir.undef : {self.output.struct}")
        w.value("no_output", f"llvm.mlir.zero : {self.output.struct}")
        self._places(w)
        w.value("positions", "arith.index_cast %N : i32 to index")
        w.value("head_row", f"arith.muli {w.value('head', 'gpu.block_id y')}, %positions : index")
        w.mul("block_row", w.value("block", "gpu.block_id x"), self.rows)
        w.add("q_row", "%head_row", "%block_row")
        if self.plain:
            self._one_after_the_other(w)
            return
        w.value("keys_after", f"arith.subi %positions, {w.constant(self.keys)} : index")
        w.add("last_tile", "%head_row", "%keys_after")
        first_row, last_row = (
            ("%q_row", "%head_row") if self.causal else ("%head_row", "%last_tile")
        )
        self._copy(w, LAST, "V_last", last_row)
        READY.announce(w, self.tiles["Q"], self.tiles["K_first"])
        self.tiles["Q"].copy(w, self._at(w, "Q", "%q_row"), READY)
        self.tiles["K_first"].copy(w, self._at(w, "K", first_row), READY)
        READY.wait(w, "%false")
        w.line("nvvm.wgmma.fence.aligned")
        scores = self._scores(w, "K_first")
        w.line("nvvm.wgmma.wait.group.sync.aligned 0")
        elements = self._elements(w, scores)
        if self.causal:
            elements = self._masked(w, elements)
        start = ["%low"] * 2 + ["%none"] * 2
        largest = NVIDIA_SOFTMAX.largest_scores(w, elements, start)
        state, weights, _ = NVIDIA_SOFTMAX.weigh(w, elements, start, largest)
        first = self._hand_over(w, weights)
        if self.in_memory:
            w.line("gpu.barrier")
        self._loop(w, state, first)
        LAST.wait(w, "%false")
        w.line("nvvm.wgmma.fence.aligned")
        last_p = [f"%done#{6 + number}" for number in range(len(first))]
        output = self._output(w, "V_last", "%done#4", last_p)
        w.line("nvvm.wgmma.wait.group.sync.aligned 0")
        self._store(w, output)
        w.line("gpu.return")

    def _one_after_the_other(self, w: Writer) -> None:
        """The plain form, from where Q is to be copied."""
        self._copy(w, READY, "Q", "%q_row")
        READY.wait(w, "%false")
        kinds = ["f32"] * 4 + [self.output.struct, "i1"]
        carried = [*SOFTMAX, "%o", "%phase"]
        start = ["%low", "%low", "%none", "%none", "%no_output", "%false"]
        given = ", ".join(f"{n} = {value}" for n, value in zip(carried, start, strict=True))
        header = (
            f"%done:6 = scf.for %j32 = {i32(w, 0)} to %N step {i32(w, self.keys)}\n"
            f"        iter_args({given}) -> ({', '.join(kinds)}) : i32"
        )
        with w.block(header, f"}} {{async_pipe.num_stages = {self.stages} : i64}}"):
            w.value("j", "arith.index_cast %j32 : i32 to index")
            row = w.add("row", "%head_row", "%j")
            FULL.announce(w, self.tiles["K"], self.tiles["V"])
            for name in "KV":
                self.tiles[name].copy(w, self._at(w, name, row))
            FULL.wait(w, "%phase")
            w.line("nvvm.wgmma.fence.aligned")
            scores = self._scores(w, "K")
            w.line("nvvm.wgmma.wait.group.sync.aligned 0")
            elements = self._elements(w, scores)
            largest = NVIDIA_SOFTMAX.largest_scores(w, elements, SOFTMAX)
            state, weights, factors = NVIDIA_SOFTMAX.weigh(w, elements, SOFTMAX, largest)
            p = self._hand_over(w, weights)
            scaled = self._scaled(w, "%o", factors)
            w.line("nvvm.wgmma.fence.aligned")
            output = self._output(w, "V", scaled, p)
            w.line("nvvm.wgmma.wait.group.sync.aligned 0")
            w.line("gpu.barrier")
            flip = w.value("flip", "arith.xori %phase, %true : i1")
            w.line(f"scf.yield {', '.join([*state, output, flip])} : {', '.join(kinds)}")
        self._store(w, "%done#4")
        w.line("gpu.return")

    def _loop(self, w: Writer, state: list[str], first: list[str]) -> None:
        p = [f"%p{number}" for number in range(len(first))]
        names = [*SOFTMAX, "%o", "%phase", *p]
        start = [*state, "%no_output", "%false", *first]
        carried = ", ".join(f"{n} = {given}" for n, given in zip(names, start, strict=True))
        of_p = ["index" if self.in_memory else "i32"] * len(p)
        types = ", ".join(["f32"] * 4 + [self.output.struct, "i1", *of_p])
        keys = i32(w, self.keys)
        after_first = "%block_row" if self.causal else "%keys_after"
        end = w.value("end", f"arith.index_cast {after_first} : index to i32")
        header = (
            f"%done:{len(names)} = scf.for %j32 = {i32(w, 0)} to {end} step {keys}\n"
            f"        iter_args({carried}) -> ({types}) : i32"
        )
        with w.block(header, f"}} {{async_pipe.num_stages = {self.stages} : i64}}"):
            w.value("j", "arith.index_cast %j32 : i32 to index")
            step = w.constant(self.keys)
            if self.causal:
                row = w.value("row", "arith.subi %q_row, %j : index")
                next_row = w.value("next_row", f"arith.subi {row}, {step} : index")
            else:
                row = w.add("row", "%head_row", "%j")
                next_row = w.add("next_row", row, step)
            FULL.announce(w, self.tiles["K"], self.tiles["V"])
            self.tiles["K"].copy(w, self._at(w, "K", next_row))
            self.tiles["V"].copy(w, self._at(w, "V", row))
            FULL.wait(w, "%phase")
            w.line("nvvm.wgmma.fence.aligned")
            scores = self._scores(w, "K")
            steps = self.output.a.steps
            output = self._output(w, "V", "%o", p, range(steps // 2))
            w.line("nvvm.wgmma.wait.group.sync.aligned 1")
            elements = self._elements(w, scores)
            largest = NVIDIA_SOFTMAX.largest_scores(w, elements, SOFTMAX)
            w.line("nvvm.wgmma.fence.aligned")
            output = self._output(w, "V", output, p, range(steps // 2, steps))
            state, weights, factors = NVIDIA_SOFTMAX.weigh(w, elements, SOFTMAX, largest)
            other = self._hand_over(w, weights, *p[: self.in_memory])
            w.line("nvvm.wgmma.wait.group.sync.aligned 0")
            scaled = self._scaled(w, output, factors)
            w.line("gpu.barrier")
            flip = w.value("flip", "arith.xori %phase, %true : i1")
            w.line(f"scf.yield {', '.join([*state, scaled, flip, *other])} : {types}")

    def _copy(self, w: Writer, full: Mbarrier, name: str, row: str) -> None:
        tile = self.tiles[name]
        full.announce(w, tile)
        tile.copy(w, self._at(w, name, row), full)

    def _at(self, w: Writer, name: str, row: str) -> tuple[str, ...]:
        """Where a tile begins, fastest first: all features from a row on."""
        zero = w.constant(0)
        return (zero, row, zero) if self.tiles[name].has_panels else (zero, row)

    # -- products ------------------------------------------------------------------------------

    def _scores(self, w: Writer, keys: str) -> str:
        steps = range(self.scores.a.steps)
        return self._group(w, self.scores, "", keys, "%no_scores", steps, adds=False)

    def _output(
        self, w: Writer, values: str, sums: str, p: list[str], steps: range | None = None
    ) -> str:
        """O += P V, of some steps of keys or of all."""
        product = self.output
        steps = steps or range(product.a.steps)
        if self.in_memory:
            at = w.mul("slot_at", p[0], self._p.bytes)
            return self._group(w, product, at, values, sums, steps, adds=True)
        right = self.tiles[values].descriptor(w)
        for step in steps:
            factors = p[4 * step : 4 * step + 4]
            sums = product.issue_from_registers(w, factors, product.b.moved(w, right, step), sums)
        w.line("nvvm.wgmma.commit.group.sync.aligned")
        return sums

    def _group(
        self, w: Writer, product: Product, at: str, right: str, sums: str, steps: range, adds: bool
    ) -> str:
        """Steps of k of a product, A from byte `at` of its tiles on, as a group that is left in flight."""
        if self.warpgroups > 1:
            part = product.a.of_group(w, MMA_M)
            at = w.add("part_at", at, part) if at else part
        a, b = product.a.descriptor(w, further=at), self.tiles[right].descriptor(w)
        for step in steps:
            left = product.a.moved(w, a, step)
            right_at = product.b.moved(w, b, step)
            sums = product.issue(w, left, right_at, sums, adds or step > 0)
        w.line("nvvm.wgmma.commit.group.sync.aligned")
        return sums

    # -- registers -----------------------------------------------------------------------------

    def _places(self, w: Writer) -> None:
        """Where a thread's elements stand: sum 4 j + 2 h + c is row 16 * warp + lane / 4 + 8 h, column
        8 j + 2 (lane % 4) + c (PTX ISA, wgmma: matrix D)."""
        lane = w.rem("lane", "%tid", 32)
        warp = w.div("warp", "%tid", 32)
        if self.warpgroups > 1:
            warpgroup_number(w)
        w.div("lane_row", lane, 4)
        # Warps number the rows of all warpgroups, 16 each.
        w.add("thread_row", w.mul("warp_row", warp, 16), "%lane_row")
        w.mul("pair", w.rem("quad", lane, 4), 2)

    def _elements(self, w: Writer, scores: str) -> dict[Place, str]:
        return {
            (number, half, element): w.value(
                "score",
                f"llvm.extractvalue {scores}[{4 * number + 2 * half + element}] : "
                f"{self.scores.struct}",
            )
            for number in range(self.keys // 8)
            for half, element in PAIRS
        }

    def _masked(self, w: Writer, elements: dict[Place, str]) -> dict[Place, str]:
        """The scores of the tile on the diagonal: none for keys after the row's own position."""
        masked = {}
        for (number, half, element), score in elements.items():
            key = w.add("key", "%pair", w.constant(8 * number + element))
            row = w.add("own_row", "%thread_row", w.constant(8 * half))
            seen = w.value("seen", f"arith.cmpi ule, {key}, {row} : index")
            kept = w.value("kept", f"arith.select {seen}, {score}, %low : f32")
            masked[number, half, element] = kept
        return masked

    def _hand_over(self, w: Writer, weights: dict[Place, str], slot: str = "") -> list[str]:
        """P as the next product takes it: the registers of A, or the slot of workgroup memory after `slot`."""
        pairs = {
            (number, half): self._halves(w, weights, number, half)
            for number in range(self.keys // 8)
            for half in (0, 1)
        }
        if self.in_memory:
            return [self._store_weights(w, pairs, slot)]
        # Of 16 keys a lane has in four registers: 8 keys of both rows, then the other 8 (PTX ISA, wgmma: matrix A).
        return [
            w.value("p", f"llvm.bitcast {pair} : vector<2xf16> to i32") for pair in pairs.values()
        ]

    def _halves(self, w: Writer, weights: dict[Place, str], number: int, half: int) -> str:
        pair = ", ".join(weights[number, half, element] for element in (0, 1))
        both = w.value("both", f"vector.from_elements {pair} : vector<2xf32>")
        return w.value("halves", f"arith.truncf {both} : vector<2xf32> to vector<2xf16>")

    def _store_weights(self, w: Writer, pairs: dict[tuple[int, int], str], slot: str) -> str:
        """P to workgroup memory, as descriptors of 128-byte lines read it: chunk j of 8 keys of a row
        lies where j xor row % 8 says, in the panel of its 64 keys. wgmma sees it after this fence and
        a barrier."""
        if slot:
            slot = w.value("other_slot", f"arith.xori {slot}, {w.constant(1)} : index")
        else:
            slot = w.constant(0)
        tile = self._p
        chunk = w.rem("swizzle", "%lane_row", LINES)
        for (number, half), p in pairs.items():
            panel, chunk_number = divmod(number, LINES)
            place = chunk
            if chunk_number:
                place = w.value("chunk", f"arith.xori {chunk}, {w.constant(chunk_number)} : index")
            column = w.add("column", w.mul("chunk_at", place, 8), "%pair")
            row = w.add("p_row", "%thread_row", w.constant(8 * half))
            at = [slot, *([w.constant(panel)] if tile.has_panels else []), row, column]
            w.line(f"vector.store {p}, %P_shared[{', '.join(at)}] : {tile.buffer}, vector<2xf16>")
        w.line(PROXY_FENCE)
        return slot

    def _scaled(self, w: Writer, sums: str, factors: list[str]) -> str:
        """All sums by the factors of their rows."""
        kind, made = self.output.struct, "%no_sums"
        for number in range(self.output.registers):
            value = w.value("sum", f"llvm.extractvalue {sums}[{number}] : {kind}")
            scaled = w.value("scaled", f"arith.mulf {value}, {factors[number // 2 % 2]} : f32")
            made = w.value("sums", f"llvm.insertvalue {scaled}, {made}[{number}] : {kind}")
        return made

    def _store(self, w: Writer, sums: str) -> None:
        """O divided by l."""
        factors = NVIDIA_SOFTMAX.inverse_sums(w, ["%done#2", "%done#3"])
        row = w.add("o_row", "%block_row", "%thread_row")
        for half in range(2):
            at = w.add("r", row, w.constant(8 * half))
            for number in range(self.features // 8):
                pair = [
                    w.value(
                        "x",
                        f"llvm.extractvalue {sums}[{4 * number + 2 * half + element}] : "
                        f"{self.output.struct}",
                    )
                    for element in (0, 1)
                ]
                pair = [w.value("y", f"arith.mulf {x}, {factors[half]} : f32") for x in pair]
                both = w.value("v", f"vector.from_elements {', '.join(pair)} : vector<2xf32>")
                column = w.add("c", "%pair", w.constant(8 * number))
                w.line(
                    f"vector.store {both}, %O[%head, {at}, {column}] {{alignment = 8 : i64}} : "
                    f"{self._o}, vector<2xf32>"
                )


def main() -> None:
    """Print the kernel that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, choices=(64, 128), default=64)
    parser.add_argument("--keys", type=int, choices=(64, 128), default=64)
    parser.add_argument("--warpgroups", type=int, default=1)
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--weights", choices=("registers", "memory"), default="registers")
    arguments = parser.parse_args()
    made = HopperAttention(**vars(arguments))
    if made.problems():
        parser.error("; ".join(made.problems()))
    print(made.module(), end="")


if __name__ == "__main__":
    main()
