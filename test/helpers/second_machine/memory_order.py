"""What operations order for other threads, by their text.

    release: those who read the location may learn what the thread knows and did
    acquire: it learns what was released where it reads
    strong:  it does not race with other strong accesses

An acquire whose result nobody uses hears nothing: nothing then depends on who came first, so some
other schedule has the opposite order. A fence makes the strong accesses around it release and acquire
(PTX ISA, Memory Consistency Model: release and acquire patterns).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from helpers.second_machine.syntax import NotJudged, Operation

ACCESSES = frozenset("llvm.load llvm.store llvm.atomicrmw llvm.cmpxchg".split())
FENCES = frozenset("llvm.fence nvvm.memory.barrier".split())
_ATOMICS = frozenset({"memref.atomic_rmw", "memref.generic_atomic_rmw"})
# LLVM's numbers: acquire 4, release 5, both 6, sequentially consistent 7.
_ACQUIRES, _RELEASES = frozenset({4, 6, 7}), frozenset({5, 6, 7})
_SCOPES = {
    "": "system", "system": "system", "sys": "system", "device": "device", "gpu": "device",
    "agent": "device", "block": "block", "cta": "block", "workgroup": "block",
}  # fmt: skip


@dataclass(frozen=True)
class Order:
    """What one operation orders, for the threads of its `scope`."""

    acquire: bool = False
    release: bool = False
    strong: bool = False
    scope: str = "system"


PLAIN = Order()


def order_of(op: Operation) -> Order:
    """The order of one operation; barriers and asynchronous operations have meanings of their own."""
    if op.name in _ATOMICS:
        return Order(True, True, True)
    if op.name == "nvvm.memory.barrier":
        return Order(True, True, False, _scope(op.word("scope")))
    if op.name not in ACCESSES and op.name not in FENCES:
        return PLAIN
    names = ("ordering", "success_ordering", "failure_ordering")
    numbers = {op.integer(name) for name in names} - {0}
    scope = op.attributes.get("syncscope", "").strip('"')
    found = Order(
        bool(numbers & _ACQUIRES),
        bool(numbers & _RELEASES),
        bool(numbers) or "volatile_" in op.attributes,
    )
    if scope == "singlethread":
        return replace(found, acquire=False, release=False)
    return replace(found, scope=_scope(scope))


def _scope(text: str) -> str:
    if text not in _SCOPES:
        raise NotJudged(f"the scope {text}")
    return _SCOPES[text]
