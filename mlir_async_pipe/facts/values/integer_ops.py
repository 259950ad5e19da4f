"""Integer ops: widths and roots of integers, how chains of the ops in `operator_table` are followed, and
what writes such ops at one place of the program, folded where they are constant.

    write = IntegerWriter(before(op), op.location)
    write.add(write.multiply(x, 1), 4)          %c4 = arith.constant 4; %0 = arith.addi %x, %c4

Equal values are written once in each block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import add, floordiv, mod, mul, sub
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    Operation,
    OpWriter,
    Value,
    constant_value,
    defining_op,
    is_block_argument,
    type_text,
)
from mlir_async_pipe.facts.flow.algorithms import computed
from mlir_async_pipe.vocabulary.launch_ids import axis_attribute
from mlir_async_pipe.vocabulary.operator_table import OPERATORS

# In the order of the numbers that arith.cmpi and llvm.icmp have for them (arith::CmpIPredicate).
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def memoised(value: Value, known: dict[Value, Any], step: Callable[..., Any]) -> Any:
    """Compute `step` of what operators make, operands first."""

    def operands(current: Value) -> Iterable[Value]:
        op = defining_op(current)
        return op.operands if op is not None and op.name in OPERATORS else ()

    return computed(value, known, operands, lambda current: step(current, known.__getitem__))


INDEX_BITS = 64


@cache
def bits_of_text(kind: str) -> int | None:
    """Bits of a type as it is printed, None if it is neither an integer type nor index."""
    if kind == "index":
        return INDEX_BITS
    return int(kind[1:]) if kind[0] == "i" and kind[1:].isdigit() else None


def bits_of(kind: Any) -> int:
    """Bits of an integer type; index has 64."""
    return bits_of_text(type_text(kind)) or INDEX_BITS


def integer_constant(value: Value) -> int | None:
    """The number of a constant; of an i1 0 or 1."""
    number = constant_value(value)
    return 1 if number == -1 and type_text(value.type) == "i1" else number


def as_signed(number: int, bits: int) -> int:
    """The signed number that the lowest bits of `number` stand for; i1 is 0 or 1."""
    if bits == 1:
        return number & 1
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def is_size(value: Value) -> bool:
    """Whether a value is an argument of type index of a function or launch: taken to be 0 or
    more. What loops carry, and what branches forward, may be anything."""
    if not is_block_argument(value) or type_text(value.type) != "index":
        return False
    block = ir.BlockArgument(value).owner
    holder = block.owner.operation
    return holder.name in KERNEL_OPS and bool(block == holder.regions[0].blocks[0])


def is_induction_variable(value: Value) -> bool:
    """Whether the value is the induction variable of an scf.for."""
    if not is_block_argument(value):
        return False
    argument = ir.BlockArgument(value)
    return argument.arg_number == 0 and argument.owner.owner.operation.name == "scf.for"


class IntegerWriter(OpWriter):
    """Writes at a movable insertion point. A number given for a value is a constant of the other
    operand's type; `constants` is another writer, whose place is before this one, that writes
    them. `made` are the ops so far."""

    def __init__(self, ip: Any, location: Any, constants: IntegerWriter | None = None) -> None:
        super().__init__(ip, location)
        self.context = location.context
        self.index = ir.IndexType.get(location.context)
        self.made: list[Operation] = []
        self._constants = constants
        self._values: dict[Value, int | None] = {}
        # A type says its bits in its text, which takes longer than all else here.
        self._bits: dict[Any, int] = {}
        self._known: list[dict[Any, Value]] = [{}]

    def enter(self, ip: Any) -> None:
        """Write into a nested block from now on; what was written outside stays visible."""
        self.ip = ip
        self._known.append({})

    def leave(self, ip: Any) -> None:
        """Back to the block outside; what was written inside is forgotten."""
        self.ip = ip
        self._known.pop()

    def value_of(self, value: Value) -> int | None:
        """The number that a value is known to be; each value is looked at once."""
        if value not in self._values:
            self._values[value] = constant_value(value)
        return self._values[value]

    def use_constants(self, values: tuple[Value, ...]) -> None:
        """Take those that are constants for the constants of their types."""
        for value in values:
            number = self.value_of(value)
            if number is not None:
                self._known[-1][("constant", number, value.type)] = value

    def constant(self, number: int, kind: Any = None) -> Value:
        """An arith.constant of an integer type (index by default), modulo 2^bits: 120 + 3 * 50 as i8 is 14."""
        kind = self.index if kind is None else kind
        if kind not in self._bits:
            self._bits[kind] = bits_of(kind)
        number = as_signed(number, self._bits[kind])
        if self._constants is not None:
            made = self._constants.constant(number, kind)
        else:
            made = self._once(
                ("constant", number, kind),
                "arith.constant",
                (),
                kind,
                lambda: {"value": ir.IntegerAttr.get(kind, number)},
            )
        self._values[made] = number
        return made

    def zero(self, kind: Any, value: Any) -> Value:
        """An arith.constant of any type, given its zero as an attribute."""
        key = ("zero", str(kind))
        return self._once(key, "arith.constant", (), kind, lambda: {"value": value})

    def add(self, a: Value, b: Value | int) -> Value:
        return self._folded("arith.addi", add, a, b, neutral=0, commutes=True)

    def subtract(self, a: Value, b: Value | int) -> Value:
        return self._folded("arith.subi", sub, a, b, neutral=0)

    def multiply(self, a: Value, b: Value | int) -> Value:
        return self._folded("arith.muli", mul, a, b, neutral=1, commutes=True)

    def divide(self, a: Value, b: Value | int) -> Value:
        """a / b, both taken as unsigned."""
        return self._folded("arith.divui", floordiv, a, b, neutral=1, unsigned=True)

    def remainder(self, a: Value, b: Value | int) -> Value:
        """a modulo b, both taken as unsigned."""
        if self._numbers(a, b)[1] == 1:
            return self.constant(0, a.type)
        return self._folded("arith.remui", mod, a, b, unsigned=True)

    def _folded(
        self,
        name: str,
        function: Callable[[int, int], int],
        a: Value,
        b: Value | int,
        neutral: int | None = None,
        commutes: bool = False,
        unsigned: bool = False,
    ) -> Value:
        """An op of two operands, or the number that it gives (`unsigned`: if that is the same), or what is not `neutral`."""
        x, y = self._numbers(a, b)
        if y is not None and y == neutral:
            return a
        if x is not None and y is not None and (not unsigned or (x >= 0 and y > 0)):
            return self.constant(function(x, y), a.type)
        b = self._operand(b, a)
        return b if commutes and x is not None and x == neutral else self.binary(name, a, b)

    def smallest(self, a: Value, b: Value | int) -> Value:
        """The smaller of two signed numbers."""
        return self.binary("arith.minsi", a, b)

    def largest(self, a: Value, b: Value | int) -> Value:
        """The larger of two signed numbers."""
        return self.binary("arith.maxsi", a, b)

    def compare(self, predicate: str, a: Value, b: Value | int) -> Value:
        """An i1; `predicate` is one of `PREDICATES`."""
        b = self._operand(b, a)
        i1, i64 = (ir.IntegerType.get_signless(bits, self.context) for bits in (1, 64))
        number = PREDICATES.index(predicate)
        return self._once(
            ("arith.cmpi", predicate, a, b),
            "arith.cmpi",
            (a, b),
            i1,
            lambda: {"predicate": ir.IntegerAttr.get(i64, number)},
        )

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        operands = (condition, a, b)
        return self._once(("arith.select", *operands), "arith.select", operands, a.type)

    def cast(self, name: str, value: Value, kind: Any) -> Value:
        return self._once((name, value, kind), name, (value,), kind)

    def thread_id(self, axis: str) -> Value:
        """The number of a thread in its block along x, y or z."""
        dimension = {"dimension": axis_attribute(axis, self.context)}
        return self.make("gpu.thread_id", (), self.index, dimension)

    def thread_number(self, sizes: Sequence[int]) -> Value | int:
        """The number of a thread among those of its block, x fastest."""
        number: Value | None = None
        stride = 1
        for axis, size in zip("xyz", sizes, strict=True):
            if size > 1:
                part = self.multiply(self.thread_id(axis), stride)
                number = part if number is None else self.add(number, part)
            stride *= size
        return 0 if number is None else number

    def layout(self, array: Value) -> tuple[Value, list[Value], list[Value]]:
        """The offset, sizes and strides of a memref, in elements."""
        kind = ir.MemRefType(array.type)
        scalar = ir.MemRefType.get(
            (), kind.element_type, memory_space=kind.memory_space, loc=self.location
        )
        kinds = [scalar, *[self.index] * (1 + 2 * kind.rank)]
        described = self.op("memref.extract_strided_metadata", [array], kinds)
        _, offset, *shape = described.results
        return offset, shape[: kind.rank], shape[kind.rank :]

    def binary(self, name: str, a: Value, b: Value | int) -> Value:
        operands = (a, self._operand(b, a))
        return self._once((name, *operands), name, operands, a.type)

    def advanced(self, indices: Sequence[Value], offset: Value | int) -> list[Value]:
        """The subscripts `offset` elements further on in the last dimension."""
        return [*indices[:-1], self.add(indices[-1], offset)]

    def _numbers(self, a: Value, b: Value | int) -> tuple[int | None, int | None]:
        return self.value_of(a), b if isinstance(b, int) else self.value_of(b)

    def _operand(self, b: Value | int, beside: Value) -> Value:
        return self.constant(b, beside.type) if isinstance(b, int) else b

    def _once(
        self,
        key: Any,
        name: str,
        operands: tuple[Value, ...],
        kind: Any,
        attributes: Callable[[], dict[str, Any]] = dict[str, Any],
    ) -> Value:
        for known in self._known:
            if key in known:
                return known[key]
        made = self.op(name, operands, [kind], attributes())
        self.made.append(made)
        self._known[-1][key] = made.results[0]
        return made.results[0]
