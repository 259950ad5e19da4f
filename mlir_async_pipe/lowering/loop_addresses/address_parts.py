"""A pointer as the pointer that it starts from and bytes after it: a sum, exact modulo 2^64.

    %at = add (mul %slot, 4096), (mul %row, 32)
    %p = llvm.getelementptr %tile[%at] : f16        %tile + 8192 * %slot + 64 * %row

Pointers and 64-bit integers wrap at 2^64, where sums and products with constants may be taken
apart without asking whether they overflow. A narrower sum may be taken apart only where its
numbers are proven to fit: `values.linear` does that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Value, defining_op
from mlir_async_pipe.facts.values.domains import typed
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS, as_signed, bits_of, memoised
from mlir_async_pipe.facts.values.linear import LINEAR_FORMS, Arithmetic, Linear
from mlir_async_pipe.facts.values.pointers import step_bytes
from mlir_async_pipe.facts.values.sums import ZERO, Form, add, of_symbol
from mlir_async_pipe.vocabulary.operator_table import OPERATORS

_GEP, _CAST = "llvm.getelementptr", "llvm.addrspacecast"
_WRAPPING = ("add", "sub", "mul", "shl")


@dataclass(frozen=True)
class Address:
    """`base`, as a pointer of type `kind`, and `offset` bytes after it. Whoever made the address
    has added `steps` times."""

    base: Value
    kind: Any
    offset: Linear
    steps: int


class AddressParts:
    """Takes pointers apart; remembers the integers that it has seen."""

    def __init__(self) -> None:
        self._exact = Arithmetic()
        self._wrapped: dict[Value, Linear] = {}

    def address(self, pointer: Value) -> Address:
        """A pointer of any space, followed through pointer arithmetic."""
        kind, steps = pointer.type, 0
        offset: Linear = ZERO
        while (op := defining_op(pointer)) is not None and op.name in (_GEP, _CAST):
            if op.name == _GEP:
                step = step_bytes(op, self._index)
                if step is None:
                    break
                offset, steps = add(offset, step), steps + 1
            pointer = op.operands[0]
        return Address(pointer, kind, _modulo(offset), steps)

    def _index(self, index: Value) -> Linear:
        # A narrower index is extended by its sign: it counts as the signed number that it is.
        return self.wrapped(index) if bits_of(index.type) == INDEX_BITS else self.exact(index)

    def exact(self, value: Value) -> Linear:
        """The linear form that an integer is equal to."""
        return self._exact.linear(value)

    def wrapped(self, value: Value) -> Linear:
        """The linear form that a 64-bit integer is equal to modulo 2^64."""
        form: Linear = memoised(value, self._wrapped, self._wrapped_step)
        return form

    def _wrapped_step(self, value: Value, get: Callable[[Value], Linear]) -> Linear:
        op = defining_op(value)
        row = OPERATORS.get(op.name) if op is not None else None
        if op is None or row is None or row.method not in _WRAPPING or str(value.type) != "i64":
            return self.exact(value)
        operands = [get(operand) for operand in op.operands]
        found = getattr(LINEAR_FORMS, row.method)(typed(op), operands, self._exact)
        return of_symbol(value) if found is None else _modulo(found)


def _modulo(form: Linear) -> Linear:
    """The same form modulo 2^64, with the numbers nearest to 0."""
    terms = ((symbol, as_signed(number, INDEX_BITS)) for symbol, number in form.terms)
    return Form(as_signed(form.constant, INDEX_BITS), frozenset(t for t in terms if t[1]))
