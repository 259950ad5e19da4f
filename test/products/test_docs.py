"""The documentation is true: its code blocks run, its tables list what the sources have.

Covers: docs, facts/loops/annotations.py, cmake-free-scripts/write_passes.py
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import mlir_async_pipe
from helpers.paths import ROOT
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.checker.precision import Precision, Rung
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.waits.ssa.cursors import CURSOR

DOCS = ROOT / "docs"
TABLE_CODE = re.compile(r"^\| `([a-z0-9-]+)`", re.MULTILINE)
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def codes_of(tree: ast.AST) -> Iterator[str]:
    """The reason codes that a source file can give: `code=` arguments, their defaults and variables, and tables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            values = [k.value for k in node.keywords if k.arg == "code"]
            values += node.args[:1] if name in ("Reason", "remark_once") else []
            values += node.args[2:3] if name == "Diagnostic" else []
            for value in values:
                yield from _constants(value)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == "code":
                yield from _constants(node.value)
            elif node.targets[0].id == "_SENTENCES" and isinstance(node.value, ast.Dict):
                yield from (k.value for k in node.value.keys if isinstance(k, ast.Constant))
        elif isinstance(node, ast.FunctionDef):
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
                if argument.arg == "code" and default is not None:
                    yield from _constants(default)


def _constants(value: ast.expr) -> Iterator[str]:
    choices = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    found = [c.value for c in choices if isinstance(c, ast.Constant)]
    yield from (code for code in found if isinstance(code, str) and code)


def source_codes() -> set[str]:
    files = sorted((ROOT / "mlir_async_pipe").rglob("*.py"))
    return {code for file in files for code in codes_of(ast.parse(file.read_text()))}


@pytest.mark.slow
def test_reason_codes_are_listed_exactly() -> None:
    listed = TABLE_CODE.findall((DOCS / "reason-codes.md").read_text())
    assert set(listed) - source_codes() == set()
    assert source_codes() - set(listed) == set()
    assert len(listed) == len(set(listed))


def test_the_ladder_of_precisions_is_listed_exactly() -> None:
    page = (DOCS / "checker.md").read_text().split("## How it works")[1]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.MULTILINE)
    rungs = [(rung.name.lower(), rung.value) for rung in Rung]
    assert rows[: len(rungs)] == rungs
    assert [name for name, _ in rows[len(rungs) :]] == [f.name for f in fields(Precision)]


def test_a_code_is_found_in_each_form_in_which_the_sources_have_it() -> None:
    source = """
raise InputError("…", code="one")
code = "two" if proven else "three"
Reason("four", "…")
_SENTENCES = {"five": "…"}
Diagnostic("error", "…", "six")
def refuse(why, *, code="seven"): ...
"""
    found = {"one", "two", "three", "four", "five", "six", "seven"}
    assert set(codes_of(ast.parse(source))) == found


PRELUDE = """
func.func @example(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias},
                   %n : index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  %B = memref.alloca() : memref<1xf32>
  %tile = memref.alloca() : memref<1xf32, #gpu.address_space<workgroup>>
"""


