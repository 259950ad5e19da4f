"""math: functions element by element, and bit counting."""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np

from mlir_async_pipe.machine.decode import Execute, Site, semantics
from mlir_async_pipe.machine.dialects.arith import (
    FLOAT_BINARY,
    FLOAT_PREDICATES,
    INTEGER_BINARY,
    elementwise,
)
from mlir_async_pipe.machine.kinds import unsigned
from mlir_async_pipe.machine.terms import opaque

Array = np.ndarray


def _count_leading_zeros(values: Array) -> Array:
    bits = values.dtype.itemsize * 8
    rest = unsigned(values).astype(np.uint64)
    count = np.full(values.shape, bits)
    for _ in range(bits):
        count = count - (rest != 0)
        rest = rest >> np.uint64(1)
    return count


def _count_trailing_zeros(values: Array) -> Array:
    bits = values.dtype.itemsize * 8
    word = unsigned(values).astype(np.uint64)
    lowest = word & (~word + np.uint64(1))
    return np.where(word == 0, bits, _count_ones(lowest - np.uint64(1)))


def _count_ones(values: Array) -> Array:
    word = unsigned(values).astype(np.uint64)
    count = np.zeros(values.shape, np.int64)
    for bit in range(values.dtype.itemsize * 8):
        count += ((word >> np.uint64(bit)) & np.uint64(1)).astype(np.int64)
    return count


MATH: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": opaque("rsqrt", lambda x: 1 / np.sqrt(x)),
    "cbrt": np.cbrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "absf": np.abs, "absi": np.abs, "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "roundeven": np.rint,
    "powf": np.power, "copysign": np.copysign, "erf": opaque("erf", np.vectorize(erf, otypes=[np.float64])),
    "ctlz": opaque("ctlz", _count_leading_zeros), "cttz": opaque("cttz", _count_trailing_zeros),
    "ctpop": opaque("ctpop", _count_ones), "fpowi": np.power,
}  # fmt: skip
for _name, _function in MATH.items():
    semantics(f"math.{_name}")(elementwise(_function))
semantics("math.isnan")(elementwise(np.isnan))
semantics("math.isinf")(elementwise(np.isinf))
semantics("math.isfinite")(elementwise(np.isfinite))


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once: float32 and smaller go through float64, whose 53 bits hold the
    product of two 24-bit mantissas exactly."""
    return a.astype(np.float64) * b + c


semantics("math.fma", "vector.fma")(elementwise(fused_multiply_add))


_INTEGER_NAMES = {
    "add": "add", "sub": "sub", "mul": "mul", "sdiv": "divsi", "udiv": "divui", "srem": "remsi",
    "urem": "remui", "and": "andi", "or": "ori", "xor": "xori", "shl": "shli", "ashr": "shrsi",
    "lshr": "shrui", "intr.smax": "maxsi", "intr.smin": "minsi", "intr.umax": "maxui",
    "intr.umin": "minui",
}  # fmt: skip
for _name, _arith in _INTEGER_NAMES.items():
    semantics(f"llvm.{_name}")(elementwise(INTEGER_BINARY[_arith]))

_FLOAT_NAMES = {
    "fadd": "addf", "fsub": "subf", "fmul": "mulf", "fdiv": "divf", "frem": "remf",
    "intr.maximum": "maximumf", "intr.minimum": "minimumf", "intr.maxnum": "maxnumf",
    "intr.minnum": "minnumf",
}  # fmt: skip
for _name, _arith in _FLOAT_NAMES.items():
    semantics(f"llvm.{_name}")(elementwise(FLOAT_BINARY[_arith]))
semantics("llvm.fneg")(elementwise(np.negative))
semantics("llvm.intr.fma", "llvm.intr.fmuladd")(elementwise(fused_multiply_add))
for _name, _function in {
    "fabs": np.abs, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "rint": np.rint, "copysign": np.copysign, "pow": np.power,
}.items():  # fmt: skip
    semantics(f"llvm.intr.{_name}")(elementwise(_function))

# The words of `FLOAT_PREDICATES`, in their order.
_PREDICATE_WORDS = "_false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno _true".split()


@semantics("llvm.fcmp")
def compare_floats(site: Site) -> Execute:
    """Float comparison; the predicate is read as a word, for its numbers differ by version."""
    word = str(site.op).split("llvm.fcmp")[1].split('"')[1]
    function = FLOAT_PREDICATES[_PREDICATE_WORDS.index(word)]
    return lambda unit, left, right: function(left, right)
