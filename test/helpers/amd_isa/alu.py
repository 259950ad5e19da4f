"""Integer instructions of AMD's scalar and vector units, on 32- and 64-bit numbers.

A scalar operand is a Python int, a vector operand an array of uint32 or uint64 with one number a
lane; both are taken modulo their width when they are written back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def signed(value: Any, bits: int = 32) -> Any:
    """The number that the low `bits` stand for in two's complement."""
    half = 1 << (bits - 1)
    return ((value & ((1 << bits) - 1)) ^ half) - half


# name: (bits of result, bits of each source, what it computes, on Python ints)
Rule = tuple[int, tuple[int, ...], Callable[..., int]]


def _three(f: Callable[[int, int, int], int], bits: int = 32) -> Rule:
    return bits, (bits, bits, bits), f


def _two(f: Callable[[int, int], int], bits: int = 32) -> Rule:
    return bits, (bits, bits), f


PLAIN: dict[str, Rule] = {}


def _define(names: str, rule: Rule) -> None:
    for name in names.split():
        PLAIN[name] = rule


for _bits in (32, 64):
    _define(f"and_b{_bits}", _two(lambda a, b: a & b, _bits))
    _define(f"or_b{_bits}", _two(lambda a, b: a | b, _bits))
    _define(f"xor_b{_bits}", _two(lambda a, b: a ^ b, _bits))
    _define(f"andn2_b{_bits} and_not1_b{_bits}", _two(lambda a, b: a & ~b, _bits))
    _define(f"orn2_b{_bits} or_not1_b{_bits}", _two(lambda a, b: a | ~b, _bits))
    _define(f"mov_b{_bits}", (_bits, (_bits,), lambda a: a))
    _define(f"not_b{_bits}", (_bits, (_bits,), lambda a: ~a))
    _define(
        f"brev_b{_bits} bfrev_b{_bits}",
        (_bits, (_bits,), lambda a, n=_bits: int(format(a, f"0{n}b")[::-1], 2)),
    )
    _define(f"lshl_b{_bits}", (_bits, (_bits, 32), lambda a, n, m=_bits - 1: a << (n & m)))
    _define(f"lshr_b{_bits}", (_bits, (_bits, 32), lambda a, n, m=_bits - 1: a >> (n & m)))
    _define(
        f"ashr_i{_bits}", (_bits, (_bits, 32), lambda a, n, b=_bits: signed(a, b) >> (n & (b - 1)))
    )
    _define(f"lshlrev_b{_bits}", (_bits, (32, _bits), lambda n, a, m=_bits - 1: a << (n & m)))
    _define(f"lshrrev_b{_bits}", (_bits, (32, _bits), lambda n, a, m=_bits - 1: a >> (n & m)))
    _define(
        f"ashrrev_i{_bits}",
        (_bits, (32, _bits), lambda n, a, b=_bits: signed(a, b) >> (n & (b - 1))),
    )
_define("accvgpr_write_b32 accvgpr_read_b32 accvgpr_mov_b32", (32, (32,), lambda a: a))
_define("add_u32 add_nc_u32 add_i32 add_nc_i32 add_co_u32 add_co_i32", _two(lambda a, b: a + b))
_define("sub_u32 sub_nc_u32 sub_i32 sub_nc_i32 sub_co_u32 sub_co_i32", _two(lambda a, b: a - b))
_define("subrev_u32 subrev_nc_u32", _two(lambda a, b: b - a))
_define("add_nc_u64 add_u64", _two(lambda a, b: a + b, 64))
_define("sub_nc_u64 sub_u64", _two(lambda a, b: a - b, 64))
_define("mul_i32 mul_lo_u32 mul_lo_i32", _two(lambda a, b: a * b))
_define("mul_hi_u32", _two(lambda a, b: (a * b) >> 32))
_define("mul_u64", _two(lambda a, b: a * b, 64))
_define("mul_u32_u24", _two(lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF)))
_define("mul_i32_i24", _two(lambda a, b: signed(a, 24) * signed(b, 24)))
_define("mul_hi_i32_i24", _two(lambda a, b: (signed(a, 24) * signed(b, 24)) >> 32))
_define("mul_hi_u32_u24", _two(lambda a, b: ((a & 0xFFFFFF) * (b & 0xFFFFFF)) >> 32))
_define("mad_u32_u24", _three(lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c))
_define("mad_i32_i24", _three(lambda a, b, c: signed(a, 24) * signed(b, 24) + c))
_define("mad_u32", _three(lambda a, b, c: a * b + c))
_define("min_u32", _two(min))
_define("max_u32", _two(max))
_define("min_i32", _two(lambda a, b: min(signed(a), signed(b))))
_define("max_i32", _two(lambda a, b: max(signed(a), signed(b))))
_define("min_i64", _two(lambda a, b: min(signed(a, 64), signed(b, 64)), 64))
_define("min_u64", _two(min, 64))
_define("max_u64", _two(max, 64))
_define("max_i64", _two(lambda a, b: max(signed(a, 64), signed(b, 64)), 64))
_define("add3_u32", _three(lambda a, b, c: a + b + c))
_define("lshl_add_u32", _three(lambda a, n, c: (a << (n & 31)) + c))
_define("add_lshl_u32", _three(lambda a, b, n: ((a + b) & M32) << (n & 31)))
_define("lshl_or_b32", _three(lambda a, n, c: (a << (n & 31)) | c))
_define("and_or_b32", _three(lambda a, b, c: (a & b) | c))
_define("or3_b32", _three(lambda a, b, c: a | b | c))
_define("xor3_b32", _three(lambda a, b, c: a ^ b ^ c))
_define("xad_u32", _three(lambda a, b, c: (a ^ b) + c))
_define("bfi_b32", _three(lambda a, b, c: (a & b) | (~a & c)))
_define("alignbit_b32", _three(lambda a, b, n: (a << 32 | b) >> (n & 31)))
_define("bfe_u32", _three(lambda a, n, w: (a >> (n & 31)) & ((1 << (w & 31)) - 1)))
_define("bfe_i32", _three(lambda a, n, w: signed(a >> (n & 31), w & 31) if w & 31 else 0))
_define("lshl_add_u64", (64, (64, 32, 64), lambda a, n, c: (a << (n & 7)) + c))
_define("mad_nc_u64_u32", (64, (32, 32, 64), lambda a, b, c: a * b + c))
# gfx9: the upper half of the result is zeros.


