"""Fits the versions of a loop into a limit of workgroup memory: fewer versions, tighter waits.

    tile A: 3 or 2 versions, tile B: 3 or 2 versions, 8 KiB each, limit 40 KiB
        A 3, B 2: a wait before B's copy leaves fewer groups in flight
        A 2, B 3: … before A's
        A 2, B 2: both

Of the choices that fit, the one is taken whose strictest wait leaves the most groups in flight,
summed over the queues; then the one whose waits leave the most in all; then the smallest.

Registers are only counted, those of the values that the loop carries from step to step:

    scf.for … iter_args(%acc : vector<2x2xf32>, %older : f16, %slot : index)     4 + 1 + 2

What one step needs besides comes on top, so this is a lower estimate: where it exceeds what a
thread may have, the back end has to spill. Private versioned buffers count too, since they stand
in registers wherever their slots are static. Uniform values of AMD chips may live in scalar
registers instead, and tokens take none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, ancestors, integer_attribute, is_function
from mlir_async_pipe.chips.target import Chip
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan
from mlir_async_pipe.pipeliner.plan.version_rules import BufferUse, fits, taken_distances
from mlir_async_pipe.session.diagnostics import Diagnostics, PipelineError, Place
from mlir_async_pipe.vocabulary.launch_ids import REGISTER_LIMITS, Size, enclosing_launch_size
from mlir_async_pipe.vocabulary.memory_layout import REGISTER_BITS, registers_of_type

# Steps of the pipelines that are tried: each choice of versions is one. 8 buffers with
# two choices each are 256, of 4 steps where a loop has 4 stages.
LARGEST_SEARCH = 16384

Counts = dict[str, list[int]]
"""The counts of the kernel's waits, by queue."""


def fit_into(
    limit: int,
    beside: int,
    loop: Operation,
    plans: tuple[BufferPlan, ...],
    uses: list[list[BufferUse]],
    counts: Callable[[tuple[BufferPlan, ...]], Counts],
    diagnostics: Diagnostics,
) -> tuple[BufferPlan, ...]:
    """The plans with as many versions as fit `limit` bytes of workgroup memory, of which other
    buffers of the function take `beside`.

    `uses` are the accesses of each buffer, `counts` says what the waits of a choice are.
    Raises PipelineError (smem-limit).
    """
    free = limit - beside
    if workgroup_bytes(plans) <= free:
        return plans
    choices = [_choices(plan, own) for plan, own in zip(plans, uses, strict=True)]
    tight = tuple(of_plan[0] for of_plan in choices)
    if workgroup_bytes(tight) > free:
        raise too_large(limit, beside, loop, tight)
    chosen = tight
    steps = 1 + max(use.stage for own in uses for use in own)
    if prod(len(of_plan) for of_plan in choices) * steps <= LARGEST_SEARCH:

        def looseness(choice: tuple[BufferPlan, ...]) -> tuple[int, int, int]:
            """Groups left in flight by the strictest wait of each queue, and by all waits; bytes."""
            left = counts(choice).values()
            return sum(map(min, left)), sum(map(sum, left)), -workgroup_bytes(choice)

        fitting = (choice for choice in product(*choices) if workgroup_bytes(choice) <= free)
        chosen = max(fitting, key=looseness)
    for before, now in zip(plans, chosen, strict=True):
        if now.versions < before.versions:
            diagnostics.remark(
                f"{before.root} gets {now.versions} versions instead of {before.versions} to "
                f"fit {limit} bytes of workgroup memory; a wait stands before its reuse",
                code="waits-tightened",
                at=loop,
            )
    return chosen


def workgroup_bytes(plans: Sequence[BufferPlan]) -> int:
    return sum(p.versions * p.slot_bytes for p in plans if p.root.space == "workgroup")


def _choices(plan: BufferPlan, uses: list[BufferUse]) -> list[BufferPlan]:
    """The plan with every number of versions that is right with an extra wait, fewest first."""
    if plan.root.space != "workgroup":
        return [plan]
    taken = taken_distances(uses, plan.contents)
    fewer = [v for v in range(1, plan.versions) if fits(v, taken)]
    return [*(replace(plan, versions=v, extra_wait=True) for v in fewer), plan]


def too_large(
    limit: int, beside: int, loop: Operation, tight: tuple[BufferPlan, ...]
) -> PipelineError:
    """The error for versions, as few as are possible, that do not fit the limit."""
    one_version = sum(p.slot_bytes for p in tight if p.root.space == "workgroup")
    most = max(0, limit - beside) // one_version if one_version else 0
    others = f", of which other buffers take {beside}" if beside else ""
    few = f"{most} versions of every buffer would fit"
    return PipelineError(
        f"cannot pipeline: the versions need {workgroup_bytes(tight)} bytes of workgroup memory, "
        f"the limit is {limit}{others}",
        code="smem-limit",
        at=loop,
        advice=few if most else "not even one version of every buffer fits",
    )


def registers_of(types: Iterable[Any], buffers: Iterable[BufferPlan]) -> int:
    """Registers of 32 bits a thread for values of these types, and for the private buffers that have versions."""
    private = sum(
        b.versions * b.slot_bytes for b in buffers if b.root.space == "private" and b.versions > 1
    )
    carried = sum(number * registers_of_type(kind) for kind, number in Counter(types).items())
    return carried + -(-private * 8 // REGISTER_BITS)


def register_budget(op: Operation, chip: Chip) -> int:
    """Registers of 32 bits that a thread of the kernel around an op may have: what the chip has for a block
    of this size, and for as many as the kernel wants at a time, and no more than the kernel says."""
    size = enclosing_launch_size(op)
    kernel = next(filter(is_function, ancestors(op)), op)
    most, blocks = (integer_attribute(kernel, name) for name in REGISTER_LIMITS)
    have = chip.registers_of_thread(None if size is None else prod(size) * (blocks or 1))
    return min(have, most or have)


def remark_excess(
    needed: int, budget: int, block: Size | None, place: Place, diagnostics: Diagnostics
) -> None:
    """Say it if a thread needs more registers than its `budget` in a block of this size."""
    if needed <= budget:
        return
    among = "" if block is None else f" in a block of {prod(block)}"
    diagnostics.remark(
        f"the values that the loop carries from step to step take {needed} registers of a thread, "
        f"which has {budget}{among}: the rest will be spilled",
        code="registers-over-budget",
        at=place,
    )
