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
from mlir_async_pipe.expand.units import Units, is_physical
from mlir_async_pipe.ir_helpers import Operation, Value, before, create, integer_attribute
from mlir_async_pipe.statements import is_statement
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


def guarded(op: Operation, condition: Value) -> Operation:
    """Let `op`, just cloned, happen only if `condition` holds; returns what stands for it."""
    row = row_of(op)
    if row is not None and row.commits == "group":
        return op
    if is_physical(op):
        return _without_source(op, condition)
    if not is_statement(op):
        return op
    return _in_branch(op, condition)


def _takes_source_elements(op: Operation) -> bool:
    row = row_of(op)
    return row is not None and f"{SOURCE_ELEMENTS}?" in row.operands


def _without_source(op: Operation, condition: Value) -> Operation:
    row = row_of(op)
    assert row is not None
    groups = operand_groups(op, row)
    operands = list(op.operands)
    context = op.context
    index = ir.IndexType.get(context)
    ip, loc = before(op), op.location
    given = groups[SOURCE_ELEMENTS]
    size = (
        operands.pop(given.start)
        if len(given)
        else _constant(index, integer_attribute(op, "dstElements") or 0, ip, loc)
    )
    zero = _constant(index, 0, ip, loc)
    chosen = create("arith.select", [condition, size, zero], [index], ip=ip, loc=loc).results[0]
    operands.insert(given.start, chosen)
    attributes = {name: op.attributes[name] for name in attribute_names(op)}
    sizes = [1 if name == SOURCE_ELEMENTS else len(group) for name, group in groups.items()]
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, context)
    made = create(op.name, operands, [r.type for r in op.results], attributes, ip=ip, loc=loc)
    op.erase()
    return made


def _constant(kind: Any, value: int, ip: Any, loc: Any) -> Value:
    attributes = {"value": ir.IntegerAttr.get(kind, value)}
    return create("arith.constant", (), [kind], attributes, ip=ip, loc=loc).results[0]


def _in_branch(op: Operation, condition: Value) -> Operation:
    loc = op.location
    types = [result.type for result in op.results]
    branch = create("scf.if", [condition], types, regions=2, ip=before(op), loc=loc)
    inside = branch.regions[0].blocks.append()
    end = create("scf.yield", list(op.results), ip=ir.InsertionPoint(inside), loc=loc)
    op.move_before(end)
    if types:
        otherwise = branch.regions[1].blocks.append()
        ip = ir.InsertionPoint(otherwise)
        zeros = [
            create("arith.constant", (), [kind], {"value": _zero(kind)}, ip=ip, loc=loc).results[0]
            for kind in types
        ]
        create("scf.yield", zeros, ip=ip, loc=loc)
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
