"""What a set of statements depends on inside one iteration: through values and memory."""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    captured,
    defining_op,
    walk,
)
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.facts.values.memory_roots import may_alias, root_of
from mlir_async_pipe.vocabulary import accesses


def with_producers(body: Body, chosen: set[int]) -> set[int]:
    """`chosen` and every statement they depend on, through values and through memory."""
    by_op = {s.op: s.number for s in body.statements}
    seen: set[Value] = set()

    def producers(number: int) -> set[int]:
        op = body.statements[number].op
        through_memory = (s for s in body.statements[:number] if _feeds_through_memory(s.op, op))
        return value_producers(op, by_op, seen) | {s.number for s in through_memory}

    return reached(chosen, producers)


def value_producers(op: Operation, by_op: dict[Operation, int], seen: set[Value]) -> set[int]:
    """The statements (`by_op`: op to number) whose values an op uses, through pure ops; values in
    `seen` were followed before."""
    producers: set[int] = set()
    pending = list(captured(op))
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        producer = defining_op(value)
        if producer is None:
            continue
        if producer in by_op:
            producers.add(by_op[producer])
        elif producer.block == op.block:
            pending.extend(captured(producer))
    return producers


def _feeds_through_memory(producer: Operation, consumer: Operation) -> bool:
    written = [root_of(a.memory) for op in walk(producer) for a in accesses(op) if a.writes]
    read = [root_of(a.memory) for op in walk(consumer) for a in accesses(op) if not a.writes]
    return any(may_alias(w, r) for w in written for r in read)
