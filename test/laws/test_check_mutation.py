"""Mutation score of the checker: every mutant that the machine makes fail must be named.

528 mutants, 48 of each of 11 kinds, of the hand-written kernels, of kernels that our own
passes made, and of a family of rings. A mutant fails if the machine finds a race for some
trip count 0..4 with copies as late as the waits allow. `unknown` counts as not found. The
score is printed (pytest -s).

Covers: checker/kernel.py, checker/hazards.py, test/helpers/check_mutants.py
"""

from __future__ import annotations

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
# Of the 48 of a kind so many fail at least. A wait that is weaker, or gone, is often covered by another.
FAILING = {
    "weaker-wait": 11, "no-wait": 12, "late-wait": 48, "wait-after-barrier": 45, "fewer-versions": 48,
    "shifted-slot": 46, "no-barrier": 47, "no-commit": 43, "late-commit": 40, "reordered-groups": 26,
    "exchanged-copies": 47,
}  # fmt: skip
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
def made() -> dict[str, list[tuple[Mutant, str]]]:
    """Mutants, each with its target, by kind."""
    found: dict[str, list[tuple[Mutant, str]]] = {kind: [] for kind in KINDS}
    for name, text, target in kernels():
        for mutant in mutants(name, text):
            found[mutant.kind].append((mutant, target))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_failing_mutant_of_a_kind_is_found(
    made: dict[str, list[tuple[Mutant, str]]], kind: str
) -> None:
    step = max(1, len(made[kind]) // EACH)
    chosen = made[kind][::step][:EACH]
    failing = [
        (mutant, target)
        for mutant, target in chosen
        if machine_races(mutant.text, target, completions=(("late", 0),))
    ]
    missed = [str(m) for m, target in failing if not check_text(m.text, target).unsafe]
    print(f"\n{kind}: mutants {len(chosen)}, failing {len(failing)}, missed {len(missed)}")
    assert missed == []
    assert len(chosen) >= 30
    assert len(failing) >= FAILING[kind]


def test_there_are_enough_mutants_and_half_of_them_fail() -> None:
    assert list(FAILING) == list(KINDS)
    assert 2 * sum(FAILING.values()) >= EACH * len(KINDS) >= 500
