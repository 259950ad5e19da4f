"""Writes one PTX kernel as a function of the LLVM dialect, op by op, in MLIR's generic form.

    .reg .b32 %r<2>;                 %r0 = llvm.alloca …        a register is a variable; mem2reg makes
    add.s32 %r1, %r0, 4;        -->  %1 = llvm.load %r0         values of them in the end
                                     %2 = llvm.add %1, 4
                                     llvm.store %2, %r1

Registers are read and written as the type that an instruction names: bits, not numbers.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.bindings import ir, passmanager
from mlir_async_pipe.facts.values.integer_ops import PREDICATES
from mlir_async_pipe.ptx.syntax import (
    Address,
    Instruction,
    Number,
    Operand,
    Pair,
    PtxEntry,
    Register,
    Symbol,
    Vector,
    instructions_of,
    no_ptx,
)
from mlir_async_pipe.session.diagnostics import Place

TYPES = {
    **{f"{sign}{bits}": f"i{bits}" for sign in "bus" for bits in (8, 16, 32, 64, 128)},
    "pred": "i1", "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64",
    "f16x2": "vector<2xf16>", "bf16x2": "vector<2xbf16>",
}  # fmt: skip
"""The type of MLIR that holds a value of each type of PTX."""
SPACES = {"global": 1, "shared": 3, "shared::cta": 3, "shared::cluster": 7, "const": 4, "local": 5,
          "tensor": 6, "generic": 0}  # fmt: skip
"""The address space of a pointer into each state space, and tensor memory (LLVM, NVPTX address spaces)."""
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64,
         **dict.fromkeys(("vector<2xf16>", "vector<2xbf16>", "vector<1xi32>", "vector<1xf32>"), 32)}  # fmt: skip
_GENERIC = "!llvm.ptr"
# What ends a block, or may.
_LEAVES = ("bra", "brx", "ret", "exit", "trap")


def bits_of(kind: str) -> int:
    """The bits of a type, of pointers those of an address."""
    return _BITS[kind] if kind in _BITS else int(kind[1:])


def pointer_type(space: str) -> str:
    """The type of pointers into a state space."""
    number = SPACES[space]
    return f"!llvm.ptr<{number}>" if number else _GENERIC


def struct_of(kinds: Iterable[str]) -> str:
    """The type of several values together."""
    return f"!llvm.struct<({', '.join(kinds)})>"


_OF_VARIABLE = re.compile(r'(%\w+) = "llvm\.alloca"|"llvm\.store"\(%\w+, (%\w+)\)')


class UnreadError(Exception):
    """An instruction, or this form of it, has no row."""


@dataclass
class Value:
    """An SSA value and its type, and the number that it is, for a constant integer."""

    name: str
    type: str
    number: int | None = None


@dataclass(frozen=True)
class Bank:
    """Registers that products add to together: one variable, a struct with a field of type `kind` for each."""

    names: tuple[str, ...]
    kind: str

    @property
    def kinds(self) -> list[str]:
        return [self.kind] * len(self.names)

    @property
    def type(self) -> str:
        return struct_of(self.kinds)


@dataclass
class FunctionWriter:
    """The function of one kernel as it is written: `arguments` are its parameters, by name, `names` the space
    of each variable that others may name too, `storage` the pointers to registers and local variables."""

    kernel: PtxEntry
    arguments: dict[str, Value]
    names: dict[str, str]
    lines: list[str] = field(default_factory=list)
    storage: dict[str, Value] = field(default_factory=dict)
    place: Place | None = None
    guard: Value | None = None
    count: int = 0
    # Predicates that are written once, as a comparison of two numbers.
    decided: dict[str, bool] = field(default_factory=dict)
    named: Counter[str] = field(default_factory=Counter)
    # Registers that a load from tensor memory fills until the wait: what is loaded, and which of it.
    loading: dict[str, tuple[Value, int]] = field(default_factory=dict)
    # Registers go to whoever is given them at the end, who may wait before.
    hands_out: bool = False
    # The bank of each register that is in one.
    banks: dict[str, Bank] = field(default_factory=dict)
    # What registers hold, as far as this block has read or written them; those that some block reads from their variable.
    held: dict[str, Value] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)

    # What is written ------------------------------------------------------------------------

    def op(
        self,
        name: str,
        operands: Sequence[Value] = (),
        properties: str = "",
        results: Sequence[str] = (),
    ) -> list[Value]:
        """Write one op; its results."""
        made = [self.fresh(kind) for kind in results]
        left = ", ".join(value.name for value in made) + " = " if made else ""
        given = ", ".join(value.name for value in operands)
        types = ", ".join(value.type for value in operands)
        outs = ", ".join(results)
        inner = f" <{{{properties}}}>" if properties else ""
        self.lines.append(
            f'{left}"{name}"({given}){inner} : ({types}) -> ({outs}) {self.location()}'
        )
        return made

    def op_of_groups(
        self,
        name: str,
        groups: Iterable[Sequence[Value]],
        properties: str = "",
        results: Sequence[str] = (),
    ) -> list[Value]:
        """Write an op whose operands stand in groups, each of which has none, one or more."""
        groups = list(groups)
        sizes = f"operandSegmentSizes = array<i32: {', '.join(str(len(one)) for one in groups)}>"
        operands = [value for group in groups for value in group]
        return self.op(name, operands, ", ".join(filter(None, (properties, sizes))), results)

    def make(
        self, name: str, operands: Sequence[Value], result: str, properties: str = ""
    ) -> Value:
        """Write an op with one result."""
        return self.op(name, operands, properties, (result,))[0]

    def branch(self, target: str) -> None:
        self.lines.append(f'"llvm.br"() [^{target}] : () -> () {self.location()}')

    def branch_if(self, condition: Value, target: str, other: str) -> None:
        self.lines.append(
            f'"llvm.cond_br"({condition.name}) [^{target}, ^{other}] '
            f"<{{operandSegmentSizes = array<i32: 1, 0, 0>}}> : (i1) -> () {self.location()}"
        )

    def begin_block(self, name: str) -> None:
        self.held.clear()
        self.lines.append(f"^{name}:")

    def fresh(self, kind: str) -> Value:
        self.count += 1
        return Value(f"%{self.count}", kind)

    def fresh_block(self) -> str:
        self.count += 1
        return f"b{self.count}"

    def location(self) -> str:
        place = self.place or self.kernel.place
        return f"loc({quoted(place.file)}:{place.line}:{place.column})"

    def function(self, name: str, result: str, properties: str, attributes: str) -> str:
        """The text of the whole function, of what was written as its body, without variables that nobody reads: mem2reg
        takes time for all ops times all variables."""
        unread = {
            self.storage[name].name
            for name in self.kernel.registers
            if name not in self.loaded and name not in self.banks
        }
        body = (
            line
            for line in self.lines
            if not (found := _OF_VARIABLE.match(line)) or (found[1] or found[2]) not in unread
        )
        place = self.location().removeprefix("loc")
        given = ", ".join(
            f"{one.name}: {one.type} loc({quoted(name)}{place})"
            for name, one in self.arguments.items()
        )
        kinds = ", ".join(one.type for one in self.arguments.values())
        inner = f"{result} ({kinds})".replace("!llvm.", "")
        lines = (
            f'"llvm.func"() <{{CConv = #llvm.cconv<ccc>, function_type = !llvm.func<{inner}>, '
            f"sym_name = {quoted(name)}, {properties}}}> ({{",
            f"^entry({given}):",
            *body,
            f"}}) {{{attributes}}} : () -> () {self.location()}",
        )
        return "\n".join(lines)

    # Values ---------------------------------------------------------------------------------

    def constant(self, value: int | str, kind: str) -> Value:
        """A constant: a number, or the text of one of MLIR's attributes."""
        if isinstance(value, int):
            bits = bits_of(kind)
            value &= (1 << bits) - 1
            if kind == "i1":
                return self.make(
                    "llvm.mlir.constant", (), kind, f"value = {'true' if value else 'false'}"
                )
            if value >> (bits - 1) and kind.startswith("i"):
                value -= 1 << bits
            if not kind.startswith("i"):
                return self.cast(self.constant(value, f"i{bits}"), kind)
        made = self.make("llvm.mlir.constant", (), kind, f"value = {value} : {kind}")
        made.number = value if isinstance(value, int) else None
        return made

    def cast(self, value: Value, kind: str) -> Value:
        """The bits of a value as another type; more bits than it has are zeros, fewer are its lowest."""
        if value.type == kind:
            return value
        if value.type.startswith("!llvm.ptr"):
            return self.make("llvm.ptrtoint", (value,), kind)
        if kind.startswith("!llvm.ptr"):
            return self.make("llvm.inttoptr", (value,), kind)
        have, want = bits_of(value.type), bits_of(kind)
        if have == want:
            return self.make("llvm.bitcast", (value,), kind)
        whole = self.cast(value, f"i{have}")
        name = "llvm.zext" if want > have else "llvm.trunc"
        return self.cast(self.make(name, (whole,), f"i{want}"), kind)

    def extended(self, value: Value, bits: int, signed: bool) -> Value:
        """An integer with so many bits."""
        have = bits_of(value.type)
        if have == bits:
            return value
        if value.number is not None and have > 1:
            number = value.number if signed else value.number % (1 << have)
            return self.constant(number, f"i{bits}")
        name = "llvm.trunc" if bits < have else "llvm.sext" if signed else "llvm.zext"
        return self.make(name, (value,), f"i{bits}")

    def binary(self, name: str, a: Value, b: Value, properties: str = "") -> Value:
        return self.make(name, (a, b), a.type, properties)

    def compare(self, relation: str, a: Value, b: Value) -> Value:
        number = PREDICATES.index(relation)
        return self.make("llvm.icmp", (a, b), "i1", f"predicate = {number} : i64")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.make("llvm.select", (condition, a, b), a.type)

    def vector(self, values: Sequence[Value]) -> Value:
        """Several values as a vector; one stays what it is."""
        if len(values) == 1:
            return values[0]
        kind = vector_type(values[0].type, len(values))
        made = self.make("llvm.mlir.poison", (), kind)
        for number, value in enumerate(values):
            made = self.make(
                "llvm.insertelement", (made, value, self.constant(number, "i32")), kind
            )
        return made

    def element(self, vector: Value, kind: str, number: int) -> Value:
        """One element of a vector; what is no vector is its only one."""
        if not vector.type.startswith("vector"):
            return vector
        return self.make("llvm.extractelement", (vector, self.constant(number, "i32")), kind)

    def elements(self, vector: Value, kind: str, count: int) -> list[Value]:
        return [self.element(vector, kind, number) for number in range(count)]

    def member(self, whole: Value, kind: str, number: int) -> Value:
        """A field of a struct."""
        return self.make("llvm.extractvalue", (whole,), kind, f"position = array<i64: {number}>")

    def members(self, whole: Value, kinds: Sequence[str]) -> list[Value]:
        """All fields of a struct; what has one only stands alone."""
        if len(kinds) == 1:
            return [whole]
        return [self.member(whole, kind, number) for number, kind in enumerate(kinds)]

    def parts(
        self, name: str, operands: Sequence[Value], kinds: Sequence[str], properties: str = ""
    ) -> list[Value]:
        """Write an op whose results come as one, or as a struct of several."""
        whole = kinds[0] if len(kinds) == 1 else struct_of(kinds)
        return self.members(self.make(name, operands, whole, properties), kinds)

    def put(self, whole: Value, value: Value, number: int) -> Value:
        """A struct with another value in a field."""
        position = f"position = array<i64: {number}>"
        return self.make("llvm.insertvalue", (whole, value), whole.type, position)

    # Operands -------------------------------------------------------------------------------

    def read(self, operand: Operand, kind: str) -> Value:
        """An operand as a value of a type of MLIR."""
        if isinstance(operand, Register):
            value = self.cast(self._register(operand), kind)
            if operand.negated:
                return self.binary("llvm.xor", value, self.constant(1, kind))
            return value
        if isinstance(operand, Number):
            return self._number(operand, kind)
        if isinstance(operand, Symbol):
            return self.cast(self.address_of(operand), kind)
        raise UnreadError

    def integer(self, operand: Operand) -> int:
        """A number that must be written out."""
        if not isinstance(operand, Number):
            raise UnreadError
        return int(operand.text.rstrip("U"), 0)

    def _register(self, register: Register) -> Value:
        if register.name in self.kernel.registers:
            if register.name in self.loading:
                self._take(register.name)
            return self._held(register.name)
        special = SPECIAL.fullmatch(register.name)
        if special is None:
            raise no_ptx(
                f"'{register.name}' is no register that is declared, or that PTX has", self.place
            )
        name = register.name[1:]
        width = "i64" if name.endswith("64") or name in ("globaltimer", "gridid") else "i32"
        named = _SREGS.get(name, name)
        return self.make(f"nvvm.read.ptx.sreg.{named}", (), width)

    def _held(self, name: str) -> Value:
        """What a register holds."""
        bank = self.banks.get(name)
        if bank is None and name not in self.held:
            self.loaded.add(name)
            self.held[name] = self.make("llvm.load", (self.storage[name],), self.kind_of(name))
        if bank is None:
            return self.held[name]
        return self.member(self.sums(bank), bank.kind, bank.names.index(name))

    def _keep(self, name: str, value: Value) -> None:
        """A register holds a value from here on."""
        bank = self.banks.get(name)
        if bank is None:
            value = self.cast(value, self.kind_of(name))
            # That it is a number is forgotten, as it would be in memory.
            self.held[name] = Value(value.name, value.type)
            self.op("llvm.store", (value, self.storage[name]))
            return
        sums, number = self.sums(bank), bank.names.index(name)
        self.keep_sums(bank, self.put(sums, self.cast(value, bank.kind), number))

    def kind_of(self, name: str) -> str:
        return storage_type(TYPES[self.kernel.registers[name]])

    def bank_of(self, registers: Iterable[Operand]) -> Bank:
        """The bank that some registers are together. Raises UnreadError."""
        names = tuple(one.name for one in registers_of(registers))
        bank = self.banks.get(names[0])
        if bank is None or bank.names != names:
            raise UnreadError
        return bank

    def sums(self, bank: Bank) -> Value:
        """What all registers of a bank hold."""
        return self.make("llvm.load", (self.storage[bank.names[0]],), bank.type)

    def keep_sums(self, bank: Bank, value: Value) -> None:
        self.op("llvm.store", (value, self.storage[bank.names[0]]))

    def _number(self, number: Number, kind: str) -> Value:
        text = number.text
        if text[:2].lower() in ("0f", "0d"):
            given = "f32" if text[:2].lower() == "0f" else "f64"
            # MLIR reads hexadecimal digits as the bits of a float.
            value = self.make(
                "llvm.mlir.constant", (), given, f"value = 0x{text[2:].upper()} : {given}"
            )
            if given != kind and kind in ("f32", "f64"):
                return self.make("llvm.fpext" if kind == "f64" else "llvm.fptrunc", (value,), kind)
            return self.cast(value, kind)
        if "." in text:
            if kind not in ("f16", "bf16", "f32", "f64"):
                raise UnreadError
            return self.constant(str(float(text)), kind)
        return self.constant(int(text.rstrip("U"), 0), kind)

    def address_of(self, symbol: Symbol) -> Value:
        """The pointer to a variable, or to a parameter that is handed over in memory."""
        if symbol.name in self.arguments:
            pointer = self.arguments[symbol.name]
        elif symbol.name in self.storage:
            pointer = self.storage[symbol.name]
        else:
            if symbol.name not in self.names:
                raise no_ptx(f"'{symbol.name}' is declared nowhere", self.place)
            space = self.names[symbol.name]
            pointer = self.make(
                "llvm.mlir.addressof",
                (),
                pointer_type(space),
                f"global_name = @{quoted(symbol.name)}",
            )
        return self.moved(pointer, symbol.offset)

    def moved(self, pointer: Value, offset: int) -> Value:
        """A pointer so many bytes further on."""
        if not offset:
            return pointer
        properties = f"elem_type = i8, rawConstantIndices = array<i32: {offset}>"
        return self.make("llvm.getelementptr", (pointer,), pointer.type, properties)

    def in_space(self, pointer: Value, space: str) -> Value:
        """A pointer as one into another state space."""
        kind = pointer_type(space)
        return (
            pointer if pointer.type == kind else self.make("llvm.addrspacecast", (pointer,), kind)
        )

    def pointer(self, address: Operand, space: str) -> Value:
        """The pointer into a state space that an address stands for."""
        if not isinstance(address, Address):
            raise UnreadError
        kind = pointer_type(space)
        if isinstance(address.base, Symbol):
            return self.in_space(self.address_of(Symbol(address.base.name, address.offset)), space)
        if isinstance(address.base, Number):
            return self.cast(
                self.constant(self.integer(address.base) + address.offset, "i64"), kind
            )
        number = self._register(address.base)
        if space == "tensor" and address.offset:
            # Columns, not bytes.
            number = self.binary("llvm.add", number, self.constant(address.offset, number.type))
            return self.cast(number, kind)
        return self.moved(self.cast(number, kind), address.offset)

    def is_read(self, operand: Operand) -> bool:
        """Whether an instruction may read a register: one that is named once is written only."""
        if not isinstance(operand, Register) or operand.name == "_":
            return False
        if not self.named:
            for item in instructions_of(self.kernel):
                self.named.update(register.name for register in registers_of(item.operands))
        return self.named[operand.name] > 1

    def comes_in_block(self, i: Instruction, name: str) -> bool:
        """Whether an instruction of this name comes after another one, on every path from there."""
        items = iter(self.kernel.body)
        if not any(item is i for item in items):
            return False
        for item in items:
            if not isinstance(item, Instruction) or item.parts[0] in _LEAVES:
                return False
            if item.opcode.startswith(name) and item.guard is None:
                return True
        return False

    # Results --------------------------------------------------------------------------------

    def land(self) -> None:
        """Loads from tensor memory are over: their registers have what was loaded."""
        for name in [*self.loading]:
            self._take(name)
        self.loading.clear()

    def _take(self, name: str) -> None:
        """A register has what is loaded, from here on."""
        loaded, number = self.loading[name]
        self._keep(name, self.element(loaded, "i32", number))

    def assign(self, operand: Operand, value: Value) -> None:
        """Give a register a value, where the guard holds."""
        if not isinstance(operand, Register):
            raise UnreadError
        if operand.name == "_":
            return
        if operand.name not in self.kernel.registers:
            raise no_ptx(f"'{operand.name}' is declared nowhere", self.place)
        if operand.name in self.loading:
            # Who writes it does not wait for the load: that is found as a use of what is in flight.
            self._take(operand.name)
            del self.loading[operand.name]
        if self.guard is not None:
            before = self._held(operand.name)
            value = self.select(self.guard, self.cast(value, before.type), before)
        self._keep(operand.name, value)

    def assign_all(self, operands: Iterable[Operand], values: Iterable[Value]) -> None:
        for operand, value in zip(operands, values, strict=True):
            self.assign(operand, value)


