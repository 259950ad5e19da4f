"""A dispatch leaves iree-compile, is pipelined, and goes back to it, down to PTX in a .vmfb.

Run where MLIR_ASYNC_PIPE_IREE_PYTHON names a Python that has iree-base-compiler.

Covers: examples/iree/round_trip.py
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from helpers.paths import ROOT

PYTHON = os.environ.get("MLIR_ASYNC_PIPE_IREE_PYTHON", "")
IREE = ROOT / "examples" / "iree"


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON, reason="no Python with IREE's bindings is named")
@pytest.mark.parametrize("dumped", [False, True], ids=["program", "dumped dispatch"])
def test_the_ptx_of_the_vmfb_waits_exactly(tmp_path: Path, dumped: bool) -> None:
    source = IREE / "matmul.mlir"
    if dumped:
        compiler = Path(PYTHON).parent / "iree-compile"
        subprocess.run(
            [
                compiler, source, "--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80",
                "--iree-llvmgpu-prefetch-num-stages=0", "-o", tmp_path / "plain.vmfb",
                f"--iree-hal-dump-executable-configurations-to={tmp_path / 'dispatches'}",
            ],
            check=True,
        )  # fmt: skip
        (source,) = (tmp_path / "dispatches").glob("*.mlir")
    output = tmp_path / "pipelined.vmfb"
    done = subprocess.run(
        [PYTHON, IREE / "round_trip.py", source, "-o", output, "--ptx", tmp_path / "ptx"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 loops, counts [1, 1, 0]" in done.stdout
    assert output.stat().st_size > 0
    (ptx,) = (tmp_path / "ptx").glob("*.ptx")
    assert re.findall(r"cp\.async\.wait_group\s+(\d+)", ptx.read_text()) == ["1", "1", "0"]
