"""Forms as numbers, one a point of an enumeration."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form


def number_of(form: Form, values: Mapping[Atom, np.ndarray]) -> np.ndarray:
    """The form as numbers, one a point of an enumeration."""
    total = np.asarray(_as_int64(form.constant), dtype=np.int64)
    for atom, coefficient in form.terms:
        if atom in values:
            number = values[atom]
        else:
            name, arguments = forms.operator_of(atom)
            number = _NUMPY[name](*(number_of(argument, values) for argument in arguments))
        total = total + _as_int64(coefficient) * number
    return total


def _as_int64(number: int) -> int:
    """The number as 64 bits, which sums and products of an enumeration are taken modulo."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _wrap(number: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """The lowest bits as a signed number: moved to the top, and back with the sign."""
    unused: np.ndarray = np.int64(64) - bits
    return np.right_shift(np.left_shift(number, unused), unused)


_NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "mod": np.mod,
    "div": np.floor_divide,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
    "mul": np.multiply,
    "shl": np.left_shift,
    "wrap": _wrap,
    "cmp<": lambda a: (a < 0).astype(np.int64),
    "cmp=": lambda a: (a == 0).astype(np.int64),
}
