"""The tile operations of the GEMM on NVIDIA tensor cores: cp.async, ldmatrix, mma.sync.

Fragment layouts are those of the PTX ISA ("Matrix multiply-accumulate operation using mma
instruction", "Warp-level matrix load instruction: ldmatrix"). Both operands stand in shared
memory with k along the rows, so that `ldmatrix` needs no transposition, which only 16-bit
types have. Element sizes differ, but 16 bytes of k are always one row of an 8x8 matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_text import Writer
from tile_copies import CHUNK_BYTES, elements_inside, group_and_wait, swizzled_chunk

LANES = 32
MMA_M, MMA_N = 16, 8


@dataclass(frozen=True)
class ElementTypes:
    """Operand and accumulator type, operand bytes, and the k of one mma.sync (32 bytes)."""

    operand: str
    accumulator: str
    bytes: int
    mma_attributes: str = ""

    @property
    def mma_k(self) -> int:
        """Elements along k of one mma: 16 of f16, 8 of tf32, 32 of s8."""
        return 2 * CHUNK_BYTES // self.bytes


TYPES = {
    "f16": ElementTypes("f16", "f32", 2),
    "bf16": ElementTypes("bf16", "f32", 2),
    "tf32": ElementTypes("f32", "f32", 4, ", tf32Enabled"),
    "s8": ElementTypes("i8", "i32", 1),
}


@dataclass(frozen=True)
class LanePlaces:
    """Where a lane reads fragments of A and of B: its row in the warp's part, its 16-byte
    chunk in a row, and its row in the tile."""

    a: tuple[str, str, str]
    b: tuple[str, str, str]


@dataclass(frozen=True)
class NvidiaTiles:
    """Copies, fragments and multiplications of one warp tile of `warp_m` x `warp_n`."""

    types: ElementTypes
    tile_k: int
    threads: int
    warp_m: int
    warp_n: int
    residual: bool = False

    @property
    def lanes(self) -> int:
        """Threads of a warp."""
        return LANES

    @property
    def chunk(self) -> int:
        """Elements of one 16-byte copy."""
        return CHUNK_BYTES // self.types.bytes

    @property
    def chunks_in_row(self) -> int:
        """16-byte chunks of one row of a tile."""
        return self.tile_k // self.chunk

    @property
    def accumulator_type(self) -> str:
        """The part of one 16x8 accumulator tile that a lane holds."""
        return f"vector<2x2x{self.types.accumulator}>"

    @property
    def accumulator_zero(self) -> str:
        """The attribute of a zero accumulator."""
        return "dense<0>" if self.types.accumulator.startswith("i") else "dense<0.0>"

    @property
    def accumulators(self) -> int:
        """Accumulator tiles of a warp."""
        return (self.warp_m // MMA_M) * (self.warp_n // MMA_N)

    def problems(self, rows: tuple[int, int]) -> list[str]:
        """Why these tiles (of `rows` rows) cannot be made, [] if they can."""
        found = []
        if self.tile_k % self.types.mma_k or self.tile_k & (self.tile_k - 1):
            found.append(f"tile-k must be a power of two and a multiple of {self.types.mma_k}")
        elif any(row * self.chunks_in_row % self.threads for row in rows):
            found.append(f"{self.threads} threads cannot share the 16-byte copies of a tile evenly")
        if self.warp_m % MMA_M or self.warp_n % (2 * MMA_N):
            found.append("tile-m and tile-n must give each warp multiples of 16 rows and columns")
        return found

    def copy_tile(
        self,
        w: Writer,
        shared: tuple[str, str],
        source: tuple[str, str],
        rows: int,
        at: tuple[str, str],
        bounds: tuple[str, str] | None,
    ) -> list[str]:
        """Issue this thread's copies of a tile of `rows` rows; returns the copies' tokens.

        `shared` and `source` are (value, type), `at` is the tile's first (row, column) in the
        source. With `bounds` (rows, columns of the source) what lies outside becomes zero.
        """
        tokens = []
        step = self.threads // self.chunks_in_row
        name = shared[0].lstrip("%").split("_")[0]
        first = w.div(f"{name}_copy_row", "%tid", self.chunks_in_row)
        chunk = w.rem(f"{name}_copy_chunk", "%tid", self.chunks_in_row)
        column = w.add(f"{name}_column", at[1], w.mul(f"{name}_offset", chunk, self.chunk))
        shared_turn = self._swizzled(w, chunk, first) if step % 8 == 0 else None
        for number in range(rows // step):
            row = w.add(f"{name}_row", first, w.constant(number * step))
            slot = shared_turn or self._swizzled(w, chunk, row)
            source_row = w.add(f"{name}_source_row", at[0], row)
            copied = f"{shared[0]}[{row}, {slot}]"
            elements = elements_inside(w, (source_row, column), bounds, self.chunk)
            tokens.append(
                w.value(
                    f"{name}_copy",
                    f"nvgpu.device_async_copy {source[0]}[{source_row}, {column}], {copied}, "
                    f"{self.chunk}{elements} {{bypassL1}} : {source[1]} to {shared[1]}",
                )
            )
        return tokens

    def group_and_wait(self, w: Writer, groups: list[list[str]]) -> None:
        """Commit each list of copies as one group and wait for all of them."""
        group_and_wait(w, groups)

    def multiply(
        self,
        w: Writer,
        a: tuple[str, str],
        b: tuple[str, str],
        warp: tuple[str, str],
        accumulators: list[str],
    ) -> list[str]:
        """Multiply the tiles in shared memory; `warp` is the warp's first row of A and of B."""
        lane = self._lane_places(w, warp)
        results = list(accumulators)
        for k in range(self.tile_k // self.types.mma_k):
            w.comment(f"k = {k * self.types.mma_k} .. {(k + 1) * self.types.mma_k - 1} of the tile")
            at = w.constant(2 * k)
            a_slot, b_slot = self._slot(w, "a", lane.a, at), self._slot(w, "b", lane.b, at)
            a_parts = self._load_a(w, a, lane, a_slot)
            results = self._multiply(w, a_parts, self._load_b(w, b, lane, b_slot), results)
        return results

    def multiply_in_loop(
        self,
        w: Writer,
        a: tuple[str, str],
        b: tuple[str, str],
        warp: tuple[str, str],
        accumulators: list[str],
        annotation: str,
    ) -> list[str]:
        """The same as a loop over the tile's k, of three statements: the fragments of A, the
        fragments of B, and their products."""
        lane = self._lane_places(w, warp)
        names = [f"%inner_{i}" for i in range(self.accumulators)]
        types = [self.accumulator_type] * self.accumulators
        carried = ", ".join(f"{n} = {start}" for n, start in zip(names, accumulators, strict=True))
        bounds = f"%kk = {w.constant(0)} to {w.constant(self.chunks_in_row)} step {w.constant(2)}"
        header = f"%tile_sum:{len(names)} = scf.for {bounds}\n        iter_args({carried})"
        with w.block(f"{header} -> ({', '.join(types)})", f"}} {{{annotation}}}"):
            a_types = [self._fragment(4)] * (self.warp_m // MMA_M)
            with w.statement("a_parts", a_types) as yielded:
                yielded += self._load_a(w, a, lane, self._slot(w, "a", lane.a, "%kk"))
            b_types = [self._fragment(2)] * (self.warp_n // MMA_N)
            with w.statement("b_parts", b_types) as yielded:
                yielded += self._load_b(w, b, lane, self._slot(w, "b", lane.b, "%kk"))
            with w.statement("products", types) as yielded:
                a_parts = [f"%a_parts#{i}" for i in range(len(a_types))]
                b_parts = [f"%b_parts#{i}" for i in range(len(b_types))]
                yielded += self._multiply(w, a_parts, b_parts, names)
            results = ", ".join(f"%products#{i}" for i in range(len(types)))
            w.line(f"scf.yield {results} : {', '.join(types)}")
        return [f"%tile_sum#{i}" for i in range(len(types))]

    def _lane_places(self, w: Writer, warp: tuple[str, str]) -> LanePlaces:
        a_row = w.rem("a_lane_row", "%lane", 16)
        a_chunk = w.div("a_lane_chunk", "%lane", 16)
        b_high = w.mul("b_lane_high", w.div("b_lane_half", "%lane", 16), 8)
        b_row = w.add("b_lane_row", b_high, w.rem("b_lane_low", "%lane", 8))
        b_chunk = w.rem("b_lane_chunk", w.div("b_lane_eighth", "%lane", 8), 2)
        return LanePlaces(
            (a_row, a_chunk, w.add("a_warp_row", warp[0], a_row)),
            (b_row, b_chunk, w.add("b_warp_row", warp[1], b_row)),
        )

    def _slot(self, w: Writer, name: str, lane: tuple[str, str, str], at_chunk: str) -> str:
        """The column of a lane's chunk, `at_chunk` chunks into the tile."""
        row, chunk, _ = lane
        return self._swizzled(w, w.add(f"{name}_chunk", chunk, at_chunk), row)

    def _load_a(self, w: Writer, a: tuple[str, str], lane: LanePlaces, slot: str) -> list[str]:
        starts = range(0, self.warp_m, MMA_M)
        return [self._load(w, "a", a, lane.a[2], start, slot) for start in starts]

    def _load_b(self, w: Writer, b: tuple[str, str], lane: LanePlaces, slot: str) -> list[str]:
        parts: list[str] = []
        for start in range(0, self.warp_n, 2 * MMA_N):
            pair = self._load(w, "b", b, lane.b[2], start, slot)
            parts += [self._half(w, pair, half) for half in (0, 1)]
        return parts

    def _multiply(
        self, w: Writer, a_parts: list[str], b_parts: list[str], accumulators: list[str]
    ) -> list[str]:
        results = list(accumulators)
        for number in range(self.accumulators):
            m, n = divmod(number, self.warp_n // MMA_N)
            results[number] = w.value(
                "acc",
                f"nvgpu.mma.sync({a_parts[m]}, {b_parts[n]}, {results[number]}) "
                f"{{mmaShape = [{MMA_M}, {MMA_N}, {self.types.mma_k}]"
                f"{self.types.mma_attributes}}} : ({self._fragment(4)}, {self._fragment(2)}, "
                f"{self.accumulator_type}) -> {self.accumulator_type}",
            )
        return results

    def store(
        self,
        w: Writer,
        result: tuple[str, str],
        at: tuple[str, str],
        accumulators: list[str],
        bounds: tuple[str, str] | None,
    ) -> None:
        """Write the warp's accumulators to the `result` (value, type) from row and column `at`."""
        row = w.add("c_row", at[0], w.div("c_lane_row", "%lane", 4))
        pair = w.mul("c_lane_column", w.rem("c_lane_pair", "%lane", 4), 2)
        column = w.add("c_column", at[1], pair)
        for number, accumulator in enumerate(accumulators):
            m, n = divmod(number, self.warp_n // MMA_N)
            here = w.add("c_at_column", column, w.constant(n * MMA_N))
            for half in (0, 1):
                line = w.add("c_at_row", row, w.constant(m * MMA_M + 8 * half))
                values = w.value(
                    "c_pair",
                    f"vector.extract {accumulator}[{half}] : {self._pair()} from {self.accumulator_type}",
                )
                if self.residual:
                    self._store_with_residual(w, result, (line, here), values)
                elif bounds is None:
                    w.line(
                        f"vector.store {values}, {result[0]}[{line}, {here}] {{alignment = 8 : i64}} "
                        f": {result[1]}, {self._pair()}"
                    )
                else:
                    self._guarded_store(w, result, (line, here), values, bounds)

    def _store_with_residual(
        self, w: Writer, result: tuple[str, str], at: tuple[str, str], values: str
    ) -> None:
        """max(values + bias, 0) + R, rounded; a thread has two columns of a row."""
        zero, wide, pair = (
            w.value("zero", f"arith.constant dense<0.0> : {self._pair()}"),
            self._pair(),
            "vector<2xf16>",
        )
        bias = w.value(
            "bias_pair",
            f"vector.load %bias[{at[1]}] {{alignment = 8 : i64}} : memref<?xf32>, {wide}",
        )
        total = w.value("biased", f"arith.addf {values}, {bias} : {wide}")
        total = w.value("activated", f"arith.maximumf {total}, {zero} : {wide}")
        read = w.value(
            "r_pair",
            f"vector.load %R[{at[0]}, {at[1]}] {{alignment = 4 : i64}} : {result[1]}, {pair}",
        )
        read = w.value("r_wide", f"arith.extf {read} : {pair} to {wide}")
        total = w.value("whole", f"arith.addf {total}, {read} : {wide}")
        total = w.value("rounded", f"arith.truncf {total} : {wide} to {pair}")
        w.line(
            f"vector.store {total}, {result[0]}[{at[0]}, {at[1]}] {{alignment = 4 : i64}} : {result[1]}, {pair}"
        )

    def _guarded_store(
        self,
        w: Writer,
        result: tuple[str, str],
        at: tuple[str, str],
        values: str,
        bounds: tuple[str, str],
    ) -> None:
        inside = w.value("in_row", f"arith.cmpi ult, {at[0]}, {bounds[0]} : index")
        with w.block(f"scf.if {inside}"):
            for element in (0, 1):
                column = w.add("c_element", at[1], w.constant(element))
                inside = w.value("in_column", f"arith.cmpi ult, {column}, {bounds[1]} : index")
                with w.block(f"scf.if {inside}"):
                    value = w.value(
                        "c_value",
                        f"vector.extract {values}[{element}] : "
                        f"{self.types.accumulator} from {self._pair()}",
                    )
                    w.line(f"memref.store {value}, {result[0]}[{at[0]}, {column}] : {result[1]}")

    def _swizzled(self, w: Writer, chunk: str, row: str) -> str:
        """The column at which `chunk` of `row` stands; ldmatrix reads 8 rows at one chunk."""
        return w.mul("swizzled", swizzled_chunk(w, chunk, row, self.chunks_in_row), self.chunk)

    def _load(
        self, w: Writer, name: str, shared: tuple[str, str], base: str, offset: int, slot: str
    ) -> str:
        row = w.add(f"{name}_at_row", base, w.constant(offset))
        return w.value(
            f"{name}_part",
            f"nvgpu.ldmatrix {shared[0]}[{row}, {slot}] "
            f"{{numTiles = 4 : i32, transpose = false}} : {shared[1]} -> {self._fragment(4)}",
        )

    def _half(self, w: Writer, pair: str, half: int) -> str:
        return w.value(
            "b_half",
            f"vector.extract_strided_slice {pair} {{offsets = [{2 * half}], sizes = [2], "
            f"strides = [1]}} : {self._fragment(4)} to {self._fragment(2)}",
        )

    def _fragment(self, registers: int) -> str:
        return f"vector<{registers}x{4 // self.types.bytes}x{self.types.operand}>"

    def _pair(self) -> str:
        return f"vector<2x{self.types.accumulator}>"
