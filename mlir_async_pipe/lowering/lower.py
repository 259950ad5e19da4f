"""From a pipelined module to code, and back from the code to the counts in it.

    lower(module, target=Target.parse("nvvm:sm_80"), emit="cubin")
    lower(module, target=Target.parse("rocdl:gfx950"), emit="isa")

    with begin(module, target=target) as started:     the back end works in its own process
        …                                             so does this one
        lowered = started.result()

The caller's module stays as it is; passes run on a copy, and back ends in a child process.
What comes back holds the code, and what was read from it: the waits of every kernel with their
counts, registers, spills, and shared memory.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session.diagnostics import Diagnostic, UsageError
from mlir_async_pipe.session.report import Session

if TYPE_CHECKING:
    from mlir_async_pipe.lowering.launch_parameters import Parameter

EMIT_KINDS = {"nvvm": ("llvm", "ptx", "cubin"), "rocdl": ("llvm", "isa", "hsaco")}


@dataclass(frozen=True)
class CodeOptions:
    """How code is made. With `strict` a scope that the chip cannot run asynchronously is an error.
    With `bare_pointers` a memref is handed over as one pointer instead of a descriptor. On NVIDIA
    chips `bypass_l1` says which copies of 16 bytes bypass the first-level cache ("all", or those
    that are "formed" here and those that say so), and with `l2_lines` copies of parts of a line
    fetch it whole into the second. Of PTX ptxas is asked what it needs, so that a kernel that spills is
    made again: with None for `resources` where a kernel may spill, or ptxas alone may find something
    wrong, else when somebody reads it; with True always, with False never. Without `kept` it is asked
    anew for PTX that it has seen in another process."""

    strict: bool = False
    bare_pointers: bool = False
    bypass_l1: Literal["all", "formed"] = "all"
    l2_lines: bool = True
    resources: bool | None = None
    kept: bool = True


AS_USUAL = CodeOptions()


@dataclass(frozen=True)
class Lowered:
    """Emitted code: `text` or `binary` (the other is empty), and its kernels.

    `kernels` are NvidiaKernel (`lower_nvvm`) or IsaKernel (`isa`), `waits` on AMD what became
    of each wait (`isa_markers`). `parameters` has, by kernel, what a launch hands over
    (`launch_parameters`). `diagnostics` are the remarks of the lowering, `emit` and
    `target` what was asked for. `seconds` is the wall time of each step, by its name.
    """

    target: str
    emit: str
    text: str
    binary: bytes
    kernels: tuple[Any, ...]
    waits: tuple[Any, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    parameters: dict[str, tuple[Parameter, ...]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    def arguments(self, kernel: str, values: Sequence[Any]) -> tuple[Any, ...]:
        """The ctypes values that a launch of `kernel` hands over, one for each parameter.

        `values` are the kernel's own arguments in order, as `machine.run` takes them: arrays that
        the device sees (`__cuda_array_interface__`, or NumPy's), addresses, numbers. Raises
        UsageError (launch-argument) for what does not fit, or no such kernel.
        """
        from mlir_async_pipe.lowering.launch_parameters import launch_values

        if kernel not in self.parameters:
            raise UsageError(
                f"there is no kernel '{kernel}'",
                code="launch-argument",
                advice=f"there is {', '.join(self.parameters) or 'none'}",
            )
        return launch_values(self.parameters[kernel], values)


class Started:
    """A lowering that has begun; leaving its context ends the back end's process."""

    def __init__(self, steps: Generator[None, None, Lowered]) -> None:
        self._steps = steps
        self._lowered: Lowered | None = None
        self._error: Exception | None = None
        self._advance()

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *raised: object) -> None:
        self._steps.close()

    def result(self) -> Lowered:
        """Wait for the code; raises what the lowering raised, also while it began."""
        while self._lowered is None:
            if self._error is not None:
                raise self._error
            self._advance()
        return self._lowered

    def _advance(self) -> None:
        try:
            next(self._steps)
        except StopIteration as done:
            self._lowered = done.value
        except Exception as error:
            self._error = error


def begin(
    module: Any, *, target: Target, emit: str = "ptx", options: CodeOptions = AS_USUAL
) -> Started:
    """Begin to lower `module`, and return as soon as the back end's process works, if there is
    one. The module may be looked at meanwhile.

    Raises UsageError (emit-kind) for a kind that the target does not have; all else is raised by
    `Started.result`.
    """
    kinds = EMIT_KINDS[target.lowering]
    if emit not in kinds:
        raise UsageError(
            f"target '{target}' cannot emit '{emit}'",
            code="emit-kind",
            advice=f"it can emit {', '.join(kinds)}",
        )
    return Started(_steps(module.operation, target, emit, options))


def lower(
    module: Any, *, target: Target, emit: str = "ptx", options: CodeOptions = AS_USUAL
) -> Lowered:
    """Lower `module` to `target` and emit "llvm" (dialect), "ptx", "cubin", "isa" or "hsaco".

    Raises AsyncPipeError: LoweringError where the module cannot be lowered, UsageError for a
    kind that the target does not have or a tool that is missing.
    """
    with begin(module, target=target, emit=emit, options=options) as started:
        return started.result()


def _steps(
    module: Any, target: Target, emit: str, options: CodeOptions
) -> Generator[None, None, Lowered]:
    """Lower a copy; yields while a back end works."""
    # It needs the bindings, which may be chosen until now.
    from mlir_async_pipe.lowering import launch_parameters

    session = Session(target=target, witnesses=False)
    root = module.operation.clone(ip=False).operation
    bare = options.bare_pointers
    parameters = launch_parameters.parameters_of(root, bare_pointers=bare)
    code: Any
    waits: tuple[Any, ...] = ()
    # Only the vendor that is asked for is imported: start-up counts.
    if target.lowering == "nvvm":
        from mlir_async_pipe.lowering.nvvm import lower_nvvm

        asked = asdict(options)
        how = {name: asked.pop(name) for name in ("resources", "kept")}
        code = yield from lower_nvvm.generate(root, session, target.chip, emit, asked, **how)
    else:
        from mlir_async_pipe.lowering.rocdl import rocdl_code, to_rocdl

        to_rocdl.run(root, to_rocdl.ToRocdlOptions(target.chip.name, options.strict), session)
        code = yield from rocdl_code.generate(root, target.chip, emit, bare_pointers=bare)
        waits = code.waits
        rocdl_code.remark_stricter(waits, session.diagnostics)
    said = tuple(session.diagnostics.items)
    made = (code.text, code.binary, code.kernels, waits, said, parameters, session.seconds)
    return Lowered(str(target), emit, *made)
