"""What a proof distinguishes: the ladder of its rungs, and the one way to ask for more on one of them.

    full[k mod 3] is waited for      RefineError(modulus=3): all paths are followed again, with k known modulo 3

What a rung proves is proven. What it does not prove may be right: the next one distinguishes more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import lcm
from operator import add, or_
from typing import Any, TypeVar

from mlir_async_pipe.checker.forms import Atom

T = TypeVar("T")


class Rung(Enum):
    """One way to follow all paths, by what it distinguishes, the cheapest first. The first three follow symbols for
    one pair of threads, the others the phases of mbarriers for all threads."""

    SYMBOLS = "slots are symbols, remainders of the iteration number"
    SLOTS = "iteration numbers modulo what slots need, copies in flight group by group"
    FIRST = "the first 24 iterations, each by itself, for what is found of all others together"
    TOGETHER = "numbers of slots and phases; all threads take one path"
    ROTATED = (
        "roles; of states of which the same steps come next one, wherever in its ring a loop begins"
    )
    UNITED = "roles; of states of which the same steps come next one"
    DONE = "roles; of states in which the same was done one"
    ROLES = "roles; all states that differ"
    EXACT = "iterations of a loop of many, each by itself"
    NUMBERS = "the kernel with numbers put in, for what is wrong on the rungs before"


MERGED = (Rung.ROTATED, Rung.UNITED, Rung.DONE)


@dataclass(frozen=True)
class Precision:
    """What is distinguished on a rung: as little as can be, and more of it where a path asks for that.

    `tracked`: memory whose accesses of one barrier interval are compared, by root. `periods`: what a loop's iteration
    numbers are known modulo, on the rungs of symbols; `modulus`: those of all loops, on the others. `counted`: of which
    loops more than a few first iterations are counted. `apart`: tests of a phase after which the path splits. `warps`
    act unlike others of their class. `aligned`: lanes of a warp that come to one op wait for each other. `rings`:
    bytes that are slots of rings, by root. `conditions`: comparisons whose outcome is never forgotten;
    `until`: pairs of values, the first of which is remembered until the second is made, since it is the same comparison.
    `unlike`: threads may load different numbers from one place of workgroup memory. `abreast`: iterations of a loop are
    counted until all roles that come to one like it have begun that.
    """

    tracked: frozenset[int] = frozenset()
    periods: dict[int, int] = field(default_factory=dict)
    modulus: int = 1
    counted: dict[int, int] = field(default_factory=dict)
    apart: frozenset[int] = frozenset()
    warps: tuple[int, ...] = ()
    aligned: bool = False
    rings: dict[int, Any] = field(default_factory=dict)
    conditions: frozenset[Atom] = frozenset()
    until: frozenset[tuple[int, int]] = frozenset()
    unlike: bool = False
    abreast: bool = False

    def joined(self, more: Mapping[str, Any]) -> Precision:
        """This and `more` of some fields."""
        join = {"modulus": lcm, "warps": add}
        found = {name: join.get(name, or_)(getattr(self, name), by) for name, by in more.items()}
        return replace(self, **found)


class OpenError(Exception):
    """What comes next is open on one path, which splits or goes on with more: a condition, or whether a form is 1 or
    more (`form`); the residue of an unknown (`atom`, by); an unknown that is better taken apart (`atom`, the form that it
    is, its quotient); which threads go on, if a number is another one in some (`value`). These are its `args`."""


class RefineError(Exception):
    """What comes next is decided by what is not distinguished: fields of a `Precision`, and what of each is needed."""

    def __init__(self, **more: Any) -> None:
        self.more = more


def refined(run: Callable[[Precision], T], precision: Precision = Precision()) -> T:
    """What a run gives that has all the precision for which it asks."""
    while True:
        try:
            return run(precision)
        except RefineError as needed:
            precision = precision.joined(needed.more)
