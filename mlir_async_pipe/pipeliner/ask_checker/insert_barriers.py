"""Inserts the thread barriers that a kernel lacks, on IR that anybody wrote.

    nvgpu.device_async_wait %token              nvgpu.device_async_wait %token
    memref.load %tile[%opposite]         -->    gpu.barrier memfence [workgroup]
                                                memref.load %tile[%opposite]

The checker says which pairs of accesses meet from different threads without a barrier; one is put
before the first such access, and the checker is asked again, until no pair is left. The expander places its own barriers from the schedule, so that this pass finds nothing
to do after it. A barrier never stands where threads may disagree on control: it moves out
before the divergent op, and where that does not separate the pair the kernel is
refused (`divergent-barrier`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    Operation,
    ancestors,
    before,
    enclosing,
    walk,
    walk_named,
)
from mlir_async_pipe.checker.kernel import KernelVerdict, check_kernel, surroundings
from mlir_async_pipe.checker.promises import CheckOptions
from mlir_async_pipe.checker.selection import kernels
from mlir_async_pipe.chips.target import ChipOptions, target_for
from mlir_async_pipe.facts.loops.annotations import BARRIERS
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.session.diagnostics import HazardError, Place
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.barriers import write_fence
from mlir_async_pipe.vocabulary.control_flow import LOOP_OPS, SCOPE

BARRIER_CAUSES = ("not-visible", "missing-barrier")


@dataclass(frozen=True)
class BarrierOptions(ChipOptions):
    """Options of `async-pipe-barriers`. `asked`: only in functions that say `async_pipe.barriers`."""

    assume_noalias_arguments: bool = False
    asked: bool = False


@dataclass(frozen=True)
class BarrierRecord:
    """One inserted barrier: before what, and because of which access."""

    place: Place
    op: str
    other_place: Place
    other_op: str


@register("async-pipe-barriers", "insert the thread barriers that are missing", BarrierOptions)
def run(module: Any, options: BarrierOptions, session: Session) -> None:
    """Insert barriers kernel by kernel until the checker asks for no more."""
    asking = [op for op in walk_named(module, KERNEL_OPS.__contains__) if BARRIERS in op.attributes]
    if options.asked and not asking:
        return
    target = target_for(options, session)
    found = [kernel for kernel in kernels(module) if not options.asked or kernel in asking]
    around = surroundings(module, found)
    promised = CheckOptions(assume_noalias_arguments=options.assume_noalias_arguments)
    for kernel in found:
        guarded: set[Operation] = set()
        while True:
            outcome = check_kernel(kernel, around, target, promised)
            # Pairs of accesses that need a barrier between them; the textually first one gets it.
            missing = [
                (outcome.sites[finding.later], outcome.sites[finding.earlier])
                for finding in outcome.findings
                if finding.cause in BARRIER_CAUSES
            ]
            if not missing:
                _report_unfollowed(outcome, session)
                break
            order = {op: number for number, op in enumerate(walk(kernel))}
            first = min(missing, key=lambda pair: order.get(pair[0].op, len(order)))
            later, earlier = (site.op for site in first)
            place = _uniform_place(later)
            outer = None if place is None else _uniform_place(_outside_of_loops(place, earlier))
            if outer is not None and outer not in guarded:
                place = outer
            if place is None or place in guarded:
                said = f"'{later.name}' needs a barrier before it, but threads may disagree on whether they get there"
                notes = (("because of what this does in another thread", earlier),)
                raise HazardError(said, code="divergent-barrier", at=later, notes=notes)
            guarded.add(place)
            session.record(
                "barriers",
                BarrierRecord(Place.of(later), later.name, Place.of(earlier), earlier.name),
            )
            spaces = {site.space for pair in missing for site in pair}
            write_fence(spaces, before(place), place.location)
    for op in asking:
        del op.attributes[BARRIERS]


def _report_unfollowed(outcome: KernelVerdict, session: Session) -> None:
    """Where control is not followed nobody knows which barriers are missing."""
    for finding in outcome.findings:
        if finding.cause == "unfollowed":
            op = outcome.sites[finding.later].op
            said = f"cannot tell whether '{op.name}' needs a barrier ({finding.reason})"
            session.diagnostics.warning(said, code="unknown-hazard", at=op)


def _uniform_place(op: Operation) -> Operation | None:
    """`op`, or what stands around it and may not hold a barrier: a barrier goes before
    an op whose regions threads run differently, and before an async scope. None where
    threads part between blocks: before such a branch it orders too little."""
    uniformity = Uniformity()
    place = op
    while True:
        around = enclosing(place, (SCOPE,)) or uniformity.divergent_control(place)
        if around is None:
            return place
        if len(list(around.successors)):
            return None
        place = around


def _outside_of_loops(op: Operation, earlier: Operation) -> Operation:
    """The outermost loop around `op` in which nothing has to be waited for: neither the other
    end nor a wait stands in it. A barrier before it serves all iterations; or `op` itself.

    wait                               wait
    scf.for %j { load %tile[%j] } -->  barrier
                                       scf.for %j { load %tile[%j] }
    """
    place = op
    for around in ancestors(op):
        inside = list(walk(around))
        rows = map(row_of, inside)
        synchronises = any(row.wait is not None or row.barrier is not None for row in rows)
        if around.name not in LOOP_OPS or earlier in inside or synchronises:
            return place
        place = around
    return place
