"""What the lanes of a warp tell each other: shfl, vote, activemask, a redux of integers; and where they meet."""

from __future__ import annotations

import numpy as np

from helpers.ptx_machine.faults import unknown
from helpers.ptx_machine.registers import SIGNED, UNSIGNED, Operands, Step, type_of
from helpers.ptx_machine.syntax import BITS, Imm, Instruction, Pair


def _shfl(ops: Operands, op: Instruction) -> Step:
    """shfl.sync.MODE.b32 d|p, a, b, c, members: c holds the clamp and, from bit 8, the segment."""
    mode = op.parts[2]
    if mode not in ("up", "down", "bfly", "idx") or op.parts[1] != "sync":
        raise unknown(op.text)
    to = op.operands[0]
    put = ops.put_lanes(to.first if isinstance(to, Pair) else to)
    inside = ops.put_lanes(to.second) if isinstance(to, Pair) else None
    value, b, c = (ops.get(operand, 32) for operand in op.operands[1:4])

    def step(machine, mask):
        lanes = machine.lanes(mask)
        lane = lanes % 32
        by, control = (
            np.broadcast_to(get(machine), machine.threads)[lanes].astype(np.int64) for get in (b, c)
        )
        by, segment, clamp = by & 31, control >> 8 & 31, control & 31
        most = (lane & segment) | (clamp & ~segment)
        least = lane & segment
        if mode == "up":
            source = lane - by
            valid = source >= most
        elif mode == "down":
            source = lane + by
            valid = source <= most
        elif mode == "bfly":
            source = lane ^ by
            valid = source <= most
        else:
            source = least | (by & ~segment)
            valid = source <= most
        from_ = np.where(valid, source, lane) + lanes // 32 * 32
        values = np.broadcast_to(value(machine), machine.threads)
        put(machine, values[from_], lanes)
        if inside is not None:
            inside(machine, valid, lanes)

    return step


def _by_warp(machine, lanes: np.ndarray, flags: np.ndarray) -> np.ndarray:
    """[warp, 32] flags of the lanes, false elsewhere."""
    table = np.zeros(-(-machine.threads // 32) * 32, bool)
    table[lanes] = flags
    return table.reshape(-1, 32)


def _vote(ops: Operands, op: Instruction) -> Step:
    mode = next((part for part in op.parts if part in ("all", "any", "uni", "ballot")), None)
    if mode in (None, "uni"):
        raise unknown(op.text)
    put, condition = ops.put_lanes(op.operands[0]), ops.get(op.operands[1], 1)

    def step(machine, mask):
        lanes = machine.lanes(mask)
        flags = np.broadcast_to(condition(machine), machine.threads)[lanes]
        table, present = _by_warp(machine, lanes, flags), _by_warp(machine, lanes, True)
        if mode == "ballot":
            found = (table * (np.uint64(1) << np.arange(32, dtype=np.uint64))).sum(1)
            found = found.astype(np.uint32)
        elif mode == "all":
            found = (table | ~present).all(axis=1)
        else:
            found = table.any(axis=1)
        put(machine, found[lanes // 32], lanes)

    return step


def _redux(ops: Operands, op: Instruction) -> Step:
    reduce = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
        "or": np.bitwise_or, "xor": np.bitwise_xor,
    }.get(op.parts[2])  # fmt: skip
    kind = type_of(op.parts)
    if reduce is None or BITS[kind] != 32 or "f" in kind:
        raise unknown(op.text)
    put, get = ops.put_lanes(op.operands[0]), ops.integers(op.operands[1], kind)
    dtype = (SIGNED if kind[0] == "s" else UNSIGNED)[32]

    def step(machine, mask):
        lanes = machine.lanes(mask)
        values = np.broadcast_to(get(machine), machine.threads)
        found = np.zeros(machine.threads, dtype)
        for warp in np.unique(lanes // 32):
            here = lanes[lanes // 32 == warp]
            found[here] = reduce.reduce(values[here], dtype=dtype)
        put(machine, found[lanes], lanes)

    return step


def _activemask(ops: Operands, op: Instruction) -> Step:
    put = ops.put_lanes(op.operands[0])

    def step(machine, mask):
        lanes = machine.lanes(mask)
        table = _by_warp(machine, lanes, True)
        found = (table * (np.uint64(1) << np.arange(32, dtype=np.uint64))).sum(1)
        put(machine, found.astype(np.uint32)[lanes // 32], lanes)

    return step


def _meet(ops: Operands, op: Instruction) -> Step:
    """bar.warp.sync members, all lanes of each warp: what they did before is over."""
    (members,) = op.operands
    if op.parts != ("bar", "warp", "sync") or not isinstance(members, Imm):
        raise unknown(op.text)
    if members.value & 0xFFFFFFFF != 0xFFFFFFFF:
        raise unknown(op.text)

    def step(machine, mask):
        lanes = machine.lanes(mask)
        for warp in np.unique(lanes // 32):
            here = lanes[lanes // 32 == warp]
            machine.memory.ordering.partial_barrier(here, here)

    return step


MAKERS = {
    "shfl": _shfl, "vote": _vote, "redux": _redux, "activemask": _activemask, "bar": _meet,
}  # fmt: skip
