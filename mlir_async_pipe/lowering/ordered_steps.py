"""A lowering as a list of steps, each with the steps that must come before it, and why.

STEPS = (
    Step("globals", …, ("abstract",), "allocations stand in kernels, no scope is around them"),
    Step("dense", …, ("globals",), "what has strides of its own is an attribution or a global"),
)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from mlir_async_pipe.bindings.raw_ops import Operation, operations, walk_named
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.session.report import Session


class Lowering(Protocol):
    """What a lowering works on, with the session that its steps are measured in."""

    @property
    def session(self) -> Session:
        """The session of the run."""


L = TypeVar("L", bound=Lowering)

# An option of both vendors' conversions of kernels.
BARE_POINTERS = " use-bare-ptr-memref-call-conv=true"


@dataclass(frozen=True)
class Step(Generic[L]):
    """One step of a lowering `L`: it needs that the steps `after` have run, since then `given`
    is true."""

    name: str
    run: Callable[[L], None]
    after: tuple[str, ...]
    given: str


def run_steps(steps: Iterable[Step[L]], lowering: L) -> None:
    for step in steps:
        with lowering.session.measured(step.name):
            step.run(lowering)


def on_root(change: Callable[[Operation], None]) -> Callable[[Any], None]:
    """A step that needs the module alone."""
    return lambda lowering: change(lowering.root)


def in_each(change: Callable[[Operation], object]) -> Callable[[Any], None]:
    """A step that goes through the gpu.modules, one by one."""

    def run(lowering: Any) -> None:
        for gpu_module in gpu_modules(lowering.root):
            change(gpu_module)

    return run


def gpu_modules(root: Operation) -> list[Operation]:
    """The gpu.modules: `root` itself, or those in it and in the modules that it holds."""
    if root.name == "gpu.module":
        return [root]
    if root.name != "builtin.module":
        return []
    return [found for op in operations(root.regions[0].blocks[0]) for found in gpu_modules(op)]


def has_complex(root: Operation) -> bool:
    """Whether some op below `root` computes with complex numbers: MLIR's conversions to a vendor's
    dialect need others before them."""
    return bool(walk_named(root, lambda name: name.startswith("complex.")))


def one_gpu_module(root: Operation) -> Operation:
    """The only gpu.module, since code is one object.

    Raises LoweringError (no-kernels, several-gpu-modules).
    """
    found = gpu_modules(root)
    if not found:
        why = "there is no gpu.module to lower"
        advice = "put the kernels in a gpu.module (gpu-kernel-outlining makes one)"
        raise LoweringError(why, code="no-kernels", at=root, advice=advice)
    if len(found) > 1:
        why = f"{len(found)} gpu.modules are {len(found)} pieces of code, and one can be emitted"
        advice = "split the module"
        raise LoweringError(why, code="several-gpu-modules", at=found[1], advice=advice)
    return found[0]
