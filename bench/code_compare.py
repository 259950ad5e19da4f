"""Which figures of bench/code.json a change makes worse."""

from __future__ import annotations

from typing import Any

# What may not grow. Registers may, by a few: ptxas deals them out anew after each change.
WORSE = ("all", "run", "spills", "shared", "waits", "barriers", "commits")
SPARE_REGISTERS = 8


def worse(now: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """What is worse than it was, one sentence each; a kernel that is new is not."""
    found = []
    for name in now.keys() & before.keys():
        old, new = before[name]["ours"], now[name]["ours"]
        for figure in (*WORSE, *(key for key in old if key.startswith("passes of"))):
            was, is_ = old.get(figure, 0), new.get(figure, 0)
            if is_ > was:
                found.append(f"{name}: {figure} was {was} and is {is_}")
        if new["registers"] > old["registers"] + SPARE_REGISTERS:
            found.append(f"{name}: registers were {old['registers']}, are {new['registers']}")
    return sorted(found)
