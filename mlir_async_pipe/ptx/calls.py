"""Functions in place of their calls: a kernel with the instructions of each function that it calls by name.

    .func (.param .b32 out) twice(.param .b32 in)       st.param.b32 [p], %r1;
    { ld.param.b32 %r1, [in];                           ld.param.b32 %r1@1, [p];
      add.s32 %r2, %r1, %r1;                            add.s32 %r2@1, %r1@1, %r1@1;
      st.param.b32 [out], %r2;                   -->    st.param.b32 [q], %r2@1;
      ret; }                                            bra.uni ret@1;
    …                                                 ret@1:
    st.param.b32 [p], %r1;                              ld.param.b32 %r3, [q];
    call.uni (q), twice, (p);
    ld.param.b32 %r3, [q];

Each instruction keeps its line. What is called by a register, has no body here or calls itself stays a call, which
may do anything. Source: PTX ISA, 7.1 "Function declarations and definitions".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mlir_async_pipe.ptx.syntax import (
    BYTES,
    Address,
    Instruction,
    Label,
    Operand,
    Pair,
    Parameter,
    PtxEntry,
    Register,
    Symbol,
    Variable,
    Vector,
    no_ptx,
)
from mlir_async_pipe.session.diagnostics import InputError

# A call in a function that is called twice is there twice: so many instructions are no kernel that people write.
MOST_INSTRUCTIONS = 200_000


def with_functions(kernel: PtxEntry, functions: dict[str, PtxEntry]) -> PtxEntry:
    """The kernel without the calls that can be followed. Raises InputError (too-many-calls)."""
    if not any(_called(item) in functions for item in kernel.body):
        return kernel
    whole = replace(
        kernel,
        registers=dict(kernel.registers),
        variables=list(kernel.variables),
        branch_targets=dict(kernel.branch_targets),
        body=[],
    )
    _Inliner(whole, functions).write(kernel.body, ())
    return whole


def _called(item: Instruction | Label) -> str:
    """The function that a call names, "" for what is none, and of a call by a register."""
    if not isinstance(item, Instruction) or item.parts[0] != "call":
        return ""
    named = [operand for operand in item.operands if not isinstance(operand, Vector)]
    return named[0].name if len(named) == 1 and isinstance(named[0], Symbol) else ""


@dataclass
class _Inliner:
    """Writes the body of `whole`; `count` numbers the calls."""

    whole: PtxEntry
    functions: dict[str, PtxEntry]
    count: int = 0

    def write(self, items: list[Instruction | Label], within: tuple[str, ...]) -> None:
        """Write statements of functions that call each other, the kernel's first."""
        for item in items:
            name = _called(item)
            function = self.functions.get(name)
            if isinstance(item, Instruction) and function is not None and name not in within:
                self.call(item, function, (*within, name))
            else:
                self.keep(item)

    def keep(self, item: Instruction | Label) -> None:
        if len(self.whole.body) >= MOST_INSTRUCTIONS:
            raise InputError(
                f"'{self.whole.name}' has more than {MOST_INSTRUCTIONS} instructions with those of the functions that it calls",
                code="too-many-calls",
                at=self.whole.place,
            )
        self.whole.body.append(item)

    def call(self, call: Instruction, function: PtxEntry, within: tuple[str, ...]) -> None:
        self.count += 1
        here, after = f"@{self.count}", f"ret@{self.count}"
        names = {name: f"{name}{here}" for name in function.registers}
        self.whole.registers |= {names[name]: kind for name, kind in function.registers.items()}
        for variable in function.variables:
            if variable.space in ("local", "param"):
                names[variable.name] = f"{variable.name}{here}"
            self.declare(replace(variable, name=names.get(variable.name, variable.name)))
        for item in function.body:
            if isinstance(item, Label):
                names[item.name] = f"{item.name}{here}"
        for label, targets in function.branch_targets.items():
            names[label] = f"{label}{here}"
            moved = tuple(names.get(target, target) for target in targets)
            self.whole.branch_targets[names[label]] = moved
        given, results = _arguments(call)
        if (len(given), len(results)) != (len(function.parameters), len(function.results)):
            raise no_ptx(
                f"'{function.name}' has {len(function.parameters)} parameters and {len(function.results)} results, "
                f"the call {len(given)} and {len(results)}",
                call.place,
            )
        if call.guard is not None:
            unless = replace(call.guard, negated=not call.guard.negated)
            self.keep(replace(call, opcode="bra", operands=(Symbol(after),), guard=unless))
        plain = replace(call, guard=None)
        for parameter, operand in zip(function.parameters, given, strict=True):
            name, is_new = self.place_of(parameter, operand, here)
            names[parameter.name] = name
            if is_new:
                self.keep(_moved(plain, parameter, name, operand, into=True))
        taken = []
        for parameter, operand in zip(function.results, results, strict=True):
            name, is_new = self.place_of(parameter, operand, here)
            names[parameter.name] = name
            if is_new:
                taken.append(_moved(plain, parameter, name, operand, into=False))
        self.write([_renamed(item, names, after) for item in function.body], within)
        self.keep(Label(after))
        for item in taken:
            self.keep(item)

    def declare(self, variable: Variable) -> None:
        if variable not in self.whole.variables:
            self.whole.variables.append(variable)

    def place_of(self, parameter: Parameter, operand: Operand, here: str) -> tuple[str, bool]:
        """The variable or register that a parameter is at a call, and whether it is one of its own: a variable of the
        caller is the parameter itself."""
        variables = {one.name for one in self.whole.variables if one.space == "param"}
        if isinstance(operand, Symbol) and operand.name in variables and not parameter.in_register:
            return operand.name, False
        name = f"{parameter.name}{here}"
        if parameter.in_register:
            self.whole.registers[name] = parameter.kind
        else:
            self.declare(Variable(name, "param", parameter.size, max(1, parameter.alignment)))
        return name, True


