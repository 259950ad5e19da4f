"""Tiles that tensor copies bring into workgroup memory: tensor maps, 64-bit descriptors, `wgmma`.

What the generators for Hopper and Blackwell share. A tile lies in lines of 128 bytes or less, swizzled so: of k
(`by_k`), or of M or N. Where a row has more than 128 bytes, it lies in panels, and the tensor map has
three dimensions: panels, lines, and what a line holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_text import Writer

WARPGROUP = 128
# Rows of one wgmma, bytes of k that it adds up, bytes of the widest swizzled line.
MMA_M, K_BYTES, LINE_BYTES, LINES = 64, 32, 128, 8
TICKS = 10_000_000
SHARED = "#gpu.address_space<workgroup>"
SWIZZLES = {128: 1, 64: 2, 32: 3}
# MLIR's type and bytes of each type of A and B; type of a register of sums, and sums in it.
TYPES = {
    "f16": ("f16", 2),
    "bf16": ("bf16", 2),
    "tf32": ("f32", 4),
    "e4m3": ("f8E4M3FN", 1),
    "e5m2": ("f8E5M2", 1),
    "s8": ("i8", 1),
    "u8": ("i8", 1),
}
# And of C.
ELEMENTS = {**TYPES, "f32": ("f32", 4), "s32": ("i32", 4)}
SUMS = {"f32": ("f32", "f32", 1), "f16": ("vector<2xf16>", "f16", 2), "s32": ("i32", "i32", 1)}


@dataclass(frozen=True)
class Mbarrier:
    """Mbarrier `number` of the `count` of the group %<group>."""

    group: str = "full"
    number: int = 0
    count: int = 1

    @property
    def kind(self) -> str:
        """The type of the group."""
        more = f", num_barriers = {self.count}" if self.count > 1 else ""
        return f"!nvgpu.mbarrier.group<memorySpace = {SHARED}{more}>"

    def at(self, w: Writer) -> str:
        """The operands that name it."""
        return f"%{self.group}[{w.constant(self.number)}]"

    def create(self, w: Writer) -> None:
        """Its group, of which each takes one arrival; by thread 0."""
        w.value(self.group, f"nvgpu.mbarrier.create -> {self.kind}")
        for number in range(self.count):
            w.line(
                f"nvgpu.mbarrier.init %{self.group}[{w.constant(number)}], {w.constant(1)}, "
                f"predicate = %first : {self.kind}"
            )

    def announce(self, w: Writer, *tiles: Tile) -> None:
        """The bytes that the copies of a phase bring."""
        size = w.constant(sum(tile.bytes for tile in tiles))
        w.line(
            f"nvgpu.mbarrier.arrive.expect_tx {self.at(w)}, {size}, predicate = %first : {self.kind}"
        )

    def wait(self, w: Writer, phase: str) -> None:
        """Until the phase is over."""
        w.line(
            f"nvgpu.mbarrier.try_wait.parity {self.at(w)}, {phase}, {w.constant(TICKS)} : {self.kind}"
        )


FULL = Mbarrier()


@dataclass(frozen=True)
class Descriptor:
    """A matrix descriptor: the value of its lower half, and the constant upper one. Addresses are added to
    the lower half alone: in 32 bits that is one instruction, and of a 64-bit sum with all bits ptxas before
    13.1 may lose the upper half (docs/gpu.md)."""

    low: str
    high: int


@dataclass(frozen=True)
class Tile:
    """`rows` of M or N and `depth` k in the buffer %<name>_shared; `tensor` is the map that it is
    copied by, its own where none is named, and `slots` are as many of them; a line has `widest` bytes at
    most."""

    name: str
    types: str
    rows: int
    depth: int
    by_k: bool = True
    tensor: str = ""
    slots: int = 1
    widest: int = LINE_BYTES

    @property
    def element(self) -> str:
        """MLIR's type of an element."""
        return ELEMENTS[self.types][0]

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return ELEMENTS[self.types][1]

    @property
    def line(self) -> int:
        """Bytes of a line."""
        along = self.depth if self.by_k else self.rows
        return min(along * self.element_bytes, self.widest)

    @property
    def lines(self) -> int:
        """Lines of a panel."""
        return self.rows if self.by_k else self.depth

    @property
    def per_line(self) -> int:
        """Elements of a line."""
        return self.line // self.element_bytes

    @property
    def panels(self) -> int:
        """Panels of lines, one after the other."""
        return (self.depth if self.by_k else self.rows) // self.per_line

    @property
    def bytes(self) -> int:
        """Bytes of the tile."""
        return self.rows * self.depth * self.element_bytes

    @property
    def box(self) -> str:
        """What one copy brings; MN-major tiles have panels even where there is one."""
        lines = f"{self.lines}x{self.per_line}"
        return f"{self.panels}x{lines}" if self.has_panels else lines

    @property
    def has_panels(self) -> bool:
        """Whether its tensor map has three dimensions."""
        return self.panels > 1 or not self.by_k

    @property
    def buffer(self) -> str:
        """The type of its memory."""
        slots = f"{self.slots}x" if self.slots > 1 else ""
        return f"memref<{slots}{self.box}x{self.element}, {SHARED}>"

    @property
    def map(self) -> str:
        """The type of its tensor map."""
        return (
            f"!nvgpu.tensormap.descriptor<tensor = memref<{self.box}x{self.element}, 3>, "
            f"swizzle = swizzle_{self.line}b, l2promo = l2promo_128b, oob = zero, interleave = none>"
        )

    def problems(self) -> list[str]:
        """Why no product can read it, [] if one can."""
        if self.line not in SWIZZLES or self.depth * self.element_bytes % K_BYTES:
            return [f"a line of {self.name} has 32, 64 or 128 bytes"]
        if not self.by_k and self.element_bytes != 2:
            return [f"only {self.name} of 16 bits may have k across its lines"]
        return []

    def step(self, number: int) -> int:
        """How far the k of one wgmma is from the first: 32 bytes along a line, then the next panel;
        or as many lines as there are k."""
        if not self.by_k:
            return number * K_BYTES // self.element_bytes * self.line
        panel, along = divmod(number * K_BYTES, self.line)
        return panel * self.lines * self.line + along

    @property
    def steps(self) -> int:
        """Products of 32 bytes of k that it takes."""
        return self.depth * self.element_bytes // K_BYTES

    def copy(self, w: Writer, at: tuple[str, ...], full: Mbarrier = FULL) -> None:
        """The tensor copy of the box at these coordinates, fastest first, by thread 0."""
        w.line(
            f"nvgpu.tma.async.load %{self.tensor or self.name}[{', '.join(at)}], {full.at(w)} to "
            f"%{self.name}_shared, predicate = %first : {self.map}, {full.kind} -> {self.buffer}"
        )

    def descriptor(self, w: Writer, always: int = 0, further: str = "") -> Descriptor:
        """Bits 0 to 13 the address, `further` bytes on, 16 to 29 the offset to the next panel (MN-major), 32
        to 45 that to the next eight lines, all in units of 16 bytes; bits 62 and 63 the swizzle; and those
        that are `always` set."""
        leading = 16 if self.by_k else self.lines * self.line
        bits = leading // 16 << 16 | LINES * self.line // 16 << 32 | SWIZZLES[self.line] << 62
        bits |= always
        low = self.name.lower()
        pointer = w.value(
            f"{low}_pointer",
            f"memref.extract_aligned_pointer_as_index %{self.name}_shared : {self.buffer} -> index",
        )
        if further:
            pointer = w.add(f"{low}_further", pointer, further)
        address = w.value(f"{low}_address", f"arith.index_cast {pointer} : index to i32")
        shifted = w.value(f"{low}_shifted", f"arith.shrui {address}, {i32(w, 4)} : i32")
        place = w.value(f"{low}_place", f"arith.andi {shifted}, {i32(w, 0x3FFF)} : i32")
        first = w.value(f"{low}_low", f"arith.ori {place}, {i32(w, bits & 0xFFFFFFFF)} : i32")
        return Descriptor(first, bits >> 32 << 32)

    def of_group(self, w: Writer, rows: int) -> str:
        """How many bytes on the part of warpgroup %group is, each with so many rows of a K-major tile."""
        return w.mul("rows", "%group", rows * self.line)

    def moved(self, w: Writer, descriptor: Descriptor, step: int, rows: int = 0) -> str:
        """The descriptor of a later step of k, and of later rows of a K-major tile."""
        low, size = descriptor.low, self.step(step) + rows * self.line
        if size:
            low = w.value("step", f"arith.addi {low}, {i32(w, size // 16)} : i32")
        wide = w.value("wide", f"arith.extui {low} : i32 to i64")
        return w.value("matrix", f"arith.ori {wide}, {i64(w, descriptor.high)} : i64")


