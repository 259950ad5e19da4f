"""What is released: wheel and sdist that an index accepts, examples in the wheel, and the small files
for shells, editors and hooks.

Covers: examples.py, tool/check_files.py, pyproject.toml, CHANGELOG.md, .pre-commit-hooks.yaml
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import mlir_async_pipe
from helpers.driver_process import opt
from helpers.paths import ROOT
from mlir_async_pipe import examples
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.tool import check_files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RACE = ROOT / "examples" / "handwritten" / "double_buffer_counts.mlir"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    if not all(map(importlib.util.find_spec, ("build", "twine"))):
        pytest.skip("the extra 'release' is not installed")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--quiet", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return sorted(folder.iterdir())


@pytest.mark.slow
def test_an_index_accepts_wheel_and_sdist(built: list[Path]) -> None:
    assert [file.name.split(".")[-1] for file in built] == ["whl", "gz"]
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_wheel_has_the_examples_and_the_front_page(built: list[Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        held = wheel.namelist()
        (metadata,) = (wheel.read(name).decode() for name in held if name.endswith("/METADATA"))
    assert "mlir_async_pipe/example_files/gemm.mlir" in held
    assert "mlir_async_pipe/py.typed" in held
    assert not [name for name in held if "__pycache__" in name or name.startswith("test")]
    assert metadata.partition("\n\n")[2].startswith("# mlir_async_pipe")


@pytest.mark.slow
def test_an_example_runs_from_the_unpacked_wheel(built: list[Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "mlir_async_pipe.examples", "gemm"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r"proven: \d+ accesses in 1 kernel", done.stdout)
    assert str(tmp_path / "mlir_async_pipe" / "example_files") in done.stdout


def test_the_project_says_what_an_index_shows() -> None:
    assert PROJECT["authors"] and PROJECT["keywords"]
    pythons = [c for c in PROJECT["classifiers"] if c.startswith("Programming Language")]
    assert pythons[-1].endswith("3.13")
    assert PROJECT["dependencies"] == ["numpy>=1.26"]


def test_the_version_is_that_of_the_installation() -> None:
    assert re.match(r"\d+\.\d+|0\+unknown", mlir_async_pipe.__version__)
    assert "version" in PROJECT["dynamic"]


def test_every_example_is_found_by_its_name() -> None:
    names = examples.names()
    assert len(names) == len(set(names)) > 40
    for name in names:
        assert examples.find(name).exists()
    assert examples.find("ring_tokens").parent.name == "handwritten"


def test_an_example_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(UsageError, match="did you mean 'gemm'"):
        examples.find("gem")
    assert examples.main(["gem"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("python -m mlir_async_pipe.examples: error: no example 'gem'")


def test_examples_are_listed_in_groups_with_a_line_each(capsys: pytest.CaptureFixture) -> None:
    assert examples.main([]) == 0
    groups = capsys.readouterr().out.split("\n\n")[1:]
    assert groups[0].startswith("Start here:\n  add_one ")
    rows = [line.split(maxsplit=1) for group in groups for line in group.splitlines()[1:]]
    assert sorted(row[0] for row in rows) == examples.names()
    assert [row[0] for row in rows if len(row) == 1 and "iree/kernels" not in row[0]] == []
    assert max(map(len, "\n".join(groups).splitlines())) <= 101


@pytest.mark.parametrize("helper", ["nvidia_tiles", "pipeline_object/judged", "iree/multibuffer"])
def test_what_examples_share_is_no_example(helper: str) -> None:
    assert helper not in examples.names()
    assert examples.find(helper).exists()
    with pytest.raises(UsageError, match="is a part of other examples"):
        examples.run(helper)


@pytest.mark.parametrize("asked", [["generate_gemm"], ["gemm", "--source"]])
def test_a_reader_that_has_seen_enough_is_no_error(asked: list[str]) -> None:
    command = [sys.executable, "-m", "mlir_async_pipe.examples", *asked]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writing:
        assert writing.stdout is not None and writing.stderr is not None
        writing.stdout.close()
        assert (writing.stderr.read(), writing.wait()) == (b"", 0)


def test_a_package_that_an_example_needs_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "needs.py").write_text("import torch_mlir_is_not_here  # __main__\n")
    (tmp_path / "stack.py").write_text("raise ModuleNotFoundError(name='flydsl.x')  # __main__\n")
    monkeypatch.setattr(examples, "_FOLDERS", (tmp_path,))
    monkeypatch.setattr(sys, "argv", [])
    with pytest.raises(
        UsageError, match="needs the package 'torch_mlir_is_not_here', which is"
    ) as caught:
        examples.run("needs")
    assert caught.value.diagnostic.notes[0].message == "pip install torch_mlir_is_not_here"
    with pytest.raises(UsageError, match=r"pip install '\.\[amd\]'"):
        examples.run("stack")


def test_a_file_without_kernels_says_so() -> None:
    assert "no function in it is a GPU kernel" in examples.run("iree/conv")


def test_an_example_tells_what_became_of_it() -> None:
    reported = examples.run("add_one").splitlines()
    assert reported[0].startswith("add_one.mlir: 1 loop pipelined in 3 stages")
    assert reported[2:5] == [
        "    prologue  2 copies, 2 commits",
        "    kernel    1 wait (1), 1 copy, 1 commit, 2 statements",
        "    epilogue  2 waits (1, 0), 4 statements",
    ]
    assert reported[-1].endswith("--async-pipe --target=nvvm:sm_80")


def test_a_hand_written_example_is_counted_and_checked() -> None:
    reported = examples.run("amd_ring_marks")
    assert re.search(r"proven: \d+ accesses in 1 kernel", reported)
    assert "--async-pipe-count-waits --target=rocdl:gfx950" in reported


def test_the_hook_runs_a_command_of_the_package(tmp_path: Path) -> None:
    hooks = (ROOT / ".pre-commit-hooks.yaml").read_text()
    (entry,) = re.findall(r"^  entry: (\S+)$", hooks, re.MULTILINE)
    assert PROJECT["scripts"][entry] == "mlir_async_pipe.tool.check_files:main"
    (pattern,) = re.findall(r"^  files: (\S+)$", hooks, re.MULTILINE)
    assert re.search(pattern, "kernels/a.mlir") and not re.search(pattern, "a.mlir.txt")
    racy = tmp_path / "racy.mlir"
    racy.write_text(RACE.read_text().replace("wait.group 1", "wait.group 2"))
    assert check_files.main([str(RACE), "--target=nvvm:sm_80"]) == 0
    assert check_files.main([str(racy), str(RACE), "--target=nvvm:sm_80"]) == 1
    assert check_files.main([]) == 0


def test_the_problem_matcher_reads_what_the_tool_writes(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "driver.md").read_text()
    (block,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    matcher = json.loads(block)["tasks"][0]["problemMatcher"]["pattern"]
    file = tmp_path / "racy.mlir"
    file.write_text(RACE.read_text().replace("wait.group 1", "wait.group 2"))
    lines = opt(file, "--check-only", "--target=nvvm:sm_80").err.splitlines()
    found = [match for match in (re.match(matcher["regexp"], line) for line in lines) if match]
    first = found[0]
    assert first[matcher["file"]] == str(file)
    assert int(first[matcher["line"]]) > 0
    assert (first[matcher["severity"]], first[matcher["code"]]) == ("error", "read-in-flight")
    assert {match[matcher["severity"]] for match in found[1:]} >= {"note"}


def test_the_changelog_has_a_section_for_what_comes() -> None:
    heads = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == "Unreleased" or re.match(r"\d+\.\d+\.\d+ ", heads[0])
