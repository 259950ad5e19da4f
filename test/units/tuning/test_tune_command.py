"""The command: kernels as MLIR and as Python, spaces as words, and its answers.

Covers: tuning/tune_command.py
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_async_pipe.tuning import tune_command as command

TARGET = "--target=nvvm:sm_80"


@pytest.mark.parametrize(
    ("text", "found"),
    [("2", 2), ("0.5", 0.5), ("true", True), ("false", False), ("spread", "spread")],
)
def test_values_are_numbers_where_they_look_so(text, found):
    assert command._value(text) == found and type(command._value(text)) is type(found)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.mlir", TARGET, "--space", "num_stages=2"], "cannot read 'none.mlir'"),
        (["KERNEL", TARGET, "--space", "num_stages"], "'num_stages' is no parameter"),
        (["KERNEL", TARGET, "--space", "colour=1"], "[unknown-parameter]"),
        (["KERNEL", "--target=nvvm:sm_3", "--space", "num_stages=2"], "sm_3"),
        (["EMPTY", TARGET, "--space", "num_stages=2"], "defines no build()"),
    ],
)
def test_bad_usage_is_reported_in_a_line(words, said, tmp_path: Path, capsys):
    (tmp_path / "kernel.mlir").write_text("module {}")
    (tmp_path / "empty.py").write_text("")
    places = {"KERNEL": str(tmp_path / "kernel.mlir"), "EMPTY": str(tmp_path / "empty.py")}
    assert command.main([places.get(word, word) for word in words]) == 1
    ended = capsys.readouterr()
    assert said in ended.err and ended.out == ""


@pytest.mark.slow
def test_a_python_kernel_is_built_run_and_measured(tmp_path: Path, capsys):
    pytest.importorskip("rich")
    kernel = tmp_path / "kernel.py"
    folder = Path(__file__).parent
    kernel.write_text(
        f"import sys; sys.path[:0] = [{str(folder)!r}, {str(folder.parents[1])!r}]\n"
        "from test_tune import tile as build, arrays as inputs\n"
        "def cost(outcome): return outcome.parameters['num_stages']\n"
    )
    words = [str(kernel), TARGET, "--space", "num_stages=3,2", "rows=1", "--jobs=2"]
    assert command.main([*words, f"--csv={tmp_path / 'rows.csv'}"]) == 0
    table = capsys.readouterr().out
    assert table.index("| 2") < table.index("| 3") if "| 2" in table else "│ 2" in table
    assert (tmp_path / "rows.csv").read_text().splitlines()[1].startswith("2,1,")
