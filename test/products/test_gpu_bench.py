"""What bench/gpu_cases.py and bench/gpu_random.py hand to a machine with a GPU, and what gpu_run.py needs there.

Without a GPU nothing is launched; what can be held is that each launch is described wholly, and that its wait
counts are what they are said to be.

Covers: bench/gpu_cases.py, bench/gpu_random.py, bench/gpu_run.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.paths import ROOT
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool

BENCH = ROOT / "bench"
needs_ptxas = pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")


def entries(folder: Path, script: str, *options: str) -> list[dict[str, Any]]:
    subprocess.run([sys.executable, str(BENCH / script), str(folder), *options], check=True)
    found: list[dict[str, Any]] = json.loads((folder / "cases.json").read_text())
    for entry in found:
        assert (folder / entry["file"]).stat().st_size > 1000
        named = {p["argument"] for p in entry["parameters"]}
        assert named == set(range(len(named)))
        assert set(map(int, entry["maps"])) <= named
    return found


@needs_ptxas
def test_a_generated_kernel_is_described(tmp_path: Path) -> None:
    plain, weaker = entries(tmp_path, "gpu_cases.py", "--only", "128x128x64 f16 k together S=3")
    assert (plain["weaker"], weaker["weaker"]) == (False, True)
    assert plain["threads"] == [128, 1, 1] and plain["shared"] == 3 * 2 * 128 * 64 * 2
    lines = {"box": [128, 64], "element": "f16", "swizzle": "swizzle_128b"}
    assert plain["maps"] == {"0": lines, "1": lines}
    # The maps, C's descriptor and K.
    assert [p["kind"] for p in plain["parameters"]] == [
        "pointer", "pointer", "pointer", "pointer", "offset", "size", "size", "stride", "stride", "number",
    ]  # fmt: skip
    machine = {
        name: (tmp_path / entry["file"]).read_bytes()
        for name, entry in (("a", plain), ("b", weaker))
    }
    assert machine["a"] != machine["b"]


@needs_ptxas
def test_random_kernels_bring_their_arguments_and_results(tmp_path: Path) -> None:
    found = entries(tmp_path, "gpu_random.py", "--loops", "3", "--kernels", "4", "--seed", "7")
    assert {entry["name"].split()[-1] for entry in found} >= {"cp.async"}
    changed = 0
    for entry in found:
        held = np.load(tmp_path / entry["facts"]["arrays"])
        results = [key for key in held.files if key[0] == "e"]
        assert results and all(held[f"a{key[1:]}"].shape == held[key].shape for key in results)
        changed += any((held[f"a{key[1:]}"] != held[key]).any() for key in results)
    # A loop without an iteration writes nothing.
    assert changed > len(found) // 2


def test_the_other_machine_needs_no_package() -> None:
    source = (BENCH / "gpu_run.py").read_text()
    assert "mlir_async_pipe.lower(" not in source and "import mlir_async_pipe" not in source
    done = subprocess.run(
        [sys.executable, "-S", str(BENCH / "gpu_run.py"), "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "FOLDER" in done.stdout or "folder" in done.stdout
