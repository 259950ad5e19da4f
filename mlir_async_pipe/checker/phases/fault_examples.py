"""With which numbers of a kernel a fault is met, as a note tells it.

note: for example with %arg2 = 5, in iteration 3 of this loop
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import is_block_argument
from mlir_async_pipe.checker.forms import Atom
from mlir_async_pipe.checker.phase_faults import Example, FoundFault
from mlir_async_pipe.checker.phases.loop_turns import iteration_of
from mlir_async_pipe.checker.phases.path_state import PathState, Strand
from mlir_async_pipe.checker.step_graph import Flow

# Numbers that a note names; others are as they were chosen, small.
NAMED_NUMBERS = 4


def example_of(
    fault: FoundFault, state: PathState, flow: Flow, chosen: Mapping[Atom, int]
) -> Example | None:
    """The numbers, and the innermost loop around with its iteration, where a fault was met; None where
    there are neither."""
    # Of roles that all wait the one that is named is the one that counts.
    strands: list[PathState | Strand] = [
        role for role in state.others if role.blocked and role.blocked[0].op == fault.later
    ]
    where = (strands if fault.code == "deadlock" and strands else [state])[0]
    named = [(name, number) for atom, number in chosen.items() if (name := _name(atom, flow))]
    # In the order of the arguments: %arg2 before %arg10.
    listed = sorted(named[:NAMED_NUMBERS], key=lambda each: (len(each[0]), each[0]))
    numbers = ", ".join(f"{name} = {number}" for name, number in listed)
    for loop in reversed(where.turns):
        number = iteration_of(flow.loops[loop], where, state)
        if number is not None:
            with_them = f"with {numbers}, " if numbers else ""
            text = f"for example {with_them}in iteration {number} of this loop"
            return Example(text, flow.loops[loop].place)
    return Example(f"for example with {numbers}", None) if numbers else None


def _name(atom: Atom, flow: Flow) -> str:
    """An argument of the kernel as MLIR prints it, or a size of one; "" for other unknowns."""
    key: Any = atom.key
    if isinstance(key, int):
        return _argument(flow.values[key][1])
    if key[0] == "dim":
        memory = _argument(flow.values[key[1]][1])
        return f"size {key[2]} of {memory}" if memory else ""
    if key[0] == "block" and isinstance(key[1], int):
        return f"block id {'xyz'[key[1]]}"
    return ""


def _argument(value: Any) -> str:
    if not hasattr(value, "type") or not is_block_argument(value):
        return ""
    return f"%arg{ir.BlockArgument(value).arg_number}"
