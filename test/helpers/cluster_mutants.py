"""Random kernels whose blocks of a cluster copy for each other, and mutants of them: written by hand or by
the expander, with a line left out or a number changed."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from helpers import cluster_rings
from helpers.cluster_loops import MEET, ClusterLoop
from mlir_async_pipe import pipeline

_LINE = re.compile(
    r"nvgpu\.mbarrier\.(?:init|try_wait|arrive)|nvgpu\.tma\.async\.load|nvvm\.mbarrier\.arrive"
    r"|nvvm\.fence|nvvm\.cluster\.(?:arrive|wait)|gpu\.barrier"
)
# What is counted in blocks, and what chooses one: changed to its neighbours.
_NUMBER = re.compile(r"arith\.constant (-?\d+) : (index|i16|i32)|_cluster_size = array<i32: (\d)")
_ONE = "%part = arith.constant 0 : index"
_ALL = "%mask = arith.constant {} : i16"


@dataclass(frozen=True)
class ClusterKernel:
    """A kernel as text, with what it is launched with."""

    made: str
    grid: tuple[int, int]
    threads: int
    given: Any
    specialised: bool = True

    def text(self) -> str:
        """The module."""
        return self.made

    def arguments(self) -> list[Any]:
        """What the machine is handed, anew."""
        return [np.array(one) if isinstance(one, np.ndarray) else one for one in self.given]


def random_cluster(seed: int) -> ClusterKernel:
    """A right kernel: every third one is written by hand."""
    draw = random.Random(f"cluster {seed}")
    if draw.random() < 0.34:
        return _by_hand(draw)
    blocks = draw.choice((2, 2, 3, 4))
    everybody = _ALL.format((1 << blocks) - 1)
    one = draw.randrange(blocks)
    forms: dict[str, dict[str, Any]] = {
        "shares": {"parts": blocks, "mask": everybody},
        "one": {
            "parts": 1,
            "part": _ONE,
            "mask": everybody,
            "more": f"%one = arith.constant {one} : index\n%also = arith.cmpi eq, %row, %one : index",
        },
    }
    form = draw.choice(("shares", "one") if 64 % blocks == 0 else ("one",))
    loop = ClusterLoop(
        (blocks, 1),
        stages=draw.choice((2, 3, 4)),
        tiles=draw.randint(5, 9),
        meets_last=draw.choice(("", MEET)),
        **forms[form],
    )
    given = [loop.source().reshape(-1), np.zeros((blocks, 64), np.float32), loop.tiles]
    return ClusterKernel(_pipelined(loop), loop.shape, 96, given)


@cache
def _pipelined(loop: ClusterLoop) -> str:
    module = loop.parsed()
    pipeline(module, check="none")
    return str(module)


def _by_hand(draw: random.Random) -> ClusterKernel:
    changes = dict(draw.choice(({}, cluster_rings.ISSUED_BY_ONE)))
    if draw.random() < 0.5:
        changes["meet_first"] = cluster_rings.RELAXED
    text = cluster_rings.text(**changes).replace("WG", "#gpu.address_space<workgroup>")
    rows = np.zeros((2, cluster_rings.TILES, cluster_rings.TILE), np.float32)
    return ClusterKernel(text, (2, 1), 64, [cluster_rings.source(), rows])


def _is_changed(line: str) -> bool:
    """Not sizes of tiles: of what threads load and store between barriers the checker says less. Nor
    how many there are: the arrays have no room for more."""
    found = _NUMBER.search(line)
    kept = (21, 32, 63, 64, cluster_rings.TILES)
    return found is not None and (found[3] is not None or int(found[1]) not in kept)


def cluster_mutant(seed: int, draw: random.Random) -> tuple[str, ClusterKernel, str]:
    """A kind of mutant, the kernel, and its text, which need not parse."""
    kernel = random_cluster(seed)
    lines = kernel.text().split("\n")
    if draw.random() < 0.5:
        number = draw.choice([n for n, line in enumerate(lines) if _LINE.search(line)])
        left = lines[number]
        return (
            f"cluster: no {_LINE.findall(left)[0]}",
            kernel,
            "\n".join(lines[:number] + lines[number + 1 :]),
        )
    places = [n for n, line in enumerate(lines) if _is_changed(line)]
    number = draw.choice(places)
    found = _NUMBER.search(lines[number])
    assert found is not None
    group = 1 if found[1] else 3
    old = int(found[group])
    # A loop by steps of 0 has no end.
    new = draw.choice((old + 1, old - 1 or old + 2, 2 * old + 1))
    start, end = found.span(group)
    lines[number] = lines[number][:start] + str(new) + lines[number][end:]
    return f"cluster: {found[2] or 'size'} {old} -> {new}", kernel, "\n".join(lines)
