"""Modules as bytecode: what they are made of, locations included, in a twentieth of the time of text.

    content = bytes_of(module)
    become_bytes(other, content)      other, of whatever context, now is that module

Bytecode also keeps the order in which values list their uses, so what looks at it sees no difference.
"""

from __future__ import annotations

import io
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, parent
from mlir_async_pipe.bindings.run_on_copy import become


def bytes_of(op: Any) -> bytes:
    written = io.BytesIO()
    op.operation.write_bytecode(written)
    return written.getvalue()


def stands_alone(op: Operation) -> bool:
    """Whether an op is a module that no other op holds: its bytes say all that there is to know."""
    return op.name == "builtin.module" and parent(op) is None


def become_bytes(root: Operation, content: bytes) -> bool:
    """Make `root` the module that these bytes are; False if its context cannot read them."""
    try:
        made = ir.Module.parse(content, context=root.context)
    except (ir.MLIRError, ValueError, TypeError):
        return False
    become(root, made.operation)
    return True