def promoted(text: str, context: Any) -> Any:
    """The module that is written so, where registers are values. Raises ir.MLIRError where these bindings
    have other ops."""
    module = ir.Module.parse(f"module {{\n{text}\n}}", context)
    with context:
        passmanager.PassManager.parse("builtin.module(llvm.func(mem2reg,cse))").run(
            module.operation
        )
    return module


def vector_type(kind: str, count: int) -> str:
    """The type of so many elements in registers; one stands alone."""
    return kind if count == 1 else f"vector<{count}x{kind}>"


def storage_type(kind: str) -> str:
    """The type in which a register is kept: two halves are 32 bits."""
    return "i32" if kind.startswith("vector<") else kind


def registers_of(operands: Iterable[Operand]) -> list[Register]:
    """The registers of operands, those of vectors and addresses too."""
    found: list[Register] = []
    for operand in operands:
        match operand:
            case Register():
                found.append(operand)
            case Vector(elements):
                found += registers_of(elements)
            case Pair(first, second):
                found += registers_of((first, second))
            case Address(base, _, coordinates):
                found += registers_of((base, *coordinates))
    return found


def elements_of(operand: Operand) -> tuple[Operand, ...]:
    """The registers of a vector, or the one that stands alone."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


def quoted(name: str) -> str:
    """The name of a symbol as MLIR writes it."""
    return json.dumps(name)


SPECIAL = re.compile(
    r"%(?:n?tid\.[xyz]|n?ctaid\.[xyz]|laneid|n?warpid|n?smid|gridid|lanemask_(?:eq|le|lt|ge|gt)|clock(?:64)?"
    r"|globaltimer(?:_lo|_hi)?|n?clusterid\.[xyz]|cluster_n?ctaid\.[xyz]|cluster_n?ctarank|is_explicit_cluster"
    r"|dynamic_smem_size|total_smem_size|envreg\d+|pm\d+)"
)
"""The special registers (PTX ISA, chapter 10)."""
_SREGS = {
    **{f"cluster_{n}ctaid.{axis}": f"cluster.{n}ctaid.{axis}" for n in ("", "n") for axis in "xyz"},
    **{f"cluster_{n}ctarank": f"cluster.{n}ctarank" for n in ("", "n")},
    **{f"lanemask_{kind}": f"lanemask.{kind}" for kind in ("eq", "le", "lt", "ge", "gt")},
}
