"""Products of tensor memory of an iteration, and the mbarrier that says when they are over.

    scf.if %leader {
      nvvm.tcgen05.mma %sums, %a, %b, …
      %at = nvgpu.mbarrier.get %done[%c0]
      %to = llvm.inttoptr %at
      nvvm.tcgen05.commit %to                                    one arrival, when all are over
    }
    nvgpu.mbarrier.try_wait.parity %done[%c0], %phase, %ticks    the wait

What a count of groups is to products of warpgroups, a phase is to these: where p iterations may be in
flight, the wait of iteration t is for the commit of t - p.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    operations,
    users,
    walk,
)
from mlir_async_pipe.facts.loops.mbarrier_operands import handle_of, mbarrier_named
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import tensor_use, use_of


@dataclass(frozen=True)
class Completion:
    """What completes one phase of mbarrier `number` of the group `barriers` in each iteration:
    `commit`, whose address `get` names, for all products of its thread."""

    barriers: Value
    number: int
    commit: Operation
    get: Operation
    wait: Operation

    @property
    def ops(self) -> tuple[Operation, ...]:
        return (self.get, self.commit, self.wait)


def completions_of(loop: Operation) -> tuple[Completion, ...]:
    """The commits of a loop; raises PipelineError (commit-incomplete)."""
    commits = [op for op in walk(loop) if use_of(op) == "commit"]
    made = tuple(_completion(op, loop) for op in commits)
    keys = [(c.barriers, c.number) for c in made]
    for number, completion in enumerate(made):
        if keys.index(keys[number]) != number:
            raise _incomplete(
                completion.commit, "another commit of the iteration arrives there too"
            )
    return made


def hindrance(loop: Operation) -> Operation | None:
    """The op in a loop that touches tensor memory and is no product, None if there is none."""
    kinds = ("load", "store", "copy", "shift", "alloc", "dealloc")
    return next((op for op in walk(loop) if tensor_use(op) in kinds), None)


def _completion(commit: Operation, loop: Operation) -> Completion:
    top = operations(loop.regions[0].blocks[0])
    if len(commit.operands) > 1:
        raise _incomplete(commit, "it arrives in other blocks of a cluster")
    get, found = handle_of(commit), mbarrier_named(commit)
    if get is None or found is None:
        raise _incomplete(commit, "its mbarrier is not a group's with a constant number")
    pointer = commit.operands[0]
    if len(users(pointer)) > 1 or len(users(get.results[0])) > 1:
        raise _incomplete(commit, "the address of its mbarrier goes elsewhere too")
    above = [op for op in (commit, *ancestors(commit)) if op in top]
    between = [op for op in ancestors(commit) if op != loop and loop in ancestors(op)]
    if any(op.name != "scf.if" for op in between):
        raise _incomplete(commit, "it may arrive more than once in an iteration")
    waits = [op for op in top if use_of(op) == "wait" and mbarrier_named(op) == found]
    if len(waits) != 1 or top.index(waits[0]) < top.index(above[0]):
        raise _incomplete(commit, "the iteration has no single try_wait.parity for it after it")
    return Completion(*found, commit, get, waits[0])


def _incomplete(op: Operation, why: str) -> PipelineError:
    return PipelineError(
        f"cannot pipeline: '{op.name}' completes products in a way that cannot be moved: {why}",
        code="commit-incomplete",
        at=op,
        advice="write each iteration as if it were alone: products and one commit by one thread, on "
        "nvgpu.mbarrier.get of an mbarrier of their own, then try_wait.parity by all "
        "(docs/blackwell.md)",
    )
