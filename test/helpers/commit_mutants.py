"""Wrong kernels of products in tensor memory, made from right ones that were pipelined.

Each mutation changes the text of one place; what the checker must call it stands beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable


def _line(text: str, pattern: str, last: bool = False) -> str:
    """The text without the first (or last) line that holds the pattern."""
    lines = text.split("\n")
    found = [number for number, line in enumerate(lines) if re.search(pattern, line)]
    if not found:
        return text
    at = found[-1 if last else 0]
    return "\n".join(lines[:at] + lines[at + 1 :])


def _done(text: str) -> str:
    """The mbarriers of products: those that a commit's address comes from."""
    found = re.search(r"nvgpu\.mbarrier\.get (%\w+)\[", text)
    assert found is not None
    return found[1]


def _full(text: str) -> str:
    found = re.search(r"expect_tx (%\w+)\[", text)
    assert found is not None
    return found[1]


def _waits(text: str) -> list[re.Match[str]]:
    """The waits for products: in the loop first, then after it."""
    done = re.escape(_done(text))
    return list(re.finditer(rf"\n[^\n]*try_wait\.parity {done}\[(%\w+)\], (%\w+)[^\n]*", text))


def _without(text: str, found: re.Match[str]) -> str:
    return text[: found.start()] + text[found.end() :]


def _other_parity(text: str, number: int) -> str:
    found = _waits(text)[number]
    line = found[0].replace(f"], {found[2]},", "], %other,")
    flip = f"\n%one_more = arith.constant true\n%other = arith.xori {found[2]}, %one_more : i1"
    return text[: found.start()] + flip + line + text[found.end() :]


def _other_slot(text: str) -> str:
    """The commit arrives for the slot that is filled next."""
    ahead = _waits(text)[0][1]
    return re.sub(r"(nvgpu\.mbarrier\.get %\w+)\[%\w+\]", rf"\1[{ahead}]", text, count=1)


def _by_warp(text: str) -> str:
    """The warp that allocates issues products, not one of its threads."""
    warp = re.search(r"scf\.if (%\w+) \{(?:(?!scf\.if)[^{])*tcgen05\.alloc", text)
    assert warp is not None
    return re.sub(r"scf\.if %\w+ (\{\n[^{}]*tcgen05\.mma)", rf"scf.if {warp[1]} \1", text, count=1)


def _no_barrier(text: str) -> str:
    """The barrier of the loop, after its commit."""
    commit = text.index("tcgen05.commit")
    return text[:commit] + re.sub(r"\n *gpu\.barrier[^\n]*", "", text[commit:], count=1)


def _drop(pattern: str, last: bool = False) -> Callable[[str], str]:
    return lambda text: _line(text, pattern, last)


# What the checker may call it: where a mutation has several ends, the first on the path.
MUTATIONS: dict[str, tuple[Callable[[str], str], set[str]]] = {
    "no commit": (_drop(r"tcgen05\.commit"), {"deadlock"}),
    "commit for another slot": (
        _other_slot,
        {"deadlock", "too-many-arrivals", "wrong-parity", "source-overwritten", "phase-overtaken"},
    ),
    "commit on the mbarrier of the copies": (
        lambda text: re.sub(r"(mbarrier\.get )%\w+", rf"\1{_full(text)}", text, count=1),
        {"deadlock", "too-many-arrivals", "wrong-bytes", "phase-overtaken"},
    ),
    "the other parity": (
        lambda text: _other_parity(text, 0),
        {"wrong-parity", "deadlock", "source-overwritten", "phase-not-flipped"},
    ),
    "the other parity after the loop": (
        lambda text: _other_parity(text, -1),
        {"wrong-parity", "deadlock", "read-in-flight", "phase-not-flipped"},
    ),
    "no wait before the copies": (
        lambda text: _without(text, _waits(text)[0]),
        {"source-overwritten", "too-many-arrivals"},
    ),
    "no wait before the loads": (lambda text: _without(text, _waits(text)[-1]), {"read-in-flight"}),
    "no fence before the loads": (_drop(r"tcgen05\.fence <after>"), {"missing-tensor-fence"}),
    "no wait for the tile": (
        lambda text: re.sub(rf"\n[^\n]*try_wait\.parity {_full(text)}\[[^\n]*", "", text, count=1),
        {"read-in-flight", "too-many-arrivals"},
    ),
    "a warp issues": (_by_warp, {"several-issuers"}),
    "no fence for the mbarriers": (_drop(r"nvvm\.fence\.mbarrier\.init"), {"missing-fence"}),
    "half of the bytes": (
        lambda text: re.sub(r"(expect_tx %\w+\[%\w+\], )%\w+", r"\1%c0", text, count=1),
        {"wrong-bytes"},
    ),
    "no barrier before the copies": (_no_barrier, {"phase-overtaken", "missing-barrier"}),
}
# Wrong where the sums of the next tile go where those of this one are loaded.
TILE_MUTATIONS: dict[str, tuple[Callable[[str], str], set[str]]] = {
    "no wait for the loads": (
        lambda text: re.sub(r"\n[^\n]*tcgen05\.wait <load>", "", text),
        {"read-in-flight"},
    ),
    "loads are told to nobody": (_drop(r"tcgen05\.fence <before>"), {"missing-tensor-fence"}),
    "nobody hears of the loads": (
        _drop(r"tcgen05\.fence <after>", last=True),
        {"missing-tensor-fence"},
    ),
    "no barrier after the loads": (
        lambda text: re.sub(r"(fence <before>\n)[^\n]*gpu\.barrier[^\n]*\n", r"\1", text),
        {"missing-barrier", "missing-tensor-fence", "phase-overtaken"},
    ),
}