def _permuted(a: int, b: int, places: int) -> int:
    """v_perm_b32: each byte is one of the eight of a and b (of b those from 0 on), or zeros, or ones."""
    result = 0
    for n in range(4):
        place = (places >> (8 * n)) & 0xFF
        if 8 <= place < 12:
            raise NotImplementedError("v_perm_b32 of signs")
        byte = ((a << 32 | b) >> (8 * place)) & 0xFF if place < 8 else (0 if place == 12 else 0xFF)
        result |= byte << (8 * n)
    return result


_define("perm_b32", _three(_permuted))
_define("add_u16", _two(lambda a, b: (a + b) & 0xFFFF))
_define("sub_u16", _two(lambda a, b: (a - b) & 0xFFFF))
_define("mul_lo_u16", _two(lambda a, b: (a * b) & 0xFFFF))
_define("ashrrev_i16", _two(lambda n, a: signed(a, 16) >> (n & 15) & 0xFFFF))
_define("lshrrev_b16", _two(lambda n, a: (a & 0xFFFF) >> (n & 15)))
_define("lshlrev_b16", _two(lambda n, a: a << (n & 15) & 0xFFFF))
for _n in range(1, 5):
    _define(f"lshl{_n}_add_u32", _two(lambda a, b, n=_n: (a << n) + b))
_define("sext_i32_i16", (32, (32,), lambda a: signed(a, 16)))
_define("sext_i32_i8", (32, (32,), lambda a: signed(a, 8)))
_define("pack_ll_b32_b16", _two(lambda a, b: (a & 0xFFFF) | (b << 16)))


def bit_table(table: int) -> Rule:
    """v_bitop3: bit n of the table is the result where the bits of a, b, c are those of n."""

    def compute(a: int, b: int, c: int) -> int:
        parts = [
            (a if n & 4 else ~a) & (b if n & 2 else ~b) & (c if n & 1 else ~c)
            for n in range(8)
            if (table >> n) & 1
        ]
        result = 0
        for part in parts:
            result |= part
        return result

    return _three(compute)


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lg": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def compare(name: str, a: int, b: int) -> bool:
    """`lt_i32`, `ge_u64` and so on."""
    how, kind = name.split("_")
    bits = int(kind[1:])
    if kind[0] == "i":
        a, b = signed(a, bits), signed(b, bits)
    return bool(
        COMPARISONS[how](a & M64 if kind[0] != "i" else a, b & M64 if kind[0] != "i" else b)
    )


def on_lanes(rule: Rule, sources: list[Any], lanes: int) -> np.ndarray:
    """A rule on each lane: vectors are arrays, scalars Python ints."""
    result, _, compute = rule
    mask = (1 << result) - 1
    columns = [
        source.tolist() if isinstance(source, np.ndarray) else [source] * lanes
        for source in sources
    ]
    values = [compute(*row) & mask for row in zip(*columns, strict=True)]
    return np.array(values, np.uint64 if result == 64 else np.uint32)
