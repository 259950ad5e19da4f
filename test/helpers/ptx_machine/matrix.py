"""ldmatrix and mma.sync: which lane and register holds which element (PTX ISA, mma fragments).

With e elements in a register of 32 bits, lane l = 4 g + t holds in A's registers, for each part
of 4 e columns: row g, columns e t + 0 … e - 1, then the same of row g + 8. B is held like A's
rows g with rows and columns exchanged. The accumulator holds row g, columns 2 t and 2 t + 1,
then row g + 8.
"""

from __future__ import annotations

import re

import numpy as np

from helpers.ptx_machine.faults import unknown
from helpers.ptx_machine.floats import decode, encode
from helpers.ptx_machine.registers import UNSIGNED, Operands, Step
from helpers.ptx_machine.syntax import BITS, Instruction, Vector

_G, _T = np.divmod(np.arange(32), 4)


def ldmatrix(ops: Operands, op: Instruction) -> Step:
    """Lane 8 i + r gives the address of row r of matrix i, 16 bytes."""
    from helpers.ptx_machine.memory_ops import _address

    if "m8n8" not in op.parts or "b16" not in op.parts or "shared" not in op.parts:
        raise unknown(op.text)
    items = op.operands[0].items if isinstance(op.operands[0], Vector) else (op.operands[0],)
    puts, at, transposed = [ops.put_lanes(i) for i in items], _address(ops, op.operands[1]), "trans" in op.parts  # fmt: skip

    def step(machine, mask):
        lanes = machine.lanes(mask)
        givers = lanes[lanes % 32 < 8 * len(puts)]
        memory = machine.memory
        where = memory.shared.offsets(at(machine, givers), 16, 16)
        memory.shared_history.read(where, 16, givers, shared_by=32)
        rows = memory.shared.gather(where, np.uint16, 8)
        rows = rows.reshape(len(lanes) // 32, len(puts), 8, 8)
        for matrix, put in enumerate(puts):
            found = rows[:, matrix]
            if transposed:
                found = found.transpose(0, 2, 1)
            low, high = found[:, _G, 2 * _T], found[:, _G, 2 * _T + 1]
            both = low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))
            put(machine, both.reshape(-1), lanes)

    return step


def mma(ops: Operands, op: Instruction) -> Step:
    """mma.sync.aligned.m16n8kK.row.col.D.A.B.C {d}, {a}, {b}, {c}."""
    shape = next((re.fullmatch(r"m(\d+)n8k(\d+)", part) for part in op.parts if part[0] == "m" and part[1:2].isdigit()), None)  # fmt: skip
    kinds = [part for part in op.parts if part in BITS or part in ("s4", "u4")]
    if shape is None or len(kinds) != 4 or op.parts[3:5] == ("sp",) or "sp" in op.parts:
        raise unknown(op.text)
    m, k = int(shape[1]), int(shape[2])
    if (m, k) not in ((8, 4), (16, 4), (16, 8), (16, 16), (16, 32)) or (
        m == 8 and kinds[0] != "f64"
    ):
        raise unknown(op.text)
    if "s4" in kinds or "u4" in kinds or "row" not in op.parts or "col" not in op.parts:
        raise unknown(op.text)
    to, a_kind, b_kind, c_kind = kinds
    puts = [ops.put_lanes(item) for item in op.operands[0].items]
    a, b, c = (
        [ops.get(item, max(BITS[kind], 32)) for item in operand.items]
        for operand, kind in zip(op.operands[1:], (a_kind, b_kind, c_kind), strict=True)
    )

    def step(machine, mask):
        lanes = machine.lanes(mask)
        left = _operand(machine, a, lanes, a_kind, m)
        right = _operand(machine, b, lanes, b_kind, 8)
        start = _accumulator(machine, c, lanes, c_kind, m)
        exact = np.matmul(left, right.transpose(0, 2, 1)) + start
        _spread(machine, puts, lanes, exact, to)

    return step


def _values(bits: np.ndarray, kind: str) -> np.ndarray:
    """Registers to their elements, along a new last axis, as f64 or int64."""
    if kind in ("f64", "f32", "s32", "tf32"):
        value = bits.view(np.int32) if kind == "s32" else decode(bits, kind)
        return value[..., None].astype(np.int64 if kind == "s32" else np.float64)
    part = UNSIGNED[BITS[kind]] if kind != "s8" else np.int8
    pieces = np.ascontiguousarray(bits)[..., None].view(part)
    if kind in ("s8", "u8"):
        return pieces.astype(np.int64)
    return decode(np.ascontiguousarray(pieces), kind)


def _registers(machine, gets: list, lanes: np.ndarray) -> np.ndarray:
    """[warp, register, lane]"""
    values = [np.broadcast_to(get(machine), machine.threads)[lanes] for get in gets]
    return np.stack(values).reshape(len(gets), len(lanes) // 32, 32).transpose(1, 0, 2)


def _operand(machine, gets: list, lanes, kind: str, rows: int) -> np.ndarray:
    """[warp, row, column of k]"""
    values = _values(_registers(machine, gets, lanes), kind)
    warps, count, _, each = values.shape
    halves = rows // 8
    result = np.zeros((warps, rows, count // halves * 4 * each), values.dtype)
    for register in range(count):
        part, half = divmod(register, halves)
        for element in range(each):
            columns = part * 4 * each + each * _T + element
            result[:, _G + 8 * half, columns] = values[:, register, :, element]
    return result


def _accumulator(machine, gets: list, lanes, kind: str, rows: int) -> np.ndarray:
    values = _values(_registers(machine, gets, lanes), kind)
    warps, count, _, each = values.shape
    flat = values.transpose(0, 1, 3, 2).reshape(warps, count * each, 32)
    result = np.zeros((warps, rows, 8), values.dtype)
    for position in range(count * each):
        result[:, _G + 8 * (position // 2), 2 * _T + position % 2] = flat[:, position]
    return result


def _spread(machine, puts: list, lanes, value: np.ndarray, kind: str) -> None:
    for register, put in enumerate(puts):
        if kind == "f16":
            low, high = (
                encode(np.ascontiguousarray(value[:, _G + 8 * register, 2 * _T + i]), "f16")
                for i in (0, 1)
            )
            bits = low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))
        else:
            part = value[:, _G + 8 * (register // 2), 2 * _T + register % 2]
            if kind == "s32":
                bits = part.astype(np.int32).view(np.uint32)
            else:
                bits = encode(np.ascontiguousarray(part), kind)
        put(machine, np.ascontiguousarray(bits).reshape(-1), lanes)


MAKERS = {"ldmatrix": ldmatrix, "mma": mma}
