"""The Hopper half of the demo: the report of the command line, and how it is shown.

Covers: cmake-free-scripts/show_hopper_demo.py
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from helpers.paths import ROOT

pytestmark = pytest.mark.slow

SCRIPT = ROOT / "cmake-free-scripts" / "show_hopper_demo.py"
CHIP = "sm_90a"


def run(*command: object) -> str:
    return subprocess.run(
        [sys.executable, *map(str, command)], check=True, capture_output=True, text=True
    ).stdout


def test_the_demo_shows_each_role_and_the_same_counts_everywhere(tmp_path):
    before = tmp_path / "before.mlir"
    example = ROOT / "examples" / "generate_hopper_gemm.py"
    before.write_text(run(example, "--stages", 4, "--roles", "specialised"))
    report = tmp_path / f"report-{CHIP}.json"
    tool = ("-m", "mlir_async_pipe.tool", before, "--async-pipe", f"--target=nvvm:{CHIP}")
    run(*tool, "-o", tmp_path / f"gemm-{CHIP}.mlir")
    run(*tool, "--emit=ptx", "-o", tmp_path / f"gemm-{CHIP}.ptx")
    cubin = tmp_path / f"gemm-{CHIP}.cubin"
    run(*tool, "--emit=cubin", "-o", cubin, "--report=json", f"--report-file={report}")
    shown = run(SCRIPT, tmp_path, CHIP)
    assert "warps for products, threads 0-127" in shown
    assert "warps for copies, threads 128-159" in shown
    assert shown.rstrip().endswith("MLIR = PTX = machine code: 1, 0")
    # Another count in PTX is told.
    ptx = tmp_path / f"gemm-{CHIP}.ptx"
    ptx.write_text(
        ptx.read_text().replace("wait_group.sync.aligned \t1", "wait_group.sync.aligned \t2")
    )
    reported = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), CHIP], capture_output=True, text=True
    )
    assert (reported.returncode, reported.stdout.rstrip().splitlines()[-1]) == (
        1,
        "error: MLIR, PTX and machine code do not wait alike",
    )
    assert json.loads(report.read_text())["outlines"]
