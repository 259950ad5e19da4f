"""Whether a schedule keeps the order of everything that depends on each other.

    T(j, k) < T(j', k + d)   for every dependence of statement j' on statement j at distance d,

where T(j, k) = (k + stage_j, order_j). A violation is a located refusal that names both ends.

A predicated pipeline needs steps that can be made conditional: copies that can read nothing, and
statements whose results have a neutral value.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.facts.values.memory_roots import GIVEN, Root
from mlir_async_pipe.pipeliner.dependence.memory_dependences import Dependence
from mlir_async_pipe.pipeliner.dependence.privatise import Obstacle
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion
from mlir_async_pipe.pipeliner.plan.units import Unit, Units, is_physical
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import opaque_of, row_of
from mlir_async_pipe.vocabulary.rows import EVERYTHING


def check_values(units: Units) -> None:
    """Every value is made before it is used: (stage, place) of both ends, and distance."""
    table = units.body.table
    for unit in units.units:
        for op in unit.numbers:
            for made, distance in table.sources[op]:
                if made not in unit.numbers:
                    _check_value(made, distance, op, unit, units)


def _check_value(made: int, distance: int, op: int, unit: Unit, units: Units) -> None:
    """`distance` is that between the iterations of op `op` and of its value's maker."""
    producer = units.maker(made, unit.stage)
    if producer is None:
        return
    lag = unit.stage + distance - producer.stage
    if lag < 0 or (lag == 0 and producer.position >= unit.position):
        ops = units.body.table.ops
        later = f"{distance} iterations later " if distance else ""
        raise PipelineError(
            f"cannot pipeline: '{ops[op].name}' in stage {unit.stage} {later}uses a value that is "
            f"made later in the pipeline, in stage {producer.stage}",
            code="dependence-violated",
            at=ops[op],
            notes=(("the value is made here", ops[made]),),
        )


def check_memory(
    dependences: list[Dependence], unproven: dict[Any, Obstacle], units: Units
) -> None:
    """T(source, k) < T(target, k + distance) for every dependence."""
    for dependence in dependences:
        source = units.unit_of(dependence.source.top)
        target = units.unit_of(dependence.target.top)
        lag = target.stage + dependence.distance - source.stage
        same = source.position == target.position and dependence.distance == 0
        if same or lag > 0 or (lag == 0 and source.position < target.position):
            continue
        if dependence.kind == "order":
            raise _order_error(dependence, source, target)
        raise _memory_error(dependence, source, target, unproven)


APART = (
    "give arguments `llvm.noalias`, or the option assume-noalias-arguments for arguments and "
    "bindings, if they are never the same memory"
)
_VERB = {"flow": ("reads", "writes"), "anti": ("writes", "reads"), "output": ("writes", "writes")}


def _order_error(dependence: Dependence, source: Unit, target: Unit) -> PipelineError:
    first, second = dependence.source, dependence.target
    ordering, other = (first, second) if first.order.orders else (second, first)
    notes: list[tuple[str, Any]] = [
        (f"'{ordering.op.name}' {_order_of(ordering)} for other threads", ordering.op)
    ]
    if ordering is first and first.order.acquire and other.root is not None:
        notes.append((ORDER_ADVICE, other.root.value))
    return PipelineError(
        f"cannot pipeline: '{second.op.name}' in stage {target.stage} would run before "
        f"'{first.op.name}' in stage {source.stage}, {_when(dependence)}, and other threads may rely "
        "on their order",
        code="memory-order",
        at=second.op,
        notes=tuple(notes),
    )


ORDER_ADVICE = (
    "mark this memory `async_pipe.independent` (as an argument, also `llvm.noalias` with "
    "`llvm.readonly`) if no other thread writes it while the kernel runs"
)


def _order_of(region: CoveredRegion) -> str:
    order = region.order
    if region.access is None and order == EVERYTHING:
        return "may order any memory"
    if order.acquire and order.release:
        return "orders what is before it and what is after it"
    if order.orders:
        return "acquires: what is after it stays" if order.acquire else "releases what is before it"
    return "is volatile or atomic, and keeps its place among such accesses"


