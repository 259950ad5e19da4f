"""What an iteration of a loop of machine code (SASS) consists of.

    HMMA.16816.F32 R4, …     products
    LDSM.16.M88.4 R24, …     fragments
    IMAD.WIDE R2, …          integer

A loop has a longest run without a product: the issue slots in which the warp's tensor core has
nothing new to do. It goes around the end of the loop.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

# The first class whose pattern the opcode begins with.
CLASSES = (
    ("products", r"[HIQD]?(?:G|BG|O)?MMA\b"),
    ("fragments", r"LDSM\b"),
    ("copies", r"LDGSTS\b"),
    ("commits", r"LDGDEPBAR\b"),
    ("waits", r"DEPBAR\b"),
    ("barriers", r"BAR\b"),
    ("branches", r"BRA\b|EXIT\b|BSYNC\b|BSSY\b|WARPSYNC\b"),
    ("moves", r"IMAD\.MOV|U?MOV\b|U?SEL\b|U?PRMT\b|R2UR\b|S2U?R\b|CS2R\b"),
    ("predicates", r"U?ISETP\b|U?PLOP3\b|FSETP\b|HSETP2\b|VOTEU?\b"),
    ("integer", r"U?(?:IMAD|IADD3?|VIADD|LEA|LOP3?|SHF|IABS|IMNMX|BMSK|SGXT|POPC|FLO)\b"),
    ("memory", r"(?:LD|ST|RED|ATOM)[GSLC]?\b"),
    ("shuffles", r"SHFL\b"),
    ("floating point", r"(?:F|H|D|MUFU|I2|F2)\w*\b"),
)
_OPCODE = re.compile(r"^(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)")


@dataclass(frozen=True)
class Iteration:
    """One iteration: its instructions by class, and the longest run without a product."""

    classes: dict[str, int]
    run: int

    @property
    def all(self) -> int:
        return sum(self.classes.values())

    @property
    def products(self) -> int:
        return self.classes.get("products", 0)


def iteration(body: tuple[str, ...]) -> Iteration:
    """Count the instructions of a loop's body."""
    found = [class_of(text) for text in body]
    return Iteration(dict(Counter(found)), longest_run(found))


def class_of(text: str) -> str:
    match = _OPCODE.match(text)
    opcode = match["opcode"] if match else ""
    return next((name for name, pattern in CLASSES if re.match(pattern, opcode)), "other")


def longest_run(classes: list[str]) -> int:
    """Issue slots from one product to the next, at most; all where there is none."""
    places = [number for number, name in enumerate(classes) if name == "products"]
    if not places:
        return len(classes)
    following = [*places[1:], places[0] + len(classes)]
    return max(after - place - 1 for place, after in zip(places, following, strict=True))


def main_loop(bodies: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """The loop that copies and has the most products: the pipelined one, not its fall-back."""
    return max(
        bodies,
        key=lambda body: (
            any(class_of(text) == "copies" for text in body),
            sum(class_of(text) == "products" for text in body),
            len(body),
        ),
    )
