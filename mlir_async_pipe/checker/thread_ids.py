"""Thread ids, block ids and sizes as forms, and which values differ between threads.

gpu.thread_id x        the atom tid x, or 0 in a block of one row
gpu.block_id x         a symbol: the same in every thread of the block
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.thread_grid import Threads
from mlir_async_pipe.integer_ops import thread_dimension
from mlir_async_pipe.ir_helpers import is_function
from mlir_async_pipe.launch_ids import launch_id
from mlir_async_pipe.uniformity import sources

_LAUNCH_SYMBOLS = {
    "block": "gpu.block_id",
    "grid_size": "gpu.grid_dim",
    "block_size": "gpu.block_dim",
}
IdRule = Callable[[Threads, Any], Form]


def argument_form(value: Any, threads: Threads) -> Form | None:
    """The thread ids and block sizes that gpu.launch gives as block arguments."""
    known = launch_id(value)
    if known is None:
        return None
    if known.kind == "thread":
        return _id_of(threads, known.axis)
    if known.kind == "block_size" and threads.size is not None:
        return Form(threads.size[known.axis])
    name = _LAUNCH_SYMBOLS.get(known.kind)
    return None if name is None else forms.of_atom(Atom("symbol", (name, known.axis)))


def differs(value: Any, frame: int) -> bool:
    """Whether a value may differ between the threads of a block.

    The kernel's own arguments are the same for all; those of a callee need not be.
    """
    seen = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        reached, different = sources(current)
        if different is not None and (frame or not is_function(different)):
            return True
        pending.extend(reached)
    return False


def _thread_id(threads: Threads, op: Any) -> Form:
    return _id_of(threads, thread_dimension(op))


def _id_of(threads: Threads, axis: int) -> Form:
    if threads.size is not None and threads.size[axis] == 1:
        return forms.ZERO
    return forms.of_atom(Atom("tid", "xyz"[axis]))


def _special_thread_id(axis: str) -> IdRule:
    def rule(threads: Threads, op: Any) -> Form:
        return forms.of_atom(Atom("tid", axis))

    return rule


def _block_size(threads: Threads, op: Any) -> Form:
    axis = thread_dimension(op)
    if threads.size is not None:
        return Form(threads.size[axis])
    return forms.of_atom(Atom("symbol", (op.name, axis)))


def _uniform_id(threads: Threads, op: Any) -> Form:
    return forms.of_atom(Atom("symbol", (op.name, thread_dimension(op))))


def _global_id(threads: Threads, op: Any) -> Form:
    axis = thread_dimension(op)
    block = forms.of_atom(Atom("symbol", ("gpu.block_id", axis)))
    if threads.size is not None:
        start = forms.scale(block, threads.size[axis])
    else:
        start = forms.call("mul", block, forms.of_atom(Atom("symbol", ("gpu.block_dim", axis))))
    return forms.add(_id_of(threads, axis), start)


ID_RULES: dict[str, IdRule] = {
    "gpu.thread_id": _thread_id,
    "gpu.lane_id": _special_thread_id("lane"),
    "gpu.subgroup_id": _special_thread_id("warp"),
    "gpu.block_dim": _block_size,
    "gpu.block_id": _uniform_id,
    "gpu.grid_dim": _uniform_id,
    "gpu.global_id": _global_id,
    **{f"nvvm.read.ptx.sreg.tid.{axis}": _special_thread_id(axis) for axis in "xyz"},
    **{f"rocdl.workitem.id.{axis}": _special_thread_id(axis) for axis in "xyz"},
    "nvvm.read.ptx.sreg.laneid": _special_thread_id("lane"),
}
