"""mov, selp, setp and what else chooses or moves whole registers."""

from __future__ import annotations

import operator

import numpy as np

from helpers.ptx_machine.faults import unknown
from helpers.ptx_machine.float_ops import float_operand
from helpers.ptx_machine.memory import LOCAL_WINDOW, SHARED_WINDOW
from helpers.ptx_machine.registers import UNSIGNED, Operands, Step, type_of
from helpers.ptx_machine.syntax import BITS, Instruction, Pair, Vector

_ORDER = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "lo": operator.lt, "ls": operator.le,
    "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip


def _mov(ops: Operands, op: Instruction) -> Step:
    bits = BITS[type_of(op.parts)]
    to, from_ = op.operands
    if isinstance(to, Vector):
        return _unpack(ops, to, from_, bits)
    if isinstance(from_, Vector):
        return _pack(ops, to, from_, bits)
    put, get = ops.put(to), ops.get(from_, bits)
    return lambda machine, mask: put(machine, get(machine), mask)


def _unpack(ops: Operands, to: Vector, from_, bits: int) -> Step:
    """mov.b32 {%rs1, %rs2}, %r1: the first part is the lowest."""
    part = bits // len(to.items)
    puts, get = [ops.put(item) for item in to.items], ops.get(from_, bits)

    def step(machine, mask):
        whole = get(machine)
        for position, put in enumerate(puts):
            shifted = whole >> UNSIGNED[bits](position * part)
            put(machine, shifted.astype(UNSIGNED[part]), mask)

    return step


def _pack(ops: Operands, to, from_: Vector, bits: int) -> Step:
    part = bits // len(from_.items)
    put, gets = ops.put(to), [ops.get(item, part) for item in from_.items]

    def step(machine, mask):
        whole = UNSIGNED[bits](0)
        for position, get in enumerate(gets):
            whole = whole | (get(machine).astype(UNSIGNED[bits]) << UNSIGNED[bits](position * part))
        put(machine, np.asarray(whole), mask)

    return step


def _selp(ops: Operands, op: Instruction) -> Step:
    bits = BITS[type_of(op.parts)]
    put = ops.put(op.operands[0])
    first, second = (ops.get(operand, bits) for operand in op.operands[1:3])
    condition = ops.get(op.operands[3], 1)

    def step(machine, mask):
        put(machine, np.where(condition(machine), first(machine), second(machine)), mask)

    return step


def _setp(ops: Operands, op: Instruction) -> Step:
    """setp.lt.s32 p, a, b; with .and, .or, .xor and a predicate c; p|q for packed types."""
    kind, comparison = type_of(op.parts), op.parts[1]
    if "ftz" in op.parts:
        raise unknown(op.text)
    if "f" in kind:
        compare = _float_comparison(comparison)
        a, b = (float_operand(ops, operand, kind) for operand in op.operands[1:3])
    else:
        if comparison not in _ORDER:
            raise unknown(op.text)
        compare = _ORDER[comparison]
        a, b = (ops.integers(operand, kind) for operand in op.operands[1:3])
    joined = next((_JOIN[part] for part in op.parts if part in _JOIN), None)
    third = ops.get(op.operands[3], 1) if joined is not None else None
    to = op.operands[0]
    first = ops.put(to.first if isinstance(to, Pair) else to)
    second = ops.put(to.second) if isinstance(to, Pair) else None
    packed = kind.endswith("x2")

    def step(machine, mask):
        found = np.asarray(compare(a(machine), b(machine)))
        if packed:
            both = (found[0], found[1]) if second is not None else (found[0] & found[1],) * 2
        else:
            both = (found, ~found)
        if joined is not None:
            both = tuple(np.asarray(joined(value, third(machine))) for value in both)
        first(machine, both[0], mask)
        if second is not None:
            second(machine, both[1], mask)

    return step


_JOIN = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def _float_comparison(name: str):
    if name == "num":
        return lambda x, y: ~(np.isnan(x) | np.isnan(y))
    if name == "nan":
        return lambda x, y: np.isnan(x) | np.isnan(y)
    if name in ("eq", "lt", "le", "gt", "ge"):
        return _ORDER[name]
    if name == "ne":
        return lambda x, y: (x != y) & ~(np.isnan(x) | np.isnan(y))
    if name.endswith("u") and name[:-1] in _ORDER:
        compare = _ORDER[name[:-1]]
        return lambda x, y: compare(x, y) | np.isnan(x) | np.isnan(y)
    raise unknown(f"setp.{name}")


_WINDOWS = {"global": 0, "const": 0, "param": 0, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW}


def _cvta(ops: Operands, op: Instruction) -> Step:
    """cvta.shared makes an address generic, cvta.to.shared takes the window off."""
    space = next(part for part in op.parts if part in _WINDOWS)
    base = np.uint64(_WINDOWS[space])
    put, get = ops.put(op.operands[0]), ops.get(op.operands[1], 64)
    if "to" in op.parts:
        return lambda machine, mask: put(machine, np.asarray(get(machine) - base), mask)
    return lambda machine, mask: put(machine, np.asarray(get(machine) + base), mask)


MAKERS = {"mov": _mov, "selp": _selp, "setp": _setp, "cvta": _cvta}
