"""Makes code for an NVIDIA chip and reads it back: PTX, ptxas, nvdisasm."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    integer_attribute,
    set_integer,
    symbol_name,
    walk_named,
)
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.lowering.nvvm import nvvm_code, to_nvvm
from mlir_async_pipe.lowering.nvvm.cubin import MachineKernel, read_cubin
from mlir_async_pipe.lowering.nvvm.cuda_tools import find_tool, require_tool
from mlir_async_pipe.lowering.nvvm.dynamic_shared import DYNAMIC_BYTES
from mlir_async_pipe.lowering.nvvm.needs_ptxas import needs_ptxas
from mlir_async_pipe.lowering.nvvm.ptx import PtxKernel, read_ptx
from mlir_async_pipe.lowering.nvvm.ptxas import AnsweredLater, Assembled, Question, assemble
from mlir_async_pipe.lowering.nvvm.ptxas_faults import fault_in, version
from mlir_async_pipe.session.report import Session

# At least one block a multiprocessor: ptxas may then use all 255 registers of a thread.
MINIMUM_BLOCKS = "nvvm.minctasm"


@dataclass(frozen=True)
class NvidiaKernel:
    """One kernel of the emitted code.

    `dynamic_shared_bytes` is what its launch must ask for. `ptx`, `resources` and `machine`
    are what was read from the PTX, from ptxas and from the cubin, None where that was not made. Of
    PTX ptxas may be asked for `resources` only when they are read.
    """

    name: str
    dynamic_shared_bytes: int = 0
    ptx: PtxKernel | None = None
    resources: AnsweredLater = AnsweredLater()  # noqa: RUF009, a descriptor
    machine: MachineKernel | None = None


@dataclass(frozen=True)
class NvidiaCode:
    """Emitted code: `text` or `binary` (the other is empty), and its kernels."""

    text: str
    binary: bytes
    kernels: tuple[NvidiaKernel, ...]


def generate(
    root: Any,
    session: Session,
    chip: Chip,
    emit: str,
    options: dict[str, Any],
    *,
    resources: bool | None = None,
    kept: bool = True,
) -> Generator[None, None, NvidiaCode]:
    """Lower a module, which is changed, with `options` of `async-pipe-to-nvvm`, and emit "llvm"
    (dialect), "ptx" or "cubin".

    About PTX ptxas is asked always, never, or with None for `resources` at once where its answer may
    matter (`needs_ptxas`) and else when it is read; without `kept` always anew. Yields while the back
    end works, not at all for "llvm".
    Raises LoweringError and UsageError, as the steps do.
    """
    to_nvvm.run(root, to_nvvm.ToNvvmOptions(chip.name, **options), session)
    kernels = tuple(
        NvidiaKernel(symbol_name(op), integer_attribute(op, DYNAMIC_BYTES) or 0)
        for op in _functions(root)
        if "nvvm.kernel" in op.attributes
    )
    if emit == "llvm":
        return NvidiaCode(str(root), b"", kernels)
    ptx = yield from nvvm_code.ptx_text(root, chip, session.seconds)
    assembled = None
    if _is_asked(ptx, chip, emit, resources, session):
        ptx, assembled = yield from _assembled(ptx, root, chip, session, kept)
        _tell_of_products(assembled, root, session)
        _tell_of_fault(ptx, root, session)
    read = {kernel.name: kernel for kernel in read_ptx(ptx)}
    kernels = tuple(replace(kernel, ptx=read.get(kernel.name)) for kernel in kernels)
    if assembled is not None:
        needed = assembled.resources
        kernels = tuple(replace(k, resources=needed.get(k.name)) for k in kernels)
    elif resources is None and find_tool("ptxas") is not None:
        asked = (Question(k.name, ptx, chip, kept) for k in kernels)
        kernels = tuple(replace(k, resources=q) for k, q in zip(kernels, asked, strict=True))
    if emit == "ptx" or assembled is None:
        return NvidiaCode(ptx, b"", kernels)
    if find_tool("nvdisasm") is not None:
        with session.measured("nvdisasm"):
            machine = {kernel.name: kernel for kernel in read_cubin(assembled.cubin)}
        kernels = tuple(replace(k, machine=machine.get(k.name)) for k in kernels)
    return NvidiaCode("", assembled.cubin, kernels)


def _is_asked(ptx: str, chip: Chip, emit: str, resources: bool | None, session: Session) -> bool:
    """Whether ptxas is asked now."""
    if emit == "cubin":
        return True
    if resources is False or find_tool("ptxas") is None:
        return False
    with session.measured("registers"):
        return resources is True or needs_ptxas(ptx, chip)


def _assembled(
    ptx: str, root: Any, chip: Chip, session: Session, kept: bool
) -> Generator[None, None, tuple[str, Assembled]]:
    """PTX and its cubin; made a second time if kernels spill."""
    with session.measured("ptxas"):
        assembled = assemble(ptx, chip, kept=kept)
    spilling = [name for name, found in assembled.resources.items() if found.spill_store_bytes]
    functions = _functions(root) if spilling else []
    changed = [op for op in functions if _can_have_more_registers(op, spilling)]
    if not changed:
        return ptx, assembled
    for op in changed:
        set_integer(op, MINIMUM_BLOCKS, 1, 32)
    second_ptx = yield from nvvm_code.ptx_text(root, chip, session.seconds)
    with session.measured("ptxas"):
        second = assemble(second_ptx, chip, kept=kept)
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


def _tell_of_products(assembled: Assembled, root: Any, session: Session) -> None:
    for said in assembled.on_products:
        named = (op for op in _functions(root) if f"'{symbol_name(op)}'" in said)
        session.diagnostics.remark(
            f"ptxas says of products of warpgroups: {said}",
            code="products-serialised",
            at=next(named, None),
        )


def _tell_of_fault(ptx: str, root: Any, session: Session) -> None:
    ptxas = require_tool("ptxas")
    fault = fault_in(ptx, ptxas)
    if fault:
        session.diagnostics.warning(
            f"ptxas {'.'.join(map(str, version(ptxas)))} {fault}: the machine code may be wrong; "
            "from 13.1 on it is right (pip install 'nvidia-cuda-nvcc>=13.1'), and so are sums of the "
            "lower 32 bits",
            code="ptxas-fault",
            at=next(iter(_functions(root)), None),
        )


def _functions(root: Any) -> list[Any]:
    return walk_named(root, "llvm.func".__eq__, inside=False)


def _spilled(assembled: Assembled) -> int:
    return sum(found.spill_store_bytes for found in assembled.resources.values())


def _can_have_more_registers(op: Any, spilling: list[str]) -> bool:
    return symbol_name(op) in spilling and MINIMUM_BLOCKS not in op.attributes
