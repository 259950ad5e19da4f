"""Counts groups at run time, and lets the number of its group travel beside each token.

    commit   counter + 1, the number of its token      select   the number of what it selects
    copy     the number that the next commit makes     call     counter + what it commits at least

Counters and numbers are index values in SSA form (`carry`), so they live in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    after,
    attributes_of,
    before,
    create,
    integer_attribute,
    source_op,
)
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.vocabulary.async_ops import COUNT_FORMS
from mlir_async_pipe.vocabulary.control_flow import CAST_OPS, SELECT_OPS
from mlir_async_pipe.waits.run_time.count_operands import switch_over_counts
from mlir_async_pipe.waits.ssa.carry import Carrier, Variables
from mlir_async_pipe.waits.ssa.skeleton import Skeleton
from mlir_async_pipe.waits.write_counts import set_count, wait_rule

# The number of a group that no wait of the queue can see: it is never old enough.
NEVER = 1 << 30


@dataclass(frozen=True)
class Event:
    """What an op is to the counters: `queue` is the number of the counter of a commit or wait,
    `groups` are what a call adds to each, `cases` the counts of a wait above its static one."""

    kind: Literal["commit", "other queue", "copy", "value", "call", "wait"]
    queue: int = 0
    groups: tuple[int, ...] = ()
    cases: tuple[int, ...] = ()


class GroupNumbers(Carrier):
    """Carries one counter a queue, and the numbers of the tokens in `tracked`."""

    def __init__(
        self,
        skeleton: Skeleton,
        events: dict[Block, list[Event]],
        tracked: dict[Value, int],
        foreign: list[int],
    ) -> None:
        super().__init__(skeleton, ir.IndexType.get(skeleton.root.context))
        self.events = {block: list(found) for block, found in events.items()}
        self.tracked = tracked
        self.foreign = foreign
        entry = skeleton.root.regions[0].blocks[0]
        self._entry = IntegerWriter(ir.InsertionPoint.at_block_begin(entry), skeleton.root.location)
        self._zero = self._entry.constant(0)
        # The op that came first may be a wait, which goes.
        self._entry.ip = before(source_op(self._zero))

    def count(self) -> None:
        entry = self.skeleton.root.regions[0].blocks[0]
        for argument in entry.arguments:
            queue = self.tracked.get(argument)
            if queue is not None:
                self.bind(argument, self._entry.constant(-self.foreign[queue]))
        self.run([self._zero] * len(self.foreign))

    def over(self, op: Operation, variables: Variables) -> Variables:
        """Count, number tokens, and replace waits."""
        event = self.events[op.block].pop(0)
        if event.kind == "wait":
            self._switch(op, event, variables)
            return variables
        if event.kind == "commit":
            variables = list(variables)
            variables[event.queue] = self._plus(variables[event.queue], 1, op)
        elif event.kind == "call":
            variables = [
                self._plus(counter, groups, op)
                for counter, groups in zip(variables, event.groups, strict=True)
            ]
        for result in op.results:
            queue = self.tracked.get(result)
            if queue is not None:
                self.bind(result, self._number_of(op, event, queue, variables))
        return variables

    def _number_of(self, op: Operation, event: Event, queue: int, variables: Variables) -> Value:
        counter = variables[queue]
        if event.kind == "commit":
            return counter if event.queue == queue else self._entry.constant(NEVER)
        if event.kind == "other queue":
            return self._entry.constant(NEVER)
        if event.kind == "copy":
            return self._plus(counter, 1, op)
        if op.name in SELECT_OPS:
            numbers = [self.companion(op.operands[i], variables) for i in (1, 2)]
            return self._at(after(op), op).select(op.operands[0], *numbers)
        if op.name in CAST_OPS:
            return self.companion(op.operands[0], variables)
        return self._plus(counter, -self.foreign[queue], op)

    def _switch(self, op: Operation, event: Event, variables: Variables) -> None:
        write = self._at(before(op), op)
        latest, *others = [self.companion(token, variables) for token in op.operands]
        for number in others:
            latest = write.largest(latest, number)
        age = write.subtract(variables[event.queue], latest)
        age = write.smallest(age, event.cases[-1])
        least = integer_attribute(op, wait_rule(op).count) or 0

        # Without tokens: the count of a case is given, and is not derived again.
        def wait(count: int, where: Any) -> None:
            kept = attributes_of(op)
            del kept[wait_rule(op).count]
            made = create(COUNT_FORMS[op.name], (), (), kept, ip=where, loc=op.location)
            set_count(made, wait_rule(made), count)

        switch_over_counts(age, event.cases, least, op, wait)
        op.erase()

    def _plus(self, number: Value, more: int, behind: Operation) -> Value:
        return self._at(after(behind), behind).add(number, more)

    def _at(self, ip: Any, op: Operation) -> IntegerWriter:
        return IntegerWriter(ip, op.location, self._entry)

    # -- where values meet ----------------------------------------------------------------

    def accompanied(self, values: Any) -> list[int]:
        """The tokens whose numbers travel."""
        return [place for place, value in enumerate(values) if value in self.tracked]

    def companion(self, value: Value, variables: Variables) -> Value:
        """The number of a token; of one from another thread: never old enough."""
        return self.companions.get(value) or self._entry.constant(NEVER)

    def width_at(self, block: Block) -> int:
        return len(self.foreign)

    def width_behind(self, op: Operation) -> int:
        return len(self.foreign)

    def apart(self, op: Operation, block: Block) -> Variables:
        """Nothing is counted there."""
        return []

    def behind_apart(self, op: Operation, variables: Variables) -> Variables:
        """A token from there was committed no later than here."""
        for result in op.results:
            queue = self.tracked.get(result)
            if queue is not None:
                self.bind(result, self._plus(variables[queue], -self.foreign[queue], op))
        return variables
