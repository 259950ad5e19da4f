"""Whether two writes of one `async_pipe.scope` may meet in one element.

A scope becomes copies of one commit group, and a group orders nothing inside itself: what the
later of two writes to one element left there could be either value. Only what is proven apart
is accepted; one execution of the scope by one thread is looked at, since different threads
and executions are ordered by barriers and waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, ancestors, source_op
from mlir_async_pipe.values.linear import Arithmetic, Linear
from mlir_async_pipe.values.memory_roots import root_of
from mlir_async_pipe.values.pointers import from_the_start, is_pointer
from mlir_async_pipe.values.sums import subtract, without
from mlir_async_pipe.vocabulary import Access


def find_overlap(
    scope: Operation, written: Sequence[Access], arithmetic: Arithmetic
) -> Operation | None:
    """An op whose write may meet another write of the scope, None if none does."""
    if branches_backwards(scope):
        return scope
    for access in written:
        if not _injective(scope, access, arithmetic):
            return access.op
    for one, other in combinations(written, 2):
        if not _apart(scope, one, other, arithmetic):
            return other.op
    return None


def branches_backwards(scope: Operation) -> bool:
    """Whether the blocks of the scope may form a loop."""
    for region in scope.regions:
        blocks = list(region.blocks)
        for number, block in enumerate(blocks):
            successors = list(list(block.operations)[-1].operation.successors)
            if any(successor in blocks[: number + 1] for successor in successors):
                return True
    return False


def _apart(scope: Operation, one: Access, other: Access, arithmetic: Arithmetic) -> bool:
    """Whether two accesses never meet, whatever the iterations of loops around them."""
    first, second = root_of(one.memory), root_of(other.memory)
    if first.key != second.key:
        return first.owned and second.owned
    loops = _loops(scope, one.op) + _loops(scope, other.op)
    if is_pointer(one.memory) and is_pointer(other.memory):
        return not loops and _bytes_apart(one, other, arithmetic)
    if one.memory != other.memory:
        return False
    for position, (a, b) in enumerate(zip(one.indices, other.indices, strict=True)):
        distance = subtract(arithmetic.linear(a), arithmetic.linear(b))
        apart = distance.constant >= _length(other, position) or -distance.constant >= _length(
            one, position
        )
        fixed = not any(_varies(arithmetic.linear(index), loops) for index in (a, b))
        if apart and not distance.terms and fixed:
            return True
    return False


def _bytes_apart(one: Access, other: Access, arithmetic: Arithmetic) -> bool:
    """The same of accesses by pointers: they begin at least as far apart as the first one is long."""
    starts = [from_the_start(access.memory, arithmetic) for access in (one, other)]
    if None in starts or one.extent is None or other.extent is None:
        return False
    (base, first), (other_base, second) = (start for start in starts if start is not None)
    distance = subtract(second, first)
    if base != other_base or distance.terms:
        return False
    return distance.constant >= one.extent[0] or -distance.constant >= other.extent[0]


def _injective(scope: Operation, access: Access, arithmetic: Arithmetic) -> bool:
    """Whether no two iterations of the loops inside the scope write the same element.

    Each loop needs a dimension in which its induction variable moves by whole extents, and
    nothing else that varies in these loops occurs.
    """
    loops = _loops(scope, access.op)
    return all(
        any(
            _moves_alone(
                arithmetic.linear(index), loop, loops, _length(access, position), arithmetic
            )
            for position, index in enumerate(access.indices)
        )
        for loop in loops
    )


def _moves_alone(
    form: Linear, loop: Operation, loops: list[Operation], length: int, arithmetic: Arithmetic
) -> bool:
    variable = loop.regions[0].blocks[0].arguments[0]
    step = arithmetic.linear(loop.operands[2])
    if step.terms or abs(step.constant * form.coefficient(variable)) < length:
        return False
    return not _varies(without(form, variable), loops)


def _varies(form: Linear, loops: list[Operation]) -> bool:
    """Whether a symbol of the form is made inside one of the loops."""
    return any(_made_inside(symbol, loop) for symbol in form.symbols for loop in loops)


def _made_inside(value: Any, loop: Operation) -> bool:
    owner = source_op(value)
    return owner == loop or loop in ancestors(owner)


def _loops(scope: Operation, op: Operation) -> list[Operation]:
    """The loops around `op` inside the scope, innermost first."""
    found = []
    for above in ancestors(op):
        if above == scope:
            break
        if above.name == "scf.for":
            found.append(above)
    return found


def _length(access: Access, position: int) -> int:
    """Elements that the access covers in dimension `position`."""
    extent = access.extent or ()
    behind = position - (len(access.indices) - len(extent))
    return extent[behind] if behind >= 0 else 1
