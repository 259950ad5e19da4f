"""The AMD half of the demo: the report of the command line, and how it is shown.

Covers: cmake-free-scripts/show_amd_demo.py
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from helpers.gemm_kernels import gemm_text
from helpers.paths import ROOT
from mlir_async_pipe import bindings

pytestmark = pytest.mark.slow

SCRIPT = ROOT / "cmake-free-scripts" / "show_amd_demo.py"


@pytest.mark.skipif(
    not any(stack.name == "flydsl" for stack in bindings.installed()),
    reason="no AMDGPU back end: pip install flydsl",
)
def test_the_demo_shows_each_wait_with_its_instructions(tmp_path):
    kernel, report = tmp_path / "gemm-gfx950.mlir", tmp_path / "report-gfx950.json"
    kernel.write_text(gemm_text("--chip=gfx950", "--stages=4"))
    command = [
        *(sys.executable, "-m", "mlir_async_pipe.tool", str(kernel), "--async-pipe"),
        *("--target=rocdl:gfx950", "--emit=isa", "-o", str(tmp_path / "gemm-gfx950.s")),
        *("--report=json", f"--report-file={report}"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    first = json.loads(report.read_text())["instructions"][0]
    assert (first["wait"]["count"], first["left_in_loops"], first["verdict"]) == (2, [8], "kept")
    shown = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), "gfx950"], capture_output=True, text=True
    )
    assert shown.returncode == 0
    assert "2 groups of 4 copies may stay in flight: vmcnt(8) in a loop" in shown.stdout
    assert "0 registers spilled" in shown.stdout


def test_a_wait_that_became_stricter_fails_the_demo(tmp_path):
    wait = {
        "wait": {"count": 1, "copies": 4},
        "left": [0],
        "left_in_loops": [],
        "verdict": "stricter",
        "reason": "…",
    }
    kernel = {
        "waits": [{"counter": "vmcnt"}],
        "vector_registers": 8,
        "workgroup_bytes": 0,
        "vector_spills": 0,
    }
    report = {"kernels": [kernel], "loops": [], "instructions": [wait]}
    (tmp_path / "report-gfx942.json").write_text(json.dumps(report))
    shown = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), "gfx942"], capture_output=True, text=True
    )
    assert shown.returncode == 1
    assert "1 group of 4 copies may stay in flight: vmcnt(0)" in shown.stdout
