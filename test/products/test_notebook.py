"""The notebook runs from top to bottom, and shows reports and time lines where it says so.

Covers: examples/looking_at_a_pipeline.ipynb, session/report.py, machine/timeline.py,
machine/run_kernel.py
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.paths import ROOT
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

NOTEBOOK = ROOT / "examples" / "looking_at_a_pipeline.ipynb"
NEEDED = ("nbclient", "nbformat", "ipykernel")


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells with their outputs, run by a kernel of this Python."""
    if not all(map(importlib.util.find_spec, NEEDED)):
        pytest.skip("the extra 'notebook' is not installed")
    import nbformat
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("jupyter")
    kernel = folder / "kernels" / "python3"
    kernel.mkdir(parents=True)
    words = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel.joinpath("kernel.json").write_text(
        json.dumps({"argv": words, "display_name": "Python 3", "language": "python"})
    )
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(folder))
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any, kind: str) -> str:
    found = [out["data"][kind] for out in cell.outputs if kind in out.get("data", {})]
    return "".join(found)


def stalled(cell: Any) -> float:
    """The stalled cycles that a picture tells."""
    (reported,) = re.findall(r"cycles, ([\d.]+) of them stalled", shown(cell, "image/svg+xml"))
    return float(reported)


@pytest.mark.slow
def test_reports_and_time_lines_are_shown_inline(cells: list[Any]) -> None:
    _, report, data, run, three, two, code = cells
    assert re.search(r"proven: \d+ accesses in 1 kernel", shown(report, "text/html"))
    assert "(1, 'exact')" in shown(data, "text/plain")
    assert run.outputs[0]["text"].endswith("races 0\n")
    assert stalled(three) < stalled(two) / 2
    assert "registers=" in shown(code, "text/plain")


def test_the_notebook_is_kept_without_outputs() -> None:
    kept = json.loads(NOTEBOOK.read_text())
    code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert [cell["outputs"] for cell in code] == [[]] * len(code)
    assert {cell["execution_count"] for cell in code} == {None}


def test_a_run_has_a_time_line_that_draws_itself() -> None:
    with new_context():
        module = ir.Module.parse(Path(ROOT / "examples" / "add_one.mlir").read_text())
        mlir_async_pipe.pipeline(module, target="nvvm:sm_80")
        numbers = np.arange(8192, dtype=np.float32)
        result = machine.run(module, "add_one", [numbers, np.zeros_like(numbers)], threads=128)
    timeline = result.timeline("latency=700")
    # 16 copies, of which two are in flight at a time, and nothing else costs anything.
    assert timeline.total == 8 * 700
    assert result.timeline(target="nvvm:sm_80").total > 16
    picture = timeline._repr_svg_()
    assert picture.startswith("<svg") and "stalled in a wait" in picture
