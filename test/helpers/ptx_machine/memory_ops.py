"""ld, st, atom, red, and cp.async with its groups."""

from __future__ import annotations

import numpy as np

from helpers.ptx_machine.faults import unknown
from helpers.ptx_machine.floats import decode, encode
from helpers.ptx_machine.registers import SIGNED, UNSIGNED, Operands, Step, type_of
from helpers.ptx_machine.syntax import BITS, Address, Imm, Instruction, Symbol, Vector

_SPACES = ("global", "shared", "local", "param", "const")


def _space(op: Instruction) -> str:
    found = next((part for part in op.parts if part in _SPACES), "")
    return "global" if found == "const" else found


def _address(ops: Operands, operand: Address):
    """The addresses of some lanes."""
    offset = np.uint64(operand.offset & (2**64 - 1))
    if isinstance(operand.base, Symbol):
        name, owner = operand.base.name, ops.function

        def symbol(machine, lanes):
            return np.full(len(lanes), np.uint64(machine.address_of(name, owner)) + offset)

        return symbol
    if isinstance(operand.base, Imm):
        base = np.uint64(operand.base.value)
        return lambda machine, lanes: np.full(len(lanes), base + offset)
    get = ops.get(operand.base, 64 if ops.registers.get(operand.base.name) != 32 else 32)
    return lambda machine, lanes: get(machine)[lanes].astype(np.uint64) + offset


def _items(operand) -> tuple:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _load(ops: Operands, op: Instruction) -> Step:
    kind, space = type_of(op.parts), _space(op)
    dtype = (SIGNED if kind[0] == "s" else UNSIGNED)[BITS[kind]]
    items, address = _items(op.operands[0]), op.operands[1]
    puts = [ops.put_lanes(item) for item in items]
    if space == "param":
        return _load_parameter(ops, puts, address, np.dtype(dtype))
    at = _address(ops, address)

    def step(machine, mask):
        lanes = machine.lanes(mask)
        values = machine.memory.load(space, at(machine, lanes), lanes, dtype, len(puts))
        for position, put in enumerate(puts):
            put(machine, values[:, position], lanes)

    return step


def _load_parameter(ops: Operands, puts: list, address: Address, dtype: np.dtype) -> Step:
    if not isinstance(address.base, Symbol):
        raise unknown("a parameter at an address in a register")
    name, start, size = (ops.function, address.base.name), address.offset, dtype.itemsize

    def step(machine, mask):
        lanes, data = machine.lanes(mask), machine.parameters[name]
        for position, put in enumerate(puts):
            part = data[:, start + position * size :][:, :size]
            value = np.ascontiguousarray(part).view(dtype)[:, 0]
            put(machine, np.broadcast_to(value, machine.threads)[lanes], lanes)

    return step


