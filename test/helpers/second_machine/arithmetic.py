"""What arith, index and math operations compute, on Python numbers of one element each."""

from __future__ import annotations

import math
from collections.abc import Callable

from helpers.second_machine.numbers_of_types import Element, unsigned
from helpers.second_machine.syntax import NotJudged


def _nonzero(divisor: int) -> int:
    if divisor == 0:
        raise NotJudged("division by zero")
    return divisor


def _quotient(a: int, b: int) -> int:
    found = abs(a) // abs(_nonzero(b))
    return found if (a < 0) == (b < 0) else -found


def _shift_amount(amount: int, bits: int) -> int:
    if not 0 <= amount < bits:
        raise NotJudged("shift by the width or more")
    return amount


# (a, b, bits) -> result before it wraps.
SIGNED: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "divsi": _quotient,
    "remsi": lambda a, b: a - _quotient(a, b) * b,
    "floordivsi": lambda a, b: a // _nonzero(b),
    "ceildivsi": lambda a, b: -(-a // _nonzero(b)),
    "maxsi": max,
    "minsi": min,
}
UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "divui": lambda a, b: a // _nonzero(b),
    "remui": lambda a, b: a % _nonzero(b),
    "ceildivui": lambda a, b: -(-a // _nonzero(b)),
    "maxui": max,
    "minui": min,
}
SHIFTS: dict[str, Callable[[int, int, int], int]] = {
    "shli": lambda a, n, bits: a << _shift_amount(n, bits),
    "shrsi": lambda a, n, bits: a >> _shift_amount(n, bits),
    "shrui": lambda a, n, bits: unsigned(a, bits) >> _shift_amount(n, bits),
}


def _divide(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)
    return a / b


def _larger(a: float, b: float) -> float:
    """0.0 is larger than -0.0."""
    signs = (math.copysign(1, one) for one in (a, b))
    return a if math.isnan(b) or a > b or (a == b and next(signs) > next(signs)) else b


def _smaller(a: float, b: float) -> float:
    return -_larger(-a, -b)


def _or_nan(pick: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else pick(a, b)


FLOATS: dict[str, Callable[[float, float], float]] = {
    "addf": lambda a, b: a + b,
    "subf": lambda a, b: a - b,
    "mulf": lambda a, b: a * b,
    "divf": _divide,
    "maxnumf": _larger,
    "minnumf": _smaller,
    "maximumf": _or_nan(_larger),
    "minimumf": _or_nan(_smaller),
}
INDEX_NAMES = {
    "add": "addi", "sub": "subi", "mul": "muli", "divs": "divsi", "divu": "divui",
    "rems": "remsi", "remu": "remui", "ceildivs": "ceildivsi", "ceildivu": "ceildivui",
    "floordivs": "floordivsi", "and": "andi", "or": "ori", "xor": "xori", "shl": "shli",
    "shrs": "shrsi", "shru": "shrui", "maxs": "maxsi", "mins": "minsi", "maxu": "maxui",
    "minu": "minui",
}  # fmt: skip


def binary(name: str, kind: Element) -> Callable | None:
    """The function of a binary operation on a number type, None if it is none."""
    bits, settle = kind.bits, kind.settle
    if name in FLOATS:
        compute = FLOATS[name]
        return lambda a, b: settle(compute(a, b))
    if name in SIGNED:
        compute = SIGNED[name]
        if bits == 1 and name not in ("addi", "subi", "muli", "andi", "ori", "xori"):
            raise NotJudged(f"{name} of i1")
        return lambda a, b: settle(compute(a, b))
    if name in UNSIGNED:
        compute = UNSIGNED[name]
        return lambda a, b: settle(compute(unsigned(a, bits), unsigned(b, bits)))
    if name in SHIFTS:
        shift = SHIFTS[name]
        return lambda a, b: settle(shift(a, b, bits))
    return None


def cast(name: str, source: Element, target: Element) -> Callable | None:
    """The function of a cast, None if the operation is none."""
    settle, bits = target.settle, source.bits
    if name in ("index_cast", "extsi", "trunci", "casts"):
        return lambda a: settle(-a if bits == 1 and name != "trunci" else a)
    if name in ("index_castui", "extui", "castu"):
        return lambda a: settle(unsigned(a, bits))
    if name == "uitofp":
        return lambda a: settle(float(unsigned(a, bits)))
    if name == "sitofp":
        return lambda a: settle(float(-a if bits == 1 else a))
    if name in ("extf", "truncf"):
        return settle
    if name in ("fptosi", "fptoui"):
        return lambda a: settle(math.trunc(a))
    return None


def _nan(a: float, b: float) -> bool:
    return math.isnan(a) or math.isnan(b)


_ORDERED: tuple[Callable, ...] = (
    lambda a, b: a == b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a != b,
)
_INTEGER: tuple[Callable, ...] = (
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
)
INDEX_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def compare_integers(predicate: int, bits: int) -> Callable:
    """eq, ne, then the four signed and the four unsigned orders."""
    if predicate >= 6:
        order = _INTEGER[predicate - 4]
        return lambda a, b: int(order(unsigned(a, bits), unsigned(b, bits)))
    order = _INTEGER[predicate]
    if bits == 1 and predicate >= 2:
        return lambda a, b: int(order(-a, -b))
    return lambda a, b: int(order(a, b))


def compare_floats(predicate: int) -> Callable:
    """false, six ordered, ord, six unordered, uno, true."""
    if predicate in (0, 15):
        return lambda a, b: int(predicate == 15)
    if predicate in (7, 14):
        return lambda a, b: int(_nan(a, b) == (predicate == 14))
    if predicate < 7:
        order = _ORDERED[predicate - 1]
        return lambda a, b: int(not _nan(a, b) and order(a, b))
    order = _ORDERED[predicate - 8]
    return lambda a, b: int(_nan(a, b) or order(a, b))
