"""Products of a warpgroup that may still run while the next iteration issues its own.

    %next = nvgpu.warpgroup.mma %a, %b, %sum {waitGroup = 0}     waits for itself
    scf.yield %next                                              waitGroup = 1: for the one before

Products of tensor memory are waited for by the phase of an mbarrier (`tensor_commits`). That is so where what they sum up is handed to products only, in the loop: each has then an
iteration's time to run. With p iterations in flight and g groups an iteration a wait leaves p g.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import Operation, operations, users, walk
from mlir_async_pipe.facts.loops.tensor_commits import Completion, completions_of, hindrance
from mlir_async_pipe.session.diagnostics import InputError
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.products import PRODUCTS_LEFT, WARPGROUP_MMA
from mlir_async_pipe.vocabulary.queues import WGMMA

# No wait counts products of tensor memory: slots and their mbarriers are the limit.
_ANY = 1 << 10


@dataclass(frozen=True)
class Products:
    """The products of a loop body: `waits` are the ops that wait for groups of them, `groups` is
    their number in an iteration. `hindered` says why none may be left in flight, "" if they may;
    `at` is the op that it is about. `completions` are the commits of products of tensor memory."""

    waits: tuple[Operation, ...]
    groups: int
    hindered: str = ""
    at: Operation | None = None
    completions: tuple[Completion, ...] = ()

    def at_most(self) -> int:
        """Iterations whose products may be in flight, by what a wait can count."""
        if self.completions and not self.hindered:
            return _ANY
        if self.hindered or not self.groups:
            return 0
        return (WGMMA.largest_count or 0) // self.groups


def products_of(loop: Operation) -> Products:
    top = operations(loop.regions[0].blocks[0])
    found = [op for op in walk(loop) if _queued(op)]
    waits = tuple(op for op in found if wait_attribute(op) is not None)
    groups = sum(1 for op in found if _commits(op))
    completions = completions_of(loop)
    if completions:
        other = next(iter(found), None) or hindrance(loop)
        why = f"'{other.name}' stands beside products of tensor memory" if other else ""
        return Products(waits, groups, why, other, completions)
    inside = next((op for op in found if op not in top), None)
    if inside is not None:
        return Products(waits, groups, "it stands in a region of the body", inside)
    products = [op for op in found if len(op.results)]
    summed = [result for op in products for result in op.results]
    arguments = list(loop.regions[0].blocks[0].arguments)[1:]
    carried = zip(arguments, top[-1].operands, strict=True)
    for value in summed + [argument for argument, next_ in carried if next_ in summed]:
        for user in users(value):
            if user not in products and user != top[-1]:
                why = f"'{user.name}' uses in the loop what they sum up"
                return Products(waits, groups, why, user)
    return Products(waits, groups)


def in_flight(products: Products, asked: int | None, loop: Operation) -> int:
    """Iterations whose products stay in flight: what is asked, else 1 where that is possible.

    Raises InputError (products-in-use)."""
    most = products.at_most()
    if asked is None:
        return min(1, most)
    if asked > most:
        why = products.hindered or (
            f"a wait counts up to {WGMMA.largest_count} groups, and an iteration has {products.groups}"
            if products.groups
            else "the loop has none"
        )
        raise InputError(
            f"cannot leave the products of {asked} iterations in flight: {why}",
            code="products-in-use",
            at=products.at or loop,
            advice=f"async_pipe.in_flight = {most}",
        )
    return asked


def wait_attribute(op: Operation) -> str | None:
    """The attribute that holds how many groups of products a wait leaves in flight, None for an
    op that waits for none."""
    if op.name == WARPGROUP_MMA:
        return PRODUCTS_LEFT
    row = row_of(op)
    return row.wait.count if row is not None and row.queue == WGMMA and row.wait else None


def _queued(op: Operation) -> bool:
    row = row_of(op)
    return row is not None and row.queue == WGMMA


def _commits(op: Operation) -> bool:
    row = row_of(op)
    return row is not None and row.commits is not None