def _store(ops: Operands, op: Instruction) -> Step:
    kind, space = type_of(op.parts), _space(op)
    address, gets = op.operands[0], [ops.get(i, BITS[kind]) for i in _items(op.operands[1])]
    if space == "param":
        return _store_parameter(ops, gets, address, BITS[kind] // 8)
    at = _address(ops, address)

    def step(machine, mask):
        lanes = machine.lanes(mask)
        values = np.empty((len(lanes), len(gets)), UNSIGNED[BITS[kind]])
        for position, get in enumerate(gets):
            value = get(machine)
            values[:, position] = value[lanes] if value.ndim else value
        machine.memory.store(space, at(machine, lanes), lanes, values, machine.copies)

    return step


def _store_parameter(ops: Operands, gets: list, address: Address, size: int) -> Step:
    name, start = (ops.function, address.base.name), address.offset

    def step(machine, mask):
        lanes, data = machine.lanes(mask), machine.parameters[name]
        for position, get in enumerate(gets):
            value = np.ascontiguousarray(np.broadcast_to(get(machine), machine.threads)[lanes])
            data[lanes, start + position * size : start + (position + 1) * size] = value.view(
                np.uint8
            ).reshape(len(lanes), size)

    return step


def _exchange(old, new):
    return new


_CHANGES = {
    "add": lambda old, new: old + new,
    "min": min,
    "max": max,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "exch": _exchange,
}


def _atomic(ops: Operands, op: Instruction) -> Step:
    """atom d, [a], b; red [a], b; atom.cas d, [a], compare, value."""
    kind, space = type_of(op.parts), _space(op)
    operands = op.operands if op.parts[0] == "red" else op.operands[1:]
    put = ops.put_lanes(op.operands[0]) if op.parts[0] == "atom" else None
    at, bits = _address(ops, operands[0]), BITS[kind]
    dtype = (SIGNED if kind[0] == "s" else UNSIGNED)[bits]
    gets = [ops.get(operand, bits) for operand in operands[1:]]
    name = next((part for part in op.parts if part in (*_CHANGES, "cas")), None)
    if name is None:
        raise unknown(op.text)

    def step(machine, mask):
        lanes = machine.lanes(mask)
        given = [np.broadcast_to(get(machine), machine.threads)[lanes] for get in gets]

        def change(position, old):
            new = [values[position : position + 1] for values in given]
            old = np.asarray([old])
            if name == "cas":
                return (new[1] if old.view(new[0].dtype) == new[0] else old)[0]
            if "f" in kind:
                value = _CHANGES[name](decode(old.view(new[0].dtype), kind), decode(new[0], kind))
                return encode(value, kind)[0]
            return _CHANGES[name](old, new[0].view(dtype))[0]

        old = machine.memory.atomic(space, at(machine, lanes), lanes, dtype, change)
        if put is not None:
            put(machine, old, lanes)

    return step


def _cp(ops: Operands, op: Instruction) -> Step:
    """cp.async.ca.shared.global [to], [from], size{, kept}; commit_group; wait_group; wait_all."""
    if op.parts[:2] != ("cp", "async") or "bulk" in op.parts or "mbarrier" in op.parts:
        raise unknown(op.text)
    if op.parts[2] == "commit_group":
        return _commit
    if op.parts[2] == "wait_group":
        return _waiting(op.operands[0].value, op.line)
    if op.parts[2] == "wait_all":
        return _wait_all
    if "shared" not in op.parts or "global" not in op.parts or len(op.operands) > 4:
        raise unknown(op.text)
    to, from_ = (_address(ops, operand) for operand in op.operands[:2])
    size = op.operands[2].value
    if size not in (4, 8, 16) or ("cg" in op.parts and size != 16):
        raise unknown(op.text)
    kept = ops.get(op.operands[3], 32) if len(op.operands) == 4 else None

    def step(machine, mask):
        lanes = machine.lanes(mask)
        read = np.full(len(lanes), size)
        if kept is not None:
            read = np.broadcast_to(kept(machine), machine.threads)[lanes].astype(np.int64)
            if (read > size).any():
                raise unknown(f"cp.async of {size} bytes with src-size {int(read.max())}")
        machine.copies.issue(machine, lanes, from_(machine, lanes), to(machine, lanes), size, read)

    return step


def _commit(machine, mask) -> None:
    machine.copies.commit(machine.lanes(mask))
    machine.copies.some_may_complete(machine)


def _waiting(allowed: int, line: int) -> Step:
    def step(machine, mask):
        machine.copies.some_may_complete(machine)
        machine.copies.wait(machine, machine.active(mask), allowed, line)

    return step


def _wait_all(machine, mask) -> None:
    """Also for copies that are in no group."""
    machine.copies.commit(machine.lanes(mask))
    machine.copies.wait(machine, machine.active(mask), 0)


def access_bytes(op: Instruction) -> tuple[str, int] | None:
    """Space and size of what an instruction accesses at once; the space is "" if it may be any."""
    if op.parts[0] in ("ld", "st", "atom", "red") and _space(op) not in ("param", "local"):
        values = op.operands[0] if op.parts[0] == "ld" else op.operands[-1]
        count = len(_items(values)) if op.parts[0] in ("ld", "st") else 1
        return _space(op), BITS[type_of(op.parts)] // 8 * count
    if op.parts[:2] == ("cp", "async") and len(op.operands) >= 3:
        return "", op.operands[2].value
    return None


def _nothing(ops: Operands, op: Instruction) -> Step:
    return lambda machine, mask: None


MAKERS = {"ld": _load, "st": _store, "atom": _atomic, "red": _atomic, "cp": _cp}
MAKERS |= {"membar": _nothing, "fence": _nothing, "prefetch": _nothing, "ldu": _load}
