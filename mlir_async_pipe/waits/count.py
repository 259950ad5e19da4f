"""Counts the waits of a module: from the IR to one `Counted` per token wait, without edits.

    Analysis(module, target)      the flow graph and token values of a module, made once
    Analysis.count()              the exact counts, with correlated conditions

The handles inside die with the next pass; use the result at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from mlir_async_pipe.bindings.raw_ops import type_text
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.flow.conditions import Conditions
from mlir_async_pipe.facts.flow.flow_graph import FlowGraph
from mlir_async_pipe.facts.flow.items import Item
from mlir_async_pipe.session.diagnostics import CountError
from mlir_async_pipe.vocabulary import queue_of, row_of
from mlir_async_pipe.vocabulary.async_ops import NUMBER_TYPE, TOKEN_TYPE, tokens_of
from mlir_async_pipe.waits import events
from mlir_async_pipe.waits.correlation import MOST_CONDITIONS, Correlations, batches
from mlir_async_pipe.waits.solve import Solution
from mlir_async_pipe.waits.token_values import TokenValues


@dataclass(eq=False, slots=True)
class Counted:
    """The exact count of one wait, None if no path reaches it.

    `solution` is where it comes from, None if the queue of the wait is not known. `limited`:
    more conditions are correlated than were followed, so the exact count may be larger.
    """

    item: Item
    count: int | None
    solution: Solution | None
    limited: bool = False


class Analysis:
    """The flow graph of a module with its token waits."""

    def __init__(self, module_op: Any, target: Target | None = None) -> None:
        self.graph = FlowGraph(module_op, partial(queue_of, target=target))
        self.values = TokenValues(self.graph)
        self.conditions = Conditions(self.graph)
        self.waits: list[Item] = []
        # Waits with an operand that is a number: their queue, or their count.
        self.with_numbers: list[Item] = []
        self._follow_tokens()

    def _follow_tokens(self) -> None:
        # Types are compared, since printing one takes long (docs/speed.md).
        tokens: list[Any] = []
        use = self.values.use
        for item in self.graph.waits:
            assert item.rule is not None and item.node is not None
            if item.rule.form != "token":
                continue
            operands = {}
            numbers = False
            for number, operand in enumerate(item.op.operands):
                kind = operand.type
                if kind not in tokens:
                    if _is_number(kind, item.op):
                        numbers = True
                        continue
                    _check_token(kind, item.op)
                    tokens.append(kind)
                operands[number] = use(operand, item.node)
            if operands:
                item.operands = operands
                self.waits.append(item)
            if numbers:
                self.with_numbers.append(item)
        self.values.follow()

    def count(self, witnesses: bool = False) -> list[Counted]:
        """The exact count of every token wait, in textual order; `witnesses`: with its path."""
        counted: list[Counted] = []
        # Queues are told apart by identity: hashing one takes as long as all else here.
        queues: dict[int, list[Item]] = {}
        for item in self.waits:
            queues.setdefault(id(item.queue), []).append(item)
        for waits in queues.values():
            queue = waits[0].queue
            if queue is None:
                counted += [Counted(item, 0, None) for item in waits]
            else:
                happening = events.collect(self.graph, self.values, queue, waits)
                counted += self._count_queue(happening, witnesses)
        counted.sort(key=attrgetter("item.position"))
        return counted

    def _count_queue(self, happening: events.Events, witnesses: bool) -> list[Counted]:
        correlations = Correlations(happening, self.conditions)
        if not correlations.any:
            solution = Solution(happening, self.conditions, witnesses=witnesses)
            count_of = solution.counts.get
            return [Counted(wait, count_of(wait), solution) for wait in happening.waits]
        counted: list[Counted] = []
        wanted = {wait: correlations.of(wait) for wait in happening.waits}
        for tracked, waits in batches(wanted):
            solution = Solution(happening, self.conditions, tracked, witnesses)
            for wait in waits:
                limited = len(wanted[wait]) > MOST_CONDITIONS
                counted.append(Counted(wait, solution.counts.get(wait), solution, limited))
        return counted


def waits_on_tokens(op: Any) -> bool:
    """Whether a wait names its groups by tokens (else its count is its own)."""
    row = row_of(op)
    return row.wait is not None and row.wait.form == "token" and len(tokens_of(op)) > 0


def _is_number(kind: Any, op: Any) -> bool:
    """Whether an operand is the queue or the count of an abstract wait."""
    row = row_of(op)
    return type_text(kind) == NUMBER_TYPE and row.queue == "attribute"


def _check_token(kind: Any, op: Any) -> None:
    if type_text(kind) != TOKEN_TYPE:
        raise CountError(
            f"'{op.name}' waits on a value of type {kind}, which is no token",
            code="not-a-token",
            at=op,
            advice=f"wait on the {TOKEN_TYPE} that a commit returns",
        )
