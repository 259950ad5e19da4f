"""Quotients of a loop's counter that are counted up are those that were divided.

Covers: lowering/scopes/carried_quotients.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering.scopes.carried_quotients import carry_quotients

STEPS = 13


def kernel(
    low: int, step: int, advance: int, first: int, divisor: int, ops: tuple[str, str]
) -> str:
    """Stores the quotient and the remainder by `divisor` of what `first` divides in each iteration."""
    high = low + STEPS * step
    quotient, remainder = ops
    return f"""
func.func @f(%Q : memref<{STEPS}xindex>, %R : memref<{STEPS}xindex>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %low = arith.constant {low} : index
  %high = arith.constant {high} : index
  %step = arith.constant {step} : index
  %advance = arith.constant {advance} : index
  %first = arith.constant {first} : index
  %divisor = arith.constant {divisor} : index
  %last = scf.for %k = %low to %high step %step iter_args(%n = %c0) -> (index) {{
    %ahead = arith.addi %advance, %k : index
    %x = arith.divui %ahead, %first : index
    %q = {quotient} %x, %divisor : index
    %r = {remainder} %x, %divisor : index
    memref.store %q, %Q[%n] : memref<{STEPS}xindex>
    memref.store %r, %R[%n] : memref<{STEPS}xindex>
    %next = arith.addi %n, %c1 : index
    scf.yield %next : index
  }}
  return
}}
"""


UNSIGNED = ("arith.divui", "arith.remui")


def numbers_and_divisions(text: str) -> tuple[list[np.ndarray], int]:
    """What the kernel stores after the rewrite, and how many divisions its loop is left with."""
    with new_context():
        module = ir.Module.parse(text)
        carry_quotients(module.operation)
        assert module.operation.verify()
        empty = [np.full(STEPS, -1) for _ in range(2)]
        found = list(machine.run(module, "f", empty).arrays)
        return found, sum(str(module).count(op) for op in ("arith.div", "arith.rem", "floordiv"))


def expected(low: int, step: int, advance: int, first: int, divisor: int) -> list[np.ndarray]:
    counted = (low + step * np.arange(STEPS) + advance) // first
    return [counted // divisor, counted % divisor]


@pytest.mark.parametrize(
    ("low", "step", "advance", "first", "divisor"),
    [
        (0, 32, 64, 32, 3),
        (0, 1, 0, 1, 3),
        (5, 7, 2, 1, 3),
        (0, 16, 0, 16, 5),
        (96, 64, 33, 32, 3),
        (0, 3, 1, 1, 100),
    ],
)
@pytest.mark.parametrize("ops", [UNSIGNED, ("arith.floordivsi", "arith.remsi")])
def test_they_are_the_same_numbers(
    low: int, step: int, advance: int, first: int, divisor: int, ops: tuple[str, str]
) -> None:
    found, divisions = numbers_and_divisions(kernel(low, step, advance, first, divisor, ops))
    for one, other in zip(found, expected(low, step, advance, first, divisor), strict=True):
        assert (one == other).all()
    # Of what may be 2^63 and more signed numbers are others.
    stays = advance and first == 1 and ops != UNSIGNED
    assert divisions == (3 if stays else 1)


@pytest.mark.parametrize(
    ("low", "step", "advance", "first", "divisor", "why"),
    [
        (0, 32, 0, 32, 4, "a shift"),
        (0, 1, 0, 2, 3, "the counter is divided by more than its step"),
        (0, 3, 0, 1, 3, "the quotient is counted itself, and the remainder is 0"),
        (0, 1, 1 << 31, 1, 3, "it may be advanced beyond 2^64"),
    ],
)
def test_these_are_divided_in_each_iteration(
    low: int, step: int, advance: int, first: int, divisor: int, why: str
) -> None:
    found, divisions = numbers_and_divisions(kernel(low, step, advance, first, divisor, UNSIGNED))
    for one, other in zip(found, expected(low, step, advance, first, divisor), strict=True):
        assert (one == other).all()
    assert divisions == 3, why


def test_a_loop_that_begins_anywhere_divides() -> None:
    text = kernel(0, 32, 64, 32, 3, UNSIGNED).replace(
        "%low = arith.constant 0 : index", "%low = memref.dim %Q, %c0 : memref<13xindex>"
    )
    assert numbers_and_divisions(text)[1] == 3
