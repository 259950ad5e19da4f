"""Whether the copies of a predicated kernel have a free place after the last iteration.

There they read nothing and fill their destination with zeros (see `guards`). That is right
only in a slot that nobody reads any more, and inside of it: a destination that moves with the
iteration, `%b[%i]`, would leave the buffer.
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Value, captured, defining_op
from mlir_async_pipe.facts.values.linear import Linear
from mlir_async_pipe.pipeliner.dependence.distance import LoopIndex
from mlir_async_pipe.pipeliner.dependence.footprint import static_shape
from mlir_async_pipe.pipeliner.dependence.regions import Region
from mlir_async_pipe.pipeliner.plan.choose_versions import BufferPlan
from mlir_async_pipe.pipeliner.plan.statement_places import is_physical
from mlir_async_pipe.pipeliner.plan.units import Units
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import is_pure


def check_free_slots(
    units: Units, regions: list[Region], buffers: tuple[BufferPlan, ...], index: LoopIndex
) -> None:
    """Raise PipelineError (predicate-unsupported) for a copy without a free place."""
    versioned = {buffer.root.identity: buffer for buffer in buffers}
    for region in regions:
        unit = units.unit_of(region.top)
        behind_end = units.last_stage - unit.stage
        if not region.writes or not is_physical(region.top) or behind_end == 0:
            continue
        buffer = None if region.root is None else versioned.get(region.root.identity)
        if buffer is None or (buffer.ends_in_slot_zero and buffer.versions <= behind_end):
            raise _error(region, "what may be read later")
        if not _stays_inside(region, index):
            raise _error(region, "what may lie outside of the buffer")


def _error(region: Region, what: str) -> PipelineError:
    return PipelineError(
        f"cannot pipeline: '{region.op.name}' cannot be predicated, after the last iteration it "
        f"would fill with zeros {what}",
        code="predicate-unsupported",
        at=region.op,
        advice='use async_pipe.epilogue = "peel" and short_trip = "version"',
    )


def _stays_inside(region: Region, index: LoopIndex) -> bool:
    """Whether the destination is inside of the buffer also for iterations after the last."""
    if region.subscripts is None or region.extent is None:
        return False
    shape = static_shape(region.base, region)
    sizes = shape if shape is not None else (0,) * len(region.subscripts)
    return all(
        _within(form, extent, size, index)
        for form, extent, size in zip(region.subscripts, region.extent, sizes, strict=True)
    )


def _within(form: Linear, extent: int, size: int, index: LoopIndex) -> bool:
    if not any(moves(symbol, index) for symbol in form.symbols):
        return True
    low, high = index.arithmetic.range_of(form)
    return low is not None and low >= 0 and high is not None and high + extent <= size


def moves(value: Value, index: LoopIndex) -> bool:
    """Whether a value may differ between iterations: the loop makes it from what does."""
    pending, seen = [value], {value}
    while pending:
        current = pending.pop()
        if index.is_outside(current):
            continue
        op = defining_op(current)
        if op is None:
            inner = ir.BlockArgument(current).owner.owner.operation
            if inner == index.loop or inner.name != "scf.for":
                return True
            # An inner loop runs in each iteration from and to what its bounds say.
            reached = list(inner.operands)[:3]
            if ir.BlockArgument(current).arg_number > 0:
                return True
        elif not is_pure(op):
            return True
        else:
            reached = captured(op)
        pending += [operand for operand in reached if operand not in seen]
        seen.update(reached)
    return False
