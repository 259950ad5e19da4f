"""Pictures of a pipeline as SVG: which step runs which stage of which iteration, which slot holds
which tile, which groups are in flight at a wait.

    steps       0    1    2    3          columns are steps, one pipeline step after the other
    iteration 0 [S0] [S1] [S2]
    iteration 1      [S0] [S1] [S2]

All three are tables of boxes over steps, with bands for prologue, kernel and epilogue and a legend.
They are drawn with the colours of the text around them, in light and dark.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from html import escape

CELL, ROW, LEFT, HEAD, LEGEND, LETTER = 46, 24, 84, 34, 20, 6.2
STYLE = (
    ".ap text{font:11px system-ui,sans-serif;fill:currentColor}"
    ".ap .in{fill:#fff}.ap .copy{fill:#2563a8}.ap .compute{fill:#2e7d4f}.ap .work{fill:#7a5195}"
    ".ap .wait{fill:#b3402a}.ap .tile{fill:#3b6ea5}.ap .flight{fill:#5b7fa6}"
    ".ap .prologue{fill:#d9a400;opacity:.13}.ap .kernel{fill:#2563a8;opacity:.10}"
    ".ap .epilogue{fill:#2e7d4f;opacity:.13}.ap line{stroke:currentColor;opacity:.2}"
)


@dataclass(frozen=True)
class Box:
    """A box over `length` steps from step `start` on, in row `row`; `kind` is its colour."""

    row: int
    start: int
    text: str
    kind: str
    title: str
    length: int = 1


@dataclass(frozen=True)
class Band:
    """A coloured ground below columns `start` to `end`: "prologue", "kernel" or "epilogue"."""

    kind: str
    text: str
    start: int
    end: int


# What is written apart from the kernel; without one of them its steps are the kernel's.
APART = ("prologue", "epilogue")
# Of the kernel that is drawn.
STEPS = 3


def stages(kinds: Sequence[str], apart: Container[str] = APART) -> str:
    """Which stage of which iteration runs in each step. `kinds` has "copy", "compute" or "work"
    (both) for each stage."""
    last = len(kinds) - 1
    count = last + STEPS
    boxes = [
        Box(k, k + s, f"S{s}", kind, f"step {k + s}: stage {s} of iteration {k}")
        for k in range(count)
        for s, kind in enumerate(kinds)
        if kind
    ]
    legend = {
        "copy": "copies, asynchronous",
        "compute": "computation",
        "work": "copies and computation",
    }
    shown = {kind: text for kind, text in legend.items() if kind in kinds}
    rows = [f"iteration {k}" for k in range(count)]
    bands = _bands(last, count, apart)
    return table(rows, count + last, boxes, bands, shown, "Stages of iterations")


def versions(
    count: int, write_stage: int, last_stage: int, stages: int, apart: Container[str] = APART
) -> str:
    """Which iteration's tile each of `count` slots holds, from the step that writes it to the one
    that touches it last."""
    last = stages - 1
    shown = last + STEPS
    boxes = [
        Box(
            k % count,
            k + write_stage,
            f"tile {k}",
            "tile",
            f"slot {k % count} holds tile {k} in steps {k + write_stage} to {k + last_stage}",
            last_stage - write_stage + 1,
        )
        for k in range(shown)
    ]
    rows = [f"slot {n}" for n in range(count)]
    legend = {"tile": "a tile, from its copy to its last use"}
    bands = _bands(last, shown, apart)
    return table(rows, shown + last, boxes, bands, legend, "Versions of a buffer")


def groups(stages: int, counts: Sequence[int]) -> str:
    """Which groups are in flight, from their commit to the wait that is for them; `counts` are the
    groups that stay in flight at the wait of the kernel and of each step of the epilogue."""
    last = stages - 1
    count = last + STEPS
    boxes = [
        Box(
            k + 1,
            k,
            f"group {k}",
            "flight",
            f"group {k} is committed in step {k}, and awaited in step {k + last}",
            last,
        )
        for k in range(count)
    ]
    for k in range(count):
        left = counts[0] if k + last < count else counts[min(k + last - count, last - 1) + 1]
        title = f"step {k + last}: at most {left} younger groups stay in flight"
        boxes.append(Box(0, k + last, f"wait {left}", "wait", title))
    rows = ["waits", *(f"group {k}" for k in range(count))]
    legend = {"flight": "in flight", "wait": "a wait, and the groups that it leaves"}
    return table(rows, count + last, boxes, _bands(last, count), legend, "Groups and counts")


def on_paper(svg: str) -> str:
    """A picture for a file of its own, as nothing around it says its colours: dark on white, or light
    on dark where the reader's system is dark."""
    light = "svg.ap{background:#fff;color:#222}"
    dark = "@media(prefers-color-scheme:dark){svg.ap{background:#1e2129;color:#ddd}}"
    return svg.replace("<style>", f"<style>{light}{dark}", 1) + "\n"


def _bands(last: int, count: int, apart: Container[str] = APART) -> list[Band]:
    first = last if "prologue" in apart else 0
    end = count if "epilogue" in apart else count + last
    bands = [("prologue", 0, first), ("kernel", first, end), ("epilogue", end, count + last)]
    return [Band(name, name, start, end) for name, start, end in bands if start < end]


def table(
    rows: Sequence[str],
    columns: int,
    boxes: Iterable[Box],
    bands: Iterable[Band],
    legend: dict[str, str],
    title: str,
    steps: bool = True,
) -> str:
    """Boxes over columns, with a legend of their kinds; columns are numbered as `steps`."""
    width = LEFT + CELL * columns + 4
    bottom = HEAD + ROW * len(rows)
    height = bottom + LEGEND * len(legend) + 6
    parts = [
        f'<svg class="ap" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<style>{STYLE}</style>",
    ]
    for band in bands:
        left, wide = LEFT + CELL * band.start, CELL * (band.end - band.start)
        parts.append(
            f'<rect class="{band.kind}" x="{left}" y="0" width="{wide}" height="{bottom}"/>'
        )
        shown = band.text if len(band.text) * LETTER < wide else f"{band.text[:3]}."
        parts.append(f'<text x="{left + 4}" y="12">{shown}</text>')
    for column in range(columns if steps else 0):
        parts.append(
            f'<text x="{LEFT + CELL * column + CELL / 2}" y="28" text-anchor="middle">{column}</text>'
        )
    parts += ['<text x="4" y="28">step</text>'] if steps else []
    for number, row in enumerate(rows):
        top = HEAD + ROW * number
        parts.append(f'<line x1="0" x2="{width}" y1="{top}" y2="{top}"/>')
        parts.append(f'<text x="4" y="{top + 16}">{escape(row)}</text>')
    parts += [_box(box) for box in boxes]
    for number, (kind, text) in enumerate(legend.items()):
        top = bottom + 6 + LEGEND * number
        parts.append(f'<rect class="{kind}" x="4" y="{top + 2}" width="12" height="12" rx="2"/>')
        parts.append(f'<text x="22" y="{top + 12}">{escape(text)}</text>')
    return "\n".join([*parts, "</svg>"])


def _box(box: Box) -> str:
    left, top = LEFT + CELL * box.start, HEAD + ROW * box.row
    width = CELL * box.length - 4
    return (
        f'<g><title>{escape(box.title)}</title><rect class="{box.kind}" x="{left + 2}" '
        f'y="{top + 3}" width="{width}" height="{ROW - 6}" rx="3"/><text class="in" '
        f'x="{left + 2 + width / 2}" y="{top + 16}" text-anchor="middle">{escape(box.text)}</text></g>'
    )
