"""Values that are others by another name, and the rewrite that says so.

    %b = nvvm.shfl.sync idx %mask, %a, %lane, %last      %a, if all threads have the same %a
    %q = llvm.inttoptr (llvm.ptrtoint %p)                %p, also through casts that lose nothing of it

CuTe hands the base of dynamic shared memory from lane to lane, as a number, so that the compiler below
keeps it in a register of the warp; then nobody sees which memory it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlir_async_pipe.bindings.raw_ops import Operation, Value, defining_op, type_text, walk_named
from mlir_async_pipe.facts.values.integer_ops import bits_of
from mlir_async_pipe.facts.values.memory_roots import SHARED_BITS
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.vocabulary.launch_ids import SHUFFLES
from mlir_async_pipe.vocabulary.memory_names import ADDRESS_OPS, POINTER_OF_ADDRESS
from mlir_async_pipe.vocabulary.operator_table import is_operator

# Addresses of other memory take all of a pointer.
POINTER_BITS = 64


def replace(root: Operation) -> int:
    """Make what is another value below `root` that value; how often."""
    replaced = 0
    for op, value in _found(root):
        op.results[0].replace_all_uses_with(value)
        replaced += 1
    return replaced


def may_be_another(name: str) -> bool:
    """Whether results of ops called `name` may be values by another name."""
    return name in SHUFFLES or name == POINTER_OF_ADDRESS


def _found(root: Operation) -> Iterator[tuple[Operation, Value]]:
    """Ops whose first result is another value, in the order in which they stand; each is asked when those
    before it were seen to."""
    uniformity = Uniformity()
    for op in walk_named(root, may_be_another):
        if op.name == POINTER_OF_ADDRESS:
            value = _pointer_behind(op)
        else:
            handed = op.operands[SHUFFLES[op.name]]
            value = handed if uniformity.difference(handed) is None else None
        if value is not None and value.type == op.results[0].type:
            yield op, value


def _pointer_behind(op: Operation) -> Value | None:
    """The pointer whose whole address a number is that is taken for one."""
    kind = type_text(op.results[0].type)
    bits = SHARED_BITS if kind == "!llvm.ptr<3>" else POINTER_BITS
    number = op.operands[0]
    while bits_of(number.type) >= bits:
        made = defining_op(number)
        if made is None:
            return None
        if made.name in ADDRESS_OPS:
            return made.operands[0]
        if not is_operator(made.name, "cast"):
            return None
        number = made.operands[0]
    return None
