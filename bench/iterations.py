"""What an iteration of a loop of machine code consists of: SASS of NVIDIA, AMDGCN of AMD.

    HMMA.16816.F32 R4, …     v_mfma_f32_32x32x8_f16 …      products
    LDSM.16.M88.4 R24, …     ds_read_b128 …                fragments
    IMAD.WIDE R2, …          v_add_u32 …                   integer

A loop has a longest run without a product: the issue slots in which the warp's tensor core has
nothing new to do. It goes around the end of the loop. A loop that its compiler unrolled counts as
many iterations as its products are worth, or without products, on NVIDIA, as it has waits for copies: `num_stages`
writes one in each.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from math import prod

# The first class whose pattern the opcode begins with.
SASS = (
    ("products", r"[HIQD]?(?:G|BG|O)?MMA\b"),
    ("fragments", r"LDSM\b"),
    ("copies", r"LDGSTS\b|UTMALDG\b"),
    ("commits", r"LDGDEPBAR\b|SYNCS\.ARRIVE\b"),
    ("waits", r"(?:WARPGROUP\.)?DEPBAR\b|SYNCS\.PHASECHK\b"),
    ("barriers", r"BAR\b"),
    ("branches", r"BRA\b|EXIT\b|BSYNC\b|BSSY\b|WARPSYNC\b"),
    ("moves", r"IMAD\.MOV|U?MOV\b|U?SEL\b|U?PRMT\b|R2UR\b|S2U?R\b|CS2R\b"),
    ("predicates", r"U?ISETP\b|U?PLOP3\b|FSETP\b|HSETP2\b|VOTEU?\b"),
    ("integer", r"U?(?:IMAD|IADD3?|VIADD|LEA|LOP3?|SHF|IABS|IMNMX|BMSK|SGXT|POPC|FLO)\b"),
    ("memory", r"(?:LD|ST|RED|ATOM)[GSLC]?\b"),
    ("floating point", r"(?:F|H|D|MUFU|I2|F2)\w*\b"),
)
AMDGCN = (
    ("products", r"v_mfma|v_smfmac|v_wmma"),
    ("copies", r"(?:global|buffer)_load_(?:lds|async)|(?:global|buffer)_load\w*(?=.*\blds\b)"),
    ("fragments", r"ds_(?:read|load)"),
    ("LDS writes", r"ds_(?:write|store)"),
    ("waits", r"s_wait"),
    ("barriers", r"s_barrier"),
    ("branches", r"s_c?branch"),
    ("memory", r"global_|buffer_|flat_|scratch_"),
    ("moves", r"v_mov|v_accvgpr|s_mov"),
    ("scalar", r"s_"),
    ("vector", r"v_"),
)
TABLES = {"nvvm": SASS, "rocdl": AMDGCN}
NAMES = tuple(dict.fromkeys(name for table in TABLES.values() for name, _ in table))

_PREDICATE = re.compile(r"^@!?U?P\w+\s+")
_SASS_SHAPE = {"16816": 16 * 8 * 16, "1688": 16 * 8 * 8, "16832": 16 * 8 * 32, "1684": 16 * 8 * 4}
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)|MMA\.(\d+)(?!\d*x)")
_WAIT = re.compile(r"DEPBAR\.LE (?:SB0|gsb0), (0x[0-9a-f]+)|vmcnt\((\d+)\)|s_wait_asynccnt (\w+)")


@dataclass(frozen=True)
class Iteration:
    """One iteration: its instructions by class (fractions where a loop is unrolled), the longest
    run without a product, and the groups or copies that each wait leaves in flight."""

    classes: dict[str, float]
    run: int
    waits: tuple[int, ...]

    @property
    def all(self) -> float:
        return round(sum(self.classes.values()), 2)

    @property
    def products(self) -> float:
        return self.classes.get("products", 0)


def iteration(body: tuple[str, ...], vendor: str, multiplications: int = 0) -> Iteration:
    """Count the instructions of a loop's body. `multiplications` are those of a warp in one
    iteration, 0 if it has none, or is not unrolled."""
    found, waits = [class_of(text, vendor) for text in body], waits_in(body)
    times = sum(map(worth, body)) / multiplications if multiplications else 1
    if "products" not in found and vendor == "nvvm":
        times = len(waits)
    counts = {name: round(count / (times or 1), 2) for name, count in Counter(found).items()}
    return Iteration(counts, longest_run(found), waits)


def waits_in(body: tuple[str, ...]) -> tuple[int, ...]:
    """What each wait of a loop's body leaves in flight."""
    return tuple(
        int(next(filter(None, match.groups())), 0)
        for text in body
        if (match := _WAIT.search(text)) is not None
    )


def class_of(text: str, vendor: str) -> str:
    opcode = _PREDICATE.sub("", text)
    return next((name for name, pattern in TABLES[vendor] if re.match(pattern, opcode)), "other")


def worth(text: str) -> int:
    """The multiplications of one instruction of a warp."""
    shape = _SHAPE.search(text.split()[0] if text[0] != "@" else text)
    if shape is None or ("mma" not in text.lower() and "mfma" not in text):
        return 0
    return _SASS_SHAPE[shape[4]] if shape[4] else prod(map(int, shape.groups()[:3]))


def longest_run(classes: list[str]) -> int:
    """Issue slots from one product to the next, at most; all where there is none."""
    places = [number for number, name in enumerate(classes) if name == "products"]
    if not places:
        return len(classes)
    following = [*places[1:], places[0] + len(classes)]
    return max(after - place - 1 for place, after in zip(places, following, strict=True))


def _is_around(body: tuple[str, ...], other: tuple[str, ...]) -> bool:
    starts = range(len(body) - len(other) + 1)
    return body != other and any(body[n : n + len(other)] == other for n in starts)


def main_loop(bodies: tuple[tuple[str, ...], ...], vendor: str) -> tuple[str, ...]:
    """The loop that copies, leaves the most in flight, and has the fewest barriers for its products:
    the pipelined one, not its fall-back, which may be unrolled. What jumps on without a condition
    only looks like a loop: a block that was moved behind another. Where warps of their own copy, the
    loop that gives slots back counts as one that copies, and it has the products. A loop around one that
    copies and multiplies is that of the tiles."""
    copying = [
        body
        for body in bodies
        if {"copies", "products"} <= {class_of(text, vendor) for text in body}
    ]

    def rank(body: tuple[str, ...]) -> tuple[bool, int, bool, int, float, int, int]:
        found = Counter(class_of(text, vendor) for text in body)
        jumps = sum(text.startswith(("s_branch", "BRA")) for text in body)
        products = found["products"]
        in_flight = max(waits_in(body), default=0) if found["copies"] else 0
        barriers = found["barriers"] / (products or 1)
        gives_back = any(".A1T0" in text for text in body)
        return (
            bool(found["copies"]) or gives_back,
            not any(_is_around(body, other) for other in copying),
            -jumps,
            bool(products),
            in_flight,
            -barriers,
            products,
            # Of two versions by strides the one for which the shorter code was written (AMD); of two by trip counts the
            # longer, which loads fragments ahead (NVIDIA).
            len(body) if vendor == "nvvm" else -len(body),
        )

    return max(bodies, key=rank)
