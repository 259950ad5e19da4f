"""Numbers that a loop counts in a way that nothing but running it would tell.

    %tile' = select %last, %tile + 1, %tile        0, 0, 1, 1, 2, 2, …

Each new number would be a new state, for ever. After as many as no ring has slots, the number
is forgotten: from then on it may be anything.
"""

from __future__ import annotations

from mlir_async_pipe.checker.forms import Form
from mlir_async_pipe.checker.path_values import Values
from mlir_async_pipe.checker.state import State

# Tiles of 16 KiB fill the 228 KiB of an H100 with 14 slots. What two counters count together makes
# the square of it in states: with 64 a kernel over tiles of unknown number takes more than 20000.
LARGEST_RING = 16


class Counters:
    """The values that variables were seen to have at the headers of loops."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._seen: dict[tuple[int, int], set[Form]] = {}

    def forget_endless(self, header: int, state: State) -> None:
        """Forget each variable of `state` that had more values than a ring has slots."""
        for number, value in list(state.env.items()):
            if not isinstance(value, Form):
                continue
            seen = self._seen.setdefault((header, number), set())
            if len(seen) <= LARGEST_RING:
                seen.add(value)
            if len(seen) > LARGEST_RING:
                _, ssa = self._values.flow.values[number]
                self._values.forget(state, number, ssa.type)
