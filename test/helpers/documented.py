"""Scripts as the documentation shows them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from helpers.paths import ROOT


def run_script(page: str, heading: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the first indented block after a heading of a page, as a file in `folder`, from the root."""
    lines = (ROOT / "docs" / page).read_text().split(f"\n{heading}\n")[1].split("\n")
    first = next(number for number, line in enumerate(lines) if line.startswith("    "))
    last = next(
        number for number, line in enumerate(lines) if number > first and line[:4].strip(" ")
    )
    script = folder / "shown.py"
    script.write_text(dedent("\n".join(lines[first:last])))
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=ROOT, timeout=300
    )
