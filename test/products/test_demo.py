"""The NVIDIA half of the demo: the report of the command line, and how it is shown.

Covers: cmake-free-scripts/show_demo.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.driver_process import opt
from helpers.paths import ROOT

pytestmark = pytest.mark.slow

SCRIPT = ROOT / "cmake-free-scripts" / "show_demo.py"


def shown(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(folder), "sm_80"]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_demo_says_why_there_is_a_stage_more_and_the_same_counts_everywhere(
    tmp_path: Path,
) -> None:
    asked = [str(ROOT / "examples" / "gemm.mlir"), "--async-pipe", "--target=nvvm:sm_80"]
    code = ["--emit=cubin", "-o", str(tmp_path / "gemm.cubin")]
    report = ["--report=json", f"--report-file={tmp_path / 'report.json'}"]
    for more in (["-o", str(tmp_path / "gemm.mlir")], [*code, *report]):
        assert opt(*asked, *more).code == 0
    assert opt(*asked, "--emit=ptx", "-o", str(tmp_path / "gemm.ptx")).code == 0
    reported = shown(tmp_path)
    assert reported.returncode == 0
    assert (
        "  4 stages (3 asked for, 1 more for the last products, whose fragments" in reported.stdout
    )
    assert reported.stdout.rstrip().endswith("MLIR = PTX = machine code: 1, 0")
    ptx = tmp_path / "gemm.ptx"
    ptx.write_text(ptx.read_text().replace("wait_group \t1", "wait_group \t2"))
    assert shown(tmp_path).returncode == 1
