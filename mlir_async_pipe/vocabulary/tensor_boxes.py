"""The box of a tensor map: what a tensor copy moves, and how many bytes that is.

    nvgpu.tma.async.load … : !nvgpu.tensormap.descriptor<tensor = memref<128x64xf16, 3>, …>      128 x 64, 16384 bytes
    nvvm.cp.async.bulk.tensor… %to, %map, … {async_pipe.box = memref<128x64xf16>}                the same

Whole boxes are moved and counted, also where they leave the tensor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import as_kind, defining_op
from mlir_async_pipe.session.diagnostics import InputError
from mlir_async_pipe.vocabulary.control_flow import CAST_OPS
from mlir_async_pipe.vocabulary.memory_layout import element_bytes, if_known, layout_of
from mlir_async_pipe.vocabulary.op_table import groups_of


def copy_mode(op: Any) -> str:
    """The mode of a tensor copy: "tile", "im2col", "tile_gather4", …"""
    said = str(op.attributes["mode"]) if "mode" in op.attributes else "<tile>"
    return said.split("<")[-1].rstrip("> ")


# With a map whose box has one row they move four, whose numbers are coordinates.
FOUR_ROWS = ("tile_gather4", "tile_scatter4")


def moves_no_box(op: Any) -> bool:
    """Whether a tensor copy is in another mode than of tiles, where the shape of a box does not say what it moves: in
    im2col mode pixels and channels of the map do, gather4 and scatter4 move four rows."""
    return copy_mode(op) != "tile"


def tensor_map_type(value: Any) -> str:
    """The type of a tensor map, or of that which a pointer is cast from; "" for other values."""
    text = str(value.type)
    if text.startswith("!llvm.ptr"):
        made = defining_op(value)
        if made is None or made.name not in CAST_OPS:
            return ""
        text = str(made.operands[0].type)
    return text if "tensormap" in text else ""


# In the type of a tensor map: the sizes of its box, and the type of its elements.
BOX_IN_TYPE = re.compile(r"tensor = memref<((?:\d+x)+)(\w+)")

# On a copy by a map that is made elsewhere: the box that it moves, memref<128x64xf16>, whose rows come last.
BOX = "async_pipe.box"


@dataclass(frozen=True)
class MapEncoder:
    """A function of the host that encodes a tensor map: by their numbers the arguments that say where, the code of the
    type of the elements, and where the sizes of the box stand, as i64 whose last one counts the elements of a row."""

    tensor_map: int
    element: int
    box: int
    elements: dict[int, str]


# JAX, jaxlib/mosaic/gpu/runtime.cc; types of less than a byte have no bytes of their own.
MAP_ENCODERS = {
    "mosaic_gpu_init_tma_desc": MapEncoder(
        0, 2, 7, {1: "i8", 2: "i16", 3: "i32", 4: "i64", 5: "f16", 6: "f32", 7: "bf16", 9: "i32", 10: "i64"}
    )
}  # fmt: skip

# Limits of a box: elements along a dimension, and what the bytes of its rows are a multiple of (CUDA driver API,
# cuTensorMapEncodeTiled, boxDim).
_MOST_ELEMENTS, _ROW_BYTES = 256, 16


def box_of(op: Any) -> tuple[tuple[int, ...], int] | None:
    """The shape of the box of a tensor map that a copy names, and the bytes of its elements. None
    where neither `async_pipe.box` nor an operand's type says it. Raises InputError (bad-box)."""
    if BOX in op.attributes:
        return _said_box(op)
    mode = copy_mode(op)
    if mode != "tile" and mode not in FOUR_ROWS:
        return None
    said = (BOX_IN_TYPE.search(tensor_map_type(operand)) for operand in op.operands)
    found = next(filter(None, said), None)
    layout = found and if_known(layout_of, ir.Type.parse(found[2], op.context))
    if found is None or layout is None:
        return None
    return _moved(mode, tuple(map(int, found[1].split("x")[:-1]))), layout.stride_bytes


def _moved(mode: str, box: tuple[int, ...]) -> tuple[int, ...]:
    """What a copy moves by a map with such a box."""
    return (4, *box[1:]) if mode in FOUR_ROWS else box


def _said_box(op: Any) -> tuple[tuple[int, ...], int]:
    said = op.attributes[BOX]
    kind = as_kind(ir.TypeAttr, said) and as_kind(ir.MemRefType, ir.TypeAttr(said).value)
    size = (if_known(element_bytes, kind) if kind else None) or 0
    shape = tuple(kind.shape) if kind else ()
    coordinates, mode = len(groups_of(op).get("coordinates", ())), copy_mode(op)
    if mode in FOUR_ROWS:
        # A column, and four rows.
        coordinates -= 3
    if not size:
        why = "it is no memref of a type that has bytes"
    elif mode != "tile" and mode not in FOUR_ROWS:
        why = "the copy is in im2col mode, which moves no box"
    elif mode in FOUR_ROWS and shape[0] != 1:
        why = f"the box of a map for mode '{mode}' has one row"
    elif len(shape) != coordinates:
        why = f"it has {len(shape)} dimensions, the copy {coordinates} coordinates"
    elif not all(1 <= n <= _MOST_ELEMENTS for n in shape):
        why = f"a dimension has 1 to {_MOST_ELEMENTS} elements"
    elif shape[-1] * size % _ROW_BYTES:
        why = f"its rows have {shape[-1] * size} bytes, which are no multiple of {_ROW_BYTES}"
    else:
        return _moved(mode, shape), size
    raise InputError(f"'{op.name}' cannot move a box {said}: {why}", code="bad-box", at=op)


def box_bytes(op: Any) -> int | None:
    """The bytes of the box of a tensor map that a copy names: whole, also where it leaves the
    tensor. None where no operand's type says it."""
    box = box_of(op)
    return None if box is None else prod(box[0]) * box[1]
