"""From a pipelined module to code, and back from the code to the counts in it.

    lower(module, target=Target.parse("nvvm:sm_80"), emit="cubin")
    lower(module, target=Target.parse("rocdl:gfx950"), emit="isa")

The caller's module stays as it is; passes run on a copy, and back ends in a child process.
What comes back holds the code, and what was read from it: the waits of every kernel with their
counts, registers, spills, and shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session.diagnostics import Diagnostic, UsageError
from mlir_async_pipe.session.report import Session

EMIT_KINDS = {"nvvm": ("llvm", "ptx", "cubin"), "rocdl": ("llvm", "isa", "hsaco")}


@dataclass(frozen=True)
class Lowered:
    """Emitted code: `text` or `binary` (the other is empty), and its kernels.

    `kernels` are NvidiaKernel (`lower_nvvm`) or IsaKernel (`isa`), `waits` on AMD what became
    of each wait (`isa_markers`). `diagnostics` are the remarks of the lowering, `emit` and
    `target` what was asked for.
    """

    target: str
    emit: str
    text: str
    binary: bytes
    kernels: tuple[Any, ...]
    waits: tuple[Any, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def lower(
    module: Any,
    *,
    target: Target,
    emit: str = "ptx",
    strict: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
) -> Lowered:
    """Lower `module` to `target` and emit "llvm" (dialect), "ptx", "cubin", "isa" or "hsaco".

    With `strict` a scope that the chip cannot run asynchronously is an error. `meanwhile` is
    called once, while the back end's process works if there is one; what it raises ends that
    process and leaves this call.
    Raises AsyncPipeError: LoweringError where the module cannot be lowered, UsageError for a
    kind that the target does not have or a tool that is missing.
    """
    kinds = EMIT_KINDS[target.lowering]
    if emit not in kinds:
        raise UsageError(
            f"target '{target}' cannot emit '{emit}'",
            code="emit-kind",
            advice=f"it can emit {', '.join(kinds)}",
        )
    session = Session(target=target)
    root = module.operation.clone().operation
    generate = _generate_nvvm if target.lowering == "nvvm" else _generate_rocdl
    once = _Once(meanwhile)
    try:
        code, waits = generate(root, session, target, emit, strict, once)
    finally:
        once()
    return Lowered(
        str(target),
        emit,
        code.text,
        code.binary,
        code.kernels,
        waits,
        tuple(session.diagnostics.items),
    )


class _Once:
    """A call that happens the first time only."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


# Only the vendor that is asked for is imported: start-up counts.


def _generate_nvvm(
    root: Any,
    session: Session,
    target: Target,
    emit: str,
    strict: bool,
    meanwhile: Callable[[], None],
) -> tuple[Any, tuple[Any, ...]]:
    from mlir_async_pipe.lowering.nvvm import lower_nvvm

    return lower_nvvm.generate(
        root, session, target.chip, emit, strict=strict, meanwhile=meanwhile
    ), ()


def _generate_rocdl(
    root: Any,
    session: Session,
    target: Target,
    emit: str,
    strict: bool,
    meanwhile: Callable[[], None],
) -> tuple[Any, tuple[Any, ...]]:
    from mlir_async_pipe.lowering.rocdl import rocdl_code, to_rocdl

    options = to_rocdl.ToRocdlOptions(chip=target.chip.name, strict=strict)
    to_rocdl.run(root, options, session)
    code = rocdl_code.generate(root, target.chip, emit, meanwhile)
    rocdl_code.remark_stricter(code.waits, session.diagnostics)
    return code, code.waits
