"""arith, index and math: element by element, on scalars and vectors alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import erf
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine.decode import Execute, Site, semantics
from mlir_async_pipe.machine.kinds import Kind, unsigned
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
    """Division rounded up."""
    safe = np.where(right == 0, right.dtype.type(1), right)
    quotient = np.floor_divide(left, safe)
    return quotient + (quotient * safe != left).astype(left.dtype)


def _floor_division(left: Array, right: Array) -> Array:
    return np.floor_divide(left, np.where(right == 0, right.dtype.type(1), right))


def truncating_remainder(left: Array, right: Array) -> Array:
    """The remainder with the sign of the dividend."""
    return left - truncating_division(left, right) * right


def _unsigned_remainder(left: Array, right: Array) -> Array:
    return np.remainder(left, np.where(right == 0, right.dtype.type(1), right))


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


INTEGER_BINARY: dict[str, Callable[..., Any]] = {
    "add": _not_bool(np.add),
    "sub": _not_bool(np.subtract),
    "mul": _not_bool(np.multiply),
    "divsi": truncating_division,
    "divui": on_unsigned(_floor_division),
    "remsi": truncating_remainder,
    "remui": on_unsigned(_unsigned_remainder),
    "ceildivsi": ceiling_division,
    "ceildivui": on_unsigned(ceiling_division),
    "floordivsi": _floor_division,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "shli": _shift(np.left_shift),
    "shrsi": _shift(np.right_shift),
    "shrui": on_unsigned(_shift(np.right_shift)),
    "maxsi": on_signed(np.maximum),
    "minsi": on_signed(np.minimum),
    "maxui": on_unsigned(np.maximum),
    "minui": on_unsigned(np.minimum),
}
_ARITH_NAMES = {"add": "addi", "sub": "subi", "mul": "muli"}
_INDEX_NAMES = {
    "add": "add", "sub": "sub", "mul": "mul", "divsi": "divs", "divui": "divu", "remsi": "rems",
    "remui": "remu", "ceildivsi": "ceildivs", "ceildivui": "ceildivu", "floordivsi": "floordivs",
    "andi": "and", "ori": "or", "xori": "xor", "shli": "shl", "shrsi": "shrs", "shrui": "shru",
    "maxsi": "maxs", "minsi": "mins", "maxui": "maxu", "minui": "minu",
}  # fmt: skip
for _name, _function in INTEGER_BINARY.items():
    semantics("arith." + _ARITH_NAMES.get(_name, _name), "index." + _INDEX_NAMES[_name])(
        elementwise(_function)
    )


FLOAT_BINARY: dict[str, Callable[..., Any]] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "remf": np.fmod,
    "maximumf": EXTREMES[np.maximum],
    "minimumf": EXTREMES[np.minimum],
    "maxnumf": EXTREMES[np.fmax],
    "minnumf": EXTREMES[np.fmin],
}
for _name, _function in FLOAT_BINARY.items():
    semantics(f"arith.{_name}")(elementwise(_function))
semantics("arith.negf")(elementwise(np.negative))

# What a reduction combines by, under the names that gpu and vector have for it.
COMBINE: dict[str, Callable[..., Any]] = {
    "add": np.add, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, **{n: INTEGER_BINARY[n] for n in ("minsi", "maxsi", "minui", "maxui")},
    **{n: FLOAT_BINARY[n] for n in ("minimumf", "maximumf", "minnumf", "maxnumf")},
}  # fmt: skip

# The order of arith::CmpIPredicate; arith.cmpi stores it as a number, index.cmp as a word.
INTEGER_PREDICATES: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("eq", np.equal),
    ("ne", np.not_equal),
    ("slt", on_signed(np.less)),
    ("sle", on_signed(np.less_equal)),
    ("sgt", on_signed(np.greater)),
    ("sge", on_signed(np.greater_equal)),
    ("ult", on_unsigned(np.less)),
    ("ule", on_unsigned(np.less_equal)),
    ("ugt", on_unsigned(np.greater)),
    ("uge", on_unsigned(np.greater_equal)),
)


def ordered(function: Callable[..., Array]) -> Callable[..., Array]:
    """The comparison, but false where either side is NaN."""
    return lambda a, b: function(a, b) & ~(np.isnan(a) | np.isnan(b))


def unordered(function: Callable[..., Array]) -> Callable[..., Array]:
    """The comparison, or true where either side is NaN."""
    return lambda a, b: function(a, b) | np.isnan(a) | np.isnan(b)


def _constantly(value: bool) -> Callable[..., Array]:
    return lambda a, b: np.full(np.broadcast_shapes(a.shape, b.shape), value)


_COMPARISONS = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)
# The order of arith::CmpFPredicate: false, the six ordered, ord, the six unordered, uno, true.
FLOAT_PREDICATES: tuple[Callable[..., Array], ...] = (
    _constantly(False),
    *(ordered(compare) for compare in _COMPARISONS),
    lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    *(unordered(compare) for compare in _COMPARISONS),
    lambda a, b: np.isnan(a) | np.isnan(b),
    _constantly(True),
)


@semantics("arith.cmpi", "llvm.icmp")
def compare_integers(site: Site) -> Execute:
    """Integer comparison by predicate number, which both dialects count alike."""
    function = INTEGER_PREDICATES[site.integer("predicate") or 0][1]
    return lambda unit, left, right: function(left, right)


@semantics("index.cmp")
def compare_indices(site: Site) -> Execute:
    """index.cmp; its predicate is an enum attribute that prints as a word."""
    word = site.text("pred").rstrip(">)").split("<")[-1].split("(")[-1].split()[-1]
    function = dict(INTEGER_PREDICATES)[word]
    return lambda unit, left, right: function(left, right)


@semantics("arith.cmpf")
def compare_floats(site: Site) -> Execute:
    """Float comparison by predicate number."""
    function = FLOAT_PREDICATES[site.integer("predicate") or 0]
    return lambda unit, left, right: function(left, right)


@semantics("arith.select", "llvm.select")
def select(site: Site) -> Execute:
    """condition ? a : b, for any type of value, with a scalar or an elementwise condition."""
    from mlir_async_pipe.machine.lane_values import lanes_of, merge

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
        low = np.array([int(x) & ((1 << bits) - 1) for x in product.flat], np.uint64)
        high = np.array([(int(x) >> bits) & ((1 << bits) - 1) for x in product.flat], np.uint64)
        return (
            low.astype(kind.dtype).reshape(product.shape),
            high.astype(kind.dtype).reshape(product.shape),
        )

    return execute


def constant_array(site: Site, attribute: Any, kind: Kind) -> Array:
    """The value of a constant as an array with one uniform lane."""
    for view in (ir.IntegerAttr, ir.BoolAttr, ir.FloatAttr):
        try:
            return kind.settle(np.array([view(attribute).value]))
        except ValueError:
            continue
    return dense_array(site, attribute, kind)[None]


def dense_array(site: Site, attribute: Any, kind: Kind) -> Array:
    """A dense elements attribute as an array of its shape, in the computed type of `kind`."""
    dense = ir.DenseElementsAttr(attribute)
    shape = tuple(int(size) for size in ir.ShapedType(dense.type).shape)
    if dense.is_splat:
        splat = dense.get_splat_value()
        return np.broadcast_to(constant_array(site, splat, kind.element)[0], shape)
    if kind.name == "index" or kind.dtype.kind in "biu":
        return kind.settle(np.array([int(x) for x in ir.DenseIntElementsAttr(attribute)])).reshape(
            shape
        )
    try:
        values = [float(x) for x in ir.DenseFPElementsAttr(attribute)]
    except (TypeError, ValueError) as error:
        raise site.unsupported(f"constants of type {kind.name}") from error
    return kind.settle(np.array(values)).reshape(shape)


@semantics("arith.constant", "index.constant", "index.bool.constant", "llvm.mlir.constant")
def constant(site: Site) -> Execute:
    """A constant, decoded once."""
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
    """Conversion of an unsigned integer by value."""
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


# math: functions element by element, and bit counting.


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
_INTRINSICS: dict[str, Callable[..., Any]] = {
    "fabs": np.abs, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "rint": np.rint, "copysign": np.copysign, "pow": np.power, "abs": np.abs,
    **{name: MATH[name] for name in ("ctlz", "cttz", "ctpop")},
    "bitreverse": opaque("bitreverse", _reversed_bits),
    "fshl": opaque("fshl", partial(_funnel_shift, left=True)),
    "fshr": opaque("fshr", partial(_funnel_shift, left=False)),
}  # fmt: skip
for _name, _function in _INTRINSICS.items():
    semantics(f"llvm.intr.{_name}")(elementwise(_function))

# The words of `FLOAT_PREDICATES`, in their order.
_PREDICATE_WORDS = "_false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno _true".split()


@semantics("llvm.fcmp")
def compare_words(site: Site) -> Execute:
    """Float comparison; the predicate is read as a word, for its numbers differ by version."""
    word = str(site.op).split("llvm.fcmp")[1].split('"')[1]
    function = FLOAT_PREDICATES[_PREDICATE_WORDS.index(word)]
    return lambda unit, left, right: function(left, right)


# Atomics and reductions, by LLVM's names: what is stored, of the old value and the new one.
ATOMICS: dict[str, Any] = {
    "xchg": lambda old, new: new, "add": np.add, "sub": np.subtract, "_and": np.bitwise_and,
    "_or": np.bitwise_or, "_xor": np.bitwise_xor, "max": np.maximum, "min": np.minimum,
    "umax": on_unsigned(np.maximum), "umin": on_unsigned(np.minimum),
    "fadd": np.add, "fsub": np.subtract, "fmax": FLOAT_BINARY["maxnumf"],
    "fmin": FLOAT_BINARY["minnumf"],
    "uinc_wrap": on_unsigned(lambda old, most: np.where(old >= most, 0 * old, old + 1)),
    "udec_wrap": on_unsigned(lambda old, most: np.where((old == 0) | (old > most), most, old - 1)),
}  # fmt: skip


def reduction(site: Site, name: str, kind: Kind, *, unsigned: bool = False) -> Any:
    """What PTX calls so of numbers of a kind: red, multimem.red, cp.reduce.async."""
    known = {"and": "_and", "or": "_or", "xor": "_xor", "inc": "uinc_wrap", "dec": "udec_wrap"}
    if name in ("min", "max"):
        unsigned |= kind.dtype.kind == "u"
        name = ("f" if kind.is_float else "u" if unsigned else "") + name
    combine = ATOMICS.get(known.get(name, name))
    if combine is None or kind.shape:
        raise site.unsupported(f"'{name}' of {kind.name}")
    return combine
