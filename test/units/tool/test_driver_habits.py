"""Habits of mlir-opt: lists of flags and passes, near misses, names of printed values, and remarks
of --explain.

Covers: tool/command_line.py, tool/instruments.py, tool/explain.py, docs/driver.md
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from helpers.driver_process import opt
from helpers.paths import ROOT
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.tool import command_line
from mlir_async_pipe.tool.command_line import FLAGS, did_you_mean, mlir_passes

TWO = """func.func @f(%a: index) -> index {
  %0 = arith.addi %a, %a : index
  return %0 : index
}
func.func @g(%a: index) -> index {
  %0 = arith.muli %a, %a : index
  return %0 : index
}
"""
BAD = '%0 = "arith.constant"() {value = 1 : i32} : () -> i64\n'


def test_the_page_lists_every_flag_as_the_help_does():
    page = (ROOT / "docs" / "driver.md").read_text().partition("## Every flag")[2]
    listed = re.findall(r"^\| `--([\w-]+)(\S*)` \| (.*) \|$", page.replace("\\|", "|"), re.M)
    assert [(name, reported) for name, _, reported in listed] == [(f.name, f.help) for f in FLAGS]
    assert [value.strip("[=]") for _, value, _ in listed] == [f.metavar for f in FLAGS]


def test_help_list_has_all_flags_by_name():
    names = re.findall(r"^  --([\w-]+)", command_line.help_list(), re.M)
    assert names == sorted(flag.name for flag in FLAGS)


@pytest.mark.parametrize("words", [["-p", "x(y)"], ["-p=x(y)"], ["--pass-pipeline=x(y)"]])
def test_p_is_the_pipeline(words):
    assert command_line.parse(words).pass_pipeline == "x(y)"


def test_options_of_a_pass_may_stand_behind_spaces_anywhere_on_the_line():
    spaced = "--async-pipe=num-stages=2 issue=first"
    for words in ([spaced], [spaced, "k.mlir"], ["k.mlir", "--cse", spaced, "--canonicalize"]):
        read = command_line.parse(words)
        assert read.input == ("k.mlir" if "k.mlir" in words else "-")
        assert ("async-pipe", "num-stages=2 issue=first") in [
            (p.name, p.options) for p in read.passes
        ]
        order = [word[2:].partition("=")[0] for word in words if word.startswith("--")]
        assert [p.name for p in read.passes] == order


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("explian", "explain"), ("async-pip", "async-pipe"), ("canonicalise", "canonicalize")],
)
def test_a_name_that_is_nearly_right_is_answered(wrong, right):
    assert did_you_mean(wrong, new_context()) == f"did you mean '--{right}'?"


def test_a_name_that_is_like_no_other_is_not_guessed():
    assert did_you_mean("xyzzy") == ""
    assert did_you_mean("canonicalise") == "", "passes of MLIR are asked for with a context only"


def test_a_wrong_option_of_mlir_is_answered_while_the_command_line_is_read():
    with pytest.raises(UsageError, match="did you mean '--mlir-timing'"):
        command_line.parse(["--mlir-timin"])


def test_passes_of_mlir_are_found_in_its_library():
    found = mlir_passes(new_context())
    assert {"cse", "canonicalize", "sccp", "inline", "convert-gpu-to-nvvm"} <= set(found)
    assert list(found) == sorted(set(found))
    assert not [name for name in found if name.startswith("async-pipe")]


def test_completion_without_its_library_is_a_usage_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(UsageError, match="missing-extra"):
        command_line.completion("bash")


def test_completion_knows_flags_and_passes(tmp_path):
    pytest.importorskip("shtab", reason="the extra 'completion' is not installed")
    script = command_line.completion("bash")
    assert "--mlir-print-ir-after-all" in script
    assert "--async-pipe-count-waits" in script
    file = tmp_path / "completion.bash"
    file.write_text(script)
    subprocess.run(["bash", "-n", str(file)], check=True)


def test_unique_names_are_unique_in_the_whole_module():
    printed = opt("--mlir-print-unique-ssa-ids", stdin=TWO).out
    defined = re.findall(r"(%\w+): index|(%\w+) = ", printed)
    names = [name for pair in defined for name in pair if name]
    assert len(names) == len(set(names)) == 4
    plain = opt(stdin=TWO).out
    assert plain.count("%arg0: index") == 2
    assert opt(stdin=printed).out == plain


def test_named_locations_become_names():
    text = TWO.replace("%a : index\n  return", '%a : index loc("sum")\n  return', 1)
    assert "%sum = arith.addi" in opt("--mlir-use-nameloc-as-prefix", stdin=text).out
    assert "%0 = arith.addi" in opt(stdin=text).out


def test_the_op_of_an_error_is_shown_unless_switched_off():
    shown = opt(stdin=BAD)
    assert "note: see current operation" in shown.err
    hidden = opt("--mlir-print-op-on-diagnostic=false", stdin=BAD)
    assert hidden.code == shown.code == 1
    assert hidden.err.splitlines()[0] == shown.err.splitlines()[0]
    assert "see current operation" not in hidden.err


def test_a_defect_shows_its_traceback_without_isolation(tmp_path):
    (tmp_path / "defect.py").write_text("""
from mlir_async_pipe import passes

def register():
    @passes.register("defect", "raises what no pass should")
    def defect(module, options, session):
        raise KeyError("surprise")
""")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    flags = ("--load=defect:register", "--defect")
    ended = opt(*flags, "--isolate=false", stdin=TWO, environment={"PYTHONPATH": path})
    assert ended.code == 1
    assert "Traceback" in ended.err
    assert "in defect\n" in ended.err
    assert "[internal-error]" in ended.err
    isolated = opt(*flags, stdin=TWO, environment={"PYTHONPATH": path})
    assert "Traceback" not in isolated.err


def test_explain_names_the_parts_and_folds_each_path():
    ended = opt(
        ROOT / "examples" / "add_one.mlir", "--async-pipe", "--target=nvvm:sm_80", "--explain",
        "-o", os.devnull,
    )  # fmt: skip
    remarks = re.findall(r"remark: (\w+): (\d+) groups? of cp.async may stay in flight", ended.err)
    assert remarks == [("kernel", "1"), ("epilogue", "1"), ("epilogue", "0")]
    assert "note: prologue: 2 copies, 2 commits\n" in ended.err
    assert "note: kernel: 1 wait (1), 1 copy, 1 commit, 2 statements\n" in ended.err
    assert "note: epilogue: 2 waits (1, 0), 4 statements\n" in ended.err
    paths = re.findall(r"14:15: note: (the awaited group is committed.*)", ended.err)
    assert len(paths) == 3
    assert paths[0].endswith(
        "a younger group is committed (14:15); first iteration of 'scf.for' (12:5)"
    )


def test_explain_of_a_hand_written_kernel_names_no_parts():
    file = ROOT / "examples" / "handwritten" / "ring_tokens.mlir"
    ended = opt(file, "--async-pipe-count-waits", "--explain", "-o", os.devnull)
    assert re.search(r"remark: \d+ groups? of cp.async may stay in flight", ended.err)
    assert not re.search("remark: (prologue|kernel|epilogue): ", ended.err)
