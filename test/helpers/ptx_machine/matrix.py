"""ldmatrix and mma.sync: which lane and register holds which element (PTX ISA, mma fragments).

With e elements in a register of 32 bits, lane l = 4 g + t holds in A's registers, for each part
of 4 e columns: row g, columns e t + 0 … e - 1, then the same of row g + 8. B is held like A's
rows g with rows and columns exchanged. The accumulator holds row g, columns 2 t and 2 t + 1,
then row g + 8.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from helpers.ptx_machine.faults import unknown
from helpers.ptx_machine.floats import decode, encode
from helpers.ptx_machine.registers import UNSIGNED, Operands, Step
from helpers.ptx_machine.syntax import BITS, Instruction, Vector


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
        if transposed:
            rows = rows.transpose(0, 1, 3, 2)
        # Lane 4 g + t holds columns 2 t and 2 t + 1 of row g: the neighbours, in the order of lanes.
        both = np.ascontiguousarray(rows).view(np.uint32).reshape(-1, len(puts), 32)
        for matrix, put in enumerate(puts):
            put(machine, both[:, matrix].reshape(-1), lanes)

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

    each_a, each_b, each_c, each_to = (
        max(32 // BITS[kind], 1) for kind in (a_kind, b_kind, c_kind, to)
    )

    def step(machine, mask):
        lanes = machine.lanes(mask)
        warps = len(lanes) // 32
        left = _elements(machine, a, lanes, a_kind).take(_operand(len(a), each_a, warps, m))
        right = _elements(machine, b, lanes, b_kind).take(_operand(len(b), each_b, warps, 8))
        exact = np.matmul(left, right.transpose(0, 2, 1))
        exact += _elements(machine, c, lanes, c_kind).take(_sums(each_c, warps, m))
        results = (
            _bits(exact, to).take(_results(each_to, warps, m)).view(UNSIGNED[each_to * BITS[to]])
        )
        for put, result in zip(puts, results, strict=True):
            put(machine, result[:, 0], lanes)

    return step


def _elements(machine, gets: list, lanes: np.ndarray, kind: str) -> np.ndarray:
    """What registers hold, as f64 or int64: one register after the other, each lane by lane."""
    values = [get(machine) for get in gets]
    if any(value.ndim == 0 for value in values):
        values = [np.broadcast_to(value, machine.threads) for value in values]
    if len(lanes) < machine.threads:
        values = [value[lanes] for value in values]
    bits = np.concatenate(values)
    if kind == "s32":
        return bits.view(np.int32).astype(np.int64)
    if kind in ("s8", "u8"):
        return bits.view(np.int8 if kind == "s8" else np.uint8).astype(np.int64)
    return decode(bits.view(UNSIGNED[BITS[kind]]), kind).astype(np.float64, copy=False)


def _bits(exact: np.ndarray, kind: str) -> np.ndarray:
    return exact.astype(np.int32).view(np.uint32) if kind == "s32" else encode(exact, kind)


@cache
def _operand(registers: int, each: int, warps: int, rows: int) -> np.ndarray:
    """Where elements [warp, row, column of k] of A, or of B with rows for columns, are held."""
    parts = registers // (rows // 8)
    warp, row, column = np.ogrid[:warps, :rows, : 4 * each * parts]
    half, g = np.divmod(row, 8)
    part, inside = np.divmod(column, 4 * each)
    t, element = np.divmod(inside, each)
    return _held(part * (rows // 8) + half, warp, 4 * g + t, element, warps, each)


@cache
def _sums(each: int, warps: int, rows: int) -> np.ndarray:
    """Where elements [warp, row, column] of the accumulator are held."""
    warp, row, column = np.ogrid[:warps, :rows, :8]
    half, g = np.divmod(row, 8)
    t, odd = np.divmod(column, 2)
    register, element = np.divmod(2 * half + odd, each)
    return _held(register, warp, 4 * g + t, element, warps, each)


def _held(register, warp, lane, element, warps: int, each: int) -> np.ndarray:
    return ((register * warps + warp) * 32 + lane) * each + element


@cache
def _results(each: int, warps: int, rows: int) -> np.ndarray:
    """The inverse of `_sums`: which element [register, lane, element of it] holds."""
    return np.argsort(_sums(each, warps, rows), axis=None).reshape(-1, 32 * warps, each)


MAKERS = {"ldmatrix": ldmatrix, "mma": mma}
