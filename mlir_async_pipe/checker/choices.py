"""Selections, minima and maxima, of forms.

    arith.select       decided by the condition, else the path splits
    arith.minui        the one that is never larger, else `min(a, b)`

A ring's slot that is counted up by a selection is a remainder.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.checker import forms, operators
from mlir_async_pipe.checker.forms import Facts, Form
from mlir_async_pipe.checker.settled import exact, settle
from mlir_async_pipe.checker.thread_grid import is_about_threads
from mlir_async_pipe.checker.type_kinds import is_integer
from mlir_async_pipe.checker.widths import signed, stored, unsigned
from mlir_async_pipe.facts.values.domains import Typed


class UndecidedError(Exception):
    """The path splits here: `condition` may be 0 or 1."""

    def __init__(self, condition: Form) -> None:
        self.condition = condition


def select(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    """The value that the condition chooses; UndecidedError where a path must split."""
    condition = exact(settle(v[0], facts), facts)
    if condition is None:
        if v[1] == v[2]:
            return v[1]
        following = wrapped(v, facts)
        if (
            following is None
            and chooses_numbers(op.op)
            and any(is_about_threads(atom) for atom, _ in v[0].terms)
        ):
            # b + (a - b) * c: each thread has a number of its own, and no path splits.
            between = forms.subtract(v[1], v[2])
            chosen = (
                forms.scale(v[0], between.constant)
                if between.is_constant
                else forms.call("mul", v[0], between)
            )
            following = forms.add(v[2], chosen)
        if following is None:
            raise UndecidedError(v[0])
        return following
    return v[1] if condition else v[2]


def chooses_numbers(op: Any) -> bool:
    """Whether one condition selects one of two integers: a form of all three says which."""
    return str(op.operands[0].type) == "i1" and is_integer(op.results[0].type)


def wrapped(v: list[Form], facts: Facts) -> Form | None:
    """x = V ? 0 : x, with x in 0 … V, is x mod V: how a ring's slot is counted up.

    `v` are condition and values of the selection; None if it is no such one.
    """
    condition, zero, x = v
    if zero != forms.ZERO or len(condition.terms) != 1:
        return None
    ((atom, sign),) = condition.terms
    if (condition.constant, sign, atom.kind) != (0, 1, "call"):
        return None
    name, (difference, *_) = forms.operator_of(atom)
    versions = forms.subtract(x, difference)
    low, high = forms.bounds(x, facts)
    if name != "cmp=" or not versions.is_constant or low is None or high is None:
        return None
    if low < 0 or high > versions.constant:
        return None
    return operators.modulo(x, versions.constant, facts)


def extreme(op: Typed, v: list[Form], facts: Facts) -> Form | None:
    """The smaller or the larger one, as the row says, of signed or unsigned numbers."""
    if op.row.sign == "u":
        a, b = (unsigned(x, op.bits, facts) for x in v)
    else:
        a, b = (signed(x, op.bits) for x in v)
    if a is None or b is None:
        return None
    return stored(_least(op.row.method, a, b, facts), op.bits, facts)


def _least(name: str, a: Form, b: Form, facts: Facts) -> Form:
    low, high = forms.bounds(forms.subtract(a, b), facts)
    if high is not None and high <= 0:
        return a if name == "min" else b
    if low is not None and low >= 0:
        return b if name == "min" else a
    return forms.call(name, a, b)
