"""arith, index, math and the operators of llvm: element by element, on scalars and vectors alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import erf
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import as_kind
from mlir_async_pipe.machine.decode import Execute, Site, semantics
from mlir_async_pipe.machine.kinds import Kind, unsigned
from mlir_async_pipe.machine.lane_values import lanes_of, merge
from mlir_async_pipe.machine.terms import EXTREMES, is_array, opaque

Array = np.ndarray


def elementwise(function: Callable[..., Any]) -> Callable[[Site], Execute]:
    """A builder that applies `function` and brings the result into the result's type."""

    def build(site: Site) -> Execute:
        kind = site.result_kind()
        return lambda unit, *values: kind.settle(function(*values))

    return build


def on_unsigned(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` on the operands' bits read as unsigned integers."""
    return lambda *values: function(*(unsigned(value) for value in values))


def on_signed(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` on signed integers: of one bit those are 0 and -1."""

    def apply(*values: Array) -> Any:
        return function(*(-v.astype(np.int8) if v.dtype == np.bool_ else v for v in values))

    return apply


def truncating_division(left: Array, right: Array) -> Array:
    """Signed division rounded towards zero; numpy rounds down."""
    safe = np.where(right == 0, 1, right)
    quotient = np.floor_divide(left, safe)
    return quotient + ((quotient < 0) & (quotient * safe != left))


def ceiling_division(left: Array, right: Array) -> Array:
    safe = np.where(right == 0, right.dtype.type(1), right)
    quotient = np.floor_divide(left, safe)
    return quotient + (quotient * safe != left).astype(left.dtype)


def _by_no_zero(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A division, by 1 where it is by 0."""
    return lambda left, right: function(left, np.where(right == 0, right.dtype.type(1), right))


def truncating_remainder(left: Array, right: Array) -> Array:
    """The remainder with the sign of the dividend."""
    return left - truncating_division(left, right) * right


def _shift(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A shift; by the width or more the result is poison, here 0."""

    def shift(value: Array, amount: Array) -> Array:
        bits = value.dtype.itemsize * 8
        return np.where((amount >= 0) & (amount < bits), function(value, amount % bits), 0)

    return shift


def _not_bool(function: Callable[..., Any]) -> Callable[..., Any]:
    """i1 has no negation in NumPy; it is computed in int8 and cut back."""

    def apply(*values: Array) -> Any:
        if values[0].dtype == np.bool_:
            return function(*(value.astype(np.int8) for value in values)) & 1
        return function(*values)

    return apply


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


def _reversed_bits(values: Array) -> Array:
    bits, word = values.dtype.itemsize * 8, unsigned(values).astype(np.uint64)
    found = np.zeros_like(word)
    for bit in map(np.uint64, range(bits)):
        found |= (word >> bit & np.uint64(1)) << np.uint64(bits - 1) - bit
    return found


def _funnel_shift(high: Array, low: Array, by: Array, *, left: bool) -> Array:
    """The upper half of two numbers side by side that are shifted to the left, or the lower one of them to the right."""
    bits = high.dtype.itemsize * 8
    by = unsigned(by).astype(np.uint64) % np.uint64(bits)
    high, low = (unsigned(value).astype(np.uint64) for value in (high, low))
    up = by if left else np.uint64(bits) - by
    moved = (high << up) | (low >> np.uint64(bits) - up)
    return np.where(by == 0, high if left else low, moved)


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once: float32 and smaller go through float64, whose 53 bits hold the
    product of two 24-bit mantissas exactly."""
    return a.astype(np.float64) * b + c


# What reductions and atomics combine by, under the names that gpu, vector, memref, llvm and PTX have for it.
COMBINE: dict[str, Callable[..., Any]] = {
    name: function
    for names, function in (
        ("add addi addf fadd", _not_bool(np.add)),
        ("sub fsub", _not_bool(np.subtract)),
        ("mul muli mulf", _not_bool(np.multiply)),
        ("and andi _and", np.bitwise_and),
        ("or ori _or", np.bitwise_or),
        ("xor xori _xor", np.bitwise_xor),
        ("max maxs maxsi", on_signed(np.maximum)),
        ("min mins minsi", on_signed(np.minimum)),
        ("umax maxu maxui", on_unsigned(np.maximum)),
        ("umin minu minui", on_unsigned(np.minimum)),
        ("maximumf", EXTREMES[np.maximum]),
        ("minimumf", EXTREMES[np.minimum]),
        ("maxnumf fmax", EXTREMES[np.fmax]),
        ("minnumf fmin", EXTREMES[np.fmin]),
        ("xchg assign", lambda old, new: new),
        ("uinc_wrap inc", on_unsigned(lambda old, most: np.where(old >= most, 0 * old, old + 1))),
        (
            "udec_wrap dec",
            on_unsigned(lambda old, most: np.where((old == 0) | (old > most), most, old - 1)),
        ),
    )
    for name in names.split()
}


# Functions that are not looked into on data.
OPAQUE: dict[str, Callable[..., Any]] = {
    name: opaque(name, function)
    for name, function in (
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("erf", np.vectorize(erf, otypes=[np.float64])),
        ("ctlz", _count_leading_zeros),
        ("cttz", _count_trailing_zeros),
        ("ctpop", _count_ones),
        ("bitreverse", _reversed_bits),
        ("fshl", partial(_funnel_shift, left=True)),
        ("fshr", partial(_funnel_shift, left=False)),
    )
}

# The operators that go element by element, by their names in all dialects.
_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "arith.addi index.add llvm.add arith.addf llvm.fadd": COMBINE["add"],
    "arith.subi index.sub llvm.sub arith.subf llvm.fsub": COMBINE["sub"],
    "arith.muli index.mul llvm.mul arith.mulf llvm.fmul": COMBINE["mul"],
    "arith.divsi index.divs llvm.sdiv": truncating_division,
    "arith.divui index.divu llvm.udiv": on_unsigned(_by_no_zero(np.floor_divide)),
    "arith.remsi index.rems llvm.srem": truncating_remainder,
    "arith.remui index.remu llvm.urem": on_unsigned(_by_no_zero(np.remainder)),
    "arith.ceildivsi index.ceildivs": ceiling_division,
    "arith.ceildivui index.ceildivu": on_unsigned(ceiling_division),
    "arith.floordivsi index.floordivs": _by_no_zero(np.floor_divide),
    "arith.andi index.and llvm.and": np.bitwise_and,
    "arith.ori index.or llvm.or": np.bitwise_or,
    "arith.xori index.xor llvm.xor": np.bitwise_xor,
    "arith.shli index.shl llvm.shl": _shift(np.left_shift),
    "arith.shrsi index.shrs llvm.ashr": _shift(np.right_shift),
    "arith.shrui index.shru llvm.lshr": on_unsigned(_shift(np.right_shift)),
    "arith.maxsi index.maxs llvm.intr.smax": COMBINE["maxsi"],
    "arith.minsi index.mins llvm.intr.smin": COMBINE["minsi"],
    "arith.maxui index.maxu llvm.intr.umax": COMBINE["maxui"],
    "arith.minui index.minu llvm.intr.umin": COMBINE["minui"],
    "arith.divf llvm.fdiv": np.divide,
    "arith.remf llvm.frem": np.fmod,
    "arith.maximumf llvm.intr.maximum": COMBINE["maximumf"],
    "arith.minimumf llvm.intr.minimum": COMBINE["minimumf"],
    "arith.maxnumf llvm.intr.maxnum": COMBINE["maxnumf"],
    "arith.minnumf llvm.intr.minnum": COMBINE["minnumf"],
    "arith.negf llvm.fneg": np.negative,
    "math.fma vector.fma llvm.intr.fma llvm.intr.fmuladd": fused_multiply_add,
    "math.absf math.absi llvm.intr.fabs llvm.intr.abs": np.abs,
    "math.exp2 llvm.intr.exp2 nvvm.ex2 rocdl.exp2": np.exp2,
    "math.powf math.fpowi llvm.intr.pow": np.power,
    "math.roundeven llvm.intr.rint": np.rint,
    "math.round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    **{
        f"math.{name} llvm.intr.{name}": getattr(np, name)
        for name in "ceil copysign cos exp floor log log2 sin sqrt trunc".split()
    },
    **{
        f"math.{name}": getattr(np, name)
        for name in "cbrt cosh expm1 isfinite isinf isnan log10 log1p sinh tan tanh".split()
    },
    **{
        f"math.a{name}": getattr(np, f"arc{name}")
        for name in "sin cos tan tan2 sinh cosh tanh".split()
    },
    **{f"math.{name}": OPAQUE[name] for name in ("rsqrt", "erf", "ctlz", "cttz", "ctpop")},
    **{
        f"llvm.intr.{name}": OPAQUE[name]
        for name in ("ctlz", "cttz", "ctpop", "bitreverse", "fshl", "fshr")
    },
}
for _names, _function in _ELEMENTWISE.items():
    semantics(*_names.split())(elementwise(_function))


