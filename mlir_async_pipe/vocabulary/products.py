"""Which ops multiply small matrices, and where operands lie that stand in workgroup memory.

A 64-bit descriptor names such an operand:

    bits 0-13   first byte of the operand in shared memory / 16 (18 bits of an address)
    bits 16-29  leading byte offset / 16
    bits 32-45  stride byte offset / 16
    bits 49-51  base offset, which nothing here describes
    bits 62-63  swizzle of wgmma: 0 none, 1 is 128 bytes, 2 is 64, 3 is 32

(PTX ISA, wgmma: matrix descriptor and canonical layouts.) S chunks of 16 bytes make a line, one
without a swizzle. Chunk c, line i of the eight that follow each other, and group g of such eights:

    K-major    a line of k for each row of M or N: 16 c + 16 S i + stride g; without a swizzle
               leading c + 16 i + stride g
    MN-major   a line of M or N for each k, panel p of such lines: 16 c + 16 S i + stride g +
               leading p; without a swizzle (a panel is one chunk) 16 i + leading g + stride p
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import defining_op, integer_attribute, type_text
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS, EXIT_OPS, REGION_ROWS
from mlir_async_pipe.vocabulary.memory_names import (
    MEMBER_PUT,
    MEMBER_TAKEN,
    position_of,
    taken_member,
)
from mlir_async_pipe.vocabulary.op_table import INLINE_ASSEMBLY, named_row

LINES = 8
CHUNK_BYTES = 16
ADDRESS_BITS = 18
_SWIZZLES = {0: 1, 1: 8, 2: 4, 3: 2}


@dataclass(frozen=True)
class MatrixDescriptor:
    """The fields of a descriptor, in bytes; `chunks` of 16 bytes make a line, 1 without a swizzle."""

    first: int
    leading: int
    stride: int
    chunks: int

    @property
    def line(self) -> int:
        return CHUNK_BYTES * self.chunks

    @property
    def is_aligned(self) -> bool:
        """Whether it begins in the first of the eight lines that its swizzle permutes. (Another base
        offset would say in which line it does.)"""
        return self.chunks == 1 or self.first % (LINES * self.line) < self.line

    def steps(self, by_k: bool) -> tuple[int, int, int]:
        """Bytes from one chunk of a line, one group of eight lines, and one panel to the next.

        Without a swizzle a K-major line has its chunks apart, and MN-major ones swap the two."""
        if self.chunks > 1:
            return CHUNK_BYTES, self.stride, self.leading
        if by_k:
            return self.leading, self.stride, 0
        return CHUNK_BYTES, self.leading, self.stride

    def place(self, along: Any, across: Any, by_k: bool) -> Any:
        """How far from `first`, before the swizzle, the byte lies that stands `along` bytes into line
        `across`: bytes of k and a row if `by_k`, else bytes of M or N and a k. Arrays do too."""
        chunk, group, panel = self.steps(by_k)
        eights = across % LINES * self.line + across // LINES * group
        if by_k:
            return eights + along // CHUNK_BYTES * chunk + along % CHUNK_BYTES
        return eights + along % self.line + along // self.line * panel

    def spans(self, rows: int, k_bytes: int, by_k: bool) -> list[tuple[int, int]]:
        """First bytes and last plus 1 of all eights of lines that hold `rows` and `k_bytes` of k.

        A product of some of a line's k begins inside of the eight lines that a swizzle permutes."""
        eight = LINES * self.line
        first = self.first // eight * eight if self.chunks > 1 else self.first
        if by_k:
            apart = range(0, k_bytes, CHUNK_BYTES if self.chunks == 1 else k_bytes)
            lines = rows
        else:
            apart, lines = range(0, 2 * rows, self.line), k_bytes // 2
        eights = range(0, lines, LINES)
        starts = [first + self.place(along, group, by_k) for along in apart for group in eights]
        return _joined(sorted((start, start + eight) for start in starts))


