"""What is around a call of the builder: the user's Python, the place of errors and the location of ops; the
kernel around the current insertion point, its threads and their numbers.

    kernel.py:41:10: error: a slot of …             the innermost frame outside of this package
    known_block_size = array<i32: 16, 16, 1>        256 threads, %thread_id x + 16 * %thread_id y
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import KERNEL_OPS, Operation, Value, ancestors, operations
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.session.called_from import caller
from mlir_async_pipe.session.diagnostics import Place, UsageError
from mlir_async_pipe.vocabulary.launch_ids import block_size, constant_sizes

BLOCK_SIZE = "known_block_size"
Threads = int | tuple[int, ...]

# The locations that `located` made current: the line of each call says more than they do.
_made: list[Any] = []


def misuse(
    message: str,
    *,
    code: str,
    advice: str | None = None,
    notes: tuple[tuple[str, Place], ...] = (),
    at: Place | None = None,
) -> UsageError:
    """An error at the line of the user that is being executed, or at another place."""
    return UsageError(message, code=code, at=at or caller(), advice=advice, notes=notes)


def here() -> Any:
    """The location of ops that are made now: the user's own, where one is set, else the line."""
    current = ir.Location.current
    if current is not None and current not in _made and str(current) != "loc(unknown)":
        return current
    place = caller()
    return ir.Location.file(place.file, place.line, place.column, context=point().context)


@contextlib.contextmanager
def located() -> Iterator[None]:
    """Inside, the user's own ops are at the line that is being executed now, unless they say."""
    made = here()
    _made.append(made)
    try:
        with made:
            yield
    finally:
        _made.pop()


def point() -> Any:
    """The op around the current insertion point; raises UsageError (no-insertion-point)."""
    return _current(ir.InsertionPoint).block.owner


def in_context() -> None:
    """Raises UsageError (no-insertion-point) where no context is current either."""
    _current(ir.Context)


def _current(kind: Any) -> Any:
    try:
        found = kind.current
    except ValueError:
        found = None
    if found is None:
        why = "what a pipeline writes goes to the current insertion point, and there is none"
        raise misuse(why, code="no-insertion-point", advice="with ir.InsertionPoint(block): …")
    return found


class Participants(NamedTuple):
    """Those who copy a tile together: how many, and the number of the one that runs."""

    threads: int
    number: Value | int


def kernel() -> Operation:
    """The function or gpu.launch around the current insertion point."""
    owner = point().operation
    for op in (owner, *ancestors(owner)):
        if op.name in KERNEL_OPS:
            return op
    raise misuse("a pipeline stands in a function or a gpu.launch", code="no-insertion-point")


def entry(op: Operation) -> Any:
    """The insertion point before everything that stands in a kernel."""
    block = op.regions[0].blocks[0]
    ops = operations(block)
    return ir.InsertionPoint(ops[0]) if ops else ir.InsertionPoint(block)


def threads_of(op: Operation, given: Threads | None) -> tuple[int, ...]:
    """The threads of a block in x, y, z: as the kernel says, else as they are given, which it then says too, for
    proofs need it. Raises UsageError (threads-unknown) where nobody says it, (threads-differ) where both do."""
    known = constant_sizes(op, "block") if op.name == "gpu.launch" else block_size(op)
    asked = (given,) if isinstance(given, int) else given
    if known is None and asked is None:
        if op.name == "func.func":
            return (1, 1, 1)
        why = "how many threads copy a tile is not known"
        advice = "threads=128, or known_block_size on the kernel"
        raise misuse(why, code="threads-unknown", advice=advice)
    if asked is None:
        assert known is not None
        return known
    x, y, z = [*asked, 1, 1][:3]
    if known is not None and (x, y, z) != known:
        raise misuse(f"{asked} threads, in a kernel of blocks of {known}", code="threads-differ")
    if known is None and op.name == "gpu.func":
        op.attributes[BLOCK_SIZE] = ir.DenseI32ArrayAttr.get([x, y, z], op.context)
    return x, y, z


def writer() -> IntegerWriter:
    """Writes integer arithmetic at the current insertion point."""
    return IntegerWriter(ir.InsertionPoint.current, here())
