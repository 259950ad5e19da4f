"""Which conditions hold in thread 0 of a block along x and in no other.

%first = arith.cmpi ult, %thread_id_x, %c1      compares %thread_id_x
%both = arith.andi %first, %exists              a conjunction of %first and %exists
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import (
    Value,
    constant_value,
    defining_op,
    integer_attribute,
)
from mlir_async_pipe.facts.values.integer_ops import bits_of
from mlir_async_pipe.vocabulary.launch_ids import LaunchId, launch_id
from mlir_async_pipe.vocabulary.operator_table import is_operator

# A block has 1024 threads at most, numbered from 0: 10 bits and a sign.
THREAD_BITS = 11

# Comparisons of a thread's number that hold in thread 0 alone, by their numbers in arith.cmpi: the number
# beside it where it stands first, and where it stands second. It is no negative one: casts keep all of it.
EQ, SLT, SLE, SGT, SGE, ULT, ULE, UGT, UGE = 0, 2, 3, 4, 5, 6, 7, 8, 9
_FIRST = {EQ: 0, SLT: 1, SLE: 0, ULT: 1, ULE: 0}
_SECOND = {EQ: 0, SGT: 1, SGE: 0, UGT: 1, UGE: 0}


def conjunction(condition: Value) -> list[Value]:
    """The conditions that all hold where this one does: those of an arith.andi, or itself; each once."""
    pending, seen, parts = [condition], set[Value](), list[Value]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        op = defining_op(value)
        if op is None or op.name != "arith.andi":
            parts.append(value)
        else:
            pending += reversed(list(op.operands))
    return parts


def compared_thread(condition: Value) -> Value | None:
    """The thread id that a condition which holds in thread 0 alone compares; None of any other."""
    op = defining_op(condition)
    if op is None or op.name != "arith.cmpi":
        return None
    predicate = integer_attribute(op, "predicate")
    first, second = op.operands
    for thread, number, rule in ((first, second, _FIRST), (second, first, _SECOND)):
        known = constant_value(number)
        if predicate in rule and known == rule[predicate] and _is_thread_id(thread):
            return thread
    return None


def _is_thread_id(value: Value) -> bool:
    return launch_id(_uncast(value)) == LaunchId("thread", 0)


def _uncast(value: Value) -> Value:
    """The value that casts between integer types which hold every thread's number are made from."""
    op = defining_op(value)
    while op is not None and is_operator(op.name, "cast") and bits_of(value.type) >= THREAD_BITS:
        value = op.operands[0]
        op = defining_op(value)
    return value
