"""The constants that an integer can be at run time, where there are few.

%n = arith.select %c, %c0, %c2            {0, 2}
%n = scf.if %c -> index { … 1 } else { … }  what the sides yield
%n = arith.remui %i, %c3                  {0, 1, 2}: its range
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import Value, constant_value
from mlir_async_pipe.flow.origins import origins
from mlir_async_pipe.values.linear import Arithmetic

MOST_CONSTANTS = 64


def possible_constants(value: Value) -> list[int] | None:
    """All values that an integer can have, in order; None if they are not known, or too many."""
    arithmetic = Arithmetic()
    found: set[int] = set()
    seen = {value}
    work = [value]
    while work:
        here = work.pop()
        constant = constant_value(here)
        if constant is not None:
            found.add(constant)
            continue
        sources = origins(here)
        if sources.complete and sources.handed:
            work += [source for source in sources.values if source not in seen]
            seen.update(sources.values)
        else:
            low, high = arithmetic.value_range(here)
            if low is None or high is None or high - low >= MOST_CONSTANTS:
                return None
            found.update(range(low, high + 1))
        if len(found) > MOST_CONSTANTS:
            return None
    return sorted(found)
