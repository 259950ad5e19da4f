"""Which ops multiply small matrices: what tensor and matrix cores are kept busy with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import integer_attribute
from mlir_async_pipe.vocabulary.matrix_descriptors import matrix_descriptor

PRODUCTS = frozenset(
    {
        "amdgpu.mfma",
        "amdgpu.scaled_mfma",
        "amdgpu.wmma",
        "nvgpu.mma.sp.sync",
        "nvgpu.mma.sync",
        "nvvm.mma.sync",
        "vector.contract",
    }
)
# What makes registers that hold nothing yet: their threads have not touched them.
UNDEFINED = frozenset({"llvm.mlir.poison", "llvm.mlir.undef"})
# Ops that make a struct of accumulators, or name a part of one.
INSERTED = "llvm.insertvalue"
PARTS = frozenset({INSERTED, "llvm.extractvalue"})


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


def product_form(op: Any) -> ProductForm | None:
    """The form of a product with descriptors, None if its attributes cannot be read."""
    shape = dict(re.findall(r"([mnk]) = (\d+)", str(op.attributes["shape"])))
    if shape.keys() != {"m", "n", "k"}:
        return None
    names = {
        name: _inner(op, name)
        for side in "AB"
        for name in (f"type{side}", f"scale{side}", f"layout{side}")
    }
    return ProductForm(
        m=int(shape["m"]),
        n=int(shape["n"]),
        k=int(shape["k"]),
        types=(names["typeA"], names["typeB"]),
        sums=_inner(op, "typeD"),
        adds=_inner(op, "scaleD") == "one",
        negated=(names["scaleA"] == "neg", names["scaleB"] == "neg"),
        by_k=(names["layoutA"] == "row", names["layoutB"] == "col"),
        saturates="satfinite" in op.attributes and _inner(op, "satfinite") == "satfinite",
    )


def shape_of_product(op: Any) -> tuple[str, str] | None:
    """What is equal for products of one shape, which add to the same registers in order."""
    if "shape" not in op.attributes:
        return None
    return str(op.attributes["shape"]), str(op.results[0].type)


def described_bytes(op: Any, side: int, bits: int) -> list[tuple[int, int]] | None:
    """Where an operand of a product lies, as first and last bytes plus 1 from where the 18 bits of
    addresses begin; [] if that is not known, None if it is not aligned to its swizzle. `side` is 0 for
    A."""
    form, descriptor = product_form(op), matrix_descriptor(bits)
    if form is None or descriptor is None:
        return []
    if not descriptor.is_aligned:
        return None
    return descriptor.spans(form.n if side else form.m, K_BYTES, form.by_k[side])


def _inner(op: Any, name: str) -> str:
    """`f16` of `#nvvm.wgmma_type<f16>`."""
    found = re.search(r"<(\w+)>", str(op.attributes[name]))
    return found[1] if found else ""
