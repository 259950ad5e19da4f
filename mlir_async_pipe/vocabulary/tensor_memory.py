"""What ops do with the tensor memory of Blackwell (tcgen05): a table as that of `mbarrier_ops`.

Tensor memory has 128 lanes of 512 columns of 32 bits; an address is lane * 2^16 + column. Its ops have
no row (but for the write of `alloc`): analyses that know no tensor memory take them for what they cannot see
through. Products are
asynchronous: they read workgroup memory through descriptors and write tensor memory until the arrival
of a commit (`mbarrier_ops`, use "commit") says that all of the thread's are over.

| use     | what it does (PTX ISA, tcgen05)                                                      |
|---------|--------------------------------------------------------------------------------------|
| alloc   | a warp takes columns, and writes where they begin to workgroup memory                |
| permit  | the block will allocate no more                                                      |
| dealloc | a warp gives columns back                                                            |
| product | D = A B + D in tensor memory; one thread issues it, a commit says when it is over     |
| copy    | workgroup memory to tensor memory; as a product                                      |
| shift   | lanes move down by one; as a product                                                 |
| load    | a warp's lanes into registers, which are there after a wait                          |
| store   | registers into a warp's lanes, which are there after a wait                          |
| wait    | for all loads, or all stores, of the thread                                          |
| fence   | what the thread knows from others counts for its tensor ops after it, or what its    |
|         | tensor ops before it did counts for those whom it tells                              |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from mlir_async_pipe.bindings.raw_ops import defining_op

TensorUse = Literal[
    "alloc",
    "permit",
    "dealloc",
    "product",
    "copy",
    "shift",
    "load",
    "store",
    "wait",
    "fence",
]

LANES, COLUMNS, CELL_BYTES = 128, 512, 4
# A warp may touch the 32 lanes of its number modulo 4 (PTX ISA, tcgen05 access restrictions).
LANES_OF_WARP = 32
SMALLEST_ALLOCATION = 32
# An address is lane * LANE + column.
LANE_BITS = 16
LANE = 1 << LANE_BITS
K_BYTES = 32


@dataclass(frozen=True)
class TensorRule:
    """One op kind. `operands` names its ODS operand groups in order, as a row does; `matrix_a` is a
    descriptor of 64 bits or an address of tensor memory. `plain`: what it reads and writes follows from
    its descriptors and columns alone."""

    op: str
    use: TensorUse
    operands: tuple[str, ...] = ()
    plain: bool = False


_PRODUCT = ("matrix_d", "matrix_a", "matrix_b", "instruction", "adds")
_SPARSE = (*_PRODUCT, "metadata")
_RULES = (
    TensorRule("nvvm.tcgen05.alloc", "alloc", ("result", "columns")),
    TensorRule("nvvm.tcgen05.relinquish_alloc_permit", "permit"),
    TensorRule("nvvm.tcgen05.dealloc", "dealloc", ("address", "columns")),
    TensorRule("nvvm.tcgen05.mma", "product", (*_PRODUCT, "scale?", "disabled_lanes?"), plain=True),
    TensorRule("nvvm.tcgen05.mma.sp", "product", (*_SPARSE, "scale?", "disabled_lanes?")),
    TensorRule("nvvm.tcgen05.mma.ws", "product", (*_PRODUCT, "zero_columns?")),
    TensorRule("nvvm.tcgen05.mma.ws.sp", "product", (*_SPARSE, "zero_columns?")),
    TensorRule("nvvm.tcgen05.mma.block_scale", "product", (*_PRODUCT, "scale_a", "scale_b")),
    TensorRule("nvvm.tcgen05.mma.sp.block_scale", "product", (*_SPARSE, "scale_a", "scale_b")),
    TensorRule("nvvm.tcgen05.cp", "copy", ("address", "source")),
    TensorRule("nvvm.tcgen05.shift", "shift", ("address",)),
    TensorRule("nvvm.tcgen05.ld", "load", ("address", "offset?"), plain=True),
    TensorRule("nvvm.tcgen05.ld.red", "load", ("address", "offset?")),
    TensorRule("nvvm.tcgen05.st", "store", ("address", "value", "offset?")),
    TensorRule("nvvm.tcgen05.wait", "wait"),
    TensorRule("nvvm.tcgen05.fence", "fence"),
)

TENSOR_OPS = {rule.op: rule for rule in _RULES}
FENCE_OP = "nvvm.tcgen05.fence"


def tensor_use(op: Any) -> TensorUse | None:
    """What an op does with tensor memory, None if it has nothing to do with it."""
    rule = TENSOR_OPS.get(op.name)
    return None if rule is None else rule.use


# They are `.sync.aligned`: all lanes of a warp run them together.
OF_WARPS = frozenset({"alloc", "permit", "dealloc", "load", "store", "wait"})
LANES_OF_A_WARP = 32


def is_tensor_pointer(value: Any) -> bool:
    """Whether a value is an address of tensor memory."""
    return str(value.type) == "!llvm.ptr<6>"


def is_loaded(value: Any) -> bool:
    """Whether a value is the result of a load, which is there after a wait only."""
    made = defining_op(value)
    return made is not None and tensor_use(made) == "load"


def fence_side(op: Any) -> Literal["before", "after"] | None:
    """Whether an op is the fence before a thread tells others, or after it has heard of them."""
    if op.name != FENCE_OP:
        return None
    return "before" if "before" in str(op.attributes["kind"]) else "after"


def waits_for(op: Any) -> Literal["load", "store"] | None:
    """Which ops of the thread a wait of tensor memory covers."""
    if tensor_use(op) != "wait":
        return None
    return "load" if "load" in str(op.attributes["kind"]) else "store"


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
