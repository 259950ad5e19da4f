"""Who arrives at which mbarriers, and who waits there: a record for each op of each role.

threads   does       op                              place     barriers  arrivals  parities  made
0-127     waits      nvgpu.mbarrier.try_wait.parity  k:30:7    0, 1, 2   1         0, 1      k:12:5
128       announces  nvgpu.mbarrier.arrive.expect_tx k:51:9    0, 1, 2   1         0, 1      k:12:5
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlir_async_pipe.checker.phases.followed_kernel import Followed
from mlir_async_pipe.checker.phases.role_log import Does
from mlir_async_pipe.session.diagnostics import Place


@dataclass(frozen=True)
class RoleUse:
    """What the threads of one role do at an op: with the mbarriers `barriers` of those that are
    initialised at `made` (None: barriers of threads, by number), of which `arrivals` make a phase,
    in phases of some `parities`."""

    function: str
    threads: str
    does: Does
    op: str
    place: Place
    barriers: tuple[int, ...]
    arrivals: int
    parities: tuple[int, ...]
    made: Place | None


def role_uses(function: str, followed: Followed) -> Iterator[RoleUse]:
    """The records of a kernel, by op and role."""
    for step, seen in sorted(followed.roles.items(), key=lambda entry: entry[0]):
        op = followed.ops[step.op].op
        made = None if step.root < 0 else Place.of(followed.ops[step.init].op)
        yield RoleUse(
            function,
            _ranges(step.mask),
            step.does,
            op.name,
            Place.of(op),
            tuple(sorted({number for number, _ in seen})),
            step.needs,
            tuple(sorted({parity for _, parity in seen})),
            made,
        )


def _ranges(mask: int) -> str:
    """0-3, 8 of the bits 100001111."""
    found: list[str] = []
    first = None
    for number in range(mask.bit_length() + 1):
        if mask >> number & 1:
            first = number if first is None else first
        elif first is not None:
            found.append(str(first) if first == number - 1 else f"{first}-{number - 1}")
            first = None
    return ", ".join(found)
