"""The fewest barriers with which the checker proves a module, by trying all subsets of its own."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from helpers.check_harness import check_module
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import walk


def barriers(module: Any) -> list[Any]:
    """All barriers of a module, in textual order."""
    return [op for op in walk(module) if op.name == "gpu.barrier"]


def is_proven(module: Any, target: str | None = None) -> bool:
    """Whether the checker says of every access that it is safe."""
    checks = check_module(module, target).report.of("checks")
    return all(found.unsafe == found.unknown == 0 for found in checks)


def fewest(module: Any, target: str | None = None) -> int:
    """The fewest of the module's barriers that are enough."""
    text, count = str(module), len(barriers(module))
    for kept in range(count + 1):
        for chosen in combinations(range(count), kept):
            trial = ir.Module.parse(text)
            for number, op in enumerate(barriers(trial)):
                if number not in chosen:
                    op.erase()
            if is_proven(trial, target):
                return kept
    raise AssertionError("not even all barriers are enough")
