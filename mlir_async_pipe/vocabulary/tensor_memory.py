"""Rows of what works on the tensor memory of Blackwell (tcgen05), and what their descriptors say.

Tensor memory has 128 lanes of 512 columns of 32 bits; an address is lane * 2^16 + column. Products are
asynchronous: they read workgroup memory through descriptors and write tensor memory until the arrival
of a commit (`Phase("commit")`) says that all of the thread's are over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from mlir_async_pipe.bindings.raw_ops import constant_value, defining_op
from mlir_async_pipe.vocabulary.memory_ops import bytes_of
from mlir_async_pipe.vocabulary.op_table import groups_of, named_row, tensor_use
from mlir_async_pipe.vocabulary.rows import AccessRule, Row, Tensor, TensorUse

LANES, COLUMNS, CELL_BYTES = 128, 512, 4
# A warp may touch the 32 lanes of its number modulo 4 (PTX ISA, tcgen05 access restrictions).
LANES_OF_WARP = 32
SMALLEST_ALLOCATION = 32
# An address is lane * LANE + column.
LANE_BITS = 16
LANE = 1 << LANE_BITS
K_BYTES = 32


_PRODUCT = ("matrix_d", "matrix_a", "matrix_b", "instruction", "adds")
_SPARSE = (*_PRODUCT, "metadata")
_LANE = ("scale?", "disabled_lanes?")


def _row(
    name: str,
    use: TensorUse,
    operands: tuple[str, ...] = (),
    *accesses: AccessRule,
    plain: bool = False,
) -> Row:
    return Row(f"nvvm.tcgen05.{name}", operands, accesses, effects=(Tensor(use, plain),))


TENSOR_ROWS = (
    # The first lane of the warp writes.
    _row(
        "alloc",
        "alloc",
        ("memory", "columns"),
        AccessRule(
            *("write", "memory", "", bytes_of(4)), active_lanes=lambda op: 1, takes_slot_index=False
        ),
    ),
    _row("relinquish_alloc_permit", "permit"),
    _row("dealloc", "dealloc", ("address", "columns")),
    _row("mma", "product", (*_PRODUCT, *_LANE), plain=True),
    _row("mma.sp", "product", (*_SPARSE, *_LANE)),
    _row("mma.ws", "product", (*_PRODUCT, "zero_columns?")),
    _row("mma.ws.sp", "product", (*_SPARSE, "zero_columns?")),
    _row("mma.block_scale", "product", (*_PRODUCT, "scale_a", "scale_b")),
    _row("mma.sp.block_scale", "product", (*_SPARSE, "scale_a", "scale_b")),
    _row("cp", "copy", ("address", "source")),
    _row("shift", "shift", ("address",)),
    _row("ld", "load", ("address", "offset?"), plain=True),
    _row("ld.red", "load", ("address", "offset?")),
    _row("st", "store", ("address", "value", "offset?"), plain=True),
    _row("wait", "wait"),
    _row("fence", "fence"),
)
FENCE_OP = "nvvm.tcgen05.fence"


# They are `.sync.aligned`: all lanes of a warp run them together.
OF_WARPS = frozenset({"alloc", "permit", "dealloc", "load", "store", "wait"})
# The attributes that say so.
_GROUPS = ("group", "ctaGroup")


def is_of_two_blocks(op: Any) -> bool:
    """Whether two blocks of a cluster do it together (PTX ISA, tcgen05: .cta_group::2)."""
    return any("cta_2" in str(op.attributes[name]) for name in _GROUPS if name in op.attributes)


def is_tensor_pointer(value: Any) -> bool:
    """Whether a value is an address of tensor memory."""
    return str(value.type) == "!llvm.ptr<6>"


def is_loaded(value: Any) -> bool:
    """Whether a value is the result of a load, which is there after a wait only."""
    made = defining_op(value)
    return made is not None and named_row(made.name).tensor == "load"


def fence_side(op: Any) -> Literal["before", "after"] | None:
    """Whether an op is the fence before a thread releases, or after it has acquired."""
    if op.name != FENCE_OP:
        return None
    return "before" if "before" in str(op.attributes["kind"]) else "after"


def waits_for(op: Any) -> Literal["load", "store"] | None:
    """Which ops of the thread a wait of tensor memory covers."""
    if tensor_use(op) != "wait":
        return None
    return "load" if "load" in str(op.attributes["kind"]) else "store"


def moved_columns(op: Any) -> tuple[int, bool]:
    """The columns that a load or store touches, at most; whether it touches all of them."""
    kind = (op.results[0] if len(op.results) else op.operands[1]).type
    registers = kind.shape[0] if str(kind).startswith("vector<") else 1
    by_lane = "32x32b" in str(op.attributes["shape"]).lower()
    # A register may hold 16 bits each of two neighbouring columns (PTX ISA, tcgen05.ld: .pack::16b).
    packed = any(name in op.attributes for name in ("pack", "unpack"))
    return int(registers) * (1 + packed) * (1 if by_lane else 4), by_lane


@dataclass(frozen=True)
class ProductShape:
    """What an instruction descriptor says: sizes, types in the words of PTX, sums and orders."""

    m: int
    n: int
    k: int
    types: tuple[str, str]
    sums: str
    negated: tuple[bool, bool]
    by_k: tuple[bool, bool]
    sparse: bool

    @property
    def of_sums(self) -> tuple[object, ...]:
        """What products must share beside the address of their sums to be in order."""
        return self.m, self.n, self.types, self.sums


_TYPES = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"},
    "i8": {0: "u8", 1: "s8"},
}
_SUMS = {0: "f16", 1: "f32", 2: "s32"}
_ITEM_BYTES = {"f16": 2, "tf32": 4, "f8f6f4": 1, "i8": 1}


def product_kind(op: Any) -> str:
    """`f16` of `#nvvm.tcgen05_mma_kind<f16>`."""
    found = re.search(r"<(\w+)>", str(op.attributes["kind"]))
    return found[1] if found else ""


def product_shape(kind: str, instruction: int) -> ProductShape | None:
    """The fields of an instruction descriptor (PTX ISA, tcgen05: bits 4-5 type of sums, 7-9 and
    10-12 of A and B, 13 and 14 negation, 15 and 16 not k-major, 17-22 N / 8, 24-28 M / 16); None
    if the kind has none such, or a field no meaning."""
    types = _TYPES.get(kind)
    if types is None:
        return None
    a, b = (types.get(instruction >> low & 7) for low in (7, 10))
    sums = _SUMS.get(instruction >> 4 & 3)
    if a is None or b is None or sums is None:
        return None
    return ProductShape(
        m=16 * (instruction >> 24 & 31),
        n=8 * (instruction >> 17 & 63),
        k=K_BYTES // _ITEM_BYTES[kind],
        types=(a, b),
        sums=sums,
        negated=(bool(instruction >> 13 & 1), bool(instruction >> 14 & 1)),
        by_k=(not instruction >> 15 & 1, not instruction >> 16 & 1),
        sparse=bool(instruction >> 2 & 1),
    )


# Cells ----------------------------------------------------------------------------------------


class Cells(NamedTuple):
    """Columns from `low` to `high` after `base`, the value that the address is made of; None: not
    known."""

    base: Any = None
    low: int | None = None
    high: int | None = None

    def meets(self, other: Cells) -> bool | None:
        """Whether two share a cell; None: perhaps."""
        if self.base is None or self.base != other.base:
            return None
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return None
        return self.low < other.high and other.low < self.high


class ProductCells(NamedTuple):
    """The cells of a product: `sums` of a `shape`, and its `left` operand if that is in tensor memory."""

    sums: Cells = Cells()
    shape: Any = None
    left: Cells | None = None

    def conflicts(
        self, other: ProductCells, *, alike: bool
    ) -> Iterator[
        tuple[Literal["overwrite-in-flight", "source-overwritten", "read-in-flight"], bool | None]
    ]:
        """What is wrong with issuing it while another one is in flight, and whether that is certain. One thread's into
        the same sums are in order (PTX ISA, tcgen05: pipelined instructions); where that is asked, too, `alike`."""
        known = self.sums.base is not None and self.shape is not None
        if known and not alike and self[:2] == other[:2]:
            return
        met = self.sums.meets(other.sums)
        if met is not False:
            yield "overwrite-in-flight", met
        if other.left is not None and (met := self.sums.meets(other.left)) is not False:
            yield "source-overwritten", met
        if self.left is not None and (met := self.left.meets(other.sums)) is not False:
            yield "read-in-flight", met


class TensorProduct(NamedTuple):
    """What the instruction descriptor of a product says (None: not known), and which operands are the addresses of its
    sums and, if that is in tensor memory, of its left operand."""

    shape: ProductShape | None
    sums: int
    left: int | None

    def cells(self, read: Callable[[int, int | None], Cells]) -> ProductCells:
        """Its cells, by what `read` gives of so many columns (None: not known) from the address on that an operand is."""
        # All k of a product, packed into cells.
        left = None if self.left is None else read(self.left, K_BYTES // CELL_BYTES)
        if self.shape is None:
            return ProductCells(read(self.sums, None), None, left)
        return ProductCells(read(self.sums, self.shape.n), self.shape.of_sums, left)


def tensor_product(op: Any) -> TensorProduct:
    at = groups_of(op)
    number = constant_value(op.operands[at["instruction"][0]])
    shape = None if number is None else product_shape(product_kind(op), number)
    left = at["matrix_a"][0]
    in_tensor = is_tensor_pointer(op.operands[left])
    return TensorProduct(shape, at["matrix_d"][0], left if in_tensor else None)
