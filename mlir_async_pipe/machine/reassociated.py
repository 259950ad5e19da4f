"""Sums in any order: terms in which a sum is the multiset of its addends.

    ((0.0 + dot(a0 a1, b0 b1)) + c)   and   ((c + (a1 * b1)) + (a0 * b0))   -->   sum(c, a0 * b0, a1 * b1)

Sums of floating-point numbers and matrix products are written like this, wherever they are in a term; zeros are left out. A sum
ends where another operator is applied to it, be it a conversion: f32(f16(a + b)) + c has two addends.
"""

from __future__ import annotations

import numpy as np

from mlir_async_pipe.machine.term_table import BYTE, DOT, JOIN, PLACES, SUM, TermTable, is_leaf
from mlir_async_pipe.machine.terms import Terms, apply, lift, made_again
from mlir_async_pipe.session.diagnostics import MachineError

Array = np.ndarray
# Terms nested deeper than this are not looked into; a sum is one level, however many addends it has.
_DEEPEST = 300


def reassociated(table: TermTable, ids: Array, depth: int = 0) -> Array:
    """The terms with their sums as multisets: equal where they are equal but for the order of sums.

    Raises MachineError (too-many-terms) for sums of more addends than the table may have bytes.
    """
    if depth > _DEEPEST:
        return ids
    terms, back = np.unique(ids, return_inverse=True)
    found = terms.copy()
    for operator, chosen in table.groups(terms):
        mine = terms[chosen]
        if operator.name in ("add", DOT) and operator.dtype.kind == "f":
            found[chosen] = _sums(table, mine, operator.dtype, depth)
        elif operator.name in (JOIN, BYTE):
            cells = table.rows(mine, operator.arity)
            whole = cells >= 0
            inner = reassociated(table, cells[whole] >> PLACES, depth + 1)
            cells[whole] = (inner << PLACES) | (cells[whole] & ((1 << PLACES) - 1))
            found[chosen] = table.join(cells, operator.dtype)
        elif not is_leaf(operator.name):
            operands = reassociated(table, table.rows(mine, operator.arity), depth + 1)
            found[chosen] = made_again(table, operator, operands)
    return found[back.reshape(-1)].reshape(ids.shape)


def _sums(table: TermTable, terms: Array, dtype: np.dtype, depth: int) -> Array:
    """Sums of one type."""
    owners, addends = _addends(table, terms, dtype)
    addends = reassociated(table, addends, depth + 1)
    zeros = table.constants(np.array([0.0, -0.0], dtype))
    left = ~np.isin(addends, zeros)
    owners, addends = owners[left], addends[left]
    addends = addends[np.lexsort((addends, owners))]
    counts = np.bincount(owners, minlength=len(terms))
    starts = np.cumsum(counts) - counts
    found = np.full(len(terms), zeros[0])
    for count in np.unique(counts[counts > 0]):
        chosen = np.flatnonzero(counts == count)
        rows = addends[starts[chosen][:, None] + np.arange(count)]
        found[chosen] = rows[:, 0] if count == 1 else table.make_rows(SUM, dtype, rows)
    return found


def _addends(table: TermTable, terms: Array, dtype: np.dtype) -> tuple[Array, Array]:
    """What sums of one type add, and which of the sums does."""
    owners, left = np.arange(len(terms)), terms
    done: list[tuple[Array, Array]] = []
    count = 0
    while len(left):
        codes, typed = table.code[left], table.has_dtype(left, dtype)
        added, product = (table.named(name)[codes] & typed for name in ("add", DOT))
        other = ~added & ~product
        done.append((owners[other], left[other]))
        more = [(np.repeat(owners[added], 2), table.rows(left[added], 2).reshape(-1))]
        for row in np.unique(table.code[table.operand(left[product], 0)]):
            size = table.operators[row].arity
            of = np.flatnonzero(product)
            of = of[table.code[table.operand(left[of], 0)] == row]
            left_rows, right_rows = (
                Terms(table, table.rows(table.operand(left[of], side), size), dtype)
                for side in (0, 1)
            )
            products = lift(table, apply(table, np.multiply, (left_rows, right_rows)), dtype)
            done.append((np.repeat(owners[of], size), products.reshape(-1)))
        owners, left = (np.concatenate(parts) for parts in zip(*more, strict=True))
        count += len(done[-1][1])
        if 16 * (count + len(left)) > table.limit:
            raise MachineError(
                f"sums of {count + len(left)} addends are more than {table.limit} bytes hold",
                code="too-many-terms",
                advice="validate smaller shapes, or a smaller grid",
            )
    owners, addends = (np.concatenate(parts) for parts in zip(*done, strict=True))
    return owners, addends
