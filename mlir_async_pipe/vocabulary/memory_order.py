"""What ops order: accesses of their own thread, for other threads that see them.

    llvm.store %v, %flag atomic release        what stands before it is over before the store
    llvm.load %flag atomic acquire             what stands after it begins after the load
    llvm.load volatile %flag                   keeps its place among volatile and atomic accesses
    memref.atomic_rmw addi %one, %flag[]       both: MLIR lowers it to acq_rel, of all threads
    func.call @unknown()                       may be any of these

Nothing moves above an acquire or below a release, and strong accesses (volatile, atomic) keep their
order among themselves (PTX ISA, "Memory Consistency Model"; LLVM, "Atomic Memory Ordering
Constraints"). A barrier of the block orders all that its threads do on both sides, in the spaces
that it lists. Waits for groups and phases order the asynchronous ops that they retire, which their
own rows say.

A volatile or relaxed read on which a loop spins counts as an acquire: programs that were written
before scopes wait like that, and what follows the loop is meant to come after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import ancestors, integer_attribute, is_used
from mlir_async_pipe.vocabulary.control_flow import WHILE_OPS

Scope = Literal["thread", "warp", "block", "cluster", "device", "system"]
"""The threads for whom an op orders memory, from few to many."""

ALL_SPACES = frozenset({"global", "workgroup", "private"})
_SCOPES: dict[str, Scope] = {
    "singlethread": "thread",
    "wavefront": "warp",
    "warp": "warp",
    "workgroup": "block",
    "block": "block",
    "cta": "block",
    "cluster": "cluster",
    "agent": "device",
    "device": "device",
    "gpu": "device",
}
# LLVM's numbers of atomic orderings; "unordered" and "monotonic" (1, 2) order nothing.
_ACQUIRE, _RELEASE, _BOTH, _SEQUENTIAL = 4, 5, 6, 7


@dataclass(frozen=True)
class MemoryOrder:
    """What one op orders, for threads of its `scope`.

    `acquire`: accesses after it, of the memory in `spaces`, begin after it. `release`: those before
    it are over before it. `strong`: it is a volatile or an atomic access. `spins`: it counts as an
    acquire since a loop spins on it, which no memory model promises.
    """

    acquire: bool = False
    release: bool = False
    strong: bool = False
    scope: Scope = "system"
    spaces: frozenset[str] = ALL_SPACES
    spins: bool = False

    @property
    def orders(self) -> bool:
        """Whether other accesses of the thread keep their place at it."""
        return self.acquire or self.release


_FROM_FEW_TO_MANY: tuple[Scope, ...] = get_args(Scope)


def least(one: Scope, other: Scope) -> Scope:
    """The smaller one of two scopes."""
    return min(one, other, key=_FROM_FEW_TO_MANY.index)


def covers(scope: Scope, threads: Scope) -> bool:
    """Whether all of `threads` are in a scope."""
    return least(scope, threads) == threads


UNORDERED = MemoryOrder(scope="thread")
EVERYTHING = MemoryOrder(True, True, True)


def keeps_order(first: MemoryOrder, second: MemoryOrder) -> bool:
    """Whether two ops of a thread, each with what it orders, must stay in this order."""
    return first.acquire or second.release or (first.strong and second.strong)


def unordered(op: Any) -> MemoryOrder:
    """The op orders nothing."""
    return UNORDERED


def both(scope: Scope, spaces: frozenset[str] = ALL_SPACES) -> MemoryOrder:
    """Acquire and release for threads of a scope."""
    return MemoryOrder(True, True, False, scope, spaces)


def acquire(scope: Scope) -> MemoryOrder:
    """What comes after begins after it."""
    return MemoryOrder(acquire=True, scope=scope)


def release(scope: Scope) -> MemoryOrder:
    """What comes before is over before it."""
    return MemoryOrder(release=True, scope=scope)


def relaxed(op: Any) -> MemoryOrder:
    """An atomic access that orders nothing else."""
    return _spinning(op, MemoryOrder(strong=True))


def acquire_release(op: Any) -> MemoryOrder:
    """An atomic that MLIR's own lowering makes acq_rel, of the whole system. Without users of its
    result the thread cannot know whose value it met, so it acquires nothing (PTX ISA: `red` is
    relaxed or a release)."""
    return EVERYTHING if any(map(is_used, op.results)) else MemoryOrder(release=True, strong=True)


def attribute_order(op: Any) -> MemoryOrder:
    """What the ordering, the scope and `volatile` of an LLVM access or fence say."""
    names = ("ordering", "success_ordering", "failure_ordering")
    orderings = {integer_attribute(op, name) for name in names} - {None, 0}
    strong = bool(orderings) or "volatile_" in op.attributes
    scope = _scope_of(op)
    # A single thread's order is seen by signal handlers only.
    ordering = orderings if scope != "thread" else set()
    # A load cannot release (it has a pointer alone), and a store, without a result, cannot acquire.
    loads, stores = len(op.operands) == 1, len(op.operands) > 1 and not len(op.results)
    order = MemoryOrder(
        acquire=bool(ordering & {_ACQUIRE, _BOTH, _SEQUENTIAL}) and not stores,
        release=bool(ordering & {_RELEASE, _BOTH, _SEQUENTIAL}) and not loads,
        strong=strong,
        scope=scope,
    )
    return _spinning(op, order)


def volatile_order(op: Any) -> MemoryOrder:
    """LLVM's intrinsics that copy or fill memory order nothing; volatile ones keep their place."""
    return MemoryOrder(strong=bool(integer_attribute(op, "isVolatile")), scope="thread")


def named_scope(op: Any) -> MemoryOrder:
    """A fence both ways for the threads that its `scope` names, `#nvvm.mem_scope<gpu>`."""
    text = str(op.attributes["scope"]) if "scope" in op.attributes else ""
    return both(_SCOPES.get(text.partition("<")[2].rstrip(">"), "system"))


def _spinning(op: Any, order: MemoryOrder) -> MemoryOrder:
    if order.acquire or not order.strong or not len(op.results):
        return order
    if not any(above.name in WHILE_OPS for above in ancestors(op)):
        return order
    return replace(order, acquire=True, spins=True)


def _scope_of(op: Any) -> Scope:
    if "syncscope" not in op.attributes:
        return "system"
    name = str(ir.StringAttr(op.attributes["syncscope"]).value)
    # "-one-as" orders the address space of the access alone: all of them is more.
    return _SCOPES.get(name.removesuffix("-one-as"), "system")
