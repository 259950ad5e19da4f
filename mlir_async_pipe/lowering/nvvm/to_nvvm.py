"""The pass `async-pipe-to-nvvm`: from pipelined IR to the LLVM and NVVM dialects.

    abstract ops      -->  nvgpu.device_async_*, or in place     (abstract_ops)
    workgroup memory  -->  globals, dynamic above 48 KiB          (shared_memory, dynamic_shared)
    vector accesses   -->  with their proven alignment            (vector_alignment)
    block sizes       -->  stated once, then exact                (block_sizes)
    gpu.module        -->  llvm.func with nvvm.cp.async.*         (MLIR's own conversions)
    masked loads      -->  loads of what the mask keeps           (masked_llvm_loads)

What MLIR's conversions do not know would make its translation crash, so ops of other dialects
are refused where they stand before anything is rewritten, and what is left over is refused
after the conversions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe import bindings
from mlir_async_pipe.bindings import ir, passmanager
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    integer_attribute,
    operations,
    set_integer,
    symbol_name,
    walk,
)
from mlir_async_pipe.chips.target import chip_for
from mlir_async_pipe.lowering.nvvm.dynamic_shared import (
    DynamicShared,
    ask_at_launch,
    move_large_kernels,
)
from mlir_async_pipe.lowering.nvvm.shared_memory import (
    globalise_allocations,
    module_functions,
    top_level,
)
from mlir_async_pipe.lowering.nvvm.vector_alignment import annotate_alignment
from mlir_async_pipe.lowering.nvvm.workgroup_alignment import align_workgroup_buffers
from mlir_async_pipe.lowering.scopes.abstract_ops import lower_abstract_ops
from mlir_async_pipe.lowering.scopes.block_sizes import BlockSizes, require_sizes, state_once
from mlir_async_pipe.lowering.scopes.copy_spaces import check_copy_spaces
from mlir_async_pipe.lowering.scopes.counter_limits import clamp_counts
from mlir_async_pipe.lowering.scopes.dense_buffers import flatten_buffers
from mlir_async_pipe.lowering.scopes.kernel_attribute import name_kernels
from mlir_async_pipe.lowering.scopes.known_layouts import check_layouts
from mlir_async_pipe.lowering.scopes.masked_llvm_loads import settle_masked_loads
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import LoweringError, UsageError
from mlir_async_pipe.session.report import Session

# convert-vector-to-llvm is there for the n-dimensional vector ops (extract_strided_slice of
# fragments) that convert-gpu-to-nvvm does not lower itself.
RECIPE = (
    "convert-nvgpu-to-nvvm,convert-vector-to-scf,convert-scf-to-cf,expand-strided-metadata,"
    "lower-affine,convert-vector-to-llvm,convert-gpu-to-nvvm{has-redux=true},canonicalize,cse,"
    "convert-nvvm-to-llvm,reconcile-unrealized-casts"
)

# What the recipe lowers, by dialect; the abstract ops are gone before it runs.
_LOWERED = frozenset(
    "affine arith async_pipe builtin cf func gpu index llvm math memref nvgpu nvvm scf ub "
    "vector".split()
)
# Their conversions emit errors and succeed, which their Python layer answers with an abort.
_CANNOT_CONVERT = ("flydsl",)
_FINAL = frozenset(("llvm", "nvvm"))
_DYNAMIC_GLOBAL = "__dynamic_shmem__"


@dataclass(frozen=True)
class ToNvvmOptions:
    """Options of `async-pipe-to-nvvm`.

    `chip` is the NVIDIA chip. With `strict` a scope that the chip cannot run asynchronously
    is an error; else it runs in place, with a remark.
    """

    chip: str = ""
    strict: bool = False


@passes.register(
    "async-pipe-to-nvvm", "abstract and nvgpu async ops to NVVM, kernels to LLVM", ToNvvmOptions
)
def run(module: Any, options: ToNvvmOptions, session: Session) -> None:
    """Lower every gpu.module in `module` to the LLVM dialect."""
    root = module.operation
    chip = chip_for(options, session, "nvvm")
    for gpu_module in gpu_modules(root):
        _check_known(gpu_module)
    name_kernels(root)
    check_layouts(root)
    check_copy_spaces(root)
    align_workgroup_buffers(root)
    lower_abstract_ops(root, chip, session, strict=options.strict)
    clamp_counts(root, session)
    shared: dict[str, DynamicShared] = {}
    sizes: dict[str, BlockSizes] = {}
    for gpu_module in gpu_modules(root):
        globalise_allocations(gpu_module)
        flatten_buffers(gpu_module)
        moved = move_large_kernels(gpu_module, chip)
        shared[symbol_name(gpu_module)] = moved
        ask_at_launch(root, symbol_name(gpu_module), moved)
        annotate_alignment(gpu_module)
        sizes[symbol_name(gpu_module)] = state_once(gpu_module)
        _drop_noalias(gpu_module)
    _convert(root)
    for gpu_module in gpu_modules(root):
        _make_dynamic_external(gpu_module, shared[symbol_name(gpu_module)])
        _check_converted(gpu_module)
        require_sizes(gpu_module, sizes[symbol_name(gpu_module)])
        settle_masked_loads(gpu_module)


def gpu_modules(root: Operation) -> list[Operation]:
    """The gpu.modules: `root` itself, or those directly in it, where alone they are allowed."""
    if root.name == "gpu.module":
        return [root]
    return [op for op in operations(root.regions[0].blocks[0]) if op.name == "gpu.module"]


def _check_known(gpu_module: Operation) -> None:
    """Raise LoweringError (left-over-op) at the first op of a dialect that is not lowered."""
    for op in walk(gpu_module):
        if op.name.split(".")[0] not in _LOWERED:
            raise LoweringError(
                f"'{op.name}' cannot be lowered to NVVM",
                code="left-over-op",
                at=op,
                advice="lower it to arith, memref, vector, scf, gpu or nvgpu ops first",
            )


def _check_converted(gpu_module: Operation) -> None:
    """Raise LoweringError (left-over-op) at the first op that MLIR did not convert.

    A cast is left where one side was converted: the type of the other is what is not known.
    """
    for op in walk(gpu_module):
        if op == gpu_module or op.name.split(".")[0] in _FINAL:
            continue
        what = f"'{op.name}'"
        if op.name == "builtin.unrealized_conversion_cast":
            types = {str(v.type) for v in (*op.operands, *op.results)}
            what = f"a value that is used as {' and '.join(sorted(types))}"
        raise LoweringError(f"MLIR's conversions to NVVM leave {what}", code="left-over-op", at=op)


def _drop_noalias(gpu_module: Operation) -> None:
    """Drop `llvm.noalias` of memref arguments: a memref becomes two pointers and more, where
    MLIR cannot put it and warns. All our analyses have used it by now."""
    for function in module_functions(gpu_module):
        if "arg_attrs" not in function.attributes:
            continue
        kept = []
        for entry in ir.ArrayAttr(function.attributes["arg_attrs"]):
            named = {n.name: n.attr for n in ir.DictAttr(entry) if n.name != "llvm.noalias"}
            kept.append(ir.DictAttr.get(named, function.context))
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(kept, function.context)


def _convert(root: Operation) -> None:
    """Run MLIR's conversions on every gpu.module. Raises LoweringError (lowering-failed)."""
    inner = f"gpu.module({RECIPE})"
    pipeline = RECIPE if root.name == "gpu.module" else inner
    anchor = "gpu.module" if root.name == "gpu.module" else "builtin.module"
    if bindings.current().name in _CANNOT_CONVERT:
        raise UsageError(
            f"bindings '{bindings.current().name}' end the process in MLIR's conversions to NVVM",
            code="bindings-incomplete",
            advice="pip install 'mlir-async-pipe[nvidia]', and use(\"numba-cuda-mlir\")",
        )
    try:
        manager = passmanager.PassManager.parse(f"{anchor}({pipeline})", root.context)
    except ValueError as error:
        raise UsageError(
            f"these bindings lack MLIR's conversions to NVVM: {str(error).strip()}",
            code="bindings-incomplete",
            advice="pip install 'mlir-async-pipe[nvidia]'",
        ) from error
    try:
        manager.run(root)
    except ir.MLIRError as error:
        first = next(iter(error.error_diagnostics), None)
        raise LoweringError(
            first.message.strip() if first else str(error).strip(),
            code="lowering-failed",
            at=first.location if first else None,
        ) from error


def _make_dynamic_external(gpu_module: Operation, shared: DynamicShared) -> None:
    """MLIR declares dynamic shared memory as an internal array of 0 bytes, which would overlap
    static memory; only an external array is sized at launch (CUDA, extern __shared__)."""
    for op in top_level(gpu_module):
        if op.name == "llvm.mlir.global" and symbol_name(op).startswith(_DYNAMIC_GLOBAL):
            op.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>", op.context)
            known = integer_attribute(op, "alignment") or 1
            set_integer(op, "alignment", max(known, shared.alignment), 64)
