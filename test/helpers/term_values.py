"""What terms are on given data, computed one by one: the other meaning of a term, to compare the machine's with."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine.dialects.arith import OPAQUE
from mlir_async_pipe.machine.kinds import kind_of
from mlir_async_pipe.machine.term_table import TermTable
from mlir_async_pipe.machine.terms import is_symbolic


def value_of(array: Any, inputs: dict[str, np.ndarray], context: Any) -> np.ndarray:
    """An array of data as numbers, if the inputs (by name, in their memory form) are these."""
    if not is_symbolic(array):
        return array
    terms = array.terms()
    known: dict[int, Any] = {}
    for term in _needed(terms.table, terms.inner.reshape(-1)):
        known[term] = _value(terms.table, term, inputs, known, context)
    flat = [known[int(term)] for term in terms.inner.reshape(-1)]
    return np.array(flat, terms.dtype).reshape(terms.shape)


def _children(table: TermTable, term: int, inputs: dict[str, np.ndarray]) -> list[int]:
    operator, operands = table.of(term)
    if operator.name == "constant" or operator.name in inputs:
        return []
    if operator.name in ("join", "byte"):
        return [cell >> 3 for cell in operands if cell >= 0]
    return list(operands[2::2] if operator.name == "linear" else operands)


def _needed(table: TermTable, terms: np.ndarray) -> list[int]:
    """All terms in these, operands first: they have smaller numbers."""
    names = {operator.name for operator in table.operators if operator.name.startswith("arg")}
    left, found = list(map(int, terms)), set[int]()
    while left:
        term = left.pop()
        if term not in found:
            found.add(term)
            left += _children(table, term, dict.fromkeys(names))
    return sorted(found)


def _extreme(one: Any, other: Any, *, name: str) -> Any:
    """The larger one, or the smaller; 0.0 is larger than -0.0 (IEEE 754, maximum and minimum)."""
    if one == 0 and other == 0:
        return one + other if "max" in name else -(-one + -other)
    return getattr(np, name)(one, other)


def _value(
    table: TermTable, term: int, inputs: dict[str, np.ndarray], known: dict[int, Any], context: Any
) -> Any:
    operator, operands = table.of(term)
    name, dtype = operator.name, operator.dtype
    if name == "constant":
        return table.numbers(np.array([term]), dtype)[0]
    if name in inputs:
        return inputs[name].reshape(-1)[operands[0]]
    if name in ("join", "byte"):
        raw = [
            cell + 256 if cell < 0 else known[cell >> 3].tobytes()[cell & 7] for cell in operands
        ]
        return np.array(raw, np.uint8).view(dtype)[0]
    if name == "linear":
        parts = zip(operands[1::2], operands[2::2], strict=True)
        return np.array(operands[0] + sum(n * int(known[one]) for n, one in parts)).astype(dtype)[
            ()
        ]
    given = [known[operand] for operand in operands]
    if name in ("maximum", "minimum", "fmax", "fmin"):
        return reduce(partial(_extreme, name=name), given)
    if name == "bitwise_xor":
        return reduce(np.bitwise_xor, given)
    if name == "row":
        return np.array(given)
    if name == "dot":
        return np.matmul(given[0][None], given[1][:, None]).astype(dtype)[0, 0]
    if name == "bits":
        return np.array([given[0]]).view(dtype)[0]
    if name == "cast":
        return given[0].astype(dtype)
    if name == "select":
        return given[1] if given[0] else given[2]
    how, _, kind_name = name.partition(" ")
    if kind_name:
        kind = kind_of(ir.Type.parse(kind_name, context))
        array = np.array(given)
        changed = {"round": kind.settle, "encode": kind.encode, "decode": kind.decode}[how](array)
        return changed.astype(dtype)[0]
    function = getattr(np, name, None) or OPAQUE[name]
    with np.errstate(all="ignore"):
        return np.asarray(function(*(np.array([x]) for x in given))).astype(dtype)[0]
