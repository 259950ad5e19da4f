"""PTX as a source: its text, its instructions as ops, its kernels as functions."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import walk_named
from mlir_async_pipe.vocabulary.op_table import INLINE_ASSEMBLY
from mlir_async_pipe.vocabulary.pure_ops import has_effects


def raise_assembly(root: Any) -> int:
    """Make inline assembly below `root` the ops that it stands for; how often. The table of instructions is
    loaded where there is some."""
    if not _has_assembly(root):
        return 0
    from mlir_async_pipe.ptx import assembly

    return assembly.raise_assembly(root)


def with_assembly_read(root: Any) -> Any:
    """The module, or a copy in which inline assembly is the ops that it stands for."""
    if not _has_assembly(root):
        return root
    copy = root.clone(ip=False).operation
    return copy if raise_assembly(copy) else root


def _has_assembly(root: Any) -> bool:
    return any(map(has_effects, walk_named(root, INLINE_ASSEMBLY.__eq__)))
