"""Finds what code for AMD chips is linked with: ld.lld, and ROCm's device libraries.

The libraries (`ocml.bc`: mathematics, `ockl.bc`: the launch) come with ROCm, and inside of the
packages triton and iree-base-compiler; `ROCM_PATH` says where ROCm is, and is looked at first.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mlir_async_pipe.session.diagnostics import UsageError

# Packages that have the libraries, each with the folder inside of it.
_LIBRARY_PACKAGES = {
    "triton": "backends/amd/lib",
    "iree": "compiler/_mlir_libs/iree_platform_libs/rocm",
}


@contextlib.contextmanager
def toolkit(*, linking: bool) -> Iterator[Path]:
    """A folder that holds amdgcn/bitcode, if there are device libraries, and for `linking`
    llvm/bin/ld.lld, as MLIR looks for them. Raises UsageError (linker-missing)."""
    # The linker is looked for first: without it the rest is for nothing.
    command = _require_linker() if linking else None
    with tempfile.TemporaryDirectory(prefix="async-pipe-") as name:
        folder = Path(name)
        if command is not None:
            script = folder / "llvm" / "bin" / "ld.lld"
            script.parent.mkdir(parents=True)
            quoted = " ".join(f"'{part}'" for part in command)
            script.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n')
            script.chmod(script.stat().st_mode | stat.S_IXUSR)
        libraries = device_libraries()
        if libraries is not None:
            (folder / "amdgcn").mkdir()
            (folder / "amdgcn" / "bitcode").symlink_to(libraries.absolute())
        yield folder


def device_libraries() -> Path | None:
    """The folder with ocml.bc and ockl.bc: of ROCm, else of an installed package."""
    places = [Path(os.environ.get("ROCM_PATH", "/opt/rocm"), "amdgcn", "bitcode")]
    for package, inside in _LIBRARY_PACKAGES.items():
        # A namespace package has several folders.
        found = importlib.util.find_spec(package)
        roots = [] if found is None else found.submodule_search_locations or []
        places += [Path(root, inside) for root in roots]
    return next((place for place in places if (place / "ocml.bc").is_file()), None)


def linker() -> list[str] | None:
    """The command of an ld.lld: on the path, of a ROCm install, or of the ziglang package."""
    places = [os.environ.get("ROCM_PATH", "/opt/rocm") + "/llvm/bin"]
    found = shutil.which("ld.lld") or shutil.which("ld.lld", path=os.pathsep.join(places))
    if found:
        return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "ld.lld"]
    return None


def _require_linker() -> list[str]:
    command = linker()
    if command is None:
        raise UsageError(
            "no ld.lld is installed, and a code object has to be linked",
            code="linker-missing",
            advice="install lld (Debian: apt install lld; or pip install ziglang), or use "
            "--emit=isa",
        )
    return command
