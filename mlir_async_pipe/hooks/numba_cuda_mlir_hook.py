"""`@cuda.jit` kernels of numba-cuda-mlir: pipelined between its lowering and its code.

    with mlir_async_pipe.hooks.numba_cuda_mlir(num_stages=3, threads=(16, 16)) as hook:
        ptx, _ = compile_ptx(kernel, signature, cc=(8, 0))     PTX with cp.async
        kernel[grid, block](a, b)                              so does a launch

The stack has no extension point at the level of MLIR; its step from a module to code,
`mlir_optimization.optimize`, is wrapped. Its own passes crash on pipelined modules, so the code is
made here, under the kernel's own name and with its own parameters. A kernel in which nothing can be
pipelined goes the stack's way untouched. The sizes of a launch come from a planner of the stack: it
asks for them, and so the stack compiles a kernel anew for each.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Sequence
from typing import Any

from mlir_async_pipe import api
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import Operation, before, create, operations, plain_values
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.hooks.pipelined_kernel import (
    Hook,
    KernelReport,
    Stages,
    Wish,
    about_arrays,
    advised,
    pipelined,
    size_of,
    stages_of,
)
from mlir_async_pipe.lowering.nvvm.ptxas import assemble
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Diagnostics, LoweringError
from mlir_async_pipe.vocabulary.launch_ids import Size

_STACK = "numba_cuda_mlir"
# The chip of the stack where no driver answers: the oldest chip with asynchronous copies.
_CAPABILITY = (8, 0)
# Bytes of shared memory that a kernel may declare; more than that a launch would have to ask for.
_STATIC_BYTES = 48 * 1024


class NumbaCudaMlir(Hook):
    """The hook. `num_stages`: a number for all loops that qualify, numbers for a kernel's loops in
    the order of its text (0: none), or either by the names of kernels. `threads` and `grid`: the
    sizes of block and grid that the kernels are launched with; without them, those of the launch. A
    kernel compiled for a block size runs with no other, and one compiled for a grid must not.
    `noalias`: no two arrays of a kernel overlap; without it a pipelined kernel tests that when it
    starts, and has its loops as they were for arrays that do.

    `reports` has an entry for each kernel that was compiled."""

    def __init__(
        self,
        num_stages: Stages = 3,
        *,
        threads: int | Sequence[int] | None = None,
        grid: int | Sequence[int] | None = None,
        noalias: bool = False,
    ) -> None:
        super().__init__()
        self.num_stages = num_stages
        self.threads = size_of(threads)
        self.grid = size_of(grid)
        self.noalias = noalias

    def install(self) -> None:
        step = importlib.import_module(f"{_STACK}.mlir_optimization")
        original = step.optimize
        self._replace(step, "optimize", lambda compiled: self._optimize(compiled, original))
        self._add_planner()
        self._answer_without_a_driver()

    def _add_planner(self) -> None:
        """Register a planner that asks for the launch of each kernel, if the hook does not know it. While there is
        one, the stack neither reads nor writes its cache on disk. There is no call that takes one away."""
        extending = importlib.import_module(f"{_STACK}.extending")
        registry = importlib.import_module(f"{_STACK}._whole_function_planners")._planner_registry

        def run(planner: Any) -> bool:
            # Raised where a kernel is compiled without a launch.
            with contextlib.suppress(RuntimeError):
                if self.threads is None and not planner.is_device_function:
                    extending.require_launch_config(planner.state)
            return False

        self._replace(registry, "_planners", list(registry._planners))
        extending.register_planner(
            type("LaunchSizes", (extending.WholeFunctionPlanner,), {"run": run})
        )

    def _answer_without_a_driver(self) -> None:
        """Compiling asks for the chip of this machine, and for the newest PTX of its toolkit."""
        tools = importlib.import_module(f"{_STACK}.tools")
        lowering = importlib.import_module(f"{_STACK}.mlir_lowering")
        try:
            tools.get_gpu_compute_capability()
        except Exception:  # whatever a missing driver raises
            self._replace(tools, "_cached_cc", _CAPABILITY)
        try:
            lowering.get_max_ptx_version()
        except Exception:  # whatever a missing library raises
            self._replace(lowering, "get_max_ptx_version", lambda: None)

    def _optimize(self, compiled: Any, original: Any) -> None:
        """The step from a kernel's module to its code, in place of the stack's."""
        name = compiled.fndesc.qualname.rpartition(".")[2]
        stages = stages_of(self.num_stages, name)
        if not stages:
            original(compiled)
            return
        made = self._pipelined(name, stages, compiled)
        code = None
        if made.loops:
            try:
                code = _code(made.module, _target(compiled))
            except AsyncPipeError as error:
                made = KernelReport(
                    name, 0, (*made.diagnostics, error.diagnostic), before=made.before
                )
        self.reports.append(made)
        if code is None:
            original(compiled)
        else:
            _hand_back(compiled, *code)

    def _pipelined(self, name: str, stages: int | Sequence[int], compiled: Any) -> KernelReport:
        module = compiled.metadata["mlir_module"]
        text = module.operation.get_asm(enable_debug_info=True)
        why = _why_not(compiled)
        if why:
            said = Diagnostics()
            said.remark(f"'{name}' is left to its own stack: {why}", code="left-to-its-stack")
            return KernelReport(name, 0, tuple(said.items), before=text)
        layouts = [getattr(kind, "layout", "") for kind in compiled.signature.args]
        try:
            threads, grid = self._launch(compiled)
            target = _target(compiled)
            wish = Wish(
                stages, target, lambda symbol: name, threads, grid, self.noalias, _STATIC_BYTES
            )
        except AsyncPipeError as error:
            return KernelReport(name, 0, (error.diagnostic,), before=text)
        made = pipelined(name, text, wish, lambda function: _say_more(function, layouts))
        return advised(made, about_arrays(self.noalias) | _about_launches(threads, grid))

    def _launch(self, compiled: Any) -> tuple[Size | None, Size | None]:
        """The sizes of block and grid: what was said, else those of the launch that this is compiled for."""
        launch = compiled.metadata["targetoptions"].get("__launch_config__")
        if self.threads is not None or launch is None:
            return self.threads, self.grid
        return size_of(launch["block"]), size_of(launch["grid"])


def _about_launches(threads: Size | None, grid: Size | None) -> dict[str, str]:
    """What helps where the sizes of a launch are not known."""
    found = {}
    if threads is None:
        text = "say the block size, threads=… of the hook, or launch the kernel inside of it"
        found = dict.fromkeys(("not-privatisable", "block-size", "cross-block"), text)
    if grid is None:
        found["may-wrap"] = "say the grid, grid=… of the hook, or launch the kernel inside of it"
    return found


def _target(compiled: Any) -> Target:
    return Target.parse(f"nvvm:{compiled.metadata['targetoptions']['chip']}")


def _why_not(compiled: Any) -> str:
    """Why a kernel's code cannot be made here, "" if it can."""
    options, metadata = compiled.metadata["targetoptions"], compiled.metadata
    if options.get("device"):
        return "it is a function of kernels"
    if options.get("debug"):
        return "it is compiled for a debugger"
    if options.get("_compile_output") == "ltoir":
        return "LTO-IR is asked for"
    if metadata.get("needs_nrt") or metadata.get("linked_external_link_items"):
        return "it is linked with other code"
    return ""


