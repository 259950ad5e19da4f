"""Lets a change that may fail half-way work on a copy, and keeps the copy only if it went well.

    run_on_copy(module, change)    clone, change(clone), then the module takes over what it holds
    become_bytes(module, content)  the module is that of these bytes, of whatever context

Functions stay the same operations: they get the copy's attributes and body. A change that raises
leaves the module, and every handle into it, untouched; after one that went well handles to ops
inside of functions are dead, as after any pass.

Bytecode takes a twentieth of the time of text, and keeps locations and the order in which values list
their uses, so what looks at it sees no difference.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, TypeVar

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    SYMBOL_TABLES,
    Block,
    Operation,
    attributes_of,
    erase,
    operations,
    outermost,
    parent,
    set_attributes,
    symbol_name,
)

Answer = TypeVar("Answer")


def run_on_copy(root: Operation, change: Callable[[Operation], Answer]) -> Answer:
    """The answer of `change` on a copy of `root`, which `root` then becomes. Of an op inside of a module the module
    is copied: launches and globals beside it count, too."""
    around = outermost(root)
    # The bindings let go of an op that nothing holds as soon as one of its own asks for it.
    holder = None if around.name == "builtin.module" else ir.Module.create(around.location)
    ip = False if holder is None else ir.InsertionPoint(holder.body)
    copy_around = around.clone(ip=ip).operation
    copy = copy_around if root == around else _at_the_place_of(root, copy_around)
    answer = change(copy)
    become(root, copy)
    return answer


def _at_the_place_of(op: Operation, copy: Operation) -> Operation:
    """The op of a copy of all around `op` that stands where `op` does."""
    above = parent(op)
    if above is None:
        return copy
    where = (
        (region, block, place)
        for region, each in enumerate(above.regions)
        for block, holder in enumerate(each.blocks)
        for place, other in enumerate(operations(holder))
        if other == op
    )
    region, block, place = next(where)
    return operations(_at_the_place_of(above, copy).regions[region].blocks[block])[place]


def become(op: Operation, made: Operation) -> None:
    """Give an op the attributes and the contents of another one of its name."""
    set_attributes(op, attributes_of(made))
    if op.name in SYMBOL_TABLES:
        _take_symbols(op.regions[0].blocks[0], made.regions[0].blocks[0])
        return
    take_body(op, made)


def take_body(op: Operation, made: Operation) -> None:
    """Give an op the regions of another one of its name, which gets the op's."""
    for mine, theirs in zip(op.regions, made.regions, strict=True):
        old, new = list(mine.blocks), list(theirs.blocks)
        for block in new:
            block.append_to(mine)
        # The old body ends with the copy, which then holds it.
        for block in old:
            block.append_to(theirs)


def _take_symbols(block: Block, made: Block) -> None:
    """Make the ops of a symbol table's block those of another one, in their order."""
    old = {_key(op, number): op for number, op in enumerate(operations(block))}
    result = []
    for number, op in enumerate(operations(made)):
        same = old.pop(_key(op, number), None) if symbol_name(op) else None
        if same is not None:
            become(same, op)
        result.append(op if same is None else same)
    erase(old.values())
    for op in result:
        block.append(op)


def _key(op: Operation, number: int) -> tuple[str, str | int]:
    """What names an op of a symbol table: its symbol, else its place."""
    return op.name, symbol_name(op) or number


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
