"""Draws the pictures of docs/concepts.md.

.venv/bin/python cmake-free-scripts/draw_pictures.py
"""

from __future__ import annotations

from pathlib import Path

from mlir_async_pipe.reports import pictures

DOCS = Path(__file__).resolve().parents[1] / "docs"


def drawn() -> dict[str, str]:
    """The pictures by file name: three stages, a copy in the first, the computation in the last."""
    return {
        "picture-stages.svg": pictures.on_paper(pictures.stages(["copy", "", "compute"])),
        "picture-versions.svg": pictures.on_paper(pictures.versions(3, 0, 2, 3)),
        "picture-groups.svg": pictures.on_paper(pictures.groups(3, [1, 1, 0])),
    }


if __name__ == "__main__":
    for name, svg in drawn().items():
        (DOCS / name).write_text(svg)
