"""What no later step can ask for is forgotten where paths meet: else loops in a row multiply states.

    loop on %full0        6 states after it: its mbarriers in slots and phases
    loop on %full1        %full0 is named by no value that is read any more: 6 again, not 36

An mbarrier is forgotten after all of its copies are over, and what is known of unknowns that nothing
is made of any more; `past` keeps what led here, for numbers to be found with which it is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir_async_pipe.checker.forms import Form
from mlir_async_pipe.checker.graph_facts import loop_bodies
from mlir_async_pipe.checker.phases.async_memory import AsyncMemory
from mlir_async_pipe.checker.phases.byte_places import Place, Value
from mlir_async_pipe.checker.phases.path_numbers import PathNumbers
from mlir_async_pipe.checker.phases.path_state import PathState
from mlir_async_pipe.checker.phases.unknown_products import atoms_within
from mlir_async_pipe.checker.step_graph import Flow, Run


@dataclass
class Outlived:
    """What the values that live where blocks begin, `live`, name of mbarriers and unknowns."""

    flow: Flow
    numbers: PathNumbers
    live: list[set[int]]
    _given: dict[int, list[Value]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        inside = {n for _, body in loop_bodies(self.flow).values() for n in body}
        again = {
            (step.op, step.frame)
            for number in inside
            for step in self.flow.blocks[number].steps
            if isinstance(step, Run)
        }
        groups = self.numbers.groups.items()
        # A loop around makes the same ones anew.
        self.once = frozenset(group for made, group in groups if made not in again)

    def forget(self, state: PathState, block: int) -> None:
        """Forget what is over, where all threads of one block go one way."""
        if type(state.memory) is not AsyncMemory or state.mask != state.memory.everybody:
            return
        if block not in self._given:
            self._given[block] = [self.numbers.given(number) for number in self.live[block]]
        values = {*self._given[block], *state.env.values()}
        values |= {turn.value for turn in state.turns.values()}
        terms = {atom for value in values if isinstance(value, Form) for atom, _ in value.terms}
        atoms = {inner for atom in terms for inner in atoms_within(atom)}
        roots = {value.root for value in values if isinstance(value, Place)}
        roots |= {int(str(atom.key)) for atom in atoms if atom.kind in ("address", "units")}
        state.memory.forget(self.once - roots)
        state.known.keep(atoms)
