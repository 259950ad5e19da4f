"""Integer ops as abstract operators: one row an op, and every domain of `domains` reads them.

    arith.ceildivui      div, of unsigned numbers, rounded up
    llvm.sext            cast, of a signed number

An op without a row is opaque to dependence analysis, alignment, enumeration and checker alike.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Sign = Literal["", "s", "u"]
Rounding = Literal["", "zero", "down", "up"]


class Operator(NamedTuple):
    """`method`: the operator, as the domains name it; `sign`: how it reads the bits of its
    operands ("" where that makes no difference); `rounding`: of a division, and of the quotient
    that a remainder leaves."""

    method: str
    sign: Sign = ""
    rounding: Rounding = ""


SUM, DIFFERENCE, PRODUCT = Operator("add"), Operator("sub"), Operator("mul")
# What affine maps and split indices are made of.
FLOOR_DIVISION, CEILING_DIVISION = Operator("div", "s", "down"), Operator("div", "s", "up")
MODULUS = Operator("rem", "s", "down")
LEAST, LARGEST = Operator("min", "s"), Operator("max", "s")

_ROWS: tuple[tuple[str, Operator], ...] = (
    ("arith.addi index.add llvm.add", SUM),
    ("arith.subi index.sub llvm.sub", DIFFERENCE),
    ("arith.muli index.mul llvm.mul", PRODUCT),
    ("arith.divui index.divu llvm.udiv", Operator("div", "u", "down")),
    ("arith.divsi index.divs llvm.sdiv", Operator("div", "s", "zero")),
    ("arith.floordivsi index.floordivs", FLOOR_DIVISION),
    ("arith.ceildivui index.ceildivu", Operator("div", "u", "up")),
    ("arith.ceildivsi index.ceildivs", CEILING_DIVISION),
    ("arith.remui index.remu llvm.urem", Operator("rem", "u", "down")),
    ("arith.remsi index.rems llvm.srem", Operator("rem", "s", "zero")),
    ("arith.andi index.and llvm.and", Operator("and_")),
    ("arith.ori index.or llvm.or", Operator("or_")),
    ("arith.xori index.xor llvm.xor", Operator("xor")),
    ("arith.shli index.shl llvm.shl", Operator("shl")),
    ("arith.shrui index.shru llvm.lshr", Operator("shr", "u")),
    ("arith.shrsi index.shrs llvm.ashr", Operator("shr", "s")),
    ("arith.minui index.minu llvm.intr.umin", Operator("min", "u")),
    ("arith.minsi index.mins llvm.intr.smin", LEAST),
    ("arith.maxui index.maxu llvm.intr.umax", Operator("max", "u")),
    ("arith.maxsi index.maxs llvm.intr.smax", LARGEST),
    ("arith.select llvm.select", Operator("select")),
    ("arith.cmpi index.cmp llvm.icmp", Operator("cmp")),
    ("arith.index_cast arith.extsi arith.trunci", Operator("cast", "s")),
    ("index.casts llvm.sext llvm.trunc", Operator("cast", "s")),
    ("arith.index_castui arith.extui index.castu llvm.zext", Operator("cast", "u")),
    ("affine.apply", Operator("apply")),
    ("affine.min", Operator("apply_least")),
    ("affine.max", Operator("apply_largest")),
    ("affine.linearize_index", Operator("join")),
    ("affine.delinearize_index", Operator("split")),
)
OPERATORS: dict[str, Operator] = {name: row for names, row in _ROWS for name in names.split()}

# Comparisons of data, which no domain reads.
FLOAT_COMPARISONS = ("arith.cmpf", "llvm.fcmp")

# The overflow flags of these are no attribute.
FLAGS_AS_PROPERTY = frozenset(f"llvm.{name}" for name in ("add", "sub", "mul", "shl", "trunc"))


def is_operator(name: str, method: str) -> bool:
    """Whether the ops called `name` compute the operator `method`."""
    row = OPERATORS.get(name)
    return row is not None and row.method == method
