"""How many iterations ahead loads may run into registers, by what a thread of the chip has.

    loads of 48 registers an iteration, a sum of 64 that the loop carries, 255 for a thread
        5 stages: 64 + 4 * 48 = 256        4 stages: 64 + 3 * 48 = 208, taken

What one step computes with comes on top and is not counted, as in `carried_registers`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.plan.carried_registers import registers_of
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary.launch_size import enclosing_launch_size

FEWEST = 2


def stages_in_budget(
    loop: Operation, loads: Iterable[Operation], stages: int, session: Session
) -> int:
    """The most stages up to `stages`, 2 at least, whose loaded values fit; a remark where they are
    fewer. Without a chip all are taken to fit."""
    chip = None if session.target is None else session.target.chip
    if chip is None or stages <= FEWEST:
        return stages
    block = enclosing_launch_size(loop)
    budget = chip.registers_of_thread(None if block is None else prod(block))
    each = registers_of((value.type for op in loads for value in op.results), ())
    carried = registers_of((value.type for value in loop.results), ())
    fitting = stages if not each else min(stages, (budget - carried) // each + 1)
    taken = max(fitting, FEWEST)
    if taken < stages:
        session.diagnostics.remark(
            f"{taken} stages instead of {stages}: each iteration ahead takes {each} registers of a "
            f"thread, the loop carries {carried}, and {chip.name} has {budget}",
            code="stages-reduced",
            at=loop,
        )
    return taken
