"""Mutation score of the checker: every mutant that the machine makes fail must be named.

528 mutants, 48 of each of 11 kinds, of the hand-written kernels, of kernels that our own
passes made, and of a family of rings. A mutant fails if the machine finds a race for some
trip count 0..4 with copies as late as the waits allow. `unknown` counts as not found. The
score is printed (pytest -s).

Covers: checker/kernel.py, checker/hazards.py, test/helpers/check_mutants.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from helpers import ring_kernels
from helpers.check_harness import check_text, machine_races
from helpers.check_mutants import KINDS, Mutant, mutants
from helpers.paths import ROOT
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

EACH = 48
EXAMPLES = ROOT / "examples"


def kernels() -> Iterator[tuple[str, str, str]]:
    """(name, text, target) of all correct kernels."""
    for path in sorted((EXAMPLES / "handwritten").glob("*.mlir")):
        target = "rocdl:gfx950" if path.name.startswith("amd") else "nvvm:sm_80"
        yield path.stem, path.read_text(), target
    yield "pipelined add_one", pipelined((EXAMPLES / "add_one.mlir").read_text()), "nvvm:sm_80"
    for ring in ring_kernels.family():
        yield str(ring), ring_kernels.text(ring), ring.target


def pipelined(text: str) -> str:
    """What our own passes make of an annotated module."""
    with new_context():
        module = ir.Module.parse(text)
        found = passes.find("async-pipe")
        found.run(module.operation, found.options(), Session(target=Target.parse("nvvm:sm_80")))
        return str(module)


@pytest.fixture(scope="module")
def score() -> tuple[Counter[str], Counter[str], list[str]]:
    """Mutants and failing mutants by kind, and the failing ones that the checker missed."""
    made: dict[str, list[tuple[Mutant, str]]] = {kind: [] for kind in KINDS}
    for name, text, target in kernels():
        for mutant in mutants(name, text):
            made[mutant.kind].append((mutant, target))
    count: Counter[str] = Counter()
    failing: Counter[str] = Counter()
    missed = []
    for kind, entries in made.items():
        step = max(1, len(entries) // EACH)
        for mutant, target in entries[::step][:EACH]:
            count[kind] += 1
            if machine_races(mutant.text, target, completions=(("late", 0),)):
                failing[kind] += 1
                if not check_text(mutant.text, target).unsafe:
                    missed.append(str(mutant))
    return count, failing, missed


def test_there_are_enough_mutants_of_each_kind(score: tuple) -> None:
    count, failing, missed = score
    total, bad = sum(count.values()), sum(failing.values())
    print(
        f"\nmutants {total}, of which the machine fails {bad}, of which the checker misses {len(missed)}"
    )
    for kind in KINDS:
        print(f"  {kind:20} {count[kind]:4} {failing[kind]:4}")
    assert total >= 500
    assert min(count.values()) >= 30
    assert 2 * bad >= total


def test_every_failing_mutant_is_found(score: tuple) -> None:
    _, _, missed = score
    assert missed == []
