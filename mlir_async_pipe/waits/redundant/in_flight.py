"""Upper bounds of the groups in flight: the max-plus side of the algebra.

Every piece of code maps the groups in flight x before it to at most

    min(max(x + grow, floor), cap)

commit: x + 1.  wait N: min(x, N).  These functions are closed under composition; where paths
join, the larger parameters bound both. A loop with a positive `grow` stays below its cap.
A wait that is met with no more than N groups in flight does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from mlir_async_pipe.bindings.raw_ops import is_kernel
from mlir_async_pipe.facts.flow.items import Item
from mlir_async_pipe.facts.flow.solver import Domain

INFINITE = 1 << 60
ROUNDS = 80
"""Times that a block's bound may rise (a wait can leave 63 in flight) before it is infinite."""
FUNCTION_ROUNDS = 8
"""The same for the parameters of a function: `grow` rises in every loop with a commit."""


class Transfer(NamedTuple):
    """x -> min(max(x + grow, floor), cap), in groups."""

    grow: int = 0
    floor: int = -INFINITE
    cap: int = INFINITE

    def then(self, later: Transfer) -> Transfer:
        """First this, then `later`."""
        if NEVER in (self, later):
            return NEVER
        return Transfer(
            _plus(self.grow, later.grow),
            max(_plus(self.floor, later.grow), later.floor),
            min(max(_plus(self.cap, later.grow), later.floor), later.cap),
        )

    def join(self, other: Transfer) -> Transfer:
        return Transfer(
            max(self.grow, other.grow), max(self.floor, other.floor), max(self.cap, other.cap)
        )


UNCHANGED = Transfer()
COMMIT = Transfer(grow=1)
ANYTHING = Transfer(grow=INFINITE)
NEVER = Transfer(-INFINITE, -INFINITE, -INFINITE)


def known(groups: int) -> Transfer:
    """What leaves this bound, whatever is in flight before."""
    return Transfer(INFINITE, INFINITE, groups)


FOREIGN = known(INFINITE)


@dataclass(frozen=True)
class InFlight(Domain[Transfer]):
    """The domain: what paths do to the groups in flight, where `over` says what items do.

    What comes to a point is `known`, and its `cap` the bound: 0 at the start of a kernel,
    `INFINITE` in a function that others call.
    """

    over: Callable[[Item], Transfer]
    unit: Transfer = UNCHANGED
    never: Transfer = NEVER
    outside: Transfer = FOREIGN

    def then(self, first: Transfer, later: Transfer) -> Transfer:
        """The functions one after the other."""
        return first.then(later)

    def join(self, first: Transfer, second: Transfer) -> Transfer:
        """The larger parameters bound both."""
        return first.join(second)

    def star(self, body: Transfer, most: int | None = None) -> Transfer:
        """Any number of times: x, or what one of the iterations leaves."""
        if most == 0:
            return UNCHANGED
        return Transfer(floor=body.cap if body.grow > 0 else min(body.floor, body.cap))

    def widen(self, before: Transfer, now: Transfer, visits: int, blocks: int) -> Transfer:
        """What has risen often enough has no bound."""
        if visits < (ROUNDS if now.floor >= INFINITE else FUNCTION_ROUNDS):
            return now
        return Transfer(
            INFINITE if now.grow > before.grow else now.grow,
            INFINITE if now.floor > before.floor else now.floor,
            INFINITE if now.cap > before.cap else now.cap,
        )


# A thread starts here, with nothing in flight.
KERNEL_OP = "gpu.launch"


def starts_thread(op: Any) -> bool:
    """Whether an op is the start of a GPU thread."""
    return op.name == KERNEL_OP or is_kernel(op)


def _plus(left: int, right: int) -> int:
    if left >= INFINITE or right >= INFINITE:
        return INFINITE
    return max(-INFINITE, min(INFINITE, left + right))
