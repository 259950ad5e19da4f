"""Runs the checker and the async machine on the same kernel, for tests that compare the two."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import symbol_name
from mlir_async_pipe.checker.hazards import CheckSummary
from mlir_async_pipe.checker.kernel import threads_of
from mlir_async_pipe.checker.selection import kernels
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Report, Session

# What the machine reports and the checker proves of kernels without mbarriers; the rest (bounds,
# reads of memory that nobody wrote, other blocks) is none of its business there.
RACES = frozenset(
    "read-in-flight overwrite-in-flight source-overwritten atomic-in-flight not-visible "
    "missing-barrier".split()
)
TRIPS = (0, 1, 2, 3, 4)
# At each end of what hardware may do, and two schedules of completion in between.
COMPLETIONS = (("late", 0), ("eager", 0))


@dataclass(frozen=True)
class Checked:
    """What the checker said about a module."""

    report: Report

    @property
    def unsafe(self) -> frozenset[tuple[str, str]]:
        """(code, place of the later access) of all hazards that certainly exist."""
        return self._of("unsafe")

    @property
    def unknown(self) -> frozenset[tuple[str, str]]:
        """The same for what it could not tell."""
        return self._of("unknown")

    @property
    def accesses(self) -> int:
        """Static accesses of all kernels."""
        return sum(entry.accesses for entry in self.report.of("checks"))

    @property
    def unknown_accesses(self) -> int:
        """Static accesses that could not be decided."""
        return sum(entry.unknown for entry in self.report.of("checks"))

    def _of(self, verdict: str) -> frozenset[tuple[str, str]]:
        return frozenset(
            (entry.code, str(entry.place))
            for entry in self.report.of("hazards")
            if entry.verdict == verdict
        )


def check_text(text: str, target: str | None = None, **options: Any) -> Checked:
    """Check MLIR text."""
    with new_context():
        return check_module(ir.Module.parse(text), target, **options)


def check_module(module: Any, target: str | None = None, **options: Any) -> Checked:
    """Check a module; hazards are collected, nothing is raised."""
    session = Session(target=Target.parse(target) if target is not None else None)
    found = passes.find("async-pipe-check")
    found.run(module.operation, found.options(**options), session)
    return Checked(session.report())


def verdict(report: Report) -> str:
    """What the checker says of the first kernel as a whole."""
    found: CheckSummary = report.of("checks")[0]
    return "unsafe" if found.unsafe else "unknown" if found.unknown else "safe"


def codes(report: Report) -> set[str]:
    """The names of all hazards that certainly exist."""
    return {found.code for found in report.of("hazards") if found.verdict == "unsafe"}


def machine_races(
    text: str,
    target: str | None = None,
    *,
    trips: Iterable[int] = TRIPS,
    completions: Iterable[tuple[str, int]] = COMPLETIONS,
    block: tuple[int, int, int] | None = None,
) -> frozenset[tuple[str, str]]:
    """(code, place of the later access) of all races over trip counts, conditions and completions.

    Every index argument takes all `trips`, every i1 argument both values.
    """
    found: set[tuple[str, str]] = set()
    with new_context():
        module = ir.Module.parse(text)
        kernel = entry_kernel(module)
        size = block or threads_of(kernel, None).size or (4, 1, 1)
        name = symbol_name(kernel)
        chosen = Target.parse(target) if target is not None else None
        for arguments in argument_choices(kernel, trips):
            for completion, seed in completions:
                result = machine.run(
                    module,
                    name,
                    arguments,
                    threads=size,
                    completion=completion,
                    seed=seed,
                    target=chosen,
                )
                found |= {(r.code, str(r.place)) for r in result.races if r.code in RACES}
    return frozenset(found)


def entry_kernel(module: Any) -> Any:
    """The last kernel of a module: callees stand before it."""
    return kernels(module)[-1]


def argument_choices(kernel: Any, trips: Iterable[int]) -> Iterator[list[Any]]:
    """All argument lists: arrays of ascending numbers, each trip count, each truth value."""
    kinds = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).inputs
    options = [_values(kind, tuple(trips)) for kind in kinds]
    for choice in itertools.product(*options):
        yield list(choice)


def _values(kind: Any, trips: tuple[int, ...]) -> list[Any]:
    text = str(kind)
    if text == "index" or text in ("i32", "i64"):
        return list(trips)
    if text == "i1":
        return [0, 1]
    shape = tuple(ir.MemRefType(kind).shape)
    element = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "i8": np.int8}
    dtype = element[str(ir.MemRefType(kind).element_type)]
    return [np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)]
