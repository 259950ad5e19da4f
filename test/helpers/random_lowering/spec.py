"""What a random kernel is, chosen before any text: one frozen dataclass, and its features.

Every kernel is right as it stands: thread t copies chunks of `width` elements into a tile, all
threads wait, and each reads the chunks that another thread copied, computes, and writes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from helpers.random_lowering.element_types import ELEMENTS, Element

BLOCKS = [
    (32, 1, 1), (64, 1, 1), (128, 1, 1), (96, 1, 1), (16, 4, 1), (8, 8, 1), (32, 2, 1),
    (4, 4, 4), (8, 2, 4), (16, 2, 2),
]  # fmt: skip

# Copies that keep only what lies before a bound.
MASKED = ("async-zero-fill", "masked", "transfer-edge", "select", "if")


@dataclass(frozen=True)
class Source:
    """An input: rows of elements, `stride` apart, from element `offset` on, and how it is copied.

    `form` is "static", "dynamic" or "strided". Its first byte is aligned to `align`, which the
    kernel knows by llvm.align where `says_align`.
    """

    copy: str
    form: str
    stride: int
    offset: int
    align: int
    says_align: bool


@dataclass(frozen=True)
class Tile:
    """Workgroup memory: `place` is attribution, alloc or global; rows of `row` elements and
    `pad` more, which are elements of the type, or a stride where `strided`."""

    place: str
    row: int
    pad: int
    strided: bool


@dataclass(frozen=True)
class Spec:
    name: str
    seed: int
    element: Element
    width: int
    block: tuple[int, int, int]
    blocks: int
    copies: int
    inputs: int
    bound: int
    dynamic_bound: bool
    swizzle: int
    sources: tuple[Source, ...]
    tiles: tuple[Tile, ...]
    read: str
    partner: str
    amount: int
    compute: tuple[str, ...]
    call: bool
    carried: bool
    write: str
    trips: int
    dynamic_trips: bool
    unsigned: bool
    outer: int
    attributes: tuple[str, ...]
    explicit: str
    scratch: int
    scratch_element: Element
    scratch_place: str
    smem_limit: int

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def columns(self) -> int:
        return self.copies * self.threads * self.width

    @property
    def copy_bytes(self) -> int:
        return self.width * self.element.bytes

    def features(self) -> set[str]:
        found = {self.element.name, f"{self.copy_bytes} bytes"}
        found |= {f"copy {source.copy}" for source in self.sources}
        found.add(f"{sum(size > 1 for size in self.block) or 1}-D block")
        found |= {tile.place for tile in self.tiles}
        found |= {f"source {source.form}" for source in self.sources}
        flags = {
            "padded tile": any(tile.pad for tile in self.tiles),
            "strided tile": any(tile.strided for tile in self.tiles),
            "offset": any(source.offset for source in self.sources),
            "padded rows": any(source.stride > self.columns for source in self.sources),
            "edge": self.bound < self.columns,
            "dynamic bound": self.dynamic_bound,
            "dynamic trips": self.dynamic_trips,
            "unsigned loop": self.unsigned,
            "call": self.call,
            "carried sum": self.carried,
            "two inputs": self.inputs == 2,
            "two forms of copies": len({source.copy for source in self.sources}) > 1,
            "several blocks": self.blocks > 1,
            "outer loop": self.outer > 1,
            "explicit stages": bool(self.explicit),
            "scratch": self.scratch > 0,
            "smem-limit": self.smem_limit > 0,
            "widened sum": "widen" in self.compute,
        }
        found |= {name for name, holds in flags.items() if holds}
        found |= {text.split("=")[0].strip().split(".")[-1] for text in self.attributes}
        return found


def choose(seed: int, name: str) -> Spec:
    rng = random.Random(seed)
    element = ELEMENTS[rng.choice(
        "f16 f16 bf16 bf16 f32 f32 f32 f64 i8 i8 i16 i32 i32 i64 i1 i4 index".split()
    )]  # fmt: skip
    widths = [w for w in (1, 2, 4, 8, 16) if w * element.bytes <= 16]
    width = rng.choice(widths)
    if element.bits < 8 and rng.random() < 0.8:
        width = 1
    block = rng.choice(BLOCKS)
    threads = block[0] * block[1] * block[2]
    # 1 in 12 kernels needs more than 48 KiB with its versions.
    copies = rng.choice([1, 1, 1, 2, 2, 3]) if rng.random() < 11 / 12 else 8
    columns = copies * threads * width
    inputs = rng.choice([1, 1, 1, 2])
    forms = [_copy(rng, element, width) for _ in range(inputs)]
    if rng.random() < 0.5:
        forms = forms[:1] * inputs
    masked = any(form in MASKED for form in forms)
    bound = rng.randint(0, columns) if masked and rng.random() < 0.8 else columns
    sources = tuple(_source(rng, element, columns, bound, width, form) for form in forms)
    tiles = tuple(_tile(rng, threads, width, copies, element) for _ in range(inputs))
    vector = width > 1
    read = rng.choice(["scalar", "vector", "vector", "transfer", "masked"]) if vector else "scalar"
    explicit = rng.choice(["", "", "", "", "textual", "consumer first", "registers first"])
    if explicit == "registers first":
        explicit = "textual"
    outer = rng.choice([1, 1, 1, 1, 2])
    scratch = rng.choice([0, 0, 0, 0, 100, 4000, 20000, 45000])
    return Spec(
        name=name, seed=seed, element=element, width=width, block=block,
        blocks=rng.choice([1, 1, 1, 1, 1, 1, 1, 2]), copies=copies, inputs=inputs, bound=bound,
        dynamic_bound=bound < columns and rng.random() < 0.5,
        swizzle=rng.choice([0, 0, 1, 5]) if threads & (threads - 1) == 0 else 0,
        sources=sources, tiles=tiles, read=read,
        partner=rng.choice(["own", "reverse", "xor", "rotate"]), amount=rng.randint(1, threads - 1),
        compute=_compute(rng, element), call=rng.random() < 0.12, carried=rng.random() < 0.3,
        write=rng.choice(["scalar", "vector", "vector", "transfer"]) if vector else "scalar",
        trips=rng.choice([0, 1, 2, 3, 4, 4, 5, 5, 6, 7]), dynamic_trips=rng.random() < 0.4,
        unsigned=rng.random() < 0.1, outer=outer,
        attributes=_attributes(rng, explicit), explicit=explicit, scratch=scratch,
        scratch_element=ELEMENTS[rng.choice(["f32", "i8", "f64", "i16", "i1", "i4"])],
        scratch_place=rng.choice(["attribution", "alloc", "global"]),
        smem_limit=rng.choice([0] * 9 + [32768]),
    )  # fmt: skip


def _copy(rng: random.Random, element: Element, width: int) -> str:
    forms = ["scalar", "select", "if"] if width == 1 else [
        "vector", "vector", "masked", "masked", "constant-mask", "transfer", "transfer-edge",
    ]  # fmt: skip
    if width * element.bytes in (4, 8, 16):
        forms += ["async"] * 5 + ["async-zero-fill"] * 3
    form = rng.choice(forms)
    # nvgpu's own verifier asks index for its width, which ends the process.
    if (element.bits < 8 or element.name == "index") and form.startswith("async"):
        return "vector" if width > 1 else "scalar"
    return form


def _source(
    rng: random.Random, element: Element, columns: int, bound: int, width: int, copy: str
) -> Source:
    asserted = width * element.bytes if copy.startswith("async") else element.bytes
    form = rng.choice(["static", "dynamic", "strided", "strided"])
    unit = asserted // element.bytes
    used = bound if copy == "transfer-edge" else columns
    stride, offset = used, 0
    if form == "strided":
        stride += rng.choice([0, 1, 2, 3, 8]) * unit
        offset = rng.choice([0, 0, 1, 3, 4, 8]) * unit
    # Each row of an asserted copy starts aligned.
    stride = -(-stride // unit) * unit
    if form != "strided" and stride != used:
        form = "strided"
    align = max(asserted, rng.choice([element.bytes, element.bytes, 8, 16]))
    return Source(copy, form, stride, offset, align, rng.random() < 0.6)


def _tile(rng: random.Random, threads: int, width: int, copies: int, element: Element) -> Tile:
    place = rng.choice(["attribution", "attribution", "alloc", "global"])
    columns = threads * width * copies
    if rng.random() < 0.5:
        return Tile(place, columns, 0, False)
    row = rng.choice([r for r in (width, 2 * width, 8 * width, 16 * width) if columns % r == 0])
    # A padded row keeps copies aligned.
    pad = rng.choice([0, 1, 2]) * width
    return Tile(place, row, pad, pad > 0 and rng.random() < 0.15)


def _compute(rng: random.Random, element: Element) -> tuple[str, ...]:
    if element.bits < 8:
        return tuple(rng.choices(["xor"], k=rng.randint(0, 1)))
    steps = ["add", "double", "twice", "subtract"] + (
        ["maximum"] if element.name != "index" else []
    )
    found = rng.choices(steps, k=rng.randint(0, 2))
    if element.wide and rng.random() < 0.3:
        found.append("widen")
    return tuple(found)


def _attributes(rng: random.Random, explicit: str) -> tuple[str, ...]:
    found = []
    if not explicit:
        found.append(f"async_pipe.num_stages = {rng.choice([1, 2, 2, 3, 3, 3, 4, 4])} : i64")
    if rng.random() < 0.2:
        found.append(f'async_pipe.epilogue = "{rng.choice(["peel", "predicate"])}"')
    if rng.random() < 0.2:
        found.append(f'async_pipe.short_trip = "{rng.choice(["version", "predicate"])}"')
    if rng.random() < 0.2:
        found.append(f'async_pipe.wait_at = "{rng.choice(["consumer", "iteration"])}"')
    return tuple(found)
