"""Thread ids, block ids and sizes as forms, and which values differ between threads.

gpu.thread_id x        the atom tid x, or 0 in a block of one row
gpu.block_id x         a symbol: the same in every thread of the block
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import is_block_argument, is_function
from mlir_async_pipe.checker import forms, operators
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.thread_grid import Threads, thread_facts
from mlir_async_pipe.facts.values.uniformity import sources
from mlir_async_pipe.vocabulary.launch_ids import (
    LAUNCH_SYMBOLS,
    LaunchId,
    id_of,
    launch_id,
    thread_dimension,
)
from mlir_async_pipe.vocabulary.rows import Share


def argument_form(value: Any, threads: Threads) -> Form | None:
    """The thread ids and block sizes that gpu.launch gives as block arguments."""
    known = launch_id(value)
    return None if known is None else _given(known, threads, LAUNCH_SYMBOLS.get(known.kind))


def id_form(op: Any, threads: Threads) -> Form | None:
    """The form of an op that says where in the launch a thread stands; None for other ops."""
    if op.name == "gpu.global_id":
        axis = thread_dimension(op)
        block = forms.of_atom(Atom("symbol", (LAUNCH_SYMBOLS["block"], axis)))
        size = forms.of_atom(Atom("symbol", (LAUNCH_SYMBOLS["block_size"], axis)))
        start = (
            forms.call("mul", block, size)
            if threads.size is None
            else forms.scale(block, threads.size[axis])
        )
        return forms.add(_id_of(threads, axis), start)
    known = id_of(op)
    if known is None:
        return None
    if known.kind in ("lane", "subgroup"):
        return forms.of_atom(Atom("tid", "lane" if known.kind == "lane" else "warp"))
    return _given(known, threads, LAUNCH_SYMBOLS.get(known.kind, op.name))


def _given(known: LaunchId, threads: Threads, name: str | None) -> Form | None:
    """What the launch gives: a number where it is known, else the symbol `name`."""
    if known.kind == "thread":
        return _id_of(threads, known.axis)
    if known.kind == "block_size" and threads.size is not None:
        return Form(threads.size[known.axis])
    return None if name is None else forms.of_atom(Atom("symbol", (name, known.axis)))


def firsts_of(shares: tuple[Share, ...], threads: Threads) -> list[Form]:
    """Where a thread's part of memory begins, in each dimension."""
    x, facts = _id_of(threads, 0), thread_facts(threads)
    firsts = []
    for share in shares:
        first = forms.ZERO
        for factor, divisor, modulus in share.digits:
            digit = operators.modulo(operators.floor_divide(x, divisor, facts), modulus, facts)
            first = forms.add(first, forms.scale(digit, factor))
        firsts.append(first)
    return firsts


def differs(value: Any, frame: int) -> bool:
    """Whether a value may differ between the threads of a block.

    The kernel's own arguments are the same for all; those of a callee need not be. What blocks
    and loops forward is followed by `divergence`, as far as it decides anything: here it differs.
    """
    seen = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        if is_block_argument(current) and launch_id(current) is None:
            block = ir.BlockArgument(current).owner
            above = block.owner.operation
            if frame or not is_function(above) or block != above.regions[0].blocks[0]:
                return True
            continue
        reached, different = sources(current)
        if different is not None and (frame or not is_function(different)):
            return True
        pending.extend(reached)
    return False


def _id_of(threads: Threads, axis: int) -> Form:
    if threads.size is not None and threads.size[axis] == 1:
        return forms.ZERO
    return forms.of_atom(Atom("tid", "xyz"[axis]))
