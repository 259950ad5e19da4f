"""A kernel and the functions that it calls, compiled to steps: one address for each instruction.

`program.block(pc)` is what runs from `pc` on without a look at other threads: steps up to an
instruction of control, a label, or an instruction of a whole warp.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from helpers.ptx_machine import (
    conversions,
    float_ops,
    integer_ops,
    matrix,
    memory_ops,
    selections,
    warp_ops,
)
from helpers.ptx_machine.faults import PtxFault, unknown
from helpers.ptx_machine.registers import Operands, types_of
from helpers.ptx_machine.syntax import Function, Imm, Instruction, Module, Symbol

_MAKERS = {
    **selections.MAKERS, **conversions.MAKERS, **memory_ops.MAKERS, **matrix.MAKERS,
    **warp_ops.MAKERS,
}  # fmt: skip
CONTROL = frozenset(("bra", "brx", "ret", "exit", "call", "bar", "barrier", "trap"))


def is_control(op: Instruction) -> bool:
    return op.parts[0] in CONTROL and not is_of_warp(op)


def is_of_warp(op: Instruction) -> bool:
    """Whether all lanes of a warp have to run it together."""
    return (
        op.parts[0] in ("mma", "ldmatrix")
        or (op.parts[0] in ("shfl", "vote", "redux") and "sync" in op.parts)
        or op.parts[:2] == ("bar", "warp")
    )


@dataclass(frozen=True)
class Block:
    """Steps, then the instruction of control at `end`, or none: execution goes on there."""

    steps: tuple[tuple[int, Callable], ...]
    end: int
    of_warp: bool


class Program:
    def __init__(self, module: Module, kernel: str):
        self.module = module
        self.functions = _reachable(module, kernel)
        self.entry: dict[str, int] = {}
        self.code: list[tuple[Function, Instruction]] = []
        self.joins: set[int] = set()
        for function in self.functions:
            start = self.entry[function.name] = len(self.code)
            self.code += [(function, op) for op in function.body]
            self.joins.update(start + at for at in function.labels.values())
        self.slots: dict[tuple[str, str], int] = {}
        self.operands = {f.name: Operands(f.name, f.registers, self.slots) for f in self.functions}
        self.widths: dict[int, int] = {}
        for function in self.functions:
            for name, bits in function.registers.items():
                self.slots[function.name, name] = len(self.slots)
                self.widths[len(self.slots) - 1] = bits
        self._blocks: dict[int, Block] = {}
        self.guards: dict[int, Callable[[Any], np.ndarray]] = {}
        self.granules = self._granules()
        self.symbols = {name for _, op in self.code for name in _names(op.operands)}

    def with_looser_waits(self) -> list[Program]:
        """This program once for each of its waits for copies, which leaves one group more in flight."""
        return [
            self._with_instruction(pc, _one_more_in_flight(op))
            for pc, (_, op) in enumerate(self.code)
            if op.parts[:3] == ("cp", "async", "wait_group")
        ]

    def _with_instruction(self, pc: int, op: Instruction) -> Program:
        """This program with another instruction; what does not run it is compiled once for both."""
        other = copy(self)
        other.code = [*self.code[:pc], (self.code[pc][0], op), *self.code[pc + 1 :]]
        other._blocks = {
            start: block for start, block in self._blocks.items() if not start <= pc < block.end
        }
        return other

    def target(self, function: Function, label: Any) -> int:
        if not isinstance(label, Symbol) or label.name not in function.labels:
            raise PtxFault("bad-program", f"no label {label} in {function.name}")
        return self.entry[function.name] + function.labels[label.name]

    def block(self, pc: int) -> Block:
        found = self._blocks.get(pc)
        if found is None:
            found = self._blocks[pc] = self._compile(pc)
        return found

    def _compile(self, start: int) -> Block:
        steps: list[tuple[int, Callable]] = []
        pc = start
        while True:
            if pc >= len(self.code):
                raise PtxFault("bad-program", "execution runs out of the function")
            op = self.code[pc][1]
            if is_control(op):
                self._guard(pc)
                return Block(tuple(steps), pc, False)
            if pc != start and (pc in self.joins or is_of_warp(op)):
                return Block(tuple(steps), pc, False)
            steps.append((pc, self._step(pc)))
            pc += 1
            if is_of_warp(op):
                return Block(tuple(steps), pc, True)

    def _guard(self, pc: int) -> Callable[[Any], np.ndarray] | None:
        function, op = self.code[pc]
        if op.guard is None:
            return None
        get = self.operands[function.name].get(op.guard, 1)
        if op.negated:
            self.guards[pc] = lambda machine: ~get(machine)
        else:
            self.guards[pc] = get
        return self.guards[pc]

    def _step(self, pc: int) -> Callable:
        function, op = self.code[pc]
        try:
            made = _maker(op)(self.operands[function.name], op)
        except PtxFault as fault:
            raise PtxFault(fault.kind, f"{fault.message}: {op.text}", op.line) from fault
        guard = self._guard(pc)
        if guard is None:
            return made

        def guarded(machine, mask):
            chosen = guard(machine)
            if mask is not None:
                chosen = chosen & mask
            if chosen.all():
                made(machine, None)
            elif chosen.any():
                made(machine, chosen)

        return guarded

    def _granules(self) -> tuple[int, int]:
        """The smallest access to shared memory, and to global memory, in bytes."""
        smallest = {"shared": 16, "global": 16}
        for _, op in self.code:
            found = memory_ops.access_bytes(op)
            for space in smallest:
                if found is not None and found[0] in (space, ""):
                    smallest[space] = min(smallest[space], found[1])
        return smallest["shared"], smallest["global"]


def _one_more_in_flight(wait: Instruction) -> Instruction:
    count = wait.operands[0].value + 1
    return replace(wait, operands=(Imm(count),), text=f"cp.async.wait_group {count}")


def _names(operands: tuple) -> list[str]:
    """The symbols among operands, also inside addresses."""
    bases = [getattr(operand, "base", operand) for operand in operands]
    return [base.name for base in bases if hasattr(base, "name")]


def _maker(op: Instruction):
    name = op.parts[0]
    if name in _MAKERS:
        return _MAKERS[name]
    kinds = types_of(op.parts)
    table = float_ops.MAKERS if kinds and "f" in kinds[-1] else integer_ops.MAKERS
    if name not in table:
        raise unknown(op.text)
    return table[name]


def _reachable(module: Module, kernel: str) -> list[Function]:
    """The kernel first, then what it calls."""
    if kernel not in module.functions:
        raise PtxFault("bad-program", f"no kernel '{kernel}'")
    found = [module.functions[kernel]]
    for function in found:
        for op in function.body:
            if op.parts[0] != "call":
                continue
            for operand in op.operands:
                callee = module.functions.get(getattr(operand, "name", ""))
                if callee is not None and callee not in found:
                    found.append(callee)
    return found
