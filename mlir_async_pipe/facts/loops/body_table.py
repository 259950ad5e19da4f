"""A loop body as numbers: which op makes which value, and which ops use it, read once.

    scf.for … iter_args(%acc = …) {           values: induction variable 0, %acc 1, %j 2, %v 3, %s 4
      0  %j = arith.addi %i, %c               used 0, results 2
      1  %v = memref.load %A[%j]              used 2, results 3
      2  %s = arith.addf %acc, %v             used 1 3, results 4
      3  scf.yield %s                         used 4

The number of an op is its place in the text, the terminator has the last one. What the regions of an
op capture is used by the op; what comes from outside of the body has no number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from mlir_async_pipe.bindings.raw_ops import Block, Operation, Value, captured

# The maker of what no op of the body makes: the induction variable, and what the loop carries.
ARGUMENT = -1


class BodyTable:
    """The table of one body, as long as nobody edits it.

    `number` is that of an op; `results` and `used` hold, by the number of an op, the values that it
    makes and those of the body that it uses, each once; `maker` the op of a value.
    """

    def __init__(self, block: Block, ops: Sequence[Operation], terminator: Operation) -> None:
        self.ops = (*ops, terminator)
        self.number = {op: place for place, op in enumerate(self.ops)}
        values: dict[Value, int] = {value: n for n, value in enumerate(block.arguments)}
        self.arguments = len(values)
        self.maker = [ARGUMENT] * self.arguments
        self.results: list[range] = []
        for place, op in enumerate(self.ops):
            first = len(values)
            for result in op.results:
                values[result] = len(values)
                self.maker.append(place)
            self.results.append(range(first, len(values)))
        self.used = [_known(captured(op), values) for op in ops]
        # By iter_arg the value of the next iteration, None for one from outside.
        self.yielded = [values.get(value) for value in terminator.operands]
        self.used.append(tuple(dict.fromkeys(v for v in self.yielded if v is not None)))

    @cached_property
    def users(self) -> list[list[int]]:
        """The ops that use a value, in the order of the text."""
        found: list[list[int]] = [[] for _ in self.maker]
        for place, values in enumerate(self.used):
            for value in values:
                found[value].append(place)
        return found

    def makers(self, op: int) -> list[int]:
        """The ops that make what an op uses."""
        return [self.maker[value] for value in self.used[op] if value >= self.arguments]

    def following(self, op: int) -> list[int]:
        """The ops that use what an op makes."""
        return [user for value in self.results[op] for user in self.users[value]]

    def follows_induction(self, op: int, closed: Collection[int]) -> bool:
        """Whether an op uses nothing of the body but the induction variable and what ops of `closed`
        make."""
        return all(value == 0 or self.maker[value] in closed for value in self.used[op])

    def chain(self, value: int) -> tuple[int, int] | None:
        """The op that makes a value, and how many iterations earlier, through what the loop carries;
        None if it is the induction variable, comes from outside, or nobody ever makes it."""
        passed: set[int] = set()
        current: int | None = value
        while current is not None and current < self.arguments:
            if current == 0 or current in passed:
                return None
            passed.add(current)
            current = self.yielded[current - 1]
        return None if current is None else (self.maker[current], len(passed))


def _known(values: Sequence[Value], numbers: dict[Value, int]) -> tuple[int, ...]:
    found = (numbers.get(value) for value in values)
    return tuple(dict.fromkeys(number for number in found if number is not None))
