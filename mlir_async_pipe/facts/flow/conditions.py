"""What is known about conditions: constants, and conditions that several branches share.

    scf.if %c { commit }  …  scf.if %c { wait }

%c has one truth value for each execution of the block that defines it, so a path may not
take the first branch and skip the second. A *site* is one branch or select on a condition;
an *assumption* maps conditions to truth values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import constant_value
from mlir_async_pipe.facts.flow.flow_graph import FlowGraph, Frame, Item, Node
from mlir_async_pipe.vocabulary.control_flow import selected_region, truth

Assumption = dict[int, bool]


@dataclass(eq=False, slots=True)
class Literal:
    """Condition `number`, or its negation."""

    number: int
    positive: bool

    def under(self, assumption: Assumption) -> bool | None:
        """The truth of the literal, None where the assumption leaves it open."""
        value = assumption.get(self.number)
        return None if value is None else value == self.positive


@dataclass(eq=False, slots=True)
class Condition:
    """An i1 with the block that defines it; `sites` are the nodes in which it decides."""

    number: int
    value: Any
    home: Node
    sites: list[Node] = field(default_factory=list)


class Conditions:
    """The conditions of one module, numbered from 0, found as they are asked for."""

    def __init__(self, graph: FlowGraph) -> None:
        self.graph = graph
        self.all: list[Condition] = []
        self._numbers: dict[Any, int] = {}
        self._literals: dict[Any, Literal | bool] = {}
        self._regions: dict[Item, int | Literal | None] = {}

    def literal(self, value: Any, site: Any, node: Node) -> Literal | bool:
        """What decides the i1 `value`, read at `site` (any key) in `node`."""
        found = self._literals.get(site)
        if found is None:
            decided = truth(value)
            if isinstance(decided, bool):
                found = decided
            else:
                found = Literal(self._condition(decided[0], node), decided[1])
            self._literals[site] = found
        return found

    def _condition(self, value: Any, site: Node) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.all)
            owner = value.owner
            block = owner if isinstance(owner, ir.Block) else owner.operation.block
            self.all.append(Condition(number, value, self.graph.node_of(block)))
        self.all[number].sites.append(site)
        return number

    def while_literal(self, item: Item) -> Literal | bool:
        """What decides whether an scf.while goes on."""
        found = self._literals.get(item)
        if found is None:
            node = item.frames[0].entry
            # One whose first region is a dead end is not left.
            if not node.exits:
                return True
            op = self.graph.terminator_of(node)
            found = self.literal(op.operands[0], item, node)
        return found

    def region(self, item: Item) -> int | Literal | None:
        """Which region of a branch runs: its number, a literal (true: region 0), or any."""
        if item not in self._regions:
            self._regions[item] = self._find_region(item)
        return self._regions[item]

    def _find_region(self, item: Item) -> int | Literal | None:
        assert item.node is not None
        if item.row.condition is None:
            return None
        value = item.op.operands[item.row.condition]
        if not item.row.is_if:
            constant = constant_value(value)
            return None if constant is None else selected_region(item.op, item.row, constant)
        literal = self.literal(value, item, item.node)
        if isinstance(literal, bool):
            return selected_region(item.op, item.row, int(literal))
        return literal

    def frames(self, item: Item, assumption: Assumption) -> Sequence[Frame]:
        """The frames of an op that may run under an assumption: one side of a branch, or all."""
        region = self.region(item) if item.row.flow == "branch" else None
        if isinstance(region, Literal):
            value = region.under(assumption)
            region = None if value is None else int(not value)
        return item.frames if region is None else [item.frames[region]]
