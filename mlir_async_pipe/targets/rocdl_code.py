"""From a module after `async-pipe-to-rocdl` to AMDGCN assembly and code objects.

The back end is LLVM's, as built into the flydsl package, in a child process. Barriers and LDS
accesses stay as they are; which waits the back end made of ours is read back in `isa`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlir_async_pipe import bindings, code_child
from mlir_async_pipe.code_child import Request
from mlir_async_pipe.diagnostics import LoweringError, UsageError
from mlir_async_pipe.targets.chips import Chip

BACK_END = "flydsl"

# The loops below run after all our passes; none of them may unroll or rotate marks away.
_LOWERING = (
    "builtin.module(gpu.module("
    "convert-vector-to-scf,convert-scf-to-cf,expand-strided-metadata,"
    "lower-affine,convert-amdgpu-to-rocdl{{chipset={chip}}},"
    "convert-gpu-to-rocdl{{chipset={chip}}},canonicalize,cse,reconcile-unrealized-casts))"
)


def lowering_pipelines(chip: Chip) -> tuple[str, ...]:
    """The pass pipelines from memref, vector, scf, amdgpu and rocdl to the LLVM dialect."""
    return (_LOWERING.format(chip=chip.name),)


def llvm_text(module: Any, chip: Chip) -> str:
    """The module in the LLVM dialect. Raises LoweringError, UsageError (back-end-missing)."""
    request = Request(_back_end(), _text(module), lowering_pipelines(chip), "", "module")
    return code_child.run(request).decode()


def assembly(module: Any, chip: Chip) -> str:
    """AMDGCN assembly of the module's kernels.

    Raises LoweringError (also unknown-intrinsic), UsageError (back-end-missing).
    """
    text = code_child.run(_request(module, chip, "format=isa")).decode()
    _check_calls(text)
    return text


def code_object(module: Any, chip: Chip) -> bytes:
    """A linked code object (hsaco). Raises as `assembly`, UsageError (linker-missing)."""
    assembly(module, chip)
    with _toolkit() as folder:
        return code_child.run(_request(module, chip, f"format=bin toolkit={folder}"))


def _request(module: Any, chip: Chip, options: str) -> Request:
    binary = (
        f"builtin.module(rocdl-attach-target{{chip={chip.name} O=3}},"
        f"gpu-module-to-binary{{{options}}})"
    )
    return Request(_back_end(), _text(module), lowering_pipelines(chip), binary, "object")


def _text(module: Any) -> str:
    """The module as text with its locations.

    In the ops' own syntax, which stays the same for longer than the attributes behind it
    (amdgpu.mfma's blgp is an attribute of amdgpu in one version of MLIR and of rocdl in the next).
    """
    text: str = module.operation.get_asm(enable_debug_info=True)
    return text


def _back_end() -> str:
    if not any(stack.name == BACK_END for stack in bindings.installed()):
        raise UsageError(
            "no AMDGPU back end is installed",
            code="back-end-missing",
            advice="pip install 'mlir-async-pipe[amd]'",
        )
    return BACK_END


# Back ends turn an intrinsic that they do not know into a call without a word.
_CALLED_INTRINSIC = re.compile(r"llvm\.[a-z0-9_.]+@")


def _check_calls(text: str) -> None:
    found = _CALLED_INTRINSIC.search(text)
    if found:
        raise LoweringError(
            f"the back end does not know the intrinsic '{found.group().rstrip('@')}' and made it "
            "a call",
            code="unknown-intrinsic",
        )


@contextlib.contextmanager
def _toolkit() -> Iterator[Path]:
    """A folder that holds llvm/bin/ld.lld, as MLIR looks for it."""
    command = linker()
    if command is None:
        raise UsageError(
            "no ld.lld is installed, and a code object has to be linked",
            code="linker-missing",
            advice="install lld (Debian: apt install lld; or pip install ziglang), or use "
            "--emit=isa",
        )
    with tempfile.TemporaryDirectory(prefix="async-pipe-") as name:
        folder = Path(name)
        script = folder / "llvm" / "bin" / "ld.lld"
        script.parent.mkdir(parents=True)
        quoted = " ".join(f"'{part}'" for part in command)
        script.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        yield folder


def linker() -> list[str] | None:
    """The command of an ld.lld: on the path, of a ROCm install, or of the ziglang package."""
    places = [os.environ.get("ROCM_PATH", "/opt/rocm") + "/llvm/bin"]
    found = shutil.which("ld.lld") or shutil.which("ld.lld", path=os.pathsep.join(places))
    if found:
        return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "ld.lld"]
    return None
