"""What a proof asks for is added to what it has; all else stays.

Covers: checker/precision.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.checker.precision import Precision, RefineError, refined

ASKED = {
    "tracked": (frozenset({1}), frozenset({2}), frozenset({1, 2})),
    "periods": ({0: 2, 1: 3}, {1: 6}, {0: 2, 1: 6}),
    "modulus": (4, 6, 12),
    "counted": ({0: 5}, {0: 8, 1: 8}, {0: 8, 1: 8}),
    "apart": (frozenset({7}), frozenset({7}), frozenset({7})),
    "warps": ((0b11,), (0b1,), (0b11, 0b1)),
    "aligned": (False, True, True),
    "rings": ({3: "bytes 0 to 15"}, {3: "bytes 0 to 31"}, {3: "bytes 0 to 31"}),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_run_begins_again_with_what_it_asked_for(name: str) -> None:
    before, more, after = ASKED[name]
    runs: list[Precision] = []

    def run(precision: Precision) -> str:
        runs.append(precision)
        if len(runs) == 1:
            raise RefineError(**{name: more})
        return "proven"

    assert refined(run, Precision(**{name: before})) == "proven"
    assert runs == [Precision(**{name: before}), Precision(**{name: after})]


def test_what_no_precision_has_cannot_be_asked_for() -> None:
    def run(precision: Precision) -> None:
        raise RefineError(colour="red")

    with pytest.raises(AttributeError, match="colour"):
        refined(run)


def test_other_errors_end_a_run() -> None:
    def run(precision: Precision) -> None:
        raise ValueError("no number")

    with pytest.raises(ValueError, match="no number"):
        refined(run)
