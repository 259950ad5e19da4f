"""Which async units share a commit group.

Two may share one only if they have the same stage, touch no common slot with a write (the queue
is FIFO between groups, but says nothing inside one), and nothing in between needs the first.
Groups that the input makes are kept as far as that allows; async units in no group of the
input are grouped with their async neighbours of the same stage (RFC 0077).

    copy a; product; copy b; commit a, b        a group of the input, spread among products
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import Operation, defining_op, walk
from mlir_async_pipe.facts.values.memory_roots import Root, may_alias, root_of
from mlir_async_pipe.pipeliner.dependence.memory_dependences import Dependence
from mlir_async_pipe.pipeliner.plan.units import Unit, Units, is_physical, physical_copy
from mlir_async_pipe.session.diagnostics import Diagnostics, PipelineError
from mlir_async_pipe.vocabulary import accesses, is_pure, queue_of, row_of
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS
from mlir_async_pipe.vocabulary.op_table import ABSTRACT_OPS, TokenOps, token_ops
from mlir_async_pipe.vocabulary.rows import ASYNC_LDS


@dataclass(frozen=True, eq=False)
class Group:
    """One commit group of the kernel.

    `members` in kernel order; the commit stands after the last one, so `position` is that
    unit's. `queue` names the FIFO, `ops` what commits to it and waits; `abstract` groups name it by
    an attribute: their stage.
    """

    number: int
    members: tuple[Unit, ...]
    stage: int
    position: int
    queue: str
    ops: TokenOps

    @property
    def abstract(self) -> bool:
        return self.ops == ABSTRACT_OPS


def form_groups(
    units: Units, dependences: list[Dependence], diagnostics: Diagnostics
) -> tuple[Group, ...]:
    """The groups of a loop, in kernel order; raises PipelineError (async-op-unsupported)."""
    conflicts = {
        frozenset((units.unit_of(d.source.top).position, units.unit_of(d.target.top).position))
        for d in dependences
        if d.distance == 0
    }
    given = groups_of_input(units)
    runs: list[list[Unit]] = []
    between: list[Unit] = []
    for unit in units.units:
        if unit.asynchronous:
            if (
                runs
                and _may_join(unit, runs[-1], given, conflicts)
                and _may_stay_open(runs[-1], between, given)
            ):
                runs[-1].append(unit)
            else:
                runs.append([unit])
            between = []
        elif not unit.pure:
            between.append(unit)
    groups = tuple(_group(number, run) for number, run in enumerate(runs))
    _remark_splits(groups, given, diagnostics)
    return groups


def _may_join(
    unit: Unit, run: list[Unit], given: dict[int, int], conflicts: set[frozenset[int]]
) -> bool:
    last = run[-1]
    return (
        unit.stage == last.stage
        and unit.scoped == last.scoped
        and given.get(unit.position) == given.get(last.position)
        and not any(frozenset((unit.position, member.position)) in conflicts for member in run)
    )


def _may_stay_open(run: list[Unit], between: list[Unit], given: dict[int, int]) -> bool:
    """Whether a group of the input can be committed after units that stand between its copies:
    they touch no memory that the copies touch, so that none of them waits for it."""
    if not between:
        return True
    if given.get(run[-1].position) is None or run[-1].scoped:
        return False
    touched = _roots(run)
    others = _roots(between)
    return (
        touched is not None
        and others is not None
        and not any(may_alias(a, b) for a in touched for b in others)
    )


def _roots(units: list[Unit]) -> set[Root] | None:
    """The memory that units touch; None if that is not known."""
    found: set[Root] = set()
    tops = [op for unit in units for op in unit.ops]
    for op in (inner for top in tops for inner in walk(top)):
        touched = accesses(op)
        if not touched and not is_pure(op) and op.name not in REGION_ROWS:
            return None
        found.update(root_of(access.memory) for access in touched)
    return found


def groups_of_input(units: Units) -> dict[int, int]:
    """Which group of the input each async unit is in: unit position -> number."""
    given: dict[int, int] = {}
    body = units.body
    pending: list[Operation] = []
    number = 0
    for op in body.ops:
        if row_of(op).commits == "group":
            members = [defining_op(operand) for operand in op.operands] or pending
            for member in members:
                if member is not None and member in units.statement_places:
                    given[units.unit_of(member).position] = number
            number += 1
            pending = []
        elif op in units.statement_places and is_physical(op):
            pending.append(op)
    return given


def _group(number: int, run: list[Unit]) -> Group:
    first, members, position = run[0], tuple(run), run[-1].position
    if first.scoped:
        return Group(number, members, first.stage, position, f"queue {first.stage}", ABSTRACT_OPS)
    op = physical_copy(first.ops[0]) or first.ops[0]
    queue = queue_of(op)
    # Marks have no tokens: on the chip the abstract queues are the FIFO of its copies.
    ops = ABSTRACT_OPS if queue == ASYNC_LDS else token_ops(queue)
    if queue is None or ops is None:
        raise PipelineError(
            f"cannot pipeline: '{op.name}' has no token form that groups can be made of",
            code="async-op-unsupported",
            at=op,
            advice="write the copy as nvgpu.device_async_copy; the lowering picks the target's op",
        )
    return Group(number, members, first.stage, position, queue.name, ops)


def _remark_splits(
    groups: tuple[Group, ...], given: dict[int, int], diagnostics: Diagnostics
) -> None:
    made: dict[int, list[Group]] = {}
    for group in groups:
        number = given.get(group.members[0].position)
        if number is not None:
            made.setdefault(number, []).append(group)
    for parts in made.values():
        if len(parts) > 1:
            diagnostics.remark(
                f"a group of the input became {len(parts)}: its copies are not in one stage, or "
                "share memory with each other or with what is between them",
                code="group-split",
                at=parts[0].members[0].ops[0],
                notes=tuple(("another part starts here", p.members[0].ops[0]) for p in parts[1:]),
            )
