"""Mode `dynamic`: waits that a condition keeps low look at a run-time counter.

    %t = commit                      %t = commit; %k0 = ++counter
    scf.if %c { commit }      -->    scf.if %c { commit; ++counter }
    wait %t                          switch (min(counter - %k0, most)) { 1: wait 1; default: wait 0 }

The counter is a private memref<index> that the back ends turn into a register. PTX wants constant
counts, so each count that can occur gets a case. Commits of callees are not counted, which only
makes the wait stricter. A token that reaches its wait through loops or branches keeps its static
count (remark `dynamic-unsupported`).
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.ir_helpers import after, before, create
from mlir_async_pipe.report import Session
from mlir_async_pipe.vocabulary import Queue
from mlir_async_pipe.waits.count import Analysis
from mlir_async_pipe.waits.flow_graph import Item
from mlir_async_pipe.waits.records import WaitRecord
from mlir_async_pipe.waits.write import largest_count, set_count, wait_rule

CONDITIONAL = ("conditional-commit", "zero-trip-loop", "correlation-limit")

# Cases above the static count; a group that is still older waits as if it were this old.
MOST_CASES = 8


def switch_on_counters(
    analysis: Analysis, written: list[tuple[Item, WaitRecord]], session: Session
) -> None:
    """Turn the waits among `written` whose count a condition keeps low into switches."""
    low = [(item, record) for item, record in written if record.reason in CONDITIONAL]
    counters: dict[tuple[Item, Queue | None], _Counter] = {}
    for item, record in low:
        commit = _only_commit(analysis, item)
        if commit is None:
            session.diagnostics.remark(
                "the token reaches this wait through loops or branches, so it keeps its static count",
                code="dynamic-unsupported",
                at=record.place,
            )
            continue
        root = analysis.graph.root_of(item)
        if (root, item.queue) not in counters:
            counters[root, item.queue] = _Counter(analysis, root, item.queue)
        _switch(item, record.count, counters[root, item.queue], commit)


def _only_commit(analysis: Analysis, item: Item) -> Item | None:
    """The one commit whose token a wait reads directly, None if there is no such."""
    if len(item.operands) != 1:
        return None
    found = analysis.values.defs[item.operands[0]]
    if found.kind != "commit" or found.item is None or found.item.queue != item.queue:
        return None
    same = analysis.graph.root_of(found.item) is analysis.graph.root_of(item)
    return found.item if same else None


class _Counter:
    """The run-time counter of one queue in one function; `after[commit]` is its value there."""

    def __init__(self, analysis: Analysis, root: Item, queue: Queue | None) -> None:
        block = root.frames[0].entry.block
        start = ir.InsertionPoint.at_block_begin(block)
        loc = root.op.location
        self.index = ir.IndexType.get(root.op.context)
        kind = ir.Type.parse("memref<index>", root.op.context)
        sizes = ir.DenseI32ArrayAttr.get([0, 0], root.op.context)
        attributes = {"operandSegmentSizes": sizes}
        self.memory = create("memref.alloca", (), [kind], attributes, ip=start, loc=loc).results[0]
        zero = self.constant(0, start, loc)
        create("memref.store", [zero, self.memory], ip=start, loc=loc)
        self.after: dict[Item, Any] = {}
        for commit in analysis.graph.commits:
            if commit.queue == queue and analysis.graph.root_of(commit) is root:
                self.after[commit] = self._increment(commit.op)

    def constant(self, value: int, ip: Any, loc: Any) -> Any:
        """An index constant."""
        attributes = {"value": ir.IntegerAttr.get(self.index, value)}
        return create("arith.constant", (), [self.index], attributes, ip=ip, loc=loc).results[0]

    def load(self, ip: Any, loc: Any) -> Any:
        """The groups committed so far."""
        return create("memref.load", [self.memory], [self.index], ip=ip, loc=loc).results[0]

    def _increment(self, op: Any) -> Any:
        ip, loc = after(op), op.location
        one = self.constant(1, ip, loc)
        following = create(
            "arith.addi", [self.load(ip, loc), one], [self.index], ip=ip, loc=loc
        ).results[0]
        create("memref.store", [following, self.memory], ip=ip, loc=loc)
        return following


def _switch(item: Item, least: int, counter: _Counter, commit: Item) -> None:
    """Replace a wait by a switch over the counts from `least` on."""
    op, rule = item.op, wait_rule(item.op)
    most = min(least + MOST_CASES, largest_count(item.queue, rule))
    ip, loc = before(op), op.location
    age = _binary("arith.subi", counter.load(ip, loc), counter.after[commit], ip, loc)
    age = _binary("arith.minui", age, counter.constant(most, ip, loc), ip, loc)
    cases = list(range(least + 1, most + 1))
    switch = create(
        "scf.index_switch",
        [age],
        (),
        {"cases": ir.DenseI64ArrayAttr.get(cases, op.context)},
        regions=1 + len(cases),
        ip=ip,
        loc=loc,
    )
    # The default region comes first; it holds the count that is always safe.
    for region, count in zip(switch.regions, [least, *cases], strict=True):
        block = region.blocks.append()
        inner = op.clone(ip=ir.InsertionPoint(block)).operation
        set_count(inner, rule, count)
        create("scf.yield", ip=ir.InsertionPoint(block), loc=loc)
    op.erase()


def _binary(name: str, left: Any, right: Any, ip: Any, loc: Any) -> Any:
    return create(name, [left, right], [left.type], ip=ip, loc=loc).results[0]
