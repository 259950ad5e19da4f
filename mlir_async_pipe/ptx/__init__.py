"""PTX as a source: its text, its instructions as ops, its kernels as functions."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings.raw_ops import walk_named
from mlir_async_pipe.vocabulary.pure_ops import INLINE_ASSEMBLY, has_effects


def with_assembly_read(root: Any) -> Any:
    """The module, or a copy in which inline assembly is the ops that it stands for. The table of instructions
    is loaded where there is some."""
    if not any(map(has_effects, walk_named(root, INLINE_ASSEMBLY.__eq__))):
        return root
    from mlir_async_pipe.ptx.assembly import with_assembly_raised

    return with_assembly_raised(root)
