"""Operators on integers that only move whole bytes of data.

    i32(u16(x)) | (i32(u16(y)) << 16)   =   bytes 0 and 1 of x, then 0 and 1 of y
    u16((that) >> 16)                   =   y

Two halves in one register are written so in machine code, and as a vector in MLIR: both are the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mlir_async_pipe.machine.term_table import BYTE_VALUES, CAST, TermTable

Array = np.ndarray

_ZERO, _ONES = -BYTE_VALUES, 255 - BYTE_VALUES


def moved_bytes(
    table: TermTable,
    name: str,
    dtype: np.dtype,
    types: Sequence[np.dtype],
    columns: Sequence[Array],
) -> tuple[Array, Array]:
    """Terms of an operator with these operands, element by element, and where they are known: where each byte of the
    result is a byte of an operand, or a number."""
    known = np.zeros(len(columns[0]), np.bool_)
    mover = _MOVERS.get(name)
    if mover is None or dtype.kind not in "iu" or any(kind.kind not in "iu" for kind in types):
        return np.empty(len(known), np.int64), known
    cells = [
        table.cells_of(column, kind.itemsize) for column, kind in zip(columns, types, strict=True)
    ]
    moved, known = mover(dtype, types[0], *cells)
    terms = np.empty(len(known), np.int64)
    terms[known] = table.join(moved[known], dtype)
    return terms, known


def _cast(dtype: np.dtype, of: np.dtype, cells: Array) -> tuple[Array, Array]:
    size, wanted = cells.shape[1], dtype.itemsize
    everywhere = np.full(len(cells), wanted <= size or of.kind == "u")
    zeros = np.full((len(cells), max(wanted - size, 0)), _ZERO)
    return np.concatenate([cells[:, :wanted], zeros], axis=1), everywhere


def _shift_left(dtype: np.dtype, of: np.dtype, cells: Array, amount: Array) -> tuple[Array, Array]:
    return _shifted(cells, amount, 1)


def _shift_right(dtype: np.dtype, of: np.dtype, cells: Array, amount: Array) -> tuple[Array, Array]:
    # Of signed integers copies of the sign come in.
    moved, known = _shifted(cells, amount, -1)
    return moved, known & (of.kind == "u")


def _shifted(cells: Array, amount: Array, direction: int) -> tuple[Array, Array]:
    """By a number of bytes, upwards or downwards; the lowest byte says how many bits."""
    size = cells.shape[1]
    bits = amount[:, 0] + BYTE_VALUES
    known = (amount < 0).all(axis=1) & (amount[:, 1:] == _ZERO).all(axis=1)
    known &= (bits % 8 == 0) & (bits < 8 * size)
    source = np.arange(size) - direction * np.where(known, bits // 8, 0)[:, None]
    inside = (source >= 0) & (source < size)
    moved = np.take_along_axis(cells, np.clip(source, 0, size - 1), axis=1)
    return np.where(inside, moved, _ZERO), known


def _and(dtype: np.dtype, of: np.dtype, one: Array, other: Array) -> tuple[Array, Array]:
    return _chosen([(one == _ZERO, one), (other == _ZERO, other), (one == _ONES, other), (other == _ONES, one)])  # fmt: skip


def _or(dtype: np.dtype, of: np.dtype, one: Array, other: Array) -> tuple[Array, Array]:
    return _chosen([(one == _ZERO, other), (other == _ZERO, one)])


def _chosen(cases: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The first case that holds, byte by byte, and for which elements each byte has one."""
    conditions, values = zip(*cases, strict=True)
    return np.select(conditions, values), np.logical_or.reduce(conditions).all(axis=1)


_MOVERS: dict[str, Callable[..., tuple[Array, Array]]] = {
    CAST: _cast,
    "left_shift": _shift_left,
    "right_shift": _shift_right,
    "bitwise_and": _and,
    "bitwise_or": _or,
    "bitwise_xor": _or,
}
