"""llvm.call_intrinsic: the copies, groups, waits and barriers of the vocabulary in LLVM form.

Immediate operands (sizes, offsets, counts) have to be constants, as the back ends want them.
"""

from __future__ import annotations

import numpy as np

from mlir_async_pipe.bindings.raw_ops import constant_value
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.amd import buffer_copy, lane_copy, wave_copier
from mlir_async_pipe.machine.dialects.async_ops import (
    counter_wait,
    physical_commit,
    physical_wait,
)
from mlir_async_pipe.machine.dialects.gpu import barrier
from mlir_async_pipe.machine.dialects.memref import fence
from mlir_async_pipe.machine.dialects.nvvm import sized_copy
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.vocabulary.op_table import CALL, intrinsic_name

Array = np.ndarray


@semantics(CALL)
def call_intrinsic(site: Site) -> Execute:
    """What the op of the intrinsic's row does."""
    name = intrinsic_name(site.op)
    if site.row is None or site.row.meeting is not None:
        raise site.unsupported(f"intrinsic '{name}'")
    row = site.row
    if row.barrier is not None and len(site.op.results):
        raise site.unsupported("a barrier that counts threads")
    if row.barrier is not None:
        return barrier(site)
    if not row.accesses and row.queue is None:
        return fence(site)
    if row.commits == "group":
        return physical_commit(site)
    if row.wait is not None:
        wait = counter_wait if row.completion == "counter" else physical_wait
        return without_operands(wait(site))
    return _copy(site, row.op)


def without_operands(execute: Execute) -> Execute:
    """An op whose operands were read while it was decoded."""
    return lambda unit, *operands: execute(unit)


def _copy(site: Site, name: str) -> Execute:
    if name.startswith("llvm.nvvm.cp.async."):
        return sized_copy(site, int(name.removesuffix(".s").rpartition(".")[2]))
    if ".buffer." in name:
        return buffer_copy(site)
    if ".lds.b" in name:
        bits = int(name.rpartition(".b")[2])
        run = lane_copy(bits // 8, _constant(site, 2))(site)
        return lambda unit, source, target, *immediates: run(unit, source, target)
    return wave_copier(site, _constant(site, 2), _constant(site, 3))


def _constant(site: Site, number: int) -> int:
    value = constant_value(site.op.operands[number])
    if value is None:
        raise site.unsupported(f"operand {number} is not a constant")
    return value
