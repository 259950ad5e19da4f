"""Loops that do nothing but ask whether a phase is over, until it is: who asks there waits.

    ^again(%k):                                    ^again(%k):
      %over = nvvm.mbarrier.test.wait %b, %phase     nvvm.mbarrier.test.wait %b, %phase {async_pipe.awaited}
      cond_br %over, ^done, ^count            -->    cond_br %true, ^done, ^count
    ^count: …
      br ^again(%k + 1)

The answer "no" leads back to the test, whatever lies between decides for how long the thread sleeps, or counts how often
it asked: no path leaves but with "yes", none touches memory, and what was counted goes nowhere else. CUDA's
`cuda::barrier` waits so: it asks sixteen times, then reads a clock and sleeps (libcu++, `__try_wait`). It is written
on the copy that is proven.
"""

from __future__ import annotations

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    before,
    constant,
    operations,
    terminator,
    users,
    walk_named,
)
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.values.numbers import evaluate
from mlir_async_pipe.vocabulary import named_row, row_of
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS
from mlir_async_pipe.vocabulary.memory_ops import HINTS

# Blocks between a "no" and the next question: libcu++ has eight.
MOST_BLOCKS = 32


# On a test: the thread goes on when the phase is over.
AWAITED = "async_pipe.awaited"


def asks(name: str) -> bool:
    return named_row(name).phase == "test"


def replace(root: Operation) -> int:
    """Make each test below `root` that is asked until it is true a wait; how many are."""
    found = [test for test in walk_named(root, asks) if test.results and _is_asked_again(test)]
    for test in found:
        over = test.results[0]
        over.replace_all_uses_with(constant(1, over.type, before(test), test.location))
        test.attributes[AWAITED] = ir.UnitAttr.get(test.context)
    return len(found)


def _is_asked_again(test: Operation) -> bool:
    """Whether all that comes after the answer "no" of a test of a phase is the same test again."""
    block, end = test.block, terminator(test.block)
    row = BRANCH_ROWS.get(end.name)
    if row is None or not row.condition:
        return False
    no, yes = (_answered(end.operands[0], test.results[0], answer) for answer in (0, 1))
    if no is None or yes is None or no == yes:
        return False
    between = _until(block, end.successors[0 if no else 1])
    if between is None or not all(map(_is_idle, operations(block)[:-1])):
        return False
    counted = _changed(block, between)
    return not _leaves(counted, [block, *between])


def _answered(condition: Value, result: Value, answer: int) -> bool | None:
    """Whether a condition holds that the answer alone decides; None if more does."""
    found = evaluate(condition, {result: np.asarray(answer)}, lambda value: None)
    return None if found is None else bool(found)


def _until(again: Block, first: Block) -> list[Block] | None:
    """The blocks from `first` on until control comes to `again`, as it must; None if it need not, or if they do more
    than compute."""
    blocks = walked([first], lambda block: () if block == again else terminator(block).successors)
    found: list[Block] = []
    for block in blocks:
        if block == again:
            continue
        idle = all(map(_is_idle, operations(block)[:-1]))
        if not idle or terminator(block).name not in BRANCH_ROWS or len(found) == MOST_BLOCKS:
            return None
        found.append(block)
    return found


def _is_idle(op: Operation) -> bool:
    """Whether an op does nothing that another thread sees, and may be done again."""
    row = row_of(op)
    return not len(op.regions) and (row.pure or op.name in HINTS or row.phase == "test")


def _changed(again: Block, between: list[Block]) -> list[Value]:
    """The arguments of the block that asks which have another value when it asks again."""
    given = [one for block in between for one in _handed_on(terminator(block))]
    return [mine for block, mine, value in given if block == again and mine != value]


def _leaves(values: list[Value], blocks: list[Block]) -> bool:
    """Whether something outside of some blocks uses values, or what is made of them there."""
    pending, seen = list(values), set(values)
    while pending:
        value = pending.pop()
        for user in users(value):
            handed = [(block, mine) for block, mine, given in _handed_on(user) if given == value]
            if any(block not in blocks for block in (user.block, *(block for block, _ in handed))):
                return True
            made = [
                one for one in (*user.results, *(mine for _, mine in handed)) if one not in seen
            ]
            seen.update(made)
            pending.extend(made)
    return False


def _handed_on(end: Operation) -> list[tuple[Block, Value, Value]]:
    """The block arguments to which a branch gives values, and these; none of another op."""
    if end.name not in BRANCH_ROWS:
        return []
    ranges = BRANCH_ROWS[end.name].operands(end)
    return [
        (block, mine, end.operands[number])
        for block, given in zip(end.successors, ranges, strict=True)
        for mine, number in zip(block.arguments, given, strict=True)
    ]
