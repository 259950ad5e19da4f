"""func calls and branches between blocks (cf, llvm)."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import constant_value
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.amd import buffer_copy, copy_by_words, lane_copy, wave_copier
from mlir_async_pipe.machine.dialects.async_ops import counter_wait, physical_commit, physical_wait
from mlir_async_pipe.machine.dialects.gpu import barrier
from mlir_async_pipe.machine.dialects.memref import fence
from mlir_async_pipe.machine.dialects.nvvm import sized_copy
from mlir_async_pipe.machine.dialects.scf import packer
from mlir_async_pipe.machine.lane_values import split, split_cases
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS
from mlir_async_pipe.vocabulary.memory_ops import HINTS
from mlir_async_pipe.vocabulary.op_table import CALL, intrinsic_name


@semantics("func.call", "llvm.call")
def call(site: Site) -> Execute:
    """A call by name: a frame of its own, and marks of its own for function-scope queues. What stands
    for an intrinsic is that."""
    if site.row.described:
        return call_intrinsic(site)
    if not site.has("callee"):
        raise site.unsupported("calls through pointers")
    name = ir.FlatSymbolRefAttr(site.op.attributes["callee"]).value
    function = site.decoder.function(name, site.op)
    pack = packer(site)
    return lambda unit, *arguments: pack(unit.call(function, arguments))


@semantics(*BRANCH_ROWS)
def jump(site: Site) -> Execute:
    """Lanes part by a condition, or by the values of cases; without either all go to one block."""
    row = BRANCH_ROWS[site.name]
    targets = [site.decoder.block_number(block) for block in site.op.successors]
    given = row.operands(site.op)
    cases = row.cases(site.op) if row.cases is not None else []

    def execute(unit: Unit, *values: Any) -> list[tuple[int, Any, Any]]:
        if row.condition:
            masks = split(unit.mask, values[0])
        else:
            *of_cases, rest = split_cases(unit.mask, values and values[0], cases)
            masks = rest, *of_cases
        return [
            (target, mask, values[part.start : part.stop])
            for target, mask, part in zip(targets, masks, given, strict=True)
        ]

    return execute


@semantics(
    *HINTS,
    *"func.func llvm.mlir.global memref.global nvvm.setmaxregister vector.print".split(),
    *"llvm.intr.assume llvm.intr.expect llvm.intr.lifetime.start llvm.intr.lifetime.end".split(),
    # One grid runs: those before it are over.
    *("nvgpu.tma.fence.descriptor", "nvvm.griddepcontrol"),
)
def nothing(site: Site) -> Execute:
    """Declarations, hints and output: the operands are computed, and that is all. `expect` gives the first one."""
    if len(site.op.results):
        return lambda unit, value, *rest: value
    return lambda unit, *operands: None


# llvm.call_intrinsic: the copies, groups, waits and barriers of the vocabulary in LLVM form.
#
# Immediate operands (sizes, offsets, counts) have to be constants, as the back ends want them.


@semantics(CALL)
def call_intrinsic(site: Site) -> Execute:
    name = intrinsic_name(site.op)
    row = site.row
    if not row.described or row.meeting is not None:
        raise site.unsupported(f"intrinsic '{name}'")
    if row.barrier is not None:
        if len(site.op.results):
            raise site.unsupported("a barrier that counts threads")
        return barrier(site)
    if not row.accesses and row.queue is None:
        return fence(site)
    if row.commits == "group":
        return physical_commit(site)
    if row.wait is not None:
        wait = counter_wait if row.completion == "counter" else physical_wait
        return without_operands(wait(site))
    if row.by_wave:
        return copy_by_words(site)
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
