"""Fields of structs that blocks are handed become arguments of their own.

      llvm.br ^bb1(%s : !llvm.struct<(ptr<3>, i32)>)        llvm.br ^bb1(%s, %p : …, !llvm.ptr<3>)
    ^bb1(%t: !llvm.struct<(ptr<3>, i32)>):            -->  ^bb1(%t: …, %q: !llvm.ptr<3>):
      %q = llvm.extractvalue %t[0]

Triton and CuTe carry the slot of a ring in such a struct. Integers and pointers are taken out; what is
in registers only (fragments of products, say) stays in its struct.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    before,
    create,
    erase,
    is_block_argument,
    terminator,
    type_text,
    walk_named,
)
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS, with_successor_operands
from mlir_async_pipe.vocabulary.memory_names import MEMBER_TAKEN, container_of

# One field: the argument of a block, and where in it.
Field = tuple[Any, tuple[int, ...]]


def with_fields_split(root: Operation) -> Operation:
    """The module, or a copy in which such fields are handed on by themselves."""
    if not taken_fields(root):
        return root
    copy = root.clone(ip=False).operation
    split_fields(taken_fields(copy))
    return copy


def taken_fields(root: Operation) -> list[Operation]:
    """The ops below `root` that take an integer or a pointer out of what a block is handed."""
    return [op for op in walk_named(root, MEMBER_TAKEN.__eq__) if _field(op) is not None]


def split_fields(taken: list[Operation]) -> None:
    """Hand on these fields beside their structs, and let them be what is handed on.

    Where control comes to a block in a way that no row describes, the fields of its structs stay.
    """
    kinds: dict[Field, Any] = {}
    pending = [(_field(op), op.results[0].type) for op in taken]
    while pending:
        field, kind = pending.pop()
        if field is None or field in kinds:
            continue
        sources = _sources(field[0])
        if sources is None:
            return
        kinds[field] = kind
        for _, value in sources:
            whole, _ = container_of(value, field[1])
            pending += [((whole, field[1]), kind)] * _is_handed(whole)
    made = {
        field: field[0].owner.add_argument(kind, field[0].owner.owner.operation.location)
        for field, kind in kinds.items()
    }
    blocks = {block: None for field in kinds for block, _ in _sources(field[0]) or ()}
    for block in blocks:
        _hand_on(terminator(block), made)
    for op in taken:
        field = _field(op)
        assert field is not None
        op.results[0].replace_all_uses_with(made[field])
    erase(taken)


def _field(op: Operation) -> Field | None:
    """Which field of which block argument an op takes out; None if that is not what it does."""
    if not type_text(op.results[0].type).startswith(("i", "!llvm.ptr")):
        return None
    position = tuple(ir.DenseI64ArrayAttr(op.attributes["position"]))
    whole, put = container_of(op.operands[0], position)
    return (whole, position) if put is None and _is_handed(whole) else None


def _is_handed(value: Value) -> bool:
    """Whether a value is an argument of a block that other blocks lead to."""
    if not is_block_argument(value):
        return False
    block = value.owner
    return block != block.region.blocks[0]


def _sources(argument: Any) -> list[tuple[Block, Value]] | None:
    """From which blocks an argument is given what; None where that is not known."""
    target, number = argument.owner, argument.arg_number
    found = []
    for block in target.region.blocks:
        end = terminator(block)
        row = BRANCH_ROWS.get(end.name)
        for given, successor in enumerate(end.successors):
            if successor == target:
                if row is None:
                    return None
                found.append((block, end.operands[row.operands(end)[given][number]]))
    return found


def _hand_on(end: Operation, made: dict[Field, Value]) -> None:
    """Write the end of a block anew, with the fields that its successors take."""
    row = BRANCH_ROWS[end.name]
    more = []
    for given, target in enumerate(end.successors):
        wanted = [field for field in made if field[0].owner == target]
        numbers = row.operands(end)[given]
        handed = [end.operands[numbers[argument.arg_number]] for argument, _ in wanted]
        more.append(
            [_value(end, one, field, made) for one, field in zip(handed, wanted, strict=True)]
        )
    operands, attributes = with_successor_operands(end, more)
    create(
        end.name,
        operands,
        (),
        attributes,
        ip=before(end),
        loc=end.location,
        successors=list(end.successors),
    )
    end.erase()


def _value(end: Operation, given: Value, field: Field, made: dict[Field, Value]) -> Value:
    """What stands in a field of a struct at the end of a block."""
    whole, put = container_of(given, field[1])
    if put is not None:
        return put
    if (whole, field[1]) in made:
        return made[whole, field[1]]
    kind = made[field].type
    position = {"position": ir.DenseI64ArrayAttr.get(field[1], end.context)}
    taken = create(MEMBER_TAKEN, (given,), (kind,), position, ip=before(end), loc=end.location)
    return taken.results[0]
