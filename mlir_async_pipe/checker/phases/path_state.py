"""One point of one path: the numbers, what is known of them, the memory, and which threads are there."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phases.async_memory import AsyncMemory
from mlir_async_pipe.checker.phases.byte_places import Value
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge, mentions
from mlir_async_pipe.checker.phases.registers_in_flight import Registers
from mlir_async_pipe.checker.phases.spot import Spot
from mlir_async_pipe.checker.step_graph import Edge


class Turn(NamedTuple):
    """A loop on a path: the number of its iteration (None: any), what it advances by, and the
    unknown that it is made of, if it is."""

    value: int | Form | None
    step: int = 0
    unknown: Atom | None = None


class Parted(NamedTuple):
    """Threads that part up to the block `join`: those around it (`whole`), the other side that is
    to come (its edge and threads), what the side before handed to `join`, and the bit that parts
    them."""

    join: int
    whole: int | None
    rest: tuple[Edge, int | None] | None
    handed: tuple[tuple[int, Value], ...] = ()
    condition: Value = None


@dataclass
class PathState:
    """A state that steps change. `given` are the values that no step makes, `turns` the loops
    around, `sides` the branches on threads around. `doubtful`: it need not exist."""

    given: Callable[[int], Value]
    memory: AsyncMemory
    mask: int | None
    env: dict[int, Value] = field(default_factory=dict)
    known: Knowledge = field(default_factory=Knowledge)
    registers: Registers = field(default_factory=Registers)
    turns: dict[int, Turn] = field(default_factory=dict)
    sides: tuple[Parted, ...] = ()
    doubtful: bool = False

    def copy(self, known: Knowledge | None = None) -> PathState:
        """A state that can be changed on its own."""
        return replace(
            self,
            env=dict(self.env),
            known=known or self.known.copy(),
            memory=self.memory.copy(),
            registers=self.registers.copy(),
            turns=dict(self.turns),
        )

    def key(self) -> Hashable:
        """What is equal for the same state."""
        return (
            frozenset(self.env.items()),
            self.known.key(),
            self.memory.key(),
            self.registers.key(),
            self.mask,
            frozenset(self.turns.items()),
            self.sides,
            self.doubtful,
        )

    def get(self, number: int) -> Value:
        """A value by its number."""
        return self.env[number] if number in self.env else self.given(number)

    def spot(self) -> Spot:
        """What effects look at."""
        return Spot(self.memory, self.known, self.mask, self.get)

    def take_apart(self, atom: Atom, form: Form, quotient: Atom) -> None:
        """An argument of the kernel becomes `by` quotients and a remainder, minus a constant."""
        by = dict(form.terms)[quotient]
        low, high = self.known.bounds(Form(-form.constant, frozenset({(atom, 1)})))
        self.known.forget(atom)
        ends = (None if end is None else end // by for end in (low, high))
        self.known.learn(Form(0, frozenset({(quotient, 1)})), *ends)
        number = atom.key
        assert isinstance(number, int)
        for other, value in [(number, self.get(number)), *self.env.items()]:
            if isinstance(value, Form):
                factor = dict(value.terms).get(atom, 0)
                rest = Form(value.constant, value.terms - {(atom, factor)})
                if factor:
                    self.env[other] = forms.add(rest, forms.scale(form, factor))
                elif mentions(value, atom):
                    self.env[other] = None

    def forget(self, atom: Atom) -> None:
        """An unknown gets another value: nothing is known of it and of what it made."""
        self.known.forget(atom)
        for number, value in self.env.items():
            if isinstance(value, Form) and mentions(value, atom):
                self.env[number] = None