def blocks(page: str, language: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page in one language: what follows the language, and the text."""
    found = BLOCK.findall((DOCS / page).read_text())
    return [(options.strip(), text) for name, options, text in found if name == language]


def module_of(text: str) -> ir.Module:
    """A block as a module: a whole function, or ops that stand in one."""
    return ir.Module.parse(text if "func.func" in text else f"{PRELUDE}{text}\nreturn\n}}\n")


@pytest.mark.parametrize(("options", "text"), blocks("annotations.md", "mlir"))
def test_blocks_of_the_annotation_page_do_what_they_say(options: str, text: str) -> None:
    with new_context():
        module = module_of(text)
        before = str(module)
        if not options:
            mlir_async_pipe.pipeline(module)
            assert "async_pipe.stage" not in str(module)
            assert str(module) != before
            return
        with pytest.raises(AsyncPipeError) as caught:
            mlir_async_pipe.pipeline(module)
        assert f'title="error: {caught.value.code}"' == options
        assert str(module) == before


@pytest.mark.parametrize(("options", "text"), blocks("concepts.md", "mlir"))
def test_counts_of_the_concepts_page_are_the_ones_it_says(options: str, text: str) -> None:
    with new_context():
        report = mlir_async_pipe.count_waits(module_of(text))
        found = ", ".join(str(record.count) for record in report.of("waits"))
    assert f'title="counts {found}"' == options


@pytest.mark.parametrize(("options", "text"), blocks("latency.md", "mlir"))
def test_the_loop_of_the_latency_page_gets_the_schedule_that_it_tells(
    options: str, text: str
) -> None:
    with new_context():
        report = mlir_async_pipe.pipeline(module_of(text))
    (schedule,) = report.of("schedules")
    reported = (DOCS / "latency.md").read_text()
    assert f"{schedule.interval:g} cycles between iterations" in reported
    assert f"{schedule.stages} stages" in reported


def test_every_attribute_is_in_a_table_of_the_annotation_page() -> None:
    listed = re.findall(r"^\| `(async_pipe\.\w+)`", (DOCS / "annotations.md").read_text(), re.M)
    others = {names.DYNAMIC_SHARED_BYTES, names.BARRIERS, CURSOR}
    known = {*names.KNOWN_NAMES, *names.OP_NAMES, *others}
    assert set(listed) == known


def test_the_rfc_page_and_its_lit_tests_name_the_same_examples() -> None:
    page = (DOCS / "rfc-0077.md").read_text()
    named = set(re.findall(r"^\| `([a-z-]+)`", page, re.M))
    files = {file.stem for file in (ROOT / "lit-tests" / "rfc-0077").glob("*.mlir")}
    assert named == files - {"invalid"}


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [link for link in links if ".." in link] == [], "not on the site"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_blocks_begin_in_a_way_that_the_site_knows(page: Path) -> None:
    begins = re.findall(r"^```.*", page.read_text(), re.MULTILINE)[::2]
    assert [at for at in begins if not re.fullmatch(r'```(?:\w+(?: title="[^"]+")?)?', at)] == []


def test_the_reference_names_every_public_call_and_none_that_is_not_there() -> None:
    members = re.findall(
        r"^::: (\S+)\n    options:\n      members: \[(.*)\]",
        (DOCS / "reference.md").read_text(),
        re.M,
    )
    named = {(module, name) for module, listed in members for name in listed.split(", ")}
    assert [at for at in sorted(named) if not hasattr(importlib.import_module(at[0]), at[1])] == []
    public = {*mlir_async_pipe.__all__} - {"__version__", "AsyncPipeError"}
    assert public - {name for _, name in named} == set()


def test_files_that_the_pages_name_exist() -> None:
    text = "".join(page.read_text() for page in DOCS.glob("*.md"))
    named = set(re.findall(r"\b(?:examples|lit-tests|test)/[\w/.-]+\.(?:py|mlir)\b", text))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_index_lists_every_page() -> None:
    listed = set(
        re.findall(r"^\| \[[^\]]+\]\(([\w-]+\.md)\)", (DOCS / "README.md").read_text(), re.M)
    )
    assert listed == {page.name for page in DOCS.glob("*.md")} - {"README.md"}


def test_the_page_of_passes_is_what_the_registry_says() -> None:
    written = [sys.executable, "-c", "import write_passes; print(write_passes.page(), end='')"]
    scripts = ROOT / "cmake-free-scripts"
    made = subprocess.run(
        written,
        cwd=scripts,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert made == (DOCS / "passes.md").read_text(), (
        "cmake-free-scripts/write_passes.py writes it anew"
    )
    for name in passes.names():
        assert f"## `--{name}`" in made


def test_the_site_leads_to_every_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("nav:")[2]
    assert set(re.findall(r"([\w-]+\.md)", navigation)) == {page.name for page in DOCS.glob("*.md")}
