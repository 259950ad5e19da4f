"""A sample of the mutation report: whatever a machine makes fail, the checker names.

`python test/mutation_report.py` does the same to thousands of mutants.
"""

from __future__ import annotations

from functools import cache
from itertools import islice

import pytest
from mutation_kernels import Kernel, handwritten, random_kernels
from mutation_report import KINDS, Judged, Report, Result, judge

SAMPLE = ("double_buffer_counts", "ring_tokens", "amd_ring_marks")
# What the checker says where a block's size is unknown has its own test, test_check_block_shapes.
RANDOM = 7
SAMPLED = [kind for kind in KINDS if kind != "unknown-block"]


@cache
def randoms() -> list[Kernel]:
    return list(islice(random_kernels(7), RANDOM))


@pytest.mark.parametrize("which", [*SAMPLE, *range(RANDOM)])
def test_no_failing_mutant_is_missed(which: str | int) -> None:
    named = {kernel.name: kernel for kernel in handwritten()}
    kernel = named[which] if isinstance(which, str) else randoms()[which]
    judged = judge(kernel, each=1, seed=1, kinds=SAMPLED)
    assert len(judged.results) >= 4
    assert [(r.kind, r.number, r.fails) for r in judged.results if r.missed] == []
    if not judged.wrong:
        assert judged.accesses and judged.unknown <= 0.02 * judged.accesses


def test_the_table_counts_by_kind_and_names_what_was_missed() -> None:
    report = Report()
    found = Result("no-wait", "k", 0, "unsafe", "read-in-flight")
    missed = Result("no-barrier", "k", 1, "safe", "missing-barrier", "module {}")
    diverging = Result("barrier-into-branch", "k", 0, "safe", "divergent-barrier")
    report.add(Judged([found, missed, diverging], accesses=10, unknown=1))
    lines = {line.split()[0]: line.split()[1:] for line in report.table().splitlines()}
    assert lines["no-wait"] == ["1", "1", "1", "0", "0"]
    assert lines["no-barrier"] == ["1", "1", "0", "0", "1"]
    assert lines["all"] == ["3", "2", "1", "0", "1"]
    assert report.missed == [missed] and "10.00 %" in report.table()
    assert len(KINDS) == 29
