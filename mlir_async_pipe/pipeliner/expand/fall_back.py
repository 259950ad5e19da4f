"""Loops whose buffers cannot have the versions that asynchronous copies need load into registers instead.

    plan: refused, smem-limit    -->    remark through-registers; the schedule that loads into
    {else_registers = 3}                registers, where buffers keep one version or two

The schedule says which loops leave the form open (`async_pipe.else_registers`, in how many stages).
"""

from __future__ import annotations

from dataclasses import replace

from mlir_async_pipe.bindings.raw_ops import operations
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.normalise.guarded_loads import take_apart_copies
from mlir_async_pipe.pipeliner.plan.make_plan import Limits
from mlir_async_pipe.pipeliner.schedule.by_count import remark_registers, through_registers, write
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.session.report import Session

# What forbids several versions of a buffer, but not loads into registers.
VERSION_CODES = ("smem-limit", "not-privatisable", "escapes", "buffer-not-versionable")


def goes_through_registers(error: PipelineError, limits: Limits, session: Session) -> bool:
    """Schedule a refused loop anew, so that it loads into registers; False if it cannot."""
    loop = error.loop
    if loop is None or error.code not in VERSION_CODES:
        return False
    found = names.read_loop(loop)
    if found.else_registers is None:
        return False
    asked = replace(found, num_stages=found.else_registers, stage_through="registers")
    decision = through_registers(loop, asked, session, Surroundings(limits.chip), limits)
    if decision is None:
        take_apart_copies(loop)
        decision = through_registers(loop, asked, session, Surroundings(limits.chip), limits)
    if decision is None:
        return False
    for op in operations(loop.regions[0].blocks[0]):
        names.remove(op, (names.ASYNC,))
    write(decision)
    why = error.diagnostic.message.removeprefix("cannot pipeline: ")
    stages = decision.last_stage + 1
    remark_registers(loop, stages, why, error.diagnostic.place, session)
    return True