def _when(dependence: Dependence) -> str:
    distance = dependence.distance
    many = "iteration" if distance == 1 else "iterations"
    return "in the same iteration" if distance == 0 else f"{distance} {many} before"


def _memory_error(
    dependence: Dependence, source: Unit, target: Unit, unproven: dict[Any, Obstacle]
) -> PipelineError:
    does, did = _VERB[dependence.kind]
    when = _when(dependence)
    root = dependence.source.root
    obstacle = None if root is None else unproven.get(root.identity)
    if obstacle is not None and root is not None:
        return _version_error(obstacle, dependence, did, root)
    first, second, proven = dependence.source, dependence.target, dependence.proven
    may = "" if proven else "may "
    notes: list[tuple[str, Any]] = [
        (f"the '{first.op.name}' that {may}{did[:-1] if may else did} it", first.op)
    ]
    for region in (first, second):
        opaque = opaque_of(region.op) if region.opaque else None
        if opaque is not None:
            notes.append((f"'{region.op.name}' may touch any memory: {opaque.why}", region.op))
    given = {r.root.identity for r in (first, second) if r.root and r.root.kind in GIVEN}
    if not proven and len(given) == 2:
        notes.append((APART, second.op))
    if not proven and dependence.distance > 0:
        asserted = "assert `async_pipe.independent` on this loop if they never overlap"
        notes.append((asserted, source.ops[0].parent))
    return PipelineError(
        f"cannot pipeline: '{second.op.name}' in stage {target.stage} "
        f"{may}{does[:-1] if may else does} what '{first.op.name}' in stage "
        f"{source.stage} {did} {when}, and would run before it",
        code="dependence-violated" if proven else "unproven-independence",
        at=second.op,
        notes=tuple(notes),
    )


def _version_error(
    obstacle: Obstacle, dependence: Dependence, did: str, root: Root
) -> PipelineError:
    source, outside = dependence.source.op, obstacle.outside
    why = f"'{obstacle.op.name}' may read what its iteration did not write"
    advice = "if every iteration overwrites what it reads, say so with `async_pipe.private` on the allocation"
    notes = [(f"this '{source.name}' {did} it", source)]
    if outside:
        why = "it is read outside of the loop too, where only one version can be seen"
        advice = "give the loop a buffer of its own"
    elif obstacle.open_block:
        size = "the size of the block is not known: `known_block_size` on the kernel"
        notes.append((size, obstacle.op))
    return PipelineError(
        f"cannot pipeline: the buffer needs a version an iteration, but {why}",
        code="escapes" if outside else "not-privatisable",
        at=obstacle.op,
        notes=(*notes, (advice, root.value)),
    )


SOURCE_ELEMENTS = "source_elements"


def check_guardable(units: Units) -> None:
    """Raise PipelineError (predicate-unsupported) for a statement that cannot be skipped."""
    for op in units.statement_places:
        if is_physical(op) and f"{SOURCE_ELEMENTS}?" not in row_of(op).operands:
            raise not_predicated(op, "it has no source size")
        for result in op.results:
            if not is_physical(op) and zero_of(result.type) is None:
                raise not_predicated(op, f"its result of type {result.type} has no neutral value")


def not_predicated(op: Operation, why: str) -> PipelineError:
    return PipelineError(
        f"cannot pipeline: '{op.name}' cannot be predicated, {why}",
        code="predicate-unsupported",
        at=op,
        advice='use async_pipe.epilogue = "peel" and short_trip = "version"',
    )


def zero_of(kind: Any) -> Any:
    """The zero of a scalar or static vector type, None for any other."""
    try:
        vector = ir.VectorType(kind)
    except ValueError:
        return _scalar_zero(kind)
    zero = _scalar_zero(vector.element_type)
    return None if zero is None else ir.DenseElementsAttr.get_splat(kind, zero)


def _scalar_zero(kind: Any) -> Any:
    text = str(kind)
    if text == "index" or (text.startswith("i") and text[1:].isdigit()):
        return ir.IntegerAttr.get(kind, 0)
    if text.startswith(("f", "bf", "tf")):
        return ir.FloatAttr.get(kind, 0.0, loc=ir.Location.unknown(kind.context))
    return None
