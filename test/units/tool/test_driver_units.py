"""Small parts of the driver, each on its own: options, splitting, expectations, rendering.

Covers: tool/command_line.py, tool/inputs.py, tool/verify_diagnostics.py, tool/render.py, tool/output.py
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from mlir_async_pipe.session.diagnostics import Diagnostic, Note, Place, UsageError
from mlir_async_pipe.tool import (
    command_line,
    inputs,
    output,
    render,
    reproducer,
    verify_diagnostics,
)
from mlir_async_pipe.tool.command_line import PassFlag
from mlir_async_pipe.tool.inputs import Source


def test_pass_flags_keep_their_order_and_options():
    parsed = command_line.parse(
        ["in.mlir", "-cse", "--async-pipe-expand=chip=sm_80 x", "-o", "out"]
    )
    assert parsed.passes == (PassFlag("cse", ""), PassFlag("async-pipe-expand", "chip=sm_80 x"))
    assert (parsed.input, parsed.output) == ("in.mlir", "out")


def test_a_switch_does_not_take_the_next_word():
    parsed = command_line.parse(["--split-input-file", "in.mlir", "--verify-each=false"])
    assert parsed.input == "in.mlir"
    assert parsed.split_input_file == "// -----"
    assert parsed.verify_each is False


def test_an_option_takes_its_value_as_next_word_or_after_an_equals_sign():
    assert command_line.parse(["--target", "nvvm:sm_80"]).target == "nvvm:sm_80"
    assert command_line.parse(["-target=nvvm:sm_80"]).target == "nvvm:sm_80"


@pytest.mark.parametrize(
    "words",
    [
        ["a.mlir", "b.mlir"],
        ["--emit=nothing"],
        ["--target"],
        ["--smem-limit=many"],
        ["--verify-each=perhaps"],
        ["--cse", "--pass-pipeline=builtin.module()"],
    ],
)
def test_wrong_command_lines_are_usage_errors(words):
    with pytest.raises(UsageError, match="bad-usage"):
        command_line.parse(words)


def test_parts_keep_the_line_numbers_of_the_file():
    parts = inputs.split(Source("f", b"a\n// -----\nb\n// ----- \nc"), "// -----")
    assert [(part.content, part.first_line) for part in parts] == [
        (b"a\n", 1),
        (b"\n\nb\n", 3),
        (b"\n\n\n\nc", 5),
    ]


def test_a_line_that_only_holds_the_marker_among_others_does_not_split():
    source = Source("f", b"a // -----\n// ------\n")
    assert len(inputs.split(source, "// -----")) == 1


def test_input_that_is_no_text_is_refused():
    with pytest.raises(UsageError, match="not-text") as refused:
        _ = Source("f", b"module {}\n// \xff").text
    place = refused.value.diagnostic.place
    assert (place.line, place.column) == (2, 4)


def problems(text: str, *said: Diagnostic, only_expected: bool = False) -> list[str]:
    found = verify_diagnostics.compare(
        Source("f", text.encode()), said, only_expected=only_expected
    )
    return [f"{problem.place.line}: {problem.message}" for problem in found]


def error(line: int, message: str, *notes: Note) -> Diagnostic:
    return Diagnostic("error", message, "some-code", Place("f", line, 1), notes)


@pytest.mark.parametrize(
    ("comment", "line"),
    [
        ("// expected-error {{too big}}", 2),
        ("// expected-error @+1 {{too big}}", 3),
        ("// expected-error@-1 {{too big}}", 1),
        ("// expected-error @above {{too big}}", 1),
        ("// expected-error @below {{too big}}", 3),
        ("// expected-error @unknown {{too big}}", 0),
        ("// expected-error-re {{too {{b.g}}}}", 2),
        ("// expected-error {{[some-code]}}", 2),
    ],
)
def test_an_expectation_is_met_at_its_line_and_nowhere_else(comment, line):
    text = f"one\n{comment}\nthree\n"
    assert problems(text, error(line, "it is too big")) == []
    assert len(problems(text, error(line + 7, "it is too big"))) == 2


def test_missing_and_unexpected_diagnostics_are_reported():
    text = "x // expected-error {{a}}\n"
    assert problems(text) == ['1: expected error "a" was not produced']
    assert problems("x\n", error(1, "b")) == ["1: unexpected error: b [some-code]"]
    assert problems("x\n", error(1, "b"), only_expected=True) == []


def test_one_diagnostic_meets_one_expectation_only():
    text = "x // expected-error {{a}}\n"
    assert len(problems(text, error(1, "a"), error(1, "a"))) == 1


def test_notes_are_expected_like_diagnostics():
    said = error(1, "a", Note("the other", Place("f", 2, 1)))
    assert problems("x // expected-error {{a}}\ny // expected-note {{other}}\n", said) == []
    assert problems("x // expected-error {{a}}\ny\n", said) == ["2: unexpected note: the other"]


def test_an_expectation_of_another_severity_is_not_met():
    assert len(problems("x // expected-remark {{a}}\n", error(1, "a"))) == 2


def test_a_malformed_expectation_is_an_error_and_not_a_pass():
    assert problems("x // expected-error {{a}\n") == ["1: cannot read this expectation"]


def test_several_below_stand_for_the_same_line():
    text = "// expected-error @below {{a}}\n// expected-error @below {{b}}\nx\n"
    assert problems(text, error(3, "a"), error(3, "b")) == []


def test_text_shows_the_line_and_a_caret():
    shown = render.as_text(
        Diagnostic("error", "no", "code", Place("f", 2, 3)), {"f": ["one", "  two"]}
    )
    assert shown == "f:2:3: error: no [code]\n  two\n  ^\n"


def test_what_has_no_place_is_said_by_the_tool():
    assert render.as_text(Diagnostic("error", "no", "c"), {}) == "async-pipe-opt: error: no [c]\n"


def test_github_commands_escape_what_would_end_them():
    line = render.as_github(Diagnostic("warning", "50%\nmore", "c", Place("a,b", 2, 3)))
    assert line == "::warning file=a%2Cb,line=2,col=3,title=c::50%25%0Amore [c]\n"


def test_sarif_names_rule_place_and_notes():
    noted = error(4, "no", Note("why", Place("f", 2, 1)))
    log = json.loads(render.as_sarif([noted], "1.0"))
    (run,) = log["runs"]
    (result,) = run["results"]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["some-code"]
    assert result["level"] == "error"
    assert result["locations"][0]["physicalLocation"]["region"] == {
        "startLine": 4,
        "startColumn": 1,
    }
    assert result["relatedLocations"][0]["message"]["text"] == "why"


def test_a_file_is_replaced_in_one_step(tmp_path):
    name = tmp_path / "out"
    name.write_text("old")
    name.chmod(0o640)
    output.write(str(name), b"new")
    assert name.read_text() == "new"
    assert name.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [name]


def test_writing_through_a_link_keeps_the_link(tmp_path):
    (tmp_path / "real").write_text("old")
    link = tmp_path / "link"
    link.symlink_to("real")
    output.write(str(link), b"new")
    assert link.is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("name", ["no/such/folder/out", "."])
def test_an_output_that_cannot_be_written_is_refused_early(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="cannot-write"):
        output.check_writable(name)


@pytest.mark.parametrize("pipeline", ["builtin.module(cse)", 'm(a{x="1\\2"})', "m(a{b={}})"])
def test_a_reproducer_is_read_as_it_was_written(pipeline):
    written = reproducer.Reproducer(pipeline, disable_threading=True, verify_each=False)
    source = Source("f", f"module {{}}\n{written}".encode())
    assert reproducer.required(source) == written
    assert reproducer.without(source).text.strip() == "module {}"


def test_a_reproducer_of_mlir_opt_is_read():
    text = (
        "module {}\n{-#\n external_resources: { mlir_reproducer: { "
        'pipeline: "builtin.module(a{x=\\22y\\22})", disable_threading: true, '
        "verify_each: true } }\n#-}\n"
    )
    found = reproducer.required(Source("f", text.encode()))
    assert found == reproducer.Reproducer('builtin.module(a{x="y"})', True, True)


def test_input_without_a_reproducer_is_refused():
    with pytest.raises(Exception, match="no-reproducer"):
        reproducer.required(Source("f", b"module {}"))


def test_the_tool_loads_no_stack_before_its_words_are_read() -> None:
    # `--bindings` could not choose any more.
    loaded = "import sys, mlir_async_pipe.tool.__main__; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=60
    )
    roots = {name.partition(".")[0] for name in done.stdout.split()}
    assert "mlir_async_pipe" in roots
    assert not roots & {"mlir", "numba_cuda_mlir", "torch_mlir", "flydsl", "iree", "jaxlib"}
