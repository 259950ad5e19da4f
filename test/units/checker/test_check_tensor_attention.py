"""Attention whose softmax, correction, copies and products are warps of their own, with P as a left operand in tensor
memory: right kernels are proven for any number of keys, each part that is left out is named, and fails on the machine.

Covers: machine/barrier_phases.py, checker/phases/tensor_state.py, checker/phases/op_effects.py, machine/tensor_cells.py, examples/generate_blackwell_attention.py, test/helpers/tensor_attention.py, test/helpers/hopper_attention.py
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.hopper_attention import wrong_by
from helpers.machine_programs import parse
from helpers.tensor_attention import MUTANTS, ChangedAttention
from mlir_async_pipe import check

ONE = ChangedAttention()
OVERLAID = replace(ONE, overlaid=True)
KERNELS = {
    "one group": ONE,
    "four slots": replace(ONE, slots=4),
    "two groups": replace(ONE, groups=2),
    "overlaid": OVERLAID,
    "128 keys and features": replace(ONE, keys=128, features=128),
    "of FlashAttention-4": ChangedAttention(features=128, keys=128, groups=2, overlaid=True),
}
MOODS = [("eager", "forward"), ("late", "backward"), ("random", "random")]


def found(made: ChangedAttention | str) -> tuple[set[str], int]:
    """The codes of certain findings, and how many accesses are not decided."""
    report = check(parse(made if isinstance(made, str) else made.module()))
    (summary,) = report.of("checks")
    return {d.code for d in report.diagnostics if d.severity == "error"}, summary.unknown


def run(
    made: ChangedAttention | str, mood: tuple[str, str], of: ChangedAttention = ONE
) -> tuple[bool, set[str]]:
    """Whether the machine gives NumPy's result, and what raced; of a text it is said what that is `of`."""
    completion, schedule = mood
    text = made if isinstance(made, str) else made.module()
    of = of if isinstance(made, str) else made
    wrong, races = wrong_by(of, parse(text), 384, completion, heads=1, schedule=schedule)
    return wrong < 1e-3, races


@pytest.mark.parametrize("name", KERNELS)
def test_it_is_proven_for_any_number_of_keys(name):
    assert not KERNELS[name].problems()
    assert found(KERNELS[name]) == (set(), 0)


@pytest.mark.parametrize("mood", MOODS, ids="-".join)
@pytest.mark.parametrize("name", KERNELS)
def test_the_result_is_numpy_s(name, mood):
    assert run(KERNELS[name], mood) == (True, set())


@pytest.mark.parametrize("name", MUTANTS)
def test_a_part_that_is_changed_is_named_and_fails(name):
    changes, expected = MUTANTS[name]
    made = ONE.changed(**changes)
    assert made.module() != ONE.module()
    codes, _ = found(made)
    assert codes & expected, codes
    assert any(run(made, mood) != (True, set()) for mood in MOODS)


def test_products_into_the_cells_of_a_left_operand_wait_for_the_product_that_reads_it():
    """Those into one accumulator are in order, those into another one are not (PTX ISA, tcgen05)."""
    made = OVERLAID.changed(**{"wait read": ""})
    assert found(made) == ({"source-overwritten"}, 0)
    assert all("source-overwritten" in run(made, mood)[1] for mood in MOODS)


def test_a_commit_tells_which_phases_its_thread_knew_to_be_over():
    """The products of these scores waited for O of the tile before, so whoever waits for the scores needs no wait for that."""
    lines = OVERLAID.module().split("\n")
    text = "\n".join(line for line in lines if not ("%summed[" in line and "%summed_phase" in line))
    assert len(lines) - text.count("\n") == 2
    assert found(text) == (set(), 0)
    assert all(run(text, mood, OVERLAID) == (True, set()) for mood in MOODS)
    # Where P has cells of its own nothing waits for that product, and a load comes too early.
    lines = ONE.module().split("\n")
    text = "\n".join(line for line in lines if not ("%summed[" in line and "%summed_phase" in line))
    assert found(text)[0] & {"read-in-flight", "too-many-arrivals"}
    assert any(run(text, mood, ONE) != (True, set()) for mood in MOODS)


@pytest.mark.parametrize(
    ("moved", "codes"),
    [
        ({"p": 32}, {"source-overwritten"}),
        ({"factor": 64}, {"missing-barrier", "overwrite-in-flight", "read-in-flight"}),
        ({"o": 32}, {"missing-barrier"}),
    ],
    ids=["P in the scores", "the factor in P", "O in the scores"],
)
def test_what_shares_columns_is_named_and_fails(moved, codes):
    made = replace(ONE, moved=moved)
    assert found(made)[0] & codes, found(made)
    assert any(run(made, mood) != (True, set()) for mood in MOODS)
