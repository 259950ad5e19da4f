"""RFC 0077's worked examples, pipelined and run: right under every completion, and no count too small.

Each annotated function of lit-tests/rfc-0077 goes through the whole pass, then runs on the async
machine with copies that arrive at once, as late as the waits allow, and at random moments; NumPy
says what the result has to be. Tightness: with any single count one larger, late completion
shows a race.

Covers: pipeliner/async_pipe_pass.py, lit-tests/rfc-0077
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.paths import ROOT
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, set_integer, walk
from mlir_async_pipe.vocabulary import row_of

pytestmark = pytest.mark.slow

FOLDER = ROOT / "lit-tests" / "rfc-0077"
COMPLETIONS = [("eager", 0), ("late", 0), ("random", 1), ("random", 2)]


@dataclass(frozen=True)
class Example:
    """A function, its arguments (the last array is the result), the result, and its counts."""

    file: str
    function: str
    arguments: Callable[[], list[Any]]
    result: Callable[..., np.ndarray]
    counts: tuple[int, ...]

    def __str__(self) -> str:
        return self.function


def row(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 100, shape).astype(np.float32)


def one_input() -> list[Any]:
    return [row(1, 16), np.zeros(16, np.float32)]


def one_input_and_bound() -> list[Any]:
    # With 14 the last two copies do not happen, the last reads do not either.
    return [row(1, 16), np.zeros(16, np.float32), 14]


def two_inputs() -> list[Any]:
    return [row(1, 16), row(2, 16), np.zeros(16, np.float32)]


def tiles() -> list[Any]:
    return [row(1, 128, 2), row(2, 128, 2), np.zeros((128, 2), np.float32)]


def below(a: np.ndarray, bound: int) -> np.ndarray:
    return np.where(np.arange(len(a)) < bound, a, 0)


def product(a: np.ndarray, b: np.ndarray, *_: Any) -> np.ndarray:
    return a * b


EXAMPLES = [
    Example("two-stages-sync", "two_stages_sync", one_input, lambda a, c: a + 2, ()),
    Example("two-stages-async", "two_stages_async", one_input, lambda a, c: a + 2, (1, 0)),
    Example(
        "three-stages-two-async", "textual_order", one_input, lambda a, d: a + 3, (1, 1, 1, 0, 1, 0)
    ),
    Example(
        "three-stages-two-async",
        "last_stage_first",
        one_input,
        lambda a, d: a + 3,
        (1, 0, 1, 0, 0, 0),
    ),
    Example("commit-groups", "grouped", two_inputs, product, (3, 2, 1, 0)),
    Example("commit-groups", "interleaved", two_inputs, product, (5, 4, 2, 0)),
    Example("interleaved-producers", "interleaved_producers", two_inputs, product, (5, 4, 2, 0)),
    Example("nested-outer-loop", "outer_loop", tiles, product, (2, 2, 1, 0)),
    Example("same-stage", "by_stage", tiles, product, (0, 0, 0, 2, 0, 2, 1, 0)),
    Example("same-stage", "by_op", tiles, product, (0, 0, 0, 0)),
    Example(
        "predicated-producers", "scope", one_input_and_bound, lambda a, c, n: below(a, n), (2, 1, 0)
    ),
    Example(
        "predicated-producers",
        "guarded_copy",
        one_input_and_bound,
        lambda a, c, n: below(a, n),
        (2, 1, 0),
    ),
    Example(
        "predicated-producers",
        "in_the_epilogue",
        one_input_and_bound,
        lambda a, c, n: below(a + 1, n),
        (1, 1, 1, 0, 1, 0),
    ),
]


def pipelined(example: Example) -> Any:
    """The module with only the example's function, through the whole pass."""
    text = (FOLDER / f"{example.file}.mlir").read_text()
    part = next(p for p in text.split("// -----") if f"@{example.function}(" in p)
    module = ir.Module.parse(part)
    mlir_async_pipe.pipeline(module)
    return module


def waits_of(module: Any, function: str) -> list[Any]:
    """The waits of one function, in textual order."""
    ops = walk(function_of(module, function))
    return [op for op in ops if (found := row_of(op)) is not None and found.wait is not None]


def function_of(module: Any, name: str) -> Any:
    return next(
        op
        for op in walk(module)
        if op.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == name
    )


def count_name(wait: Any) -> str:
    found = row_of(wait)
    assert found is not None and found.wait is not None
    return found.wait.count


def run(
    module: Any, example: Example, completion: str, seed: int = 0, bound: int | None = None
) -> tuple[Any, bool]:
    """Run the example, perhaps with another bound; also whether the result is the right one."""
    arguments = example.arguments()
    if bound is not None:
        arguments = [bound if isinstance(a, int) else a for a in arguments]
    done = machine.run(module, example.function, arguments, completion=completion, seed=seed)
    place = max(n for n, argument in enumerate(arguments) if isinstance(argument, np.ndarray))
    return done, bool(np.array_equal(done.arrays[place], example.result(*arguments)))


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_counts_are_the_exact_ones(example: Example) -> None:
    with new_context():
        # Operations live as long as somebody holds their module.
        module = pipelined(example)
        waits = waits_of(module, example.function)
        assert tuple(integer_attribute(w, count_name(w)) for w in waits) == example.counts


@pytest.mark.parametrize(("completion", "seed"), COMPLETIONS)
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_result_is_right_whenever_copies_arrive(
    example: Example, completion: str, seed: int
) -> None:
    with new_context():
        done, right = run(pipelined(example), example, completion, seed)
    assert done.races == ()
    assert right


@pytest.mark.parametrize(
    ("example", "number"),
    [(e, n) for e in EXAMPLES for n in range(len(e.counts))],
    ids=lambda value: str(value),
)
def test_one_group_more_in_flight_is_a_race(example: Example, number: int) -> None:
    """Every wait stands before an access that needs it, so no count may be larger.

    Conditions hold in all 16 iterations, so that a read follows each wait.
    """
    with new_context():
        module = pipelined(example)
        wait = waits_of(module, example.function)[number]
        bits = 64 if wait.name.startswith("async_pipe.") else 32
        set_integer(wait, count_name(wait), example.counts[number] + 1, bits)
        done, _ = run(module, example, "late", bound=16)
    assert done.races
