"""From a pipelined module to code, and back from the code to the counts in it.

    lower(module, target=Target.parse("nvvm:sm_80"), emit="cubin")
    lower(module, target=Target.parse("rocdl:gfx950"), emit="isa")

The caller's module stays as it is; passes run on a copy, and back ends in a child process.
What comes back holds the code, and what was read from it: the counts of all waits in PTX, in
the machine code or in AMD's assembly, registers, spills, and shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mlir_async_pipe.diagnostics import Diagnostic, UsageError
from mlir_async_pipe.ir_helpers import integer_attribute, set_integer, symbol_name, walk
from mlir_async_pipe.report import Session
from mlir_async_pipe.targets import Target, nvvm_code, rocdl_code, to_nvvm, to_rocdl
from mlir_async_pipe.targets.chips import Chip
from mlir_async_pipe.targets.cubin import MachineKernel, read_cubin
from mlir_async_pipe.targets.cuda_tools import find_tool
from mlir_async_pipe.targets.dynamic_shared import DYNAMIC_BYTES
from mlir_async_pipe.targets.isa import IsaKernel
from mlir_async_pipe.targets.isa_markers import WaitReadback
from mlir_async_pipe.targets.ptx import PtxKernel, read_ptx
from mlir_async_pipe.targets.ptxas import Assembled, Resources, assemble

# At least one block a multiprocessor: ptxas may then use all 255 registers of a thread.
MINIMUM_BLOCKS = "nvvm.minctasm"


@dataclass(frozen=True)
class Kernel:
    """One kernel of the emitted code.

    `dynamic_shared_bytes` is what its launch must ask for. `ptx`, `resources` and `machine`
    are what was read from the PTX, from ptxas and from the cubin, `isa` and `waits` what was
    read from AMD's assembly; None or () where that was not made.
    """

    name: str
    dynamic_shared_bytes: int = 0
    ptx: PtxKernel | None = None
    resources: Resources | None = None
    machine: MachineKernel | None = None
    isa: IsaKernel | None = None
    waits: tuple[WaitReadback, ...] = ()


@dataclass(frozen=True)
class Lowered:
    """Emitted code: `text` or `binary` (the other is empty), and its kernels.

    `diagnostics` are the remarks of the lowering, `emit` and `target` what was asked for.
    """

    target: str
    emit: str
    text: str
    binary: bytes
    kernels: tuple[Kernel, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


EMIT_KINDS = {"nvvm": ("llvm", "ptx", "cubin"), "rocdl": ("llvm", "isa", "hsaco")}


def lower(module: Any, *, target: Target, emit: str = "ptx", strict: bool = False) -> Lowered:
    """Lower `module` to `target` and emit "llvm" (dialect), or for NVIDIA "ptx" or "cubin", for
    AMD "isa" (assembly) or "hsaco" (code object).

    With `strict` a scope that the chip cannot run asynchronously is an error.
    Raises AsyncPipeError: LoweringError where the module cannot be lowered, UsageError for a
    kind that the target does not have or a tool that is missing.
    """
    kinds = EMIT_KINDS[target.lowering]
    if emit not in kinds:
        raise UsageError(
            f"target '{target}' cannot emit '{emit}'",
            code="emit-kind",
            advice=f"{target.lowering} targets emit {', '.join(kinds)}",
        )
    session = Session(target=target)
    root = module.operation.clone().operation
    if target.lowering == "rocdl":
        return _lower_rocdl(root, emit, session, strict)
    to_nvvm.run(root, to_nvvm.ToNvvmOptions(target.chip.name, strict), session)
    kernels = tuple(
        Kernel(symbol_name(op), integer_attribute(op, DYNAMIC_BYTES) or 0)
        for op in walk(root)
        if op.name == "llvm.func" and "nvvm.kernel" in op.attributes
    )
    if emit == "llvm":
        return _result(session, emit, str(root), b"", kernels)
    ptx, assembled = _generate(root, target.chip, session, needs_cubin=emit == "cubin")
    read = {kernel.name: kernel for kernel in read_ptx(ptx)}
    kernels = tuple(replace(kernel, ptx=read.get(kernel.name)) for kernel in kernels)
    if assembled is not None:
        resources = assembled.resources
        kernels = tuple(replace(k, resources=resources.get(k.name)) for k in kernels)
    if emit == "ptx" or assembled is None:
        return _result(session, emit, ptx, b"", kernels)
    if find_tool("nvdisasm") is not None:
        machine = {kernel.name: kernel for kernel in read_cubin(assembled.cubin)}
        kernels = tuple(replace(k, machine=machine.get(k.name)) for k in kernels)
    return _result(session, emit, "", assembled.cubin, kernels)


def _lower_rocdl(root: Any, emit: str, session: Session, strict: bool) -> Lowered:
    assert session.target is not None
    chip = session.target.chip
    to_rocdl.run(root, to_rocdl.ToRocdlOptions(chip.name, strict), session)
    code = rocdl_code.generate(root, chip, emit)
    for wait in code.waits:
        if wait.verdict == "stricter":
            session.diagnostics.remark(
                f"the back end made this wait stricter: {wait.reason}",
                code="back-end-wait",
                at=wait.wait.place,
            )
    kernels = tuple(
        Kernel(
            kernel.name,
            isa=kernel,
            waits=tuple(wait for wait in code.waits if wait.wait.function == kernel.name),
        )
        for kernel in code.kernels
    )
    return _result(session, emit, code.text, code.binary, kernels)


def _result(
    session: Session, emit: str, text: str, binary: bytes, kernels: tuple[Kernel, ...]
) -> Lowered:
    for kernel in kernels:
        session.record("kernels", kernel)
    diagnostics = tuple(session.diagnostics.items)
    return Lowered(str(session.target), emit, text, binary, kernels, diagnostics)


def _generate(
    root: Any, chip: Chip, session: Session, *, needs_cubin: bool
) -> tuple[str, Assembled | None]:
    """PTX, and its cubin where ptxas is installed; made a second time if kernels spill."""
    ptx = nvvm_code.ptx_text(root, chip)
    if not needs_cubin and find_tool("ptxas") is None:
        return ptx, None
    assembled = assemble(ptx, chip)
    spilling = [name for name, found in assembled.resources.items() if found.spill_store_bytes]
    changed = [op for op in walk(root) if _can_have_more_registers(op, spilling)]
    if not changed:
        return ptx, assembled
    for op in changed:
        set_integer(op, MINIMUM_BLOCKS, 1, 32)
    second_ptx = nvvm_code.ptx_text(root, chip)
    second = assemble(second_ptx, chip)
    better = _spilled(second) < _spilled(assembled)
    for op in changed:
        before, after = (made.resources[symbol_name(op)] for made in (assembled, second))
        outcome = f"{after.spill_store_bytes} with {MINIMUM_BLOCKS} = 1, which is used"
        session.diagnostics.remark(
            f"'{symbol_name(op)}' spills {before.spill_store_bytes} bytes a thread"
            + (f", and {outcome}" if better else f"; {MINIMUM_BLOCKS} = 1 does not help"),
            code="spills",
            at=op,
        )
    return (second_ptx, second) if better else (ptx, assembled)


def _spilled(assembled: Assembled) -> int:
    return sum(found.spill_store_bytes for found in assembled.resources.values())


def _can_have_more_registers(op: Any, spilling: list[str]) -> bool:
    return (
        op.name == "llvm.func"
        and symbol_name(op) in spilling
        and MINIMUM_BLOCKS not in op.attributes
    )
