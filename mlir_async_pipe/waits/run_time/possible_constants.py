"""The constants that an integer can be at run time, where there are few.

%n = arith.select %c, %c0, %c2            {0, 2}
%n = scf.if %c -> index { … 1 } else { … }  what the sides yield
%n = arith.remui %i, %c3                  {0, 1, 2}: its range
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Value,
    constant_value,
    defining_op,
    result_number,
    terminator,
)
from mlir_async_pipe.values.linear import Arithmetic
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    DEAD_ENDS,
    REGION_ROWS,
    SELECT_OPS,
    branch_regions,
)
from mlir_async_pipe.waits.ssa.forward import handed_on

MOST_CONSTANTS = 64


def possible_constants(value: Value) -> list[int] | None:
    """All values that an integer can have, in order; None if they are not known, or too many."""
    arithmetic = Arithmetic()
    found: set[int] = set()
    seen = {value}
    work = [value]
    while work:
        here = work.pop()
        constant = constant_value(here)
        sources = [] if constant is not None else _sources(here)
        if constant is not None:
            found.add(constant)
        elif sources:
            work += [source for source in sources if source not in seen]
            seen.update(sources)
        else:
            low, high = arithmetic.value_range(here)
            if low is None or high is None or high - low >= MOST_CONSTANTS:
                return None
            found.update(range(low, high + 1))
        if len(found) > MOST_CONSTANTS:
            return None
    return sorted(found)


def _sources(value: Value) -> list[Value]:
    """The values that a value is one of, by selects, loops, branches and blocks; [] for others."""
    op = defining_op(value)
    if op is None:
        return _argument_sources(value)
    if op.name in SELECT_OPS:
        return [op.operands[1], op.operands[2]]
    row = REGION_ROWS.get(op.name)
    if row is None or row.flow not in ("for", "while", "branch", "once"):
        return []
    number = result_number(value)
    leaving = op.regions[:1] if row.flow == "while" else op.regions
    if row.flow == "branch" and any(region is None for region in branch_regions(op)):
        return []
    starts = [op.operands[row.entry(op)[number]]] if row.flow == "for" else []
    return _all([starts, *(_handed_on(region, number) for region in leaving)])


def _argument_sources(value: Value) -> list[Value]:
    argument = ir.BlockArgument(value)
    block, number = argument.owner, argument.arg_number
    op = block.owner.operation
    region = next(r for r in op.regions if any(block == other for other in r.blocks))
    if block != region.blocks[0]:
        return _edge_sources(block, region, number)
    row = REGION_ROWS.get(op.name)
    if row is None or row.flow not in ("for", "while"):
        return []
    entry = row.entry(op)
    if row.flow == "while":
        first, second = op.regions
        if block == second.blocks[0]:
            return _all([_handed_on(first, number)])
        return _all([[op.operands[entry[number]]], _handed_on(second, number)])
    carried = number - (len(block.arguments) - len(entry))
    if carried < 0:
        return []
    return _all([[op.operands[entry[carried]]], _handed_on(region, carried)])


def _all(sources: list[list[Value] | None]) -> list[Value]:
    """All sources together; [] if some of them are not known."""
    known = [values for values in sources if values is not None]
    return [v for values in known for v in values] if len(known) == len(sources) else []


def _handed_on(region: object, number: int) -> list[Value] | None:
    """What the ends of a region hand on as their operand `number`; None if one is not known."""
    ends = [terminator(block) for block in region.blocks]  # type: ignore[attr-defined]
    leaving = [end for end in ends if not len(list(end.successors)) and end.name not in DEAD_ENDS]
    handed = [handed_on(end) for end in leaving]
    if any(number >= len(values) for values in handed):
        return None
    return [values[number] for values in handed]


def _edge_sources(block: object, region: object, number: int) -> list[Value]:
    sources = []
    for other in region.blocks:  # type: ignore[attr-defined]
        end = terminator(other)
        for place, target in enumerate(end.successors):
            if target != block:
                continue
            row = BRANCH_ROWS.get(end.name)
            if row is None:
                return []
            sources.append(end.operands[row.operands(end)[place][number]])
    return sources
