"""What lanes ask of memory, counted naively from the addresses that the machine sees.

`watched` runs a kernel and gives, for each op's place and kind of memory, the lanes' addresses of every
warp and execution; `wavefronts` and `sectors` count them bank by bank and byte by byte.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from mlir_async_pipe import machine
from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.memory import GLOBAL, WORKGROUP
from mlir_async_pipe.session.diagnostics import Place

SPACES = {GLOBAL: "global", WORKGROUP: "workgroup"}
Warp = dict[int, tuple[int, ...]]
"""The bytes that each lane of a warp asks for, those that take part."""


def watched(
    monkeypatch: Any, module: Any, arguments: list[Any], lanes: int = 32, **options: Any
) -> dict[tuple[Place, str], list[Warp]]:
    """The warps of all executions of each op, by its place and the memory."""
    found: dict[tuple[Place, str], list[Warp]] = defaultdict(list)
    locate = access.locate

    def seen(unit: Any, site: Any, *where: Any, **more: Any) -> Any:
        span = locate(unit, site, *where, **more)
        chosen, _, addresses = span.rows(unit)
        warps: dict[int, Warp] = defaultdict(dict)
        for number, starts in zip(chosen, addresses.reshape(len(chosen), -1), strict=True):
            thread = int(unit.threads[number])
            bytes_ = (int(at) + byte for at in starts for byte in range(span.item_bytes))
            warps[thread // lanes][thread % lanes] = tuple(bytes_)
        for warp in warps.values():
            space = int(unit.launch.memory.space[next(iter(warp.values()))[0]])
            if space in SPACES:
                found[site.place, SPACES[space]].append(warp)
        return span

    with monkeypatch.context() as patched:
        patched.setattr(access, "locate", seen)
        result = machine.run(module, None, arguments, warp=lanes, **options)
    # Lanes out of bounds are left out; that they race is no matter here.
    assert all(race.code != "out-of-bounds" for race in result.races), result.races
    return found


def wavefronts(warp: Warp, width: int, phases: list[list[int]], banks: int = 32) -> tuple[int, int]:
    """Wavefronts of an access by instructions of `width` bytes a lane, and the worst bank's rows."""
    asked = worst = 0
    size = len(next(iter(warp.values())))
    for piece in range(0, size, width):
        for phase in phases:
            rows: dict[int, set[int]] = defaultdict(set)
            for lane in phase:
                for byte in warp.get(lane, ())[piece : piece + width]:
                    rows[byte // 4 % banks].add(byte // 4)
            if rows:
                most = max(map(len, rows.values()))
                asked, worst = asked + most, max(worst, most)
    return asked, worst


def neighbours(count: int, lanes: int = 32) -> list[list[int]]:
    """Phases of so many lanes that follow each other."""
    return [list(range(first, first + count)) for first in range(0, lanes, count)]


def sectors(warp: Warp, size: int = 32) -> int:
    """Sectors that a warp asks for."""
    return len({byte // size for bytes_ in warp.values() for byte in bytes_})
