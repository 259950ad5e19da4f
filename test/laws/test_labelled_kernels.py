"""Kernels of others with known verdicts: none that is right is called unsafe, none that races proven.

They are a part of GPUVerify's public test suite in MLIR's LLVM dialect, one JSON object a line
(`name`, `label`, `text`), and lie beside the repository, in shared/corpus; without the file the test is skipped.

Covers: checker/check_pass.py
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import pytest

from helpers.paths import ROOT
from mlir_async_pipe import check
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import HazardError

CORPUS = ROOT.parent / "shared" / "corpus" / "gpuverify.jsonl.gz"

# They race where OpenCL's barrier orders one address space only. As they are given here, an
# nvvm.barrier stands there, which orders both: the text is right.
ORDERED_BY_NVVM = {
    "inter_group_and_barrier_flag_tests/fail/missing_global_barrier_flag",
    "inter_group_and_barrier_flag_tests/fail/sync_within_group_wrong_flag",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CORPUS.exists(), reason="shared/corpus is not beside the repository"),
]


@pytest.fixture(scope="module")
def kernels() -> list[dict[str, Any]]:
    with gzip.open(CORPUS, "rt") as file:
        return [json.loads(line) for line in file]


def verdict(text: str) -> str:
    with new_context():
        try:
            found = check(ir.Module.parse(text)).of("checks")
        except HazardError:
            return "unsafe"
    if any(entry.unsafe for entry in found):
        return "unsafe"
    return "unknown" if any(entry.unknown for entry in found) else "proven"


@pytest.fixture(scope="module")
def verdicts(kernels: list[dict[str, Any]]) -> dict[str, str]:
    return {kernel["name"]: verdict(kernel["text"]) for kernel in kernels}


def labelled(kernels: list[dict[str, Any]], *labels: str) -> list[str]:
    return [kernel["name"] for kernel in kernels if kernel["label"] in labels]


def test_no_right_kernel_is_called_unsafe(kernels, verdicts):
    assert [n for n in labelled(kernels, "right") if verdicts[n] == "unsafe"] == []


def test_no_racy_or_divergent_kernel_is_proven(kernels, verdicts):
    wrong = set(labelled(kernels, "racy", "divergent")) - ORDERED_BY_NVVM
    assert wrong and [n for n in wrong if verdicts[n] == "proven"] == []


def test_most_right_kernels_are_proven(kernels, verdicts):
    """At least 85 in 100."""
    reported = Counter(verdicts[name] for name in labelled(kernels, "right"))
    assert reported["proven"] >= 0.85 * reported.total()


def test_most_racy_kernels_are_named(kernels, verdicts):
    reported = Counter(
        verdicts[name] for name in labelled(kernels, "racy") if name not in ORDERED_BY_NVVM
    )
    assert reported["unsafe"] >= 0.85 * reported.total()
