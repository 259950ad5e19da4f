"""Loops that torch-mlir wrote: made by the script of the benchmark, taken, and right.

Covers: pipeliner/normalise/guarded_stores.py
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("torch_mlir") is None, reason="pip install torch-mlir"
    ),
]


def python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, timeout=300)


@pytest.mark.parametrize(
    "program", ["mm_odd_f32", "softmax_128x1024", "embedding_sum", "conv1d_f32"]
)
def test_kernels_of_torch_mlir_have_their_loads_ahead(program, tmp_path):
    python(str(BENCH / "torch_mlir_corpus.py"), str(tmp_path), "--only", program)
    found = tmp_path / "rows.json"
    loops = str(BENCH / "real_loops.py")
    python(loops, str(tmp_path), "--jobs", "1", "--run", "--only", "sm_80", "--json", str(found))
    rows = json.loads(found.read_text())
    assert rows
    assert {(row["form"], row["run"], row["code"]) for row in rows} == {("loads", "same", "ptx")}
