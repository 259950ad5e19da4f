"""A sample of the mutation report: whatever a machine makes fail, the checker names.

`python test/reports/mutation_report.py` does the same to thousands of mutants.

Covers: checker/kernel.py, test/reports/mutation_report.py, test/reports/mutation_table.py,
test/reports/nightly_table.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from helpers.check_harness import Checked
from helpers.mutant_failure import Size, read_axes, shapes
from helpers.mutation_kernels import Kernel, handwritten, random_kernels
from mlir_async_pipe.bindings import ir, new_context
from reports import mutation_report, nightly_table
from reports.mutation_report import judge
from reports.mutation_table import KINDS, Judged, Report, Result

SAMPLE = ("double_buffer_counts", "ring_tokens", "amd_ring_marks")
RANDOM = 7


@cache
def randoms() -> list[Kernel]:
    return list(islice(random_kernels(7), RANDOM))


@pytest.mark.parametrize("which", [*SAMPLE, *range(RANDOM)])
def test_no_failing_mutant_is_missed(which: str | int) -> None:
    named = {kernel.name: kernel for kernel in handwritten()}
    kernel = named[which] if isinstance(which, str) else randoms()[which]
    judged = judge(kernel, each=1, seed=1)
    assert len(judged.results) >= 4
    assert [(r.kind, r.number, r.fails) for r in judged.results if r.missed] == []
    assert [r.kind for r in judged.results if r.verdict == "died"] == []
    assert not judged.unsafe and not judged.not_judged
    if not judged.wrong:
        assert judged.accesses and judged.unknown <= 0.02 * judged.accesses


@pytest.mark.parametrize(
    ("body", "axes"),
    [
        ("%t = gpu.thread_id x\n%b = gpu.block_id y", ""),
        ("%t = gpu.thread_id y", "y"),
        ("%d = gpu.block_dim z", "z"),
        ("%t = gpu.global_id y", "y"),
        ("%t = nvvm.read.ptx.sreg.tid.z : i32\n%d = nvvm.read.ptx.sreg.ctaid.y : i32", "z"),
        ("%t = rocdl.workitem.id.y : i32", "y"),
        ("%t = gpu.lane_id", ""),
        ("func.call @f() : () -> ()", "y"),
    ],
)
def test_axes_of_a_block_are_those_that_the_kernel_reads(body: str, axes: str) -> None:
    text = f"""
    func.func private @f() {{
      %t = gpu.thread_id y
      return
    }}
    func.func @k() {{
      {body}
      return
    }}"""
    with new_context():
        module = ir.Module.parse(text)
        assert read_axes(list(module.body.operations)[1].operation, module) == axes


@pytest.mark.parametrize(
    ("written_for", "axes", "expected"),
    [
        ((4, 1, 1), "", {(4, 1, 1), (8, 1, 1), (2, 1, 1)}),
        ((4, 2, 1), "", {(4, 1, 1), (8, 1, 1), (2, 1, 1)}),
        ((4, 1, 1), "y", {(4, 1, 1), (8, 1, 1), (2, 1, 1), (4, 2, 1), (2, 2, 1)}),
        ((1, 1, 1), "z", {(1, 1, 1), (2, 1, 1), (1, 1, 2)}),
    ],
)
def test_blocks_of_unknown_size_have_several_threads_where_they_are_distinguished(
    written_for: Size, axes: str, expected: set[Size]
) -> None:
    assert set(shapes(written_for, axes)) == expected


FOUND = Result("no-wait", "k", 0, "unsafe", "read-in-flight")
MISSED = Result("no-barrier", "k", 1, "safe", "missing-barrier", "module {}")
DIVERGING = Result("barrier-into-branch", "k", 0, "safe", "divergent-barrier", "module {}")
SLOW = Result("late-wait", "k", 2, "slow", "not-visible", "module {}")
SLOW_AND_RIGHT = Result("late-wait", "k", 3, "slow", "", "module {}")
STOPPED = Result("other-sign", "k", 0, "safe", "", not_judged="step-limit")


def some_report() -> Report:
    report = Report()
    results = [FOUND, MISSED, DIVERGING, SLOW, SLOW_AND_RIGHT, STOPPED]
    report.add(Judged(results, "k", accesses=10, unknown=1, reasons=["may-alias"]))
    return report


def test_the_table_counts_by_kind_and_names_what_was_missed() -> None:
    report = some_report()
    lines = {line.split()[0]: line.split()[1:] for line in report.table().splitlines()}
    assert lines["no-wait"] == ["1", "1", "1", "0", "0"]
    assert lines["no-barrier"] == ["1", "1", "0", "0", "1"]
    assert lines["barrier-into-branch"] == ["1", "1", "0", "0", "1"]
    assert lines["late-wait"] == ["2", "1", "0", "0", "1"]
    assert lines["all"] == ["6", "4", "1", "0", "3"]
    assert report.missed == [MISSED, DIVERGING, SLOW] and not report.is_clean
    assert "10.00 %" in report.table() and "time: 2, of which fail: 1" in report.table()
    assert "unknown on a right kernel: k: 1 of 10, may-alias" in report.details()
    assert "not judged: 1 x step-limit" in report.details()
    assert len(KINDS) == 29


def test_a_check_that_dies_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(text: str, target: str | None) -> Checked:
        raise IndexError(text)

    monkeypatch.setattr(mutation_report, "check_text", dies)
    report = Report(died=[Result("no-wait", "k", 0, mutation_report._verdict("", None), "")])
    assert report.died[0].verdict == "died" and not report.is_clean


def test_the_json_of_the_report_is_what_the_nightly_table_reads(tmp_path: Path) -> None:
    file = tmp_path / "mutants.json"
    mutation_report.save(some_report(), 7, "", str(file))
    rows = dict(nightly_table.mutants(json.loads(file.read_text())))
    assert rows["mutants"] == "6" and rows["a machine makes them fail"] == "4"
    assert rows["missed"] == "3"
    assert rows["the checker ran out of time"] == "2, of which fail 1"
    assert rows["neither fail nor are judged by both machines"] == "`step-limit` 1"
    assert rows["barriers that only some threads reach"] == "1"


def test_a_report_that_is_stopped_tells_what_it_has(tmp_path: Path) -> None:
    """And exits 1, whatever it has not seen."""
    file = tmp_path / "mutants.json"
    command = [sys.executable, "-c", STOP, "--mutants", "100000", "--json", str(file)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "stopped by SIGTERM" in done.stdout, done.stderr
    found = json.loads(file.read_text())
    assert found["kernels"] == 1 and found["stopped"] == "SIGTERM"
    assert sum(found["mutants"].values()) == 1


# The report with kernels that are judged at once, ended from outside after the first.
STOP = f"""
import os
from reports import mutation_report, mutation_table
def judge(kernel, each, seed):
    if kernel.name == "stop":
        os.kill(os.getpid(), {int(signal.SIGTERM)})
    result = mutation_table.Result("no-wait", kernel.name, 0, "unsafe", "read-in-flight")
    return mutation_table.Judged([result], kernel.name)
mutation_report.judge = judge
kernels = [mutation_report.Kernel(name, "", None) for name in ("first", "stop")]
mutation_report.mixed = lambda *sources: iter(kernels)
raise SystemExit(mutation_report.main())
"""
