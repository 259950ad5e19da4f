"""Whether the address of a thread's own memory may be known to others.

%a = llvm.alloca …
llvm.store %v, %a              nobody is told where %a is
llvm.store %a, %shared         whoever loads it may reach %a
"""

from __future__ import annotations

import re
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Value, remembered, type_text
from mlir_async_pipe.vocabulary import accesses, is_pure, row_of
from mlir_async_pipe.vocabulary.control_flow import followed_callee
from mlir_async_pipe.vocabulary.memory_names import ADDRESS_OPS, DEALLOCATION_OPS


@remembered
def is_shown(memory: Value) -> bool:
    """Whether the address of a thread's own memory may be known to others: it is stored, made a
    number, handed on to where it is not followed, or to code that nobody can see."""
    pending, seen = [memory], {memory}
    while pending:
        for use in pending.pop().uses:
            named = _names_of_operand(use.owner, use.operand_number)
            if named is None:
                return True
            pending += [value for value in named if value not in seen]
            seen.update(named)
    return False


def _names_of_operand(user: Any, number: int) -> list[Value] | None:
    """What else names the memory that an operand names; None where the op may tell others."""
    op = user.operation
    callee = followed_callee(op)
    if callee is not None:
        return [callee.regions[0].blocks[0].arguments[number]]
    if any(access.memory_operand == number for access in accesses(op)):
        return []
    if row_of(op).harmless or op.name in DEALLOCATION_OPS:
        return []
    if op.name in ADDRESS_OPS or not is_pure(op):
        return None
    return [result for result in op.results if _HOLDS_ADDRESSES.search(type_text(result.type))]


_HOLDS_ADDRESSES = re.compile(r"memref<|ptr")
