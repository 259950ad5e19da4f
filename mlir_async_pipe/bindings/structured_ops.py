"""Writes `scf.if`, `scf.for` and globals with all that they need.

%r = scf.if %c -> (f32) { yield %a } else { yield %b }
%r = scf.for %i = %lower to %upper step %step iter_args(%x = %a) -> (f32) { }
memref.global "private" @tile : memref<64xf32> {alignment = 16}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    create,
    operations,
    symbol_name,
    terminator,
)


def write_if(
    condition: Value, then: Sequence[Value], otherwise: Sequence[Value] | None, ip: Any, loc: Any
) -> Operation:
    """An `scf.if` whose regions yield these values; without `otherwise` it has no else."""
    branch = create(
        "scf.if", [condition], [value.type for value in then], regions=2, ip=ip, loc=loc
    )
    for region, values in zip(branch.regions, (then, otherwise), strict=True):
        if values is not None:
            create("scf.yield", values, ip=ir.InsertionPoint(region.blocks.append()), loc=loc)
    return branch


def write_for(
    bounds: Sequence[Value],
    initial: Sequence[Value],
    ip: Any,
    loc: Any,
    attributes: dict[str, Any] | None = None,
) -> Operation:
    """An `scf.for` with an empty body, without its terminator; `bounds` are lower, upper, step."""
    kinds = [value.type for value in initial]
    operands = [*bounds, *initial]
    loop = create("scf.for", operands, kinds, attributes, regions=1, ip=ip, loc=loc)
    types = [bounds[0].type, *kinds]
    loop.regions[0].blocks.append(*types, arg_locs=[loc] * len(types))
    return loop


def end_of(region: Any) -> Operation:
    """The terminator of a region's first block."""
    return terminator(region.blocks[0])


def at_end_of(region: Any) -> Any:
    """The insertion point before the terminator of a region's first block."""
    return before(end_of(region))


def end_with_yield(block: Any, values: Sequence[Value]) -> None:
    """Let a block end with an `scf.yield` of these values instead of its terminator."""
    end = terminator(block)
    create("scf.yield", values, ip=before(end), loc=end.location)
    end.erase()


def yield_values(end: Operation, values: Sequence[Value]) -> None:
    """Let a terminator forward other values."""
    for number, value in enumerate(values):
        end.operands[number] = value


def write_versions(condition: Value, loop: Operation, ip: Any) -> tuple[Operation, Operation]:
    """`scf.if condition { } else { the loop as it is }`, and the copy of the loop; the first
    region yields the loop's initial values until something else is written there."""
    initial = list(loop.operands)[3:]
    branch = write_if(condition, initial, initial, ip, loop.location)
    end = end_of(branch.regions[1])
    copy = loop.clone(ip=before(end)).operation
    yield_values(end, list(copy.results))
    return branch, copy


def part_versions(condition: Value, loop: Operation) -> None:
    """`loop --> scf.if condition { loop } else { a copy of it as it is }`"""
    branch, _ = write_versions(condition, loop, before(loop))
    for old, new in zip(loop.results, branch.results, strict=True):
        old.replace_all_uses_with(new)
    end = end_of(branch.regions[0])
    loop.move_before(end)
    yield_values(end, list(loop.results))


def take_results(branch: Operation, results: Sequence[Value]) -> list[Value]:
    """Let the first region of `branch` yield `results`; returns what it gives."""
    yield_values(end_of(branch.regions[0]), results)
    return list(branch.results)


def fresh_name(table: Operation, name: str) -> str:
    """`name`, or with a number after it where the symbol table has one called so."""
    taken = {symbol_name(op) for op in operations(table.regions[0].blocks[0])}
    candidate, number = name, 0
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def declare_global(
    table: Operation, name: str, kind: Any, initial: Any, alignment: int, loc: Any
) -> Operation:
    """A private global at the begin of a symbol table."""
    i64 = ir.IntegerType.get_signless(64, table.context)
    attributes = {
        "sym_name": ir.StringAttr.get(name, table.context),
        "sym_visibility": ir.StringAttr.get("private", table.context),
        "type": ir.TypeAttr.get(kind, table.context),
        "initial_value": initial,
        "alignment": ir.IntegerAttr.get(i64, alignment),
    }
    ip = ir.InsertionPoint.at_block_begin(table.regions[0].blocks[0])
    return create("memref.global", attributes=attributes, ip=ip, loc=loc)


def address_of(name: str, kind: Any, ip: Any, loc: Any) -> Value:
    named = {"name": ir.FlatSymbolRefAttr.get(name, kind.context)}
    return create("memref.get_global", (), [kind], named, ip=ip, loc=loc).results[0]
