"""What the integer ops of arith compute, in Python's own numbers: no NumPy, no package module.

Values are held as signed numbers of their width, i1 as 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable


def width(kind: str) -> int:
    """Bits of a type."""
    return 64 if kind == "index" else int(kind[1:])


def as_signed(number: int, bits: int) -> int:
    """The lowest bits as a signed number; of one bit as 0 or 1."""
    if bits == 1:
        return number & 1
    return (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_SIGNED: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "minsi": min,
    "maxsi": max,
    "divsi": _truncated,
    "remsi": lambda a, b: a - b * _truncated(a, b),
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "shli": lambda a, b: a << b,
    "shrsi": lambda a, b: a >> b,
}
_UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "minui": min,
    "maxui": max,
    "divui": lambda a, b: a // b,
    "remui": lambda a, b: a % b,
    "ceildivui": lambda a, b: -(-a // b),
    "shrui": lambda a, b: a >> b,
}
BINARY = (*_SIGNED, *_UNSIGNED)
PREDICATES = "eq ne slt sle sgt sge ult ule ugt uge".split()
CASTS = ("index_cast", "index_castui", "extsi", "extui", "trunci")


def compute(name: str, kind: str, a: int, b: int) -> int | None:
    """The result of a binary op; None where it is not defined."""
    bits = width(kind)
    if name in ("shli", "shrsi", "shrui") and not 0 <= b < bits:
        return None
    if "div" in name or "rem" in name:
        smallest = -(1 << (bits - 1))
        if b == 0 or (a == smallest and b == -1):
            return None
    if name in ("minsi", "maxsi") and bits == 1:
        a, b = -a, -b
    if name in _SIGNED:
        return as_signed(_SIGNED[name](a, b), bits)
    return as_signed(_UNSIGNED[name](a % (1 << bits), b % (1 << bits)), bits)


def compare(predicate: str, kind: str, a: int, b: int) -> int:
    """0 or 1."""
    bits = width(kind)
    if predicate[0] == "u":
        a, b = a % (1 << bits), b % (1 << bits)
    elif bits == 1:
        a, b = -a, -b
    return int(
        {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[
            predicate if predicate in ("eq", "ne") else predicate[1:]
        ]
    )


def cast(name: str, source: str, target: str, a: int) -> int:
    """A value of one type in another one."""
    given = width(source)
    if name in ("index_castui", "extui"):
        a %= 1 << given
    elif given == 1:
        a = -a
    return as_signed(a, width(target))
