"""Fields of structs that loops, branches and blocks forward become values that are forwarded by themselves.

      llvm.br ^bb1(%s : !llvm.struct<(ptr<3>, i32)>)        llvm.br ^bb1(%s, %p : …, !llvm.ptr<3>)
    ^bb1(%t: !llvm.struct<(ptr<3>, i32)>):            -->  ^bb1(%t: …, %q: !llvm.ptr<3>):
      %q = llvm.extractvalue %t[0]

Triton and CuTe carry the slot of a ring in such a struct. Integers and pointers are taken out; what is
in registers only (sums of products, say) stays in its struct.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    create,
    defining_op,
    functions,
    is_block_argument,
    is_function,
    type_text,
    walk_named,
)
from mlir_async_pipe.vocabulary import named_row
from mlir_async_pipe.vocabulary.control_flow import CARRYING_OPS
from mlir_async_pipe.vocabulary.memory_names import MEMBER_TAKEN, member_of, position_of
from mlir_async_pipe.vocabulary.op_table import INLINE_ASSEMBLY
from mlir_async_pipe.vocabulary.products import is_assembled
from mlir_async_pipe.vocabulary.rows import WGMMA
from mlir_async_pipe.waits.ssa.carry import Carrier, Skeleton, Variables


class Field(NamedTuple):
    """The part of a struct type at a position, and its own type."""

    whole: Any
    position: tuple[int, ...]
    kind: Any


def split_fields(root: Operation) -> int:
    """Forward the fields that somebody takes out of forwarded structs by themselves; how many there were."""
    split = 0
    for function in functions(root):
        for field in taken_fields(function):
            _Fields(function, field).run([])
            split += 1
    return split


def taken_fields(root: Operation) -> list[Field]:
    """The integers and pointers that ops take out of structs which they are given, but for registers of products."""
    found = (_taken(op) for op in walk_named(root, MEMBER_TAKEN.__eq__))
    fields = list(dict.fromkeys(field for field in found if field is not None))
    held = _registers_of_products(root) if fields else set()
    return [field for field in fields if not any(one in type_text(field.whole) for one in held)]


def _registers_of_products(root: Operation) -> set[str]:
    """The types of structs that products add to, or out of which they take registers."""
    held: list[Value] = []
    for op in walk_named(
        root, lambda name: name == INLINE_ASSEMBLY or named_row(name).queue == WGMMA
    ):
        if op.name != INLINE_ASSEMBLY or is_assembled(op):
            taken = filter(None, map(defining_op, op.operands))
            held += op.results
            held += [one.operands[0] for one in taken if one.name == MEMBER_TAKEN]
    return {type_text(value.type) for value in held}


class _Fields(Carrier):
    """Carries one field of all structs of one type."""

    def __init__(self, function: Operation, field: Field) -> None:
        super().__init__(Skeleton(function, self._matters, lambda op: False), field.kind)
        self.field = field

    def _matters(self, op: Operation) -> bool:
        kinds = (type_text(operand.type) for operand in op.operands)
        return op.name == MEMBER_TAKEN or any(kind.startswith("!llvm.struct<") for kind in kinds)

    def over(self, op: Operation, variables: Variables) -> Variables:
        """What takes the field is the field."""
        if op.name == MEMBER_TAKEN and _taken(op) == self.field:
            whole = member_of(op.operands[0], position_of(op)).whole
            if whole in self.companions:
                op.results[0].replace_all_uses_with(self.companions[whole])
                op.erase()
        return variables

    def accompanied(self, values: Any) -> list[int]:
        return [n for n, value in enumerate(values) if value.type == self.field.whole]

    def companion(self, value: Value, variables: Variables) -> Value:
        whole, position, put = member_of(value, self.field.position)
        if put is not None:
            return put
        carried = (whole.type, position) == self.field[:2]
        if carried and whole in self.companions:
            return self.companions[whole]
        made = defining_op(whole)
        ip = ir.InsertionPoint.at_block_begin(whole.owner) if made is None else after(made)
        at = {"position": ir.DenseI64ArrayAttr.get(position, value.context)}
        loc = self.skeleton.root.location
        taken = create(MEMBER_TAKEN, (whole,), (self.kind,), at, ip=ip, loc=loc).results[0]
        if carried:
            self.bind(whole, taken)
        return taken


def _taken(op: Operation) -> Field | None:
    """The field that an op takes out of a struct which it is given; None if that is not what it does."""
    if not type_text(op.results[0].type).startswith(("i", "!llvm.ptr")):
        return None
    whole, position, put = member_of(op.operands[0], position_of(op))
    if put is not None or not _is_forwarded(whole):
        return None
    return Field(whole.type, position, op.results[0].type)


def _is_forwarded(value: Value) -> bool:
    """Whether a loop, a branch or another block gives a value."""
    if not is_block_argument(value):
        made = defining_op(value)
        return made is not None and made.name in CARRYING_OPS
    block = value.owner
    around = block.owner.operation
    first = block == block.region.blocks[0]
    return around.name in CARRYING_OPS or (is_function(around) and not first)
