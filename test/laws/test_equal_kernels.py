"""Kernels with one key have one verdict: right kernels, their mutants, and both with more rows of memory.

The key leaves out names, data and the first size of memory that subscripts alone touch. ASYNC_PIPE_SAMPLES
sets the number of kernels.

Covers: checker/equal_kernels.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable
from itertools import islice
from random import Random
from typing import Any

import pytest

from helpers import check_mutants
from helpers.check_harness import check_text
from helpers.mutation_kernels import fixed
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.checker import equal_kernels
from mlir_async_pipe.checker.kernel import surroundings
from mlir_async_pipe.checker.selection import kernels
from reports.mutation_table import KINDS

pytestmark = pytest.mark.slow

KERNELS = int(os.environ.get("ASYNC_PIPE_SAMPLES", "10"))


def verdict(text: str, target: str | None) -> tuple[Any, ...]:
    found = check_text(text, target)
    return found.accesses, len(found.unsafe), len(found.unknown), found.unknown_accesses


def test_kernels_and_mutants_with_one_key_have_one_verdict() -> None:
    """Rows are added to memory wherever the module stays right: who has the key of another one
    has its verdict."""
    random, compared = Random(7), 0
    for kernel in islice(fixed(), KERNELS):
        texts = [kernel.text]
        for mutate in random.sample(list(KINDS.values()), 4):
            texts += [text for _, text in islice(check_mutants.mutated(kernel.text, mutate), 2)]
        texts += [re.sub(r"memref<(\d+)x", lambda m: f"memref<{int(m[1]) + 8}x", t) for t in texts]
        with new_context():
            same = by_key(texts)
            alike = [group for group in same.values() if len(group) > 1]
            for group in alike:
                assert len({verdict(text, kernel.target) for text in group[:3]}) == 1
            compared += len(alike)
    assert compared > KERNELS / 2


def by_key(texts: list[str]) -> dict[Hashable, list[str]]:
    """Modules of one kernel by its key, but for the module itself; those that are none left out."""
    same: dict[Hashable, list[str]] = {}
    for text in texts:
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError:
            continue
        found = kernels(module.operation)
        key = equal_kernels.key_of(found[0], surroundings(module.operation, found))
        if key is not None and len(found) == 1:
            same.setdefault(key[1:], []).append(text)  # type: ignore[index]
    return same
