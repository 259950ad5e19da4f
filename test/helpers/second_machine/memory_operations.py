"""Memory: allocations, views, loads, stores, atomics."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from helpers.second_machine import arithmetic, memory
from helpers.second_machine import numbers_of_types as types
from helpers.second_machine.control_flow import Writer
from helpers.second_machine.memory import Buffer, View
from helpers.second_machine.memory_order import order_of
from helpers.second_machine.plain_operations import DYNAMIC, put_result
from helpers.second_machine.syntax import NotJudged, Operation

Build = Callable[[Writer, Operation], None]


def _allocate(w: Writer, op: Operation) -> None:
    kind, sizes, line = types.memory(op.result_types[0]), w.registers(op.operands), op.line
    program = w.program

    def compute(t: Any, r: list) -> View:
        given = [r[s] for s in sizes]
        size = memory.size_in_bytes(kind, given)
        if kind.space != "workgroup":
            alone = t.block.size == 1 and kind.space == "global"
            buffer = Buffer(bytearray(size), "global" if alone else "private", set())
        else:
            number = t.rounds[line] = t.rounds.get(line, 0) + 1
            buffer = program.shared(t, ("alloc", line, number), size)
        return memory.view_of(kind, buffer, given)

    put_result(w, op, compute)


def _get_global(w: Writer, op: Operation) -> None:
    kind, name, program = types.memory(op.result_types[0]), op.attributes["name"], w.program
    size = memory.size_in_bytes(kind, [])
    if program.global_has_values(name):
        raise NotJudged("a global with values")

    def compute(t: Any, r: list) -> View:
        if kind.space == "workgroup":
            buffer = program.shared(t, ("global", name), size)
        else:
            buffer = t.world.globals.setdefault(name, Buffer(bytearray(size), kind.space))
        return memory.view_of(kind, buffer, [])

    put_result(w, op, compute)


def _dynamic_shared(w: Writer, op: Operation) -> None:
    kind, program = types.memory(op.result_types[0]), w.program

    def compute(t: Any, r: list) -> View:
        size = program.dynamic_shared_bytes
        return memory.view_of(kind, program.shared(t, ("dynamic",), size), [size])

    put_result(w, op, compute)


def _dealloc(w: Writer, op: Operation) -> None:
    """Memory lives to the end here; a use after it is for other judges."""


def _load(w: Writer, op: Operation) -> None:
    view, *indices = w.registers(op.operands)
    kind, line = types.value(op.result_types[0]), op.line
    element, nothing = kind.element, (0,) * kind.count if kind.shape else 0

    def compute(t: Any, r: list) -> Any:
        memref = r[view]
        at = t.touch(line, "read", memref, [r[i] for i in indices], kind.shape)
        if at is None:
            return nothing
        if kind.shape:
            return tuple(t.read(element, memref.buffer, a) for a in at)
        return t.read(element, memref.buffer, at[0])

    put_result(w, op, compute)


def _store(w: Writer, op: Operation) -> None:
    value, view, *indices = w.registers(op.operands)
    kind, line = types.value(op.operand_types[0]), op.line
    element = kind.element

    def put(t: Any, r: list) -> None:
        memref = r[view]
        at = t.touch(line, "write", memref, [r[i] for i in indices], kind.shape)
        if at is None or t.scope is not None:
            return
        values = r[value] if kind.shape else (r[value],)
        for address, number in zip(at, values, strict=True):
            t.write(element, memref.buffer, address, number)

    w.emit(put)


# In the order in which the attribute numbers them.
_ATOMIC = (
    "addf", "addi", "andi", "assign", "maximumf", "maxnumf", "maxs", "maxu", "minimumf",
    "minnumf", "mins", "minu", "mulf", "muli", "ori", "xori",
)  # fmt: skip


def _atomic(w: Writer, op: Operation) -> None:
    value, view, *indices = w.registers(op.operands)
    element, line = types.value(op.operand_types[0]).element, op.line
    name = _ATOMIC[op.integer("kind")]
    name = {"maxs": "maxsi", "mins": "minsi", "maxu": "maxui", "minu": "minui"}.get(name, name)
    combine = (lambda a, b: b) if name == "assign" else arithmetic.binary(name, element)
    w.strong(op)
    order = w.acquired(op, order_of(op))

    def compute(t: Any, r: list) -> Any:
        memref = r[view]
        at = t.touch(line, "atomic", memref, [r[i] for i in indices], (), order)
        if at is None:
            return 0
        old = memory.load(element, memref.buffer.data, at[0])
        new = combine(old, r[value])
        if t.scope is None and new != old:
            t.write(element, memref.buffer, at[0], new, True)
        return old

    put_result(w, op, compute)


def _filled(static: list[int], dynamic: list[int], r: list) -> list[int]:
    given = iter(dynamic)
    return [r[next(given)] if number == DYNAMIC else number for number in static]


def _subview(w: Writer, op: Operation) -> None:
    source, *dynamic = w.registers(op.operands)
    _, offsets, sizes, _ = op.integers("operandSegmentSizes")
    parts = (dynamic[:offsets], dynamic[offsets : offsets + sizes], dynamic[offsets + sizes :])
    static = [op.integers(f"static_{name}") for name in ("offsets", "sizes", "strides")]
    kind = types.memory(op.result_types[0])

    def compute(t: Any, r: list) -> View:
        given = [_filled(s, d, r) for s, d in zip(static, parts, strict=True)]
        return memory.subview(r[source], *given, kind)

    put_result(w, op, compute)


def _reinterpret(w: Writer, op: Operation) -> None:
    source, *dynamic = w.registers(op.operands)
    _, offsets, sizes, _ = op.integers("operandSegmentSizes")
    parts = (dynamic[:offsets], dynamic[offsets : offsets + sizes], dynamic[offsets + sizes :])
    static = [op.integers(f"static_{name}") for name in ("offsets", "sizes", "strides")]

    def compute(t: Any, r: list) -> View:
        (start,), lengths, steps = (_filled(s, d, r) for s, d in zip(static, parts, strict=True))
        return replace(r[source], offset=start, sizes=tuple(lengths), strides=tuple(steps))

    put_result(w, op, compute)


def _view(w: Writer, op: Operation) -> None:
    source, shift, *sizes = w.registers(op.operands)
    kind = types.memory(op.result_types[0])

    def compute(t: Any, r: list) -> View:
        whole = r[source]
        base = whole.base + whole.offset + r[shift]
        return memory.view_of(kind, whole.buffer, [r[s] for s in sizes], base)

    put_result(w, op, compute)


def _same(w: Writer, op: Operation) -> None:
    w.move([w.register(op.operands[0])], w.registers(op.results))


def _reshape(w: Writer, op: Operation) -> None:
    """Dimensions split or joined; a joined group is contiguous (the operation promises it)."""
    source, kind = w.register(op.operands[0]), types.memory(op.result_types[0])
    groups = [
        [int(number) for number in re.findall(r"\d+", part)]
        for part in re.findall(r"\[[\d, ]+\]", op.attributes["reassociation"].replace(" : i64", ""))
    ]
    if None in kind.sizes:
        raise NotJudged("a reshape to dynamic sizes")
    sizes: Any = kind.sizes
    splits = op.name == "memref.expand_shape"

    def compute(t: Any, r: list) -> View:
        view, strides = r[source], []
        for number, group in enumerate(groups):
            if not splits:
                strides.append(view.strides[group[-1]])
                continue
            inner = memory.row_major(tuple(sizes[g] for g in group))
            strides += [step * view.strides[number] for step in inner]
        return replace(view, sizes=sizes, strides=tuple(strides))

    put_result(w, op, compute)


def _dim(w: Writer, op: Operation) -> None:
    view, number = w.registers(op.operands)
    put_result(w, op, lambda t, r: r[view].sizes[r[number]])


def _copy(w: Writer, op: Operation) -> None:
    source, target = w.registers(op.operands)
    line = op.line

    def put(t: Any, r: list) -> None:
        first, second = r[source], r[target]
        rank, zero = first.sizes, [0] * len(first.sizes)
        size = first.element.size
        origin = t.touch(line, "read", first, zero, rank)
        held = [bytes(first.buffer.data[a : a + size]) for a in origin or ()]
        place = t.touch(line, "write", second, zero, rank)
        if origin is None or place is None or t.scope is not None:
            return
        for address, value in zip(place, held, strict=True):
            second.buffer.data[address : address + size] = value

    w.emit(put)


OPERATIONS: dict[str, Build] = {
    "memref.alloc": _allocate,
    "memref.alloca": _allocate,
    "memref.dealloc": _dealloc,
    "memref.get_global": _get_global,
    "gpu.dynamic_shared_memory": _dynamic_shared,
    "memref.load": _load,
    "memref.store": _store,
    "vector.load": _load,
    "vector.store": _store,
    "memref.atomic_rmw": _atomic,
    "memref.subview": _subview,
    "memref.view": _view,
    "memref.reinterpret_cast": _reinterpret,
    "memref.cast": _same,
    "memref.assume_alignment": _same,
    "memref.memory_space_cast": _same,
    "memref.dim": _dim,
    "memref.expand_shape": _reshape,
    "memref.collapse_shape": _reshape,
    "memref.copy": _copy,
}
