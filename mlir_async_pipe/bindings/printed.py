"""One op as text: some properties are no attributes, and the bindings show them nowhere else.

%2 = llvm.add %0, %1 overflow<nsw> : i32
"""

from __future__ import annotations

from io import StringIO
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.memo import remembered
from mlir_async_pipe.bindings.raw_ops import FUNCTION_OPS, Operation, enclosing


def printed(op: Operation) -> str:
    """An op without regions as a line of text."""
    text = StringIO()
    op.print(file=text, state=_numbering(enclosing(op, FUNCTION_OPS) or op))
    return text.getvalue()


# To number its values for each line would make a function of n ops cost n squared.
@remembered
def _numbering(function: Operation) -> Any:
    return ir.AsmState(function)
