"""The ways out of blocks that end in cf (or llvm) branches and switches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.checker.graph import Block, Branch, Edge, Exit, Goto, Loop, Switch

if TYPE_CHECKING:
    from mlir_async_pipe.checker.flow import Builder

JUMPS = ("cf.br", "cf.cond_br", "cf.switch", "llvm.br", "llvm.cond_br")


@dataclass(frozen=True)
class Places:
    """The blocks of one region: their place in the graph, and the loops that they make up.

    `loops` has the blocks of each loop by its header, `headers` the loop of each header.
    """

    mapped: dict[Any, Block]
    loops: dict[Any, set[Any]]
    headers: dict[Any, Loop]


def exit_of(builder: Builder, op: Any, frame: int, source: Any, places: Places) -> Exit:
    """The exit of the IR block `source`, which ends in the jump `op`."""
    successors = list(op.successors)
    operands = list(op.operands)

    def edge(target: Any, passed: list[Any]) -> Edge:
        pairs = builder.pairs(target.arguments, frame, passed, frame)
        return Edge(places.mapped[target].number, pairs, _moves(source, target, places))

    if op.name in ("cf.br", "llvm.br"):
        return Goto(edge(successors[0], operands))
    name = "operandSegmentSizes" if op.name != "cf.switch" else "case_operand_segments"
    segments = list(ir.DenseI32ArrayAttr(op.attributes[name]))
    number = builder.flow.number(frame, operands[0])
    if op.name != "cf.switch":
        middle = 1 + segments[1]
        return Branch(
            number,
            edge(successors[0], operands[1:middle]),
            edge(successors[1], operands[middle:]),
        )
    position = len(operands) - sum(segments)
    default = edge(successors[0], operands[1:position])
    cases = []
    values = [int(v) for v in ir.DenseIntElementsAttr(op.attributes["case_values"])]
    for value, target, count in zip(values, successors[1:], segments, strict=True):
        cases.append((value, edge(target, operands[position : position + count])))
        position += count
    return Switch(number, tuple(cases), default)


def _moves(source: Any, target: Any, places: Places) -> tuple[tuple[str, int], ...]:
    """Which loops the way from one block to another leaves, enters or repeats."""
    moves: list[tuple[str, int]] = []
    for header, body in places.loops.items():
        if source in body and target not in body:
            moves.append(("leave", places.headers[header].number))
    for header, body in places.loops.items():
        if target == header:
            kind = "back" if source in body else "enter"
            moves.append((kind, places.headers[header].number))
    return tuple(moves)
