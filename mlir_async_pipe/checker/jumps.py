"""The ways out of blocks that end in a branch of the vocabulary (cf or llvm)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlir_async_pipe.checker.step_graph import (
    Block,
    Branch,
    Edge,
    Exit,
    Goto,
    Loop,
    Switch,
)
from mlir_async_pipe.vocabulary.control_flow import BranchRow

if TYPE_CHECKING:
    from mlir_async_pipe.checker.kernel_flow import Builder


@dataclass(frozen=True)
class Places:
    """The blocks of one region: their place in the graph, and the loops that they make up.

    `loops` has the blocks of each loop by its header, `headers` the loop of each header.
    """

    mapped: dict[Any, Block]
    loops: dict[Any, set[Any]]
    headers: dict[Any, Loop]


def exit_of(
    builder: Builder, op: Any, row: BranchRow, frame: int, source: Any, places: Places
) -> Exit:
    """The exit of the IR block `source`, which ends in the branch `op`."""
    operands = list(op.operands)
    edges = []
    for target, passed in zip(op.successors, row.operands(op), strict=True):
        given = operands[passed.start : passed.stop]
        pairs = builder.pairs(target.arguments, frame, given, frame)
        edges.append(Edge(places.mapped[target].number, pairs, _moves(source, target, places)))
    if row.condition:
        return Branch(builder.flow.number(frame, operands[0]), *edges)
    if row.cases is not None:
        default, *chosen = edges
        cases = tuple(zip(row.cases(op), chosen, strict=True))
        return Switch(builder.flow.number(frame, operands[0]), cases, default)
    (edge,) = edges
    return Goto(edge)


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
