"""Finds NVIDIA's command line tools and libdevice: in pip's packages, on the path, in CUDA_HOME."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from pathlib import Path

from mlir_async_pipe.session.diagnostics import UsageError

# Which pip package of the extra `nvidia` brings a tool.
_PACKAGES = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}


@cache
def find_tool(name: str) -> str | None:
    """The path of `ptxas` or `nvdisasm`, None if it is not installed."""
    for folder in _package_folders():
        for candidate in sorted(folder.glob(f"*/bin/{name}"), reverse=True):
            if os.access(candidate, os.X_OK):
                return str(candidate)
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which(name) or shutil.which(name, path=str(Path(home) / "bin"))


def require_tool(name: str) -> str:
    """The path of a tool. Raises UsageError (tool-missing)."""
    found = find_tool(name)
    if found is None:
        raise UsageError(
            f"'{name}' is not installed",
            code="tool-missing",
            advice=f"pip install {_PACKAGES.get(name, 'the CUDA toolkit')}",
        )
    return found


@cache
def find_libdevice() -> str | None:
    """The bitcode of CUDA's math functions (`__nv_expf` and so on), None if it is not there."""
    for folder in _package_folders():
        for candidate in sorted(folder.glob("*/nvvm/libdevice/libdevice.*.bc"), reverse=True):
            return str(candidate)
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    return next((str(path) for path in home.glob("nvvm/libdevice/libdevice.*.bc")), None)


def _package_folders() -> list[Path]:
    return [Path(entry) / "nvidia" for entry in sys.path if (Path(entry) / "nvidia").is_dir()]
