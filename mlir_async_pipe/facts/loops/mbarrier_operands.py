"""What ops on mbarriers name: their operands by name, and the group and number of the mbarrier.

nvgpu.mbarrier.try_wait.parity %full[%c0], …                      a group and a number
%at = nvgpu.mbarrier.get %full[%c0]                               a pointer to one of a group
%to = llvm.inttoptr %at
nvvm.tcgen05.commit %to
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    constant_value,
    create,
    defining_op,
)
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.vocabulary import VIEW_OPS, groups_of, is_pure, use_of
from mlir_async_pipe.vocabulary.memory_names import POINTER_OF_ADDRESS


def only_computes(op: Operation) -> bool:
    """Whether all that an op does is to give values, views or handles of mbarriers, without regions."""
    named = is_pure(op) or op.name in VIEW_OPS or use_of(op) == "handle"
    return named and not len(op.regions)


def operand(op: Operation, name: str) -> Value | None:
    """The operand of an mbarrier op that goes by `name`, None where the op has none."""
    number = named(op).get(name)
    return None if number is None else op.operands[number]


def operand_number(op: Operation, name: str) -> int:
    """The place of an operand that the op has."""
    return named(op)[name]


def handle_of(op: Operation) -> Operation | None:
    """The op that takes one mbarrier of a group, to which the pointer leads that `op` names it by."""
    pointer = None if "index" in named(op) else operand(op, "barrier")
    made = None if pointer is None else defining_op(pointer)
    if made is None or made.name != POINTER_OF_ADDRESS:
        return None
    handle = defining_op(made.operands[0])
    return handle if handle is not None and use_of(handle) == "handle" else None


def mbarrier_named(op: Operation) -> tuple[Value, int] | None:
    """The group and the number of the mbarrier that an op names, None where that is not known."""
    handle = handle_of(op) or op
    barriers, index = operand(handle, "barrier"), operand(handle, "index")
    number = None if index is None else constant_value(index)
    return None if barriers is None or number is None else (barriers, number)


def mbarrier_pointer(write: IntegerWriter, group: Value, number: Value, kind: Any) -> Value:
    """A pointer of type `kind` to one mbarrier of a group."""
    i64 = ir.IntegerType.get_signless(64, write.context)
    name = "nvgpu.mbarrier.get"
    made = create(name, [group, number], [i64], ip=write.ip, loc=write.location)
    return write.cast(POINTER_OF_ADDRESS, made.results[0], kind)


def named(op: Operation) -> dict[str, int]:
    """The places of the operands that an mbarrier op has, by name."""
    return {name: group[0] for name, group in groups_of(op).items() if len(group)}
