"""Loops of tensor copies that are right by docs/phases.md, and every way to make them wrong: what the
machine finds (one of some codes), by what was changed."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any

from helpers.tensor_kernels import Ring


def drawn(seed: int) -> Ring:
    """A loop that docs/phases.md calls right."""
    draw = random.Random(seed)
    products = draw.random() < 0.3
    specialised = draw.random() < 0.5
    in_flight = draw.choice((0, 1, 2)) if products else 0
    ahead = draw.choice((1, 2, 3))
    least = in_flight + 1 if specialised else ahead + in_flight
    slots = least + draw.choice((0, 0, 1))
    return Ring(
        slots=slots,
        ahead=ahead,
        in_flight=in_flight,
        tiles=draw.randint(0, 3 * slots if not products else slots + 1),
        executions=draw.choice((1, 2, 3)) if not products else 2,
        specialised=specialised,
        reader="products" if products else "loads",
    )


def changed(ring: Ring, **changes: str) -> Ring:
    return dataclasses.replace(
        ring, changes={name.replace("_", " "): text for name, text in changes.items()}
    )


def one_by_one(*rings: tuple[Ring, tuple[dict[str, Any], ...]]) -> Iterator[tuple[Ring, str, Any]]:
    """Each ring with each change of its tables: the ring, the name, the change."""
    for ring, tables in rings:
        for table in tables:
            yield from ((ring, name, changes) for name, (changes, _) in table.items())


EXPECT = "nvgpu.mbarrier.arrive.expect_tx %full[%at], %bytes, predicate = %go : BARS"
HALF = "%half = arith.divui %bytes, %c2 : index\n" + EXPECT.replace("%bytes", "%half")
MORE = "%more = arith.addi %bytes, %c1 : index\n" + EXPECT.replace("%bytes", "%more")
INIT = """scf.for %s = %c0 to %slots step %c1 {
  nvgpu.mbarrier.init WHICH[%s], COUNT, predicate = WHO : BARS
}"""


def init(which: str, count: str, who: str = "%leader") -> str:
    return INIT.replace("WHICH", which).replace("COUNT", count).replace("WHO", who)


# What every form can have wrong, the change, and what the machine finds, one of these codes.
IN_FLIGHT = {"read-in-flight", "uninitialised-read"}
PHASES = {"read-in-flight", "phase-overtaken", "deadlock"}
EVERYWHERE = {
    "no wait": ({"wait": ""}, IN_FLIGHT),
    "wrong parity": ({"first_phase": "%true"}, PHASES | IN_FLIGHT),
    "phase never flips": ({"flip": "%phase_ = arith.ori %phase, %phase : i1"}, PHASES),
    "phases restart": ({"restart": "scf.yield %c0, %phase0 : index, i1"}, PHASES),
    "too few bytes": ({"expect": HALF}, IN_FLIGHT | {"deadlock"}),
    "too many bytes": ({"expect": MORE}, {"deadlock"}),
    "no expect_tx": ({"expect": ""}, {"deadlock"}),
    "two arrivals": ({"expect": f"{EXPECT}\n{EXPECT}"}, {"too-many-arrivals"}),
    "no fence": ({"fence": ""}, {"missing-fence"}),
    "init not visible": ({"barrier_after_init": ""}, {"missing-barrier"}),
    "init by all": ({"init": init("%full", "%c1", "%true")}, {"missing-barrier"}),
    "init counts two": ({"init": init("%full", "%c2")}, {"deadlock"}),
    "no init": ({"init": ""}, {"barrier-not-initialised"}),
    "init again": ({"init": "\n".join([init("%full", "%c1")] * 2)}, {"initialised-again"}),
}
TOGETHER = {
    "no barrier": ({"barrier": ""}, {"missing-barrier", "source-overwritten", "phase-overtaken"}),
    "wrong slot": (
        {"refilled_slot": "%at = arith.ori %slot, %slot : index"},
        {"deadlock", "too-many-arrivals", "overwrite-in-flight"},
    ),
    "expect_tx without the copy": (
        {"expect": EXPECT.replace("predicate = %go", "predicate = %leader")},
        {"deadlock", "too-many-arrivals"},
    ),
}
APART = {
    "no wait for empty": (
        {"wait_empty": ""},
        {"overwrite-in-flight", "missing-barrier", "source-overwritten", "too-many-arrivals"},
    ),
    "wrong parity of empty": ({"first_empty_phase": "%false"}, {"deadlock"}),
    "never given back": ({"arrive": ""}, {"deadlock"}),
    "empty counts too many": ({"init_empty": init("%empty", "%c63")}, {"deadlock"}),
    "empty counts too few": (
        {"init_empty": init("%empty", "%c1")},
        {"too-many-arrivals", "missing-barrier", "source-overwritten", "deadlock"},
    ),
}
PRODUCT = {
    "wait_group too weak": ({"wait_group": "2"}, {"source-overwritten", "missing-barrier"}),
    "accumulators too early": ({"last_wait": ""}, {"read-in-flight"}),
}


def drawn_mutant(seed: int) -> Ring:
    """A right loop with as few slots as it needs, and one part of it wrong; not those changes that
    leave it as right as it was."""
    draw = random.Random(f"mutant {seed}")
    products, specialised = draw.random() < 0.2, draw.random() < 0.5
    in_flight, ahead = draw.choice((1, 2)) if products else 0, draw.choice((1, 2, 3))
    slots = in_flight + 1 if specialised else ahead + in_flight
    ring = Ring(
        slots=slots,
        ahead=ahead,
        in_flight=in_flight,
        # Phases that restart are right after an even number of them in each slot.
        tiles=2 * slots + 1,
        specialised=specialised,
        reader="products" if products else "loads",
    )
    weak = {"wait_group too weak": ({"wait_group": str(in_flight + 1)}, set())}
    tables = [EVERYWHERE, APART if specialised else TOGETHER, {**PRODUCT, **weak}]
    table = draw.choice(tables if products else tables[:2])
    # With V = d the slot that is refilled is the one that was read.
    names = sorted(set(table) - ({"wrong slot"} if slots == ahead else set()))
    return changed(ring, **table[draw.choice(names)][0])
