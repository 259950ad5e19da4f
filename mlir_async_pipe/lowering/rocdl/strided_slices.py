"""Slices of one-dimensional vectors as shuffles, for a back end that has no pattern for them.

    vector.extract_strided_slice %v {offsets = [4], sizes = [4], …}      8 elements
        -->  vector.shuffle %v, %v [4, 5, 6, 7]
    vector.insert_strided_slice %s, %v {offsets = [4], …}                4 into 8 elements
        -->  vector.shuffle %v, %s [0, 1, 2, 3, 8, 9, 10, 11]

Places in a shuffle count through both operands: those of the second begin at 8 here.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    create,
    walk,
)

INSERT = "vector.insert_strided_slice"
EXTRACT = "vector.extract_strided_slice"


def slices_to_shuffles(root: Operation) -> None:
    """Rewrite every slice of one-dimensional vectors below `root`; others stay."""
    for op in list(walk(root)):
        if op.name in (INSERT, EXTRACT) and all(_length(v) is not None for v in op.operands):
            _rewrite(op)


def _rewrite(op: Operation) -> None:
    (first,) = _integers(op, "offsets")
    if op.name == EXTRACT:
        (size,) = _integers(op, "sizes")
        operands = (op.operands[0], op.operands[0])
        places = [*range(first, first + size)]
    else:
        source, target = op.operands
        held, size = _length(target) or 0, _length(source) or 0
        operands = (target, source)
        places = [*range(first), *range(held, held + size), *range(first + size, held)]
    mask = ir.DenseI64ArrayAttr.get(places, op.context)
    made = create(
        "vector.shuffle",
        operands,
        [op.results[0].type],
        {"mask": mask},
        ip=before(op),
        loc=op.location,
    )
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()


def _length(value: Value) -> int | None:
    """The length of a one-dimensional vector, None for anything else."""
    kind: Any = ir.VectorType(value.type)
    return int(kind.shape[0]) if kind.rank == 1 and not kind.scalable else None


def _integers(op: Operation, name: str) -> list[int]:
    return [int(ir.IntegerAttr(entry).value) for entry in ir.ArrayAttr(op.attributes[name])]
