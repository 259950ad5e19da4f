"""LLVM's remarks as YAML: their categories, what filters let through, and where they go.

Covers: tool/remarks.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.driver_process import Ended, opt
from helpers.paths import ROOT

GEMM = (ROOT / "examples" / "gemm.mlir").read_text()
ADD_ONE = (ROOT / "examples" / "small_kernels.mlir").read_text()
PIPELINE = ("--async-pipe", "--target=nvvm:sm_80", "-o", "/dev/null")
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
WRONG = REFUSED.replace("2 : i64", '"two"')
FILTERS = {"Passed": "passed", "Missed": "missed", "Analysis": "analyse", "Failure": "failed"}


class Reader(yaml.SafeLoader):
    """Reads a remark as LLVM's opt-viewer does: the tag is the category."""


def _read(loader: Reader, suffix: str, node: yaml.MappingNode) -> dict[str, Any]:
    return {"category": suffix, **loader.construct_mapping(node, deep=True)}


Reader.add_multi_constructor("!", _read)


def remarks(text: str) -> list[dict[str, Any]]:
    found = list(yaml.load_all(text, Loader=Reader))
    for remark in found:
        # LLVM's parser refuses a remark without any of these.
        assert remark["category"] in FILTERS
        assert all(remark[key] for key in ("Pass", "Name", "Function"))
        assert all(len(argument) == 1 for argument in remark["Args"])
        assert all(isinstance(text, str) for entry in remark["Args"] for text in entry.values())
    return found


def reported(tmp_path: Path, source: str, *words: str) -> tuple[list[dict[str, Any]], Ended]:
    file = tmp_path / "remarks.yaml"
    ended = opt(
        *PIPELINE, "--remark-format=yaml", f"--remarks-output-file={file}", *words, stdin=source
    )
    return remarks(file.read_text()), ended


def test_a_loop_its_counts_and_its_proof_are_remarks(tmp_path: Path) -> None:
    found, _ = reported(tmp_path, GEMM)
    (loop,) = [r for r in found if r["Name"] == "pipelined"]
    assert (loop["category"], loop["Function"]) == ("Passed", "gemm")
    assert {"Stages": "4"} in loop["Args"]
    assert set(loop["DebugLoc"]) == {"File", "Line", "Column"}
    (proof,) = [r for r in found if r["Pass"] == "async-pipe-check"]
    assert (proof["category"], proof["Name"]) == ("Passed", "proven")
    counts = [r for r in found if r["Pass"] == "async-pipe-count-waits"]
    numbers = [
        text for r in counts for entry in r["Args"] for k, text in entry.items() if k == "NumGroups"
    ]
    assert numbers == ["1", "1", "1", "0", "0"]
    assert {r["Function"] for r in counts} == {"gemm"}
    assert any("Witness" in entry for entry in counts[0]["Args"])


def test_a_refused_loop_is_missed_with_its_reason_and_still_written(tmp_path: Path) -> None:
    found, ended = reported(tmp_path, REFUSED)
    assert ended.code == 1
    (missed,) = [r for r in found if r["Name"] == "unproven-independence"]
    assert (missed["category"], missed["Function"]) == ("Missed", "outer")
    assert missed["DebugLoc"]["Line"] == 6
    assert list(missed["Args"][0]) == ["String"]
    assert not any(r["category"] in ("Passed", "Failure") for r in found)


def test_any_other_error_is_a_failure(tmp_path: Path) -> None:
    found, ended = reported(tmp_path, WRONG)
    assert ended.code == 1
    (failed,) = [r for r in found if r["category"] == "Failure"]
    assert (failed["Name"], failed["Function"]) == ("bad-annotation", "outer")


PLAIN = REFUSED.replace("{async_pipe.num_stages = 2 : i64}", "")
SOURCES = {"Passed": GEMM, "Missed": PLAIN, "Analysis": GEMM, "Failure": WRONG}


@pytest.mark.parametrize("category", FILTERS)
def test_a_filter_of_a_category_lets_only_it_through(tmp_path: Path, category: str) -> None:
    everything, _ = reported(tmp_path, SOURCES[category])
    chosen, _ = reported(tmp_path, SOURCES[category], f"--remarks-filter-{FILTERS[category]}=.")
    assert chosen
    assert chosen == [r for r in everything if r["category"] == category]


def test_a_filter_names_passes_and_remarks(tmp_path: Path) -> None:
    found, _ = reported(tmp_path, GEMM, "--remarks-filter=^async-pipe:pipelined$")
    assert [r["Name"] for r in found] == ["pipelined"]
    mixed, _ = reported(tmp_path, GEMM, "--remarks-filter=count", "--remarks-filter-passed=proven")
    assert {r["Pass"] for r in mixed} == {"async-pipe-count-waits", "async-pipe-check"}


def test_what_explain_says_too_is_written_once(tmp_path: Path) -> None:
    plain, _ = reported(tmp_path, GEMM)
    explained, _ = reported(tmp_path, GEMM, "--explain")
    more = [remark["Name"] for remark in explained if remark not in plain]
    assert more == ["statements", "memory-accesses", "resident-blocks", "shared-reads", "limits"]


def test_a_wrong_expression_is_refused_before_any_work(tmp_path: Path) -> None:
    file = tmp_path / "remarks.yaml"
    ended = opt(*PIPELINE, "--remark-format=yaml", f"--remarks-output-file={file}",
                "--remarks-filter-missed=(", stdin=GEMM)  # fmt: skip
    assert ended.code == 1
    assert "option '--remarks-filter-missed' is '(', no regular expression" in ended.err
    assert not file.exists()


def test_without_a_file_they_go_to_stderr(tmp_path: Path) -> None:
    ended = opt(*PIPELINE, "--remark-format=yaml", "--remarks-filter-passed=.", stdin=ADD_ONE)
    assert {r["category"] for r in remarks(ended.err)} == {"Passed"}


def test_quotes_and_line_ends_of_a_message_are_one_scalar() -> None:
    from mlir_async_pipe.session.diagnostics import Place
    from mlir_async_pipe.tool.remarks import Remark

    text = "it's 'a: b' # c\nd\\e"
    made = Remark("Missed", "p", "n", Place("it's.mlir", 1, 2), "<module>", (("String", text),))
    (read,) = remarks(made.to_yaml())
    assert read["Args"] == [{"String": text.replace("\n", " ")}]
    assert read["DebugLoc"] == {"File": "it's.mlir", "Line": 1, "Column": 2}