def _say_more(function: Operation, layouts: list[str]) -> None:
    """Write which of a kernel's arrays the stack knows to have C layout.

    memref<?x?xf32, strided<[?, ?], offset: ?>> --> memref<?x?xf32, strided<[?, 1], offset: ?>>"""
    arguments = list(function.regions[0].blocks[0].arguments)
    if len(arguments) != len(layouts):
        return
    first = operations(function.regions[0].blocks[0])[0]
    for argument, layout in zip(arguments, layouts, strict=True):
        if layout != "C" or not str(argument.type).startswith("memref<"):
            continue
        kind = ir.MemRefType(argument.type)
        strides = ", ".join([*["?"] * (len(kind.shape) - 1), "1"])
        dense = ir.Attribute.parse(f"strided<[{strides}], offset: ?>")
        result = ir.MemRefType.get(kind.shape, kind.element_type, dense, kind.memory_space)
        cast = create("memref.cast", [argument], [result], ip=before(first), loc=function.location)
        argument.replace_all_uses_except(cast.results[0], cast)


def _code(text: str, target: Target) -> tuple[str, str, bytes]:
    """The PTX of a module, the module in LLVM's dialect, and the machine code."""
    with plain_values(), new_context():
        module = ir.Module.parse(text)
        code = api.lower(module, target=target, emit="ptx")
        dialect = api.lower(module, target=target, emit="llvm").text
    if any(kernel.dynamic_shared_bytes for kernel in code.kernels):
        why = "the stack's launch does not ask for the dynamic shared memory that this kernel needs"
        raise LoweringError(why, code="left-to-its-stack", advice="fewer stages")
    return code.text, dialect, assemble(code.text, target.chip).cubin


def _hand_back(compiled: Any, ptx: str, dialect: str, cubin: bytes) -> None:
    """Leave behind what the stack's own step leaves."""
    lowering = importlib.import_module(f"{_STACK}.mlir_lowering")
    tools = importlib.import_module(f"{_STACK}.tools")
    metadata = compiled.metadata
    lowering.get_mlir_module_str(metadata)
    described = compiled.fndesc
    name = tools.generate_mangled_name(described.qualname, described.argtypes)
    metadata.update(mlir_module_optimized=dialect, ptx=ptx, cubin=cubin, func_name=name)
    # Attributes of numba's own library object, which its compile step sets by these names.
    compiled.library._ptx = ptx
    compiled.library._mlir_str = dialect
