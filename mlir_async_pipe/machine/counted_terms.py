"""Integers that depend on how many iterations a loop has: b + s t + u r.

    i = 0 + 3 t        the first iteration of period t, of three iterations each
    K = 224 + 96 t + 96 r        a size: t periods are over, r are left, both any number from 0 on

Such an integer is a term COUNT with the operands (b, s, u). Sums, and products with numbers, are of this form again, modulo the width of
the type. A comparison is decided where it comes out the same for all t and r; it, and a quotient, are those of the integers
only as long as these do not wrap, so that each use lowers `horizon` of the table: for t + r up to it nothing wraps
(i8: 4 + 3 t < 10 + 3 t holds for t up to 39). What is not decided is a term like any other, on which no branch and no
address can depend.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlir_async_pipe.machine.term_table import CAST, CONSTANT, COUNT, TermTable

Array = np.ndarray
_COMPARISONS = frozenset("less less_equal greater greater_equal equal not_equal".split())
_SUMS = frozenset(("add", "subtract", "multiply", "negative", "left_shift", "bitwise_and"))
_QUOTIENTS = frozenset(("floor_divide", "right_shift", "remainder"))
FOLDED = _SUMS | _QUOTIENTS | _COMPARISONS | {"minimum", "maximum", CAST}


def forms(table: TermTable, ids: Array) -> tuple[Array, Array]:
    """(b, s, u) of each term, in a last axis, and which terms are integers of this form."""
    flat = ids.reshape(-1)
    rows = np.zeros((len(flat), 3), np.int64)
    known = np.zeros(len(flat), np.bool_)
    for operator, chosen in table.groups(flat):
        if operator.dtype.kind in "iub" and operator.name == CONSTANT:
            rows[chosen, 0] = table.numbers(flat[chosen], operator.dtype).astype(np.int64)
        elif operator.name == COUNT:
            rows[chosen] = table.rows(flat[chosen], 3)
        else:
            continue
        known[chosen] = True
    return rows.reshape(*ids.shape, 3), known.reshape(ids.shape)


def counted(table: TermTable, dtype: np.dtype, rows: Array) -> Array:
    """The terms of integers (b, s, u), which wrap in their type; those that depend on nothing are numbers."""
    signed = np.dtype(f"i{dtype.itemsize}") if dtype.kind in "iu" else dtype
    wrapped = rows.astype(signed).astype(np.int64)
    if dtype.kind == "u":
        wrapped[:, 0] = rows[:, 0].astype(dtype).astype(np.int64)
    moving = wrapped[:, 1:].any(axis=1)
    made = np.empty(len(rows), np.int64)
    if not moving.all():
        made[~moving] = table.constants(wrapped[~moving, 0].astype(dtype))
    if moving.any():
        made[moving] = table.make_rows(COUNT, dtype, wrapped[moving])
    return made


def folded(
    table: TermTable,
    name: str,
    dtype: np.dtype,
    types: Sequence[np.dtype],
    operands: Sequence[Array],
) -> tuple[Array, Array]:
    """(b, s, u) of an operator on integers of this form, a row each, and which of them are known."""
    one, *others = operands
    known = np.ones(len(one), np.bool_)
    of = "b" if name in _COMPARISONS else "iu"
    if dtype.kind not in of or any(kind.kind not in "iu" for kind in types):
        return one, ~known
    if name in _SUMS:
        return _sum(name, one, others, known)
    if name == CAST:
        if dtype.itemsize > types[0].itemsize or dtype.kind != types[0].kind:
            known = _unwrapped(table, types[0], one, known)
        return one, known
    for values, kind in zip(operands, types, strict=True):
        known = known & _unwrapped(table, kind, values, known)
    return _decided(name, one, others[0], known)


def _sum(name: str, one: Array, others: list[Array], known: Array) -> tuple[Array, Array]:
    """What is exact modulo the width of the type."""
    if name == "negative":
        return -one, known
    (other,) = others
    if name in ("add", "subtract"):
        return one + other if name == "add" else one - other, known
    number = (other[:, 1:] == 0).all(axis=1)
    if name == "left_shift":
        return one << other[:, :1], known & number
    swapped = ~number & (one[:, 1:] == 0).all(axis=1)
    one, other = (np.where(swapped[:, None], *pair) for pair in ((other, one), (one, other)))
    known = known & (number | swapped)
    by = other[:, :1]
    if name == "multiply":
        return one * by, known
    # x & 7 is x modulo 8: a number, if x moves by multiples of 8.
    whole = (by[:, 0] >= 0) & (by & (by + 1) == 0)[:, 0] & ((one[:, 1:] & by) == 0).all(axis=1)
    return (one & by) * [1, 0, 0], known & whole


def _unwrapped(table: TermTable, dtype: np.dtype, rows: Array, asked: Array) -> Array:
    """Which integers have no wrap in their type: for t + r up to the table's horizon, which this lowers."""
    good = (rows[:, 0] < 1 << 62) & (rows[:, 0] > -1 << 62)
    if dtype.kind == "u":
        good &= (rows >= 0).all(axis=1)
    moving = good & asked & rows[:, 1:].any(axis=1)
    if moving.any():
        room = np.iinfo(f"i{dtype.itemsize}").max - np.abs(rows[moving, 0])
        table.horizon = min(
            table.horizon, int((room // np.abs(rows[moving, 1:]).sum(axis=1)).min())
        )
    return good


def _decided(name: str, one: Array, other: Array, known: Array) -> tuple[Array, Array]:
    """Comparisons and what is made of them; quotients, which are exact."""
    rows = np.zeros_like(one)
    if name in _QUOTIENTS:
        by = np.where(name == "right_shift", np.left_shift(1, other[:, 0] & 63), other[:, 0])
        good = known & ~other[:, 1:].any(axis=1) & (by > 0)
        by = np.where(good, by, 1)[:, None]
        good &= (one[:, 1:] % by == 0).all(axis=1)
        if name == "remainder":
            rows[:, 0] = one[:, 0] % by[:, 0]
            return rows, good
        return one // by, good
    apart = one - other
    below = (apart[:, 0] < 0) & (apart[:, 1:] <= 0).all(axis=1)
    above = (apart[:, 0] > 0) & (apart[:, 1:] >= 0).all(axis=1)
    same = ~apart.any(axis=1)
    if name in ("minimum", "maximum"):
        low = (apart <= 0).all(axis=1)
        first = low if name == "minimum" else ~low
        return np.where(first[:, None], one, other), known & (low | (apart >= 0).all(axis=1))
    if name in ("equal", "not_equal"):
        rows[:, 0] = same if name == "equal" else ~same
        return rows, known & (same | below | above)
    # Not below is as good as above or the same, for those that ask for no more.
    low, high = (apart <= 0).all(axis=1), (apart >= 0).all(axis=1)
    strict = name in ("less", "greater")
    yes, no = (below, high) if name.startswith("less") else (above, low)
    if not strict:
        yes, no = (low, above) if name.startswith("less") else (high, below)
    rows[:, 0] = yes
    return rows, known & (yes | no)
