"""Makes one op of a step conditional: its iteration may lie behind the loop's end.

    copy A -> %b[%slot], 8            copy A -> %b[%slot], 8, select(%exists, 8, 0)
    memref.store …             -->    scf.if %exists { memref.store … }
    %x = memref.load …                %x = scf.if %exists { load } else { 0 }

A copy keeps its place outside of any branch: with no source elements it fills a free slot
with zeros and reads nothing (PTX ISA, cp.async, src-size). Pure ops run anyway.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.annotations import attribute_names
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.diagnostics import PipelineError
from mlir_async_pipe.expand.integers import Integers
from mlir_async_pipe.expand.statement_places import is_physical
from mlir_async_pipe.expand.units import Units
from mlir_async_pipe.ir_helpers import Operation, Value, create, integer_attribute
from mlir_async_pipe.statements import is_statement, is_synchronisation
from mlir_async_pipe.vocabulary import operand_groups, row_of

SOURCE_ELEMENTS = "source_elements"


def check_guardable(units: Units) -> None:
    """Raise PipelineError (predicate-unsupported) for a statement that cannot be skipped."""
    for op in units.statement_places:
        if is_physical(op) and not _takes_source_elements(op):
            raise PipelineError(
                f"cannot pipeline: '{op.name}' cannot be predicated, it has no source size",
                code="predicate-unsupported",
                at=op,
                advice='use async_pipe.epilogue = "peel" and short_trip = "version"',
            )
        for result in op.results:
            if not is_physical(op) and _zero(result.type) is None:
                raise PipelineError(
                    f"cannot pipeline: '{op.name}' cannot be predicated, its result of type "
                    f"{result.type} has no neutral value",
                    code="predicate-unsupported",
                    at=op,
                    advice='use async_pipe.epilogue = "peel" and short_trip = "version"',
                )


def guarded(op: Operation, condition: Value, integers: Integers) -> Operation:
    """Let `op`, just cloned to where `integers` writes, happen only if `condition` holds;
    returns what stands for it."""
    if is_synchronisation(op):
        return op
    if is_physical(op):
        return _without_source(op, condition, integers)
    if not is_statement(op):
        return op
    return _in_branch(op, condition, integers.ip)


def _takes_source_elements(op: Operation) -> bool:
    row = row_of(op)
    return row is not None and f"{SOURCE_ELEMENTS}?" in row.operands


def _without_source(op: Operation, condition: Value, integers: Integers) -> Operation:
    row = row_of(op)
    assert row is not None
    groups = operand_groups(op, row)
    operands = list(op.operands)
    context = op.context
    given = groups[SOURCE_ELEMENTS]
    size = (
        operands.pop(given.start)
        if len(given)
        else integers.constant(integer_attribute(op, "dstElements") or 0, integers.index)
    )
    chosen = integers.select(condition, size, integers.constant(0, integers.index))
    operands.insert(given.start, chosen)
    attributes = {name: op.attributes[name] for name in attribute_names(op)}
    sizes = [1 if name == SOURCE_ELEMENTS else len(group) for name, group in groups.items()]
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, context)
    types = [result.type for result in op.results]
    made = create(op.name, operands, types, attributes, ip=integers.ip, loc=op.location)
    op.erase()
    return made


def _in_branch(op: Operation, condition: Value, ip: Any) -> Operation:
    loc = op.location
    types = [result.type for result in op.results]
    branch = create("scf.if", [condition], types, regions=2, ip=ip, loc=loc)
    inside = branch.regions[0].blocks.append()
    end = create("scf.yield", list(op.results), ip=ir.InsertionPoint(inside), loc=loc)
    op.move_before(end)
    if types:
        otherwise = branch.regions[1].blocks.append()
        inner = ir.InsertionPoint(otherwise)
        zeros = [
            create("arith.constant", (), [kind], {"value": _zero(kind)}, ip=inner, loc=loc).results[
                0
            ]
            for kind in types
        ]
        create("scf.yield", zeros, ip=inner, loc=loc)
    return branch


def _zero(kind: Any) -> Any:
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