def matrix_descriptor(bits: int) -> MatrixDescriptor | None:
    """The descriptor that these 64 bits are; None if it has a base offset, or swizzles 32 bytes at once (bit 61)."""
    if (bits >> 49) & 7 or bits >> 61 & 1:
        return None
    first, leading, stride = (CHUNK_BYTES * ((bits >> low) & 0x3FFF) for low in (0, 16, 32))
    return MatrixDescriptor(first, leading, stride, _SWIZZLES[(bits >> 62) & 3])


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted spans, with those that meet made one."""
    found: list[tuple[int, int]] = []
    for low, high in spans:
        if found and low <= found[-1][1]:
            low, high = found[-1][0], max(high, found.pop()[1])
        found.append((low, high))
    return found


PRODUCTS = frozenset(
    "amdgpu.mfma amdgpu.scaled_mfma amdgpu.wmma nvgpu.mma.sp.sync nvgpu.mma.sync nvvm.mma.sync vector.contract".split()
)
# What makes registers that hold nothing yet: their threads have not touched them.
UNDEFINED = frozenset({"llvm.mlir.poison", "llvm.mlir.undef"})
# How types of values begin that products of warpgroups add to.
SUMS = ("!nvgpu.warpgroup.accumulator", "!llvm.struct")


def holds_sums(value: Any) -> bool:
    """Whether a value may be sums of a product: structs with addresses are something else."""
    text = type_text(value.type)
    return text.startswith(SUMS) and "ptr" not in text


def is_register_of_sums(value: Any) -> bool:
    """Whether a value is one register of sums, and none that was put among them in sight, which it then is.

    %x = llvm.extractvalue %sums[65] : !llvm.struct<(f32, …)>
    """
    made = defining_op(value)
    if made is None or made.name != MEMBER_TAKEN or holds_sums(value):
        return False
    return holds_sums(made.operands[0]) and taken_member(made) is None


def may_be_in_flight(value: Any) -> bool:
    """Whether a value is a register that a product, or a load from tensor memory, may still write."""
    made = defining_op(value)
    if made is not None and made.name == MEMBER_TAKEN:
        return is_register_of_sums(value)
    return made is not None and named_row(made.name).tensor == "load"


def stays_in_place(value: Any) -> bool:
    """Whether a register of sums is taken only to be put among sums again, to which alone products add: it stays
    where it is, and no thread reads or writes it; so does one that only products read.

    %half = llvm.insertvalue %x, %part[1]
    """
    taken = defining_op(value)
    if taken is None or not is_register_of_sums(value):
        return False
    uses = list(value.uses)
    if uses and all(map(_is_factor_of, uses)):
        return True
    users, at = [use.owner for use in taken.operands[0].uses], position_of(taken)
    if any(op.name != MEMBER_TAKEN for op in users):
        return False
    alike = [op.results[0] for op in users if position_of(op) == at]
    return [one for one in alike if any(map(_is_put_among_sums, one.uses))] == [value] and all(
        map(_is_put_among_sums, value.uses)
    )


def _is_put_among_sums(use: Any) -> bool:
    op = use.owner
    return holds_sums(op.results[0]) if op.name == MEMBER_PUT else _is_register_of(use)


def is_product(op: Any) -> bool:
    """Whether the op itself (not its regions) multiplies matrices that stand in registers."""
    return op.name in PRODUCTS


# A product that commits and waits by itself, and how many groups it leaves in flight; one where it
# does not say.
WARPGROUP_MMA = "nvgpu.warpgroup.mma"
PRODUCTS_LEFT = "waitGroup"


def products_left(op: Any) -> int | None:
    """How many groups a product that commits and waits by itself leaves in flight."""
    if op.name != WARPGROUP_MMA:
        return None
    left = integer_attribute(op, PRODUCTS_LEFT)
    return 1 if left is None else left


def held_sizes(text: str) -> tuple[int, ...]:
    """The sizes in a type such as `…<fragmented = vector<64x128xf32>>`."""
    found = re.search(r"= (?:memref|vector)<((?:\d+x)+)", text)
    return () if found is None else tuple(int(size) for size in found[1].split("x")[:-1])


# Every product of a warpgroup adds up 32 bytes of k, whatever their type (PTX ISA, wgmma shapes).
K_BYTES = 32


@dataclass(frozen=True)
class ProductForm:
    """What an nvvm.wgmma.mma_async multiplies, in the words of its attributes: types such as `e4m3`,
    whether each operand is negated, whether lines of it run along k."""

    m: int
    n: int
    k: int
    types: tuple[str, str]
    sums: str
    adds: bool
    negated: tuple[bool, bool]
    by_k: tuple[bool, bool]
    saturates: bool


# A product whose left factors stand in registers has no op: it is inline assembly of one instruction, as
# `assembled` writes it. Its operands are the registers of the sums, four of factors, and a descriptor.
FACTORS = 4
_INSTRUCTION = "wgmma.mma_async.sync.aligned"
_ASSEMBLED = re.compile(
    r"\{ \.reg \.pred p; setp\.ne\.b32 p, ([01]), 0; "
    + re.escape(_INSTRUCTION)
    + r"\.m64n(\d+)k(\d+)\.(\w+)\.(\w+)\.(\w+) \{\S+\}, \{\S+\}, \$\d+, p((?:, -?[01])*); \}"
)


def assembled(form: ProductForm, count: int, kind: str) -> tuple[str, str]:
    """The text and the constraints of a product that adds to so many registers of type f32 or i32."""
    shape = f"m{form.m}n{form.n}k{form.k}.{form.sums}.{'.'.join(form.types)}"
    sums, factors = (
        ",".join(f"${number}" for number in range(first, first + length))
        for first, length in ((0, count), (2 * count, FACTORS))
    )
    scales = [-1 if negative else 1 for negative in form.negated] if form.sums != "s32" else []
    scales += [int(not form.by_k[1])] if form.k == K_BYTES // 2 else []
    text = (
        f"{{ .reg .pred p; setp.ne.b32 p, {int(form.adds)}, 0; {_INSTRUCTION}.{shape} {{{sums}}}, {{{factors}}}, "
        f"${2 * count + FACTORS}, p{''.join(f', {scale}' for scale in scales)}; }}"
    )
    letter = "f" if kind == "f32" else "r"
    given = [f"={letter}"] * count + [*map(str, range(count))] + ["r"] * FACTORS + ["l"]
    return text, ",".join(given)


def is_assembled(op: Any) -> bool:
    """Whether an op is a product in the assembly of `assembled`."""
    return op.name == INLINE_ASSEMBLY and _form_of(op) is not None


def is_given_alone(value: Any) -> bool:
    """Whether a product in assembly names a value as one of its registers, or what loops and branches forward it to,
    and it is none of a struct of sums."""
    if is_register_of_sums(value):
        return False
    pending, seen = [value], {value}
    while pending:
        for use in pending.pop().uses:
            if _is_register_of(use):
                return True
            new = [other for other in _forwarded_to(use) if other not in seen]
            seen.update(new)
            pending += new
    return False


def _forwarded_to(use: Any) -> list[Any]:
    """What a branch, or an op with regions, lets hold the value of a use next."""
    op, number = use.owner, use.operand_number
    if op.name in BRANCH_ROWS:
        given = zip(op.successors, BRANCH_ROWS[op.name].operands(op), strict=True)
        return [block.arguments[number - ns.start] for block, ns in given if number in ns]
    if op.name in REGION_ROWS and number in (ns := REGION_ROWS[op.name].entry(op)):
        around = op
    elif op.name in EXIT_OPS and number >= EXIT_OPS[op.name] and op.parent is not None:
        around, ns = op.parent, range(EXIT_OPS[op.name], len(op.operands))
    else:
        return []
    # The last arguments of a region; of each, since a `while` has two.
    at = number - ns.start
    blocks = (region.blocks[0] for region in around.regions if len(region.blocks))
    found = [block.arguments[at - len(ns)] for block in blocks if len(block.arguments) >= len(ns)]
    return [*found, *list(around.results)[at : at + 1]]


def _is_register_of(use: Any) -> bool:
    """Whether a product in assembly names a value as a register: all of its operands but the descriptor are."""
    return is_assembled(use.owner) and use.operand_number < len(use.owner.operands) - 1


def _is_factor_of(use: Any) -> bool:
    return _is_register_of(use) and use.operand_number >= len(use.owner.operands) - 1 - FACTORS


def _form_of(op: Any) -> ProductForm | None:
    text, constraints = (
        str(ir.StringAttr(op.attributes[name]).value) for name in ("asm_string", "constraints")
    )
    return _read(text, constraints)


@cache
def _read(text: str, constraints: str) -> ProductForm | None:
    found = _ASSEMBLED.fullmatch(text)
    if found is None:
        return None
    adds, n, k, sums, left, right, scales = found.groups()
    signs = [int(one) for one in scales.split(",")[1:]]
    negated = (signs[0] < 0, signs[1] < 0) if sums != "s32" else (False, False)
    by_rows = int(k) == K_BYTES // 2 and signs[-1] == 1
    form = ProductForm(
        64, int(n), int(k), (left, right), sums, adds == "1", negated, (True, not by_rows), False
    )
    count = constraints.count("=")
    kind = "f32" if constraints.startswith("=f") else "i32"
    return form if assembled(form, count, kind) == (text, constraints) else None


def product_form(op: Any) -> ProductForm | None:
    """The form of a product with descriptors, None if its attributes cannot be read."""
    if op.name == INLINE_ASSEMBLY:
        return _form_of(op)
    if "shape" not in op.attributes:
        return None
    shape = dict(re.findall(r"([mnk]) = (\d+)", str(op.attributes["shape"])))
    if shape.keys() != {"m", "n", "k"}:
        return None
    types, scales, layouts = (
        (_inner(op, f"{name}A"), _inner(op, f"{name}B")) for name in ("type", "scale", "layout")
    )
    return ProductForm(
        **{name: int(size) for name, size in shape.items()},
        types=types,
        sums=_inner(op, "typeD"),
        adds=_inner(op, "scaleD") == "one",
        negated=(scales[0] == "neg", scales[1] == "neg"),
        by_k=(layouts[0] == "row", layouts[1] == "col"),
        saturates="satfinite" in op.attributes and _inner(op, "satfinite") == "satfinite",
    )


def shape_of_product(op: Any) -> tuple[str, str] | None:
    """What is equal for products of one shape, which add to the same registers in order."""
    shape = str(op.attributes["shape"]) if "shape" in op.attributes else None
    if op.name == INLINE_ASSEMBLY:
        form = _form_of(op)
        assert form is not None
        shape = f"#nvvm.shape<m = {form.m}, n = {form.n}, k = {form.k}>"
    return None if shape is None else (shape, str(op.results[0].type))


@cache
def described_bytes(bits: int, rows: int, by_k: bool) -> list[tuple[int, int]] | None:
    """Where an operand of so many rows lies, as first and last bytes plus 1 from where the 18 bits of
    addresses begin; [] if that is not known, None if it is not aligned to its swizzle."""
    descriptor = matrix_descriptor(bits)
    if descriptor is None:
        return []
    return descriptor.spans(rows, K_BYTES, by_k) if descriptor.is_aligned else None


def _inner(op: Any, name: str) -> str:
    """`f16` of `#nvvm.wgmma_type<f16>`."""
    found = re.search(r"<(\w+)>", str(op.attributes[name]))
    return found[1] if found else ""
