"""Normal forms of terms: what is one form is one number, on any data; what compilers exchange is one form, and nothing else.

Covers: machine/normal_terms.py
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from helpers.machine_programs import context
from helpers.term_values import value_of
from mlir_async_pipe.machine.kinds import round_bf16
from mlir_async_pipe.machine.normal_terms import NormalForms
from mlir_async_pipe.machine.term_table import TermTable
from mlir_async_pipe.machine.terms import Terms, as_array, inputs, lift

I8, I16, I32, U8, U16, U32 = (np.dtype(name) for name in ("i1", "i2", "i4", "u1", "u2", "u4"))
F16, F32, F64 = (np.dtype(name) for name in ("f2", "f4", "f8"))
Made = Callable[[Any, Any], Any]


def normal(table: TermTable, value: Any) -> Terms:
    value = as_array(value)
    return Terms(table, NormalForms(table).of(lift(table, value, value.dtype)), value.dtype)


def forms_of(dtype: np.dtype, *made: Made) -> list[list[int]]:
    table = TermTable()
    x, y = (inputs(table, name, (3,), dtype).terms() for name in ("arg0", "arg1"))
    return [normal(table, one(x, y)).inner.tolist() for one in made]


def joined(*bytes_: Any) -> Any:
    """An integer of 32 bits, of the lowest bytes of others."""
    return np.stack(
        [one.view(U8) if one.dtype == I8 else one.astype(U8) for one in bytes_], axis=-1
    ).view(I32)[..., 0]


def halves(low: Any, high: Any) -> Any:
    """An integer of 32 bits, of the lower halves of two others."""
    return np.stack([low.astype(U16), high.astype(U16)], axis=-1).view(I32)[..., 0]


def bf16(values: Any) -> Any:
    return values.kept("bf16", round_bf16)


SAME: list[tuple[np.dtype, Made, Made]] = [
    (I32, lambda x, y: (x + I32.type(3)) * I32.type(2), lambda x, y: I32.type(6) + (x << 1)),
    (I32, lambda x, y: x + x + x, lambda x, y: x * I32.type(3)),
    (I32, lambda x, y: (x - y) + y, lambda x, y: x),
    (I32, lambda x, y: -(y - x), lambda x, y: x - y),
    (I32, lambda x, y: (x + y) * I32.type(-1), lambda x, y: -x - y),
    (I8, lambda x, y: (x.astype(I16) + I16.type(3)).astype(I8), lambda x, y: x + I8.type(3)),
    (I8, lambda x, y: (x.view(U8).astype(I16) + y.view(U8).astype(I16)).astype(I8), lambda x, y: x + y),
    (I8, lambda x, y: (x.astype(I32) * y.astype(I32)).astype(I8), lambda x, y: y * x),
    (I8, lambda x, y: (x.astype(I16) & y.astype(I16)).astype(I8), lambda x, y: x & y),
    (I8, lambda x, y: np.maximum(x.astype(I16), I16.type(-1)).astype(I8), lambda x, y: np.maximum(x, I8.type(-1))),
    (U8, lambda x, y: np.minimum(x.astype(U16), y.astype(U16)).astype(U8), lambda x, y: np.minimum(y, x)),
    (I32, lambda x, y: np.maximum(np.maximum(x, y), x), lambda x, y: np.maximum(y, x)),
    (F32, lambda x, y: np.maximum(np.maximum(x, y), np.maximum(y, F32.type(1))), lambda x, y: np.maximum(np.maximum(F32.type(1), x), y)),
    (F32, lambda x, y: np.maximum(np.maximum(x, F32.type(-np.inf)), np.maximum(y, F32.type(-1))), lambda x, y: np.maximum(np.maximum(x, y), np.maximum(x, F32.type(-1)))),
    (F32, lambda x, y: np.minimum(np.minimum(x, F32.type(0.0)), F32.type(-0.0)), lambda x, y: np.minimum(x, F32.type(-0.0))),
    (I8, lambda x, y: np.maximum(np.maximum(x, I8.type(3)), I8.type(-128)), lambda x, y: np.maximum(I8.type(3), np.maximum(x, I8.type(-1)))),
    (I32, lambda x, y: np.maximum(np.maximum(x < y, y < x), (x & y) != 0), lambda x, y: np.maximum(np.maximum(y < x, x < y), (y & x) != 0)),
    (F32, lambda x, y: x - F32.type(2), lambda x, y: x + F32.type(-2)),
    (F32, lambda x, y: x * F32.type(2), lambda x, y: x + x),
    (F32, lambda x, y: y * F32.type(1), lambda x, y: y),
    (F32, lambda x, y: x + F32.type(-0.0), lambda x, y: x),
    (F32, lambda x, y: x / F32.type(4), lambda x, y: x * F32.type(0.25)),
    (F16, lambda x, y: x / F16.type(0.5), lambda x, y: x + x),
    (F32, lambda x, y: (x - F32.type(2)) + F32.type(0), lambda x, y: x - F32.type(2)),
    (F32, lambda x, y: ((x - F32.type(2)) + y) + F32.type(0), lambda x, y: y + (x - F32.type(2))),
    (F32, lambda x, y: ((x + F32.type(0)) + y) + F32.type(0), lambda x, y: y + (F32.type(0) + x)),
    (F32, lambda x, y: (x.astype(F64) * F64.type(1) + y.astype(F64)).astype(F32), lambda x, y: x + y),
    (F32, lambda x, y: (x.astype(F64) / F64.type(3)).astype(F32), lambda x, y: x / F32.type(3)),
    (F16, lambda x, y: (x.astype(F32) * y.astype(F32)).astype(F16), lambda x, y: x * y),
    (I8, lambda x, y: np.maximum(x.astype(I16), I16.type(-1)), lambda x, y: np.maximum(x, I8.type(-1)).astype(I16)),
    (I8, lambda x, y: ((x < y) ^ np.bool_(True)) ^ (y < x), lambda x, y: ((y < x) ^ (x < y)) ^ np.bool_(True)),
    (I32, lambda x, y: np.where(np.where(x < y, I32.type(1), I32.type(0)) != 0, x, y), lambda x, y: np.where(x < y, x, y)),
    (I32, lambda x, y: np.where(x < y, I16.type(1), I16.type(0)) & I16.type(1), lambda x, y: (x < y).astype(I16)),
    (I32, lambda x, y: x != x, lambda x, y: (x < y) & np.bool_(False)),
    (F32, lambda x, y: bf16(F32.type(0) + bf16(bf16(x) + F32.type(-2))), lambda x, y: bf16(bf16(x) + F32.type(-2))),
    (F32, lambda x, y: np.maximum(bf16(np.maximum(bf16(x), F32.type(-1))), F32.type(-1)), lambda x, y: np.maximum(bf16(x), F32.type(-1))),
    (I32, lambda x, y: (((x < y).astype(I16) ^ (y < x).astype(I16)) & I16.type(1)) != 0, lambda x, y: (x < y) ^ (y < x)),
    (I32, lambda x, y: ((x < y).astype(I16) | I16.type(0)) != 0, lambda x, y: x < y),
    (I32, lambda x, y: ((x < y) & np.bool_(True)) | ((y < x) & np.bool_(False)), lambda x, y: (x < y) | np.bool_(False)),
    (I8, lambda x, y: joined(x < y, *3 * [np.zeros(3, U8)]), lambda x, y: (x < y).astype(I32)),
    (I8, lambda x, y: x.astype(I16).astype(I32), lambda x, y: x.astype(I32)),
    (U8, lambda x, y: x.astype(I16).astype(I32), lambda x, y: x.astype(I32)),
    (I8, lambda x, y: joined(x, x.astype(I32) >> 31, x.astype(I16) >> I16.type(15), x >> I8.type(7)), lambda x, y: x.astype(I32)),
    (F64, lambda x, y: np.where(np.isnan(x) | np.isnan(x), F64.type(np.nan), np.fmax(x, F64.type(-1))), lambda x, y: np.maximum(F64.type(-1), x)),
    (F32, lambda x, y: np.where(np.isnan(x) | np.isnan(x), F32.type(np.nan), np.fmin(F32.type(2), x)), lambda x, y: np.minimum(x, F32.type(2))),
    (F32, lambda x, y: np.where(np.isnan(x) | np.isnan(x), F32.type(np.nan), np.fmax(x, F32.type(0))), lambda x, y: np.maximum(x, F32.type(0))),
    (F32, lambda x, y: np.where(np.isnan(x) | np.isnan(y), F32.type(np.nan), np.fmax(y, x)), lambda x, y: np.maximum(x, y)),
    (F32, lambda x, y: np.fmax(F32.type(-np.inf), x), lambda x, y: np.fmax(x, F32.type(-np.inf))),
    (F32, lambda x, y: np.fmax(np.fmax(x, F32.type(0)), np.fmax(F32.type(-0.0), y)), lambda x, y: np.fmax(F32.type(0), np.fmax(y, x))),
    (F32, lambda x, y: np.fmin(np.fmin(x, F32.type(np.nan)), F32.type(2)), lambda x, y: np.fmin(F32.type(2), x)),
    (F16, lambda x, y: np.fmin(x, np.fmin(y, x)), lambda x, y: np.fmin(y, x)),
    (I32, lambda x, y: halves(x << 1, x.view(U32) >> U32.type(15)), lambda x, y: x + x),
    (I32, lambda x, y: halves((x + y) << 3, (y + x) >> 13), lambda x, y: (x + y) * I32.type(8)),
    (I32, lambda x, y: (x & I32.type(15)) & I32.type(6), lambda x, y: x & I32.type(6)),
]  # fmt: skip

OTHER: list[tuple[np.dtype, Made, Made]] = [
    (F32, lambda x, y: x + F32.type(0), lambda x, y: x),
    (F32, lambda x, y: (x + y) + F32.type(0), lambda x, y: x + y),
    (F32, lambda x, y: (x + y * F32.type(3)) + F32.type(0), lambda x, y: x + y * F32.type(3)),
    (F32, lambda x, y: (x + y) - y, lambda x, y: x),
    (F32, lambda x, y: x * F32.type(3), lambda x, y: x + x + x),
    (F32, lambda x, y: x / F32.type(3), lambda x, y: x * F32.type(1 / 3)),
    (F32, lambda x, y: (x.astype(F64) * y.astype(F64) + x.astype(F64)).astype(F32), lambda x, y: x * y + x),
    (F32, lambda x, y: (x.astype(F64) / F64.type(0.1)).astype(F32), lambda x, y: x / F32.type(0.1)),
    (F32, lambda x, y: np.maximum(x, y), lambda x, y: np.minimum(x, y)),
    (F32, lambda x, y: np.minimum(x, F32.type(0.0)), lambda x, y: np.minimum(x, F32.type(-0.0))),
    (F32, lambda x, y: np.maximum(x, F32.type(-1)), lambda x, y: x),
    (I8, lambda x, y: x.astype(I16) + I16.type(3), lambda x, y: (x + I8.type(3)).astype(I16)),
    (I8, lambda x, y: np.maximum(x.view(U8).astype(I16), I16.type(1)).astype(I8), lambda x, y: np.maximum(x, I8.type(1))),
    (I8, lambda x, y: ((x.astype(I16) + y.astype(I16)) >> 1).astype(I8), lambda x, y: (x + y) >> I8.type(1)),
    (I32, lambda x, y: x * I32.type(3), lambda x, y: x * I32.type(5)),
    (I32, lambda x, y: x << 3, lambda x, y: x << 4),
    (I32, lambda x, y: x & I32.type(1), lambda x, y: x),
    (I32, lambda x, y: x * y, lambda x, y: x + y),
    (I8, lambda x, y: x.view(U8).astype(I16).astype(I32), lambda x, y: x.astype(I32)),
    (I8, lambda x, y: x.astype(I16).view(U16).astype(I32), lambda x, y: x.astype(I32)),
    (I8, lambda x, y: joined(x, x >> I8.type(7), y >> I8.type(7), x >> I8.type(7)), lambda x, y: x.astype(I32)),
    (F32, lambda x, y: x != x, lambda x, y: (x < x) & np.bool_(False)),
    (F32, lambda x, y: bf16(F32.type(0) + bf16(x + F32.type(-2))), lambda x, y: bf16(x + F32.type(-2))),
    (F32, lambda x, y: bf16(F32.type(0) + bf16(bf16(x) * bf16(y))), lambda x, y: bf16(bf16(x) * bf16(y))),
    (F32, lambda x, y: bf16(np.maximum(bf16(x), F32.type(1 / 3))), lambda x, y: np.maximum(bf16(x), F32.type(1 / 3))),
    (I32, lambda x, y: ((x < y).astype(I16) | I16.type(1)) != 0, lambda x, y: x < y),
    (I32, lambda x, y: ((x < y).astype(I16) ^ I16.type(2)) != 0, lambda x, y: x < y),
    (I32, lambda x, y: joined(*[x.astype(I8), *[x.astype(I8).astype(I16) >> I16.type(15)] * 2, x >> 31]), lambda x, y: x.astype(I8).astype(I32)),
    (I8, lambda x, y: joined(x, x >> I8.type(7), x >> I8.type(6), x >> I8.type(7)), lambda x, y: x.astype(I32)),
    (F32, lambda x, y: np.where(np.isnan(x) | np.isnan(x), F32.type(np.nan), np.fmax(x, y)), lambda x, y: np.maximum(x, y)),
    (F32, lambda x, y: np.where(np.isnan(x) | np.isnan(x), F32.type(0), np.fmax(x, F32.type(1))), lambda x, y: np.maximum(x, F32.type(1))),
    (F32, lambda x, y: np.fmax(x, F32.type(1)), lambda x, y: np.maximum(x, F32.type(1))),
    (F32, lambda x, y: np.fmax(x, F32.type(-np.inf)), lambda x, y: x),
    (F32, lambda x, y: np.fmax(np.fmax(x, F32.type(0)), y), lambda x, y: np.fmax(np.fmax(x, F32.type(-0.0)), y)),
    (F32, lambda x, y: np.fmax(np.fmin(x, F32.type(1)), y), lambda x, y: np.fmin(np.fmax(x, F32.type(1)), y)),
    (F32, lambda x, y: np.fmax(np.maximum(x, F32.type(1)), y), lambda x, y: np.fmax(np.fmax(x, F32.type(1)), y)),
    (F32, lambda x, y: np.where(np.isnan(y) | np.isnan(y), F32.type(np.nan), np.fmax(x, F32.type(1))), lambda x, y: np.maximum(x, F32.type(1))),
    (I32, lambda x, y: halves(x << 1, x.view(U32) >> U32.type(14)), lambda x, y: x + x),
    (I32, lambda x, y: halves(x << 2, x.view(U32) >> U32.type(15)), lambda x, y: x + x),
    (I32, lambda x, y: halves(x << 1, y.view(U32) >> U32.type(15)), lambda x, y: x + x),
    (I32, lambda x, y: halves(x >> 1, x.view(U32) >> U32.type(15)), lambda x, y: x + x),
    (I32, lambda x, y: (x & I32.type(15)) & I32.type(6), lambda x, y: x & I32.type(15)),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "one", "other"), SAME)
def test_what_compilers_exchange_has_one_form(dtype: np.dtype, one: Made, other: Made) -> None:
    first, second = forms_of(dtype, one, other)
    assert first == second


@pytest.mark.parametrize(("dtype", "one", "other"), OTHER)
def test_what_is_another_number_has_another_form(dtype: np.dtype, one: Made, other: Made) -> None:
    first, second = forms_of(dtype, one, other)
    assert not set(first) & set(second)


def test_only_a_whole_chain_of_maxima_is_taken_apart() -> None:
    """Links are not: of 2000 their forms would have two million operands."""
    table = TermTable()
    data = inputs(table, "arg0", (2000,), F32).terms()
    first, second, other = (
        list(accumulate((data[place : place + 1] for place in places), np.maximum))
        for places in (range(2000), range(1999, -1, -1), range(1999))
    )
    before = table.operands.nbytes
    chains = [normal(table, chain[-1]).inner.item() for chain in (first, second, other)]
    assert chains[0] == chains[1] != chains[2]
    assert table.operands.nbytes - before < 1 << 20
    forms = NormalForms(table)
    forms.of(np.concatenate([first[-1].inner, second[-1].inner]))
    # A link that is asked for later, and one that something else uses.
    inner, used = first[1997].inner, (first[1997] + data[:1]).inner
    assert forms.of(inner) == forms.of(np.maximum(first[100], first[1997]).inner) != chains[2]
    assert forms.of(used) == forms.of((np.maximum(first[1997], first[3]) + data[:1]).inner)
    assert forms.of(used) != forms.of((first[1996] + data[:1]).inner)


def test_a_link_that_something_else_uses_has_its_own_form() -> None:
    table = TermTable()
    x, y, z = inputs(table, "arg0", (3,), F32).terms().reshape(3, 1)
    one = np.stack([np.maximum(x, np.maximum(y, z)), np.maximum(y, z) + x])
    other = np.stack([np.maximum(np.maximum(z, x), y), x + np.maximum(z, y)])
    assert (normal(table, one).inner == normal(table, other).inner).all()
    assert (normal(table, one).inner != normal(table, other + F32.type(1)).inner).all()


def drawn(random: np.random.Generator, pool: list[Any], dtypes: list[np.dtype]) -> Any:
    """One more value, made of some that there are."""
    of = pool[random.integers(len(pool))]
    mates = [value for value in pool if value.dtype == of.dtype]
    mate = mates[random.integers(len(mates))]
    constant = of.dtype.type(
        random.choice([-2, -1, 0, 1, 2, 3, 255]) % 256
        if of.dtype.kind == "u"
        else random.choice([-2, -1, 0, 1, 2, 3])
    )
    other = constant if random.integers(3) == 0 else mate
    match random.integers(10):
        case 9 if of.dtype.kind == "f":
            return of / other
        case 0:
            return of + other
        case 1:
            return of - other
        case 2:
            return of * other
        case 3:
            return (np.fmax if of.dtype.kind == "f" and random.integers(2) else np.maximum)(
                of, other
            )
        case 4:
            return (np.fmin if of.dtype.kind == "f" and random.integers(2) else np.minimum)(
                of, other
            )
        case 5:
            return of.astype(dtypes[random.integers(len(dtypes))])
        case 6:
            return np.where(of < mate, of, other)
        case 7 if of.dtype.kind in "iu":
            return [of & other, of | other, of ^ other, of << of.dtype.type(random.integers(3))][
                random.integers(4)
            ]
        case 8 if of.dtype.kind in "iu":
            truth = np.where(of < mate, of.dtype.type(1), of.dtype.type(0))
            return np.where((truth & of.dtype.type(1)) != 0, mate, of)
        case _:
            return of


@pytest.mark.parametrize("seed", range(40))
def test_a_form_is_the_number_of_its_term(seed: int) -> None:
    """The law of this file, for random terms of whole numbers, or of floating-point ones."""
    random = np.random.default_rng(seed)
    dtypes = [F16, F32, F64] if seed % 2 else [I8, I16, I32, U8, U16]
    table = TermTable()
    data = {f"arg{n}": numbers(random, dtype) for n, dtype in enumerate(dtypes)}
    pool: list[Any] = [
        inputs(table, name, one.shape, one.dtype).terms() for name, one in data.items()
    ]
    with np.errstate(all="ignore"):
        for _ in range(40):
            made = drawn(random, pool, dtypes)
            if isinstance(made, Terms):
                pool.append(made)
        for value in pool:
            wanted = value_of(value, data, context())
            found = value_of(normal(table, value), data, context())
            same = (found == wanted) | ((found != found) & (wanted != wanted))
            assert same.all() and (np.signbit(found) == np.signbit(wanted))[found == 0].all()


def numbers(random: np.random.Generator, dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "f":
        found = random.standard_normal(24).astype(dtype)
        found[:5] = [0.0, -0.0, 1.0, np.inf, np.nan]
        return found
    ends = np.iinfo(dtype)
    return random.integers(ends.min, ends.max, 24, dtype=dtype, endpoint=True)
