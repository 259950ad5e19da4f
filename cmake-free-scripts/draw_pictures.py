"""Draws the pictures of docs/: of three stages, a copy in the first, the computation in the last.

.venv/bin/python cmake-free-scripts/draw_pictures.py
"""

from __future__ import annotations

from pathlib import Path

from mlir_async_pipe.reports import pictures
from mlir_async_pipe.reports.pictures import Band, Box

DOCS = Path(__file__).resolve().parents[1] / "docs"


def drawn() -> dict[str, str]:
    """The pictures by file name."""
    made = {
        "picture-stages.svg": pictures.stages(["copy", "", "compute"]),
        "picture-versions.svg": pictures.versions(3, 0, 2, 3),
        "picture-groups.svg": pictures.groups(3, [1, 1, 0]),
        "picture-slots.svg": slots(3, 7),
        "picture-attention.svg": attention(2),
    }
    return {name: pictures.on_paper(svg) for name, svg in made.items()}


def slots(count: int, steps: int) -> str:
    """Who has each slot: a copy until its tile is there, then the product that reads it."""
    ahead, boxes = count - 1, []
    for k in range(steps):
        slot, copied = k % count, min(ahead, steps - k)
        told = f"tile {k} is copied into slot {slot} from step {k} on"
        boxes.append(Box(slot, k, f"copy {k}", "copy", told, copied))
        if k + ahead < steps:
            told = f"product {k} reads slot {slot} in step {k + ahead}"
            boxes.append(Box(slot, k + ahead, f"use {k}", "compute", told))
    bands = [Band("prologue", "prologue", 0, ahead), Band("kernel", "kernel", ahead, steps)]
    legend = {
        "copy": "a tensor copy: at its end the tile is there (full)",
        "compute": "the product that reads the tile: after it the slot is free (empty)",
    }
    rows = [f"slot {n}" for n in range(count)]
    return pictures.table(rows, steps, boxes, bands, legend, "Who has each slot")


def attention(iterations: int) -> str:
    """What tensor cores, threads and copies do at once in an iteration of attention."""
    wide, boxes, bands = 4, list[Box](), list[Band]()
    for j in range(iterations):
        at = wide * j
        bands.append(Band(("kernel", "epilogue")[j % 2], f"iteration {j}", at, at + wide))
        boxes += [
            Box(0, at, "phase", "wait", f"waits until pair {j} of K and V is there"),
            Box(
                0, at + 1, "wait 1", "wait", "waits for the scores; half a product stays in flight"
            ),
            Box(0, at + 3, "wait 0", "wait", "waits for the product"),
            Box(1, at, f"S{j + 1}", "compute", f"scores S{j + 1} = Q K^T of the next tile"),
            Box(1, at + 1, "O, half", "compute", f"product of half the keys of tile {j}"),
            Box(1, at + 2, "O, half", "compute", f"product of the other half of tile {j}"),
            Box(2, at + 1, f"max S{j + 1}", "work", "the maximum of the next tile's scores"),
            Box(2, at + 2, f"P{j + 1}", "work", f"weights P{j + 1} of the next tile"),
            Box(2, at + 3, "scale", "work", "O by the change of the maximum"),
        ]
    for pair in range(1, iterations + 2):
        first, end = max(pair - 2, 0), min(pair, iterations)
        told = f"pair {pair} is issued in iteration {pair - 2} and awaited in iteration {pair}"
        place, length = 3 + (pair + 1) % 2, wide * (end - first)
        boxes.append(Box(place, wide * first, f"pair {pair}", "copy", told, length))
    legend = {
        "compute": "products, one group of wgmma each",
        "work": "arithmetic of the threads",
        "copy": "tensor copies of K and V in flight",
        "wait": "waits; the number is what stays in flight",
    }
    rows = ["waits", "tensor cores", "threads", "copies", "copies"]
    columns = wide * iterations
    return pictures.table(rows, columns, boxes, bands, legend, "Attention", steps=False)


if __name__ == "__main__":
    for name, svg in drawn().items():
        (DOCS / name).write_text(svg)
