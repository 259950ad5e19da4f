"""The table of kernels that others wrote, made of a small folder.

Covers: tool/__main__.py
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from helpers.paths import ROOT

RING = ROOT / "examples" / "handwritten" / "ring.ptx"


def test_kernels_of_a_folder_are_counted_and_their_broken_siblings_found(tmp_path: Path) -> None:
    (tmp_path / "cuda").mkdir()
    shutil.copy(RING, tmp_path / "cuda")
    wrong = RING.read_text().replace("wait_group 1", "wait_group 2")
    (tmp_path / "cuda" / "racy.ring.ptx").write_text(wrong)
    (tmp_path / "cuda" / "no.ptx").write_text(".version 8.0\n.nothing\n")
    command = [sys.executable, ROOT / "bench" / "foreign.py", tmp_path, "--details", "--broken"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (row,) = re.findall(r"^\| CUDA C\+\+.*$", done.stdout, re.M)
    kernels, proven, promised, unknown, unsafe, other = (
        cell.strip() for cell in row.split("|")[2:8]
    )
    assert (kernels, proven, promised, unknown, unsafe) == ("3", "1", "0", "0", "1")
    assert other.endswith(" 1") and "proven" not in other
    weaker = re.findall(r"^cuda +ring\.ptx line \d+: wait 1 -> 2 +(\w+) ", done.stdout, re.M)
    assert weaker == ["unsafe"]
