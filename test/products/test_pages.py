"""What the pages of the site say is what happens when a reader follows them.

Covers: docs, reports/pictures.py, cmake-free-scripts/draw_pictures.py
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.driver_process import opt
from helpers.page_blocks import BLOCK, blocks_of, follow, shows
from helpers.paths import ROOT
from mlir_async_pipe import examples
from mlir_async_pipe.bindings import ir, new_context

DOCS = ROOT / "docs"
# Pages that are followed from top to bottom, and those whose blocks other tests run.
FOLLOWED = (
    "first-kernel", "how-to-refused", "how-to-count", "how-to-find-a-race", "how-to-ptx", "how-to-dsl", "how-to-tune",
    "coming-from", "pipeline-object", "gemm-tutorial", "hopper-tutorial", "attention-tutorial",
)  # fmt: skip
ELSEWHERE = {
    "annotations": "test_docs.py",
    "concepts": "test_docs.py",
    "driver": "test_release.py",
    "foreign": "test_foreign_bench.py",
    "gpu": "test_gpu_bench.py",
    "latency": "test_docs.py",
    "launch": "test_pages.py",
    "tuning": "test_pages.py",
}


@pytest.mark.slow
@pytest.mark.parametrize("page", FOLLOWED)
def test_a_reader_who_follows_the_page_sees_what_it_says(page: str, tmp_path: Path) -> None:
    file = DOCS / f"{page}.md"
    assert follow(file, tmp_path) == blocks_of(file) != []


def test_every_page_with_code_is_run_by_a_test() -> None:
    with_code = {page.stem for page in DOCS.glob("*.md") if BLOCK.search(page.read_text())}
    assert with_code - {*FOLLOWED, *ELSEWHERE} == set()


def test_the_launch_page_runs_up_to_the_launch() -> None:
    """Its blocks without a GPU run (that with PyTorch: `test_cuda_launch.py`); of those that need one,
    what they ask of the code is there."""
    arrays = {name: np.zeros((128, 64), np.float16) for name in "ab"}
    arrays["c"] = np.zeros((128, 128), np.float32)
    with new_context():
        module = ir.Module.parse(examples.find("gemm").read_text())
        mlir_async_pipe.pipeline(module, target="nvvm:sm_80")
        names: dict[str, Any] = {
            "mlir_async_pipe": mlir_async_pipe, "module": module, **arrays, "m": 128, "n": 128
        }  # fmt: skip
        asked = 0
        for block in blocks_of(DOCS / "launch.md"):
            tree = ast.parse(block.text)
            if not re.search(r"^(?:from (?:cuda|hip)|import torch)", block.text, re.MULTILINE):
                exec(compile(tree, "launch.md", "exec"), names)
                continue
            for node in ast.walk(tree):
                text = ast.unparse(node)
                if isinstance(node, ast.Attribute) and text.startswith(("code.", "kernel.")):
                    eval(text, names)
                    asked += 1
    assert asked >= 6
    assert names["ran"].races == ()


def test_calls_of_the_tuning_page_are_those_of_the_package() -> None:
    """Its blocks are sketches around a `build` of the reader's; what they call exists, and takes
    what they pass."""
    signature = inspect.signature(mlir_async_pipe.tune)
    calls = 0
    for block in blocks_of(DOCS / "tuning.md"):
        tree = ast.parse(block.text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "mlir_async_pipe.tune":
                signature.bind(
                    *node.args, **{key.arg: key.value for key in node.keywords if key.arg}
                )
                calls += 1
        for owner, name in re.findall(r"^(?:print\()?(found)\.(\w+)", block.text, re.MULTILINE):
            assert hasattr(signature_result(), name), f"{owner}.{name}"
    assert calls == 2


def signature_result() -> type:
    """The class of what `tune` returns."""
    return typing.get_type_hints(mlir_async_pipe.tune)["return"]


def test_a_page_that_says_something_else_would_not_pass() -> None:
    assert shows("a\n…\nc\n", "a\nb\nc\n")
    assert not shows("a\nc\n", "a\nb\nc\n")
    assert not shows("a\n…\nd\n", "a\nb\nc\n")


def test_the_first_kernel_has_as_many_lines_as_it_says() -> None:
    (script,) = [block for block in blocks_of(DOCS / "first-kernel.md") if block.title]
    lines = script.text.count("\n")
    assert lines <= 60
    for page in ("first-kernel.md", "README.md"):
        assert f"{lines} lines" in (DOCS / page).read_text()


def test_codes_that_pages_name_are_listed() -> None:
    listed = set(re.findall(r"^\| `([a-z0-9-]+)`", (DOCS / "reason-codes.md").read_text(), re.M))
    named = re.findall(
        r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", (DOCS / "how-to-refused.md").read_text(), re.M
    )
    codes = {code for entry in named for code in re.findall(r"[a-z-]+", entry)}
    assert codes - listed == set() != codes


def test_words_of_the_glossary_stand_in_their_order() -> None:
    words = re.findall(r"^\| ([a-z ]+) \|", (DOCS / "glossary.md").read_text(), re.M)[1:]
    assert words == sorted(words)


def test_pictures_are_what_the_tool_draws() -> None:
    path = ROOT / "cmake-free-scripts" / "draw_pictures.py"
    spec = importlib.util.spec_from_file_location("draw_pictures", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages = "".join(page.read_text() for page in DOCS.glob("*.md"))
    for name, svg in module.drawn().items():
        assert (DOCS / name).read_text() == svg
        assert f"({name})" in pages


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_time_lines_of_the_machine_page_are_what_the_machine_draws(
    stages: int, tmp_path: Path
) -> None:
    annotation = "async_pipe.num_stages = 3 : i64"
    text = examples.find("gemm").read_text()
    assert annotation in text
    ended = opt(
        f"--async-pipe=num-stages={stages} issue=first", "--target=nvvm:sm_80", "--run=gemm",
        "--threads=128", "--arg=128x256xf16:1", "--arg=128x256xf16:2", "--arg=zeros:128x128xf32",
        "--cost=latency=500,nvgpu.mma.sync=4.6875", f"--timeline={tmp_path / 'drawn.svg'}",
        stdin=text.replace(annotation, f'{annotation}, async_pipe.fragments = "in-place"'),
    )  # fmt: skip
    assert ended.code == 0
    assert (tmp_path / "drawn.svg").read_text() == (
        DOCS / f"machine-{stages}-stages.svg"
    ).read_text()
    (cycles,) = re.findall(r"timeline: (\d+) cycles", ended.out)
    assert f"{cycles} cycles" in (DOCS / "machine.md").read_text()
