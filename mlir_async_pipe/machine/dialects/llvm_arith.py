"""llvm arithmetic, comparisons and conversions, with the meaning that arith gives them."""

from __future__ import annotations

import numpy as np

from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.arith import (
    FLOAT_BINARY,
    FLOAT_PREDICATES,
    INTEGER_BINARY,
    elementwise,
)
from mlir_async_pipe.machine.dialects.math import fused_multiply_add
from mlir_async_pipe.machine.registry import Execute, semantics

Array = np.ndarray

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
