"""How much work one check may take, counted so that it is the same on every machine.

    a state that is followed                          10 points
    a question about two accesses, asked again         1 point
    one that was not asked before                     30 points
    positions of threads enumerated for it             1 point for 50

A kernel has so many points and some more for each of its steps; clocks are not asked. Where they
do not last, everything that is not decided is unknown, for the reason `budget`.
"""

from __future__ import annotations

from dataclasses import dataclass

STATE = 10
QUESTION = 30
POSITIONS = 50

# How long a point takes stands in docs/speed.md. Right kernels take some thousand points.
SYMBOLIC_POINTS = 40_000
POINTS = 200_000
POINTS_OF_A_STEP = 400


class BudgetError(Exception):
    """The points are spent: the rest of the kernel stays unknown."""


@dataclass
class Budget:
    """The points that are left for one kernel."""

    left: int

    def state(self) -> None:
        """Follow one more state. Raises BudgetError: only here, between two states, so that the
        order of questions in one state decides nothing."""
        if self.left <= 0:
            raise BudgetError
        self.left -= STATE

    def asked(self) -> None:
        self.left -= 1

    def decided(self, positions: int) -> None:
        """A question was decided, with so many positions enumerated."""
        self.left -= QUESTION + positions // POSITIONS


def of_steps(points: int, steps: int) -> Budget:
    """The budget of a kernel with so many steps."""
    return Budget(points + POINTS_OF_A_STEP * steps)