def _either_is_nan(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


def _constantly(value: bool) -> Callable[..., Array]:
    return lambda a, b: np.full(np.broadcast_shapes(a.shape, b.shape), value)


def _ordered(compare: Callable[..., Array]) -> Callable[..., Array]:
    return lambda a, b: compare(a, b) & ~_either_is_nan(a, b)


def _unordered(compare: Callable[..., Array]) -> Callable[..., Array]:
    return lambda a, b: compare(a, b) | _either_is_nan(a, b)


# In the order of arith::CmpIPredicate and CmpFPredicate; in words of floats the first letter says what is of NaNs.
_ORDERS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_FLOAT_ORDERS = {
    **{"eq": np.equal, "gt": np.greater, "ge": np.greater_equal},
    **{"lt": np.less, "le": np.less_equal, "ne": np.not_equal},
}
_INTEGERS: dict[str, Callable[..., Array]] = {
    **{"eq": np.equal, "ne": np.not_equal},
    **{f"s{word}": on_signed(compare) for word, compare in _ORDERS.items()},
    **{f"u{word}": on_unsigned(compare) for word, compare in _ORDERS.items()},
}
_FLOATS: dict[str, Callable[..., Array]] = {
    "_false": _constantly(False),
    **{f"o{word}": _ordered(compare) for word, compare in _FLOAT_ORDERS.items()},
    "ord": lambda a, b: ~_either_is_nan(a, b),
    **{f"u{word}": _unordered(compare) for word, compare in _FLOAT_ORDERS.items()},
    "uno": _either_is_nan,
    "_true": _constantly(True),
}


@semantics("arith.cmpi", "llvm.icmp", "index.cmp", "arith.cmpf", "llvm.fcmp")
def compare(site: Site) -> Execute:
    """By a predicate: a number, or a word where numbers differ by version."""
    known = _FLOATS if site.name in ("arith.cmpf", "llvm.fcmp") else _INTEGERS
    if site.name == "index.cmp":
        word = site.word("pred")
    elif site.name == "llvm.fcmp":
        word = str(site.op).split("llvm.fcmp")[1].split('"')[1]
    else:
        word = list(known)[site.integer("predicate") or 0]
    function = known[word]
    return lambda unit, left, right: function(left, right)


@semantics("arith.select", "llvm.select")
def select(site: Site) -> Execute:
    """condition ? a : b, for any type of value, with a scalar or an elementwise condition."""

    def execute(unit: Any, condition: Array, yes: Any, no: Any) -> Any:
        if is_array(yes):
            shape = condition.shape + (1,) * (yes.ndim - condition.ndim)
            return np.where(condition.reshape(shape), yes, no)
        if condition.shape[0] == 1:
            return yes if condition[0] else no
        return merge(lanes_of(condition, unit.width), yes, no)

    return execute


@semantics("arith.addui_extended")
def add_with_carry(site: Site) -> Execute:
    kind = site.result_kind()

    def execute(unit: Any, left: Array, right: Array) -> tuple[Array, Array]:
        total = kind.settle(left + right)
        return total, unsigned(total) < unsigned(left)

    return execute


@semantics("arith.mulsi_extended", "arith.mului_extended")
def wide_multiply(site: Site) -> Execute:
    """The low and the high half of a product."""
    kind = site.result_kind()
    signed = site.name == "arith.mulsi_extended"
    bits = kind.item_bytes * 8

    def execute(unit: Any, left: Array, right: Array) -> tuple[Array, Array]:
        a = (left if signed else unsigned(left)).astype(object)
        b = (right if signed else unsigned(right)).astype(object)
        product = np.asarray(a * b, object)
        halves = (product & (1 << bits) - 1, product >> bits & (1 << bits) - 1)
        low, high = (half.astype(np.uint64).astype(kind.dtype) for half in halves)
        return low, high

    return execute


def constant_array(site: Site, attribute: Any, kind: Kind) -> Array:
    """The value of a constant as an array with one uniform lane."""
    for view in (ir.IntegerAttr, ir.BoolAttr, ir.FloatAttr):
        if (number := as_kind(view, attribute)) is not None:
            return kind.settle(np.array([number.value]))
    return dense_array(site, attribute, kind)[None]


def dense_array(site: Site, attribute: Any, kind: Kind) -> Array:
    """A dense elements attribute as an array of its shape, in the computed type of `kind`."""
    dense = ir.DenseElementsAttr(attribute)
    shape = tuple(int(size) for size in ir.ShapedType(dense.type).shape)
    if dense.is_splat:
        splat = dense.get_splat_value()
        return np.broadcast_to(constant_array(site, splat, kind.element)[0], shape)
    try:
        if kind.is_float:
            values = np.array([float(x) for x in ir.DenseFPElementsAttr(attribute)])
        else:
            values = np.array([int(x) for x in ir.DenseIntElementsAttr(attribute)])
    except (TypeError, ValueError) as error:
        raise site.unsupported(f"constants of type {kind.name}") from error
    return kind.settle(values).reshape(shape)


@semantics("arith.constant", "index.constant", "index.bool.constant", "llvm.mlir.constant")
def constant(site: Site) -> Execute:
    value = constant_array(site, site.op.attributes["value"], site.result_kind())
    value.setflags(write=False)
    return lambda unit: value


@semantics(
    *"arith.index_cast arith.trunci arith.truncf arith.extf arith.extsi arith.sitofp".split(),
    *"index.casts llvm.trunc llvm.sext llvm.fptrunc llvm.fpext llvm.sitofp".split(),
)
def convert(site: Site) -> Execute:
    """Conversion by value, sign-extended where it widens an integer: true becomes -1."""
    kind = site.result_kind()
    if kind.name == "i1" and not site.operand_kind().is_float:
        return lambda unit, value: (value & 1).astype(np.bool_)
    source = site.operand_kind()
    if source.name == "i1":
        return lambda unit, value: kind.settle(-value.astype(np.int64))
    return lambda unit, value: kind.settle(value)


@semantics(
    "arith.extui", "arith.index_castui", "index.castu", "llvm.zext", "arith.uitofp", "llvm.uitofp"
)
def convert_unsigned(site: Site) -> Execute:
    kind = site.result_kind()
    if kind.name == "i1":
        return lambda unit, value: (value & 1).astype(np.bool_)
    return lambda unit, value: kind.settle(unsigned(value))


@semantics("arith.fptosi", "llvm.fptosi", "arith.fptoui", "llvm.fptoui")
def float_to_integer(site: Site) -> Execute:
    """Float to integer, rounded towards zero."""
    kind = site.result_kind()
    whole = np.dtype(np.uint64) if site.name.endswith("fptoui") else kind.dtype
    return lambda unit, value: np.trunc(value).astype(whole).astype(kind.dtype)


@semantics("arith.bitcast", "llvm.bitcast")
def bitcast(site: Site) -> Execute:
    """The same bits in another type of the same width."""
    source, target = site.operand_kind(), site.result_kind()
    if all(kind.stored == kind.dtype and not kind.shape for kind in (source, target)):
        return lambda unit, value: value.view(target.dtype)

    def execute(unit: Any, value: Array) -> Array:
        stored = source.encode(value)
        flat = stored.reshape(len(stored), -1).view(target.stored)
        return target.decode(flat).reshape((len(stored), *target.shape))

    return execute


def reduction(site: Site, name: str, kind: Kind, *, unsigned: bool = False) -> Any:
    """What PTX calls so of numbers of a kind: red, multimem.red, cp.reduce.async."""
    if name in ("min", "max"):
        unsigned |= kind.dtype.kind == "u"
        name = ("f" if kind.is_float else "u" if unsigned else "") + name
    combine = COMBINE.get(name)
    if combine is None or kind.shape:
        raise site.unsupported(f"'{name}' of {kind.name}")
    return combine
