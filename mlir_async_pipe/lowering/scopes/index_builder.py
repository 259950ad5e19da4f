"""Index arithmetic at one place of the program, folded where it is constant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, constant_value, create


@dataclass(frozen=True)
class IndexBuilder:
    """Makes `index` values at an insertion point."""

    ip: Any
    loc: Any
    _constants: dict[int, Value] = field(default_factory=dict)

    def constant(self, value: int) -> Value:
        """An arith.constant of type index, made once a builder."""
        if value not in self._constants:
            self._constants[value] = self._constant(value)
        return self._constants[value]

    def _constant(self, value: int) -> Value:
        kind = ir.IndexType.get(self.loc.context)
        attributes = {"value": ir.IntegerAttr.get(kind, value)}
        return create("arith.constant", (), (kind,), attributes, ip=self.ip, loc=self.loc).results[
            0
        ]

    def add(self, a: Value, b: Value | int) -> Value:
        """a + b"""
        return a if _is(b, 0) else self._binary("arith.addi", a, b)

    def sub(self, a: Value, b: Value | int) -> Value:
        """A - b"""
        return a if _is(b, 0) else self._binary("arith.subi", a, b)

    def mul(self, a: Value, b: Value | int) -> Value:
        """a * b"""
        return a if _is(b, 1) else self._binary("arith.muli", a, b)

    def div(self, a: Value, b: Value | int) -> Value:
        """a / b, both taken as unsigned"""
        return a if _is(b, 1) else self._binary("arith.divui", a, b)

    def rem(self, a: Value, b: Value | int) -> Value:
        """A modulo b, both taken as unsigned"""
        return self.constant(0) if _is(b, 1) else self._binary("arith.remui", a, b)

    def smallest(self, a: Value, b: Value | int) -> Value:
        """The smaller of two signed numbers"""
        return self._binary("arith.minsi", a, b)

    def largest(self, a: Value, b: Value | int) -> Value:
        """The larger of two signed numbers"""
        return self._binary("arith.maxsi", a, b)

    def compare(self, predicate: str, a: Value, b: Value | int) -> Value:
        """An i1; `predicate` is a key of `_PREDICATES`."""
        number = _PREDICATES[predicate]
        attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, self.loc.context), number)
        i1 = ir.IntegerType.get_signless(1, self.loc.context)
        return create(
            "arith.cmpi",
            (a, self._value(b)),
            (i1,),
            {"predicate": attribute},
            ip=self.ip,
            loc=self.loc,
        ).results[0]

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """A where the i1 is true, else b; values of any one type"""
        operands = (condition, a, b)
        return create("arith.select", operands, (a.type,), ip=self.ip, loc=self.loc).results[0]

    def _binary(self, name: str, a: Value, b: Value | int) -> Value:
        kind = ir.IndexType.get(self.loc.context)
        operands = (a, self._value(b))
        return create(name, operands, (kind,), ip=self.ip, loc=self.loc).results[0]

    def _value(self, value: Value | int) -> Value:
        return self.constant(value) if isinstance(value, int) else value


# arith.cmpi's numbers of its predicates (ArithBase.td).
_PREDICATES = {"sge": 5}


def _is(value: Value | int, number: int) -> bool:
    return value == number if isinstance(value, int) else constant_value(value) == number
