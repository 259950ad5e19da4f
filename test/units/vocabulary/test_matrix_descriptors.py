"""Where descriptors say that operands lie: no element outside of the spans, none of them too wide.

Covers: vocabulary/products.py, vocabulary/tensor_memory.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.machine_programs import parse
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.machine.dialects.tma import swizzled
from mlir_async_pipe.vocabulary import tensor_use
from mlir_async_pipe.vocabulary.products import MatrixDescriptor, matrix_descriptor
from mlir_async_pipe.vocabulary.tensor_memory import Cells, ProductCells, moved_columns

FIRST = 4096


@pytest.mark.parametrize("chunks", [1, 2, 4, 8])
@pytest.mark.parametrize("by_k", [True, False], ids=["K-major", "MN-major"])
@pytest.mark.parametrize("rows", [8, 64, 136])
def test_spans_hold_all_elements(chunks, by_k, rows):
    # Lines of 32 bytes of k, or of rows of 16 bits: k / 16 bytes after another without a swizzle.
    lines = rows if by_k else 16
    stride, leading = 128 * chunks, 16 * chunks * lines
    if chunks == 1:
        stride, leading = (128, 16 * lines) if by_k else (16 * lines, 128)
    descriptor = MatrixDescriptor(FIRST, leading, stride, chunks)
    across, along = np.indices((lines, 32 if by_k else 2 * rows))
    found = swizzled(FIRST + descriptor.place(along, across, by_k), chunks)
    assert len(np.unique(found)) == rows * 32
    spans = descriptor.spans(rows, 32, by_k)
    inside = [((found >= low) & (found < high)).sum() for low, high in spans]
    assert sum(inside) == rows * 32 and all(inside)
    # All lines from the first to the last, and what is between the panels or chunks is left out.
    whole = max(32, 16 * chunks) if by_k else -(-2 * rows // (16 * chunks)) * 16 * chunks
    assert sum(high - low for low, high in spans) == whole * lines


def test_part_of_a_line_may_lie_in_all_eight_lines() -> None:
    assert MatrixDescriptor(FIRST + 96, 16, 1024, 8).spans(16, 32, True) == [(FIRST, FIRST + 2048)]


def test_fields_stand_in_units_of_16_bytes() -> None:
    bits = 256 | 1 << 16 | 64 << 32 | 1 << 62
    assert matrix_descriptor(bits) == MatrixDescriptor(4096, 16, 1024, 8)


def test_a_base_offset_is_not_described() -> None:
    assert matrix_descriptor(1 << 49 | 1 << 62) is None


@pytest.mark.parametrize("shape, said", [((128, 64), []), (None, [("overwrite-in-flight", None)])])
def test_products_are_in_order_only_if_their_shapes_are_known_to_be_one(shape, said):
    """Two products into the same sums; of descriptors that nobody reads the shapes may differ when they run."""
    one = ProductCells(Cells("sums", 0, None if shape is None else 64), shape)
    assert list(one.conflicts(one, alike=False)) == said


@pytest.mark.parametrize(
    ("packed", "shape", "columns"),
    [
        ("", "32x32b", (8, True)),
        ("", "16x256b", (32, False)),
        # Two columns of 16 bits in a register.
        ("pack ", "32x32b", (16, True)),
    ],
)
def test_loads_and_stores_touch_the_columns_of_their_registers(packed, shape, columns):
    text = f"{{shape = #nvvm.tcgen05_ldst_shape<shape_{shape}>}} : vector<8xi32>"
    module = parse(
        "func.func @f(%a: !llvm.ptr<6>) {\n"
        f"%v = nvvm.tcgen05.ld %a {packed}{text}\n"
        f"nvvm.tcgen05.st %a, %v {'un' * bool(packed)}{packed}{text}\nreturn }}"
    )
    moved = [op for op in walk(module) if tensor_use(op) in ("load", "store")]
    assert [moved_columns(op) for op in moved] == [columns, columns]
