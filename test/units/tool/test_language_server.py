"""The language server: what it tells of a text, its edits, and a client that talks to it over stdio.

Covers: tool/language_server.py
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from helpers.paths import ROOT
from mlir_async_pipe.tool import language_server
from mlir_async_pipe.tool.language_server import Edit, FileAnalysis

pytest.importorskip("pygls")

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

ADD_ONE = (ROOT / "examples" / "add_one.mlir").read_text()
REFUSED = """func.func @outer(%m: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %v = memref.load %m[%i] : memref<8xf32>
    memref.store %v, %m[%c0] : memref<8xf32>
  } {async_pipe.num_stages = 2 : i64}
  return
}
"""
URI = "file:///k.mlir"


def line_of(text: str, word: str) -> int:
    return next(n for n, line in enumerate(text.splitlines()) if word in line)


def applied(text: str, edit: Edit) -> str:
    lines = text.splitlines()
    at = lines[edit.line]
    lines[edit.line] = at[: edit.column] + edit.text + at[edit.column :]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def of_add_one() -> FileAnalysis:
    return asyncio.run(language_server.analyse(ADD_ONE, ["--target=nvvm:sm_80"]))


def test_a_loop_shows_its_stages_versions_and_waits(of_add_one: FileAnalysis) -> None:
    shown = of_add_one.hover(line_of(ADD_ONE, "scf.for"))
    assert "**3 stages**, 1 group an iteration" in shown
    assert "3 versions of 2048 bytes" in shown
    assert "kernel: **1 group** of cp.async may stay in flight" in shown


def test_a_wait_shows_its_count_with_reason_and_path(of_add_one: FileAnalysis) -> None:
    shown = of_add_one.hover(line_of(ADD_ONE, "device_async_wait"))
    assert "kernel: **1 group** of cp.async may stay in flight: the loop structure" in shown
    assert "- the awaited group is committed (14:15)" in shown
    assert "stages" not in shown
    assert of_add_one.hover(0) == ""


def test_a_wait_written_by_hand_shows_its_own_count() -> None:
    text = (ROOT / "lit-tests" / "driver" / "check-only.mlir").read_text()
    found = asyncio.run(language_server.analyse(text, []))
    shown = found.hover(line_of(text, "nvgpu.device_async_wait"))
    assert shown.startswith("**0 groups** of ")
    assert "- the awaited group is committed" in shown
    codes = [entry["code"] for entry in found.said if entry["severity"] == "error"]
    assert codes == ["read-in-flight"]


def test_without_pygls_the_server_says_what_brings_it(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    assert language_server.main([]) == 1
    assert "pip install '.[lsp]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("scf.for %i {\n}\n", "scf.for %i {\n} {async_pipe.num_stages = 3 : i64}\n"),
        ('scf.for %i { // {\n  "}"\n} {a}\n',
         'scf.for %i { // {\n  "}"\n} {async_pipe.num_stages = 3 : i64, a}\n'),
    ],
)  # fmt: skip
def test_a_loop_without_stages_may_have_some(text: str, edited: str) -> None:
    (edit,) = FileAnalysis(text.splitlines()).edits(0)
    assert applied(text, edit) == edited


@pytest.mark.parametrize(
    "text",
    [
        "scf.for %i {\n} {async_pipe.num_stages = 2 : i64}\n",
        "scf.for %i {\n} {a,\n  async_pipe.num_stages = 2}\n",
        "// scf.for {\n}\n",
        "scf.for %i {\n",
    ],
)
def test_no_edit_where_there_are_stages_or_no_whole_loop(text: str) -> None:
    assert list(FileAnalysis(text.splitlines()).edits(0)) == []


def test_a_loop_that_is_refused_may_be_marked_independent() -> None:
    found = asyncio.run(language_server.analyse(REFUSED, []))
    (edit,) = found.edits(line_of(REFUSED, "memref.load"))
    marked = applied(REFUSED, edit)
    assert "} {async_pipe.independent, async_pipe.num_stages = 2 : i64}" in marked
    said = asyncio.run(language_server.analyse(marked, [])).said
    assert [entry for entry in said if entry["severity"] == "error"] == []


def test_loops_that_nobody_annotated_are_no_warning() -> None:
    plain = REFUSED.replace(" {async_pipe.num_stages = 2 : i64}", "")
    assert asyncio.run(language_server.analyse(plain, [])).said == []


def test_places_in_other_files_are_none_of_this_text() -> None:
    placed = REFUSED.replace(": memref<8xf32>\n", ': memref<8xf32> loc("other.mlir":90:1)\n')
    found = asyncio.run(language_server.analyse(placed, []))
    (error,) = [entry for entry in found.said if entry["severity"] == "error"]
    assert error["place"] == {"file": "other.mlir", "line": 0, "column": 0}


def test_what_the_tool_cannot_tell_as_json_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    (reported,) = asyncio.run(language_server.analyse("", [])).said
    assert (reported["severity"], reported["message"]) == ("error", "the tool ended with 1")


def test_a_client_sees_diagnostics_as_it_types_hovers_and_applies_actions() -> None:
    asyncio.run(asyncio.wait_for(_conversation(), 100))


async def _conversation() -> None:
    client = LanguageClient("test", "1")
    reported: asyncio.Queue[Any] = asyncio.Queue()

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def published(parameters: lsp.PublishDiagnosticsParams) -> None:
        reported.put_nowait(parameters)

    await client.start_io(
        sys.executable, "-m", "mlir_async_pipe.tool.language_server", "--target=nvvm:sm_80"
    )
    await client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
    document = lsp.TextDocumentItem(URI, "mlir", 1, REFUSED)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(document))
    first = await reported.get()
    (refused,) = [d for d in first.diagnostics if d.severity == lsp.DiagnosticSeverity.Error]
    assert (first.version, refused.code) == (1, "unproven-independence")
    assert refused.range.start == lsp.Position(5, 9)
    assert [note.location.range.start.line for note in refused.related_information] == [6, 4]

    asked = lsp.CodeActionParams(
        lsp.TextDocumentIdentifier(URI), refused.range, lsp.CodeActionContext([refused])
    )
    (action,) = await client.text_document_code_action_async(asked)
    (edit,) = action.edit.changes[URI]
    assert edit.new_text == "async_pipe.independent, "

    # Typed in two steps: the first is out of date before it is looked at.
    for version, text in ((2, REFUSED[:-3]), (3, ADD_ONE)):
        client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(
                lsp.VersionedTextDocumentIdentifier(version, URI),
                [lsp.TextDocumentContentChangeWholeDocument(text)],
            )
        )
    after = await reported.get()
    assert after.version == 3
    assert {d.severity for d in after.diagnostics} <= {lsp.DiagnosticSeverity.Information}
    shown = await client.text_document_hover_async(
        lsp.HoverParams(
            lsp.TextDocumentIdentifier(URI), lsp.Position(line_of(ADD_ONE, "device_async_wait"), 8)
        )
    )
    assert "**1 group** of cp.async may stay in flight" in shown.contents.value
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
