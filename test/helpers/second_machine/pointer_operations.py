"""LLVM pointers: addresses, loads and stores, atomics, and fences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helpers.second_machine import arithmetic, memory
from helpers.second_machine import numbers_of_types as types
from helpers.second_machine.control_flow import Writer
from helpers.second_machine.memory import Pointer
from helpers.second_machine.memory_order import order_of
from helpers.second_machine.plain_operations import constant, put_result
from helpers.second_machine.syntax import NotJudged, Operation

DYNAMIC = -(2**31)


def _element_pointer(w: Writer, op: Operation) -> None:
    pointer, *given = w.registers(op.operands)
    size = types.element(op.attributes["elem_type"]).size
    indices = op.integers("rawConstantIndices")
    if len(indices) != 1:
        raise NotJudged("an address in an aggregate")
    (index,) = indices

    def compute(t: Any, r: list) -> Pointer:
        steps = r[given[0]] if index == DYNAMIC else index
        return Pointer(r[pointer].buffer, r[pointer].at + steps * size)

    put_result(w, op, compute)


def _load(w: Writer, op: Operation) -> None:
    (pointer,), order, line = w.registers(op.operands), w.acquired(op, order_of(op)), op.line
    kind = types.element(op.result_types[0])
    w.strong(op)

    def compute(t: Any, r: list) -> Any:
        at = r[pointer]
        if not t.reach(line, "read", at, kind.size, order):
            return 0
        return t.read(kind, at.buffer, at.at, order.strong)

    put_result(w, op, compute)


def _store(w: Writer, op: Operation) -> None:
    (value, pointer), order, line = w.registers(op.operands), w.acquired(op, order_of(op)), op.line
    kind = types.element(op.operand_types[0])
    w.strong(op)

    def put(t: Any, r: list) -> None:
        at = r[pointer]
        if t.reach(line, "write", at, kind.size, order) and t.scope is None:
            t.write(kind, at.buffer, at.at, r[value], order.strong)

    w.emit(put)


# By the numbers of the attribute.
_COMBINE = {
    0: "assign",
    1: "addi",
    2: "subi",
    3: "andi",
    5: "ori",
    6: "xori",
    7: "maxsi",
    8: "minsi",
}


def _atomic(w: Writer, op: Operation) -> None:
    (pointer, value), order, line = w.registers(op.operands), w.acquired(op, order_of(op)), op.line
    kind, name = types.element(op.operand_types[1]), _COMBINE.get(op.integer("bin_op"))
    if name is None:
        raise NotJudged("an atomic operation of another kind")
    combine = (lambda a, b: b) if name == "assign" else arithmetic.binary(name, kind)
    w.strong(op)

    def compute(t: Any, r: list) -> Any:
        at = r[pointer]
        if not t.reach(line, "atomic", at, kind.size, order):
            return 0
        old = memory.load(kind, at.buffer.data, at.at)
        new = combine(old, r[value])
        if new != old:
            t.write(kind, at.buffer, at.at, new, True)
        return old

    put_result(w, op, compute)


def _compare_exchange(w: Writer, op: Operation) -> None:
    (pointer, expected, value), order, line = (
        w.registers(op.operands),
        w.acquired(op, order_of(op)),
        op.line,
    )
    kind = types.element(op.operand_types[1])
    w.strong(op)

    def compute(t: Any, r: list) -> Any:
        at = r[pointer]
        if not t.reach(line, "atomic", at, kind.size, order):
            return 0, 0
        old = memory.load(kind, at.buffer.data, at.at)
        if old == r[expected] != r[value]:
            t.write(kind, at.buffer, at.at, r[value], True)
        return old, int(old == r[expected])

    put_result(w, op, compute)


def _extract(w: Writer, op: Operation) -> None:
    (source,), path = w.registers(op.operands), op.integers("position")

    def compute(t: Any, r: list) -> Any:
        found = r[source]
        for step in path:
            found = found[step]
        return found

    put_result(w, op, compute)


def _fence(w: Writer, op: Operation) -> None:
    order = order_of(op)

    def put(t: Any, r: list) -> None:
        if t.scope is not None or t.in_scope:
            raise NotJudged("a fence in a scope")
        t.world.shadow.fence(t.clock, order)

    w.emit(put)


OPERATIONS: dict[str, Callable[[Writer, Operation], None]] = {
    "llvm.mlir.constant": constant,
    "llvm.getelementptr": _element_pointer,
    "llvm.load": _load,
    "llvm.store": _store,
    "llvm.atomicrmw": _atomic,
    "llvm.cmpxchg": _compare_exchange,
    "llvm.extractvalue": _extract,
    "llvm.fence": _fence,
    "nvvm.memory.barrier": _fence,
}
