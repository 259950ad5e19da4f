"""Turns the annotations of a loop into the op form that every later pass reads.

    scf.for … {                                      scf.for … {
      memref.load …                                    memref.load … {stage = 0, order = 0, async}
      memref.store …                          -->      memref.store … {stage = 0, order = 1, async}
      memref.load …                                    memref.load … {stage = 1, order = 2}
    } {stage = [0, 0, 1], async_stages = [0]}        } {wait_at = "consumer"}

The arrays count statements, which clean-ups may change; attributes on the ops survive them. `num_stages` stands for
the schedule that `by_count` makes; `latency` on the ops lets the package `modulo` find one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    ancestors,
    integer_attribute,
    operations,
    set_integer,
    unchanged,
    walk,
    walk_named,
)
from mlir_async_pipe.chips.target import target_for, with_target
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import INDEPENDENT, LoopAnnotations, read_loop
from mlir_async_pipe.facts.loops.statements import Body, numbering, read_body
from mlir_async_pipe.facts.loops.transactions import has_transactions
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings, refusal
from mlir_async_pipe.pipeliner.plan.make_plan import Limits
from mlir_async_pipe.pipeliner.plan.units import SchedulePlace, check_op_form
from mlir_async_pipe.pipeliner.schedule.by_count import Decision, decide_by_count, write
from mlir_async_pipe.pipeliner.schedule.issue_order import Asked, IssueOptions
from mlir_async_pipe.session.diagnostics import AsyncPipeError, InputError, UsageError
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import accesses, use_of
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS
from mlir_async_pipe.vocabulary.memory_names import is_set

# Loops that are no scf.for; an annotation on one must not be silently ignored.
OTHER_LOOPS = frozenset(
    row.op
    for row in REGION_ROWS.values()
    if row.flow in ("for", "while", "parallel") and row.op != "scf.for"
)


@dataclass(frozen=True)
class ScheduleOptions:
    """Options of `async-pipe-schedule`: those of `mlir_async_pipe.pipeline` that decide stages and orders."""

    num_stages: int = 0
    issue: Asked = field(default="auto", metadata={"choices": names.CHOICES[names.ISSUE]})
    max_stages: int = 8
    chip: str = ""
    smem_limit: int = 0
    cost: str = ""


def decide(
    loop: Operation, options: ScheduleOptions, session: Session, around: Surroundings
) -> Decision | None:
    """The schedule that the annotations of a loop ask for; None leaves the loop as it is. Raises InputError with
    the code of what is wrong."""
    found = read_loop(loop)
    body = read_body(loop)
    if found.in_flight is not None and not has_transactions(loop):
        why = f"'{names.IN_FLIGHT}' stands on a loop without tensor copies"
        advice = "it says how many iterations' products run beside tensor copies; take it away"
        raise InputError(why, code="bad-annotation", at=loop, advice=advice)
    if not found.in_loop_form and names.in_op_form(loop):
        check_op_form(body)
        return None
    for statement in body.statements:
        if statement.op.name == names.GROUPING_OP and "no_inline" not in statement.op.attributes:
            session.diagnostics.remark(
                f"statement {statement.number} is an '{names.GROUPING_OP}' that clean-ups will "
                "dissolve, which changes the numbering; give it `no_inline`",
                code="grouping-may-dissolve",
                at=statement.op,
            )
    if names.in_op_form(loop):
        staged = [s.op for s in body.statements if names.STAGE in s.op.attributes]
        why = "the loop and its ops both carry stages"
        notes = tuple((f"'{names.STAGE}' here", op) for op in staged[:1])
        raise InputError(why, code="conflicting-annotations", at=loop, notes=notes)
    if not found.in_loop_form:
        return _decide_by_search(body, options, session, around, units=False)
    if found.schedule is not None:
        return _decide_by_search(body, options, session, around, units=True)
    if found.num_stages is not None:
        asked = IssueOptions(options.issue, options.cost, target_for(options, session))
        stages = options.num_stages or found.num_stages
        limits = Limits.of(options.smem_limit, asked.target)
        return decide_by_count(body, stages, found, session, asked, around, limits)
    return _decide_by_arrays(loop, body, found)


def _decide_by_arrays(loop: Operation, body: Body, found: LoopAnnotations) -> Decision:
    if found.stage is None:
        why = f"the loop has '{names.ORDER}' or '{names.ASYNC_STAGES}' but no '{names.STAGE}'"
        raise InputError(why, code="stage-missing", at=loop)
    count = len(body.statements)
    _check_length(names.STAGE, found.stage, body)
    order = found.order if found.order is not None else tuple(range(count))
    _check_length(names.ORDER, order, body)
    for number, stage in enumerate(found.stage):
        if stage < 0:
            why = f"'{names.STAGE}' of statement {number} is {stage}, expected 0 or more"
            notes = ((f"statement {number}", body.statements[number].op),)
            raise InputError(why, code="negative-stage", at=loop, notes=notes)
    if sorted(order) != list(range(count)):
        why = f"'{names.ORDER}' is {list(order)}, expected a permutation of 0..{count - 1}"
        raise InputError(why, code="order-not-permutation", at=loop)
    asynchronous = found.async_stages or ()
    for stage in asynchronous:
        if asynchronous.count(stage) > 1:
            why = f"'{names.ASYNC_STAGES}' holds {stage} more than once"
            raise InputError(why, code="async-stage-repeated", at=loop)
        if stage not in found.stage:
            why = f"'{names.ASYNC_STAGES}' holds {stage}, but no statement is in that stage"
            advice = f"the stages are {sorted(set(found.stage))}"
            raise InputError(why, code="async-stage-unknown", at=loop, advice=advice)
    slots = tuple(
        SchedulePlace(stage, place, stage in asynchronous)
        for stage, place in zip(found.stage, order, strict=True)
    )
    return Decision(body, slots, found.wait_at or "consumer")


def _check_length(name: str, values: tuple[int, ...], body: Body) -> None:
    if len(values) != len(body.statements):
        count = len(body.statements)
        why = f"'{name}' has {len(values)} entries, but the loop has {count} statements"
        raise InputError(why, code="annotation-length", at=body.loop, notes=numbering(body))


def _decide_by_search(
    body: Body, options: ScheduleOptions, session: Session, around: Surroundings, *, units: bool
) -> Decision | None:
    # Few loops ask for it, and every start of the tool would pay for the scheduler's imports.
    from mlir_async_pipe.facts.costs.cost_model import CostModel
    from mlir_async_pipe.pipeliner.schedule.modulo.problems import (
        schedule_by_latency,
        schedule_by_units,
    )
    from mlir_async_pipe.pipeliner.schedule.modulo.schedule_loop import SearchOptions

    if has_transactions(body.loop) and not units:
        from mlir_async_pipe.pipeliner.plan.ring_plan import bad_stages

        raise bad_stages("no schedule is searched by latencies", body)
    target = target_for(options, session)
    if options.max_stages < 1:
        why = f"option 'max-stages' is {options.max_stages}, expected 1 or more"
        raise UsageError(why, code="bad-option-value")
    model = CostModel.parse(options.cost, target)
    asked = SearchOptions(options.max_stages, Limits.of(options.smem_limit, target), model, target)
    if has_transactions(body.loop):
        from mlir_async_pipe.pipeliner.schedule.modulo.rings import schedule_ring

        return schedule_ring(body, asked, session, around)
    schedule = schedule_by_units if units else schedule_by_latency
    return schedule(body, asked, session, around)


@register("async-pipe-schedule", "turn loop annotations into the op form", ScheduleOptions)
def run(module: Any, options: ScheduleOptions, session: Session) -> None:
    """Decide every annotated loop, then write all decisions, inner loops first."""
    session = with_target(options, session)
    found = walk_named(module, lambda name: name == "scf.for" or name in OTHER_LOOPS)
    for op in found:
        if op.name == "scf.for":
            # A loop whose only annotation is misspelt is not among those that ask.
            names.check_names(op, names.KNOWN_NAMES)
        elif names.is_requested(op):
            raise InputError(
                f"only 'scf.for' can be pipelined, this is '{op.name}'",
                code="not-a-loop",
                at=op,
                advice="turn it into 'scf.for' first (--lower-affine, --scf-parallel-for-to-nested-fors, "
                "--scf-forall-to-for), and annotate that",
            )
    loops = [op for op in found if op.name == "scf.for" and names.is_requested(op)]
    target = target_for(options, session)
    around = Surroundings(None if target is None else target.chip)
    decisions, single = [], []
    with unchanged():
        for loop in loops:
            try:
                decision = decide(loop, options, session, around)
            except AsyncPipeError as error:
                raise refusal(error, loop, around) from error
            if decision is not None:
                decisions.append(decision)
            elif not names.in_op_form(loop):
                single.append(loop)
    for decision in reversed(decisions):
        write(decision)
    for loop in single:
        names.remove(loop, names.LOOP_NAMES)
        for op in operations(loop.regions[0].blocks[0]):
            names.keep_cycles(op)
    mark_independent(loops, module)


# Independent accesses ------------------------------------------------------------------------
#
# Carries the author's `async_pipe.independent` from a loop to its accesses.
#
#     scf.for { memref.load; memref.store } {async_pipe.independent}
#       -->  … memref.load {async_pipe.independent = 1 : i64} …     (one number a loop)
#
# The loop goes when it is expanded, or is written once for each role. The number on its accesses is what the
# checker goes by where it cannot tell whether two accesses of one loop conflict. A proven conflict stays one.


def mark_independent(loops: list[Operation], module: Any) -> None:
    """Number the accesses of asserted loops, outer ones first in `loops`, and of those around them."""
    around = (above for loop in loops for above in (*reversed(list(ancestors(loop))), loop))
    found = [above for above in dict.fromkeys(around) if above.name == "scf.for"]
    loops = [above for above in found if is_set(above.attributes, INDEPENDENT)]
    if not loops:
        return
    taken = max(integer_attribute(op, INDEPENDENT) or 0 for op in walk(module))
    # Inner loops first: what an outer loop asserts holds for all that stands in it.
    for number, loop in enumerate(reversed(loops), taken + 1):
        for op in list(walk(loop)):
            if op != loop and (accesses(op) or use_of(op) == "copy"):
                set_integer(op, INDEPENDENT, number, 64)
