"""Columns of tensor memory that a kernel takes, and how many versions of the sums they may hold.

    nvvm.tcgen05.alloc %place, 128           256: the sums of a tile of the loop around begin in column
    %base = memref.load %place      -->      0 or 128, alternately
    scf.for %tile { products; loads }

Versions are distinguished by the first product of a tile, which must take the sums for 0, and by the
addresses of all that touches them, which must be made of the one number that `alloc` wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    constant_value,
    defining_op,
    integer_attribute,
    source_op,
    walk,
)
from mlir_async_pipe.facts.loops.annotations import static_trip_count
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.facts.values.pointers import Columns, columns_after
from mlir_async_pipe.vocabulary import accesses, groups_of, tensor_use
from mlir_async_pipe.vocabulary.launch_ids import LaunchId, launch_id
from mlir_async_pipe.vocabulary.tensor_memory import COLUMNS

# arith.cmpi: equal, not equal; signed and unsigned less, and more.
_EQUAL, _OTHER, _LESS, _MORE = 0, 1, (2, 6), (4, 8)
MOST_VERSIONS = 2


@dataclass(frozen=True)
class SumVersions:
    """Each of `versions` has `columns`, of which the ops `sized` take and give back so many."""

    versions: int
    columns: int
    sized: tuple[Operation, ...]


def takes_columns(op: Operation, threads: int) -> bool:
    """Whether an op takes columns, or says that no more are taken, in some of the first threads alone."""
    if tensor_use(op) not in ("alloc", "permit"):
        return False
    inside = [op, *ancestors(op)]
    return any(
        above.name == "scf.if"
        and below.block in above.regions[0].blocks
        and _some_of(above.operands[0], threads)
        for below, above in pairwise(inside)
    )


def _some_of(condition: Value, threads: int) -> bool:
    op = defining_op(condition)
    if op is None or op.name != "arith.cmpi" or launch_id(op.operands[0]) != LaunchId("thread", 0):
        return False
    number, predicate = constant_value(op.operands[1]), integer_attribute(op, "predicate")
    if number is None:
        return False
    return (predicate == _EQUAL and number < threads) or (predicate in _LESS and number <= threads)


def address_loads(kernel: Operation) -> frozenset[Operation]:
    """The loads of what `alloc` wrote, where nobody else writes."""
    ops = list(walk(kernel))
    written = {root_of(op.operands[0]).identity for op in ops if tensor_use(op) == "alloc"}
    if not written:
        return frozenset()
    found: dict[object, list[Operation]] = {identity: [] for identity in written}
    for op in ops:
        for access in accesses(op):
            identity = root_of(access.memory).identity
            if identity in found and access.kind == "read":
                found[identity].append(op)
            elif access.kind != "read" and tensor_use(op) != "alloc":
                found.pop(identity, None)
    return frozenset(op for loads in found.values() for op in loads)


def sum_versions(
    loop: Operation,
    outer: tuple[Operation, ...],
    kernel: Operation,
    products: list[Operation],
    loads: Iterable[Operation],
) -> SumVersions:
    """As many as are proven to be distinct, and have room: two, or one."""
    sized = tuple(op for op in walk(kernel) if tensor_use(op) in ("alloc", "dealloc"))
    counts = {constant_value(op.operands[1]) for op in sized}
    taken = sum(tensor_use(op) == "alloc" for op in sized)
    columns = counts.pop() if len(counts) == taken == 1 else None
    touching = [*products, *loads]
    known = (
        columns is not None
        and columns * MOST_VERSIONS <= COLUMNS
        and any(op.name == "scf.for" for op in outer)
        and _one_base(touching, address_loads(kernel))
        and _runs_alike(loop, outer)
        and _cleared(loop, products)
    )
    return SumVersions(MOST_VERSIONS if known else 1, columns or 0, sized)


def _one_base(touching: list[Operation], loads: frozenset[Operation]) -> bool:
    seen: dict[Value, Columns] = {}
    bases = {columns_after(op.operands[0], seen)[0] for op in touching}
    base = bases.pop() if len(bases) == 1 else None
    made = None if base is None else defining_op(base)
    return made is not None and made in loads


def _runs_alike(loop: Operation, outer: tuple[Operation, ...]) -> bool:
    """Each execution has a product, or none has: else sums that a tile before made are loaded."""
    if static_trip_count(loop):
        return True
    open_ends = [value for value in list(loop.operands)[:3] if constant_value(value) is None]
    around = set(outer)
    return not any(
        op in around
        for value in open_ends
        for op in (source_op(value), *ancestors(source_op(value)))
    )


def _cleared(loop: Operation, products: list[Operation]) -> bool:
    """The first product into each of the sums takes them for 0 in the first iteration."""
    first: dict[int, Operation] = {}
    seen: dict[Value, Columns] = {}
    for op in products:
        first.setdefault(columns_after(op.operands[0], seen)[1], op)
    return all(_begins(loop, op) for op in first.values())


def _begins(loop: Operation, product: Operation) -> bool:
    adds = product.operands[groups_of(product)["adds"][0]]
    if constant_value(adds) == 0:
        return True
    op = defining_op(adds)
    if op is None or op.name != "arith.cmpi":
        return False
    variable, lower = loop.regions[0].blocks[0].arguments[0], loop.operands[0]
    begins = {lower} if constant_value(lower) is None else {constant_value(lower)}
    other = op.operands[1]
    number = constant_value(other)
    same = op.operands[0] == variable and (other if number is None else number) in begins
    return same and integer_attribute(op, "predicate") in (_OTHER, *_MORE)
