"""Everything that is decided about a loop before the first edit.

`make_plan` either returns a complete plan or raises a located PipelineError; nothing after
it can fail. The steps, in order: units, dependences through values, buffers and their
privatisation, dependences through memory, legality, groups, versions, wait needs, barrier
pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import mlir_async_pipe.annotations as names
from mlir_async_pipe.affine import Arithmetic
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.buffers import Root
from mlir_async_pipe.dependence.distance import LoopIndex
from mlir_async_pipe.dependence.memory import Assertions, Dependence, memory_dependences
from mlir_async_pipe.dependence.regions import Region, regions_of
from mlir_async_pipe.diagnostics import Diagnostics, PipelineError
from mlir_async_pipe.expand.barrier_pairs import BarrierPair, barrier_pairs
from mlir_async_pipe.expand.buffers import BufferPlan, Obstacle, plan_buffers, private_buffers
from mlir_async_pipe.expand.groups import Group, form_groups
from mlir_async_pipe.expand.guards import check_guardable
from mlir_async_pipe.expand.surroundings import Surroundings
from mlir_async_pipe.expand.units import Unit, Units
from mlir_async_pipe.ir_helpers import Operation, Value, captured, constant_value
from mlir_async_pipe.statements import read_body


@dataclass(frozen=True)
class Need:
    """Before `unit` runs for iteration k, `group` of iteration k - distance must be over."""

    unit: Unit
    group: Group
    distance: int

    @property
    def lag(self) -> int:
        """Kernel steps between the commit of the group and this unit."""
        return self.unit.stage + self.distance - self.group.stage


@dataclass(frozen=True)
class Plan:
    """The pipelined form of one loop, decided but not yet written.

    `trip_count` is None if it is not constant; `last_stage` = S - 1 prologue steps run
    before the kernel.
    """

    loop: Operation
    units: Units
    groups: tuple[Group, ...]
    buffers: tuple[BufferPlan, ...]
    needs: tuple[Need, ...]
    barriers: tuple[BarrierPair, ...]
    wait_at: Literal["consumer", "iteration"]
    epilogue: Literal["peel", "predicate"]
    short_trip: Literal["version", "predicate", "assume"]
    trip_count: int | None
    last_stage: int
    orders_before: bool
    orders_behind: bool

    @property
    def peeled_epilogue(self) -> int:
        """How many steps stand behind the kernel; a predicated kernel runs them itself."""
        return 0 if self.epilogue == "predicate" else self.last_stage


@dataclass(frozen=True)
class Limits:
    """What the user and the chip allow: bytes of workgroup memory (None: no limit)."""

    workgroup_bytes: int | None = None
    noalias_arguments: bool = False


def make_plan(
    loop: Operation, limits: Limits, diagnostics: Diagnostics, around: Surroundings
) -> Plan | None:
    """Decide everything; None (with a remark) if the loop is better left alone.

    Raises PipelineError with the code of what cannot be done or proven.
    """
    annotations = names.read_loop(loop)
    _check_inner_loops(loop)
    units = Units(read_body(loop))
    trips = static_trip_count(loop)
    if trips is not None and trips < units.last_stage and annotations.short_trip != "predicate":
        diagnostics.remark(
            f"the loop runs {trips} times, fewer than the {units.last_stage} iterations that "
            "the pipeline keeps in flight; it stays as it is",
            code="short-trip",
            at=loop,
        )
        return None
    _check_values(units)
    if "predicate" in (annotations.epilogue, annotations.short_trip):
        check_guardable(units)
    arithmetic = Arithmetic(around.launch_size(loop))
    index = LoopIndex(loop, arithmetic)
    regions = regions_of([s.op for s in units.body.statements], arithmetic)
    regions = [_with_unit_asynchrony(region, units) for region in regions]
    assertions = Assertions(annotations.independent, limits.noalias_arguments)
    private, unproven = private_buffers(loop, regions, around, arithmetic.block_size)
    dependences = memory_dependences(regions, private, index, assertions)
    _check_memory(dependences, unproven, units)
    groups = form_groups(units, dependences, diagnostics)
    group_of = {member.position: group for group in groups for member in group.members}
    needs = _needs_of(dependences, units, group_of)
    _check_groups_precede(needs)
    wait_at = annotations.wait_at or "consumer"
    buffers = plan_buffers(
        loop,
        regions,
        private,
        units,
        index,
        group_of,
        needs,
        wait_at,
        limits.workgroup_bytes,
        diagnostics,
    )
    needs += _reuse_needs(buffers, units, group_of)
    pairs, before, behind = barrier_pairs(units, regions, buffers, index, private, around)
    return Plan(
        loop,
        units,
        groups,
        buffers,
        tuple(dict.fromkeys(needs)),
        pairs,
        wait_at,
        # Without a guarantee of S-1 iterations an epilogue could not be peeled.
        "predicate" if annotations.short_trip == "predicate" else annotations.epilogue,
        annotations.short_trip,
        trips,
        units.last_stage,
        before,
        behind,
    )


def _check_inner_loops(loop: Operation) -> None:
    if any(
        op.name == "scf.for" and names.is_requested(op) for op in names.walk(loop) if op != loop
    ):
        raise PipelineError(
            "cannot pipeline: a loop inside still waits to be pipelined itself",
            code="inner-loop-first",
            at=loop,
        )


def static_trip_count(loop: Operation) -> int | None:
    """trips = lb < ub ? (ub - lb - 1) divui step + 1 : 0, None if not constant."""
    bounds = [constant_value(loop.operands[i]) for i in range(3)]
    if any(bound is None for bound in bounds):
        return None
    lower, upper, step = (int(bound) for bound in bounds if bound is not None)
    if "unsignedCmp" in loop.attributes:
        bits = 64 if str(loop.operands[0].type) == "index" else loop_width(loop)
        lower, upper, step = (value % (1 << bits) for value in (lower, upper, step))
    if step <= 0:
        raise PipelineError(
            f"cannot pipeline: the step is {step}, expected 1 or more", code="bad-step", at=loop
        )
    return (upper - lower - 1) // step + 1 if lower < upper else 0


def loop_width(loop: Operation) -> int:
    """Bits of the induction variable; index counts as 64."""
    kind = loop.operands[0].type
    return 64 if str(kind) == "index" else int(ir.IntegerType(kind).width)


def _with_unit_asynchrony(region: Region, units: Units) -> Region:
    """An access is async if its unit is: a scope makes all that is inside so."""
    from dataclasses import replace

    if units.unit_of(region.top).asynchronous == region.asynchronous:
        return region
    return replace(region, asynchronous=units.unit_of(region.top).asynchronous)


def chain_of(value: Value, units: Units) -> tuple[Value, tuple[int, ...]] | None:
    """Follow a loop-carried argument through yields to the value that is made in the body.

    Returns that value and the iter_args on the way, one an iteration of distance; None if
    the chain never ends (arguments that only swap) or ends outside the loop.
    """
    block = units.body.block
    yielded = list(units.body.terminator.operands)
    chain: list[int] = []
    current = value
    while isinstance(current.owner, ir.Block) and current.owner == block:
        number = ir.BlockArgument(current).arg_number - 1
        if number < 0 or number in chain:
            return None
        chain.append(number)
        current = yielded[number]
    owner = current.owner
    if isinstance(owner, ir.Block) or owner.operation.block != block:
        return None
    return current, tuple(chain)


def _check_values(units: Units) -> None:
    """Every value is made before it is used: (stage, place) of both ends, and distance."""
    for unit in units.units:
        inside = {result for op in unit.ops for result in op.results}
        for op in unit.ops:
            for value in captured(op):
                if value not in inside:
                    _check_value(value, op, unit, units)


def _check_value(value: Value, op: Operation, unit: Unit, units: Units) -> None:
    found = chain_of(value, units)
    if found is None:
        return
    made, chain = found
    producer = units.producer(made, unit.stage)
    if producer is None:
        return
    lag = unit.stage + len(chain) - producer.stage
    if lag < 0 or (lag == 0 and producer.position >= unit.position):
        distance = f"{len(chain)} iterations later " if chain else ""
        raise PipelineError(
            f"cannot pipeline: '{op.name}' in stage {unit.stage} {distance}uses a value that is "
            f"made later in the pipeline, in stage {producer.stage}",
            code="dependence-violated",
            at=op,
            notes=(("the value is made here", made.owner.operation),),
        )


def _check_memory(
    dependences: list[Dependence], unproven: dict[Any, Obstacle], units: Units
) -> None:
    """T(source, k) < T(target, k + distance) for every dependence."""
    for dependence in dependences:
        source = units.unit_of(dependence.source.top)
        target = units.unit_of(dependence.target.top)
        lag = target.stage + dependence.distance - source.stage
        if lag > 0 or (lag == 0 and source.position < target.position):
            continue
        if source.position == target.position and dependence.distance == 0:
            continue
        raise _memory_error(dependence, source, target, unproven)


_VERB = {"flow": ("reads", "writes"), "anti": ("writes", "reads"), "output": ("writes", "writes")}


def _memory_error(
    dependence: Dependence, source: Unit, target: Unit, unproven: dict[Any, Obstacle]
) -> PipelineError:
    does, did = _VERB[dependence.kind]
    when = (
        "in the same iteration"
        if dependence.distance == 0
        else f"{dependence.distance} iterations before"
    )
    root = dependence.source.root
    obstacle = None if root is None else unproven.get(root.identity)
    if obstacle is not None and root is not None:
        return _version_error(obstacle, dependence, did, root)
    may = "" if dependence.proven else "may "
    code = "dependence-violated" if dependence.proven else "unproven-independence"
    notes: list[tuple[str, Any]] = [
        (
            f"the '{dependence.source.op.name}' that {may}{did[:-1] if may else did} it",
            dependence.source.op,
        )
    ]
    if not dependence.proven and dependence.distance > 0:
        notes.append(
            (
                "assert `async_pipe.independent` on this loop if they never overlap",
                source.ops[0].parent,
            )
        )
    return PipelineError(
        f"cannot pipeline: '{dependence.target.op.name}' in stage {target.stage} "
        f"{may}{does[:-1] if may else does} what '{dependence.source.op.name}' in stage "
        f"{source.stage} {did} {when}, and would run before it",
        code=code,
        at=dependence.target.op,
        notes=tuple(notes),
    )


def _version_error(
    obstacle: Obstacle, dependence: Dependence, did: str, root: Root
) -> PipelineError:
    source = dependence.source.op
    if obstacle.outside:
        return PipelineError(
            "cannot pipeline: the buffer needs a version an iteration, but it is read outside of "
            "the loop too, where only one version can be seen",
            code="escapes",
            at=obstacle.op,
            notes=(
                (f"this '{source.name}' {did} it", source),
                ("give the loop a buffer of its own", root.value),
            ),
        )
    return PipelineError(
        f"cannot pipeline: the buffer needs a version an iteration, but '{obstacle.op.name}' may "
        "read what its iteration did not write",
        code="not-privatisable",
        at=obstacle.op,
        notes=(
            (f"this '{source.name}' {did} it", source),
            (
                "if every iteration overwrites what it reads, say so with "
                "`async_pipe.private` on the allocation",
                root.value,
            ),
        ),
    )


def _needs_of(
    dependences: list[Dependence], units: Units, group_of: dict[int, Group]
) -> list[Need]:
    """A wait for each dependence whose source is async and in another unit or iteration."""
    needs = []
    for dependence in dependences:
        source = units.unit_of(dependence.source.top)
        target = units.unit_of(dependence.target.top)
        if not source.asynchronous:
            continue
        if source.position == target.position and dependence.distance == 0:
            continue
        needs.append(Need(target, group_of[source.position], dependence.distance))
    return list(dict.fromkeys(needs))


def _check_groups_precede(needs: list[Need]) -> None:
    for need in needs:
        if need.lag < 0 or (need.lag == 0 and need.group.position >= need.unit.position):
            raise PipelineError(
                f"cannot pipeline: '{need.unit.ops[0].name}' needs an async group that is "
                "committed only later in the same step",
                code="wait-before-commit",
                at=need.unit.ops[0],
                notes=(("the last op of the group", need.group.members[-1].ops[-1]),),
            )


def _reuse_needs(
    buffers: tuple[BufferPlan, ...], units: Units, group_of: dict[int, Group]
) -> list[Need]:
    """Async accesses of a slot must be over before the slot is used again V iterations later."""
    needs = []
    for buffer in buffers:
        tops = [units.unit_of(region.top) for region in buffer.regions]
        for first, second in sorted(buffer.meeting):
            source, target = tops[first], tops[second]
            if source.asynchronous:
                needs.append(Need(target, group_of[source.position], buffer.versions))
    return list(dict.fromkeys(needs))
