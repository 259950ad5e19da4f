"""What was asked about the surroundings of a loop while it was planned, and what was answered.

    loop 1 asks: does anything outside write %B1?    no
    loop 2 is asked the same about %B2               no: as far as this goes, plan 1 is its plan

Questions are noted with numbers of values in the loop's table. Of answers that name ops of the function
is noted whether there are any: a plan depends on no more, and which they are is told by those that refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from mlir_async_pipe.bindings.raw_ops import Operation, Value
from mlir_async_pipe.bindings.type_classes import type_text
from mlir_async_pipe.dependence.outside_reads import sees_nothing_of, sees_own_block
from mlir_async_pipe.dependence.surroundings import Surroundings, Touch
from mlir_async_pipe.expand.equal.loop_table import LoopTable
from mlir_async_pipe.values.linear import Arithmetic
from mlir_async_pipe.values.memory_roots import Root, Space, root_of
from mlir_async_pipe.vocabulary.launch_size import Size

Question = Callable[[Surroundings, Operation, list[Value]], Any]
"""Asks about another loop, whose table has these values."""


class AskedSurroundings(Surroundings):
    """Answers as `around` does, and notes questions and answers of one loop; `repeatable` is
    False once one cannot be asked about another loop."""

    def __init__(self, around: Surroundings, table: LoopTable) -> None:
        self._around = around
        self._roots: dict[Any, int] = {}
        for number, value in enumerate(table.values):
            if type_text(value.type).startswith(("memref<", "!llvm.ptr")):
                self._roots.setdefault(root_of(value).identity, number)
        self.answers: list[tuple[Question, Any]] = []
        self.repeatable = True

    def touches_outside(self, loop: Operation, identity: Any) -> tuple[list[Touch], list[Touch]]:
        """Names ops."""
        found = self._around.touches_outside(loop, identity)
        self.repeatable = False
        return found

    def writes_outside(self, loop: Operation, identity: Any) -> bool:
        """Asked of the root of the same number."""
        number = self._number(identity)
        found = self._around.writes_outside(loop, identity)
        self._note(lambda a, other, v: a.writes_outside(other, root_of(v[number]).identity), found)
        return found

    def readers_outside(
        self,
        loop: Operation,
        root: Root,
        block: Any,
        sees_own: Callable[[Operation], bool],
        sees_nothing: Callable[[Operation], bool],
    ) -> list[Operation]:
        """A plan depends on whether there is one; which one is told by those that refuse."""
        number = self._number(root.identity)
        found = self._around.readers_outside(loop, root, block, sees_own, sees_nothing)

        def again(around: Surroundings, other: Operation, values: list[Value]) -> bool:
            root, arithmetic = root_of(values[number]), Arithmetic(block)
            return bool(
                around.readers_outside(
                    other,
                    root,
                    block,
                    sees_own_block(root, arithmetic),
                    partial(sees_nothing_of, other, root=root, arithmetic=arithmetic),
                )
            )

        self._note(again, bool(found))
        return found

    def spaces_outside(self, loop: Operation) -> tuple[set[Space], set[Space]]:
        """Asked of the loop alone."""
        found = self._around.spaces_outside(loop)
        self._note(lambda a, other, v: a.spaces_outside(other), found)
        return found

    def orders_outside(self, loop: Operation) -> tuple[bool, bool]:
        """Asked of the loop alone."""
        found = self._around.orders_outside(loop)
        self._note(lambda a, other, v: a.orders_outside(other), found)
        return found

    def conflicts_outside(
        self, loop: Operation, root: Root, *, writes: bool, noalias_arguments: bool
    ) -> tuple[set[Space], set[Space]]:
        """Asked of the root of the same number."""
        number = self._number(root.identity)
        found = self._around.conflicts_outside(
            loop, root, writes=writes, noalias_arguments=noalias_arguments
        )
        self._note(
            lambda a, other, v: a.conflicts_outside(
                other, root_of(v[number]), writes=writes, noalias_arguments=noalias_arguments
            ),
            found,
        )
        return found

    def workgroup_bytes_beside(self, loop: Operation, planned: Iterable[Any]) -> int:
        """Asked of the roots of the same numbers."""
        named = list(planned)
        numbers = [self._number(identity) for identity in named]
        found = self._around.workgroup_bytes_beside(loop, named)
        self._note(
            lambda a, other, v: a.workgroup_bytes_beside(
                other, [root_of(v[n]).identity for n in numbers]
            ),
            found,
        )
        return found

    def loop_in_front(self, loop: Operation) -> Operation | None:
        """Names an op."""
        self.repeatable = False
        return self._around.loop_in_front(loop)

    def launch_size(self, loop: Operation) -> Size | None:
        """That of the function, which loops of one block share."""
        return self._around.launch_size(loop)

    def lanes(self, loop: Operation) -> int:
        """Those of the function."""
        return self._around.lanes(loop)

    def _number(self, identity: Any) -> int:
        """The number of a value with that root. Windows of dynamic memory are compared with all of
        the function's (`shared_windows`)."""
        number = self._roots.get(identity)
        if number is None or identity[0] == "dynamic":
            self.repeatable = False
            return 0
        return number

    def _note(self, question: Question, answer: Any) -> None:
        self.answers.append((question, answer))
