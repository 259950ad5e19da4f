"""vector: reductions, contractions and outer products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine.affine_maps import parse_map
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.arith import COMBINE
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.kinds import Kind
from mlir_async_pipe.machine.registry import Execute, semantics

Array = np.ndarray


def combiner(site: Site) -> Callable[..., Any]:
    """The NumPy function of a `#vector.kind<…>` attribute, `add` where there is none."""
    word = site.text("kind", "<add>").split("<")[-1].rstrip(">")
    return COMBINE[word]


@semantics("vector.reduction")
def reduction(site: Site) -> Execute:
    """All elements in order, from the accumulator on if there is one."""
    combine, kind = combiner(site), site.result_kind()

    def execute(unit: Unit, value: Array, *start: Array) -> Array:
        flat = value.reshape(len(value), -1)
        total = start[0] if start else flat[:, 0]
        for number in range(0 if start else 1, flat.shape[1]):
            total = kind.settle(combine(total, flat[:, number]))
        return total

    return execute


@semantics("vector.multi_reduction")
def multi_reduction(site: Site) -> Execute:
    """Chosen dimensions in order, from the accumulator on."""
    combine, kind = combiner(site), site.result_kind()
    axes = site.integers("reduction_dims")

    def execute(unit: Unit, value: Array, start: Array) -> Array:
        moved = np.moveaxis(value, [1 + axis for axis in axes], range(1, 1 + len(axes)))
        rows = moved.reshape(len(value), -1, *moved.shape[1 + len(axes) :])
        total = start
        for number in range(rows.shape[1]):
            total = kind.settle(combine(total, rows[:, number]))
        return total

    return execute


@semantics("vector.contract")
def contract(site: Site) -> Execute:
    """A generalised matrix product: sums over the dimensions that the result lacks.

    Products are summed in at least float32 and rounded once, as tensor cores do.
    """
    combine, kind = combiner(site), site.result_kind()
    if combine is not np.add:
        raise site.unsupported("only sums are combined")
    maps = [parse_map(str(entry)) for entry in ir.ArrayAttr(site.op.attributes["indexing_maps"])]
    letters = [
        "".join(chr(ord("a") + (number or 0)) for number in mapping.permutation())
        for mapping in maps
    ]
    formula = f"...{letters[0]},...{letters[1]}->...{letters[2]}"
    wide = _accumulator(kind)

    def execute(unit: Unit, left: Array, right: Array, start: Array) -> Array:
        product = np.einsum(formula, left.astype(wide), right.astype(wide))
        return kind.settle(product + start.astype(wide))

    return execute


@semantics("vector.outerproduct")
def outer_product(site: Site) -> Execute:
    """left x right, added to the accumulator if there is one."""
    kind = site.result_kind()
    wide = _accumulator(kind)

    def execute(unit: Unit, left: Array, right: Array, *start: Array) -> Array:
        factor = right[:, None, :] if right.ndim > 1 else right[:, None]
        product = (
            left[..., None].astype(wide) * factor if right.ndim > 1 else left.astype(wide) * factor
        )
        return kind.settle(product + start[0].astype(wide) if start else product)

    return execute


def _accumulator(kind: Kind) -> Any:
    if not kind.is_float:
        return kind.dtype
    return np.float64 if kind.dtype == np.float64 else np.float32


@semantics("vector.print")
def print_vector(site: Site) -> Execute:
    """Output is not part of the machine's state."""
    return lambda unit, *values: None