@dataclass(frozen=True)
class Product:
    """One wgmma of 64 rows of `a` and all of `b`."""

    a: Tile
    b: Tile
    sums: str = "f32"

    @property
    def registers(self) -> int:
        """Registers of sums of a thread."""
        return self.b.rows // 2 // SUMS[self.sums][2]

    @property
    def struct(self) -> str:
        """What a thread holds of the sums."""
        return f"!llvm.struct<({', '.join([SUMS[self.sums][0]] * self.registers)})>"

    def issue(self, w: Writer, left: str, right: str, sums: str, adds: bool = True) -> str:
        """The product of two descriptors; returns the new sums."""
        layout = "col" if self.b.by_k else "row"
        k = K_BYTES // self.a.element_bytes
        overflow = ", <wrapped>" if self.sums == "s32" else ""
        return w.value(
            "product",
            f"nvvm.wgmma.mma_async {left}, {right}, {sums}, <m = {MMA_M}, n = {self.b.rows}, "
            f"k = {k}>, D[<{self.sums}>, <{'one' if adds else 'zero'}>{overflow}], "
            f"A[<{self.a.types}>, <one>, <row>], B[<{self.b.types}>, <one>, <{layout}>] : "
            f"{self.struct} -> {self.struct}",
        )

    def issue_from_registers(self, w: Writer, factors: list[str], right: str, sums: str) -> str:
        """The product of 16 bits whose A stands in four registers, added to the sums. No op says so: it is the instruction itself,
        whose registers of sums are both results and operands (PTX ISA, wgmma.mma_async)."""
        count, letter = self.registers, "f" if self.sums == "f32" else "r"
        results, a, b = range(count), range(2 * count, 2 * count + 4), 2 * count + 4
        lists = ", ".join(f"{{{','.join(f'${n}' for n in part)}}}" for part in (results, a))
        text = (
            "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned."
            f"m{MMA_M}n{self.b.rows}k16.{self.sums}.{self.a.types}.{self.b.types} "
            f"{lists}, ${b}, p, 1, 1, {int(not self.b.by_k)}; }}"
        )
        ties = [f"={letter}"] * count + [str(n) for n in results] + ["r"] * 4 + ["l"]
        before = [
            w.value("before", f"llvm.extractvalue {sums}[{n}] : {self.struct}") for n in results
        ]
        types = ", ".join([SUMS[self.sums][0]] * count + ["i32"] * 4 + ["i64"])
        return w.value(
            "product",
            f'llvm.inline_asm has_side_effects "{text}", "{",".join(ties)}" '
            f"{', '.join([*before, *factors, right])} : ({types}) -> {self.struct}",
        )


def warpgroup_number(w: Writer) -> str:
    """Which warpgroup a thread is in, handed around in its warp: so ptxas knows that all lanes have
    the same one, and keeps descriptors in uniform registers."""
    narrow = w.value(
        "group_i32", f"arith.index_cast {w.div('group_of', '%tid', WARPGROUP)} : index to i32"
    )
    zero, width = i32(w, 0), i32(w, 32)
    w.line(f"%group_same, %group_valid = gpu.shuffle idx {narrow}, {zero}, {width} : i32")
    return w.value("group", "arith.index_cast %group_same : i32 to index")


def i32(w: Writer, number: int) -> str:
    """A constant."""
    return w.value("i32", f"arith.constant {number} : i32")


def i64(w: Writer, number: int) -> str:
    """A constant, in two's complement where it has bit 63."""
    return w.value("i64", f"arith.constant {number - (1 << 64 if number >> 63 else 0)} : i64")


def tensor_maps(w: Writer, *tiles: Tile) -> None:
    """The tensor maps that the kernel is handed as pointers."""
    for tile in tiles:
        w.line(
            f"%{tile.name} = builtin.unrealized_conversion_cast %{tile.name}_map : !llvm.ptr to "
            f"{tile.map}"
        )
