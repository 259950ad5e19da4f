"""Descriptors of the tensor data mover as the hardware reads them: groups of words with fields of bits.

    %d0 = insertelement … 1, ptrtoint %lds, trunc (ptrtoint %A), …      count 1, both addresses
    %d1 = insertelement … 0x10000, 0x400000, 0x400000, 0x400000, 64, …  f16; tile 64 x 64, tensor 64 x 64
    rocdl.tensor.load.to.lds %d0, %d1, %zeros, %zeros, %zeros, 0

Groups 0, 1, 2 and 3 have 4, 8, 4 and 4 words of 32 bits (CDNA5 ISA, "Tensor DMA descriptor"; MLIR's lowering of
`amdgpu.make_dma_descriptor` writes the same). Sizes, tile and strides stand fastest dimension first. Of a
word that is not constant some bits may be known: `or (lshr %rows, 16), 0x400000` has 64 in its upper half.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import constant_value, defining_op
from mlir_async_pipe.vocabulary.memory_names import ELEMENT_PUT
from mlir_async_pipe.vocabulary.operator_table import OPERATORS
from mlir_async_pipe.vocabulary.rows import Place

WORDS = (4, 8, 4, 4)


class Field(NamedTuple):
    """Bits `first` to `first + bits - 1` of a group."""

    group: int
    first: int
    bits: int


COUNT, GATHER = Field(0, 0, 2), Field(0, 31, 1)
BLOCKS, DATA_SIZE, BARRIER, ITERATE, PAD = (
    Field(1, 0, 16),
    Field(1, 16, 2),
    Field(1, 18, 1),
    Field(1, 19, 1),
    Field(1, 20, 1),
)
# 2 << interval words of four bytes, then amount + 1 of them.
PAD_INTERVAL, PAD_AMOUNT = Field(1, 22, 3), Field(1, 25, 7)
SIZES = (Field(1, 48, 32), Field(1, 80, 32), Field(2, 0, 32), Field(2, 32, 32), Field(3, 48, 32))
TILE = (
    Field(1, 112, 16),
    Field(1, 128, 16),
    Field(1, 144, 16),
    Field(2, 112, 16),
    Field(3, 80, 16),
)
STRIDES = (Field(1, 160, 48), Field(1, 208, 48), Field(2, 64, 48), Field(3, 0, 48))
LDS_WORD, GLOBAL_WORD = 1, 2

_ZEROS = ("llvm.mlir.zero", "llvm.mlir.undef", "llvm.mlir.poison", "ub.poison")
_ALL = (1 << 64) - 1


class Words(NamedTuple):
    """The words of the groups of one descriptor, each a value, a number, or None where it is not seen."""

    groups: tuple[tuple[Any, ...], ...]

    def number(self, field: Field) -> int | None:
        """The number in a field, None where some of its bits are not known."""
        found = 0
        for place, word in enumerate(self.groups[field.group]):
            low, high = max(field.first, 32 * place), min(field.first + field.bits, 32 * place + 32)
            if low >= high:
                continue
            mask = ((1 << (high - low)) - 1) << (low - 32 * place)
            known, value = _bits(word)
            if known & mask != mask:
                return None
            found |= ((value & mask) >> (low - 32 * place)) << (low - field.first)
        return found

    def numbers(self, fields: tuple[Field, ...], count: int) -> tuple[int | None, ...]:
        """Those of the fastest `count` dimensions, slowest first."""
        return tuple(map(self.number, fields[:count][::-1]))


def words_of(groups: list[Any]) -> Words:
    """The words of vectors."""
    pairs = zip(groups, WORDS, strict=False)
    return Words(tuple(tuple(_words(vector, count)) for vector, count in pairs))


def _words(vector: Any, count: int) -> list[Any]:
    found: dict[int, Any] = {}
    op = defining_op(vector)
    while op is not None and op.name == ELEMENT_PUT:
        place = constant_value(op.operands[2])
        if place is None:
            return [None] * count
        found.setdefault(place, op.operands[1])
        op = defining_op(op.operands[0])
    rest: list[Any] = [None] * count
    if op is not None and op.name in _ZEROS:
        rest = [0] * count
    elif op is not None and op.name == "vector.from_elements":
        rest = list(op.operands)
    elif op is not None and "value" in op.attributes and _dense(op) is not None:
        rest = _dense(op) or rest
    return [found.get(place, word) for place, word in enumerate(rest)]


def _dense(op: Any) -> list[int] | None:
    attribute = op.attributes["value"]
    if not ir.DenseIntElementsAttr.isinstance(attribute):
        return None
    return [int(number) for number in ir.DenseIntElementsAttr(attribute)]


def _bits(word: Any, depth: int = 0) -> tuple[int, int]:
    """Which bits of a word are known, and their value."""
    if word is None or depth > 16:
        return 0, 0
    number = word if isinstance(word, int) else constant_value(word)
    if number is not None:
        return _ALL, number & _ALL
    op = defining_op(word)
    row = None if op is None else OPERATORS.get(op.name)
    if op is None or row is None:
        return 0, 0
    known = [_bits(operand, depth + 1) for operand in op.operands]
    (a, x), (b, y) = known[0], known[-1]
    width = (1 << ir.IntegerType(op.results[0].type).width) - 1
    match row.method:
        case "or_":
            return (a & b) | (a & x) | (b & y), x & a | y & b
        case "and_":
            return (a & b) | (a & ~x) | (b & ~y), x & y & a & b
        case "shl" if b == _ALL:
            return ((a << y) | ((1 << y) - 1)) & _ALL, x << y & width
        case "shr" if b == _ALL and row.sign == "u":
            return (a & width) >> y | (_ALL & ~(width >> y)), (x & a & width) >> y
        case "cast":
            # The sign of a number that grows may be one or zero.
            given = op.operands[0].type
            if row.sign == "s" and isinstance(given, ir.IntegerType):
                width &= (1 << given.width) - 1
            return a & width, x & width
    return 0, 0


class Pointed(NamedTuple):
    """The op whose operand 0 is a pointer, the address of which a word holds; `exact`: that address itself."""

    place: Place
    exact: bool


def pointed(word: Any) -> Pointed | None:
    """The pointer behind a word with an address, or with its lower half."""
    exact, op = True, None if word is None or isinstance(word, int) else defining_op(word)
    while op is not None and op.name != "llvm.ptrtoint":
        row = OPERATORS.get(op.name)
        method = None if row is None else row.method
        if method == "cast":
            op = defining_op(op.operands[0])
        elif method in ("add", "or_"):
            sides = [defining_op(operand) for operand in op.operands]
            op = next((side for side in sides if side is not None and _leads(side)), None)
            exact = False
        else:
            return None
    return None if op is None else Pointed(Place(op, 0, range(0)), exact)


def _leads(op: Any) -> bool:
    row = OPERATORS.get(op.name)
    return op.name == "llvm.ptrtoint" or (row is not None and row.method in ("cast", "add", "or_"))
