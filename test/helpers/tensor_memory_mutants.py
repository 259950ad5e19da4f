"""Random kernels of products in tensor memory whose warps have roles, right ones by hand or by the expander,
and mutants of them made by program: a part or a line left out, a number, a phase or an mbarrier changed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from helpers.machine_programs import parse
from helpers.tensor_memory_kernels import BlackwellGemm, arguments_of
from helpers.tensor_role_kernels import MUTANTS, RoleGemm
from mlir_async_pipe import pipeline

# What a mutant may leave out.
_LINE = re.compile(
    r"nvgpu\.mbarrier\.(?:init|try_wait|arrive(?:\.expect_tx)?)|nvgpu\.tma\.async\.load"
    r"|nvvm\.tcgen05\.(?:commit|wait|fence)|nvvm\.fence\.mbarrier|gpu\.barrier|nvvm\.barrier|bar\.warp\.sync"
)


@dataclass(frozen=True)
class TensorKernel:
    """A kernel as text, for `tiles` tiles of C beside each other that one block computes, if it is persistent, with
    `depth` lines of k."""

    made: str
    gemm: BlackwellGemm
    depth: int
    tiles: int
    specialised: bool = True
    grid: int = 1

    @property
    def threads(self) -> int:
        """Of the block."""
        (found,) = re.findall(r"known_block_size = array<i32: (\d+)", self.made)
        return int(found)

    def text(self) -> str:
        """The module."""
        return self.made

    def arguments(self) -> list[Any]:
        """What the machine is handed, anew."""
        return arguments_of(self.gemm, self.depth * self.gemm.line, (1, self.tiles))


def random_gemm(draw: random.Random) -> BlackwellGemm:
    """A loop with roles as a front end writes it; in two of three there is a loop around."""
    types, b = draw.choice(
        [("f16", "k"), ("f16", "k"), ("bf16", "n"), ("tf32", "k"), ("e4m3", "k")]
    )
    return BlackwellGemm(
        tile_m=draw.choice((128, 128, 256)),
        tile_n=64 if b == "n" else 32,
        types=types,
        b=b,
        stages=draw.choice((2, 2, 3, 4)),
        persistent=draw.random() < 0.65,
        swizzle=draw.choice((64, 128, 128)),
        roles="specialised",
    )


def provable(gemm: BlackwellGemm) -> BlackwellGemm:
    """With two slots in tile after tile: of more there are more states than the checker follows."""
    return replace(gemm, stages=2) if gemm.persistent else gemm


@cache
def pipelined(gemm: BlackwellGemm) -> str:
    """What the expander makes of it."""
    module = parse(gemm.module())
    pipeline(module, check="none", target="nvvm:sm_100a")
    return str(module)


def versions(text: str, gemm: BlackwellGemm) -> int:
    """Of the sums: the columns that are taken, in those of one."""
    (columns,) = re.findall(r"tcgen05\.alloc %\w+, %c(\d+)_i32", text)
    return int(columns) // gemm.columns


def random_tensor_kernel(seed: int) -> TensorKernel:
    """A right kernel: every other one written by hand."""
    draw = random.Random(f"tensor memory {seed}")
    depth = draw.choice((0, 1, 2, 3, 5))
    if draw.random() < 0.5:
        slots, accumulators = draw.choice(((1, 1), (2, 1), (1, 2), (2, 2), (3, 2), (2, 4)))
        tiles = draw.choice((1, 2, 3, 5))
        known = draw.random() < 0.5 or slots * accumulators > 4
        # It loads the sums of no products, too, which nobody wrote.
        depth = max(1, depth)
        counted = (tiles, depth) if known else None
        gemm = RoleGemm(slots=slots, accumulators=accumulators, counted=counted)
        return TensorKernel(gemm.module(), gemm, depth, tiles)
    gemm = provable(random_gemm(draw))
    return TensorKernel(
        pipelined(gemm), gemm, depth, draw.choice((1, 2, 3)) if gemm.persistent else 1
    )


def tensor_mutant(seed: int, draw: random.Random) -> tuple[str, TensorKernel, str]:
    """A kind of mutant, the kernel, and its text, which need not parse."""
    kind = draw.choice(("part", "line", "line", "change", "change"))
    if kind == "part":
        right = RoleGemm(counted=(5, 3))
        name = draw.choice(sorted(MUTANTS))
        wrong = right.changed(**MUTANTS[name][0])
        return f"tensor memory: {name}", TensorKernel(right.module(), right, 3, 5), wrong.module()
    kernel = random_tensor_kernel(seed)
    while not kernel.depth:
        seed += 10**9
        kernel = random_tensor_kernel(seed)
    # More tiles than slots, and than versions of the sums.
    if not isinstance(kernel.gemm, RoleGemm):
        kernel = replace(kernel, depth=5, tiles=4 if kernel.gemm.persistent else 1)
    text = kernel.text()
    if kind == "line":
        lines = text.split("\n")
        number = draw.choice([n for n, line in enumerate(lines) if _LINE.search(line)])
        found = _LINE.search(lines[number])
        assert found is not None
        left = "\n".join(lines[:number] + lines[number + 1 :])
        return f"tensor memory: no {found[0]}", kernel, left
    name = draw.choice(sorted(CHANGES))
    return f"tensor memory: {name}", kernel, CHANGES[name](text, draw)


# -- changes ---------------------------------------------------------------------------------------

Change = Callable[[str, random.Random], str]


def _one(pattern: str, new: str | Callable[[re.Match[str], random.Random], str]) -> Change:
    """One of the places that match, changed."""

    def change(text: str, draw: random.Random) -> str:
        places = list(re.finditer(pattern, text))
        if not places:
            return text
        found = draw.choice(places)
        made = found.expand(new) if isinstance(new, str) else new(found, draw)
        return text[: found.start()] + made + text[found.end() :]

    return change


def _other_mbarriers(text: str, draw: random.Random) -> str:
    """A commit, a wait or an arrival names mbarriers of another group of as many."""
    groups = re.findall(
        r"(%\w+) = nvgpu\.mbarrier\.create -> (?:!nvgpu\.mbarrier\.group)?<[^>]*>?[^\n]*", text
    )
    places = list(
        re.finditer(r"(?:mbarrier\.get|try_wait\.parity|mbarrier\.arrive) (%\w+)\[", text)
    )
    found = draw.choice(places)
    other = draw.choice([group for group in groups if group != found[1]])
    return text[: found.start(1)] + other + text[found.end(1) :]


def _early(text: str, draw: random.Random) -> str:
    """The columns are given back before the meeting that follows the loads."""
    found = re.search(
        r"\n *scf\.if %\w+ \{\n(?:[^\n{}]*\n)?[^\n]*tcgen05\.dealloc[^\n]*\n *\}", text
    )
    assert found is not None
    left = text[: found.start()] + text[found.end() :]
    waits = [m.start() for m in re.finditer(r"\n[^\n]*nvvm\.tcgen05\.wait <load>", left)]
    meets = [m.start() for m in re.finditer(r"\n[^\n]*nvvm\.barrier [^\n]*", left)]
    at = (waits or meets)[-1]
    return left[:at] + found[0] + left[at:]


def _number(found: re.Match[str], draw: random.Random) -> str:
    old = int(found[2])
    return f"{found[1]}{draw.choice((old + 1, old - 1 or old + 2, 2 * old))}{found[3]}"


CHANGES: dict[str, Change] = {
    "other parity": _one(r"(try_wait\.parity %\w+\[%\w+\], )%\w+", r"\1%true"),
    "the first parity": _one(r"(try_wait\.parity %\w+\[%\w+\], )%\w+", r"\1%false"),
    "a phase never flips": _one(
        r"(= arith\.)xori( %\w+, )(%\w+)( : i1)", lambda m, _: f"{m[1]}andi{m[2]}%true{m[4]}"
    ),
    "a slot never changes": _one(
        r"(= arith\.select %\w+, )(%\w+), (%\w+)( : index)", r"\1\2, \2\4"
    ),
    "wrong bytes": _one(r"(expect_tx %\w+\[%\w+\], )%\w+", r"\1%c128"),
    "other mbarriers": _other_mbarriers,
    "the first of the mbarriers": _one(
        r"((?:mbarrier\.get|try_wait\.parity|arrive|expect_tx) %\w+)\[%\w+\]", r"\1[%c0]"
    ),
    "other arrivals": _one(r"(mbarrier\.init %\w+\[%\w+\], )%\w+", r"\1%c32"),
    "all lanes": _one(r"nvvm\.elect\.sync -> i1", "arith.constant true"),
    "columns given back early": _early,
    # Of the tiles there are as many as the caller has memory for.
    "another bound": _one(r"((?<!%tiles = )arith\.constant )(\d)( : index)", _number),
}
