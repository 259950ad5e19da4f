"""Drops the waits after pipelined loops that nobody needs.

    scf.for { … copy -> %row[%i] }                      scf.for { … copy -> %row[%i] }
    wait %last   {async_pipe.drain}             -->
    scf.for { copy -> %b; wait; use %b, %row }          scf.for { copy -> %b; wait; use %b, %row }

    wait %g                                             wait %g
    scf.for { copy; commit; wait %g; … }       -->      scf.for { copy; commit; … }

The expander waits after a loop for the groups that the loop leaves in flight. Where a later
wait of the same queue retires them before anybody touches their memory, the next loop may begin
while they are still in flight. A wait for a token that was waited for on every path to it retires
only what was issued since; it is tried where all of the kernel is proven.

By a flag that is released after a wait other threads learn that what the wait retired is over. So waits
of kernels that order memory by flags or fences stay.

Waits are tried one by one. A wait is dropped if the checker finds nothing new without it, and no copy
is left in flight at the kernel's end. Only in kernels, whose memory no caller sees, and only where every
op was followed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    attributes_of,
    before,
    create,
    is_kernel,
    operations,
    parent,
    walk_named,
)
from mlir_async_pipe.checker.kernel import (
    KernelVerdict,
    ModuleKernels,
    check_kernel,
    surroundings,
)
from mlir_async_pipe.checker.selection import kernels, releases_flags
from mlir_async_pipe.chips.target import ChipOptions, target_for
from mlir_async_pipe.facts.loops.annotations import DRAIN, remove
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import is_wait_name, row_of


@dataclass(frozen=True)
class DrainRecord:
    """A wait that was dropped: after a loop, or for what was waited for before."""

    place: Place


@register("async-pipe-drop-drains", "drop waits after loops that nobody needs", ChipOptions)
def run(module: Any, options: ChipOptions, session: Session) -> None:
    """Try every marked wait, and those for what was waited for before; the marks go."""
    target = target_for(options, session)
    if not _candidates(module):
        return
    found = [kernel for kernel in kernels(module) if _candidates(kernel)]
    around = surroundings(module, found) if found else None
    for kernel in found:
        drains = [(op, DRAIN in op.attributes) for op in _candidates(kernel)]
        for op, _ in drains:
            remove(op, (DRAIN,))
        if around is None or not is_kernel(kernel) or releases_flags(kernel, around.callees):
            continue
        known = check_kernel(kernel, around, target, each_unfinished=True)
        if any(finding.cause == "unfollowed" for finding in known.findings):
            continue
        for drain, marked in drains:
            # A wait of the user's may serve accesses of which nothing is proven either way.
            if not marked and _hazards(known):
                continue
            place = Place.of(drain)
            if _dropped(drain, kernel, around, target, known):
                session.record("drains", DrainRecord(place))


def _candidates(kernel: Operation) -> list[Operation]:
    waited: dict[Value, list[Operation]] = {}
    found = []
    for op in walk_named(kernel, is_wait_name):
        row = row_of(op)
        by_token = row.wait is not None and row.wait.form == "token"
        tokens = list(op.operands) if by_token else []
        if DRAIN in op.attributes or (
            len(tokens) == 1 and any(_stands_before(w, op) for w in waited.get(tokens[0], ()))
        ):
            found.append(op)
        elif len(tokens) == 1:
            waited.setdefault(tokens[0], []).append(op)
    return found


def _stands_before(first: Operation, later: Operation) -> bool:
    """Whether an op that comes first in the text stands in the block of a later one, or around it."""
    inside = (op for op in (later, *ancestors(later)) if parent(op) is not None)
    return any(op.block == first.block for op in inside)


def _dropped(
    drain: Operation, kernel: Operation, around: ModuleKernels, target: Any, known: KernelVerdict
) -> bool:
    """Erase the wait if nothing new is found without it, else leave it as it was."""
    siblings = operations(drain.block)
    following = siblings[siblings.index(drain) + 1]
    name, operands, location = drain.name, list(drain.operands), drain.location
    attributes = attributes_of(drain)
    drain.erase()
    without = check_kernel(kernel, around, target, each_unfinished=True)
    if _hazards(without) <= _hazards(known) and without.summary.unknown <= known.summary.unknown:
        return True
    create(name, operands, (), attributes, ip=before(following), loc=location)
    return False


def _hazards(outcome: KernelVerdict) -> set[tuple[Any, ...]]:
    found: set[tuple[Any, ...]] = {(f.later, f.earlier, f.cause) for f in outcome.findings}
    return found | {(site,) for site in outcome.unfinished}
