"""Registers of the values that a pipelined loop carries from step to step.

    scf.for … iter_args(%acc : vector<2x2xf32>, %older : f16, %slot : index)     4 + 1 + 2

What one step needs besides comes on top, so this is a lower estimate: where it exceeds what a
thread may have, the back end has to spill. Private versioned buffers count too, since they stand
in registers wherever their slots are static. Uniform values of AMD chips may live in scalar
registers instead, and tokens take none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import prod
from typing import Any

from mlir_async_pipe.chips.target import Chip
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan
from mlir_async_pipe.session.diagnostics import Diagnostics, Place
from mlir_async_pipe.vocabulary.launch_ids import Size
from mlir_async_pipe.vocabulary.memory_layout import REGISTER_BITS, registers_of_type


def registers_of(types: Iterable[Any], buffers: Iterable[BufferPlan]) -> int:
    """Registers of 32 bits a thread for values of these types, and for the private buffers that
    have versions."""
    private = sum(
        b.versions * b.slot_bytes for b in buffers if b.root.space == "private" and b.versions > 1
    )
    carried = sum(number * registers_of_type(kind) for kind, number in Counter(types).items())
    return carried + -(-private * 8 // REGISTER_BITS)


def remark_excess(
    needed: int, chip: Chip, block: Size | None, place: Place, diagnostics: Diagnostics
) -> None:
    """Say it if a thread cannot have as many registers, in a block of this size."""
    threads = None if block is None else prod(block)
    budget = chip.registers_of_thread(threads)
    if needed <= budget:
        return
    among = "" if threads is None else f" in a block of {threads}"
    diagnostics.remark(
        f"the values that the loop carries from step to step take {needed} registers of a thread, "
        f"and {chip.name} has {budget}{among}: the rest will be spilled",
        code="registers-over-budget",
        at=place,
    )