def _arguments(call: Instruction) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """What a call gives, and where its results go: call (q), f, (p);"""
    at = next(n for n, one in enumerate(call.operands) if isinstance(one, Symbol))
    lists = [one.elements if isinstance(one, Vector) else () for one in call.operands]
    before, after = lists[:at], lists[at + 1 :]
    return (after[0] if after else ()), (before[0] if before else ())


def _moved(
    call: Instruction, parameter: Parameter, name: str, operand: Operand, into: bool
) -> Instruction:
    """An operand into a parameter, or a result out of it."""
    if parameter.in_register:
        ends = (Register(name), operand) if into else (operand, Register(name))
        return replace(call, opcode=f"mov.{_bits(parameter)}", operands=ends)
    place = Address(Symbol(name))
    if into:
        return replace(call, opcode=f"st.param.{_bits(parameter)}", operands=(place, operand))
    return replace(call, opcode=f"ld.param.{_bits(parameter)}", operands=(operand, place))


def _bits(parameter: Parameter) -> str:
    return "pred" if parameter.kind == "pred" else f"b{8 * BYTES[parameter.kind]}"


def _renamed(item: Instruction | Label, names: dict[str, str], after: str) -> Instruction | Label:
    """A statement of a function where it is called; it returns to the label `after` the call."""
    if isinstance(item, Label):
        return Label(names[item.name])
    guard = item.guard and replace(item.guard, name=names.get(item.guard.name, item.guard.name))
    if item.parts[0] == "ret":
        return replace(item, opcode="bra", operands=(Symbol(after),), guard=guard)
    operands = tuple(_operand(one, lambda name: names.get(name, name)) for one in item.operands)
    return replace(item, operands=operands, guard=guard)


def _operand(operand: Operand, named: Callable[[str], str]) -> Operand:
    match operand:
        case Register() | Symbol():
            return replace(operand, name=named(operand.name))
        case Vector(elements):
            return Vector(tuple(_operand(one, named) for one in elements))
        case Pair(first, second):
            return Pair(_operand(first, named), _operand(second, named))
        case Address(base, _, coordinates):
            inner = _operand(base, named)
            assert isinstance(inner, Register | Symbol) or inner == base
            return replace(
                operand, base=inner, coordinates=tuple(_operand(one, named) for one in coordinates)
            )
    return operand
