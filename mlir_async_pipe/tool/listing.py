"""Answers about the tool itself: its passes, its dialects, its version."""

from __future__ import annotations

import dataclasses
import importlib.metadata

from mlir_async_pipe import __version__, bindings
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.tool import known_names
from mlir_async_pipe.vocabulary.async_ops import ASYNC_ROWS

# Dialects of upstream MLIR and of the stacks that we know; the bindings cannot list theirs,
# only say whether they have one.
_KNOWN_DIALECTS = (
    "acc affine amdgpu amx arith arm_neon arm_sme arm_sve async bufferization builtin cf chlo "
    "complex cute cute_nvgpu dlti emitc fly fly_rocdl func gpu hal hlo iree_codegen iree_gpu index irdl linalg llvm "
    "math memref mhlo ml_program mosaic_gpu mpi numba_cuda nvgpu nvvm omp pdl pdl_interp ptr quant "
    "rocdl scf sdy shape shard smt sparse_tensor spirv stablehlo tensor tm_tensor torch torch_c "
    "tosa transform triton ub vcix vector wasmssa x86 x86vector xegpu xevm"
).split()


def version() -> str:
    """Our version, and the bindings' with the version of what pip installed for them."""
    try:
        stack = bindings.current()
    except AsyncPipeError:
        return f"async-pipe-opt {__version__} (no MLIR Python bindings installed)\n"
    package = stack.prefix.split(".")[0]
    return f"async-pipe-opt {__version__} (bindings {stack.name}{_version_of(package)})\n"


def list_passes() -> str:
    """Our passes with their options, and the names of MLIR's."""
    lines = ["Passes of this package:"]
    for name in passes.names():
        found = passes.find(name)
        lines.append(f"  --{name:28} {found.summary}")
        for option in dataclasses.fields(found.options):
            choices = "|".join(option.metadata.get("choices", ())) or str(option.type)
            lines.append(f"      {option.name.replace('_', '-')}=<{choices}>")
    lines.append("Passes of MLIR, with the options that they have in mlir-opt:")
    lines += [f"  --{name}" for name in known_names.mlir_passes(bindings.new_context())]
    return "\n".join(lines) + "\n"


def show_dialects() -> str:
    """The dialects that a context of these bindings accepts, and ours."""
    context = bindings.new_context()
    found = {name for name in _KNOWN_DIALECTS if _has_dialect(context, name)}
    ours = sorted({name.split(".")[0] for name in ASYNC_ROWS} - found)
    lines = [f"Available Dialects: {','.join(sorted(found))}"]
    lines.append(f"Unregistered, in generic form: {','.join(ours)}")
    return "\n".join(lines) + "\n"


def _has_dialect(context: object, name: str) -> bool:
    try:
        context.get_dialect_descriptor(name)  # type: ignore[attr-defined]
    except ValueError:
        return False
    return True


def _version_of(package: str) -> str:
    for distribution in importlib.metadata.packages_distributions().get(package, ()):
        return f" {importlib.metadata.version(distribution)}"
    return ""
