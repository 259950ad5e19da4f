"""Integer ops as abstract operators: one row an op, and every domain of `domains` reads them.

    arith.ceildivui      div, of unsigned numbers, rounded up
    llvm.sext            cast, of a signed number

An op without a row is opaque to dependence analysis, alignment, enumeration and checker alike.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Sign = Literal["", "s", "u"]
Rounding = Literal["", "zero", "down", "up"]


class Row(NamedTuple):
    """`method`: the operator, as the domains name it; `sign`: how it reads the bits of its
    operands ("" where that makes no difference); `rounding`: of a division, and of the quotient
    that a remainder leaves."""

    method: str
    sign: Sign = ""
    rounding: Rounding = ""


SUM, DIFFERENCE, PRODUCT = Row("add"), Row("sub"), Row("mul")
# What affine maps and split indices are made of.
FLOOR_DIVISION, CEILING_DIVISION = Row("div", "s", "down"), Row("div", "s", "up")
MODULUS = Row("rem", "s", "down")
LEAST, LARGEST = Row("min", "s"), Row("max", "s")

_ROWS: tuple[tuple[str, Row], ...] = (
    ("arith.addi index.add llvm.add", SUM),
    ("arith.subi index.sub llvm.sub", DIFFERENCE),
    ("arith.muli index.mul llvm.mul", PRODUCT),
    ("arith.divui index.divu llvm.udiv", Row("div", "u", "down")),
    ("arith.divsi index.divs llvm.sdiv", Row("div", "s", "zero")),
    ("arith.floordivsi index.floordivs", FLOOR_DIVISION),
    ("arith.ceildivui index.ceildivu", Row("div", "u", "up")),
    ("arith.ceildivsi index.ceildivs", CEILING_DIVISION),
    ("arith.remui index.remu llvm.urem", Row("rem", "u", "down")),
    ("arith.remsi index.rems llvm.srem", Row("rem", "s", "zero")),
    ("arith.andi index.and llvm.and", Row("and_")),
    ("arith.ori index.or llvm.or", Row("or_")),
    ("arith.xori index.xor llvm.xor", Row("xor")),
    ("arith.shli index.shl llvm.shl", Row("shl")),
    ("arith.shrui index.shru llvm.lshr", Row("shr", "u")),
    ("arith.shrsi index.shrs llvm.ashr", Row("shr", "s")),
    ("arith.minui index.minu llvm.intr.umin", Row("min", "u")),
    ("arith.minsi index.mins llvm.intr.smin", LEAST),
    ("arith.maxui index.maxu llvm.intr.umax", Row("max", "u")),
    ("arith.maxsi index.maxs llvm.intr.smax", LARGEST),
    ("arith.select llvm.select", Row("select")),
    ("arith.cmpi index.cmp llvm.icmp", Row("cmp")),
    ("arith.index_cast arith.extsi arith.trunci", Row("cast", "s")),
    ("index.casts llvm.sext llvm.trunc", Row("cast", "s")),
    ("arith.index_castui arith.extui index.castu llvm.zext", Row("cast", "u")),
    ("affine.apply", Row("apply")),
    ("affine.min", Row("apply_least")),
    ("affine.max", Row("apply_largest")),
    ("affine.linearize_index", Row("join")),
    ("affine.delinearize_index", Row("split")),
)
OPERATORS: dict[str, Row] = {name: row for names, row in _ROWS for name in names.split()}

# The overflow flags of these are no attribute.
FLAGS_AS_PROPERTY = frozenset(f"llvm.{name}" for name in ("add", "sub", "mul", "shl", "trunc"))


def is_operator(name: str, method: str) -> bool:
    """Whether the ops called `name` compute the operator `method`."""
    row = OPERATORS.get(name)
    return row is not None and row.method == method
