"""Plain attention in tensor memory whose products, and perhaps tiles, got threads of their own: what is written, found, and computed."""

from __future__ import annotations

from typing import Any

from helpers.hopper_attention import wrong_by
from helpers.machine_programs import parse
from helpers.tensor_attention import ChangedAttention
from mlir_async_pipe import check, pipeline

TARGET = "nvvm:sm_100a"
MOODS = [("eager", "forward"), ("late", "backward"), ("random", "random")]


def expanded(text: str) -> str:
    module = parse(text)
    pipeline(module, check="none", target=TARGET)
    return str(module)


def found(text: str) -> tuple[set[str], int]:
    """The codes of certain findings, and how many accesses are not decided."""
    report = check(parse(text))
    (summary,) = report.of("checks")
    return {d.code for d in report.diagnostics if d.severity == "error"}, summary.unknown


def run(
    text: str, made: ChangedAttention, mood: tuple[str, str], keys: int = 384
) -> tuple[bool, set[str]]:
    """Whether the machine gives NumPy's result, of three heads if they follow each other, and what raced."""
    completion, schedule = mood
    blocks: dict[str, Any] = {"blocks_of_heads": 1} if made.persistent else {}
    wrong, races = wrong_by(
        *(made, parse(text), keys, completion),
        # Two warps copy and multiply, as a part of a warpgroup where groups share the work.
        added=128 * made.groups if made.roles == "grouped" else 64,
        heads=3 if made.persistent else 1,
        schedule=schedule,
        **blocks,
    )
    return wrong < 1e-3, races
